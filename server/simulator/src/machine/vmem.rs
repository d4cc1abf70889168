//! Vector memory: global, flat, scratch and buffer loads, stores and atomics.

use super::atomic::{self, Update};
use super::state::{Problem, WaveState, lanes};
use super::wave::{LANES, PRIVATE_APERTURE, SHARED_APERTURE, Wave};
use super::worker::{Touch, Worker};
use crate::fault::Access;
use crate::isa::{Instruction, Operand, Special};

/// Where addresses lead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    /// Global, LDS or private, lane by lane, by the address.
    Flat,
    Scratch,
    Buffer,
}

/// A part of a register, or whole registers, that one lane moves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Width {
    U8,
    I8,
    U16,
    I16,
    /// Into or out of the low half, keeping the other.
    LowU8,
    LowI8,
    Low16,
    HighU8,
    HighI8,
    High16,
    Dwords(u8),
}

impl Width {
    fn bytes(self) -> u32 {
        match self {
            Self::U8 | Self::I8 | Self::LowU8 | Self::LowI8 | Self::HighU8 | Self::HighI8 => 1,
            Self::U16 | Self::I16 | Self::Low16 | Self::High16 => 2,
            Self::Dwords(n) => 4 * u32::from(n),
        }
    }

    /// The register's new value from the bytes read.
    #[inline(always)]
    fn load(self, old: u32, raw: u32) -> u32 {
        match self {
            Self::U8 | Self::U16 | Self::Dwords(_) => raw,
            Self::I8 => raw as i8 as u32,
            Self::I16 => raw as i16 as u32,
            Self::LowU8 | Self::Low16 => old & 0xffff_0000 | raw & 0xffff,
            Self::LowI8 => old & 0xffff_0000 | raw as i8 as u32 & 0xffff,
            Self::HighU8 | Self::High16 => old & 0xffff | raw << 16,
            Self::HighI8 => old & 0xffff | (raw as i8 as u32) << 16,
        }
    }

