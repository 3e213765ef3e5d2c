# SPDX-License-Identifier: Apache-2.0
"""Misuse of the API, deliberate or not, raises an exception and never crashes the process."""

from __future__ import annotations

import copyreg
import os
import subprocess

import pytest
from cuda.core import Buffer, Event, Kernel, ObjectCode, Stream
from cuda.core._core import DeviceProperties

NEVER_MADE = pytest.mark.promise(
    "An uninitialized object, or an argument whose methods raise or return nonsense, is an error, never a crash"
)
LIMITS = pytest.mark.promise("Few files, small stacks and full or read-only folders are errors or do not matter")

OBJECTS = """
import inspect, warnings
warnings.simplefilter("ignore")
import cuda.core.graph, cuda.core.texture, cuda.core.utils, cuda.core.system
from cuda.core import _core
from cuda.core.graph import *
setup()
on_gpu = os.environ.get("CUCORE_DEVICE") == "gpu"  # NVIDIA's driver takes every number for the address of its own things
modules = (cuda.core, cuda.core.graph, cuda.core.texture, cuda.core.utils, cuda.core.system, _core)
classes = {
    thing for module in modules for thing in vars(module).values()
    if inspect.isclass(thing) and thing.__module__.startswith("cuda") and not issubclass(thing, BaseException)
}
def attempt(call, *arguments):
    try: return call(*arguments)
    except Exception: return None
buffer, kernel, event = device.allocate(64, stream=stream), code.get_kernel("nothing"), stream.record()
pinned, one, definition = LegacyPinnedMemoryResource().allocate(64), LaunchConfig(grid=1, block=1), GraphDefinition()
builder, ptx = stream.create_graph_builder(), ObjectCode.from_ptx(b"x")
# Each with one argument in question.
calls = [
    lambda x: launch(x, one, kernel), lambda x: launch(stream, x, kernel), lambda x: launch(stream, one, x),
    lambda x: launch(stream, one, code.get_kernel("add_one"), x, 0), stream.wait, stream.record,
    lambda x: buffer.copy_from(x, stream=stream), lambda x: buffer.copy_from(pinned, stream=x),
    lambda x: buffer.copy_to(x, stream=stream), lambda x: pinned.copy_to(buffer, stream=x),
    lambda x: buffer.fill(x, stream=stream), lambda x: buffer.fill(0, stream=x),
    lambda x: device.allocate(x, stream=stream), lambda x: device.allocate(4, stream=x),
    device.create_stream, lambda x: device.create_stream(options=x), device.create_event,
    lambda x: Buffer.from_handle(x, 4), lambda x: Buffer.from_handle(4, x), lambda x: Buffer.from_handle(4, 4, owner=x),
    lambda x: event - x, lambda x: x - event, lambda x: (stream == x, event == x, buffer == x, kernel == x, device == x),
    lambda x: LaunchConfig(grid=x, block=1), lambda x: LaunchConfig(grid=1, block=1, shmem_size=x), code.get_kernel,
    lambda x: Program(x, "c++"), lambda x: Program("int x;", x), lambda x: Program("int x;", "c++", x),
    lambda x: Linker(x), lambda x: Linker(ptx, options=x), ObjectCode.from_ptx, ObjectCode.from_cubin,
    lambda x: ObjectCode.from_ptx(b"x", name=x), lambda x: ObjectCode.from_ptx(b"x", symbol_mapping=x),
    lambda x: definition.launch(x, kernel), lambda x: definition.launch(one, x), lambda x: definition.launch(one, kernel, x),
    lambda x: definition.memset(x, 0, 4), lambda x: definition.memset(buffer, x, 4), lambda x: definition.memset(buffer, 0, x),
    lambda x: definition.memcpy(x, buffer, 4), lambda x: definition.embed(x), lambda x: definition.callback(x),
    lambda x: definition.record(x), lambda x: definition.wait(x), lambda x: definition.alloc(x), lambda x: definition.dealloc(x),
    lambda x: GraphBuilder.join(builder, x), lambda x: builder.embed(x), lambda x: builder.split(x),
    lambda x: cuda.core.utils.StridedMemoryView.from_any_interface(x, stream_ptr=-1),
    lambda x: cuda.core.utils.StridedMemoryView.from_any_interface(pinned, stream_ptr=x),
    lambda x: cuda.core.utils.StridedMemoryView.from_buffer(pinned, shape=x, itemsize=4),
    lambda x: cuda.core.utils.StridedMemoryView.from_buffer(pinned, shape=(2,), strides=x, itemsize=4),
    lambda x: cuda.core.utils.StridedMemoryView.from_buffer(pinned, shape=(2,), itemsize=x),
    lambda x: cuda.core.utils.StridedMemoryView.from_buffer(pinned, shape=(2,), dtype=x),
    lambda x: definition.instantiate().launch(x),
    lambda x: definition.instantiate().update(x), lambda x: DeviceMemoryResource(x),
    lambda x: DeviceMemoryResource(device, options=x), Device, buffer.__dlpack__,
    lambda x: pinned.__dlpack__(max_version=x), lambda x: pinned.__dlpack__(dl_device=x),
]
if not on_gpu: calls += [Stream.from_handle, lambda x: Kernel.from_handle(x)]
"""


