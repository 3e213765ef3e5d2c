# SPDX-License-Identifier: Apache-2.0
"""`cucore explain`: what became of the accesses and branches of a kernel, by source line."""

from __future__ import annotations

import html.parser
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.cpu_only,
    pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device alone"),
]

SOURCE = """\
extern "C" __global__ void mix(int n, const int* index, const float* x, float* y, float* z) {
  __shared__ float tile[1024];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float v = x[i];
  v += x[index[i]];
  tile[threadIdx.x * 32 % 1024] = v;
  __syncthreads();
  float sum = 0;
  for (int k = 0; k < index[0]; ++k)
    sum += y[k * n + i] * tile[k];
  for (int k = 0; k < index[i]; ++k)
    sum += __sinf(sum);
  z[4 * i] = sum;
  atomicAdd(&z[1], v);
}
template <class T> __global__ void copy(T* to, const T* from) {
  to[threadIdx.x] = from[threadIdx.x];
}
extern "C" __global__ void spin(volatile int* flag) {
  if (threadIdx.x % 2) while (flag[threadIdx.x]) {}
  else flag[threadIdx.x + 1] = 0;
}
"""


def line(text: str) -> int:
    (found,) = [number for number, content in enumerate(SOURCE.splitlines(), 1) if text in content]
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("explain") / "mix.cu"
    path.write_text(SOURCE)
    return path


def cucore(*arguments: object, status: int = 0) -> str:
    command = [sys.executable, "-m", "cucore", "explain", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env={**os.environ, "CUCORE_DEVICE": "cpu"})
    assert done.returncode == status, done.stdout + done.stderr
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def facts(source: Path) -> dict[str, object]:
    return json.loads(cucore(source, "--name", "mix", "--json"))


def accesses(facts: dict[str, object], text: str) -> set[tuple[str, str, str]]:
    return {(a["what"], a["space"], a["pattern"]) for a in facts["accesses"] if a["line"] == line(text)}


def test_accesses_are_classified_by_line(facts: dict[str, object]) -> None:
    assert accesses(facts, "float v = x[i]") == {("load", "global", "contiguous")}
    assert accesses(facts, "v += x[index[i]]") == {("load", "global", "contiguous"), ("load", "global", "varying")}
    assert accesses(facts, "tile[threadIdx.x * 32") == {("store", "shared", "strided")}
    assert ("load", "global", "contiguous") in accesses(facts, "sum += y[k * n + i]")
    assert ("load", "shared", "uniform") in accesses(facts, "sum += y[k * n + i]")
    assert accesses(facts, "z[4 * i] = sum") == {("store", "global", "strided")}
    assert accesses(facts, "atomicAdd") == {("atomic", "global", "uniform")}
    strides = {a["stride"] for a in facts["accesses"] if a["line"] == line("z[4 * i]")}
    assert strides == {16}


def test_divergent_and_uniform_loops_are_told_apart(facts: dict[str, object]) -> None:
    def loops(text: str) -> set[bool]:
        return {b["divergent"] for b in facts["branches"] if b["line"] == line(text) and b["loop"]}

    assert loops("k < index[0]") == {False}
    assert loops("k < index[i]") == {True}
    assert {b["divergent"] for b in facts["branches"] if b["line"] == line("if (i >= n)")} == {True}


def test_text_has_notes_below_their_lines(source: Path) -> None:
    text = cucore(source, "--name", "mix", "--block", "16x16").splitlines()
    assert "kernel mix, block (16,16,1)" in text[0]
    at = next(k for k, row in enumerate(text) if "z[4 * i] = sum;" in row)
    assert " ! " in text[at] and "strided by 16 bytes" in text[at + 1] and "16 sectors for the warp" in text[at + 1]
    shared = next(k for k, row in enumerate(text) if "tile[threadIdx.x * 32" in row)
    assert "bank conflict" in " ".join(text[shared + 1 : shared + 3])


def test_code_shows_ptx_and_machine_code_of_a_line(source: Path) -> None:
    text = cucore(source, "--name", "copy<float>", "--code")
    assert "ld.global" in text and "st.global" in text
    assert "1 contiguous loads" in text and "1 contiguous stores" in text


def test_html_page_has_the_three_columns(source: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    assert cucore(source, "--name", "mix", "--html", page) == ""
    cells: list[str] = []

    class Reader(html.parser.HTMLParser):
        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag in ("td", "th"):
                cells.append("")

        def handle_data(self, data: str) -> None:
            if cells:
                cells[-1] += data

    Reader().feed(page.read_text())
    assert [cell.strip() for cell in cells[:5]] == ["line", "cost", "source", "PTX", "vector code"]
    rows = [cells[k : k + 5] for k in range(5, len(cells) - 4, 5)]
    (row,) = [row for row in rows if row[0] == str(line("v += x[index[i]]"))]
    assert "gather in global memory" in row[2] and "ld.global" in row[3] and len(row[4].splitlines()) > 1
    assert "http" not in page.read_text()  # nothing is fetched


def test_kernel_that_is_not_vectorized_says_why(source: Path) -> None:
    text = cucore(source, "--name", "spin")
    assert "not vectorized: " in text and "path: scalar" in text


def test_ptx_file_without_lines_is_explained_as_a_whole(tmp_path: Path) -> None:
    path = tmp_path / "k.ptx"
    path.write_text(
        ".version 8.0\n.target sm_90\n.address_size 64\n.visible .entry k(.param .u64 p) {\n"
        ".reg .b64 %rd<4>; .reg .b32 %r<2>;\nld.param.u64 %rd1, [p];\nmov.u32 %r1, %tid.x;\n"
        "mul.wide.u32 %rd2, %r1, 4;\nadd.s64 %rd3, %rd1, %rd2;\nst.global.u32 [%rd3], %r1;\nret;\n}\n"
    )
    text = cucore(path, "--code")
    assert "1 contiguous stores" in text and "the PTX has no line numbers" in text and "st.global.u32" in text


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["--name", "other"], 1, "no kernel is named other: mix"),
        (["--block", "2048"], 2, "2048 is not a block shape"),
        (["--block", "0x4"], 2, "0x4 is not a block shape"),
    ],
)
def test_mistakes_are_named(source: Path, arguments: list[str], status: int, message: str) -> None:
    assert message in cucore(source, *arguments, status=status)


def test_source_that_does_not_compile_shows_the_log(tmp_path: Path) -> None:
    path = tmp_path / "bad.cu"
    path.write_text("__global__ void k() { nonsense; }\n")
    assert 'identifier "nonsense" is undefined' in cucore(path, status=1)


def test_summary_and_notes_fit_sixty_columns(source: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    own = set(SOURCE.splitlines())
    for text in cucore(source, "--name", "mix").splitlines():
        if not any(text.endswith(line) for line in own if line):  # lines of the source are shown as they are
            assert len(text) <= 60 or max(map(len, text.split())) > 44, text
