# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CHECK: shared variables, matrix accesses, asynchronous copies, textures and leaks. Each fault has a corrected twin."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect, run

pytestmark = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")


def finds(kind: str, body: str, *parts: str, block: int = 32, width: str = "") -> None:
    code = "700" if kind == "memory" else "719"
    environment = {"CUCORE_CHECK": kind, "CUCORE_CPU_W": width}
    text = expect(f"print(*run({body!r}, block={block}))", code, environment)
    for part in parts:
        assert part in text, text


def is_clean(kind: str, body: str, block: int = 32, width: str = "") -> None:
    environment = {"CUCORE_CHECK": kind, "CUCORE_CPU_W": width}
    expect(f"driver.cuMemsetD8(int(buffer.handle), 1, 1024); print(*run({body!r}, block={block}))", "0 \n", environment)


TWO_ARRAYS = """.shared .align 4 .b8 first[64]; .shared .align 4 .b8 second[64];
    mov.u32 %r3, first; mad.lo.u32 %r4, %r2, 4, %r3; mov.u32 %r6, second; mad.lo.u32 %r7, %r2, 4, %r6;
"""


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", ["1", "4", "16", "32", ""])
def test_overflow_from_one_shared_variable_into_the_next_is_reported(width: str) -> None:
    body = TWO_ARRAYS + "st.shared.u32 [%r4], %r2; st.shared.u32 [%r7], %r2;"
    is_clean("memory", body, block=16, width=width)
    finds("memory", body, "at byte 64 of a shared variable of 64 bytes", "thread (16, 0, 0)", block=17, width=width)
    is_clean("memory", TWO_ARRAYS + "st.shared.u32 [first+60], 1; st.shared.u32 [second], 1;", width=width)
    finds("memory", TWO_ARRAYS + "st.shared.u32 [first+64], 1;", "a shared variable of 64 bytes", width=width)
    finds("memory", TWO_ARRAYS + "ld.shared.u32 %r5, [%r7+-4]; st.global.u32 [%rd1], %r5;", "byte -4", width=width)


OTHER_BLOCK = """.shared .align 4 .b8 mine[128]; mov.u32 %r3, mine; cvt.u64.u32 %rd2, %r3; cvta.shared.u64 %rd3, %rd2;
    mov.u32 %r4, %cluster_ctarank; xor.b32 %r4, %r4, 1; mapa.u64 %rd4, %rd3, %r4; mul.wide.u32 %rd5, %r2, 4;
    add.u64 %rd6, %rd4, %rd5; barrier.cluster.arrive; barrier.cluster.wait; st.u32 [%rd6], %r2;
    barrier.cluster.arrive; barrier.cluster.wait;
"""


@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_variable_of_another_block_of_the_cluster_is_not_reported() -> None:
    """Its address is computed from that of the block's own variable."""
    launch = f"launch(stream, LaunchConfig(grid=1, cluster=2, block=32), kernel({OTHER_BLOCK!r}), buffer)"
    expect(f"{launch}; stream.sync(); print('clean')", "clean", {"CUCORE_CHECK": "memory"})


# Lanes 0 to 7 give the addresses of the rows of one matrix; %r4 is row tid % 8.
MATRIX = """.shared .align 16 .b8 matrix[128]; mov.u32 %r3, matrix; and.b32 %r5, %r2, 7; mad.lo.u32 %r4, %r5, 16, %r3;
    st.shared.u32 [%r4], 1; st.shared.u32 [%r4+4], 1; st.shared.u32 [%r4+8], 1; st.shared.u32 [%r4+12], 1; bar.sync 0;
"""
LOAD = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r6}, [%r4]; st.global.u32 [%rd1], %r6;"
STORE = "stmatrix.sync.aligned.m8n8.x1.shared.b16 [%r4], {%r2};"


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
@pytest.mark.parametrize("access", [LOAD, STORE])
def test_rows_of_a_matrix_outside_of_shared_memory_are_reported(access: str) -> None:
    is_clean("memory", MATRIX + access)
    finds("memory", MATRIX + "add.u32 %r4, %r4, 16;" + access, "offset 128 of shared memory", "thread (7, 0, 0)")


@pytest.mark.promise("Check mode finds reads of uninitialized memory")
def test_matrix_load_of_uninitialized_memory_is_reported() -> None:
    is_clean("init", MATRIX + LOAD)
    finds("init", MATRIX.partition("st.shared")[0] + LOAD, "uninitialized read", "shared memory")
    is_clean("init", MATRIX.partition("st.shared")[0] + STORE + LOAD)  # a store initializes it


