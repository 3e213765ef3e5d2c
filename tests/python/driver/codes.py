# SPDX-License-Identifier: Apache-2.0
"""Records the error codes of driver functions for bad arguments: null pointers and handles, invalid enumerators, invalid devices,
sizes of zero, no current context, no cuInit.

    python codes.py LIBRARY OUTPUT [--stale] [--filled] [--seconds N]

--stale adds destroyed handles, which NVIDIA's driver dereferences after free. --filled runs the calls of filled.py instead, whose
structs and arrays are valid except for one field.

Each call has one bad argument; the others are valid if the type and name of the parameter determine a value. The calls run in a
separate process. A crash or a hang is recorded as the result, and a new process continues after it.
"""

from __future__ import annotations

import ctypes
import json
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parent))
import filled

ROOT = Path(__file__).resolve().parents[3]
FACTS = json.loads((ROOT / "api/driver.json").read_text())
GRAPHICS = ("cuGL", "cuEGL", "cuVDPAU", "cuGraphics", "cuEventCreateFromEGL", "cuWGL")
# Functions that end or change the process, or wait forever.
LEFT_OUT = ("cuCheckpoint", "cuCoredump", "cuProfilerInitialize", "cuLogs", "cuInit", "cuStreamBeginCaptureToCig", "cuStreamEndCaptureToCig",
            "cuDevicePrimaryCtxReset", "cuLogicalEndpoint")  # fmt: skip
SPOILT = 3
ENDS = ("Destroy", "Release", "Reset", "Unload", "Free", "Detach", "Unregister", "PopCurrent", "Unset")

PTX = b"""
.version 8.0
.target sm_90
.address_size 64
.visible .global .align 4 .u32 table[16];
.visible .entry noop() { ret; }
\0"""


class Array3D(ctypes.Structure):
    _fields_ = [("width", ctypes.c_size_t), ("height", ctypes.c_size_t), ("depth", ctypes.c_size_t), ("format", ctypes.c_uint),
                ("channels", ctypes.c_uint), ("flags", ctypes.c_uint)]  # fmt: skip


class Location(ctypes.Structure):
    _fields_ = [("type", ctypes.c_int), ("id", ctypes.c_int)]


class Bytes64(ctypes.Structure):
    _fields_ = [("bytes", ctypes.c_char * 64)]


def functions() -> list[str]:
    return [name for name in sorted(FACTS["functions"]) if not name.startswith((*GRAPHICS, *LEFT_OUT))]


