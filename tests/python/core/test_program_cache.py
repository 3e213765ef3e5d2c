# SPDX-License-Identifier: Apache-2.0
"""Caches of compiled programs, in memory and on disk."""

import concurrent.futures
import multiprocessing
import os
import pathlib
import stat

import pytest
from cuda.core import ObjectCode, Program, ProgramOptions
from cuda.core.utils import (
    FileStreamProgramCache,
    InMemoryProgramCache,
    ProgramCacheResource,
    make_program_cache_key,
)

SOURCE = "template <class T> __global__ void k(T* p) { *p = 1; }"


def options(**kwargs):
    return ProgramOptions(arch="sm_90", **kwargs)


@pytest.fixture(params=["memory", "file"])
def cache(request, tmp_path):
    if request.param == "memory":
        return InMemoryProgramCache()
    return FileStreamProgramCache(tmp_path / "cache")


def test_cache_is_a_mapping_of_keys_to_bytes(cache):
    assert isinstance(cache, ProgramCacheResource)
    assert len(cache) == 0
    cache["a"] = b"one"
    cache[b"b"] = bytearray(b"two")
    cache["c"] = memoryview(b"three")
    cache["d"] = ObjectCode.from_ptx(b"four")
    assert [cache[key] for key in ("a", b"b", "c", "d")] == [b"one", b"two", b"three", b"four"]
    assert cache[b"a"] == b"one"  # a str is its UTF-8 bytes
    assert len(cache) == 4
    assert cache.get("missing") is None
    assert cache.get("missing", b"x") == b"x"
    with pytest.raises(KeyError):
        cache["missing"]
    del cache["a"]
    with pytest.raises(KeyError):
        del cache["a"]
    cache.update({"e": b"5"})
    cache.update([("f", b"6")])
    assert cache["e"] + cache["f"] == b"56"
    cache["e"] = b""
    assert cache["e"] == b""
    cache.clear()
    assert len(cache) == 0


def test_close_is_idempotent_and_a_closed_cache_raises(cache):
    with cache as same:
        assert same is cache
        cache["a"] = b"1"
    cache.close()
    with pytest.raises(RuntimeError, match="closed"):
        cache.get("a")


def test_key_or_value_of_a_wrong_type_raises(cache):
    with pytest.raises(TypeError):
        cache[3] = b"x"
    with pytest.raises(TypeError):
        cache["a"] = 3


class Counting(InMemoryProgramCache):
    def __init__(self):
        super().__init__()
        self.stored = []

    def __setitem__(self, key, value):
        self.stored.append(key)
        super().__setitem__(key, value)


def test_second_compile_uses_the_cached_code():
    cache = Counting()
    first = Program(SOURCE, "c++", options()).compile("ptx", ("k<int>",), cache=cache)
    stored = len(cache.stored)
    second = Program(SOURCE, "c++", options()).compile("ptx", ("k<int>",), cache=cache)
    assert len(cache.stored) == stored
    assert second.code == first.code
    assert second.symbol_mapping == first.symbol_mapping
    assert second.name == first.name
    Program(SOURCE, "c++", options(ftz=True)).compile("ptx", ("k<int>",), cache=cache)
    assert len(cache.stored) > stored


def test_a_hit_without_its_symbols_is_compiled_again():
    cache = InMemoryProgramCache()
    program = Program(SOURCE, "c++", options())
    program.compile("ptx", ("k<int>",), cache=cache)
    key = make_program_cache_key(
        code=SOURCE, code_type="c++", options=options(), target_type="ptx", name_expressions=("k<int>",)
    )
    del cache[key + b"/symbols"]
    assert program.compile("ptx", ("k<int>",), cache=cache).symbol_mapping == {"k<int>": "_Z1kIiEvPT_"}


