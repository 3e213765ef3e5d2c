"""Names of cuda.core for type checkers. At run time each name is imported at first use."""

from . import checkpoint as checkpoint
from . import experimental as experimental
from . import graph as graph
from . import system as system
from . import texture as texture
from . import typing as typing
from . import utils as utils
from ._core import LEGACY_DEFAULT_STREAM as LEGACY_DEFAULT_STREAM
from ._core import PER_THREAD_DEFAULT_STREAM as PER_THREAD_DEFAULT_STREAM
from ._core import Buffer as Buffer
from ._core import Context as Context
from ._core import Device as Device
from ._core import Event as Event
from ._core import LaunchConfig as LaunchConfig
from ._core import Stream as Stream
from ._core import launch as launch
from ._errors import CUDAError as CUDAError
from ._errors import NVRTCError as NVRTCError
from ._graphics import GraphicsResource as GraphicsResource
from ._linker import Linker as Linker
from ._linker import LinkerOptions as LinkerOptions
from ._location import Host as Host
from ._managed import ManagedBuffer as ManagedBuffer
from ._memory import DeviceMemoryResource as DeviceMemoryResource
from ._memory import GraphMemoryResource as GraphMemoryResource
from ._memory import LegacyPinnedMemoryResource as LegacyPinnedMemoryResource
from ._memory import ManagedMemoryResource as ManagedMemoryResource
from ._memory import MemoryResource as MemoryResource
from ._memory import PinnedMemoryResource as PinnedMemoryResource
from ._module import Kernel as Kernel
from ._module import ObjectCode as ObjectCode
from ._options import ContextOptions as ContextOptions
from ._options import DeviceMemoryResourceOptions as DeviceMemoryResourceOptions
from ._options import EventOptions as EventOptions
from ._options import ManagedMemoryResourceOptions as ManagedMemoryResourceOptions
from ._options import PinnedMemoryResourceOptions as PinnedMemoryResourceOptions
from ._options import SMResourceOptions as SMResourceOptions
from ._options import StreamOptions as StreamOptions
from ._options import WorkqueueResourceOptions as WorkqueueResourceOptions
from ._program import Program as Program
from ._program import ProgramOptions as ProgramOptions
from ._resources import DeviceResources as DeviceResources
from ._resources import SMResource as SMResource
from ._resources import WorkqueueResource as WorkqueueResource
from ._tensor_map import TensorMapDescriptor as TensorMapDescriptor
from ._tensor_map import TensorMapDescriptorOptions as TensorMapDescriptorOptions
from ._version import __version__ as __version__
from ._virtual_memory import VirtualMemoryResource as VirtualMemoryResource
from ._virtual_memory import VirtualMemoryResourceOptions as VirtualMemoryResourceOptions

__all__ = [
    "LEGACY_DEFAULT_STREAM",
    "PER_THREAD_DEFAULT_STREAM",
    "Buffer",
    "CUDAError",
    "Context",
    "ContextOptions",
    "Device",
    "DeviceMemoryResource",
    "DeviceMemoryResourceOptions",
    "DeviceResources",
    "Event",
    "EventOptions",
    "GraphMemoryResource",
    "GraphicsResource",
    "Host",
    "Kernel",
    "LaunchConfig",
    "LegacyPinnedMemoryResource",
    "Linker",
    "LinkerOptions",
    "ManagedBuffer",
    "ManagedMemoryResource",
    "ManagedMemoryResourceOptions",
    "MemoryResource",
    "NVRTCError",
    "ObjectCode",
    "PinnedMemoryResource",
    "PinnedMemoryResourceOptions",
    "Program",
    "ProgramOptions",
    "SMResource",
    "SMResourceOptions",
    "Stream",
    "StreamOptions",
    "TensorMapDescriptor",
    "TensorMapDescriptorOptions",
    "VirtualMemoryResource",
    "VirtualMemoryResourceOptions",
    "WorkqueueResource",
    "WorkqueueResourceOptions",
    "__version__",
    "launch",
]
