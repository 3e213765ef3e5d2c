# SPDX-License-Identifier: Apache-2.0
"""inspect.signature and help(): every public callable tells its arguments, every option field has its text."""

import importlib
import inspect
import re

import pytest

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
            continue  # BaseException tells nobody
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


OPTIONS = [
    "cuda.core.EventOptions", "cuda.core.StreamOptions", "cuda.core.ContextOptions", "cuda.core.ProgramOptions",
    "cuda.core.LinkerOptions", "cuda.core.DeviceMemoryResourceOptions", "cuda.core.PinnedMemoryResourceOptions",
    "cuda.core.ManagedMemoryResourceOptions", "cuda.core.SMResourceOptions", "cuda.core.WorkqueueResourceOptions",
    "cuda.core.graph.GraphCompleteOptions", "cuda.core.graph.GraphDebugPrintOptions",
]  # fmt: skip


@pytest.mark.parametrize("name", OPTIONS)
def test_every_option_field_has_its_text(name):
    module, _, cls = name.rpartition(".")
    options = getattr(importlib.import_module(module), cls)
    fields = getattr(options, "__slots__", None) or tuple(options.__dataclass_fields__)
    untold = [field for field in fields if not re.search(rf"``{field}``", options.__doc__)]
    assert untold == []
