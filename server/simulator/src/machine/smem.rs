//! Scalar memory.

use super::salu::Source;
use super::state::{Problem, WaveState};
use super::worker::{Touch, Worker};
use crate::fault::Access;
use crate::isa::{Instruction, Operand};

/// A decoded scalar load or store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Smem {
    store: bool,
    /// Through a buffer resource, with its range check.
    buffer: bool,
    dwords: u8,
    data: u8,
    base: u8,
    scalar: Option<Source>,
    offset: i64,
}

impl Smem {
    /// Whether it writes memory.
    pub(crate) fn is_store(&self) -> bool {
        self.store
    }
}

/// Decode a scalar memory instruction; `None` if the mnemonic is not one (cache control is not).
pub(crate) fn decode(inst: &Instruction) -> Option<Result<Smem, String>> {
    let rest = inst.mnemonic.strip_prefix("s_")?;
    let (buffer, rest) = match rest.strip_prefix("buffer_") {
        Some(rest) => (true, rest),
        None => (false, rest),
    };
    let (store, width) = match rest.strip_prefix("load_") {
        Some(width) => (false, width),
        None => (true, rest.strip_prefix("store_")?),
    };
    let dwords = match width {
        "dword" => 1,
        "dwordx2" => 2,
        "dwordx3" => 3,
        "dwordx4" => 4,
        "dwordx8" => 8,
        "dwordx16" => 16,
        _ => return None,
    };
    Some(build(inst, store, buffer, dwords))
}

fn build(inst: &Instruction, store: bool, buffer: bool, dwords: u8) -> Result<Smem, String> {
    let register = |n: usize| match inst.operands.get(n) {
        Some(Operand::Sgpr { first, .. }) => Ok(*first),
        other => Err(format!("{other:?} is not a scalar register")),
    };
    let mut offset = inst.number("offset")?;
    let scalar = match inst.operands.get(2) {
        Some(Operand::Literal(l)) => {
            // 21 bits, signed, printed as a positive number by some versions.
            offset += i64::from(*l as i32);
            None
        }
        Some(Operand::Int(i)) => {
            offset += i64::from(*i);
            None
        }
        Some(other) => Some(Source::new(other)?),
        None => None,
    };
    Ok(Smem {
        store,
        buffer,
        dwords,
        data: register(0)?,
        base: register(1)?,
        scalar,
        offset,
    })
}

impl Smem {
    pub(crate) fn execute(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
    ) -> Result<(), Problem> {
        // The scalar cache's latency is not published; the vector L1's stands for it.
        let latency = u64::from(worker.target.latency.l1_cycles);
        state.lgkm.issue(state.now, [latency; 2]);
        let extra = self.scalar.map_or(0, |s| u64::from(s.get(&state.w)));
        let within = extra.wrapping_add_signed(self.offset);
        let base = state.w.sgpr64(self.base.min(126));
        let mut dwords = u64::from(self.dwords);
        let address = if self.buffer {
            let word = |k: u8| u64::from(state.w.sgpr((self.base + k).min(127)));
            let stride = word(1) >> 16 & 0x3fff;
            let size = word(2) * stride.max(1);
            let inside = size.saturating_sub(within) / 4;
            if !self.store {
                for k in inside.min(dwords)..dwords {
                    state
                        .w
                        .set_sgpr(self.data.saturating_add(k as u8).min(127), 0);
                }
            }
            dwords = dwords.min(inside);
            (base & 0xffff_ffff_ffff).wrapping_add(within)
        } else {
            base.wrapping_add(within)
        } & !3;
        if dwords == 0 {
            return Ok(());
        }
        let bytes = dwords as u32 * 4;
        let access = if self.store {
            Access::Write
        } else {
            Access::Read
        };
        let mut addresses = [0; 64];
        addresses[0] = address;
        worker.check(at, &Touch::new(&addresses, 1, bytes, access))?;
        for k in 0..dwords {
            let register = self.data.saturating_add(k as u8).min(127);
            let place = address + 4 * k;
            // SAFETY: `check` found the whole range inside a live allocation.
            unsafe {
                if self.store {
                    (place as *mut u32).write_unaligned(state.w.sgpr(register));
                } else {
                    state
                        .w
                        .set_sgpr(register, (place as *const u32).read_unaligned());
                }
            }
        }
        worker.stats[at as usize].bytes += u64::from(bytes);
        Ok(())
    }
}
