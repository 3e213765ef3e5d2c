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
