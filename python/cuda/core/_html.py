# SPDX-License-Identifier: Apache-2.0
"""HTML tables of devices, streams and memory pools for notebooks (`_repr_html_`)."""

from __future__ import annotations

from html import escape
from typing import Any

from ._errors import CUDAError


def table(title: str, rows: dict[str, Any]) -> str:
    cells = "".join(
        f'<tr><th style="text-align:left">{escape(str(name))}</th><td style="text-align:left">{escape(str(value))}</td></tr>'
        for name, value in rows.items()
    )
    return f"<table><caption><b>{escape(title)}</b></caption>{cells}</table>"


def size(count: int) -> str:
    """Formats a number of bytes with a unit."""
    value, unit = float(count), "bytes"
    for unit in ("bytes", "KiB", "MiB", "GiB", "TiB"):
        if value < 1024 or unit == "TiB":
            break
        value /= 1024
    return f"{count:,} bytes" if unit == "bytes" else f"{value:.1f} {unit}"


def device(of: Any) -> str:
    rows = {
        "name": of.name,
        "compute capability": ".".join(map(str, of.compute_capability)),
        "memory": size(of.total_memory),
        "multiprocessors": of.properties.multiprocessor_count,
        "UUID": of.uuid,
        "PCI bus": of.pci_bus_id,
    }
    return table(f"Device {of.device_id}", rows)


def stream(of: Any) -> str:
    if of.is_closed:
        return table("Stream", {"state": "closed"})
    try:
        state = "done" if of.is_done else "work is queued"
    except CUDAError as error:  # a broken context: the table shows the error, and the notebook continues
        state = str(error).splitlines()[0]
    rows = {"device": of.device.device_id, "priority": of.priority, "blocking": not of.is_nonblocking, "state": state}
    return table(f"Stream {int(of.handle):#x}", rows)


def pool(of: Any) -> str:
    name = type(of).__name__
    if of.is_closed:
        return table(name, {"state": "closed"})
    attributes = of.attributes
    rows: dict[str, Any] = {"device": of.device_id} if getattr(of, "device_id", -1) >= 0 else {}
    for title, attribute in (
        ("used", "used_mem_current"),
        ("most used", "used_mem_high"),
        ("reserved", "reserved_mem_current"),
        ("kept for reuse", "release_threshold"),
    ):
        try:
            rows[title] = size(int(getattr(attributes, attribute)))
        except CUDAError:  # the driver's default pools do not support all attributes
            continue
    return table(name, rows | {"shared between processes": of.is_ipc_enabled})