class World:
    """Valid objects for every kind of handle."""

    def __init__(self, library: str) -> None:
        self.cuda = ctypes.CDLL(library)
        self.ptx = PTX
        self.callback = ctypes.cast(ctypes.CDLL(None).abs, ctypes.c_void_p).value
        self.scratch = ctypes.create_string_buffer(1 << 16)
        self.module = ctypes.c_void_p()
        self.context = ctypes.c_void_p()

    def has(self, name: str) -> bool:
        return hasattr(self.cuda, FACTS["functions"][name].get("symbol", name))

    def symbol(self, name: str) -> Any:
        return getattr(self.cuda, FACTS["functions"][name].get("symbol", name))

    def ok(self, name: str, *arguments: Any) -> None:
        code = self.symbol(name)(*arguments)
        if code != 0:
            raise RuntimeError(f"{name}: {code}")

    def new(self, name: str, *arguments: Any) -> ctypes.c_void_p:
        out = ctypes.c_void_p()
        self.ok(name, ctypes.byref(out), *arguments)
        return out

    def start(self) -> None:
        self.ok("cuInit", 0)
        self.context = self.new("cuDevicePrimaryCtxRetain", 0)
        self.ok("cuCtxSetCurrent", self.context)
        self.module = self.new("cuModuleLoadData", PTX)
        self.function = self.new("cuModuleGetFunction", self.module, b"noop")
        self.library = self.new("cuLibraryLoadData", PTX, None, None, 0, None, None, 0)
        self.kernel = self.new("cuLibraryGetKernel", self.library, b"noop")
        self.memory = self.new("cuMemAlloc", ctypes.c_size_t(1 << 20))

    def fresh(self) -> None:
        """Recreates the objects that a call may have changed."""
        self.ok("cuCtxSetCurrent", self.context)
        self.ok("cuCtxSynchronize")
        self.stream = self.new("cuStreamCreate", 1)
        self.event = self.new("cuEventCreate", 0)
        self.graph = self.new("cuGraphCreate", 0)
        none = (self.graph, None, ctypes.c_size_t(0))
        self.nodes = {"Empty": self.new("cuGraphAddEmptyNode", *none)}
        kernel = (ctypes.c_uint64 * 12)(self.function.value)
        ctypes.memmove(ctypes.addressof(kernel) + 8, (ctypes.c_uint * 6)(1, 1, 1, 1, 1, 1), 24)
        self.nodes["Kernel"] = self.new("cuGraphAddKernelNode", *none, kernel)
        fill = (ctypes.c_uint64 * 6)(self.memory.value, 0, 0, 4, 1)
        ctypes.memmove(ctypes.addressof(fill) + 16, (ctypes.c_uint * 2)(0, 4), 8)
        self.nodes["Memset"] = self.new("cuGraphAddMemsetNode", *none, fill, self.context)
        self.nodes["Host"] = self.new("cuGraphAddHostNode", *none, (ctypes.c_uint64 * 2)(self.callback, 0))
        self.nodes["EventRecord"] = self.new("cuGraphAddEventRecordNode", *none, self.event)
        self.nodes["EventWait"] = self.new("cuGraphAddEventWaitNode", *none, self.event)
        child = self.new("cuGraphCreate", 0)
        self.nodes["ChildGraph"] = self.new("cuGraphAddChildGraphNode", *none, child)
        self.exec = self.new("cuGraphInstantiate", self.graph, ctypes.c_ulonglong(0))
        self.pool = self.new("cuDeviceGetDefaultMemPool", 0)
        array = Array3D(16, 16, 0, 0x20, 1, 2)
        self.array = self.new("cuArray3DCreate", ctypes.byref(array))
        self.mipmap = self.new("cuMipmappedArrayCreate", ctypes.byref(array), 2)
        resource = (ctypes.c_uint64 * 18)(0, self.array.value)
        settings = (ctypes.c_uint64 * 16)()
        self.texture = self.new("cuTexObjectCreate", resource, settings, None)
        self.surface = self.new("cuSurfObjectCreate", resource)
        self.user = self.new("cuUserObjectCreate", None, ctypes.c_void_p(self.callback), 1, 1)
        self.stale: dict[str, ctypes.c_void_p] = {}

    def fresh_or_leave(self, spoilt: bool = False) -> None:
        """True if the last call left an unusable context, so that a new process must continue."""
        try:
            self.fresh()
            if spoilt:
                self.spoil()
        except RuntimeError as error:
            print(error, file=sys.stderr)
            sys.exit(SPOILT)

    def spoil(self) -> None:
        """Destroyed handles."""
        stream, event, graph = self.new("cuStreamCreate", 1), self.new("cuEventCreate", 0), self.new("cuGraphCreate", 0)
        node = self.new("cuGraphAddEmptyNode", graph, None, ctypes.c_size_t(0))
        executable = self.new("cuGraphInstantiate", graph, ctypes.c_ulonglong(0))
        array = Array3D(16, 16, 0, 0x20, 1, 2)
        box, mipmap = (
            self.new("cuArray3DCreate", ctypes.byref(array)),
            self.new("cuMipmappedArrayCreate", ctypes.byref(array), 2),
        )
        module = self.new("cuModuleLoadData", PTX)
        function = self.new("cuModuleGetFunction", module, b"noop")
        library = self.new("cuLibraryLoadData", PTX, None, None, 0, None, None, 0)
        kernel = self.new("cuLibraryGetKernel", library, b"noop")
        memory = self.new("cuMemAlloc", ctypes.c_size_t(4096))
        texture = self.new("cuTexObjectCreate", (ctypes.c_uint64 * 18)(0, box.value), (ctypes.c_uint64 * 16)(), None)
        surface = self.new("cuSurfObjectCreate", (ctypes.c_uint64 * 18)(0, box.value))
        context = self.new("cuCtxCreate", None, 0, 0)
        self.ok("cuCtxDestroy", context)
        self.ok("cuCtxSetCurrent", self.context)
        for name, handle in (
            ("cuStreamDestroy", stream), ("cuEventDestroy", event), ("cuGraphExecDestroy", executable), ("cuGraphDestroy", graph),
            ("cuTexObjectDestroy", texture), ("cuSurfObjectDestroy", surface), ("cuArrayDestroy", box),
            ("cuMipmappedArrayDestroy", mipmap), ("cuModuleUnload", module), ("cuLibraryUnload", library), ("cuMemFree", memory),
        ):  # fmt: skip
            self.ok(name, handle)
        self.stale = {
            "CUstream": stream, "CUevent": event, "CUgraph": graph, "CUgraphNode": node, "CUgraphExec": executable, "CUarray": box,
            "CUmipmappedArray": mipmap, "CUmodule": module, "CUfunction": function, "CUlibrary": library, "CUkernel": kernel,
            "CUdeviceptr": memory, "CUcontext": context, "CUtexObject": texture, "CUsurfObject": surface,
        }  # fmt: skip

    def node_for(self, function: str) -> ctypes.c_void_p:
        for kind in sorted(self.nodes, key=len, reverse=True):
            if kind in function:
                return self.nodes[kind]
        return self.nodes["Kernel"]

    def good(self, function: str, parameter: list[str]) -> Any:
        name, kind, role = (*parameter, "")[:3]
        lower = name.lower()
        if role == "callback":
            return ctypes.c_void_p(self.callback)
        if kind.endswith("*"):
            if role == "in_string":
                return ctypes.c_char_p(b"noop")
            if role in ("user_data", "in_array", "kernel_params"):
                return None
            return ctypes.c_void_p(ctypes.addressof(self.scratch) + 4096 * (sum(map(ord, name)) % 8))
        handles = {
            "CUcontext": self.context, "CUstream": self.stream, "CUevent": self.event, "CUmodule": self.module,
            "CUfunction": self.function, "CUlibrary": self.library, "CUkernel": self.kernel, "CUgraph": self.graph,
            "CUgraphExec": self.exec, "CUmemoryPool": self.pool, "CUarray": self.array, "CUmipmappedArray": self.mipmap,
            "CUtexObject": self.texture, "CUsurfObject": self.surface, "CUuserObject": self.user, "CUdeviceptr": self.memory,
        }  # fmt: skip
        if kind in handles:
            return ctypes.c_void_p(handles[kind].value)
        if kind == "CUgraphNode":
            return self.node_for(function)
        if kind == "CUdevice":
            return 0
        if kind == "CUmemLocation":
            return Location(1, 0)
        if kind.startswith("CUipc"):
            return Bytes64()
        if kind in ("float", "double"):
            return ctypes.c_float(1)
        if enum_of(kind):
            return ctypes.c_int(min((number for number in numbers(enum_of(kind)) if number > 0), default=0))
        value = 0
        if not (
            "flag" in lower or "offset" in lower or lower == "value" or kind.startswith(("CU", "EGL", "GL", "Vdp"))
        ):
            value = 4 if "size" in lower or "byte" in lower or "pitch" in lower else 1
        wide = kind in ("size_t", "unsigned long long", "cuuint64_t") or kind.startswith("CU")
        return ctypes.c_uint64(value) if wide else ctypes.c_uint32(value)

    def call(self, function: str, arguments: list[Any]) -> int:
        ctypes.memset(self.scratch, 0, len(self.scratch))
        return int(self.symbol(function)(*arguments))


