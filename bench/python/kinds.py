# SPDX-License-Identifier: Apache-2.0
"""Measures every kind of operation of `cuda.bindings`, with cucore's packages or NVIDIA's on the path.

Creation of structs, reading and setting of fields, enums, handles, and calls by the kinds of their arguments and results, including
errors. bench/run.py --kinds runs both sides and prints the ratios. Names on the command line select rows.
"""

from __future__ import annotations

import ctypes
import warnings
from collections.abc import Callable
from typing import Any

from ptx import PTX
from timing import COUNTED, Suite

warnings.simplefilter("ignore")
from cuda.bindings import driver, runtime  # noqa: E402

suite = Suite()


def row(name: str, text: str, batch: int = 1000, **names: Any) -> None:
    """Adds a row from the source text of an expression or an assignment, with the names that it uses."""
    space = {"driver": driver, "runtime": runtime, **names}

    def make() -> Callable[[], Any]:
        assigns = " = " in text and not text.startswith("driver.") and "(" not in text.split(" = ")[0]
        exec(f"def call(): {text}" if assigns else f"call = lambda: {text}", space)
        call: Callable[[], Any] = space["call"]
        call()
        return call

    suite.run(name, make, batch=batch)


driver.cuInit(0)
device = driver.cuDeviceGet(0)[1]
context = driver.cuDevicePrimaryCtxRetain(device)[1]
driver.cuCtxSetCurrent(context)
stream = driver.cuStreamCreate(1)[1]
event = driver.cuEventCreate(2)[1]
address = driver.cuMemAlloc(4096)[1]
number = int(address)
library = driver.cuLibraryLoadData(PTX.encode(), None, None, 0, None, None, 0)[1]
kernel = driver.cuLibraryGetKernel(library, b"k3")[1]
function = driver.cuKernelGetFunction(kernel)[1]
host = ctypes.create_string_buffer(64)

# ---- structs: made, printed, compared
STRUCTS = ("CUlaunchConfig", "CUDA_MEMCPY3D", "CUDA_MEMCPY2D", "CUuuid", "CUmemAllocationProp", "CUtensorMap", "CUlaunchAttribute",
           "CUDA_KERNEL_NODE_PARAMS", "CUDA_HOST_NODE_PARAMS", "CUDA_RESOURCE_DESC", "CUgraphNodeParams")  # fmt: skip
for name in STRUCTS:
    row(f"make_{name}", f"driver.{name}()")
for name in ("dim3", "cudaPos", "cudaExtent", "cudaMemcpy3DParms", "cudaDeviceProp", "cudaLaunchAttribute"):
    row(f"make_{name}", f"runtime.{name}()")
row("make_cls", "cls()", cls=driver.CUlaunchConfig)
row("make_at_address", "cls(place)", cls=driver.CUlaunchConfig, place=ctypes.addressof(host))
row("make_at_address_keyword", "cls(_ptr=place)", cls=driver.CUlaunchConfig, place=ctypes.addressof(host))
row("call_make_pos", "runtime.make_cudaPos(1, 2, 3)")
row("call_make_extent", "runtime.make_cudaExtent(1, 2, 3)")
row("call_make_pitched", "runtime.make_cudaPitchedPtr(0, 2, 3, 4)")
shape = driver.CUlaunchConfig()
copy = driver.CUDA_MEMCPY3D()
parms = runtime.cudaMemcpy3DParms()
prop = driver.CUmemAllocationProp()
properties = runtime.cudaDeviceProp()
row("getptr_struct", "shape.getPtr()", shape=shape)
row("repr_launch_config", "repr(shape)", 200, shape=shape)
row("repr_memcpy3d", "repr(copy)", 200, copy=copy)
row("repr_memcpy3d_parms", "repr(parms)", 200, parms=parms)
row("repr_device_prop", "repr(properties)", 50, properties=properties)
row("repr_uuid", "repr(uuid)", 200, uuid=driver.CUuuid())
row("eq_struct", "shape == other", shape=shape, other=driver.CUlaunchConfig())
row("hash_struct", "hash(shape)", shape=shape)

