# SPDX-License-Identifier: Apache-2.0
"""Renders the tables and type stubs of cuda.bindings into a folder.

python codegen/render_bindings.py --out DIR [--apis driver nvrtc ...]
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import bindings
import bindings_stubs
import facts
from render import write_if_changed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--stubs", type=Path, help="folder for the type stubs, laid out like cuda/bindings")
    parser.add_argument("--apis", nargs="*", default=list(bindings.APIS))
    args = parser.parse_args()
    libraries = {name: facts.load(name, later=True) for name in bindings.APIS if name in args.apis}
    for name in libraries:
        write_if_changed(args.out / f"{name}_rows.cpp", bindings.render_rows(libraries, name))
    rows = "".join(f"CUCORE_API({name.capitalize()})\n" for name in libraries)
    write_if_changed(
        args.out / "apis.inc", "// apis.inc: the rendered APIs, in the order of their type numbers.\n" + rows
    )
    if args.stubs:
        write_stubs(libraries, args.stubs)
    return 0


def write_stubs(libraries: dict[str, facts.Library], folder: Path) -> None:
    types = bindings.all_types(libraries)
    for name, library in libraries.items():
        stubs = bindings_stubs.Stubs(bindings.Renderer(library, types[name], types))
        if stubs.pythonic:
            write_if_changed(folder / f"{name}.pyi", stubs.render())
        else:
            write_if_changed(folder / name / "__init__.pyi", stubs.render())
            write_if_changed(folder / name / "raising.pyi", stubs.render_raising())


if __name__ == "__main__":
    raise SystemExit(main())