def enum_of(kind: str) -> str:
    """The enumeration of a type; empty for other types."""
    return next((name for name in (kind, f"{kind}_enum") if name in FACTS["enums"]), "")


def numbers(enum: str) -> list[int]:
    values = FACTS["enums"][enum]
    values = values.get("values", values) if isinstance(values, dict) else values
    found = values.values() if isinstance(values, dict) else [row[1] for row in values]
    return [number for number in found if isinstance(number, int)]


def cases(function: str) -> Iterator[tuple[str, int, Any]]:
    """Name of the case, index of the bad argument (-1: none), and its value."""
    for at, parameter in enumerate(FACTS["functions"][function]["params"]):
        name, kind, role = (*parameter, "")[:3]
        if role == "callback" and function in ("cuLaunchHostFunc", "cuStreamAddCallback"):
            continue  # a driver calls it
        if kind.endswith("*") or role == "callback":
            if role not in ("user_data", "kernel_params"):
                yield f"{name} is null", at, None
        elif kind == "CUdevice":
            yield f"{name} is -1", at, ctypes.c_int(-1)
            yield f"{name} is 99", at, ctypes.c_int(99)
        elif enum_of(kind):
            yield f"{name} is 9999", at, ctypes.c_int(9999)
        elif kind.startswith("CU") and kind not in (
            "CUmemLocation",
            "CUipcMemHandle",
            "CUipcEventHandle",
            "CUeglFrame",
        ):
            yield f"{name} is 0", at, ctypes.c_uint64(0)
        elif "flags" in name.lower():
            yield f"{name} is 0x80000000", at, ctypes.c_uint64(0x80000000)
        elif any(word in name.lower() for word in ("size", "byte", "count", "num", "dim", "length", "width", "height")):
            yield f"{name} is 0", at, ctypes.c_uint64(0)
    if not any(word in function for word in ENDS):
        yield "no context", -2, None


