# SPDX-License-Identifier: Apache-2.0
"""Linking pieces of compiled code."""

from __future__ import annotations

import cuda.pathfinder  # noqa: F401  tells the C++ side where Python packages live

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


# What only nvJitLink understands: the driver links without, to a program that means the same.
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
    """How code is linked. What is left at None takes the linker's default; :meth:`as_bytes` shows what is passed on.

    >>> LinkerOptions(arch="sm_90", debug=True).as_bytes("nvjitlink")
    [b'-arch=sm_90', b'-g']

    Fields:

    - ``name``: the result's name, in messages
    - ``arch``: the architecture, ``"sm_90"``; the current device's when not given
    - ``max_register_count``: the most registers a thread may use
    - ``time``: report how long steps take, in the info log
    - ``verbose``: say more in the info log
    - ``link_time_optimization``: optimize LTO-IR across its pieces
    - ``ptx``: keep PTX, for the target ``"ptx"``
    - ``optimization_level``: 0 to 3
    - ``debug``: debug information
    - ``lineinfo``: line numbers
    - ``ftz``: flush denormal numbers to zero
    - ``prec_div``: divisions rounded as IEEE 754 asks
    - ``prec_sqrt``: square roots rounded as IEEE 754 asks
    - ``fma``: contract multiplications and additions
    - ``kernels_used``: kernels to keep; others may be removed
    - ``variables_used``: variables to keep; others may be removed
    - ``optimize_unused_variables``: remove variables that no code uses
    - ``ptxas_options``: options for the assembler
    - ``split_compile``: how many threads compile; 0 is all
    - ``split_compile_extended``: the same, with more of the optimization in parallel
    - ``no_cache``: do not use the linker's own cache
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
        """The linker's command line."""
        if backend.lower() != "nvjitlink":
            raise ValueError(f"as_bytes() only supports 'nvjitlink' backend, got {backend!r}")
        return _core._linker_flags(self)


class Linker:
    """Joins object codes into one: ``Linker(a, b, options=LinkerOptions(arch="sm_90")).link("cubin")``.

    nvJitLink does it where it is installed, else the driver. On the CPU device PTX modules are merged by the driver, and
    nvJitLink compiles LTO-IR to PTX first.

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
        """Link to ``"cubin"`` or, from LTO-IR, to ``"ptx"``. A linker links once."""
        return self._native.link(target_type)

    def get_error_log(self) -> str:
        """What the linker had to say about failures."""
        return self._native.get_error_log()

    def get_info_log(self) -> str:
        """What else the linker had to say."""
        return self._native.get_info_log()

    def close(self) -> None:
        """Free what the linker holds. May be called again."""
        self._native.close()

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    @property
    def handle(self) -> Any:
        """The linker's handle: an int, 0 before linking and once closed."""
        return self._native.handle

    @property
    def backend(self) -> CompilerBackendType:
        """What this linker used, or would use: ``"nvJitLink"`` or ``"driver"``."""
        from .typing import CompilerBackendType

        return CompilerBackendType(self._native.backend)

    @classmethod
    def which_backend(cls) -> CompilerBackendType:
        """``"nvJitLink"`` where it is installed, else ``"driver"``."""
        from .typing import CompilerBackendType

        return CompilerBackendType(_core._linker_backend())

    def __repr__(self) -> str:
        return f"<Linker {self._options.name!r} ({self._native.backend})>"
