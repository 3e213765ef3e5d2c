# SPDX-License-Identifier: Apache-2.0
"""Prints a program as CUDA C++."""

from __future__ import annotations

from .tree import (
    BOOL,
    COMPARISONS,
    F32,
    F64,
    S32,
    S64,
    SPECIAL,
    SYMBOLS,
    U32,
    U64,
    Array,
    Expr,
    Function,
    Kernel,
    Stmt,
    Type,
    Var,
)  # fmt: skip

PRELUDE = """\
typedef unsigned char u8; typedef signed char s8; typedef unsigned short u16; typedef short s16;
typedef unsigned u32; typedef int s32; typedef unsigned long long u64; typedef long long s64; typedef float f32; typedef double f64;
"""
# All NaNs are written as one value: their bits depend on the operand order, which compilers may change.
OBSERVE = """\
static __device__ __forceinline__ u64 bits(f32 x) { return x == x ? __float_as_uint(x) : 0x7fc00000u; }
static __device__ __forceinline__ u64 bits(f64 x) { return x == x ? (u64)__double_as_longlong(x) : 0x7ff8000000000000ull; }
"""
TO_INTEGER = {
    (F32, S32): "__float2int_rz", (F32, U32): "__float2uint_rz", (F32, S64): "__float2ll_rz", (F32, U64): "__float2ull_rz",
    (F64, S32): "__double2int_rz", (F64, U32): "__double2uint_rz", (F64, S64): "__double2ll_rz", (F64, U64): "__double2ull_rz",
}  # fmt: skip
MULHI = {U32: "__umulhi", S32: "__mulhi", U64: "__umul64hi", S64: "__mul64hi"}
CALLS = {
    "perm": "__byte_perm", "fsl": "__funnelshift_l", "fsr": "__funnelshift_r", "fslc": "__funnelshift_lc", "fsrc": "__funnelshift_rc",
    "uhadd": "__uhadd", "urhadd": "__urhadd", "hadd": "__hadd", "rhadd": "__rhadd", "usad": "__usad", "sad": "__sad",
    "umul24": "__umul24", "mul24": "__mul24",
}  # fmt: skip
FLOAT_CALLS = {
    "fma": "fma",
    "sqrt": "sqrt",
    "fmin": "fmin",
    "fmax": "fmax",
    "fabs": "fabs",
    "floor": "floor",
    "trunc": "trunc",
    "rint": "rint",
}
SHUFFLES = {"idx": "__shfl_sync", "up": "__shfl_up_sync", "down": "__shfl_down_sync", "xor": "__shfl_xor_sync"}


def _literal(type: Type, value: float) -> str:
    if type is BOOL:
        return "true" if value else "false"
    if type.floating:
        text = float(value).hex() + ("f" if type is F32 else "")
        return f"({text})" if text.startswith("-") else text
    if type.bits < 32:
        return f"({type.name}){_literal(S32, value)}"
    suffix = {"u32": "u", "s32": "", "u64": "ull", "s64": "ll"}[type.name]
    if value == type.lo and type.signed:
        return f"({type.lo + 1}{suffix} - 1)"
    return f"({value}{suffix})" if value < 0 else f"{value}{suffix}"


def place(array: Array, index: str, kernel: Kernel) -> str:
    """An element, as an lvalue."""
    if array.space == "own":
        total = kernel.threads * kernel.blocks
        return (
            f"{array.name}[gid + ({index}) * {total}]" if array.soa else f"{array.name}[gid * {array.size} + ({index})]"
        )
    return f"{array.name}[{index}]"


