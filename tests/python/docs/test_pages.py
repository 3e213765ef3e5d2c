# SPDX-License-Identifier: Apache-2.0
"""Every code block of the documentation runs (Python, shell, C++); each page in separate processes."""

from __future__ import annotations

import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from pages import ROOT, Block, Page, commands_of, complaint, pages, read

PAGES = {str(path.relative_to(ROOT)): read(path) for path in pages()}


def with_blocks(language: str) -> list[str]:
    return [name for name, page in PAGES.items() if page.of(language)]


def prepared(page: Page, folder: Path) -> dict[str, str]:
    """A folder with the files of the page, and an environment with this interpreter's `python`, `pytest` and `cucore`."""
    if page.cpu_only and os.environ.get("CUCORE_DEVICE") == "gpu":
        pytest.skip("the page is about the CPU device; this run is on a GPU")
    for block in page.blocks:
        if block.note == "file":
            (folder / block.value).parent.mkdir(parents=True, exist_ok=True)
            (folder / block.value).write_text(block.text)
    bin_folder = folder / ".bin"
    bin_folder.mkdir()
    for name, module in (("python", ""), ("pytest", "-m pytest"), ("cucore", "-m cucore"), ("pip", "-m pip")):
        (bin_folder / name).write_text(f'#!/bin/sh\nexec "{sys.executable}" {module} "$@"\n')
        (bin_folder / name).chmod(0o755)
    paths = [os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry]
    return os.environ | {
        "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(paths),
        "PYTHONWARNINGS": "ignore",
        "PYTHONDONTWRITEBYTECODE": "1",
        "CUCORE_CPU_DEVICES": os.environ.get("CUCORE_CPU_DEVICES", "2"),
    }


def can_run(block: Block) -> bool:
    if block.note != "needs":
        return True
    if block.value == "the CPU device":
        return os.environ.get("CUCORE_DEVICE") != "gpu"
    return importlib.util.find_spec(block.value) is not None and os.environ.get("CUCORE_DEVICE") == "gpu"


def finish(command: list[str], folder: Path, environment: dict[str, str]) -> str:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("name", PAGES)
def test_every_block_runs_or_has_a_reason(name: str) -> None:
    for block in PAGES[name].blocks:
        assert not complaint(block), f"{name}:{block.line}: {complaint(block)}"


# Files that no block of their page names: cmake reads one implicitly; tests/python/third_party runs numba's.
USED_ELSEWHERE = {
    "CMakeLists.txt",
    "first_kernel.py",
    *(f"embedded/{n}" for n in ("CMakeLists.txt", "embedded.cpp", "saxpy.cu")),
}


@pytest.mark.parametrize(
    "name", [name for name, page in PAGES.items() if any(block.note == "file" for block in page.blocks)]
)
def test_every_file_is_used_by_a_block_that_runs(name: str) -> None:
    page = PAGES[name]
    running = "".join(block.text for language in ("python", "sh", "yaml") for block in page.of(language))
    files = {block.value for block in page.blocks if block.note == "file"} - USED_ELSEWHERE
    assert {file for file in files if file not in running} == set()


@pytest.mark.parametrize(
    ("language", "text"),
    [
        ("", "pytest -q"),
        ("text", "CUCORE_DEVICE=cpu python x.py"),
        ("yaml", "image: python"),
        ("ptx", "ret;"),
        ("rust", "fn main() {}"),
    ],
)
def test_block_that_would_not_run_is_reported(language: str, text: str) -> None:
    assert complaint(Block(language, text, 1))
    assert not complaint(Block(language, text, 1, "not run", "a reason"))


def test_program_output_is_a_text_block() -> None:
    assert not complaint(Block("text", "ImportError: make a choice\n  python -> core", 1))


@pytest.mark.parametrize("name", with_blocks("python"))
def test_python_blocks_run(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    environment = prepared(page, tmp_path)
    # One program with the blocks on their lines of the page, so that a traceback shows the position in the page.
    lines: list[str] = []
    for block in page.of("python"):
        if can_run(block):
            lines += [""] * (block.line - 1 - len(lines)) + block.text.splitlines()
    script = tmp_path / f"{page.path.stem}.page.py"
    script.write_text("\n".join(lines) + "\n")
    finish([sys.executable, str(script)], tmp_path, environment)


@pytest.mark.parametrize("name", with_blocks("sh"))
def test_shell_blocks_run(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    environment = prepared(page, tmp_path)
    text = "".join(block.text for block in page.of("sh") if can_run(block))
    finish(["bash", "-euxo", "pipefail", "-c", text], tmp_path, environment)


@pytest.mark.parametrize("name", with_blocks("cpp"))
def test_cpp_blocks_compile_and_run(name: str, tmp_path: Path) -> None:
    spec = importlib.util.find_spec("cucore")
    assert spec is not None and spec.origin is not None
    package, compiler = Path(spec.origin).parent, shutil.which("c++")
    if compiler is None or not (package / "include").exists():
        pytest.skip("needs a C++ compiler and the installed C++ library")
    page = PAGES[name]
    environment = prepared(page, tmp_path)
    sites = [entry for entry in sys.path if entry.endswith("-packages")]
    environment["CUCORE_SITE_PACKAGES"] = os.pathsep.join(sites)  # the folder of NVRTC
    for block in page.of("cpp"):
        source = tmp_path / f"line_{block.line}.cpp"
        source.write_text(f'#line {block.line} "{page.path}"\n{block.text}')
        program = source.with_suffix("")
        flags = [f"-I{package / 'include'}", f"-L{package / 'lib'}", "-lcucore", f"-Wl,-rpath,{package / 'lib'}"]
        finish(
            [compiler, "-std=c++20", "-Wall", "-Werror", str(source), "-o", str(program), *flags], tmp_path, environment
        )
        finish([str(program)], tmp_path, environment)


@pytest.mark.parametrize("name", with_blocks("yaml"))
def test_pytest_commands_of_ci_recipes_run(name: str, tmp_path: Path) -> None:
    page = PAGES[name]
    environment = prepared(page, tmp_path)
    for block in page.of("yaml"):
        for command in commands_of(block):
            finish(["bash", "-euc", f"CUCORE_DEVICE=cpu {command}"], tmp_path, environment)
