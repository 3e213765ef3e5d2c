# SPDX-License-Identifier: Apache-2.0
"""Damaged PTX, containers and link-time code are rejected with an error and never crash the process."""

import random

import pytest
from cuda.bindings import driver
from cuda.core import CUDAError, Linker, LinkerOptions, ObjectCode, Program, ProgramOptions

PTX = """.version 8.0
.target sm_80
.address_size 64
.visible .global .align 4 .u32 counter = 3;
.visible .entry k(.param .u64 out, .param .u32 n)
{
    .reg .pred %p<2>;
    .reg .b32 %r<4>;
    .reg .b64 %rd<3>;
    ld.param.u64 %rd1, [out];
    ld.param.u32 %r1, [n];
    mov.u32 %r2, %tid.x;
    setp.ge.u32 %p1, %r2, %r1;
    @%p1 bra done;
    mad.lo.s32 %r3, %r1, %r2, 7;
    st.global.u32 [%rd1], %r3;
done:
    ret;
}
"""

DAMAGE = pytest.mark.promise("A damaged cubin, fatbin, container or link-time module is an error, never a crash")


def still_loads():
    assert ObjectCode.from_ptx(PTX.encode()).get_kernel("k") is not None


def load(make, data):
    """True if the code loads; an error must be one of the loader's."""
    try:
        make(data).get_kernel("k")
    except (CUDAError, RuntimeError, ValueError) as error:
        code = getattr(error, "code", None)
        assert code in (None, 1, 2, 200, 209, 218, 222, 300, 301, 500), str(error)
        assert str(error)
        return False
    return True


def truncations(data, count):
    step = max(1, len(data) // count)
    for end in range(0, len(data), step):
        yield data[:end]


def flips(data, count, seed=1):
    numbers = random.Random(seed)
    for _ in range(count):
        changed = bytearray(data)
        for _ in range(numbers.choice((1, 1, 2, 8))):
            changed[numbers.randrange(len(changed))] ^= 1 << numbers.randrange(8)
        yield bytes(changed)


@pytest.mark.promise("Malformed PTX is error 218 with line and column")
def test_truncated_ptx_raises(device):
    for text in truncations(PTX.encode(), 60):
        assert not load(ObjectCode.from_ptx, text) or text.rstrip().endswith(b"}")
    still_loads()


@pytest.mark.promise("Malformed PTX is error 218 with line and column")
def test_ptx_syntax_error_names_the_line(device):
    with pytest.raises(CUDAError) as caught:
        ObjectCode.from_ptx(PTX.replace("mad.lo.s32", "mad.xx.s32").encode()).get_kernel("k")
    assert caught.value.code == 218 and ("15:" in str(caught.value) or "line 15" in str(caught.value))


@DAMAGE
def test_ptx_with_flipped_bits_never_crashes(device):
    for text in flips(PTX.encode(), 150):
        load(ObjectCode.from_ptx, text)
    still_loads()


@pytest.mark.promise("A failed load leaks nothing, and the next load works")
def test_failed_load_leaves_no_symbols(device):
    broken = PTX.replace("ret;", "ret; bogus.u32 %r1;")
    for _ in range(3):
        with pytest.raises(CUDAError):
            ObjectCode.from_ptx(broken.encode()).get_kernel("k")
        still_loads()


def fatbin():
    nvfatbin = pytest.importorskip("cuda.bindings.nvfatbin")
    try:
        handle = nvfatbin.create(["-64"], 1)
    except Exception as error:
        pytest.skip(f"nvFatbin is not installed: {error}")
    code = PTX.encode() + b"\0"
    nvfatbin.add_ptx(handle, code, len(code), "80", "k", "")
    data = bytearray(nvfatbin.size(handle))
    nvfatbin.get(handle, data)
    nvfatbin.destroy(handle)
    return bytes(data)


@DAMAGE
@pytest.mark.parametrize("kind", ["cubin", "fatbin"])
@pytest.mark.cpu_only  # NVIDIA's driver does not validate its files
def test_truncated_or_changed_container_never_crashes(device, code, kind):
    data, make = (code, ObjectCode.from_cubin) if kind == "cubin" else (fatbin(), ObjectCode.from_fatbin)
    for text in truncations(data, 40):
        load(make, text)
    for text in flips(data, 60):
        load(make, text)
    for text in flips(data[:256], 200):  # the headers contain lengths and offsets
        load(make, text + data[256:])
    still_loads()


@DAMAGE
@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\0",
        b"\x7fELF",
        b"\x7fELF" + b"\xff" * 60,
        b"\x50\xed\x55\xba" + b"\xff" * 60,
        b"{",
        b"\0" * 4096,
        bytes(range(256)) * 16,
    ],
    ids=repr,
)
@pytest.mark.parametrize("kind", ["from_ptx", "from_cubin", "from_fatbin", "from_ltoir", "from_object", "from_library"])
def test_bytes_that_are_not_code_raise(device, kind, data):
    with pytest.raises((CUDAError, RuntimeError, ValueError)):
        getattr(ObjectCode, kind)(data).get_kernel("k")
    still_loads()


