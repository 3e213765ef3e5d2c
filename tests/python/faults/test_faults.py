# SPDX-License-Identifier: Apache-2.0
"""Faulty kernels: the error code equals a GPU's and is sticky, the exception contains a report, and the process survives."""

from __future__ import annotations

import pytest
from child import ON_GPU, expect, run

cpu_only = pytest.mark.skipif(ON_GPU, reason="about the CPU device alone")

FAULTS = {
    "null": (700, "mov.u64 %rd2, 0; ld.global.u32 %r3, [%rd2]; st.global.u32 [%rd1], %r3;"),
    "far away": (700, "mov.u64 %rd2, 0x7000000000000; st.global.u32 [%rd2], 1;"),
    "misaligned": (716, "st.global.u32 [%rd1+2], 1;"),
    "misaligned vector": (716, "st.global.v4.u32 [%rd0+4], {%r2, %r2, %r2, %r2};"),
    "wrong space": (717, ".shared .align 8 .b8 s[64]; mov.u64 %rd4, s; cvta.shared.u64 %rd4, %rd4; ld.global.u32 %r5, [%rd4]; st.global.u32 [%rd1], %r5;"),
    "bad program counter": (718, "p: .callprototype ()_(); mov.u64 %rd2, 0x1001; call (), %rd2, (), p;"),
    "call of data": (700, "p: .callprototype ()_(); call (), %rd0, (), p;"),
    "call of nothing": (700, "p: .callprototype ()_(); mov.u64 %rd2, 0x123456789a0; call (), %rd2, (), p;"),
    "shared memory far off": (715, ".shared .align 8 .b8 s[64]; mov.u32 %r4, s; add.u32 %r4, %r4, 0x1000000; ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd1], %r5;"),
    "shared memory past its end": (700, ".shared .align 8 .b8 s[64]; mov.u32 %r4, s; add.u32 %r4, %r4, 2048; ld.shared.u32 %r5, [%r4]; st.global.u32 [%rd1], %r5;"),
    "shared memory at a global address": (715, "ld.shared.u32 %r5, [%rd0]; st.global.u32 [%rd1], %r5;"),
    "illegal instruction": (715, "mov.u32 %r4, 33; bar.sync 1, %r4;"),
    "trap": (719, "setp.ne.u32 %p1, %r2, 5; @%p1 bra E; trap; E:"),
    "breakpoint": (719, "brkpt;"),
    "assertion": (710, "setp.ne.u32 %p1, %r2, 5; @%p1 bra E; { .param .b64 m; .param .b64 f; .param .b32 l; .param .b64 g; .param .b64 c; mov.u64 %rd2, words; "
                       "cvta.global.u64 %rd2, %rd2; st.param.b64 [m], %rd2; st.param.b64 [f], %rd2; st.param.b32 [l], 7; st.param.b64 [g], %rd2; st.param.b64 [c], 1; "
                       "call __assertfail, (m, f, l, g, c); } E:"),
    "stack overflow": (700, "{ .param .b32 n; .param .b32 r; st.param.b32 [n], %r2; call (r), deep, (n); ld.param.b32 %r3, [r]; } st.global.u32 [%rd1], %r3;"),
}  # fmt: skip
DECLARED = """
.extern .func __assertfail(.param .b64 m, .param .b64 f, .param .b32 l, .param .b64 g, .param .b64 c);
.global .align 1 .b8 words[5] = {110, 101, 118, 114, 0};
.func (.param .b32 r) deep(.param .b32 n)
{
  .local .align 4 .b8 room[64];
  .reg .b32 %a<4>; .reg .b64 %l;
  ld.param.u32 %a0, [n]; mov.u64 %l, room; cvta.local.u64 %l, %l; st.volatile.u32 [%l], %a0; add.u32 %a1, %a0, 1;
  { .param .b32 x; .param .b32 y; st.param.b32 [x], %a1; call (y), deep, (x); ld.param.b32 %a2, [y]; }
  ld.volatile.u32 %a3, [%l]; add.u32 %a2, %a2, %a3; st.param.b32 [r], %a2; ret;
}
"""
if not ON_GPU:  # on a GPU it waits forever
    FAULTS["barrier deadlock"] = (
        719,
        "setp.lt.u32 %p1, %r2, 32; @%p1 bra A; bar.sync 1, 64; bra E; A: bar.sync 2, 64; E:",
    )


