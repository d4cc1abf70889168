//! Memory: allocations, copies, fills. Device memory is host memory that kernels may access, so a copy is a copy;
//! what a real runtime checks (does the range lie inside its allocation?) is checked here.

use std::ptr;

use hipsmith_simulator::ALIGNMENT;

use crate::abi::{Address, Out};
use crate::error::{Error, Hip};
use crate::state::{State, lock, say};

const HOST: &str = "hipHostMalloc";
const MANAGED: &str = "hipMallocManaged";
const DEVICE: &str = "hipMalloc";
const REGISTERED: &str = "hipHostRegister";

/// Rows of pitched allocations begin at multiples of this many bytes.
const PITCH: usize = 256;

/// Of `hipMemcpyKind`.
const HOST_TO_DEVICE: i32 = 1;
const DEVICE_TO_HOST: i32 = 2;
const DEVICE_TO_DEVICE: i32 = 3;
const LAST_KIND: i32 = 4;

impl State {
    fn allocate(&mut self, bytes: usize, label: &str) -> Hip<Address> {
        self.healthy()?;
        if bytes == 0 {
            return Ok(Address(0));
        }
        let device = self.device_bytes();
        let used = self.memory().allocated_bytes();
        if bytes as u64 > device.saturating_sub(used) {
            say(&format!(
                "{label} of {bytes} bytes does not fit: {} has {device} bytes, of which {used} are in use",
                self.target().device.name
            ));
            return Err(Error::OutOfMemory);
        }
        let bytes = if self.whole_pages {
            // The excess can only fail for sizes that no device has.
            (bytes as u64).next_multiple_of(ALIGNMENT)
        } else {
            bytes as u64
        };
        self.memory()
            .alloc(bytes, label)
            .map(|at| Address(at as usize))
            .map_err(|error| {
                say(&error.to_string());
                Error::OutOfMemory
            })
    }

    /// Memory of the simulated device in bytes.
    pub(crate) fn device_bytes(&self) -> u64 {
        (self.target().device.memory_gib * f64::from(1 << 30)) as u64
    }

    fn free(&mut self, at: Address, function: &str) -> Hip {
        if at.is_null() {
            return Ok(());
        }
        self.memory().free(at.device()).map_err(|error| {
            say(&format!("{function}: {error}"));
            Error::InvalidValue
        })
    }

    /// Refuse a range that begins inside an allocation and ends outside it, or lies outside all although it must
    /// be device memory.
    fn range(
        &self,
        function: &str,
        what: &str,
        at: Address,
        bytes: usize,
        must_be_device: bool,
    ) -> Hip {
        if at.is_null() {
            return Err(Error::InvalidValue);
        }
        match self.memory().find(at.device()) {
            // Only a part of a registered host array may be registered.
            Some(found) if found.registered => Ok(()),
            Some(found) => {
                let offset = at.device() - found.base;
                if (bytes as u64) <= found.len.saturating_sub(offset) {
                    return Ok(());
                }
                say(&format!(
                    "{function}: {bytes} bytes at the {what} do not fit: it lies {offset} bytes into an allocation ({}) of {} bytes",
                    found.label, found.len
                ));
                Err(Error::InvalidValue)
            }
            None if must_be_device => {
                say(&format!(
                    "{function}: the {what} {:#x} is no device memory, as the direction of the copy says it is",
                    at.0
                ));
                Err(Error::InvalidValue)
            }
            None => Ok(()),
        }
    }

    fn copy(&mut self, function: &str, to: Address, from: Address, bytes: usize, kind: i32) -> Hip {
        self.copy_rows(function, (to, bytes), (from, bytes), bytes, 1, kind)
    }

