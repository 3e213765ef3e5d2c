# SPDX-License-Identifier: Apache-2.0
"""libnccl.so.2 for CPU devices: every collective, type and operator against NumPy, in one process and in several."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.cpu_only  # a GPU has NVIDIA's NCCL
HERE = Path(__file__).parent
PRELUDE = f"""
import ctypes, os, sys, threading, time
sys.path.insert(0, {str(HERE)!r})
import numpy as np
from nccl_api import *
"""


def start(source: str, *arguments: str, **environment: str) -> subprocess.Popen[str]:
    settings = {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_DEVICES": "4", "PYTHONWARNINGS": "ignore"} | environment
    return subprocess.Popen(
        [sys.executable, "-c", PRELUDE + source, *arguments],
        env=os.environ | settings,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(source: str, **environment: str) -> str:
    process = start(source, **environment)
    out, errors = process.communicate()
    assert process.returncode == 0, errors
    return out


@pytest.mark.parametrize("threads", ["1", "2"])
def test_all_types_and_operators_reduce_as_numpy_does(threads):
    """One thread of the device serves four ranks: none of them may block it."""
    run(
        """
def wide(name, bits):
    if name == "bfloat16":
        return (bits.astype(np.uint32) << 16).view(np.float32)
    if name == "float8e5m2":
        return (bits.astype(np.uint16) << 8).view(np.float16).astype(np.float32)
    if name == "float8e4m3":
        table = []
        for b in range(256):
            e, m = (b >> 3) & 15, b & 7
            value = np.nan if e == 15 and m == 7 else m * 2.0**-9 if e == 0 else (8 + m) * 2.0 ** (e - 10)
            table.append(-value if b & 128 else value)
        return np.array(table, np.float32)[bits]
    return bits.astype(np.float64) if bits.dtype.kind == "f" else bits
