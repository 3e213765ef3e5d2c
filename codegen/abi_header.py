"""Renders cucore/abi/<library>.h: the C ABI of a CUDA library, declared from facts alone."""

from __future__ import annotations

from collections.abc import Iterator

from c_types import declare, in_order, record_lines
from facts import Constant, Enum, Function, Library, Record, Typedef


def prototype(symbol: str, function: Function) -> str:
    params = ", ".join(declare(p.type, p.name) for p in function.params)
    return f"{declare(function.returns, symbol)}({params or 'void'})"


def render_type(item: Record | Enum | Typedef) -> Iterator[str]:
    if isinstance(item, Typedef):
        yield f"typedef {declare(item.type, item.name)};"
    elif isinstance(item, Enum):
        yield "typedef enum {" if item.typedef_only else f"enum {item.name} {{"
        yield from (f"  {name} = {enumerator(value)}," for name, value in item.values)
        yield f"}} {item.name};" if item.typedef_only else "};"
    else:
        yield f"typedef {item.kind} {{" if item.typedef_only else f"{item.kind} {item.name} {{"
        yield from record_lines(item)
        yield f"}} {item.name};" if item.typedef_only else "};"


def enumerator(value: int) -> str:
    if value == -(1 << 31):
        return "-2147483647 - 1"
    return f"{value}u" if value > 0x7FFFFFFF else str(value)


def render_constant(constant: Constant) -> str:
    if isinstance(constant.value, str):
        return f'#define {constant.name} "{constant.value}"'
    value = enumerator(constant.value)
    if constant.type:
        return f"#define {constant.name} (({constant.type}){value})"
    return f"#define {constant.name} {f'({value})' if value.startswith('-') else value}"


def render_guarded_types(library: Library) -> Iterator[str]:
    """Types in order; one that another CUDA header may already hold stays under that header's guard."""
    for item in in_order(library):
        guard = library.guards.get(item.name)
        if guard:
            yield f"#ifndef {guard}"
        yield from render_type(item)
        if guard and isinstance(item, Typedef):
            yield f"#define {guard}"
        if guard:
            yield "#endif"


def render_mapping(library: Library) -> Iterator[str]:
    """Names to symbols, as cuda.h maps them; CUDA_API_PER_THREAD_DEFAULT_STREAM picks the other variant."""
    yield "#if !defined(CUCORE_ABI_ALL_VERSIONS)"
    yield "#if defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)"
    for function in library.functions.values():
        if function.per_thread:
            yield f"#define {function.name} {function.per_thread}"
    yield "#else"
    for function in library.functions.values():
        if function.per_thread and function.symbol != function.name:
            yield f"#define {function.name} {function.symbol}"
    yield "#endif"
    for function in library.functions.values():
        if not function.per_thread and function.symbol != function.name:
            yield f"#define {function.name} {function.symbol}"
    yield "#endif"


def render_functions(library: Library) -> Iterator[str]:
    """Prototypes of every symbol. A first version whose name now means a newer symbol needs CUCORE_ABI_ALL_VERSIONS."""
    mapped = {f.name for f in library.functions.values() if f.symbol != f.name}
    hidden: list[str] = []
    for symbol, function in library.symbols().items():
        lines = [f"{prototype(s, function)};" for s in (symbol, function.per_thread) if s]
        if symbol in mapped:
            hidden += lines
        else:
            yield from lines
    if hidden:
        yield "#if defined(CUCORE_ABI_ALL_VERSIONS)"
        yield from hidden
        yield "#endif"


def render_header(library: Library, *, guard: str, includes: tuple[str, ...], extra: tuple[str, ...] = ()) -> str:
    """The whole header. `guard` is the real header's include guard: whichever comes first wins."""
    own = f"CUCORE_ABI_{library.name.upper()}_H"
    lines = [
        f"// cucore/abi/{library.name}.h: the C ABI, version {library.version}. Rendered from api/{library.name}.json.",
        f"#ifndef {own}",
        f"#define {own}",
        *(f"#include {i}" for i in includes),
        f"#ifndef {guard}  // the real header came first: it has declared everything",
        f"#define {guard}",
        "#ifndef CUCORE_ABI_ALIGNAS",
        "#ifdef __cplusplus",
        "#define CUCORE_ABI_ALIGNAS(n) alignas(n)",
        "#else",
        "#define CUCORE_ABI_ALIGNAS(n) _Alignas(n)",
        "#endif",
        "#endif",
        *extra,
        *(render_constant(c) for c in library.constants.values()),
        *render_mapping(library),
        "#ifdef __cplusplus",
        'extern "C" {',
        "#endif",
        *render_guarded_types(library),
        "#ifdef __GNUC__",
        "#pragma GCC visibility push(default)",
        "#endif",
        *render_functions(library),
        "#ifdef __GNUC__",
        "#pragma GCC visibility pop",
        "#endif",
        "#ifdef __cplusplus",
        "}",
        "#endif",
        f"#endif  // {guard}",
        f"#endif  // {own}",
    ]
    return "\n".join(lines) + "\n"
