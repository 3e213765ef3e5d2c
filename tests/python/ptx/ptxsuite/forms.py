# SPDX-License-Identifier: Apache-2.0
"""Reads tests/ptx/*.forms and renders each instruction form as a PTX kernel.

A row is `id : results = operands ; options`. Braces in the id are alternatives, multiplied out; `\\1` elsewhere in the
row is what the first brace stood for, and `\\1{a:x,*:y}` translates it. Indented lines below a row are its body; a row without one
is the single instruction its id spells. In a body `%d0 %d1 ..` are results, `%s0 %s1 ..` operands, `%i` the thread's number,
`%cell` 16 zeroed bytes of global memory of this thread, `%scell` the same in shared memory, `%mem` the start of the
kernel's zeroed scratch memory. Types may say how their values are made: `u32:shift`; `b32*4` stands for four of them.
A row `def name` only names the lines below it: `&name` in a body stands for them.
A line `default cases 128` sets an option for the whole file. Options: `ptx 86` least .version, `block 32` threads per block, `cases 512`, `ulp 2` / `abs 2^-22` / `rel 2^-22` how far an approximation may
be off, `differs why` the CPU device is known not to do this yet, `nan any` no matter which NaN, `manual` the GPU is known to differ from the manual, and so from the model: the recording decides, `sum 2^-18` the same against the largest result, `mem 64` that many bytes of scratch memory are a result too, `target sm_90a`, `cluster 2` blocks in a cluster, `const` module-scope text.
"""

from __future__ import annotations

import itertools
import re
import zlib
from dataclasses import dataclass, field
from pathlib import Path

FORMS = Path(__file__).resolve().parents[3] / "ptx"
DEFAULT_BLOCK = 128

# type -> (register type, memory type, bytes)
TYPES = {
    "pred": (".pred", "u32", 4),
    "u8": (".b32", "b32", 4),
    "s8": (".b32", "b32", 4),
    "b16": (".b16", "b16", 2),
    "u16": (".u16", "u16", 2),
    "s16": (".s16", "s16", 2),
    "f16": (".b16", "b16", 2),
    "bf16": (".b16", "b16", 2),
    "e4m3x2": (".b16", "b16", 2),
    "e5m2x2": (".b16", "b16", 2),
    "b32": (".b32", "b32", 4),
    "u32": (".u32", "u32", 4),
    "s32": (".s32", "s32", 4),
    "f32": (".f32", "f32", 4),
    "tf32": (".b32", "b32", 4),
    "f16x2": (".b32", "b32", 4),
    "bf16x2": (".b32", "b32", 4),
    "u16x2": (".b32", "b32", 4),
    "s16x2": (".b32", "b32", 4),
    "b64": (".b64", "b64", 8),
    "u64": (".u64", "u64", 8),
    "s64": (".s64", "s64", 8),
    "f64": (".f64", "f64", 8),
    "f32x2": (".b64", "b64", 8),
}


@dataclass(frozen=True)
class Operand:
    type: str
    kind: str = ""  # how values are made; "" = the type's own edge values and random ones

    @property
    def bytes(self) -> int:
        return TYPES[self.type][2]


@dataclass
class Form:
    """One instruction form: its kernel, the types of its results and operands, and how results are judged."""

    family: str
    id: str
    results: list[Operand]
    operands: list[Operand]
    body: str
    options: dict[str, str] = field(default_factory=dict)

    @property
    def block(self) -> int:
        return int(self.options.get("block", DEFAULT_BLOCK))

    @property
    def cases(self) -> int:
        return int(self.options.get("cases", 256 if len(self.operands) < 2 else 512))

    @property
    def scratch(self) -> int:
        return int(self.options.get("mem", 0))

    @property
    def version(self) -> int:
        return int(self.options.get("ptx", 80))

    @property
    def target(self) -> str:
        return self.options.get("target", "sm_90")

    @property
    def seed(self) -> int:
        return zlib.crc32(self.id.encode())

    def kernel(self, name: str) -> str:
        """The form as one `.entry`: operand k of thread i is cell k * threads + i of the first parameter."""
        lines = [
            f".visible .entry {name}(.param .u64 p_in, .param .u64 p_out, .param .u64 p_mem, .param .u32 p_n)",
            *(
                [".explicitcluster", f".reqnctapercluster {self.options['cluster']}, 1, 1"]
                if "cluster" in self.options
                else []
            ),
            "{",
            "  .reg .b32 %i, %x<4>;",
            "  .reg .b64 %mem, %cell, %in, %out, %step;",
            "  mov.u32 %i, %tid.x;",
            "  mov.u32 %x0, %ctaid.x;",
            "  mov.u32 %x1, %ntid.x;",
            "  mad.lo.u32 %i, %x0, %x1, %i;",
            "  ld.param.u64 %in, [p_in];",
            "  ld.param.u64 %out, [p_out];",
            "  ld.param.u64 %mem, [p_mem];",
            "  ld.param.u32 %x2, [p_n];",
            "  mul.wide.u32 %step, %i, 8;",
            "  add.u64 %in, %in, %step;",
            "  add.u64 %out, %out, %step;",
            "  add.u64 %cell, %mem, %step;",
            "  add.u64 %cell, %cell, %step;",
            "  mul.wide.u32 %step, %x2, 8;",
        ]
        if "%scell" in self.body:
            lines += [
                f"  .shared .align 16 .b8 cells[{16 * self.block}];",
                "  .reg .b32 %scell;",
                "  mov.u32 %x3, %tid.x;",
                "  mov.u32 %scell, cells;",
                "  mad.lo.u32 %scell, %x3, 16, %scell;",
                "  st.shared.v4.u32 [%scell], {0, 0, 0, 0};",
            ]
        for k, operand in enumerate(self.operands):
            register, memory, _ = TYPES[operand.type]
            lines.append(f"  .reg {register} %s{k};")
            if operand.type == "pred":
                lines += ["  ld.global.u32 %x3, [%in];", f"  setp.ne.u32 %s{k}, %x3, 0;"]
            else:
                lines.append(f"  ld.global.{memory} %s{k}, [%in];")
            lines.append("  add.u64 %in, %in, %step;")
        for k, result in enumerate(self.results):
            lines.append(f"  .reg {TYPES[result.type][0]} %d{k};")
        lines += ["  {", *("    " + line for line in self.body.splitlines()), "  }"]
        for k, result in enumerate(self.results):
            memory = TYPES[result.type][1]
            if result.type == "pred":
                lines += [f"  selp.u32 %x3, 1, 0, %d{k};", "  st.global.u32 [%out], %x3;"]
            else:
                lines.append(f"  st.global.{memory} [%out], %d{k};")
            lines.append("  add.u64 %out, %out, %step;")
        lines += ["  ret;", "}"]
        return "\n".join(lines) + "\n"


