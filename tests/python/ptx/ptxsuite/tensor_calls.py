# SPDX-License-Identifier: Apache-2.0
"""The functions of libcu++'s cuda::ptx for tensor memory (tcgen05): a kernel that calls one of them, and what it must leave."""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from .libcudacxx import Call
from .program import Program, device
from .ptx_calls import KERNEL, count_of
from .tensor_memory import Matrix, fragment
from .tensor_products import A_AT, METADATA_AT, SCALE_A_AT, SCALE_B_AT, Case

RNG = np.random.default_rng(5)
COLUMNS = 512
SPLIT = 64  # of .16x32bx2: the columns of the upper 16 threads start here

# The words of all 512 columns go in before the call and out after it. With `leader` one thread of the first block calls.
BODY = """
template <int G> __device__ void alloc(u32* room) {
  if (G == 1) asm volatile("tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(room)) : "memory");
  else asm volatile("tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%0], 512;" ::"r"(at(room)) : "memory");
}
template <int G> __device__ void release(u32 where) {
  if (G == 1) asm volatile("tcgen05.dealloc.cta_group::1.sync.aligned.b32 %0, 512;" ::"r"(where) : "memory");
  else asm volatile("tcgen05.dealloc.cta_group::2.sync.aligned.b32 %0, 512;" ::"r"(where) : "memory");
}
template <int G> __device__ void all() { if (G == 1) __syncthreads(); else meet(); }
extern "C" __global__ void @CLUSTER@ __launch_bounds__(128) @NAME@(const uint4* image, u32 bytes, u32* cells, u64 a, u64 b, u64 z, u32 i,
                                                               const u32* masks, u32* results, u32 which) {
  constexpr int G = @GROUP@;
  extern __shared__ __align__(1024) unsigned char dynamic[];
  __shared__ u32 room[4];
  __shared__ alignas(8) u64 bar;
  const u32 thread = threadIdx.x, rank = G == 1 ? 0 : blockIdx.x % 2;
  const bool leader = thread == 0 && rank == 0;
  for (u32 n = thread; n < bytes / 16; n += 128) ((uint4*)dynamic)[n] = image[blockIdx.x * (bytes / 16) + n];
  if (thread == 0) init(&bar, 1);
  if (thread < 32) alloc<G>(room);
  all<G>();
  const u32 d = room[0], lane = d + (thread / 32 << 21), base = at(dynamic) >> 4;
  a += base; b += base;
  u32* own = cells + (blockIdx.x * 128 + thread) * 512;
  for (u32 c = 0; c < 512; c += 4) {
    asm volatile("tcgen05.st.sync.aligned.32x32b.x4.b32 [%0], {%1, %2, %3, %4};" ::"r"(lane + c), "r"(own[c]), "r"(own[c + 1]), "r"(own[c + 2]), "r"(own[c + 3]) : "memory");
  }
  asm volatile("tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync; fence.proxy.async.shared::cta;" ::: "memory");
  all<G>();
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  u32* out = results + (blockIdx.x * 128 + thread) * 132;
  (void)out; (void)masks; (void)i; (void)z; (void)leader;
  bool commits = false;
  switch (which) {
@CASES@
  }
  if (commits && leader) {
    if (G == 1) asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(at(&bar)) : "memory");
    else asm volatile("tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%0], %1;" ::"r"(at(&bar)), "h"((short)3) : "memory");
  }
  all<G>();
  if (commits) wait(&bar, 0);
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  for (u32 c = 0; c < 512; c += 4) {
    asm volatile("tcgen05.ld.sync.aligned.32x32b.x4.b32 {%0, %1, %2, %3}, [%4]; tcgen05.wait::ld.sync.aligned;"
                 : "=r"(own[c]), "=r"(own[c + 1]), "=r"(own[c + 2]), "=r"(own[c + 3]) : "r"(lane + c) : "memory");
  }
  all<G>();
  if (thread < 32) release<G>(d);
}
"""


@dataclass
class Setting:
    """The statements of a call, memory before it and after it, and the operands of the kernel."""

    body: str
    before: np.ndarray
    after: np.ndarray
    image: np.ndarray
    a: int = 0
    b: int = 0
    z: int = 0
    i: int = 0
    masks: np.ndarray | None = None
    results: np.ndarray | None = None  # blocks x 128 threads x 132 words


def group_of(call: Call) -> int:
    """The kind of block group; calls without one run in a single block."""
    return 2 if "cta_group_2" in call.words else 1


