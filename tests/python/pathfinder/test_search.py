# SPDX-License-Identifier: Apache-2.0
"""Library search in temporary folder trees; each search runs in a separate interpreter."""

import os
import pathlib
import sys

import pytest

# The tests use nvjpeg, which the system must not have; they are skipped if it does.
LOAD = "d = pathfinder.load_nvidia_dynamic_lib('nvjpeg'); print(json.dumps([d.abs_path, d.found_via, d.was_already_loaded_from_elsewhere]))"
TRY = """
try:
    d = pathfinder.load_nvidia_dynamic_lib('nvjpeg')
    print(json.dumps([d.abs_path, d.found_via]))
except pathfinder.DynamicLibNotFoundError as error:
    print(json.dumps([None, str(error), [list(a) for a in error.attempts]]))
"""


def test_wheel_of_the_cuda_13_layout_is_found(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "site-packages/nvidia/cu13/lib/libnvjpeg.so.13")
    put = f"sys.path.append({str(tmp_path / 'site-packages')!r})\n"
    assert ask(put + LOAD) == [path, "site-packages", False]


def test_wheel_of_the_cuda_12_layout_is_found(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "site-packages/nvidia/nvjpeg/lib/libnvjpeg.so.12")
    put = f"sys.path.append({str(tmp_path / 'site-packages')!r})\n"
    assert ask(put + LOAD) == [path, "site-packages", False]


def test_user_site_packages_are_searched(ask, shared_library, tmp_path):
    where = ask("import site; print(json.dumps(site.getusersitepackages()))", PYTHONUSERBASE=tmp_path / "user")
    path = shared_library(pathlib.Path(where) / "nvidia/cu13/lib/libnvjpeg.so.13")
    if sys.prefix != sys.base_prefix:
        put = f"sys.path.append({where!r})\n"  # a virtual environment hides the user site
    else:
        put = ""
    assert ask(put + LOAD, PYTHONUSERBASE=tmp_path / "user") == [path, "site-packages", False]


def test_conda_environment_is_searched(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    assert ask(LOAD, CONDA_PREFIX=tmp_path / "env") == [path, "conda", False]


def test_ld_library_path_is_part_of_the_system_search(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "ld/libnvjpeg.so.13")
    assert ask(LOAD, LD_LIBRARY_PATH=tmp_path / "ld") == [path, "system-search", False]


def test_cuda_path_and_cuda_home_follow_the_system_search(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "toolkit/lib64/libnvjpeg.so.13")
    found = ask(TRY, CUDA_HOME=tmp_path / "toolkit")
    if found[1] == "system-search":
        assert found[0] != path  # documented: the dynamic linker precedes CUDA_HOME
    else:
        assert found == [path, "CUDA_PATH"]
    other = shared_library(tmp_path / "other/lib64/libnvjpeg.so.13")
    found = ask(TRY, CUDA_HOME=tmp_path / "toolkit", CUDA_PATH=tmp_path / "other")
    assert found[0] == other or found[1] == "system-search"


def test_different_cuda_path_and_cuda_home_warn(ask, tmp_path):
    snippet = """
import warnings
with warnings.catch_warnings(record=True) as seen:
    warnings.simplefilter("always")
    first = pathfinder.get_cuda_path_or_home()
    pathfinder.get_cuda_path_or_home()
print(json.dumps([first, [w.category.__name__ for w in seen]]))
"""
    assert ask(snippet, CUDA_PATH="/one", CUDA_HOME="/two") == ["/one", ["CucoreWarning"]]
    assert ask(snippet, CUDA_HOME="/two") == ["/two", []]
    assert ask(snippet) == [None, []]


def test_loaded_library_precedes_the_search(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "elsewhere/libnvjpeg.so.13")
    shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    snippet = f"import ctypes; ctypes.CDLL({path!r})\n"
    assert ask(snippet + LOAD, CONDA_PREFIX=tmp_path / "env") == [path, "was-already-loaded-from-elsewhere", True]


def test_library_in_the_working_directory_is_not_loaded(ask, shared_library, tmp_path):
    here = tmp_path / "here"
    for place in ("", "lib", "lib64", "nvidia/cu13/lib", "nvidia/nvjpeg/lib", "site-packages/nvidia/cu13/lib"):
        shared_library(here / place / "libnvjpeg.so.13")
    import cuda.pathfinder

    package_root = str(pathlib.Path(cuda.pathfinder.__file__).parents[2])
    for environment in (
        {},
        {"LD_LIBRARY_PATH": ""},
        {"LD_LIBRARY_PATH": ".:"},
        {"LD_LIBRARY_PATH": "lib:lib64"},
        {"CUDA_PATH": "."},
        {"CONDA_PREFIX": "."},
        {"PYTHONPATH": f"{package_root}:."},
        {"PYTHONPATH": f"{package_root}:{here}"},
    ):
        found = ask(TRY, cwd=here, **environment)
        assert found[0] is None or not found[0].startswith(str(here)), environment


def test_dependencies_are_loaded_first(ask, shared_library, tmp_path):
    if ask("print(json.dumps(pathfinder.explain('cufftw').found_via == 'site-packages'))"):
        pytest.skip("this interpreter has a real cuFFT, which comes before conda")
    shared_library(tmp_path / "env/lib/libcufft.so.12", marker=1)
    path = shared_library(tmp_path / "env/lib/libcufftw.so.12", marker=2)
    snippet = """
d = pathfinder.load_nvidia_dynamic_lib("cufftw")
maps = open("/proc/self/maps").read()
print(json.dumps([d.abs_path, "env/lib/libcufft.so.12" in maps]))
"""
    assert ask(snippet, CONDA_PREFIX=tmp_path / "env") == [path, True]


def test_invalid_library_file_is_skipped(ask, shared_library, tmp_path):
    broken = tmp_path / "site-packages/nvidia/cu13/lib/libnvjpeg.so.13"
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"not a library")
    good = shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    put = f"sys.path.append({str(tmp_path / 'site-packages')!r})\n"
    assert ask(put + LOAD, CONDA_PREFIX=tmp_path / "env") == [good, "conda", False]


