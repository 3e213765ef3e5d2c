# SPDX-License-Identifier: Apache-2.0
"""libnccl.so.2 of the CPU device by ctypes, for the programs of test_collectives.py."""

from __future__ import annotations

import ctypes
from typing import Any

import cucore
import numpy as np
from cuda.core import Device

TYPES: dict[str, tuple[int, Any]] = {
    "int8": (0, np.int8), "uint8": (1, np.uint8), "int32": (2, np.int32), "uint32": (3, np.uint32),
    "int64": (4, np.int64), "uint64": (5, np.uint64), "float16": (6, np.float16), "float32": (7, np.float32),
    "float64": (8, np.float64), "bfloat16": (9, np.uint16), "float8e4m3": (10, np.uint8), "float8e5m2": (11, np.uint8),
}  # fmt: skip
OPS = {"sum": 0, "prod": 1, "max": 2, "min": 3, "avg": 4}


class UniqueId(ctypes.Structure):
    _fields_ = [("internal", ctypes.c_char * 128)]


class Nccl:
    """Calls functions by name and raises for error codes."""

    def __init__(self) -> None:
        self.library = ctypes.CDLL(str(cucore.CPU_DRIVER_FOLDER / "libnccl.so.2"))
        self.library.ncclGetErrorString.restype = ctypes.c_char_p
        self.library.ncclGetLastError.restype = ctypes.c_char_p
        self.library.ncclCommInitRank.argtypes = [ctypes.c_void_p, ctypes.c_int, UniqueId, ctypes.c_int]

    def code(self, name: str, *arguments: Any) -> int:
        given = [ctypes.c_void_p(int(a.handle)) if hasattr(a, "handle") else a for a in arguments]
        given = [ctypes.c_size_t(a) if isinstance(a, np.integer) else a for a in given]
        return int(getattr(self.library, name)(*given))

    def __call__(self, name: str, *arguments: Any) -> None:
        code = self.code(name, *arguments)
        if code != 0:
            raise RuntimeError(f"{name}: {code}: {self.library.ncclGetLastError(None).decode()}")


nccl = Nccl()


def size(n: int) -> Any:
    return np.uint64(n)


class Rank:
    """One rank: a communicator, a device and a stream."""

    def __init__(self, comm: ctypes.c_void_p, device: Device) -> None:
        self.comm, self.device = comm, device
        device.set_current()
        self.stream = device.create_stream()

    def put(self, array: np.ndarray) -> Any:
        buffer = self.device.allocate(max(array.nbytes, 1), stream=self.stream)
        if array.nbytes:
            buffer.copy_from(np.ascontiguousarray(array), stream=self.stream)
        return buffer

    def get(self, buffer: Any, like: np.ndarray) -> np.ndarray:
        back = np.zeros(max(like.nbytes, 1), np.uint8)
        buffer.copy_to(back, stream=self.stream)
        self.stream.sync()
        return back[: like.nbytes].view(like.dtype).reshape(like.shape)


def all_ranks(count: int) -> list[Rank]:
    """All ranks in this process, a device each."""
    Device(0).set_current()
    comms = (ctypes.c_void_p * count)()
    nccl("ncclCommInitAll", comms, count, None)
    return [Rank(ctypes.c_void_p(comms[i]), Device(i)) for i in range(count)]


def together(ranks: list[Rank], call: Any) -> None:
    nccl("ncclGroupStart")
    for number, rank in enumerate(ranks):
        rank.device.set_current()
        call(number, rank)
    nccl("ncclGroupEnd")


def destroy(ranks: list[Rank]) -> None:
    for rank in ranks:
        nccl("ncclCommDestroy", rank.comm)
