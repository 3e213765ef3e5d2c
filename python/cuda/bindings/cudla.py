# SPDX-License-Identifier: Apache-2.0
"""cuDLA: the deep learning accelerator of embedded boards. Functions return bare values and raise `CudlaError`.

The library is part of the system software of such a board. On other systems all names can be imported and structs can
be filled; a call of a function raises `cuda.pathfinder.DynamicLibNotFoundError`, which lists the places searched.
"""

from __future__ import annotations

import ctypes
from enum import IntEnum
from typing import Any, ClassVar


class AccessPermissionFlags(IntEnum):
    """The access permissions of registered memory: `flags` of `mem_register`."""

    READ_WRITE_PERM = 0
    READ_ONLY_PERM = 1
    TASK_STATISTICS = 2


class DevAttributeType(IntEnum):
    """The attributes of `device_get_attribute`."""

    UNIFIED_ADDRESSING = 0
    DEVICE_VERSION = 1


class FenceType(IntEnum):
    """The type of a fence: at the end of a task, or at its start (SOF)."""

    FENCE = 1
    FENCE_SOF = 2


class Mode(IntEnum):
    """The mode of a device: hybrid (submission through CUDA streams) or standalone."""

    CUDA_DLA = 0
    STANDALONE = 1


class ModuleAttributeType(IntEnum):
    """The attributes of `module_get_attributes`."""

    NUM_INPUT_TENSORS = 0
    NUM_OUTPUT_TENSORS = 1
    INPUT_TENSOR_DESCRIPTORS = 2
    OUTPUT_TENSOR_DESCRIPTORS = 3
    NUM_OUTPUT_TASK_STATISTICS = 4
    OUTPUT_TASK_STATISTICS_DESCRIPTORS = 5


class ModuleLoadFlags(IntEnum):
    """The flags of `module_load_from_memory`."""

    DEFAULT = 0
    ENABLE_FAULT_DIAGNOSTICS = 1


class ScratchMemoryConfig(IntEnum):
    """The configuration of the scratch memory of modules."""

    DEFAULT = 0
    SHARED_STATIC = 2
    CONFIG_MAX = 2147483647


class Status(IntEnum):
    """Result codes."""

    SUCCESS = 0
    ERROR_INVALID_PARAM = 1
    ERROR_OUT_OF_RESOURCES = 2
    ERROR_CREATION_FAILED = 3
    ERROR_INVALID_ADDRESS = 4
    ERROR_OS = 5
    ERROR_CUDA = 6
    ERROR_UMD = 7
    ERROR_INVALID_DEVICE = 8
    ERROR_INVALID_ATTRIBUTE = 9
    ERROR_INCOMPATIBLE_DLA_SW_VERSION = 10
    ERROR_MEMORY_REGISTERED = 11
    ERROR_INVALID_MODULE = 12
    ERROR_UNSUPPORTED_OPERATION = 13
    ERROR_NV_SCI = 14
    ERROR_DRIVER_NOT_FOUND = 15
    ERROR_DLA_ERR_INVALID_INPUT = 1073741825
    ERROR_DLA_ERR_INVALID_PRE_ACTION = 1073741826
    ERROR_DLA_ERR_NO_MEM = 1073741827
    ERROR_DLA_ERR_PROCESSOR_BUSY = 1073741828
    ERROR_DLA_ERR_TASK_STATUS_MISMATCH = 1073741829
    ERROR_DLA_ERR_ENGINE_TIMEOUT = 1073741830
    ERROR_DLA_ERR_DATA_MISMATCH = 1073741831
    ERROR_UNKNOWN = 2147483647


class SubmissionFlags(IntEnum):
    """The flags of `submit_task`."""

    NOOP = 1
    SKIP_LOCK_ACQUIRE = 2
    DIAGNOSTICS_TASK = 4


class CudlaError(Exception):
    """A function failed. `status` is a member of `Status`."""

    def __init__(self, status: Any) -> None:
        self.status = Status(status)
        super().__init__(f"{self.status.name} ({self.status.value})")

    def __reduce__(self) -> Any:
        return (type(self), (int(self.status),))


def check_status(status: int) -> None:
    """Raises an exception if `status` is not success."""
    if status:
        raise CudlaError(status)


# ---- structs ----------------------------------------------------------------------------------------------------------------


