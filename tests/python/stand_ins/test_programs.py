# SPDX-License-Identifier: Apache-2.0
"""Stand-ins for NVIDIA's compilers `ptxas` and `nvcc`, and the variables that put them first on `PATH`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from cucore import stand_ins

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(not stand_ins.PTXAS.exists(), reason="this build has no CPU device"),
]

PTX = """
.version 8.0
.target sm_90
.address_size 64
.visible .entry answer(.param .u64 out) {
  .reg .b64 %o; ld.param.u64 %o, [out]; st.global.u32 [%o], 42; ret; }
"""


def ptxas(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(stand_ins.PTXAS), *map(str, arguments)], capture_output=True, text=True)


def test_ptxas_writes_a_container_that_the_cpu_device_loads(tmp_path: Path) -> None:
    source, made = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(PTX)
    options = ("-lineinfo", "-v", "--opt-level", "3", "--regAllocOptLevel=2", "--gpu-name=sm_90a", "-arch", "sm_90a")
    done = ptxas(*options, source, "-o", made)
    assert done.returncode == 0, done.stderr
    assert "'answer'" in done.stderr
    program = f"""
import ctypes
from cuda.bindings import driver as d
d.cuInit(0)
d.cuCtxSetCurrent(d.cuDevicePrimaryCtxRetain(0)[1])
code, module = d.cuModuleLoadData(open({str(made)!r}, "rb").read())
assert code == 0, code
function = d.cuModuleGetFunction(module, b"answer")[1]
memory = d.cuMemAlloc(4)[1]
assert d.cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, 0, ((memory,), (None,)), 0)[0] == 0
out = ctypes.c_int()
d.cuMemcpyDtoH(ctypes.addressof(out), memory, 4)
print(out.value)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.strip() == "42", ran.stderr


