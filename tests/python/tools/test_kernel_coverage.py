# SPDX-License-Identifier: Apache-2.0
"""Kernel coverage: counts are exact on every path of the CPU device, and every report shows them."""

from __future__ import annotations

import html.parser
import json
import os
import random
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

pytestmark = pytest.mark.cpu_only

KERNEL = r"""
__device__ int never(int x) {
  return x * 3;
}
extern "C" __global__ void walk(int* data, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i >= n) return;
  if (data[i] < -5)
    data[i] = never(data[i]);
  else if (i % 2 == 0)
    data[i] += 7;
  #pragma unroll 1
  for (int k = 0; k < i % 5; ++k)
    data[i] ^= k;
}
"""
LAUNCHES = r"""
import sys
import numpy as np
from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
device = Device()
device.set_current()
stream = device.create_stream()
def load(source, name, **options):
    return Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}", **options)).compile("cubin").get_kernel(name)
def run(kernel, grid, block, *arguments):
    buffer = device.allocate(4 * 65536, stream=stream)
    buffer.fill(np.uint32(0), stream=stream)
    launch(stream, LaunchConfig(grid=grid, block=block), kernel, buffer, *arguments)
    stream.sync()
    out = np.empty(65536, np.int32)
    buffer.copy_to(out, stream=stream)
    stream.sync()
    return out
"""


def program(folder: Path, body: str, name: str = "program.py") -> Path:
    path = folder / name
    path.write_text(LAUNCHES + f"KERNEL = {KERNEL!r}\n" + body)
    return path


def covered(folder: Path, script: Path, *options: str, **variables: str) -> dict[str, dict]:
    """Runs a program under coverage-run; the files of the report."""
    command = [sys.executable, "-m", "cucore", "coverage-run", "--json-file", "out.json", *options, str(script)]
    environment = {**os.environ, "CUCORE_CPU_STRICT": "1", **variables}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads((folder / "out.json").read_text())["files"]


def only(files: dict[str, dict]) -> dict:
    assert len(files) == 1, list(files)
    return next(iter(files.values()))


def line_of(text: str, source: str = KERNEL) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


def expected_counts(launches: list[tuple[int, int, int]]) -> dict[str, int]:
    """Threads that execute a line, by a part of its text."""
    all_threads = [(i, n) for n, grid, block in launches for i in range(grid * block)]
    inside = [i for i, n in all_threads if i < n]
    return {
        "if (i >= n)": len(all_threads),
        "if (data[i] < -5)": len(inside),
        "never(data[i])": 0,
        "i % 2 == 0": len(inside),
        "data[i] += 7": sum(i % 2 == 0 for i in inside),
        "data[i] ^= k": sum(i % 5 for i in inside),
        "return x * 3": 0,
    }


@pytest.mark.parametrize("width", ["", "1", "4", "8", "16", "32"])
def test_counts_are_the_numbers_of_threads_with_every_width(tmp_path: Path, width: str) -> None:
    chosen = random.Random(width)
    launches = [
        (chosen.randrange(1, 3000), chosen.randrange(1, 9), chosen.choice([1, 31, 32, 100, 256])) for _ in range(6)
    ]
    body = f"kernel = load(KERNEL, 'walk')\nfor n, grid, block in {launches}: run(kernel, grid, block, np.int32(n))\n"
    file = only(covered(tmp_path, program(tmp_path, body), CUCORE_CPU_W=width))
    for text, count in expected_counts(launches).items():
        assert file["lines"].get(str(line_of(text)), 0) == count, text
    assert file["missing"] == [line_of("return x * 3"), line_of("never(data[i])")]
    for branch in file["branches"]:
        assert branch["divergent_warps"] <= branch["warps"]
        if width == "1":
            assert branch["warps"] == 0  # threads run one by one


def test_divergence_counts_warps_whose_threads_took_both_sides(tmp_path: Path) -> None:
    source = r"""
extern "C" __global__ void halves(int* out) {
  if (threadIdx.x < 32) out[threadIdx.x] += 1;
  if (threadIdx.x % 2) out[threadIdx.x + 64] += 2;
  if (threadIdx.x < 40) out[threadIdx.x + 128] += 3;
}
"""
    body = f"run(load({source!r}, 'halves'), 5, 64)\n"
    file = only(covered(tmp_path, program(tmp_path, body)))
    found = {branch["line"]: (branch["divergent_warps"], branch["warps"]) for branch in file["branches"]}
    assert found == {
        line_of("< 32", source): (0, 10),
        line_of("% 2", source): (10, 10),
        line_of("< 40", source): (5, 10),
    }


