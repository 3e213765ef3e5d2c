# SPDX-License-Identifier: Apache-2.0
"""Programs in source form and their compilation."""

from __future__ import annotations

import cuda.pathfinder  # noqa: F401  tells the C++ side where Python packages live

from . import _core
from ._dataclass import options

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any, Literal

    from ._module import ObjectCode
    from ._program_cache import ProgramCacheResource
    from .typing import CompilerBackendType, ObjectCodeFormatType, PCHStatusType, SourceCodeType

    _CodeType = Literal["c++", "C++", "ptx", "PTX", "nvvm", "NVVM"]


class _Arch:
    """Descriptor of ``ProgramOptions.arch``: the given value, or else the current device's; None without a device."""

    def __init__(self) -> None:
        self.__doc__ = "The architecture to compile for: what was given, else the current device's."

    def __get__(self, options: Any, owner: type) -> str | None:
        if options is None:
            return None  # the default value of the field
        given: str | None = options.__dict__["arch"]
        return _core._current_arch() if given is None else given

    def __set__(self, options: Any, value: str | None) -> None:
        options.__dict__["arch"] = value


@options
class ProgramOptions:
    """Options of a Program. None selects the compiler's default.

    ``ProgramOptions(std="c++17", arch="sm_90", define_macro=["DEBUG", ("VERSION", "2")])``. Each field is the compiler
    option of that name; :meth:`as_bytes` returns the options as they are passed. ``arch`` defaults to that of the
    current device.

    >>> ProgramOptions(arch="sm_90", std="c++17").as_bytes("nvrtc")
    [b'-arch=sm_90', b'--std=c++17']

    Fields:

    - ``name``: the program's name, used in messages; NVRTC searches its directory for quoted includes
    - ``arch``: the target architecture, ``"sm_90"`` or ``"compute_90"``; default: the current device's
    - ``relocatable_device_code``: generate relocatable device code, which can be linked with other code
    - ``extensible_whole_program``: generate extensible whole-program code, which can be linked with device libraries
    - ``debug``: generate debug information; disables optimization
    - ``lineinfo``: generate line information for profilers and fault reports
    - ``device_code_optimize``: optimize even if ``debug`` is set
    - ``ptxas_options``: options for ptxas
    - ``max_register_count``: the maximum number of registers per thread
    - ``ftz``: flush denormal values to zero
    - ``prec_sqrt``: use IEEE 754 round-to-nearest square root
    - ``prec_div``: use IEEE 754 round-to-nearest division
    - ``fma``: contract multiplications and additions into fused multiply-add
    - ``use_fast_math``: use faster, less accurate math
    - ``extra_device_vectorization``: vectorize more aggressively
    - ``link_time_optimization``: generate LTO-IR for link-time optimization
    - ``gen_opt_lto``: optimize before generating LTO-IR
    - ``define_macro``: ``"NAME"``, ``"NAME=VALUE"``, ``("NAME", "VALUE")``, or a list of them
    - ``undefine_macro``: names of macros to undefine
    - ``include_path``: directories to search for headers
    - ``use_bundled_headers``: use the headers bundled with NVRTC 13.3 and later
    - ``pre_include``: headers to include before the source
    - ``no_source_include``: do not search the directory of ``name`` for includes
    - ``std``: the C++ standard, for example ``"c++17"``
    - ``builtin_move_forward``: provide built-in ``std::move`` and ``std::forward``
    - ``builtin_initializer_list``: provide built-in ``std::initializer_list``
    - ``disable_warnings``: disable all warnings
    - ``restrict``: treat pointer parameters of kernels as ``__restrict__``
    - ``device_as_default_execution_space``: treat functions without an annotation as ``__device__``
    - ``device_int128``: enable ``__int128``
    - ``optimization_info``: report optimizations of a kind, for example ``"inline"``
    - ``no_display_error_number``: omit the numbers of diagnostics
    - ``diag_error``: numbers of diagnostics to treat as errors
    - ``diag_suppress``: numbers of diagnostics to suppress
    - ``diag_warn``: numbers of diagnostics to treat as warnings
    - ``brief_diagnostics``: omit source lines from diagnostics
    - ``time``: the file for compilation times; for PTX True, and the linker reports them
    - ``split_compile``: the number of compilation threads; 0 uses all CPUs
    - ``fdevice_syntax_only``: check the syntax only
    - ``minimal``: omit language features to reduce compile time
    - ``no_cache``: do not use the compiler's cache
    - ``fdevice_time_trace``: the file for a time trace of the compilation
    - ``device_float128``: enable ``__float128``
    - ``frandom_seed``: the seed of generated names
    - ``ofast_compile``: trade the speed of the code for compile time: ``"min"``, ``"mid"`` or ``"max"``
    - ``pch``: create and use precompiled headers automatically
    - ``create_pch``: the precompiled header to create
    - ``use_pch``: the precompiled header to use
    - ``pch_dir``: the directory of precompiled headers
    - ``pch_verbose``: report why a precompiled header was not used
    - ``pch_messages``: report which precompiled header was created or used
    - ``instantiate_templates_in_pch``: instantiate templates when creating a precompiled header
    - ``extra_sources``: ``(name, source)`` pairs: modules of an NVVM program, headers of a C++ program
    - ``use_libdevice``: link NVVM code with libdevice
    - ``numba_debug``: generate the debug information of numba-cuda
    """

    __module__ = "cuda.core"

    name: str | None = "default_program"
    arch: str | None = _Arch()  # type: ignore[assignment]
    relocatable_device_code: bool | None = None
    extensible_whole_program: bool | None = None
    debug: bool | None = None
    lineinfo: bool | None = None
    device_code_optimize: bool | None = None
    ptxas_options: str | list[str] | tuple[str, ...] | None = None
    max_register_count: int | None = None
    ftz: bool | None = None
    prec_sqrt: bool | None = None
    prec_div: bool | None = None
    fma: bool | None = None
    use_fast_math: bool | None = None
    extra_device_vectorization: bool | None = None
    link_time_optimization: bool | None = None
    gen_opt_lto: bool | None = None
    define_macro: str | tuple[str, str] | list[str | tuple[str, str]] | tuple[str | tuple[str, str], ...] | None = None
    undefine_macro: str | list[str] | tuple[str, ...] | None = None
    include_path: str | list[str] | tuple[str, ...] | None = None
    use_bundled_headers: bool | None = None
    pre_include: str | list[str] | tuple[str, ...] | None = None
    no_source_include: bool | None = None
    std: str | None = None
    builtin_move_forward: bool | None = None
    builtin_initializer_list: bool | None = None
    disable_warnings: bool | None = None
    restrict: bool | None = None
    device_as_default_execution_space: bool | None = None
    device_int128: bool | None = None
    optimization_info: str | None = None
    no_display_error_number: bool | None = None
    diag_error: int | list[int] | tuple[int, ...] | None = None
    diag_suppress: int | list[int] | tuple[int, ...] | None = None
    diag_warn: int | list[int] | tuple[int, ...] | None = None
    brief_diagnostics: bool | None = None
    time: str | bool | None = None
    split_compile: int | None = None
    fdevice_syntax_only: bool | None = None
    minimal: bool | None = None
    no_cache: bool | None = None
    fdevice_time_trace: str | None = None
    device_float128: bool | None = None
    frandom_seed: str | None = None
    ofast_compile: str | None = None
    pch: bool | None = None
    create_pch: str | None = None
    use_pch: str | None = None
    pch_dir: str | None = None
    pch_verbose: bool | None = None
    pch_messages: bool | None = None
    instantiate_templates_in_pch: bool | None = None
    extra_sources: (
        list[tuple[str, str | bytes | bytearray]] | tuple[tuple[str, str | bytes | bytearray], ...] | None
    ) = None
    use_libdevice: bool | None = None
    numba_debug: bool | None = None

    def _check(self) -> None:
        if self.name is None:
            self.name = "default_program"
        if self.extra_sources is not None:
            _core._check_sources(self.extra_sources)

    def as_bytes(
        self, backend: CompilerBackendType | str, target_type: ObjectCodeFormatType | str | None = None
    ) -> list[bytes]:
        """Return the command-line options of the compiler. ``backend`` is ``"NVRTC"`` or ``"NVVM"``."""
        return _core._program_flags(self, str(backend), target_type)


