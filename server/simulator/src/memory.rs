//! Device memory: allocations with guard pages, and the table that every kernel access is checked against.
//!
//! A device address is the host address of the same byte, so that the runtime copies with plain `memcpy`
//! and pinned or managed memory needs no translation.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::sync::{Arc, RwLock};

/// Alignment of allocations, in bytes (a page; the HIP runtime promises 256).
pub const ALIGNMENT: u64 = 4096;

/// Why memory could not be given or taken back.
#[derive(Debug, thiserror::Error)]
pub enum MemoryError {
    /// The host has no such amount of memory.
    #[error("the host cannot give {bytes} bytes of device memory: {source}")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// The operating system's reason.
        source: io::Error,
    },
    /// No allocation begins at the address.
    #[error("{address:#x} is not the start of a device allocation")]
    NotAnAllocation {
        /// The address given.
        address: u64,
    },
    /// The range overlaps an allocation or a registered range.
    #[error("{bytes} bytes at {address:#x} overlap memory that is already known")]
    Overlap {
        /// Start of the range.
        address: u64,
        /// Length in bytes.
        bytes: u64,
    },
}

/// One range of memory that kernels may access.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// First byte.
    pub base: u64,
    /// Length in bytes.
    pub len: u64,
    /// What it is, for messages: `hipMalloc`, `__device__ table`.
    pub label: Arc<str>,
    /// Whether it is a registered host range rather than one of our mappings.
    pub registered: bool,
}

/// A range and, if it is ours, the mapping that dies with the last user.
#[derive(Clone)]
pub(crate) struct Region {
    pub(crate) info: Allocation,
    _mapping: Option<Arc<Mapping>>,
}

/// An anonymous mapping between two guard pages.
struct Mapping {
    start: *mut libc::c_void,
    len: usize,
}

// SAFETY: the mapping is plain memory; the pointer is only used to unmap it once, in `drop`.
unsafe impl Send for Mapping {}
// SAFETY: as above; no method reads or writes through a shared reference.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Map `bytes` readable and writable bytes, zeroed on first touch, and return their address too.
    fn new(bytes: u64) -> io::Result<(Self, u64)> {
        let page = ALIGNMENT as usize;
        let too_large = || io::Error::from_raw_os_error(libc::ENOMEM);
        let body = usize::try_from(bytes.max(1))
            .ok()
            .and_then(|b| b.checked_next_multiple_of(page))
            .ok_or_else(too_large)?;
        let len = body.checked_add(2 * page).ok_or_else(too_large)?;
        // SAFETY: a fresh anonymous mapping at an address that the kernel chooses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                libc::PROT_NONE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
                -1,
                0,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let mapping = Self { start, len };
        let body_start = start as usize + page;
        // SAFETY: the range lies inside the mapping made above.
        let rc = unsafe {
            libc::mprotect(
                body_start as *mut libc::c_void,
                body,
                libc::PROT_READ | libc::PROT_WRITE,
            )
        };
        if rc != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((mapping, body_start as u64))
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: exactly the range that mmap returned; nothing refers to it once its last owner is gone.
        unsafe { libc::munmap(self.start, self.len) };
    }
}

/// The device memory of one simulated device; clones share it.
///
/// Kernels may only access what is in its table. Memory that is freed while a kernel runs stays mapped
/// until that kernel ends, so that a race in the user's program is a fault or old data, never a crash.
#[derive(Clone, Default)]
pub struct Memory {
    table: Arc<RwLock<BTreeMap<u64, Region>>>,
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory")
            .field("allocations", &self.read().len())
            .finish()
    }
}

impl Memory {
    /// A device memory without allocations.
    pub fn new() -> Self {
        Self::default()
    }

