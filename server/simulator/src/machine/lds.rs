//! LDS instructions, and the lane exchanges that use its crossbar.

use hipsmith_target::LdsAccess;

use super::atomic::{self, Update};
use super::state::{Problem, WaveState, lanes};
use super::wave::{LANES, Wave};
use super::worker::{LdsMemo, Worker};
use crate::fault::Access;
use crate::isa::{Instruction, Operand};

/// What moves.
#[derive(Clone, Copy, Debug)]
enum Action {
    /// Load `bytes` from each of one or two places and turn the raw dword into the register's new value.
    Load {
        bytes: u8,
        two: bool,
        fill: Fill,
    },
    /// Store `bytes` to each of one or two places, from the low or the high half.
    Store {
        bytes: u8,
        two: bool,
        high: bool,
    },
    Atomic {
        update: Update,
        wide: bool,
        compare: bool,
        returns: bool,
    },
    /// Masked or: the operand is a mask and a value.
    MaskedOr {
        wide: bool,
        returns: bool,
    },
    /// Exchange with two places at once.
    Exchange2 {
        wide: bool,
    },
    Permute,
    Bpermute,
    Swizzle(u16),
    /// Wave-uniform counter at an offset: add the number of active lanes, or take it away.
    Append {
        consume: bool,
    },
    Nop,
}

/// How a narrow value fills its register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fill {
    Zero,
    Sign8,
    Sign16,
    Low,
    LowSign8,
    High,
    HighSign8,
}

impl Fill {
    #[inline(always)]
    fn apply(self, old: u32, raw: u32) -> u32 {
        match self {
            Self::Zero => raw,
            Self::Sign8 => raw as i8 as u32,
            Self::Sign16 => raw as i16 as u32,
            Self::Low => old & 0xffff_0000 | raw & 0xffff,
            Self::LowSign8 => old & 0xffff_0000 | raw as i8 as u32 & 0xffff,
            Self::High => old & 0xffff | raw << 16,
            Self::HighSign8 => old & 0xffff | (raw as i8 as u32) << 16,
        }
    }
}

/// A decoded LDS instruction.
#[derive(Clone, Debug)]
pub(crate) struct Lds {
    action: Action,
    result: (bool, u16),
    address: u16,
    data: [(bool, u16); 2],
    /// Byte offsets of the one or two places.
    offsets: [u32; 2],
}

fn register(operand: Option<&Operand>) -> Result<(bool, u16), String> {
    match operand {
        Some(Operand::Vgpr { first, .. }) => Ok((false, *first)),
        Some(Operand::Agpr { first, .. }) => Ok((true, *first)),
        Some(other) => Err(format!("{other:?} is not a vector register")),
        None => Err("an operand is missing".to_owned()),
    }
}

fn load(bytes: u8, fill: Fill) -> Action {
    Action::Load {
        bytes,
        two: false,
        fill,
    }
}

fn store(bytes: u8, high: bool) -> Action {
    Action::Store {
        bytes,
        two: false,
        high,
    }
}

