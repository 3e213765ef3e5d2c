"""Stopping a process's CUDA work, saving it to host memory, and going on later, perhaps on another GPU."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _core
from ._errors import CUDAError
from .typing import ProcessStateType

__all__ = ["Process"]

_NOT_FOUND, _NOT_SUPPORTED = 500, 801  # CUDA_ERROR_...


def _ask(call: Callable[..., Any], *arguments: Any) -> Any:
    """Calls the driver. One that has no checkpoints is a RuntimeError that says so, for callers that can do without."""
    try:
        return call(*arguments)
    except CUDAError as error:
        if error.code in (_NOT_FOUND, _NOT_SUPPORTED):
            raise RuntimeError(f"this driver cannot checkpoint the process {arguments[0]}: {error}") from error
        raise


_STATES = ("running", "locked", "checkpointed", "failed", "checkpointing", "restoring")


class Process:
    """The CUDA side of a process: ``lock``, ``checkpoint``, ``restore``, ``unlock``, in this order.

    >>> import os
    >>> Process(os.getpid()).pid == os.getpid()
    True
    """

    __slots__ = ("_pid",)

    def __init__(self, pid: int) -> None:
        if isinstance(pid, bool) or not isinstance(pid, int):
            raise TypeError(f"pid must be an int, not {type(pid).__name__}")
        if pid <= 0:
            raise ValueError(f"pid must be positive, not {pid}")
        self._pid = pid

    @property
    def pid(self) -> int:
        """The process's number."""
        return self._pid

    @property
    def state(self) -> ProcessStateType:
        """ "running", "locked", "checkpointed" or "failed"."""
        number = _ask(_core.checkpoint_state, self._pid)
        return _STATES[number]  # type: ignore[return-value]

    @property
    def restore_thread_id(self) -> int:
        """The thread that restore() must be called for when other tools stopped the process."""
        return int(_ask(_core.checkpoint_thread, self._pid))

    def lock(self, timeout_ms: int = 0) -> None:
        """Let no new CUDA work start; waits at most timeout_ms (0: for ever)."""
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms must be at least 0, not {timeout_ms}")
        _ask(_core.checkpoint_lock, self._pid, timeout_ms)

    def checkpoint(self) -> None:
        """Save device memory to the host and let go of the GPUs."""
        _ask(_core.checkpoint_save, self._pid)

    def restore(self, gpu_mapping: Mapping[Any, Any] | None = None) -> None:
        """Take the GPUs back; gpu_mapping (old UUID or Device to new) says which."""
        pairs = [(_uuid_bytes(old), _uuid_bytes(new)) for old, new in (gpu_mapping or {}).items()]
        _ask(_core.checkpoint_restore, self._pid, pairs)

    def unlock(self) -> None:
        """Let CUDA work go on."""
        _ask(_core.checkpoint_unlock, self._pid)

    def __repr__(self) -> str:
        return f"Process(pid={self._pid})"


def _uuid_bytes(device: Any) -> bytes:
    text = getattr(device, "uuid", device)
    if isinstance(text, bytes) and len(text) == 16:
        return text
    digits = str(text).removeprefix("GPU-").removeprefix("MIG-").replace("-", "")
    try:
        raw = bytes.fromhex(digits)
    except ValueError:
        raw = b""
    if len(raw) != 16:
        raise ValueError(f"not a device or its UUID: {device!r}")
    return raw
