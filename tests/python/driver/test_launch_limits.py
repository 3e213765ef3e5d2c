# SPDX-License-Identifier: Apache-2.0
"""Launch limits: shared memory beyond 48 KiB after opt-in, cooperative grids that fit, permitted cluster sizes."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver as d

PTX = b"""
.version 8.3
.target sm_90
.address_size 64
.extern .shared .align 16 .b8 dynamic[];
.visible .entry last(.param .u64 out, .param .u32 bytes) {
  .reg .b64 %o; .reg .b32 %b, %a, %v;
  ld.param.u64 %o, [out]; ld.param.u32 %b, [bytes];
  mov.u32 %a, dynamic; add.u32 %a, %a, %b; sub.u32 %a, %a, 4;
  st.shared.u32 [%a], %b; ld.shared.u32 %v, [%a]; st.global.u32 [%o], %v;
  ret; }
.visible .entry nothing(.param .u64 out, .param .u32 bytes) { ret; }
"""


@pytest.fixture(scope="module")
def kernels(context: Any, check: Any) -> dict[str, Any]:
    module = check(d.cuModuleLoadData(PTX))
    return {name: check(d.cuModuleGetFunction(module, name.encode())) for name in ("last", "nothing")}


def launch(
    kernel: Any, out: Any, stream: Any, grid: int = 1, block: int = 1, shared: int = 0, **attributes: Any
) -> int:
    config = d.CUlaunchConfig()
    config.gridDimX, config.gridDimY, config.gridDimZ = grid, 1, 1
    config.blockDimX, config.blockDimY, config.blockDimZ = block, 1, 1
    config.sharedMemBytes, config.hStream = shared, stream
    found = []
    for name, value in attributes.items():
        attribute = d.CUlaunchAttribute()
        attribute.id = getattr(d.CUlaunchAttributeID, f"CU_LAUNCH_ATTRIBUTE_{name.upper()}")
        if name == "cluster_dimension":
            attribute.value.clusterDim.x, attribute.value.clusterDim.y, attribute.value.clusterDim.z = value, 1, 1
        elif name == "cooperative":
            attribute.value.cooperative = value
        elif name == "priority":
            attribute.value.priority = value
        else:
            attribute.value.programmaticStreamSerializationAllowed = value
        found.append(attribute)
    config.attrs, config.numAttrs = found, len(found)
    return int(d.cuLaunchKernelEx(config, kernel, ((int(out), shared), (ctypes.c_uint64, ctypes.c_uint32)), 0)[0])


@pytest.fixture
def out(context: Any, check: Any) -> Any:
    address = check(d.cuMemAlloc(64))
    yield address
    check(d.cuMemFree(address))


def test_shared_memory_beyond_48_kib_requires_opt_in(
    context: Any, check: Any, stream: Any, kernels: Any, out: Any
) -> None:
    kernel = kernels["last"]
    most = check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 0))
    attribute = d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES
    assert most > 48 << 10
    assert launch(kernel, out, stream, shared=48 << 10) == 0
    assert launch(kernel, out, stream, shared=(48 << 10) + 16) == 1
    assert int(d.cuFuncSetAttribute(kernel, attribute, most + 1)[0]) == 1
    check(d.cuFuncSetAttribute(kernel, attribute, most))
    assert check(d.cuFuncGetAttribute(attribute, kernel)) == most
    assert launch(kernel, out, stream, shared=most) == 0
    check(d.cuStreamSynchronize(stream))
    value = ctypes.c_uint32()
    check(d.cuMemcpyDtoH(ctypes.addressof(value), out, 4))
    assert value.value == most
    assert launch(kernel, out, stream, shared=most + 16) == 1


def test_cooperative_grid_larger_than_the_occupancy_returns_an_error(
    context: Any, check: Any, stream: Any, kernels: Any, out: Any
) -> None:
    kernel = kernels["nothing"]
    processors = check(d.cuDeviceGetAttribute(d.CUdevice_attribute.CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, 0))
    for block in (32, 512):
        room = processors * check(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, block, 0))
        assert launch(kernel, out, stream, grid=room, block=block, cooperative=1) == 0
        assert launch(kernel, out, stream, grid=room + 1, block=block, cooperative=1) == 720
        assert launch(kernel, out, stream, grid=room + 1, block=block) == 0
    check(d.cuStreamSynchronize(stream))


def test_clusters_of_more_than_eight_blocks_require_opt_in(
    context: Any, check: Any, stream: Any, kernels: Any, out: Any
) -> None:
    kernel = kernels["nothing"]
    assert launch(kernel, out, stream, grid=16, block=32, cluster_dimension=8) == 0
    assert launch(kernel, out, stream, grid=16, block=32, cluster_dimension=16) != 0
    check(d.cuFuncSetAttribute(kernel, d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1))
    assert launch(kernel, out, stream, grid=16, block=32, cluster_dimension=16) == 0
    assert (
        launch(kernel, out, stream, grid=15, block=32, cluster_dimension=4) != 0
    )  # not a multiple of the cluster size
    check(d.cuStreamSynchronize(stream))


def test_priority_and_programmatic_serialization_are_accepted(
    context: Any, check: Any, stream: Any, kernels: Any, out: Any
) -> None:
    for _ in range(3):
        assert launch(kernels["nothing"], out, stream, priority=-1, programmatic_stream_serialization=1) == 0
    check(d.cuStreamSynchronize(stream))


@pytest.mark.parametrize(
    ("bounds", "threads", "blocks"),
    [(".maxntid 384, 1, 1", 384, 1), (".maxntid 256, 1, 1 .minnctapersm 3", 256, 3), (".reqntid 1024, 1, 1", 1024, 1)],
)
def test_occupancy_honours_launch_bounds_with_any_register_count(
    context: Any, check: Any, bounds: str, threads: int, blocks: int
) -> None:
    """Programs compute their grids from these results (as CUB's histogram does): zero would be an empty grid."""
    count = 3000
    loads = "".join(f"ld.volatile.global.u32 %r{k}, [%o+{4 * k}];" for k in range(count))
    stores = "".join(f"st.volatile.global.u32 [%o+{4 * k}], %r{count - 1 - k};" for k in range(count))
    text = (
        ".version 8.3\n.target sm_90\n.address_size 64\n.visible .entry large(.param .u64 out) "
        f"{bounds} {{ .reg .b64 %o; .reg .b32 %r<{count}>; ld.param.u64 %o, [out]; {loads} {stores} ret; }}"
    )
    module = check(d.cuModuleLoadData(text.encode()))
    kernel = check(d.cuModuleGetFunction(module, b"large"))
    assert check(d.cuOccupancyMaxActiveBlocksPerMultiprocessor(kernel, threads, 0)) >= blocks
    registers = check(d.cuFuncGetAttribute(d.CUfunction_attribute.CU_FUNC_ATTRIBUTE_NUM_REGS, kernel))
    assert 16 <= registers <= 65536 // (threads * blocks)
    check(d.cuModuleUnload(module))
