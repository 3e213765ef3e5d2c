# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CPU_SCHEDULE: classic mistakes are found within 100 seeds, and no seed fails for the corrected kernels."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from .kernels import CASES, Case

pytestmark = pytest.mark.cpu_only

PROGRAM = r"""
import json, os, sys
import numpy as np
from cuda.core import CUDAError, Device, LaunchConfig, PinnedMemoryResource, Program, launch

case = json.loads(sys.argv[1])
dev = Device()
dev.set_current()
stream = dev.create_stream()
code = Program(case["source"], code_type="c++").compile("ptx")
kernel = code.get_kernel("k")
expected = np.array(case["expected"], np.int32)
buffer = PinnedMemoryResource().allocate(expected.nbytes, stream=stream)
stream.sync()
out = np.from_dlpack(buffer).view(np.int32)
config = LaunchConfig(grid=case["grid"], block=case["block"], is_cooperative=case["cooperative"])
seeds = case["seeds"]
for seed in seeds:
    os.environ["CUCORE_CPU_SCHEDULE"] = f"seed:{seed}"
    out[:] = 0
    try:
        launch(stream, config, kernel, buffer)
        stream.sync()
        wrong = not (out == expected).all()
        text = f"{out.tolist()}"
    except CUDAError as error:
        wrong, text = True, str(error)
    if wrong:
        print(json.dumps([seed, text]))
        break
else:
    print(json.dumps([None, ""]))
"""