def test_counts_add_up_over_processes_and_launches(tmp_path: Path) -> None:
    script = program(tmp_path, "kernel = load(KERNEL, 'walk')\nfor _ in range(3): run(kernel, 1, 64, np.int32(50))\n")
    first = only(covered(tmp_path, script))
    second = only(covered(tmp_path, script, "--append"))
    assert {line: 2 * count for line, count in first["lines"].items()} == second["lines"]
    third = only(covered(tmp_path, script))
    assert third["lines"] == first["lines"]


def test_modules_of_one_source_are_merged(tmp_path: Path) -> None:
    body = "for flag in (True, False): run(load(KERNEL, 'walk', use_fast_math=flag), 1, 64, np.int32(50))\n"
    script = program(tmp_path, body)
    assert only(covered(tmp_path, script))["lines"][str(line_of("if (i >= n)"))] == 128


def test_counts_survive_a_process_that_is_killed(tmp_path: Path) -> None:
    body = "run(load(KERNEL, 'walk'), 1, 64, np.int32(50))\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)\n"
    script = program(tmp_path, body)
    command = [sys.executable, "-m", "cucore", "coverage-run", "--json-file", "out.json", str(script)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 128 + 9
    file = only(json.loads((tmp_path / "out.json").read_text())["files"])
    assert file["lines"][str(line_of("if (i >= n)"))] == 64


def test_functions_that_are_not_inlined_and_recursion_are_counted(tmp_path: Path) -> None:
    source = r"""
__device__ __noinline__ void descend(int* out, int n) {
  if (n == 0)
    return;
  descend(out, n - 1);
  atomicAdd(out + n, 1);
}
extern "C" __global__ void all(int* out) {
  descend(out, threadIdx.x);
}
"""
    body = f"out = run(load({source!r}, 'all'), 1, 20)\nassert list(out[1:20]) == [20 - i for i in range(1, 20)]\n"
    file = only(covered(tmp_path, program(tmp_path, body)))
    calls = sum(range(20))
    assert file["lines"][str(line_of("descend(out, threadIdx.x)", source))] == 20
    assert file["lines"][str(line_of("atomicAdd", source))] == calls
    names = {function["name"]: function["threads"] for function in file["functions"]}
    assert names["all"] == 20 and names["descend(int*, int)"] == calls + 20


def test_kernels_on_fibers_are_counted(tmp_path: Path) -> None:
    source = r"""
extern "C" __global__ void meet(int* out) {
  __shared__ int value;
  if (threadIdx.x == 0)
    value = gridDim.x + 2;
  __syncthreads();
  if (threadIdx.x < 32) {
    asm volatile("bar.sync 1, 32;" ::: "memory");
    out[threadIdx.x] = value;
  } else {
    atomicMin(out + threadIdx.x, -value);
  }
}
"""
    body = f"out = run(load({source!r}, 'meet'), 3, 64)\nassert list(out[:64]) == [5] * 32 + [-5] * 32\n"
    file = only(covered(tmp_path, program(tmp_path, body)))
    assert file["lines"][str(line_of("value = gridDim.x + 2", source))] == 3
    assert file["lines"][str(line_of("= value;", source))] == 96
    assert file["lines"][str(line_of("atomicMin", source))] == 96


def test_ptx_without_source_lines_is_reported_by_its_own_lines(tmp_path: Path) -> None:
    ptx = """.version 8.0
.target sm_80
.address_size 64
.visible .entry write(.param .u64 p) {
  .reg .u64 %rd<3>;
  .reg .u32 %r<3>;
  .reg .pred %p;
  ld.param.u64 %rd1, [p];
  mov.u32 %r1, %tid.x;
  setp.gt.u32 %p, %r1, 9;
  @%p bra DONE;
  mul.wide.u32 %rd2, %r1, 4;
  add.u64 %rd1, %rd1, %rd2;
  st.global.u32 [%rd1], %r1;
DONE:
  ret;
}
"""
    body = f"kernel = Program({ptx!r}, 'ptx').compile('cubin').get_kernel('write')\nrun(kernel, 1, 32)\n"
    files = covered(tmp_path, program(tmp_path, body))
    (path,) = files
    assert path.endswith(".ptx") and Path(path).read_text() == ptx
    lines = files[path]["lines"]
    assert lines[str(line_of("st.global", ptx))] == 10
    assert lines[str(line_of("setp", ptx))] == 32
    (branch,) = files[path]["branches"]
    assert (branch["line"], branch["taken"], branch["divergent_warps"]) == (line_of("bra DONE", ptx), [22, 10], 1)


def test_check_mode_and_coverage_work_together(tmp_path: Path) -> None:
    body = "run(load(KERNEL, 'walk'), 2, 64, np.int32(100))\n"
    file = only(covered(tmp_path, program(tmp_path, body), CUCORE_CHECK="memory"))
    for text, count in expected_counts([(100, 2, 64)]).items():
        assert file["lines"].get(str(line_of(text)), 0) == count, text


def test_cached_code_of_plain_runs_does_not_count_and_the_reverse(tmp_path: Path) -> None:
    body = "for _ in range(2): run(load(KERNEL, 'walk', lineinfo=True), 1, 64, np.int32(50))\n"
    script = program(tmp_path, body)
    environment = {**os.environ, "CUCORE_DEVICE": "cpu", "CUCORE_CACHE_DIR": str(tmp_path / "cache")}
    plain = [sys.executable, str(script)]
    subprocess.run(plain, cwd=tmp_path, env=environment, check=True)
    counted = only(covered(tmp_path, script, CUCORE_CACHE_DIR=str(tmp_path / "cache")))
    assert counted["lines"][str(line_of("if (i >= n)"))] == 128
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / ".cucore_coverage").glob("*.counts")}
    subprocess.run(plain, cwd=tmp_path, env=environment, check=True)
    assert before == {path: path.stat().st_mtime_ns for path in (tmp_path / ".cucore_coverage").glob("*.counts")}
    again = only(covered(tmp_path, script, CUCORE_CACHE_DIR=str(tmp_path / "cache")))
    assert again["lines"] == counted["lines"]


