# SPDX-License-Identifier: Apache-2.0
"""CUCORE_CHECK for textures and surfaces: uninitialized texels, and races in a grid and between streams. Each fault has a corrected twin."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect

pytestmark = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")

WIDTHS = ["", "1"]  # vector code, and the scalar path

# Arrays have 64 texels of 32 bits in a row and 4 rows; all words of the host memory are 7.
PRELUDE = """
    a, b = device.create_stream(), device.create_stream()
    LAYERED, SURFACE, CUBE = 1, 2, 4
    def result_of(answer):
        assert int(answer[0]) == 0, answer
        return answer[1] if len(answer) > 1 else None
    host = result_of(driver.cuMemAllocHost(1 << 16))
    ctypes.memset(int(host), 7, 1 << 16)

    def array_of(width=64, height=4, depth=0, flags=0, levels=0, format="UNSIGNED_INT32"):
        layout = driver.CUDA_ARRAY3D_DESCRIPTOR()
        layout.Width, layout.Height, layout.Depth, layout.NumChannels = width, height, depth, 1
        layout.Format = getattr(driver.CUarray_format, "CU_AD_FORMAT_" + format)
        layout.Flags = flags | SURFACE
        if levels:
            return result_of(driver.cuMipmappedArrayCreate(layout, levels))
        return result_of(driver.cuArray3DCreate(layout))

    def resource_of(target, **linear):
        resource = driver.CUDA_RESOURCE_DESC()
        kinds = driver.CUresourcetype
        if isinstance(target, driver.CUarray):
            resource.resType, resource.res.array.hArray = kinds.CU_RESOURCE_TYPE_ARRAY, target
        elif isinstance(target, driver.CUmipmappedArray):
            resource.resType = kinds.CU_RESOURCE_TYPE_MIPMAPPED_ARRAY
            resource.res.mipmap.hMipmappedArray = target
        else:
            place = resource.res.pitch2D if linear else resource.res.linear
            resource.resType = kinds.CU_RESOURCE_TYPE_PITCH2D if linear else kinds.CU_RESOURCE_TYPE_LINEAR
            place.devPtr, place.format, place.numChannels = target, driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32, 1
            if linear:
                place.width, place.height, place.pitchInBytes = 64, 4, 256
            else:
                place.sizeInBytes = 256
        return resource

    def texture_of(target, normalized=False, filtered=False, **linear):
        settings = driver.CUDA_TEXTURE_DESC()
        settings.flags = (2 if normalized else 0) | (0 if filtered else 1)
        settings.filterMode = driver.CUfilter_mode(1 if filtered else 0)
        settings.addressMode = [driver.CUaddress_mode.CU_TR_ADDRESS_MODE_CLAMP] * 3
        settings.maxMipmapLevelClamp = 8
        return int(result_of(driver.cuTexObjectCreate(resource_of(target, **linear), settings, None)))

    def surface_of(array):
        return int(result_of(driver.cuSurfObjectCreate(resource_of(array))))

    def write(array, y=0, z=0, x=0, width=64, height=1, depth=1, stream=None):
        box = driver.CUDA_MEMCPY3D()
        box.srcMemoryType, box.srcHost = driver.CUmemorytype.CU_MEMORYTYPE_HOST, int(host)
        box.srcPitch, box.srcHeight = 4 * width, height
        box.dstMemoryType, box.dstArray = driver.CUmemorytype.CU_MEMORYTYPE_ARRAY, array
        box.dstXInBytes, box.dstY, box.dstZ = 4 * x, y, z
        box.WidthInBytes, box.Height, box.Depth = 4 * width, height, depth
        result_of(driver.cuMemcpy3D(box) if stream is None else driver.cuMemcpy3DAsync(box, int(stream.handle)))

    # Arrays whose memory is mapped later, as one box; and external memory: a file of 1 MiB.
    SPARSE, DEFERRED = 0x40, 0x80
    def pool():
        wanted = driver.CUmemAllocationProp()
        wanted.type = driver.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
        wanted.location.type = driver.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE
        wanted.allocFlags.usage = driver.CU_MEM_CREATE_USAGE_TILE_POOL
        return result_of(driver.cuMemCreate(1 << 21, wanted, 0))
    def map_tiles(array, memory=None, height=4, tile=0):
        box = driver.CUarrayMapInfo()
        box.resourceType, box.resource.array = driver.CUresourcetype.CU_RESOURCE_TYPE_ARRAY, array
        kinds = driver.CUarraySparseSubresourceType
        box.subresourceType = kinds.CU_ARRAY_SPARSE_SUBRESOURCE_TYPE_SPARSE_LEVEL
        part = box.subresource.sparseLevel
        part.extentWidth, part.extentHeight, part.extentDepth = 64, height, 1
        box.memOperationType = driver.CUmemOperationType(1 if memory is not None else 2)
        box.memHandleType = driver.CUmemHandleType.CU_MEM_HANDLE_TYPE_GENERIC
        box.memHandle.memHandle, box.offset, box.deviceBitMask = memory or 0, tile << 16, 1
        result_of(driver.cuMemMapArrayAsync([box], 1, int(stream.handle)))
        stream.sync()
    PAGE = os.sysconf("SC_PAGE_SIZE")
    def external_memory():
        global file
        file = os.memfd_create("picture")
        os.ftruncate(file, 1 << 20)
        wanted = driver.CUDA_EXTERNAL_MEMORY_HANDLE_DESC()
        wanted.type = driver.CUexternalMemoryHandleType.CU_EXTERNAL_MEMORY_HANDLE_TYPE_OPAQUE_FD
        wanted.handle.fd, wanted.size = os.dup(file), 1 << 20
        return result_of(driver.cuImportExternalMemory(wanted))
    def external_mipmaps():
        wanted = driver.CUDA_EXTERNAL_MEMORY_MIPMAPPED_ARRAY_DESC()
        layout = wanted.arrayDesc
        layout.Width, layout.Height, layout.NumChannels, layout.Flags = 64, 64, 1, SURFACE
        layout.Format, wanted.numLevels = driver.CUarray_format.CU_AD_FORMAT_UNSIGNED_INT32, 3
        return result_of(driver.cuExternalMemoryGetMappedMipmappedArray(external_memory(), wanted))
    def external_buffer():
        part = driver.CUDA_EXTERNAL_MEMORY_BUFFER_DESC()
        part.offset, part.size = 0, 1 << 20
        return int(result_of(driver.cuExternalMemoryGetMappedBuffer(external_memory(), part)))

    def level(mipmaps, number):
        return result_of(driver.cuMipmappedArrayGetLevel(mipmaps, number))

    def two(body):
        text = HEAD + '''.file 1 "image.cu"
        .visible .entry k(.param .u64 first, .param .u64 second) {
          .reg .b32 %r<20>; .reg .f32 %f<20>; .reg .b64 %rd<20>; .reg .pred %p<8>;
          mov.u32 %r2, %tid.x; mov.u32 %r3, 1; shl.b32 %r4, %r2, 2; mul.wide.u32 %rd9, %r2, 4;
          ld.param.u64 %rd0, [first]; ld.param.u64 %rd1, [second];
          ''' + body + " ret; }"
        return ObjectCode.from_ptx(text.encode()).get_kernel("k")

    # Uses what a fetch or load has left in %r5. All values are below 2^31.
    USE = " setp.eq.u32 %p1, %r5, 0xffffffff; @%p1 trap;"
    started = []
    def start(body, first, second=0, stream=stream, block=64):
        started.append(two(body))  # the kernel lives as long as the program
        launch(stream, LaunchConfig(grid=1, block=block), started[-1], ctypes.c_uint64(first), ctypes.c_uint64(second))
