# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CHECK with the complete device: allocations, frees and copies."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect, run

pytestmark = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")

TWO = """
        error, first = driver.cuMemAlloc(1024)
        error, second = driver.cuMemAlloc(1024)
        driver.cuMemsetD8(first, 1, 1024)
        driver.cuMemsetD8(second, 1, 1024)
        distance = int(second) - int(first)
"""


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
def test_access_to_a_neighbouring_allocation_is_reported() -> None:
    body = 'f"st.global.u32 [%rd0+{distance}], 1;"'
    expect(
        TWO + f"        print(run({body}, argument=ctypes.c_uint64(int(first)), block=1)[0])", "0", {"CUCORE_CHECK": ""}
    )
    text = expect(
        TWO + f"        print(*run({body}, argument=ctypes.c_uint64(int(first)), block=1))",
        "700",
        {"CUCORE_CHECK": "memory"},
    )
    assert (
        "out-of-bounds access" in text and "counted from a parameter that points into the 1024-byte allocation" in text
    )


def test_pointer_selected_between_parameter_and_variable_is_not_reported() -> None:
    body = "mov.u64 %rd2, table; setp.lt.u32 %p0, %r2, 5; selp.b64 %rd3, %rd0, %rd2, %p0; ld.u32 %r3, [%rd3]; st.global.u32 [%rd1], %r3;"
    expect(
        f"""
        before = ".visible .global .align 16 .u32 table[4] = {{1, 2, 3, 4}};"
        error, memory = driver.cuMemAlloc(1024)
        driver.cuMemsetD8(memory, 1, 1024)
        print(*run("{body}", before, argument=ctypes.c_uint64(int(memory))))
        """,
        "0 \n",
        {"CUCORE_CHECK": "memory"},
    )


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
def test_access_past_the_exact_end_of_an_allocation_is_reported() -> None:
    code = """
        error, memory = driver.cuMemAlloc(1000)
        print(*run("st.global.u32 [%rd0+{0}], 1;", argument=ctypes.c_uint64(int(memory)), block=1))
    """
    expect(code.replace("{0}", "996"), "0 \n", {"CUCORE_CHECK": "memory"})
    text = expect(code.replace("{0}", "1000"), "700", {"CUCORE_CHECK": "memory"})
    assert "past the end of the 1000-byte device allocation" in text


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
@pytest.mark.parametrize(
    "how", ["driver.cuMemFree(memory)", "driver.cuMemFreeAsync(memory, int(stream.handle)); stream.sync()"]
)
def test_use_after_free_names_the_allocation(how: str) -> None:
    allocate = "driver.cuMemAlloc(4096)" if "Async" not in how else "driver.cuMemAllocAsync(4096, int(stream.handle))"
    text = expect(
        f"""
        error, memory = {allocate}
        {how}
        others = [driver.cuMemAllocAsync(4096, int(stream.handle)) for _ in range(8)]
        print(*run("st.global.u32 [%rd1], 1;", argument=ctypes.c_uint64(int(memory))))
        """,
        "700",
        {"CUCORE_CHECK": "memory"},
    )
    assert "use after free" in text and "4096-byte allocation" in text and "freed" in text


@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_memory_freed_in_stream_order_is_usable_before_the_free() -> None:
    expect(
        """
        error, memory = driver.cuMemAllocAsync(4096, int(stream.handle))
        launch(stream, LaunchConfig(grid=1, block=64), kernel("st.global.u32 [%rd1], 1;"), ctypes.c_uint64(int(memory)))
        driver.cuMemFreeAsync(memory, int(stream.handle))
        stream.sync()
        print("fine")
        """,
        "fine",
        {"CUCORE_CHECK": "memory"},
    )


@pytest.mark.parametrize("allocate", ["cuMemAllocAsync(4096, queue)", "cuMemAlloc(4096)"])
def test_a_free_in_stream_order_does_not_wait_for_the_stream(allocate: str) -> None:
    """The kernel before the free waits for the program, and then accesses the memory."""
    code = f"""
        queue = int(stream.handle)
        error, memory = driver.{allocate}
        error, block = driver.cuMemAllocHost(16)
        words = (ctypes.c_uint64 * 2).from_address(int(block))
        words[0], words[1] = 0, int(memory)
        waiter = kernel(
            "L: ld.volatile.global.u32 %r3, [%rd0]; setp.eq.u32 %p1, %r3, 0; @%p1 bra L;"
            "ld.global.u64 %rd2, [%rd0+8]; st.global.u32 [%rd2], %r3;"
        )
        launch(stream, LaunchConfig(grid=1, block=1), waiter, ctypes.c_uint64(int(block)))
        assert driver.cuMemFreeAsync(memory, queue)[0] == 0
        again = int(driver.cuMemFreeAsync(memory, queue)[0])
        words[0] = 1
        print(again, int(driver.cuStreamSynchronize(queue)[0]))
    """
    expect(code, "1 0\n", {"CUCORE_CHECK": "memory"})


