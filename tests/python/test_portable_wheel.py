# SPDX-License-Identifier: Apache-2.0
"""What makes one wheel run everywhere: linking for an old glibc and libstdc++, and modules of several Pythons in one file."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import zipfile
import zlib
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

import add_pythons  # noqa: E402
import check_wheel  # noqa: E402
import link_stubs  # noqa: E402
import wheel_file  # noqa: E402

needs_gcc = pytest.mark.skipif(
    not shutil.which("g++") or not shutil.which("readelf") or platform.libc_ver()[0] != "glibc",
    reason="needs GCC and glibc",
)
# Uses what newer systems have in newer versions: threads, stat, from_chars and filesystems of libstdc++, a clock of a condition.
SOURCE = r"""
#include <sys/stat.h>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cmath>
#include <filesystem>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
extern "C" __attribute__((visibility("default"))) double work(double x) {
  std::mutex mutex;
  std::condition_variable condition;
  bool done = false;
  std::thread thread([&] { const std::unique_lock lock{mutex}; done = true; condition.notify_all(); });
  {
    std::unique_lock lock{mutex};
    condition.wait(lock, [&] { return done; });
    if (condition.wait_for(lock, std::chrono::milliseconds(5), [] { return false; })) return -1;
  }
  thread.join();
  struct stat facts;
  if (stat("/", &facts) != 0 || !S_ISDIR(facts.st_mode) || !std::filesystem::exists("/")) return -2;
  double value = 0;
  const std::string text = "2.5";
  std::from_chars(text.data(), text.data() + text.size(), value);
  try {
    throw std::runtime_error("thrown");
  } catch (const std::exception& error) {
    return std::string(error.what()) == "thrown" ? std::pow(x, 2.0) + value : -3;
  }
}
"""


def versions(library: Path) -> dict[str, tuple[int, ...]]:
    """The newest version of the symbols that a library needs, by prefix."""
    listing = subprocess.run(
        ["readelf", "-W", "--dyn-syms", str(library)], capture_output=True, text=True, check=True
    ).stdout
    newest: dict[str, tuple[int, ...]] = {}
    for prefix, text in re.findall(r" UND \w+@([A-Z]+)_([\d.]+)", listing):
        newest[prefix] = max(newest.get(prefix, ()), tuple(map(int, text.split("."))))
    return newest


@needs_gcc
def test_a_library_linked_with_the_stubs_needs_old_symbols_only_and_works(tmp_path: Path) -> None:
    stubs = tmp_path / "stubs"
    script = [sys.executable, str(ROOT / "tools/link_stubs.py"), str(stubs), "--compiler", "g++", "--glibc", "2.28"]
    subprocess.run(script, check=True)
    (tmp_path / "work.cpp").write_text(SOURCE)
    plain, portable = tmp_path / "plain.so", tmp_path / "portable.so"
    command = ["g++", "-std=c++20", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", str(tmp_path / "work.cpp")]
    subprocess.run([*command, "-o", str(plain)], check=True)
    hidden = "-Wl,--exclude-libs,libstdc++.a:libgcc.a:libcucore_compat.a"
    subprocess.run([*command, "-o", str(portable), f"-L{stubs}", hidden, "-Wl,--no-undefined"], check=True)
    old = versions(portable)
    assert old["GLIBC"] <= (2, 28) and old["GLIBCXX"] <= (3, 4, 24) and old.get("GCC", (0,)) <= (7, 0, 0), old
    assert versions(plain)["GLIBCXX"] > old["GLIBCXX"], "this system is not newer: the test shows nothing"
    program = f"import ctypes; f = ctypes.CDLL({str(portable)!r}).work; f.restype = ctypes.c_double; print(f(ctypes.c_double(3)))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.stdout == "11.5\n", done.stdout + done.stderr


def test_the_newest_version_within_the_limits_is_taken() -> None:
    assert link_stubs.number("GLIBC_2.34") == (2, 34) and link_stubs.number("GLIBC_PRIVATE") is None


@needs_gcc
def test_a_wheel_that_needs_a_newer_libstdcxx_is_reported(tmp_path: Path) -> None:
    (tmp_path / "work.cpp").write_text(SOURCE)
    path = tmp_path / "libcucore_cpu.so"
    command = [
        "g++",
        "-std=c++20",
        "-shared",
        "-fPIC",
        "-fvisibility=hidden",
        str(tmp_path / "work.cpp"),
        "-o",
        str(path),
    ]
    subprocess.run(command, check=True)
    wheel = tmp_path / "cucore-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("cucore/lib/libcucore_cpu.so", path.read_bytes())
    assert any("which manylinux_2_28 does not have" in problem for problem in check_wheel.check(wheel)[0])


@needs_gcc
def test_a_symbol_that_no_library_has_is_reported(tmp_path: Path) -> None:
    (tmp_path / "lost.c").write_text(
        "int nobody_has_this(void); int PyLong_Check(void); int f(void) { return nobody_has_this() + PyLong_Check(); }"
    )
    path = tmp_path / "lost.so"
    subprocess.run(["gcc", "-shared", "-fPIC", str(tmp_path / "lost.c"), "-o", str(path)], check=True)
    wheel = tmp_path / "cucore-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        archive.writestr("cuda/core/lost.so", path.read_bytes())
    problems = check_wheel.check(wheel)[0]
    assert "cuda/core/lost.so needs symbols that no library has: nobody_has_this" in problems


MODULES = ("cuda/core/_core", "cuda/bindings/_bindings", "cuda/pathfinder/_pathfinder")


def modules(version: str) -> dict[str, bytes]:
    return {f"{name}.cpython-{version}-x86_64-linux-gnu.so": f"{name} {version}".encode() for name in MODULES}


def make_wheel(folder: Path) -> Path:
    info = "cucore-0.1.0.dist-info"
    files = {"cucore/__init__.py": b"", **modules("311")}
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n"
    )
    path = folder / "cucore-0.1.0-cp311-cp311-linux_x86_64.whl"
    wheel_file.write(path, files, f"{info}/RECORD")
    return path


@pytest.mark.parametrize("has_libdeflate", [True, False])
def test_files_of_a_wheel_are_compressed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_libdeflate: bool) -> None:
    sizes: list[int] = []

    def deflate_compress(data: bytes, level: int) -> bytes:
        sizes.append(len(data))
        assert level == 12
        return zlib.compress(data, 9, -15)  # without a header, as zip files have it

    fake = SimpleNamespace(deflate_compress=deflate_compress) if has_libdeflate else None
    monkeypatch.setattr(wheel_file, "deflate", fake)
    files = {"a.so": b"0123456789" * 100_000, "empty.py": b"", "b.so": bytes(range(256)) * 10}
    path = tmp_path / "a.whl"
    wheel_file.write(path, files, "a.dist-info/RECORD")
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert {name: archive.read(name) for name in files} == files
        record = archive.read("a.dist-info/RECORD")
        assert {info.compress_type for info in archive.infolist()} == {zipfile.ZIP_DEFLATED}
    assert path.stat().st_size < 10_000
    assert sizes == ([*map(len, files.values()), len(record)] if has_libdeflate else [])


def test_a_wheel_that_libdeflate_compresses_again_has_the_same_files(tmp_path: Path) -> None:
    pytest.importorskip("deflate")
    info = "cucore-0.1.0.dist-info"
    data = {"cucore/a.py": b"import cucore\n" * 50, "cucore/run": b"#!/bin/sh\n", "cucore/none.py": b""}
    data["cucore/lib.so"] = b"".join(str(n * n).encode() for n in range(30_000))
    data[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: cp311-cp311-linux_x86_64\n"
    path = tmp_path / "cucore-0.1.0-cp311-cp311-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:  # as a build backend writes it
        for name, content in data.items():
            entry = zipfile.ZipInfo(name, (2024, 5, 6, 7, 8, 10))
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.external_attr = (0o100755 if name == "cucore/run" else 0o100644) << 16
            archive.writestr(entry, content, compresslevel=9)
        archive.writestr(f"{info}/RECORD", "")
    before = path.stat().st_size
    whole = path.read_bytes()
    done = check_wheel.retag(path, "manylinux_2_28_x86_64")
    first = done.read_bytes()
    done.unlink()
    path.write_bytes(whole)
    done = check_wheel.retag(path, "manylinux_2_28_x86_64")
    assert done.read_bytes() == first, "equal input yields equal bytes"
    assert done.stat().st_size < before
    subprocess.run([sys.executable, "-m", "zipfile", "-t", str(done)], check=True)
    with zipfile.ZipFile(done) as archive:
        entries = archive.infolist()
        assert [entry.filename for entry in entries] == [*data, f"{info}/RECORD"]
        same = [name for name in data if not name.endswith("/WHEEL")]
        assert {name: archive.read(name) for name in same} == {name: data[name] for name in same}
        modes = {entry.filename: entry.external_attr >> 16 for entry in entries}
        assert modes["cucore/run"] == 0o100755 and modes["cucore/a.py"] == 0o100644
        assert {entry.compress_type for entry in entries} == {zipfile.ZIP_DEFLATED}
    out = tmp_path / "site"
    command = [sys.executable, "-m", "pip", "install", "-q", "--no-index", "--no-deps", "--disable-pip-version-check"]
    metadata = "Metadata-Version: 2.1\nName: cucore\nVersion: 0.1.0\n"
    files = {**data, f"{info}/METADATA": metadata.encode()}
    wheel = tmp_path / "cucore-0.1.0-py3-none-any.whl"
    files[f"{info}/WHEEL"] = b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    wheel_file.write(wheel, files, f"{info}/RECORD", modes)
    subprocess.run([*command, "--target", str(out), str(wheel)], check=True)
    assert (out / "cucore/lib.so").read_bytes() == data["cucore/lib.so"]
    assert os.access(out / "cucore/run", os.X_OK)


@pytest.mark.parametrize(
    ("name", "limit"),
    [("cp311-cp311-manylinux_2_28_aarch64", 14_300_000), ("cp311.cp312-cp311.cp312-linux_aarch64", 15_070_000)],
)
def test_a_wheel_that_is_too_large_is_reported(tmp_path: Path, name: str, limit: int) -> None:
    path = tmp_path / f"cucore-0.1.0-{name}.whl"
    with path.open("wb") as file:
        file.truncate(limit)
    assert check_wheel.check_size(path) == []
    with path.open("ab") as file:
        file.write(b"0")
    assert check_wheel.check_size(path) == [f"{limit + 1:,} bytes are more than {limit:,}"]


def make_site(folder: Path, version: str, leave_out: str = "") -> Path:
    for name, data in modules(version).items():
        if not leave_out or leave_out not in name:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(data)
    return folder


def test_modules_of_other_pythons_join_the_wheel_and_its_tags(tmp_path: Path) -> None:
    sites = [make_site(tmp_path / version, version) for version in ("310", "313")]
    path = add_pythons.add(make_wheel(tmp_path), sites)
    assert path.name == "cucore-0.1.0-cp310.cp311.cp313-cp310.cp311.cp313-linux_x86_64.whl"
    path = check_wheel.retag(path, "manylinux_2_28_x86_64")
    assert path.name == "cucore-0.1.0-cp310.cp311.cp313-cp310.cp311.cp313-manylinux_2_28_x86_64.whl"
    with zipfile.ZipFile(path) as archive:
        for version in ("310", "311", "313"):
            for name, data in modules(version).items():
                assert archive.read(name) == data
        about = archive.read("cucore-0.1.0.dist-info/WHEEL").decode()
    tags = re.findall(r"^Tag: (.+)$", about, re.M)
    assert tags == [f"cp{version}-cp{version}-manylinux_2_28_x86_64" for version in (310, 311, 313)]


def test_pip_takes_the_joined_wheel_for_each_of_its_pythons(tmp_path: Path) -> None:
    packaging = pytest.importorskip("packaging.tags")
    from packaging.utils import parse_wheel_filename

    path = add_pythons.add(make_wheel(tmp_path), [make_site(tmp_path / "312", "312")])
    _, _, _, tags = parse_wheel_filename(check_wheel.retag(path, "manylinux_2_28_x86_64").name)
    for minor, fits in ((11, True), (12, True), (10, False), (13, False)):
        own = set(packaging.cpython_tags((3, minor), platforms=["manylinux_2_28_x86_64"]))
        assert bool(own & tags) == fits, f"Python 3.{minor}"


def test_a_python_that_lacks_a_module_is_refused(tmp_path: Path) -> None:
    site = make_site(tmp_path / "312", "312", leave_out="_bindings")
    with pytest.raises(SystemExit, match="has the modules"):
        add_pythons.add(make_wheel(tmp_path), [site])


def test_llvm_refers_to_the_functions_that_are_left_out() -> None:
    """Another name would leave nothing out."""
    rows = [line.split() for line in (ROOT / "cpu/engine/jit/left_out.txt").read_text().splitlines() if line[0] != "#"]
    kinds = set(re.findall(r"#define CUCPU_LEFT_OUT_(\w+)", (ROOT / "cpu/engine/jit/left_out.hpp").read_text()))
    assert len(rows) > 20 and {row[0] for row in rows} == kinds
    assert {row[2] for row in rows if len(row) > 2} <= {"aarch64", "x86_64"}
    parts = ("AArch64CodeGen", "AArch64Desc", "X86CodeGen", "X86Desc", "Analysis", "AsmPrinter", "CodeGen", "DebugInfoDWARF", "Demangle",
             "BitReader", "JITLink", "MC", "Object", "Passes", "SelectionDAG", "Support", "Target", "ipo")  # fmt: skip
    archives = [Path(f"/usr/lib/llvm-19/lib/libLLVM{part}.a") for part in parts]
    if shutil.which("nm") is None or not all(path.exists() for path in archives):
        pytest.skip("needs nm and the archives of LLVM 19")
    done = subprocess.run(["nm", "--undefined-only", *archives], capture_output=True, text=True, check=True)
    used = {line.split()[-1] for line in done.stdout.splitlines() if line.strip()}
    assert [row[1] for row in rows if row[1] not in used] == []