/// Action, and the distance that an offset of 1 stands for in two-place instructions.
fn lookup(name: &str, inst: &Instruction) -> Option<(Action, u32)> {
    let two = |bytes: u8, is_load: bool| {
        if is_load {
            Action::Load {
                bytes,
                two: true,
                fill: Fill::Zero,
            }
        } else {
            Action::Store {
                bytes,
                two: true,
                high: false,
            }
        }
    };
    Some(match name {
        "read_b32" => (load(4, Fill::Zero), 0),
        "read_b64" => (load(8, Fill::Zero), 0),
        "read_b96" => (load(12, Fill::Zero), 0),
        "read_b128" => (load(16, Fill::Zero), 0),
        "read_u8" => (load(1, Fill::Zero), 0),
        "read_i8" => (load(1, Fill::Sign8), 0),
        "read_u16" => (load(2, Fill::Zero), 0),
        "read_i16" => (load(2, Fill::Sign16), 0),
        "read_u8_d16" => (load(1, Fill::Low), 0),
        "read_i8_d16" => (load(1, Fill::LowSign8), 0),
        "read_u16_d16" => (load(2, Fill::Low), 0),
        "read_u8_d16_hi" => (load(1, Fill::High), 0),
        "read_i8_d16_hi" => (load(1, Fill::HighSign8), 0),
        "read_u16_d16_hi" => (load(2, Fill::High), 0),
        "read2_b32" => (two(4, true), 4),
        "read2_b64" => (two(8, true), 8),
        "read2st64_b32" => (two(4, true), 256),
        "read2st64_b64" => (two(8, true), 512),
        "write_b8" => (store(1, false), 0),
        "write_b16" => (store(2, false), 0),
        "write_b8_d16_hi" => (store(1, true), 0),
        "write_b16_d16_hi" => (store(2, true), 0),
        "write_b32" => (store(4, false), 0),
        "write_b64" => (store(8, false), 0),
        "write_b96" => (store(12, false), 0),
        "write_b128" => (store(16, false), 0),
        "write2_b32" => (two(4, false), 4),
        "write2_b64" => (two(8, false), 8),
        "write2st64_b32" => (two(4, false), 256),
        "write2st64_b64" => (two(8, false), 512),
        "wrxchg2_rtn_b32" => (Action::Exchange2 { wide: false }, 4),
        "wrxchg2_rtn_b64" => (Action::Exchange2 { wide: true }, 8),
        "wrxchg2st64_rtn_b32" => (Action::Exchange2 { wide: false }, 256),
        "wrxchg2st64_rtn_b64" => (Action::Exchange2 { wide: true }, 512),
        "permute_b32" => (Action::Permute, 0),
        "bpermute_b32" => (Action::Bpermute, 0),
        // The pattern is printed in several ways, but its bits are the offset field.
        "swizzle_b32" => (Action::Swizzle(inst.simm16() as u16), 0),
        "append" => (Action::Append { consume: false }, 0),
        "consume" => (Action::Append { consume: true }, 0),
        "nop" => (Action::Nop, 0),
        _ => {
            let (name, returns) = match name.split_once("_rtn_") {
                Some((op, kind)) => (format!("{op}_{kind}"), true),
                None => (name.to_owned(), false),
            };
            let (op, kind) = name.rsplit_once('_')?;
            let wide = kind.ends_with("64");
            if op == "mskor" {
                return Some((Action::MaskedOr { wide, returns }, 0));
            }
            let key = match (op, kind) {
                ("add" | "sub" | "rsub" | "inc" | "dec", "u32" | "u64") => op.to_owned(),
                ("min" | "max", "i32" | "i64") => format!("s{op}"),
                ("min" | "max", "u32" | "u64") => format!("u{op}"),
                ("and" | "or" | "xor" | "wrxchg" | "cmpst", "b32" | "b64") => op.to_owned(),
                ("min" | "max" | "add" | "cmpst", "f32" | "f64") => format!("{op}_{kind}"),
                ("pk_add", "f16" | "bf16") => format!("{op}_{kind}"),
                _ => return None,
            };
            let action = Action::Atomic {
                update: atomic::update(&key, wide)?,
                wide,
                compare: op == "cmpst",
                returns,
            };
            (action, 0)
        }
    })
}

/// Decode an LDS instruction; `None` if the mnemonic is not a known one.
pub(crate) fn decode(inst: &Instruction) -> Option<Result<Lds, String>> {
    let name = inst.mnemonic.strip_prefix("ds_")?;
    let (action, step) = lookup(name, inst)?;
    Some(build(inst, action, step))
}