def first_failing(case: Case, fixed: bool, seeds: list[int]) -> tuple[int | None, str]:
    """The first seed with which the kernel gives a wrong result or an error, and that."""
    argument = json.dumps({
        "source": case.text(fixed), "grid": case.grid, "block": case.block, "expected": case.expected,
        "cooperative": case.cooperative[fixed], "seeds": seeds,
    })  # fmt: skip
    environment = os.environ | {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_SCHEDULE": "seed:0", "CUCORE_CPU_TIMEOUT": "60"}
    done = subprocess.run([sys.executable, "-c", PROGRAM, argument], env=environment, capture_output=True, text=True, check=False)  # fmt: skip
    assert done.returncode == 0, done.stderr
    seed, text = json.loads(done.stdout)
    return seed, text


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_mistake_is_found_within_100_seeds_and_found_again(case: Case) -> None:
    seed, text = first_failing(case, False, list(range(100)))
    assert seed is not None
    # Launches are part of what a seed means: the same seeds in the same order give the same result.
    assert first_failing(case, False, list(range(seed + 1))) == (seed, text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_no_seed_fails_for_the_corrected_kernel(case: Case) -> None:
    assert first_failing(case, True, list(range(100))) == (None, "")


def test_waiting_for_a_block_that_has_not_started_is_explained() -> None:
    case = next(case for case in CASES if case.name == "grid_barrier_without_cooperative_launch")
    _, text = first_failing(case, False, list(range(100)))
    assert "has not started" in text and "cooperative launch" in text


SCRIPT = r"""
import numpy as np
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, launch

dev = Device()
dev.set_current()
stream = dev.create_stream()
kernel = Program(r'''
extern "C" __global__ void k(int* out) {
    __shared__ int s[4];
    s[threadIdx.x] = threadIdx.x;
    BARRIER
    out[threadIdx.x] = s[3 - threadIdx.x];
}''', code_type="c++", options={"lineinfo": True, "name": "reverse.cu"}).compile("ptx").get_kernel("k")
buffer = PinnedMemoryResource().allocate(16, stream=stream)
stream.sync()
out = np.from_dlpack(buffer).view(np.int32)
out[:] = 0
launch(stream, LaunchConfig(grid=1, block=4), kernel, buffer)
stream.sync()
assert (out == np.arange(4)[::-1]).all(), out
"""


def command(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    environment = {k: v for k, v in os.environ.items() if k != "CUCORE_CPU_SCHEDULE"} | {"CUCORE_DEVICE": "cpu"}
    return subprocess.run([sys.executable, "-m", *arguments], env=environment, cwd=cwd, capture_output=True, text=True, check=False)  # fmt: skip


LAST_BLOCK = r"""
import numpy as np
from cuda.core import Device, LaunchConfig, PinnedMemoryResource, Program, launch

dev = Device()
dev.set_current()
stream = dev.create_stream()
kernel = Program(r'''SOURCE''', code_type="c++", options={"lineinfo": True, "name": "last_block.cu"}).compile("ptx").get_kernel("k")
buffer = PinnedMemoryResource().allocate(4, stream=stream)
stream.sync()
launch(stream, LaunchConfig(grid=8, block=1), kernel, buffer)
stream.sync()
print(np.from_dlpack(buffer).view(np.int32))
"""


def test_the_command_finds_a_seed_and_reduces_its_events(tmp_path: Path) -> None:
    case = next(case for case in CASES if case.name == "last_block_without_fence")
    (tmp_path / "program.py").write_text(LAST_BLOCK.replace("SOURCE", case.text(False)))
    done = command("cucore", "schedules", "program.py", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert re.search(r"with CUCORE_CPU_SCHEDULE=seed:\d+ the program prints something else", done.stdout)
    assert re.search(r"^\d of \d+ events are enough:$", done.stdout, re.M)
    assert re.search(r"block \d, thread 0: others see late its access 0 at .*last_block\.cu:6$", done.stdout, re.M)
    # The printed command gives the wrong result again.
    schedule = re.search(r"^replay: CUCORE_CPU_SCHEDULE=(\S+) ", done.stdout, re.M)
    assert schedule is not None
    environment = os.environ | {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_SCHEDULE": schedule.group(1)}
    again = subprocess.run(
        [sys.executable, "program.py"], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert again.stdout != "[36]\n"


def test_the_command_says_that_a_program_fails_without_a_schedule(tmp_path: Path) -> None:
    done = command("cucore", "schedules", "--", "-c", "raise SystemExit('broken')", cwd=tmp_path)
    assert done.returncode == 1
    assert "ends with status 1 without a schedule, too" in done.stderr and "broken" in done.stderr


def test_events_are_reduced_to_those_that_matter() -> None:
    from cucore.schedules import Event, reduce_events

    events = [Event(f"p0.0.{i}.0", "k", "") for i in range(100)]
    for needed in ([17], [3, 98], [0, 50, 99], list(range(20, 27))):
        wanted = {events[i] for i in needed}
        assert set(reduce_events(events, lambda kept, wanted=wanted: wanted <= set(kept))) == wanted
    assert reduce_events(events, lambda kept: True) == []


def test_the_command_says_when_no_seed_fails(tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SCRIPT.replace("BARRIER", "__syncthreads();"))
    done = command("cucore", "schedules", "--seeds", "4", "--first", "7", "program.py", cwd=tmp_path)
    assert (done.returncode, done.stdout) == (
        0,
        "4 schedules (seeds 7 to 10): the program ends in the same way with all of them\n",
    )


TEST = r"""
import numpy as np
import pytest
from cuda.core import LaunchConfig, PinnedMemoryResource, Program, launch

made = []

@pytest.fixture
def fresh():
    made.append(1)
    return made

def reverse(stream, barrier):
    source = r'''extern "C" __global__ void k(int* out) {
        __shared__ int s[32];
        s[threadIdx.x] = threadIdx.x;
        BARRIER
        out[threadIdx.x] = s[31 - threadIdx.x];
    }'''.replace("BARRIER", barrier)
    kernel = Program(source, code_type="c++").compile("ptx").get_kernel("k")
    buffer = PinnedMemoryResource().allocate(128, stream=stream)
    stream.sync()
    out = np.from_dlpack(buffer).view(np.int32)
    out[:] = 0
    launch(stream, LaunchConfig(grid=1, block=32), kernel, buffer)
    stream.sync()
    result = out.tolist()
    del out
    buffer.close(stream)
    return result

def test_wrong(cuda_stream):
    assert reverse(cuda_stream, "") == list(range(31, -1, -1))

def test_right(cuda_stream):
    assert reverse(cuda_stream, "__syncthreads();") == list(range(31, -1, -1))

@pytest.mark.cuda_schedules(3)
def test_fixtures_are_made_anew(fresh):
    assert len(fresh) <= 3

def test_three_times(fresh):
    assert len(fresh) >= 4
"""


def test_pytest_repeats_tests_and_names_the_seed_that_fails(tmp_path: Path) -> None:
    (tmp_path / "test_reverse.py").write_text(TEST)
    done = command("pytest", "-q", "-p", "no:cacheprovider", "--cuda-schedules=20", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 failed, 3 passed" in done.stdout
    assert "fails with schedule seed " in done.stdout
    assert "pytest 'test_reverse.py::test_wrong'" in done.stdout


@pytest.mark.parametrize(
    "value", ["7", "seed:", "seed:x", "seed:-1", "seed:1,keep:q1.2.3.4", "seed:1,keep:@/no/such/file", "keep:p0.0.0.0"]
)
def test_a_value_that_cannot_be_read_is_refused(value: str) -> None:
    program = "from cuda.core import Device, Program; Device().set_current(); " \
        "Program('extern \"C\" __global__ void k() {}', code_type='c++').compile('ptx').get_kernel('k')"  # fmt: skip
    environment = os.environ | {"CUCORE_DEVICE": "cpu", "CUCORE_CPU_SCHEDULE": value}
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "CUCORE_CPU_SCHEDULE" in done.stderr