@NEVER_MADE
def test_methods_of_an_uninitialized_object_raise(child):
    """The result of cls.__new__(cls), and a subclass whose __init__ does not call that of its base."""
    out = child.ok(
        OBJECTS
        + """
skipped = {"__class__", "__init_subclass__", "__subclasshook__", "__new__"}
made = 0
def takes_handles(name): return name == "from_handle" or name.startswith("_") and not name.startswith("__")
for cls in sorted(classes, key=lambda c: c.__qualname__):
    things = [attempt(cls.__new__, cls), attempt(lambda: type("Sub", (cls,), {"__init__": lambda self: None})())]
    for thing in things:
        made += thing is not None
        # __init__ comes last: it makes the thing after all.
        for name in sorted(set(dir(cls)) - skipped, key=lambda n: (n == "__init__", n)) if thing is not None else ():
            if on_gpu and takes_handles(name): continue
            for arguments in ((), (1,), (thing,), (None, None), (1, 2, 3)):
                value = attempt(getattr, thing, name)
                if callable(value):
                    answer = attempt(value, *arguments)
                    if inspect.iscoroutine(answer): answer.close()
stream.sync()
print(made > 30)
"""
    )
    assert out.endswith("True\n")


ONLY_OURS = [Buffer, Stream, Event, Kernel, ObjectCode, DeviceProperties]


@NEVER_MADE
@pytest.mark.parametrize("cls", ONLY_OURS)
def test_internal_classes_cannot_be_instantiated_copied_or_unpickled(cls):
    """Applies to the class, to derived classes, and to copying and unpickling, which bypass the constructor."""
    derived = type("Derived", (cls,), {"__init__": lambda self: None})
    for wanted in (cls, derived):
        for way in (
            lambda wanted=wanted: wanted.__new__(wanted),
            lambda wanted=wanted: copyreg.__newobj__(wanted),
            lambda wanted=wanted: cls.__new__(wanted),
        ):
            with pytest.raises(RuntimeError, match=f"{wanted.__name__} objects cannot be instantiated directly"):
                way()
        with pytest.raises(TypeError, match="is not safe"):
            object.__new__(wanted)


@NEVER_MADE
def test_uninitialized_object_as_argument_raises(child):
    child.ok(
        OBJECTS
        + """
ghosts = [ghost for cls in classes if (ghost := attempt(cls.__new__, cls)) is not None]
for call in calls:
    for ghost in ghosts:
        attempt(call, ghost)
stream.sync()
"""
    )


