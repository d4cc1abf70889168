//! Modules: code objects inside the program, and those that it loads itself.

use std::ffi::c_void;
use std::sync::Arc;

use hipsmith_simulator::{Kernel, LoadError, Module};

use crate::abi::{Address, Out, Text};
use crate::capture::DeviceVariable;
use crate::error::{Error, Hip};
use crate::state::{State, lock, say};

/// A module, loaded when it is first needed.
pub(crate) struct Loaded {
    bytes: Hip<&'static [u8]>,
    module: Option<Hip<Arc<Module>>>,
}

impl Loaded {
    /// A code object inside the program.
    pub(crate) fn embedded(bytes: Hip<&'static [u8]>) -> Self {
        Self {
            bytes,
            module: None,
        }
    }
    fn ready(module: Arc<Module>) -> Self {
        Self {
            bytes: Err(Error::InvalidImage),
            module: Some(Ok(module)),
        }
    }
}

impl State {
    /// The module behind a handle, loaded now if it was not yet.
    pub(crate) fn module(&mut self, handle: usize) -> Hip<Arc<Module>> {
        let slot = self.modules.get(handle).ok_or(Error::InvalidHandle)?;
        if let Some(module) = &slot.module {
            return module.clone();
        }
        let bytes = slot.bytes;
        let loaded = bytes.and_then(|bytes| self.load(bytes));
        if let Ok(module) = &loaded {
            self.connect_managed(handle, module);
        }
        if let Some(slot) = self.modules.get_mut(handle) {
            slot.module = Some(loaded.clone());
        }
        loaded
    }

    fn load(&mut self, bytes: &[u8]) -> Hip<Arc<Module>> {
        match Module::load(bytes, self.memory()) {
            Ok(module) => {
                self.recorder.compiled_for(module.isa());
                Ok(module)
            }
            Err(error) => {
                let sentence = error.to_string();
                say(&sentence);
                self.recorder.fault(None, sentence, None);
                Err(match error {
                    LoadError::NoEntry(_) | LoadError::WrongTarget(_) => Error::NoBinaryForGpu,
                    LoadError::Memory(_) => Error::OutOfMemory,
                    LoadError::Undefined(_) => Error::SharedObjectSymbolNotFound,
                    _ => Error::InvalidImage,
                })
            }
        }
    }

    /// Point the device's pointers to the managed variables of a module at their memory.
    fn connect_managed(&self, handle: usize, module: &Module) {
        for variable in self.variables.values().filter(|v| v.module == handle) {
            if let (Some(at), Some((pointer, _))) =
                (variable.managed, module.symbol(&variable.name))
            {
                let _ = self.memory().write_bytes(pointer, &at.to_le_bytes());
            }
        }
    }

    /// The program's device variables that lie in the same code object as a kernel, by name.
    pub(crate) fn variables_beside(&self, kernel: &Arc<Kernel>) -> Vec<DeviceVariable> {
        let holds = |handle: usize| -> Option<&Arc<Module>> {
            let module = self.modules.get(handle)?.module.as_ref()?.as_ref().ok()?;
            Arc::ptr_eq(&module.kernel(&kernel.name)?, kernel).then_some(module)
        };
        let mut found: Vec<_> = self
            .variables
            .values()
            .filter_map(|variable| {
                let (address, bytes) = holds(variable.module)?.symbol(&variable.name)?;
                Some(DeviceVariable {
                    name: variable.name.clone(),
                    address,
                    bytes,
                })
            })
            .collect();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        found
    }

    fn load_from(&mut self, bytes: &[u8]) -> Hip<Address> {
        let module = self.load(bytes)?;
        Ok(Address(self.modules.add(Loaded::ready(module))))
    }
}