def test_user_defined_cache_is_used():
    class Mine(ProgramCacheResource):
        def __init__(self):
            self.rows = {}

        def __getitem__(self, key):
            return self.rows[key]

        def __setitem__(self, key, value):
            self.rows[key] = value.code if isinstance(value, ObjectCode) else bytes(value)

        def __delitem__(self, key):
            del self.rows[key]

        def __len__(self):
            return len(self.rows)

        def clear(self):
            self.rows.clear()

    cache = Mine()
    program = Program('extern "C" __global__ void f() {}', "c++", options())
    first = program.compile("ptx", cache=cache)
    assert len(cache) == 1
    assert program.compile("ptx", cache=cache).code == first.code
    with pytest.raises(TypeError):
        ProgramCacheResource()


def key(**changes):
    arguments = {"code": SOURCE, "code_type": "c++", "options": options(), "target_type": "ptx"} | changes
    return make_program_cache_key(**arguments)


def test_keys_of_different_programs_differ():
    keys = [
        key(),
        key(code=SOURCE + " "),
        key(target_type="cubin"),
        key(options=options(ftz=True)),
        key(options=options(name="other")),
        key(options=ProgramOptions(arch="sm_80")),
        key(options=options(define_macro=["AB", "C"])),
        key(options=options(define_macro=["A", "BC"])),
        key(options=options(extra_sources=[("h", "1")])),
        key(options=options(extra_sources=[("h", "2")])),
        key(name_expressions=("k<int>",)),
        key(name_expressions=("k<float>",)),
        key(extra_digest=b"1"),
        key(extra_digest=b"2"),
    ]
    assert len(set(keys)) == len(keys)
    assert all(isinstance(k, bytes) for k in keys)


def test_keys_are_stable():
    assert key() == key()
    assert key(code=SOURCE.encode()) == key()
    assert key(name_expressions=[b"k<int>"]) == key(name_expressions=("k<int>",))


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"options": ProgramOptions(arch="sm_90", include_path="/x")}, "include_path"),
        ({"options": ProgramOptions(arch="sm_90", pre_include="x.h")}, "pre_include"),
        ({"options": ProgramOptions(arch="sm_90", use_pch="x")}, "use_pch"),
        ({"options": ProgramOptions(arch="sm_90", pch_dir="")}, "pch_dir"),
        ({"options": ProgramOptions(arch="sm_90", name="folder/k.cu")}, "folder of name"),
        ({"code": '#  include "mine.h"\n'}, "mine.h"),
        ({"code": '#include/**/"mine.h"\n'}, "mine.h"),
        ({"code": '#define H "mine.h"\n#include H\n'}, "#include H"),
        ({"code": '#if __has_include("mine.h")\n#endif\n'}, "mine.h"),
        ({"code": 'const char* a = "/*";\n#include "mine.h"\n// */'}, "mine.h"),
        ({"options": options(extra_sources=[("a.h", '#include "mine.h"')]), "code": '#include "a.h"'}, "mine.h"),
        ({"code_type": "nvvm", "options": options(use_libdevice=True)}, "use_libdevice"),
    ],
)
def test_options_with_files_require_a_digest(changes, name):
    with pytest.raises(ValueError, match=name):
        key(**changes)
    assert key(**changes, extra_digest=b"digest of the files")


def test_header_given_as_source_changes_the_key():
    assert key(code='#include "mine.h"\n', options=options(extra_sources=[("mine.h", "")]))


@pytest.mark.parametrize(
    "code",
    [
        '// #include "mine.h"',
        '/*\n#include "mine.h"\n*/',
        'const char* a = R"(\n#include "mine.h"\n)";',
        "#include <cuda_fp16.h>",
    ],
)
def test_text_that_is_not_an_include_needs_no_digest(code):
    assert key(code=code)


def test_name_with_a_folder_needs_no_digest_without_source_include():
    assert key(options=options(name="folder/k.cu", no_source_include=True))
    assert key(code=".version 8.0", code_type="ptx", options=options(name="folder/k.ptx"))


def test_quoted_toolkit_header_needs_no_digest_unless_it_is_shadowed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    bundled = options(use_bundled_headers=True)
    try:
        Program('#include "cuda_fp16.h"\n', "c++", bundled).compile("ptx")
    except Exception as error:
        pytest.skip(f"the compiler comes without headers: {error}")
    source = '#include "cuda_fp16.h"\n'
    assert key(code=source, options=bundled)
    (tmp_path / "cuda_fp16.h").write_text("")
    with pytest.raises(ValueError, match="cuda_fp16"):
        key(code=source, options=bundled)


