# SPDX-License-Identifier: Apache-2.0
"""`cucore doctor`: diagnoses the installation, and prints the command that fixes each problem.

Nothing of `cuda` is imported into this process, because the packages themselves may be broken.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from importlib import metadata
from pathlib import Path
from typing import Any

from . import CPU_DRIVER_FOLDER, LIBRARY_FOLDER, __version__, environment, mixed, probe, terminal

SITE = Path(__file__).resolve().parents[1]
INSTALL = 'pip install "cucore[cu13]"'
SIGNS = {"ok": ("✓", "green"), "note": ("·", "blue"), "warning": ("!", "yellow"), "problem": ("✗", "red")}
# Explanations and fixes for the results of cuInit.
DRIVER_FIXES = {
    "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH": ("the driver library and the kernel module are of different versions", "sudo reboot"),
    "CUDA_ERROR_SYSTEM_NOT_READY": ("the fabric manager is not running", "sudo systemctl start nvidia-fabricmanager"),
    "CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE": (
        "a forward compatibility package is used with a GPU that does not support it",
        "unset LD_LIBRARY_PATH",
    ),
    "CUDA_ERROR_UNKNOWN": ("the kernel module does not answer", "sudo modprobe nvidia_uvm"),
}  # fmt: skip


@dataclass
class Finding:
    """The result of one check. `status` is ok, note, warning or problem; `fix` has the commands to run, in order."""

    name: str
    status: str
    message: str
    fix: list[str] = field(default_factory=list)
    details: dict[str, Any] = field(default_factory=dict)


def pip(command: str) -> str:
    """Rewrites a command that begins with `pip` to use the pip of this Python."""
    beside = Path(sys.executable).parent
    found = shutil.which("pip")
    if found is not None and Path(found).parent == beside:
        return command
    return command.replace("pip ", f"{sys.executable} -m pip ")


# ---- packages


def requirers(names: set[str]) -> list[str]:
    """Returns the installed packages that require one of NVIDIA's by name: pip would install that again."""
    found = set()
    for distribution in metadata.distributions():
        name = (distribution.metadata["Name"] or "").lower()
        if name in names or name == "cucore":
            continue
        for requirement in distribution.requires or ():
            wanted = requirement.split(";")[0].strip().lower()
            plain = "extra ==" not in requirement
            if plain and any(wanted == known or wanted.startswith((f"{known}<", f"{known}>", f"{known}=", f"{known}[", f"{known} ", f"{known}~", f"{known}!")) for known in names):  # fmt: skip
                found.add(name)
    return sorted(found)


def changed_files() -> tuple[list[str], list[str]]:
    """Returns the (missing, changed) files of this package according to pip's RECORD; both empty without one."""
    try:
        files = metadata.distribution("cucore").files or []
    except metadata.PackageNotFoundError:
        return [], []
    missing, changed = [], []
    for file in files:
        path = Path(str(file.locate()))
        if "__pycache__" in path.parts or path.suffix == ".pyc" or ".dist-info" in str(file):
            continue
        if not path.exists():
            missing.append(str(file))
        elif file.size is not None and path.stat().st_size != file.size:
            changed.append(str(file))
    return missing, changed


def packages() -> Iterator[Finding]:
    wrong, others = mixed.states(), mixed.found()
    dists = {distribution for distribution, _ in mixed.PACKAGES.values()}
    needed_by = requirers(dists | {"cuda-python"})
    require = "requires" if len(needed_by) == 1 else "require"
    details = {"packages_not_ours": wrong, "mixed_with": others, "required_by": needed_by}
    if wrong:
        theirs = [mixed.PACKAGES[package][0] for package, state in wrong.items() if state == "mixed"]
        fix = [pip(f"pip uninstall -y {' '.join(theirs)}")] if theirs else []
        fix.append(pip(mixed.keep_ours()))
        if needed_by:
            fix.append(pip(mixed.metadata_wheels()))
        message = mixed.summary()
        if needed_by:
            message += (
                f" {', '.join(needed_by)} {require} NVIDIA's packages: the metadata wheels of `make wheel` satisfy them"
            )
        yield Finding("packages", "problem", message, fix, details)
        return
    missing, changed = changed_files()
    if missing or changed:
        names = ", ".join((missing + changed)[:3])
        message = f"{len(missing)} files of cucore are missing and {len(changed)} are changed: {names}"
        yield Finding(
            "packages", "problem", message, [pip(mixed.keep_ours())], {"missing": missing, "changed": changed}
        )
        return
    stand_ins = {name for name in dists if _version(name) and "+cucore" in str(_version(name))}
    if needed_by and stand_ins != dists:
        message = (
            f"{', '.join(needed_by)} {require} NVIDIA's packages by name: the next pip install may put them over ours. "
            "The metadata wheels of `make wheel` satisfy them"
        )
        fix = [pip(mixed.metadata_wheels())]
        yield Finding("packages", "warning", message, fix, details)
        return
    yield Finding("packages", "ok", f"cucore {__version__} is whole", details={"folder": str(SITE), **details})


