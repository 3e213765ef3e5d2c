# SPDX-License-Identifier: Apache-2.0
"""CUPTI of the CPU device, called as its documentation shows: activity records, callbacks, and what is not there."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.cpu_only

ROOT = Path(__file__).parents[3]
FACTS = json.loads((ROOT / "api" / "cupti.json").read_text())

# What the programs below share: the library, its constants, and records as dictionaries, all from the facts.
PRELUDE = r"""
import ctypes, json, os, sys, threading
import numpy as np

FACTS = json.loads(open(os.environ["CUPTI_FACTS"]).read())
VALUES = {name: value for enum in FACTS["enums"].values() for name, value in enum["values"]}
cupti = ctypes.CDLL(os.environ.get("CUPTI_LIBRARY", "libcupti.so.13"))

def value(name):
    return VALUES["CUPTI_" + name]

def check(result, wanted="SUCCESS"):
    assert result == value(wanted), [n for n, v in FACTS["enums"]["CUptiResult"]["values"] if v == result]

STRUCTS = {"MEMCPY": "Memcpy7", "MEMSET": "Memset5", "KERNEL": "Kernel13", "CONCURRENT_KERNEL": "Kernel13", "DRIVER": "API",
           "RUNTIME": "API", "DEVICE": "Device6", "CONTEXT": "Context4", "STREAM": "Stream", "SYNCHRONIZATION": "Synchronization2",
           "EXTERNAL_CORRELATION": "ExternalCorrelation", "MEMORY2": "Memory4", "GRAPH_TRACE": "GraphTrace2"}
KINDS = {value("ACTIVITY_KIND_" + kind): kind for kind in STRUCTS}
SIZES = {"uint8_t": 1, "uint16_t": 2, "uint32_t": 4, "int32_t": 4, "uint64_t": 8, "int64_t": 8, "const char *": 8, "void *": 8}

def fields(address, struct):
    result = {}
    for field in FACTS["structs"]["CUpti_Activity" + struct]["fields"]:
        kind = field.get("type", "")
        if kind in SIZES or kind.startswith("CUpti_"):
            data = ctypes.string_at(address + field["offset"], SIZES.get(kind, 4))
            number = int.from_bytes(data, "little", signed=kind.startswith("int"))
            result[field["name"]] = ctypes.string_at(number).decode() if kind == "const char *" and number else number
    return result

records, buffers, requests = [], {}, []
ROOM = int(os.environ.get("CUPTI_ROOM", 1 << 16))

