"""Every PTX instruction, one case each: known results, and the answers an H200 gave to the same inputs (tests/ptx/h200.bin).

Runs on the device CUCORE_DEVICE names. `python tests/python/ptx/test_instructions.py --record FILE` writes a GPU's answers."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import instructions


def library() -> str:
    if os.environ.get("CUCORE_DEVICE", "cpu") == "gpu":
        return "libcuda.so.1"
    if "CUCORE_CPU_LIBRARY" in os.environ:
        return os.environ["CUCORE_CPU_LIBRARY"]
    package = importlib.util.find_spec("cucore")
    if package is None or not package.submodule_search_locations:
        raise FileNotFoundError("the CPU device is not installed: set CUCORE_CPU_LIBRARY")
    return str(Path(package.submodule_search_locations[0], "lib", "libcucore_cpu.so"))


def record(path: str) -> None:
    driver = instructions.Driver(library())
    answers, errors = {}, {}
    for case in instructions.all_cases():
        if case.target > driver.capability:
            continue
        try:
            answers[case.name] = instructions.pack(case, driver.run(case))
        except RuntimeError as error:
            errors[case.name] = str(error)
            print(f"{case.name}: {error}")
    Path(path).write_bytes(instructions.save(answers, errors))
    print(f"{len(answers)} recorded, {len(errors)} failed")


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "--record":
        record(sys.argv[2])
    else:
        sys.exit("usage: test_instructions.py --record FILE")
else:
    import pytest

    CASES = instructions.all_cases()
    ANSWERS = instructions.load_recorded()

    @pytest.fixture(scope="module")
    def driver() -> instructions.Driver:
        return instructions.Driver(library())

    @pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
    def test_instruction_gives_the_known_result(case: instructions.Case, driver: instructions.Driver) -> None:
        if case.target > driver.capability and os.environ.get("CUCORE_DEVICE") == "gpu":
            pytest.skip(f"needs sm_{case.target}")
        results = driver.run(case)
        for given, wanted in case.examples:
            row = instructions.inputs_of(case).index(given)
            assert results[row] == wanted, f"{case.body} with {[hex(g) for g in given]}"
        if case.name in ANSWERS:
            wrong = instructions.differences(case, results, instructions.unpack(case, ANSWERS[case.name]))
            assert not wrong, "\n".join(wrong[:8])

    def test_every_case_has_an_example_or_a_recorded_answer() -> None:
        bare = [case.name for case in CASES if not case.examples and case.name not in ANSWERS and case.target <= 90]
        assert not bare, f"{len(bare)} cases check nothing: {bare[:5]}"