def test_a_folder_that_cannot_be_written_is_an_error_that_names_it(tmp_path: Path) -> None:
    script = program(tmp_path, "run(load(KERNEL, 'walk'), 1, 64, np.int32(50))\n")
    (tmp_path / "file").write_text("")
    environment = {**os.environ, "CUCORE_DEVICE": "cpu", "CUCORE_COVERAGE": str(tmp_path / "file")}
    done = subprocess.run([sys.executable, str(script)], env=environment, capture_output=True, text=True)
    assert done.returncode != 0 and str(tmp_path / "file") in done.stderr


# ---- reports


class _Rows(html.parser.HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.classes: dict[str, str] = {}
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "tr" and values.get("id"):
            self.classes[str(values["id"])] = str(values.get("class"))
        assert not str(values.get("src", values.get("href", ""))).startswith(("http", "//")), "a page needs no network"

    def handle_data(self, data: str) -> None:
        self.text += data


def test_every_report_has_the_same_figures(tmp_path: Path) -> None:
    script = program(tmp_path, "run(load(KERNEL, 'walk'), 1, 64, np.int32(50))\n")
    options = ["--html", "pages", "--lcov", "out.info", "--xml", "out.xml"]
    files = covered(tmp_path, script, *options)
    (path,) = files
    file = files[path]
    table = subprocess.run(
        [sys.executable, "-m", "cucore", "coverage-report"], cwd=tmp_path, capture_output=True, text=True, check=True
    ).stderr
    assert "total" in table and f"{file['missing'][0]}, {file['missing'][1]}" in table

    lcov = (tmp_path / "out.info").read_text().splitlines()
    assert f"SF:{path}" in lcov and lcov[-1] == "end_of_record"
    assert {line for line in lcov if line.startswith("DA:")} == {f"DA:{n},{c}" for n, c in file["lines"].items()}
    sides = [line.split(",")[-1] for line in lcov if line.startswith("BRDA:")]
    assert sorted(map(int, sides)) == sorted(count for branch in file["branches"] for count in branch["taken"])

    root = ElementTree.parse(tmp_path / "out.xml").getroot()
    hits = {line.get("number"): int(line.get("hits", "")) for line in root.iter("line")}
    assert hits == file["lines"]
    assert int(root.get("lines-covered", "")) == len(hits) - len(file["missing"])

    rows = _Rows()
    rows.feed((tmp_path / "pages/file0.html").read_text())
    assert {int(name[1:]) for name, kind in rows.classes.items() if kind == "miss"} == set(file["missing"])
    assert rows.classes[f"L{line_of('if (data[i] < -5)')}"] == "part"
    assert "data[i] = never(data[i]);" in rows.text
    index = _Rows()
    index.feed((tmp_path / "pages/index.html").read_text())
    assert "Kernel coverage" in index.text


def test_fail_under_ends_with_a_status(tmp_path: Path) -> None:
    script = program(tmp_path, "run(load(KERNEL, 'walk'), 1, 64, np.int32(50))\n")
    command = [sys.executable, "-m", "cucore", "coverage-run", "--fail-under"]
    assert subprocess.run([*command, "99", str(script)], cwd=tmp_path, capture_output=True).returncode == 2
    assert subprocess.run([*command, "10", str(script)], cwd=tmp_path, capture_output=True).returncode == 0


SUITE = f"""
import pytest
import numpy as np
from cuda.core import LaunchConfig, Program, launch
KERNEL = {KERNEL!r}
@pytest.mark.parametrize("n", [10, 50])
def test_walk(cuda_device, cuda_stream, n):
    kernel = Program(KERNEL, "c++").compile("cubin").get_kernel("walk")
    buffer = cuda_device.allocate(4 * 64, stream=cuda_stream)
    buffer.fill(np.uint32(0), stream=cuda_stream)
    launch(cuda_stream, LaunchConfig(grid=1, block=64), kernel, buffer, np.int32(n))
    cuda_stream.sync()
"""


def run_pytest(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_suite.py").write_text(SUITE)
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--cuda-coverage", *options]
    environment = {name: value for name, value in os.environ.items() if name != "CUCORE_DEVICE"}
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True)


@pytest.mark.parametrize("workers", [[], ["-n2"]])
def test_pytest_reports_kernels(tmp_path: Path, workers: list[str]) -> None:
    if workers:
        pytest.importorskip("xdist")
    done = run_pytest(tmp_path, *workers, "--cuda-coverage-report=json:out.json")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "kernel coverage" in done.stdout
    file = only(json.loads((tmp_path / "out.json").read_text())["files"])
    for text, count in expected_counts([(10, 1, 64), (50, 1, 64)]).items():
        assert file["lines"].get(str(line_of(text)), 0) == count, text


def test_pytest_fails_below_a_limit_and_rejects_unknown_reports(tmp_path: Path) -> None:
    done = run_pytest(tmp_path, "--cuda-coverage-fail-under=99")
    assert done.returncode == 1 and "kernel coverage is below 99%" in done.stdout
    assert "unknown kind 'pdf'" in run_pytest(tmp_path, "--cuda-coverage-report=pdf").stderr


@pytest.mark.parametrize("branch", [False, True])
def test_reports_of_pytest_cov_show_kernels(tmp_path: Path, branch: bool) -> None:
    pytest.importorskip("pytest_cov")
    (tmp_path / ".coveragerc").write_text(f"[run]\nplugins = cucore.coverage_plugin\nbranch = {branch}\n")
    done = run_pytest(tmp_path, "--cov", "--cov-report=json:cov.json")
    assert done.returncode == 0, done.stdout + done.stderr
    files = json.loads((tmp_path / "cov.json").read_text())["files"]
    (kernels,) = [facts for name, facts in files.items() if name.endswith(".cu")]
    assert kernels["missing_lines"] == [line_of("return x * 3"), line_of("never(data[i])")]
    assert line_of("data[i] += 7") in kernels["executed_lines"]
    assert any(name.endswith("test_suite.py") for name in files)
    if branch:
        assert kernels["missing_branches"] and kernels["executed_branches"]


def test_pytest_cov_without_the_plugin_says_what_is_missing(tmp_path: Path) -> None:
    pytest.importorskip("pytest_cov")
    done = run_pytest(tmp_path, "--cov")
    assert done.returncode == 0 and "plugins = cucore.coverage_plugin" in done.stdout