fn build(inst: &Instruction, action: Action, step: u32) -> Result<Lds, String> {
    if inst.flag("gds") {
        return Err("the global data share is not supported".to_owned());
    }
    if matches!(action, Action::Swizzle(p) if p >= 0xe000) {
        return Err("the FFT mode of ds_swizzle_b32 is not supported".to_owned());
    }
    let mut ops = inst.operands.iter();
    let mut lds = Lds {
        action,
        result: (false, 0),
        address: 0,
        data: [(false, 0); 2],
        offsets: [0; 2],
    };
    let returns = match action {
        Action::Atomic { returns, .. } | Action::MaskedOr { returns, .. } => returns,
        Action::Store { .. } | Action::Nop => false,
        _ => true,
    };
    if returns {
        lds.result = register(ops.next())?;
    }
    if !matches!(action, Action::Append { .. } | Action::Nop) {
        lds.address = match register(ops.next())? {
            (false, first) => first,
            _ => return Err("an LDS address cannot be an accumulation register".to_owned()),
        };
    }
    let sources = match action {
        Action::Store { two, .. } => 1 + usize::from(two),
        Action::Atomic { compare, .. } => 1 + usize::from(compare),
        Action::MaskedOr { .. } | Action::Exchange2 { .. } => 2,
        Action::Permute | Action::Bpermute => 1,
        _ => 0,
    };
    for slot in lds.data.iter_mut().take(sources) {
        *slot = register(ops.next())?;
    }
    let offset = |name| {
        inst.number(name).and_then(|n| {
            u32::try_from(n).map_err(|_| format!("the value of {name} is out of range"))
        })
    };
    lds.offsets = if step != 0 {
        [
            (offset("offset0")? * step) & 0xf_ffff,
            (offset("offset1")? * step) & 0xf_ffff,
        ]
    } else if matches!(action, Action::Swizzle(_)) {
        [0; 2]
    } else {
        [offset("offset")?; 2]
    };
    Ok(lds)
}

#[inline(always)]
fn row(wave: &Wave, (acc, index): (bool, u16), k: usize) -> &[u32; LANES] {
    static ZERO: [u32; LANES] = [0; LANES];
    let file = if acc { &wave.a } else { &wave.v };
    file.get(usize::from(index) + k).unwrap_or(&ZERO)
}

#[inline(always)]
fn row_mut(wave: &mut Wave, (acc, index): (bool, u16), k: usize) -> Option<&mut [u32; LANES]> {
    let file = if acc { &mut wave.a } else { &mut wave.v };
    file.get_mut(usize::from(index) + k)
}

#[inline(always)]
fn word(lds: &[u8], at: usize, bytes: usize) -> u32 {
    let mut raw = [0u8; 4];
    if let Some(part) = lds.get(at..at + bytes) {
        raw[..bytes].copy_from_slice(part);
    }
    u32::from_le_bytes(raw)
}

#[inline(always)]
fn set_word(lds: &mut [u8], at: usize, bytes: usize, value: u32) {
    if let Some(part) = lds.get_mut(at..at + bytes) {
        part.copy_from_slice(&value.to_le_bytes()[..bytes]);
    }
}

impl Lds {
    /// Execute for the active lanes.
    pub(crate) fn execute(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        lds: &mut [u8],
    ) -> Result<(), Problem> {
        let exec = state.w.exec;
        let cost = worker.stats[at as usize].cost;
        self.perform(at, worker, state, lds, exec)?;
        let cycles = worker.stats[at as usize].cost - cost;
        let latency = u64::from(worker.target.latency.lds_cycles) + cycles;
        state.lgkm.issue(state.now, [latency; 2]);
        Ok(())
    }