class _Struct:
    """A C struct. Owns zero-initialized memory, or is a view of memory with another owner."""

    _c: ClassVar[Any]

    def __init__(self) -> None:
        self._data = self._c()
        self._keep: dict[str, Any] = {}

    @property
    def ptr(self) -> int:
        """The address of the struct."""
        return ctypes.addressof(self._data)

    def __int__(self) -> int:
        return self.ptr

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and bytes(self._data) == bytes(other._data)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "\n".join(f"{name} : {getattr(self, name)}" for name in self._shown())

    @classmethod
    def _shown(cls) -> list[str]:
        return [name for name, value in vars(cls).items() if isinstance(value, property)]

    @classmethod
    def _view(cls, data: Any, owner: Any) -> Any:
        made = cls.__new__(cls)
        made._data = data
        made._keep = {"": owner}
        return made

    @classmethod
    def from_ptr(cls, ptr: int, readonly: bool = False, owner: Any = None) -> Any:
        """Creates a view of the struct at an address. The view keeps `owner` alive."""
        if not ptr:
            raise ValueError(f"{cls.__name__}.from_ptr(): ptr must not be null (0)")
        return cls._view(cls._c.from_address(ptr), owner)

    @classmethod
    def from_buffer(cls, buffer: Any) -> Any:
        """Creates a struct with a copy of a buffer's bytes."""
        made = cls()
        data = bytes(memoryview(buffer).cast("B"))
        if len(data) != ctypes.sizeof(cls._c):
            raise ValueError(f"{cls.__name__} has {ctypes.sizeof(cls._c)} bytes, the buffer {len(data)}")
        ctypes.memmove(made.ptr, data, len(data))
        return made

    @classmethod
    def from_data(cls, data: Any) -> Any:
        """Creates a struct with a copy of a NumPy array of this struct's dtype."""
        return cls.from_buffer(data)


def _plain(name: str, doc: str) -> Any:
    """Creates a property for a numeric or string field."""

    def get(self: Any) -> Any:
        value = getattr(self._data, name)
        return value.decode() if isinstance(value, bytes) else value or 0

    def set_(self: Any, value: Any) -> None:
        setattr(self._data, name, value.encode() if isinstance(value, str) else value)

    return property(get, set_, doc=doc)


def _object(name: str, doc: str) -> Any:
    """Creates a property for a pointer to a struct: an address, or an object of this module, which is kept alive."""

    def get(self: Any) -> int:
        return getattr(self._data, name) or 0

    def set_(self: Any, value: Any) -> None:
        self._keep[name] = value
        setattr(self._data, name, int(value) if value is not None else None)

    return property(get, set_, doc=doc)


def _list(name: str, count: str, element: type[_Struct] | None, doc: str) -> Any:
    """Creates a property for a pointer to an array, whose length is in a hidden field."""

    def get(self: Any) -> Any:
        number, address = getattr(self._data, count), getattr(self._data, name)
        if not address or not number:
            return []
        if element is None:
            return [value or 0 for value in (ctypes.c_void_p * number).from_address(address)]
        size = ctypes.sizeof(element._c)
        return [element.from_ptr(address + size * i, owner=self) for i in range(number)]

    def set_(self: Any, values: Any) -> None:
        if element is None:
            array: Any = (ctypes.c_void_p * len(values))(*[int(value) for value in values])
        else:
            array = (element._c * len(values))(*[value._data for value in values])
        self._keep[name] = (array, list(values))
        setattr(self._data, name, ctypes.addressof(array) if len(values) else None)
        setattr(self._data, count, len(values))

    return property(get, set_, doc=doc)


class _CDevAttribute(ctypes.Union):
    _fields_ = (("unified_addressing_supported", ctypes.c_uint8), ("device_version", ctypes.c_uint32))


class DevAttribute(_Struct):
    """An attribute of a device: a union."""

    _c = _CDevAttribute
    unified_addressing_supported = _plain(
        "unified_addressing_supported", "0 when addresses are not shared with the host"
    )
    device_version = _plain("device_version", "the version of the hardware")


class _CExternalMemory(ctypes.Structure):
    _fields_ = (("ext_buf_object", ctypes.c_void_p), ("size_", ctypes.c_uint64))


class ExternalMemoryHandleDesc(_Struct):
    """External memory, imported from NvSciBuf."""

    _c = _CExternalMemory
    ext_buf_object = _plain("ext_buf_object", "the other API's object")
    size_ = _plain("size_", "its size in bytes")


class _CExternalSemaphore(ctypes.Structure):
    _fields_ = (("ext_sync_object", ctypes.c_void_p),)


class ExternalSemaphoreHandleDesc(_Struct):
    """An external semaphore, imported from NvSciSync."""

    _c = _CExternalSemaphore
    ext_sync_object = _plain("ext_sync_object", "the other API's object")


class _CFence(ctypes.Structure):
    _fields_ = (("fence", ctypes.c_void_p), ("type", ctypes.c_int32))


