# SPDX-License-Identifier: Apache-2.0
"""Records the results of a GPU for every form of tests/ptx.

    python tests/python/ptx/record.py [--output folder] [family ...]     on a machine with the GPU
    python tests/python/ptx/record.py --assemble ptxas [family ...]      only checks each form with ptxas

Each family runs in a separate process, so that a form that hangs or faults affects no others.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from ptxsuite import recording
from ptxsuite.forms import Form, batches, families, module

FAMILY_SECONDS = 60  # seconds per family; normally one or two
FORM_SECONDS = 10


def child(family: str, ids: list[str]) -> None:
    """Runs forms and pickles their results to standard output."""
    from ptxsuite.device import Device, run_batch

    forms = [form for form in families()[family] if not ids or form.id in ids]
    device = Device()
    results: dict[str, bytes | str] = {}
    for batch in batches(forms):
        results |= run_batch(device, batch)
    sys.stdout.buffer.write(pickle.dumps(results))


def ask(family: str, ids: list[str], seconds: float) -> dict[str, bytes | str] | str:
    """The results of a child process, or its error."""
    command = [sys.executable, __file__, "--child", json.dumps([family, ids])]
    try:
        done = subprocess.run(command, capture_output=True, timeout=seconds, check=False)
    except subprocess.TimeoutExpired:
        return "failed: hangs"
    if done.returncode:
        return f"failed: exit status {done.returncode}: {done.stderr.decode(errors='replace')[-500:]}"
    return pickle.loads(done.stdout)


def record(family: str, forms: list[Form]) -> dict[str, bytes | str]:
    answer = ask(family, [], FAMILY_SECONDS)
    if isinstance(answer, dict):
        return answer
    print(f"{family}: {answer}; one form at a time", flush=True)
    results: dict[str, bytes | str] = {}
    for form in forms:
        single = ask(family, [form.id], FORM_SECONDS)
        results[form.id] = single if isinstance(single, str) else single[form.id]
    return results


def assemble(ptxas: str, forms: list[Form]) -> dict[str, str]:
    """The forms that ptxas rejects, with its messages."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "forms.ptx"

        def rejection(batch: list[Form]) -> str:
            source.write_text(module(batch, [f"form{k}" for k in range(len(batch))]))
            command = [ptxas, f"-arch={batch[0].target}", "-O0", str(source), "-o", os.devnull]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            return done.stderr if done.returncode else ""

        bad = {}
        for batch in batches(forms):
            if rejection(batch):
                bad |= {form.id: text for form in batch if (text := rejection([form]))}
        return bad


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("families", nargs="*", help="all when none is named")
    parser.add_argument("--output", type=Path, default=recording.FOLDER)
    parser.add_argument("--assemble", metavar="PTXAS")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        child(*json.loads(options.child))
        return
    os.environ.setdefault("CUCORE_DEVICE", "gpu")
    everything = families()
    start = time.perf_counter()
    total = 0
    for family in options.families or everything:
        forms = everything[family]
        if options.assemble:
            bad = assemble(options.assemble, forms)
            print(f"{family}: {len(forms)} forms, {len(bad)} rejected", flush=True)
            for name, text in bad.items():
                print(f"  {name}: {' | '.join(text.splitlines()[:2])}", flush=True)
            continue
        results = record(family, forms)
        size = recording.write(family, forms, results, options.output)
        total += size
        bad = {name: text for name, text in results.items() if isinstance(text, str)}
        print(
            f"{time.perf_counter() - start:6.1f} s  {family}: {len(forms)} forms, {size} bytes, {len(bad)} bad",
            flush=True,
        )
        for name, text in bad.items():
            print(f"  {name}: {' | '.join(text.splitlines()[:2])[:300]}", flush=True)
    print(f"{total} bytes", flush=True)


if __name__ == "__main__":
    main()
