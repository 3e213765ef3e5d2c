# SPDX-License-Identifier: Apache-2.0
"""Renders api/cpu_device.json: the limits of each compute capability and the device attributes of the CPU device."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

TABLE = Path(__file__).resolve().parents[1] / "api" / "cpu_device.json"
HEAD = "// Rendered from api/cpu_device.json by codegen/cpu_device.py.\n"


def read() -> dict[str, Any]:
    table: dict[str, Any] = json.loads(TABLE.read_text(encoding="utf-8"))
    return table


def render_capabilities() -> str:
    """Rows of cucpu::kComputeCapabilities: {major, minor, limits in the order of struct Limits}."""
    lines = [HEAD]
    for name, limits in read()["compute_capabilities"].items():
        major, minor = name.split(".")
        fields = ", ".join(f".{field} = {value}" for field, value in limits.items())
        lines.append(f"{{.major = {major}, .minor = {minor}, {fields}}},\n")
    return "".join(lines)


def render_attributes() -> str:
    """Cases of the switch statement in cpu/device/device.cpp."""
    table = read()
    lines = [HEAD]
    for name, value in table["attributes"].items():
        note = table["notes"].get(name)
        lines.append(f"    case CU_DEVICE_ATTRIBUTE_{name}:" + (f"  // {note}" if note else "") + "\n")
        lines.append(f"      return static_cast<int>({value});\n")
    return "".join(lines)
