# SPDX-License-Identifier: Apache-2.0
"""NVML: the management library. Functions return bare values and raise the `NvmlError` subclass of the result code."""

from __future__ import annotations

from cuda.bindings import _bindings, _dtypes, _errors, _lazy

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_rendered, __dir__ = _lazy.lazy(__name__, "cuda.bindings.nvml", more=("NvmlError", "check_status", "check_status_size"))
_FIELD_QUERIES = ("device_get_field_values", "device_clear_field_values")
_ALIASES = {"NvmlMemoryError": "MemoryError", "NvmlTimeoutError": "TimeoutError"}


class NvmlError(_errors.StatusError):
    """A function failed. `status` is a member of `Return`. Each result code has its own subclass."""

    _enum = "Return"

    def __reduce__(self) -> Any:
        return (_exception, (int(self.status),))


def _class_name(member: str) -> str:
    return "".join(word.capitalize() for word in member.removeprefix("ERROR_").split("_")) + "Error"


def _class_of(code: Any) -> type[NvmlError]:
    name = _class_name(code.name)
    if name not in globals():
        globals()[name] = type(name, (NvmlError,), {"__module__": __name__, "__doc__": f"{code.name} ({code.value})"})
    return globals()[name]  # type: ignore[no-any-return]


def _exception(status: int) -> NvmlError:
    code = _rendered("Return")(status)
    return _class_of(code)(code)


def check_status(status: int) -> None:
    """Raises an exception if `status` is not success."""
    if status:
        raise _exception(status)


def check_status_size(status: int) -> None:
    """Like check_status, but accepts INSUFFICIENT_SIZE, which is the expected result of a size query."""
    if status != 7:
        check_status(status)


def _field_query(name: str) -> Any:
    """Returns a variant of a function that takes fields as a FieldValue array, or as IDs and (ID, scope) pairs."""
    rendered = _rendered(name)
    cls = _rendered("FieldValue")

    def query(device: int, values: Any) -> Any:
        if isinstance(values, cls):
            array = values
            if not len(array):
                return array
        else:
            wanted = [value if isinstance(value, tuple) else (value, 0) for value in values]
            if not wanted:
                return []
            array = cls(len(wanted))
            for element, (field, scope) in zip(array, wanted, strict=True):
                element.field_id, element.scope_id = field, scope
        rendered(device, array)
        return array

    query.__name__ = query.__qualname__ = name
    query.__module__ = __name__
    query.__doc__ = f"""{rendered.__doc__}

values: a FieldValue with one element per field, or a sequence of field ids and (id, scope) pairs. The answers come back as a
FieldValue; each has a status of its own, nvml_return."""
    globals()[name] = query
    return query


def _call(symbol: str, *arguments: Any) -> None:
    """Calls a C function whose parameters do not map one-to-one to those in Python."""
    import ctypes

    address = _bindings.function_pointer(__name__, symbol)
    if not address:
        raise _errors.FunctionNotFoundError(f'Function "{symbol}" not found')
    check_status(ctypes.CFUNCTYPE(ctypes.c_int, *[ctypes.c_void_p] * len(arguments))(address)(*arguments))


def device_read_prm_counters_v1(device: int, counters: Any) -> Any:
    """Reads the port counters that `counters` (a PRMCounter_v1) selects. Returns it with their values."""
    request = _rendered("nvmlPRMCounterList_v1_t")()
    request.num_counters, request.counters = len(counters), counters.ptr
    _call("nvmlDeviceReadPRMCounters_v1", device, request.ptr)
    return counters


def device_read_write_prm_v1(device: int, in_data: bytes) -> tuple[int, bytes]:
    """Sends a register access to the port's firmware. Returns (status, data)."""
    request = _rendered("nvmlPRMTLV_v1_t")()
    request.data_size, request.in_data = len(in_data), in_data
    _call("nvmlDeviceReadWritePRM_v1", device, request.ptr)
    return request.status, bytes(request.out_data[: request.data_size])


def system_event_set_wait(event_set: int, timeout_ms: int, buffer_size: int) -> Any:
    """Waits for events of a set of system_event_set_create(). Returns a SystemEventData_v1 with the events."""
    events = _rendered("SystemEventData_v1")(buffer_size)
    request = _rendered("nvmlSystemEventSetWaitRequest_v1_t")()
    request.timeoutms, request.set, request.data, request.data_size = timeout_ms, event_set, events.ptr, buffer_size
    _call("nvmlSystemEventSetWait", request.ptr)
    found = _rendered("SystemEventData_v1")(request.num_event)
    for index in range(request.num_event):
        found[index] = events[index]
    return found


def _missing(name: str) -> Any:
    if name in _FIELD_QUERIES:
        return _field_query(name)
    if name.endswith("Error"):
        wanted = _ALIASES.get(name, name)
        for code in _rendered("Return"):
            if code and _class_name(code.name) == wanted:
                return _class_of(code)
    if name.endswith("_dtype"):
        return _dtypes.find(__name__, name)
    return _rendered(name)


_errors.register(__name__, _exception)
