# SPDX-License-Identifier: Apache-2.0
"""Private names of NVIDIA's cuda.core that released packages import, and the names that cuda.core.experimental had."""

import cuda.core
import pytest
from cuda.bindings import driver, nvrtc, runtime
from cuda.core import CUDAError, Device, EventOptions, NVRTCError
from cuda.core._utils import cuda_utils, version


def test_the_exceptions_and_modules_are_the_public_ones():
    assert cuda_utils.CUDAError is CUDAError and cuda_utils.NVRTCError is NVRTCError
    assert (cuda_utils.driver, cuda_utils.runtime, cuda_utils.nvrtc) == (driver, runtime, nvrtc)
    from cuda.core._memoryview import StridedMemoryView
    from cuda.core.experimental._utils.cuda_utils import CUDAError as older
    from cuda.core.experimental._utils.cuda_utils import handle_return

    assert StridedMemoryView is cuda.core.utils.StridedMemoryView
    assert older is CUDAError and handle_return is cuda_utils.handle_return


def test_handle_return_gives_none_a_value_or_a_tuple(device):
    ok = driver.CUresult.CUDA_SUCCESS
    assert cuda_utils.handle_return((ok,)) is None
    assert cuda_utils.handle_return((ok, 5)) == 5
    assert cuda_utils.handle_return((ok, 5, 6)) == (5, 6)
    assert cuda_utils.handle_return(driver.cuDeviceGetCount()) >= 1


def test_handle_return_raises_the_exception_of_the_library(device):
    with pytest.raises(CUDAError, match="CUDA_ERROR_INVALID_VALUE") as caught:
        cuda_utils.handle_return((driver.CUresult.CUDA_ERROR_INVALID_VALUE, None))
    assert caught.value.code == 1 and not isinstance(caught.value, NVRTCError)
    with pytest.raises(CUDAError, match="cudaErrorInvalidDevice") as caught:
        cuda_utils.handle_return((runtime.cudaError_t.cudaErrorInvalidDevice,))
    assert caught.value.name == "cudaErrorInvalidDevice"
    with pytest.raises(MemoryError):
        cuda_utils.handle_return((driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY, None))
    with pytest.raises(RuntimeError, match="no result code"):
        cuda_utils.handle_return((3,))


def test_handle_return_adds_the_log_of_a_program():
    error, program = nvrtc.nvrtcCreateProgram(b"nonsense", b"a.cu", 0, [], [])
    assert not error
    result = nvrtc.nvrtcCompileProgram(program, 0, [])
    with pytest.raises(NVRTCError, match="nonsense"):
        cuda_utils.handle_return(result, handle=program)
    with pytest.raises(NVRTCError, match="NVRTC_ERROR_COMPILATION"):
        cuda_utils.handle_return(result)
    nvrtc.nvrtcDestroyProgram(program)


def test_versions_are_tuples_of_three(device):
    assert version.binding_version()[:2] == (13, 5) and len(version.binding_version()) == 3
    assert len(version.driver_version()) == 3 and version.driver_version() >= (12, 0, 0)


def test_experimental_has_the_modules_of_its_time(device):
    import cuda.core.experimental.system
    import cuda.core.experimental.utils
    from cuda.core.experimental import Graph, GraphBuilder, GraphCompleteOptions, GraphDebugPrintOptions, system, utils
    from cuda.core.experimental.utils import StridedMemoryView, args_viewable_as_strided_memory

    assert GraphCompleteOptions is cuda.core.graph.GraphCompleteOptions and Graph is cuda.core.graph.Graph
    assert GraphBuilder is cuda.core.graph.GraphBuilder
    assert GraphDebugPrintOptions is cuda.core.graph.GraphDebugPrintOptions
    assert StridedMemoryView is cuda.core.utils.StridedMemoryView is utils.StridedMemoryView
    assert args_viewable_as_strided_memory is utils.args_viewable_as_strided_memory
    assert system.num_devices == len(system.devices) == len(Device.get_all_devices())
    assert system.driver_version[0] >= 12 and system.get_num_devices() >= 1
    assert "num_devices" in dir(system) and "utils" in dir(cuda.core.experimental)
    for module in (system, utils, cuda.core.experimental):
        with pytest.raises(AttributeError):
            module.nonsense  # noqa: B018


def test_busy_waited_sync_is_another_name_of_blocking_sync(device, stream):
    for value in (False, True):
        options = EventOptions(busy_waited_sync=value)
        assert options.blocking_sync is options.busy_waited_sync is value
        event = device.create_event(options)
        assert event.is_blocking_sync is event.is_sync_busy_waited is value
        event.close()
