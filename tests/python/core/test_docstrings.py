# SPDX-License-Identifier: Apache-2.0
"""Every public name has a docstring, and the examples in docstrings run."""

from __future__ import annotations

import doctest
import importlib
import inspect
import pydoc
import re
from collections.abc import Iterator
from typing import Any

import pytest

MODULES = (
    "cuda.core", "cuda.core.graph", "cuda.core.texture", "cuda.core.utils", "cuda.core.checkpoint", "cuda.core.system",
)  # fmt: skip


def public() -> Iterator[tuple[str, Any]]:
    for module in map(importlib.import_module, MODULES):
        for name in module.__all__:
            thing = getattr(module, name)
            if inspect.isclass(thing) or callable(thing):
                yield f"{module.__name__}.{name}", thing


def members(cls: type) -> Iterator[tuple[str, Any]]:
    """Methods and properties; fields of options and members of enums are documented by their class."""
    for name in dir(cls):
        value = inspect.getattr_static(cls, name)
        plain = isinstance(value, (int, str, float, tuple, type(None)))
        if name.startswith("_") or plain or inspect.ismemberdescriptor(value) or inspect.isclass(value):
            continue
        if not issubclass(cls, BaseException):
            yield name, value


def text_of(thing: Any) -> str:
    if isinstance(thing, (staticmethod, classmethod)):
        thing = thing.__func__
    text = getattr(thing, "__doc__", None) or ""
    if text == type(thing).__doc__:
        return ""
    # The docstring of a nanobind function starts with its signature, which help() shows anyway.
    return re.sub(r"\A(\w*\(.*\) -> [^\n]*\n*)+", "", text)


THINGS = dict(public())


@pytest.mark.parametrize("name", THINGS)
def test_public_name_and_its_members_have_docstrings(name: str) -> None:
    thing = THINGS[name]
    assert text_of(thing).strip(), f"{name} has no docstring"
    if inspect.isclass(thing) and not hasattr(thing, "__members__"):
        silent = [member for member, value in members(thing) if not text_of(value).strip()]
        assert silent == [], f"{name}: no docstring for {', '.join(silent)}"


EXAMPLES = [name for name, thing in THINGS.items() if ">>>" in text_of(thing)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_docstring_example_runs(name: str, device: Any, stream: Any, kernel: Any) -> None:
    buffer = device.allocate(1024, stream=stream)
    buffer.fill(0, stream=stream)
    stream.sync()
    modules = map(importlib.import_module, reversed(MODULES))
    names = {k: getattr(module, k) for module in modules for k in module.__all__}
    names |= {"system": importlib.import_module("cuda.core.system"), "Device": type(device)}
    names |= {"device": device, "stream": stream, "kernel": kernel("add_one"), "buffer": buffer}
    test = doctest.DocTestParser().get_doctest(inspect.cleandoc(text_of(THINGS[name])), names, name, None, None)
    said: list[str] = []
    flags = doctest.ELLIPSIS | doctest.IGNORE_EXCEPTION_DETAIL
    result = doctest.DocTestRunner(optionflags=flags).run(test, out=said.append)
    assert result.attempted and not result.failed, "".join(said)


# Require hardware or software that no test machine has.
WITHOUT_EXAMPLES = {
    "cuda.core.system.NvlinkInfo",  # a GPU with NVLink
    "cuda.core.system.get_process_name",  # a process that uses a GPU
    "cuda.core.system.get_p2p_status",  # two GPUs
    "cuda.core.system.get_topology_common_ancestor",
    "cuda.core.system.register_events",  # an event of a GPU
    "cuda.core.GraphicsResource",  # an OpenGL context
    "cuda.core.WorkqueueResource",  # a driver with work queue resources
}


def test_every_public_name_has_an_example() -> None:
    enums = {name for name, thing in THINGS.items() if hasattr(thing, "__members__")}
    assert set(THINGS) - set(EXAMPLES) - enums == WITHOUT_EXAMPLES


@pytest.mark.parametrize("name", [name for name, thing in THINGS.items() if inspect.isclass(thing)])
def test_help_shows_summary_and_members(name: str) -> None:
    """help() of a class starts with its summary, lists every method, and shows no addresses or private names."""
    thing = THINGS[name]
    page = pydoc.plain(pydoc.render_doc(thing))
    assert thing.__doc__ is not None
    first = inspect.cleandoc(thing.__doc__).split("\n")[0]
    assert first in page
    assert thing.__name__ in page.split("\n")[0] and thing.__module__.startswith("cuda.core")
    assert not any(part.startswith("_") for part in thing.__module__.split(".")), thing.__module__
    assert not re.search(r"object at 0x[0-9a-f]+", page), name