"""
TRY = """
    try:
        {}
        stream.sync(), a.sync(), b.sync()
        print("0")
    except CUDAError as error:
        print(int(error.code), str(error))
"""


def program(setup: str, work: str) -> str:
    return PRELUDE + "".join(f"    {line.strip()}\n" for line in setup.strip().splitlines()) + TRY.format(work)


def finds(kinds: str, setup: str, work: str, *parts: str, width: str = "") -> None:
    text = expect(program(setup, work), "719 ", {"CUCORE_CHECK": kinds, "CUCORE_CPU_W": width})
    for part in parts:
        assert part in text, text


def is_silent(kinds: str, setup: str, work: str, width: str = "") -> None:
    expect(program(setup, work), "0\n", {"CUCORE_CHECK": kinds, "CUCORE_CPU_W": width})


FETCH = "tex.{shape}.v4.u32.{type} {{%r5, %r6, %r7, %r8}}, [{object}, {{{at}}}]{level};"


def fetch(shape: str, at: str, type: str = "s32", object: str = "%rd0", level: str = "") -> str:
    name = f"level.{shape}" if level else shape
    return FETCH.format(shape=name, at=at, type=type, object=object, level=level)


LINEAR = fetch("1d", "%r2")
ROW = fetch("2d", "%r2, %r3")  # row 1
LOAD = "suld.b.2d.b32.trap {%r5}, [%rd0, {%r4, %r3}];"
STORE = "sust.b.2d.b32.trap [%rd0, {%r4, %r3}], %r2;"

# The name: setup, which leaves some texels unwritten for {0} and none for {1}; the kernel; its first thread with a report.
UNWRITTEN = {
    "linear memory": (
        "memory = result_of(driver.cuMemAlloc(256)); driver.cuMemsetD32(memory, 7, {}); image = texture_of(int(memory))",
        ("32", "64"),
        LINEAR,
        ("uninitialized device memory", "thread (32, 0, 0)"),
    ),
    "pitched memory": (
        """memory = result_of(driver.cuMemAlloc(1024)); driver.cuMemsetD2D32(memory, 256, 7, {}, 4)
        image = texture_of(int(memory), pitched=True)""",
        ("16", "64"),
        ROW,
        ("uninitialized device memory", "thread (16, 0, 0)"),
    ),
    "an array": (
        "array = array_of(); write(array, height=4, width={}); image = texture_of(array)",
        ("20", "64"),
        ROW,
        ("uninitialized memory of an array", "thread (20, 0, 0)"),
    ),
    "a row of an array": (
        "array = array_of(); write(array, y={}); image = texture_of(array)",
        ("2", "1"),
        ROW,
        ("memory of an array", "thread (0, 0, 0)"),
    ),
    "a layer": (
        "array = array_of(depth=3, flags=LAYERED); write(array, z={}, height=4); image = texture_of(array)",
        ("1", "2"),
        fetch("a2d", "2, %r2, %r3, %r3"),
        ("memory of an array", "thread (0, 0, 0)"),
    ),
    "a face of a cube": (
        """array = array_of(width=4, depth=6, flags=CUBE); write(array, width=4, height=4, depth={})
        image = texture_of(array, normalized=True)""",
        ("5", "6"),
        "mov.f32 %f0, 0f3E800000; mov.f32 %f1, 0fBF800000;"
        + fetch("cube", "%f0, %f0, %f1, %f1", "f32"),  # -z is face 5
        ("memory of an array", "thread (0, 0, 0)"),
    ),
    "a mipmap level": (
        """mipmaps = array_of(width=64, height=64, levels=3); write(level(mipmaps, 0), width=64, height=64)
        write(level(mipmaps, {}), width=16, height=16); image = texture_of(mipmaps, normalized=True)""",
        ("1", "2"),
        "mov.f32 %f0, 0f3F000000; mov.f32 %f1, 0f40000000;" + fetch("2d", "%f0, %f0", "f32", level=", %f1"),
        ("memory of an array", "thread (0, 0, 0)"),
    ),
    "a tile of a sparse array": (
        "array = array_of(flags=SPARSE); map_tiles(array, pool()); write(array, height=4, width={}); image = texture_of(array)",
        ("20", "64"),
        ROW,
        ("memory of an array", "thread (20, 0, 0)"),
    ),
    "an array with deferred mapping": (
        "array = array_of(flags=DEFERRED); map_tiles(array, pool()); write(array, y={}); image = texture_of(array)",
        ("2", "1"),
        ROW,
        ("memory of an array", "thread (0, 0, 0)"),
    ),
    "a page of external memory": (
        "image = texture_of(level(external_mipmaps(), 0)); os.pwrite(file, bytes(PAGE), {} * PAGE)",
        ("1", "0"),
        ROW,
        ("memory of an array", "thread (0, 0, 0)"),
    ),
    "a texel of a 3D array": (
        "array = array_of(depth=3); write(array, z={}, height=4); image = texture_of(array)",
        ("0", "2"),
        fetch("3d", "%r2, %r3, 2, %r3"),
        ("memory of an array", "thread (0, 0, 0)"),
    ),
}


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", UNWRITTEN)
def test_fetch_of_uninitialized_texels_is_reported(name: str, width: str) -> None:
    setup, (wrong, right), body, parts = UNWRITTEN[name]
    work = f"start({body!r} + USE, image)"
    finds("init", setup.format(wrong), work, "uninitialized read", "4-byte texture fetch", *parts, width=width)
    is_silent("all", setup.format(right), work, width=width)


@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_tiles_that_read_as_zeros_or_that_others_may_have_written_are_not_reported(width: str) -> None:
    work = f"start({ROW!r} + USE, image)"
    array = "array = array_of(flags=SPARSE); image = texture_of(array)\n"
    is_silent("all", array, work, width=width)  # no memory: zeros
    is_silent("all", array + "map_tiles(array, pool()); map_tiles(array)", work, width=width)  # no memory any more
    # The memory keeps its data when it is unmapped, and a second mapping can write it.
    is_silent("all", array + "memory = pool(); map_tiles(array, memory); write(array, y=1)\n"
              "map_tiles(array); map_tiles(array, memory)", work, width=width)  # fmt: skip
    second = (
        array + "memory = pool(); map_tiles(array, memory); other = array_of(flags=SPARSE); map_tiles(other, memory"
    )
    is_silent("all", second + "); write(other, y=1)", work, width=width)
    finds("init", second + ", tile=1); write(other, y=1)", work, "uninitialized memory of an array", width=width)
    finds("init", second + "); map_tiles(array, memory, tile=1)", work, "uninitialized memory of an array", width=width)


@pytest.mark.promise("Check mode finds reads of uninitialized memory")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_read_of_external_memory_is_reported_if_nobody_has_touched_the_page(width: str) -> None:
    setup = "memory = external_buffer()"
    work = "start('add.u64 %rd0, %rd0, %rd9; ld.global.u32 %r5, [%rd0];' + USE, memory)"
    finds("init", setup, f"os.pwrite(file, bytes(256), PAGE); {work}", "uninitialized device memory", width=width)
    is_silent("all", setup, f"os.pwrite(file, bytes(256), 0); {work}", width=width)
    is_silent("all", setup, f"driver.cuMemsetD32(memory, 7, 64); {work}", width=width)


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.parametrize("width", WIDTHS)
def test_filtered_fetch_is_reported_for_texels_with_a_weight(width: str) -> None:
    """Texels 0 to 31 are written. At 31.5 texel 32 has no weight; at 32 it has half of it."""
    setup = """array = array_of(width=64, height=0, format="FLOAT"); write(array, width=32); image = texture_of(array, filtered=True)"""
    body = "mov.f32 %f1, {}; tex.1d.v4.f32.f32 {{%f2, %f3, %f4, %f5}}, [%rd0, {{%f1}}]; mov.b32 %r5, %f2;"
    is_silent("init", setup, f"start({body.format('0f41FC0000')!r} + USE, image)", width=width)
    finds("init", setup, f"start({body.format('0f42000000')!r} + USE, image)", "texture fetch of uninit", width=width)


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_surface_load_of_uninitialized_texels_is_reported(width: str) -> None:
    setup = "array = array_of(); image = surface_of(array)"
    load = f"start({LOAD!r} + USE, image)"
    finds("init", setup, load, "4-byte read of uninitialized memory of an array", width=width)
    finds("init", setup, f"write(array, y=1, width=40); {load}", "thread (40, 0, 0)", width=width)
    is_silent("all", setup, f"write(array, y=1); {load}", width=width)
    is_silent("all", setup, f"start({STORE!r}, image); {load}", width=width)
    # Formatted stores, and coordinates out of range, which read as zero.
    formatted = "sust.p.2d.v4.b32.trap [%rd0, {%r2, %r3}], {%r2, %r2, %r2, %r2};"
    is_silent("all", setup, f"start({formatted!r}, image); {load}", width=width)
    outside = LOAD.replace("trap", "zero").replace("%r3}", "77}")
    is_silent("all", setup, f"start({outside!r} + USE, image)", width=width)


@pytest.mark.promise("Check mode reports nothing for correct kernels")
def test_reused_memory_of_an_array_is_uninitialized_again() -> None:
    setup = """array = array_of(); write(array, height=4); result_of(driver.cuArrayDestroy(array))
    again = [array_of() for _ in range(8)]; image = texture_of(again[0])"""
    finds("init", setup, f"start({ROW!r} + USE, image)", "uninitialized memory of an array")


NEXT = "add.u32 %r9, %r4, 4; and.b32 %r9, %r9, 255; suld.b.2d.b32.trap {%r5}, [%rd0, {%r9, %r3}];"


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_surface_accesses_of_two_threads_race_without_a_barrier(width: str) -> None:
    setup = "array = array_of(); write(array, height=4); image = surface_of(array)"
    race = "data race", "without synchronization between the two"
    finds("race", setup, f"start({STORE + NEXT!r} + USE, image)", *race, width=width)
    finds("race", setup, f"start({NEXT!r} + USE + {STORE!r}, image)", *race, width=width)
    is_silent("race", setup, f"start({STORE + 'bar.sync 0;' + NEXT!r} + USE, image)", width=width)
    is_silent("race", setup, f"start({STORE + LOAD!r} + USE, image)", width=width)  # the same thread
    one = "sust.{0}.2d.b32.trap [%rd0, {{0, %r3}}], %r2;"
    for kind in "bp":
        finds("race", setup, f"start({one.format(kind)!r}, image)", *race, width=width)
        is_silent("race", setup, f"start({one.format(kind)!r}, image, block=1)", width=width)
    add = "sured.b.add.2d.u32.trap [%rd0, {0, %r3}], %r2;"
    is_silent("race", setup, f"start({add!r}, image)", width=width)


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.parametrize("width", WIDTHS)
def test_race_of_formatted_stores_names_the_lines_of_both(width: str) -> None:
    """Routines execute them."""
    setup = "array = array_of(); write(array, height=4); image = surface_of(array)"
    store = "\\n.loc 1 {0} 1\\nsust.p.2d.b32.trap [%rd0, {{{1}, %r3}}], %r2;"
    body = store.format(3, "%r2") + " xor.b32 %r9, %r2, 33;" + store.format(4, "%r9")
    work = f"start('{body}', image)"
    finds("race", setup, work, "image.cu:3", "image.cu:4", "write of 4 bytes after a write", "of an array", width=width)


FRESH = "data race", "texture fetch of 4 bytes after a write by thread (", "a fetch need not see what its grid writes"


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
def test_fetch_of_memory_that_the_grid_writes_is_reported(width: str) -> None:
    """Even if a barrier is between the two, or if one thread does both."""
    setup = """memory = result_of(driver.cuMemAlloc(512)); driver.cuMemsetD32(memory, 7, 128)
    image = texture_of(int(memory))"""
    store = "add.u64 %rd2, %rd1, %rd9; st.global.u32 [%rd2{}], %r2;"
    own = store.format("")
    work = "start({!r} + USE + {!r}, image, int(memory))"
    for between in ("", "bar.sync 0;"):
        finds("race", setup, work.format(own + between + LINEAR, ""), *FRESH, width=width)
    # Behind the texture, after the fetch of the same thread, or by a kernel before: defined.
    is_silent("all", setup, work.format(store.format("+256") + LINEAR, ""), width=width)
    is_silent("all", setup, work.format(LINEAR, own), width=width)
    is_silent("all", setup, f"start({own!r}, image, int(memory)); " + work.format(LINEAR, ""), width=width)
    # Another thread writes after the fetch: a barrier orders the two.
    other = "xor.b32 %r9, %r4, 128; cvt.u64.u32 %rd3, %r9; add.u64 %rd2, %rd1, %rd3; st.global.u32 [%rd2], %r2;"
    finds("race", setup, work.format(LINEAR, other), "data race", "thread (32, 0, 0)", width=width)
    is_silent("race", setup, work.format(LINEAR, "bar.sync 0;" + other), width=width)


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("store", ["b", "p"])
def test_fetch_of_an_array_that_the_grid_writes_is_reported(store: str, width: str) -> None:
    setup = """array = array_of(); write(array, height=4); image = surface_of(array); texture = texture_of(array)"""
    at = "%r4" if store == "b" else "%r2"
    body = f"sust.{store}.2d.b32.trap [%rd0, {{{at}, ROW}}], %r2; bar.sync 0;" + fetch("2d", "%r2, %r3", object="%rd1")
    finds("race", setup, f"start({body.replace('ROW', '1')!r} + USE, image, texture)", *FRESH, width=width)
    is_silent("all", setup, f"start({body.replace('ROW', '2')!r} + USE, image, texture)", width=width)


STREAMS = """
    array = array_of(depth=3, flags=LAYERED); write(array, height=4, depth=3)
    image, texture = surface_of(array), texture_of(array)
    mipmaps = array_of(width=64, height=4, levels=2); write(level(mipmaps, 0), height=4); write(level(mipmaps, 1), width=32, height=2)
    levels = texture_of(mipmaps, normalized=True)
    memory = result_of(driver.cuMemAlloc(512)); driver.cuMemsetD32(memory, 7, 128); linear = texture_of(int(memory))
