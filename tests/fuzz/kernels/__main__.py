# SPDX-License-Identifier: Apache-2.0
"""python -m kernels: see --help."""

from __future__ import annotations

import argparse
import os
import random
import sys
from pathlib import Path


def main() -> int:
    parser = argparse.ArgumentParser(prog="kernels", description="Differential fuzzer of kernels for the CPU device.")
    parser.add_argument("--seconds", type=float, default=60, help="how long to look (default 60)")
    parser.add_argument("--seed", type=int, default=None, help="the first seed (default: another one every time)")
    parser.add_argument("--programs", type=int, default=0, help="end after this many programs")
    parser.add_argument("--language", choices=["cuda", "ptx", "both"], default="both")
    parser.add_argument("--batch", type=int, default=4, help="programs per module (default 4)")
    parser.add_argument(
        "--jobs", type=int, default=len(os.sched_getaffinity(0)), help="programs at a time (default: the cores)"
    )
    parser.add_argument("--finds", type=int, default=10, help="end after this many finds (default 10)")
    parser.add_argument(
        "--reduce", type=float, default=40, help="seconds to spend on making a find smaller (default 40)"
    )
    parser.add_argument("--interval", type=float, default=5, help="seconds between lines of progress (default 5)")
    parser.add_argument("--out", type=Path, default=Path("build/fuzz-kernels"), help="folder for finds")
    parser.add_argument(
        "--record", nargs=2, metavar=("COUNT", "FOLDER"), help="write programs with their results instead"
    )
    parser.add_argument(
        "--replay", type=Path, metavar="FOLDER", help="run recorded programs on the device that CUCORE_DEVICE selects"
    )
    arguments = parser.parse_args()
    if arguments.replay:
        from .replay import replay

        return replay(arguments.replay)
    from .runner import Session, fuzz

    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 20)
    languages = ["cuda", "cuda", "ptx"] if arguments.language == "both" else [arguments.language]
    if arguments.record:
        from .replay import record

        return record(int(arguments.record[0]), Path(arguments.record[1]), languages, seed, arguments.batch)
    print(f"seed {seed}, {arguments.jobs} jobs", flush=True)
    session = Session(
        languages,
        seed,
        arguments.seconds,
        arguments.programs,
        arguments.batch,
        arguments.out,
        arguments.finds,
        arguments.reduce,
    )
    return fuzz(session, arguments.jobs, arguments.interval)


if __name__ == "__main__":
    sys.exit(main())
