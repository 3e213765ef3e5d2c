# SPDX-License-Identifier: Apache-2.0
"""If the k-th call of a driver function fails, its error is raised and partially created objects are released.

CUCORE_LONG=1 lets every call fail once; otherwise three calls of each function do.
"""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

pytestmark = [pytest.mark.cpu_only]
ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(scope="session")
def faulty(tmp_path_factory):
    """A driver library that fails on demand."""
    import cucore

    compiler = shutil.which("c++")
    if compiler is None:
        pytest.skip("no C++ compiler")
    package = Path(cucore.__file__).parent
    library = tmp_path_factory.mktemp("faulty") / "libcucore_faulty.so"
    subprocess.run(
        [
            compiler,
            "-std=c++20",
            "-O0",
            "-shared",
            "-fPIC",
            "-fvisibility=hidden",
            f"-I{package / 'include'}",
            "-o",
            library,
            ROOT / "tests/fault/driver.cpp",
            "-ldl",
        ],
        check=True,
    )
    table = (package / "include/cucore/driver_functions.inc").read_text()
    return {
        "CUCORE_CPU_LIBRARY": str(library),
        "CUCORE_FAULTY_REAL": str(package / "lib" / "libcucore_cpu.so"),
        "NAMES": " ".join(re.findall(r"CUCORE_FN\((\w+)", table)),
    }


SCENARIO = """
import ctypes, os, gc, re, sys, time
from pathlib import Path
from cuda.core import *
from cuda.core.graph import GraphBuilder, GraphDefinition
faulty = ctypes.CDLL(os.environ["CUCORE_CPU_LIBRARY"])
faulty.faulty_failed.restype = ctypes.c_char_p
faulty.faulty_count.restype = faulty.faulty_calls.restype = ctypes.c_long
faulty.faulty_arm.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_char_p]
faulty.faulty_then.argtypes = [ctypes.c_char_p, ctypes.c_int]
faulty.faulty_then_failed.restype = ctypes.c_long
faulty.faulty_calls.argtypes = [ctypes.c_char_p]
device = Device(0); device.set_current()
image = Path(os.environ["KERNELS"]).read_bytes()
one = LaunchConfig(grid=1, block=1)

def scenario():
    stream = device.create_stream()
    other = device.create_stream(options={"priority": 0})
    event = stream.record(options=EventOptions(timing_enabled=True))
    pool = DeviceMemoryResource(device, options=DeviceMemoryResourceOptions(max_size=1 << 20))
    buffer = pool.allocate(64, stream=stream)
    pinned = LegacyPinnedMemoryResource().allocate(64)
    host = PinnedMemoryResource().allocate(64, stream=stream)
    virtual = VirtualMemoryResource(device).allocate(64)
    code = ObjectCode.from_cubin(image)
    kernel = code.get_kernel("add_one")
    buffer.fill(0, stream=stream)
    launch(stream, one, kernel, buffer, 1)
    other.wait(stream)
    stream.wait(event)
    buffer.copy_from(host, stream=stream)
    buffer.copy_to(bytearray(64), stream=stream)
    builder = stream.create_graph_builder().begin_building()
    launch(builder, one, kernel, buffer, 1)
    builder.callback(lambda: None)
    left, right = builder.split(2)
    launch(right, one, kernel, buffer, 1)
    GraphBuilder.join(left, right)
    graph = builder.end_building().complete()
    graph.launch(stream)
    definition = GraphDefinition()
    definition.launch(one, kernel, buffer, 1)
    executable = definition.instantiate()  # held: destroying it while it runs queues a notification
    executable.launch(stream)
    stream.sync(); device.sync(); event.sync()
    virtual.close(); buffer.close(); pool.close()

PAIRS = {
    ("cuStreamCreate", "cuStreamCreateWithPriority"): ("cuStreamDestroy",),
    ("cuEventCreate",): ("cuEventDestroy",),
    ("cuMemAlloc", "cuMemAllocHost", "cuMemHostAlloc", "cuMemAllocFromPoolAsync", "cuMemAllocAsync"): ("cuMemFree", "cuMemFreeHost", "cuMemFreeAsync"),
    ("cuMemPoolCreate",): ("cuMemPoolDestroy",),
    ("cuLibraryLoadData",): ("cuLibraryUnload",),
    ("cuGraphCreate", "cuStreamEndCapture"): ("cuGraphDestroy",),
    ("cuGraphInstantiateWithParams",): ("cuGraphExecDestroy",),
    ("cuMemCreate",): ("cuMemRelease",),
    ("cuMemAddressReserve",): ("cuMemAddressFree",),
    ("cuMemMap",): ("cuMemUnmap",),
}
NAMES = os.environ["NAMES"].split()
def counts(): return {n: max(0, faulty.faulty_calls(n.encode())) for n in NAMES}
def alive():
    gc.collect()
    def total(names): return sum(max(0, faulty.faulty_calls(n.encode())) for n in names)
    return {made[0]: total(made) - total(freed) for made, freed in PAIRS.items()}
"""


