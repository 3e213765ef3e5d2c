# SPDX-License-Identifier: Apache-2.0
"""Linking of object codes."""

from __future__ import annotations

import cuda.pathfinder  # noqa: F401  passes the directories of Python packages to the C++ library

from . import _core
from ._dataclass import options
from ._module import ObjectCode

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

    from .typing import CompilerBackendType, ObjectCodeFormatType


def _warn(category: type[Warning], text: str, stacklevel: int = 4) -> None:
    import warnings

    warnings.warn(text, category, stacklevel=stacklevel)


# Options that only nvJitLink supports. The driver ignores them; the linked program is equivalent without them.
_IGNORED_BY_DRIVER = (
    "ftz",
    "prec_div",
    "prec_sqrt",
    "fma",
    "kernels_used",
    "variables_used",
    "optimize_unused_variables",
)


@options
class LinkerOptions:
    """Options of a Linker. None selects the linker's default. :meth:`as_bytes` returns the options as they are passed.

    >>> LinkerOptions(arch="sm_90", debug=True).as_bytes("nvjitlink")
    [b'-arch=sm_90', b'-g']

    Fields:

    - ``name``: the name of the linked code, used in messages
    - ``arch``: the target architecture, for example ``"sm_90"``; default: the current device's
    - ``max_register_count``: the maximum number of registers per thread
    - ``time``: report the duration of each step in the info log
    - ``verbose``: write a verbose info log
    - ``link_time_optimization``: perform link-time optimization; the inputs are LTO-IR
    - ``ptx``: output PTX, for the target ``"ptx"``
    - ``optimization_level``: 0 to 3
    - ``debug``: generate debug information
    - ``lineinfo``: generate line information
    - ``ftz``: flush denormal values to zero
    - ``prec_div``: use IEEE 754 round-to-nearest division
    - ``prec_sqrt``: use IEEE 754 round-to-nearest square root
    - ``fma``: contract multiplications and additions into fused multiply-add
    - ``kernels_used``: kernels to keep; others may be removed
    - ``variables_used``: variables to keep; others may be removed
    - ``optimize_unused_variables``: remove unused variables
    - ``ptxas_options``: options for ptxas
    - ``split_compile``: the number of compilation threads; 0 uses all CPUs
    - ``split_compile_extended``: like ``split_compile``, and parallelizes more of the optimization
    - ``no_cache``: do not use the linker's cache
    - ``numba_debug``: deprecated and ignored
    """

    __module__ = "cuda.core"

    name: str | None = "<default linker>"
    arch: str | None = None
    max_register_count: int | None = None
    time: bool | None = None
    verbose: bool | None = None
    link_time_optimization: bool | None = None
    ptx: bool | None = None
    optimization_level: int | None = None
    debug: bool | None = None
    lineinfo: bool | None = None
    ftz: bool | None = None
    prec_div: bool | None = None
    prec_sqrt: bool | None = None
    fma: bool | None = None
    kernels_used: str | tuple[str, ...] | list[str] | None = None
    variables_used: str | tuple[str, ...] | list[str] | None = None
    optimize_unused_variables: bool | None = None
    ptxas_options: str | tuple[str, ...] | list[str] | None = None
    split_compile: int | None = None
    split_compile_extended: int | None = None
    no_cache: bool | None = None
    numba_debug: bool | None = None

    def _check(self) -> None:
        if self.numba_debug is not None:
            _warn(
                DeprecationWarning,
                "LinkerOptions.numba_debug is deprecated: it means nothing to a linker and is ignored",
            )

    def as_bytes(self, backend: str = "nvjitlink") -> list[bytes]:
        """Return the command-line options of the linker."""
        if backend.lower() != "nvjitlink":
            raise ValueError(f"as_bytes() only supports 'nvjitlink' backend, got {backend!r}")
        return _core._linker_flags(self)


class Linker:
    """Links object codes into one: ``Linker(a, b, options=LinkerOptions(arch="sm_90")).link("cubin")``.

    The backend is nvJitLink if it is installed, otherwise the driver. On the CPU device the driver links PTX modules,
    and nvJitLink compiles LTO-IR to PTX first.

    >>> ptx = Program('extern "C" __global__ void f() {}', "c++").compile("ptx")
    >>> Linker(ptx, options=LinkerOptions(arch=f"sm_{device.arch}")).link("cubin").get_kernel("f")
    <Kernel f>
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_native", "_options")

    def __init__(self, *object_codes: ObjectCode, options: LinkerOptions | dict[str, Any] | None = None) -> None:
        if object_codes and isinstance(object_codes[0], (LinkerOptions, type(None))) and options is None:
            options, object_codes = object_codes[0], object_codes[1:]
        if not object_codes:
            raise ValueError("At least one ObjectCode object must be provided")
        for code in object_codes:
            if not isinstance(code, ObjectCode):
                raise TypeError(f"Expected ObjectCode, but got {type(code).__name__}")
        self._options = _core.options_or_default(options, LinkerOptions)
        self._native = _core._Linker(list(object_codes), self._options)
        if self._native.backend == "driver" and not _core._runs_on_cpu():
            self._say_what_the_driver_lacks()

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError("a Linker cannot be pickled: pickle the ObjectCode it is made of, or what link() returns")

    def _say_what_the_driver_lacks(self) -> None:
        _warn(
            RuntimeWarning,
            "nvJitLink is not installed, so the driver links: pip install nvidia-nvjitlink for all options and for LTO-IR",
        )
        ignored = [name for name in _IGNORED_BY_DRIVER if getattr(self._options, name) is not None]
        if ignored:
            _warn(DeprecationWarning, f"the driver's linker ignores {', '.join(ignored)}")

    def link(self, target_type: ObjectCodeFormatType | str) -> ObjectCode:
        """Link to ``"cubin"`` or, if the inputs are LTO-IR, to ``"ptx"``. May be called once per linker."""
        return self._native.link(target_type)

    def get_error_log(self) -> str:
        """Return the linker's error log."""
        return self._native.get_error_log()

    def get_info_log(self) -> str:
        """Return the linker's info log."""
        return self._native.get_info_log()

    def close(self) -> None:
        """Destroy the linker's state. Idempotent."""
        self._native.close()

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    @property
    def handle(self) -> Any:
        """The linker's handle as an int; 0 before link() and after close()."""
        return self._native.handle

    @property
    def backend(self) -> CompilerBackendType:
        """The backend of this linker: ``"nvJitLink"`` or ``"driver"``."""
        from .typing import CompilerBackendType

        return CompilerBackendType(self._native.backend)

    @classmethod
    def which_backend(cls) -> CompilerBackendType:
        """Return the backend of new linkers: ``"nvJitLink"`` if it is installed, otherwise ``"driver"``."""
        from .typing import CompilerBackendType

        return CompilerBackendType(_core._linker_backend())

    def __repr__(self) -> str:
        return f"<Linker {self._options.name!r} ({self._native.backend})>"
