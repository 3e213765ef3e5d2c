# SPDX-License-Identifier: Apache-2.0
"""The package: import cost, deprecated names, errors, behaviour without NumPy, at exit and on Ctrl-C."""

import os
import pickle
import subprocess
import sys
import textwrap

import cuda.core
import cuda.core.experimental
import pytest
from cuda.core import CUDAError, NVRTCError


def run(code, **environment):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, env={**os.environ, **environment},
    )  # fmt: skip


def test_experimental_has_the_same_objects():
    for name in ("Device", "launch", "LaunchConfig", "Stream", "Program"):
        assert getattr(cuda.core.experimental, name) is getattr(cuda.core, name)
    from cuda.core.experimental import Device

    assert Device is cuda.core.Device
    with pytest.raises(AttributeError):
        cuda.core.nonsense  # noqa: B018


def test_import_loads_no_driver_and_no_heavy_modules():
    code = """
        import sys
        before = set(sys.modules)  # what the interpreter's own start brought
        import cuda.core
        cuda.core.Device, cuda.core.launch, cuda.core.Stream
        heavy = {"numpy", "typing", "dataclasses", "asyncio", "ctypes", "cuda.bindings.driver"} & (set(sys.modules) - before)
        assert not heavy, heavy
    """
    done = run(code, CUCORE_DEVICE="nonsense")
    assert done.returncode == 0, done.stderr


def test_every_public_name_exists():
    assert all(hasattr(cuda.core, name) for name in cuda.core.__all__)
    assert set(cuda.core.__all__) <= set(dir(cuda.core))


def test_errors_keep_their_code_and_pickle():
    error = CUDAError("CUDA_ERROR_X: text", 700, "CUDA_ERROR_X", "cuLaunchKernel", "kernel k")
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.code, again.name) == (str(error), 700, "CUDA_ERROR_X")
    assert (again.call, again.object) == ("cuLaunchKernel", "kernel k")
    assert (CUDAError("text").call, CUDAError("text").object) == (None, None)
    assert issubclass(NVRTCError, CUDAError)


def test_an_unknown_device_choice_is_an_error_that_names_the_variable():
    done = run("from cuda.core import Device; Device()", CUCORE_DEVICE="abacus")
    assert done.returncode == 1 and "CUCORE_DEVICE=abacus" in done.stderr


def test_package_works_without_numpy():
    code = """
        import sys
        sys.modules["numpy"] = None
        import ctypes
        from cuda.core import Device, LaunchConfig, Program, ProgramOptions, launch
        device = Device()
        device.set_current()
        stream = device.create_stream()
        source = 'extern "C" __global__ void f(int* p, int n) { p[threadIdx.x] = n; }'
        kernel = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("ptx").get_kernel("f")
        buffer = device.allocate(16, stream=stream)
        launch(stream, LaunchConfig(grid=1, block=4), kernel, buffer, ctypes.c_int(7))
        back = (ctypes.c_int * 4)()
        buffer.copy_to(back, stream=stream)
        assert list(back) == [7] * 4
    """
    done = run(code)
    assert done.returncode == 0, done.stderr


def test_exit_with_live_objects_is_silent():
    code = """
        from cuda.core import Device, LaunchConfig, PinnedMemoryResource
        import threading
        device = Device()
        device.set_current()
        stream = device.create_stream()
        buffer = device.allocate(1 << 20, stream=stream)
        buffer.fill(1, stream=stream)
        event = stream.record()
        builder = stream.create_graph_builder()
        pinned = PinnedMemoryResource().allocate(64, stream=stream)
        cycle = [buffer]; cycle.append(cycle)
        kept = []
        def work():
            Device(0).set_current()
            kept.append(Device(0).create_stream())
        thread = threading.Thread(target=work); thread.start(); thread.join()
    """
    done = run(code)
    assert done.returncode == 0 and done.stderr == "", done.stderr