@ctypes.CFUNCTYPE(None, ctypes.POINTER(ctypes.c_void_p), ctypes.POINTER(ctypes.c_size_t), ctypes.POINTER(ctypes.c_size_t))
def requested(buffer, size, most):
    memory = (ctypes.c_uint64 * (ROOM // 8))()
    address = ctypes.addressof(memory)
    buffers[address] = memory
    requests.append(threading.get_ident())
    buffer[0], size[0], most[0] = address, ROOM, 0

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_size_t)
def completed(context, stream, buffer, size, valid):
    record = ctypes.c_void_p(None)
    while (result := cupti.cuptiActivityGetNextRecord(ctypes.c_void_p(buffer), ctypes.c_size_t(valid), ctypes.byref(record))) == 0:
        kind = KINDS[ctypes.c_uint32.from_address(record.value).value]
        records.append({**fields(record.value, STRUCTS[kind]), "kind": kind})
    check(result, "ERROR_MAX_LIMIT_REACHED")
    del buffers[buffer]

def enable(*kinds):
    check(cupti.cuptiActivityRegisterCallbacks(requested, completed))
    for kind in kinds:
        check(cupti.cuptiActivityEnable(value("ACTIVITY_KIND_" + kind)))

def of(*kinds):
    return [record for record in records if record["kind"] in kinds]

def flush():
    check(cupti.cuptiActivityFlushAll(0))

def driver_id(name):
    return VALUES["CUPTI_DRIVER_TRACE_CBID_" + name]

SOURCE = r'''
extern "C" __global__ void add(int* out, int n) { __shared__ int s[8]; s[threadIdx.x % 8] = n; atomicAdd(out, s[threadIdx.x % 8]); }
'''

def work(repeat=1):
    '''A copy, launches, a fill and a copy back in a stream.'''
    from cuda.core import Device, LaunchConfig, Program, launch
    device = Device()
    device.set_current()
    stream = device.create_stream()
    kernel = Program(SOURCE, code_type="c++").compile("cubin").get_kernel("add")
    buffer = device.allocate(4096, stream=stream)
    host = np.zeros(1024, np.int32)
    buffer.copy_from(host, stream=stream)
    for _ in range(repeat):
        launch(stream, LaunchConfig(grid=(3, 2), block=32, shmem_size=64), kernel, buffer, np.int32(5))
    buffer.copy_to(host, stream=stream)
    buffer.fill(7, stream=stream)
    from cuda.bindings import driver
    assert driver.cuStreamSynchronize(driver.CUstream(int(stream.handle))) == (0,)  # stream.sync() may ask and not wait
    assert host[0] == 5 * 192 * repeat
    return stream
"""


def run(body: str, *, version: int = 13, **variables: str) -> Any:
    """What a program under `cucore run --cpu` prints, as JSON."""
    environment = {k: v for k, v in os.environ.items() if k not in ("CUCORE_CHECK", "CUCORE_CPU_SCHEDULE")}
    environment |= {
        "CUPTI_FACTS": str(ROOT / "api" / "cupti.json"),
        "CUPTI_LIBRARY": f"libcupti.so.{version}",
        **variables,
    }
    command = [sys.executable, "-m", "cucore", "run", "--cpu", sys.executable, "-c", PRELUDE + body]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("version", [12, 13])
def test_kernels_copies_and_fills_have_records_of_the_calls_that_queued_them(version: int) -> None:
    records = run("""
enable("CONCURRENT_KERNEL", "MEMCPY", "MEMSET", "DRIVER")
work(repeat=3)
flush()
print(json.dumps(records))
""", version=version)  # fmt: skip
    kernels = [r for r in records if r["kind"] == "CONCURRENT_KERNEL"]
    assert [k["name"] for k in kernels] == ["add"] * 3
    for k in kernels:
        assert (k["gridX"], k["gridY"], k["gridZ"]) == (3, 2, 1) and (k["blockX"], k["blockY"], k["blockZ"]) == (
            32,
            1,
            1,
        )
        assert (k["staticSharedMemory"], k["dynamicSharedMemory"]) == (32, 64)
        assert 0 < k["start"] <= k["end"]
    assert all(first["end"] <= second["start"] for first, second in itertools.pairwise(kernels))
    assert len({k["gridId"] for k in kernels}) == 3
    values = dict(FACTS["enums"]["CUpti_ActivityMemcpyKind"]["values"])
    copies = [r for r in records if r["kind"] == "MEMCPY"]
    assert [c["copyKind"] for c in copies] == [
        values["CUPTI_ACTIVITY_MEMCPY_KIND_HTOD"],
        values["CUPTI_ACTIVITY_MEMCPY_KIND_DTOH"],
    ]
    assert [c["bytes"] for c in copies] == [4096, 4096]
    fill = next(r for r in records if r["kind"] == "MEMSET")
    assert (fill["bytes"], fill["value"]) == (4096, 7)
    calls = {r["correlationId"]: r for r in records if r["kind"] == "DRIVER"}
    ids = dict(FACTS["enums"]["CUpti_driver_api_trace_cbid_enum"]["values"])
    for kernel in kernels:
        call = calls[kernel["correlationId"]]
        assert call["cbid"] == ids["CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel"] and call["returnValue"] == 0
        assert call["start"] <= kernel["start"], "a kernel starts after its launch"
    assert all(r["correlationId"] in calls for r in [*copies, fill])
    assert len({r["streamId"] for r in [*kernels, *copies, fill]}) == 1
    assert len({r["contextId"] for r in [*kernels, *copies, fill]}) == 1 and kernels[0]["deviceId"] == 0


def test_records_stop_when_a_kind_is_disabled() -> None:
    counts = run("""
enable("CONCURRENT_KERNEL")
work()
flush()
first = len(of("CONCURRENT_KERNEL"))
check(cupti.cuptiActivityDisable(value("ACTIVITY_KIND_CONCURRENT_KERNEL")))
work()
flush()
print(json.dumps([first, len(records)]))
""")  # fmt: skip
    assert counts == [1, 1]


def test_buffers_are_filled_and_returned_in_order_even_if_they_are_small() -> None:
    result = run("""
enable("CONCURRENT_KERNEL")
work(repeat=20)
flush()
dropped = ctypes.c_size_t(9)
check(cupti.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(dropped)))
starts = [r["start"] for r in records]
print(json.dumps([len(records), len(requests), starts == sorted(starts), buffers == {}, dropped.value]))
""", CUPTI_ROOM="512")  # fmt: skip
    assert result == [20, 10, True, True, 0]  # two records of 248 bytes in a buffer of 512


def test_records_that_fit_no_buffer_are_counted() -> None:
    result = run("""
