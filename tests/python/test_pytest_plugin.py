# SPDX-License-Identifier: Apache-2.0
"""The pytest plugin: each test runs pytest on a project in a separate process."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

pytest_plugins = ["pytester"]

DEVICE = os.environ.get("CUCORE_DEVICE", "cpu")


@pytest.fixture
def run(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch):
    paths = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))

    def go(source: str, *arguments: str) -> pytest.RunResult:
        pytester.makepyfile(source)
        return pytester.runpytest_subprocess("-p", "no:cacheprovider", *arguments)

    return go


def test_fixtures_provide_a_current_device_and_a_stream(run) -> None:
    result = run(
        """
        def test_it(cuda_device, cuda_stream):
            assert cuda_stream.device == cuda_device
            buffer = cuda_device.allocate(64, stream=cuda_stream)
            buffer.fill(1, stream=cuda_stream)
            assert bytes(buffer.copy_to(bytearray(64), stream=cuda_stream)) or True
        """,
        f"--cuda-device={DEVICE}",
    )
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines([f"cuda device: {DEVICE}"])
    result.stdout.no_fnmatch_line("*left allocated*")


def test_markers_skip_tests_with_the_reason(run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.gpu_only
        def test_on_a_gpu(): pass

        @pytest.mark.cpu_only
        def test_on_the_cpu_device(): pass
        """,
        f"--cuda-device={DEVICE}",
        "-rs",
        "--strict-markers",
    )
    result.assert_outcomes(passed=1, skipped=1)
    result.stdout.fnmatch_lines([f"*SKIPPED*this run is on {'the CPU device' if DEVICE == 'cpu' else 'a GPU'}"])


def test_automatic_choice_uses_the_kind_of_the_driver(run) -> None:
    result = run(
        """
        import pytest

        @pytest.mark.gpu_only
        def test_on_a_gpu(): pass

        @pytest.mark.cpu_only
        def test_on_the_cpu_device(): pass
        """,
        "--cuda-device=auto",
    )
    result.assert_outcomes(passed=1, skipped=1)


LEAK = """
kept = []

def test_leaks(cuda_device, cuda_stream):
    kept.append(cuda_device.allocate(4096, stream=cuda_stream))
    cuda_stream.sync()

def test_does_not(cuda_device, cuda_stream):
    cuda_device.allocate(4096, stream=cuda_stream)

def test_cycles_are_not_leaks(cuda_device, cuda_stream):
    class Node: pass
    node = Node()
    node.me, node.buffer = node, cuda_device.allocate(4096, stream=cuda_stream)

import pytest

@pytest.fixture
def buffer(cuda_device, cuda_stream):
    return cuda_device.allocate(4096, stream=cuda_stream)

def test_values_of_fixtures_are_not_leaks(buffer):
    assert buffer.size == 4096
"""


def test_leaked_memory_is_reported_at_the_end(run) -> None:
    result = run(LEAK, f"--cuda-device={DEVICE}")
    result.assert_outcomes(passed=4)
    result.stdout.fnmatch_lines(["*device memory left allocated*", "*4,096 bytes*test_leaks"])
    result.stdout.no_fnmatch_line("*bytes*test_does_not")
    result.stdout.no_fnmatch_line("*bytes*test_cycles_are_not_leaks")
    result.stdout.no_fnmatch_line("*bytes*test_values_of_fixtures_are_not_leaks")


def test_leaked_memory_can_fail_the_run(run) -> None:
    result = run(LEAK, f"--cuda-device={DEVICE}", "--cuda-leaks=error")
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*4,096 bytes*test_leaks", "*this fails the run"])
    result = run(LEAK, f"--cuda-device={DEVICE}", "--cuda-leaks=ignore")
    assert result.ret == 0
    result.stdout.no_fnmatch_line("*left allocated*")


def test_failing_test_is_not_reported_as_a_leak(run) -> None:
    result = run(
        """
        def test_fails(cuda_device, cuda_stream):
            buffer = cuda_device.allocate(4096, stream=cuda_stream)
            assert buffer.size == 0
        """,
        f"--cuda-device={DEVICE}",
        "--cuda-leaks=error",
    )
    result.assert_outcomes(failed=1)