def _version(distribution: str) -> str | None:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return None


def shadows() -> Iterator[Finding]:
    """Checks for files elsewhere on `sys.path` that shadow these packages."""
    for entry in sys.path:
        folder = Path(entry or ".").resolve()
        if folder == SITE:
            continue
        for name in ("cuda/__init__.py", "cuda.py", "cucore.py", *(f"{p.replace('.', '/')}/__init__.py" for p in mixed.PACKAGES)):  # fmt: skip
            path = folder / name
            earlier = folder in [Path(e or ".").resolve() for e in sys.path[: _index_of_site()]]
            if path.is_file() and (earlier or name == "cuda/__init__.py"):
                message = f"{path} is found in place of the packages in {SITE}"
                yield Finding("path", "problem", message, [f"mv {path} {path}.away"], {"file": str(path)})
    if (SITE / "cuda" / "__init__.py").exists():
        message = "cuda/__init__.py hides the other packages that live in the namespace cuda"
        yield Finding("path", "problem", message, [f"rm {SITE / 'cuda' / '__init__.py'}"])


def _index_of_site() -> int:
    for index, entry in enumerate(sys.path):
        if Path(entry or ".").resolve() == SITE:
            return index
    return len(sys.path)


# ---- environment variables


def variables() -> Iterator[Finding]:
    found = environment.wrong()
    for name, message, fix in found:
        yield Finding(f"variable {name}", "problem", message, [fix], {"value": os.environ[name]})
    if not found:
        shown = [name for name in sorted(os.environ) if name.startswith("CUCORE_")]
        yield Finding("variables", "ok", ", ".join(f"{n}={os.environ[n]}" for n in shown) or "none is set")


def visible_devices() -> Iterator[Finding]:
    """Checks `CUDA_VISIBLE_DEVICES`: the driver silently ignores everything from the first invalid entry on."""
    text = os.environ.get("CUDA_VISIBLE_DEVICES")
    if text is None:
        return
    name = "variable CUDA_VISIBLE_DEVICES"
    readable = readable_variables()
    everywhere = {key: value for key, value in readable.items() if key != "CUDA_VISIBLE_DEVICES"}
    all_of_them = probe.ask("count", everywhere)
    if "count" not in all_of_them:
        return  # no driver: another check reports it
    there = all_of_them["count"]
    seen = probe.ask("count", readable).get("count", 0)
    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    details = {"value": text, "devices": there, "visible": seen}
    if seen == 0:
        allowed = "only device 0 exists" if there == 1 else f"the numbers that exist are 0 to {there - 1}"
        message = f'CUDA_VISIBLE_DEVICES="{text}" hides every device: {allowed}'
        yield Finding(name, "problem", message, ["unset CUDA_VISIBLE_DEVICES"], details)
    elif seen < len(entries):
        exist = "only the first of them exists" if seen == 1 else f"only the first {seen} of them exist"
        message = f'CUDA_VISIBLE_DEVICES="{text}" lists {len(entries)} devices, and {exist}'
        yield Finding(name, "warning", message, [f"export CUDA_VISIBLE_DEVICES={','.join(entries[:seen])}"], details)
    else:
        yield Finding(name, "ok", f"{seen} of {there} devices are visible", details=details)


# ---- driver and devices


def readable_variables() -> dict[str, str]:
    """Returns the environment without the variables that other checks report, so that a mistake is reported once."""
    bad = {name for name, _, _ in environment.wrong()}
    return {name: value for name, value in os.environ.items() if name not in bad}


def visible_variables() -> dict[str, str]:
    result = readable_variables()
    if "CUDA_VISIBLE_DEVICES" in result and probe.ask("count", result).get("count", 0) == 0:
        del result["CUDA_VISIBLE_DEVICES"]
    return result


