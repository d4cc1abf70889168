//! The border to C: how functions are exported, and the pointers that cross it.

use std::cell::Cell;
use std::ffi::{CStr, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::error::{Error, Hip};
use crate::state;

thread_local! {
    static LAST_ERROR: Cell<i32> = const { Cell::new(0) };
}

/// The calling thread's last error, 0 without one.
pub(crate) fn last_error() -> i32 {
    LAST_ERROR.get()
}

/// As [`last_error`], and forget it.
pub(crate) fn take_last_error() -> i32 {
    LAST_ERROR.replace(0)
}

/// Run the body of an exported function: its error becomes the thread's last error, and a fault of ours becomes an
/// error code instead of unwinding into C.
pub(crate) fn call(function: &str, body: impl FnOnce() -> Hip) -> i32 {
    let result = catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        state::say(&format!(
            "{function} failed inside the simulated runtime; this is a fault of hipsmith, please report it"
        ));
        Err(Error::Unknown)
    });
    match result {
        Ok(()) => 0,
        Err(error) => {
            if error != Error::NotReady {
                LAST_ERROR.set(error.0);
            }
            error.0
        }
    }
}

/// Export functions of the HIP API that return a `hipError_t`.
macro_rules! hip {
    ($($(#[$meta:meta])* fn $name:ident($($arg:ident: $type:ty),* $(,)?) $body:block)*) => {$(
        $(#[$meta])*
        #[unsafe(no_mangle)]
        extern "C" fn $name($($arg: $type),*) -> i32 {
            $crate::abi::call(stringify!($name), move || -> $crate::error::Hip { $body })
        }
    )*};
}

/// A pointer that the caller wants something written through.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Out<T> {
    /// Whether the caller passed null.
    pub(crate) fn is_null(&self) -> bool {
        self.0.is_null()
    }
    /// Write; a null pointer is HIP's invalid value.
    pub(crate) fn set(self, value: T) -> Hip {
        if self.0.is_null() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: HIP's contract: a pointer for a result points to writable memory of the result's type.
        unsafe { self.0.write(value) };
        Ok(())
    }
    /// Write unless the caller passed null.
    pub(crate) fn set_if_wanted(self, value: T) {
        if !self.0.is_null() {
            // SAFETY: as in `set`.
            unsafe { self.0.write(value) };
        }
    }
}

/// A C string that the caller passes in.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(crate) struct Text(*const c_char);

impl Text {
    /// Its text, lossily decoded; null is HIP's invalid value.
    pub(crate) fn get(self) -> Hip<String> {
        if self.0.is_null() {
            return Err(Error::InvalidValue);
        }
        // SAFETY: HIP's contract: names are null-terminated strings.
        Ok(unsafe { CStr::from_ptr(self.0) }
            .to_string_lossy()
            .into_owned())
    }
}

/// An address that the caller passes in: of the host, of the device, or an opaque handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub(crate) struct Address(pub(crate) usize);

impl Address {
    /// Whether it is null.
    pub(crate) fn is_null(self) -> bool {
        self.0 == 0
    }
    /// As the simulator counts addresses.
    pub(crate) fn device(self) -> u64 {
        self.0 as u64
    }
    /// The `len` bytes that stand here.
    ///
    /// # Safety
    /// They are readable, and nobody writes them meanwhile.
    pub(crate) unsafe fn bytes(self, len: usize) -> Vec<u8> {
        let mut bytes = vec![0; len];
        // SAFETY: the caller's promise.
        unsafe { std::ptr::copy_nonoverlapping(self.0 as *const u8, bytes.as_mut_ptr(), len) };
        bytes
    }
    /// The pointer that stands at position `index` of the array that begins here.
    ///
    /// # Safety
    /// The array has that many pointers.
    pub(crate) unsafe fn pointer(self, index: usize) -> Self {
        // SAFETY: the caller's promise.
        unsafe { (self.0 as *const Self).add(index).read_unaligned() }
    }
}

/// HIP's `dim3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Dim3 {
    pub(crate) x: u32,
    pub(crate) y: u32,
    pub(crate) z: u32,
}

impl From<Dim3> for [u32; 3] {
    fn from(d: Dim3) -> Self {
        [d.x, d.y, d.z]
    }
}

/// Copy text into a C buffer of `len` bytes, cut to fit and null-terminated.
pub(crate) fn set_text(into: Address, len: i32, text: &str) -> Hip {
    let len = usize::try_from(len).map_err(|_| Error::InvalidValue)?;
    if into.is_null() || len == 0 {
        return Err(Error::InvalidValue);
    }
    let cut = text.len().min(len - 1);
    // SAFETY: HIP's contract: the buffer has `len` bytes.
    unsafe {
        std::ptr::copy_nonoverlapping(text.as_ptr(), into.0 as *mut u8, cut);
        (into.0 as *mut u8).add(cut).write(0);
    }
    Ok(())
}