enable("CONCURRENT_KERNEL")
work(repeat=3)
flush()
dropped = ctypes.c_size_t(0)
check(cupti.cuptiActivityGetNumDroppedRecords(None, 0, ctypes.byref(dropped)))
print(json.dumps([len(records), dropped.value]))
""", CUPTI_ROOM="128")  # fmt: skip
    assert result == [0, 3]


def test_callbacks_never_run_on_threads_of_the_driver() -> None:
    assert run("""
enable("CONCURRENT_KERNEL", "DRIVER")
check(cupti.cuptiActivityFlushPeriod(1))
for _ in range(5):
    work(repeat=4)
flush()
print(json.dumps([set(requests) == {threading.get_ident()}, len(requests) > 1, len(of("CONCURRENT_KERNEL"))]))
""") == [True, True, 20]  # fmt: skip


def test_one_driver_function_can_be_recorded_alone() -> None:
    names = run("""
check(cupti.cuptiActivityRegisterCallbacks(requested, completed))
check(cupti.cuptiActivityEnableDriverApi(driver_id("cuStreamSynchronize"), 1))
work()
flush()
name = ctypes.c_char_p()
found = []
for record in records:
    check(cupti.cuptiGetCallbackName(value("CB_DOMAIN_DRIVER_API"), record["cbid"], ctypes.byref(name)))
    found.append(name.value.decode())
print(json.dumps(sorted(set(found))))
""")  # fmt: skip
    assert names == ["cuStreamSynchronize"]


def test_external_numbers_are_attached_to_the_calls_between_push_and_pop() -> None:
    records, last = run("""
enable("CONCURRENT_KERNEL", "DRIVER", "EXTERNAL_CORRELATION")
kind = value("EXTERNAL_CORRELATION_KIND_CUSTOM0")
last = ctypes.c_uint64()
check(cupti.cuptiActivityPopExternalCorrelationId(kind, ctypes.byref(last)), "ERROR_QUEUE_EMPTY")
check(cupti.cuptiActivityPushExternalCorrelationId(kind, ctypes.c_uint64(1234)))
work()
check(cupti.cuptiActivityPopExternalCorrelationId(kind, ctypes.byref(last)))
work()
flush()
print(json.dumps([records, last.value]))
""")  # fmt: skip
    assert last == 1234
    external = {r["correlationId"]: r["externalId"] for r in records if r["kind"] == "EXTERNAL_CORRELATION"}
    kernels = [r for r in records if r["kind"] == "CONCURRENT_KERNEL"]
    assert [external.get(k["correlationId"]) for k in kernels] == [1234, None]


def test_devices_contexts_streams_synchronizations_and_allocations_have_records() -> None:
    records, ids = run("""
