# SPDX-License-Identifier: Apache-2.0
"""Calls preserve the current context in threads without a context, with other devices and with foreign contexts."""

import pytest

LEAVES = pytest.mark.promise("A call restores the current context of the caller, also when it fails")
OWN = pytest.mark.promise("Objects use their own device, whichever context is current")

CALLS = """
import threading
from cuda.bindings import driver
from cuda.core.graph import GraphDefinition

def current():
    error, context = driver.cuCtxGetCurrent()
    assert error == 0
    return int(context)

def depth():
    contexts = []
    while current():
        contexts.append(driver.cuCtxPopCurrent()[1])
    for context in reversed(contexts):
        driver.cuCtxPushCurrent(context)
    return len(contexts)

def calls(d):
    "Good calls and failing ones, on objects of device d."
    s = d.create_stream()
    b = d.allocate(64, stream=s)
    k = code.get_kernel("add_one")
    one = LaunchConfig(grid=1, block=1)
    pinned = LegacyPinnedMemoryResource().allocate(64)
    def builder():
        g = s.create_graph_builder().begin_building()
        launch(g, one, k, b, 1)
        g.end_building().complete().launch(s)
    def bad_builder():
        g = s.create_graph_builder().begin_building()
        try:
            s.sync()
        finally:
            g.close()
    return {
        "allocate": lambda: d.allocate(64, stream=s), "allocate too much": lambda: d.allocate(2**60, stream=s),
        "stream": lambda: d.create_stream(), "bad stream": lambda: d.create_stream(options={"priority": 99}),
        "event": lambda: d.create_event(), "record": lambda: s.record(), "sync": lambda: s.sync(), "device sync": lambda: d.sync(),
        "launch": lambda: launch(s, one, k, b, 1), "bad launch": lambda: launch(s, LaunchConfig(grid=1, block=4096), k, b, 1),
        "copy": lambda: b.copy_to(bytearray(64), stream=s), "bad copy": lambda: b.copy_to(bytearray(65), stream=s),
        "fill": lambda: b.fill(0, stream=s), "bad fill": lambda: b.fill(b"123", stream=s),
        "capture": builder, "bad capture": bad_builder, "close buffer": lambda: d.allocate(64, stream=s).close(),
        "close stream": lambda: d.create_stream().close(), "close pinned": lambda: pinned.close(),
        "pool": lambda: DeviceMemoryResource(d, options=DeviceMemoryResourceOptions(max_size=1 << 20)).close(),
        "bad pool": lambda: DeviceMemoryResource(99), "properties": lambda: d.properties.max_threads_per_block,
        "bad code": lambda: ObjectCode.from_ptx(b"nonsense").get_kernel("k"), "graph memory": lambda: GraphMemoryResource(d).allocate(64, stream=s),
        "definition": lambda: GraphDefinition().launch(one, k, b, 1), "device": lambda: Device(99), "wait": lambda: s.wait(d.create_stream()),
    }
"""


@LEAVES
def test_calls_preserve_the_current_context_and_the_context_stack(child):
    """After each call on an object of each device the current context and the stack depth are unchanged, also without a context."""
    out = child.ok(
        CALLS
        + """
setup()
failed = set()
def check(label, everything):
    before = current(), depth()
    for name, call in everything.items():
        try:
            call()
        except Exception as error:
            failed.add(name)
        assert (current(), depth()) == before, (label, name, before, current(), depth())
devices = Device.get_all_devices()
everything = {}
for d in devices:
    d.set_current()
    everything[d.device_id] = calls(d)
for d in devices:
    d.set_current()
    for other in devices:
        check(f"{d.device_id} current, object of {other.device_id}", everything[other.device_id])
    def in_thread(d=d):
        assert current() == 0
        mine = {n: c for n, c in everything[d.device_id].items() if n not in ("capture", "bad capture", "definition")}
        check("no context", mine)
    def run():
        try: in_thread()
        except BaseException as error: print("FAILED", repr(error), flush=True)
    thread = threading.Thread(target=run); thread.start(); thread.join()
error, foreign = driver.cuCtxCreate(None, 0, driver.cuDeviceGet(0)[1])
assert error == 0
for d in devices:
    check(f"foreign current, object of {d.device_id}", everything[d.device_id])
assert current() == int(foreign)
print(sorted(failed & {"allocate too much", "bad launch", "bad copy", "bad capture", "bad code"}))
""",
        CUCORE_CPU_DEVICES="3",
    )
    assert out == str(sorted(["allocate too much", "bad launch", "bad copy", "bad capture", "bad code"])) + "\n"


@OWN
@pytest.mark.cpu_only
def test_objects_work_on_their_device_when_another_is_current(child):
    child.ok(
        """
        from cuda.bindings import driver
        setup()
        devices = Device.get_all_devices()
        assert len(devices) == 3
        for d in devices: d.set_current()
        devices[0].set_current()
        for d in devices:
            s = d.create_stream()
            assert s.device.device_id == d.device_id and s.context != devices[(d.device_id + 1) % 3].create_stream().context
            b = d.allocate(64, stream=s)
            assert b.device_id == d.device_id
            assert s.record().device.device_id == d.device_id
            error, where = driver.cuPointerGetAttribute(driver.CUpointer_attribute.CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, b.handle)
            assert (int(error), where) == (0, d.device_id)
        """,
        CUCORE_CPU_DEVICES="3",
    )


@LEAVES
def test_missing_context_raises_an_error_that_names_the_remedy(child):
    out = child.ok(
        """
        setup()
        said = []
        def run():
            for call in (lambda: Device(0).allocate(8), lambda: Device(0).create_stream()):
                try: call()
                except Exception as error: said.append(str(error))
        thread = threading.Thread(target=run); thread.start(); thread.join()
        print(all("set_current" in text for text in said))
        """
    )
    assert out == "True\n"
