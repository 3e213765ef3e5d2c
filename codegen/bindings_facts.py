# SPDX-License-Identifier: Apache-2.0
"""Facts about the Python bindings that headers do not contain: attribute value types, buffer sizes, callback shapes."""

from __future__ import annotations


def module_name(library: str) -> str:
    return f"cuda.bindings.{library}"


# Buffer -> parameter with the number of bytes that the function reads or writes.
SIZED_BUFFERS = {
    "cuMemcpyHtoD.srcHost": "ByteCount", "cuMemcpyHtoDAsync.srcHost": "ByteCount",
    "cuMemcpyDtoH.dstHost": "ByteCount", "cuMemcpyDtoHAsync.dstHost": "ByteCount",
    "cuMemcpyHtoA.srcHost": "ByteCount", "cuMemcpyHtoAAsync.srcHost": "ByteCount",
    "cuMemcpyAtoH.dstHost": "ByteCount", "cuMemcpyAtoHAsync.dstHost": "ByteCount",
    "cuMemHostRegister.p": "bytesize", "cuLinkAddData.data": "size", "cuParamSetv.ptr": "numbytes",
    "nvJitLinkAddData.data": "size", "nvvmAddModuleToProgram.buffer": "size", "nvvmLazyAddModuleToProgram.buffer": "size",
    "nvFatbinAddCubin.code": "size", "nvFatbinAddIndex.code": "size", "nvFatbinAddLTOIR.code": "size",
    "nvFatbinAddPTX.code": "size", "nvFatbinAddReloc.code": "size", "nvFatbinAddTileIR.code": "size",
    "cuLogsDumpToMemory.buffer": "size", "cudaLogsDumpToMemory.buffer": "size",
    "cudaMemcpy.src": "count", "cudaMemcpy.dst": "count",
    "cudaMemcpyAsync.src": "count", "cudaMemcpyAsync.dst": "count",
    "cudaHostRegister.ptr": "size", "cudaMemcpyToArray.src": "count", "cudaMemcpyFromArray.dst": "count",
    "cudaMemcpyToArrayAsync.src": "count", "cudaMemcpyFromArrayAsync.dst": "count",
}  # fmt: skip

# Pitched buffer -> pitch, width and height of the rectangle.
RECTANGLES = {
    "cudaMemcpy2D.dst": "dpitch width height", "cudaMemcpy2D.src": "spitch width height",
    "cudaMemcpy2DAsync.dst": "dpitch width height", "cudaMemcpy2DAsync.src": "spitch width height",
    "cudaMemcpy2DToArray.src": "spitch width height", "cudaMemcpy2DToArrayAsync.src": "spitch width height",
    "cudaMemcpy2DFromArray.dst": "dpitch width height", "cudaMemcpy2DFromArrayAsync.dst": "dpitch width height",
}  # fmt: skip

# Output buffer -> function that returns its required size.
FILL_SIZES = {
    "nvrtcGetPTX.ptx": "nvrtcGetPTXSize", "nvrtcGetCUBIN.cubin": "nvrtcGetCUBINSize",
    "nvrtcGetLTOIR.LTOIR": "nvrtcGetLTOIRSize", "nvrtcGetOptiXIR.optixir": "nvrtcGetOptiXIRSize",
    "nvrtcGetProgramLog.log": "nvrtcGetProgramLogSize", "nvrtcGetTileIR.TileIR": "nvrtcGetTileIRSize",
    "nvJitLinkGetErrorLog.log": "nvJitLinkGetErrorLogSize", "nvJitLinkGetInfoLog.log": "nvJitLinkGetInfoLogSize",
    "nvJitLinkGetLinkedCubin.cubin": "nvJitLinkGetLinkedCubinSize", "nvJitLinkGetLinkedPtx.ptx": "nvJitLinkGetLinkedPtxSize",
    "nvJitLinkGetLinkedLTOIR.ltoir": "nvJitLinkGetLinkedLTOIRSize", "nvFatbinGet.buffer": "nvFatbinSize",
    "nvvmGetCompiledResult.buffer": "nvvmGetCompiledResultSize", "nvvmGetProgramLog.buffer": "nvvmGetProgramLogSize",
}  # fmt: skip

