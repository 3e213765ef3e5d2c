# SPDX-License-Identifier: Apache-2.0
"""The scripts of `make wheel`, `make coverage`, `make test`, `make sanitize` and `make lint`, tested on small examples and on the project."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import check_wheel  # noqa: E402
import coverage_lines  # noqa: E402
import ctest_batches  # noqa: E402
import neighbours  # noqa: E402
import suites  # noqa: E402
import tidy  # noqa: E402

needs_compiler = pytest.mark.skipif(
    not shutil.which("c++") or not shutil.which("readelf"), reason="needs a C++ compiler"
)


def library(folder: Path, source: str, *flags: str) -> bytes:
    path = folder / "libcucore_cpu.so"
    (folder / "library.cpp").write_text(source)
    subprocess.run(["c++", "-shared", "-fPIC", *flags, str(folder / "library.cpp"), "-o", str(path)], check=True)
    return path.read_bytes()


def wheel(folder: Path, **files: bytes) -> Path:
    path = folder / "cucore-0.1.0-cp311-cp311-linux_aarch64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(f"cucore/lib/{name}", data)
    return path


# One symbol for each line of cpu/exports.map.
EXPORTED = ["cuInit", *(pattern.replace("[A-Z]*", "Init").replace("*", "x") for pattern in check_wheel.VISIBLE[1:])]


@needs_compiler
def test_valid_wheel_passes_the_check(tmp_path: Path) -> None:
    source = "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in EXPORTED)
    clean = library(tmp_path, source, "-fvisibility-inlines-hidden")
    assert check_wheel.check(wheel(tmp_path, **{"libcucore_cpu.so": clean}))[0] == []


@needs_compiler
def test_a_device_that_hides_what_debuggers_need_is_reported(tmp_path: Path) -> None:
    source = "".join(f'extern "C" int {name}() {{ return 0; }}\n' for name in EXPORTED if "jit_debug" not in name)
    problems = check_wheel.check(wheel(tmp_path, **{"libcucore_cpu.so": library(tmp_path, source)}))[0]
    assert problems == ["cucore/lib/libcucore_cpu.so does not show __jit_debug_*"]


@needs_compiler
def test_invalid_wheel_is_reported_with_its_errors(tmp_path: Path) -> None:
    leaky = library(tmp_path, 'extern "C" int LLVMLeak() { return 0; }', "-Wl,-rpath,/opt/llvm", "-lz")
    big = bytes(check_wheel.LIMIT_WITHOUT_DEVICE + 1)
    problems = "\n".join(check_wheel.check(wheel(tmp_path, **{"libcucore_cpu.so": leaky, "data.bin": big}))[0])
    for text in (
        "looks for libraries in /opt/llvm",
        "LLVMLeak",
        "does not show cuInit",
        "without the CPU device are more than",
    ):
        assert text in problems


def test_wheel_without_the_cpu_device_is_reported(tmp_path: Path) -> None:
    assert check_wheel.check(wheel(tmp_path))[0] == ["the CPU device is not inside"]


@needs_compiler
@pytest.mark.skipif(not shutil.which("gcov"), reason="needs gcov")
def test_coverage_counts_a_line_once_for_all_programs(tmp_path: Path) -> None:
    source = tmp_path / "src" / "core" / "sign.cpp"
    source.parent.mkdir(parents=True)
    source.write_text(
        "int sign(int x) {\n  if (x < 0)\n    return -1;\n  return 1;\n}\nint main(int n, char**) {\n  return sign(n) - 1;\n}\n"
    )
    for name in ("one", "two"):
        build = tmp_path / name
        build.mkdir()
        subprocess.run(["c++", "--coverage", "-O0", str(source), "-o", "program"], cwd=build, check=True)
        subprocess.run(["./program"], cwd=build, check=True)
    counts = coverage_lines.lines(coverage_lines.reports(tmp_path), tmp_path)
    assert {line for line, count in counts["src/core/sign.cpp"].items() if count == 0} == {3}
    ran, total = coverage_lines.by_folder(counts)["src/core"]
    assert (ran, total) == (total - 1, len(counts["src/core/sign.cpp"]))


def test_every_test_file_is_in_one_suite() -> None:
    files = [
        p for place in ("tests/python", "tests/compat", "tests/install") for p in (ROOT / place).rglob("test_*.py")
    ]
    found = suites.suites()
    for file in files:
        name = str(file.relative_to(ROOT))
        assert sum(name == suite or name.startswith(suite + "/") for suite in found) == 1, name


def test_failing_suite_fails_the_run_and_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bodies = {
        "good": "def test_a(): pass\ndef test_b(): pass",
        "bad": "def test_c(): assert 0",
        "dead": "import os\ndef test_d(): os.abort()",
        "leaky": "import atexit, os\natexit.register(os.write, 2, b'nanobind: leaked 1 instances!')\ndef test_e(): pass",
    }
    for name, body in bodies.items():
        (tmp_path / f"test_{name}.py").write_text(body)
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "suites", lambda: [f"test_{name}.py" for name in bodies])
    assert suites.main(tmp_path / "logs", 2, []) == 1
    output = capsys.readouterr().out
    assert "1 failed, 3 passed in " in output.splitlines()[-1]
    assert "FAILED test_leaky.py" in output and "FAILED test_good.py" not in output
    assert "FAILED test_bad.py" in output and "FAILED test_dead.py" in output and "signal 6" in output
    monkeypatch.setattr(suites, "suites", lambda: ["test_good.py"])
    assert suites.main(tmp_path / "logs", 2, []) == 0


def test_ptx_suite_runs_once_per_lane_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / suites.PTX
    folder.mkdir(parents=True)
    body = "import os\ndef test_lanes(): assert os.environ['CUCORE_CPU_W'] != '8'\ndef test_more(): pass"
    (folder / "test_some.py").write_text(body)
    (folder / "test_widths.py").write_text("def test_that_forces_them(): assert 0")
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "suites", lambda: [f"{suites.PTX}/{n}.py" for n in ("test_some", "test_widths")])
    assert suites.main(tmp_path / "logs", 2, ["--widths=4,8", "-x"]) == 1
    output = capsys.readouterr().out
    assert "W=4: 2 passed" in output and "W=8: 1 failed" in output
    assert f"FAILED {suites.PTX}/test_some.py@8" in output and "test_some.py@4\n" not in output
    assert suites.main(tmp_path / "logs", 2, ["--widths=4,16"]) == 0
    assert capsys.readouterr().out.splitlines()[-1].startswith("4 passed in ")


def test_hypothesis_plugin_is_loaded_only_for_suites_that_use_it() -> None:
    found = {suite for suite in suites.suites() if suites.uses_hypothesis(suite)}
    assert {"tests/python/driver", "tests/python/robust/test_stateful.py"} <= found and "tests/python/docs" not in found


def test_hanging_suite_prints_stacks_and_is_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_stuck.py").write_text("import threading\ndef test_that_waits(): threading.Event().wait()")
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "suites", lambda: ["test_stuck.py"])
    monkeypatch.setenv("SUITE_SECONDS", "5")
    assert suites.main(tmp_path / "logs", 1, []) == 1
    output = capsys.readouterr().out
    assert "FAILED test_stuck.py" in output and "signal 6" in output and "in test_that_waits" in output


def test_process_left_running_by_a_test_does_not_block_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "test_leaves.py").write_text(
        "import subprocess\ndef test_a(): open('left', 'w').write(str(subprocess.Popen(['sleep', '1000']).pid))"
    )
    monkeypatch.setattr(suites, "ROOT", tmp_path)
    monkeypatch.setattr(suites, "suites", lambda: ["test_leaves.py"])
    assert suites.main(tmp_path / "logs", 1, []) == 0
    assert "1 passed in" in capsys.readouterr().out
    os.kill(int((tmp_path / "left").read_text()), signal.SIGKILL)  # still running


@pytest.mark.skipif(not shutil.which("make"), reason="needs make")
@pytest.mark.parametrize("cpp,python", [(0, 0), (8, 0), (0, 1), (8, 1)])
def test_gpu_test_builds_runs_all_suites_and_prints_counts(tmp_path: Path, cpp: int, python: int) -> None:
    """Uses fake cmake, ctest and Python programs that log their arguments."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    shutil.copy(ROOT / "Makefile", tmp_path / "Makefile")
    (tmp_path / "bin").mkdir()
    made = 'case "$*" in *--preset*) mkdir -p build/gpu/site; touch build/gpu/CTestTestfile.cmake;; esac'
    bodies = {
        "cmake": made,
        "ctest": f'echo "{100 if not cpp else 66}% tests passed, {1 if cpp else 0} tests failed out of 3"; exit {cpp}',
        "python3": 'case "$1" in tools/suites.py) echo "device $CUCORE_DEVICE, packages $PYTHONPATH"; '
        f'echo "{1 if python else 0} failed, 4 passed in 1 s"; exit {python};; esac',
    }
    for name, body in bodies.items():
        (tmp_path / "bin" / name).write_text(f'#!/bin/bash\necho "{name} $*" >> {tmp_path}/calls\n{body}\n')
        (tmp_path / "bin" / name).chmod(0o755)
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "CUCORE", "GPU", "PYTHON"))}
    environment["PATH"] = f"{tmp_path}/bin:{environment['PATH']}"
    done = subprocess.run(["make", "gpu-test"], cwd=tmp_path, env=environment, capture_output=True, text=True)
    assert (done.returncode == 0) == (cpp == python == 0), done.stdout + done.stderr
    calls = (tmp_path / "calls").read_text()
    assert "--preset gpu" in calls and "--install build/gpu" in calls and "python3 tools/dist_info.py" in calls
    assert f"device gpu, packages {tmp_path}/build/gpu/site" in done.stdout
    summary = done.stdout[done.stdout.index("summary") :]
    assert "out of 3" in summary and "4 passed in 1 s" in summary
    assert ("all suites passed" if done.returncode == 0 else "some suites FAILED") in summary


