# SPDX-License-Identifier: Apache-2.0
"""Maintainer's tool: reads CUDA headers with libclang and writes the facts to api/*.json.

Requires the PyPI packages libclang and nvidia-* (headers). It writes only facts: names, types, values, sizes and
offsets, never header text. Run it after a CUDA release and review the diff, which has one line per fact.

    python codegen/scan_headers.py [--include DIR] [LIBRARY ...]
"""

from __future__ import annotations

import argparse
import sys
import sysconfig
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from factfile import write_facts
from scan.libraries import LIBRARIES, scan_library

ROOT = Path(__file__).resolve().parent.parent


def default_include() -> Path:
    return Path(sysconfig.get_paths()["purelib"]) / "nvidia" / "cu13" / "include"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--include", type=Path, default=default_include(), help="folder of the CUDA headers")
    parser.add_argument("--out", type=Path, default=ROOT / "api", help="where the JSON files go")
    parser.add_argument("libraries", nargs="*", default=sorted(LIBRARIES), metavar="LIBRARY")
    args = parser.parse_args()
    for name in args.libraries:
        facts = scan_library(name, args.include)
        path = args.out / f"{name}.json"
        write_facts(path, facts)
        counts = ", ".join(f"{len(facts[k])} {k}" for k in ("functions", "structs", "enums", "typedefs", "constants"))
        print(f"{path.name}: {counts}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