@pytest.mark.promise("Check mode finds data races and names both accesses")
def test_matrix_store_and_read_without_a_barrier_race() -> None:
    other = "xor.b32 %r7, %r2, 32; and.b32 %r7, %r7, 7; mad.lo.u32 %r8, %r7, 16, %r3;"
    body = (
        MATRIX
        + "setp.lt.u32 %p1, %r2, 32; @%p1 bra READ;"
        + STORE
        + "bra END; READ: {0} ld.shared.u32 %r9, [%r8]; END:"
    )
    finds("race", body.replace("{0}", other), "data race", block=64)
    ordered = MATRIX + STORE + "bar.sync 0; ld.shared.u32 %r9, [%r4]; st.global.u32 [%rd1], %r9;"
    is_clean("race", ordered, block=32)


COPY = ".shared .align 16 .b8 to[256]; mov.u32 %r3, to; mad.lo.u32 %r4, %r2, 4, %r3; cp.async.ca.shared.global [%r4], [%rd1], 4;\n"
USE = "ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd1+512], %r5;"


@pytest.mark.promise("Check mode finds data races and names both accesses")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_read_before_the_wait_for_an_asynchronous_copy_is_reported() -> None:
    text = ("asynchronous copy", "cp.async.wait_group", "thread (0, 0, 0) of block (0, 0, 0)")
    finds("race", COPY + USE, *text)
    finds("race", COPY + "cp.async.commit_group;" + USE, *text)
    finds("race", COPY + "cp.async.commit_group; cp.async.wait_group 1;" + USE, *text)
    is_clean("race", COPY + "cp.async.commit_group; cp.async.wait_group 0;" + USE)
    is_clean("race", COPY + "cp.async.wait_all;" + USE)
    two = COPY + "cp.async.commit_group; cp.async.ca.shared.global [%r4+128], [%rd1], 4; cp.async.commit_group;"
    is_clean("race", two + "cp.async.wait_group 1;" + USE)
    finds("race", two + "cp.async.wait_group 1; ld.shared.u32 %r5, [%r4+128];", *text)


BULK = """.shared .align 16 .b8 to[64]; .shared .align 8 .b64 bar; mbarrier.init.shared.b64 [bar], 1;
    cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [to], [%rd0+{0}], {1}, [bar];
"""


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
def test_bulk_copies_are_checked_on_both_sides() -> None:
    is_clean("memory", BULK.format(960, 64), block=1)
    finds("memory", BULK.format(0, 128), "128-byte write", "a shared variable of 64 bytes", block=1)
    finds("memory", BULK.format(976, 64), "64-byte read", "ends past the 1024-byte allocation", block=1)


TEXTURE = """
        error, memory = driver.cuMemAlloc(256)
        driver.cuMemsetD32(memory, 7, 64)
        resource = driver.CUDA_RESOURCE_DESC()
        resource.resType = driver.CUresourcetype.CU_RESOURCE_TYPE_LINEAR
        resource.res.linear.devPtr = memory
        resource.res.linear.format = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32
        resource.res.linear.numChannels = 1
        resource.res.linear.sizeInBytes = 256
        settings = driver.CUDA_TEXTURE_DESC()
        settings.flags = 1
        error, texture = driver.cuTexObjectCreate(resource, settings, None)
        assert int(error) == 0, error
        stream.sync()
        {0}
        body = "tex.1d.v4.u32.s32 {{%r5, %r6, %r7, %r8}}, [%rd0, {{%r2}}]; setp.eq.u32 %p1, %r5, 7; @%p1 ret; trap;"
        print(*run(body, argument=ctypes.c_uint64(int(texture))))
"""


@pytest.mark.promise("Check mode finds accesses out of bounds, into a neighbouring allocation and after the free")
@pytest.mark.parametrize("width", ["1", ""])
def test_destroyed_texture_and_texture_of_freed_memory_are_reported(width: str) -> None:
    environment = {"CUCORE_CHECK": "memory", "CUCORE_CPU_W": width}
    expect(TEXTURE.format(""), "0 \n", environment)
    text = expect(TEXTURE.format("driver.cuTexObjectDestroy(texture)"), "700", environment)
    assert "use of a destroyed object" in text and "thread (0, 0, 0)" in text
    text = expect(TEXTURE.format("driver.cuMemFree(memory)"), "700", environment)
    assert "use after free" in text and "texture object" in text


def test_leaks_are_printed_at_exit_with_the_calls_that_allocated() -> None:
    code = """
        def allocate_a_table():
            return driver.cuMemAlloc(4096)[1]
        table = allocate_a_table()
        buffer.close(stream)
        stream.sync()
        {0}
    """
    done = run(code.format(""), {"CUCORE_CHECK": "leak"})
    assert done.returncode == 0, done.stderr
    assert "leak: 4096 bytes of device memory" in done.stderr, done.stderr
    assert "in allocate_a_table" in done.stderr and "1 allocations with 4096 bytes were not freed" in done.stderr
    done = run(code.format("driver.cuMemFree(table)"), {"CUCORE_CHECK": "leak"})
    assert done.returncode == 0 and "leak" not in done.stderr, done.stderr