# NVML: functions that return one field of the struct they fill, and arguments whose name differs from their field.
RESULT_FIELDS = {
    "device_get_fan_speed_rpm": "speed", "device_get_temperature_v": "temperature",
    "vgpu_type_get_max_instances_per_gpu_instance": "maxInstancePerGI", "system_get_driver_branch": "branch",
    "device_get_capabilities": "capMask", "device_get_current_clock_freqs": "str", "device_get_hostname_v1": "value",
    "device_get_margin_temperature": "marginTemperature", "device_get_pdi": "value", "device_get_performance_modes": "str",
    "device_get_unrepairable_memory_flag_v1": "bUnrepairableMemory", "device_get_vgpu_heterogeneous_mode": "mode",
    "gpu_instance_get_vgpu_heterogeneous_mode": "mode", "system_event_set_create": "set",
    "system_get_conf_compute_key_rotation_threshold_info": "attackerAdvantage",
    "vgpu_instance_get_placement_id": "placementId", "vgpu_instance_get_runtime_state_size": "size",
}  # fmt: skip
FIELD_ALIASES = {
    "device_get_clock_offsets.clock_type": "type", "device_set_nvlink_device_low_power_threshold.threshold": "low_pwr_threshold",
    "device_get_handle_by_uuidv.uuid": "value", "system_event_set_free.event_set": "set", "system_event_set_wait.event_set": "set",
    "system_event_set_wait.buffer_size": "data_size", "system_register_events.event_set": "set",
}  # fmt: skip

# Functions that python/cuda/bindings writes by hand: what their stubs say instead of what their rows would.
WRITTEN_BY_HAND = {
    "device_read_prm_counters_v1": "(device: _Int, counters: PRMCounter_v1) -> PRMCounter_v1",
    "device_read_write_prm_v1": "(device: _Int, in_data: bytes) -> tuple[int, bytes]",
    "system_event_set_wait": "(event_set: _Int, timeout_ms: _Int, buffer_size: _Int) -> SystemEventData_v1",
}

# Arrays in a struct of a Pythonic module of which a field of the struct says how many elements are in use: that field is not
# shown, and the array has as many elements. By class: array, and the field with the number.
COUNTED_ARRAYS = {
    "BridgeChipHierarchy": {"bridge_chip_info": "bridge_count"},
    "ClkMonStatus": {"clk_mon_list": "clk_mon_list_size"},
    "ConfComputeGpuAttestationReport": {
        "attestation_report": "attestation_report_size", "cec_attestation_report": "cec_attestation_report_size",
    },
    "ConfComputeGpuCertificate": {
        "cert_chain": "cert_chain_size", "attestation_cert_chain": "attestation_cert_chain_size",
    },
    "GridLicensableFeatures": {"grid_licensable_features": "licensable_features_count"},
    "NvlinkFirmwareInfo": {"firmware_version": "num_valid_entries"},
    "NvlinkSupportedBwModes_v1": {"bw_modes": "total_bw_modes"},
    "NvlinkNvlePrivateInfo_v1": {"data_": "size"},
    "PerfMetricsSample": {"controller_data": "num_controller_data"},
    "PerfMetricsSamples_v1": {"samples": "num_samples"},
    "PwrModelMetricsDlppm1xDramclkEstimates": {"estimated_metrics": "num_estimated_metrics"},
    "PwrModelMetricsPfpp1x": {"estimated_metrics": "num_vf_points"},
}  # fmt: skip

# Number of trailing arguments that are optional (default 0).
OPTIONAL_ARGUMENTS = {"readv": 1, "writev": 1}

# Output array -> function that returns its number of elements.
ASKED_COUNTS = {"nvrtcGetSupportedArchs.supportedArchs": "nvrtcGetNumSupportedArchs"}