def cells(ctas: int = 1) -> np.ndarray:
    return RNG.integers(0, 2**32, (ctas, 128, COLUMNS), np.uint32)


def nothing(ctas: int = 1) -> np.ndarray:
    return np.zeros((ctas, 16), np.uint8)


ELEMENTS = {  # kind: types of a, b and d
    "f16": ("f16", "bf16", "f32"), "tf32": ("tf32", "tf32", "f32"), "f8f6f4": ("e4m3", "e3m2", "f32"), "i8": ("s8", "u8", "s32"),
    "mxf8f6f4": ("e5m2", "e4m3", "f32"), "mxf4": ("fp4", "fp4", "f32"), "mxf4nvf4": ("fp4", "fp4", "f32"),
}  # fmt: skip
_products: dict[tuple[object, ...], tuple[Case, tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]] = {}


def product(call: Call) -> Setting:
    kind = next(w for w in call.words if w.startswith("kind_")).removeprefix("kind_")
    ctas, ws, sparse = group_of(call), "_ws" in call.header, "_sp" in call.name
    a, b, d = ELEMENTS[kind]
    factors, scales = 0, ""
    if "block_scale" in call.name:
        word = re.search(r"block_scale_(vec_\d|block\d\d)", call.name)
        assert word, call.name
        factors = {"vec_1": 1, "vec_2": 2, "vec_4": 4, "block16": 4}.get(word[1], 1 if kind == "mxf8f6f4" else 2)
        scales = word[1]
    key = (kind, ctas, ws, sparse, "tmem_a" in call.name, factors, call.has("disable_output_lane"), call.has("scale_input_d"),
           call.has("zero_column_mask_desc"))  # fmt: skip
    scale_d = 3 if call.has("scale_input_d") else 0
    if key not in _products:
        mask = 1 << 39 | 2 << 40 | 3 << 48 | 0b0011 << 32 | 1 << 8
        case = Case(
            kind, 64 if ws else 128 * ctas, 64 if ws else 32, a, b, d, ctas, ws, sparse, "tmem_a" in call.name, scale_d=scale_d,
            disabled=call.has("disable_output_lane"), scales=scales, factors=factors,
            zero_columns=mask if call.has("zero_column_mask_desc") else 0,
        )  # fmt: skip
        _products[key] = (case, case.data())
    case, (before, after, image, words) = _products[key]
    count = 4 * ctas
    values = {
        "d_tmem": "d", "a_desc": "a", "b_desc": "b", "idesc": "i", "a_tmem": f"d + {A_AT}", "scale_A_tmem": f"d + {SCALE_A_AT}",
        "scale_B_tmem": f"d + {SCALE_B_AT}", "sp_info_tmem": f"d + {METADATA_AT}", "enable_input_d": "true",
        "zero_column_mask_desc": "z", "disable_output_lane": "lanes", "scale_input_d": str(scale_d),
    }  # fmt: skip
    call = replace(call, number=scale_d)
    declare = f"const u32 lanes[{count}] = {{{', '.join(f'masks[{n}]' for n in range(count))}}}; (void)lanes;"
    body = f"if (leader) {{ {declare} {call.text(exact=True, **values)}; }} commits = true;"
    left, right = case.matrices
    return Setting(
        body, before, after, image, left.descriptor, right.descriptor, case.zero_columns, case.instruction(), words
    )


def shape_of(call: Call) -> str:
    found = re.search(r"16x32bx2|\d+x\d+b", call.name)
    assert found, call.name
    return found[0]


def places(shape: str, count: int, packed: bool) -> Iterable[tuple[int, int, int, int]]:
    """(thread, register, lane, column) of a load or store by four warps."""
    for thread in range(128):
        for register in range(count):
            row, column = fragment(shape, thread % 32, register)
            column = column * (2 if packed else 1) + (SPLIT if shape == "16x32bx2" and thread % 32 >= 16 else 0)
            yield thread, register, thread // 32 * 32 + row, column


