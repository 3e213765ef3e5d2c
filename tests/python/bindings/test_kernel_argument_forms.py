# SPDX-License-Identifier: Apache-2.0
"""Kernel arguments in every documented form with every launch function; launch attributes; packed arguments."""

from __future__ import annotations

import ctypes
import enum
from collections.abc import Callable
from typing import Any

import pytest
from cuda.bindings import driver as d
from cuda.bindings import runtime as r

SOURCE = """
struct pair { int a; float b; };
extern "C" __global__ void put(int* out, int number, float real, pair both, bool yes)
{ out[0] = number; out[1] = (int)real; out[2] = both.a; out[3] = (int)both.b; out[4] = yes; }
extern "C" __global__ void ranks(int* out) {
  unsigned rank; asm("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  out[blockIdx.x] = rank;
}
"""
EXPECTED = [11, 2, 7, 5, 1]


class Pair(ctypes.Structure):
    _fields_ = [("a", ctypes.c_int), ("b", ctypes.c_float)]


class Eleven(enum.IntEnum):
    VALUE = 11


class Answers:
    """An argument that has the address of its value."""

    def __init__(self, value: Any) -> None:
        self.value = value

    def getPtr(self) -> int:
        return ctypes.addressof(self.value)


PLAIN = (ctypes.c_void_p, ctypes.c_int, ctypes.c_float, None, ctypes.c_bool)


def addresses(pointer: int) -> tuple[Any, list[Any]]:
    values = [ctypes.c_void_p(pointer), ctypes.c_int(11), ctypes.c_float(2.5), Pair(7, 5.5), ctypes.c_bool(True)]
    return (ctypes.c_void_p * 5)(*(ctypes.addressof(v) for v in values)), values


def as_numpy(pointer: int) -> Any:
    numpy = pytest.importorskip("numpy")
    array, values = addresses(pointer)
    made = numpy.array(list(array), dtype=numpy.uint64)
    return made, (made, values)


def as_address(pointer: int) -> Any:
    array, values = addresses(pointer)
    return ctypes.addressof(array), (array, values)


# name: pointer -> (argument, objects to keep alive)
FORMS: dict[str, Callable[[int], Any]] = {
    "values with ctypes types": lambda p: (((p, 11, 2.5, Pair(7, 5.5), True), PLAIN), None),
    "ctypes values without types": lambda p: (((ctypes.c_void_p(p), ctypes.c_int(11), ctypes.c_float(2.5), Pair(7, 5.5), ctypes.c_bool(True)), (None,) * 5), None),
    "a handle and an enum": lambda p: (((d.CUdeviceptr(p), Eleven.VALUE, 2.5, Pair(7, 5.5), True), (None, None, *PLAIN[2:])), None),
    "objects with getPtr": lambda p: (((p, Answers(ctypes.c_int(11)), Answers(ctypes.c_float(2.5)), Answers(Pair(7, 5.5)), 1), (PLAIN[0], None, None, None, PLAIN[4])), None),
    "lists instead of tuples": lambda p: (([p, 11, 2.5, Pair(7, 5.5), True], list(PLAIN)), None),
    "the address of an array of addresses": as_address,
    "a ctypes array of addresses": lambda p: (lambda made: (made[0], made))(addresses(p)),
    "a NumPy array of addresses": as_numpy,
}  # fmt: skip


def launchers(function: Any, stream: Any, check: Any) -> dict[str, Callable[[Any], None]]:
    one = r.dim3()
    config = d.CUlaunchConfig()
    for axis in "XYZ":
        setattr(config, f"gridDim{axis}", 1)
        setattr(config, f"blockDim{axis}", 1)
    config.hStream = stream
    other = r.cudaLaunchConfig_t()
    other.gridDim, other.blockDim, other.stream = one, one, r.cudaStream_t(int(stream))
    return {
        "cuLaunchKernel": lambda a: check(d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, a, 0)),
        "cuLaunchKernelEx": lambda a: check(d.cuLaunchKernelEx(config, function, a, 0)),
        "cuLaunchCooperativeKernel": lambda a: check(
            d.cuLaunchCooperativeKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, a)
        ),
        "cudaLaunchKernel": lambda a: check(r.cudaLaunchKernel(function, one, one, a, 0, stream)),
        "cudaLaunchKernelExC": lambda a: check(r.cudaLaunchKernelExC(other, function, a)),
        "cudaLaunchCooperativeKernel": lambda a: check(r.cudaLaunchCooperativeKernel(function, one, one, a, 0, stream)),
    }


LAUNCHERS = ["cuLaunchKernel", "cuLaunchKernelEx", "cuLaunchCooperativeKernel", "cudaLaunchKernel", "cudaLaunchKernelExC",
             "cudaLaunchCooperativeKernel"]  # fmt: skip


@pytest.mark.parametrize("launcher", LAUNCHERS)
def test_every_argument_form_works_with_every_launch_function(
    launcher: str, compile_kernel: Any, memory: Any, stream: Any, ints: Any, check: Any
) -> None:
    launch = launchers(compile_kernel(SOURCE, "put"), stream, check)[launcher]
    for form, make in FORMS.items():
        check(d.cuMemsetD8(memory, 0, 64))
        argument, _alive = make(int(memory))
        launch(argument)
        check(d.cuStreamSynchronize(stream))
        assert ints(memory, 5) == EXPECTED, form


