"""Renders the runtime API's rows and weak stubs for src/runtime, which writes the functions over the driver table.

The functions keep C's names but are hidden in libcucore.so: a libcudart in the same process must neither see nor
replace them. Whoever needs their addresses goes through the rows.
"""

from __future__ import annotations

from c_types import declare
from facts import Function, Library

ROWS = """\
// runtime_functions.inc: every function of the runtime API. Rendered from api/runtime.json.
//   CUCORE_RT_FN(name)
#ifndef CUCORE_RT_FN
#error "define CUCORE_RT_FN(name) before including this file"
#endif
"""

STUBS = """\
// runtime_stubs.cpp: weak definitions of the runtime API. Rendered from api/runtime.json.
// A strong definition in src/runtime replaces one; both are object files of libcucore.so. Define CUCORE_ABI_HIDDEN
// before including the header there too.
#define CUCORE_ABI_HIDDEN
#define CUCORE_ABI_ALL_VERSIONS
#include "cucore/abi/runtime.h"

namespace cucore::runtime {
// Called when a program reaches a function nobody has written. src/runtime may define it, to set the last error.
__attribute__((weak)) cudaError_t unsupported(const char* /*function*/) noexcept { return cudaErrorNotSupported; }
}  // namespace cucore::runtime

#define CUCORE_RT_WEAK extern "C" __attribute__((weak))

"""


def render_rows(library: Library) -> str:
    return ROWS + "".join(f"CUCORE_RT_FN({name})\n" for name in library.functions)


def stub(function: Function, result: str) -> str:
    params = ", ".join(declare(p.type, "") for p in function.params)
    body = f'return cucore::runtime::unsupported("{function.name}");' if function.returns == result else "return {};"
    if function.returns == "void":
        body = ""
    return f"CUCORE_RT_WEAK {declare(function.returns, function.symbol)}({params}) {{ {body} }}\n"


def render_stubs(library: Library) -> str:
    return STUBS + "".join(stub(f, "cudaError_t") for f in library.functions.values())
