# SPDX-License-Identifier: Apache-2.0
"""Enums of the C APIs: ints with names. They are created from the rendered facts at first use. `enum.IntEnum` is too
slow for that; these classes implement the part of its interface that programs use."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

MappingProxyType = type(type.__dict__)


class FastEnumMetaclass(type):
    """The metaclass of enum classes: implements calls with a value, iteration and the lookup of members."""

    _by_value: dict[int, Any]
    __members__: Any

    def __call__(cls, value: Any) -> Any:
        if cls is FastEnum:
            raise TypeError("FastEnum has no members")
        try:
            return cls._by_value[value]
        except (KeyError, TypeError):
            raise ValueError(f"{value!r} is not a valid {cls.__name__}") from None

    def __iter__(cls) -> Any:
        return iter(cls._by_value.values())

    def __len__(cls) -> int:
        return len(cls._by_value)

    def __contains__(cls, value: object) -> bool:
        try:
            return value in cls._by_value
        except TypeError:
            return False

    def __getitem__(cls, name: str) -> Any:
        return cls.__members__[name]

    def __repr__(cls) -> str:
        return f"<enum '{cls.__name__}'>"

    def __setattr__(cls, name: str, value: Any) -> None:
        raise AttributeError(f"{cls.__name__} cannot be changed")


class FastEnum(int, metaclass=FastEnumMetaclass):
    """A value of a C enum. Equal to its int; `name`, `value` and the class's `__members__` are as in `enum.IntEnum`."""

    name: str
    value: int

    def __repr__(self) -> str:
        return f"<{type(self).__name__}.{self.name}: {self.value}>"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return int.__format__(self, spec) if spec else repr(self)

    def __reduce__(self) -> Any:
        return (type(self), (self.value,))

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self


class _Documentation:
    """Descriptor of `__doc__` of an enum class and of its members. Creates the text on access, from a member's name."""

    def __get__(self, member: Any, cls: Any) -> str:
        if member is None:
            return f"The C enum {cls.__name__}: {len(cls)} values."
        names = [name for name, value in cls.__members__.items() if value == member]
        if not names:
            return f"{cls.__name__} {member.value}: a value of a newer library, unknown here."
        other = f" Also called {', '.join(names[1:])}." if len(names) > 1 else ""
        return f"{cls.__name__}.{names[0]} ({member.value}): {_meaning(cls, names[0])}.{other}"


def _parts(name: str) -> list[str]:
    """Splits a name into its words, for names like CU_EVENT_BLOCKING_SYNC and cudaEventBlockingSync."""
    import re

    return [part for word in name.split("_") for part in re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+", word)]


def _meaning(cls: Any, name: str) -> str:
    """Returns the words of a name without the prefix that all members share."""
    parts = _parts(name)
    if len(cls.__members__) > 1:
        for others in zip(*(_parts(member) for member in cls.__members__), strict=False):
            if len(set(others)) > 1 or len(parts) == 1:
                break
            parts = parts[1:]
    return " ".join(part.lower() if not part.isdigit() else part for part in parts) or name


_DOCUMENTATION = _Documentation()


def _member(cls: type, value: int, name: str) -> Any:
    member: Any = int.__new__(cls, value)
    member.__dict__["name"] = name
    member.__dict__["value"] = value
    return member


def make_enum(name: str, module: str, members: dict[str, int]) -> Any:
    """Creates an enum class. Of several names with the same value the first is the member, the others are aliases."""
    by_value: dict[int, Any] = {}
    namespace = {"__module__": module, "__qualname__": name, "__doc__": _DOCUMENTATION}
    cls = type.__new__(FastEnumMetaclass, name, (FastEnum,), namespace)
    by_name: dict[str, Any] = {}
    for member_name, value in members.items():
        member = by_value.get(value)
        if member is None:
            member = by_value[value] = _member(cls, value, member_name)
        by_name[member_name] = member
        type.__setattr__(cls, member_name, member)
    type.__setattr__(cls, "_by_value", by_value)
    type.__setattr__(cls, "__members__", MappingProxyType(by_name))
    return cls


def unknown_member(cls: type, value: int) -> Any:
    """Creates a member for an unknown value, from a newer library. Its name has the value; `__members__` lacks it."""
    return _member(cls, value, f"UNKNOWN_{value}")
