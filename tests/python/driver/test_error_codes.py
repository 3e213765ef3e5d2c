# SPDX-License-Identifier: Apache-2.0
"""Every driver function returns an error code for bad arguments, and the same code as an H200."""

from __future__ import annotations

import json
import lzma
from pathlib import Path

import cucore
import pytest

from .codes import collect, functions

pytestmark = pytest.mark.cpu_only
LIBRARY = str(Path(cucore.CPU_DRIVER_FOLDER) / "libcuda.so.1")


@pytest.fixture(scope="module")
def answers() -> dict[str, int | str]:
    return collect(LIBRARY, stale=True)


@pytest.fixture(scope="module")
def filled() -> dict[str, int | str]:
    """Results of calls whose structs and arrays are valid except for one field."""
    return collect(LIBRARY, stale=False, walks=("filled",))


def test_bad_arguments_never_crash_or_hang(answers: dict[str, int | str]) -> None:
    assert {case.split(":")[0] for case in answers} == set(functions())
    assert [case for case, answer in answers.items() if isinstance(answer, str)] == []


def test_destroyed_handles_return_an_error(answers: dict[str, int | str]) -> None:
    followed = [case for case, answer in answers.items() if case.endswith("is destroyed") and answer == 0]
    assert followed == []


def test_calls_before_cuinit_return_not_initialized(answers: dict[str, int | str]) -> None:
    before = {case.split(":")[0]: answer for case, answer in answers.items() if case.endswith("not initialized")}
    allowed = {name for name, answer in before.items() if answer not in (3, 801)}
    assert allowed == {
        "cuDriverGetVersion",
        "cuGetErrorName",
        "cuGetErrorString",
        "cuGetExportTable",
        "cuGetProcAddress",
    }


def differences(answers: dict[str, int | str], name: str) -> dict[str, tuple[int | str, int]]:
    """Results that differ from the H200's (recorded by codes.py) and are not listed, with a reason, in different_NAME.json.
    A listed case that no longer differs is reported too."""
    folder = Path(__file__).parent
    recorded = json.loads(lzma.decompress((folder / f"h200/{name}.json.xz").read_bytes()))
    groups = json.loads((folder / f"different_{name}.json").read_text())
    assert all(len(group["reason"]) > 40 for group in groups)
    different: dict[str, int] = {}
    for group in groups:
        for function, cases in group["cases"].items():
            for what, code in cases.items():
                case = f"{function}: {what}"
                assert case not in different and recorded[case] != code, case
                different[case] = code
    wrong = {}
    for case, theirs in recorded.items():
        # NVIDIA's driver crashed, or checks arguments before it returns "not initialized"
        if isinstance(theirs, str) or case.endswith(": not initialized"):
            continue
        wanted = different.get(case, theirs)
        if answers[case] != wanted:
            wrong[case] = (answers[case], wanted)
    return wrong


def test_error_codes_equal_those_of_an_h200(answers: dict[str, int | str]) -> None:
    assert differences(answers, "codes") == {}


def test_error_codes_of_bad_fields_equal_those_of_an_h200(filled: dict[str, int | str]) -> None:
    assert differences(filled, "filled") == {}


def test_bad_fields_never_crash_or_hang(filled: dict[str, int | str]) -> None:
    assert len(filled) > 600
    assert [case for case, answer in filled.items() if isinstance(answer, str)] == []


def test_calls_with_valid_arguments_succeed(filled: dict[str, int | str]) -> None:
    """Otherwise the error code would not be caused by the bad field."""
    good = {case.split(":")[0]: answer for case, answer in filled.items() if case.endswith(": all is good")}
    nothing_there = {"cuLinkComplete", "cuTexRefGetAddress", "cuTexRefGetArray", "cuTexRefGetMipmappedArray"}
    assert {name for name, answer in good.items() if answer != 0} == nothing_there


def test_bad_enumerators_flags_and_devices_in_structs_return_an_error(filled: dict[str, int | str]) -> None:
    bad = {c: a for c, a in filled.items() if "." in c and c.endswith((" is 9999", " is 99", " is 2147483648"))}
    assert len(bad) > 60
    assert [case for case, answer in bad.items() if answer == 0] == []
