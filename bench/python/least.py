# SPDX-License-Identifier: Apache-2.0
"""The lower bound of a call from Python: least.py libbench_overhead_least.so libcuda.so.1 kept|given_up [NAME...]

C functions that ignore their arguments make the calls of bench/cpp/overhead/raw.cpp, with the GIL held or released. They are called
like the functions of the packages. The time of a row is that of the driver and the interpreter; checking or converting arguments adds
to it.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from itertools import repeat
from typing import Any

# The calls of bench/python/overhead.py with a placeholder for the function; other rows have no arguments.
CALLS = {
    "event_record": "f(x)", "stream_wait": "f(x)", "graph_launch_20": "f(x)", "graph_update_20": "f(x)",
    "graph_launch_1000": "f(x)", "graph_update_1000": "f(x)",
    "alloc_free_4k": "g(f(4096, stream=x), x)", "alloc_free_1m": "g(f(4096, stream=x), x)", "b_alloc_free_4k": "g(f(4096, x), x)",
    "fill_4k": "f(0, stream=x)", "b_device_get_attribute": "f(x, 0)", "b_device_get_name": "f(64, 0)", "b_stream_query": "f(x)",
    "b_runtime_stream_query": "f(x)", "b_event_record": "f(x, x)", "get_kernel": "f('k3')", "b_library_get_kernel": "f(x, b'k3')",
    "b_launch_ctypes": "f(x, 1, 1, 1, 32, 1, 1, 0, x, x, 0)", "b_launch_pointer": "f(x, 1, 1, 1, 32, 1, 1, 0, x, x, 0)",
    **{f"launch_{n}": f"f({', '.join(['x'] * (n + 3))})" for n in (0, 3, 8, 16)}, "launch_256": "f(x, x, x, *many)",
    **{f"copy_{size}_to_{place}": "f(x, stream=x)" for size in ("4", "1m") for place in ("device", "host")},
    **{f"b_copy_{what}": "f(x, x, 4)" for what in ("4_to_device", "4_to_host", "1m_to_device", "1m_to_host", "array")},
    "b_memset_4k": "f(x, 0, 4096, x)",
    **{f"graph_capture_{n}": f"sequence(f, s, g, x, {n})" for n in (20, 1000)},
}  # fmt: skip

path, driver_library, lock = sys.argv[1:4]
sys.argv[1:4] = []


def sequence(begin: Callable[..., Any], step: Callable[..., Any], end: Callable[..., Any], x: Any, count: int) -> None:
    """A capture as bench/python/overhead.py makes it."""
    made = begin(x)
    for _ in repeat(None, count):
        step(x, x, x)
    end(made)


def serve(rows: dict[str, tuple[tuple[Callable[..., Any], ...], Callable[[], Any], int]]) -> None:
    from timing import Suite

    suite = Suite()
    for name, (functions, drain, batch) in rows.items():
        names = {"x": object(), "many": (None,) * 256, "sequence": sequence}
        names |= {"f": functions[0], "s": functions[len(functions) // 2], "g": functions[-1]}
        text = CALLS.get(name, "f()" if len(functions) == 1 else "g(f())")
        suite.run(name, lambda: eval(f"lambda: {text}", names), drain, batch)  # noqa: B023 (called at once)
    suite.finish()


function = ctypes.PyDLL(path).cucore_bench_least
function.argtypes, function.restype = [ctypes.c_char_p, ctypes.c_int, ctypes.py_object], ctypes.py_object
sys.exit(function(driver_library.encode(), lock == "given_up", serve))