def transfer(call: Call) -> Setting:
    loads = call.header == "tcgen05_ld"
    array = "out_var" if loads else "values"
    type_ = call.type_of(array).replace("const ", "").split(" ")[0].replace("(", "")
    count, shape, packed = count_of(call.type_of(array)), shape_of(call), "pack_16b" in call.name
    before, results = cells(), np.zeros((1, 128, 132), np.uint32)
    after = before.copy()
    values = {"taddr": "lane", "immHalfSplitoff": str(SPLIT if count <= 32 else 128), array: "v"}
    global_split = int(values["immHalfSplitoff"])
    if loads:
        is_float = type_ == "float"
        if is_float:
            before[0] = (RNG.standard_normal((128, COLUMNS)) * 8).astype(np.float32).view(np.uint32)
            after = before.copy()
        returns = "red" in call.name
        keep = f"out[128] = (u32)bits({call.text(**values)});" if returns else f"{call.text(**values)};"
        wait = 'asm volatile("tcgen05.wait::ld.sync.aligned;" ::: "memory");'
        body = f"{type_} v[{count}]; {keep} {wait} for (int n = 0; n < {count}; ++n) out[n] = (u32)bits(v[n]);"
        for thread, register, lane, column in places(shape, count, packed):
            column += global_split - SPLIT if shape == "16x32bx2" and thread % 32 >= 16 else 0
            word = before[0, lane, column]
            if packed:
                word = word & 0xFFFF | (before[0, lane, column + 1] & 0xFFFF) << np.uint32(16)
            results[0, thread, register] = word
        if returns:
            for thread in range(128):
                row = results[0, thread, :count]
                numbers = row.view(np.float32) if is_float else row.view(np.int32) if "::int32" in type_ else row
                numbers = np.abs(numbers) if call.name.endswith("abs") else numbers
                best = numbers.min() if "op_min" in call.words else numbers.max()
                results[0, thread, 128] = np.array([best]).view(np.uint32)[0]
        return Setting(body, before, after, nothing(), results=results)
    source = RNG.integers(0, 2**32, 128, np.uint32)
    given = ", ".join(f"({type_})(masks[{n}] + thread)" for n in range(count))
    wait = 'asm volatile("tcgen05.wait::st.sync.aligned;" ::: "memory");'
    body = f"const {type_} v[{count}] = {{{given}}}; {call.text(**values)}; {wait}"
    for thread, register, lane, column in places(shape, count, packed):
        column += global_split - SPLIT if shape == "16x32bx2" and thread % 32 >= 16 else 0
        word = source[register] + np.uint32(thread)
        if packed:
            after[0, lane, column], after[0, lane, column + 1] = word & 0xFFFF, word >> np.uint32(16)
        else:
            after[0, lane, column] = word
    return Setting(body, before, after, nothing(), masks=source)


