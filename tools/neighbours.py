# SPDX-License-Identifier: Apache-2.0
"""Runs released packages of others on the CPU device and prints what works: `make neighbours`.

Each package of tests/neighbours/packages.json gets an environment of its own (build/neighbours/NAME) or that of another row: its
wheels without their dependencies, which would bring NVIDIA's packages over ours, and this build. `--docs FILE` writes the table into
a page.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
FOLDER = ROOT / "tests" / "neighbours"
BEGIN, END = "<!-- matrix -->", "<!-- end of matrix -->"


class NoWheel(Exception):
    """A package has no wheel for this architecture and this Python."""


def install(python: Path, wheels: list[str]) -> None:
    command = [str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", *wheels]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True, check=False)
    missing = re.findall(r"No matching distribution found for (\S+)", done.stderr)
    if missing and "ConnectionError" not in done.stderr:  # an index that answers, and does not have it
        python_version = ".".join(platform.python_version_tuple()[:2])
        raise NoWheel(f"{missing[0]} has no wheel for {platform.machine()} and Python {python_version}")
    if done.returncode:
        raise RuntimeError(f"pip install failed: {done.stderr.strip()}")


def site_packages(python: Path) -> Path:
    script = "import sysconfig; print(sysconfig.get_path('purelib'))"
    return Path(subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout.strip())


def build_pycuda(source: str, python: Path, site: Path) -> None:
    """Builds PyCUDA, which has no wheels, against the headers and the driver library of this environment."""
    settings = {
        "CUDA_ROOT": str(site / "nvidia" / "cu13"),
        "CUDADRV_LIB_DIR": [str(site / "cucore" / "lib" / "cpu" / "stubs")],
        "CUDA_ENABLE_CURAND": False,
    }
    command = [python, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-deps", "--no-build-isolation"]
    with tempfile.TemporaryDirectory() as home:  # PyCUDA reads its settings from the user's folder
        lines = [f"{name} = {value!r}\n" for name, value in settings.items()]
        (Path(home) / ".aksetup-defaults.py").write_text("".join(lines))
        subprocess.run([*command, "--no-binary", "pycuda", source], check=True, env={**os.environ, "HOME": home})


def prepare(package: dict[str, Any], build: Path) -> Path:
    """The Python of the package's environment."""
    folder = build.parent / "neighbours" / re.sub(r"\W+", "-", package.get("environment", package["name"]))
    python = folder / "bin" / "python"
    mark = folder / "wheels.json"
    if not mark.exists() or json.loads(mark.read_text()) != package["wheels"]:
        venv.create(folder, with_pip=True, clear=True)
        install(python, package["wheels"])
        mark.write_text(json.dumps(package["wheels"]))
    site = site_packages(python)
    own = site / "nvidia"
    ours = site_packages(ROOT / ".venv" / "bin" / "python") / "nvidia"
    if not own.exists():
        own.symlink_to(ours)  # NVRTC, libNVVM and headers of this checkout
    subprocess.run(["cmake", "--install", build, "--prefix", site], check=True, stdout=subprocess.DEVNULL)
    subprocess.run([sys.executable, ROOT / "tools" / "dist_info.py", site], check=True)
    if "source" in package and not list(site.glob("pycuda-*")):
        build_pycuda(package["source"], python, site)
    return python


def run(package: dict[str, Any], python: Path) -> tuple[str, list[str], list[str]]:
    """(version, rows that work, rows that do not with the reason)."""
    script = f"import importlib.metadata as m; print(m.version({package['version_of']!r}))"
    version = subprocess.run([python, "-c", script], check=True, capture_output=True, text=True).stdout.strip()
    command = [str(python), "-W", "ignore", str(FOLDER / "programs" / package["program"])]
    environment = {**os.environ, **package.get("variables", {})}
    if package["start"] == "run":
        command = [str(python), "-m", "cucore", "run", "--cpu", *command]
    else:
        environment["CUCORE_DEVICE"] = "cpu"
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    lines = done.stdout.splitlines()
    good = [line[3:] for line in lines if line.startswith("ok ")]
    bad = [line[3:] for line in lines if line.startswith("no ")]
    if done.returncode != 0 and not bad:
        bad = [(done.stderr.strip().splitlines() or [f"ended with {done.returncode}"])[-1]]
    if bad:
        print(done.stderr, file=sys.stderr)
    return version, good, bad


def table(rows: list[tuple[str, str, list[str], list[str]]], others: list[dict[str, str]]) -> str:
    today = time.strftime("%Y\u2011%m\u2011%d")  # hyphens that do not break the line
    lines = ["| package | version | runs | does not run, and why | last run |", "|---|---|---|---|---|"]
    for name, version, good, bad in rows:
        lines.append(
            f"| {name} | {version} | {', '.join(good) or '-'} | {'; '.join(bad) or '-'} | {today}, {platform.machine()} |"
        )
    for other in others:
        lines.append(f"| {other['name']} | - | - | {other['why']} | - |")
    return "\n".join(lines)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--build", type=Path, default=ROOT / "build" / "dev")
    options.add_argument("--docs", type=Path, help="the page whose table is replaced")
    options.add_argument("names", nargs="*", help="packages; default: all")
    arguments = options.parse_args()
    facts = json.loads((FOLDER / "packages.json").read_text())
    rows: list[tuple[str, str, list[str], list[str]]] = []
    failed = False
    for package in facts["packages"]:
        if arguments.names and package["name"] not in arguments.names:
            continue
        print(f"==> {package['name']}", flush=True)
        try:
            version, good, bad = run(package, prepare(package, arguments.build.resolve()))
            failed = failed or bool(bad)
        except NoWheel as error:  # nothing of ours is wrong
            version, good, bad = "-", [], [str(error)]
        rows.append((package["name"], version, good, bad))
    made = table(rows, facts["not_run"])
    print(made)
    if arguments.docs and not arguments.names:
        page = arguments.docs.read_text()
        head, rest = page.split(BEGIN)
        arguments.docs.write_text(f"{head}{BEGIN}\n{made}\n{END}{rest.split(END)[1]}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
