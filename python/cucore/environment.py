# SPDX-License-Identifier: Apache-2.0
"""The valid values of cucore's environment variables. `cucore doctor` reports invalid ones.

docs/reference/environment.md documents the variables. A test compares the names, and the values with those that the CPU
device accepts.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Callable, Mapping


def _one_of(*words: str) -> Callable[[str], bool]:
    return lambda value: value in words


def _dumps(value: str) -> bool:
    words = {"ptx", "thread", "ssa", "block", "llvm", "asm"}
    return all(word in words or word.startswith("after:") for word in map(str.strip, value.split(",")) if word)


def _whole(low: int, high: int) -> Callable[[str], bool]:
    return lambda value: re.fullmatch(r"\s*[+-]?\d+", value) is not None and low <= int(value) <= high


def _seconds(value: str) -> bool:
    try:
        return 0 <= float(value) <= 1e9
    except ValueError:
        return False


def _mebibytes(value: str) -> bool:
    try:
        return 0 <= float(value) <= 1e12
    except ValueError:
        return False


def _bytes(value: str) -> bool:
    match = re.fullmatch(r"\s*\+?(\d+\.?\d*|\.\d+)\s*([kKmMgGtT]?)(i?[bB])?\s*", value)
    if match is None:
        return False
    factor = float(1024 ** " KMGT".index(match[2].upper() or " "))
    return 2**20 <= float(match[1]) * factor < 9e18


_CAPABILITIES = ("7.5", "8.0", "8.6", "8.9", "9.0", "10.0", "10.3", "11.0", "12.0", "12.1")


def _capabilities(value: str) -> bool:
    words = [word.replace(" ", "").removeprefix("sm_") for word in value.split(",")]
    known = {*_CAPABILITIES, *(name.replace(".", "") for name in _CAPABILITIES)}
    return set(words) <= known


def _absolute(value: str) -> bool:
    return value.startswith("/")


def _checks(value: str) -> bool:
    words = [word.strip() for word in value.split(",") if word.strip()]
    kinds = {"memory", "race", "init", "sync", "leak", "all"}
    return set(words) <= kinds | {"continue"} and bool(set(words) & kinds)


def _switch_or_folder(value: str) -> bool:
    return value in ("0", "1") or value.startswith("/")


def _features(value: str) -> bool:
    return all(re.fullmatch(r"-[a-z0-9_.-]+", word) for word in value.split(","))


def _schedule(value: str) -> bool:
    words = value.split(",")
    has_seed = any(re.fullmatch(r"seed:\d+", word) for word in words)
    return has_seed and all(word.startswith(("seed:", "keep:", "log:")) for word in words)


# Name: (predicate of valid values, description of them). None: any text is valid.
RULES: dict[str, tuple[Callable[[str], bool] | None, str]] = {
    "CUCORE_DEVICE": (_one_of("auto", "gpu", "cpu"), "auto, gpu or cpu"),
    "CUCORE_CPU_LIBRARY": (_absolute, "an absolute path"),
    "CUCORE_CPU_DEVICES": (_whole(1, 64), "a number from 1 to 64"),
    "CUCORE_CPU_ARCH": (
        _capabilities,
        "one of " + ", ".join(_CAPABILITIES) + ", or a list with one of them for each device (CUCORE_CPU_DEVICES)",
    ),
    "CUCORE_CPU_THREADS": (_whole(1, 4096), "a number of threads from 1 to 4096"),
    "CUCORE_CPU_MEMORY": (_bytes, "bytes of at least 1M, such as 4G"),
    "CUCORE_CPU_TIMEOUT": (_seconds, "seconds, such as 10 or 0.5; 0 for no limit"),
    "CUCORE_CPU_SCHEDULE": (_schedule, "seed:N, such as seed:7"),
    "CUCORE_DEBUG": (_one_of("0", "1"), "0 or 1"),
    "CUCORE_CHECK": (_checks, "a list of memory, race, init, sync, leak and continue, or all"),
    "CUCORE_CHECK_SUPPRESS": (None, "a list of kind:pattern, or a file of them"),
    "CUCORE_COVERAGE": (None, "a folder"),
    "CUCORE_TRACE": (None, "a file or a folder"),
    "CUCORE_COMPILE_CACHE": (_switch_or_folder, "0, 1 or the absolute path of a folder"),
    "CUCORE_CPU_CACHE": (_one_of("0", "1"), "0 or 1"),
    "CUCORE_CACHE_DIR": (None, "a folder"),
    "CUCORE_CACHE_SIZE": (_mebibytes, "a number of MiB"),
    "CUCORE_CPU_REPORT": (_one_of("0", "1"), "0 or 1"),
    "CUCORE_CPU_W": (_one_of("1", "4", "8", "16", "32"), "1, 4, 8, 16 or 32"),
    "CUCORE_CPU_FEATURES": (_features, "a list of -NAME, where NAME is a feature of this host, such as -avx512f"),
    "CUCORE_CPU_NAN": (_one_of("gpu", "exact", "host"), "gpu, exact or host"),
    "CUCORE_CPU_TIER": (_one_of("auto", "baseline", "optimized"), "auto, baseline or optimized"),
    "CUCORE_CPU_TIMES": (_one_of("0", "1"), "0 or 1"),
    "CUCORE_CPU_QUICK": (_one_of("0", "1", "always"), "0, 1 or always"),
    "CUCORE_CPU_STRICT": (_one_of("0", "1"), "0 or 1"),
    "CUCORE_CPU_DUMP": (_dumps, "a list of ptx, thread, block, asm and after:NAME of a pass"),
    "CUCORE_CPU_DUMP_DIR": (None, "a folder"),
    "CUCORE_RUN_PYTHON": (_absolute, "an absolute path"),
    "CUCORE_STAND_INS": (_one_of("0", "1"), "0 or 1"),
    "CUCORE_PTXAS": (_absolute, "an absolute path"),
    "CUCORE_SITE_PACKAGES": (None, "folders, separated by colons"),
    "CUCORE_LEAK_WARNINGS": (None, "any text"),
}
# Variables of the build and of the test suites. They are valid, but the product does not read them.
OTHERS = re.compile(r"CUCORE_(TEST_\w+|SOAK|LONG|LLVM_\w+|PYTHON|BENCH)")


def wrong(environment: Mapping[str, str] = os.environ) -> list[tuple[str, str, str]]:
    """Returns (name, problem, fix) for each variable that is misspelled or has an invalid value."""
    found = []
    for name, value in sorted(environment.items()):
        if not name.startswith("CUCORE_") or not value or OTHERS.fullmatch(name):
            continue
        if name not in RULES:
            close = difflib.get_close_matches(name, RULES, 1, 0.75)
            fix = f"export {close[0]}={value}; unset {name}" if close else f"unset {name}"
            found.append((name, f"{name} is no variable of cucore" + (f": is {close[0]} meant?" if close else ""), fix))
            continue
        readable, expected = RULES[name]
        if readable is not None and not readable(value):
            found.append((name, f"{name}={value} cannot be read: expected {expected}", f"unset {name}"))
    capabilities, devices = environment.get("CUCORE_CPU_ARCH", "").count(",") + 1, environment.get("CUCORE_CPU_DEVICES")
    is_list = all(name != "CUCORE_CPU_ARCH" for name, _, _ in found)
    if is_list and capabilities > 1 and str(capabilities) != (devices or "1").strip():
        text = f"CUCORE_CPU_ARCH lists {capabilities} capabilities for {devices or 1} devices"
        found.append(("CUCORE_CPU_ARCH", text, f"export CUCORE_CPU_DEVICES={capabilities}"))
    return found
