//! What the compiler makes a program say about its device code before `main`.

use std::sync::Arc;

use hipsmith_simulator::Kernel;

use crate::abi::{Address, Dim3, Text, call};
use crate::error::{Error, Hip};
use crate::module::Loaded;
use crate::state::{State, lock, say};

/// A kernel inside the program.
#[derive(Clone)]
pub(crate) struct Function {
    module: usize,
    name: Arc<str>,
}

/// A device variable inside the program.
#[derive(Clone)]
pub(crate) struct Variable {
    pub(crate) module: usize,
    pub(crate) name: Arc<str>,
    /// Managed memory that the device's pointer of this name must point to.
    pub(crate) managed: Option<u64>,
}

/// The magic number of the wrapper around a program's device code: `HIPF`.
const WRAPPER_MAGIC: u32 = 0x4849_5046;

#[repr(C)]
struct Wrapper {
    magic: u32,
    version: u32,
    bundle: Address,
    unused: Address,
}

/// The bytes of an offload bundle, whose length stands nowhere but in its own table.
///
/// # Safety
/// A bundle or a code object that the compiler wrote stands at `at` and stays there.
pub(crate) unsafe fn bundle_bytes(at: Address) -> Hip<&'static [u8]> {
    const MAGIC: &[u8] = b"__CLANG_OFFLOAD_BUNDLE__";
    const MOST_ENTRIES: u64 = 256;
    // SAFETY: the caller's promise; every bundle is longer than its magic and count.
    let head = unsafe { at.bytes(MAGIC.len() + 8) };
    if !head.starts_with(MAGIC) {
        return Err(Error::InvalidImage);
    }
    let number = |offset: usize| -> u64 {
        // SAFETY: the caller's promise; only fields inside the table are read.
        unsafe { ((at.0 + offset) as *const u64).read_unaligned() }
    };
    let entries = number(MAGIC.len());
    if entries > MOST_ENTRIES {
        return Err(Error::InvalidImage);
    }
    let mut cursor = MAGIC.len() + 8;
    let mut end = cursor as u64;
    for _ in 0..entries {
        let (offset, size, name) = (number(cursor), number(cursor + 8), number(cursor + 16));
        cursor += 24 + usize::try_from(name.min(4096)).unwrap_or(0);
        end = end.max(offset.saturating_add(size)).max(cursor as u64);
    }
    let end = usize::try_from(end).map_err(|_| Error::InvalidImage)?;
    // SAFETY: the caller's promise; the table says that the bundle reaches so far.
    Ok(unsafe { std::slice::from_raw_parts(at.0 as *const u8, end) })
}

/// Returns a handle that the other registrations give back; the code is loaded when it is first needed.
#[unsafe(no_mangle)]
extern "C" fn __hipRegisterFatBinary(wrapper: Address) -> Address {
    let mut handle = 0;
    call("__hipRegisterFatBinary", || {
        if wrapper.is_null() {
            return Err(Error::InvalidImage);
        }
        // SAFETY: the compiler passes the address of its own static wrapper.
        let wrapper = unsafe { &*(wrapper.0 as *const Wrapper) };
        let bytes = if wrapper.magic == WRAPPER_MAGIC && wrapper.version >= 1 {
            // SAFETY: the wrapper points to the program's own device code.
            unsafe { bundle_bytes(wrapper.bundle) }
        } else {
            Err(Error::InvalidImage)
        };
        let mut state = lock();
        if bytes.is_err() {
            let sentence = "the program's device code has a form that is not known (a compressed bundle?); compile with hipcc --offload-arch=gfx906 and without --offload-compress";
            state.recorder.fault(None, sentence.to_owned(), None);
            say(sentence);
        }
        handle = state.modules.add(Loaded::embedded(bytes));
        state.recorder.write_now_and_then();
        Ok(())
    });
    Address(handle)
}

#[unsafe(no_mangle)]
extern "C" fn __hipUnregisterFatBinary(_module: Address) {
    // Called while the program ends: destructors that still launch or copy must find everything.
}

