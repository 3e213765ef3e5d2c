# SPDX-License-Identifier: Apache-2.0
"""inspect.signature and help(): every public callable tells its arguments, every option field has its text."""

import importlib
import inspect
import json
import pydoc
import re
from pathlib import Path

import pytest

FACTS = Path(__file__).resolve().parents[2] / "compat" / "facts"
NOT_CALLED = {"DeviceResourcesType"}  # a type for annotations, of collections.abc
MODULES = [
    "cuda.core", "cuda.core.graph", "cuda.core.system", "cuda.core.texture", "cuda.core.utils", "cuda.core.checkpoint",
    "cuda.pathfinder", "cuda.bindings.driver", "cuda.bindings.runtime", "cuda.bindings.nvrtc", "cuda.bindings.nvjitlink",
    "cuda.bindings.nvvm", "cuda.bindings.nvfatbin", "cuda.bindings.nvml", "cuda.bindings.cufile", "cuda.bindings.cudla",
    "cuda.bindings.utils",
]  # fmt: skip


def callables(name):
    module = importlib.import_module(name)
    for label in getattr(module, "__all__", None) or [n for n in dir(module) if not n.startswith("_")]:
        found = getattr(module, label)
        if isinstance(found, type) and issubclass(found, BaseException):
            continue  # BaseException has no signature
        if callable(found):
            yield label, found
        if isinstance(found, type) and not name.startswith("cuda.bindings"):
            for member, value in inspect.getmembers(found):
                inherited = member in dir(str) and issubclass(found, str)
                if not member.startswith("_") and callable(value) and not inherited:
                    yield f"{label}.{member}", value


@pytest.mark.parametrize("name", MODULES)
def test_every_public_callable_has_a_signature(name):
    silent = []
    for label, value in callables(name):
        try:
            inspect.signature(value)
        except (TypeError, ValueError) as error:
            silent.append(f"{label}: {error}")
    assert silent == []


def names_of_the_surface():
    """(module, name) of every function, class and method in the facts of NVIDIA's packages."""
    for file in sorted(FACTS.glob("*.json")):
        facts = json.loads(file.read_text())
        if file.stem == "cuda.core.returned-types":
            continue  # reached by objects; tests/compat looks at their methods
        for function in facts["functions"]:
            if function not in NOT_CALLED:
                yield file.stem, function
        for name, row in facts["classes"].items():
            yield file.stem, name
            for method in row["methods"]:
                label = method.removeprefix("@staticmethod ").removeprefix("@classmethod ").split("(")[0].split(" ")[0]
                if "(" in method and not label.startswith("__"):
                    yield file.stem, f"{name}.{label}"


@pytest.mark.parametrize("module", sorted({module for module, _ in names_of_the_surface()}))
def test_every_callable_of_nvidias_surface_has_a_signature(module):
    silent = []
    for name in (name for where, name in names_of_the_surface() if where == module):
        found = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part, None)
        if found is None or (isinstance(found, type) and issubclass(found, BaseException)) or not callable(found):
            continue  # tests/compat reports missing names
        owner = getattr(found, "__objclass__", None)
        if isinstance(owner, type) and issubclass(owner, BaseException):
            continue
        try:
            inspect.signature(found)
        except (TypeError, ValueError) as error:
            silent.append(f"{name}: {error}")
    assert silent == []


def test_signatures_name_arguments_defaults_and_kinds(device, stream):
    from cuda.core import Buffer, Device, LaunchConfig, ObjectCode, Stream

    assert str(inspect.signature(ObjectCode.from_cubin)).startswith("(module: 'object', *, name: 'str' = ''")
    signature = inspect.signature(Buffer.from_handle)
    assert list(signature.parameters) == ["ptr", "size", "mr", "owner", "stream"]
    assert signature.parameters["stream"].kind is inspect.Parameter.KEYWORD_ONLY
    assert signature.parameters["mr"].default is None
    assert list(inspect.signature(Stream.create_graph_builder).parameters) == ["self"]
    assert list(inspect.signature(stream.create_graph_builder).parameters) == []
    assert list(inspect.signature(Device).parameters) == ["device_id"]
    assert list(inspect.signature(LaunchConfig).parameters)[:3] == ["grid", "cluster", "block"]
    with pytest.raises(TypeError):
        inspect.signature(stream)

    class Mine(Device):
        def __init__(self, other):
            pass

    assert list(inspect.signature(Mine).parameters) == ["other"]


def option_classes():
    """Every public class of options, by its name."""
    found = {}
    for module in (name for name in MODULES if name.startswith("cuda.core")):
        for label in importlib.import_module(module).__all__:
            if label.endswith("Options"):
                found[label] = getattr(importlib.import_module(module), label)
    return found


@pytest.mark.parametrize("options", option_classes().values(), ids=option_classes())
def test_every_option_field_has_its_text(options):
    names = getattr(options, "__slots__", None) or tuple(options.__dataclass_fields__)
    untold = [name for name in names if not re.search(rf"``{name}``", options.__doc__)]
    assert untold == []
    page = pydoc.plain(pydoc.render_doc(options))
    assert [name for name in names if f"``{name}``" not in page] == []


def test_the_options_are_found():
    assert len(option_classes()) >= 18