enable("DEVICE", "CONTEXT", "STREAM", "SYNCHRONIZATION", "MEMORY2", "CONCURRENT_KERNEL")
stream = work()
context, device, number = ctypes.c_uint32(), ctypes.c_uint32(), ctypes.c_uint32()
check(cupti.cuptiGetContextId(None, ctypes.byref(context)))
check(cupti.cuptiGetDeviceId(None, ctypes.byref(device)))
check(cupti.cuptiGetStreamIdEx(None, ctypes.c_void_p(int(stream.handle)), 0, ctypes.byref(number)))
from cuda.bindings import driver
(error, pointer) = driver.cuMemAlloc(12345)
driver.cuMemFree(pointer)
flush()
print(json.dumps([records, [context.value, device.value, number.value]]))
""")  # fmt: skip
    by_kind: dict[str, list[dict[str, Any]]] = {}
    for record in records:
        by_kind.setdefault(record["kind"], []).append(record)
    (device,) = by_kind["DEVICE"]
    assert device["name"].startswith("cucore CPU device") and device["numThreadsPerWarp"] == 32
    (context,) = by_kind["CONTEXT"]
    (kernel,) = by_kind["CONCURRENT_KERNEL"]
    assert [context["contextId"], context["deviceId"]] == ids[:2]
    assert [kernel["contextId"], kernel["deviceId"], kernel["streamId"]] == ids
    assert ids[2] in [stream["streamId"] for stream in by_kind["STREAM"]]
    types = dict(FACTS["enums"]["CUpti_ActivitySynchronizationType"]["values"])
    waits = [r for r in by_kind["SYNCHRONIZATION"] if r["streamId"] == ids[2]]
    assert waits and waits[0]["type"] == types["CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE"]
    sizes = [(r["memoryOperationType"], r["bytes"]) for r in by_kind["MEMORY2"] if r["bytes"] == 12345]
    assert sizes == [(1, 12345), (2, 12345)]


def test_a_graph_is_recorded_node_by_node_or_as_a_whole() -> None:
    program = """
enable("CONCURRENT_KERNEL", "DRIVER", *KIND)
from cuda.core import Device, LaunchConfig, Program, launch
device = Device()
device.set_current()
stream = device.create_stream()
kernel = Program(SOURCE, code_type="c++").compile("cubin").get_kernel("add")
buffer = device.allocate(64, stream=stream)
builder = stream.create_graph_builder().begin_building()
for _ in range(4):
    launch(builder, LaunchConfig(grid=1, block=1), kernel, buffer, np.int32(1))
graph = builder.end_building().complete()
graph.launch(stream)
stream.sync()
flush()
calls = {r["correlationId"]: r["cbid"] for r in of("DRIVER")}
launched = driver_id("cuGraphLaunch")
print(json.dumps([[r["kind"], calls.get(r["correlationId"]) == launched] for r in of("CONCURRENT_KERNEL", "GRAPH_TRACE")]))
"""
    assert run(program.replace("*KIND", "")) == [["CONCURRENT_KERNEL", True]] * 4
    assert run(program.replace("*KIND", '"GRAPH_TRACE"')) == [["GRAPH_TRACE", True]]


CALLBACK = r"""
class Data(ctypes.Structure):
    _fields_ = [("site", ctypes.c_int), ("name", ctypes.c_char_p), ("params", ctypes.c_void_p), ("result", ctypes.c_void_p),
                ("symbol", ctypes.c_char_p), ("context", ctypes.c_void_p), ("uid", ctypes.c_uint32),
                ("data", ctypes.POINTER(ctypes.c_uint64)), ("correlation", ctypes.c_uint32)]
for name, field in zip(("callbackSite", "functionName", "functionParams", "functionReturnValue", "symbolName", "context", "contextUid",
                        "correlationData", "correlationId"), Data._fields_):
    offset = next(f["offset"] for f in FACTS["structs"]["CUpti_CallbackData"]["fields"] if f["name"] == name)
    assert getattr(Data, field[0]).offset == offset, name
seen = []

@ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int, ctypes.c_uint32, ctypes.c_void_p)
def callback(userdata, domain, cbid, data):
    if domain not in (value("CB_DOMAIN_DRIVER_API"), value("CB_DOMAIN_RUNTIME_API")):
        seen.append([domain, cbid])
        return
    d = Data.from_address(data)
    if d.site == value("API_ENTER"):
        d.data[0] = 77
        extra = None
        if cbid == driver_id("cuLaunchKernel"):
            extra = [list((ctypes.c_uint32 * 7).from_address(d.params + 8)), d.symbol.decode()]
        seen.append(["enter", d.name.decode(), d.correlation, extra])
    else:
        seen.append(["exit", d.name.decode(), d.correlation, [d.data[0], ctypes.c_int.from_address(d.result).value]])

subscriber = ctypes.c_void_p()
check(cupti.cuptiSubscribe(ctypes.byref(subscriber), callback, None))
"""


def test_a_subscriber_is_called_before_and_after_the_functions_it_enables() -> None:
    seen = run(CALLBACK + """
check(cupti.cuptiEnableCallback(1, subscriber, value("CB_DOMAIN_DRIVER_API"), driver_id("cuLaunchKernel")))
check(cupti.cuptiEnableCallback(1, subscriber, value("CB_DOMAIN_DRIVER_API"), driver_id("cuStreamSynchronize")))
work()
on = ctypes.c_uint32(9)
check(cupti.cuptiGetCallbackState(ctypes.byref(on), subscriber, value("CB_DOMAIN_DRIVER_API"), driver_id("cuLaunchKernel")))
assert on.value == 1
check(cupti.cuptiUnsubscribe(subscriber))
count = len(seen)
work()
assert len(seen) == count
print(json.dumps(seen))
""")  # fmt: skip
    launch = seen[:2]
    assert [call[:2] for call in seen[:2]] == [["enter", "cuLaunchKernel"], ["exit", "cuLaunchKernel"]]
    assert launch[0][3] == [[3, 2, 1, 32, 1, 1, 64], "add"]
    assert launch[1][2:] == [launch[0][2], [77, 0]], "the correlation and the data of the call are kept"
    assert {call[1] for call in seen} == {"cuLaunchKernel", "cuStreamSynchronize"}


def test_whole_domains_can_be_enabled() -> None:
    seen, domains = run(CALLBACK + """
count, table = ctypes.c_size_t(), ctypes.POINTER(ctypes.c_uint32)()
check(cupti.cuptiSupportedDomains(ctypes.byref(count), ctypes.byref(table)))
for name in ("DRIVER_API", "RESOURCE", "SYNCHRONIZE", "STATE"):
    check(cupti.cuptiEnableDomain(1, subscriber, value("CB_DOMAIN_" + name)))
work()
check(cupti.cuptiUnsubscribe(subscriber))
print(json.dumps([seen, [table[i] for i in range(count.value)]]))
""")  # fmt: skip
    ids = {name: value for enum in FACTS["enums"].values() for name, value in enum["values"]}
    assert ids["CUPTI_CB_DOMAIN_DRIVER_API"] in domains and ids["CUPTI_CB_DOMAIN_RESOURCE"] in domains
    assert [ids["CUPTI_CB_DOMAIN_RESOURCE"], ids["CUPTI_CBID_RESOURCE_CONTEXT_CREATED"]] in seen
    assert [ids["CUPTI_CB_DOMAIN_RESOURCE"], ids["CUPTI_CBID_RESOURCE_STREAM_CREATED"]] in seen
    assert [ids["CUPTI_CB_DOMAIN_SYNCHRONIZE"], ids["CUPTI_CBID_SYNCHRONIZE_STREAM_SYNCHRONIZED"]] in seen
    names = [call[1] for call in seen if call[0] == "enter"]
    assert "cuLaunchKernel" in names and "cuStreamSynchronize" in names
    enters = [call[1:3] for call in seen if call[0] == "enter"]
    exits = [call[1:3] for call in seen if call[0] == "exit"]
    assert enters == exits, "calls that a function makes itself are not reported"


def test_one_subscriber_at_a_time() -> None:
    assert run(CALLBACK + """