def expression(e: Expr, kernel: Kernel) -> str:
    t, op = e.type, e.op
    if op == "lit":
        return _literal(t, e.data)
    if op == "var":
        return e.data.name
    if op == "special":
        return SPECIAL[e.data]
    k = [expression(kid, kernel) for kid in e.kids]
    if op in COMPARISONS or op in ("land", "lor"):
        return f"({k[0]} {SYMBOLS[op]} {k[1]})"
    if op == "not":
        return f"(!{k[0]})" if t is BOOL else f"({t.name})~{k[0]}"
    if op == "sel":
        return f"({k[0]} ? {k[1]} : {k[2]})" if t.bits >= 32 else f"({t.name})({k[0]} ? {k[1]} : {k[2]})"
    if op == "cast":
        return f"({t.name}){k[0]}"
    if op in SYMBOLS:
        if t is BOOL:  # and, or, xor of predicates
            return f"(bool)({k[0]} {SYMBOLS[op]} {k[1]})"
        if t.floating:
            return f"({k[0]} {SYMBOLS[op]} {k[1]})"
        if t.bits < 32:
            if op in ("mul", "shl"):
                return f"({t.name})((u32){k[0]} {SYMBOLS[op]} {k[1] if op == 'shl' else '(u32)' + k[1]})"
            return f"({t.name})({k[0]} {SYMBOLS[op]} {k[1]})"
        if t.signed and op in ("add", "sub", "mul", "shl") and not e.data:
            u = t.unsigned.name
            return f"({t.name})(({u}){k[0]} {SYMBOLS[op]} {k[1] if op == 'shl' else f'({u})' + k[1]})"
        return f"({k[0]} {SYMBOLS[op]} {k[1]})"
    if op == "neg":
        return f"(-{k[0]})" if t.floating else f"({t.name})({'0ull' if t.bits == 64 else '0u'} - {k[0]})"
    if op in ("min", "max"):
        return (
            f"{op}({k[0]}, {k[1]})"
            if t.bits >= 32
            else f"({t.name})({k[0]} {'<' if op == 'min' else '>'} {k[1]} ? {k[0]} : {k[1]})"
        )
    if op == "abs":
        return f"({k[0]} < 0 ? -{k[0]} : {k[0]})"
    if op == "mulhi":
        return f"{MULHI[t]}({', '.join(k)})"
    if op in ("clz", "popc", "ffs", "brev"):
        return f"__{op}{'ll' if e.kids[0].type.bits == 64 else ''}({k[0]})"
    if op in CALLS:
        return f"{CALLS[op]}({', '.join(k)})"
    if op in FLOAT_CALLS:
        return f"{FLOAT_CALLS[op]}{'f' if t is F32 else ''}({', '.join(k)})"
    if op == "f2i":
        return f"{TO_INTEGER[e.kids[0].type, t]}({k[0]})"
    if op == "bits":
        return f"bits({k[0]})"
    if op == "load":
        return place(e.data, k[0], kernel)
    if op == "vload":  # data: array, number of components, component
        array, count, component = e.data
        base = {
            "u32": "uint",
            "s32": "int",
            "f32": "float",
            "u64": "ulonglong",
            "f64": "double",
            "u8": "uchar",
            "u16": "ushort",
        }
        return f"((const {base[array.type.name]}{count}*){array.name})[{k[0]}].{'xyzw'[component]}"
    if op == "gload":  # through a pointer into one of two spaces
        first, second = e.data
        return f"(({k[0]}) ? (const {t.name}*){first.name} : (const {t.name}*){second.name})[{k[1]}]"
    if op == "call":
        return f"{e.data.name}({', '.join(k)})"
    raise ValueError(f"no such expression: {op}")


def _shuffle(s: Stmt, kernel: Kernel) -> str:
    """A shuffle whose result is used only if the source lane is active."""
    _, kind, width = s.data
    mask, value, by = (expression(e, kernel) for e in s.exprs)
    source = {
        "idx": f"((lane & {32 - width}u) | ({by} & {width - 1}u))", "up": f"((lane - {by}) & 31u)",
        "down": f"((lane + {by}) & 31u)", "xor": f"((lane ^ {by}) & 31u)",
    }[kind]  # fmt: skip
    assert s.var
    call = f"{SHUFFLES[kind]}({mask}, {value}, {by}{f', {width}' if width != 32 else ''})"
    return (
        f"{{ const {s.exprs[1].type.name} got = {call}; {s.var.name} = (({mask} >> {source}) & 1u) ? got : {value}; }}"
    )


def _warp(s: Stmt, kernel: Kernel) -> str:
    """data: kind, ... ; exprs: mask, then operands."""
    kind = s.data[0]
    k = [expression(e, kernel) for e in s.exprs]
    if kind == "syncwarp":
        return f"__syncwarp({k[0]});"
    assert s.var
    name, t = s.var.name, s.var.type.name
    if kind == "shfl":
        return _shuffle(s, kernel)
    if kind in ("ballot", "any", "all"):
        return f"{name} = ({t})__{kind}_sync({k[0]}, {k[1]});"
    if kind == "match_any":
        return f"{name} = ({t})__match_any_sync({k[0]}, {k[1]});"
    if kind == "match_all":
        return f"{{ int same; {name} = ({t})(__match_all_sync({k[0]}, {k[1]}, &same) + (same ? 1u : 0u)); }}"
    if kind == "reduce":
        return f"{name} = ({t})__reduce_{s.data[1]}_sync({k[0]}, {k[1]});"
    if kind == "split":  # the same vote or reduction at two places in the code, executed by all lanes of the mask
        what = s.data[1]
        call = f"__reduce_{what}_sync" if what in ("add", "min", "max", "and", "or", "xor") else f"__{what}_sync"
        mask, cond, a, b = k
        return f"if ({cond}) {{ {name} = ({t}){call}({mask}, {a}); }} else {{ {name} = ({t}){call}({mask}, {b}); }}"
    raise ValueError(f"no such warp operation: {kind}")


