"""The interpreter ends: each kind of object, at each place where one can be kept, with a kernel still running.

One process per place holds one of everything. CUCORE_LONG=1 gives each pair of object and place a process of its own.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("exit_objects.py")
PLACES = (
    "global", "cycle", "module", "thread", "thread local", "atexit", "daemon", "os._exit", "sys.exit in a thread",
)  # fmt: skip
NAMES = re.findall(r'^    "([^"]+)": ', PROGRAM.read_text(), re.MULTILINE)

pytestmark = pytest.mark.promise(
    "The interpreter ends quietly with any object alive, wherever it is kept, with work still running"
)


def ends_quietly(child, place: str, *names: str) -> None:
    done = subprocess.run(
        [sys.executable, PROGRAM, place, *names], env=child.environment(), capture_output=True, text=True
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), f"{place} {names}\n{done.stderr}"


@pytest.mark.parametrize("place", PLACES)
def test_with_one_of_everything_alive(child, place):
    ends_quietly(child, place)


@pytest.mark.skipif(os.environ.get("CUCORE_LONG") != "1", reason="CUCORE_LONG=1 runs the whole matrix")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", NAMES)
def test_with_one_object_alive(child, place, name):
    for _ in range(int(os.environ.get("CUCORE_LONG_TURNS", "1"))):
        ends_quietly(child, place, name)


def test_an_exception_at_the_top_ends_as_in_any_program(child):
    status, _, err = child.run("setup()\nb = device.allocate(64, stream=stream)\nraise KeyError('mine')")
    assert status == 1 and err.rstrip().endswith("KeyError: 'mine'")


def test_an_interpreter_that_never_used_a_device_ends_quietly(child):
    child.ok("import cuda.core, cuda.bindings.driver, cuda.bindings.runtime", prelude=False)
