# SPDX-License-Identifier: Apache-2.0
"""Locates CUDA components in the user's environment, and reports why if they are not found.

    >>> from cuda.pathfinder import explain, load_nvidia_dynamic_lib
    >>> load_nvidia_dynamic_lib("nvrtc").found_via
    'site-packages'
    >>> print(explain("nvrtc"))  # every place that is looked at, in order, and what is there

The search is implemented in C++ (``cucore/pathfinder.hpp``). This package adds Python's directories and the classes.
"""

from os.path import exists as _exists

if (
    _exists(f"{__path__[0]}/../core/_resource_handles.pxd")
    or _exists(f"{__path__[0]}/../bindings/driver.pxd")
    or _exists(f"{__path__[0]}/../pathfinder/_dynamic_libs")
    or (
        _exists(__file__)
        and not (_exists(f"{__path__[0]}/../core/__init__.py") and _exists(f"{__path__[0]}/../bindings/__init__.py"))
    )
):  # files of NVIDIA's wheels are present, or files of this package are missing: both are installed in one directory
    from cucore.mixed import refuse

    refuse(__name__)

from ._dynamic import LoadedDL, load_nvidia_dynamic_lib
from ._environment import get_cuda_path_or_home
from ._explain import SearchAttempt, SearchReport, explain
from ._located import (
    LocatedBitcodeLib,
    LocatedHeaderDir,
    LocatedStaticLib,
    find_bitcode_lib,
    find_nvidia_binary_utility,
    find_nvidia_header_directory,
    find_static_lib,
    locate_bitcode_lib,
    locate_nvidia_header_directory,
    locate_static_lib,
)
from ._pathfinder import (
    BitcodeLibNotFoundError,
    DynamicLibNotAvailableError,
    DynamicLibNotFoundError,
    DynamicLibUnknownError,
    StaticLibNotFoundError,
    UnsupportedBinaryError,
    header_of,
    supported,
)

__version__ = "1.8.6"

#: Short names of the toolkit's dynamic libraries.
SUPPORTED_NVIDIA_LIBNAMES = supported("library", True)
#: Short names of the toolkit's header sets, each with the header by which its directory is recognized.
SUPPORTED_HEADERS_CTK = {name: header_of(name) for name in supported("headers", True)}
SUPPORTED_STATIC_LIBS = supported("static", False)
SUPPORTED_BITCODE_LIBS = supported("bitcode", False)
SUPPORTED_BINARY_UTILITIES = supported("binary", False)


class UnsupportedArchError(RuntimeError):
    """Raised when Python reports an unsupported Windows architecture."""

    def __init__(self, platform_tag: "str") -> "None":
        self.platform_tag = platform_tag
        super().__init__(f"Unsupported Windows architecture: {platform_tag}")


__all__ = [
    "SUPPORTED_BINARY_UTILITIES",
    "SUPPORTED_BITCODE_LIBS",
    "SUPPORTED_HEADERS_CTK",
    "SUPPORTED_NVIDIA_LIBNAMES",
    "SUPPORTED_STATIC_LIBS",
    "BitcodeLibNotFoundError",
    "DynamicLibNotAvailableError",
    "DynamicLibNotFoundError",
    "DynamicLibUnknownError",
    "LoadedDL",
    "LocatedBitcodeLib",
    "LocatedHeaderDir",
    "LocatedStaticLib",
    "SearchAttempt",
    "SearchReport",
    "StaticLibNotFoundError",
    "UnsupportedArchError",
    "UnsupportedBinaryError",
    "__version__",
    "explain",
    "find_bitcode_lib",
    "find_nvidia_binary_utility",
    "find_nvidia_header_directory",
    "find_static_lib",
    "get_cuda_path_or_home",
    "load_nvidia_dynamic_lib",
    "locate_bitcode_lib",
    "locate_nvidia_header_directory",
    "locate_static_lib",
]

del header_of, supported