def test_ptxas_accepts_the_targets_of_the_compute_capability(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, made = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(PTX.replace("8.0", "8.7").replace("sm_90", "sm_120a"))
    done = ptxas("-arch", "sm_120a", source, "-o", made)
    assert done.returncode != 0 and "CUCORE_CPU_ARCH=12.0" in done.stderr
    monkeypatch.setenv("CUCORE_CPU_ARCH", "12.0")
    assert ptxas("-arch", "sm_120a", source, "-o", made).returncode == 0


def test_ptxas_reports_errors_with_their_position_and_writes_nothing(tmp_path: Path) -> None:
    source, made = tmp_path / "kernel.ptx", tmp_path / "kernel.cubin"
    source.write_text(PTX.replace("st.global.u32", "st.global.q32"))
    done = ptxas(source, "-o", made)
    assert done.returncode == 255
    assert "kernel.ptx:6:" in done.stderr and "Ptx assembly aborted due to errors" in done.stderr
    assert not made.exists()


def test_ptxas_without_an_input_file_fails() -> None:
    assert ptxas().returncode == 255
    assert "missing.ptx" in ptxas("missing.ptx").stderr


def test_ptxas_version_has_the_release_that_compilers_search_for() -> None:
    assert "Cuda compilation tools, release 13." in ptxas("--version").stdout


def clean_environment() -> dict[str, str]:
    """The environment without the variables of a plugin that runs this test."""
    ours = {"LD_PRELOAD", "CUCORE_PTXAS", "CUCORE_RUN_PYTHON", "CUCORE_STAND_INS", *stand_ins.PTXAS_VARIABLES}
    clean = {k: v for k, v in os.environ.items() if k not in ours}
    folders = {str(stand_ins.PTXAS.parent), str(stand_ins.NVCC.parent)}
    clean["PATH"] = os.pathsep.join(f for f in clean["PATH"].split(os.pathsep) if f not in folders)
    return clean


def under_run(*program: str, **variables: str) -> str:
    """The output of a program."""
    command = [sys.executable, "-m", "cucore", "run", "--cpu", *program]
    done = subprocess.run(command, capture_output=True, text=True, env=clean_environment() | variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_run_puts_nvcc_on_the_path() -> None:
    assert under_run(sys.executable, "-c", "import shutil; print(shutil.which('nvcc'))").strip() == str(stand_ins.NVCC)


def test_without_a_path_programs_are_found_in_the_default_folders() -> None:
    assert stand_ins.variables({})["PATH"].endswith(os.defpath)
    assert stand_ins.variables({"PATH": ""})["PATH"].endswith(os.defpath)


def test_run_puts_ptxas_on_the_path_and_into_the_variables_of_triton() -> None:
    script = "import os, shutil; print(shutil.which('ptxas')); print(os.environ['TRITON_PTXAS_BLACKWELL_PATH'])"
    assert under_run(sys.executable, "-c", script).split() == [str(stand_ins.PTXAS)] * 2


def test_variables_of_the_user_stay(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUCORE_STAND_INS", raising=False)
    made = stand_ins.variables({"TRITON_PTXAS_PATH": "/opt/ptxas", "LD_PRELOAD": "libother.so", "PATH": "/usr/bin"})
    assert "TRITON_PTXAS_PATH" not in made
    assert made["LD_PRELOAD"].split() == ["libother.so", str(stand_ins.PRELOAD)]
    assert stand_ins.variables(made)["LD_PRELOAD"] == made["LD_PRELOAD"]
    assert stand_ins.variables(made)["PATH"] == made["PATH"]
    assert made["PATH"].split(os.pathsep)[-1] == "/usr/bin"


def test_run_without_stand_ins_changes_neither_the_path_nor_the_preloads() -> None:
    assert stand_ins.variables({"CUCORE_STAND_INS": "0"}) == {}
    script = "import json, os; print(json.dumps(dict(os.environ)))"
    seen = json.loads(under_run(sys.executable, "-c", script, CUCORE_STAND_INS="0"))
    assert seen["PATH"] == clean_environment()["PATH"]
    assert not {"LD_PRELOAD", "CUCORE_PTXAS", "CUCORE_RUN_PYTHON", *stand_ins.PTXAS_VARIABLES} & seen.keys()


def test_program_named_ptxas_is_replaced_wherever_it_lies(tmp_path: Path) -> None:
    other = tmp_path / "ptxas"
    shutil.copy("/bin/echo", other)
    script = f"import subprocess; print(subprocess.run([{str(other)!r}, '--version'], capture_output=True, text=True).stdout)"
    assert "cucore's stand-in" in under_run(sys.executable, "-c", script)
    assert "cucore's stand-in" not in under_run(sys.executable, "-c", script, CUCORE_STAND_INS="0")


def test_tileiras_compiles_for_a_target_without_hidden_parameters(tmp_path: Path) -> None:
    program = tmp_path / "tileiras"
    shutil.copy("/bin/echo", program)
    assert under_run(str(program), "a.tile", "--gpu-name", "sm_90", "-O3") == "a.tile --gpu-name sm_80 -O3\n"
    assert under_run(str(program), "--gpu-name=sm_100a") == "--gpu-name=sm_80\n"


def under_plugin(folder: Path, test: str, **variables: str) -> None:
    """Runs the body of a test with the pytest plugin."""
    (folder / "test_it.py").write_text("import os, shutil\ndef test_it():\n" + textwrap.indent(test, "    "))
    command = [sys.executable, "-m", "pytest", "-q", "-p", "cucore.pytest_plugin", "--cuda-device=cpu", str(folder)]
    environment = clean_environment() | variables
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    if "already registered" in done.stderr:  # installed as an entry point
        del command[4:6]
        done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr


def test_plugin_puts_the_stand_ins_first_on_the_path(tmp_path: Path) -> None:
    under_plugin(
        tmp_path,
        f"assert shutil.which('ptxas') == {str(stand_ins.PTXAS)!r}\n"
        f"assert shutil.which('nvcc') == {str(stand_ins.NVCC)!r}\n"
        "assert os.environ['TRITON_PTXAS_PATH']\n",
    )


def test_plugin_without_stand_ins_leaves_the_path_alone(tmp_path: Path) -> None:
    under_plugin(tmp_path, f"assert os.environ['PATH'] == {clean_environment()['PATH']!r}\n", CUCORE_STAND_INS="0")
