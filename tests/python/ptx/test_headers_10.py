# SPDX-License-Identifier: Apache-2.0
"""The functions of cuda_fp4.h, cuda_fp6.h, cuda_fp8.h and mma.h, and cooperative groups, compiled for the targets of compute capability 10
and 12, load on a CPU device of that capability."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from ptxsuite.libcudacxx import split
from ptxsuite.nvrtc import compile_ptx, library, skip_module_without_nvrtc
from ptxsuite.program import Program, device

pytestmark = pytest.mark.cpu_only
skip_module_without_nvrtc()

TARGETS = {"100a": "10.0", "103a": "10.3", "110a": "11.0", "120a": "12.0", "121a": "12.1"}


@pytest.fixture(params=TARGETS)
def target(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setenv("CUCORE_CPU_ARCH", TARGETS[request.param])
    return f"compute_{request.param}"


def header(name: str) -> str:
    """The text of a header of the toolkit."""
    _, includes = library()
    return next(path.read_text() for option in includes if (path := Path(option[2:]) / name).exists())


def load(source: str, target: str) -> None:
    device().call("cuModuleUnload", device().load(compile_ptx(source, arch=target)))


def kernel(expressions: list[str]) -> str:
    lines = "".join(f"  out[{n}] = {text};\n" for n, text in enumerate(expressions))
    return f'extern "C" __global__ void addresses(void** out) {{\n{lines}}}\n'


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_conversions_between_small_formats(target: str, bits: int) -> None:
    found = re.findall(
        r"__CUDA_(?:HOSTDEVICE_)?FP\d_DECL__\s+[\w ]+?\s+(__nv_cvt\w+)\s*\([^)]*\)\s*;", header(f"cuda_fp{bits}.h")
    )
    assert len(found) >= 10
    source = f"#include <cuda_fp{bits}.h>\n" + kernel(
        [f"reinterpret_cast<void*>(&{name})" for name in dict.fromkeys(found)]
    )
    load(source, target)


CLASSES = {
    4: ["__nv_fp4_e2m1"], 6: ["__nv_fp6_e2m3", "__nv_fp6_e3m2"], 8: ["__nv_fp8_e4m3", "__nv_fp8_e5m2", "__nv_fp8_e8m0"],
}  # fmt: skip
NUMBERS = [
    "float", "double", "__half", "__nv_bfloat16", "int", "unsigned", "short", "unsigned short", "long long", "unsigned long long",
]  # fmt: skip


@pytest.mark.parametrize("bits", CLASSES)
def test_classes_of_small_formats_convert_from_and_to_every_number(target: str, bits: int) -> None:
    lines = []
    for name in CLASSES[bits]:
        lines += [f"{{ {name} s(static_cast<{t}>(x)); sum += static_cast<float>(s); }}" for t in NUMBERS]
        lines += [f"sum += static_cast<float>(static_cast<{t}>({name}(x)));" for t in NUMBERS]
        pair = name.replace("_e", "x2_e")
        lines.append(f"{{ {pair} s(make_float2(x, -x)); float2 f = static_cast<float2>(s); sum += f.x - f.y; }}")
    body = "\n".join(lines)
    source = f"""#include <cuda_fp{bits}.h>
