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
