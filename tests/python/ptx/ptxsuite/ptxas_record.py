# SPDX-License-Identifier: Apache-2.0
"""Records which lines of PTX ptxas rejects. A record has one bit per line, for .version 9.4 and a target: 1 if ptxas rejects it.

python -m ptxsuite.ptxas_record PTXAS     (in tests/python/ptx) runs ptxas on every line and records the results
"""

from __future__ import annotations

import lzma
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

RECORDS = Path(__file__).resolve().parents[3] / "ptx"
REGISTERS = (
    ".reg .b16 %h<9>; .reg .b32 %r<19>; .reg .f32 %f<9>; .reg .f64 %fd<9>; .reg .b64 %rd<19>; .reg .b128 %q<9>; "
    ".reg .pred %p, %t<9>; .reg .b8 %c<9>;"
)
FIRST_LINE = 5
TARGETS = {"accesses": "sm_90", "scalars": "sm_90", "asynchronous": "sm_100a"}


def module(lines: Sequence[str], target: str = "sm_90") -> str:
    """A kernel of these instructions; the first is in FIRST_LINE."""
    head = f".version 9.4\n.target {target}\n.address_size 64\n.visible .entry k(.param .b64 pp) {{ {REGISTERS}\n"
    return head + "\n".join(lines) + "\nret;\n}\n"


def rejected(name: str, lines: Sequence[str]) -> np.ndarray:
    """True for every line that ptxas rejects."""
    bits = np.frombuffer(lzma.decompress((RECORDS / f"{name}.xz").read_bytes()), np.uint8)
    return np.unpackbits(bits).astype(bool)[: len(lines)]


def ask(ptxas: str, lines: Sequence[str], target: str = "sm_90") -> np.ndarray:
    """ptxas reports some errors only if there are no others, so accepted lines are checked again."""
    answers = np.zeros(len(lines), bool)
    while True:
        left = np.flatnonzero(~answers)
        wrong = _ask_once(ptxas, [lines[k] for k in left], target)
        if not wrong.any():
            return answers
        answers[left[wrong]] = True


def _ask_once(ptxas: str, lines: Sequence[str], target: str) -> np.ndarray:
    answers, at = np.zeros(len(lines), bool), 0
    while at < len(lines):
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "k.ptx"
            path.write_text(module(lines[at:], target))
            command = [ptxas, "-arch", target, "--opt-level", "0", str(path), "-o", "/dev/null"]
            said = subprocess.run(command, capture_output=True, text=True, check=False).stderr
        end = len(lines)
        # Addresses of 32 bits in global memory are a warning with a line, then an error without one.
        for number, text in re.findall(r"line '?(\d+)(?:; (?:error|fatal)\s*:|' which is conflicting) (.*)", said):
            answers[at + int(number) - FIRST_LINE] = True
            if "syntax error" in text:  # ptxas stops here
                end = min(end, at + int(number) - FIRST_LINE + 1)
        at = end
    return answers


if __name__ == "__main__":
    from ptxsuite import accesses, asynchronous, scalars

    for name, lines in (
        ("accesses", accesses.lines()),
        ("scalars", scalars.lines()),
        ("asynchronous", asynchronous.lines()),
    ):
        parts = [ask(sys.argv[1], lines[k : k + 4000], TARGETS[name]) for k in range(0, len(lines), 4000)]
        bits = np.packbits(np.concatenate(parts)).tobytes()
        (RECORDS / f"{name}.xz").write_bytes(lzma.compress(bits, preset=9))