@pytest.mark.parametrize("name", FAULTS)
@pytest.mark.promise(
    "A fault has the error code of a GPU, and every later call in its context returns it until the device is reset"
)
@pytest.mark.promise(
    "An access to the wrong address space is error 717, and a call through an invalid function pointer error 718"
)
@pytest.mark.promise("A misaligned access and an illegal instruction have error codes of their own")
@pytest.mark.promise("A trap is error 719 and a failed assertion error 710, whichever thread raised it")
def test_fault_code_is_sticky_until_a_reset(name: str) -> None:
    code, body = FAULTS[name]
    expect(
        f"""
        first, text = run({body!r}, {DECLARED!r})
        assert {ON_GPU} or "kernel k: " in text, text
        again = run("st.global.u32 [%rd1], 1;")[0]
        print(first, again, driver.cuCtxSynchronize()[0].value, flush=True)
        if {ON_GPU}:  # there the process is lost
            os._exit(0)
        reset()
        assert run("st.global.u32 [%rd1], %r2;") == (0, "")
        back = np.zeros(64, dtype=np.uint32)
        assert driver.cuMemcpyDtoH(back.ctypes.data, int(buffer.handle), 256)[0] == 0
        assert list(back) == list(range(64))
        """,
        f"{code} {code} {code}",
    )


FREE = ".extern .func free(.param .b64 p);\n.extern .func (.param .b64 r) malloc(.param .b64 n);\n"
GIVE_BACK = "{ .param .b64 x; st.param.b64 [x], %rd2; call free, (x); }"
TAKE = "{ .param .b64 n; .param .b64 r; st.param.b64 [n], 64; call (r), malloc, (n); ld.param.b64 %rd2, [r]; }"


@pytest.mark.parametrize(
    "body,codes",
    [
        (f"mov.u64 %rd2, 12345; {GIVE_BACK}", (716, 700) if ON_GPU else (716,)),  # an H200 has returned both
        (f"mov.u64 %rd2, 12352; {GIVE_BACK}", (700,)),
        (f"{TAKE} {GIVE_BACK} {GIVE_BACK}", (719,)),
    ],
    ids=["misaligned", "nowhere", "twice"],
)
def test_free_of_an_invalid_pointer_in_a_kernel_is_a_fault(body: str, codes: tuple[int, ...]) -> None:
    expect(
        f"""
        print(run({body!r}, {FREE!r}, block=1)[0] in {codes}, flush=True)
        os._exit(0)
        """,
        "True",
    )


def test_barrier_17_is_barrier_1() -> None:
    expect(
        """
        body = '''
        mov.u32 %r4, 17; setp.gt.u32 %p1, %r2, 31; @%p1 mov.u32 %r4, 1;
        mov.u32 %r6, 64; barrier.sync %r4, %r6; st.global.u32 [%rd1], 7;
        '''
        print(run(body)[0], "met")
        """,
        "0 met",
    )


@cpu_only
@pytest.mark.promise(
    "The exception of a fault contains kernel, thread, address, source line and the nearest allocation"
)
def test_exception_contains_the_fault_report() -> None:
    expect(
        """
        print(run("mov.u64 %rd2, 0; st.global.u32 [%rd2], 1;")[1])
        """,
        "kernel k: illegal memory access at 0x0",
    )
    text = expect(
        """
        error, freed = driver.cuMemAlloc(4096)
        pointer = int(freed)
        driver.cuMemFree(freed)
        print(run("st.global.u32 [%rd1], 1;", argument=ctypes.c_uint64(pointer))[1])
        """,
        "illegal memory access",
        {"CUCORE_CHECK": ""},
    )
    assert "4096-byte allocation" in text and "freed" in text