numbers = np.random.default_rng(1)
ranks = all_ranks(4)
for name, (code, dtype) in TYPES.items():
    for count in (0, 1, 3, 1001):
        if name in ("bfloat16", "float8e4m3", "float8e5m2"):
            # small numbers of either sign, from their patterns
            low, high = {"bfloat16": (0x3f00, 0x4080), "float8e4m3": (0x30, 0x48), "float8e5m2": (0x38, 0x44)}[name]
            sign = 0x8000 if name == "bfloat16" else 0x80
            inputs = [(numbers.integers(low, high, count) | numbers.integers(0, 2, count) * sign).astype(dtype) for _ in ranks]
        elif np.dtype(dtype).kind == "f":
            inputs = [numbers.uniform(-2, 2, count).astype(dtype) for _ in ranks]
        else:
            inputs = [numbers.integers(0, 100, count).astype(dtype) for _ in ranks]
        for op, op_code in OPS.items():
            sent = [rank.put(data) for rank, data in zip(ranks, inputs)]
            got = [rank.put(np.zeros_like(data)) for rank, data in zip(ranks, inputs)]
            together(ranks, lambda i, r: nccl("ncclAllReduce", sent[i], got[i], size(count), code, op_code, r.comm, r.stream))
            values = [wide(name, data) for data in inputs]
            with np.errstate(all="ignore"):
                if op == "prod": expected = values[0] * values[1] * values[2] * values[3]
                elif op == "max": expected = np.max(values, axis=0)
                elif op == "min": expected = np.min(values, axis=0)
                else:
                    expected = values[0] + values[1] + values[2] + values[3]
                    if op == "avg": expected = expected // 4 if expected.dtype.kind in "iu" else expected / 4
                    if op == "avg" and expected.dtype.kind == "i":  # divides as C does
                        total = values[0] + values[1] + values[2] + values[3]
                        expected = (np.sign(total) * (np.abs(total.astype(np.int64)) // 4)).astype(total.dtype)
            rounding = {"float16": 4e-3, "bfloat16": 3e-2, "float8e4m3": .4, "float8e5m2": .8, "float32": 1e-5, "float64": 1e-12}.get(name, 0)
            for rank, buffer in zip(ranks, got):
                found = wide(name, rank.get(buffer, inputs[0]))
                if rounding == 0 or op in ("max", "min"):
                    assert np.array_equal(found, expected), (name, op, count, found, expected)
                else:
                    scale = sum(np.abs(v) for v in values) if op != "prod" else np.abs(expected) + rounding
                    assert (np.abs(found - expected) <= rounding * (scale + rounding)).all(), (name, op, count, found, expected)
destroy(ranks)
""",
        CUCORE_CPU_THREADS=threads,
    )


def test_collectives_move_the_right_parts():
    run(
        """
ranks = all_ranks(3)
for count in (1, 5, 4096, 300_000):
    inputs = [np.arange(3 * count, dtype=np.float32) + 1000 * i for i in range(3)]
    def check(name, from_of, into_of, expected_of, call):
        sent = [r.put(from_of(i)) for i, r in enumerate(ranks)]
        got = [r.put(np.full_like(into_of(i), -1)) for i, r in enumerate(ranks)]
        together(ranks, lambda i, r: call(i, r, sent[i], got[i]))
        for i, r in enumerate(ranks):
            expected = expected_of(i)
            if expected is not None:
                assert np.array_equal(r.get(got[i], into_of(i)), expected), (name, count, i)
    one = lambda i: inputs[i][:count]
    all_of = lambda i: inputs[i]
    n = size(count)
    check("broadcast", one, one, lambda i: one(2), lambda i, r, a, b: nccl("ncclBroadcast", a, b, n, 7, 2, r.comm, r.stream))
    check("reduce", one, one, lambda i: one(0) + one(1) + one(2) if i == 1 else None, lambda i, r, a, b: nccl("ncclReduce", a, b, n, 7, 0, 1, r.comm, r.stream))
    check("all-gather", one, all_of, lambda i: np.concatenate([one(k) for k in range(3)]), lambda i, r, a, b: nccl("ncclAllGather", a, b, n, 7, r.comm, r.stream))
    check("reduce-scatter", all_of, one, lambda i: sum(inputs)[i * count : (i + 1) * count], lambda i, r, a, b: nccl("ncclReduceScatter", a, b, n, 7, 0, r.comm, r.stream))
    check("all-to-all", all_of, all_of, lambda i: np.concatenate([inputs[k][i * count : (i + 1) * count] for k in range(3)]), lambda i, r, a, b: nccl("ncclAlltoAll", a, b, n, 7, r.comm, r.stream))
    check("gather", one, all_of, lambda i: np.concatenate([one(k) for k in range(3)]) if i == 2 else None, lambda i, r, a, b: nccl("ncclGather", a, b, n, 7, 2, r.comm, r.stream))
    check("scatter", all_of, one, lambda i: inputs[1][i * count : (i + 1) * count], lambda i, r, a, b: nccl("ncclScatter", a, b, n, 7, 1, r.comm, r.stream))
    def ring(i, r, a, b):
        nccl("ncclRecv", b, n, 7, (i + 2) % 3, r.comm, r.stream)
        nccl("ncclSend", a, n, 7, (i + 1) % 3, r.comm, r.stream)
    check("send and receive", one, one, lambda i: one((i + 2) % 3), ring)
    # in place
    buffers = [r.put(one(i)) for i, r in enumerate(ranks)]
    together(ranks, lambda i, r: nccl("ncclAllReduce", buffers[i], buffers[i], n, 7, 2, r.comm, r.stream))
    assert all(np.array_equal(r.get(b, one(0)), one(2)) for r, b in zip(ranks, buffers))
    together(ranks, lambda i, r: nccl("ncclBcast", buffers[i], n, 7, 0, r.comm, r.stream))
destroy(ranks)
"""
    )


def test_operations_are_ordered_on_streams():
    run(
        """
ranks = all_ranks(2)
count = 1 << 16
a = [r.device.allocate(4 * count, stream=r.stream) for r in ranks]
one = np.ones(count, np.float32)
for r, b in zip(ranks, a):
    b.fill(np.float32(1).tobytes(), stream=r.stream)
for step in range(50):  # nothing waits in between: 2^50 would not come out if steps overtook each other
    together(ranks, lambda i, r: nccl("ncclAllReduce", a[i], a[i], size(count), 7, 0, r.comm, r.stream))
for r, b in zip(ranks, a):
    assert (r.get(b, one) == 2.0**50).all()
rank, error = ctypes.c_int(), ctypes.c_int(-1)
nccl("ncclCommUserRank", ranks[1].comm, ctypes.byref(rank))
nccl("ncclCommGetAsyncError", ranks[1].comm, ctypes.byref(error))
assert (rank.value, error.value) == (1, 0)
destroy(ranks)
"""
    )


def test_factors_and_split_communicators():
    run(
        """
ranks = all_ranks(4)
ops = [ctypes.c_int() for _ in ranks]
factors = [np.float32(i + 1) for i in range(4)]
for r, op, f in zip(ranks, ops, factors):
    nccl("ncclRedOpCreatePreMulSum", ctypes.byref(op), ctypes.byref(ctypes.c_float(f)), 7, 1, r.comm)
b = [r.put(np.full(10, 10, np.float32)) for r in ranks]
together(ranks, lambda i, r: nccl("ncclAllReduce", b[i], b[i], size(10), 7, ops[i], r.comm, r.stream))
assert all((r.get(x, np.zeros(10, np.float32)) == 100).all() for r, x in zip(ranks, b))
for r, op in zip(ranks, ops):
    nccl("ncclRedOpDestroy", op, r.comm)
    assert nccl.code("ncclRedOpDestroy", op, r.comm) == 4
# even and odd ranks, in reverse; the last stays out
new = [ctypes.c_void_p() for _ in ranks]
together(ranks, lambda i, r: nccl("ncclCommSplit", r.comm, i % 2 if i < 3 else -1, -i, ctypes.byref(new[i]), None))
assert new[3].value is None
rank, count = ctypes.c_int(), ctypes.c_int()
seen = []
for comm in new[:3]:
    nccl("ncclCommUserRank", comm, ctypes.byref(rank))
    nccl("ncclCommCount", comm, ctypes.byref(count))
    seen.append((rank.value, count.value))
assert seen == [(1, 2), (0, 1), (0, 2)], seen
b = [r.put(np.full(3, i, np.int32)) for i, r in enumerate(ranks)]
nccl("ncclGroupStart")
for i in (0, 2):
    nccl("ncclAllReduce", b[i], b[i], size(3), 2, 0, new[i], ranks[i].stream)
nccl("ncclGroupEnd")
assert (ranks[0].get(b[0], np.zeros(3, np.int32)) == 2).all()
for comm in new[:3]:
    nccl("ncclCommDestroy", comm)
destroy(ranks)
"""
    )


def test_wrong_arguments_are_codes_with_a_reason():
    run(
        """
ranks = all_ranks(2)
r = ranks[0]
b = r.put(np.zeros(4, np.float32))
for name, arguments in {
    "ncclAllReduce": (b, b, size(4), 99, 0, r.comm, r.stream),
    "ncclReduce": (b, b, size(4), 7, 0, 5, r.comm, r.stream),
    "ncclSend": (b, size(4), 7, -1, r.comm, r.stream),
    "ncclBroadcast": (b, b, size(4), 7, 0, None, r.stream),
    "ncclAllGather": (b, b, size(4), -1, r.comm, r.stream),
    "ncclGetUniqueId": (None,),
    "ncclCommInitRank": (ctypes.byref(ctypes.c_void_p()), 2, UniqueId(), 2),
}.items():
    assert nccl.code(name, *arguments) == 4, name
    assert nccl.library.ncclGetLastError(None), name
assert nccl.code("ncclAllReduce", b, b, size(4), 7, 77, r.comm, r.stream) == 4
assert nccl.code("ncclGroupEnd") == 5
assert nccl.code("ncclCommInitRank", ctypes.byref(ctypes.c_void_p()), 1, UniqueId(), 0) == 4  # an identity of zeros
# ranks that disagree about the size
other = ranks[1].put(np.zeros(8, np.float32))
nccl("ncclGroupStart")
nccl("ncclSend", b, size(4), 7, 1, r.comm, r.stream)
nccl("ncclRecv", other, size(8), 7, 0, ranks[1].comm, ranks[1].stream)
nccl("ncclGroupEnd")
ranks[1].stream.sync()
error = ctypes.c_int()
nccl("ncclCommGetAsyncError", ranks[1].comm, ctypes.byref(error))
assert error.value == 5 and b"16 bytes" in nccl.library.ncclGetLastError(ranks[1].comm)
for rank in ranks:
    nccl("ncclCommAbort", rank.comm)
# a stream that waits for a rank that never comes is released by an abort
ranks = all_ranks(2)
r = ranks[0]
nccl("ncclAllReduce", b, b, size(4), 7, 0, r.comm, r.stream)
assert not r.stream.is_done
nccl("ncclCommAbort", r.comm)
r.stream.sync()
nccl("ncclCommAbort", ranks[1].comm)
version = ctypes.c_int()
nccl("ncclGetVersion", ctypes.byref(version))
assert version.value >= 22000
"""
    )


RANK = """
rank, count = int(sys.argv[1]), int(sys.argv[2])
if rank == 0:
    identity = UniqueId()
    nccl("ncclGetUniqueId", ctypes.byref(identity))
    print(bytes(identity).hex(), flush=True)
else:
    identity = UniqueId.from_buffer_copy(bytes.fromhex(sys.argv[3]))
Device(rank).set_current()
comm = ctypes.c_void_p()
nccl("ncclCommInitRank", ctypes.byref(comm), count, identity, rank)
me = Rank(comm, Device(rank))
data = me.put(np.full(1000, rank + 1, np.float64))
nccl("ncclAllReduce", data, data, size(1000), 8, 0, comm, me.stream)
assert (me.get(data, np.zeros(1000)) == count * (count + 1) / 2).all()
print("reduced", flush=True)
"""


def test_processes_reduce_and_notice_a_rank_that_dies():
    later = """
if rank == 1:
    time.sleep(3600)
nccl("ncclAllReduce", data, data, size(1000), 8, 0, comm, me.stream)
print("waits", flush=True)
me.stream.sync()  # released by the error
error = ctypes.c_int()
nccl("ncclCommGetAsyncError", comm, ctypes.byref(error))
print("error", error.value, flush=True)
nccl("ncclCommAbort", comm)
"""
    first = start(RANK + later, "0", "3")
    assert first.stdout is not None
    identity = first.stdout.readline().strip()
    ranks = [first, *(start(RANK + later, str(i), "3", identity) for i in (1, 2))]
    try:
        assert [rank.stdout.readline() for rank in ranks if rank.stdout] == ["reduced\n"] * 3
        assert [ranks[i].stdout.readline() for i in (0, 2)] == ["waits\n"] * 2  # type: ignore[union-attr]
        ranks[1].send_signal(signal.SIGKILL)
        for i in (0, 2):
            out, errors = ranks[i].communicate()
            assert out == "error 6\n" and ranks[i].returncode == 0, errors
    finally:
        for rank in ranks:
            rank.kill()
            rank.communicate()


def test_nccl4py_reduces_buffers_of_cuda_core(tmp_path):
    pytest.importorskip("nccl", reason="nccl4py is not installed")
    script = tmp_path / "job.py"
    script.write_text(
        """
import multiprocessing

def rank_main(rank, count, identity):
    import nccl.core as nccl
    import numpy as np
    from cuda.core import Device
    from cuda.core.utils import StridedMemoryView

    device = Device(rank)
    device.set_current()
    stream = device.create_stream()
    comm = nccl.Communicator.init(nranks=count, rank=rank, unique_id=identity)
    buffer = device.allocate(4000, stream=stream)
    buffer.copy_from(np.full(1000, rank + 1, np.float32), stream=stream)
    view = StridedMemoryView.from_buffer(buffer, (1000,), dtype=np.float32)
    comm.allreduce(view, view, nccl.SUM, stream=stream)
    back = np.empty(1000, np.float32)
    buffer.copy_to(back, stream=stream)
    stream.sync()
    assert (back == count * (count + 1) / 2).all()
    comm.destroy()

if __name__ == "__main__":
    import nccl.core as nccl

    context = multiprocessing.get_context("spawn")
    identity = nccl.get_unique_id()
    ranks = [context.Process(target=rank_main, args=(rank, 2, identity)) for rank in range(2)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    print([rank.exitcode for rank in ranks])
"""
    )
    done = subprocess.run(
        [sys.executable, "-m", "cucore", "run", "--cpu", sys.executable, str(script)],
        env=os.environ | {"CUCORE_CPU_DEVICES": "2", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "[0, 0]\n", done.stdout + done.stderr
