# SPDX-License-Identifier: Apache-2.0
"""Signatures of C++ functions, for `inspect.signature` and `help`. Imported at the first access to `__signature__`."""

from __future__ import annotations

import ast
import inspect
import re
from typing import Any

_DEFAULT = re.compile(r"\\(\d+)")  # placeholder of an argument's default value in nanobind's signature: its index
# Constructor parameters of C++ classes. Other C++ classes cannot be called.
_CLASSES = {
    "Device": "(device_id=None)",
    "LaunchConfig": "(grid=None, cluster=None, block=None, shmem_size=None, is_cooperative=False)",
    "Stream": "()",
}


def of(function: Any) -> inspect.Signature:
    """Returns the signature of a function, parsed from nanobind's text: "def f(self, a: int = \\0) -> None"."""
    text, _, *rest = function.__nb_signature__[0]
    defaults: tuple[Any, ...] = rest[0] if rest and rest[0] is not None else ()
    body = _DEFAULT.sub(r"__default__[\1]", text[text.index("(") :])
    tree = ast.parse(f"def f{body}: ...").body[0]
    assert isinstance(tree, ast.FunctionDef)
    arguments = tree.args

    def value(node: ast.expr | None) -> Any:
        if node is None:
            return inspect.Parameter.empty
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant):
            return defaults[int(str(node.slice.value))]
        try:
            return ast.literal_eval(node)
        except ValueError:
            return ast.unparse(node)

    def parameter(argument: ast.arg, kind: Any, default: Any = inspect.Parameter.empty) -> inspect.Parameter:
        annotation = ast.unparse(argument.annotation) if argument.annotation else inspect.Parameter.empty
        return inspect.Parameter(argument.arg, kind, default=default, annotation=annotation)

    made = []
    by_place: list[tuple[ast.arg, Any]] = [(a, inspect.Parameter.POSITIONAL_ONLY) for a in arguments.posonlyargs]
    by_place += [(a, inspect.Parameter.POSITIONAL_OR_KEYWORD) for a in arguments.args]
    first = len(by_place) - len(arguments.defaults)
    for place, (argument, kind) in enumerate(by_place):
        made.append(parameter(argument, kind, value(arguments.defaults[place - first] if place >= first else None)))
    if arguments.vararg:
        made.append(parameter(arguments.vararg, inspect.Parameter.VAR_POSITIONAL))
    for argument, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        made.append(parameter(argument, inspect.Parameter.KEYWORD_ONLY, value(default)))
    if arguments.kwarg:
        made.append(parameter(arguments.kwarg, inspect.Parameter.VAR_KEYWORD))
    returns = ast.unparse(tree.returns) if tree.returns else inspect.Signature.empty
    return inspect.Signature(made, return_annotation=returns)


def of_bound(method: Any) -> inspect.Signature:
    """Returns the signature of a bound method, without self."""
    whole = of(method.__func__)
    return whole.replace(parameters=list(whole.parameters.values())[1:])


def of_class(cls: Any) -> inspect.Signature:
    """Returns the signature of a class. Raises AttributeError for a class derived in Python with its own __init__."""
    for base in cls.__mro__:
        if "__signature__" in vars(base):
            break
        if "__init__" in vars(base) or "__new__" in vars(base):
            raise AttributeError("__signature__")
    text = _CLASSES.get(base.__name__, "(*args, **kwargs)")
    scope: dict[str, Any] = {}
    exec(f"def f{text}: ...", scope)
    return inspect.signature(scope["f"])