def _atomic(s: Stmt, kernel: Kernel) -> str:
    array, how = s.data
    k = [expression(e, kernel) for e in s.exprs]
    where = f"&{place(array, k[0], kernel)}"
    if how == "cas":
        t = array.type.name
        step = {
            "add": "seen + v",
            "xor": "seen ^ v",
            "max": "seen < v ? v : seen",
            "min": "seen < v ? seen : v",
            "or": "seen | v",
            "and": "seen & v",
        }
        return (
            f"{{ {t}* const p = {where}; const {t} v = {k[1]}; {t} old = *(volatile {t}*)p, seen; "
            f"do {{ seen = old; old = atomicCAS(p, seen, {step[array.op]}); }} while (old != seen); }}"
        )
    name = {
        "add": "atomicAdd",
        "min": "atomicMin",
        "max": "atomicMax",
        "and": "atomicAnd",
        "or": "atomicOr",
        "xor": "atomicXor",
        "inc": "atomicInc",
    }
    return f"{name[array.op]}({where}, {k[1]});"


class Printer:
    def __init__(self, kernel: Kernel) -> None:
        self.kernel, self.lines, self.depth = kernel, [], 1

    lines: list[str]

    def put(self, text: str) -> None:
        self.lines.append("  " * self.depth + text)

    def body(self, stmts: list[Stmt]) -> None:
        self.depth += 1
        for s in stmts:
            self.statement(s)
        self.depth -= 1

    def text(self, e: Expr) -> str:
        return expression(e, self.kernel)

    def statement(self, s: Stmt) -> None:
        x = [self.text(e) for e in s.exprs]
        v = s.var
        if s.op == "decl":
            assert v
            self.put(f"{'const ' if v.fixed and x else ''}{v.type.name} {v.name}{' = ' + x[0] if x else ''};")
        elif s.op == "set":
            assert v
            self.put(f"{v.name} = {x[0]};")
        elif s.op == "array":
            a = s.data
            self.put(f"{a.type.name} {a.name}[{a.size}];")
            self.put(f"for (int z = 0; z < {a.size}; ++z) {a.name}[z] = ({a.type.name})({x[0]} + ({a.type.name})z);")
        elif s.op == "store":
            self.put(f"{place(s.data, x[0], self.kernel)} = {x[1]};")
        elif s.op == "if":
            self.put(f"if ({x[0]}) {{")
            self.body(s.bodies[0])
            if s.bodies[1]:
                self.put("} else {")
                self.body(s.bodies[1])
            self.put("}")
        elif s.op == "for":
            assert v
            style, pragma = s.data
            if pragma:
                self.put(pragma)
            t, i = v.type.name, v.name
            heads = {
                "up": f"for ({t} {i} = 0; {i} < {x[0]}; ++{i}) {{", "down": f"for ({t} {i} = {x[0]} - 1; {i} >= 0; --{i}) {{",
                "ne": f"for ({t} {i} = 0; {i} != {x[0]}; {i}++) {{", "double": f"for ({t} {i} = 1; {i} < {x[0]}; {i} <<= 1) {{",
                "step": f"for ({t} {i} = {x[1 % len(x)]}; {i} < {x[0]}; {i} += {x[2 % len(x)]}) {{",
                "halve": f"for ({t} {i} = {x[0]}; {i} > {x[1 % len(x)]}; {i} >>= 1) {{",
            }  # fmt: skip
            self.put(heads[style])
            self.body(s.bodies[0])
            self.put("}")
        elif s.op == "while":
            assert v
            self.put(f"for (int {v.name} = 0; {v.name} < {s.data} && ({x[0]}); ++{v.name}) {{")
            self.body(s.bodies[0])
            self.put("}")
        elif s.op == "do":
            assert v
            self.put(f"int {v.name} = 0;")
            self.put("do {")
            self.body(s.bodies[0])
            self.put(f"}} while (++{v.name} < {s.data} && ({x[0]}));")
        elif s.op == "switch":
            self.put(f"switch ({x[0]}) {{")
            self.depth += 1
            for (value, through), body in zip(s.data, s.bodies, strict=True):
                self.put("default: {" if value is None else f"case {value}: {{")
                self.body(body)
                self.put("}" if through else "} break;")
            self.depth -= 1
            self.put("}")
        elif s.op in ("break", "continue"):
            self.put(f"{s.op};")
        elif s.op == "return":
            self.put(f"return{' ' + x[0] if x else ''};")
        elif s.op == "sync":
            if v:
                self.put(f"{v.name} = ({v.type.name})__syncthreads_{s.data}({x[0]});")
            else:
                self.put("__syncthreads();")
        elif s.op == "warp":
            self.put(_warp(s, self.kernel))
        elif s.op == "atomic":
            self.put(_atomic(s, self.kernel))
        else:
            raise ValueError(f"no such statement: {s.op}")