"""
LAYER = fetch("a2d", "1, %r2, %r3, %r3")
TO_LAYER = "sust.b.a2d.b32.trap [%rd0, {{{0}, %r4, %r3, %r3}}], %r2;"
BASE = "mov.f32 %f0, 0f3F000000; mov.f32 %f1, 0f00000000;" + fetch("2d", "%f0, %f0", "f32", level=", %f1")
EVENT = "event = a.record(); b.wait(event)"
# Two operations that access the same texels, and the second one on other texels.
PAIRS = {
    "a fetch and a copy to the array": (
        f"start({LAYER!r} + USE, texture, stream=a)",
        "write(array, z=1, height=4, stream=b)",
        "write(array, z=2, height=4, stream=b)",
    ),
    "a copy to the array and a fetch": (
        "write(array, z=1, height=4, stream=a)",
        f"start({LAYER!r} + USE, texture, stream=b)",
        f"start({LAYER.replace('{1, ', '{2, ')!r} + USE, texture, stream=b)",
    ),
    "a fetch and a surface store": (
        f"start({LAYER!r} + USE, texture, stream=a)",
        f"start({TO_LAYER.format(1)!r}, image, stream=b)",
        f"start({TO_LAYER.format(0)!r}, image, stream=b)",
    ),
    "a surface store and a fetch": (
        f"start({TO_LAYER.format(1)!r}, image, stream=a)",
        f"start({LAYER!r} + USE, texture, stream=b)",
        f"start({LAYER.replace('{1, ', '{2, ')!r} + USE, texture, stream=b)",
    ),
    "two surface stores": (
        f"start({TO_LAYER.format(1)!r}, image, stream=a)",
        f"start({TO_LAYER.format(1).replace('%r2;', '%r3;')!r}, image, stream=b)",
        f"start({TO_LAYER.format(2).replace('%r2;', '%r3;')!r}, image, stream=b)",
    ),
    "a fetch and a copy to the mipmap level": (
        f"start({BASE!r} + USE, levels, stream=a)",
        "write(level(mipmaps, 0), height=4, stream=b)",
        "write(level(mipmaps, 1), width=32, height=2, stream=b)",
    ),
    "a fetch and a fill of linear memory": (
        f"start({LINEAR!r} + USE, linear, stream=a)",
        "driver.cuMemsetD32Async(memory, 9, 64, int(b.handle))",
        "driver.cuMemsetD32Async(int(memory) + 256, 9, 64, int(b.handle))",
    ),
    "a fill of linear memory and a fetch": (
        "driver.cuMemsetD32Async(memory, 9, 64, int(a.handle))",
        f"start({LINEAR!r} + USE, linear, stream=b)",
        f"start({LAYER!r} + USE, texture, stream=b)",
    ),
}


@pytest.mark.promise("Check mode finds races and uninitialized texels of textures and surfaces")
@pytest.mark.promise("Check mode reports nothing for correct kernels")
@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", PAIRS)
def test_fetches_and_writes_of_two_streams_race_unless_they_are_ordered(name: str, width: str) -> None:
    first, second, elsewhere = PAIRS[name]
    finds("race", STREAMS, f"{first}; {second}", "data race", "nothing orders the two operations", width=width)
    is_silent("race", STREAMS, f"{first}; {EVENT}; {second}", width=width)
    is_silent("race", STREAMS, f"{first}; {elsewhere}", width=width)


def test_reads_of_one_texture_in_two_streams_are_not_reported() -> None:
    both = "; ".join(f"start({LAYER!r} + USE, texture, stream={stream})" for stream in "ab")
    is_silent("all", STREAMS, both)
