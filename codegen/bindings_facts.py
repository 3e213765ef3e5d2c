"""Facts about the Python bindings that no header tells: types of attribute values, sizes of buffers, callback shapes."""

from __future__ import annotations

# Modules that return bare values and raise: prefix of their C names.
PYTHON_STYLE: dict[str, str] = {}


def module_name(library: str) -> str:
    return f"cuda.bindings.{library}"


# A buffer and the parameter with the number of bytes the callee reads or writes there.
SIZED_BUFFERS = {
    "cuMemcpyHtoD.srcHost": "ByteCount", "cuMemcpyHtoDAsync.srcHost": "ByteCount",
    "cuMemcpyDtoH.dstHost": "ByteCount", "cuMemcpyDtoHAsync.dstHost": "ByteCount",
    "cuMemcpyHtoA.srcHost": "ByteCount", "cuMemcpyHtoAAsync.srcHost": "ByteCount",
    "cuMemcpyAtoH.dstHost": "ByteCount", "cuMemcpyAtoHAsync.dstHost": "ByteCount",
    "cuMemHostRegister.p": "bytesize", "cuLinkAddData.data": "size", "cuParamSetv.ptr": "numbytes",
    "cuLogsDumpToMemory.buffer": "size", "cudaLogsDumpToMemory.buffer": "size",
    "cudaMemcpy.src": "count", "cudaMemcpy.dst": "count",
    "cudaMemcpyAsync.src": "count", "cudaMemcpyAsync.dst": "count",
    "cudaHostRegister.ptr": "size", "cudaMemcpyToArray.src": "count", "cudaMemcpyFromArray.dst": "count",
}  # fmt: skip

# A buffer that is filled, and the function that says how large it must be.
FILL_SIZES = {
    "nvrtcGetPTX.ptx": "nvrtcGetPTXSize", "nvrtcGetCUBIN.cubin": "nvrtcGetCUBINSize",
    "nvrtcGetLTOIR.LTOIR": "nvrtcGetLTOIRSize", "nvrtcGetOptiXIR.optixir": "nvrtcGetOptiXIRSize",
    "nvrtcGetProgramLog.log": "nvrtcGetProgramLogSize", "nvrtcGetTileIR.TileIR": "nvrtcGetTileIRSize",
}  # fmt: skip

# An array that comes back, and the function that says how many elements it has.
ASKED_COUNTS = {"nvrtcGetSupportedArchs.supportedArchs": "nvrtcGetNumSupportedArchs"}

# Shapes of callbacks that a Python callable may stand for (CallbackShape in engine.hpp), by parameter or by type.
CALLBACKS = {
    "CUhostFn": "host", "cudaHostFn_t": "host", "CUstreamCallback": "stream", "cudaStreamCallback_t": "stream",
    "CUoccupancyB2DSize": "occupancy", "CUlogsCallback": "logs", "cudaLogsCallback_t": "logs",
    "cuUserObjectCreate.destroy": "destroy", "cudaUserObjectCreate.destroy": "destroy",
}  # fmt: skip

_JIT = {"CU_JIT_WALL_TIME": "float"}
_HANDLE_TYPES = {
    "CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR": "int", "CU_MEM_HANDLE_TYPE_WIN32": "void *",
    "CU_MEM_HANDLE_TYPE_WIN32_KMT": "unsigned int", "CU_MEM_HANDLE_TYPE_FABRIC": "CUmemFabricHandle",
}  # fmt: skip
_POOL = {
    "REUSE_FOLLOW_EVENT_DEPENDENCIES": "int", "REUSE_ALLOW_OPPORTUNISTIC": "int", "REUSE_ALLOW_INTERNAL_DEPENDENCIES": "int",
    "RELEASE_THRESHOLD": "cuuint64_t", "RESERVED_MEM_CURRENT": "cuuint64_t", "RESERVED_MEM_HIGH": "cuuint64_t",
    "USED_MEM_CURRENT": "cuuint64_t", "USED_MEM_HIGH": "cuuint64_t", "ALLOCATION_TYPE": "CUmemAllocationType",
    "EXPORT_HANDLE_TYPES": "CUmemAllocationHandleType", "LOCATION_ID": "int", "LOCATION_TYPE": "CUmemLocationType",
    "MAX_POOL_SIZE": "cuuint64_t", "HW_DECOMPRESS_ENABLED": "int",
}  # fmt: skip

