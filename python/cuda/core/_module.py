# SPDX-License-Identifier: Apache-2.0
"""Object codes and kernels: the part that is implemented in Python."""

from __future__ import annotations

from collections import namedtuple

import cuda.pathfinder  # noqa: F401  passes the directories of Python packages to the C++ library

from . import _core
from ._core import Kernel, KernelOccupancy, ObjectCode

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

ParamInfo = namedtuple("ParamInfo", ("offset", "size"))
ParamInfo.__doc__ = "Offset and size of a kernel parameter in the parameter block, in bytes."
ParamInfo.__module__ = "cuda.core"

MaxPotentialBlockSizeOccupancyResult = namedtuple(
    "MaxPotentialBlockSizeOccupancyResult", ("min_grid_size", "max_block_size")
)
MaxPotentialBlockSizeOccupancyResult.__doc__ = (
    "The block size with the highest occupancy, and the minimum grid size for it."
)
MaxPotentialBlockSizeOccupancyResult.__module__ = "cuda.core"


class AttributeValue(int):
    """The value of a kernel attribute. Callable, for older programs: a call with a device returns the value there."""

    _source: tuple[KernelAttributes, int]  # (attributes, number of the attribute)

    def __call__(self, device_id: Any = None) -> int:
        if device_id is None:
            return int(self)
        attributes, number = self._source
        return attributes._kernel._attribute(number, _device_number(device_id))


class _Attribute:
    """Descriptor of the ``CUfunction_attribute`` with the name of the Python attribute."""

    def __init__(self, doc: str, settable: bool = False, yes_or_no: bool = False) -> None:
        self._number = -1
        self._settable = settable
        self._yes_or_no = yes_or_no
        self._name = ""
        self.__doc__ = doc

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name
        self._number = getattr(_core, "CU_FUNC_ATTRIBUTE_" + name.upper())

    def __get__(self, attributes: KernelAttributes | None, owner: type) -> AttributeValue | bool:
        if attributes is None:
            return self  # type: ignore[return-value]  # access through the class, as by help()
        if self._yes_or_no:
            return bool(attributes._kernel._attribute(self._number, attributes._device))
        value = AttributeValue(attributes._kernel._attribute(self._number, attributes._device))
        value._source = attributes, self._number
        return value

    def __set__(self, attributes: KernelAttributes, value: int) -> None:
        if not self._settable:
            raise AttributeError(f"this attribute of a kernel cannot be set: {self._name}")
        attributes._kernel._set_attribute(self._number, attributes._device, int(value))


def _device_number(device: Any) -> int:
    return device if type(device) is int else int(getattr(device, "device_id", device))


class KernelAttributes:
    """The attributes of a kernel on the current device. ``attributes[device]`` has those on another device.

    Numeric attributes are ints that can also be called: ``kernel.attributes.num_regs`` and
    ``kernel.attributes.num_regs()``. Flags are bools.
    """

    __module__ = "cuda.core"
    __slots__ = ("_device", "_kernel")

    def __init__(self, kernel: Kernel | None = None, device: int = -1) -> None:
        if kernel is None:
            raise RuntimeError("KernelAttributes cannot be instantiated directly: use Kernel.attributes")
        self._kernel = kernel
        self._device = device

    def __getitem__(self, device: Any) -> KernelAttributes:
        return KernelAttributes(self._kernel, _device_number(device))

    def __repr__(self) -> str:
        return f"<KernelAttributes of {self._kernel!r}>"

    max_threads_per_block = _Attribute("Maximum number of threads per block.")
    shared_size_bytes = _Attribute("Size of the static shared memory per block, in bytes.")
    const_size_bytes = _Attribute("Size of the constant memory that the kernel uses, in bytes.")
    local_size_bytes = _Attribute("Size of the local memory per thread, in bytes.")
    num_regs = _Attribute("Number of registers per thread.")
    ptx_version = _Attribute("PTX version of the kernel: major * 10 + minor.")
    binary_version = _Attribute("Binary architecture version of the kernel: major * 10 + minor.")
    cache_mode_ca = _Attribute(
        "Whether the kernel was compiled with caching of global loads in L1 (-Xptxas -dlcm=ca).", yes_or_no=True
    )
    max_dynamic_shared_size_bytes = _Attribute(
        "Maximum size of the dynamic shared memory per block, in bytes. Can be set.", True
    )
    preferred_shared_memory_carveout = _Attribute(
        "Preferred carve-out of the L1 cache for shared memory, in percent. Can be set.", True
    )
    cluster_size_must_be_set = _Attribute("Whether a launch must specify a cluster size.", yes_or_no=True)
    required_cluster_width = _Attribute("Required cluster width in blocks; 0 if not fixed.", True)
    required_cluster_height = _Attribute("Required cluster height in blocks; 0 if not fixed.", True)
    required_cluster_depth = _Attribute("Required cluster depth in blocks; 0 if not fixed.", True)
    non_portable_cluster_size_allowed = _Attribute(
        "Whether clusters of more than eight blocks (a non-portable size) are allowed.", True, yes_or_no=True
    )
    cluster_scheduling_policy_preference = _Attribute("Cluster scheduling policy (a CUclusterSchedulingPolicy).", True)


def _object_code(code_type: str, code: Any, name: str, symbol_mapping: dict[str, str]) -> ObjectCode:
    """Unpickles an ObjectCode."""
    return ObjectCode._restore(code_type, code, name, symbol_mapping)


def _kernel_of(code: ObjectCode, symbol: str) -> Kernel:
    """Unpickles a Kernel. No driver call is made before the kernel is used."""
    return code._kernel_later(symbol)


__all__ = ["Kernel", "KernelAttributes", "KernelOccupancy", "ObjectCode"]