    fn perform(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        lds: &mut [u8],
        exec: u64,
    ) -> Result<(), Problem> {
        match self.action {
            Action::Load { bytes, two, fill } => {
                for place in 0..1 + usize::from(two) {
                    let addresses = self.addresses(&state.w, place);
                    self.check(
                        (at, state.index),
                        worker,
                        Access::Read,
                        &addresses,
                        exec,
                        bytes.into(),
                        lds,
                    )?;
                    self.account(at, worker, LdsAccess::Read, bytes.into(), &addresses, exec);
                    let dwords = usize::from(bytes).div_ceil(4);
                    let size = usize::from(bytes).min(4);
                    for k in 0..dwords {
                        let Some(row) = row_mut(&mut state.w, self.result, place * dwords + k)
                        else {
                            continue;
                        };
                        // The address row may be the result's: addresses were copied out before.
                        if exec == u64::MAX && size == 4 {
                            let base = lds.as_ptr();
                            for (value, address) in row.iter_mut().zip(&addresses) {
                                // SAFETY: `check` found every lane's bytes inside `lds`.
                                *value = unsafe {
                                    base.add(*address as usize + 4 * k)
                                        .cast::<u32>()
                                        .read_unaligned()
                                };
                            }
                        } else {
                            for lane in lanes(exec) {
                                let raw = word(lds, addresses[lane] as usize + 4 * k, size);
                                row[lane] = fill.apply(row[lane], raw);
                            }
                        }
                    }
                    if two && place == 0 && self.overlaps_address(dwords) {
                        // `ds_read2_b32 v[0:1], v0`: the second address must be the old one.
                        let addresses = addresses.map(|a| a.wrapping_sub(self.offsets[0]));
                        return self.second_load(at, worker, state, lds, &addresses, bytes);
                    }
                }
            }
            Action::Store { bytes, two, high } => {
                for place in 0..1 + usize::from(two) {
                    let addresses = self.addresses(&state.w, place);
                    self.check(
                        (at, state.index),
                        worker,
                        Access::Write,
                        &addresses,
                        exec,
                        bytes.into(),
                        lds,
                    )?;
                    self.account(at, worker, LdsAccess::Write, bytes.into(), &addresses, exec);
                    let size = usize::from(bytes).min(4);
                    for k in 0..usize::from(bytes).div_ceil(4) {
                        let row = row(&state.w, self.data[place], k);
                        if exec == u64::MAX && size == 4 {
                            let base = lds.as_mut_ptr();
                            for (value, address) in row.iter().zip(&addresses) {
                                // SAFETY: `check` found every lane's bytes inside `lds`.
                                unsafe {
                                    base.add(*address as usize + 4 * k)
                                        .cast::<u32>()
                                        .write_unaligned(*value);
                                }
                            }
                            continue;
                        }
                        for lane in lanes(exec) {
                            let value = if high { row[lane] >> 16 } else { row[lane] };
                            set_word(lds, addresses[lane] as usize + 4 * k, size, value);
                        }
                    }
                }
            }
            Action::Atomic {
                update,
                wide,
                compare,
                returns,
            } => {
                let addresses = self.addresses(&state.w, 0);
                // The comparand comes first in LDS instructions.
                let (data, comparand) = if compare { (1, 0) } else { (0, 0) };
                self.modify(
                    at,
                    worker,
                    state,
                    lds,
                    &addresses,
                    wide,
                    returns,
                    |w, lane, old| {
                        let c = if compare {
                            self.operand(w, comparand, lane, wide)
                        } else {
                            0
                        };
                        update(old, self.operand(w, data, lane, wide), c)
                    },
                )?;
            }
            Action::MaskedOr { wide, returns } => {
                let addresses = self.addresses(&state.w, 0);
                self.modify(
                    at,
                    worker,
                    state,
                    lds,
                    &addresses,
                    wide,
                    returns,
                    |w, lane, old| {
                        old & !self.operand(w, 0, lane, wide) | self.operand(w, 1, lane, wide)
                    },
                )?;
            }
            Action::Exchange2 { wide } => {
                let bytes = 4usize << u32::from(wide);
                let places = [self.addresses(&state.w, 0), self.addresses(&state.w, 1)];
                for (place, addresses) in places.iter().enumerate() {
                    self.check(
                        (at, state.index),
                        worker,
                        Access::Atomic,
                        addresses,
                        exec,
                        bytes as u32,
                        lds,
                    )?;
                    self.account(at, worker, LdsAccess::Write, bytes as u32, addresses, exec);
                    for k in 0..bytes / 4 {
                        let new = *row(&state.w, self.data[place], k);
                        for lane in lanes(exec) {
                            let cell = addresses[lane] as usize + 4 * k;
                            let old = word(lds, cell, 4);
                            set_word(lds, cell, 4, new[lane]);
                            if let Some(row) =
                                row_mut(&mut state.w, self.result, place * bytes / 4 + k)
                            {
                                row[lane] = old;
                            }
                        }
                    }
                }
            }
            Action::Permute => {
                let target = *row(&state.w, (false, self.address), 0);
                let data = *row(&state.w, self.data[0], 0);
                let mut out = [0u32; LANES];
                for lane in lanes(exec) {
                    let to = (target[lane].wrapping_add(self.offsets[0]) / 4) & 63;
                    out[to as usize] = data[lane];
                }
                self.give(&mut state.w, exec, &out);
            }
            Action::Bpermute => {
                let source = *row(&state.w, (false, self.address), 0);
                let data = *row(&state.w, self.data[0], 0);
                let mut out = [0u32; LANES];
                for lane in lanes(exec) {
                    let from = (source[lane].wrapping_add(self.offsets[0]) / 4) & 63;
                    if exec >> from & 1 == 1 {
                        out[lane] = data[from as usize];
                    }
                }
                self.give(&mut state.w, exec, &out);
            }
            Action::Swizzle(pattern) => {
                let data = *row(&state.w, (false, self.address), 0);
                let mut out = [0u32; LANES];
                for lane in lanes(exec) {
                    let from = swizzle(pattern, lane);
                    if exec >> from & 1 == 1 {
                        out[lane] = data[from];
                    }
                }
                self.give(&mut state.w, exec, &out);
            }
            Action::Append { consume } => {
                let cell = (state.w.sgpr(crate::isa::M0) >> 16) + self.offsets[0];
                self.check(
                    (at, state.index),
                    worker,
                    Access::Atomic,
                    &[cell; 64],
                    exec & exec.wrapping_neg(),
                    4,
                    lds,
                )?;
                let old = word(lds, cell as usize, 4);
                let n = exec.count_ones();
                let new = if consume {
                    old.wrapping_sub(n)
                } else {
                    old.wrapping_add(n)
                };
                set_word(lds, cell as usize, 4, new);
                self.give(&mut state.w, exec, &[old; LANES]);
            }
            Action::Nop => {}
        }
        Ok(())
    }

