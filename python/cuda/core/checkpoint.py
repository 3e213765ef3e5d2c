# SPDX-License-Identifier: Apache-2.0
"""Checkpoint and restore of a process's CUDA state, optionally on other GPUs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import _core
from ._errors import CUDAError
from .typing import ProcessStateType

__all__ = ["Process"]


_STATES = ("running", "locked", "checkpointed", "failed", "checkpointing", "restoring")


class Process:
    """The CUDA state of a process. Call ``lock``, ``checkpoint``, ``restore`` and ``unlock``, in this order.

    >>> import os
    >>> Process(os.getpid()).pid == os.getpid()
    True
    """

    __slots__ = ("_pid", "_process")

    def __init__(self, pid: int) -> None:
        if isinstance(pid, bool) or not isinstance(pid, int):
            raise TypeError(f"pid must be an int, not {type(pid).__name__}")
        self._process = _core._CheckpointProcess(pid)
        self._pid = pid

    def _ask(self, call: Callable[[], Any]) -> Any:
        """Calls the driver. Raises RuntimeError if the driver does not support checkpoints."""
        try:
            return call()
        except CUDAError as error:
            if error.code in (_core.CUDA_ERROR_NOT_FOUND, _core.CUDA_ERROR_NOT_SUPPORTED):
                raise RuntimeError(f"this driver cannot checkpoint the process {self._pid}: {error}") from error
            raise

    @property
    def pid(self) -> int:
        """The process ID."""
        return self._pid

    @property
    def state(self) -> ProcessStateType:
        """The state: "running", "locked", "checkpointed", "failed", "checkpointing" or "restoring"."""
        number = self._ask(lambda: self._process.state)
        return _STATES[number]  # type: ignore[return-value]

    @property
    def restore_thread_id(self) -> int:
        """The ID of the thread that must run for restore(), if another tool has stopped the process."""
        return int(self._ask(lambda: self._process.restore_thread_id))

    def lock(self, timeout_ms: int = 0) -> None:
        """Block further CUDA calls of the process. Wait at most ``timeout_ms`` milliseconds; 0 for no timeout."""
        if timeout_ms < 0:
            raise ValueError(f"timeout_ms must be at least 0, not {timeout_ms}")
        self._ask(lambda: self._process.lock(timeout_ms))

    def checkpoint(self) -> None:
        """Copy device memory to host memory and release the GPUs."""
        self._ask(self._process.checkpoint)

    def restore(self, gpu_mapping: Mapping[Any, Any] | None = None) -> None:
        """Acquire GPUs and restore device memory. ``gpu_mapping`` maps the UUIDs or Devices of old GPUs to new ones."""
        pairs = [(_uuid_bytes(old), _uuid_bytes(new)) for old, new in (gpu_mapping or {}).items()]
        self._ask(lambda: self._process.restore(pairs))

    def unlock(self) -> None:
        """Unblock the CUDA calls of the process."""
        self._ask(self._process.unlock)

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