# ---- fields by kind
access = driver.CUaccessPolicyWindow()
node = driver.CUDA_KERNEL_NODE_PARAMS()
host_node = driver.CUDA_HOST_NODE_PARAMS()
attribute = driver.CUlaunchAttribute()
resource = driver.CUDA_RESOURCE_DESC()
texture = driver.CUDA_TEXTURE_DESC()
uuid = driver.CUuuid()
pinned = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
memory_type = driver.CUmemorytype.CU_MEMORYTYPE_DEVICE
location = driver.CUmemLocation()
host_function = driver.CUhostFn(16)
extent = runtime.cudaExtent()
dim = runtime.dim3()
FIELDS = {
    "u32": (shape, "gridDimX", 1),
    "u64": (copy, "WidthInBytes", 64),
    "u64_large": (copy, "Height", 1 << 40),
    "i32": (location, "id", 1),
    "f32": (access, "hitRatio", 0.5),
    "enum": (copy, "srcMemoryType", memory_type),
    "enum_runtime": (parms, "kind", runtime.cudaMemcpyKind.cudaMemcpyHostToDevice),
    "enum_alloc": (prop, "type", pinned),
    "handle_stream": (shape, "hStream", stream),
    "handle_stream_int": (shape, "hStream", 7),
    "handle_pointer": (copy, "srcDevice", address),
    "handle_pointer_int": (copy, "srcDevice", number),
    "handle_array": (copy, "srcArray", driver.CUarray(0)),
    "handle_function": (node, "func", function),
    "address": (copy, "srcHost", number),
    "address_none": (copy, "srcHost", None),
    "address_buffer": (copy, "srcHost", host),
    "record": (prop, "location", location),
    "record_pos": (parms, "srcPos", runtime.cudaPos()),
    "record_extent": (parms, "extent", extent),
    "record_dim3": (runtime.cudaKernelNodeParams(), "gridDim", dim),
    "union": (attribute, "value", driver.CUlaunchAttributeValue()),
    "union_of_union": (resource, "res", resource.res),
    "ints": (texture, "addressMode", [driver.CUaddress_mode.CU_TR_ADDRESS_MODE_WRAP] * 3),
    "floats": (texture, "borderColor", [0.0, 1.0, 2.0, 3.0]),
    "device_ints": (properties, "maxThreadsDim", [1024, 1024, 64]),
    "device_name": (properties, "name", b"n" * 256),
    "device_i32": (properties, "multiProcessorCount", 1),
    "uuid_bytes": (uuid, "bytes", bytes(16)),
    "attrs_one": (shape, "attrs", [attribute]),
    "attrs_three": (shape, "attrs", [attribute] * 3),
    "attrs_none": (driver.CUlaunchConfig(), "attrs", []),
    "attrs_tuple": (driver.CUlaunchConfig(), "attrs", (attribute,)),
    "count": (shape, "numAttrs", 1),
    "host_fn": (host_node, "fn", host_function),
    "user_data": (host_node, "userData", number),
    "kernel_params": (node, "kernelParams", 0),
    "kernel_params_tuple": (node, "kernelParams", ((number, 1.0, 2), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))),
}  # fmt: skip
for name, (owner, field, value) in FIELDS.items():
    row(f"set_{name}", f"owner.{field} = value", owner=owner, value=value)
    row(f"get_{name}", f"owner.{field}", owner=owner)
row("get_nested", "prop.location.type", prop=prop)
row("set_nested", "prop.location.id = 1", prop=prop)
row("get_union_nested", "attribute.value.clusterDim.x", attribute=attribute)
row("set_union_nested", "attribute.value.cooperative = 1", attribute=attribute)