def _function(f: Function, kernel: Kernel) -> str:
    printer = Printer(kernel)
    printer.depth = 0
    params = ", ".join(f"{p.type.name} {p.name}" for p in f.params)
    printer.put(f"static __device__ {f.inline} {f.type.name} {f.name}({params}) {{")
    printer.body(f.body)
    printer.depth = 1
    printer.put(f"return {printer.text(f.result)};")
    printer.depth = 0
    printer.put("}")
    return "\n".join(printer.lines)


PARAMETERS = (
    ("const u32*", "a32"), ("const s32*", "b32"), ("const u64*", "a64"), ("const u8*", "a8"), ("const s16*", "a16"),
    ("const f32*", "af"), ("const f64*", "ad"), ("u64*", "out"), ("void*", "own"), ("void*", "acc"), ("int", "n"), ("int", "q"),
)  # fmt: skip


def result_text(e: Expr, kernel: Kernel) -> str:
    text = expression(e, kernel)
    if e.type.floating:
        return f"bits({text})"
    return f"(u64)(s64){text}" if e.type.signed else f"(u64){text}"


def kernel_text(kernel: Kernel) -> str:
    """The functions and the kernel, without the common prologue."""
    printer = Printer(kernel)
    printer.depth = 0
    k = kernel
    for a in k.arrays:
        if a.space == "const":
            values = ", ".join(_literal(a.type, v) for v in a.values)
            printer.put(f"static __constant__ {a.type.name} {a.name}[{a.size}] = {{{values}}};")
    for f in k.functions:
        printer.put(_function(f, k))
    restrict = " __restrict__" if k.restrict else ""
    params = ", ".join(f"{t}{restrict if t.startswith('const') else ''} {name}" for t, name in PARAMETERS)
    printer.put(f'extern "C" __global__ void {k.name}({params}) {{')
    printer.depth = 1
    _bx, by, bz = k.block
    if by == bz == 1:
        printer.put("const u32 tid = threadIdx.x;")
    else:
        printer.put("const u32 tid = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);")
    printer.put(
        "const u32 bid = blockIdx.x;" if k.grid[1] == 1 else "const u32 bid = blockIdx.x + gridDim.x * blockIdx.y;"
    )
    size = "blockDim.x" if by == bz == 1 else str(k.threads)
    printer.put(f"const u32 gid = bid * {size} + tid, lane = tid & 31u;")
    rest = k.threads % 32
    printer.put(f"const u32 wm = {f'tid >= {k.threads - rest}u ? {(1 << rest) - 1}u : ' if rest else ''}0xffffffffu;")
    place_of = {"own": 0, "acc": 0}
    for a in k.arrays:
        if a.space in ("shared", "sacc"):
            printer.put(f"__shared__ {a.type.name} {a.name}[{a.size}];")
        elif a.space in ("own", "acc"):
            offset = place_of[a.space]
            printer.put(f"{a.type.name}* const {a.name} = ({a.type.name}*)((char*){a.space} + {offset});")
            place_of[a.space] += bytes_of(a, k)
    printer.depth = 0
    printer.body(k.body)
    total = k.threads * k.blocks
    printer.depth = 1
    for j, e in enumerate(k.outs):
        where = f"gid * {len(k.outs)} + {j}" if k.aos else f"gid + {j * total}"
        printer.put(f"out[{where}] = {result_text(e, k)};")
    printer.depth = 0
    printer.put("}")
    return "\n".join(printer.lines) + "\n"


def bytes_of(a: Array, kernel: Kernel) -> int:
    """The size of an array in the memory `own` or `acc`."""
    count = a.size * (kernel.threads * kernel.blocks if a.space == "own" else 1)
    return (count * a.type.bits // 8 + 15) // 16 * 16


def source_of(kernels: list[Kernel]) -> str:
    return PRELUDE + OBSERVE + "".join("\n" + kernel_text(k) for k in kernels)


__all__ = ["PARAMETERS", "Printer", "Var", "bytes_of", "expression", "kernel_text", "source_of"]
