# SPDX-License-Identifier: Apache-2.0
"""The compile cache on disk, which every Program uses: no stale hit, no failure, and the same results as without it."""

import io
import json
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from cuda.core import NVRTCError, Program, ProgramOptions
from cuda.pathfinder import find_nvidia_header_directory

KERNEL = '\nextern "C" __global__ void f(int* p) { *p = VALUE; }'
WARNS = 'extern "C" __global__ void f(int* p) { int unused = 7; *p = 1; }'


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty cache of this test; its parent is the working directory."""
    monkeypatch.setenv("CUCORE_COMPILE_CACHE", str(tmp_path / "cache"))
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "cache"


def entries(folder):
    return sorted(folder.glob("[0-9a-f]*")) if folder.exists() else []


def compiled(code, target="ptx", logs=None, names=(), **options):
    return Program(code, "c++", ProgramOptions(arch="sm_90", **options)).compile(target, names, logs)


def value_of(object_code):
    """The constant that the kernel stores."""
    found = re.search(r"st\.global\.\w+\s+\[[^]]*\],\s*(\d+);|mov\.\w+\s+%r\d+, (\d+);", object_code.code.decode())
    assert found is not None
    return int(found[1] or found[2])


def is_hit(folder, compile):
    """Whether a compilation was answered from the cache: it then writes nothing."""
    before = entries(folder)
    assert before
    for entry in before:
        os.utime(entry, (0, 0))
    compile()
    after = entries(folder)
    return after == before and any(entry.stat().st_mtime > 0 for entry in after)


CHILD = """
import io, json, sys
from cuda.core import Program, ProgramOptions
logs = io.StringIO()
options = ProgramOptions(arch="sm_90", name="child")
code = Program(sys.argv[1], "c++", options).compile(sys.argv[2], ("twice<int>",), logs)
is_loaded = "libnvrtc" in open("/proc/self/maps").read()
print(json.dumps([is_loaded, code.code.hex(), code.symbol_mapping, code.name, logs.getvalue()]))
"""
TEMPLATE = "template <class T> __global__ void twice(T* p) { int unused = 7; *p = *p * 2; }"


def run_child(**environment):
    done = subprocess.run(
        [sys.executable, "-c", CHILD, TEMPLATE, "cubin"],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    return json.loads(done.stdout)


def test_second_process_does_not_load_nvrtc_and_has_the_same_result(folder):
    first, second = run_child(), run_child()
    assert (first[0], second[0]) == (True, False)
    assert first[1:] == second[1:]
    assert "unused" in second[4]
    assert list(second[2]) == ["twice<int>"]
    without = run_child(CUCORE_COMPILE_CACHE="0")
    assert without[0]
    assert without[1:] == second[1:]


def test_switch_off_writes_and_reads_nothing(folder):
    assert run_child(CUCORE_COMPILE_CACHE="0")[0]
    assert not folder.exists()


def test_default_folder_is_in_the_users_cache_folder(folder, tmp_path):
    home, own = tmp_path / "home", tmp_path / "own"
    run_child(CUCORE_COMPILE_CACHE="", CUCORE_CACHE_DIR="", XDG_CACHE_HOME=str(home))
    assert entries(home / "cucore" / "nvrtc")
    run_child(CUCORE_COMPILE_CACHE="", CUCORE_CACHE_DIR=str(own))
    assert entries(own / "nvrtc")


def test_only_the_owner_can_enter_the_folder(folder):
    compiled("#define VALUE 1" + KERNEL)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert entries(folder)
    for entry in entries(folder):
        assert stat.S_IMODE(entry.stat().st_mode) == 0o600


def test_log_is_the_same_from_the_cache(folder):
    first, second = io.StringIO(), io.StringIO()
    compiled(WARNS, logs=first)
    assert is_hit(folder, lambda: compiled(WARNS, logs=second))
    assert "unused" in first.getvalue()
    assert second.getvalue() == first.getvalue()


@pytest.mark.parametrize(
    "change",
    [
        {"define_macro": "OTHER"},
        {"name": "other"},
        {"arch": "sm_80"},
        {"lineinfo": True},
        {"extra_sources": [("x.h", "")]},
        {"use_fast_math": True},
    ],
    ids=lambda change: next(iter(change)),
)
def test_every_option_is_part_of_the_key(folder, change):
    code = "#define VALUE 1" + KERNEL
    compiled(code)
    assert is_hit(folder, lambda: compiled(code))
    assert not is_hit(
        folder, lambda: Program(code, "c++", ProgramOptions(**{"arch": "sm_90", **change})).compile("ptx")
    )


def test_source_target_and_name_expressions_are_part_of_the_key(folder):
    compiled(TEMPLATE, names=("twice<int>",))
    assert is_hit(folder, lambda: compiled(TEMPLATE, names=("twice<int>",)))
    assert not is_hit(folder, lambda: compiled(TEMPLATE, names=("twice<float>",)))
    assert not is_hit(folder, lambda: compiled(TEMPLATE, "cubin", names=("twice<int>",)))
    assert not is_hit(folder, lambda: compiled(TEMPLATE + "\n", names=("twice<int>",)))


def write(name, text):
    path = Path(name)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


# Each: files at first, the source, options, and the file that changes the value from 1 to 2.
INCLUDES = {
    "quoted": ({"x.h": "#define VALUE 1"}, '#include "x.h"', {}, "x.h"),
    "brackets": ({"i/x.h": "#define VALUE 1"}, "#include <x.h>", {"include_path": "i"}, "i/x.h"),
    "nested": (
        {"i/x.h": '#include "sub/y.h"', "i/sub/y.h": '#include "z.h"', "i/sub/z.h": "#define VALUE 1"},
        "#include <x.h>",
        {"include_path": "i"},
        "i/sub/z.h",
    ),
    "pre_include": ({"i/x.h": "#define VALUE 1"}, "", {"include_path": "i", "pre_include": "x.h"}, "i/x.h"),
    "beside the name": ({"d/x.h": "#define VALUE 1"}, '#include "x.h"', {"name": "d/program.cu"}, "d/x.h"),
    "found earlier": (
        {"j/x.h": "#define VALUE 1"},
        "#include <x.h>",
        {"include_path": ["i", "j"]},
        "i/x.h",
    ),
    "asked for": (
        {},
        '#if __has_include("x.h")\n#include "x.h"\n#else\n#define VALUE 1\n#endif',
        {},
        "x.h",
    ),
    "asked for in brackets": (
        {"i/other.h": ""},
        "#if __has_include(<x.h>)\n#include <x.h>\n#else\n#define VALUE 1\n#endif",
        {"include_path": "i"},
        "i/x.h",
    ),
    "of a given source": (
        {"y.h": "#define VALUE 1"},
        '#include "x.h"',
        {"extra_sources": [("x.h", '#include "y.h"')]},
        "y.h",
    ),
    "through a macro": ({"x.h": "#define VALUE 1"}, '#define FILE "x.h"\n#include FILE', {}, "x.h"),
    "through a macro of an option": (
        {"i/x.h": "#define VALUE 1"},
        "#include FILE",
        {"include_path": "i", "define_macro": ("FILE", "<x.h>")},
        "i/x.h",
    ),
    "asked for by a header's name for the test": (
        {
            "w.h": '#include "has.h"\n#if HAS("x.h")\n#include "x.h"\n#else\n#define VALUE 1\n#endif',
            "has.h": "#define HAS(X) __has_include(X)",
        },
        '#include "w.h"',
        {},
        "x.h",
    ),
    "through a macro in a header": (
        {"w.h": '#define FILE "x.h"\n#include FILE', "x.h": "#define VALUE 1"},
        '#include "w.h"',
        {},
        "x.h",
    ),
}


@pytest.mark.promise("A changed header is compiled again: the compile cache has no stale hits")
@pytest.mark.parametrize("case", list(INCLUDES))
def test_changed_header_is_compiled_anew(folder, case):
    files, source, options, changed = INCLUDES[case]
    for name, text in files.items():
        write(name, text)
    assert value_of(compiled(source + KERNEL, **options)) == 1
    assert value_of(compiled(source + KERNEL, **options)) == 1
    write(changed, "#define VALUE 2")
    assert value_of(compiled(source + KERNEL, **options)) == 2
    write(changed, "#define VALUE 3")
    assert value_of(compiled(source + KERNEL, **options)) == 3


@pytest.mark.parametrize("case", [case for case in INCLUDES if "macro" not in case])
def test_unchanged_headers_are_hits(folder, case):
    files, source, options, _ = INCLUDES[case]
    for name, text in files.items():
        write(name, text)
    compiled(source + KERNEL, **options)
    assert is_hit(folder, lambda: compiled(source + KERNEL, **options))


@pytest.mark.parametrize("header", ["cuda_fp16.h", "cuda/std/array"])
def test_headers_of_the_toolkit_are_hits(folder, header):
    """No macro of theirs names a file; libcu++ 3.0 has a macro of its own for __has_include."""
    places = [find_nvidia_header_directory(name) for name in ("cudart", "cccl")]
    if None in places:
        pytest.skip("the headers of the toolkit are not installed")
    source = f"#include <{header}>\n#define VALUE 1" + KERNEL
    first = compiled(source, include_path=places, std="c++17")
    assert is_hit(folder, lambda: compiled(source, include_path=places, std="c++17"))
    assert value_of(first) == 1


def test_other_working_directory_has_other_headers(folder, monkeypatch):
    for place, value in (("a", 1), ("b", 2)):
        write(f"{place}/x.h", f"#define VALUE {value}")
    root = Path.cwd()
    for place, value in (("a", 1), ("b", 2), ("a", 1)):
        monkeypatch.chdir(root / place)
        assert value_of(compiled('#include "x.h"' + KERNEL)) == value


@pytest.mark.parametrize(
    "source, options",
    [
        ("#define VALUE 1\n__device__ const char* t = __TIME__;", {}),
        ("#define VALUE 1\n__device__ const char* t = __DATE__;", {}),
        ("#define VALUE 1", {"no_cache": True}),
        ("#define VALUE 1", {"time": "times.csv"}),
        ("#define VALUE 1", {"debug": True}),
        ("#define VALUE 1", {"pch": True}),
    ],
)
def test_what_cannot_be_repeated_is_not_kept(folder, source, options):
    compiled(source + KERNEL, **options)
    assert not entries(folder)


@pytest.mark.parametrize("variable", ["NVRTC_APPEND_FLAGS", "NVRTC_PREPEND_FLAGS"])
def test_variables_of_the_compiler_switch_the_cache_off(folder, monkeypatch, variable):
    monkeypatch.setenv(variable, "-DVALUE=5")
    compiled("#ifndef VALUE\n#define VALUE 1\n#endif" + KERNEL)
    assert not entries(folder)


def test_errors_are_not_kept_and_are_the_same_every_time(folder):
    texts = []
    for _ in range(2):
        with pytest.raises(NVRTCError) as error:
            compiled("__global__ void f() { wrong }")
        texts.append(str(error.value))
    assert texts[0] == texts[1]
    assert "wrong" in texts[0]
    assert not entries(folder)


def damage_truncate(entry):
    entry.write_bytes(entry.read_bytes()[:-1])


def damage_flip(entry):
    data = bytearray(entry.read_bytes())
    data[-1] ^= 1
    entry.write_bytes(data)


def damage_empty(entry):
    entry.write_bytes(b"")


def damage_link(entry):
    target = entry.with_name("target")
    entry.rename(target)
    entry.symlink_to(target)


@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_empty, damage_link])
def test_damaged_entries_are_misses(folder, damage):
    code = "#define VALUE 1" + KERNEL
    expected = compiled(code).code
    (entry,) = entries(folder)
    damage(entry)
    assert compiled(code).code == expected


def no_folder(folder):
    folder.write_text("")


def open_to_others(folder):
    folder.mkdir()
    folder.chmod(0o777)


def link_to_nowhere(folder):
    folder.symlink_to(folder.with_name("nowhere"))


@pytest.mark.promise("A compile cache that cannot be used never fails a compilation")
@pytest.mark.parametrize("spoil", [no_folder, open_to_others, link_to_nowhere])
def test_unusable_folder_is_no_error(folder, spoil):
    spoil(folder)
    for _ in range(2):
        assert value_of(compiled("#define VALUE 1" + KERNEL)) == 1
    assert not folder.is_dir() or not entries(folder)


@pytest.mark.parametrize("value", ["off", "relative/folder", "2"])
def test_setting_that_cannot_be_read_is_an_error(folder, monkeypatch, value):
    monkeypatch.setenv("CUCORE_COMPILE_CACHE", value)
    with pytest.raises(ValueError, match=f"CUCORE_COMPILE_CACHE={value} cannot be read: expected 0, 1 or"):
        compiled("#define VALUE 1" + KERNEL)


def test_removed_folder_is_made_again(folder):
    code = "#define VALUE 1" + KERNEL
    compiled(code)
    for entry in entries(folder):
        entry.unlink()
    folder.rmdir()
    compiled(code)
    assert entries(folder)


@pytest.mark.parametrize("size", ["1", "0.5"])
def test_size_is_bounded(folder, size):
    """In a process of its own, because the limit is read when the folder is opened."""
    program = """
