# SPDX-License-Identifier: Apache-2.0
"""Variables declared inside kernels and device functions: separate memory with the lifetime of their state space."""

from __future__ import annotations

import ctypes
import os

import numpy as np
import pytest
from ptxsuite.device import DriverError
from ptxsuite.program import Program, device

HEAD = ".version 8.5\n.target sm_90\n.address_size 64\n"
START = """
  .reg .b32 %r<20>, %t; .reg .b64 %rd<9>; .reg .pred %p<4>;
  ld.param.u64 %rd0, [out]; mov.u32 %t, %tid.x; mul.wide.u32 %rd1, %t, 4; add.u64 %rd0, %rd0, %rd1;
"""


def entry(name: str, body: str) -> str:
    return f".visible .entry {name}(.param .u64 out) {{\n{START}\n{body}\n  ret;\n}}\n"


def run(program: Program, kernel: str = "k", shared: int = 0, threads: int = 64) -> list[int]:
    out = np.zeros(threads, np.int32)
    program.run(kernel, 1, threads, out, shared=shared)
    return [int(v) for v in out]


def static_shared(program: Program, kernel: str) -> int:
    """CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES"""
    size = ctypes.c_int()
    device().call("cuFuncGetAttribute", ctypes.byref(size), 1, device().function(program.module, kernel))
    return size.value


# Accumulates its arguments in its own shared memory and returns the sum.
SUM = """
.func (.reg .b32 sum) add_up(.reg .b32 v) {
  .shared .align 4 .b32 kept[64]; .reg .b32 %a, %b;
  mov.u32 %a, %tid.x; shl.b32 %a, %a, 2; mov.u32 %b, kept; add.u32 %a, %a, %b;
  ld.shared.u32 %b, [%a]; add.u32 sum, %b, v; st.shared.u32 [%a], sum; ret;
}
"""
CLEAR = SUM.replace("add_up", "clear").replace("ld.shared.u32 %b, [%a];", "mov.u32 %b, 0;")


def test_shared_memory_of_a_function_does_not_overlap(any_width: str) -> None:
    """Two functions, the kernel and the module each have a variable named `kept`."""
    program = Program.of_ptx(
        f"{HEAD}.shared .align 4 .b32 kept[64];\n{SUM}{CLEAR}"
        + entry(
            "k",
            """
            .shared .align 4 .b32 own[64]; .reg .b32 %a, %o;
            mov.u32 %o, own; shl.b32 %a, %t, 2; add.u32 %o, %o, %a; mov.u32 %r9, kept; add.u32 %a, %a, %r9;
            st.shared.u32 [%o], 100; st.shared.u32 [%a], 10000;
            call (%r1), clear, (7); call (%r2), add_up, (0); sub.u32 %r2, 0, %r2; call (%r2), add_up, (%r2);
            call (%r2), add_up, (%t); call (%r3), add_up, (%t); call (%r1), clear, (9);
            ld.shared.u32 %r4, [%o]; ld.shared.u32 %r5, [%a];
            add.u32 %r3, %r3, %r4; add.u32 %r3, %r3, %r5; st.global.u32 [%rd0], %r3;
            """,
        )
    )
    assert run(program) == [2 * t + 10100 for t in range(64)]


def test_kernels_have_the_shared_memory_of_the_functions_they_call() -> None:
    def function(name: str, size: int) -> str:
        return f".func {name}() {{ .shared .align 4 .b32 q[{size}]; st.shared.u32 [q], 1; ret; }}\n"

    program = Program.of_ptx(
        HEAD
        + function("small", 4)
        + function("large", 8000)
        + function("other", 8000)
        + entry("none", "")
        + entry("one", ".shared .b32 z[2]; st.shared.u32 [z], 1; call small;")
        + entry("two", "call large;")
        + entry("three", "call other; call small;")
        + entry("four", "mov.u64 %rd2, small; st.global.u64 [%rd0], %rd2;")
    )
    assert [static_shared(program, k) for k in ("none", "one", "two", "four")] == [0, 24, 32000, 16]
    assert static_shared(program, "three") == 32016


