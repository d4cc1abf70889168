//! HIP's error codes, with the values of its 5.2 headers, and the functions that report them.

use std::ffi::c_char;

use crate::abi::{last_error, take_last_error};
use crate::state;

/// A HIP error code other than success.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Error(pub(crate) i32);

/// What a function of the API gives back.
pub(crate) type Hip<T = ()> = Result<T, Error>;

macro_rules! codes {
    ($($name:ident = $code:literal, $text:literal;)*) => {
        #[allow(dead_code, non_upper_case_globals)] // The whole list, as the headers have it.
        impl Error {
            $(pub(crate) const $name: Self = Self($code);)*
        }
        fn name(code: i32) -> &'static std::ffi::CStr {
            match code {
                0 => c"hipSuccess",
                $($code => $text,)*
                _ => c"hipErrorUnknown",
            }
        }
    };
}

codes! {
    InvalidValue = 1, c"hipErrorInvalidValue";
    OutOfMemory = 2, c"hipErrorOutOfMemory";
    NotInitialized = 3, c"hipErrorNotInitialized";
    Deinitialized = 4, c"hipErrorDeinitialized";
    ProfilerDisabled = 5, c"hipErrorProfilerDisabled";
    ProfilerNotInitialized = 6, c"hipErrorProfilerNotInitialized";
    ProfilerAlreadyStarted = 7, c"hipErrorProfilerAlreadyStarted";
    ProfilerAlreadyStopped = 8, c"hipErrorProfilerAlreadyStopped";
    InvalidConfiguration = 9, c"hipErrorInvalidConfiguration";
    InvalidPitchValue = 12, c"hipErrorInvalidPitchValue";
    InvalidSymbol = 13, c"hipErrorInvalidSymbol";
    InvalidDevicePointer = 17, c"hipErrorInvalidDevicePointer";
    InvalidMemcpyDirection = 21, c"hipErrorInvalidMemcpyDirection";
    InsufficientDriver = 35, c"hipErrorInsufficientDriver";
    MissingConfiguration = 52, c"hipErrorMissingConfiguration";
    PriorLaunchFailure = 53, c"hipErrorPriorLaunchFailure";
    InvalidDeviceFunction = 98, c"hipErrorInvalidDeviceFunction";
    NoDevice = 100, c"hipErrorNoDevice";
    InvalidDevice = 101, c"hipErrorInvalidDevice";
    InvalidImage = 200, c"hipErrorInvalidImage";
    InvalidContext = 201, c"hipErrorInvalidContext";
    ContextAlreadyCurrent = 202, c"hipErrorContextAlreadyCurrent";
    MapFailed = 205, c"hipErrorMapFailed";
    UnmapFailed = 206, c"hipErrorUnmapFailed";
    ArrayIsMapped = 207, c"hipErrorArrayIsMapped";
    AlreadyMapped = 208, c"hipErrorAlreadyMapped";
    NoBinaryForGpu = 209, c"hipErrorNoBinaryForGpu";
    AlreadyAcquired = 210, c"hipErrorAlreadyAcquired";
    NotMapped = 211, c"hipErrorNotMapped";
    NotMappedAsArray = 212, c"hipErrorNotMappedAsArray";
    NotMappedAsPointer = 213, c"hipErrorNotMappedAsPointer";
    ECCNotCorrectable = 214, c"hipErrorECCNotCorrectable";
    UnsupportedLimit = 215, c"hipErrorUnsupportedLimit";
    ContextAlreadyInUse = 216, c"hipErrorContextAlreadyInUse";
    PeerAccessUnsupported = 217, c"hipErrorPeerAccessUnsupported";
    InvalidKernelFile = 218, c"hipErrorInvalidKernelFile";
    InvalidGraphicsContext = 219, c"hipErrorInvalidGraphicsContext";
    InvalidSource = 300, c"hipErrorInvalidSource";
    FileNotFound = 301, c"hipErrorFileNotFound";
    SharedObjectSymbolNotFound = 302, c"hipErrorSharedObjectSymbolNotFound";
    SharedObjectInitFailed = 303, c"hipErrorSharedObjectInitFailed";
    OperatingSystem = 304, c"hipErrorOperatingSystem";
    InvalidHandle = 400, c"hipErrorInvalidHandle";
    IllegalState = 401, c"hipErrorIllegalState";
    NotFound = 500, c"hipErrorNotFound";
    NotReady = 600, c"hipErrorNotReady";
    IllegalAddress = 700, c"hipErrorIllegalAddress";
    LaunchOutOfResources = 701, c"hipErrorLaunchOutOfResources";
    LaunchTimeOut = 702, c"hipErrorLaunchTimeOut";
    PeerAccessAlreadyEnabled = 704, c"hipErrorPeerAccessAlreadyEnabled";
    PeerAccessNotEnabled = 705, c"hipErrorPeerAccessNotEnabled";
    SetOnActiveProcess = 708, c"hipErrorSetOnActiveProcess";
    ContextIsDestroyed = 709, c"hipErrorContextIsDestroyed";
    Assert = 710, c"hipErrorAssert";
    HostMemoryAlreadyRegistered = 712, c"hipErrorHostMemoryAlreadyRegistered";
    HostMemoryNotRegistered = 713, c"hipErrorHostMemoryNotRegistered";
    LaunchFailure = 719, c"hipErrorLaunchFailure";
    CooperativeLaunchTooLarge = 720, c"hipErrorCooperativeLaunchTooLarge";
    NotSupported = 801, c"hipErrorNotSupported";
    StreamCaptureUnsupported = 900, c"hipErrorStreamCaptureUnsupported";
    StreamCaptureInvalidated = 901, c"hipErrorStreamCaptureInvalidated";
    StreamCaptureMerge = 902, c"hipErrorStreamCaptureMerge";
    StreamCaptureUnmatched = 903, c"hipErrorStreamCaptureUnmatched";
    StreamCaptureUnjoined = 904, c"hipErrorStreamCaptureUnjoined";
    StreamCaptureIsolation = 905, c"hipErrorStreamCaptureIsolation";
    StreamCaptureImplicit = 906, c"hipErrorStreamCaptureImplicit";
    CapturedEvent = 907, c"hipErrorCapturedEvent";
    StreamCaptureWrongThread = 908, c"hipErrorStreamCaptureWrongThread";
    GraphExecUpdateFailure = 910, c"hipErrorGraphExecUpdateFailure";
    Unknown = 999, c"hipErrorUnknown";
    RuntimeMemory = 1052, c"hipErrorRuntimeMemory";
    RuntimeOther = 1053, c"hipErrorRuntimeOther";
    Tbd = 1054, c"hipErrorTbd";
}

/// Since a faulted device stays faulted, its error outlives being read.
fn sticky() -> i32 {
    state::lock().sticky.map_or(0, |e| e.0)
}

#[unsafe(no_mangle)]
extern "C" fn hipGetLastError() -> i32 {
    match take_last_error() {
        0 => sticky(),
        code => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipPeekAtLastError() -> i32 {
    match last_error() {
        0 => sticky(),
        code => code,
    }
}

#[unsafe(no_mangle)]
extern "C" fn hipGetErrorName(code: i32) -> *const c_char {
    name(code).as_ptr()
}

/// HIP 5.2 gives the name here too.
#[unsafe(no_mangle)]
extern "C" fn hipGetErrorString(code: i32) -> *const c_char {
    name(code).as_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_have_hips_names() {
        assert_eq!(
            name(Error::LaunchFailure.0).to_str(),
            Ok("hipErrorLaunchFailure")
        );
        assert_eq!(name(0).to_str(), Ok("hipSuccess"));
        assert_eq!(name(-5).to_str(), Ok("hipErrorUnknown"));
    }
}
