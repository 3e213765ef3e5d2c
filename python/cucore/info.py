# SPDX-License-Identifier: Apache-2.0
"""`cucore info`: the driver in use, its devices, the toolkit libraries, and why something was not found."""

from __future__ import annotations

import os
import sys
import warnings
from typing import Any

from . import CPU_DRIVER_FOLDER, LIBRARY_FOLDER, __version__, mixed, terminal

LIBRARIES = ("nvrtc", "nvJitLink", "nvvm", "nvfatbin", "nvml", "cufile")


def version_of(name: str) -> str:
    """Returns the version that a library reports. Raises the exceptions of the bindings."""
    from cuda.bindings import cufile, nvfatbin, nvjitlink, nvml, nvrtc, nvvm

    match name:
        case "nvrtc":
            _, *numbers = nvrtc.nvrtcVersion()
        case "nvJitLink":
            numbers = list(nvjitlink.version())
        case "nvvm":
            numbers = [*nvvm.version(), *nvvm.ir_version()[:2]]
            return "{}.{}, IR {}.{}".format(*numbers)
        case "nvfatbin":
            numbers = list(nvfatbin.version())
        case "nvml":
            nvml.init_v2()
            try:
                return str(nvml.system_get_nvml_version())
            finally:
                nvml.shutdown()
        case _:
            number = int(cufile.get_version())  # 1190 is 1.19.0
            numbers = [number // 1000, number % 1000 // 10, number % 10]
    return ".".join(str(number) for number in numbers)


def driver_facts() -> dict[str, Any]:
    try:
        from cuda.core import _core

        return dict(_core.driver_info())
    except Exception as error:  # the report shows the reason
        return {"error": f"{type(error).__name__}: {error}"}


def device_facts() -> list[dict[str, Any]]:
    from cuda.core import Device

    rows = []
    for device in Device.get_all_devices():
        rows.append(
            {
                "id": device.device_id,
                "name": device.name,
                "compute_capability": ".".join(map(str, device.compute_capability)),
                "memory": device.total_memory,
                "multiprocessors": device.properties.multiprocessor_count,
                "uuid": device.uuid,
                "pci_bus_id": device.pci_bus_id,
            }
        )
    return rows


def library_facts(on_cpu_device: bool) -> dict[str, dict[str, Any]]:
    from cuda import pathfinder

    result: dict[str, dict[str, Any]] = {}
    own_nvml = CPU_DRIVER_FOLDER / "libnvidia-ml.so.1"
    for name in LIBRARIES:
        try:
            if name == "nvml" and on_cpu_device and own_nvml.exists():
                result[name] = {"path": str(own_nvml), "found_via": "the CPU device", "version": version_of(name)}
                continue
            loaded = pathfinder.load_nvidia_dynamic_lib(name)
        except Exception as error:  # the report shows the reason
            tried = [f"{place}: {what}: {found}" for place, what, found in pathfinder.explain(name).attempts]
            result[name] = {"error": str(error).splitlines()[0], "tried": tried}
            continue
        result[name] = {"path": loaded.abs_path, "found_via": loaded.found_via}
        try:
            result[name]["version"] = version_of(name)
        except Exception as error:  # found but unusable: NVML without a driver, or a library of another release
            result[name]["version_error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return result


def collect() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the report shows the chosen device
        driver = driver_facts()
        devices, broken = [], mixed.text()
        try:
            devices = [] if "error" in driver else device_facts()
            libraries = library_facts(driver.get("kind") == "cpu")
        except Exception as error:  # with mixed packages any call may fail
            libraries = {}
            broken = broken or f"{type(error).__name__}: {error}"
    return {
        "cucore": __version__,
        "python": sys.version.split()[0],
        "driver": driver,
        "devices": devices,
        "libraries": libraries,
        "broken": broken,
        **mixed.facts(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(("CUCORE_", "CUDA_"))},
    }


def show(facts: dict[str, Any]) -> None:
    print(terminal.styled(f"cucore {facts['cucore']}", "bold") + f", Python {facts['python']}")
    if facts["broken"]:
        terminal.row("BROKEN", facts["broken"], "red")
    driver = facts["driver"]
    if "error" in driver:
        terminal.row("driver", f"not available: {driver['error']}", "red")
    else:
        path, version = terminal.shortened(driver["path"]), "{}.{}".format(*driver["version"])
        terminal.row("driver", f"{driver['kind']}: {path} (CUDA {version})")
        if driver["fell_back_to_cpu"]:
            print(terminal.wrapped("chosen because no GPU was found:", 12))
            for line in filter(None, map(str.strip, driver["tried"].splitlines())):
                print(terminal.wrapped(line, 14))
    for device in facts["devices"]:
        terminal.row(
            f"device {device['id']}",
            f"{device['name']}, {device['compute_capability']}, {device['memory'] / 2**30:.1f} GiB, "
            f"{device['multiprocessors']} multiprocessors",
        )
    for name, library in facts["libraries"].items():
        if "path" in library:
            version = library.get("version", "version unknown")
            terminal.row(name, f"{version}: {terminal.shortened(library['path'])} ({library['found_via']})")
            if "version_error" in library:
                print(terminal.wrapped(f"does not answer: {library['version_error']}", 12))
        else:
            terminal.row(name, f"not found: {library['error']}", "yellow")
    for name, value in facts["environment"].items():
        print(f"{name}={value}")
    if facts["broken"] or "error" in driver:
        print("cucore doctor says what to do.")


def folder(name: str, as_json: bool = False) -> int:
    """`--cmake` and `--pkg-config`: prints the directories for builds of C++ programs."""
    path = LIBRARY_FOLDER / name
    if not path.exists():
        terminal.complain("info", f"the C++ library is not installed here ({path} is missing)")
        return 1
    if as_json:
        terminal.print_json({name: str(path)})
    else:
        print(path)
    return 0


def explain(name: str, as_json: bool) -> int:
    """`--why`: prints every place searched, for each kind of component of this name (library, headers, program)."""
    from cuda import pathfinder

    reports: dict[str, Any] = {}
    for kind in ("library", "headers", "static", "bitcode", "binary"):
        try:
            reports[kind] = pathfinder.explain(name, kind)
        except pathfinder.DynamicLibUnknownError:
            continue
    if not reports:
        known = sorted(
            {
                *pathfinder.SUPPORTED_NVIDIA_LIBNAMES,
                *pathfinder.SUPPORTED_HEADERS_CTK,
                *pathfinder.SUPPORTED_BINARY_UTILITIES,
            },
            key=str.lower,
        )
        message = f"nothing is known as {name!r}. Names: {', '.join(known)}"
        if as_json:
            terminal.print_json({"name": name, "error": message, "known": known})
        terminal.complain("info", terminal.wrapped(message).strip())
        return 2
    if as_json:
        search = {
            kind: {
                "path": report.abs_path,
                "found_via": report.found_via,
                "attempts": [{"step": a.step, "place": a.place, "outcome": a.outcome} for a in report.attempts],
            }
            for kind, report in reports.items()
        }
        terminal.print_json({"name": name, "search": search})
        return 0
    for kind, report in reports.items():
        answer = "not found" if report.abs_path is None else f"{report.abs_path}, found via {report.found_via}"
        print(terminal.wrapped(f"{name} ({kind}): {terminal.shortened(answer)}", 2, ""))
        for attempt in report.attempts:
            print(terminal.wrapped(terminal.shortened(f"{attempt.step}: {attempt.place}: {attempt.outcome}"), 4, "  "))
    return 0


def info(why: str | None = None, as_json: bool = False) -> int:
    if why is not None:
        return explain(why, as_json)
    facts = collect()
    if as_json:
        terminal.print_json(facts)
    else:
        show(facts)
    return 1 if "error" in facts["driver"] or facts["broken"] else 0