def test_header_included_through_a_macro_is_not_cached(tmp_path):
    header = tmp_path / "value.h"
    header.write_text("#define VALUE 1\n")
    source = '#define H "value.h"\n#include H\nextern "C" __global__ void f(int* p) { *p = VALUE; }'
    cache = InMemoryProgramCache()
    program = Program(source, "c++", options(name=str(tmp_path / "k.cu")))
    assert program.compile("ptx").code
    with pytest.raises(ValueError, match="extra_digest"):
        program.compile("ptx", cache=cache)
    assert len(cache) == 0


@pytest.mark.parametrize("name", ["create_pch", "time", "fdevice_time_trace"])
def test_options_that_write_a_file_have_no_key(name):
    with pytest.raises(ValueError, match=name):
        key(options=options(**{name: "file"}), extra_digest=b"1")


@pytest.mark.parametrize("wrong", [3, bytearray(b"k<int>"), None, 1.0])
def test_name_expression_of_a_wrong_type_raises(wrong):
    with pytest.raises(TypeError, match=r"name_expressions\[1\]"):
        key(name_expressions=("k<int>", wrong))
    with pytest.raises(TypeError, match="not one name"):
        key(name_expressions="k<int>")


def test_the_order_of_names_does_not_matter():
    names = ("k<int>", "k<float>")
    assert key(name_expressions=names) == key(name_expressions=names[::-1]) == key(name_expressions=(*names, *names))


def test_options_ignored_by_the_linker_do_not_change_the_key_of_ptx():
    def ptx(**changes):
        arguments = {"code": ".version 8.0", "code_type": "ptx", "options": options(), "target_type": "cubin"}
        return make_program_cache_key(**(arguments | changes))

    same = [
        ptx(),
        ptx(name_expressions=("f",)),
        ptx(name_expressions=(3,)),
        ptx(options=options(define_macro="A")),
        ptx(options=options(std="c++17")),
        ptx(options=options(use_libdevice=True)),
        ptx(options=options(numba_debug=True)),
        ptx(options=options(include_path="/x")),
    ]
    assert len(set(same)) == 1
    different = [
        ptx(),
        ptx(options=options(ftz=True)),
        ptx(options=options(debug=True)),
        ptx(options=options(max_register_count=32)),
        ptx(options=ProgramOptions(arch="sm_80")),
    ]
    assert len(set(different)) == len(different)
    with pytest.raises(ValueError, match="ltoir"):
        ptx(target_type="ltoir")


def test_options_ignored_by_nvvm_do_not_change_its_key():
    def nvvm(**changes):
        arguments = {"code": "source", "code_type": "nvvm", "options": options(), "target_type": "ptx"}
        return make_program_cache_key(**(arguments | changes))

    try:
        nvvm()
    except Exception as error:
        pytest.skip(f"libNVVM is not there: {error}")
    same = [
        nvvm(),
        nvvm(name_expressions=(3,)),
        nvvm(options=options(define_macro="A")),
        nvvm(options=options(std="c++17")),
    ]
    assert len(set(same)) == 1
    assert nvvm(options=options(ftz=True)) != nvvm()


def test_least_recently_used_entry_is_evicted_first():
    cache = InMemoryProgramCache(max_size_bytes=10)
    cache["a"] = b"1234"
    cache["b"] = b"1234"
    assert cache["a"]
    cache["c"] = b"1234"
    assert cache.get("b") is None
    assert cache.get("a") and cache.get("c")
    cache["huge"] = b"x" * 11
    assert cache.get("huge") is None
    assert len(cache) == 2
    with pytest.raises(ValueError):
        InMemoryProgramCache(max_size_bytes=-1)