    /// The bytes to write from the register.
    #[inline(always)]
    fn store(self, value: u32) -> u32 {
        match self {
            Self::HighU8 | Self::High16 => value >> 16,
            _ => value,
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Action {
    Load(Width),
    Store(Width),
    Atomic {
        update: Update,
        /// 8 bytes instead of 4.
        wide: bool,
        /// The data registers hold the new value and the comparand.
        compare: bool,
        returns: bool,
    },
}

/// How a lane's address is made.
#[derive(Clone, Copy, Debug)]
enum Address {
    /// A 64-bit address in two vector registers.
    Vector(u16),
    /// A 64-bit scalar address and a 32-bit vector offset, if any.
    Scalar(u8, Option<u16>),
    /// Private: vector and scalar offsets.
    Private(Option<u16>, Option<u8>),
    /// Resource, scalar offset, and vector index and offset.
    Buffer {
        resource: u8,
        scalar: super::salu::Source,
        index: Option<u16>,
        offset: Option<u16>,
    },
}

/// A decoded vector memory instruction.
#[derive(Clone, Debug)]
pub(crate) struct Vmem {
    pub(crate) space: Space,
    action: Action,
    address: Address,
    offset: i64,
    /// First data register, and whether it is an accumulation register.
    data: (bool, u16),
    /// First register for what an atomic returns.
    result: (bool, u16),
    /// A volatile or atomic load: other workgroups may write what it reads.
    coherent: bool,
}

impl Vmem {
    /// Whether it is a load.
    pub(crate) fn is_load(&self) -> bool {
        matches!(self.action, Action::Load(_))
    }
    /// Whether it is an atomic.
    pub(crate) fn is_atomic(&self) -> bool {
        matches!(self.action, Action::Atomic { .. })
    }
    /// Whether it may tell a workgroup what others did.
    pub(crate) fn communicates(&self) -> bool {
        self.space != Space::Scratch && (self.coherent || self.is_atomic())
    }
    /// Dwords that one lane moves, at least 1.
    pub(crate) fn dwords(&self) -> u32 {
        match self.action {
            Action::Load(w) | Action::Store(w) => w.bytes().div_ceil(4),
            Action::Atomic { wide, .. } => 1 + u32::from(wide),
        }
    }
}

fn row_index(operand: Option<&Operand>) -> Result<(bool, u16), String> {
    match operand {
        Some(Operand::Vgpr { first, .. }) => Ok((false, *first)),
        Some(Operand::Agpr { first, .. }) => Ok((true, *first)),
        Some(other) => Err(format!("{other:?} is not a vector register")),
        None => Err("an operand is missing".to_owned()),
    }
}

fn vector(operand: Option<&Operand>) -> Result<u16, String> {
    match row_index(operand)? {
        (false, first) => Ok(first),
        _ => Err("an address cannot be an accumulation register".to_owned()),
    }
}

fn load_width(name: &str) -> Option<Width> {
    Some(match name {
        "ubyte" => Width::U8,
        "sbyte" => Width::I8,
        "ushort" => Width::U16,
        "sshort" => Width::I16,
        "ubyte_d16" => Width::LowU8,
        "ubyte_d16_hi" => Width::HighU8,
        "sbyte_d16" => Width::LowI8,
        "sbyte_d16_hi" => Width::HighI8,
        "short_d16" => Width::Low16,
        "short_d16_hi" => Width::High16,
        "dword" => Width::Dwords(1),
        "dwordx2" => Width::Dwords(2),
        "dwordx3" => Width::Dwords(3),
        "dwordx4" => Width::Dwords(4),
        _ => return None,
    })
}

fn store_width(name: &str) -> Option<Width> {
    Some(match name {
        "byte" => Width::U8,
        "byte_d16_hi" => Width::HighU8,
        "short" => Width::U16,
        "short_d16_hi" => Width::High16,
        "dword" => Width::Dwords(1),
        "dwordx2" => Width::Dwords(2),
        "dwordx3" => Width::Dwords(3),
        "dwordx4" => Width::Dwords(4),
        _ => return None,
    })
}

/// Decode a vector memory instruction; `None` if the mnemonic is not one (cache control is not).
pub(crate) fn decode(inst: &Instruction) -> Option<Result<Vmem, String>> {
    let (space, rest) = inst.mnemonic.split_once('_')?;
    let space = match space {
        "global" => Space::Global,
        "flat" => Space::Flat,
        "scratch" => Space::Scratch,
        "buffer" => Space::Buffer,
        _ => return None,
    };
    let action = if let Some(name) = rest.strip_prefix("load_") {
        Action::Load(load_width(name)?)
    } else if let Some(name) = rest.strip_prefix("store_") {
        Action::Store(store_width(name)?)
    } else {
        let name = rest.strip_prefix("atomic_")?;
        let (name, wide) = match name.strip_suffix("_x2") {
            Some(name) => (name, true),
            None => (name, name.ends_with("_f64")),
        };
        Action::Atomic {
            update: atomic::update(name, wide)?,
            wide,
            compare: matches!(name, "cmpswap" | "fcmpswap"),
            // gfx940 and later call the same bit sc0.
            returns: inst.flag("glc") || inst.flag("sc0"),
        }
    };
    Some(build(inst, space, action))
}

fn build(inst: &Instruction, space: Space, action: Action) -> Result<Vmem, String> {
    if inst.flag("lds") {
        return Err("loads that go straight to LDS are not supported".to_owned());
    }
    let mut ops = inst.operands.iter();
    let mut data = (false, 0);
    let mut result = (false, 0);
    if space == Space::Buffer {
        data = row_index(ops.next())?;
        if matches!(action, Action::Atomic { returns: true, .. }) {
            result = data;
        }
    } else if matches!(action, Action::Load(_)) {
        data = row_index(ops.next())?;
    } else if matches!(action, Action::Atomic { returns: true, .. }) {
        result = row_index(ops.next())?;
    }
    let address_operand = ops.next();
    if space != Space::Buffer && !matches!(action, Action::Load(_)) {
        data = row_index(ops.next())?;
    }
    let address = match space {
        Space::Flat => Address::Vector(vector(address_operand)?),
        Space::Global => match ops.next() {
            Some(Operand::Sgpr { first, .. }) => Address::Scalar(
                *first,
                match address_operand {
                    Some(Operand::Special(Special::Off)) => None,
                    other => Some(vector(other)?),
                },
            ),
            _ => Address::Vector(vector(address_operand)?),
        },
        Space::Scratch => {
            let v = match address_operand {
                Some(Operand::Vgpr { first, .. }) => Some(*first),
                _ => None,
            };
            let s = match ops.next() {
                Some(Operand::Sgpr { first, .. }) => Some(*first),
                _ => None,
            };
            Address::Private(v, s)
        }
        Space::Buffer => {
            let resource = match ops.next() {
                Some(Operand::Sgpr { first, count: 4 }) => *first,
                other => return Err(format!("{other:?} is not a buffer resource")),
            };
            let scalar = ops
                .next()
                .ok_or_else(|| "the scalar offset is missing".to_owned())
                .and_then(super::salu::Source::new)?;
            let both = inst.flag("idxen") && inst.flag("offen");
            let v = || vector(address_operand);
            Address::Buffer {
                resource,
                scalar,
                index: inst.flag("idxen").then(v).transpose()?,
                offset: if both {
                    Some(v()? + 1)
                } else {
                    inst.flag("offen").then(v).transpose()?
                },
            }
        }
    };
    Ok(Vmem {
        space,
        action,
        address,
        offset: inst.number("offset")?,
        data,
        result,
        coherent: matches!(action, Action::Load(_))
            && ["glc", "sc0", "sc1"].iter().any(|f| inst.flag(f)),
    })
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

/// Reads 1, 2 or 4 bytes.
///
/// # Safety
/// The bytes at `address` must be readable.
#[inline(always)]
unsafe fn read(address: u64, bytes: u32) -> u32 {
    // SAFETY: the caller has checked the range; reads may be unaligned.
    unsafe {
        match bytes {
            1 => u32::from((address as *const u8).read()),
            2 => u32::from((address as *const u16).read_unaligned()),
            _ => (address as *const u32).read_unaligned(),
        }
    }
}

/// Writes 1, 2 or 4 bytes.
///
/// # Safety
/// The bytes at `address` must be writable.
#[inline(always)]
unsafe fn write(address: u64, bytes: u32, value: u32) {
    // SAFETY: the caller has checked the range; writes may be unaligned.
    unsafe {
        match bytes {
            1 => (address as *mut u8).write(value as u8),
            2 => (address as *mut u16).write_unaligned(value as u16),
            _ => (address as *mut u32).write_unaligned(value),
        }
    }
}

/// What lanes outside global memory access.
enum Elsewhere {
    Lds,
    Private,
}

impl Vmem {
    /// Execute for the active lanes.
    pub(crate) fn execute(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        lds: &mut [u8],
    ) -> Result<(), Problem> {
        let mut exec = state.w.exec;
        let mut addresses = [0u64; 64];
        let mut private = self.space == Space::Scratch;
        match self.address {
            Address::Vector(v) => {
                let low = row(&state.w, (false, v), 0);
                let high = row(&state.w, (false, v), 1);
                for i in 0..LANES {
                    addresses[i] = (u64::from(low[i]) | u64::from(high[i]) << 32)
                        .wrapping_add_signed(self.offset);
                }
            }
            Address::Scalar(s, v) => {
                let base = state.w.sgpr64(s.min(126)).wrapping_add_signed(self.offset);
                match v {
                    Some(v) => {
                        let offset = row(&state.w, (false, v), 0);
                        for i in 0..LANES {
                            addresses[i] = base.wrapping_add(u64::from(offset[i]));
                        }
                    }
                    None => addresses = [base; 64],
                }
            }
            Address::Private(v, s) => {
                let base = i64::from(s.map_or(0, |s| state.w.sgpr(s)) as i32) + self.offset;
                match v {
                    Some(v) => {
                        let offset = row(&state.w, (false, v), 0);
                        for i in 0..LANES {
                            addresses[i] = (base + i64::from(offset[i] as i32)) as u64;
                        }
                    }
                    None => addresses = [base as u64; 64],
                }
            }
            Address::Buffer {
                resource,
                scalar,
                index,
                offset,
            } => {
                private = self.buffer(
                    &state.w,
                    (resource, scalar.get(&state.w), index, offset),
                    &mut addresses,
                    &mut exec,
                );
            }
        }
        if self.space == Space::Buffer && exec != state.w.exec {
            self.zero_outside(&mut state.w, exec);
        }
        if exec == 0 {
            return Ok(());
        }
        if private {
            return self.private(at, worker, state, &addresses, exec);
        }
        if self.space == Space::Flat {
            let mut shared = 0u64;
            let mut scratch = 0u64;
            for lane in lanes(exec) {
                let aperture = addresses[lane] & !0xffff_ffff;
                shared |= u64::from(aperture == SHARED_APERTURE) << lane;
                scratch |= u64::from(aperture == PRIVATE_APERTURE) << lane;
            }
            if shared != 0 {
                self.elsewhere(at, worker, state, lds, &addresses, shared, &Elsewhere::Lds)?;
            }
            if scratch != 0 {
                self.elsewhere(
                    at,
                    worker,
                    state,
                    lds,
                    &addresses,
                    scratch,
                    &Elsewhere::Private,
                )?;
            }
            exec &= !(shared | scratch);
            if exec == 0 {
                return Ok(());
            }
        }
        self.global(at, worker, state, &addresses, exec)
    }

    /// Addresses of a buffer access. Returns whether they are private offsets; lanes beyond the buffer are
    /// taken out of `exec`, as the hardware does.
    fn buffer(
        &self,
        wave: &Wave,
        (resource, scalar, index, offset): (u8, u32, Option<u16>, Option<u16>),
        addresses: &mut [u64; 64],
        exec: &mut u64,
    ) -> bool {
        let word = |k: u8| wave.sgpr((resource + k).min(127));
        let swizzled = word(1) >> 31 != 0 && word(3) >> 23 & 1 != 0;
        let voffset = |lane: usize| offset.map_or(0, |v| row(wave, (false, v), 0)[lane]);
        if swizzled {
            // Private memory: the scalar offset counts bytes of the whole wave.
            for (lane, address) in addresses.iter_mut().enumerate() {
                *address = (i64::from(scalar as i32 >> 6)
                    + i64::from(voffset(lane) as i32)
                    + self.offset) as u64;
            }
            return true;
        }
        let base = u64::from(word(0)) | u64::from(word(1) & 0xffff) << 32;
        let stride = u64::from(word(1) >> 16 & 0x3fff);
        let records = u64::from(word(2));
        let bytes = u64::from(self.bytes());
        for lane in lanes(*exec) {
            let index = index.map_or(0, |v| u64::from(row(wave, (false, v), 0)[lane]));
            let within = u64::from(voffset(lane)).wrapping_add_signed(self.offset);
            let beyond = if stride == 0 {
                within + bytes > records
            } else {
                index >= records || within >= stride
            };
            if beyond {
                *exec &= !(1 << lane);
            }
            addresses[lane] = base
                .wrapping_add(u64::from(scalar))
                .wrapping_add(index * stride)
                .wrapping_add(within);
        }
        false
    }

    fn bytes(&self) -> u32 {
        match self.action {
            Action::Load(w) | Action::Store(w) => w.bytes(),
            Action::Atomic { wide, .. } => 4 << u32::from(wide),
        }
    }

    fn access(&self) -> Access {
        match self.action {
            Action::Load(_) => Access::Read,
            Action::Store(_) => Access::Write,
            Action::Atomic { .. } => Access::Atomic,
        }
    }

    /// Lanes that a buffer load found out of range read zero.
    fn zero_outside(&self, wave: &mut Wave, inside: u64) {
        let outside = wave.exec & !inside;
        if let Action::Load(width) = self.action {
            for k in 0..self.dwords() as usize {
                if let Some(row) = row_mut(wave, self.data, k) {
                    for lane in lanes(outside) {
                        row[lane] = width.load(row[lane], 0);
                    }
                }
            }
        }
    }

    fn global(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        addresses: &[u64; 64],
        exec: u64,
    ) -> Result<(), Problem> {
        let bytes = self.bytes();
        let access = self.access();
        let touch = Touch::new(addresses, exec, bytes, access);
        let sequential = touch.sequential;
        let region = worker.check(at, &touch)?;
        match self.action {
            Action::Load(Width::Dwords(n)) => {
                let n = usize::from(n);
                if n == 1 && sequential {
                    if let Some(row) = row_mut(&mut state.w, self.data, 0) {
                        // SAFETY: `check` found all 64 consecutive dwords inside live allocations.
                        unsafe {
                            std::ptr::copy_nonoverlapping(
                                addresses[0] as *const u8,
                                row.as_mut_ptr().cast::<u8>(),
                                256,
                            );
                        }
                    }
                } else {
                    for k in 0..n {
                        let Some(row) = row_mut(&mut state.w, self.data, k) else {
                            continue;
                        };
                        if exec == u64::MAX {
                            for (value, address) in row.iter_mut().zip(addresses) {
                                // SAFETY: `check` found every lane's bytes inside a live allocation.
                                *value = unsafe { read(address + 4 * k as u64, 4) };
                            }
                        } else {
                            for lane in lanes(exec) {
                                // SAFETY: as above, for the active lanes.
                                row[lane] = unsafe { read(addresses[lane] + 4 * k as u64, 4) };
                            }
                        }
                    }
                }
            }
            Action::Load(width) => {
                if let Some(row) = row_mut(&mut state.w, self.data, 0) {
                    for lane in lanes(exec) {
                        // SAFETY: as above.
                        row[lane] = width.load(row[lane], unsafe { read(addresses[lane], bytes) });
                    }
                }
            }
            Action::Store(Width::Dwords(n)) => {
                let n = usize::from(n);
                if n == 1 && sequential {
                    let row = row(&state.w, self.data, 0);
                    // SAFETY: `check` found all 64 consecutive dwords inside live allocations.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            row.as_ptr().cast::<u8>(),
                            addresses[0] as *mut u8,
                            256,
                        );
                    }
                } else {
                    for k in 0..n {
                        let row = row(&state.w, self.data, k);
                        if exec == u64::MAX {
                            for (value, address) in row.iter().zip(addresses) {
                                // SAFETY: `check` found every lane's bytes inside a live allocation.
                                unsafe { write(address + 4 * k as u64, 4, *value) };
                            }
                        } else {
                            for lane in lanes(exec) {
                                // SAFETY: as above, for the active lanes.
                                unsafe { write(addresses[lane] + 4 * k as u64, 4, row[lane]) };
                            }
                        }
                    }
                }
            }
            Action::Store(width) => {
                let row = row(&state.w, self.data, 0);
                for lane in lanes(exec) {
                    // SAFETY: as above.
                    unsafe { write(addresses[lane], bytes, width.store(row[lane])) };
                }
            }
            Action::Atomic { .. } => {
                for lane in lanes(exec) {
                    let address = addresses[lane];
                    if !address.is_multiple_of(u64::from(bytes)) {
                        return Err(Problem::Misaligned {
                            access,
                            address,
                            bytes,
                            lane: lane as u32,
                        });
                    }
                    // SAFETY: `check` found the lane's bytes inside a live allocation.
                    unsafe {
                        let mut old = u64::from(read(address, 4));
                        if bytes == 8 {
                            old |= u64::from(read(address + 4, 4)) << 32;
                        }
                        let new = self.updated(&mut state.w, lane, old);
                        write(address, 4, new as u32);
                        if bytes == 8 {
                            write(address + 4, 4, (new >> 32) as u32);
                        }
                    }
                }
            }
        }
        let latency = worker.account(at, region, &touch);
        state.vm.issue(state.now, latency);
        if self.space == Space::Flat {
            state.lgkm.issue(state.now, latency);
        }
        Ok(())
    }

    /// New memory value of an atomic; its old value goes to the result register if one is wanted.
    #[inline]
    fn updated(&self, wave: &mut Wave, lane: usize, old: u64) -> u64 {
        let Action::Atomic {
            update,
            wide,
            compare,
            returns,
        } = self.action
        else {
            return old;
        };
        let value = |k: usize| {
            let low = u64::from(row(wave, self.data, k)[lane]);
            if wide {
                low | u64::from(row(wave, self.data, k + 1)[lane]) << 32
            } else {
                low
            }
        };
        let data = value(0);
        let comparand = if compare {
            value(1 + usize::from(wide))
        } else {
            0
        };
        let new = update(old, data, comparand);
        if returns {
            if let Some(row) = row_mut(wave, self.result, 0) {
                row[lane] = old as u32;
            }
            if wide && let Some(row) = row_mut(wave, self.result, 1) {
                row[lane] = (old >> 32) as u32;
            }
        }
        new
    }

    /// Private memory: scratch instructions and swizzled buffers.
    fn private(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        offsets: &[u64; 64],
        exec: u64,
    ) -> Result<(), Problem> {
        let bytes = self.bytes();
        let access = self.access();
        let first = offsets[exec.trailing_zeros() as usize];
        let uniform = lanes(exec).all(|lane| offsets[lane] == first);
        for lane in lanes(exec) {
            state.scratch_check(access, offsets[lane], bytes, lane)?;
            if uniform {
                break;
            }
        }
        let whole_rows = uniform && first.is_multiple_of(4);
        match self.action {
            Action::Load(Width::Dwords(n)) if whole_rows => {
                for k in 0..usize::from(n) {
                    let source = *state.scratch_row(first as usize / 4 + k);
                    if let Some(row) = row_mut(&mut state.w, self.data, k) {
                        for lane in lanes(exec) {
                            row[lane] = source[lane];
                        }
                    }
                }
            }
            Action::Store(Width::Dwords(n)) if whole_rows => {
                for k in 0..usize::from(n) {
                    let source = *row(&state.w, self.data, k);
                    let row = state.scratch_row(first as usize / 4 + k);
                    for lane in lanes(exec) {
                        row[lane] = source[lane];
                    }
                }
            }
            _ => {
                for lane in lanes(exec) {
                    self.private_lane(state, lane, offsets[lane]);
                }
            }
        }
        let stat = &mut worker.stats[at as usize];
        stat.scratch += u64::from(exec.count_ones() * bytes);
        // Lanes are interleaved by dwords: a uniform offset fills whole lines.
        let line = u64::from(worker.target.cache.l1_line_bytes.max(1));
        let ideal = u64::from(exec.count_ones() * bytes.max(4)).div_ceil(line);
        stat.cost += if uniform {
            ideal
        } else {
            u64::from(exec.count_ones() * self.dwords())
        };
        stat.ideal += ideal;
        let latency = u64::from(worker.target.latency.l1_cycles);
        state.vm.issue(state.now, [latency; 2]);
        Ok(())
    }

    fn private_lane(&self, state: &mut WaveState, lane: usize, offset: u64) {
        match self.action {
            Action::Load(width) => {
                let bytes = width.bytes().min(4);
                for k in 0..self.dwords() as usize {
                    let raw = state.scratch_read(lane, offset + 4 * k as u64, bytes);
                    if let Some(row) = row_mut(&mut state.w, self.data, k) {
                        row[lane] = width.load(row[lane], raw);
                    }
                }
            }
            Action::Store(width) => {
                let bytes = width.bytes().min(4);
                for k in 0..self.dwords() as usize {
                    let value = width.store(row(&state.w, self.data, k)[lane]);
                    state.scratch_write(lane, offset + 4 * k as u64, bytes, value);
                }
            }
            Action::Atomic { wide, .. } => {
                let mut old = u64::from(state.scratch_read(lane, offset, 4));
                if wide {
                    old |= u64::from(state.scratch_read(lane, offset + 4, 4)) << 32;
                }
                let new = self.updated(&mut state.w, lane, old);
                state.scratch_write(lane, offset, 4, new as u32);
                if wide {
                    state.scratch_write(lane, offset + 4, 4, (new >> 32) as u32);
                }
            }
        }
    }

    /// Lanes of a flat instruction whose addresses lie in an aperture.
    #[allow(clippy::too_many_arguments)]
    fn elsewhere(
        &self,
        at: u32,
        worker: &mut Worker,
        state: &mut WaveState,
        lds: &mut [u8],
        addresses: &[u64; 64],
        exec: u64,
        place: &Elsewhere,
    ) -> Result<(), Problem> {
        let bytes = self.bytes();
        let access = self.access();
        for lane in lanes(exec) {
            let offset = addresses[lane] & 0xffff_ffff;
            match place {
                Elsewhere::Private => {
                    state.scratch_check(access, offset, bytes, lane)?;
                    self.private_lane(state, lane, offset);
                }
                Elsewhere::Lds => {
                    let Some(cell) = usize::try_from(offset)
                        .ok()
                        .and_then(|o| lds.get_mut(o..o + bytes as usize))
                    else {
                        return Err(Problem::Lds {
                            access,
                            offset,
                            bytes,
                            lane: lane as u32,
                        });
                    };
                    self.lds_lane(state, lane, cell);
                    if let Some(shadow) = &mut worker.shadow {
                        let at_offset = [offset as u32; 64];
                        shadow.access(access, at, state.index, &at_offset, 1, bytes);
                    }
                }
            }
        }
        let moved = u64::from(exec.count_ones() * bytes);
        let stat = &mut worker.stats[at as usize];
        match place {
            Elsewhere::Private => {
                stat.scratch += moved;
                let latency = u64::from(worker.target.latency.l1_cycles);
                state.vm.issue(state.now, [latency; 2]);
            }
            Elsewhere::Lds => {
                let latency = u64::from(worker.target.latency.lds_cycles);
                state.lgkm.issue(state.now, [latency; 2]);
            }
        }
        Ok(())
    }

    fn lds_lane(&self, state: &mut WaveState, lane: usize, cell: &mut [u8]) {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0u64, |v, b| v << 8 | u64::from(*b));
        match self.action {
            Action::Load(width) => {
                for (k, part) in cell.chunks(4).enumerate() {
                    if let Some(row) = row_mut(&mut state.w, self.data, k) {
                        row[lane] = width.load(row[lane], word(part) as u32);
                    }
                }
            }
            Action::Store(width) => {
                for (k, part) in cell.chunks_mut(4).enumerate() {
                    let value = width.store(row(&state.w, self.data, k)[lane]).to_le_bytes();
                    part.copy_from_slice(&value[..part.len()]);
                }
            }
            Action::Atomic { .. } => {
                let new = self.updated(&mut state.w, lane, word(cell)).to_le_bytes();
                let len = cell.len();
                cell.copy_from_slice(&new[..len]);
            }
        }
    }
}
