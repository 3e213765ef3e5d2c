# SPDX-License-Identifier: Apache-2.0
"""Recorded results of a GPU: one compressed file per family in tests/ptx/h200.

A file is LZMA of a line of JSON (id -> [digest, bytes] or an error text) followed by the bytes of all results.
The digest covers the kernel and its values: a form that has changed has no recorded result.
"""

from __future__ import annotations

import hashlib
import json
import lzma
from pathlib import Path

import numpy as np

from .forms import FORMS, Form
from .values import inputs

FOLDER = FORMS / "h200"


def digest(form: Form) -> str:
    state = hashlib.sha256(form.kernel("k").encode())
    state.update(f"{form.target} {form.block} {form.cases} {form.options.get('const', '')}".encode())
    state.update(inputs(form).tobytes())
    return state.hexdigest()[:12]


def _planes(form: Form, data: bytes) -> bytes:
    """Reorders the bytes so that all first bytes of a result come first, then all second bytes: compresses better."""
    parts, at = [], 0
    for result in form.results:
        size = result.bytes * form.cases
        part = np.frombuffer(data[at : at + size], np.uint8).reshape(form.cases, result.bytes)
        parts.append(part.T.tobytes())
        at += size
    return b"".join(parts) + data[at:]


def _unplaned(form: Form, data: bytes) -> bytes:
    parts, at = [], 0
    for result in form.results:
        size = result.bytes * form.cases
        part = np.frombuffer(data[at : at + size], np.uint8).reshape(result.bytes, form.cases)
        parts.append(part.T.tobytes())
        at += size
    return b"".join(parts) + data[at:]


def write(family: str, forms: list[Form], results: dict[str, bytes | str], folder: Path = FOLDER) -> int:
    """Writes the family's file; returns its size."""
    index: dict[str, object] = {}
    blob = []
    for form in forms:
        result = results.get(form.id, "not run")
        if isinstance(result, str):
            index[form.id] = [digest(form), result]
        else:
            blob.append(_planes(form, result))
            index[form.id] = [digest(form), len(blob[-1])]
    text = json.dumps(index, separators=(",", ":")) + "\n"
    data = lzma.compress(text.encode() + b"".join(blob), preset=9 | lzma.PRESET_EXTREME)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{family}.xz").write_bytes(data)
    return len(data)


def read(family: str, forms: list[Form], folder: Path = FOLDER) -> dict[str, bytes | str]:
    """Recorded results by id: bytes, or a text if the GPU rejected the form. Changed forms are not included."""
    path = folder / f"{family}.xz"
    if not path.exists():
        return {}
    line, _, blob = lzma.decompress(path.read_bytes()).partition(b"\n")
    index = json.loads(line)
    by_id = {form.id: form for form in forms}
    results: dict[str, bytes | str] = {}
    at = 0
    for name, (key, what) in index.items():
        size = 0 if isinstance(what, str) else what
        form = by_id.get(name)
        if form is not None and digest(form) == key:
            results[name] = what if isinstance(what, str) else _unplaned(form, blob[at : at + size])
        at += size
    return results