    fn overlaps_address(&self, dwords: usize) -> bool {
        let (acc, first) = self.result;
        !acc && (first..first + dwords as u16).contains(&self.address)
    }

    /// The second half of a two-place load whose first half overwrote the address register.
    fn second_load(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        lds: &[u8],
        base: &[u32; 64],
        bytes: u8,
    ) -> Result<(), Problem> {
        let exec = state.w.exec;
        let addresses = base.map(|a| a.wrapping_add(self.offsets[1]));
        self.check(
            (at, state.index),
            worker,
            Access::Read,
            &addresses,
            exec,
            bytes.into(),
            lds,
        )?;
        self.account(at, worker, LdsAccess::Read, bytes.into(), &addresses, exec);
        let dwords = usize::from(bytes) / 4;
        for k in 0..dwords {
            if let Some(row) = row_mut(&mut state.w, self.result, dwords + k) {
                for lane in lanes(exec) {
                    row[lane] = word(lds, addresses[lane] as usize + 4 * k, 4);
                }
            }
        }
        Ok(())
    }

    fn addresses(&self, wave: &Wave, place: usize) -> [u32; 64] {
        let base = row(wave, (false, self.address), 0);
        let offset = self.offsets[place];
        std::array::from_fn(|i| base[i].wrapping_add(offset))
    }

    fn operand(&self, wave: &Wave, which: usize, lane: usize, wide: bool) -> u64 {
        let low = u64::from(row(wave, self.data[which], 0)[lane]);
        if wide {
            low | u64::from(row(wave, self.data[which], 1)[lane]) << 32
        } else {
            low
        }
    }

    fn give(&self, wave: &mut Wave, exec: u64, out: &[u32; LANES]) {
        if let Some(row) = row_mut(wave, self.result, 0) {
            for lane in lanes(exec) {
                row[lane] = out[lane];
            }
        }
    }

    /// Read-modify-write, lane after lane.
    #[allow(clippy::too_many_arguments)]
    fn modify(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        lds: &mut [u8],
        addresses: &[u32; 64],
        wide: bool,
        returns: bool,
        new: impl Fn(&Wave, usize, u64) -> u64,
    ) -> Result<(), Problem> {
        let exec = state.w.exec;
        let bytes = 4u32 << u32::from(wide);
        self.check(
            (at, state.index),
            worker,
            Access::Atomic,
            addresses,
            exec,
            bytes,
            lds,
        )?;
        self.account(at, worker, LdsAccess::Write, bytes, addresses, exec);
        for lane in lanes(exec) {
            let cell = addresses[lane] as usize;
            let mut old = u64::from(word(lds, cell, 4));
            if wide {
                old |= u64::from(word(lds, cell + 4, 4)) << 32;
            }
            let value = new(&state.w, lane, old);
            set_word(lds, cell, 4, value as u32);
            if wide {
                set_word(lds, cell + 4, 4, (value >> 32) as u32);
            }
            if returns {
                if let Some(row) = row_mut(&mut state.w, self.result, 0) {
                    row[lane] = old as u32;
                }
                if wide && let Some(row) = row_mut(&mut state.w, self.result, 1) {
                    row[lane] = (old >> 32) as u32;
                }
            }
        }
        Ok(())
    }

