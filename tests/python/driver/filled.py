# SPDX-License-Identifier: Apache-2.0
"""Calls with valid structs and arrays, and the same calls with one invalid field; codes.py runs them.

A row of CALLS contains the arguments that types do not determine, by parameter name. The fields that the row names are then made invalid
one by one: invalid enumerators, sizes of zero, null handles and pointers, unknown flags, invalid devices.
"""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Callable, Iterator
from typing import Any

UNIT = 2 << 20  # granularity of virtual memory
SIZES = {"unsigned char": 1, "char": 1, "unsigned short": 2, "int": 4, "unsigned int": 4, "cuuint32_t": 4, "float": 4}
ZEROED = ("size", "width", "height", "depth", "byte", "pitch", "count", "num", "dim", "channels")


class Record:
    """A driver struct with some fields set; `fields` maps dotted names (with an index for arrays) to values."""

    def __init__(self, facts: Any, kind: str, fields: dict[str, int]) -> None:
        self.facts, self.kind, self.fields = facts, kind, fields
        record = self.struct(kind)
        self.bytes = ctypes.create_string_buffer(record["size"])
        self.places = {name: self.place(record, name.split("."), 0) for name in fields}
        for name, value in fields.items():
            self.put(name, value)

    def struct(self, kind: str) -> Any:
        while kind not in self.facts["structs"]:
            kind = self.facts["typedefs"][kind]["type"].removeprefix("struct ").removeprefix("union ")
        return self.facts["structs"][kind]

    def place(self, record: Any, path: list[str], base: int) -> tuple[int, str]:
        """Offset and type of a field."""
        for field in record["fields"]:
            if field["name"] == "":
                try:
                    return self.place(field["record"], path, base + field["offset"])
                except KeyError:
                    continue
            if field["name"] != path[0]:
                continue
            at, rest, kind = base + field["offset"], path[1:], field.get("type", "")
            if "[" in kind and rest:
                kind = kind.split("[")[0]
                at, rest = at + int(rest[0]) * self.width(kind), rest[1:]
            if not rest:
                return at, kind
            return self.place(field.get("record") or self.struct(kind), rest, at)
        raise KeyError(".".join(path))

    def width(self, kind: str) -> int:
        return 4 if self.is_enum(kind) else SIZES.get(kind, 8)

    def is_enum(self, kind: str) -> bool:
        while kind in self.facts["typedefs"] and kind not in self.facts["enums"]:
            kind = self.facts["typedefs"][kind]["type"].removeprefix("enum ")
        return kind in self.facts["enums"] or f"{kind}_enum" in self.facts["enums"]

    def put(self, name: str, value: int) -> None:
        at, kind = self.places[name]
        width = self.width(kind)
        self.bytes[at : at + width] = (value % (1 << (8 * width))).to_bytes(width, "little")

    def spoilt(self) -> Iterator[tuple[str, Record]]:
        """The name of the error, and the struct that has it."""
        for name, good in self.fields.items():
            kind, last = self.places[name][1], name.split(".")[-1].lower()
            if self.is_enum(kind):
                bad = 9999
            elif "flags" in last:
                bad = 1 << 31
            elif kind.endswith("*") or kind.startswith("CU") or any(word in last for word in ZEROED):
                bad = 0
            elif last == "id":
                bad = 99
            else:
                continue
            if bad != good:
                yield f"{name} is {bad}", Record(self.facts, self.kind, {**self.fields, name: bad})


KEPT: list[Any] = []  # registered host memory


class Nothing:
    """Replaces codes.World if only the names of fields are needed: creates no objects."""

    ptx, callback = b"", 1

    def __getattr__(self, name: str) -> Any:
        return ctypes.c_void_p(1)

    def new(self, *_: Any) -> Any:
        return ctypes.c_void_p(1)

    def ok(self, *_: Any) -> None:
        pass