# Signatures of callbacks that accept a Python callable (CallbackShape in engine.hpp), by parameter or by type.
CALLBACKS = {
    "CUhostFn": "host", "cudaHostFn_t": "host", "CUstreamCallback": "stream", "cudaStreamCallback_t": "stream",
    "CUoccupancyB2DSize": "occupancy", "CUlogsCallback": "logs", "cudaLogsCallback_t": "logs",
    "cuUserObjectCreate.destroy": "destroy", "cudaUserObjectCreate.destroy": "destroy",
    "CUasyncCallback": "notification", "cudaAsyncCallback": "runtime_notification",
    "nvrtcSetFlowCallback.callback": "flow", "CUcoredumpStatusCallback": "coredump", "CUgraphRecaptureCallback": "recapture",
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

# C type of an attribute's value; "int[]" fills the size that the caller passes, "bool[1]" is a truth value of one byte.
# Attributes that are not listed are returned as 64-bit integers.
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
            "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION": "int", "CU_MEM_RANGE_ATTRIBUTE_ACCESSED_BY": "int[]",
            "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_TYPE": "CUmemLocationType",
            "CU_MEM_RANGE_ATTRIBUTE_PREFERRED_LOCATION_ID": "int",
            "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_TYPE": "CUmemLocationType",
            "CU_MEM_RANGE_ATTRIBUTE_LAST_PREFETCH_LOCATION_ID": "int",
        },
        "CUmemAllocationHandleType": _HANDLE_TYPES,
        "CUmemRangeHandleType": {"CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD": "int"},
        "CUcoredumpSettings": {
            "CU_COREDUMP_ENABLE_ON_EXCEPTION": "bool[1]", "CU_COREDUMP_TRIGGER_HOST": "bool[1]",
            "CU_COREDUMP_LIGHTWEIGHT": "bool[1]", "CU_COREDUMP_ENABLE_USER_TRIGGER": "bool[1]",
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
            "cudaMemRangeAttributeLastPrefetchLocation": "int", "cudaMemRangeAttributeAccessedBy": "int[]",
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

# Names of anonymous records in the released bindings, identified by their fields.
ANONYMOUS_NAMES: dict[str, dict[str, str]] = {
    "driver": {
        "anon_struct0": "bytesOverBudget",
        "anon_struct1": "x y z",
        "anon_struct2": "event flags triggerAtBlockStart",
        "anon_struct3": "event flags",
        "anon_struct4": "x y z",
        "anon_struct5": "devNode deviceUpdatable",
        "anon_struct6": "depth height width",
        "anon_struct7": "hArray",
        "anon_struct8": "hMipmappedArray",
        "anon_struct9": "devPtr format numChannels sizeInBytes",
        "anon_struct10": "devPtr format height numChannels pitchInBytes width",
        "anon_struct11": "",
        "anon_struct12": "handle name",
        "anon_struct13": "handle name",
        "anon_struct14": "value",
        "anon_struct15": "key",
        "anon_struct16": "fence keyedMutex nvSciSync",
        "anon_struct17": "value",
        "anon_struct18": "key timeoutMs",
        "anon_struct19": "fence keyedMutex nvSciSync",
        "anon_struct20": "extentDepth extentHeight extentWidth layer level offsetX offsetY offsetZ",
        "anon_struct21": "layer offset size",
        "anon_struct22": "deviceId localityDomainId",
        "anon_struct23": "compressionType gpuDirectRDMACapable usage",
        "anon_struct24": "layerHeight locHint ptr rowLength",
        "anon_struct25": "array offset",
        "anon_struct26": "device",
        "anon_struct27": "numDevices",
        "anon_struct28": "locHint ptr",
        "anon_struct29": "id offset",
        "anon_union2": "overBudget",
        "anon_union4": "smCount",
        "anon_union5": "array linear mipmap pitch2D",
        "anon_union6": "fd nvSciBufObject win32",
        "anon_union7": "fd nvSciSyncObj win32",
        "anon_union8": "fence",
        "anon_union9": "fence",
        "anon_union12": "array mipmap",
        "anon_union13": "miptail sparseLevel",
        "anon_union14": "memHandle",
        "anon_union16": "array ptr",
        "anon_union22": "le ptr",
        "anon_union24": "pArray pPitch",
    },
    "runtime": {
        "anon_struct0": "depth height width",
        "anon_struct1": "array",
        "anon_struct2": "mipmap",
        "anon_struct3": "desc devPtr sizeInBytes",
        "anon_struct4": "desc devPtr height pitchInBytes width",
        "anon_struct5": "",
        "anon_struct6": "deviceId localityDomainId",
        "anon_struct7": "layerHeight locHint ptr rowLength",
        "anon_struct8": "array offset",
        "anon_struct9": "handle name",
        "anon_struct10": "handle name",
        "anon_struct11": "value",
        "anon_struct12": "key",
        "anon_struct13": "fence keyedMutex nvSciSync",
        "anon_struct14": "value",
        "anon_struct15": "key timeoutMs",
        "anon_struct16": "fence keyedMutex nvSciSync",
        "anon_struct17": "offset pValue size",
        "anon_struct18": "x y z",
        "anon_struct19": "event flags triggerAtBlockStart",
        "anon_struct20": "x y z",
        "anon_struct21": "event flags",
        "anon_struct22": "devNode deviceUpdatable",
        "anon_struct23": "bytesOverBudget",
        "anon_union0": "array linear mipmap pitch2D",
        "anon_union3": "array ptr",
        "anon_union4": "fd nvSciBufObject win32",
        "anon_union5": "fd nvSciSyncObj win32",
        "anon_union6": "fence",
        "anon_union7": "fence",
        "anon_union11": "gridDim isEnabled param",
        "anon_union12": "overBudget",
        "anon_union13": "pArray pPitch",
    },
}
