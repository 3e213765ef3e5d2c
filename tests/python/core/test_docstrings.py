"""What help() shows: every public name says what it is, and the examples run."""

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
    """Methods and properties; values that options and enums hold are told by their class."""
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
    # A function of nanobind starts with its signature, which says nothing that help() does not.
    return re.sub(r"\A(\w*\(.*\) -> [^\n]*\n*)+", "", text)


THINGS = dict(public())


@pytest.mark.parametrize("name", THINGS)
def test_it_says_what_it_is(name: str) -> None:
    thing = THINGS[name]
    assert text_of(thing).strip(), f"{name} has no docstring"
    if inspect.isclass(thing) and not hasattr(thing, "__members__"):
        silent = [member for member, value in members(thing) if not text_of(value).strip()]
        assert silent == [], f"{name}: no docstring for {', '.join(silent)}"


EXAMPLES = [name for name, thing in THINGS.items() if ">>>" in text_of(thing)]


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_example_runs(name: str, device: Any, stream: Any, kernel: Any) -> None:
    buffer = device.allocate(1024, stream=stream)
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


# Need what no test machine has.
WITHOUT_EXAMPLES = {
    "cuda.core.system.NvlinkInfo",  # a GPU with links
    "cuda.core.system.get_process_name",  # a process that uses a GPU, whose number would be the example
    "cuda.core.system.get_p2p_status",  # two GPUs
    "cuda.core.system.get_topology_common_ancestor",
    "cuda.core.system.register_events",  # something that happens to a GPU
    "cuda.core.GraphicsResource",  # an OpenGL context
    "cuda.core.WorkqueueResource",  # a driver that tells of its work queues
}


def test_everything_public_has_an_example() -> None:
    enums = {name for name, thing in THINGS.items() if hasattr(thing, "__members__")}
    assert set(THINGS) - set(EXAMPLES) - enums == WITHOUT_EXAMPLES


@pytest.mark.parametrize("name", [name for name, thing in THINGS.items() if inspect.isclass(thing)])
def test_help_reads_well(name: str) -> None:
    """help() of a class: what it is at the top, every method by name, no addresses, nothing private."""
    thing = THINGS[name]
    page = pydoc.plain(pydoc.render_doc(thing))
    assert thing.__doc__ is not None
    first = inspect.cleandoc(thing.__doc__).split("\n")[0]
    assert first in page
    assert thing.__name__ in page.split("\n")[0] and thing.__module__.startswith("cuda.core")
    assert not any(part.startswith("_") for part in thing.__module__.split(".")), thing.__module__
    assert not re.search(r"object at 0x[0-9a-f]+", page), name
