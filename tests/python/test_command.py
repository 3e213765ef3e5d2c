# SPDX-License-Identifier: Apache-2.0
"""The `cucore` command."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest


def cucore(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "cucore", *arguments]
    return subprocess.run(command, capture_output=True, text=True, env={**os.environ, **environment})


def test_info_names_the_driver_and_its_devices() -> None:
    done = cucore("info", "--json")
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["driver"]["kind"] == os.environ.get("CUCORE_DEVICE", "cpu")
    assert facts["devices"][0]["memory"] > 0
    assert facts["libraries"]["nvrtc"]["path"].startswith("/")
    assert facts["devices"][0]["name"] in cucore("info").stdout


def test_info_lists_the_paths_searched() -> None:
    done = cucore("info", "--why", "nvrtc")
    assert done.returncode == 0 and "nvrtc" in done.stdout


def test_unknown_device_returns_an_error_that_names_the_variable() -> None:
    done = cucore("info", CUCORE_DEVICE="abacus")
    assert done.returncode == 1 and "CUCORE_DEVICE" in done.stdout


@pytest.mark.cpu_only
def test_run_replaces_libcuda_with_the_cpu_device() -> None:
    program = "import ctypes; c = ctypes.CDLL('libcuda.so.1'); n = ctypes.c_int(); c.cuInit(0); c.cuDeviceGetCount(ctypes.byref(n)); print(n.value)"
    done = cucore("run", "--cpu", "--devices", "3", sys.executable, "-c", program)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr


@pytest.mark.cpu_only
def test_coverage_counts_the_driver_functions() -> None:
    done = cucore("coverage", "--json")
    assert done.returncode == 0, done.stderr
    driver = json.loads(done.stdout)["driver"]
    assert "cuLaunchKernel" in driver["implemented"]
    assert "driver" in cucore("coverage", "--missing").stdout


@pytest.mark.cpu_only
def test_90_percent_of_driver_functions_are_implemented_and_others_have_reasons() -> None:
    driver = json.loads(cucore("coverage", "--json").stdout)["driver"]
    there, absent = driver["implemented"], driver["missing"]
    assert len(there) >= 0.9 * (len(there) + len(absent))
    assert [name for name, reason in absent.items() if not reason] == []
    listed, page = cucore("coverage", "--missing").stdout, cucore("coverage", "--page").stdout
    for name, reason in absent.items():
        assert f"{name} " in listed and reason in listed
        assert f"`{name}`" in page and reason in page


@pytest.mark.cpu_only
def test_coverage_counts_nvml_functions_and_instructions() -> None:
    table = json.loads(cucore("coverage", "--json").stdout)
    assert "nvmlDeviceGetName" in table["nvml"]["implemented"]
    assert [name for name, reason in table["nvml"]["missing"].items() if not reason] == []
    assert "cuptiActivityEnable" in table["cupti"]["implemented"]
    assert "cuptiEventGroupCreate" in table["cupti"]["missing"]
    assert any(text.startswith("fma") for text in table["ptx"]["implemented"])
    shown = cucore("coverage").stdout
    assert "PTX instructions" in shown and "NVRTC" in shown


def test_why_explains_a_library_and_its_headers() -> None:
    done = cucore("info", "--why", "cudart")
    assert done.returncode == 0, done.stderr
    assert "cudart (library)" in done.stdout and "cudart (headers)" in done.stdout


def test_unknown_name_returns_an_error_that_lists_the_known_names() -> None:
    done = cucore("info", "--why", "nothing")
    assert done.returncode == 2 and "nothing is known as 'nothing'" in done.stderr and "nvrtc" in done.stderr


def test_why_as_json_lists_the_places_with_what_was_there() -> None:
    search = json.loads(cucore("info", "--why", "nvrtc", "--json").stdout)["search"]
    assert search["library"]["path"].endswith((".so.13", ".so.12"))
    assert search["library"]["attempts"][0].keys() == {"step", "place", "outcome"}
    unknown = json.loads(cucore("info", "--why", "nothing", "--json").stdout)
    assert "nvrtc" in unknown["known"] and "nothing" in unknown["error"]


@pytest.mark.cpu_only
def test_a_reader_that_goes_away_causes_no_traceback() -> None:
    command = f"{sys.executable} -m cucore coverage --missing | head -1"
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=False)
    assert done.stdout.count("\n") == 1 and done.stderr == ""


@pytest.mark.parametrize("number", ["0", "65", "-1", "many"])
def test_a_number_of_devices_that_cannot_be_presented_is_refused(number: str) -> None:
    done = cucore("run", "--devices", number, sys.executable)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert f"{number} is not a number from 1 to 64" in done.stderr or "expected one argument" in done.stderr


@pytest.mark.cpu_only
def test_the_demo_without_a_device_says_why_in_one_line() -> None:
    done = cucore("demo", CUDA_VISIBLE_DEVICES="5")
    assert done.returncode == 1 and done.stdout == ""
    assert done.stderr.startswith("cucore demo: no device can be used: ") and done.stderr.count("\n") == 1
    assert json.loads(cucore("demo", "--json", CUDA_VISIBLE_DEVICES="5").stdout)["ok"] is False
    if not Path("/dev/nvidiactl").exists():
        done = cucore("demo", CUCORE_DEVICE="gpu")
        reason = "CUCORE_DEVICE=gpu, but no GPU can be used"
        assert done.stderr == f"cucore demo: no device can be used: {reason} (cucore doctor says what to do)\n"


def test_the_demo_without_numpy_or_nvrtc_names_the_command(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.util, sys\nfind = importlib.util.find_spec\n"
        "importlib.util.find_spec = lambda name, *rest: None if name == 'numpy' else find(name, *rest)\n"
    )
    paths = os.pathsep.join(filter(None, [str(tmp_path), os.environ.get("PYTHONPATH")]))
    done = cucore("demo", PYTHONPATH=paths)
    assert done.returncode == 1 and done.stderr == 'cucore demo: NumPy is not installed: pip install "cucore[cu13]"\n'
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, cuda.core, cuda.pathfinder as p\n"
        "def fail(*_, **__): raise p.DynamicLibNotFoundError('NVRTC was not found; install it with: pip install \"cucore[cu13]\"\\n more')\n"
        "cuda.core.Program = fail\n"
    )
    done = cucore("demo", PYTHONPATH=paths)
    assert done.returncode == 1 and 'pip install "cucore[cu13]"' in done.stderr and done.stderr.count("\n") == 1


def test_the_demo_as_json_has_its_numbers() -> None:
    facts = json.loads(cucore("demo", "--json").stdout)
    assert facts["ok"] and facts["equal"] and facts["kernel_ms"] > 0 and facts["device"]


@pytest.mark.parametrize("command", [["info"], ["doctor"], ["coverage"], ["demo"], ["info", "--why", "nvrtc"]])
def test_output_fits_sixty_columns(command: list[str]) -> None:
    for line in cucore(*command, COLUMNS="60", CUCORE_CACHE_DIR="/tmp/c").stdout.splitlines():
        longest_word = max(map(len, line.split()), default=0)
        is_command = " -m pip " in line  # to be copied: neither a command nor a path is broken
        assert len(line) <= 60 or longest_word > 44 or is_command, line


def test_colours_are_for_terminals_and_no_color_switches_them_off() -> None:
    program = (
        "import io, sys; from cucore import terminal\n"
        "class T(io.StringIO):\n    isatty = lambda self: True\n"
        "print(repr(terminal.styled('x', 'red', stream=T())), repr(terminal.styled('x', 'red')))"
    )

    def shown(**variables: str) -> str:
        environment = {k: v for k, v in os.environ.items() if k != "NO_COLOR"} | {"TERM": "xterm"} | variables
        return subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True, env=environment
        ).stdout

    assert shown() == "'\\x1b[31mx\\x1b[0m' 'x'\n"
    assert shown(NO_COLOR="1") == "'x' 'x'\n"
    assert shown(NO_COLOR="") == "'\\x1b[31mx\\x1b[0m' 'x'\n"
    assert shown(TERM="dumb") == "'x' 'x'\n"


def test_completion_knows_every_command_and_option() -> None:
    script = cucore("completion", "bash").stdout
    ask = 'COMP_WORDS=(cucore "$@"); COMP_CWORD=$#; _cucore; printf "%s\\n" "${COMPREPLY[@]}"'

    def complete(*words: str) -> list[str]:
        done = subprocess.run(["bash", "-c", script + ask, "_", *words], capture_output=True, text=True, check=True)
        return done.stdout.split()

    assert set(complete("")) >= {"info", "doctor", "run", "coverage", "demo", "completion", "--version"}
    assert complete("do") == ["doctor"] and complete("info", "--j") == ["--json"]
    assert complete("completion", "z") == ["zsh"] and "--devices" in complete("run", "--")
    assert "_describe" in cucore("completion", "zsh").stdout and "-a doctor" in cucore("completion", "fish").stdout


# ---- doctor


def findings(**environment: str) -> tuple[int, dict[str, dict]]:
    done = cucore("doctor", "--json", **environment)
    assert "Traceback" not in done.stderr, done.stderr
    report = json.loads(done.stdout)
    assert report["ok"] is (done.returncode == 0)
    return done.returncode, {finding["name"]: finding for finding in report["findings"]}


def test_the_doctor_finds_nothing_where_everything_works() -> None:
    status, found = findings()
    assert status == 0, found
    assert {"packages", "driver", "device 0", "NumPy", "nvrtc", "cache", "kernel"} <= found.keys()
    assert not [name for name, finding in found.items() if finding["status"] == "problem"]
    shown = cucore("doctor")
    assert shown.returncode == 0 and "Everything works" in shown.stdout


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CUCORE_DEVICE", "abacus"),
        ("CUCORE_CPU_DEVICES", "65"),
        ("CUCORE_CPU_MEMORY", "lots"),
        ("CUCORE_CPU_TIMEOUT", "soon"),
        ("CUCORE_CHECK", "memroy"),
        ("CUCORE_CPU_QUICK", "2"),
    ],
)
def test_the_doctor_names_a_variable_that_cannot_be_read(name: str, value: str) -> None:
    status, found = findings(**{name: value})
    finding = found[f"variable {name}"]
    assert status == 1 and finding["status"] == "problem" and finding["fix"] == [f"unset {name}"]
    assert f"{name}={value}" in finding["message"] and "expected" in finding["message"]
    assert found["driver"]["status"] == "ok"  # one mistake is one finding


def test_the_doctor_recognises_a_misspelled_variable() -> None:
    _, found = findings(CUCORE_CHEK="all")
    assert found["variable CUCORE_CHEK"]["fix"] == ["export CUCORE_CHECK=all; unset CUCORE_CHEK"]


@pytest.mark.cpu_only
def test_the_doctor_says_which_devices_may_be_made_visible() -> None:
    status, found = findings(CUDA_VISIBLE_DEVICES="5", CUCORE_CPU_DEVICES="3")
    finding = found["variable CUDA_VISIBLE_DEVICES"]
    assert status == 1 and "0 to 2" in finding["message"] and finding["fix"] == ["unset CUDA_VISIBLE_DEVICES"]
    assert found["device 0"]["status"] == "ok"
    status, found = findings(CUDA_VISIBLE_DEVICES="1,7", CUCORE_CPU_DEVICES="3")
    assert status == 0 and found["variable CUDA_VISIBLE_DEVICES"]["fix"] == ["export CUDA_VISIBLE_DEVICES=1"]
    assert "only the first of them exists" in found["variable CUDA_VISIBLE_DEVICES"]["message"]


@pytest.mark.cpu_only
def test_the_doctor_says_what_to_do_without_a_gpu() -> None:
    if Path("/dev/nvidiactl").exists():
        pytest.skip("this machine has a GPU")
    status, found = findings(CUCORE_DEVICE="gpu")
    assert status == 1 and found["driver"]["fix"] == ["export CUCORE_DEVICE=cpu"]


def test_the_doctor_finds_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    status, found = findings(CUCORE_CACHE_DIR=str(tmp_path / "file" / "cache"), CUCORE_CPU_CACHE="1")
    assert status == 0 and found["cache"]["status"] == "warning"
    assert (
        found["cache"]["fix"][0].startswith("export CUCORE_CACHE_DIR=") and "is no folder" in found["cache"]["message"]
    )


def test_the_doctor_names_the_command_for_a_missing_compiler() -> None:
    program = (
        "import sys; from cucore import doctor, probe\n"
        "probe.ask = lambda *_: {'error': 'not found', 'missing': True}\n"
        "doctor._version = lambda name: None\n"
        "for f in [*doctor.compilers(), *doctor.numpy()]: print(f.name, f.status, f.fix[0].split('pip ')[-1])"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert 'nvrtc problem install "cucore[cu13]"' in done.stdout and "NumPy warning install numpy" in done.stdout


def test_the_doctor_goes_on_when_one_of_its_looks_fails() -> None:
    program = (
        "from cucore import doctor\n"
        "def broken():\n    yield doctor.Finding('a', 'ok', '')\n    raise ValueError('no')\n"
        "doctor.LOOKS = (broken, doctor.numpy); doctor.kernel = lambda: iter(())\n"
        "raise SystemExit(doctor.doctor())"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1 and "could not be examined: ValueError: no" in done.stdout
    assert "NumPy" in done.stdout and done.stderr == ""


@pytest.mark.parametrize(
    ("answer", "words", "command"),
    [
        ("cuInit returned CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803)", "different versions", "sudo reboot"),
        ("cuInit returned CUDA_ERROR_SYSTEM_NOT_READY (802)", "fabric manager", "fabricmanager"),
    ],
)
def test_the_doctor_knows_what_a_driver_without_its_gpu_means(answer: str, words: str, command: str) -> None:
    from cucore import doctor

    files = {"/dev/nvidia0": True, "/dev/nvidiactl": True, "/dev/nvidia-uvm": True}
    message, fix = doctor.fix_for_gpu(answer, files)
    assert words in message and command in fix[0]
    message, fix = doctor.fix_for_gpu("", {**files, "/dev/nvidia0": False})
    assert "/dev/nvidia0" in message and "usermod" in fix[0]


def test_the_rules_of_variables_name_those_of_the_reference_page() -> None:
    from cucore import environment

    page = (Path(__file__).resolve().parents[2] / "docs/reference/environment.md").read_text()
    assert set(environment.RULES) == set(re.findall(r"^\| `(CUCORE_\w+)` \|", page, re.M))


ACCEPTED = {
    "CUCORE_DEVICE": ["cpu"], "CUCORE_CPU_DEVICES": ["1", "64"], "CUCORE_CPU_THREADS": ["4096"],
    "CUCORE_CPU_MEMORY": ["4G", "1.5 GiB", "1M", "2097152"], "CUCORE_CPU_TIMEOUT": ["0", "0.5", "1e3"],
    "CUCORE_CHECK": ["memory, race", "all", "init,continue", "leak"], "CUCORE_CACHE_SIZE": ["0", "1.5"],
    "CUCORE_CPU_ARCH": ["10.0", "sm_90", "121"], "CUCORE_CPU_W": ["8"], "CUCORE_CPU_QUICK": ["always"], "CUCORE_CPU_DUMP": ["ptx,asm"],
    "CUCORE_CPU_FEATURES": ["-avx512f,-avx2"],
    "CUCORE_CPU_SCHEDULE": ["seed:7", "seed:1,keep:p0.0.0.1,log:/tmp/x"],
}  # fmt: skip
REFUSED = {
    "CUCORE_DEVICE": ["CPU"], "CUCORE_CPU_DEVICES": ["0", "65", "1x"], "CUCORE_CPU_THREADS": ["0"],
    "CUCORE_CPU_ARCH": ["9", "6.0", "sm_90a", "9.0,"], "CUCORE_CPU_SCHEDULE": ["7", "seed:x", "keep:p0.0.0.1"],
    "CUCORE_CPU_MEMORY": ["1K", "-1G", "4X"], "CUCORE_CPU_TIMEOUT": ["-1", "1s"], "CUCORE_CHECK": ["continue", "races"],
}  # fmt: skip


def test_compute_capabilities_are_those_of_the_table() -> None:
    from cucore import environment

    table = json.loads((Path(__file__).resolve().parents[2] / "api/cpu_device.json").read_text())
    assert list(environment._CAPABILITIES) == list(table["compute_capabilities"])


def test_the_rules_accept_and_refuse_what_they_say() -> None:
    from cucore import environment

    for name, values in ACCEPTED.items():
        for value in values:
            assert environment.wrong({name: value}) == [], (name, value)
    for name, values in REFUSED.items():
        for value in values:
            assert [row[0] for row in environment.wrong({name: value})] == [name], (name, value)


def test_a_list_of_capabilities_has_one_for_each_device() -> None:
    from cucore import environment

    assert environment.wrong({"CUCORE_CPU_ARCH": "9.0, sm_120", "CUCORE_CPU_DEVICES": "2"}) == []
    for devices in ("", "3"):
        ((name, text, fix),) = environment.wrong({"CUCORE_CPU_ARCH": "9.0,12.0", "CUCORE_CPU_DEVICES": devices})
        assert name == "CUCORE_CPU_ARCH" and "lists 2 capabilities" in text and fix == "export CUCORE_CPU_DEVICES=2"


@pytest.mark.cpu_only
@pytest.mark.parametrize(
    ("name", "value", "good"),
    [(n, v, good) for good, table in ((True, ACCEPTED), (False, REFUSED)) for n, vs in table.items() for v in vs],
)
def test_the_cpu_device_reads_variables_by_the_same_rules(name: str, value: str, good: bool, tmp_path: Path) -> None:
    environment = {**os.environ, "CUCORE_DEVICE": "cpu", "CUCORE_CPU_DUMP_DIR": str(tmp_path), name: value}
    done = subprocess.run(
        [sys.executable, "-m", "cucore.probe", "count"], env=environment, capture_output=True, text=True, check=False
    )
    assert ("count" in json.loads(done.stdout)) is good, done.stdout


def test_the_demo_checks_its_result() -> None:
    done = cucore("demo")
    assert done.returncode == 0, done.stderr
    assert "✓" in done.stdout


def called(name: str, text: str) -> set[str]:
    """Driver functions that a test's source calls; comments and strings are ignored."""
    if name.endswith(".py"):
        return {node.attr for node in ast.walk(ast.parse(text)) if isinstance(node, ast.Attribute)}
    code = re.sub(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', " ", text, flags=re.DOTALL)
    return set(re.findall(r"\b(cu[A-Z]\w+)\s*\(", code))


def test_name_in_a_string_or_comment_is_not_a_call() -> None:
    assert called("a_test.cpp", 'ASSERT_OK(cuInit(0)); // cuMemAlloc(\n f("cuMemFree(p)"); /* cuCtxCreate() */') == {
        "cuInit"
    }
    assert called("test_a.py", '"""cuMemAlloc(1)"""\nd.cuInit(0)  # d.cuMemFree(p)') == {"cuInit"}


@pytest.mark.cpu_only
def test_every_implemented_driver_function_is_called_by_a_test() -> None:
    """A call by name or symbol counts; indirect calls through the runtime or cuda.core do not."""
    implemented = json.loads(cucore("coverage", "--json").stdout)["driver"]["implemented"]
    folder = Path(__file__).resolve().parents[1]
    facts = json.loads((folder.parent / "api/driver.json").read_text())["functions"]
    calls: set[str] = set()
    for path in folder.rglob("*"):
        if path.suffix in (".cpp", ".hpp", ".c", ".py"):
            calls |= called(path.name, path.read_text())
    assert [name for name in implemented if not {name, facts[name].get("symbol", name)} & calls] == []


def test_info_lists_toolkit_library_versions_or_reasons() -> None:
    libraries = json.loads(cucore("info", "--json").stdout)["libraries"]
    assert set(libraries) == {"nvrtc", "nvJitLink", "nvvm", "nvfatbin", "nvml", "cufile"}
    assert re.fullmatch(r"\d+\.\d+", libraries["nvrtc"]["version"])
    for name, library in libraries.items():
        if "path" in library:
            assert library.keys() & {"version", "version_error"}, name
        else:
            assert library["error"] and library["tried"], name


def test_info_prints_the_folders_for_cpp_builds() -> None:
    assert (Path(cucore("info", "--cmake").stdout.strip()) / "cucore" / "cucoreConfig.cmake").exists()
    assert (Path(cucore("info", "--pkg-config").stdout.strip()) / "cucore.pc").exists()