def launch_config() -> Callable[[], Any]:
    def fill() -> Any:
        config = driver.CUlaunchConfig()
        config.gridDimX = config.gridDimY = config.gridDimZ = 1
        config.blockDimX = config.blockDimY = config.blockDimZ = 32
        config.sharedMemBytes = 0
        config.hStream = stream
        one = driver.CUlaunchAttribute()
        one.id = driver.CUlaunchAttributeID.CU_LAUNCH_ATTRIBUTE_COOPERATIVE
        one.value.cooperative = 1
        config.attrs = [one]
        config.numAttrs = 1
        return config

    return fill


suite.run("whole_launch_config", launch_config, batch=300)

# ---- enums
result = driver.CUresult.CUDA_ERROR_INVALID_VALUE
row("enum_convert_success", "cls(0)", cls=driver.CUresult)
row("enum_convert", "cls(1)", cls=driver.CUresult)
row("enum_convert_late", "cls(700)", cls=driver.CUresult)
row("enum_member", "driver.CUresult.CUDA_SUCCESS")
row("enum_member_of_class", "cls.CUDA_ERROR_INVALID_VALUE", cls=driver.CUresult)
row("enum_by_name", "cls['CUDA_ERROR_INVALID_VALUE']", cls=driver.CUresult)
row("enum_int", "int(member)", member=result)
row("enum_value", "member.value", member=result)
row("enum_name", "member.name", member=result)
row("enum_eq", "member == other", member=result, other=driver.CUresult.CUDA_SUCCESS)
row("enum_eq_int", "member == 0", member=result)
row("enum_is", "member is cls.CUDA_SUCCESS", member=result, cls=driver.CUresult)
row("enum_hash", "hash(member)", member=result)
row("enum_bool", "not member", member=result)
row("enum_repr", "repr(member)", member=result)
row("enum_str", "str(member)", member=result)
row("enum_or", "member | 2", member=result)
row("enum_isinstance", "isinstance(member, cls)", member=result, cls=driver.CUresult)
row("enum_in_dict", "known[member]", member=result, known={result: 1})
row("enum_iterate", "list(cls)", 50, cls=driver.CUmemorytype)
row("enum_len", "len(cls)", cls=driver.CUresult)
row("enum_contains", "member in cls", member=result, cls=driver.CUresult)

# ---- handles
row("handle_make", "cls()", cls=driver.CUstream)
row("handle_make_int", "cls(7)", cls=driver.CUstream)
row("handle_make_large", "cls(value)", cls=driver.CUdeviceptr, value=0x7FFF_0000_0000)
row("handle_make_keyword", "cls(init_value=7)", cls=driver.CUdeviceptr)
row("handle_make_copy", "cls(stream)", cls=runtime.cudaStream_t, stream=stream)
row("handle_make_device", "cls(0)", cls=driver.CUdevice)
row("handle_make_runtime", "cls(7)", cls=runtime.cudaStream_t)
row("handle_int", "int(handle)", handle=address)
row("handle_int_small", "int(handle)", handle=driver.CUstream(7))
row("handle_index", "hex(handle)", handle=address)
row("handle_eq", "handle == other", handle=address, other=driver.CUdeviceptr(number))
row("handle_eq_int", "handle == number", handle=address, number=number)
row("handle_eq_none", "handle == None", handle=address)
row("handle_hash", "hash(handle)", handle=address)
row("handle_in_dict", "known[handle]", handle=address, known={address: 1})
row("handle_repr", "repr(handle)", handle=stream)
row("handle_bool", "bool(handle)", handle=stream)
row("handle_getptr", "handle.getPtr()", handle=stream)
row("handle_add", "int(handle) + 16", handle=address)
row("handle_protocol", "handle.__cuda_stream__()", handle=stream)