@pytest.mark.parametrize("wait", ["stream.sync()", "device.sync()", "_core.sync_device_by_thread(device)"])
def test_ctrl_c_interrupts_sync(wait):
    code = """
        import os, signal, threading, time
        from cuda.core import Device, LaunchConfig, LegacyPinnedMemoryResource, Program, ProgramOptions, _core, launch
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs start with it ignored
        device = Device()
        device.set_current()
        stream = device.create_stream()
        source = 'extern "C" __global__ void spin(volatile int* flag) { while (*flag == 0) {} }'
        kernel = Program(source, "c++", ProgramOptions(arch=f"sm_{device.arch}")).compile("cubin").get_kernel("spin")
        flag = LegacyPinnedMemoryResource().allocate(4)
        memoryview(flag)[:] = bytes(4)
        launch(stream, LaunchConfig(grid=1, block=1), kernel, flag)
        pressed = []
        def press():
            time.sleep(0.5)
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)
        threading.Thread(target=press).start()
        try:
            WAIT
        except KeyboardInterrupt:
            print("out after", time.monotonic() - pressed[0])
        memoryview(flag)[:] = b"\\1\\0\\0\\0"
        stream.sync()
        print("and usable")
    """
    done = run(code.replace("WAIT", wait))
    assert "out after" in done.stdout and "and usable" in done.stdout, done.stdout + done.stderr


def test_unpickling_needs_no_driver(tmp_path):
    from cuda.core import EventOptions, LaunchConfig, LinkerOptions, Program, ProgramOptions, StreamOptions

    code = Program('extern "C" __global__ void f(int* p) {}', "c++", ProgramOptions(arch="sm_90")).compile("ptx")
    things = [
        code, LaunchConfig(grid=2, block=(3, 4)), ProgramOptions(arch="sm_90", define_macro="A=1"), StreamOptions(priority=-1),
        EventOptions(timing_enabled=True), LinkerOptions(arch="sm_90"), CUDAError("text", 700, "CUDA_ERROR_X"), NVRTCError("log", 6, "X"),
    ]  # fmt: skip
    file = tmp_path / "things"
    file.write_bytes(pickle.dumps(things))
    reader = f"""
        import pickle
        things = pickle.load(open({str(file)!r}, "rb"))
        print([type(thing).__name__ for thing in things])
        assert things[1].block == (3, 4, 1) and things[6].code == 700
    """
    done = run(reader, CUCORE_DEVICE="nonsense")
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("Options") == 4


def test_opengl_interop_without_a_context_raises():
    from cuda.core import Device, GraphicsResource

    Device(0).set_current()
    with pytest.raises(ValueError, match="unknown flag 'sideways'"):
        GraphicsResource.from_gl_buffer(1, flags="sideways")
    with pytest.raises(CUDAError, match="make the window's context current") as caught:
        GraphicsResource.from_gl_buffer(1)
    assert caught.value.code != 0


def test_host_buffers_need_no_driver():
    """A Python memory resource for host memory works without a driver."""
    code = """
        import ctypes
        from cuda.core import Buffer, Device, MemoryResource

        class Host(MemoryResource):
            kept = {}
            is_device_accessible, is_host_accessible, device_id = False, True, -1

            def allocate(self, size, *, stream=None):
                memory = (ctypes.c_char * size)()
                self.kept[ctypes.addressof(memory)] = memory
                return Buffer.from_handle(ctypes.addressof(memory), size, self)

            def deallocate(self, pointer, size, *, stream=None):
                del self.kept[int(pointer)]

        buffer = Host().allocate(8)
        memoryview(buffer)[:4] = b"host"
        print(bytes(memoryview(buffer)[:4]), buffer.size, buffer.is_host_accessible, repr(buffer) != "")
        buffer.close()
        print(Host.kept)
        try:
            Device(0).set_current()
        except Exception as error:
            print("no driver:", "/no/such/driver.so" in str(error))
    """
    done = run(code, CUCORE_DEVICE="cpu", CUCORE_CPU_LIBRARY="/no/such/driver.so")
    assert done.stdout.split("\n")[:3] == ["b'host' 8 True True", "{}", "no driver: True"], done.stdout + done.stderr