@pytest.mark.promise("Check mode finds reads of uninitialized memory")
def test_uninitialized_read_is_reported_and_copies_initialize_memory() -> None:
    code = """
        error, memory = driver.cuMemAlloc(1024)
        {0}
        print(*run("ld.global.u32 %r3, [%rd1+512]; st.global.u32 [%rd1], %r3;", argument=ctypes.c_uint64(int(memory))))
    """
    text = expect(code.replace("{0}", ""), "719", {"CUCORE_CHECK": "init"})
    assert "uninitialized read" in text and "device memory" in text
    for write in (
        "driver.cuMemsetD32(memory, 0, 256)",
        "driver.cuMemcpyHtoD(memory, bytes(1024), 1024)",
        'run("st.global.u32 [%rd1+512], %r2;", argument=ctypes.c_uint64(int(memory)))',
    ):
        expect(code.replace("{0}", write), "0 \n", {"CUCORE_CHECK": "init"})


@pytest.mark.promise("Check mode finds reads of uninitialized memory")
def test_uninitialized_words_in_the_middle_of_a_block_are_reported() -> None:
    code = """
        error, memory = driver.cuMemAlloc(1024)
        driver.cuMemsetD32(memory, 0, {0})
        print(*run("ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1+512], %r3;", argument=ctypes.c_uint64(int(memory))))
    """
    expect(code.replace("{0}", "64"), "0 \n", {"CUCORE_CHECK": "init"})
    expect(code.replace("{0}", "64"), "0 \n", {"CUCORE_CHECK": "all"})
    for count, checks in (("40", "init"), ("63", "init"), ("40", "all")):
        text = expect(code.replace("{0}", count), "719", {"CUCORE_CHECK": checks})
        assert "uninitialized read" in text and f"thread ({count}, 0, 0)" in text


TWO_PARAMETERS = """
        text = HEAD + '''.visible .entry k(.param .u64 out, .param .u64 in) {
          .reg .b32 %r<8>; .reg .b64 %rd<8>; .reg .pred %p<2>;
          mov.u32 %r0, %ctaid.x; mov.u32 %r1, %ntid.x; mov.u32 %r2, %tid.x; mad.lo.u32 %r3, %r0, %r1, %r2;
          ld.param.u64 %rd0, [out]; ld.param.u64 %rd1, [in]; mul.wide.u32 %rd2, %r3, 4;
          add.u64 %rd3, %rd0, %rd2; add.u64 %rd4, %rd1, %rd2;
          ld.global.u32 %r4, [%rd4+4]; ld.global.u32 %r5, [%rd1]; add.u32 %r4, %r4, %r5; add.u32 %r4, %r4, %r3;
          st.global.u32 [%rd3], %r4; ret; }'''
        both = ObjectCode.from_ptx(text.encode()).get_kernel("k")
        try:
            launch(stream, LaunchConfig(grid=2, block=64), both, ctypes.c_uint64(int(first)), ctypes.c_uint64({0}))
            stream.sync()
            print(0)
        except CUDAError as error:
            print(int(error.code), error)
"""


@pytest.mark.promise("Check mode finds data races and names both accesses")
def test_a_parameter_that_is_only_read_races_if_it_is_memory_that_is_written() -> None:
    for checks in ("race", "all"):
        expect(TWO + TWO_PARAMETERS.replace("{0}", "int(second)"), "0\n", {"CUCORE_CHECK": checks})
        text = expect(TWO + TWO_PARAMETERS.replace("{0}", "int(first)"), "719", {"CUCORE_CHECK": checks})
        assert "data race" in text, text


@pytest.mark.promise("An invalid setting is an error that names the variable and the accepted values")
def test_invalid_check_value_raises_an_error_that_names_the_variable() -> None:
    done = run("", {"CUCORE_CHECK": "memroy"})
    assert done.returncode != 0 and "CUCORE_CHECK=memroy: expected a list of memory, race, init, sync" in done.stderr, (
        done.stderr
    )


READ_AND_WRITE = "ld.global.u32 %r3, [%rd1]; st.global.u32 [%rd1+256], %r3;"


def test_check_mode_set_after_the_first_use_of_the_driver_has_no_effect() -> None:
    """Copies before it have recorded nothing, so that all memory would count as uninitialized."""
    done = run(
        f"""
        error, memory = driver.cuMemAlloc(512)
        driver.cuMemsetD32(memory, 0, 128)
        for kinds in ("init", "all", "race", "memory,init"):
            os.environ["CUCORE_CHECK"] = kinds
            print(*run("{READ_AND_WRITE}", argument=ctypes.c_uint64(int(memory))))
        """,
        {"CUCORE_CHECK": ""},
    )
    assert done.stdout == "0 \n" * 4, done.stdout + done.stderr
    line = 'cucore: CUCORE_CHECK="init" has no effect: the driver has read "" when it was first used\n'
    assert done.stderr.count("has no effect") == 1 and line in done.stderr, done.stderr


def test_modules_loaded_without_the_variable_keep_the_check_mode_of_the_process() -> None:
    """A kernel without checks would not record that it has initialized memory."""
    text = expect(
        f"""
        error, memory = driver.cuMemAlloc(512)
        del os.environ["CUCORE_CHECK"]
        print(*run("st.global.u32 [%rd1], 1;", argument=ctypes.c_uint64(int(memory))))
        os.environ["CUCORE_CHECK"] = "init"
        print(*run("{READ_AND_WRITE}", argument=ctypes.c_uint64(int(memory))))
        del os.environ["CUCORE_CHECK"]
        error, memory = driver.cuMemAlloc(512)
        print(*run("{READ_AND_WRITE}", argument=ctypes.c_uint64(int(memory))))
        """,
        "0 \n0 \n719 ",
        {"CUCORE_CHECK": "init"},
    )
    assert "uninitialized read" in text