def lanes_of(shape: str, name: str, row: int) -> list[int]:
    if shape == "4x256b":
        return [32 * row]
    if "warpx4" in name:
        return [row, row + 32, row + 64, row + 96]
    if "02_13" in name:  # warps 0 and 2 get the same rows
        return [row, row + 64]
    if "01_23" in name:
        return [row // 32 * 64 + row % 32, row // 32 * 64 + row % 32 + 32]
    return [row]


def copy(call: Call) -> Setting:
    ctas, shape = group_of(call), shape_of(call)
    rows, size = int(shape.split("x")[0]), int(shape.split("x")[1].rstrip("b")) // 8
    name = "e2m1" if "b4x16" in call.name else "e3m2" if "b6x16" in call.name else "u8"
    bits = {"e2m1": 4, "e3m2": 6, "u8": 8}[name]
    codes = RNG.integers(0, 2**bits, (ctas, max(rows, 8), size), np.uint8)
    matrices = [Matrix(name, codes[cta], "32B", start=1024) for cta in range(ctas)]
    image = RNG.integers(0, 256, (ctas, -(-(1024 + matrices[0].bytes) // 16) * 16), np.uint8)
    for matrix, part in zip(matrices, image, strict=True):
        matrix.write(part)
    before = cells(ctas)
    after = before.copy()
    for cta in range(ctas):
        for row in range(rows):
            for lane in lanes_of(shape, call.name, row):
                words = (codes[cta, row] << (2 if bits == 4 else 0)).astype(np.uint8)
                after[cta, lane, 8 : 8 + size // 4] = words.view(np.uint32)
    body = f"if (leader) {{ {call.text(taddr='d + 8', s_desc='a')}; }} commits = true;"
    return Setting(body, before, after, image, a=matrices[0].descriptor)


def other(call: Call) -> Setting:
    ctas = group_of(call)
    before = cells(ctas)
    after, results = before.copy(), np.zeros((ctas, 128, 132), np.uint32)
    if call.header == "tcgen05_shift":
        after[:, 65:96, 16:24] = before[:, 64:95, 16:24]
        return Setting(
            f"if (leader) {{ {call.text(taddr='d + 0x400010')}; }} commits = true;", before, after, nothing(ctas)
        )
    if call.header == "tcgen05_commit":  # arrives at the barriers of the named blocks
        both = call.has("ctaMask")
        body = f"if (leader) {{ {call.text(smem_bar='&bar', ctaMask='(::cuda::std::uint16_t)' + ('3' if ctas == 2 else '1'))}; }}"
        body += f"if ({'true' if both else 'rank == 0'}) wait(&bar, 0); out[0] = 1;"
        results[:, :, 0] = 1
        return Setting(body, before, after, nothing(ctas), results=results)
    if call.header == "tcgen05_alloc":
        # All columns are taken: they are given back first, and taken again by other words.
        group = f"::cuda::ptx::cta_group_{ctas}"
        exclusive = "_exclusive" if "exclusive" in call.name else ""
        free = f"::cuda::ptx::tcgen05_dealloc{exclusive}({group}, room[1], 64u);"
        take = f"::cuda::ptx::tcgen05_alloc{exclusive}({group}, room + 1, 64u);"
        again = "alloc<G>(room); __syncwarp();"
        permit = f"{call.text()};" if "permit" in call.name else ""
        if permit:
            body = f"if (thread < 32) {{ {permit} }} out[0] = 7;"
            results[:, :, 0] = 7
            return Setting(body, before, after, nothing(ctas), results=results)
        body = f"all<G>(); if (thread < 32) {{ release<G>(d); {take} __syncwarp(); out[0] = room[1] == d; {free} {again} out[1] = room[0] == d; }} all<G>();"
        results[:, :32, :2] = 1
        # Columns that were given back have no defined content.
        return Setting(body, before, None, nothing(ctas), results=results)  # type: ignore[arg-type]
    return Setting(f"{call.text()}; out[0] = 3;", before, after, nothing(), results=marked(results, 3))


def marked(results: np.ndarray, value: int) -> np.ndarray:
    results[:, :, 0] = value
    return results


SETTINGS = {
    "tcgen05_mma": product, "tcgen05_mma_sp": product, "tcgen05_mma_ws": product, "tcgen05_ld": transfer, "tcgen05_st": transfer,
    "tcgen05_cp": copy, "tcgen05_shift": other, "tcgen05_commit": other, "tcgen05_alloc": other, "tcgen05_fence": other,
    "tcgen05_wait": other,
}  # fmt: skip


def source(settings: list[Setting], group: int) -> str:
    cases = "\n".join(f"    case {n}: {{ {setting.body} }} break;" for n, setting in enumerate(settings))
    text = BODY.replace("@CASES@", cases).replace("@GROUP@", str(group)).replace("@NAME@", "k")
    return KERNEL.replace("@FUNCTIONS@", text.replace("@CLUSTER@", "__cluster_dims__(2, 1, 1)" if group == 2 else ""))


def run(program: Program, which: int, setting: Setting) -> str:
    """What differs from the expectation."""
    function = device().function(program.module, "k")
    blocks, size = setting.before.shape[0], setting.image.shape[-1]
    masks = np.zeros(128, np.uint32)
    if setting.masks is not None:
        masks[: len(setting.masks)] = setting.masks
    memory, shared = device().memory(setting.before.reshape(-1)), device().memory(setting.image.reshape(-1))
    table, results = device().memory(masks), device().memory(blocks * 128 * 132 * 4)
    device().reserve_shared(function, max(size, 49152))
    values = [
        shared.address, ctypes.c_uint32(size), memory.address, *(ctypes.c_uint64(v) for v in (setting.a, setting.b, setting.z)),
        ctypes.c_uint32(setting.i), table.address, results.address, ctypes.c_uint32(which),
    ]  # fmt: skip
    device().launch(function, blocks, 128, values, size)
    device().sync()
    got = memory.read(np.uint32, setting.before.size).reshape(setting.before.shape)
    answers = results.read(np.uint32, blocks * 128 * 132).reshape(blocks, 128, 132)
    for buffer in (memory, shared, table, results):
        buffer.free()
    wanted = setting.results if setting.results is not None else np.zeros_like(answers)
    if not np.array_equal(answers, wanted):
        at = tuple(np.argwhere(answers != wanted)[0])
        return f"result {at}: {answers[at]:#x} instead of {wanted[at]:#x}"
    if setting.after is not None and not np.array_equal(got, setting.after):
        where = np.argwhere(got != setting.after)
        return f"{len(where)} cells differ from {where[0]}"
    return ""
