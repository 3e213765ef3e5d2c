# SPDX-License-Identifier: Apache-2.0
"""tools/setup on a machine without the required packages."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
COMMANDS = {
    "g++": "g++",
    "cmake": "cmake",
    "ninja": "ninja-build",
    "ccache": "ccache",
    "pkg-config": "pkg-config",
    "gdb": "gdb",
    "valgrind": "valgrind",
    "lldb-19": "lldb-19",
}


class Machine:
    """A separate checkout and PATH; the fake commands in it log their arguments to `calls`."""

    def __init__(self, folder: Path) -> None:
        self.checkout, self.bin, self.calls = folder / "checkout", folder / "bin", folder / "calls"
        (self.checkout / "tools").mkdir(parents=True)
        self.bin.mkdir()
        for name in ("setup", "requirements.txt"):
            shutil.copy(ROOT / "tools" / name, self.checkout / "tools" / name)
        for name in ("bash", "env", "dirname", "sha256sum", "cut", "touch", "mkdir", "cp", "cat"):
            found = shutil.which(name)
            assert found, name
            (self.bin / name).symlink_to(found)
        # Finds the headers in /usr after the packages are "installed", independent of this machine.
        self.program("ls", f"if [ -e {self.bin}/g++ ]; then echo there; else exit 2; fi")
        # Has headers and modules (-c); creates an environment by copying itself (-m venv).
        self.program(
            "python3",
            'case "$1 ${2:-}" in -c*) echo 1;; "-m venv") mkdir -p "$3/bin"; cp "$0" "$3/bin/python";; esac',
        )

    def program(self, name: str, body: str = "") -> None:
        path = self.bin / name
        path.write_text(f'#!{self.bin}/bash\necho "{name} $*" >> {self.calls}\n{body}\n')
        path.chmod(0o755)

    def setup(self, user: int) -> subprocess.CompletedProcess[str]:
        self.program("id", f"echo {user}")
        self.calls.write_text("")
        return subprocess.run(
            [str(self.checkout / "tools" / "setup")], env={"PATH": str(self.bin)}, capture_output=True, text=True
        )

    def called(self, name: str) -> list[str]:
        return [line for line in self.calls.read_text().splitlines() if line.startswith(name)]


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def test_setup_prints_the_install_command_for_a_user(machine: Machine) -> None:
    machine.program("apt-get")
    done = machine.setup(user=1000)
    assert done.returncode == 1
    line = done.stderr.splitlines()[-1].strip()
    assert line.startswith("sudo apt-get update && sudo apt-get install -y --no-install-recommends ")
    assert set(COMMANDS.values()) <= set(line.split())
    assert not machine.called("apt-get") and not (machine.checkout / ".venv").exists()


def test_setup_installs_everything_for_root_and_then_does_nothing(machine: Machine) -> None:
    # Installing a package creates its commands.
    made = "; ".join(f"touch {machine.bin}/{name}" for name in COMMANDS)
    machine.program("apt-get", f'case "$1" in install) {made};; esac')
    done = machine.setup(user=0)
    assert done.returncode == 0, done.stderr
    update, install = machine.called("apt-get")
    assert update == "apt-get update -qq" and set(COMMANDS.values()) <= set(install.split())
    assert any("pip install" in call and "tools/requirements.txt" in call for call in machine.called("python"))
    for name in COMMANDS:
        os.chmod(machine.bin / name, 0o755)
    done = machine.setup(user=0)
    assert done.returncode == 0 and not done.stdout and not machine.called("apt-get")
    assert not any("-m pip" in call or "-m venv" in call for call in machine.called("python"))


def test_setup_installs_changed_requirements(machine: Machine) -> None:
    for name in COMMANDS:
        machine.program(name)
    machine.program("apt-get")  # headers that this machine may lack
    assert machine.setup(user=0).returncode == 0
    with (machine.checkout / "tools" / "requirements.txt").open("a") as file:
        file.write("another\n")
    assert machine.setup(user=0).returncode == 0
    assert any("pip install" in call for call in machine.called("python"))