def test_recursive_function_has_one_shared_memory_instance(any_width: str) -> None:
    program = Program.of_ptx(
        f"""{HEAD}
        .func (.reg .b32 r) down(.reg .b32 n) {{
          .shared .align 4 .b32 deepest[64]; .local .align 4 .b32 mine; .reg .b32 %a, %b; .reg .pred %p;
          mov.u32 %a, %tid.x; shl.b32 %a, %a, 2; mov.u32 %b, deepest; add.u32 %a, %a, %b;
          st.shared.u32 [%a], n; st.local.u32 [mine], n; setp.eq.u32 %p, n, 0; mov.u32 r, 0; @%p ret;
          sub.u32 %b, n, 1; call (%b), down, (%b);
          ld.local.u32 r, [mine]; add.u32 r, r, %b; ld.shared.u32 %b, [%a]; mad.lo.u32 r, %b, 1000, r; ret;
        }}"""
        + entry("k", "and.b32 %r1, %t, 7; call (%r2), down, (%r1); st.global.u32 [%rd0], %r2;")
    )
    assert run(program) == [(t % 8) * (t % 8 + 1) // 2 for t in range(64)]


def test_dynamic_shared_memory_follows_that_of_functions(any_width: str) -> None:
    program = Program.of_ptx(
        f"{HEAD}.extern .shared .align 16 .b8 dynamic[];\n{CLEAR}{SUM.replace('add_up', 'touch')}"
        """
        .func put(.reg .b32 v) {
          .reg .b32 %a, %b; mov.u32 %a, %tid.x; shl.b32 %a, %a, 2; mov.u32 %b, dynamic; add.u32 %a, %a, %b; st.shared.u32 [%a], v; ret;
        }
        """
        + entry(
            "k",
            """
            call put, (%t); call (%r1), clear, (5); call (%r1), touch, (5);
            mov.u32 %r2, dynamic; shl.b32 %r3, %t, 2; add.u32 %r2, %r2, %r3; ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd0], %r4;
            """,
        )
    )
    assert run(program, shared=256) == list(range(64))


def test_function_called_through_a_pointer_has_its_shared_memory(any_width: str) -> None:
    program = Program.of_ptx(
        f"{HEAD}{CLEAR}{SUM}"
        + entry(
            "k",
            """
            .shared .align 4 .b32 own[64]; mov.u32 %r5, own; shl.b32 %r6, %t, 2; add.u32 %r5, %r5, %r6; st.shared.u32 [%r5], %t;
            mov.u64 %rd3, clear; form: .callprototype (.reg .b32 s) _ (.reg .b32 v); call (%r1), %rd3, (3), form;
            ld.shared.u32 %r2, [%r5]; mad.lo.u32 %r1, %r1, 1000, %r2; st.global.u32 [%rd0], %r1;
            """,
        )
    )
    assert run(program) == [3000 + t for t in range(64)]


def test_shared_memory_of_linked_modules_does_not_overlap(any_width: str) -> None:
    """The function and the kernel are in different modules; each module has its own shared memory."""
    caller = f"{HEAD}.extern .func (.reg .b32 sum) clear(.reg .b32 v);\n" + entry(
        "k",
        """
        .shared .align 4 .b32 own[64]; mov.u32 %r5, own; shl.b32 %r6, %t, 2; add.u32 %r5, %r5, %r6; st.shared.u32 [%r5], %t;
        call (%r1), clear, (3); ld.shared.u32 %r2, [%r5]; mad.lo.u32 %r1, %r1, 1000, %r2; st.global.u32 [%rd0], %r1;
        """,
    )
    callee = HEAD + CLEAR.replace(".func", ".visible .func")
    state = ctypes.c_void_p()
    device().call("cuLinkCreate_v2", 0, None, None, ctypes.byref(state))
    for text in (caller, callee):
        image = ctypes.create_string_buffer(text.encode())
        device().call("cuLinkAddData_v2", state, 1, image, ctypes.c_size_t(len(image)), None, 0, None, None)
    cubin, size = ctypes.c_void_p(), ctypes.c_size_t()
    device().call("cuLinkComplete", state, ctypes.byref(cubin), ctypes.byref(size))
    program = Program.__new__(Program)
    program.module = device().load(ctypes.string_at(cubin, size.value))
    device().call("cuLinkDestroy", state)
    assert run(program) == [3000 + t for t in range(64)]


def test_variables_of_a_function_live_as_long_as_the_module(any_width: str) -> None:
    program = Program.of_ptx(
        f"""{HEAD}.global .align 4 .b32 count = 1000;
        .func (.reg .b32 r) next() {{
          .global .align 4 .b32 count = 5; .const .align 4 .b32 table[3] = {{10, 20, 30}}; .reg .b32 %a;
          atom.global.add.u32 r, [count], 1; ld.const.u32 %a, [table+8]; add.u32 r, r, %a; ret;
        }}"""
        + entry(
            "k",
            """
            .global .align 4 .b32 count; setp.ne.u32 %p0, %t, 0; @%p0 bra done;
            call (%r1), next, (); { .global .align 4 .b32 count = 50; atom.global.add.u32 %r2, [count], 1; }
            atom.global.add.u32 %r3, [count], 1; st.global.u32 [%rd0], %r1; st.global.u32 [%rd0+4], %r2; st.global.u32 [%rd0+8], %r3;
            done:
            """,
        )
        + entry("other", "ld.global.u32 %r1, [count]; st.global.u32 [%rd0], %r1;")
    )
    assert run(program)[:3] == [35, 50, 0]
    assert run(program)[:3] == [36, 51, 1]
    assert run(program, "other") == [1000] * 64


def test_variable_of_a_kernel_is_initialized_with_the_address_of_another(any_width: str) -> None:
    program = Program.of_ptx(
        f"{HEAD}.global .align 4 .b32 cells[4] = {{1, 2, 3, 4}};\n"
        + entry(
            "k",
            """
            .global .align 4 .b32 near[2] = {7, 8}; .global .align 8 .u64 first = near+4; .global .align 8 .u64 second[] = {cells, cells+8};
            ld.global.u64 %rd2, [first]; ld.global.u32 %r1, [%rd2]; ld.global.u64 %rd2, [second+8]; ld.global.u32 %r2, [%rd2];
            mad.lo.u32 %r1, %r1, 10, %r2; st.global.u32 [%rd0], %r1;
            """,
        )
    )
    assert run(program) == [83] * 64


def test_nested_scope_may_redeclare_a_name(any_width: str) -> None:
    program = Program.of_ptx(
        HEAD
        + entry(
            "k",
            """
            .shared .align 4 .b32 s; .local .align 4 .b32 l; st.shared.u32 [s], 1; st.local.u32 [l], %t;
            { .shared .align 4 .b32 s; .local .align 4 .b32 l; st.shared.u32 [s], 2; st.local.u32 [l], 100; }
            { .shared .align 4 .b32 s; .local .align 4 .b32 l; st.shared.u32 [s], 3; st.local.u32 [l], 200; }
            ld.shared.u32 %r1, [s]; ld.local.u32 %r2, [l]; mad.lo.u32 %r1, %r1, 1000, %r2; st.global.u32 [%rd0], %r1;
            """,
        )
    )
    assert run(program) == [1000 + t for t in range(64)]


def test_numbered_variables_are_separate(any_width: str) -> None:
    program = Program.of_ptx(
        f"{HEAD}.global .align 4 .b32 g<3>;\n"
        + entry(
            "k",
            """
            .local .align 4 .b32 l<4>; .shared .align 4 .b32 s<2>, t<2>;
            st.local.u32 [l1], %t; st.local.u32 [l2], 5; st.local.u32 [l3], 7; st.shared.u32 [s0], 1; st.shared.u32 [s1], 2; st.shared.u32 [t0], 9;
            st.global.u32 [g2], 3; ld.local.u32 %r1, [l1]; ld.shared.u32 %r2, [s1]; mad.lo.u32 %r1, %r2, 100, %r1;
            ld.global.u32 %r2, [g2]; mad.lo.u32 %r1, %r2, 1000, %r1; st.global.u32 [%rd0], %r1;
            """,
        )
    )
    assert run(program) == [3200 + t for t in range(64)]


WRONG = {
    ".local .b32 x<20000>;": ("5:15", "expected the number of variables, at most 10000"),
    ".local .b32 x<2>; st.local.u32 [x2], 1;": ("5:33", "'x2' is not declared"),
    ".shared .b32 x<2>, x1;": ("5:20", "'x1' is already declared"),
    ".shared .b32 x = 5;": ("5:16", "cannot have an initial value"),
    ".local .b32 x = 5;": ("5:15", "cannot have an initial value"),
    ".shared .b8 x[];": ("5:13", "needs a size"),
    ".global .b8 x[];": ("5:13", "needs a size"),
    ".global .texref x;": ("5:17", "must be declared at module level"),
    ".global .u64 p = %r0;": ("5:18", "is not declared"),
    ".global .u64 p = l; ": ("5:18", "is not declared"),
    ".align 4 .reg .b32 x;": ("5:20", "must begin with .reg"),
    ".global .b32 x; .shared .b32 x;": ("5:30", "is already declared"),
    ".reg .v2 .pred x;": ("5:16", "128 bits"),
    ".reg .v4 .b64 x;": ("5:15", "128 bits"),
}


@pytest.mark.skipif(os.environ.get("CUCORE_DEVICE") == "gpu", reason="about the CPU device's words")
@pytest.mark.parametrize("line", WRONG)
def test_invalid_declaration_is_an_error_with_its_position(line: str) -> None:
    place, words = WRONG[line]
    for head in (".visible .entry k()", ".func f()"):
        with pytest.raises(DriverError) as error:
            device().load(f"{HEAD}{head} {{ .reg .b32 %r<2>; .local .b32 l;\n{line}\n ret; }}".encode())
        assert error.value.code == 218
        assert f"ptx:{place}: error: " in error.value.log and words in error.value.log, error.value.log