    /// Copy `rows` rows of `width` bytes; each side has its own distance between rows.
    fn copy_rows(
        &mut self,
        function: &str,
        (to, to_pitch): (Address, usize),
        (from, from_pitch): (Address, usize),
        width: usize,
        rows: usize,
        kind: i32,
    ) -> Hip {
        self.healthy()?;
        if !(0..=LAST_KIND).contains(&kind) {
            return Err(Error::InvalidMemcpyDirection);
        }
        if width == 0 || rows == 0 {
            return Ok(());
        }
        if rows > 1 && (to_pitch < width || from_pitch < width) {
            return Err(Error::InvalidPitchValue);
        }
        let span = |pitch: usize| {
            pitch
                .checked_mul(rows - 1)
                .and_then(|n| n.checked_add(width))
                .ok_or(Error::InvalidValue)
        };
        let to_device = kind == HOST_TO_DEVICE || kind == DEVICE_TO_DEVICE;
        let from_device = kind == DEVICE_TO_HOST || kind == DEVICE_TO_DEVICE;
        self.range(function, "destination", to, span(to_pitch)?, to_device)?;
        self.range(function, "source", from, span(from_pitch)?, from_device)?;
        for row in 0..rows {
            // SAFETY: device ranges were checked; for host ranges it is HIP's contract that they are valid.
            unsafe {
                ptr::copy(
                    (from.0 + row * from_pitch) as *const u8,
                    (to.0 + row * to_pitch) as *mut u8,
                    width,
                );
            }
        }
        Ok(())
    }

    /// Fill `count` elements with the bytes of one.
    fn fill(&mut self, function: &str, at: Address, element: &[u8], count: usize) -> Hip {
        self.healthy()?;
        let bytes = count
            .checked_mul(element.len())
            .ok_or(Error::InvalidValue)?;
        if bytes == 0 {
            return Ok(());
        }
        self.range(function, "destination", at, bytes, true)?;
        match element {
            // SAFETY: the range was checked.
            [byte] => unsafe { ptr::write_bytes(at.0 as *mut u8, *byte, bytes) },
            _ => {
                for i in 0..count {
                    // SAFETY: the range was checked.
                    unsafe {
                        ptr::copy_nonoverlapping(
                            element.as_ptr(),
                            (at.0 + i * element.len()) as *mut u8,
                            element.len(),
                        );
                    }
                }
            }
        }
        Ok(())
    }

    fn fill_rows(
        &mut self,
        function: &str,
        at: Address,
        pitch: usize,
        value: u8,
        width: usize,
        rows: usize,
    ) -> Hip {
        if rows > 1 && pitch < width {
            return Err(Error::InvalidPitchValue);
        }
        (0..rows).try_for_each(|row| {
            let row_at = Address(at.0.wrapping_add(row.wrapping_mul(pitch)));
            self.fill(function, row_at, &[value], width)
        })
    }

    /// Part of a device variable: its address, checked against its size.
    fn part_of_variable(&mut self, shadow: Address, offset: usize, bytes: usize) -> Hip<Address> {
        let (at, size) = self.variable(shadow)?;
        let end = (offset as u64).checked_add(bytes as u64);
        if end.is_none_or(|end| end > size) {
            say(&format!(
                "{bytes} bytes at offset {offset} lie beyond a device variable of {size} bytes"
            ));
            return Err(Error::InvalidValue);
        }
        Ok(Address(at as usize + offset))
    }
}

fn allocate(into: Out<Address>, bytes: usize, label: &str) -> Hip {
    if into.is_null() {
        return Err(Error::InvalidValue);
    }
    let at = lock().allocate(bytes, label)?;
    into.set(at)
}

fn allocate_rows(into: Out<Address>, pitch: Out<usize>, width: usize, rows: usize) -> Hip {
    let row = width
        .checked_next_multiple_of(PITCH)
        .ok_or(Error::InvalidValue)?;
    let bytes = row.checked_mul(rows).ok_or(Error::InvalidValue)?;
    allocate(into, bytes, DEVICE)?;
    pitch.set(row)
}