NASTY = """
import ctypes, enum
def answers(value):
    def method(self, *a, **k):
        if isinstance(value, type) and issubclass(value, BaseException): raise value("mine")
        return value
    return method
def nasty(value):
    names = ["index", "int", "float", "len", "iter", "bool", "cuda_stream", "dlpack", "dlpack_device", "fspath",
             "eq", "hash", "repr", "str", "bytes", "buffer", "getitem", "contains", "call", "complex", "sub", "rsub"]
    methods = {f"__{name}__": answers(value) for name in names}
    for name in ("cuda_array_interface", "array_interface"):
        methods[f"__{name}__"] = property(answers(value))
    return type("Nasty", (), methods)()
class Number(int):
    def __index__(self): raise ValueError("mine")
    __int__ = __eq__ = __lt__ = __hash__ = __index__
class Text(str):
    def __hash__(self): raise ValueError("mine")
    def __eq__(self, other): raise ValueError("mine")
    __str__ = __repr__ = __fspath__ = encode = __hash__
class Table(dict):
    def __getitem__(self, key): raise ValueError("mine")
    __iter__ = __len__ = keys = items = get = __contains__ = lambda self, *a: 1 / 0
class Dies:
    def __del__(self): raise ValueError("mine")
    def __index__(self): return 4
deep = []
for _ in range(100_000): deep = [deep]
loop = []; loop.append(loop)
interface = {"shape": (4,), "typestr": "<f4", "data": (0, False), "version": 3}
broken = [dict(interface, **{key: value}) for key in interface for value in (None, -1, "x", (-1,), (2**63,), ("x", "y"), (2**70, 0))]
values = [
    0, -1, 1, 2**31, 2**32, 2**63, 2**64, -(2**63), 2**200, True, None, 0.5, float("nan"), float("inf"), 1j, "", "x",
    "\\udcff", "a\\0b", "x" * 10**6, b"", b"\\xff" * 100, bytearray(8), memoryview(b"abc"), (), (1,), (1, 2, 3, 4), (-1, "x"),
    [], {}, set(), {"grid": 1}, object(), object, type, Exception("x"), print, lambda: 0, Number(3), Text("k"), Table(a=1),
    Dies(), deep, loop, range(3), ctypes.c_int(3), ctypes.c_void_p(), ctypes.py_object(3), (ctypes.c_char * 8)(),
    enum.Enum("E", "a").a, NotImplemented, ..., iter([1]), (i for i in range(3)), sys, threading.current_thread(),
]
values += [nasty(v) for v in (None, -1, 2**70, "x", (0, -1), (0, 2**70), ("x",), (1, 2, 3), [], KeyError, RecursionError, MemoryError)]
values += [nasty(v) for v in broken]
"""


@NEVER_MADE
def test_argument_of_a_wrong_type_raises(child):
    child.ok(
        OBJECTS
        + NASTY
        + """
sys.unraisablehook = lambda hook: None  # what __del__ raises
for call in calls:
    for value in values:
        attempt(call, value)
del values, deep
gc.collect()
assert device.allocate(64, stream=stream).size == 64
launch(stream, one, kernel); stream.sync()
"""
    )


@pytest.mark.promise("Exceptions raised by signal handlers at any moment leave all objects usable")
def test_exceptions_of_signal_handlers_leave_everything_usable(child):
    out = child.ok(
        """
        import random, signal
        setup()
        class Now(Exception): pass
        def handler(*_): raise Now
        signal.signal(signal.SIGALRM, handler)
        one, kernel = LaunchConfig(grid=1, block=1), code.get_kernel("add_one")
        ptx = b".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry k() { ret; }\\n"
        def turn():
            s = device.create_stream()
            b = device.allocate(4096, stream=s)
            launch(s, one, kernel, b, 4)
            builder = s.create_graph_builder().begin_building()
            launch(builder, one, kernel, b, 4)
            builder.callback(lambda: None)
            graph = builder.end_building().complete()
            graph.launch(s)
            b.copy_to(bytearray(4096), stream=s)
            ObjectCode.from_ptx(ptx).get_kernel("k")
            DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20)).allocate(64, stream=s)
            s.sync(); graph.close(); b.close(); s.close()
        caught = 0
        sys.unraisablehook = lambda hook: None  # one that was raised inside a __del__
        random.seed(1)
        for _ in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-5, 4e-3))
                turn()
                signal.setitimer(signal.ITIMER_REAL, 0)
            except Now:
                caught += 1
            except CUDAError as error:  # a capture that was left in the middle
                assert error.code in (900, 901, 906), error
        signal.setitimer(signal.ITIMER_REAL, 0)
        gc.collect()
        turn()
        device.sync()
        print(caught > 0)
        """
    )
    assert out == "True\n"


@LIMITS
def test_exhausted_file_descriptors_do_not_crash(child):
    status, _, err = child.run(
        """
        import resource
        from cuda.core.utils import FileStreamProgramCache
        setup()
        one, kernel = LaunchConfig(grid=1, block=1), code.get_kernel("nothing")
        opened = []
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, limit[1]))
        try:
            while True: opened.append(os.open("/dev/null", os.O_RDONLY))
        except OSError: pass
        for attempt in (
            lambda: DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(ipc_enabled=True)).allocation_handle,
            lambda: stream.record(options=EventOptions(ipc_enabled=True)).ipc_descriptor,
            lambda: ObjectCode.from_ptx("/no/such/file"),
            lambda: ObjectCode.from_ptx(b".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry q() { ret; }\\n").get_kernel("q"),
            lambda: Program('extern "C" __global__ void f() {}', "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin"),
            lambda: FileStreamProgramCache("cache-that-cannot-be"),
            lambda: VirtualMemoryResource(device).allocate(4096),
        ):
            try: attempt()
            except (CUDAError, OSError, RuntimeError) as error: assert str(error)
        launch(stream, one, kernel)
        try: device.allocate(1 << 20, stream=stream).close(stream)
        except CUDAError: assert os.environ.get("CUCORE_DEVICE") == "gpu"  # whose driver opens a file for more memory
        stream.sync()
        for fd in opened: os.close(fd)
        device.allocate(1 << 20, stream=stream).close(stream)
        if os.environ.get("CUCORE_DEVICE") != "gpu":  # whose driver compiles nothing any more once it could not open its compiler
            kernel = ObjectCode.from_ptx(b".version 8.0\\n.target sm_80\\n.address_size 64\\n.visible .entry r() { ret; }\\n").get_kernel("r")
        launch(stream, one, kernel)
        stream.sync()
        """
    )
    assert status == 0 and "Traceback" not in err, err  # LLVM reports on stderr that it cannot read /proc/cpuinfo