def module(forms: list[Form], names: list[str]) -> str:
    """One PTX module with a kernel per form; all of them need the same target."""
    version = max(form.version for form in forms)
    text = [f".version {version // 10}.{version % 10}", f".target {forms[0].target}", ".address_size 64", ""]
    text += sorted({form.options["const"] for form in forms if "const" in form.options})
    text += [form.kernel(name) for form, name in zip(forms, names, strict=True)]
    return "\n".join(text)


_BRACES = re.compile(r"\{([^{}]*)\}")
_REFERENCE = re.compile(r"\\(\d)(?:\{([^{}]*)\})?")


def _substitute(text: str, chosen: tuple[str, ...]) -> str:
    def replace(match: re.Match[str]) -> str:
        value = chosen[int(match[1]) - 1]
        if match[2] is None:
            return value
        table = dict(pair.split(":", 1) for pair in match[2].split(","))
        return _substitute(table[value] if value in table else table["*"], chosen)

    return _REFERENCE.sub(replace, text)


def _operands(text: str) -> list[Operand]:
    operands = []
    for word in text.split():
        word, _, count = word.partition("*")
        kind_of = word.partition(":")
        operands += [Operand(kind_of[0], kind_of[2])] * int(count or 1)
    return operands


def _instruction(spelling: str, results: int, operands: int) -> str:
    registers = [f"%d{k}" for k in range(results)] + [f"%s{k}" for k in range(operands)]
    return f"{spelling} {', '.join(registers)};"


def expand(family: str, row: str, body: str, defaults: dict[str, str]) -> list[Form]:
    """The forms one row stands for."""
    head, _, rest = row.partition(" : ")
    signature, *options = (part.strip() for part in rest.split(" ; "))
    groups = [group.split(",") for group in _BRACES.findall(head)]
    forms = []
    for chosen in itertools.product(*groups):
        name = head.strip()
        for part in chosen:
            name = _BRACES.sub(part, name, count=1)
        left, _, right = _substitute(signature, chosen).partition("=")
        results, operands = _operands(left), _operands(right)
        text = _substitute(body, chosen) if body else _instruction(name, len(results), len(operands))
        given = defaults | dict(_substitute(option, chosen).split(" ", 1) for option in options if option)
        forms.append(Form(family, name.replace(" ", "_"), results, operands, text, given))
    return forms


def load(path: Path) -> list[Form]:
    """All forms of one file, in order."""
    rows: list[tuple[str, list[str]]] = []
    defaults: dict[str, str] = {}
    for line in path.read_text().splitlines():
        if line.startswith("#") or not line.strip():
            continue
        if line.startswith("default "):
            defaults |= dict([line.removeprefix("default ").split(" ", 1)])
        elif line[0].isspace():
            rows[-1][1].append(line.strip())
        else:
            rows.append((line, []))
    named = {row.removeprefix("def ").strip(): body for row, body in rows if row.startswith("def ")}
    forms = []
    for row, body in rows:
        if not row.startswith("def "):
            lines = [part for line in body for part in (named[line[1:]] if line.startswith("&") else [line])]
            forms += expand(path.stem, row, "\n".join(lines), defaults)
    seen: set[str] = set()
    for form in forms:
        if form.id in seen:
            raise ValueError(f"{path.name}: two rows give {form.id}")
        seen.add(form.id)
    return forms


def families() -> dict[str, list[Form]]:
    """Every family of tests/ptx by name."""
    return {path.stem: load(path) for path in sorted(FORMS.glob("*.forms"))}


def batches(forms: list[Form], size: int = 64) -> list[list[Form]]:
    """Forms that may share a module, in pieces of at most `size`."""
    key = lambda form: (form.target, form.version)  # noqa: E731
    groups = (list(group) for _, group in itertools.groupby(sorted(forms, key=key), key))
    return [group[k : k + size] for group in groups for k in range(0, len(group), size)]
