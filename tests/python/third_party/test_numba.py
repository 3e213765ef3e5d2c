# SPDX-License-Identifier: Apache-2.0
"""The released wheel of numba-cuda on cucore's packages: the first programs of its documentation compute the right results.

tools/test installs it without dependencies into a separate folder, because its wheel requires NVIDIA's packages, whose names cucore
provides.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(os.environ.get("CUCORE_TEST_OTHERS", Path(sys.prefix) / "others"))
pytestmark = pytest.mark.skipif(
    not (FOLDER / "numba_cuda").is_dir(), reason=f"numba-cuda is not in {FOLDER}; tools/test installs it"
)

HEAD = f"""
import site
site.addsitedir({str(FOLDER)!r})
import numpy as np
from numba import cuda, float32, int32
"""


def run(program: str, devices: int = 1) -> str:
    """A separate process, which loads both numba's LLVM and cucore's."""
    device = "--gpu" if os.environ.get("CUCORE_DEVICE") == "gpu" else "--cpu"  # numba searches for libcuda.so.1 itself
    many = ["--devices", str(devices)] if devices > 1 else []
    command = [
        sys.executable,
        "-m",
        "cucore",
        "run",
        device,
        *many,
        sys.executable,
        "-W",
        "ignore",
        "-c",
        HEAD + program,
    ]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numba_vector_add_computes_the_sum() -> None:
    out = run("""
@cuda.jit
def add(a, b, out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = a[i] + b[i]

n = 10_001
a, b = np.arange(n, dtype=np.float32), np.full(n, 2, np.float32)
x, y, z = cuda.to_device(a), cuda.to_device(b), cuda.device_array(n, np.float32)
add.forall(n)(x, y, z)
add[(n + 127) // 128, 128](x, y, z)
np.testing.assert_array_equal(z.copy_to_host(), a + b)
import cuda.core as core
print(core.__file__)
""")
    assert "others" not in out  # cucore's packages, not NVIDIA's


@pytest.mark.cpu_only
def test_numba_needs_only_the_variable_that_selects_the_cpu_device() -> None:
    program = (
        HEAD
        + """
@cuda.jit
def fill(out):
    out[cuda.grid(1)] = 7

out = np.zeros(64, np.int32)
fill[2, 32](out)
print(out.sum())
"""
    )
    without = {k: v for k, v in os.environ.items() if k != "LD_LIBRARY_PATH"}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, env={**without, "CUCORE_DEVICE": "cpu"})
    assert done.stdout.split() == ["448"], done.stderr


def test_numba_guide_program_runs() -> None:
    page = (Path(__file__).resolve().parents[3] / "docs" / "guide" / "interop.md").read_text()
    program = page.split("<!-- file: first_kernel.py -->\n```python\n")[1].split("```")[0]
    run(program)


def test_numba_shared_memory_reduction_is_correct() -> None:
    run("""
@cuda.jit
def total(data, out):
    part = cuda.shared.array(128, int32)
    t = cuda.threadIdx.x
    s = 0
    for i in range(cuda.grid(1), data.size, cuda.gridsize(1)):
        s += data[i]
    part[t] = s
    cuda.syncthreads()
    step = 64
    while step > 0:
        if t < step:
            part[t] += part[t + step]
        cuda.syncthreads()
        step //= 2
    if t == 0:
        cuda.atomic.add(out, 0, part[0])

data = np.arange(100_000, dtype=np.int32) % 17
out = np.zeros(1, np.int32)
total[8, 128](data, out)
assert out[0] == data.sum(), (out[0], data.sum())
""")


def test_numba_tiled_matrix_multiplication_is_correct() -> None:
    run("""
TILE = 16

@cuda.jit
def multiply(a, b, c):
    sa = cuda.shared.array((TILE, TILE), float32)
    sb = cuda.shared.array((TILE, TILE), float32)
    x, y = cuda.grid(2)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    total = float32(0)
    for i in range(cuda.gridDim.x):
        sa[ty, tx] = 0
        sb[ty, tx] = 0
        if y < a.shape[0] and tx + i * TILE < a.shape[1]:
            sa[ty, tx] = a[y, tx + i * TILE]
        if x < b.shape[1] and ty + i * TILE < b.shape[0]:
            sb[ty, tx] = b[ty + i * TILE, x]
        cuda.syncthreads()
        for j in range(TILE):
            total += sa[ty, j] * sb[j, tx]
        cuda.syncthreads()
    if y < c.shape[0] and x < c.shape[1]:
        c[y, x] = total

rng = np.random.default_rng(0)
a, b = rng.random((40, 50), np.float32), rng.random((50, 30), np.float32)
c = np.zeros((40, 30), np.float32)
multiply[(4, 4), (TILE, TILE)](a, b, c)
np.testing.assert_allclose(c, a @ b, rtol=1e-5)
""")


def test_numba_functions_ufuncs_and_streams_work() -> None:
    run("""
import math
from numba import vectorize

@cuda.jit(device=True)
def wave(x):
    return math.sin(x) * math.sqrt(x)

@cuda.jit
def fill(out):
    i = cuda.grid(1)
    if i < out.size:
        out[i] = wave(float(i))

stream = cuda.stream()
out = cuda.device_array(1000, np.float64, stream=stream)
fill[8, 128, stream](out)
host = out.copy_to_host(stream=stream)
stream.synchronize()
i = np.arange(1000.0)
np.testing.assert_allclose(host, np.sin(i) * np.sqrt(i), rtol=1e-12)

@vectorize(["float32(float32, float32)"], target="cuda")
def hypotenuse(a, b):
    return math.sqrt(a * a + b * b)

np.testing.assert_allclose(hypotenuse(np.float32([3, 5]), np.float32([4, 12])), [5, 13])
""")


@pytest.mark.cpu_only
def test_numba_uses_several_devices() -> None:
    run(
        """
@cuda.jit
def scale(x, by):
    i = cuda.grid(1)
    if i < x.size:
        x[i] *= by

assert len(cuda.gpus) == 3
parts = []
for number, gpu in enumerate(cuda.gpus):
    with gpu:
        part = cuda.to_device(np.full(100, number + 1.0))
        scale[1, 128](part, 10.0)
        parts.append(part)
for number, (gpu, part) in enumerate(zip(cuda.gpus, parts)):
    with gpu:
        np.testing.assert_array_equal(part.copy_to_host(), np.full(100, 10 * (number + 1.0)))
from cuda.core import Device
assert [Device(n).properties.multicast_supported for n in range(3)] == [True] * 3
assert Device(0).can_access_peer(Device(1))
""",
        devices=3,
    )