class Fence(_Struct):
    """A fence that tasks wait for or signal (NvSciSync)."""

    _c = _CFence
    fence = _plain("fence", "the fence")
    type = _plain("type", "a FenceType")


class _CModuleAttribute(ctypes.Union):
    _fields_ = (
        ("num_input_tensors", ctypes.c_uint32),
        ("num_output_tensors", ctypes.c_uint32),
        ("input_tensor_desc", ctypes.c_void_p),
        ("output_tensor_desc", ctypes.c_void_p),
    )


class ModuleAttribute(_Struct):
    """An attribute of a module: a union. Descriptors are addresses of ModuleTensorDescriptor structs."""

    _c = _CModuleAttribute
    num_input_tensors = _plain("num_input_tensors", "how many tensors a task reads")
    num_output_tensors = _plain("num_output_tensors", "how many tensors a task writes")
    input_tensor_desc = _object("input_tensor_desc", "address of the descriptors of what a task reads")
    output_tensor_desc = _object("output_tensor_desc", "address of the descriptors of what a task writes")


class _CModuleTensorDescriptor(ctypes.Structure):
    _fields_ = (
        ("name", ctypes.c_char * 81),
        ("size_", ctypes.c_uint64),
        ("n", ctypes.c_uint64),
        ("c", ctypes.c_uint64),
        ("h", ctypes.c_uint64),
        ("w", ctypes.c_uint64),
        ("data_format", ctypes.c_uint8),
        ("data_type", ctypes.c_uint8),
        ("data_category", ctypes.c_uint8),
        ("pixel_format", ctypes.c_uint8),
        ("pixel_mapping", ctypes.c_uint8),
        ("stride", ctypes.c_uint32 * 8),
    )


class ModuleTensorDescriptor(_Struct):
    """The type and layout of a module's tensor."""

    _c = _CModuleTensorDescriptor
    name = _plain("name", "the tensor's name")
    size_ = _plain("size_", "its size in bytes")
    n = _plain("n", "batch")
    c = _plain("c", "channels")
    h = _plain("h", "height")
    w = _plain("w", "width")
    data_format = _plain("data_format", "order of the dimensions")
    data_type = _plain("data_type", "type of the elements")
    data_category = _plain("data_category", "image, feature, weight, ...")
    pixel_format = _plain("pixel_format", "format of an image")
    pixel_mapping = _plain("pixel_mapping", "layout of an image")

    @property
    def stride(self) -> list[int]:
        """The strides in bytes."""
        return list(self._data.stride)

    @stride.setter
    def stride(self, values: Any) -> None:
        self._data.stride = type(self._data.stride)(*values)


class _CSignalEvents(ctypes.Structure):
    _fields_ = (("dev_ptrs", ctypes.c_void_p), ("eof_fences", ctypes.c_void_p), ("num_events", ctypes.c_uint32))


class SignalEvents(_Struct):
    """The events that are signaled when a task completes."""

    _c = _CSignalEvents
    dev_ptrs = _list("dev_ptrs", "num_events", None, "registered addresses of the semaphores")
    eof_fences = _list("eof_fences", "num_events", Fence, "the fences")


class _CWaitEvents(ctypes.Structure):
    _fields_ = (("pre_fences", ctypes.c_void_p), ("num_events", ctypes.c_uint32))


class WaitEvents(_Struct):
    """The events that a task waits for."""

    _c = _CWaitEvents
    pre_fences = _list("pre_fences", "num_events", Fence, "the fences")


class _CTask(ctypes.Structure):
    _fields_ = (
        ("module_handle", ctypes.c_void_p),
        ("output_tensor", ctypes.c_void_p),
        ("num_output_tensors", ctypes.c_uint32),
        ("num_input_tensors", ctypes.c_uint32),
        ("input_tensor", ctypes.c_void_p),
        ("wait_events", ctypes.c_void_p),
        ("signal_events", ctypes.c_void_p),
    )


class Task(_Struct):
    """A task: one execution of a module."""

    _c = _CTask
    module_handle = _plain("module_handle", "the module")
    output_tensor = _list("output_tensor", "num_output_tensors", None, "registered addresses of what it writes")
    input_tensor = _list("input_tensor", "num_input_tensors", None, "registered addresses of what it reads")
    wait_events = _object("wait_events", "a WaitEvents, or its address")
    signal_events = _object("signal_events", "a SignalEvents, or its address")


# ---- functions --------------------------------------------------------------------------------------------------------------