def test_packed_argument_buffer_reaches_the_kernel(
    compile_kernel: Any, memory: Any, stream: Any, ints: Any, check: Any
) -> None:
    """`extra` is the address of a list of markers and addresses, as in C."""

    class Packed(ctypes.Structure):
        _fields_ = [
            ("out", ctypes.c_void_p),
            ("number", ctypes.c_int),
            ("real", ctypes.c_float),
            ("both", Pair),
            ("yes", ctypes.c_bool),
        ]

    packed = Packed(int(memory), 11, 2.5, Pair(7, 5.5), True)
    size = ctypes.c_size_t(25)
    extra = (ctypes.c_void_p * 5)(
        d.CU_LAUNCH_PARAM_BUFFER_POINTER_AS_INT, ctypes.addressof(packed),
        d.CU_LAUNCH_PARAM_BUFFER_SIZE_AS_INT, ctypes.addressof(size), d.CU_LAUNCH_PARAM_END_AS_INT,
    )  # fmt: skip
    function = compile_kernel(SOURCE, "put")
    check(d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, stream, None, ctypes.addressof(extra)))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 5) == EXPECTED


def attribute(kind: str, **fields: Any) -> Any:
    made = d.CUlaunchAttribute()
    made.id = getattr(d.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{kind}")
    for path, value in fields.items():
        holder: Any = made.value
        *outer, last = path.split("__")
        for name in outer:
            holder = getattr(holder, name)
        setattr(holder, last, value)
    return made


def test_driver_launch_attributes_take_effect(
    compile_kernel: Any, device: Any, memory: Any, stream: Any, ints: Any, check: Any
) -> None:
    if not check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device)):
        pytest.skip("no clusters")
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = 4, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ, config.hStream = 1, 1, 1, stream
    event = check(d.cuEventCreate(d.CUevent_flags.CU_EVENT_DISABLE_TIMING))
    config.attrs = [
        attribute("CLUSTER_DIMENSION", clusterDim__x=2, clusterDim__y=1, clusterDim__z=1),
        attribute("PRIORITY", priority=check(d.cuCtxGetStreamPriorityRange())[1]),
        attribute("CLUSTER_SCHEDULING_POLICY_PREFERENCE",
                  clusterSchedulingPolicyPreference=d.CUclusterSchedulingPolicy.CU_CLUSTER_SCHEDULING_POLICY_SPREAD),
        attribute("PROGRAMMATIC_STREAM_SERIALIZATION", programmaticStreamSerializationAllowed=1),
        attribute("LAUNCH_COMPLETION_EVENT", launchCompletionEvent__event=event, launchCompletionEvent__flags=0),
        attribute("MEM_SYNC_DOMAIN", memSyncDomain=d.CUlaunchMemSyncDomain.CU_LAUNCH_MEM_SYNC_DOMAIN_DEFAULT),
    ]  # fmt: skip
    assert config.numAttrs == 6
    check(d.cuLaunchKernelEx(config, compile_kernel(SOURCE, "ranks"), ((memory,), (None,)), 0))
    check(d.cuEventSynchronize(event))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 4) == [0, 1, 0, 1]
    config.attrs = [attribute("CLUSTER_DIMENSION", clusterDim__x=3, clusterDim__y=1, clusterDim__z=1)]
    assert config.numAttrs == 1
    code = d.cuLaunchKernelEx(config, compile_kernel(SOURCE, "ranks"), ((memory,), (None,)), 0)[0]
    assert code == d.CUresult.CUDA_ERROR_INVALID_CLUSTER_SIZE or code == d.CUresult.CUDA_ERROR_INVALID_VALUE
    check(d.cuEventDestroy(event))


def test_runtime_launch_attributes_take_effect(
    compile_kernel: Any, device: Any, memory: Any, stream: Any, ints: Any, check: Any
) -> None:
    if not check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, device)):
        pytest.skip("no clusters")
    cluster = r.cudaLaunchAttribute()
    cluster.id = r.cudaLaunchAttributeID.cudaLaunchAttributeClusterDimension
    cluster.val.clusterDim.x, cluster.val.clusterDim.y, cluster.val.clusterDim.z = 4, 1, 1
    config = r.cudaLaunchConfig_t()
    config.gridDim = config.blockDim = r.dim3()
    config.gridDim.x, config.stream = 4, r.cudaStream_t(int(stream))
    config.attrs = [cluster]
    check(r.cudaLaunchKernelExC(config, compile_kernel(SOURCE, "ranks"), ((int(memory),), (ctypes.c_void_p,))))
    check(d.cuStreamSynchronize(stream))
    assert ints(memory, 4) == [0, 1, 2, 3]


def test_context_creation_accepts_keyword_arguments(device: Any, check: Any) -> None:
    for arguments in ({"flags": 0, "dev": device}, {"ctxCreateParams": None, "flags": 0, "dev": device}):
        check(d.cuCtxDestroy(check(d.cuCtxCreate(**arguments))))
    parameters = d.CUctxCreateParams()
    check(d.cuCtxDestroy(check(d.cuCtxCreate(parameters, 0, device))))
    with pytest.raises(TypeError, match="missing required argument 'dev'"):
        d.cuCtxCreate(ctxCreateParams=None, flags=0)