class Good:
    """Further objects and structs for the calls, in addition to those of codes.World."""

    def __init__(self, world: Any, facts: Any) -> None:
        self.world, self.facts = world, facts
        self.memory = int(world.memory.value)

    def record(self, kind: str, **fields: int) -> Record:
        return Record(self.facts, kind, {name.replace("__", "."): value for name, value in fields.items()})

    def array(self, kind: str) -> Record:
        flat = self.record(kind, Width=16, Height=16, Format=0x20, NumChannels=1)
        return self.record(kind, **flat.fields, Depth=0, Flags=2) if "3D" in kind else flat

    def copy(self, kind: str) -> Record:
        fields = {"srcMemoryType": 2, "srcDevice": self.memory, "srcPitch": 64, "dstMemoryType": 2, "dstDevice": self.memory + 65536,
                  "dstPitch": 64, "WidthInBytes": 16, "Height": 4}  # fmt: skip
        if "3D" in kind:
            fields |= {"srcHeight": 4, "dstHeight": 4, "Depth": 2}
        if "PEER" in kind:
            fields |= {"srcContext": self.world.context.value, "dstContext": self.world.context.value}
        return self.record(kind, **fields)

    def place(self) -> Record:
        return self.record("CUmemLocation", type=1, id=0)

    def properties(self) -> Record:
        return self.record("CUmemAllocationProp", type=1, requestedHandleTypes=1, location__type=1, location__id=0)

    def physical(self) -> int:
        return int(
            self.world.new("cuMemCreate", ctypes.c_size_t(UNIT), self.properties().bytes, ctypes.c_ulonglong(0)).value
        )

    def range(self) -> int:
        zero = ctypes.c_uint64(0)
        return int(self.world.new("cuMemAddressReserve", ctypes.c_size_t(UNIT), ctypes.c_size_t(0), zero, zero).value)

    def mapped(self) -> int:
        at, zero = self.range(), ctypes.c_uint64(0)
        self.world.ok(
            "cuMemMap", ctypes.c_uint64(at), ctypes.c_size_t(UNIT), zero, ctypes.c_uint64(self.physical()), zero
        )
        return at

    def access(self) -> Record:
        return self.record("CUmemAccessDesc", location__type=1, location__id=0, flags=3)

    def resource(self) -> Record:
        return self.record("CUDA_RESOURCE_DESC", resType=0, res__array__hArray=self.world.array.value, flags=0)

    def linear(self) -> Record:
        return self.record("CUDA_RESOURCE_DESC", resType=2, res__linear__devPtr=self.memory, res__linear__format=0x20,
                           res__linear__numChannels=1, res__linear__sizeInBytes=4096)  # fmt: skip

    def sampling(self) -> Record:
        return self.record(
            "CUDA_TEXTURE_DESC", addressMode__0=1, addressMode__1=1, filterMode=0, mipmapFilterMode=0, flags=0
        )

    def kernel(self) -> Record:
        return self.record("CUDA_KERNEL_NODE_PARAMS", func=self.world.function.value, gridDimX=1, gridDimY=1, gridDimZ=1, blockDimX=1,
                           blockDimY=1, blockDimZ=1, sharedMemBytes=0)  # fmt: skip

    def fill(self) -> Record:
        return self.record(
            "CUDA_MEMSET_NODE_PARAMS", dst=self.memory, pitch=0, value=1, elementSize=4, width=4, height=1
        )

    def host(self) -> Record:
        return self.record("CUDA_HOST_NODE_PARAMS", fn=self.world.callback)

    def launch(self) -> Record:
        return self.record("CUlaunchConfig", gridDimX=1, gridDimY=1, gridDimZ=1, blockDimX=1, blockDimY=1, blockDimZ=1,
                           hStream=self.world.stream.value, numAttrs=0)  # fmt: skip

    def managed(self) -> int:
        return int(self.world.new("cuMemAllocManaged", ctypes.c_size_t(UNIT), 1).value)

    def pinned(self) -> int:
        return int(self.world.new("cuMemAllocHost", ctypes.c_size_t(4096)).value)

    def registered(self) -> int:
        KEPT.append(mmap.mmap(-1, 2 << 12))
        at = ctypes.addressof(ctypes.c_char.from_buffer(KEPT[-1]))
        self.world.ok("cuMemHostRegister", ctypes.c_uint64(at), ctypes.c_size_t(4096), 0)
        return at

    def linking(self) -> int:
        return self.new_last("cuLinkCreate", 0, None, None)

    def new_last(self, name: str, *arguments: Any) -> int:
        """For functions that return their result through the last parameter."""
        out = ctypes.c_void_p()
        self.world.ok(name, *arguments, ctypes.byref(out))
        return out.value or 0

    def texture_reference(self) -> int:
        return int(self.world.new("cuTexRefCreate").value)

    def cores(self) -> Record:
        made = self.record("CUdevResource")
        self.world.ok("cuDeviceGetDevResource", 0, made.bytes, 1)
        return made

    def description(self) -> int:
        return int(self.world.new("cuDevResourceGenerateDesc", self.cores().bytes, 1).value)

    def green(self) -> int:
        return int(self.world.new("cuGreenCtxCreate", ctypes.c_uint64(self.description()), 0, 1).value)

    def recorded(self) -> int:
        event = self.world.new("cuEventCreate", 0)
        self.world.ok("cuEventRecord", event, self.world.stream)
        self.world.ok("cuEventSynchronize", event)
        return int(event.value)

    def shared_event(self) -> int:
        return int(self.world.new("cuEventCreate", 6).value)

    def capturing(self) -> int:
        stream = self.world.new("cuStreamCreate", 1)
        self.world.ok("cuStreamBeginCapture", stream, 2)
        return int(stream.value)

    def pool(self) -> int:
        properties = self.record("CUmemPoolProps", allocType=1, handleTypes=1, location__type=1, location__id=0)
        return int(self.world.new("cuMemPoolCreate", properties.bytes).value)

    def pool_memory(self) -> int:
        size, pool = ctypes.c_size_t(4096), ctypes.c_uint64(self.pool())
        return int(self.world.new("cuMemAllocFromPoolAsync", size, pool, self.world.stream).value)

    def memory_op(self) -> Record:
        return self.record(
            "CUstreamBatchMemOpParams", writeValue__operation=2, writeValue__address=self.memory, writeValue__value=1
        )

    def numbers(self, kind: type, *values: int) -> Any:
        return (kind * len(values))(*values)