@pytest.mark.skipif(
    not (ROOT / ".venv" / "bin" / "ruff").exists(), reason="no .venv with ruff and mypy: make setup makes it"
)
def test_ruff_mypy_and_clang_format_have_no_findings() -> None:
    done = subprocess.run([ROOT / "tools" / "lint", "quick"], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_source_file_names_its_license() -> None:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True)
    if listed.returncode != 0:
        pytest.skip("not a checkout")
    without = [
        name
        for name in listed.stdout.split()
        if name.endswith((".cpp", ".hpp", ".py", ".S", "CMakeLists.txt"))
        and not name.startswith(("examples/", "tests/python/seeds/programs/"))  # shown to readers as they are
        and (ROOT / name).exists()
        and "SPDX-License-Identifier: Apache-2.0" not in (ROOT / name).read_text()[:400]
    ]
    assert without == []


def test_workflows_call_targets_and_scripts_that_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    workflows = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert [workflow.name for workflow in workflows] == ["docs.yml", "test.yml", "wheels.yml"]
    for workflow in workflows:
        text = workflow.read_text()
        called = set(re.findall(r"run: make ([a-z-]+)", text))
        scripts = set(re.findall(r"run: (\.ci/\w+|tools/\w+)", text))
        assert called | scripts, workflow
        assert called <= targets, workflow
        assert all((ROOT / script).exists() for script in scripts), workflow


