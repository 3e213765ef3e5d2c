# SPDX-License-Identifier: Apache-2.0
"""Read-only properties with a type, for type checkers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, NoReturn, TypeVar, overload

T = TypeVar("T")


class ReadOnly(Generic[T]):
    """A read-only property: ``name = ReadOnly[int](get, "The docstring.")``. ``help()`` shows it as a property."""

    def __init__(self, get: Callable[[Any], T], doc: str) -> None:
        self._get = get
        self._name = ""
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    @overload
    def __get__(self, instance: None, owner: type) -> ReadOnly[T]: ...
    @overload
    def __get__(self, instance: object, owner: type) -> T: ...
    def __get__(self, instance: object | None, owner: type) -> ReadOnly[T] | T:
        return self if instance is None else self._get(instance)

    def __set__(self, instance: object, value: object) -> NoReturn:
        raise AttributeError(f"{self._name} of {type(instance).__name__} cannot be set")