def gpu_files() -> dict[str, bool]:
    """Returns the device files of NVIDIA GPUs, and whether this user can access them."""
    nodes = [*sorted(Path("/dev").glob("nvidia[0-9]*")), Path("/dev/nvidiactl"), Path("/dev/nvidia-uvm")]
    return {str(node): os.access(node, os.R_OK | os.W_OK) for node in nodes if node.exists()}


def fix_for_gpu(reason: str, files: dict[str, bool]) -> tuple[str, list[str]]:
    """Returns why the driver cannot use its GPUs, and the commands that fix it."""
    for code, (message, command) in DRIVER_FIXES.items():
        if code in reason:
            return message, [command]
    closed = [name for name, usable in files.items() if not usable]
    if closed:
        return f"this user may not open {', '.join(closed)}", ["sudo usermod -aG video,render $USER"]
    if "/dev/nvidia-uvm" not in files:
        return "/dev/nvidia-uvm is missing", ["sudo modprobe nvidia_uvm"]
    if "not in any folder" in reason:
        return "the GPU's device files are here, but libcuda.so.1 is not", [
            "docker run --gpus all ...",
            "sudo ldconfig",
        ]
    return reason, []


def devices() -> Iterator[Finding]:
    has_cpu_device = (CPU_DRIVER_FOLDER / "libcuda.so.1").exists() or (LIBRARY_FOLDER / "libcucore_cpu.so").exists()
    answer = probe.ask("devices", visible_variables())
    files = gpu_files()
    details = {"gpu_files": files, **answer}
    if "error" in answer:
        reason = answer["error"]
        if os.environ.get("CUCORE_DEVICE") == "gpu":
            message, fix = (
                fix_for_gpu(reason, files) if files else ("CUCORE_DEVICE=gpu, and this machine has no GPU", [])
            )
            fix += ["export CUCORE_DEVICE=cpu"] if has_cpu_device else []
        elif not has_cpu_device:
            message = "there is no driver, and this build of cucore has no CPU device"
            fix = [pip(mixed.keep_ours())]
        else:
            message, fix = " ".join(reason.split()), []
        yield Finding("driver", "problem", message, fix, details)
        return
    driver = answer["driver"]
    kind = "the CPU device" if driver["kind"] == "cpu" else "an NVIDIA driver"
    version = "{}.{}".format(*driver["version"])
    if driver["fell_back_to_cpu"] and files:
        message, fix = fix_for_gpu(driver["tried"], files)
        yield Finding("driver", "problem", f"there is a GPU, but it cannot be used: {message}", fix, details)
    elif driver["kind"] != "cpu" and tuple(driver["version"]) < (12, 9):
        message = f"the driver is for CUDA {version}, and cucore needs 12.9 or later"
        yield Finding("driver", "problem", message, ["export CUCORE_DEVICE=cpu"], details)
    else:
        yield Finding("driver", "ok", f"{kind}, CUDA {version}: {driver['path']}", details=details)
    for device in answer["devices"]:
        name = f"device {device['id']}"
        if device["problem"] is None:
            yield Finding(name, "ok", f"{device['name']} works")
            continue
        others = ",".join(str(d["id"]) for d in answer["devices"] if d["problem"] is None)
        fix = [f"export CUDA_VISIBLE_DEVICES={others}"] if others else ["export CUCORE_DEVICE=cpu"]
        yield Finding(name, "problem", f"{device['name']} cannot be used: {' '.join(device['problem'].split())}", fix)


# ---- libraries


def numpy() -> Iterator[Finding]:
    version = _version("numpy")
    if version is None:
        yield Finding(
            "NumPy", "warning", "is not installed: the demo and most examples need it", [pip("pip install numpy")]
        )
    else:
        yield Finding("NumPy", "ok", version)


def compilers() -> Iterator[Finding]:
    uses = {
        "nvrtc": "CUDA C++ cannot be compiled",
        "nvJitLink": "linking uses the driver",
        "nvvm": "NVVM IR cannot be compiled",
    }
    for name, consequence in uses.items():
        answer = probe.ask(f"library:{name}", readable_variables())
        status = "problem" if name == "nvrtc" else "note"
        if answer.get("missing"):
            yield Finding(name, status, f"is not installed: {consequence}", [pip(INSTALL)], answer)
        elif "error" in answer:
            yield Finding(
                name, status, f"does not work: {answer['error']}", [pip(f"{INSTALL} --force-reinstall")], answer
            )
        else:
            yield Finding(name, "ok", f"{answer['version']}: {answer['path']}", details=answer)


