# SPDX-License-Identifier: Apache-2.0
"""cuda.bindings.cufile with a test double: cuFile's ABI over POSIX files (tests/doubles/cufile.cpp).

The double is loaded first, so that the search finds it in the process. Buffers are host memory: the tests check that
arguments, results and errors are passed correctly.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
import doubles

PRELUDE = """
import ctypes, os, sys, tempfile
ctypes.CDLL(sys.argv[1])
from cuda.bindings import cufile
def raises(name, call):
    try:
        call()
    except cufile.cuFileError as error:
        assert error.status.name == name, error.status
        assert name in str(error)
        return error
    raise AssertionError(f"no {name}")
file = tempfile.TemporaryFile()
file.write(bytes(range(256)) * 16)
file.flush()
memory = bytearray(8192)
at = ctypes.addressof(ctypes.c_char.from_buffer(memory))
def register():
    descr = cufile.Descr()
    descr.type = cufile.FileHandleType.OPAQUE_FD
    descr.handle.fd = file.fileno()
    return cufile.handle_register(descr.ptr)
"""

PROGRAMS = {
    "the_driver_is_opened_counted_and_closed": """
        assert cufile.get_version() == 9000 and cufile.use_count() == 0
        raises("DRIVER_NOT_INITIALIZED", lambda: cufile.get_bar_size_in_kb(0))
        cufile.driver_open(); cufile.driver_open()
        assert cufile.use_count() == 2
        assert cufile.get_bar_size_in_kb(0) == 262144
        raises("DEVICE_NOT_FOUND", lambda: cufile.get_bar_size_in_kb(7))
        cufile.driver_close(); cufile.driver_close()
        assert cufile.use_count() == 0
        raises("DRIVER_NOT_INITIALIZED", cufile.driver_close)
    """,
    "properties_are_read_and_set": """
        cufile.driver_open()
        import struct
        raw = bytearray(56)
        where = ctypes.addressof(ctypes.c_char.from_buffer(raw))
        def props():
            cufile.driver_get_properties(where)
            return struct.unpack("<IIQQIIIIIIII", raw[:56])
        assert props()[:2] == (2, 28) and props()[3] == 16384
        cufile.driver_set_poll_mode(True, 4096)
        assert props()[2] == 4096 and props()[5] & 1
        cufile.driver_set_poll_mode(False, 8192)
        assert props()[2] == 8192 and not props()[5] & 1
        cufile.driver_set_max_direct_io_size(1024); assert props()[3] == 1024
        raises("DRIVER_UNSUPPORTED_LIMIT", lambda: cufile.driver_set_max_direct_io_size(100))
        cufile.driver_set_max_cache_size(77); assert props()[7] == 77
        cufile.driver_set_max_pinned_mem_size(78); assert props()[9] == 78
        cufile.driver_close()
    """,
    "files_are_read_and_written": """
        cufile.driver_open()
        handle = register()
        assert isinstance(handle, int) and handle
        assert cufile.read(handle, at, 256, 256, 10) == 256
        assert memory[10:266] == bytes(range(256)) and not any(memory[:10])
        memory[:4] = b"abcd"
        assert cufile.write(handle, at, 4, 4096, 0) == 4
        assert cufile.read(handle, at, 100, 4096, 50) == 4  # the end of the file
        assert memory[50:54] == b"abcd"
        cufile.buf_register(at, 8192, 0)
        raises("MEMORY_ALREADY_REGISTERED", lambda: cufile.buf_register(at, 8192, 0))
        cufile.buf_deregister(at)
        raises("MEMORY_NOT_REGISTERED", lambda: cufile.buf_deregister(at))
        cufile.handle_deregister(handle)
        raises("HANDLE_NOT_REGISTERED", lambda: cufile.read(handle, at, 1, 0, 0))
        bad = cufile.Descr()
        bad.type = cufile.FileHandleType.USERSPACE_FS
        raises("INVALID_FILE_TYPE", lambda: cufile.handle_register(bad.ptr))
        cufile.driver_close()
    """,
    "parts_are_gathered_and_scattered": """
        cufile.driver_open()
        handle = register()
        parts = cufile.IOVec(3)
        for i, part in enumerate(parts):
            part.base_, part.len = at + 1000 * i, 8 + i
        assert cufile.readv(handle, parts, 256) == 27
        assert memory[:8] == bytes(range(8)) and memory[1000:1009] == bytes(range(8, 17)) and memory[2000:2010] == bytes(range(17, 27))
        assert cufile.writev(handle, parts, 5000) == 27
        assert os.pread(file.fileno(), 27, 5000) == bytes(range(27))
        raises("INVALID_VALUE", lambda: cufile.readv(handle, parts, 0, flags=9))
        cufile.handle_deregister(handle); cufile.driver_close()
    """,
    "asynchronous_calls_take_addresses_of_their_numbers": """
        cufile.driver_open()
        handle = register()
        size, where, offset, moved = ctypes.c_size_t(16), ctypes.c_long(256), ctypes.c_long(32), ctypes.c_ssize_t(0)
        places = [ctypes.addressof(n) for n in (size, where, offset, moved)]
        cufile.read_async(handle, at, *places, 0)
        assert moved.value == 16 and memory[32:48] == bytes(range(16))
        raises("ASYNC_NOT_SUPPORTED", lambda: cufile.read_async(handle, at, *places, 64))
        cufile.stream_register(64, 0)
        where.value = 6000
        cufile.write_async(handle, at, *places, 64)
        assert os.pread(file.fileno(), 16, 6000) == bytes(range(16))
        cufile.stream_deregister(64)
        raises("INVALID_VALUE", lambda: cufile.stream_deregister(64))
        cufile.handle_deregister(handle); cufile.driver_close()
    """,
    "a_batch_is_set_up_submitted_and_asked": """
        cufile.driver_open()
        handle = register()
        batch = cufile.batch_io_set_up(4)
        io = cufile.IOParams(2)
        for i, one in enumerate(io):
            one.mode, one.fh, one.opcode, one.cookie = cufile.BatchMode.BATCH, handle, cufile.Opcode.READ, 40 + i
            one.u.batch.dev_ptr_base, one.u.batch.file_offset = at, 256
            one.u.batch.dev_ptr_offset, one.u.batch.size = 100 * i, 10 + i
        cufile.batch_io_submit(batch, 2, io.ptr, 0)
        events, count = cufile.IOEvents(4), ctypes.c_uint(4)
        cufile.batch_io_get_status(batch, 2, ctypes.addressof(count), events.ptr, 0)
        assert count.value == 2
        assert [(e.cookie, int(e.status), e.ret) for e in list(events)[:2]] == [(40, 16, 10), (41, 16, 11)]
        assert memory[100:111] == bytes(range(11))
        raises("BATCH_FULL", lambda: cufile.batch_io_submit(batch, 5, cufile.IOParams(5).ptr, 0))
        cufile.batch_io_cancel(batch)
        cufile.batch_io_destroy(batch)
        raises("INVALID_VALUE", lambda: cufile.batch_io_cancel(batch))
        raises("INTERNAL_BATCH_SETUP_ERROR", lambda: cufile.batch_io_set_up(10000))
        cufile.handle_deregister(handle); cufile.driver_close()
    """,
    "parameters_are_set_before_the_driver_is_opened": """
        B, S, T = cufile.BoolConfigParameter, cufile.SizeTConfigParameter, cufile.StringConfigParameter
        cufile.set_parameter_bool(B.FORCE_COMPAT_MODE, True)
        assert cufile.get_parameter_bool(B.FORCE_COMPAT_MODE) is True
        assert cufile.get_parameter_bool(B.PROFILE_NVTX) is False
        cufile.set_parameter_size_t(S.PROFILE_STATS, 3)
        assert cufile.get_parameter_size_t(S.PROFILE_STATS) == 3
        assert tuple(cufile.get_parameter_min_max_value(S.EXECUTION_MAX_IO_THREADS)) == (1, 1002)
        cufile.set_parameter_string(T.LOGGING_LEVEL, "INFO")
        assert cufile.get_parameter_string(T.LOGGING_LEVEL, 64) == "INFO"
        raises("INVALID_VALUE", lambda: cufile.get_parameter_string(T.LOGGING_LEVEL, 3))
        level = ctypes.create_string_buffer(b"ERROR")
        cufile.set_parameter_string(T.LOGGING_LEVEL, ctypes.addressof(level))  # NVIDIA's form
        assert cufile.get_parameter_string(T.LOGGING_LEVEL, 64) == "ERROR"
        sizes, counts = (ctypes.c_size_t * 3)(4, 8, 16), (ctypes.c_size_t * 3)(3, 2, 1)
        cufile.set_parameter_posix_pool_slab_array(list(sizes), list(counts), 3)
        got = (ctypes.c_size_t * 3)(), (ctypes.c_size_t * 3)()
        cufile.get_parameter_posix_pool_slab_array(*map(ctypes.addressof, got), 3)
        assert [list(part) for part in got] == [[4, 8, 16], [3, 2, 1]]
        sizes[0], counts[2] = 32, 7
        cufile.set_parameter_posix_pool_slab_array(ctypes.addressof(sizes), ctypes.addressof(counts), 3)  # NVIDIA's form
        cufile.get_parameter_posix_pool_slab_array(*map(ctypes.addressof, got), 3)
        assert [list(part) for part in got] == [[32, 8, 16], [3, 2, 7]]
        cufile.driver_open()
        raises("DRIVER_ALREADY_OPEN", lambda: cufile.set_parameter_bool(B.FORCE_COMPAT_MODE, False))
        cufile.driver_close()
    """,
    "statistics_are_counted_at_three_levels": """
        cufile.driver_open()
        handle = register()
        assert cufile.get_stats_level() == 0
        raises("INVALID_VALUE", lambda: cufile.get_stats_l1(cufile.StatsLevel1().ptr))
        raises("INVALID_VALUE", lambda: cufile.set_stats_level(9))
        cufile.set_stats_level(3); assert cufile.get_stats_level() == 3
        cufile.stats_start()
        cufile.read(handle, at, 3000, 0, 0); cufile.write(handle, at, 100, 0, 0)
        one, two, three = cufile.StatsLevel1(), cufile.StatsLevel2(), cufile.StatsLevel3()
        cufile.get_stats_l1(one.ptr); cufile.get_stats_l2(two.ptr); cufile.get_stats_l3(three.ptr)
        assert (one.read_ops.ok, one.read_bytes, one.write_bytes) == (1, 3000, 100)
        assert list(two.read_size_kb_hist)[:3] == [0, 0, 1] and two.basic.read_bytes == 3000
        assert three.num_gpus == 1 and three.detailed.basic.write_bytes == 100 and three.per_gpu_stats[0].read_bytes == 3000
        cufile.stats_stop()
        cufile.read(handle, at, 10, 0, 0)
        cufile.get_stats_l1(one.ptr); assert one.read_bytes == 3000
        cufile.stats_reset()
        cufile.get_stats_l1(one.ptr); assert one.read_bytes == 0
        cufile.handle_deregister(handle); cufile.driver_close()
    """,
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_cufile_passes_arguments_results_and_errors(name: str) -> None:
    library = doubles.folder() / "libcufile.so.0"
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + textwrap.dedent(PROGRAMS[name]), str(library)],
        env=os.environ, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_cufile_function_is_called() -> None:
    from cuda.bindings import cufile

    functions = [name for name in cufile.__all__ if name[0].islower() and callable(getattr(cufile, name))]
    text = "".join(PROGRAMS.values()) + PRELUDE
    mute = {"check_status", "op_status_error"}
    missing = [
        name
        for name in functions
        if not isinstance(getattr(cufile, name), type) and name not in mute and f"cufile.{name}" not in text
    ]
    assert missing == []