    #[allow(clippy::too_many_arguments)]
    #[inline]
    fn check(
        &self,
        (at, wave): (u32, u32),
        worker: &mut Worker,
        access: Access,
        addresses: &[u32; 64],
        exec: u64,
        bytes: u32,
        lds: &[u8],
    ) -> Result<(), Problem> {
        let len = lds.len() as u64;
        let mut highest = 0;
        if exec == u64::MAX {
            for address in addresses {
                highest = highest.max(*address);
            }
        } else {
            for lane in lanes(exec) {
                highest = highest.max(addresses[lane]);
            }
        }
        if exec == 0 || u64::from(highest) + u64::from(bytes) <= len {
            if let Some(shadow) = &mut worker.shadow {
                shadow.access(access, at, wave, addresses, exec, bytes);
            }
            return Ok(());
        }
        match lanes(exec).find(|lane| u64::from(addresses[*lane]) + u64::from(bytes) > len) {
            Some(lane) => Err(Problem::Lds {
                access,
                offset: addresses[lane].into(),
                bytes,
                lane: lane as u32,
            }),
            None => Ok(()),
        }
    }

    /// Count cycles and bytes; the cost of a pattern is kept from one execution to the next.
    #[inline]
    fn account(
        &self,
        at: u32,
        worker: &mut Worker,
        access: LdsAccess,
        bytes: u32,
        addresses: &[u32; 64],
        exec: u64,
    ) {
        if exec == 0 {
            return;
        }
        let first = addresses[exec.trailing_zeros() as usize];
        let target = worker.target;
        let memo = worker.lds_memo[at as usize].get_or_insert_with(|| {
            Box::new(LdsMemo {
                exec: 0,
                phase: 0,
                relative: [0; 64],
                cycles: 0,
                ideal: 0,
                degree: 0,
            })
        });
        let mut same = memo.exec == exec && memo.phase == first % 4;
        if exec == u64::MAX {
            for (relative, address) in memo.relative.iter().zip(addresses) {
                same &= *relative == address.wrapping_sub(first);
            }
        } else {
            for lane in lanes(exec) {
                same &= memo.relative[lane] == addresses[lane].wrapping_sub(first);
            }
        }
        if !same {
            let cost = target.lds.cost_masked(access, bytes, addresses, exec);
            memo.exec = exec;
            memo.phase = first % 4;
            memo.relative = std::array::from_fn(|i| addresses[i].wrapping_sub(first));
            memo.cycles = cost.cycles;
            memo.ideal = cost.ideal_cycles;
            memo.degree = cost.degree;
        }
        let (cycles, ideal, degree) = (memo.cycles, memo.ideal, memo.degree);
        let stat = &mut worker.stats[at as usize];
        stat.cost += u64::from(cycles);
        stat.ideal += u64::from(ideal);
        stat.degree = stat.degree.max(degree);
        stat.bytes += u64::from(exec.count_ones() * bytes);
    }
}

/// Source lane of `ds_swizzle_b32` (GCN3 ISA, "DS_SWIZZLE_B32"; the rotate mode is gfx9's).
fn swizzle(pattern: u16, lane: usize) -> usize {
    let p = usize::from(pattern);
    if p >= 0xc000 {
        let mask = p & 31;
        let rotate = p >> 5 & 31;
        let rotated = if p >> 10 & 1 == 1 {
            lane.wrapping_sub(rotate)
        } else {
            lane + rotate
        };
        lane & 32 | lane & mask | rotated & !mask & 31
    } else if p & 0x8000 != 0 {
        lane & !3 | p >> (2 * (lane & 3)) & 3
    } else {
        let (and, or, xor) = (p & 31, p >> 5 & 31, p >> 10 & 31);
        lane & 32 | ((lane & and | or) ^ xor) & 31
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzle_modes() {
        // Swap neighbours: BITMASK_PERM with xor 1.
        assert_eq!(swizzle(0x041f, 6), 7);
        assert_eq!(swizzle(0x041f, 33), 32);
        // Broadcast lane 2 of each quad.
        assert_eq!(swizzle(0x80aa, 5), 6);
        // Broadcast lane 0 of each 32.
        assert_eq!(swizzle(0x0000, 45), 32);
    }
}
