# SPDX-License-Identifier: Apache-2.0
"""Writes programs with their results to a folder, and runs such a folder on the device of CUCORE_DEVICE."""

from __future__ import annotations

import os
from pathlib import Path

from .record import differences, load, save

FILE = "programs.xz"


def record(count: int, folder: Path, languages: list[str], seed: int, per_module: int) -> int:
    """Results are the model's, or those of the scalar path for PTX programs, which have no model."""
    from .runner import Worker
    from .worker import Batch, Unusable

    folder.mkdir(parents=True, exist_ok=True)
    worker = Worker(False)
    batches: list[Batch] = []
    written = number = 0
    while written < count:
        language = languages[number % len(languages)]
        size = min(per_module, count - written)
        try:
            batch, wrong = worker.ask(
                "seed", (language, seed * 1_000_003 + number, size), ["W=1"] if language == "ptx" else []
            )
        except Unusable as error:
            print(f"seed {seed * 1_000_003 + number}: not usable: {error}")
            number += 1
            continue
        number += 1
        good = [i for i in range(size) if i not in {w[1] for w in wrong}]
        batch.launches = [batch.launches[i] for i in good]
        batch.expected = [batch.expected[i] for i in good]
        batch.programs = []
        batches.append(batch)
        written += len(good)
    worker.close()
    path = folder / FILE
    save(path, batches)
    print(f"{written} programs in {len(batches)} modules, {path.stat().st_size / 1e6:.1f} MB: {path}")
    return 0


def replay(folder: Path) -> int:
    """Loads each module once; after a fault the next program gets a new context."""
    from .device import Device, DeviceError, Launch

    device = Device()
    done = bad = 0
    for number, module in enumerate(load(folder / FILE if folder.is_dir() else folder)):
        ptx, handle = module["ptx"].encode(), None
        for launch, text in zip(module["launches"], module["expected"], strict=True):
            one = Launch(**{k: tuple(v) if isinstance(v, list) else v for k, v in launch.items()})
            want = bytes.fromhex(text)
            try:
                handle = handle or device.load(ptx)
                got = device.run(handle, one)
                problem = "" if got == want else "wrong result" + differences(want, got)
            except DeviceError as error:
                problem, handle = str(error), None
                device.reset()
            done += 1
            if problem:
                bad += 1
                print(
                    f"module {number} ({module['language']}), kernel {one.name}, block {one.block}, grid {one.grid}: {problem[:400]}",
                    flush=True,
                )
        if handle:
            device.unload(handle)
    print(f"{done} programs on {os.environ.get('CUCORE_DEVICE', 'auto')}: {bad} differ")
    return 1 if bad else 0