# A fake GoogleTest program; the name of a test determines its result.
SPEAKS = """#!{python}
import os, sys
tests = sys.argv[1].removeprefix("--gtest_filter=").split(":")
print("process of", *tests, os.environ.get("WORD"), flush=True)
for test in tests:
    how = test.split(".")[1]
    if how == "Dies":
        os._exit(3)
    skips = how == "Never" or how == "Alone" and len(tests) > 1
    say = "[  SKIPPED ]" if skips else "[  FAILED  ]" if how == "Fails" else "[       OK ]"
    print(f"[ RUN      ] {{test}}\\n{{say}} {{test}} (0 ms)", flush=True)
sys.exit("Fails" in sys.argv[1])
"""


@pytest.mark.skipif(not shutil.which("ctest"), reason="needs ctest")
@pytest.mark.parametrize(
    "names,status,counts",
    [
        ("A.One A.Two B.Alone C.Never", 0, "4 tests passed, 1 skipped, 0 of 4 processes failed"),
        ("A.One A.Fails B.Alone", 1, "3 tests passed, 0 skipped, 1 of 3 processes failed"),
        ("A.One A.Dies A.Two", 1, "2 tests passed, 0 skipped, 1 of 2 processes failed"),
    ],
    ids=["good", "one fails", "one dies"],
)
def test_batches_run_skipped_tests_again_alone(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], names: str, status: int, counts: str
) -> None:
    program = tmp_path / "program"
    program.write_text(SPEAKS.format(python=sys.executable))
    program.chmod(0o755)
    lines = [f'add_test("{name}" "{program}" "--gtest_filter={name}")\n' for name in (*names.split(), "X.LeftOut")]
    lines += [f'set_tests_properties("{name}" PROPERTIES ENVIRONMENT "WORD=said")\n' for name in names.split()]
    lines += [f'add_test("other" "{sys.executable}" "-c" "")\n']
    (tmp_path / "CTestTestfile.cmake").write_text("".join(lines))
    assert ctest_batches.main([str(tmp_path), "2", str(tmp_path / "log"), "LeftOut"]) == status
    assert capsys.readouterr().out.splitlines()[-1] == counts
    log = (tmp_path / "log").read_text()
    assert f"process of {names} said" in log and "LeftOut" not in log
    assert ("process of B.Alone said" in log) == ("B.Alone" in names)


