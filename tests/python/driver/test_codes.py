"""Bad arguments to every driver function: the CPU device answers with a code, and with the same code as an H200."""

from __future__ import annotations

from pathlib import Path

import cucore
import pytest

from .codes import collect, functions

pytestmark = pytest.mark.cpu_only


@pytest.fixture(scope="module")
def answers() -> dict[str, int | str]:
    return collect(str(Path(cucore.CPU_DRIVER_FOLDER) / "libcuda.so.1"), stale=True)


def test_no_bad_argument_ends_the_process_or_hangs(answers: dict[str, int | str]) -> None:
    assert {case.split(":")[0] for case in answers} == set(functions())
    assert [case for case, answer in answers.items() if isinstance(answer, str)] == []


def test_destroyed_handles_are_refused(answers: dict[str, int | str]) -> None:
    followed = [case for case, answer in answers.items() if case.endswith("is destroyed") and answer == 0]
    assert followed == []


def test_nothing_works_before_cuinit(answers: dict[str, int | str]) -> None:
    before = {case.split(":")[0]: answer for case, answer in answers.items() if case.endswith("not initialized")}
    allowed = {name for name, answer in before.items() if answer not in (3, 801)}
    assert allowed == {
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuGetExportTable",
        "cuGetProcAddress",
    }
