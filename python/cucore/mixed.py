"""NVIDIA's packages and ours in one folder: pip lets them overwrite each other's files, so whoever is imported first says so."""

from __future__ import annotations

from typing import Any, NoReturn

# Each package with the distribution of NVIDIA's that provides it too, and a file that only theirs has.
PACKAGES = {
    "cuda.core": ("cuda-core", "_resource_handles.pxd"),
    "cuda.bindings": ("cuda-bindings", "driver.pxd"),
    "cuda.pathfinder": ("cuda-pathfinder", "_dynamic_libs"),
}


def version_of(distribution: str) -> str | None:
    """The version of NVIDIA's distribution when its files lie where ours do; None for a metadata wheel of ours, and for none.

    In another folder they are whole: the path decides whose are imported.
    """
    from importlib import metadata
    from pathlib import Path

    try:
        found = metadata.distribution(distribution)
    except metadata.PackageNotFoundError:
        return None
    here = Path(str(found.locate_file(""))).resolve() == Path(__file__).resolve().parents[1]
    owns_files = here and any(str(file).startswith("cuda/") for file in found.files or ())
    return found.version if owns_files else None


def found() -> dict[str, str]:
    """NVIDIA's distributions that share this environment with us, with their versions. Reads metadata: not for every import."""
    versions = {name: version_of(name) for name, _ in PACKAGES.values()}
    return {name: version for name, version in versions.items() if version is not None}


def text(package: str) -> str:
    from . import __version__

    distribution, _ = PACKAGES[package]
    others = found()
    theirs = f"{distribution} {others.get(distribution, '')}".strip()
    names = " ".join(others) or distribution
    return (
        f"the files of {theirs} (NVIDIA's) and of cucore {__version__} are mixed: both provide {package}. Keep one of them:\n"
        f"    pip uninstall -y {names} && pip install --force-reinstall --no-deps cucore    # keeps cucore\n"
        f"    pip uninstall -y cucore && pip install --force-reinstall {names}    # keeps NVIDIA's"
    )


def refuse(package: str) -> NoReturn:
    raise ImportError(text(package), name=package)


def facts() -> dict[str, Any]:
    """For `cucore info`."""
    return {"mixed_with": found()}