# What an attribute's value is, in C. Anything not listed comes back as a plain 64-bit integer.
ATTRIBUTES: dict[str, dict[str, dict[str, str]]] = {
    "driver": {
        "CUpointer_attribute": {
            "CU_POINTER_ATTRIBUTE_CONTEXT": "CUcontext", "CU_POINTER_ATTRIBUTE_MEMORY_TYPE": "CUmemorytype",
            "CU_POINTER_ATTRIBUTE_DEVICE_POINTER": "CUdeviceptr", "CU_POINTER_ATTRIBUTE_HOST_POINTER": "void *",
            "CU_POINTER_ATTRIBUTE_P2P_TOKENS": "CUDA_POINTER_ATTRIBUTE_P2P_TOKENS",
            "CU_POINTER_ATTRIBUTE_SYNC_MEMOPS": "bool", "CU_POINTER_ATTRIBUTE_BUFFER_ID": "unsigned long long",
            "CU_POINTER_ATTRIBUTE_IS_MANAGED": "bool", "CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL": "int",
            "CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE": "bool",
            "CU_POINTER_ATTRIBUTE_RANGE_START_ADDR": "CUdeviceptr", "CU_POINTER_ATTRIBUTE_RANGE_SIZE": "size_t",
            "CU_POINTER_ATTRIBUTE_MAPPED": "bool", "CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES": "CUmemAllocationHandleType",
            "CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE": "bool",
            "CU_POINTER_ATTRIBUTE_ACCESS_FLAGS": "CUDA_POINTER_ATTRIBUTE_ACCESS_FLAGS",
            "CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE": "CUmemoryPool", "CU_POINTER_ATTRIBUTE_MAPPING_SIZE": "size_t",
            "CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR": "void *",
            "CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID": "unsigned long long",
            "CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE": "bool",
        },
        "CUmemPool_attribute": {f"CU_MEMPOOL_ATTR_{k}": v for k, v in _POOL.items()},
        "CUgraphMem_attribute": {
            f"CU_GRAPH_MEM_ATTR_{k}": "cuuint64_t"
            for k in ("USED_MEM_CURRENT", "USED_MEM_HIGH", "RESERVED_MEM_CURRENT", "RESERVED_MEM_HIGH")
        },
        "CUmem_range_attribute": {
            "CU_MEM_RANGE_ATTRIBUTE_READ_MOSTLY": "int", "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION": "int",
            "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION": "int",
            "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE": "CUmemLocationType",
            "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID": "int",
            "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE": "CUmemLocationType",
            "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID": "int",
        },
        "CUmemAllocationHandleType": _HANDLE_TYPES,
        "CUmemRangeHandleType": {"CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD": "int"},
        "CUcoredumpSettings": {
            "CU_COREDUMP_ENABLE_ON_EXCEPTION": "unsigned char", "CU_COREDUMP_TRIGGER_HOST": "unsigned char",
            "CU_COREDUMP_LIGHTWEIGHT": "unsigned char", "CU_COREDUMP_ENABLE_USER_TRIGGER": "unsigned char",
            "CU_COREDUMP_FILE": "char[1024]", "CU_COREDUMP_PIPE": "char[1024]", "CU_COREDUMP_GENERATION_FLAGS": "int",
        },
        "CUjit_option": _JIT,
    },
    "runtime": {
        "cudaMemPoolAttr": {
            "cudaMemPoolReuseFollowEventDependencies": "int", "cudaMemPoolReuseAllowOpportunistic": "int",
            "cudaMemPoolReuseAllowInternalDependencies": "int",
            **{f"cudaMemPoolAttr{k}": "cuuint64_t" for k in ("ReleaseThreshold", "ReservedMemCurrent", "ReservedMemHigh",
                                                            "UsedMemCurrent", "UsedMemHigh")},
        },
        "cudaGraphMemAttributeType": {
            f"cudaGraphMemAttr{k}": "cuuint64_t" for k in ("UsedMemCurrent", "UsedMemHigh", "ReservedMemCurrent", "ReservedMemHigh")
        },
        "cudaMemRangeAttribute": {
            "cudaMemRangeAttributeReadMostly": "int", "cudaMemRangeAttributePreferredLocation": "int",
            "cudaMemRangeAttributeLastPrefetchLocation": "int",
            "cudaMemRangeAttributePreferredLocationType": "cudaMemLocationType",
            "cudaMemRangeAttributePreferredLocationId": "int",
            "cudaMemRangeAttributeLastPrefetchLocationType": "cudaMemLocationType",
            "cudaMemRangeAttributeLastPrefetchLocationId": "int",
        },
        "cudaMemAllocationHandleType": {
            "cudaMemHandleTypePosixFileDescriptor": "int", "cudaMemHandleTypeWin32": "void *",
            "cudaMemHandleTypeWin32Kmt": "unsigned int", "cudaMemHandleTypeFabric": "cudaMemFabricHandle_t",
        },
    },
}  # fmt: skip
