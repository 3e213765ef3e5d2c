"""Programs in source form, and how they are compiled."""

from __future__ import annotations

import cuda.pathfinder  # noqa: F401  tells the C++ side where Python packages live

from . import _core
from ._dataclass import options

TYPE_CHECKING = False  # importing typing would cost more than this module
if TYPE_CHECKING:
    from typing import Any

    from ._module import ObjectCode
    from ._program_cache import ProgramCacheResource
    from .typing import CompilerBackendType, ObjectCodeFormatType, PCHStatusType, SourceCodeType


@options
class ProgramOptions:
    """How a program is compiled. What is left at None takes the compiler's default.

    ``ProgramOptions(std="c++17", arch="sm_90", define_macro=["DEBUG", ("VERSION", "2")])``. Each field is the compiler
    option of that name; :meth:`as_bytes` shows what it becomes. ``arch`` defaults to the current device's.

    >>> ProgramOptions(arch="sm_90", std="c++17").as_bytes("nvrtc")
    [b'-arch=sm_90', b'--std=c++17']
    """

    __module__ = "cuda.core"

    name: str | None = "default_program"
    arch: str | None = None
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
    time: str | None = None
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

    def as_bytes(
        self, backend: CompilerBackendType | str, target_type: ObjectCodeFormatType | str | None = None
    ) -> list[bytes]:
        """The compiler's command line; ``backend`` is ``"NVRTC"`` or ``"NVVM"``."""
        return _core._program_flags(self, str(backend), target_type)


def _options(given: Any, cls: type) -> Any:
    """Options may be given as an object of the class, as a dict, or not at all."""
    if given is None:
        return cls()
    if isinstance(given, cls):
        return given
    if isinstance(given, dict):
        return cls(**given)
    raise TypeError(f"options must be {cls.__name__}, a dict or None, not {type(given).__name__}")


def _cached(*arguments: Any) -> ObjectCode:
    """compile_with_cache(), whose module is imported by the first call: an import statement takes microseconds every time."""
    global _cached
    from ._program_cache import compile_with_cache

    _cached = compile_with_cache
    return compile_with_cache(*arguments)


class Program:
    """Source code that can be compiled: C++ (by NVRTC), PTX (by a linker) or NVVM IR (by libNVVM).

    >>> program = Program('extern "C" __global__ void f() {}', "c++", ProgramOptions(arch="sm_90"))
    >>> program.compile("cubin").get_kernel("f")
    <Kernel f>

    Compiling needs no GPU and creates no context, and does not hold the interpreter: several programs compile at a time.
    """

    __module__ = "cuda.core"
    __slots__ = ("__weakref__", "_code", "_code_type", "_native", "_options")

    def __init__(
        self, code: str | bytes | bytearray, code_type: SourceCodeType | str, options: ProgramOptions | None = None
    ) -> None:
        self._options = _options(options, ProgramOptions)
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

        ``name_expressions`` are C++ names such as ``"add<float>"`` that must be compiled and that ``get_kernel`` shall
        find. ``logs`` is any object with ``write``; it receives what the compiler says. With a ``cache`` the result is
        taken from there, or put there.
        """
        if isinstance(name_expressions, (str, bytes)):
            raise TypeError("name_expressions must be a tuple or list of names, not one name")
        names = [n.decode() if isinstance(n, (bytes, bytearray)) else n for n in name_expressions]
        if cache is not None:
            return _cached(self, str(target_type), names, logs, cache)
        return self._compile(target_type, names, logs)

    def _compile(self, target_type: Any, names: list[str], logs: Any) -> ObjectCode:
        code, log = self._native.compile(target_type, names)
        if logs is not None and log:
            logs.write(log)
        return code

    def link(self, target_type: ObjectCodeFormatType | str, logs: object = None) -> ObjectCode:
        """The same as :meth:`compile`, under the name that fits PTX programs."""
        return self.compile(target_type, logs=logs)

    def close(self) -> None:
        """Free what the compiler holds. May be called again."""
        self._native.close()

    @property
    def is_closed(self) -> bool:
        """True after close()."""
        return self._native.is_closed

    @property
    def backend(self) -> CompilerBackendType:
        """``"NVRTC"``, ``"NVVM"``, ``"nvJitLink"`` or ``"driver"``."""
        from .typing import CompilerBackendType

        return CompilerBackendType(self._native.backend)

    @property
    def handle(self) -> Any:
        """The compiler's program: an ``nvrtcProgram`` of cuda.bindings, for NVVM an int; 0 once closed and for PTX."""
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
        """What became of the precompiled header in the last compilation; None where none was asked for."""
        status = self._native.pch_status
        if status is None:
            return None
        from .typing import PCHStatusType

        return PCHStatusType(status)

    def __repr__(self) -> str:
        return f"<Program backend={self._native.backend!r} name={self._options.name!r}>"