@LIMITS
@pytest.mark.cpu_only  # a GPU's driver creates its own threads
def test_kernels_run_with_a_small_stack_limit(child):
    """The stack limit is also the default stack size of new threads."""
    program = """
        setup()
        launch(stream, LaunchConfig(grid=4, block=256), code.get_kernel("nothing"))
        text = 'extern "C" __global__ void f(int* p) { atomicAdd(p, 1); }'
        kernel = Program(text, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx").get_kernel("f")
        buffer = device.allocate(4, stream=stream)
        buffer.fill(0, stream=stream)
        launch(stream, LaunchConfig(grid=4, block=256), kernel, buffer)
        answer = bytearray(4)
        buffer.copy_to(answer, stream=stream)
        stream.sync()
        print(int.from_bytes(answer, "little"))
    """
    assert child.ok(program, prefix=("sh", "-c", 'ulimit -s 512; exec "$@"', "sh")) == "1024\n"


COMPILE = """
setup()
text = 'extern "C" __global__ void f(int* p) { *p = 7; }'
kernel = Program(text, "c++", ProgramOptions(arch=f"sm_{device.arch}", name="\u00fc x")).compile("ptx").get_kernel("f")
buffer = device.allocate(4, stream=stream)
launch(stream, LaunchConfig(grid=1, block=1), kernel, buffer)
answer = bytearray(4)
buffer.copy_to(answer, stream=stream); stream.sync()
print(answer[0])
"""


@LIMITS
@pytest.mark.parametrize("locale", ["C", "C.UTF-8"])
def test_paths_that_are_not_valid_utf8_work(child, tmp_path, locale):
    """Working directory, cache and temporary folder have names that are not valid UTF-8."""
    folder = os.fsencode(tmp_path) + b"/\xff\xfe \n'\"; \xc3\xbc"
    os.makedirs(folder)
    name = os.fsdecode(folder)
    changes = {
        "CUCORE_CACHE_DIR": name,
        "XDG_CACHE_HOME": name,
        "TMPDIR": name,
        "HOME": name,
        "LANG": locale,
        "LC_ALL": locale,
    }
    assert child.ok(f"os.chdir({name!r})\n" + COMPILE, **changes) == "7\n"


@LIMITS
@pytest.mark.cpu_only
def test_error_shows_invalid_utf8_escaped(child):
    status, _, err = child.run(COMPILE, CUCORE_CPU_CACHE=os.fsdecode(b"/\xff\xfe"))
    assert status == 1 and r"CUCORE_CPU_CACHE=/\xff\xfe: expected 0 or 1" in err, err


@LIMITS
@pytest.mark.cpu_only
@pytest.mark.parametrize("state", ["read-only", "a file", "full", "nowhere"])
def test_unwritable_cache_folder_is_not_used(child, tmp_path, state):
    folder = tmp_path / "cache"
    mounted = {"read-only": "ro,mode=700", "full": "size=4k,mode=700"}.get(state)
    if state == "a file":
        folder.write_text("x")
    elif mounted:
        folder.mkdir(mode=0o700)
        if (
            subprocess.run(["mount", "-t", "tmpfs", "-o", mounted, "tmpfs", folder], capture_output=True).returncode
            != 0
        ):
            pytest.skip("nothing can be mounted here")
    try:
        if state == "full":
            (folder / "filler").write_bytes(bytes(4096))
        status, out, err = child.run(COMPILE, CUCORE_CACHE_DIR=str(folder / "below" if state == "nowhere" else folder))
    finally:
        if mounted:
            subprocess.run(["umount", folder], check=True)
    assert (status, out) == (0, "7\n"), err