def test_tests_without_cuda_load_no_driver(run) -> None:
    result = run(
        """
        def test_plain():
            import sys
            assert "cuda.core" not in sys.modules
        """,
        "--cuda-leaks=error",
    )
    result.assert_outcomes(passed=1)


@pytest.mark.parametrize("spelling", [["--cuda-device=both"], ["--cuda-device", "both"]])
def test_both_runs_the_suite_once_per_device(run, spelling: list[str], tmp_path: Path) -> None:
    result = run(
        f"""
        import os

        def test_where():
            with open({str(tmp_path / "log")!r}, "a") as log:
                log.write(os.environ["CUCORE_DEVICE"] + "\\n")
            assert os.environ["CUCORE_DEVICE"] == "cpu"
        """,
        *spelling,
    )
    assert (tmp_path / "log").read_text().split() == ["cpu", "gpu"]
    assert result.ret == 1  # the second one failed
    result.stdout.fnmatch_lines(["*cuda device: cpu ended with 0, gpu with 1*"])


FAULT = """
import pytest
from cuda.core import CUDAError, LaunchConfig, Program, launch

@pytest.fixture
def fault(cuda_device):
    source = 'extern "C" __global__ void fault(int* p) { p[1000000000] = 1; }'
    return Program(source, "c++").compile("cubin").get_kernel("fault")

def test_that_expects_the_fault(cuda_device, cuda_stream, fault):
    launch(cuda_stream, LaunchConfig(grid=1, block=1), fault, cuda_device.allocate(4, stream=cuda_stream))
    with pytest.raises(CUDAError):
        cuda_stream.sync()

def test_after_it(cuda_device, cuda_stream):
    cuda_device.allocate(4, stream=cuda_stream).fill(0, stream=cuda_stream)
    cuda_stream.sync()

def test_that_overlooks_the_fault(cuda_device, cuda_stream, fault):
    launch(cuda_stream, LaunchConfig(grid=1, block=1), fault, cuda_device.allocate(4, stream=cuda_stream))

def test_after_that(cuda_device, cuda_stream):
    cuda_device.allocate(4, stream=cuda_stream).fill(0, stream=cuda_stream)
    cuda_stream.sync()
"""


@pytest.mark.cpu_only
def test_a_fault_fails_its_own_test_only_and_not_where_it_was_expected(run) -> None:
    result = run(FAULT, "--cuda-device=cpu")
    result.assert_outcomes(passed=4, errors=1)
    result.stdout.fnmatch_lines(["ERROR*test_that_overlooks_the_fault*"])


FAULT_WITHOUT_FIXTURES = """
import pytest
from cuda.core import CUDAError, Device, LaunchConfig, Program, launch

SOURCE = 'extern "C" __global__ void fault(int* p) { p[1000000000] = 1; }'

def faulty_launch():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, "c++").compile("cubin").get_kernel("fault")
    launch(stream, LaunchConfig(grid=1, block=1), kernel, device.allocate(4, stream=stream))
    return stream

def works():
    device = Device()
    device.set_current()
    stream = device.create_stream()
    device.allocate(4, stream=stream).fill(0, stream=stream)
    stream.sync()

def test_before(): works()
def test_fails_with_the_fault(): faulty_launch().sync()
def test_after_the_failure(): works()
def test_expects_the_fault():
    with pytest.raises(CUDAError):
        faulty_launch().sync()
def test_after_the_expected_fault(): works()
def test_overlooks_the_fault(): faulty_launch()
def test_after_the_overlooked_fault(): works()
"""