def walk(library: str, state: str, behind: str, stale: bool) -> None:
    """Prints a line before and after every call; `behind` is the last case that a previous process started."""
    world = World(library)
    if state == "not initialized":
        for function in filter(world.has, functions()):
            key = f"{function}: not initialized"
            if behind and function <= behind.split(": ")[0]:
                continue
            print(json.dumps(["begin", key]), flush=True)
            code = world.call(function, [None if k[1].endswith("*") else ctypes.c_uint64(0) if not k[1].startswith("CUipc") else Bytes64()
                                         for k in FACTS["functions"][function]["params"]])  # fmt: skip
            print(json.dumps(["end", key, code]), flush=True)
        return
    world.start()
    if state == "filled":
        return walk_filled(world, behind)
    for function in filter(world.has, functions()):
        todo = [(f"{function}: {name}", at, value) for name, at, value in cases(function)]
        if stale:
            todo += [(f"{function}: {p[0]} is destroyed", at, p[1]) for at, p in enumerate(FACTS["functions"][function]["params"])
                     if p[1] in STALE and len(p) < 3]  # fmt: skip
        done = behind.split(": ")[0] if behind else ""
        if function < done:
            continue
        if function == done:
            names = [key for key, _, _ in todo]
            todo = todo[names.index(behind) + 1 :] if behind in names else todo
        for key, at, value in todo:
            world.fresh_or_leave(spoilt=key.endswith(" is destroyed"))
            if key.endswith(" is destroyed"):
                value = ctypes.c_void_p(world.stale[value].value)
            parameters = FACTS["functions"][function]["params"]
            arguments = [value if i == at else world.good(function, p) for i, p in enumerate(parameters)]
            if at == -2:
                world.ok("cuCtxSetCurrent", None)
            Path("noop").unlink(missing_ok=True)  # a call must not read results of earlier calls
            print(json.dumps(["begin", key]), flush=True)
            code = world.call(function, arguments)
            print(json.dumps(["end", key, code]), flush=True)


def walk_filled(world: World, behind: str) -> None:
    world.fresh_or_leave()
    reached = not behind
    for key, arguments in filled.calls(world, FACTS, cases):
        if not reached:
            reached = key == behind
            continue
        world.fresh_or_leave()
        made = arguments()
        print(json.dumps(["begin", key]), flush=True)
        code = world.call(key.split(":")[0], made)
        print(json.dumps(["end", key, code]), flush=True)


STALE = ("CUstream", "CUevent", "CUgraph", "CUgraphNode", "CUgraphExec", "CUarray", "CUmipmappedArray", "CUmodule", "CUfunction",
         "CUlibrary", "CUkernel", "CUdeviceptr", "CUcontext", "CUtexObject", "CUsurfObject")  # fmt: skip


def lines_of(process: subprocess.Popen[bytes], patience: float) -> Iterator[str]:
    """Standard output line by line; kills the process if it prints nothing for the given number of seconds."""
    assert process.stdout is not None
    while select.select([process.stdout], [], [], patience)[0]:
        line = process.stdout.readline()
        if not line:
            return
        yield line.decode()
    process.kill()


WALKS = ("not initialized", "ready")


def collect(
    library: str, stale: bool, seconds: float = float("inf"), patience: float = 10, walks: tuple[str, ...] = WALKS
) -> dict[str, int | str]:
    """The results of all cases that run within the given number of seconds, by name."""
    end = time.monotonic() + seconds
    answers: dict[str, int | str] = {}
    for state in walks:
        behind = ""
        while time.monotonic() < end:
            command = [sys.executable, str(Path(__file__).resolve()), "--walk", library, state, behind, str(int(stale))]
            begun, running = behind, ""
            with (
                tempfile.TemporaryFile() as errors,
                tempfile.TemporaryDirectory() as folder,
            ):  # some functions write files
                process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, cwd=folder)
                for line in lines_of(process, patience):
                    if not line.startswith('["'):
                        continue  # defined by the driver
                    what, begun, *rest = json.loads(line)
                    running = begun if what == "begin" else ""
                    if what == "end":
                        answers[begun] = rest[0]
                code = process.wait()
                errors.seek(0)
                text = errors.read().decode(errors="replace")
            if code == 0:
                break
            if running and code < 0:
                answers[running] = "hang" if code == -signal.SIGKILL else "crash"
            elif begun == behind or code not in (SPOILT, -signal.SIGKILL):
                raise RuntimeError(f"{code} behind {begun!r}: {text[-2000:]}")
            behind = begun
    return answers


if __name__ == "__main__":
    if sys.argv[1] == "--walk":
        walk(sys.argv[2], sys.argv[3], sys.argv[4], sys.argv[5] == "1")
    else:
        limit = float(sys.argv[sys.argv.index("--seconds") + 1]) if "--seconds" in sys.argv else float("inf")
        walks = ("filled",) if "--filled" in sys.argv else WALKS
        found = collect(sys.argv[1], "--stale" in sys.argv, limit, walks=walks)
        Path(sys.argv[2]).write_text(json.dumps(found, indent=0, sort_keys=True) + "\n")