def caches() -> Iterator[Finding]:
    """Checks the caches of compiled code. Without a writable cache each process compiles again."""
    home = os.environ.get("HOME", "")
    base = os.environ.get("XDG_CACHE_HOME", "")
    if not base.startswith("/"):
        base = f"{home}/.cache" if home.startswith("/") else ""
    folder = os.environ.get("CUCORE_CACHE_DIR") or (f"{base}/cucore" if base else "")
    if os.environ.get("CUCORE_CPU_CACHE") == "0":
        yield Finding("cache", "note", "CUCORE_CPU_CACHE=0: machine code is not kept on disk")
        return
    if not folder:
        message = "HOME is not set: there is no folder for compiled code"
        yield Finding("cache", "warning", message, ["export CUCORE_CACHE_DIR=/var/tmp/cucore-$(id -u)"])
        return
    reason = unwritable(Path(folder))
    details = {"folder": folder}
    if reason is None:
        yield Finding("cache", "ok", folder, details=details)
    else:
        fix = ["export CUCORE_CACHE_DIR=/var/tmp/cucore-$(id -u)"]
        yield Finding("cache", "warning", f"compiled code cannot be kept in {folder}: {reason}", fix, details)


def unwritable(folder: Path) -> str | None:
    """Returns why a directory, or the parent in which it would be created, is not writable; None if it is."""
    place = folder
    while not place.exists():
        if place.is_symlink():
            return f"{place} is a link that leads nowhere"
        place = place.parent
    if not place.is_dir():
        return f"{place} is no folder"
    if place == folder and hasattr(os, "geteuid") and place.stat().st_uid != os.geteuid():
        return f"{place} belongs to another user"
    try:
        with tempfile.TemporaryFile(dir=place):
            pass
    except OSError as error:
        return f"{place}: {error.strerror}"
    if shutil.disk_usage(place).free < 16 << 20:
        return f"{place}: less than 16 MiB are free"
    return None


def kernel() -> Iterator[Finding]:
    answer = probe.ask("kernel")
    if "error" in answer:
        yield Finding(
            "kernel", "problem", f"a first kernel does not run: {' '.join(answer['error'].split())}", [], answer
        )
    else:
        yield Finding("kernel", "ok", "a kernel was compiled and gave the right result")


LOOKS: tuple[Callable[[], Iterator[Finding]], ...] = (
    packages, shadows, variables, visible_devices, devices, numpy, compilers, caches,
)  # fmt: skip


NEED_PACKAGES = (visible_devices, devices, compilers)


def examine() -> Iterator[Finding]:
    """Yields all findings as soon as they are available. A check that fails itself yields a finding, too."""
    bad = False
    for look in LOOKS:
        if bad and look in NEED_PACKAGES and mixed.states():
            continue  # their findings would only be consequences of the mixed packages
        try:
            for finding in look():
                bad = bad or finding.status == "problem"
                yield finding
        except Exception as error:
            bad = True
            yield Finding(look.__name__, "problem", f"could not be examined: {type(error).__name__}: {error}")
    if not bad:
        yield from kernel()


def show(finding: Finding) -> None:
    sign, colour = SIGNS[finding.status]
    try:
        sign.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        sign = {"ok": "+", "note": "-", "warning": "!", "problem": "x"}[finding.status]
    text = terminal.wrapped(f"{finding.name}: {terminal.shortened(finding.message)}", 2, f"{sign} ")
    print(terminal.styled(text[:1], colour) + text[1:])
    for command in finding.fix:
        print(f"    {terminal.styled(command, 'bold')}", flush=True)


def doctor(as_json: bool = False) -> int:
    """Runs all checks. Returns the exit status: 0 if there is no problem, otherwise 1."""
    findings = []
    for finding in examine():
        findings.append(finding)
        if not as_json:
            show(finding)
    problems = [finding for finding in findings if finding.status == "problem"]
    warnings = [finding for finding in findings if finding.status == "warning"]
    if as_json:
        rows = [asdict(finding) for finding in findings]
        terminal.print_json({"cucore": __version__, "ok": not problems, "findings": rows})
    elif problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        text = f"{count}. The indented commands are the repair, from top to bottom."
        print(terminal.styled(terminal.wrapped(text), "red"))
    else:
        tail = f" ({len(warnings)} to look at)" if warnings else ""
        print(terminal.styled(f"Everything works{tail}.", "green"))
    return 1 if problems else 0
