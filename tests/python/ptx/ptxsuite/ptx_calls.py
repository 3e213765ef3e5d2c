# SPDX-License-Identifier: Apache-2.0
"""A setting for each function of libcu++'s cuda::ptx: the statements that call it, and what they must leave.

Every call runs in a cluster of two blocks with one warp each. The expected memory is written from the text of the PTX manual. What a
plan does not change must stay as it was: all memory of the setting is compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from .libcudacxx import Call, real

TILE, ROW = 2048, 1024

KERNEL = """#include <cuda_fp16.h>
#include <cuda_bf16.h>
#include <cuda/ptx>
namespace ptx = ::cuda::ptx;
typedef unsigned long long u64;
typedef unsigned u32;
struct alignas(32) Four { long long a, b, c, d; };
struct alignas(64) Map { u64 opaque[16]; };
template <class T> __device__ u64 bits(T value) { u64 made = 0; memcpy(&made, &value, sizeof value < 8 ? sizeof value : 8); return made; }
template <class T> __device__ T* mapped(T* p, u32 rank) {
  u64 made;
  asm("mapa.u64 %0, %1, %2;" : "=l"(made) : "l"((u64)p), "r"(rank));
  return reinterpret_cast<T*>(made);
}
__device__ void meet() { asm volatile("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;" ::: "memory"); }
__device__ u32 at(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ void init(u64* bar, u32 count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1; fence.mbarrier_init.release.cluster;" ::"r"(at(bar)), "r"(count) : "memory");
}
__device__ u64 arrive(u64* bar) {
  u64 state;
  asm volatile("mbarrier.arrive.shared::cta.b64 %0, [%1];" : "=l"(state) : "r"(at(bar)) : "memory");
  return state;
}
__device__ u32 pending(u64 state) {
  u32 count;
  asm volatile("mbarrier.pending_count.b64 %0, %1;" : "=r"(count) : "l"(state));
  return count;
}
__device__ void expect(u64* bar, u32 bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ void complete(u64* bar, u32 bytes) {
  asm volatile("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [%0], %1;" ::"r"(at(bar)), "r"(bytes) : "memory");
}
__device__ u64 passed(u64* bar, u32 parity) {
  u32 made;
  asm volatile("{ .reg .pred p; mbarrier.test_wait.parity.shared::cta.b64 p, [%1], %2; selp.u32 %0, 1, 0, p; }"
               : "=r"(made) : "r"(at(bar)), "r"(parity) : "memory");
  return made;
}
__device__ void wait(u64* bar, u32 parity) { while (!passed(bar, parity)) {} }
__device__ void done() {
  asm volatile("cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;" ::: "memory");
}
@FUNCTIONS@
"""

PART = """
extern "C" __global__ void __cluster_dims__(2, 1, 1) part@N@(const unsigned char* in, unsigned char* rows, unsigned char* tiles, u64* results,
                                                            const Map* maps, u32 flip) {
  __shared__ alignas(1024) unsigned char tile[2048];
  __shared__ alignas(16) u64 bar;
  __shared__ alignas(128) Map map;
  const u32 lane = threadIdx.x, which = blockIdx.x / 2, rank = (blockIdx.x % 2) ^ flip;
  const auto there = [flip](auto* p, u32 to) { return mapped(p, to ^ flip); };
  const bool first = lane == 0 && rank == 0;
  unsigned char* mem = rows + 1024 * which;
  const Map* own = maps + which;
  u64* res = results + ((which * 2 + rank) * 32 + lane) * 4;
  for (u32 n = lane; n < 2048; n += 32) tile[n] = in[rank * 2048 + n];
  if (lane < 16) map.opaque[lane] = own->opaque[lane];
  if (lane == 0) init(&bar, 1);
  asm volatile("fence.proxy.async;" ::: "memory");
  meet();
  switch (which) {
@CASES@
  }
  asm volatile("fence.proxy.async;" ::: "memory");
  meet();
  for (u32 n = lane; n < 2048; n += 32) tiles[(which * 2 + rank) * 2048 + n] = tile[n];
}
"""


@dataclass
class State:
    """The memory of one call: a row of global memory, the shared memory of both blocks, four words for each thread."""

    source: np.ndarray
    row: np.ndarray
    tile: np.ndarray
    words: np.ndarray
    ignored: np.ndarray  # bytes of the first tile that no text defines
    flip: int = 0  # 1: the block of rank 1 is the first one


@dataclass
class Plan:
    body: str
    effect: Callable[[State], None] = lambda state: None
    map: Callable[[int], object] | None = None  # of the address of the row: the tensor map of this call
    verify: Callable[[State, State], None] | None = None  # (expected, got), where one answer of several is right
    changed: Callable[[int], object] | None = None  # as `map`: the map that the row must hold afterwards


def once(body: str) -> str:
    return f"if (first) {{ {body} }}"


def sized(type_: str) -> int:
    """The size of a C++ type in bytes."""
    type_ = re.sub(r"const |[&*]|::cuda::std::|\(\)|\[\d+\]", "", type_).strip()
    known = {"longlong2": 16, "Four": 32, "float": 4, "double": 8, "__half": 2, "__nv_bfloat16": 2}
    return known[type_] if type_ in known else int(re.sub(r"\D", "", type_)) // 8


def element(type_: str) -> str:
    return re.sub(r"const |[&*]|\(\)|\[\d+\]", "", type_).strip()


def count_of(type_: str) -> int:
    found = re.search(r"\[(\d+)\]", type_)
    return int(found[1]) if found else 1


# --- arithmetic and special registers ---------------------------------------------------------------------------------------------------


def _bfind(value: int, size: int, signed: bool, shift: bool) -> int:
    top = 8 * size
    if signed and value >> (top - 1):
        value = ~value & (2**top - 1)
    at = value.bit_length() - 1
    return 0xFFFFFFFF if at < 0 else top - 1 - at if shift else at


def _prmt(mode: str, a: int, b: int, c: int) -> int:
    source = (a | b << 32).to_bytes(8, "little")
    if not mode:
        made = [
            source[c >> 4 * n & 7] if not c >> (4 * n + 3) & 1 else 255 * (source[c >> 4 * n & 7] >> 7)
            for n in range(4)
        ]
        return int.from_bytes(bytes(made), "little")
    k = c & 3
    places = {
        "f4e": [k, k + 1, k + 2, k + 3],
        "b4e": [(k - n) % 8 for n in range(4)],
        "rc8": [k] * 4,
        "ecl": [max(n, k) for n in range(4)],
        "ecr": [min(n, k) for n in range(4)],
        "rc16": [2 * (k & 1), 2 * (k & 1) + 1] * 2,
    }
    return int.from_bytes(bytes(source[p] for p in places[mode]), "little")


def _shifted(name: str, value: int, size: int, signed: bool, by: int) -> int:
    top = 8 * size
    by = min(by, top)
    if name == "shl":
        return value << by & (2**top - 1)
    if signed and value >> (top - 1):
        return (value - 2**top) >> by & (2**top - 1)
    return value >> by


def arithmetic(call: Call) -> Plan:
    inputs = [p.name for p in call.function.parameters]
    types = call.types()
    values = {
        n: f"({element(t)})((const u64*)in)[lane + {32 * k}]"
        for k, (n, t) in enumerate(zip(inputs, types, strict=True))
    }

    if call.header in ("shl", "shr"):
        values["b_reg"] += " % 70"
        if not is_signed(call):  # a signed number would choose another overload
            values["a_reg"] = values["a_reg"].replace("::int", "::uint")

    def effect(s: State) -> None:
        words = s.source.view(np.uint64)
        for lane in range(32):
            given = [int(words[lane + 32 * k]) & (2 ** (8 * sized(t)) - 1) for k, t in enumerate(types)]
            signed = "::int" in types[0] or types[0].startswith("int")
            if call.header == "bfind":
                made = _bfind(given[0], sized(types[0]), signed, call.name.endswith("shiftamt"))
            elif call.header == "bmsk":
                low, width = given if call.name == "bmsk_clamp" else (given[0] & 31, given[1] & 31)
                low, width = min(low, 32), min(width, 32)
                made = ((2**width - 1) << low) & 0xFFFFFFFF
            elif call.header == "prmt":
                made = _prmt(call.name.partition("_")[2], *given)
            else:
                made = _shifted(
                    call.name,
                    given[0],
                    sized(types[0]),
                    signed and call.name == "shr" and is_signed(call),
                    given[1] % 70,
                )
            s.words[0, lane, 0] = made

    return Plan(f"if (rank == 0) res[0] = bits({call.text(**values)});", effect)


def is_signed(call: Call) -> bool:
    """shr of a B type is of bits; the overloads for signed numbers name their types."""
    return not call.function.parameters[0].type.startswith("_B")


def special(call: Call) -> Plan:
    """A special register, in clusters of two blocks with 32 threads."""
    name = call.name.removeprefix("get_sreg_")

    def fixed(lane: int, rank: int, which: int, grid: int) -> int | None:
        block = 2 * which + rank
        known = {
            "tid_x": lane, "tid_y": 0, "tid_z": 0, "ntid_x": 32, "ntid_y": 1, "ntid_z": 1, "laneid": lane,
            "ctaid_x": block, "ctaid_y": 0, "ctaid_z": 0, "nctaid_x": grid, "nctaid_y": 1, "nctaid_z": 1,
            "is_explicit_cluster": 1, "clusterid_x": which, "clusterid_y": 0, "clusterid_z": 0,
            "nclusterid_x": grid // 2, "nclusterid_y": 1, "nclusterid_z": 1, "cluster_ctaid_x": rank,
            "cluster_ctaid_y": 0, "cluster_ctaid_z": 0, "cluster_nctaid_x": 2, "cluster_nctaid_y": 1,
            "cluster_nctaid_z": 1, "cluster_ctarank": rank, "cluster_nctarank": 2, "lanemask_eq": 1 << lane,
            "lanemask_le": 2 ** (lane + 1) - 1, "lanemask_lt": 2**lane - 1,
            "lanemask_ge": 0xFFFFFFFF & ~(2**lane - 1), "lanemask_gt": 0xFFFFFFFF & ~(2 ** (lane + 1) - 1),
            "dynamic_smem_size": 0, "current_graph_exec": 0,
        }  # fmt: skip
        return known.get(name)

    def verify(expected: State, got: State) -> None:
        which, grid = int(expected.words[0, 0, 3]), int(expected.words[0, 0, 2])
        limits = {
            "warpid": (0, 63), "nwarpid": (1, 64), "smid": (0, 10000), "nsmid": (1, 10000), "gridid": (0, 2**64),
            "clock": (0, 2**32), "clock_hi": (0, 2**32), "clock64": (1, 2**64), "globaltimer": (1, 2**64),
            "globaltimer_lo": (0, 2**32), "globaltimer_hi": (1, 2**32), "total_smem_size": (2048, 2**18),
            "aggr_smem_size": (2048, 2**18),
        }  # fmt: skip
        for rank in range(2):
            for lane in range(32):
                seen, wanted = int(got.words[rank, lane, 0]), fixed(lane, rank, which, grid)
                low, high = (wanted, wanted) if wanted is not None else limits[name]
                assert low <= seen <= high, (call.name, rank, lane, seen, wanted)

    return Plan(f"res[0] = bits({call.text()});", verify=verify)


# --- loads and stores -------------------------------------------------------------------------------------------------------------------


def load(call: Call) -> Plan:
    type_ = element(call.type_of("addr"))
    text = call.text(addr=f"(const {type_}*)(in + 32 * lane)", cache_policy="0x12F0000000000000ull")

    def effect(s: State) -> None:
        for lane in range(32):
            s.words[0, lane].view(np.uint8)[: sized(type_)] = s.source[32 * lane : 32 * lane + sized(type_)]

    return Plan(f"if (rank == 0) {{ {type_} v = {text}; memcpy(res, &v, sizeof v); }}", effect)


def store(call: Call) -> Plan:
    type_ = element(call.type_of("addr"))
    text = call.text(addr=f"({type_}*)(mem + 32 * lane)", src="v", cache_policy="0x12F0000000000000ull")

    def effect(s: State) -> None:
        for lane in range(32):
            s.row[32 * lane : 32 * lane + sized(type_)] = s.source[32 * lane : 32 * lane + sized(type_)]

    return Plan(f"if (rank == 0) {{ {type_} v = *(const {type_}*)(in + 32 * lane); {text}; }}", effect)


# --- barriers ---------------------------------------------------------------------------------------------------------------------------


def words(*values: int, rank: int = 0) -> Callable[[State], None]:
    """The words of thread 0 of a block."""

    def effect(s: State) -> None:
        s.words[rank, 0, : len(values)] = values

    return effect


def barrier_arrive(call: Call) -> Plan:
    remote, drops = "space_cluster" in call.words, "drop" in call.name
    count = 2 if call.has("count") else 1
    bytes_ = "tx_count" if call.has("tx_count") else "txCount" if call.has("txCount") else ""
    values = {"addr": "there(&bar, 1)" if remote else "&bar", "count": "2", "tx_count": "16", "txCount": "16"}
    tx = "complete(&bar, 16);" if bytes_ else ""
    # The phase needs four arrivals: these and plain ones. A dropped arrival is not expected in the next phase.
    rest = "".join("arrive(&bar);" for _ in range(4 - count - 1))
    finish = f"res[1] = pending(arrive(&bar)); {rest} res[2] = passed(&bar, 0); {tx} res[2] |= passed(&bar, 0) << 1; res[3] = pending(arrive(&bar));"
    after = [4 - count, 2 if bytes_ else 3, 4 - count if drops else 4]
    if remote:
        body = f"if (lane == 0) init(&bar, 4); meet(); if (first) {{ {call.text(**values)}; }} meet(); if (lane == 0 && rank == 1) {{ {finish} }}"
        return Plan(body, words(0, *after, rank=1))
    return Plan(once(f"init(&bar, 4); res[0] = pending({call.text(**values)}); {finish}"), words(4, *after))


def barrier_bytes(call: Call) -> Plan:
    """expect_tx and complete_tx: the phase waits for the bytes."""
    remote, completes = "space_cluster" in call.words, call.name.endswith("complete_tx")
    text = call.text(addr="there(&bar, 1)" if remote else "&bar", txCount="16")
    before = "expect(&bar, 16); res[0] = passed(&bar, 0);" if completes else ""
    after = (
        "res[1] = passed(&bar, 0);"
        if completes
        else "arrive(&bar); res[0] = passed(&bar, 0); complete(&bar, 16); res[1] = passed(&bar, 0);"
    )
    if remote:
        side = "if (lane == 0 && rank == 1)"
        return Plan(
            f"{side} {{ {before} }} meet(); if (first) {{ {text}; }} meet(); {side} {{ {after} }}", words(0, 1, rank=1)
        )
    return Plan(once(f"{before} {text}; {after}"), words(0, 1))


def barrier_wait(call: Call) -> Plan:
    """One phase that is not complete, then the same phase when it is."""
    parity = call.name.endswith("parity")
    values = {
        "addr": "&bar",
        "state": "state",
        "phaseParity": "0",
        "suspendTimeHint": "100",
        "isReportSeen": "seen",
        "reportValue": "report",
    }
    text = call.text(**values)
    body = "bool seen = true; ::cuda::std::uint8_t report = 0; u64 state = 0; init(&bar, 2); state = arrive(&bar);"
    body += f"res[0] = {text}; arrive(&bar); res[1] = {text};" + ("res[2] = seen;" if call.has("isReportSeen") else "")
    body += " (void)seen; (void)report;"
    # After the second phase parity 0 is that of the phase to come.
    if parity:
        body += f"arrive(&bar); arrive(&bar); res[3] = {text};"
    return Plan(once(body), words(0, 1, 0, 0))


def barrier_other(call: Call) -> Plan:
    if call.name == "mbarrier_init":
        return Plan(
            once(
                f"{call.text(addr='&bar', count='3')}; res[0] = pending(arrive(&bar)); res[1] = pending(arrive(&bar));"
            ),
            words(3, 2),
        )
    if call.name == "mbarrier_check_layout":
        right, wrong = ("v0", "v1") if "layout_v0" in call.words else ("v1", "v0")
        body = "".join(
            f'asm volatile("mbarrier.init.layout::{layout}.shared::cta.b64 [%0], 1;" ::"r"(at(&bar)) : "memory"); '
            f"res[{n}] = {call.text(addr='&bar')};"
            for n, layout in enumerate((right, wrong))
        )
        return Plan(once(body), words(1, 0))
    if call.name == "mbarrier_inval":
        return Plan(once(f"{call.text(addr='&bar')}; init(&bar, 5); res[0] = pending(arrive(&bar));"), words(5))
    return Plan(once(f"init(&bar, 7); res[0] = {call.text(state='arrive(&bar)')};"), words(7))


def copy_arrive(call: Call) -> Plan:
    """Threads copy 16 bytes each and arrive when these are there; without .noinc the arrival is an additional one."""
    count = 32 if call.name.endswith("noinc") else 1
    body = f"""if (lane == 0) init(&bar, {count}); meet();
      if (rank == 0) {{
        asm volatile("cp.async.ca.shared.global [%0], [%1], 16;" ::"r"(at(tile + 16 * lane)), "l"(in + 1024 + 16 * lane) : "memory");
        {call.text(addr="&bar")};
        {"" if count == 32 else "__syncwarp(); if (lane == 0) arrive(&bar);"}
        wait(&bar, 0); res[0] = 1;
      }}"""

    def effect(s: State) -> None:
        s.tile[0, :512] = s.source[1024:1536]
        s.words[0, :, 0] = 1

    return Plan(body, effect)


# --- bulk copies ------------------------------------------------------------------------------------------------------------------------


def bulk_copy(call: Call) -> Plan:
    to, source = call.words[0], call.words[1]
    values = {"size": "256u", "ctaMask": "(::cuda::std::uint16_t)3", "byteMask": "(::cuda::std::uint16_t)0x9f0c",
              "ignoreBytesLeft": "3u", "ignoreBytesRight": "5u"}  # fmt: skip
    if to == "space_global":
        text = call.text(dstMem="mem + 128", srcMem="tile + 512", **values)

        def stored(s: State) -> None:
            mask = np.array([1] * 16 if not call.has("byteMask") else [0x9F0C >> n & 1 for n in range(16)], bool)
            mask = np.tile(mask, 16)
            s.row[128:384][mask] = s.tile[0, 512:768][mask]

        return Plan(once(f"{text}; done();"), stored)
    if source == "space_shared":
        text = call.text(dstMem="there(tile, 1) + 256", srcMem="tile + 512", rdsmem_bar="there(&bar, 1)", **values)
        body = f"if (lane == 0 && rank == 1) expect(&bar, 256); meet(); if (first) {{ {text}; }} if (rank == 1) wait(&bar, 0);"

        def near(s: State) -> None:
            s.tile[1, 256:512] = s.tile[0, 512:768]

        return Plan(body, near)
    text = call.text(dstMem="tile + 256", srcMem="in + 512", smem_bar="&bar", **values)
    both = call.has("ctaMask")
    skips = call.has("ignoreBytesLeft")

    def loaded(s: State) -> None:
        for rank in range(2 if both else 1):
            s.tile[rank, 256:512] = s.source[512:768]
        if skips:  # what the ignored bytes become is undefined
            s.ignored = np.concatenate([np.arange(256, 259), np.arange(507, 512)])

    who = "" if both else "rank == 0 && "
    side = "true" if both else "rank == 0"
    return Plan(
        f"if ({who}lane == 0) expect(&bar, 256); meet(); if (first) {{ {text}; }} if ({side}) wait(&bar, 0);", loaded
    )


NUMPY = {
    "uint32_t": np.uint32, "int32_t": np.int32, "uint64_t": np.uint64, "int64_t": np.int64, "float": np.float32,
    "double": np.float64, "__half": np.float16, "__nv_bfloat16": None,
}  # fmt: skip


def reduced(op: str, old: np.ndarray, new: np.ndarray) -> np.ndarray:
    """The result of a reduction on each element."""
    if op == "add":
        return old + new
    if op in ("min", "max"):
        return np.minimum(old, new) if op == "min" else np.maximum(old, new)
    if op == "inc":
        return np.where(old >= new, 0, old + 1).astype(old.dtype)
    if op == "dec":
        return np.where((old == 0) | (old > new), new, old - np.uint32(1)).astype(old.dtype)
    return {"and_op": np.bitwise_and, "or_op": np.bitwise_or, "xor_op": np.bitwise_xor}[op](old, new)


def op_of(call: Call) -> str:
    return next(w for w in call.words if w.startswith("op_")).removeprefix("op_")


def number_type(call: Call, name: str) -> tuple[str, str]:
    """The C++ type of a pointer's elements and its plain name; bits count as unsigned."""
    type_ = element(call.type_of(name)).replace("::cuda::std::", "")
    if "op" in op_of(call):  # of bits: the header takes any type
        return ("float", "uint32_t") if type_ == "float" else (type_, "u" + type_.lstrip("u"))
    return type_, type_


def bulk_reduction(call: Call) -> Plan:
    cpp, plain = number_type(call, "dstMem")
    op = op_of(call)
    is_float = plain in ("float", "double", "__half", "__nv_bfloat16")
    remote = "space_cluster" in call.words
    size = sized(plain)
    count = 256 // size
    fill = ""
    target = "there(tile, 1) + 256" if remote else "mem + 128"
    spelled = cpp if cpp.startswith(("__", "float", "double")) else f"::cuda::std::{cpp}"
    if is_float:  # small integers: their sums are exact
        fill = f"for (int n = 0; n < {count}; ++n) {{ (({cpp}*)(tile + 512))[n] = {cpp}(float(n % 9 - 4)); (({cpp}*)(mem + 128))[n] = {cpp}(float(n % 7)); }}"
        fill += 'asm volatile("fence.proxy.async;" ::: "memory");'
    text = call.text(
        dstMem=f"({spelled}*)({target})",
        srcMem=f"(const {spelled}*)(tile + 512)",
        size="256u",
        rdsmem_bar="there(&bar, 1)",
    )

    def effect(s: State) -> None:
        into = s.tile[1, 256:512] if remote else s.row[128:384]
        if is_float:
            numbers = np.arange(count)
            new, old = (numbers % 9 - 4).astype(np.float32), (numbers % 7).astype(np.float32)

            def encoded(values: np.ndarray) -> np.ndarray:
                if plain == "__nv_bfloat16":
                    return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
                return values.astype(NUMPY[plain]).view(np.uint8)

            s.tile[0, 512:768] = encoded(new)
            into[:] = encoded(reduced(op, old, new))
            return
        dtype = NUMPY[plain]
        with np.errstate(over="ignore"):
            into[:] = reduced(op, into.view(dtype), s.tile[0, 512:768].view(dtype)).view(np.uint8)

    if remote:
        return Plan(
            f"if (lane == 0 && rank == 1) expect(&bar, 256); meet(); if (first) {{ {text}; }} if (rank == 1) wait(&bar, 0);",
            effect,
        )
    return Plan(once(f"{fill} {text}; done();"), effect)


def remote_store(call: Call) -> Plan:
    """st.async and red.async to the other block's memory, which its barrier reports."""
    red = call.header == "red_async"
    pointer = "dest" if red else "addr"
    type_ = element(call.type_of(pointer))
    count = count_of(call.type_of("value"))
    size = sized(type_) * count
    given = f"{{{', '.join(f'(({type_}*)(tile + 512))[{n}]' for n in range(count))}}}"
    variable = f"{type_} v[{count}] = {given};" if count > 1 else f"{type_} v = (({type_}*)(tile + 512))[0];"
    bar = (
        "(::cuda::std::int64_t*)there(&bar, 1)"
        if "int64_t" in call.type_of("remote_bar") and "uint64_t" not in call.type_of("remote_bar")
        else "there(&bar, 1)"
    )
    text = call.text(**{pointer: f"({type_}*)(there(tile, 1) + 256)", "value": "v", "remote_bar": bar})

    def effect(s: State) -> None:
        into = s.tile[1, 256 : 256 + size]
        if not red:
            into[:] = s.tile[0, 512 : 512 + size]
            return
        plain = type_.replace("::cuda::std::", "")
        dtype = NUMPY["u" + plain.lstrip("u") if "op" in op_of(call) else plain]
        with np.errstate(over="ignore"):
            into[:] = reduced(op_of(call), into.view(dtype), s.tile[0, 512 : 512 + size].view(dtype)).view(np.uint8)

    return Plan(
        f"if (lane == 0 && rank == 1) expect(&bar, {size}); meet(); if (first) {{ {variable} {text}; }} if (rank == 1) wait(&bar, 0);",
        effect,
    )


# --- tensor copies ----------------------------------------------------------------------------------------------------------------------

# The row is a tensor of 256 numbers; a box has 64 of them.
SHAPES = {1: ([256], [64]), 2: ([16, 16], [16, 4]), 3: ([16, 4, 4], [16, 2, 2]), 4: ([16, 4, 2, 2], [16, 2, 2, 1]),
          5: ([16, 2, 2, 2, 2], [16, 2, 2, 1, 1])}  # fmt: skip
STARTS = {1: [64], 2: [0, 5], 3: [0, 1, 2], 4: [0, 2, 0, 1], 5: [0, 0, 0, 1, 1]}


def box(rank: int) -> np.ndarray:
    """The indices of the numbers of the box, in the order of shared memory."""
    dims, sizes = SHAPES[rank]
    grid = np.arange(256).reshape(dims[::-1])
    cut = tuple(slice(s, s + n) for s, n in zip(STARTS[rank][::-1], sizes[::-1], strict=True))
    return grid[cut].ravel()


def tensor_map(rank: int, sizes: list[int] | None = None, **options: int) -> Callable[[int], object]:
    from .tensor_maps import tiled

    dims, own = SHAPES[rank]
    strides = [int(4 * np.prod(dims[:n])) for n in range(1, rank)]
    return lambda address: tiled(address, 2, dims, strides, sizes or own, **options)


def tensor_copy(call: Call) -> Plan:
    rank = count_of(call.type_of("tensorCoords"))
    four = "4" in call.name  # gather4 and scatter4: one column, four rows
    coords = [0, 9, 2, 15, 4] if four else STARTS[rank]
    indices = (16 * np.array(coords[1:])[:, None] + np.arange(16)).ravel() if four else box(rank)
    made = tensor_map(2, [16, 1]) if four else tensor_map(rank)
    declare = f"const ::cuda::std::int32_t c[{rank}] = {{{', '.join(map(str, coords))}}};"
    values = {"tensorMap": "own", "tensorCoords": "c", "smem_bar": "&bar", "ctaMask": "(::cuda::std::uint16_t)3",
              "cache_policy": "0x12F0000000000000ull"}  # fmt: skip
    if "prefetch" in call.name:
        return Plan(once(f"{declare} {call.text(**values)};"), map=made)
    if call.words[0] == "space_global":
        reduces = call.name.startswith("cp_reduce")

        def stored(s: State) -> None:
            row, tile = s.row.view(np.uint32), s.tile[0, 512:768].view(np.uint32)
            row[indices] = reduced(op_of(call), row[indices], tile) if reduces else tile

        return Plan(once(f"{declare} {call.text(srcMem='tile + 512', **values)}; done();"), stored, made)
    both = call.has("ctaMask")

    def loaded(s: State) -> None:
        for block in range(2 if both else 1):
            s.tile[block, 256:512] = s.row.view(np.uint32)[indices].view(np.uint8)

    side = "true" if both else "rank == 0"
    text = call.text(dstMem="tile + 256", **values)
    body = f"if ({side} && lane == 0) expect(&bar, 256); meet(); if (first) {{ {declare} {text}; }} if ({side}) wait(&bar, 0);"
    return Plan(body, loaded, made)


REPLACED = {  # field: the value, the driver's map with it
    "global_address": "(u64)(mem + 512)", "rank": "1", "box_dim": "8", "global_dim": "12", "global_stride": "128ull",
    "element_stride": "2", "element_size": "2",
}  # fmt: skip


def changed_map(call: Call) -> Callable[[int], object]:
    """The map that the driver encodes with the changed field."""
    from .tensor_maps import tiled

    field = call.name.removeprefix("tensormap_replace_")
    dims, sizes, strides, steps, options = [16, 16], [16, 4], [64], [1, 1], {"swizzle": 0, "fill": 0, "interleave": 0}
    type_, offset = 2, 0
    if field == "global_address":
        offset = 512
    elif field == "box_dim":
        sizes = [8, 4]
    elif field == "global_dim":
        dims = [12, 16]
    elif field == "global_stride":
        strides = [128]
    elif field in ("element_stride", "element_size"):
        steps = [2, 1]
    elif field == "elemtype":
        type_ = 7
    elif field == "swizzle_mode":
        options["swizzle"] = 2
    elif field == "fill_mode":
        options["fill"], type_ = 1, 7
    return lambda address: tiled(address + offset, type_, dims, strides, sizes, steps=steps, **options)


# --- matrices ---------------------------------------------------------------------------------------------------------------------------


def matrix_load(call: Call) -> Plan:
    """Row r of matrix m is at the address of thread 8 m + r: 16 bytes."""
    count = count_of(call.type_of("out_var"))
    name, each = call.name, 1
    values = {"out_var": "v", "smem_ptr": "p"}
    if name.startswith("ldmatrix_m16n16"):
        each = 2
    body = f"u32 v[{count}]; auto p = ({pointer_type(call, 'smem_ptr')})(tile + 16 * lane); if (rank == 0) {{ {call.text(**values)}; for (int n = 0; n < {count}; ++n) res[n] = v[n]; }}"

    def effect(s: State) -> None:
        tile = s.tile[0]
        for lane in range(32):
            for n in range(count):
                s.words[0, lane, n] = value(tile, lane, n)

    def value(tile: np.ndarray, lane: int, n: int) -> int:
        if name == "ldmatrix_m8n8":
            return int(tile[16 * (8 * n + lane // 4) + 4 * (lane % 4) :][:4].view(np.uint32)[0])
        if name == "ldmatrix_m8n8_trans":
            halves = [
                tile[16 * (8 * n + 2 * (lane % 4) + k) + 2 * (lane // 4) :][:2].view(np.uint16)[0] for k in range(2)
            ]
            return int(halves[0]) | int(halves[1]) << 16
        if name.startswith("ldmatrix_m8n16"):  # 16 small floats in the first 12 or 8 bytes of a row
            bits = 6 if "b6x16" in name else 4
            row = int.from_bytes(bytes(tile[16 * (8 * n + lane // 4) :][:16]), "little")
            codes = [row >> (bits * (4 * (lane % 4) + k)) & (2**bits - 1) for k in range(4)]
            return sum(code << 8 * k for k, code in enumerate(codes))
        matrix, half = n // each, n % each
        codes = []
        for k in range(
            4
        ):  # of column lane / 4 + 8 half, rows 4 (lane % 4) and on: after the transposition rows become columns
            row, column = 4 * (lane % 4) + k, lane // 4 + 8 * half
            line = int.from_bytes(bytes(tile[16 * (16 * matrix + row) :][:16]), "little")
            bits = 8 if name == "ldmatrix_m16n16_trans" else 6 if "b6x16" in name else 4
            codes.append(line >> bits * column & (2**bits - 1))
        return sum(code << 8 * k for k, code in enumerate(codes))

    return Plan(body, effect)


def pointer_type(call: Call, name: str) -> str:
    return call.type_of(name).replace("()", "")


def matrix_store(call: Call) -> Plan:
    count = count_of(call.type_of("input_var"))
    given = ", ".join(f"((const u32*)in)[lane * {count} + {n}]" for n in range(count))
    pointer = f"({pointer_type(call, 'gmem_ptr')})(tile + 16 * lane)"
    body = f"u32 v[{count}] = {{{given}}}; if (rank == 0) {call.text(gmem_ptr=pointer, input_var='v')};"

    def effect(s: State) -> None:
        source = s.source.view(np.uint32)
        for lane in range(32):
            for n in range(count):
                word = source[lane * count + n : lane * count + n + 1]
                if call.name == "stmatrix_m8n8":
                    s.tile[0, 16 * (8 * n + lane // 4) + 4 * (lane % 4) :][:4] = word.view(np.uint8)
                elif call.name == "stmatrix_m8n8_trans":
                    for k in range(2):
                        at = 16 * (8 * n + 2 * (lane % 4) + k) + 2 * (lane // 4)
                        s.tile[0, at : at + 2] = word.view(np.uint16)[k : k + 1].view(np.uint8)
                else:  # two neighbours of rows lane / 4 and lane / 4 + 8 of a 16x8 matrix, which is stored by columns
                    for k in range(4):
                        s.tile[0, 16 * (8 * n + lane % 4 * 2 + k % 2) + lane // 4 + 8 * (k // 2)] = word.view(np.uint8)[
                            k
                        ]

    return Plan(body, effect)


# --- others -----------------------------------------------------------------------------------------------------------------------------


def fence(call: Call) -> Plan:
    return Plan(f"mem[lane] = 7; {call.text(addr='own', size='128')}; res[0] = 1;", _marked)


def _marked(s: State) -> None:
    s.row[:32] = 7
    s.words[:, :, 0] = 1


def others(call: Call) -> Plan:
    name = call.name
    if name.startswith("barrier_cluster"):  # what one block wrote before, the other one sees after
        one, two = (
            (call.text(), "ptx::barrier_cluster_wait()")
            if "arrive" in name
            else ("ptx::barrier_cluster_arrive()", call.text())
        )
        before = "fence" if "sem_relaxed" in call.words else ""
        ordered = 'asm volatile("fence.acq_rel.cluster;" ::: "memory");' if before else ""
        body = f"tile[lane] = rank + 1; {ordered} {one}; {two}; res[0] = there(tile, rank ^ 1)[lane ^ 5]; meet();"

        def crossed(s: State) -> None:
            s.tile[0, :32], s.tile[1, :32] = 1, 2
            s.words[0, :, 0], s.words[1, :, 0] = 2, 1

        return Plan(body, crossed)
    if name == "elect_sync":

        def one_lane(expected: State, got: State) -> None:
            for rank in range(2):
                chosen = got.words[rank, :, 0].tolist()
                assert sorted(chosen) == [0] * 31 + [1] and chosen.index(1) in range(8, 16), chosen

        return Plan(f"if (lane >= 8 && lane < 16) res[0] = {call.text(membermask='0xff00u')};", verify=one_lane)
    if name == "getctarank":

        def ranks(s: State) -> None:
            s.words[:, :, 0], s.words[:, :, 1] = 1 - s.flip, s.flip

        return Plan(f"res[0] = {call.text(addr='there(tile, 1)')}; res[1] = {call.text(addr='there(&bar, 0)')};", ranks)
    if call.header in ("prefetch", "cp_async_bulk_prefetch"):
        where = "own" if name == "prefetch_tensormap" else "in"
        return Plan(
            once(f"{call.text(addr=where, srcMem='in', size='256u', cache_policy='0x12F0000000000000ull')};"),
            map=tensor_map(2),
        )
    if name == "cp_async_bulk_commit_group" or name.startswith("cp_async_bulk_wait_group"):
        copy = 'asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], 64;" ::"l"(mem), "r"(at(tile + 64)) : "memory");'
        both = name == "cp_async_bulk_commit_group"
        finish = "ptx::cp_async_bulk_wait_group(ptx::n32_t<0>{});" if both else f"{call.text()};"
        start = f"{call.text()};" if both else "ptx::cp_async_bulk_commit_group();"

        def copied(s: State) -> None:
            s.row[:64] = s.tile[0, 64:128]

        return Plan(once(f"{copy} {start} {finish}"), copied)
    if name == "st_bulk":

        def cleared(s: State) -> None:
            s.tile[0, 128:384] = 0

        return Plan(once(f"{call.text(addr='tile + 128', size='256ull', initval='0')};"), cleared)
    if name.startswith("setmaxnreg"):
        return Plan(
            f"{call.text(imm_reg_count='32' if name.endswith('dec') else '64')}; res[0] = 1;",
            lambda s: s.words[:, :, 0].fill(1),
        )
    raise KeyError(str(call))


def map_change(call: Call) -> Plan:
    """A field of a map in shared or global memory; the map is stored in the row."""
    field = call.name.removeprefix("tensormap_replace_")
    words_ = {"elemtype": "7", "swizzle_mode": "2", "fill_mode": "1"}
    value = REPLACED.get(field, words_.get(field, ""))
    shared = "space_shared" in call.words
    where = "&map" if shared else "(Map*)mem"
    save = "__syncwarp(); if (lane < 16) ((Map*)({}))->opaque[lane] = ((Map*)({}))->opaque[lane]; __syncwarp();"
    if field in ("rank", "interleave_layout", "swizzle_atomicity"):
        # There and back: no map of the driver differs in this field alone. Both maps are stored.
        to, back = ("0", "1") if field == "rank" else ("1", "0")
        there = "".join(
            f"if (lane == 0) {{ {call.text(tm_addr=where, new_val=new, ord='0')}; }} {save.format(at, where)}"
            for new, at in ((to, "mem + 128"), (back, "mem"))
        )
        body = f"if (rank == 0) {{ {'' if shared else save.format('mem', '(&map)')} {there} }}"

        def verify(expected: State, got: State) -> None:
            assert np.array_equal(got.row[:128], expected.row[:128]), "the map is not as it was"
            assert np.count_nonzero(got.row[128:256] != got.row[:128]) in (1, 2, 3, 4), "one field must differ"

        return Plan(body, map=tensor_map(2), verify=verify, changed=tensor_map(2))
    change = call.text(tm_addr=where, new_val=value, ord="0")
    if field == "fill_mode":  # the driver takes it for floats only
        change += "; " + change.replace(call.name, "tensormap_replace_elemtype").replace("n32_t<1>", "n32_t<7>")
    body = f"if (rank == 0) {{ {'' if shared else save.format('mem', '(&map)')} if (lane == 0) {{ {change}; }} {save.format('mem', '(&map)') if shared else ''} }}"
    return Plan(body, map=tensor_map(2), changed=changed_map(call))


def map_copy(call: Call) -> Plan:
    body = f"if (rank == 0) {call.text(dst='(Map*)mem', src='&map', size='128')};"
    return Plan(body, map=tensor_map(2), changed=tensor_map(2))


PLANS: dict[str, Callable[[Call], Plan]] = {
    "bfind": arithmetic, "bmsk": arithmetic, "prmt": arithmetic, "shl": arithmetic, "shr": arithmetic,
    "get_sreg": special, "ld": load, "st": store,
    "mbarrier_arrive": barrier_arrive, "mbarrier_arrive_drop": barrier_arrive, "mbarrier_arrive_expect_tx": barrier_arrive,
    "mbarrier_arrive_no_complete": barrier_arrive, "mbarrier_complete_tx": barrier_bytes, "mbarrier_expect_tx": barrier_bytes,
    "mbarrier_test_wait": barrier_wait, "mbarrier_test_wait_parity": barrier_wait, "mbarrier_try_wait": barrier_wait,
    "mbarrier_try_wait_parity": barrier_wait, "mbarrier_init": barrier_other, "mbarrier_check_layout": barrier_other,
    "mbarrier_inval": barrier_other, "mbarrier_pending_count": barrier_other,
    "cp_async_mbarrier_arrive": copy_arrive, "cp_async_mbarrier_arrive_noinc": copy_arrive,
    "cp_async_bulk": bulk_copy, "cp_async_bulk_multicast": bulk_copy,
    "cp_reduce_async_bulk": bulk_reduction, "cp_reduce_async_bulk_f16": bulk_reduction, "cp_reduce_async_bulk_bf16": bulk_reduction,
    "cp_async_bulk_tensor": tensor_copy, "cp_async_bulk_tensor_gather_scatter": tensor_copy,
    "cp_async_bulk_tensor_multicast": tensor_copy, "cp_async_bulk_prefetch_tensor": tensor_copy,
    "cp_reduce_async_bulk_tensor": tensor_copy, "red_async": remote_store, "st_async": remote_store,
    "ldmatrix": matrix_load, "stmatrix": matrix_store, "tensormap_replace": map_change, "tensormap_cp_fenceproxy": map_copy,
    "fence": fence, "fence_mbarrier_init": fence, "fence_proxy_alias": fence, "fence_proxy_async": fence,
    "fence_proxy_async_generic_sync_restrict": fence, "fence_proxy_tensormap_generic": fence, "fence_sync_restrict": fence,
    "barrier_cluster": others, "elect_sync": others, "getctarank": others, "prefetch": others, "cp_async_bulk_prefetch": others,
    "cp_async_bulk_commit_group": others, "cp_async_bulk_wait_group": others, "st_bulk": others, "setmaxnreg": others,
}  # fmt: skip


def source(parts: list[list[Plan]]) -> str:
    """One kernel for each part; the blocks of a cluster run one plan."""
    text = ""
    for number, plans in enumerate(parts):
        cases = "\n".join(f"    case {n}: {{ {plan.body} }} break;" for n, plan in enumerate(plans))
        text += PART.replace("@N@", str(number)).replace("@CASES@", cases)
    return KERNEL.replace("@FUNCTIONS@", text)


__all__ = ["PLANS", "ROW", "TILE", "Plan", "State", "real", "source"]
