# SPDX-License-Identifier: Apache-2.0
"""The driver library under test through ctypes: loads modules, runs kernels, reads results."""

from __future__ import annotations

import contextlib
import ctypes
import os
from pathlib import Path

import numpy as np

from .forms import Form, module
from .values import inputs

c_u64 = ctypes.c_uint64


class DriverError(Exception):
    """A failed driver call; `log` is the compiler's log."""

    def __init__(self, call: str, code: int, log: str = "") -> None:
        super().__init__(f"{call}: error {code}{': ' + log.strip() if log.strip() else ''}")
        self.code, self.log = code, log


def library_path() -> str:
    """CUCORE_DRIVER if set; the CPU device unless CUCORE_DEVICE is gpu."""
    if path := os.environ.get("CUCORE_DRIVER"):
        return path
    if os.environ.get("CUCORE_DEVICE", "cpu") == "gpu":
        return "libcuda.so.1"
    import cucore

    return str(Path(cucore.CPU_DRIVER_FOLDER) / "libcuda.so.1")


class Device:
    """Device 0 with its primary context current."""

    def __init__(self, path: str | None = None) -> None:
        self.lib = ctypes.CDLL(path or library_path())
        self.call("cuInit", 0)
        self.device = ctypes.c_int()
        self.call("cuDeviceGet", ctypes.byref(self.device), 0)
        self._retain()

    def call(self, name: str, *arguments: object) -> None:
        code = getattr(self.lib, name)(*arguments)
        if code:
            raise DriverError(name, code)

    def _retain(self) -> None:
        context = ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), self.device)
        self.call("cuCtxSetCurrent", context)

    def reset(self) -> None:
        """A new context after a fault."""
        self.lib.cuDevicePrimaryCtxRelease_v2(self.device)
        self.lib.cuDevicePrimaryCtxReset_v2(self.device)
        self._retain()

    @property
    def name(self) -> str:
        text = ctypes.create_string_buffer(128)
        self.call("cuDeviceGetName", text, 128, self.device)
        return text.value.decode()

    def load(self, image: bytes) -> ctypes.c_void_p:
        """Loads a module from PTX text or an image; an error includes the compiler's log."""
        log = ctypes.create_string_buffer(16384)
        options = (ctypes.c_int * 2)(5, 6)  # CU_JIT_ERROR_LOG_BUFFER and its size
        values = (ctypes.c_void_p * 2)(ctypes.addressof(log), len(log))
        handle = ctypes.c_void_p()
        text = ctypes.create_string_buffer(image)
        code = self.lib.cuModuleLoadDataEx(ctypes.byref(handle), text, 2, options, values)
        if code:
            raise DriverError("cuModuleLoadDataEx", code, log.value.decode(errors="replace"))
        return handle

    def unload(self, handle: ctypes.c_void_p) -> None:
        self.call("cuModuleUnload", handle)

    def function(self, handle: ctypes.c_void_p, name: str) -> ctypes.c_void_p:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), handle, name.encode())
        return function

    def launch(
        self,
        function: ctypes.c_void_p,
        grid: int | tuple[int, int, int],
        block: int | tuple[int, int, int],
        arguments: list[object],
        shared: int = 0,
        cooperative: bool = False,
    ) -> None:
        """Queues a kernel on the default stream; arguments are ctypes values."""
        pointers = (ctypes.c_void_p * len(arguments))(*(ctypes.addressof(a) for a in arguments))  # type: ignore[arg-type]
        grid = (grid, 1, 1) if isinstance(grid, int) else grid
        block = (block, 1, 1) if isinstance(block, int) else block
        if cooperative:
            self.call("cuLaunchCooperativeKernel", function, *grid, *block, shared, None, pointers)
        else:
            self.call("cuLaunchKernel", function, *grid, *block, shared, None, pointers, None)

    def reserve_shared(self, function: ctypes.c_void_p, size: int) -> None:
        """Opts a kernel in to more than 48 KiB of dynamic shared memory."""
        self.call("cuFuncSetAttribute", function, 8, size)  # CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES

    def sync(self) -> None:
        self.call("cuCtxSynchronize")

    def memory(self, data: np.ndarray | int) -> Memory:
        """Device memory with the given content, or the given number of zeroed bytes."""
        return Memory(self, data)


class Memory:
    """One device allocation; freed with the object."""

    def __init__(self, device: Device, data: np.ndarray | int) -> None:
        self._device = device
        size = data if isinstance(data, int) else data.nbytes
        self.size = max(size, 8)
        address = c_u64()
        device.call("cuMemAlloc_v2", ctypes.byref(address), ctypes.c_size_t(self.size))
        self.address = address
        if isinstance(data, int):
            device.call("cuMemsetD8_v2", address, 0, ctypes.c_size_t(self.size))
        elif size:
            data = np.ascontiguousarray(data)
            device.call("cuMemcpyHtoD_v2", address, ctypes.c_void_p(data.ctypes.data), ctypes.c_size_t(size))

    def read(self, dtype: object, count: int) -> np.ndarray:
        """The first `count` elements."""
        result = np.zeros(count, dtype)
        if result.nbytes:
            self._device.call(
                "cuMemcpyDtoH_v2", ctypes.c_void_p(result.ctypes.data), self.address, ctypes.c_size_t(result.nbytes)
            )
        return result

    def free(self) -> None:
        self._device.call("cuMemFree_v2", self.address)


def run_form(device: Device, function: ctypes.c_void_p, form: Form) -> bytes:
    """Runs a form over its values. Returns the arrays of all results, followed by the scratch memory that it names."""
    cells = inputs(form)
    given = device.memory(cells)
    outputs = device.memory(8 * form.cases * max(1, len(form.results)))
    scratch = device.memory(16 * form.cases + 4096)
    try:
        arguments = [given.address, outputs.address, scratch.address, ctypes.c_uint32(form.cases)]
        device.launch(function, form.cases // form.block, form.block, arguments)
        device.sync()
        raw = outputs.read(np.uint8, 8 * form.cases * len(form.results)).reshape(len(form.results), form.cases, 8)
        parts = [raw[k, :, : result.bytes].tobytes() for k, result in enumerate(form.results)]
        return b"".join(parts) + scratch.read(np.uint8, form.scratch).tobytes()
    finally:
        for memory in (given, outputs, scratch):
            with contextlib.suppress(DriverError):  # the context may be destroyed
                memory.free()


def run_batch(device: Device, forms: list[Form]) -> dict[str, bytes | str]:
    """The results of several forms by id, or an error text if a form could not be loaded or run.

    Loads one module for all forms; if that fails, one module per form.
    """
    names = [f"form{k}" for k in range(len(forms))]
    try:
        handle = device.load(module(forms, names).encode())
    except DriverError as error:
        if len(forms) == 1:
            return {forms[0].id: f"rejected: {error}"}
        return {form.id: run_batch(device, [form])[form.id] for form in forms}
    results: dict[str, bytes | str] = {}
    for form, name in zip(forms, names, strict=True):
        try:
            results[form.id] = run_form(device, device.function(handle, name), form)
        except DriverError as error:
            device.reset()
            results[form.id] = f"failed: {error}"
            rest = [other for other in forms if other.id not in results]
            return results | (run_batch(device, rest) if rest else {})
    device.unload(handle)
    return results