@cpu_only
@pytest.mark.promise(
    "An access beyond an allocation or to memory of a destroyed context is a fault, also without check mode"
)
def test_out_of_bounds_host_and_destroyed_context_memory_is_a_fault() -> None:
    expect(
        """
        error, memory = driver.cuMemAlloc(512)
        past = run("st.global.u32 [%rd1+512], 1;", argument=ctypes.c_uint64(int(memory)), block=1)
        print(past[0], "past the end of" in past[1])
        """,
        "700 True",
    )
    expect(
        """
        error, other = driver.cuCtxCreate(None, 0, 0)
        error, memory = driver.cuMemAlloc(512)
        driver.cuCtxDestroy(other)
        device.set_current()
        print(run("st.global.u32 [%rd1], 1;", argument=ctypes.c_uint64(int(memory)), block=1)[0])
        """,
        "700",
    )


@cpu_only
@pytest.mark.parametrize("body,thread,offset", [
    ("setp.eq.u32 %p1, %r2, 37; mov.u64 %rd2, 0; selp.b64 %rd3, %rd2, %rd1, %p1; ld.global.u32 %r3, [%rd3]; st.global.u32 [%rd1], %r3;", 37, None),
    ("add.u64 %rd1, %rd1, 3904; st.global.u32 [%rd1], %r2;", 48, 4096),  # 1024 words and 64 threads from word 976 on
    ("add.u64 %rd3, %rd1, 3984; ld.global.u32 %r3, [%rd3]; st.global.u32 [%rd1], %r3;", 28, 4096),
    ("setp.gt.u32 %p1, %r2, 40; @!%p1 bra E; add.u64 %rd1, %rd1, 4096; st.global.u32 [%rd1], %r2; E:", 41, 4260),
])  # fmt: skip
@pytest.mark.promise(
    "An illegal address is error 700 with kernel, block, thread and address, and the process continues"
)
def test_fault_in_a_lane_group_names_the_thread(body: str, thread: int, offset: int | None) -> None:
    """One instruction loads or stores for many threads; the report names the faulting one."""
    text = expect(
        f"""
        error, memory = driver.cuMemAlloc(4096)
        code, text = run({body!r}, argument=ctypes.c_uint64(int(memory)))
        print(code, text)
        where = 0 if {offset!r} is None else int(memory) + ({offset!r} or 0)
        print(f"at 0x{{where:x}}" in text)
        """,
        "700",
    )
    assert f", thread ({thread}, 0, 0)" in text and "True" in text, text


@cpu_only
def test_fault_of_a_thread_that_shares_a_fiber_names_the_thread() -> None:
    """Threads that wait in a loop, and for nothing else, run one after the other on a fiber."""
    body = "S: atom.global.cas.b32 %r3, [%rd0], 77777, 77777; setp.eq.u32 %p1, %r3, 77777; @%p1 bra S; "
    body += "setp.ne.u32 %p1, %r2, 37; @%p1 bra E; mov.u64 %rd2, 64; st.global.u32 [%rd2], 1; E:"
    text = expect(f"code, text = run({body!r}); print(code, text)", "700")
    assert ", thread (37, 0, 0)" in text and "at 0x40" in text, text


@cpu_only
def test_search_for_the_faulting_thread_does_not_repeat_printf() -> None:
    """The block runs again to find the thread."""
    text = expect(
        """
        before = '''
        .extern .func (.param .b32 r) vprintf(.param .b64 format, .param .b64 arguments);
        .global .align 1 .b8 hello[7] = {104, 101, 108, 108, 111, 10, 0};
        '''
        body = '''
        setp.ne.u32 %p1, %r2, 0; @%p1 bra S;
        { .param .b64 f; .param .b64 a; .param .b32 r; mov.u64 %rd5, hello; cvta.global.u64 %rd5, %rd5;
          st.param.b64 [f], %rd5; st.param.b64 [a], 0; call (r), vprintf, (f, a); }
        S: mov.u64 %rd2, 64; mad.wide.u32 %rd2, %r2, 4, %rd2; st.global.u32 [%rd2], 1;
        '''
        code, text = run(body, before)
        print(code, text)
        """,
        "700 ",
    )
    assert text.count("hello") == 1 and ", thread (0, 0, 0)" in text, text