fn on_stream(stream: Address, work: impl FnOnce(&mut State) -> Hip) -> Hip {
    let mut state = lock();
    state.check_stream(stream)?;
    work(&mut state)
}

/// HIP's `hipPointerAttribute_t`.
#[repr(C)]
struct PointerAttributes {
    memory: i32,
    device: i32,
    device_pointer: Address,
    host_pointer: Address,
    managed: i32,
    flags: u32,
}

hip! {
    fn hipMalloc(into: Out<Address>, bytes: usize) {
        allocate(into, bytes, DEVICE)
    }
    fn hipExtMallocWithFlags(into: Out<Address>, bytes: usize, _flags: u32) {
        allocate(into, bytes, DEVICE)
    }
    fn hipMallocManaged(into: Out<Address>, bytes: usize, _flags: u32) {
        allocate(into, bytes, MANAGED)
    }
    fn hipHostMalloc(into: Out<Address>, bytes: usize, _flags: u32) {
        allocate(into, bytes, HOST)
    }
    fn hipHostAlloc(into: Out<Address>, bytes: usize, _flags: u32) {
        allocate(into, bytes, HOST)
    }
    fn hipMallocHost(into: Out<Address>, bytes: usize) {
        allocate(into, bytes, HOST)
    }
    fn hipMemAllocHost(into: Out<Address>, bytes: usize) {
        allocate(into, bytes, HOST)
    }
    fn hipMallocAsync(into: Out<Address>, bytes: usize, stream: Address) {
        lock().check_stream(stream)?;
        allocate(into, bytes, DEVICE)
    }
    fn hipMallocPitch(into: Out<Address>, pitch: Out<usize>, width: usize, rows: usize) {
        allocate_rows(into, pitch, width, rows)
    }
    fn hipMemAllocPitch(into: Out<Address>, pitch: Out<usize>, width: usize, rows: usize, _element: u32) {
        allocate_rows(into, pitch, width, rows)
    }

    fn hipFree(at: Address) {
        lock().free(at, "hipFree")
    }
    fn hipFreeAsync(at: Address, stream: Address) {
        on_stream(stream, |state| state.free(at, "hipFreeAsync"))
    }
    fn hipHostFree(at: Address) {
        lock().free(at, "hipHostFree")
    }
    fn hipFreeHost(at: Address) {
        lock().free(at, "hipFreeHost")
    }

    fn hipHostRegister(at: Address, bytes: usize, _flags: u32) {
        if at.is_null() || bytes == 0 {
            return Err(Error::InvalidValue);
        }
        lock()
            .memory()
            .register(at.device(), bytes as u64, REGISTERED)
            .map_err(|_| Error::HostMemoryAlreadyRegistered)
    }
    fn hipHostUnregister(at: Address) {
        lock().memory().unregister(at.device()).map_err(|_| Error::HostMemoryNotRegistered)
    }
    fn hipHostGetDevicePointer(into: Out<Address>, at: Address, _flags: u32) {
        lock().memory().find(at.device()).ok_or(Error::InvalidValue)?;
        into.set(at)
    }
    fn hipHostGetFlags(into: Out<u32>, at: Address) {
        lock().memory().find(at.device()).ok_or(Error::InvalidValue)?;
        into.set(0)
    }
    fn hipPointerGetAttributes(into: Out<PointerAttributes>, at: Address) {
        let found = lock().memory().find(at.device()).ok_or(Error::InvalidValue)?;
        let host = found.registered || found.label.as_ref() == HOST;
        let managed = found.label.as_ref() == MANAGED || found.label.starts_with("__managed__");
        into.set(PointerAttributes {
            memory: i32::from(!host),
            device: 0,
            device_pointer: at,
            host_pointer: if host || managed { at } else { Address(0) },
            managed: i32::from(managed),
            flags: 0,
        })
    }
    fn hipMemGetAddressRange(base: Out<u64>, bytes: Out<usize>, at: Address) {
        let found = lock().memory().find(at.device()).ok_or(Error::NotFound)?;
        base.set_if_wanted(found.base);
        bytes.set_if_wanted(found.len as usize);
        Ok(())
    }
    fn hipMemPtrGetInfo(at: Address, bytes: Out<usize>) {
        let found = lock().memory().find(at.device()).ok_or(Error::InvalidValue)?;
        bytes.set(found.len as usize)
    }
    fn hipMemGetInfo(free: Out<usize>, total: Out<usize>) {
        let state = lock();
        let device = state.device_bytes();
        free.set_if_wanted(device.saturating_sub(state.memory().allocated_bytes()) as usize);
        total.set_if_wanted(device as usize);
        Ok(())
    }

    fn hipMemcpy(to: Address, from: Address, bytes: usize, kind: i32) {
        lock().copy("hipMemcpy", to, from, bytes, kind)
    }
    fn hipMemcpy_spt(to: Address, from: Address, bytes: usize, kind: i32) {
        lock().copy("hipMemcpy", to, from, bytes, kind)
    }
    fn hipMemcpyAsync(to: Address, from: Address, bytes: usize, kind: i32, stream: Address) {
        on_stream(stream, |state| state.copy("hipMemcpyAsync", to, from, bytes, kind))
    }
    fn hipMemcpyAsync_spt(to: Address, from: Address, bytes: usize, kind: i32, stream: Address) {
        on_stream(stream, |state| state.copy("hipMemcpyAsync", to, from, bytes, kind))
    }
    fn hipMemcpyWithStream(to: Address, from: Address, bytes: usize, kind: i32, stream: Address) {
        on_stream(stream, |state| state.copy("hipMemcpyWithStream", to, from, bytes, kind))
    }
    fn hipMemcpyHtoD(to: Address, from: Address, bytes: usize) {
        lock().copy("hipMemcpyHtoD", to, from, bytes, HOST_TO_DEVICE)
    }
    fn hipMemcpyDtoH(to: Address, from: Address, bytes: usize) {
        lock().copy("hipMemcpyDtoH", to, from, bytes, DEVICE_TO_HOST)
    }
    fn hipMemcpyDtoD(to: Address, from: Address, bytes: usize) {
        lock().copy("hipMemcpyDtoD", to, from, bytes, DEVICE_TO_DEVICE)
    }
    fn hipMemcpyHtoDAsync(to: Address, from: Address, bytes: usize, stream: Address) {
        on_stream(stream, |state| state.copy("hipMemcpyHtoDAsync", to, from, bytes, HOST_TO_DEVICE))
    }
    fn hipMemcpyDtoHAsync(to: Address, from: Address, bytes: usize, stream: Address) {
        on_stream(stream, |state| state.copy("hipMemcpyDtoHAsync", to, from, bytes, DEVICE_TO_HOST))
    }
    fn hipMemcpyDtoDAsync(to: Address, from: Address, bytes: usize, stream: Address) {
        on_stream(stream, |state| state.copy("hipMemcpyDtoDAsync", to, from, bytes, DEVICE_TO_DEVICE))
    }
    fn hipMemcpy2D(
        to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize, rows: usize, kind: i32,
    ) {
        lock().copy_rows("hipMemcpy2D", (to, to_pitch), (from, from_pitch), width, rows, kind)
    }
    fn hipMemcpy2DAsync(
        to: Address, to_pitch: usize, from: Address, from_pitch: usize, width: usize, rows: usize, kind: i32,
        stream: Address,
    ) {
        on_stream(stream, |state| {
            state.copy_rows("hipMemcpy2DAsync", (to, to_pitch), (from, from_pitch), width, rows, kind)
        })
    }

    fn hipMemcpyToSymbol(symbol: Address, from: Address, bytes: usize, offset: usize, kind: i32) {
        let mut state = lock();
        let to = state.part_of_variable(symbol, offset, bytes)?;
        state.copy("hipMemcpyToSymbol", to, from, bytes, kind)
    }
    fn hipMemcpyToSymbolAsync(
        symbol: Address, from: Address, bytes: usize, offset: usize, kind: i32, stream: Address,
    ) {
        on_stream(stream, |state| {
            let to = state.part_of_variable(symbol, offset, bytes)?;
            state.copy("hipMemcpyToSymbolAsync", to, from, bytes, kind)
        })
    }
    fn hipMemcpyFromSymbol(to: Address, symbol: Address, bytes: usize, offset: usize, kind: i32) {
        let mut state = lock();
        let from = state.part_of_variable(symbol, offset, bytes)?;
        state.copy("hipMemcpyFromSymbol", to, from, bytes, kind)
    }
    fn hipMemcpyFromSymbolAsync(
        to: Address, symbol: Address, bytes: usize, offset: usize, kind: i32, stream: Address,
    ) {
        on_stream(stream, |state| {
            let from = state.part_of_variable(symbol, offset, bytes)?;
            state.copy("hipMemcpyFromSymbolAsync", to, from, bytes, kind)
        })
    }
    fn hipGetSymbolAddress(into: Out<Address>, symbol: Address) {
        let (at, _) = lock().variable(symbol)?;
        into.set(Address(at as usize))
    }
    fn hipGetSymbolSize(into: Out<usize>, symbol: Address) {
        let (_, bytes) = lock().variable(symbol)?;
        into.set(bytes as usize)
    }

    fn hipMemset(at: Address, value: i32, bytes: usize) {
        lock().fill("hipMemset", at, &[value as u8], bytes)
    }
    fn hipMemsetAsync(at: Address, value: i32, bytes: usize, stream: Address) {
        on_stream(stream, |state| state.fill("hipMemsetAsync", at, &[value as u8], bytes))
    }
    fn hipMemsetD8(at: Address, value: u8, count: usize) {
        lock().fill("hipMemsetD8", at, &[value], count)
    }
    fn hipMemsetD8Async(at: Address, value: u8, count: usize, stream: Address) {
        on_stream(stream, |state| state.fill("hipMemsetD8Async", at, &[value], count))
    }
    fn hipMemsetD16(at: Address, value: u16, count: usize) {
        lock().fill("hipMemsetD16", at, &value.to_le_bytes(), count)
    }
    fn hipMemsetD16Async(at: Address, value: u16, count: usize, stream: Address) {
        on_stream(stream, |state| state.fill("hipMemsetD16Async", at, &value.to_le_bytes(), count))
    }
    fn hipMemsetD32(at: Address, value: i32, count: usize) {
        lock().fill("hipMemsetD32", at, &value.to_le_bytes(), count)
    }
    fn hipMemsetD32Async(at: Address, value: i32, count: usize, stream: Address) {
        on_stream(stream, |state| state.fill("hipMemsetD32Async", at, &value.to_le_bytes(), count))
    }
    fn hipMemset2D(at: Address, pitch: usize, value: i32, width: usize, rows: usize) {
        lock().fill_rows("hipMemset2D", at, pitch, value as u8, width, rows)
    }
    fn hipMemset2DAsync(at: Address, pitch: usize, value: i32, width: usize, rows: usize, stream: Address) {
        on_stream(stream, |state| state.fill_rows("hipMemset2DAsync", at, pitch, value as u8, width, rows))
    }

    /// All memory is one here: there is nothing to move.
    fn hipMemPrefetchAsync(at: Address, _bytes: usize, _device: i32, stream: Address) {
        on_stream(stream, |state| state.memory().find(at.device()).map(drop).ok_or(Error::InvalidValue))
    }
    fn hipMemAdvise(at: Address, _bytes: usize, _advice: i32, _device: i32) {
        lock().memory().find(at.device()).map(drop).ok_or(Error::InvalidValue)
    }
}