@pytest.mark.promise(
    "When any driver call fails, its error is raised and partly constructed objects are released",
)
def test_failing_driver_call_raises_its_error_and_leaks_nothing(child, faulty):
    out = child.ok(
        SCENARIO
        + """
scenario()
base, before = alive(), counts()
scenario()
alive()
after = counts()
freeing = re.compile("Destroy|Free|Unload|Release|Unmap|Pop|Exchange")  # its object is the injection's own loss
# Has a substitute; or is the wait before a free, which a destructor keeps to itself.
asking = re.compile("Get|Is|Query|SetAccess|CtxRecordEvent|UserObject|StreamSynchronize")
wrong, tried = [], 0
for name in NAMES:
    n = after[name] - before[name]
    for k in range(n) if os.environ.get("CUCORE_LONG") == "1" and name != "cuStreamQuery" else sorted({0, n // 2, n - 1}) if n else ():
        tried += 1
        faulty.faulty_arm(k, 999, name.encode())
        said = None
        try:
            scenario()
        except BaseException as error:
            said = error.code if isinstance(error, CUDAError) else repr(error)
        failed = faulty.faulty_failed()
        faulty.faulty_disarm()
        if said != 999 and (said is not None or failed and not (freeing.search(name) or asking.search(name))):
            wrong.append((name, k, "raised", said))
        now, last = alive(), None
        for _ in range(200):  # work that was queued when it failed releases its things a moment later
            if now == base or now == last and freeing.search(name): break
            time.sleep(0.01)
            last, now = now, alive()
        lost = {n: now[n] - base[n] for n in now if now[n] != base[n]}
        if lost and not freeing.search(name):
            wrong.append((name, k, "lost", lost))
        device.sync()  # nothing is left capturing, nothing is broken
        base = now
scenario()
print(tried)
for line in wrong: print(line)
""",
        prelude=False,
        **faulty,
    )
    first, *wrong = out.splitlines()
    assert wrong == [], "\n".join(wrong)
    assert int(first) > 80


@pytest.mark.promise("The first error is raised; errors during cleanup are attached to it or dropped")
def test_error_during_cleanup_is_attached_to_the_first_error(child, faulty):
    """One call fails, and then all calls of a function that frees: the first error is raised."""
    out = child.ok(
        SCENARIO
        + """
scenario()
wrong, attached, seconds = [], set(), set()
for name in ("cuStreamCreateWithPriority", "cuMemAllocFromPoolAsync", "cuMemMap", "cuMemSetAccess", "cuStreamBeginCapture",
             "cuGraphInstantiateWithParams", "cuLibraryLoadData", "cuLaunchKernel", "cuLaunchKernelEx", "cuEventRecord"):
    for second in ("cuMemAddressFree", "cuMemRelease", "cuMemUnmap", "cuStreamEndCapture", "cuGraphDestroy", "cuEventDestroy",
                   "cuStreamDestroy", "cuMemFreeAsync", "cuMemPoolDestroy", "cuCtxPopCurrent"):
        faulty.faulty_arm(0, 2, name.encode())
        faulty.faulty_then(second.encode(), 304)
        try:
            scenario()
        except CUDAError as error:
            if error.code != 2: wrong.append((name, second, repr(error)))
            if any("CUDA_ERROR_OPERATING_SYSTEM" in note for note in getattr(error, "__notes__", ())):
                attached.add((name, second))
        alive()
        if faulty.faulty_then_failed(): seconds.add(second)
        faulty.faulty_disarm()
        if second == "cuCtxPopCurrent": device.set_current()
scenario()
print(wrong)
print(sorted(attached))
print(len(seconds))
""",
        prelude=False,
        **faulty,
    )
    wrong, attached, seconds = out.splitlines()
    assert wrong == "[]"
    assert "('cuMemSetAccess', 'cuMemUnmap')" in attached and "('cuMemMap', 'cuMemAddressFree')" in attached
    assert int(seconds) >= 7