@cpu_only
@pytest.mark.promise("A barrier that not every thread reaches is an error that names the barrier")
def test_barrier_that_not_all_threads_reach_is_named() -> None:
    expect(
        """
        body = "setp.lt.u32 %p1, %r2, 32; @%p1 bra A; bar.sync 1, 64; bra E; A: bar.sync 2, 64; E:"
        code, text = run(body)
        print(code, "barrier deadlock" in text, "at barrier 1 (32 of 64 arrived)" in text, "at barrier 2" in text)
        """,
        "719 True True True",
    )


ENDLESS = [
    "L: bra L;",
    "L: ld.volatile.global.u32 %r3, [%rd0]; setp.ne.u32 %p1, %r3, 77; @%p1 bra L;",
    "L: bar.sync 0; bra L;",
    "L: ld.global.u32 %r3, [%rd0]; bar.sync 0; setp.ne.u32 %p1, %r3, 77; @%p1 bra L;",
    "L: ld.volatile.global.u32 %r3, [%rd0]; setp.eq.u32 %p1, %r3, 77; bar.red.or.pred %p2, 0, %p1; @!%p2 bra L;",
    "L: atom.global.add.u32 %r3, [%rd0], 1; bra L;",
    "L: nanosleep.u32 100; bra L;",
    "L: nanosleep.u32 1000000; bra L;",
]


@cpu_only
@pytest.mark.parametrize("body", ENDLESS)
@pytest.mark.promise("A kernel that exceeds the time limit is error 702")
def test_time_limit_is_error_702_and_the_device_works_after_a_reset(body: str) -> None:
    expect(
        f"""
        code, text = run({body!r})
        print(code, text)
        print(run("st.global.u32 [%rd1], 1;")[0], driver.cuCtxSynchronize()[0].value)
        reset()
        print(run("st.global.u32 [%rd1], 1;")[0], "usable")
        """,
        "kernel k ran over the time limit of CUCORE_CPU_TIMEOUT: raise it (seconds, 0 for none), or look for a loop that does not "
        "end\n702 702\n0 usable",
        {"CUCORE_CPU_TIMEOUT": "0.2"},
    )


@cpu_only
@pytest.mark.parametrize(
    "wait,caught",
    [
        ("stream.sync()", True),
        ("device.sync()", True),
        ("stream.sync()", False),
        ("driver.cuCtxSynchronize()", False),  # this call waits in C: only a signal ends it, as with NVIDIA's driver
    ],
)
def test_ctrl_c_interrupts_the_wait_for_a_maximum_grid(wait: str, caught: bool) -> None:
    """With 2^31 - 1 slow blocks, neither the interrupted call nor process exit waits for the end of the grid."""
    done = run(
        f"""
        signal.signal(signal.SIGINT, signal.default_int_handler if {caught} else signal.SIG_DFL)
        work = kernel("L: add.u32 %r5, %r5, 1; setp.ne.u32 %p1, %r5, 1000000; @%p1 bra L; red.global.add.u32 [%rd0], 1;")
        error, flag = driver.cuMemHostAlloc(4, 2)
        seen = ctypes.c_uint32.from_address(flag)
        seen.value = 0
        launch(stream, LaunchConfig(grid=2**31 - 1, block=32), work, ctypes.c_uint64(flag))
        while seen.value == 0:
            time.sleep(0.001)
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
        print("waiting", flush=True)
        try:
            {wait}
        except KeyboardInterrupt:
            print("out of it", seen.value < 2**32 - 1, flush=True)
        """
    )
    assert (done.returncode, done.stdout) == ((0, "waiting\nout of it True\n") if caught else (-2, "waiting\n")), (
        done.stderr
    )


