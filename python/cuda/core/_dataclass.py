# SPDX-License-Identifier: Apache-2.0
"""Dataclasses without an import of ``dataclasses``, which takes longer to load than all of cuda.core.

A class decorated with :func:`options` has the constructor, comparison, repr and pickling of a dataclass, and
``dataclasses.fields``, ``replace`` and ``asdict`` accept it. The module is imported when one of them is used.
"""

from __future__ import annotations

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any, TypeVar

    from typing_extensions import dataclass_transform

    _T = TypeVar("_T")
else:

    def dataclass_transform():
        """Stands in for ``typing.dataclass_transform``, which only type checkers use."""
        return lambda decorator: decorator


class _Fields:
    """Descriptor of ``__dataclass_fields__``: creates the fields when ``dataclasses`` accesses the attribute."""

    def __get__(self, instance: object, owner: Any) -> dict[str, Any]:
        import dataclasses

        types = owner.__annotations__
        rows = [(name, types[name], dataclasses.field(default=getattr(owner, name))) for name in owner._fields]
        made: Any = dataclasses.make_dataclass(owner.__name__, rows)
        return dict(made.__dataclass_fields__)


def _equal(self: Any, other: Any) -> Any:
    if other.__class__ is not self.__class__:
        return NotImplemented
    return all(getattr(self, name) == getattr(other, name) for name in self._fields)


def _show(self: Any) -> str:
    """Returns a repr of the fields that are not None; most are."""
    fields = [name for name in self._fields if getattr(self, name) is not None]
    return f"{type(self).__name__}({', '.join(f'{name}={getattr(self, name)!r}' for name in fields)})"


@dataclass_transform()
def options(cls: type[_T]) -> type[_T]:
    """Makes the annotated names of a class its fields and the parameters of ``__init__``. All must have defaults.

    ``__init__`` calls the method ``_check``, if there is one, after it has set the fields."""
    made: Any = cls
    names = tuple(made.__annotations__)
    arguments = ", ".join(f"{name}=cls.{name}" for name in names)
    body = "".join(f"\n    self.{name} = {name}" for name in names)
    if hasattr(made, "_check"):
        body += "\n    self._check()"
    scope: dict[str, Any] = {"cls": cls}
    exec(f"def __init__(self, {arguments}):{body}", scope)
    made.__init__ = scope["__init__"]
    made.__init__.__annotations__ = {**made.__annotations__, "return": None}
    made.__init__.__qualname__ = f"{cls.__qualname__}.__init__"
    made._fields = names
    made.__dataclass_fields__ = _Fields()
    made.__eq__ = _equal
    made.__hash__ = None
    made.__repr__ = _show
    return cls