def u64(value: int) -> ctypes.c_uint64:
    return ctypes.c_uint64(value)


def tensor(g: Good) -> dict[str, Any]:
    return {
        "tensorDataType": 7, "tensorRank": 2, "globalAddress": u64(g.memory), "globalDim": g.numbers(ctypes.c_uint64, 64, 64),
        "globalStrides": g.numbers(ctypes.c_uint64, 256), "boxDim": g.numbers(ctypes.c_uint32, 16, 16),
        "elementStrides": g.numbers(ctypes.c_uint32, 1, 1), "interleave": 0, "swizzle": 0, "l2Promotion": 0, "oobFill": 0,
    }  # fmt: skip


def range_and_size(g: Good) -> dict[str, Any]:
    return {"ptr": u64(g.mapped()), "size": u64(UNIT)}


def of_reference(g: Good) -> dict[str, Any]:
    return {"hTexRef": u64(g.texture_reference())}


def of_green(g: Good) -> dict[str, Any]:
    return {"hCtx": u64(g.green())}


CALLS: dict[str, Callable[[Good], dict[str, Any]]] = {
    "cuArrayCreate": lambda g: {"pAllocateArray": g.array("CUDA_ARRAY_DESCRIPTOR")},
    "cuArray3DCreate": lambda g: {"pAllocateArray": g.array("CUDA_ARRAY3D_DESCRIPTOR")},
    "cuMipmappedArrayCreate": lambda g: {"pMipmappedArrayDesc": g.array("CUDA_ARRAY3D_DESCRIPTOR"), "numMipmapLevels": 2},
    "cuMemcpy2D": lambda g: {"pCopy": g.copy("CUDA_MEMCPY2D")},
    "cuMemcpy2DUnaligned": lambda g: {"pCopy": g.copy("CUDA_MEMCPY2D")},
    "cuMemcpy2DAsync": lambda g: {"pCopy": g.copy("CUDA_MEMCPY2D")},
    "cuMemcpy3D": lambda g: {"pCopy": g.copy("CUDA_MEMCPY3D")},
    "cuMemcpy3DAsync": lambda g: {"pCopy": g.copy("CUDA_MEMCPY3D")},
    "cuMemcpy3DPeer": lambda g: {"pCopy": g.copy("CUDA_MEMCPY3D_PEER")},
    "cuMemcpy3DPeerAsync": lambda g: {"pCopy": g.copy("CUDA_MEMCPY3D_PEER")},
    "cuMemcpyBatchAsync": lambda g: {
        "dsts": g.numbers(ctypes.c_uint64, g.memory), "srcs": g.numbers(ctypes.c_uint64, g.memory + 4096),
        "sizes": g.numbers(ctypes.c_uint64, 64), "count": u64(1), "attrs": g.record("CUmemcpyAttributes", srcAccessOrder=1, flags=0),
        "attrsIdxs": g.numbers(ctypes.c_uint64, 0), "numAttrs": u64(1)},
    "cuMemCreate": lambda g: {"size": u64(UNIT), "prop": g.properties()},
    "cuMemGetAllocationGranularity": lambda g: {"prop": g.properties()},
    "cuMemAddressReserve": lambda g: {"size": u64(UNIT), "alignment": u64(0), "addr": u64(0)},
    "cuMemAddressFree": lambda g: {"ptr": u64(g.range()), "size": u64(UNIT)},
    "cuMemMap": lambda g: {"ptr": u64(g.range()), "size": u64(UNIT), "handle": u64(g.physical())},
    "cuMemUnmap": range_and_size,
    "cuMemSetAccess": lambda g: {**range_and_size(g), "desc": g.access(), "count": u64(1)},
    "cuMemGetAccess": lambda g: {"ptr": u64(g.mapped()), "location": g.place()},
    "cuMemExportToShareableHandle": lambda g: {"handle": u64(g.physical())},
    "cuMemRetainAllocationHandle": lambda g: {"addr": u64(g.mapped())},
    "cuMemGetAllocationPropertiesFromHandle": lambda g: {"handle": u64(g.physical())},
    "cuMemRelease": lambda g: {"handle": u64(g.physical())},
    "cuMemPoolCreate": lambda g: {"poolProps": g.record("CUmemPoolProps", allocType=1, handleTypes=1, location__type=1, location__id=0)},
    "cuMemPoolSetAccess": lambda g: {"map": g.access(), "count": u64(1)},
    "cuMemPoolGetAccess": lambda g: {"location": g.place()},
    "cuMemGetDefaultMemPool": lambda g: {"location": g.place()},
    "cuMemGetMemPool": lambda g: {"location": g.place()},
    "cuMemSetMemPool": lambda g: {"location": g.place()},
    "cuMemPoolExportPointer": lambda g: {"ptr": u64(g.pool_memory())},
    "cuMemPoolExportToShareableHandle": lambda g: {"pool": u64(g.pool())},
    "cuMemPrefetchAsync": lambda g: {"devPtr": u64(g.managed()), "count": u64(UNIT)},
    "cuMemAdvise": lambda g: {"devPtr": u64(g.managed()), "count": u64(UNIT)},
    "cuMemRangeGetAttribute": lambda g: {"devPtr": u64(g.managed()), "count": u64(UNIT)},
    "cuStreamAttachMemAsync": lambda g: {"dptr": u64(g.managed()), "length": u64(0), "flags": 1},
    "cuMemHostRegister": lambda g: {"p": u64(g.registered() + 4096), "bytesize": u64(4096)},
    "cuMemHostUnregister": lambda g: {"p": u64(g.registered())},
    "cuMemHostGetDevicePointer": lambda g: {"p": u64(g.pinned())},
    "cuMemHostGetFlags": lambda g: {"p": u64(g.pinned())},
    "cuMemFreeHost": lambda g: {"p": u64(g.pinned())},
    "cuTexObjectCreate": lambda g: {"pResDesc": g.resource(), "pTexDesc": g.sampling(), "pResViewDesc": None},
    "cuSurfObjectCreate": lambda g: {"pResDesc": g.resource()},
    "cuTensorMapEncodeTiled": tensor,
    "cuGraphAddKernelNode": lambda g: {"numDependencies": u64(0), "nodeParams": g.kernel()},
    "cuGraphKernelNodeSetParams": lambda g: {"nodeParams": g.kernel()},
    "cuGraphExecKernelNodeSetParams": lambda g: {"nodeParams": g.kernel()},
    "cuGraphAddMemcpyNode": lambda g: {"numDependencies": u64(0), "copyParams": g.copy("CUDA_MEMCPY3D")},
    "cuGraphAddMemsetNode": lambda g: {"numDependencies": u64(0), "memsetParams": g.fill()},
    "cuGraphMemsetNodeSetParams": lambda g: {"nodeParams": g.fill()},
    "cuGraphExecMemsetNodeSetParams": lambda g: {"memsetParams": g.fill()},
    "cuGraphAddHostNode": lambda g: {"numDependencies": u64(0), "nodeParams": g.host()},
    "cuGraphHostNodeSetParams": lambda g: {"nodeParams": g.host()},
    "cuGraphExecHostNodeSetParams": lambda g: {"nodeParams": g.host()},
    "cuGraphAddMemAllocNode": lambda g: {"numDependencies": u64(0), "nodeParams": g.record(
        "CUDA_MEM_ALLOC_NODE_PARAMS", poolProps__allocType=1, poolProps__location__type=1, poolProps__location__id=0, bytesize=4096)},
    "cuGraphAddNode": lambda g: {"numDependencies": u64(0), "nodeParams": g.record(
        "CUgraphNodeParams", type=2, memset__dst=g.memory, memset__elementSize=4, memset__width=4, memset__height=1,
        memset__ctx=g.world.context.value)},
    "cuGraphConditionalHandleCreate": lambda g: {"defaultLaunchValue": 1, "flags": 1},
    "cuGraphInstantiateWithParams": lambda g: {"instantiateParams": g.record(
        "CUDA_GRAPH_INSTANTIATE_PARAMS", flags=0, hUploadStream=g.world.stream.value)},
    "cuLaunchKernelEx": lambda g: {"config": g.launch()},
    "cuOccupancyMaxActiveClusters": lambda g: {"config": g.launch()},
    "cuOccupancyMaxPotentialClusterSize": lambda g: {"config": g.launch()},
    "cuStreamBatchMemOp": lambda g: {"count": 1, "paramArray": g.memory_op()},
    "cuStreamEndCapture": lambda g: {"hStream": u64(g.capturing())},
    "cuStreamUpdateCaptureDependencies": lambda g: {"hStream": u64(g.capturing()), "numDependencies": u64(0)},
    "cuEventElapsedTime": lambda g: {"hStart": u64(g.recorded()), "hEnd": u64(g.recorded())},
    "cuIpcGetEventHandle": lambda g: {"event": u64(g.shared_event())},
    "cuLinkAddData": lambda g: {
        "state": u64(g.linking()), "type": 1, "data": ctypes.c_char_p(g.world.ptx), "size": u64(len(g.world.ptx)), "numOptions": 0},
    "cuLinkComplete": lambda g: {"state": u64(g.linking())},
    "cuLinkDestroy": lambda g: {"state": u64(g.linking())},
    "cuDevResourceGenerateDesc": lambda g: {"resources": g.cores(), "nbResources": 1},
    "cuGreenCtxCreate": lambda g: {"desc": u64(g.description()), "flags": 1},
    "cuGreenCtxDestroy": of_green,
    "cuCtxFromGreenCtx": of_green,
    "cuGreenCtxGetDevResource": of_green,
    "cuGreenCtxGetId": lambda g: {"greenCtx": u64(g.green())},
    "cuGreenCtxRecordEvent": of_green,
    "cuGreenCtxWaitEvent": of_green,
    "cuGreenCtxStreamCreate": lambda g: {"greenCtx": u64(g.green()), "flags": 1, "priority": 0},
    "cuTexRefSetAddress": lambda g: {**of_reference(g), "bytes": u64(4096)},
    "cuTexRefSetAddress2D": lambda g: {**of_reference(g), "desc": g.array("CUDA_ARRAY_DESCRIPTOR"), "Pitch": u64(512)},
    "cuTexRefSetFormat": lambda g: {**of_reference(g), "fmt": 0x20, "NumPackedComponents": 1},
    "cuTexRefSetArray": lambda g: {**of_reference(g), "Flags": 1},
    "cuTexRefSetMipmappedArray": lambda g: {**of_reference(g), "Flags": 1},
    **dict.fromkeys(
        ("cuTexRefDestroy", "cuTexRefGetAddress", "cuTexRefGetAddressMode", "cuTexRefGetArray", "cuTexRefGetBorderColor",
         "cuTexRefGetFilterMode", "cuTexRefGetFlags", "cuTexRefGetFormat", "cuTexRefGetMaxAnisotropy", "cuTexRefGetMipmapFilterMode",
         "cuTexRefGetMipmapLevelBias", "cuTexRefGetMipmapLevelClamp", "cuTexRefGetMipmappedArray", "cuTexRefSetAddressMode",
         "cuTexRefSetBorderColor", "cuTexRefSetFilterMode", "cuTexRefSetFlags", "cuTexRefSetMaxAnisotropy", "cuTexRefSetMipmapFilterMode",
         "cuTexRefSetMipmapLevelBias", "cuTexRefSetMipmapLevelClamp"), of_reference),
}  # fmt: skip


