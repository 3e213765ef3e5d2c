# SPDX-License-Identifier: Apache-2.0
"""Every public name of cuda.core has its C++ counterpart: the same name in the class of the same name, or a row below."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "docs"))
from render import cpp_reference  # noqa: E402

MODULES = ("core", "core.graph", "core.texture", "core.utils", "core.checkpoint", "core.system", "core.returned-types")

# Python class: the C++ class or function that does the same.
CLASSES = {
    "AccessedBySetProxy": "ManagedRef",
    "AdjacencySetProxy": "GraphDefinition",
    "BAR1MemoryInfo": "system::MemoryInfo",
    "ContextOptions": "create_context",
    "DeviceMemoryResource": "MemoryPool",
    "DeviceMemoryResourceOptions": "PoolOptions",
    "DeviceProperties": "Device",
    "ExecutableGraphNode": "ExecutableNodeRef",
    "FieldValues": "system::FieldValue",
    "GpuDynamicPstatesInfo": "system::GpuDynamicPstatesUtilization",
    "GraphMemoryResource": "GraphMemory",
    "GraphMemoryResourceAttributes": "GraphMemory",
    "GraphNode": "GraphNodeRef",
    "Host": "Location",
    "IPCAllocationHandle": "MemoryPool",
    "IPCEventDescriptor": "Event",
    "LegacyPinnedMemoryResource": "LegacyPinnedMemory",
    "ManagedBuffer": "Buffer",
    "ManagedMemoryResource": "MemoryPool",
    "ManagedMemoryResourceOptions": "PoolOptions",
    "PeerAccessibleBySetProxy": "MemoryPool",
    "PinnedMemoryResource": "MemoryPool",
    "PinnedMemoryResourceOptions": "PoolOptions",
    "Process": "checkpoint::Process",
    "ProgramCacheResource": "ProgramCache",
    "RegisteredSystemEvents": "system::SystemEvents",
    "SMResourceOptions": "SMGroupOptions",
    "ThermalSettings": "system::ThermalSensor",
    "WorkqueueResourceOptions": "WorkqueueResource",
    **{f"{kind}Node": "GraphNodeRef" for kind in (
        "Alloc", "ChildGraph", "Conditional", "Empty", "EventRecord", "EventWait", "Free", "HostCallback", "IfElse", "If",
        "Kernel", "Memcpy", "Memset", "Switch", "While",
    )},
    **{f"Executable{kind}Node": "ExecutableNodeRef" for kind in (
        "ChildGraph", "EventRecord", "EventWait", "HostCallback", "Kernel", "Memcpy", "Memset",
    )},
}  # fmt: skip
# C++ class of a member: where its members are too.
ALSO = {
    "Buffer": ("ManagedRef", "MemoryTraits"),
    "Event": ("EventOptions",),
    "MemoryPool": ("MemoryPoolRef", "PoolOptions"),
    "MipmappedArray": ("MipmappedArrayOptions",),
    "OpaqueArray": ("OpaqueArrayOptions",),
    "GraphNodeRef": ("GraphDefinition", "KernelNodeParams", "MemsetParams", "LaunchConfig"),
    "system::Device": ("system::DeviceEvents",),
}
# "Class.member", or "member" of any class, in Python: the C++ name that does the same.
MEMBERS = {
    # graphs: a node is added to a definition, after the nodes that are given
    "allocate": "GraphDefinition::add_alloc",
    "callback": "GraphDefinition::add_host",
    "deallocate": "GraphDefinition::add_free",
    "destroy": "GraphDefinition::remove",
    "embed": "GraphDefinition::add_child",
    "empty": "GraphDefinition::add_empty",
    "if_else": "GraphDefinition::add_conditional",
    "if_then": "GraphDefinition::add_conditional",
    "join": "GraphDefinition::add_empty",
    "launch": "GraphDefinition::add_launch",
    "memcpy": "GraphDefinition::add_memcpy",
    "memset": "GraphDefinition::add_memset",
    "record": "GraphDefinition::add_event_record",
    "switch": "GraphDefinition::add_conditional",
    "wait": "GraphDefinition::add_event_wait",
    "while_loop": "GraphDefinition::add_conditional",
    "GraphBuilder.switch": "GraphBuilder::switch_case",
    "GraphBuilder.debug_dot_print": "GraphDefinition::debug_dot_print",
    "AdjacencySetProxy.add": "GraphDefinition::add_edges",
    "AdjacencySetProxy.update": "GraphDefinition::add_edges",
    "AdjacencySetProxy.discard": "GraphDefinition::remove_edges",
    "AllocNode.bytesize": "GraphNodeRef::allocation",
    "AllocNode.device_id": "GraphNodeRef::allocation",
    "AllocNode.memory_type": "GraphNodeRef::allocation",
    "AllocNode.peer_access": "GraphNodeRef::allocation",
    "AllocNode.dptr": "GraphNodeRef::allocation",
    "FreeNode.dptr": "GraphNodeRef::freed",
    "MemsetNode.dptr": "GraphNodeRef::memset",
    "MemcpyNode.dst": "GraphNodeRef::memcpy",
    "MemcpyNode.src": "GraphNodeRef::memcpy",
    "MemcpyNode.size": "GraphNodeRef::memcpy",
    "KernelNode.config": "GraphNodeRef::kernel",
    "ChildGraphNode.update": "GraphNodeRef::set_child_graph",
    "EventRecordNode.update": "GraphNodeRef::set_event",
    "EventWaitNode.update": "GraphNodeRef::set_event",
    "HostCallbackNode.update": "GraphNodeRef::set_host",
    "HostCallbackNode.callback": "GraphNodeRef::host",
    "KernelNode.update": "GraphNodeRef::set_kernel",
    "MemcpyNode.update": "GraphNodeRef::set_memcpy",
    "MemsetNode.update": "GraphNodeRef::set_memset",
    "ExecutableChildGraphNode.update": "ExecutableNodeRef::set_child_graph",
    "ExecutableEventRecordNode.update": "ExecutableNodeRef::set_event",
    "ExecutableEventWaitNode.update": "ExecutableNodeRef::set_event",
    "ExecutableHostCallbackNode.update": "ExecutableNodeRef::set_host",
    "ExecutableKernelNode.update": "ExecutableNodeRef::set_kernel",
    "ExecutableMemcpyNode.update": "ExecutableNodeRef::set_memcpy",
    "ExecutableMemsetNode.update": "ExecutableNodeRef::set_memset",
    "enable": "ExecutableNodeRef::set_enabled",
    "disable": "ExecutableNodeRef::set_enabled",
    "cond_type": "GraphDefinition::add_conditional",  # what it was made with
    "condition": "GraphDefinition::add_conditional",
    "branches": "GraphDefinition::add_conditional",
    "then": "GraphDefinition::add_conditional",
    "else_": "GraphDefinition::add_conditional",
    "body": "GraphDefinition::add_conditional",
    "graph": "GraphDefinition::nodes",
    # memory
    "Buffer.from_handle": "Buffer::view",
    "ManagedBuffer.from_handle": "Buffer::view",
    "from_ipc_descriptor": "import_buffer",
    "ipc_descriptor": "export_buffer",
    "is_device_accessible": "Buffer::traits",
    "is_host_accessible": "Buffer::traits",
    "is_managed": "Buffer::traits",
    "Buffer.owner": "Buffer::view",
    "ManagedBuffer.owner": "Buffer::view",
    "is_mapped": "import_buffer",
    "MemoryPool.close": "MemoryPool::create",
    "allocation_handle": "MemoryPoolRef::export_file_descriptor",
    "from_allocation_handle": "MemoryPool::from_file_descriptor",
    "attributes": "MemoryPoolRef::attribute",
    "GraphMemoryResource.attributes": "GraphMemory::attribute",
    **{f"GraphMemoryResourceAttributes.{name}": "GraphMemory::attribute" for name in (
        "reserved_mem_current", "reserved_mem_high", "used_mem_current", "used_mem_high")},
    "numa_id": "Location::id",
    "is_numa_current": "Location::type",
    "numa_current": "Location::host_numa_current",
    "ManagedMemoryResource.preferred_location": "MemoryPool::options",
    "ManagedMemoryResourceOptions.preferred_location": "PoolOptions::location",
    "preferred_location_type": "PoolOptions::location",
    "PinnedMemoryResourceOptions.numa_id": "PoolOptions::location",
    "AccessedBySetProxy.add": "ManagedRef::add_accessed_by",
    "AccessedBySetProxy.discard": "ManagedRef::remove_accessed_by",
    "AccessedBySetProxy.clear": "ManagedRef::set_accessed_by",
    "PeerAccessibleBySetProxy.add": "MemoryPool::add_peer_accessible_by",
    "PeerAccessibleBySetProxy.discard": "MemoryPool::remove_peer_accessible_by",
    "PeerAccessibleBySetProxy.clear": "MemoryPool::set_peer_accessible_by",
    "PeerAccessibleBySetProxy.update": "MemoryPool::set_peer_accessible_by",
    "IPCAllocationHandle.handle": "MemoryPoolRef::export_file_descriptor",
    "GraphicsResource.resource_handle": "GraphicsResource::handle",
    # devices, contexts, streams, events
    "Device.create_context": "create_context",
    "Device.create_graph_builder": "GraphBuilder",
    "Device.create_mipmapped_array": "MipmappedArray",
    "Device.create_opaque_array": "OpaqueArray",
    "Device.create_surface_object": "SurfaceObject",
    "Device.create_texture_object": "TextureObject",
    "Device.get_all_devices": "Device::all",
    "Device.to_system_device": "system::Device::from_cuda_device",
    "Device.context": "Device::primary_context",
    "Device.default_stream": "Stream::legacy_default",
    "Device.properties": "Device::attribute",
    "Device.resources": "DeviceResources",
    "Context.close": "Context",  # the last copy
    "Context.create_stream": "Stream::create",
    "Context.is_closed": "Context",
    "Context.resources": "DeviceResources",
    "ContextOptions.resources": "create_context",
    "Stream.create_graph_builder": "GraphBuilder",
    "Stream.from_handle": "Stream::view",
    "Stream.resources": "DeviceResources",
    "Event.from_ipc_descriptor": "Event::from_ipc_handle",
    "Event.ipc_descriptor": "Event::ipc_handle",
    "Event.device": "Event::context",
    "Event.is_blocking_sync": "EventOptions::blocking_sync",
    "Event.is_ipc_enabled": "EventOptions::ipc_enabled",
    "Event.is_timing_enabled": "EventOptions::timing_enabled",
    "SMResource.handle": "SMResource::raw",
    "WorkqueueResource.handle": "WorkqueueResource::raw",
    "WorkqueueResource.configure": "WorkqueueResource::set_concurrency_limit",
    "WorkqueueResource.device": "WorkqueueResource::device_id",
    # code
    "ProgramOptions.as_bytes": "ProgramOptions::flags",
    "ProgramOptions.restrict": "ProgramOptions::restrict_pointers",  # a keyword of C
    "LinkerOptions.as_bytes": "LinkerOptions::flags",
    "FileStreamProgramCache.update": "ProgramCache::put",
    "InMemoryProgramCache.update": "ProgramCache::put",
    "ProgramCacheResource.update": "ProgramCache::put",
    "close": "ProgramCache",  # the destructor
    # textures, views
    "device": "Device::current",  # they are made there
    "ResourceDescriptor.height": "ResourceDescriptor::raw",
    "ResourceDescriptor.kind": "ResourceDescriptor::type",
    "ResourceDescriptor.num_channels": "ResourceDescriptor::raw",
    "ResourceDescriptor.pitch_bytes": "ResourceDescriptor::raw",
    "ResourceDescriptor.size_bytes": "ResourceDescriptor::raw",
    "ResourceDescriptor.source": "ResourceDescriptor::needs",
    "ResourceDescriptor.width": "ResourceDescriptor::raw",
    "TensorMapDescriptorOptions.data_type": "TensorRef::data_type",
    # NVML
    "Device.get_device_count": "system::get_num_devices",
    "Device.register_events": "system::DeviceEvents",
    "Device.arch": "system::Device::architecture",
    "Device.cuda_compute_capability": "system::Device::compute_capability",
    "register_events": "system::SystemEvents",
    "get_all_values": "system::Device::get_field_values",
    **{f"KernelAttributes.{name}": "KernelAttributes::get" for name in (
        "binary_version", "cache_mode_ca", "cluster_scheduling_policy_preference", "cluster_size_must_be_set",
        "const_size_bytes", "local_size_bytes", "max_dynamic_shared_size_bytes", "max_threads_per_block",
        "non_portable_cluster_size_allowed", "num_regs", "preferred_shared_memory_carveout", "ptx_version",
        "required_cluster_depth", "required_cluster_height", "required_cluster_width", "shared_size_bytes")},
}  # fmt: skip
# What only Python has, with the reason.
PYTHON_ONLY = {
    "args_viewable_as_strided_memory": "a decorator of Python functions",
    "from_any_interface": "a protocol of Python objects; C++ takes DLPack's tensors",
    "from_array_interface": "a protocol of Python objects; C++ takes DLPack's tensors",
    "from_cuda_array_interface": "a protocol of Python objects; C++ takes DLPack's tensors",
    "exporting_obj": "a Python object",
    "TextureObject.options": "kept for looking at; C++ programs have what they passed",
    "TextureObject.resource": "kept for looking at; C++ programs have what they passed",
    "SurfaceObject.resource": "kept for looking at; C++ programs have what they passed",
    "DeviceMemoryResource.is_closed": "C++ has a shared_ptr, which can be null",
    "ManagedMemoryResource.is_closed": "C++ has a shared_ptr, which can be null",
    "PinnedMemoryResource.is_closed": "C++ has a shared_ptr, which can be null",
    "IPCAllocationHandle.is_closed": "C++ has the file descriptor itself",
    "uuid": "names a resource for pickle",
    "register": "names a resource for pickle",
    "from_registry": "names a resource for pickle",
    "isdisjoint": "of Python's sets",
    "pop": "of Python's sets",
    "remove": "of Python's sets",
    "clear": "of Python's sets",
    "difference_update": "of Python's sets",
    "intersection_update": "of Python's sets",
    "symmetric_difference_update": "of Python's sets",
    "count": "of Python's tuples",
    "index": "of Python's tuples",
    "with_traceback": "of Python's exceptions",
    "args": "of Python's exceptions",
    "add_note": "of Python's exceptions",
    "GraphDebugPrintOptions": "C++ passes the driver's flags",
}


def identifier(text: str) -> str:
    """The name that a declaration declares."""
    text = re.sub(r"\[\[[^\]]*\]\]", " ", text).strip()
    found = re.match(r"using\s+(\w+)\s*=", text) or re.search(r"(\w+)\s*\(", text)
    found = found or re.search(r"(\w+)\s*(?:=|\{|;|$)", text)
    return found[1] if found else ""


def cpp_names() -> dict[str, set[str]]:
    """The members of every class and struct of include/cucore, and every function with none."""
    names: dict[str, set[str]] = {}
    bases: dict[str, str] = {}
    for path in sorted((ROOT / "include/cucore").glob("*.hpp")):
        _, _, items = cpp_reference.header(path)
        inner = "system::" if path.name.startswith("system") else ""
        for item in items:
            name = item.name or inner + identifier(item.text)
            names.setdefault(name, set()).update(identifier(member.text) for member in item.members)
            if base := re.search(
                r"(?:class|struct)\s+(?:CUCORE_EXPORT\s+)?\w+\s*(?:final\s*)?:\s*public\s+(\w+)", item.text
            ):
                bases[name] = base[1]
    for name, base in bases.items():
        while base in names:
            names[name] |= names[base]
            base = bases.get(base, "")
    for name, others in ALSO.items():
        for other in others:
            names[name] |= names[other]
    return names


CPP = cpp_names()


def is_there(name: str) -> bool:
    owner, _, member = name.rpartition("::")
    return name in CPP or member in CPP.get(owner, ())


def python_names() -> list[tuple[str, str]]:
    """(class, member) of every public class, ("", name) of every public function."""
    found: list[tuple[str, str]] = []
    for module in MODULES:
        facts = json.loads((ROOT / f"tests/compat/facts/cuda.{module}.json").read_text())
        found += [("", name) for name in facts.get("functions", {})]
        for name, described in facts.get("classes", facts).items():
            if not isinstance(described, dict) or "methods" not in described:
                continue
            home = "system::" + name if module == "core.system" else name
            if name.endswith("Error") and home.startswith("system::"):
                continue  # NVMLError has the code as a value
            methods = [re.sub(r"@\w+ ", "", method) for method in described["methods"]]
            members = [m for method in methods if (m := re.match(r"\w+", method)[0]) and not m.startswith("__")]  # type: ignore[index]
            found += [(home, member) for member in (*members, *described["properties"])]
    return found


def counterpart(owner: str, member: str) -> str | None:
    """The C++ name, or the reason why there is none; None where neither is known."""
    if not owner:
        for known in (member, "system::" + member, MEMBERS.get(member, "")):
            if is_there(known):
                return known
        return PYTHON_ONLY.get(member)
    short = owner.split("::")[-1]
    row = MEMBERS.get(f"{short}.{member}")
    if row is not None and is_there(row):
        return row
    cpp = CLASSES.get(owner, owner)
    for home in (cpp, f"system::{cpp}"):
        if member in CPP.get(home, ()):
            return f"{home}::{member}"
    if short == "DeviceProperties":
        return "Device::attribute"  # CU_DEVICE_ATTRIBUTE_<NAME>
    row = MEMBERS.get(member)
    if row is not None and is_there(row):
        return row
    return PYTHON_ONLY.get(f"{short}.{member}") or PYTHON_ONLY.get(member) or PYTHON_ONLY.get(short)


@pytest.mark.parametrize("owner", sorted({owner for owner, _ in python_names()}))
def test_every_public_name_has_its_cpp_counterpart(owner: str) -> None:
    missing = [member for home, member in python_names() if home == owner and counterpart(home, member) is None]
    assert not missing, f"{owner or 'functions'}: add them to include/cucore, or a row with the reason here: {missing}"


def test_every_class_has_its_cpp_counterpart() -> None:
    classes = {owner for owner, _ in python_names() if owner}
    missing = [
        c for c in classes if not is_there(CLASSES.get(c, c)) and not is_there(f"system::{c}") and c not in PYTHON_ONLY
    ]
    assert not missing, missing


def test_rows_name_what_is_there() -> None:
    wrong = [row for row in (*MEMBERS.values(), *CLASSES.values()) if not is_there(row)]
    assert not wrong, wrong