class Program:
    """A program in source form: C++ (compiled by NVRTC), PTX (by a linker) or NVVM IR (by libNVVM).

    >>> program = Program('extern "C" __global__ void f() {}', "c++", ProgramOptions(arch="sm_90"))
    >>> program.compile("cubin").get_kernel("f")
    <Kernel f>

    Compilation needs no GPU, creates no context and releases the GIL, so programs can be compiled concurrently.
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_code", "_code_type", "_native", "_options")

    def __init__(
        self,
        code: str | bytes | bytearray,
        code_type: SourceCodeType | _CodeType,
        options: ProgramOptions | None = None,
    ) -> None:
        self._options = _core.options_or_default(options, ProgramOptions)
        self._code = code
        self._code_type = str(code_type).lower()
        self._native = _core._Program(code, self._code_type, self._options)

    def compile(
        self,
        target_type: ObjectCodeFormatType | str,
        name_expressions: tuple[str, ...] | list[str] = (),
        logs: object = None,
        *,
        cache: ProgramCacheResource | None = None,
    ) -> ObjectCode:
        """Compile to ``"ptx"``, ``"cubin"`` or ``"ltoir"``.

        ``name_expressions`` are C++ names such as ``"add<float>"`` to instantiate, which ``get_kernel`` then accepts.
        ``logs`` is an object with ``write``, which receives the compilation log. With a ``cache`` the result is looked
        up there, and stored there on a miss.
        """
        names = _core.text_values(name_expressions, "name_expressions", bytearrays=True)
        if cache is not None:
            code, log = _core.compile_with_cache(self._native, self._code, str(target_type), names, cache)
        else:
            code, log = self._native.compile(target_type, names)
        if logs is not None and log:
            logs.write(log)  # type: ignore[attr-defined]
        if code.code_type == "ptx":
            _core._warn_if_too_new(code)
        return code

    def link(self, target_type: ObjectCodeFormatType | str, logs: object = None) -> ObjectCode:
        """Equivalent to :meth:`compile`, for PTX programs."""
        return self.compile(target_type, logs=logs)

    def close(self) -> None:
        """Destroy the compiler's state. Idempotent."""
        self._native.close()

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    @property
    def backend(self) -> CompilerBackendType:
        """The compiler or linker: ``"NVRTC"``, ``"NVVM"``, ``"nvJitLink"`` or ``"driver"``."""
        from .typing import CompilerBackendType

        return CompilerBackendType(self._native.backend)

    @property
    def handle(self) -> Any:
        """The compiler's handle: an ``nvrtcProgram`` of cuda.bindings, or an int for NVVM; 0 for PTX, or if closed."""
        value = self._native.handle
        if self._native.backend != "NVRTC":
            return value
        try:
            from cuda.bindings import nvrtc
        except ImportError:  # cuda.core works without the bindings
            return value
        return nvrtc.nvrtcProgram(value)

    @property
    def pch_status(self) -> PCHStatusType | None:
        """The status of the precompiled header in the last compilation; None if none was requested."""
        status = self._native.pch_status
        if status is None:
            return None
        from .typing import PCHStatusType

        return PCHStatusType(status)

    def __reduce__(self) -> tuple[Any, ...]:
        if self.is_closed:
            raise RuntimeError("a closed program cannot be pickled: pickle it before close(), or its ObjectCode")
        return type(self), (self._code, self._code_type, self._options)

    def __repr__(self) -> str:
        return f"<Program backend={self._native.backend!r} name={self._options.name!r}>"