    fn read(&self) -> std::sync::RwLockReadGuard<'_, BTreeMap<u64, Region>> {
        self.table
            .read()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn write(&self) -> std::sync::RwLockWriteGuard<'_, BTreeMap<u64, Region>> {
        self.table
            .write()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Allocate `bytes` bytes, aligned to [`ALIGNMENT`] and zeroed, with a guard page on both sides. Zero
    /// bytes give an address that no access is allowed at. `label` is for messages.
    ///
    /// # Errors
    /// [`MemoryError::OutOfMemory`] with the operating system's reason.
    pub fn alloc(&self, bytes: u64, label: impl Into<Arc<str>>) -> Result<u64, MemoryError> {
        let (mapping, base) =
            Mapping::new(bytes).map_err(|source| MemoryError::OutOfMemory { bytes, source })?;
        let region = Region {
            info: Allocation {
                base,
                len: bytes,
                label: label.into(),
                registered: false,
            },
            _mapping: Some(Arc::new(mapping)),
        };
        self.write().insert(base, region);
        Ok(base)
    }

    /// Free the allocation that starts at `base`.
    ///
    /// # Errors
    /// [`MemoryError::NotAnAllocation`] if none does, or if it is a registered range.
    pub fn free(&self, base: u64) -> Result<(), MemoryError> {
        let mut table = self.write();
        match table.get(&base) {
            Some(region) if !region.info.registered => {
                table.remove(&base);
                Ok(())
            }
            _ => Err(MemoryError::NotAnAllocation { address: base }),
        }
    }

    /// Let kernels access a range of the host's own memory (pinned or managed memory). The caller keeps it
    /// valid until [`Memory::unregister`].
    ///
    /// # Errors
    /// [`MemoryError::Overlap`] with an allocation or another registered range.
    pub fn register(
        &self,
        base: u64,
        len: u64,
        label: impl Into<Arc<str>>,
    ) -> Result<(), MemoryError> {
        let overlap = MemoryError::Overlap {
            address: base,
            bytes: len,
        };
        let Some(end) = base.checked_add(len) else {
            return Err(overlap);
        };
        let mut table = self.write();
        let clash = table
            .range(..end.max(base + 1))
            .next_back()
            .is_some_and(|(_, r)| r.info.base + r.info.len > base || r.info.base == base);
        if clash {
            return Err(overlap);
        }
        let info = Allocation {
            base,
            len,
            label: label.into(),
            registered: true,
        };
        table.insert(
            base,
            Region {
                info,
                _mapping: None,
            },
        );
        Ok(())
    }

    /// Take back a range given with [`Memory::register`].
    ///
    /// # Errors
    /// [`MemoryError::NotAnAllocation`] if no registered range starts at `base`.
    pub fn unregister(&self, base: u64) -> Result<(), MemoryError> {
        let mut table = self.write();
        match table.get(&base) {
            Some(region) if region.info.registered => {
                table.remove(&base);
                Ok(())
            }
            _ => Err(MemoryError::NotAnAllocation { address: base }),
        }
    }

    /// The allocation or registered range that contains `address`.
    pub fn find(&self, address: u64) -> Option<Allocation> {
        let table = self.read();
        let (_, region) = table.range(..=address).next_back()?;
        (address - region.info.base < region.info.len.max(1)).then(|| region.info.clone())
    }

    /// All allocations and registered ranges, by address.
    pub fn allocations(&self) -> Vec<Allocation> {
        self.read().values().map(|r| r.info.clone()).collect()
    }

    /// Bytes that are allocated now, without registered host ranges.
    pub fn allocated_bytes(&self) -> u64 {
        let table = self.read();
        table
            .values()
            .filter(|r| !r.info.registered)
            .map(|r| r.info.len)
            .sum()
    }

    /// Copy bytes into device memory.
    ///
    /// # Errors
    /// [`MemoryError::NotAnAllocation`] unless one allocation holds the whole range.
    pub fn write_bytes(&self, address: u64, bytes: &[u8]) -> Result<(), MemoryError> {
        self.check(address, bytes.len() as u64)?;
        // SAFETY: `check` found the whole range inside one live allocation.
        unsafe {
            std::ptr::copy_nonoverlapping(bytes.as_ptr(), address as *mut u8, bytes.len());
        }
        Ok(())
    }

    /// Copy bytes out of device memory.
    ///
    /// # Errors
    /// [`MemoryError::NotAnAllocation`] unless one allocation holds the whole range.
    pub fn read_bytes(&self, address: u64, into: &mut [u8]) -> Result<(), MemoryError> {
        self.check(address, into.len() as u64)?;
        // SAFETY: `check` found the whole range inside one live allocation.
        unsafe {
            std::ptr::copy_nonoverlapping(address as *const u8, into.as_mut_ptr(), into.len());
        }
        Ok(())
    }