@pytest.mark.skipif(not shutil.which("ninja"), reason="needs ninja")
def test_installed_files_are_outputs_of_the_product_targets() -> None:
    """`make demo` in a new clone builds the product's folders only; a build of the tests would hide missing outputs."""
    builds = [Path(os.environ["CUCORE_BUILD"])] if "CUCORE_BUILD" in os.environ else sorted(ROOT.glob("build/*"))
    build = next((b.resolve() for b in builds if (b / "build.ninja").exists() and (b / "cpu").exists()), None)
    if build is None:
        pytest.skip("no build folder with the CPU device")
    targets = re.search(r"^targets=\((.*)\)$", (ROOT / "tools/build").read_text(), re.MULTILINE)
    assert targets
    ninja = ["ninja", "-C", str(build), "-t"]
    made = subprocess.run([*ninja, "targets", "all"], capture_output=True, text=True, check=True).stdout
    outputs = {line.partition(":")[0] for line in made.splitlines() if "CUSTOM_COMMAND" in line or "LINKER" in line}
    product = subprocess.run(
        [*ninja, "commands", *targets[1].split()], capture_output=True, text=True, check=True
    ).stdout
    render = [sys.executable, "-B", str(ROOT / "codegen/render.py"), "--list"]
    rendered = subprocess.run(render, capture_output=True, text=True, check=True).stdout.split()
    outputs -= {f"generated/{name}" for name in rendered}  # also at configure time
    installed = {
        str(Path(path).relative_to(build))
        for script in [build / "cmake_install.cmake", *build.glob("[!t]*/**/cmake_install.cmake")]
        for path in re.findall(rf'"({re.escape(str(build))}/[^"]+)"', script.read_text())
    }
    taken = sorted(installed & outputs)
    assert "generated/coverage.json" in taken
    assert "cpu/libcucore_cpu.so" in taken
    # A command lists its outputs, or an output folder.
    named = {path: {path, str(Path(path).parent)} - {"generated"} for path in taken}
    assert [path for path in taken if not any(name in product for name in named[path])] == []


