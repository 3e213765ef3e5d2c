"""Bad arguments to every driver function: the CPU device answers with a code, and with the same code as an H200."""

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
    """Of calls whose structs and arrays are good, save for one field."""
    return collect(LIBRARY, stale=False, walks=("filled",))


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


def differences(answers: dict[str, int | str], name: str) -> dict[str, tuple[int | str, int]]:
    """What is neither the H200's answer (recorded by codes.py) nor one that different_NAME.json holds for the better one, with its reason.
    A case that leaves that list fails, too."""
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
        # NVIDIA's driver ended the process; or looks at arguments before it says that it was not initialized
        if isinstance(theirs, str) or case.endswith(": not initialized"):
            continue
        wanted = different.get(case, theirs)
        if answers[case] != wanted:
            wrong[case] = (answers[case], wanted)
    return wrong


def test_codes_are_those_of_an_h200(answers: dict[str, int | str]) -> None:
    assert differences(answers, "codes") == {}


def test_codes_for_bad_fields_are_those_of_an_h200(filled: dict[str, int | str]) -> None:
    assert differences(filled, "filled") == {}


def test_no_bad_field_ends_the_process_or_hangs(filled: dict[str, int | str]) -> None:
    assert len(filled) > 600
    assert [case for case, answer in filled.items() if isinstance(answer, str)] == []


def test_calls_with_all_good_arguments_work(filled: dict[str, int | str]) -> None:
    """Else their bad fields would not be what the answer is about."""
    good = {case.split(":")[0]: answer for case, answer in filled.items() if case.endswith(": all is good")}
    nothing_there = {"cuLinkComplete", "cuTexRefGetAddress", "cuTexRefGetArray", "cuTexRefGetMipmappedArray"}
    assert {name for name, answer in good.items() if answer != 0} == nothing_there


def test_enumerators_flags_and_devices_in_structs_are_looked_at(filled: dict[str, int | str]) -> None:
    bad = {c: a for c, a in filled.items() if "." in c and c.endswith((" is 9999", " is 99", " is 2147483648"))}
    assert len(bad) > 60
    assert [case for case, answer in bad.items() if answer == 0] == []
