//! Functions of HIP 5.2 that the simulated runtime does not have: textures, surfaces, arrays, graphs, contexts, peers,
//! memory pools, virtual memory, inter-process and external objects. A program that calls one gets
//! `hipErrorNotSupported` and a sentence instead of a failure to start.

use crate::error::{Error, Hip};
use crate::state::{lock, say};

fn refuse(function: &'static str) -> Hip {
    if lock().recorder.unsupported(function) {
        say(&format!(
            "{function} is not supported by the simulated runtime; the program gets hipErrorNotSupported"
        ));
    }
    Err(Error::NotSupported)
}

/// In the C calling convention the caller removes the arguments, so their number does not matter here.
macro_rules! unsupported {
    ($($name:ident)*) => {$(
        #[unsafe(no_mangle)]
        extern "C" fn $name() -> i32 {
            crate::abi::call(stringify!($name), || refuse(stringify!($name)))
        }
    )*};
}

unsupported! {
    hipArray3DCreate hipArrayCreate hipArrayDestroy hipBindTexture hipBindTexture2D hipBindTextureToArray
    hipBindTextureToMipmappedArray hipChooseDevice hipConfigureCall hipCreateTextureObject hipCtxCreate
    hipCtxDestroy hipCtxDisablePeerAccess hipCtxEnablePeerAccess hipCtxGetApiVersion hipCtxGetCacheConfig
    hipCtxGetCurrent hipCtxGetDevice hipCtxGetFlags hipCtxGetSharedMemConfig hipCtxPopCurrent hipCtxPushCurrent
    hipCtxSetCacheConfig hipCtxSetCurrent hipCtxSetSharedMemConfig hipCtxSynchronize hipDestroyExternalMemory
    hipDestroyExternalSemaphore hipDestroyTextureObject hipDeviceDisablePeerAccess hipDeviceEnablePeerAccess
    hipDeviceGetDefaultMemPool hipDeviceGetLimit hipDeviceGetMemPool hipDeviceGetP2PAttribute hipDeviceGetUuid
    hipDevicePrimaryCtxGetState hipDevicePrimaryCtxRelease hipDevicePrimaryCtxReset hipDevicePrimaryCtxRetain
    hipDevicePrimaryCtxSetFlags hipDeviceSetMemPool hipDrvMemcpy2DUnaligned hipDrvMemcpy3D hipDrvMemcpy3DAsync
    hipDrvPointerGetAttributes hipEnableActivityCallback hipExtGetLinkTypeAndHopCount
    hipExtLaunchMultiKernelMultiDevice hipExtStreamCreateWithCUMask hipExtStreamGetCUMask
    hipExternalMemoryGetMappedBuffer hipFreeArray hipFreeMipmappedArray hipGLGetDevices hipGetChannelDesc
    hipGetMipmappedArrayLevel hipGetTextureAlignmentOffset hipGetTextureObjectResourceDesc
    hipGetTextureObjectResourceViewDesc hipGetTextureObjectTextureDesc hipGetTextureReference
    hipGraphAddChildGraphNode hipGraphAddDependencies hipGraphAddEmptyNode hipGraphAddEventRecordNode
    hipGraphAddEventWaitNode hipGraphAddHostNode hipGraphAddKernelNode hipGraphAddMemcpyNode hipGraphAddMemcpyNode1D
    hipGraphAddMemcpyNodeFromSymbol hipGraphAddMemcpyNodeToSymbol hipGraphAddMemsetNode
    hipGraphChildGraphNodeGetGraph hipGraphClone hipGraphCreate hipGraphDestroy hipGraphDestroyNode
    hipGraphEventRecordNodeGetEvent hipGraphEventRecordNodeSetEvent hipGraphEventWaitNodeGetEvent
    hipGraphEventWaitNodeSetEvent hipGraphExecChildGraphNodeSetParams hipGraphExecDestroy
    hipGraphExecEventRecordNodeSetEvent hipGraphExecEventWaitNodeSetEvent hipGraphExecHostNodeSetParams
    hipGraphExecKernelNodeSetParams hipGraphExecMemcpyNodeSetParams hipGraphExecMemcpyNodeSetParams1D
    hipGraphExecMemcpyNodeSetParamsFromSymbol hipGraphExecMemcpyNodeSetParamsToSymbol
    hipGraphExecMemsetNodeSetParams hipGraphExecUpdate hipGraphGetEdges hipGraphGetNodes hipGraphGetRootNodes
    hipGraphHostNodeGetParams hipGraphHostNodeSetParams hipGraphInstantiate hipGraphInstantiateWithFlags
    hipGraphKernelNodeGetParams hipGraphKernelNodeSetParams hipGraphLaunch hipGraphMemcpyNodeGetParams
    hipGraphMemcpyNodeSetParams hipGraphMemcpyNodeSetParams1D hipGraphMemcpyNodeSetParamsFromSymbol
    hipGraphMemcpyNodeSetParamsToSymbol hipGraphMemsetNodeGetParams hipGraphMemsetNodeSetParams
    hipGraphNodeFindInClone hipGraphNodeGetDependencies hipGraphNodeGetDependentNodes hipGraphNodeGetType
    hipGraphRemoveDependencies hipGraphicsGLRegisterBuffer hipGraphicsGLRegisterImage hipGraphicsMapResources
    hipGraphicsResourceGetMappedPointer hipGraphicsSubResourceGetMappedArray hipGraphicsUnmapResources
    hipGraphicsUnregisterResource hipImportExternalMemory hipImportExternalSemaphore hipInitActivityCallback
    hipIpcCloseMemHandle hipIpcGetEventHandle hipIpcGetMemHandle hipIpcOpenEventHandle hipIpcOpenMemHandle
    hipLaunchByPtr hipLaunchCooperativeKernelMultiDevice hipLaunchCooperativeKernel_spt hipMalloc3D hipMalloc3DArray
    hipMallocArray hipMallocFromPoolAsync hipMallocMipmappedArray hipMemAddressFree hipMemAddressReserve
    hipMemCreate hipMemExportToShareableHandle hipMemGetAccess hipMemGetAllocationGranularity
    hipMemGetAllocationPropertiesFromHandle hipMemImportFromShareableHandle hipMemMap hipMemMapArrayAsync
    hipMemPoolCreate hipMemPoolDestroy hipMemPoolExportPointer hipMemPoolExportToShareableHandle hipMemPoolGetAccess
    hipMemPoolGetAttribute hipMemPoolImportFromShareableHandle hipMemPoolImportPointer hipMemPoolSetAccess
    hipMemPoolSetAttribute hipMemPoolTrimTo hipMemRangeGetAttribute hipMemRangeGetAttributes hipMemRelease
    hipMemRetainAllocationHandle hipMemSetAccess hipMemUnmap hipMemcpy2DFromArray hipMemcpy2DFromArrayAsync
    hipMemcpy2DFromArray_spt hipMemcpy2DToArray hipMemcpy2DToArrayAsync hipMemcpy2DToArray_spt hipMemcpy2D_spt
    hipMemcpy3D hipMemcpy3DAsync hipMemcpy3D_spt hipMemcpyAtoH hipMemcpyFromArray hipMemcpyFromSymbol_spt
    hipMemcpyHtoA hipMemcpyParam2D hipMemcpyParam2DAsync hipMemcpyPeer hipMemcpyPeerAsync hipMemcpyToArray
    hipMemcpyToSymbol_spt hipMemset2D_spt hipMemset3D hipMemset3DAsync hipMemset3D_spt hipMemset_spt
    hipMipmappedArrayCreate hipMipmappedArrayDestroy hipMipmappedArrayGetLevel hipModuleGetTexRef
    hipPointerGetAttribute hipRegisterActivityCallback hipRegisterApiCallback hipRemoveActivityCallback
    hipRemoveApiCallback hipSetupArgument hipSignalExternalSemaphoresAsync hipStreamAttachMemAsync
    hipStreamBeginCapture hipStreamEndCapture hipStreamGetCaptureInfo hipStreamGetCaptureInfo_v2
    hipStreamGetFlags_spt hipStreamGetPriority_spt hipStreamQuery_spt
    hipStreamUpdateCaptureDependencies hipStreamWaitEvent_spt hipStreamWaitValue32 hipStreamWaitValue64
    hipStreamWriteValue32 hipStreamWriteValue64 hipTexObjectCreate hipTexObjectDestroy hipTexObjectGetResourceDesc
    hipTexObjectGetResourceViewDesc hipTexObjectGetTextureDesc hipTexRefGetAddress hipTexRefGetAddressMode
    hipTexRefGetFilterMode hipTexRefGetFlags hipTexRefGetFormat hipTexRefGetMaxAnisotropy
    hipTexRefGetMipmapFilterMode hipTexRefGetMipmapLevelBias hipTexRefGetMipmapLevelClamp hipTexRefSetAddress
    hipTexRefSetAddress2D hipTexRefSetAddressMode hipTexRefSetArray hipTexRefSetBorderColor hipTexRefSetFilterMode
    hipTexRefSetFlags hipTexRefSetFormat hipTexRefSetMaxAnisotropy hipTexRefSetMipmapFilterMode
    hipTexRefSetMipmapLevelBias hipTexRefSetMipmapLevelClamp hipTexRefSetMipmappedArray
    hipThreadExchangeStreamCaptureMode hipUnbindTexture hipWaitExternalSemaphoresAsync
}
