"""`cucore info`: which driver serves this process, its devices, the toolkit libraries, and why something was not found."""

from __future__ import annotations

import json
import os
import sys
import warnings
from typing import Any

from . import CPU_DRIVER_FOLDER, LIBRARY_FOLDER, __version__, mixed

LIBRARIES = ("nvrtc", "nvJitLink", "nvvm", "nvfatbin", "nvml", "cufile")


def version_of(name: str) -> str:
    """What a library says about itself. Raises what the bindings raise."""
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
    except Exception as error:  # the reason is the answer here
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
        except Exception as error:  # the reason is the answer
            tried = [f"{place}: {what}: {found}" for place, what, found in pathfinder.explain(name).attempts]
            reason = str(error).splitlines()[0].removesuffix(" Places tried, in order:")
            result[name] = {"error": reason, "tried": tried}
            continue
        result[name] = {"path": loaded.abs_path, "found_via": loaded.found_via}
        try:
            result[name]["version"] = version_of(name)
        except Exception as error:  # there, but it does not work: NVML without a driver, a library of another release
            result[name]["version_error"] = f"{type(error).__name__}: {str(error).splitlines()[0]}"
    return result


def collect() -> dict[str, Any]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the choice of device is part of the answer
        driver = driver_facts()
        devices = [] if "error" in driver else device_facts()
    return {
        "cucore": __version__,
        "python": sys.version.split()[0],
        "driver": driver,
        "devices": devices,
        "libraries": library_facts(driver.get("kind") == "cpu"),
        **mixed.facts(),
        "environment": {k: v for k, v in sorted(os.environ.items()) if k.startswith(("CUCORE_", "CUDA_"))},
    }


def show(facts: dict[str, Any]) -> None:
    print(f"cucore {facts['cucore']}, Python {facts['python']}")
    driver = facts["driver"]
    if "error" in driver:
        print(f"driver      not available: {driver['error']}")
    else:
        print(f"driver      {driver['kind']}: {driver['path']} (CUDA {driver['version'][0]}.{driver['version'][1]})")
        if driver["fell_back_to_cpu"]:
            print("            chosen because no GPU was found:")
            for line in filter(None, map(str.strip, driver["tried"].splitlines())):
                print(f"              {line}")
    for device in facts["devices"]:
        print(
            f"device {device['id']}    {device['name']}, {device['compute_capability']}, "
            f"{device['memory'] / 2**30:.1f} GiB, {device['multiprocessors']} multiprocessors"
        )
    for name, library in facts["libraries"].items():
        if "path" in library:
            version = library.get("version", "version unknown")
            print(f"{name:<11} {version}: {library['path']} ({library['found_via']})")
            if "version_error" in library:
                print(f"            does not answer: {library['version_error']}")
        else:
            print(f"{name:<11} not found: {library['error']}")
            for line in library["tried"][:3]:
                print(f"              {line}")
            if len(library["tried"]) > 3:
                print(f"              and {len(library['tried']) - 3} more: cucore info --why {name}")
    for name, version in facts["mixed_with"].items():
        print(
            f"WARNING     {name} {version} of NVIDIA's is installed over the same files: pip uninstall one of the two"
        )
    for name, value in facts["environment"].items():
        print(f"{name}={value}")


def folder(name: str) -> int:
    """`--cmake` and `--pkg-config`: where builds of C++ programs look."""
    path = LIBRARY_FOLDER / name
    if not path.exists():
        print(f"cucore info: the C++ library is not installed here ({path} is missing)", file=sys.stderr)
        return 1
    print(path)
    return 0


def explain(name: str, as_json: bool) -> int:
    """`--why`: every place looked at, for each kind of thing that has the name (a library, its headers, a program)."""
    from cuda import pathfinder

    reports = {}
    for kind in ("library", "headers", "static", "bitcode", "binary"):
        try:
            reports[kind] = str(pathfinder.explain(name, kind))
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
        print(f"cucore info: nothing is known as {name!r}. Names: {', '.join(known)}", file=sys.stderr)
        return 2
    print(json.dumps({"name": name, "search": reports}) if as_json else "\n".join(reports.values()))
    return 0


def info(why: str | None = None, as_json: bool = False) -> int:
    if why is not None:
        return explain(why, as_json)
    facts = collect()
    if as_json:
        print(json.dumps(facts, indent=2))
    else:
        show(facts)
    return 1 if "error" in facts["driver"] else 0