#[unsafe(no_mangle)]
extern "C" fn __hipRegisterFunction(
    module: Address,
    stub: Address,
    _device_function: Address,
    name: Text,
    _thread_limit: u32,
    _thread: Address,
    _block: Address,
    _block_dim: Address,
    _grid_dim: Address,
    _warp_size: Address,
) {
    call("__hipRegisterFunction", || {
        let function = Function {
            module: module.0,
            name: name.get()?.into(),
        };
        lock().functions.insert(stub.0, function);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn __hipRegisterVar(
    module: Address,
    shadow: Address,
    _host_name: Address,
    name: Text,
    _external: i32,
    _bytes: usize,
    _constant: i32,
    _global: i32,
) {
    call("__hipRegisterVar", || {
        let variable = Variable {
            module: module.0,
            name: name.get()?.into(),
            managed: None,
        };
        lock().variables.insert(shadow.0, variable);
        Ok(())
    });
}

/// A `__managed__` variable: host and device both hold a pointer to it. `pointer` is the host's.
#[unsafe(no_mangle)]
extern "C" fn __hipRegisterManagedVar(
    module: Address,
    pointer: Address,
    initial: Address,
    name: Text,
    bytes: usize,
    _alignment: u32,
) {
    call("__hipRegisterManagedVar", || {
        let name: Arc<str> = name.get()?.into();
        let mut state = lock();
        let label = format!("__managed__ {name}");
        let at = state
            .memory()
            .alloc(bytes as u64, label)
            .map_err(|_| Error::OutOfMemory)?;
        if !initial.is_null() {
            // SAFETY: the compiler passes the variable's initial value, of its size.
            let value = unsafe { initial.bytes(bytes) };
            state
                .memory()
                .write_bytes(at, &value)
                .map_err(|_| Error::InvalidValue)?;
        }
        if !pointer.is_null() {
            // SAFETY: the compiler passes the address of its host-side pointer to the variable.
            unsafe { (pointer.0 as *mut u64).write(at) };
        }
        let variable = Variable {
            module: module.0,
            name,
            managed: Some(at),
        };
        state.variables.insert(pointer.0, variable);
        Ok(())
    });
}

#[unsafe(no_mangle)]
extern "C" fn __hipRegisterSurface(
    _module: Address,
    _variable: Address,
    _host_name: Address,
    name: Text,
    _kind: i32,
    _external: i32,
) {
    images_are_missing("surface", name);
}

#[unsafe(no_mangle)]
extern "C" fn __hipRegisterTexture(
    _module: Address,
    _variable: Address,
    _host_name: Address,
    name: Text,
    _kind: i32,
    _normalized: i32,
    _external: i32,
) {
    images_are_missing("texture", name);
}

fn images_are_missing(what: &str, name: Text) {
    call("__hipRegisterTexture", || {
        let name = name.get()?;
        let sentence = format!(
            "the program declares the {what} reference {name}; the simulated runtime has no {what}s, and using it will fail"
        );
        say(&sentence);
        lock().recorder.note(sentence);
        Ok(())
    });
}

impl State {
    /// The kernel behind a host stub or a `hipFunction_t`.
    pub(crate) fn kernel(&mut self, function: Address) -> Hip<Arc<Kernel>> {
        if let Some(kernel) = self.kernels.get(function.0) {
            return Ok(kernel.clone());
        }
        let Some(Function { module, name }) = self.functions.get(&function.0).cloned() else {
            return Err(Error::InvalidDeviceFunction);
        };
        let module = self.module(module)?;
        module.kernel(&name).ok_or_else(|| {
            let sentence = format!(
                "the program's device code for {} has no kernel {name}; the object files were compiled for different targets",
                module.isa()
            );
            say(&sentence);
            self.recorder.fault(Some(&name), sentence, None);
            Error::InvalidDeviceFunction
        })
    }

    /// Device address and size in bytes of a variable, by the address of its host shadow.
    pub(crate) fn variable(&mut self, shadow: Address) -> Hip<(u64, u64)> {
        let Some(Variable {
            module,
            name,
            managed,
        }) = self.variables.get(&shadow.0).cloned()
        else {
            return Err(Error::InvalidSymbol);
        };
        if let Some(allocation) = managed.and_then(|at| self.memory().find(at)) {
            return Ok((allocation.base, allocation.len));
        }
        self.module(module)?
            .symbol(&name)
            .ok_or(Error::InvalidSymbol)
    }
}

thread_local! {
    static CONFIGURATIONS: std::cell::RefCell<Vec<Configuration>> =
        const { std::cell::RefCell::new(Vec::new()) };
}

/// What stands between `<<<` and `>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    dynamic_lds: usize,
    stream: Address,
}

hip! {
    fn __hipPushCallConfiguration(grid: Dim3, block: Dim3, dynamic_lds: usize, stream: Address) {
        CONFIGURATIONS.with_borrow_mut(|stack| stack.push(Configuration { grid, block, dynamic_lds, stream }));
        Ok(())
    }

    fn __hipPopCallConfiguration(
        grid: crate::abi::Out<Dim3>,
        block: crate::abi::Out<Dim3>,
        dynamic_lds: crate::abi::Out<usize>,
        stream: crate::abi::Out<Address>,
    ) {
        let top = CONFIGURATIONS.with_borrow_mut(Vec::pop).ok_or(Error::MissingConfiguration)?;
        grid.set(top.grid)?;
        block.set(top.block)?;
        dynamic_lds.set(top.dynamic_lds)?;
        stream.set(top.stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bundle() -> Vec<u8> {
        let mut bytes = b"__CLANG_OFFLOAD_BUNDLE__".to_vec();
        let name = b"hipv4-amdgcn-amd-amdhsa--gfx906";
        for number in [1u64, 128, 40, name.len() as u64] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(name);
        bytes.resize(128 + 40 + 8, 7);
        bytes
    }

    #[test]
    fn a_bundle_tells_its_own_length() {
        let bytes = bundle();
        // SAFETY: a whole bundle stands there for the time of the test.
        let found = unsafe { bundle_bytes(Address(bytes.as_ptr() as usize)) }.unwrap();
        assert_eq!(found.len(), 168);
    }

    #[test]
    fn what_is_no_bundle_is_an_error() {
        let bytes = [0u8; 64];
        // SAFETY: more bytes stand there than are looked at.
        let found = unsafe { bundle_bytes(Address(bytes.as_ptr() as usize)) };
        assert_eq!(found.unwrap_err(), Error::InvalidImage);
    }
}