second = ctypes.c_void_p()
check(cupti.cuptiSubscribe(ctypes.byref(second), callback, None), "ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED")
check(cupti.cuptiUnsubscribe(subscriber))
check(cupti.cuptiSubscribe(ctypes.byref(second), callback, None))
check(cupti.cuptiFinalize())
print(json.dumps("done"))
""") == "done"  # fmt: skip


def test_errors_have_names_and_are_remembered() -> None:
    assert run("""
check(cupti.cuptiActivityEnable(99999), "ERROR_INVALID_KIND")
check(cupti.cuptiGetLastError(), "ERROR_INVALID_KIND")
check(cupti.cuptiGetLastError())
check(cupti.cuptiActivityRegisterCallbacks(None, None), "ERROR_INVALID_PARAMETER")
check(cupti.cuptiActivityEnable(value("ACTIVITY_KIND_PC_SAMPLING")), "ERROR_NOT_SUPPORTED")
name = ctypes.c_char_p()
check(cupti.cuptiGetResultString(value("ERROR_QUEUE_EMPTY"), ctypes.byref(name)))
assert name.value == b"CUPTI_ERROR_QUEUE_EMPTY"
check(cupti.cuptiGetErrorMessage(value("ERROR_QUEUE_EMPTY"), ctypes.byref(name)))
assert name.value == b"queue empty"
check(cupti.cuptiGetResultString(12321, ctypes.byref(name)), "ERROR_INVALID_PARAMETER")
check(cupti.cuptiGetContextId(ctypes.c_void_p(1), ctypes.byref(ctypes.c_uint32())), "ERROR_INVALID_CONTEXT")
first, second = ctypes.c_uint64(), ctypes.c_uint64()
check(cupti.cuptiGetTimestamp(ctypes.byref(first)))
check(cupti.cuptiGetTimestamp(ctypes.byref(second)))
import time
assert first.value <= second.value and abs(second.value - time.time_ns()) < 60e9
version = ctypes.c_uint32()
check(cupti.cuptiGetVersion(ctypes.byref(version)))
print(json.dumps(version.value))
""") == FACTS["version"]  # fmt: skip


def test_functions_that_are_not_there_say_so() -> None:
    assert run("""
for name in ("cuptiProfilerInitialize", "cuptiPmSamplingEnable", "cuptiEventGroupCreate", "cuptiActivityEnable_v2"):
    check(getattr(cupti, name)(None, None, None, None), "ERROR_NOT_SUPPORTED")
missing = [name for name in FACTS["functions"] if not hasattr(cupti, name)]
print(json.dumps(missing))
""") == []  # fmt: skip


@pytest.fixture
def without_the_device(tmp_path: Path) -> Iterator[Path]:
    """A folder with a libcuda.so.1 that is not the CPU device."""
    source = tmp_path / "other.c"
    source.write_text("int cuInit(unsigned flags) { (void)flags; return 0; }\n")
    command = ["gcc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", str(tmp_path / "libcuda.so.1"), str(source)]
    subprocess.run(command, check=True)
    yield tmp_path


def test_another_driver_is_not_observed(without_the_device: Path) -> None:
    import cucore

    program = f"""
import ctypes
ctypes.CDLL({str(without_the_device / "libcuda.so.1")!r}, mode=ctypes.RTLD_GLOBAL)
cupti = ctypes.CDLL({str(cucore.CPU_DRIVER_FOLDER / "libcupti.so.13")!r})
print(cupti.cuptiActivityEnable(3))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert int(done.stdout) == dict(FACTS["enums"]["CUptiResult"]["values"])["CUPTI_ERROR_NOT_INITIALIZED"]


def test_the_timeline_and_cupti_work_together(tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    assert run("""
enable("CONCURRENT_KERNEL")
work()
flush()
print(json.dumps(len(records)))
""", CUCORE_TRACE=str(trace)) == 1  # fmt: skip
    assert '"name":"add"' in trace.read_text()