@cpu_only
@pytest.mark.parametrize("body", ENDLESS)
@pytest.mark.promise("A kernel can be cancelled, and later work is unaffected")
def test_running_kernels_are_cancelled_when_their_context_is_destroyed(body: str) -> None:
    expect(
        f"""
        endless = kernel({body!r})  # unloading it would wait for the grid
        launch(stream, LaunchConfig(grid=4, block=64), endless, buffer)
        reset()
        print(run("st.global.u32 [%rd1], 1;")[0], "usable")
        """,
        "0 usable",
    )


@cpu_only
@pytest.mark.parametrize("first", [True, False])
@pytest.mark.promise("A fault of the host program reaches the previous signal handler")
def test_fault_of_the_host_reaches_the_previous_signal_handler(first: bool) -> None:
    handlers = "import faulthandler; faulthandler.enable()"
    work = 'assert run("st.global.u32 [%rd1], 1;")[0] == 0'
    done = run("\n".join([handlers, work] if first else [work, handlers, work]) + "\nctypes.string_at(8)")
    assert done.returncode == -11, done.stdout + done.stderr
    assert "Fatal Python error: Segmentation fault" in done.stderr and "string_at" in done.stderr, done.stderr


@cpu_only
@pytest.mark.parametrize("cores", ["0", "0-1", ""])
@pytest.mark.promise("Blocks that wait for each other make progress, even with one host thread")
def test_cooperative_grid_synchronizes_with_any_number_of_cores(cores: str) -> None:
    prefix = ["taskset", "-c", cores] if cores else None
    expect(
        """
        body = '''
          membar.gl; red.global.add.u32 [%rd0], 1; mov.u32 %r5, %nctaid.x;
          L: ld.volatile.global.u32 %r3, [%rd0]; setp.lt.u32 %p1, %r3, %r5; @%p1 bra L;
          mov.u32 %r6, %ctaid.x; mul.wide.u32 %rd3, %r6, 4; add.u64 %rd3, %rd0, %rd3; st.global.u32 [%rd3+4], %r3;'''
        driver.cuMemsetD32(int(buffer.handle), 0, 256)
        function = kernel(body)
        launch(stream, LaunchConfig(grid=32, block=1, is_cooperative=True), function, buffer)
        stream.sync()
        back = np.zeros(33, dtype=np.uint32)
        driver.cuMemcpyDtoH(back.ctypes.data, int(buffer.handle), back.nbytes)
        assert list(back) == [32] * 33, back
        try:
            launch(stream, LaunchConfig(grid=1 << 20, block=1024, is_cooperative=True), function, buffer)
        except ValueError as error:
            print("too large:", "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE" in str(error))
        """,
        "too large: True",
        prefix=prefix,
    )


def test_traceback_shows_the_launch_with_launch_blocking() -> None:
    """CUDA_LAUNCH_BLOCKING=1, as with a GPU's driver."""
    done = run(
        """
        import traceback
        good, bad = kernel("st.global.u32 [%rd1], 1;"), kernel("mov.u64 %rd2, 0; st.global.u32 [%rd2], 1;")
        def launches():
            launch(stream, LaunchConfig(grid=1, block=64), good, buffer)
            assert stream.is_done
            launch(stream, LaunchConfig(grid=1, block=64), bad, buffer)  # here
            stream.sync()
        try:
            launches()
        except CUDAError as error:
            last = traceback.extract_tb(error.__traceback__)[-1]
            print(int(error.code), last.lineno - launches.__code__.co_firstlineno, flush=True)
        os._exit(0)
        """,
        {"CUDA_LAUNCH_BLOCKING": "1"},
    )
    code, line = done.stdout.split()
    assert (int(code), int(line)) == (700, 3), done.stderr