# ---- calls by kinds of arguments and results
warp_size = driver.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_WARP_SIZE
row("call_nothing", "driver.cuInit(0)")
row("call_out_int", "driver.cuDeviceGetCount()")
row("call_out_version", "driver.cuDriverGetVersion()")
row("call_out_handle", "driver.cuCtxGetCurrent()")
row("call_out_device", "driver.cuDeviceGet(0)")
row("call_out_ctx_device", "driver.cuCtxGetDevice()")
row("call_enum_device", "driver.cuDeviceGetAttribute(attribute, device)", attribute=warp_size, device=device)
row("call_enum_int", "driver.cuDeviceGetAttribute(attribute, 0)", attribute=warp_size)
row("call_chars", "driver.cuDeviceGetName(64, device)", device=device)
row("call_two_outs", "driver.cuCtxGetStreamPriorityRange()")
row("call_two_sizes", "driver.cuMemGetInfo()")
row("call_primary_state", "driver.cuDevicePrimaryCtxGetState(device)", device=device)
row("call_uuid", "driver.cuDeviceGetUuid(device)", device=device)
row("call_size", "driver.cuDeviceTotalMem(device)", device=device)
row("call_stream", "driver.cuStreamQuery(stream)", stream=stream)
row("call_stream_int", "driver.cuStreamQuery(stream)", stream=int(stream))
row("call_two_handles", "driver.cuEventRecord(event, stream)", event=event, stream=stream)
row("call_three", "driver.cuStreamWaitEvent(stream, event, 0)", event=event, stream=stream)
row("call_out_enum", "driver.cuStreamIsCapturing(stream)", stream=stream)
row("call_out_flags", "driver.cuStreamGetFlags(stream)", stream=stream)
row("call_out_ctx", "driver.cuStreamGetCtx(stream)", stream=stream)
row("call_event_query", "driver.cuEventQuery(event)", event=event)
row("call_text", "driver.cuLibraryGetKernel(library, b'k3')", library=library)
row(
    "call_attribute_out",
    "driver.cuPointerGetAttribute(kind, address)",
    kind=driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    address=address,
)
row(
    "call_attributes_out",
    "driver.cuPointerGetAttributes(1, [kind], address)",
    kind=driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
    address=address,
)
row(
    "call_function_attribute",
    "driver.cuFuncGetAttribute(kind, function)",
    kind=driver.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS,
    function=function,
)
row("call_occupancy", "driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(function, 32, 0)", function=function)
row("call_capture_info", "driver.cuStreamGetCaptureInfo(stream)", stream=stream)
row("call_memset", "driver.cuMemsetD8Async(address, 0, 16, stream)", 200, address=address, stream=stream)
row("call_copy_address", "driver.cuMemcpyHtoD(address, place, 4)", 200, address=address, place=ctypes.addressof(host))
row("call_copy_buffer", "driver.cuMemcpyHtoD(address, place, 4)", 200, address=address, place=host)
row("call_copy_bytes", "driver.cuMemcpyHtoD(address, place, 4)", 200, address=address, place=bytes(16))
row("call_copy_array_out", "driver.cuMemcpyDtoH(place, address, 4)", 200, address=address, place=bytearray(16))
row("call_range", "driver.cuMemGetAddressRange(address)", address=address)
row("call_error_name", "driver.cuGetErrorName(member)", member=result)
row("call_error_string", "driver.cuGetErrorString(member)", member=result)
row("call_error", "driver.cuDeviceGet(99)")
row("call_error_attribute", "driver.cuDeviceGetAttribute(attribute, 99)", attribute=warp_size)
row("call_error_no_out", "driver.cuDevicePrimaryCtxSetFlags(device, 0xFFFF)", device=device)
row("call_limit", "driver.cuCtxGetLimit(limit)", limit=driver.CUlimit.CU_LIMIT_STACK_SIZE)
row("call_set_limit", "driver.cuCtxSetLimit(limit, 1024)", limit=driver.CUlimit.CU_LIMIT_STACK_SIZE)
row("call_proc_address", "driver.cuGetProcAddress(b'cuInit', 12000, 0)")
row("call_set_ctx", "driver.cuCtxSetCurrent(context)", context=context)
row("call_peer", "driver.cuDeviceCanAccessPeer(device, device)", device=device)
row("call_pci", "driver.cuDeviceGetPCIBusId(32, device)", device=device)
row("call_by_pci", "driver.cuDeviceGetByPCIBusId(b'0000:00:00.0')")
row(
    "call_granularity",
    "driver.cuMemGetAllocationGranularity(prop, flag)",
    prop=prop,
    flag=driver.CUmemAllocationGranularity_flags.CU_MEM_ALLOC_GRANULARITY_MINIMUM,
)
row("call_keyword", "driver.cuStreamQuery(hStream=stream)", stream=stream)
row("call_keywords", "driver.cuEventRecord(hEvent=event, hStream=stream)", event=event, stream=stream)
row("call_runtime_out", "runtime.cudaGetDevice()")
row("call_runtime_count", "runtime.cudaGetDeviceCount()")
row("call_runtime_set", "runtime.cudaSetDevice(0)")
row(
    "call_runtime_attribute", "runtime.cudaDeviceGetAttribute(kind, 0)", kind=runtime.cudaDeviceAttr.cudaDevAttrWarpSize
)
row("call_runtime_last_error", "runtime.cudaGetLastError()")
row("call_runtime_error_name", "runtime.cudaGetErrorName(code)", code=runtime.cudaError_t.cudaErrorInvalidValue)
row("call_runtime_properties", "runtime.cudaGetDeviceProperties(0)", 50)
row("call_runtime_stream", "runtime.cudaStreamQuery(stream)", stream=runtime.cudaStream_t(int(stream)))
row("call_runtime_version", "runtime.cudaRuntimeGetVersion()")
row("call_runtime_pointer", "runtime.cudaPointerGetAttributes(number)", number=number)
row(
    "call_runtime_memset",
    "runtime.cudaMemsetAsync(number, 0, 16, stream)",
    200,
    number=number,
    stream=runtime.cudaStream_t(int(stream)),
)

