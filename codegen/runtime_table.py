# SPDX-License-Identifier: Apache-2.0
"""Renders runtime_table.inc (one row per runtime function) and runtime_errors.inc (names of error codes)."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import facts
from render import write_if_changed


def render_functions(library: facts.Library) -> str:
    head = "// runtime_table.inc: every function of the runtime API. Rendered from api/runtime.json.\n"
    return head + "".join(f"CUCORE_RT({name})\n" for name in library.functions)


def render_errors(library: facts.Library) -> str:
    head = "// runtime_errors.inc: CUCORE_RT_ERROR(name, value) per error code. Rendered from api/runtime.json.\n"
    return head + "".join(f"CUCORE_RT_ERROR({name}, {value})\n" for name, value in library.enums["cudaError"].values)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    library = facts.load("runtime")
    write_if_changed(args.out / "runtime_table.inc", render_functions(library))
    write_if_changed(args.out / "runtime_errors.inc", render_errors(library))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