def test_size_limit_evicts_the_oldest_files(tmp_path):
    folder = tmp_path / "c"
    cache = FileStreamProgramCache(folder, max_size_bytes=4000)
    seen = set()
    for number in range(8):
        cache[str(number)] = bytes(1000)
        for path in set(folder.iterdir()) - seen:
            os.utime(path, (number, number))  # files with equal time stamps would have no order
            seen.add(path)
    assert len(cache) == 3
    assert cache.get("7") is not None
    assert cache.get("0") is None


# --- on disk ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "cache"


def entries(folder):
    return sorted(path for path in folder.iterdir())


def test_file_cache_entries_persist(folder):
    FileStreamProgramCache(folder)["a"] = b"code"
    assert FileStreamProgramCache(str(folder))["a"] == b"code"


def test_cache_files_are_private_to_the_owner(folder):
    cache = FileStreamProgramCache(folder)
    cache["a"] = b"code"
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert [stat.S_IMODE(path.stat().st_mode) for path in entries(folder)] == [0o600]


def test_cache_folder_open_to_others_is_restricted_or_raises(folder):
    folder.mkdir(mode=0o755)
    folder.chmod(0o755)
    FileStreamProgramCache(folder)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o777)
    with pytest.raises(RuntimeError, match="others may write"):
        FileStreamProgramCache(folder)


def test_symbolic_link_as_cache_folder_raises(folder, tmp_path):
    (tmp_path / "real").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "real")
    with pytest.raises(RuntimeError, match="link"):
        FileStreamProgramCache(folder)


def test_symbolic_link_as_cache_entry_is_a_miss(folder, tmp_path):
    cache = FileStreamProgramCache(folder)
    cache["a"] = b"code"
    (path,) = entries(folder)
    copy = tmp_path / "planted"
    copy.write_bytes(path.read_bytes())
    path.unlink()
    path.symlink_to(copy)
    assert cache.get("a") is None


@pytest.mark.parametrize("damage", ["flip", "cut", "empty", "garbage"])
def test_damaged_entry_is_a_miss_and_is_removed(folder, damage):
    cache = FileStreamProgramCache(folder)
    cache["a"] = b"some code"
    (path,) = entries(folder)
    data = bytearray(path.read_bytes())
    if damage == "flip":
        data[-1] ^= 1
    elif damage == "cut":
        data = data[:-3]
    elif damage == "empty":
        data = b""
    else:
        data = b"\0" * 500
    path.write_bytes(data)
    assert cache.get("a") is None
    assert entries(folder) == []
    cache["a"] = b"again"
    assert cache["a"] == b"again"


def test_entry_moved_to_another_key_is_a_miss(folder):
    cache = FileStreamProgramCache(folder)
    cache["a"] = b"code of a"
    (of_a,) = entries(folder)
    cache["b"] = b"code of b"
    (of_b,) = [path for path in entries(folder) if path != of_a]
    of_b.write_bytes(of_a.read_bytes())
    assert cache.get("b") is None
    assert cache["a"] == b"code of a"


def test_foreign_files_are_not_removed(folder):
    cache = FileStreamProgramCache(folder)
    foreign_file = folder / "README"
    foreign_file.write_text("hello")
    cache["a"] = b"x"
    assert len(cache) == 1
    cache.clear()
    assert entries(folder) == [foreign_file]


def test_keys_are_hashed_to_file_names(folder):
    cache = FileStreamProgramCache(folder)
    for key in ("../../etc/passwd", "/etc/passwd", "a/b", "", "\0", "x" * 5000):
        cache[key] = b"code"
        assert cache[key] == b"code"
    assert all(len(path.name) == 64 for path in entries(folder))


def test_default_folder_is_in_the_user_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    FileStreamProgramCache()["a"] = b"x"
    assert len(list(pathlib.Path(tmp_path, "cucore", "programs").iterdir())) == 1


def _hammer(folder, seed):
    cache = FileStreamProgramCache(folder)
    for turn in range(100):
        name = str((turn * 7 + seed) % 5)
        value = cache.get(name)
        assert value is None or value == name.encode() * 1000
        cache[name] = name.encode() * 1000
        if turn % 31 == 0:
            cache.clear()
    return True