def _function(symbol: str, *types: Any) -> Any:
    """Returns a function of the library. Raises DynamicLibNotFoundError if the library is not installed."""
    from cuda.pathfinder import load_nvidia_dynamic_lib

    handle = load_nvidia_dynamic_lib("cudla")._handle_uint
    library = ctypes.CDLL(None, handle=handle)
    try:
        function = getattr(library, symbol)
    except AttributeError:
        from cuda.bindings._errors import FunctionNotFoundError

        raise FunctionNotFoundError(f'Function "{symbol}" not found') from None
    function.argtypes = types
    function.restype = ctypes.c_int
    return function


_P, _U32, _U64, _SIZE = ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint64, ctypes.c_size_t


def get_version() -> int:
    """Returns the version of the library."""
    version = _U64()
    check_status(_function("cudlaGetVersion", _P)(ctypes.byref(version)))
    return version.value


def device_get_count() -> int:
    """Returns the number of accelerators."""
    count = _U64()
    check_status(_function("cudlaDeviceGetCount", _P)(ctypes.byref(count)))
    return count.value


def create_device(device: int, flags: int) -> int:
    """Creates a handle of an accelerator. `flags` is a `Mode`."""
    handle = _P()
    check_status(_function("cudlaCreateDevice", _U64, _P, _U32)(device, ctypes.byref(handle), flags))
    return handle.value or 0


def destroy_device(dev_handle: int) -> None:
    """Destroys a device handle."""
    check_status(_function("cudlaDestroyDevice", _P)(dev_handle))


def device_get_attribute(dev_handle: int, attrib: int) -> DevAttribute:
    """Returns an attribute of a device. `attrib` is a `DevAttributeType`."""
    attribute = DevAttribute()
    check_status(_function("cudlaDeviceGetAttribute", _P, ctypes.c_int, _P)(dev_handle, attrib, attribute.ptr))
    return attribute


def get_last_error(dev_handle: int) -> None:
    """Raises the last asynchronous error of a device."""
    check_status(_function("cudlaGetLastError", _P)(dev_handle))


def mem_register(dev_handle: int, ptr: int, size: int, flags: int) -> int:
    """Registers memory with a device. Returns its address on the device."""
    registered = _P()
    call = _function("cudlaMemRegister", _P, _P, _SIZE, _P, _U32)
    check_status(call(dev_handle, ptr, size, ctypes.byref(registered), flags))
    return registered.value or 0


def mem_unregister(dev_handle: int, dev_ptr: int) -> None:
    """Unregisters memory of `mem_register`."""
    check_status(_function("cudlaMemUnregister", _P, _P)(dev_handle, dev_ptr))


def module_load_from_memory(dev_handle: int, p_module: Any, module_size: int, flags: int) -> int:
    """Loads a compiled network, given as bytes or as their address. Returns a module handle."""
    data = p_module if isinstance(p_module, int) else ctypes.create_string_buffer(bytes(p_module), module_size)
    address = data if isinstance(data, int) else ctypes.addressof(data)
    module = _P()
    call = _function("cudlaModuleLoadFromMemory", _P, _P, _SIZE, _P, _U32)
    check_status(call(dev_handle, address, module_size, ctypes.byref(module), flags))
    return module.value or 0


def module_unload(h_module: int, flags: int) -> None:
    """Unloads a module."""
    check_status(_function("cudlaModuleUnload", _P, _U32)(h_module, flags))


def module_get_attributes(h_module: int, attr_type: int) -> ModuleAttribute:
    """Returns an attribute of a module. `attr_type` is a `ModuleAttributeType`."""
    attribute = ModuleAttribute()
    check_status(_function("cudlaModuleGetAttributes", _P, ctypes.c_int, _P)(h_module, attr_type, attribute.ptr))
    return attribute


def set_task_timeout_in_ms(dev_handle: int, timeout: int) -> None:
    """Sets the timeout of tasks in milliseconds."""
    check_status(_function("cudlaSetTaskTimeoutInMs", _P, _U32)(dev_handle, timeout))


def submit_task(dev_handle: int, ptr_to_tasks: Any, num_tasks: int, stream: Any, flags: int) -> None:
    """Submits tasks: a Task or the address of several, on a CUDA stream, or on 0 in standalone mode."""
    call = _function("cudlaSubmitTask", _P, _P, _U32, _P, _U32)
    check_status(call(dev_handle, int(ptr_to_tasks), num_tasks, int(stream or 0), flags))


def __getattr__(name: str) -> Any:
    if name.endswith("_dtype"):  # the NumPy dtype of a struct, for example task_dtype
        cls = globals().get("".join(part.capitalize() for part in name.removesuffix("_dtype").split("_")))
        if isinstance(cls, type) and issubclass(cls, _Struct):
            import numpy

            return numpy.dtype(cls._c)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