    fn check(&self, address: u64, len: u64) -> Result<(), MemoryError> {
        let inside = self
            .find(address)
            .is_some_and(|a| len <= a.len - (address - a.base).min(a.len));
        if inside || len == 0 {
            Ok(())
        } else {
            Err(MemoryError::NotAnAllocation { address })
        }
    }

    /// The table as it is now, keeping its mappings alive.
    pub(crate) fn snapshot(&self) -> Snapshot {
        Snapshot {
            regions: self.read().values().cloned().collect(),
        }
    }
}

/// The allocations that one dispatch may access, by address.
pub(crate) struct Snapshot {
    pub(crate) regions: Vec<Region>,
}

impl Snapshot {
    /// Index of the region that contains `address`.
    #[inline]
    pub(crate) fn find(&self, address: u64) -> Option<usize> {
        let after = self.regions.partition_point(|r| r.info.base <= address);
        let index = after.checked_sub(1)?;
        let info = &self.regions[index].info;
        (address - info.base < info.len).then_some(index)
    }

    /// A clause that relates a wild address to what lies nearest.
    pub(crate) fn nearest(&self, address: u64) -> String {
        if address < 4096 {
            return "the pointer is null or nearly so".to_owned();
        }
        let distance = |r: &Region| {
            let end = r.info.base + r.info.len;
            if address < r.info.base {
                r.info.base - address
            } else {
                (address + 1).saturating_sub(end)
            }
        };
        let Some(region) = self.regions.iter().min_by_key(|r| distance(r)) else {
            return "no device memory is allocated".to_owned();
        };
        let info = &region.info;
        let end = info.base + info.len;
        let what = format!(
            "the nearest allocation is {} of {} bytes at {:#x}",
            info.label, info.len, info.base
        );
        if distance(region) > 1 << 20 {
            format!(
                "{what}, far away: a host pointer or a freed one was passed, or an index is wild"
            )
        } else if address < info.base {
            format!(
                "{what}, which begins {} bytes after it",
                info.base - address
            )
        } else if address >= end {
            format!("{what}, whose end lies {} bytes before it", address - end)
        } else {
            format!("{what}, which it crosses the end of")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alloc_find_free() {
        let memory = Memory::new();
        let a = memory.alloc(1000, "a").unwrap();
        assert_eq!(a % ALIGNMENT, 0);
        assert_eq!(memory.find(a + 999).unwrap().base, a);
        assert!(memory.find(a + 1000).is_none());
        memory.write_bytes(a + 10, &[1, 2, 3]).unwrap();
        let mut back = [0; 3];
        memory.read_bytes(a + 10, &mut back).unwrap();
        assert_eq!(back, [1, 2, 3]);
        assert!(memory.write_bytes(a + 999, &[1, 2]).is_err());
        assert!(memory.free(a + 1).is_err());
        memory.free(a).unwrap();
        assert!(memory.find(a).is_none());
    }

    #[test]
    fn registered_ranges_do_not_overlap() {
        let memory = Memory::new();
        let host = [0u8; 100];
        let base = host.as_ptr() as u64;
        memory.register(base, 100, "host").unwrap();
        assert!(memory.register(base + 50, 100, "again").is_err());
        assert!(memory.register(base - 10, 11, "again").is_err());
        assert!(memory.free(base).is_err());
        memory.unregister(base).unwrap();
        assert!(memory.find(base).is_none());
    }

    #[test]
    fn a_freed_allocation_stays_mapped_while_a_snapshot_lives() {
        let memory = Memory::new();
        let a = memory.alloc(64, "a").unwrap();
        let snapshot = memory.snapshot();
        memory.free(a).unwrap();
        assert_eq!(snapshot.find(a + 63), Some(0));
        // SAFETY: the snapshot keeps the mapping alive.
        assert_eq!(unsafe { *(a as *const u8) }, 0);
    }

    #[test]
    fn an_absurd_size_is_an_error() {
        assert!(Memory::new().alloc(u64::MAX - 5, "huge").is_err());
    }
}
