"""Dataclasses without the import: the module ``dataclasses`` costs more to load than all of cuda.core.

A class decorated with :func:`fields_of_init` compares, prints and pickles as a dataclass does, and ``dataclasses.fields``,
``replace`` and ``asdict`` accept it; the module is imported when one of them is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any, TypeVar

    T = TypeVar("T")


def keep_arguments(self: object, arguments: dict[str, Any]) -> None:
    """Sets every argument of ``__init__`` as an attribute: ``keep_arguments(self, locals())``."""
    for name, value in arguments.items():
        if name != "self":
            setattr(self, name, value)


class _Fields:
    """``__dataclass_fields__``, made when ``dataclasses`` asks for it."""

    def __get__(self, instance: object, owner: type) -> dict[str, Any]:
        import dataclasses

        types = owner.__init__.__annotations__  # type: ignore[misc]
        rows = [(name, types[name], dataclasses.field(default=getattr(owner, name))) for name in owner._fields]  # type: ignore[attr-defined]
        made: dict[str, Any] = dataclasses.make_dataclass(owner.__name__, rows).__dataclass_fields__
        return made


def _equal(self: Any, other: Any) -> bool:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return bool(all(getattr(self, name) == getattr(other, name) for name in self._fields))


def _show(self: Any) -> str:
    """The fields that are set; most are not."""
    fields = [name for name in self._fields if getattr(self, name) is not None]
    return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


def fields_of_init(cls: type[T]) -> type[T]:
    """Makes the arguments of ``__init__``, which all have defaults, the fields of the class."""
    init = cls.__init__  # type: ignore[misc]
    names = init.__code__.co_varnames[1 : init.__code__.co_argcount]
    for name, default in zip(names, init.__defaults__ or (), strict=True):
        setattr(cls, name, default)
    cls._fields = names  # type: ignore[attr-defined]
    cls.__dataclass_fields__ = _Fields()  # type: ignore[attr-defined]
    cls.__eq__ = _equal  # type: ignore[assignment, method-assign]
    cls.__hash__ = None  # type: ignore[assignment]
    cls.__repr__ = _show  # type: ignore[assignment, method-assign]
    return cls