extern "C" __global__ void k(float* data) {{ float x = data[0], sum = 0;
{body}
data[1] = sum; }}"""
    data = np.array([1.0, 0.0], np.float32)
    Program(source, arch=target).run("k", 1, 1, data)
    counted = {4: 2 * len(NUMBERS) + 2, 6: 2 * (2 * len(NUMBERS) + 2), 8: 3 * (2 * len(NUMBERS) + 2)}[bits]
    assert data[1] == counted - (2 if bits == 8 else 0)  # e8m0 has no sign: -1 becomes 1


def test_products_of_warp_matrices(target: str) -> None:
    text = header("crt/mma.h")
    found = re.findall(r"__CUDA_MMA_DEVICE_DECL__\s+void\s+(\w+_sync)\(([^)]*)\)", text)
    casts = []
    for name, parameters in dict.fromkeys(found):
        if re.search(r"precision::[usb]\d", parameters):  # NVRTC: an unsupported operation from sm_100 on
            continue
        types = [re.sub(r"\s*=.*$", "", p) for p in split(parameters)]
        types = [re.sub(r"(?<=[&*\s])\w+$", "", p).strip() if not p.endswith(("&", "*")) else p for p in types]
        types = [re.sub(r"(?<!:)precision::(?=tf32)", "nvcuda::wmma::precision::", p) for p in types]
        casts.append(f"reinterpret_cast<void*>(static_cast<void (*)({', '.join(types)})>({name}))")
    assert len(casts) > 100
    load("#include <mma.h>\nusing namespace nvcuda::wmma;\n" + kernel(casts), target)


GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
namespace cg = cooperative_groups;
extern "C" __global__ void groups(int* out) {
  cg::grid_group grid = cg::this_grid();
  cg::thread_block block = cg::this_thread_block();
  cg::cluster_group cluster = cg::this_cluster();
  __shared__ int tile[256];
  auto warp = cg::tiled_partition<32>(block);
  auto quad = cg::tiled_partition<4>(warp);
  int rank = grid.thread_rank(), own = block.thread_rank();
  int sum = cg::reduce(warp, own, cg::plus<int>()), most = cg::reduce(quad, own, cg::greater<int>());
  int before = cg::exclusive_scan(warp, 1), until = cg::inclusive_scan(warp, own, cg::bit_xor<int>());
  tile[own] = own;
  cluster.sync();
  int* other = cluster.map_shared_rank(tile, (cluster.block_rank() + 1) % cluster.num_blocks());
  int there = other[block.size() - 1 - own];
  cluster.sync();
  cg::memcpy_async(block, tile, out + 8 * grid.size() + 256 * block.group_index().x, sizeof tile);
  cg::wait(block);
  auto active = cg::coalesced_threads();
  grid.sync();
  int values[8] = {sum, most, before, until, there, tile[own], (int)active.num_threads(), (int)warp.ballot(own % 3 == 0)};
  for (int n = 0; n < 8; ++n) out[8 * rank + n] = values[n];
  if (own % 2) { auto odd = cg::labeled_partition(cg::coalesced_threads(), own % 3); out[8 * rank + 6] = odd.num_threads(); }
}
"""


def test_cooperative_groups(target: str) -> None:
    blocks, threads = 2, 256
    out = np.zeros(blocks * threads * 9, np.int32)
    out[blocks * threads * 8 :] = np.arange(blocks * threads) * 3
    Program(GROUPS, arch=target).run("groups", blocks, threads, out, cooperative=True)
    got = out[: blocks * threads * 8].reshape(blocks, threads, 8)
    own = np.arange(threads)
    warps = own.reshape(-1, 32)
    for b in range(blocks):
        assert np.array_equal(got[b, :, 0], np.repeat(warps.sum(1), 32))
        assert np.array_equal(got[b, :, 1], own // 4 * 4 + 3)
        assert np.array_equal(got[b, :, 2], own % 32)
        assert np.array_equal(got[b, :, 3], np.bitwise_xor.accumulate(warps, axis=1).ravel())
        assert np.array_equal(got[b, :, 4], own[::-1])
        assert np.array_equal(got[b, :, 5], (own + threads * b) * 3)
        odd = own % 2 == 1
        assert (got[b, ~odd, 6] == 32).all()
        labels = [[(w % 2 == 1) & (w % 3 == label) for label in range(3)] for w in warps]
        expected = np.array([labels[n // 32][n % 3].sum() for n in own])
        assert np.array_equal(got[b, odd, 6], expected[odd])
        ballots = [sum(1 << lane for lane in range(32) if w[lane] % 3 == 0) for w in warps]
        assert np.array_equal(got[b, :, 7].astype(np.uint32), np.repeat(np.array(ballots, np.uint32), 32))
