# SPDX-License-Identifier: Apache-2.0
"""Renders api/ into the build folder. Uses the standard library only. CMake runs it:

python codegen/render.py --out DIR [--only NAME ...]     writes the files that changed
python codegen/render.py --list                          lists the outputs
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

import abi_checks
import abi_header
import cpu_device
import cpu_exports
import cupti_exports
import driver_results
import driver_table
import facts
import nvml_exports

OUTPUTS: dict[str, Callable[[], str]] = {
    **{
        f"include/cucore/abi/{name}.h": lambda name=name: abi_header.render_header(facts.load(name))  # type: ignore[misc]
        for name in abi_header.HEADERS
    },
    **{
        f"tests/abi/{name}_facts.inc": lambda name=name: abi_checks.render_facts(facts.load(name))  # type: ignore[misc]
        for name in abi_header.HEADERS
    },
    "driver/driver_functions.inc": lambda: driver_table.render_table(facts.load("driver")),
    "driver/driver_results.inc": lambda: driver_results.render_results(facts.load("driver")),
    "cpu/cucpu/exports.hpp": lambda: cpu_exports.render_exports_hpp(facts.load("driver")),
    "cpu/device_attributes.inc": cpu_device.render_attributes,
    "options/compute_capabilities.inc": cpu_device.render_capabilities,
    "cpu/exports.cpp": lambda: cpu_exports.render_exports_cpp(facts.load("driver")),
    "cpu/cupti_exports.cpp": lambda: cupti_exports.render_exports(facts.load("cupti")),
    "cpu/cupti_tables.inc": lambda: cupti_exports.render_tables(facts.load("cupti")),
    "tests/doubles/nvml_names.inc": lambda: nvml_exports.render_names(facts.load("nvml")),
    "cpu/nvml_exports.cpp": lambda: nvml_exports.render_exports(facts.load("nvml")),
}


def write_if_changed(path: Path, text: str) -> None:
    """Leaves an unchanged file untouched, so that its dependents are not rebuilt."""
    if path.exists() and path.read_text(encoding="utf-8") == text:
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description="Renders api/ into the build folder.")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--only", nargs="*", default=[])
    parser.add_argument("--list", action="store_true")
    args = parser.parse_args()
    if args.list or args.out is None:
        print("\n".join(OUTPUTS))
        return 0
    for name, render in OUTPUTS.items():
        if not args.only or name in args.only:
            write_if_changed(args.out / name, render())
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