@DAMAGE
@pytest.mark.cpu_only
def test_driver_load_functions_reject_bad_images(device, code):
    for data in (*truncations(code, 20), *flips(code[:256], 60), b"", b"\x7fELF"):
        image = bytes(data) + b"\0" * 64
        error, module = driver.cuModuleLoadData(image)
        if error == 0:
            driver.cuModuleUnload(module)
        else:
            assert int(error) in (1, 2, 200, 209, 218, 222, 300), error


@DAMAGE
def test_damaged_link_time_code_raises(device):
    try:
        good = Program(
            'extern "C" __global__ void k() {}',
            "c++",
            ProgramOptions(arch=f"sm_{device.arch}", link_time_optimization=True),
        ).compile("ltoir")
    except RuntimeError as error:
        pytest.skip(str(error))
    options = LinkerOptions(arch=f"sm_{device.arch}", link_time_optimization=True)
    for data in (b"", b"garbage", good.code[: len(good.code) // 2]):
        with pytest.raises((CUDAError, RuntimeError, ValueError)):
            Linker(ObjectCode.from_ltoir(data), options=options).link("cubin")
    still_loads()


@pytest.mark.cpu_only
@pytest.mark.promise("Excessively nested or repeated PTX is refused before it exhausts the process")
@pytest.mark.parametrize(
    "text",
    [
        "{" * 100_000,
        "(" * 100_000,
        ".visible .global .u32 x = " + "(" * 100_000 + "1" + ")" * 100_000 + ";",
        ".visible .global .u32 x = " + "-" * 100_000 + "1;",
        ".visible .global .u32 x = " + "1+" * 100_000 + "1;",
        ".visible .entry k() {" + "{" * 50_000 + "}" * 50_000 + "}",
        ".visible .global .u32 x[" + "9" * 5000 + "];",
        ".visible .global .b8 x[9223372036854775807];",
        ".visible .global .b8 x[1000000][1000000][1000000];",
        ".visible .entry k() { .reg .b32 %r<4294967295>; ret; }",
        ".visible .entry k() { .reg .b32 %r<100000000>; ret; }",
        ".visible .entry k() { .shared .b8 s[4611686018427387904]; ret; }",
        ".visible .entry k() { .local .b8 s[4611686018427387904]; ret; }",
        ".visible .entry k(.param .b8 p[2147483647]) { ret; }",
        ".global .u32 " + "a" * 1_000_000 + ";",
        "// " + "x" * 1_000_000,
        "/*" + "x" * 1_000_000,
        '.file 1 "' + "x" * 1_000_000,
        ".visible .entry k() {" + "L: bra L;" * 10_000 + "}",
    ],
    ids=lambda text: text[:40],
)
def test_deeply_nested_or_endless_ptx_is_rejected(device, text):
    load(ObjectCode.from_ptx, f".version 8.0\n.target sm_80\n.address_size 64\n{text}\n".encode())
    still_loads()


@pytest.mark.promise(
    "PTX of an unknown version or with an unknown instruction is an error that names it; no kernel is skipped"
)
@pytest.mark.cpu_only
def test_module_with_an_unknown_instruction_raises_and_loads_no_kernel(device):
    text = PTX + PTX[PTX.index(".visible .entry") :].replace("entry k", "entry other").replace(
        "mad.lo.s32", "frobnicate.s32"
    )
    with pytest.raises(CUDAError, match="frobnicate") as caught:
        ObjectCode.from_ptx(text.encode()).get_kernel("k")
    assert caught.value.code in (218, 222)
    with pytest.raises(CUDAError, match="99") as caught:
        ObjectCode.from_ptx(PTX.replace("8.0", "99.0").encode()).get_kernel("k")
    assert caught.value.code == 222