def handed_over(value: Any) -> Any:
    return value.bytes if isinstance(value, Record) else value


def calls(
    world: Any, facts: Any, cases: Callable[[str], Iterator[tuple[str, int, Any]]]
) -> Iterator[tuple[str, Callable[[], list[Any]]]]:
    """Case name -> function that creates its arguments (after world.fresh())."""
    for function, row in CALLS.items():
        parameters = facts["functions"][function]["params"]

        def make(function: str = function, row: Any = row, at: int = -1, bad: Any = None, field: str = "") -> list[Any]:
            given = row(Good(world, facts))
            arguments = []
            for i, parameter in enumerate(facts["functions"][function]["params"]):
                value = given[parameter[0]] if parameter[0] in given else world.good(function, parameter)
                if i == at:
                    value = dict(value.spoilt())[field] if field else bad
                arguments.append(handed_over(value))
            return arguments

        yield f"{function}: all is good", make
        given = row(Good(Nothing(), facts))
        for i, (name, *_) in enumerate(parameters):
            if isinstance(given.get(name), Record):
                for field, _ in given[name].spoilt():
                    yield f"{function}: {name}.{field}", lambda make=make, i=i, field=field: make(at=i, field=field)
        for what, at, bad in cases(function):
            if at >= 0:
                yield f"{function}: {what}", lambda make=make, at=at, bad=bad: make(at=at, bad=bad)