from cuda.core import Program, ProgramOptions
for number in range(6):
    words = "x" * 60_000
    code = f'__device__ const char text{number}[] = "{words}"; extern "C" __global__ void f(char* p) {{ *p = text{number}[threadIdx.x]; }}'
    Program(code, "c++", ProgramOptions(arch="sm_90")).compile("ptx")
"""
    subprocess.run([sys.executable, "-c", program], env={**os.environ, "CUCORE_CACHE_SIZE": size}, check=True)
    kept = entries(folder)
    assert kept
    assert sum(entry.stat().st_size for entry in kept) <= float(size) * (1 << 20)


def test_processes_share_the_folder(folder):
    command = [sys.executable, "-c", CHILD, TEMPLATE, "cubin"]
    children = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(4)]
    results = [json.loads(child.communicate()[0]) for child in children]
    assert all(child.returncode == 0 for child in children)
    assert all(result[1:] == results[0][1:] for result in results)
    assert len(entries(folder)) == 1
    assert not list(folder.glob(".new-*"))


def test_handle_has_the_result_of_a_hit(folder):
    nvrtc = pytest.importorskip("cuda.bindings.nvrtc")
    code = "#define VALUE 1" + KERNEL
    expected = compiled(code).code
    program = Program(code, "c++", ProgramOptions(arch="sm_90"))
    assert program.compile("ptx").code == expected
    error, size = nvrtc.nvrtcGetPTXSize(program.handle)
    assert error == nvrtc.nvrtcResult.NVRTC_SUCCESS
    ptx = b" " * size
    (error,) = nvrtc.nvrtcGetPTX(program.handle, ptx)
    assert ptx.rstrip(b"\0") == expected.rstrip(b"\0")
    assert program.compile("ptx").code == expected
    program.close()
    assert int(program.handle) == 0


def test_kernel_from_the_cache_runs_and_knows_its_parameters(folder, device, stream):
    import numpy as np
    from cuda.core import LaunchConfig, PinnedMemoryResource, launch

    source = 'extern "C" __global__ void f(float* p, float x) { *p = x; }'
    for attempt in range(2):
        code = Program(source, "c++").compile("cubin")
        kernel = code.get_kernel("f")
        buffer = PinnedMemoryResource().allocate(4, stream=stream)
        stream.sync()
        launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer, np.float32(attempt + 0.5))
        stream.sync()
        assert np.from_dlpack(buffer).view(np.float32)[0] == attempt + 0.5
        with pytest.raises(TypeError):
            launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer, 3)
    assert entries(folder)