def test_all_threads_get_the_same_result_object(ask, shared_library, tmp_path):
    shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    snippet = """
import threading
seen = []
gate = threading.Barrier(16)
def work():
    gate.wait()
    seen.append(pathfinder.load_nvidia_dynamic_lib("nvjpeg"))
threads = [threading.Thread(target=work) for _ in range(16)]
[t.start() for t in threads]; [t.join() for t in threads]
print(json.dumps([len(seen), len({id(s) for s in seen})]))
"""
    assert ask(snippet, CONDA_PREFIX=tmp_path / "env") == [16, 1]


def test_concurrent_processes_get_the_same_result(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    answers = {tuple(ask(LOAD, CONDA_PREFIX=tmp_path / "env")) for _ in range(3)}
    assert answers == {(path, "conda", False)}


def test_missing_library_error_lists_every_path(ask, tmp_path):
    found = ask(TRY, CONDA_PREFIX=tmp_path / "env")
    if found[0] is not None:
        return  # this machine has the library; the C++ tests cover the miss
    text, attempts = found[1], found[2]
    assert [str(tmp_path / "env/lib"), "no such folder"] in [a[1:] for a in attempts]
    assert f"{len(attempts)} places were searched" in text and "cucore info --why" in text


def test_headers_static_bitcode_and_programs_are_found_in_conda(ask, tmp_path):
    env = tmp_path / "env"
    for name in ("include/nvFatbin.h", "lib/libcudadevrt.a", "nvvm/libdevice/libdevice.10.bc", "bin/nvprune"):
        (env / name).parent.mkdir(parents=True, exist_ok=True)
        (env / name).write_text("")
    os.chmod(env / "bin/nvprune", 0o755)
    snippet = """
sys.path[:] = [p for p in sys.path if not p.endswith("site-packages")]  # NVIDIA's wheels would come first
h = pathfinder.locate_nvidia_header_directory("nvfatbin")
print(json.dumps([h.abs_path, h.found_via, pathfinder.find_static_lib("cudadevrt"),
    pathfinder.find_bitcode_lib("device"), pathfinder.find_nvidia_binary_utility("nvprune"),
    pathfinder.locate_bitcode_lib("device").filename]))
"""
    assert ask(snippet, CONDA_PREFIX=env) == [
        str(env / "include"),
        "conda",
        str(env / "lib/libcudadevrt.a"),
        str(env / "nvvm/libdevice/libdevice.10.bc"),
        str(env / "bin/nvprune"),
        "libdevice.10.bc",
    ]


def test_explain_loads_nothing_and_lists_shadowed_files(ask, shared_library, tmp_path):
    first = shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    second = shared_library(tmp_path / "env/lib64/libnvjpeg.so.13")
    snippet = """
r = pathfinder.explain("nvjpeg")
print(json.dumps([r.abs_path, r.found_via, {a.place: a.outcome for a in r.attempts}, "libnvjpeg" in open("/proc/self/maps").read(), str(r)]))
"""
    path, via, outcomes, loaded, text = ask(snippet, CONDA_PREFIX=tmp_path / "env")
    assert (path, via, loaded) == (first, "conda", False)
    assert outcomes[first] == "found"
    assert outcomes[second] == "also found, not used"
    assert text.splitlines()[0] == f"nvjpeg (library): {first}, found via conda"


def test_explain_after_loading_names_the_loaded_file(ask, shared_library, tmp_path):
    path = shared_library(tmp_path / "env/lib/libnvjpeg.so.13")
    snippet = """
pathfinder.load_nvidia_dynamic_lib("nvjpeg")
r = pathfinder.explain("nvjpeg")
print(json.dumps([r.abs_path, r.found_via, list(r.attempts[0])]))
"""
    assert ask(snippet, CONDA_PREFIX=tmp_path / "env") == [path, "conda", ["already-loaded", path, "found"]]


def test_import_loads_no_heavy_modules(ask):
    snippet = "print(json.dumps(sorted({'dataclasses', 'inspect', 'subprocess', 'importlib.metadata', 'numpy', 'typing'} & (set(sys.modules) - before))))"
    assert ask(snippet) == []