# ---- launches
params = ((number, 1.0, 2), (ctypes.c_void_p, ctypes.c_float, ctypes.c_int))
held = (ctypes.c_uint64(number), ctypes.c_float(1), ctypes.c_int(2))
addresses = (ctypes.c_void_p * 3)(*(ctypes.addressof(one) for one in held))
instances = (held, (None, None, None))
whole = driver.CUlaunchConfig()  # a separate object, because the rows above set fields to arbitrary values
whole.gridDimX = whole.gridDimY = whole.gridDimZ = whole.blockDimY = whole.blockDimZ = 1
whole.blockDimX = 32
whole.hStream = stream
drain = lambda: driver.cuStreamSynchronize(stream)  # noqa: E731
LAUNCHES = {"ctypes": params, "address": ctypes.addressof(addresses), "array": addresses, "instances": instances}


def launch_call(given: object) -> Callable[[], Any]:
    return lambda: driver.cuLaunchKernel(function, 1, 1, 1, 32, 1, 1, 0, stream, given, 0)


def launch_ex_call(given: object) -> Callable[[], Any]:
    return lambda: driver.cuLaunchKernelEx(whole, function, given, 0)


for name, given in LAUNCHES.items():
    suite.run(f"launch_{name}", lambda given=given: launch_call(given), drain, batch=200)  # type: ignore[misc]
    suite.run(f"launch_ex_{name}", lambda given=given: launch_ex_call(given), drain, batch=200)  # type: ignore[misc]
if not COUNTED:
    import numpy as np

    values = np.array([number], dtype=np.uint64), np.array([1], dtype=np.float32), np.array([2], dtype=np.int32)
    pointers = np.array([one.ctypes.data for one in values], dtype=np.uint64)
    suite.run("launch_numpy_addresses", lambda: launch_call(pointers.ctypes.data), drain, batch=200)
    suite.run("launch_numpy_array", lambda: launch_call(pointers), drain, batch=200)
    row("call_copy_numpy", "driver.cuMemcpyHtoD(address, place, 4)", 200, address=address, place=values[1])
suite.finish()
