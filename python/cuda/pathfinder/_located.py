# SPDX-License-Identifier: Apache-2.0
"""Components that are located but not loaded: headers, static and bitcode libraries, programs."""

from . import _environment, _pathfinder

TYPE_CHECKING = False  # importing typing would cost more than all of this package
if TYPE_CHECKING:
    from typing import Any

_located: "dict[tuple[str, str], Any]" = {}


def _locate(kind: str, name: str) -> "Any":
    """Returns (name, abs_path, filename, found_via), or None. None is not cached, so a later installation is found."""
    found = _located.get((kind, name))
    if found is None:
        _environment.refresh()
        found = _pathfinder.locate(kind, name)
        if found is not None:
            _located[kind, name] = found
    return found


class LocatedHeaderDir:
    """The path of a header directory and how it was found."""

    __module__ = "cuda.pathfinder"
    __slots__ = ("__weakref__", "abs_path", "found_via")

    def __init__(self, abs_path: "str | None", found_via: "str") -> "None":
        self.abs_path = abs_path
        self.found_via = found_via

    def __eq__(self, other):  # type: ignore[no-untyped-def]
        if other.__class__ is not self.__class__:
            return NotImplemented
        return (self.abs_path, self.found_via) == (other.abs_path, other.found_via)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"LocatedHeaderDir(abs_path={self.abs_path!r}, found_via={self.found_via!r})"


class _LocatedFile:
    __slots__ = ("__weakref__", "abs_path", "filename", "found_via", "name")

    name: str
    abs_path: str
    filename: str
    found_via: str

    def __init__(self, name: str, abs_path: str, filename: str, found_via: str) -> None:
        for field, value in (("name", name), ("abs_path", abs_path), ("filename", filename), ("found_via", found_via)):
            object.__setattr__(self, field, value)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError(f"cannot assign to field {name!r}")

    def _values(self) -> tuple[str, str, str, str]:
        return (self.name, self.abs_path, self.filename, self.found_via)

    def __eq__(self, other):  # type: ignore[no-untyped-def]
        if other.__class__ is not self.__class__:
            return NotImplemented
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __reduce__(self) -> tuple[type, tuple[str, str, str, str]]:
        return (type(self), self._values())

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(name={self.name!r}, abs_path={self.abs_path!r}, "
            f"filename={self.filename!r}, found_via={self.found_via!r})"
        )


class LocatedStaticLib(_LocatedFile):
    """The path of a static library and how it was found."""

    __module__ = "cuda.pathfinder"
    __slots__ = ()


class LocatedBitcodeLib(_LocatedFile):
    """The path of a bitcode library and how it was found."""

    __module__ = "cuda.pathfinder"
    __slots__ = ()


def locate_nvidia_header_directory(libname: "str") -> "LocatedHeaderDir | None":
    """Return the directory of a library's headers, or None. Raises RuntimeError for an unknown name."""
    found = _locate("headers", libname)
    return None if found is None else LocatedHeaderDir(found[1], found[3])


def find_nvidia_header_directory(libname: "str") -> "str | None":
    """Return the path of a library's header directory, or None."""
    found = locate_nvidia_header_directory(libname)
    return None if found is None else found.abs_path


def locate_static_lib(name: str) -> LocatedStaticLib:
    """Return a static library of the toolkit. Raises StaticLibNotFoundError with the places searched."""
    return LocatedStaticLib(*_locate("static", name))


def find_static_lib(name: str) -> str:
    """Return the path of a static library of the toolkit."""
    return locate_static_lib(name).abs_path


def locate_bitcode_lib(name: str) -> LocatedBitcodeLib:
    """Return a bitcode library; ``"device"`` is libdevice. Raises BitcodeLibNotFoundError with the places searched."""
    return LocatedBitcodeLib(*_locate("bitcode", name))


def find_bitcode_lib(name: str) -> str:
    """Return the path of a bitcode library."""
    return locate_bitcode_lib(name).abs_path


def find_nvidia_binary_utility(utility_name: str) -> str | None:
    """Return the path of a program of the toolkit, or None. Raises UnsupportedBinaryError for an unknown name."""
    found = _locate("binary", utility_name)
    return None if found is None else found[1]
