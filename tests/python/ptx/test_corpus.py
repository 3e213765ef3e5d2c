"""CUDA C++ as programmers write it (corpus/*.cu: CUB, cooperative groups, libcu++, half precision, tensor cores, the language), compiled by
NVRTC, loads on the device CUCORE_DEVICE names; what has a simple answer also runs and gives it."""

from __future__ import annotations

import ctypes
import functools
import importlib.util
import struct
from pathlib import Path

import pytest
from test_instructions import library

import instructions

FOLDER = Path(__file__).resolve().parent / "corpus"


def wheel_folder() -> Path | None:
    spec = importlib.util.find_spec("nvidia")
    for base in spec.submodule_search_locations if spec and spec.submodule_search_locations else []:
        if Path(base, "cu13", "lib", "libnvrtc.so.13").exists():
            return Path(base, "cu13")
    return None


WHEELS = wheel_folder()
pytestmark = pytest.mark.skipif(WHEELS is None, reason="NVRTC's wheel is not installed")


@functools.lru_cache(maxsize=None)
def compile_ptx(name: str, arch: str) -> bytes:
    nvrtc = ctypes.CDLL(str(WHEELS / "lib" / "libnvrtc.so.13"))
    program = ctypes.c_void_p()
    source = (FOLDER / name).read_bytes()
    assert nvrtc.nvrtcCreateProgram(ctypes.byref(program), source, name.encode(), 0, None, None) == 0
    options = [f"--gpu-architecture={arch}", "-std=c++17", "--device-int128", f"-I{WHEELS}/include", f"-I{WHEELS}/include/cccl"]
    array = (ctypes.c_char_p * len(options))(*[o.encode() for o in options])
    code = nvrtc.nvrtcCompileProgram(program, len(options), array)
    size = ctypes.c_size_t()
    if code != 0:
        nvrtc.nvrtcGetProgramLogSize(program, ctypes.byref(size))
        log = ctypes.create_string_buffer(size.value)
        nvrtc.nvrtcGetProgramLog(program, log)
        raise AssertionError(log.value.decode())
    nvrtc.nvrtcGetPTXSize(program, ctypes.byref(size))
    text = ctypes.create_string_buffer(size.value)
    nvrtc.nvrtcGetPTX(program, text)
    nvrtc.nvrtcDestroyProgram(ctypes.byref(program))
    return text.raw


@pytest.fixture(scope="module")
def driver() -> instructions.Driver:
    return instructions.Driver(library())


def kernels(text: bytes) -> list[bytes]:
    return [line.split(b".entry ")[1].split(b"(")[0].strip() for line in text.splitlines() if b".entry " in line]


@pytest.mark.parametrize("arch", ["compute_75", "compute_90"])
@pytest.mark.parametrize("name", sorted(path.name for path in FOLDER.glob("*.cu")))
def test_a_program_loads_with_all_its_kernels(driver: instructions.Driver, name: str, arch: str) -> None:
    if arch == "compute_75" and name in ("cooperative.cu", "half.cu"):
        pytest.skip("uses features of sm_90")
    text = compile_ptx(name, arch)
    module = driver.load(text)
    for kernel in kernels(text):
        function = ctypes.c_void_p()
        driver.check("cuModuleGetFunction", ctypes.byref(function), module, kernel)
    driver.check("cuModuleUnload", module)


class Launcher:
    """Loads a program and calls its kernels with buffers (bytes, read back) and plain values (struct format, value)."""

    def __init__(self, driver: instructions.Driver, name: str) -> None:
        self.driver, self.module = driver, driver.load(compile_ptx(name, "compute_90"))

    def __call__(self, kernel: str, grid: int, block: int, *arguments: object, cooperative: bool = False) -> list[bytes]:
        check, buffers, cells = self.driver.check, [], []
        for argument in arguments:
            if isinstance(argument, bytes):
                buffer = ctypes.c_uint64()
                check("cuMemAlloc_v2", ctypes.byref(buffer), ctypes.c_size_t(len(argument)))
                check("cuMemcpyHtoD_v2", buffer, argument, ctypes.c_size_t(len(argument)))
                buffers.append((buffer, len(argument)))
                cells.append(buffer)
            else:
                layout, value = argument  # type: ignore[misc]
                cells.append(ctypes.create_string_buffer(struct.pack(layout, *value), struct.calcsize(layout)))
        function = ctypes.c_void_p()
        check("cuModuleGetFunction", ctypes.byref(function), self.module, kernel.encode())
        params = (ctypes.c_void_p * len(cells))(*[ctypes.cast(ctypes.pointer(c), ctypes.c_void_p) for c in cells])
        launch = "cuLaunchCooperativeKernel" if cooperative else "cuLaunchKernel"
        extra = (None, params) if cooperative else (None, params, None)
        check(launch, function, grid, 1, 1, block, 1, 1, 0, *extra)
        check("cuCtxSynchronize")
        out = []
        for buffer, size in buffers:
            data = ctypes.create_string_buffer(size)
            check("cuMemcpyDtoH_v2", data, buffer, ctypes.c_size_t(size))
            check("cuMemFree_v2", buffer)
            out.append(data.raw)
        return out


