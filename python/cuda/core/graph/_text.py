# SPDX-License-Identifier: Apache-2.0
"""The text of a node: its class, its handle, and the one to three facts that tell it from others of its class."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .. import _core
from .._errors import CUDAError

if TYPE_CHECKING:
    from collections.abc import Callable

    from ._nodes import GraphNode


def _place(end: tuple[int, int]) -> str:
    """An end of a copy: (address, array). Arrays and memory of the device are marked (D), of the host (H)."""
    address, array = end
    on_host = not array and _core.pointer_traits(address)[1]
    return f"{array or address:#x}({'H' if on_host else 'D'})"


def _copy(node: Any) -> dict[str, str]:
    dst, src, _ = _core.memcpy_node_get(node._handle)
    return {"dst": _place(dst), "src": _place(src), "size": str(node.size)}


def _condition(node: Any) -> dict[str, str]:
    return {"condition": f"{int(node.condition.handle):#x}" if node.condition is not None else "?"}


# By the name of a node's class.
_FACTS: dict[str, Callable[[Any], dict[str, str]]] = {
    "KernelNode": lambda node: {"kernel": node.kernel.name or f"{int(node.kernel.handle):#x}"},
    "MemcpyNode": _copy,
    "MemsetNode": lambda node: {"dptr": f"{node.dptr:#x}", "value": f"{node.value:#x}"},
    "AllocNode": lambda node: {"dptr": f"{node.dptr:#x}", "size": str(node.bytesize)},
    "FreeNode": lambda node: {"dptr": f"{node.dptr:#x}"},
    "ChildGraphNode": lambda node: {"child": f"{_core.child_node_graph(node._handle):#x}"},
    "EventRecordNode": lambda node: {"event": f"{int(node.event.handle):#x}"},
    "EventWaitNode": lambda node: {"event": f"{int(node.event.handle):#x}"},
    "HostCallbackNode": lambda node: {"callback": getattr(node.callback, "__name__", None) or repr(node.callback)},
    "ConditionalNode": _condition,
    "IfNode": _condition,
    "IfElseNode": _condition,
    "WhileNode": _condition,
    "SwitchNode": _condition,
}


def text_of(node: GraphNode) -> str:
    """``<AllocNode handle=0x... dptr=0x... size=64>``; a node that the driver does not know any more has its handle only."""
    name = type(node).__name__
    if not node.is_valid:
        return f"<{name} handle={node._handle:#x} destroyed>"
    try:
        facts = _FACTS.get(name, lambda _: {})(node)
    except CUDAError:  # the graph around it is gone
        facts = {}
    return " ".join([f"<{name}", f"handle={node._handle:#x}", *(f"{key}={text}" for key, text in facts.items())]) + ">"
