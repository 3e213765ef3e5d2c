# SPDX-License-Identifier: Apache-2.0
"""Detects NVIDIA's packages and ours in one directory, where pip lets them overwrite and remove each other's files.

`cuda.core`, `cuda.bindings` and `cuda.pathfinder` check for this on import. Each checks all three packages: if NVIDIA's
`__init__` of one runs instead of ours, it soon imports another one that is ours.
"""

from __future__ import annotations

from typing import Any, NoReturn

# Package -> NVIDIA's distribution that also provides it, and a file that only NVIDIA's has.
PACKAGES = {
    "cuda.core": ("cuda-core", "_resource_handles.pxd"),
    "cuda.bindings": ("cuda-bindings", "driver.pxd"),
    "cuda.pathfinder": ("cuda-pathfinder", "_dynamic_libs"),
}


def origin() -> str:
    """Returns the wheel, directory or URL that pip recorded for an installation by path; empty for one by name."""
    import json
    from importlib import metadata
    from urllib.parse import unquote, urlparse

    try:
        recorded = metadata.distribution("cucore").read_text("direct_url.json")
    except metadata.PackageNotFoundError:
        recorded = None
    url = json.loads(recorded)["url"] if recorded else ""
    return unquote(urlparse(url).path) if url.startswith("file:") else url


def keep_ours() -> str:
    """Returns the command that reinstalls our files."""
    import shlex

    return f"pip install --force-reinstall --no-deps {shlex.quote(origin() or 'cucore')}"


def version_of(distribution: str) -> str | None:
    """Returns the version of NVIDIA's distribution if it is installed in our directory; None for our metadata wheel.

    In another directory its files do not overwrite ours: `sys.path` decides which are imported.
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
    """Returns NVIDIA's distributions in our directory and their versions. Reads metadata: too slow for every import."""
    versions = {name: version_of(name) for name, _ in PACKAGES.values()}
    return {name: version for name, version in versions.items() if version is not None}


def states() -> dict[str, str]:
    """Returns the affected packages: "mixed" (with files of NVIDIA's) or "removed" (our `__init__` is missing)."""
    from pathlib import Path

    site, others, result = Path(__file__).resolve().parents[1], found(), {}
    for package, (distribution, mark) in PACKAGES.items():
        folder = site.joinpath(*package.split("."))
        if distribution in others or (folder / mark).exists():
            result[package] = "mixed"
        elif not (folder / "__init__.py").exists():
            result[package] = "removed"
    return result


def text() -> str:
    """Returns the problem and the command that fixes it; empty if there is none."""
    from . import __version__

    wrong = states()
    mixed = [package for package, state in wrong.items() if state == "mixed"]
    folder = (
        "" if origin() else "\n(If cucore came from a folder of wheels, add --find-links FOLDER to its installation.)"
    )
    if not mixed:
        names = ", ".join(wrong)
        gone = f"cucore {__version__} has lost files of {names}: they were removed with NVIDIA's package of that name. "
        return f"{gone}Put them back:\n    {keep_ours()}{folder}" if wrong else ""
    others = found()
    distributions = [PACKAGES[package][0] for package in mixed]
    theirs = " and ".join(f"{name} {others.get(name, '')}".strip() for name in distributions)
    names = " ".join(distributions)
    return (
        f"the files of {theirs} (NVIDIA's) and of cucore {__version__} are mixed: both provide {', '.join(mixed)}. "
        f"Keep one of them:\n"
        f"    pip uninstall -y {names} && {keep_ours()}    # keeps cucore\n"
        f"    pip uninstall -y cucore && pip install --force-reinstall {names}    # keeps NVIDIA's{folder}"
    )


def summary() -> str:
    """Returns the first line of `text()` without the introduction of the commands."""
    return text().partition("\n")[0].removesuffix(" Keep one of them:").removesuffix(" Put them back:")


def metadata_wheels() -> str:
    """Returns the command that installs our metadata wheels, from the directory of our wheel if they are there."""
    import shlex
    from pathlib import Path

    folder = Path(origin()).parent
    here = origin().endswith(".whl") and any(folder.glob("cuda_core-*+cucore-*.whl"))
    place = shlex.quote(str(folder)) if here else "dist"
    return f"pip install --find-links {place} --no-index --no-deps cuda-core cuda-bindings cuda-pathfinder"


def refuse(package: str) -> None:
    """Called by a package that detects mixed files. Raises ImportError unless `package` itself is complete and works.

    NVIDIA's cuda-pathfinder, a dependency of other packages, works with our `cuda.core` and `cuda.bindings`: it causes
    only a warning.
    """
    if package != "cuda.pathfinder" and states() == {"cuda.pathfinder": "mixed"}:
        from .warning import warn

        warn(text())
        return
    fail(package)


def fail(package: str) -> NoReturn:
    raise ImportError(text() or f"{package} is not the one of cucore: {keep_ours()}", name=package)


def facts() -> dict[str, Any]:
    """Returns the state of the packages for `cucore info`."""
    return {"mixed_with": found(), "packages_not_ours": states()}