def ints(data: bytes) -> list[int]:
    return list(struct.unpack(f"<{len(data) // 4}i", data))


def packed(values: list[int]) -> bytes:
    return struct.pack(f"<{len(values)}I", *[v & 0xFFFFFFFF for v in values])


def test_cub_sorts_and_sums(driver: instructions.Driver) -> None:
    run = Launcher(driver, "cub.cu")
    keys = [(i * 2654435761) & 0xFFFFFFFF for i in range(1024)]
    _, out = run("sorts", 2, 128, packed(keys), bytes(4096))
    got = list(struct.unpack("<1024I", out))
    assert got == sorted(keys[:512], reverse=True) + sorted(keys[512:], reverse=True)
    values = [float(i % 7) for i in range(256)]
    _, out = run("sums", 1, 256, struct.pack("<256f", *values), bytes(4 * 257), ("<i", (200,)))
    result = struct.unpack("<257f", out)
    assert result[256] == sum(values[:200])
    warp_max = {w: max(values[16 * w : 16 * w + 16]) for w in range(16)}
    for t in (0, 16, 240):  # the first thread of a logical warp has its maximum
        assert result[t] == sum(values[:t]) + sum(values) + warp_max[t // 16]


def test_grid_sync_and_clusters_meet(driver: instructions.Driver) -> None:
    run = Launcher(driver, "cooperative.cu")
    n = 64
    (out,) = run("grids", 4, 16, packed([1] * n), ("<i", (n,)), cooperative=True)
    assert all(v > 1 for v in ints(out))
    (out,) = run("clusters", 2, 32, packed(list(range(32))))
    assert sorted(ints(out)) == list(range(32))
    values = [float(i) for i in range(512)]
    _, out = run("copies", 2, 256, struct.pack("<512f", *values), bytes(2048))
    assert list(struct.unpack("<512f", out)) == values[255::-1] + values[:255:-1]


def test_libcudacxx_atomics_barriers_and_pipelines(driver: instructions.Driver) -> None:
    run = Launcher(driver, "libcudacxx.cu")
    (out,) = run("barriers", 1, 64, packed(list(range(64))))
    # After the barrier each thread reads its neighbour, which may already have added its own.
    assert ints(out)[63] >= 64 + 1
    rows = list(range(128 * 4 * 3))
    _, out = run("pipelines", 1, 128, packed(rows), bytes(128 * 16 * 3), ("<i", (3,)))
    wanted = [rows[stage * 512 + (127 - t) * 4 + k] for stage in range(3) for t in range(128) for k in range(4)]
    assert ints(out) == wanted
    a, b, c, d = run("atoms", 2, 32, bytes(64), bytes(64), struct.pack("<8f", *[0.0] * 8), bytes(64))
    assert struct.unpack("<f", c[4:8])[0] == 64 * 1.5 and struct.unpack("<d", d[:8])[0] == 64 * 2.5
    assert ints(a)[3] == 64


def test_tensor_cores_multiply(driver: instructions.Driver) -> None:
    run = Launcher(driver, "tensor.cu")
    a = [[(i * 3 + k) % 5 - 2 for k in range(16)] for i in range(16)]
    b = [[(k * 7 + j) % 3 - 1 for j in range(16)] for k in range(16)]
    halves = struct.pack("<256e", *[float(x) for row in a for x in row])
    columns = struct.pack("<256e", *[float(b[k][j]) for j in range(16) for k in range(16)])
    _, _, c, d = run("products", 1, 32, halves, columns, bytes(1024), bytes(512))
    wanted = [float(sum(a[i][k] * b[k][j] for k in range(16))) for i in range(16) for j in range(16)]
    assert list(struct.unpack("<256f", c)) == wanted
    transposed = struct.unpack("<256e", d)
    assert [transposed[j * 16 + i] for i in range(16) for j in range(16)] == wanted


def test_the_language_works(driver: instructions.Driver) -> None:
    run = Launcher(driver, "language.cu")
    big = struct.pack("<9di4x", *[float(i * i) for i in range(9)], 5)
    a, b = run("everything", 1, 1, struct.pack("<8f", 0, 2, 0, 0, 0, 0, 0, 0), bytes(32), ("<80s", (big,)), ("<i", (4,)))
    f, n = struct.unpack("<8f", a), ints(b)
    assert n[0] == 3 and n[1] == 8 and n[2] == 42 + 7 + 42 and n[3] == ord("z") and n[4] == 9
    assert f[0] == 4.0 + 0.0 and f[2] == float(8 * 8) + 4 + 5
    assert f[3] == 4.0 and f[4] == 2.0