def test_processes_and_threads_share_a_cache_folder(folder):
    FileStreamProgramCache(folder)
    context = multiprocessing.get_context("spawn")
    with (
        concurrent.futures.ProcessPoolExecutor(2, mp_context=context) as processes,
        concurrent.futures.ThreadPoolExecutor(4) as threads,
    ):
        jobs = [processes.submit(_hammer, folder, n) for n in range(2)]
        jobs += [threads.submit(_hammer, folder, n) for n in range(4)]
        assert all(job.result() for job in jobs)
    assert not [path for path in entries(folder) if path.name.startswith(".new")]


def test_missing_folders_are_created_private_to_the_owner(tmp_path):
    before = os.umask(0)
    try:
        FileStreamProgramCache(tmp_path / "a" / "b" / "c")
    finally:
        os.umask(before)
    for level in ("a", "a/b", "a/b/c"):
        assert stat.S_IMODE((tmp_path / level).stat().st_mode) == 0o700, level


def test_unchanged_entry_is_not_rewritten(folder):
    cache = FileStreamProgramCache(folder)
    cache["a"] = b"code"
    before = entries(folder)[0].stat().st_ino
    cache["a"] = b"code"
    assert entries(folder)[0].stat().st_ino == before
    cache["a"] = b"other"
    assert entries(folder)[0].stat().st_ino != before and cache["a"] == b"other"


def spoiled(folder, how):
    """A cache that is no longer writable."""
    cache = FileStreamProgramCache(folder)
    if how == "the folder has vanished":
        folder.rmdir()
    elif how == "the entry is a folder":
        cache_of_one = FileStreamProgramCache(folder.parent / "other")
        program().compile("ptx", cache=cache_of_one)
        for path in entries(folder.parent / "other"):
            (folder / path.name / "inside").mkdir(parents=True)
    elif how == "the entry is a pipe":
        cache_of_one = FileStreamProgramCache(folder.parent / "other")
        program().compile("ptx", cache=cache_of_one)
        for path in entries(folder.parent / "other"):
            os.mkfifo(folder / path.name)
    return cache


def program():
    return Program('extern "C" __global__ void spoiled() {}', "c++", ProgramOptions(arch="sm_80"))


@pytest.mark.parametrize("how", ["the folder has vanished", "the entry is a folder"])
def test_unwritable_cache_warns(folder, how):
    cache = spoiled(folder, how)
    with pytest.warns(RuntimeWarning, match="could not be written to"):
        code = program().compile("ptx", cache=cache)
    assert b"spoiled" in code.code


def test_write_to_a_removed_folder_raises(folder):
    cache = spoiled(folder, "the folder has vanished")
    with pytest.raises(FileNotFoundError):
        cache["a"] = b"code"
    assert cache.get("a") is None


def test_pipe_as_cache_entry_is_a_miss(folder):
    cache = spoiled(folder, "the entry is a pipe")
    assert b"spoiled" in program().compile("ptx", cache=cache).code
    assert b"spoiled" in program().compile("ptx", cache=cache).code and len(cache) == 1


class FullDisk(ProgramCacheResource):
    """A user-defined cache that fails as on a full disk."""

    def __init__(self, error, reads):
        self._error, self._reads = error, reads

    def __getitem__(self, key):
        if self._reads:
            raise KeyError(key)
        raise self._error

    def __setitem__(self, key, value):
        raise self._error

    def __delitem__(self, key):
        raise KeyError(key)

    def __len__(self):
        return 0

    def clear(self):
        pass


@pytest.mark.parametrize("reads", [True, False])
def test_full_disk_warns(reads):
    with pytest.warns(RuntimeWarning, match="No space left"):
        code = program().compile("ptx", cache=FullDisk(OSError(28, "No space left on device"), reads))
    assert b"spoiled" in code.code


def test_exception_of_a_user_defined_cache_is_raised():
    with pytest.raises(LookupError, match="mine"):
        program().compile("ptx", cache=FullDisk(LookupError("mine"), True))
