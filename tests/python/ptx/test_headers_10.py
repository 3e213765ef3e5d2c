# SPDX-License-Identifier: Apache-2.0
"""The functions of cuda_fp4.h, cuda_fp6.h, cuda_fp8.h and mma.h, and cooperative groups, compiled for the targets of compute capability 10
and 12, load on a CPU device of that capability."""

from __future__ import annotations

import functools
import itertools
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


CONVERSION = re.compile(r"__CUDA_(?:HOSTDEVICE_)?FP\d_DECL__\s+([\w ]+?)\s+(__nv_cvt\w+)\s*\(([^)]*)\)\s*;")
# The values of the parameters that are no numbers.
CHOICES = {
    "__nv_saturation_t": ["__NV_NOSAT", "__NV_SATFINITE"], "__nv_fp8_interpretation_t": ["__NV_E4M3", "__NV_E5M2"],
    "__nv_fp6_interpretation_t": ["__NV_E2M3", "__NV_E3M2"], "__nv_fp4_interpretation_t": ["__NV_E2M1"],
    "enum cudaRoundMode": ["cudaRoundZero", "cudaRoundPosInf"],
}  # fmt: skip


def conversions(bits: int) -> list[str]:
    """Statements that call every conversion of a header with each choice of its parameters, on the bits of `given`, into out[...]."""
    made = []
    for result, name, parameters in dict.fromkeys(CONVERSION.findall(header(f"cuda_fp{bits}.h"))):
        types = [re.sub(r"\bconst\b|\w+$", "", p).strip() for p in split(parameters)]
        numbers = [t for t in types if t not in CHOICES]
        assert len(numbers) == 1, (name, types)
        rounding = "enum cudaRoundMode" in types and "to_e8m0" not in name
        for chosen in itertools.product(*(CHOICES[t] for t in types if t in CHOICES)):
            rest = ["cudaRoundNearest" if rounding and word.startswith("cudaRound") else word for word in chosen]
            if rounding and "cudaRoundPosInf" in chosen:
                continue
            arguments = [rest.pop(0) if t in CHOICES else "x" for t in types]
            made.append(
                f"{{ {numbers[0]} x; memcpy(&x, &given, sizeof x); {result} y = {name}({', '.join(arguments)}); "
                f"memcpy(&out[{len(made)} * count + thread], &y, sizeof y); }}  // {name}({', '.join(chosen)})"
            )
    return made