@pytest.mark.cpu_only
@pytest.mark.parametrize("how", ["reset", "process"])
def test_a_fault_fails_one_test_also_without_fixtures(run, how: str) -> None:
    result = run(FAULT_WITHOUT_FIXTURES, "--cuda-device=cpu", f"--cuda-after-fault={how}", "-v")
    result.assert_outcomes(passed=6, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*test_fails_with_the_fault FAILED*"])
    result.stdout.fnmatch_lines(["ERROR*test_overlooks_the_fault*"])


@pytest.mark.cpu_only
def test_a_new_process_after_a_fault_keeps_values_of_wide_fixtures(run) -> None:
    source = FAULT_WITHOUT_FIXTURES + (
        "@pytest.fixture(scope='session')\n"
        "def shared():\n"
        "    device = Device(); device.set_current()\n"
        "    return device.allocate(64, stream=device.default_stream)\n"
        "def test_uses_it_first(shared): faulty_launch().sync()\n"
        "def test_uses_it_again(shared):\n"
        "    shared.fill(0, stream=Device().default_stream); Device().sync()\n"
    )
    result = run(source, "--cuda-device=cpu", "--cuda-after-fault=process", "-k", "shared or uses_it")
    result.assert_outcomes(passed=1, failed=1)


@pytest.mark.cpu_only
def test_stop_ends_the_run_after_a_fault(run) -> None:
    result = run(FAULT_WITHOUT_FIXTURES, "--cuda-device=cpu", "--cuda-after-fault=stop")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["*a fault in a kernel has broken the context of this process*"])


@pytest.mark.cpu_only
def test_a_crash_of_the_new_process_fails_the_test_that_crashed(run) -> None:
    source = (
        FAULT_WITHOUT_FIXTURES + "def test_ends():\n    import os; os._exit(3)\ndef test_after_the_end(): works()\n"
    )
    chosen = "test_fails_with_the_fault or test_ends or test_after_the_end"
    result = run(source, "--cuda-device=cpu", "--cuda-after-fault=process", "-k", chosen)
    result.assert_outcomes(passed=1, failed=2)
    result.stdout.fnmatch_lines(["*ended in this test*"])


def test_leaks_of_xdist_workers_are_reported(run) -> None:
    pytest.importorskip("xdist")
    result = run(LEAK, f"--cuda-device={DEVICE}", "-n2", "--cuda-leaks=error")
    result.assert_outcomes(passed=4)
    assert result.ret == pytest.ExitCode.TESTS_FAILED
    result.stdout.fnmatch_lines(["*device memory left allocated*", "*4,096 bytes*test_leaks"])
    result.stdout.no_fnmatch_line("*bytes*test_does_not")


@pytest.mark.cpu_only
@pytest.mark.parametrize("how", ["reset", "process"])
def test_a_fault_in_an_xdist_worker_fails_one_test(run, how: str) -> None:
    pytest.importorskip("xdist")
    result = run(FAULT_WITHOUT_FIXTURES, "--cuda-device=cpu", "-n2", f"--cuda-after-fault={how}")
    result.assert_outcomes(passed=6, failed=1, errors=1)


RACE = """
from cuda.core import LaunchConfig, Program, ProgramOptions, launch

SOURCE = r'''
extern "C" __global__ void shift(int* out) {
  __shared__ int values[64];
  values[threadIdx.x] = threadIdx.x;
  out[threadIdx.x] = values[(threadIdx.x + 1) % 64];
}
'''

def test_race(cuda_device, cuda_stream):
    kernel = Program(SOURCE, "c++").compile("cubin").get_kernel("shift")
    buffer = cuda_device.allocate(256, stream=cuda_stream)
    launch(cuda_stream, LaunchConfig(grid=1, block=64), kernel, buffer)
    cuda_stream.sync()

def test_after_it(cuda_device, cuda_stream):
    cuda_device.allocate(4, stream=cuda_stream).fill(0, stream=cuda_stream)
"""


@pytest.mark.cpu_only
def test_cuda_check_switches_on_check_mode(run) -> None:
    run(RACE, "--cuda-device=cpu").assert_outcomes(passed=2)
    result = run(RACE, "--cuda-check=race,memory")
    result.assert_outcomes(passed=1, failed=1)
    result.stdout.fnmatch_lines(["cuda device: cpu", "*race*"])


def test_cuda_check_names_unknown_kinds_and_needs_the_cpu_device(run) -> None:
    result = run("def test_it(): pass", "--cuda-check=rice")
    result.stderr.fnmatch_lines(["*unknown check 'rice'*memory, race, init, sync, leak, all*"])
    result = run("def test_it(): pass", "--cuda-check=race", "--cuda-device=gpu")
    result.stderr.fnmatch_lines(["*--cuda-check works on the CPU device only*"])