/// The bytes of a code object or bundle in the program's memory, whose length only it knows.
fn image_bytes(image: Address) -> Hip<Vec<u8>> {
    if image.is_null() {
        return Err(Error::InvalidValue);
    }
    // SAFETY: HIP's contract: a whole code object or bundle stands at `image`.
    unsafe {
        match image.bytes(4).as_slice() {
            b"\x7fELF" => {
                let len = elf_len(image).ok_or(Error::InvalidImage)?;
                Ok(image.bytes(len))
            }
            _ => crate::registration::bundle_bytes(image).map(<[u8]>::to_vec),
        }
    }
}

/// Length of the ELF file at `at`: its furthest section or table.
///
/// # Safety
/// A whole 64-bit little-endian ELF file stands there.
unsafe fn elf_len(at: Address) -> Option<usize> {
    // SAFETY: the caller's promise; header, section table and segments lie inside the file.
    unsafe {
        let head = at.bytes(64);
        let number = |bytes: &[u8], from: usize, len: usize| -> Option<usize> {
            let mut wide = [0u8; 8];
            wide.get_mut(..len)?
                .copy_from_slice(bytes.get(from..from.checked_add(len)?)?);
            usize::try_from(u64::from_le_bytes(wide)).ok()
        };
        let table =
            |offset: usize, entry: usize, count: usize, field: (usize, usize), skip: bool| {
                let mut end = offset.checked_add(entry.checked_mul(count)?)?;
                if offset == 0 || count == 0 {
                    return Some(0);
                }
                let bytes = Address(at.0.checked_add(offset)?).bytes(entry * count);
                for row in bytes.chunks_exact(entry) {
                    // Sections of type NOBITS (8) take no space in the file.
                    if skip && number(row, 4, 4)? == 8 {
                        continue;
                    }
                    end = end.max(number(row, field.0, 8)?.checked_add(number(row, field.1, 8)?)?);
                }
                Some(end)
            };
        let sections = table(
            number(&head, 0x28, 8)?,
            number(&head, 0x3a, 2)?,
            number(&head, 0x3c, 2)?,
            (0x18, 0x20),
            true,
        )?;
        let segments = table(
            number(&head, 0x20, 8)?,
            number(&head, 0x36, 2)?,
            number(&head, 0x38, 2)?,
            (0x08, 0x20),
            false,
        )?;
        Some(sections.max(segments).max(64))
    }
}

hip! {
    fn hipModuleLoad(module: Out<Address>, path: Text) {
        let path = path.get()?;
        let bytes = std::fs::read(&path).map_err(|error| {
            say(&format!("hipModuleLoad: {path} cannot be read: {error}"));
            Error::FileNotFound
        })?;
        let handle = lock().load_from(&bytes)?;
        module.set(handle)
    }

    fn hipModuleLoadData(module: Out<Address>, image: Address) {
        let bytes = image_bytes(image)?;
        let handle = lock().load_from(&bytes)?;
        module.set(handle)
    }

    fn hipModuleLoadDataEx(
        module: Out<Address>, image: Address, _count: u32, _options: *mut i32, _values: *mut *mut c_void,
    ) {
        let bytes = image_bytes(image)?;
        let handle = lock().load_from(&bytes)?;
        module.set(handle)
    }

    fn hipModuleUnload(module: Address) {
        lock().modules.remove(module.0).map(drop).ok_or(Error::InvalidHandle)
    }

    fn hipModuleGetFunction(function: Out<Address>, module: Address, name: Text) {
        let name = name.get()?;
        let mut state = lock();
        let kernel = state.module(module.0)?.kernel(&name).ok_or(Error::NotFound)?;
        let handle = state.kernels.add(kernel);
        function.set(Address(handle))
    }

    fn hipModuleGetGlobal(at: Out<u64>, bytes: Out<usize>, module: Address, name: Text) {
        let name = name.get()?;
        let (address, size) = lock().module(module.0)?.symbol(&name).ok_or(Error::NotFound)?;
        at.set_if_wanted(address);
        bytes.set_if_wanted(size as usize);
        Ok(())
    }
}