def test_the_progress_of_a_build_is_shown_and_its_log_kept() -> None:
    import io
    from itertools import count

    import progress

    lines = ["configuring\n", "[1/40 2% 3s] Building a.o\n", *(f"  [{n}/40] Building {n}.o\n" for n in range(2, 41))]
    log, out = io.StringIO(), io.StringIO()
    clock = count()
    assert progress.show(lines, log, out, lambda: float(next(clock))) == (40, 40)
    assert log.getvalue() == "".join(lines)
    shown = out.getvalue().splitlines()
    assert shown[0].startswith("[1/40]   2 %") and shown[-1].startswith("[40/40] 100 %") and 2 < len(shown) < 20


def test_a_terminal_sees_one_line_of_progress() -> None:
    import io

    import progress

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    out = Terminal()
    progress.show(["[1/2] a\n", "[2/2] b\n"], io.StringIO(), out)
    assert "\n" not in out.getvalue() and out.getvalue().count("\r\033[K") == 3


def test_tidy_checks_a_file_again_when_a_header_that_it_includes_changes(tmp_path: Path) -> None:
    files = {
        "cpu/a/a.cpp": '#include "cpu/a/a.hpp"\n#include <vector>\n',
        "cpu/a/a.hpp": '  #  include "cpu/b/b.hpp"\n',
        "cpu/b/b.hpp": '#include "cpu/a/a.hpp"\n',
        "cpu/c.hpp": "",
        "src/x/y.cpp": '#include "z.hpp"\n#include <cucore/c.hpp>\n',
        "src/x/z.hpp": "",
        "include/cucore/c.hpp": "",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    includes = tidy.Includes(tmp_path, [name for name in files if name.endswith(".hpp")])
    assert includes.all("cpu/a/a.cpp") == ["cpu/a/a.hpp", "cpu/b/b.hpp"]
    assert includes.all("src/x/y.cpp") == ["include/cucore/c.hpp", "src/x/z.hpp"]


def test_a_package_without_a_wheel_is_a_row_that_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    absent = ["--no-index", "--find-links", str(tmp_path), "no-such-package==1"]
    with pytest.raises(neighbours.NoWheel, match=r"no-such-package==1 has no wheel for .* and Python 3"):
        neighbours.install(Path(sys.executable), absent)
    with pytest.raises(RuntimeError, match="pip install failed"):
        neighbours.install(Path(sys.executable), ["--no-such-option"])
    rows = {"packages": [{"name": "one", "wheels": absent}, {"name": "two", "wheels": []}], "not_run": []}
    (tmp_path / "packages.json").write_text(json.dumps(rows))
    page = tmp_path / "page.md"
    page.write_text(f"before\n{neighbours.BEGIN}\n{neighbours.END}\nafter\n")
    python = Path(sys.executable)

    def prepare(package: dict[str, list[str]], build: Path) -> Path:
        if package["wheels"]:
            neighbours.install(python, package["wheels"])
        return python

    monkeypatch.setattr(neighbours, "FOLDER", tmp_path)
    monkeypatch.setattr(neighbours, "prepare", prepare)
    monkeypatch.setattr(neighbours, "run", lambda package, python: ("2.0", ["add"], []))
    monkeypatch.setattr(sys, "argv", ["neighbours.py", "--docs", str(page)])
    assert neighbours.main() == 0
    lines = page.read_text().splitlines()
    assert lines[4].startswith("| one | - | - | no-such-package==1 has no wheel") and lines[5].startswith(
        "| two | 2.0 | add | - |"
    )
    monkeypatch.setattr(neighbours, "run", lambda package, python: ("2.0", [], ["add: wrong"]))
    assert neighbours.main() == 1, "what does not run fails the target"


def test_the_page_of_packages_has_a_row_for_each_of_them() -> None:
    facts = json.loads((ROOT / "tests/neighbours/packages.json").read_text())
    table = (ROOT / "docs/guide/packages.md").read_text().partition(neighbours.BEGIN)[2].partition(neighbours.END)[0]
    names = [line.split("|")[1].strip() for line in table.strip().splitlines()[2:]]
    assert names == [row["name"] for row in facts["packages"] + facts["not_run"]]