def bit_patterns(bits: int) -> np.ndarray:
    """Pairs of 64 bits: every small number, floats and doubles of all sizes, with halves, zeros, infinities and NaNs."""
    rng = np.random.default_rng(bits)
    count = 4096
    raw = rng.integers(0, 2**64, (count, 2), np.uint64)
    raw[:256, 0] = np.arange(256)
    near = (rng.standard_normal((count // 2, 2)) * 2.0 ** rng.integers(-12, 12, (count // 2, 2))).round(3)
    floats = near.astype(np.float32)
    raw[256 : 256 + count // 4] = np.ascontiguousarray(near[: count // 4]).view(np.uint64)
    raw[256 + count // 4 : 256 + count // 2, 0] = np.ascontiguousarray(floats[: count // 4]).view(np.uint64)[:, 0]
    edges = np.array(
        [0, 0x80000000, 0x7F800000, 0xFF800000, 0x7FC00000, 0xFFC00001, 0x7F800001, 1, 0x3F800000, 0x43E00000],
        np.uint64,
    )
    raw[-100:, 0] = (edges[:, None] << np.uint64(32) | edges[None, :]).ravel()
    doubles = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, 464.0, 464.5, 57344.0, 61440.0, 28.0, 7.5, 6.0, 0.25, 2.0**-10]
    )
    raw[-200 : -200 + 14] = np.stack([doubles, -doubles[::-1]], axis=1).view(np.uint64)
    return raw


@functools.cache
def converted(bits: int, target: str, arch: str) -> np.ndarray:
    lines = conversions(bits)
    given = bit_patterns(bits)
    body = "\n".join(lines)
    source = f"""#include <cuda_fp{bits}.h>
extern "C" __global__ void k(const ulonglong2* in, unsigned long long* out, int count) {{
  const int thread = blockIdx.x * blockDim.x + threadIdx.x;
  const ulonglong2 given = in[thread];
{body}
}}"""
    out = np.zeros((len(lines), len(given)), np.uint64)
    Program(source, arch=target).run("k", len(given) // 128, 128, given, out, len(given))
    return out


@pytest.mark.parametrize("bits", [4, 6, 8])
def test_conversions_between_small_formats(target: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The instructions give the bits that the headers compute with integers for older targets."""
    got = converted(bits, target, "")
    monkeypatch.setenv("CUCORE_CPU_ARCH", "9.0")
    expected = converted(bits, "compute_75", "9.0")
    names = [line.partition("// ")[2] for line in conversions(bits)]
    assert len(names) >= 10  # CUDA 13.0 has ten for four bits, 13.4 more
    wrong = {}
    for name, mine, wanted in zip(names, got, expected, strict=True):
        where = np.flatnonzero(mine != wanted)
        if len(where):
            n = where[0]
            wrong[name] = (len(where), [hex(v) for v in bit_patterns(bits)[n]], hex(mine[n]), hex(wanted[n]))
    assert not wrong, wrong


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


# element of a and b, accumulator, shapes
PRODUCTS = [
    ("__half", "float", "16,16,16 32,8,16 8,32,16"), ("__half", "__half", "16,16,16 32,8,16 8,32,16"),
    ("__nv_bfloat16", "float", "16,16,16 32,8,16 8,32,16"), ("signed char", "int", "16,16,16 32,8,16 8,32,16"),
    ("unsigned char", "int", "16,16,16 32,8,16 8,32,16"), ("precision::tf32", "float", "16,16,8"), ("double", "double", "8,8,4"),
]  # fmt: skip
WMMA = """#include <mma.h>
#include <cuda_fp16.h>
#include <cuda_bf16.h>
using namespace nvcuda::wmma;
template <class A, class B> constexpr bool same = false;
template <class A> constexpr bool same<A, A> = true;
template <class T> struct Stored { using type = T; };
template <> struct Stored<precision::tf32> { using type = float; };
template <int M, int N, int K, class T, class C, class LA, class LB, layout_t LC>
__device__ void product(const double* a, const double* b, const double* c, double* d) {
  using S = typename Stored<T>::type;
  __shared__ alignas(32) S sa[M * K], sb[K * N];
  __shared__ alignas(32) C sc[M * N];
  constexpr bool ra = same<LA, row_major>, rb = same<LB, row_major>, rc = LC == mem_row_major;
  for (int n = threadIdx.x; n < M * K; n += 32) sa[ra ? n : n % K * M + n / K] = S(float(a[n]));
  for (int n = threadIdx.x; n < K * N; n += 32) sb[rb ? n : n % N * K + n / N] = S(float(b[n]));
  for (int n = threadIdx.x; n < M * N; n += 32) sc[rc ? n : n % N * M + n / N] = C(float(c[n]));
  __syncwarp();
  fragment<matrix_a, M, N, K, T, LA> fa;
  fragment<matrix_b, M, N, K, T, LB> fb;
  fragment<accumulator, M, N, K, C> fc, fd;
  load_matrix_sync(fa, sa, ra ? K : M);
  load_matrix_sync(fb, sb, rb ? N : K);
  load_matrix_sync(fc, sc, rc ? N : M, LC);
  mma_sync(fd, fa, fb, fc);
  fill_fragment(fc, C(float(1)));
  for (int n = 0; n < fd.num_elements; ++n) fd.x[n] = fd.x[n] + fc.x[n];
  __syncwarp();
  store_matrix_sync(sc, fd, rc ? N : M, LC);
  __syncwarp();
  for (int n = threadIdx.x; n < M * N; n += 32) d[n] = double(float(sc[rc ? n : n % N * M + n / N]));
  __syncwarp();
}
extern "C" __global__ void k(const double* a, const double* b, const double* c, double* d) {
@CALLS@
}
"""


@pytest.mark.parametrize(("element", "sum_", "shapes"), PRODUCTS, ids=[f"{p[0]}-{p[1]}" for p in PRODUCTS])
def test_products_of_warp_matrices_run(target: str, element: str, sum_: str, shapes: str) -> None:
    """Every shape, layout and type of mma.h that NVRTC compiles for these targets; the numbers are such that sums are exact."""
    layouts = list(
        itertools.product(["row_major", "col_major"], ["row_major", "col_major"], ["mem_row_major", "mem_col_major"])
    )
    for shape in shapes.split():
        m, n, k = map(int, shape.split(","))
        rng = np.random.default_rng(m + k)
        low = 0 if element.startswith("unsigned") else -4
        a, b = rng.integers(low, 5, (m, k)).astype(np.float64), rng.integers(low, 5, (k, n)).astype(np.float64)
        c = rng.integers(-9, 10, (m, n)).astype(np.float64)
        calls = "\n".join(
            f"  product<{shape}, {element}, {sum_}, {la}, {lb}, {lc}>(a, b, c, d + {n * m} * {number});"
            for number, (la, lb, lc) in enumerate(layouts)
        )
        d = np.zeros((len(layouts), m, n))
        Program(WMMA.replace("@CALLS@", calls), arch=target).run("k", 1, 32, a, b, c, d)
        for layout, got in zip(layouts, d, strict=True):
            assert np.array_equal(got, a @ b + c + 1), (shape, layout)


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


MORE_GROUPS = r"""
#include <cooperative_groups.h>
#include <cooperative_groups/memcpy_async.h>
#include <cooperative_groups/reduce.h>
#include <cooperative_groups/scan.h>
#include <cuda/atomic>
namespace cg = cooperative_groups;
__device__ int before_all[1];
#define PUT(value) out[48 * rank + slot++] = (int)(value)
extern "C" __global__ void __cluster_dims__(2, 1, 1) more(int* out, int* sums, const int* in) {
  __shared__ cg::block_tile_memory<128> room;
  __shared__ int tile[128], total;
  int slot = 0;
  auto grid = cg::this_grid();
  auto cluster = cg::this_cluster();
  auto block = cg::this_thread_block(room);
  const int rank = grid.thread_rank(), own = block.thread_rank();
  PUT(block.group_index().x); PUT(block.thread_index().x); PUT(block.dim_threads().x); PUT(block.group_dim().x); PUT(block.num_threads());
  PUT(grid.block_rank()); PUT(grid.num_blocks()); PUT(grid.dim_blocks().x); PUT(grid.block_index().x); PUT(grid.is_valid());
  PUT(grid.cluster_rank()); PUT(grid.num_clusters()); PUT(grid.dim_clusters().x); PUT(grid.cluster_index().x);
  PUT(cluster.block_rank()); PUT(cluster.num_blocks()); PUT(cluster.block_index().x); PUT(cluster.dim_blocks().x); PUT(cluster.thread_rank());
  PUT(cluster.num_threads()); PUT(cluster.query_shared_rank(cluster.map_shared_rank(tile, 1)));
  tile[own] = own * 3;
  auto token = block.barrier_arrive(); block.barrier_wait(std::move(token));
  auto all = cluster.barrier_arrive(); cluster.barrier_wait(std::move(all));
  PUT(cluster.map_shared_rank(tile, cluster.block_rank() ^ 1)[127 - own]);
  auto wide = cg::tiled_partition<64>(block);
  PUT(wide.meta_group_rank()); PUT(wide.meta_group_size()); PUT(wide.shfl(own, 5)); PUT(wide.any(own == 70)); PUT(wide.all(own < 64));
  PUT(cg::reduce(wide, own, cg::plus<int>()));
  auto eight = cg::tiled_partition<8>(cg::tiled_partition<32>(block));
  PUT(eight.shfl_up(own, 2)); PUT(eight.shfl_down(own, 3)); PUT(eight.shfl_xor(own, 6)); PUT(eight.any(own % 16 == 3)); PUT(eight.all(own % 16 < 8));
  PUT(eight.match_any(own % 3)); int same = 0; eight.match_all(own / 8, same); PUT(same);
  auto halves = cg::binary_partition(cg::tiled_partition<32>(block), own % 4 == 0);
  PUT(halves.num_threads()); PUT(halves.thread_rank()); PUT(halves.shfl(own, 1));
  cuda::atomic_ref<int, cuda::thread_scope_device> sum(sums[0]), cell(sums[1 + block.group_index().x]);
  cg::reduce_update_async(eight, sum, own, cg::plus<int>());
  if (own < 8) cg::reduce_store_async(eight, cell, own, cg::greater<int>());
  cuda::atomic_ref<int, cuda::thread_scope_block> local(total);
  if (own == 0) total = 100;
  block.sync();
  PUT(cg::exclusive_scan_update(eight, local, 1, cg::plus<int>()) >= 100);
  PUT(cg::invoke_one_broadcast(eight, [&] { return own / 8 + 1; }));
  cg::invoke_one(eight, [&] { atomicAdd(&sums[40], 1); });
  block.sync();
  PUT(total);
  cg::memcpy_async(block, tile, in, 256);
  cg::memcpy_async(block, tile + 64, in + 64, 256);
  cg::wait_prior<1>(block);
  PUT(tile[own % 64]);
  cg::wait(block);
  PUT(tile[own]);
  cluster.sync();
}
"""


def test_further_functions_of_cooperative_groups(target: str) -> None:
    blocks, threads = 4, 128
    out, sums = np.full((blocks * threads, 48), -1, np.int32), np.zeros(64, np.int32)
    data = np.random.default_rng(1).integers(0, 2**31, 128).astype(np.int32)
    Program(MORE_GROUPS, arch=target).run("more", blocks, threads, out, sums, data)
    for rank in range(blocks * threads):
        block, own = divmod(rank, threads)
        eight, lane = own // 8 * 8, own % 8
        quarters = own % 4 == 0
        members = [t for t in range(own // 32 * 32, own // 32 * 32 + 32) if (t % 4 == 0) == quarters]
        matches = sum(1 << n for n in range(8) if (eight + n) % 3 == own % 3)
        wide = own // 64 * 64
        expected = [
            block, own, threads, threads, threads, block, blocks, blocks, block, 1, block // 2, blocks // 2, blocks // 2, block // 2,
            block % 2, 2, block % 2, 2, block % 2 * threads + own, 2 * threads, 1, (127 - own) * 3,
            own // 64, 2, wide + 5, int(wide <= 70 < wide + 64), int(wide == 0), sum(range(wide, wide + 64)),
            own - 2 if lane >= 2 else own, own + 3 if lane < 5 else own, eight + (lane ^ 6), int(eight % 16 == 0), int(eight % 16 == 0),
            matches, 1, len(members), members.index(own), members[1], 1, own // 8 + 1, 228, data[own % 64], data[own],
        ]  # fmt: skip
        assert out[rank, : len(expected)].tolist() == [int(v) for v in expected], (rank, out[rank].tolist())
    assert sums[0] == blocks * sum(range(threads)) and sums[1 : 1 + blocks].tolist() == [7] * blocks
    assert sums[40] == blocks * threads // 8
