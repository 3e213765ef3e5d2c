# SPDX-License-Identifier: Apache-2.0
"""cuda.bindings.cudla: structs and enums everywhere; functions against a library made of Python functions."""

from __future__ import annotations

import ctypes
import pickle
from typing import Any

import pytest
from cuda.bindings import cudla


def test_structs_have_the_layout_of_the_library() -> None:
    sizes = {
        cudla.DevAttribute: 4, cudla.ExternalMemoryHandleDesc: 16, cudla.ExternalSemaphoreHandleDesc: 8, cudla.Fence: 16,
        cudla.ModuleAttribute: 8, cudla.ModuleTensorDescriptor: 168, cudla.SignalEvents: 24, cudla.WaitEvents: 16,
        cudla.Task: 48,
    }  # fmt: skip
    assert {cls: ctypes.sizeof(cls._c) for cls in sizes} == sizes


def test_lists_set_their_hidden_count_and_keep_what_they_point_to() -> None:
    fence = cudla.Fence()
    fence.fence, fence.type = 77, cudla.FenceType.FENCE
    events = cudla.WaitEvents()
    events.pre_fences = [fence, fence]
    task = cudla.Task()
    task.input_tensor, task.wait_events = [1, 2, 3], events
    del fence
    assert [(f.fence, f.type) for f in events.pre_fences] == [(77, 1), (77, 1)]
    assert task.input_tensor == [1, 2, 3] and task.output_tensor == []
    assert cudla.WaitEvents.from_ptr(task.wait_events).pre_fences[1].fence == 77
    events.pre_fences = []
    assert events.pre_fences == []


def test_structs_copy_compare_and_show_themselves() -> None:
    tensor = cudla.ModuleTensorDescriptor()
    tensor.name, tensor.n, tensor.stride = "image", 4, range(8)
    again = cudla.ModuleTensorDescriptor.from_buffer(bytes(tensor._data))
    assert again == tensor and again.name == "image" and again.stride[7] == 7 and int(again) == again.ptr
    assert "name : image" in repr(again)
    again.n = 5
    assert again != tensor
    with pytest.raises(ValueError, match="168"):
        cudla.ModuleTensorDescriptor.from_buffer(b"short")
    with pytest.raises(ValueError, match="null"):
        cudla.Task.from_ptr(0)


def test_dtypes_have_the_names_of_the_fields() -> None:
    pytest.importorskip("numpy")
    assert cudla.task_dtype.names[0] == "module_handle" and cudla.module_tensor_descriptor_dtype.itemsize == 168
    with pytest.raises(AttributeError):
        cudla.nonsense_dtype  # noqa: B018


def test_errors_carry_their_status_and_pickle() -> None:
    with pytest.raises(cudla.CudlaError, match=r"ERROR_OS \(5\)") as caught:
        cudla.check_status(5)
    assert pickle.loads(pickle.dumps(caught.value)).status is cudla.Status.ERROR_OS


def test_functions_pass_arguments_and_results(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function against one that writes what it is told to."""
    seen: list[tuple[Any, ...]] = []

    def function(symbol: str, *types: Any) -> Any:
        def call(*arguments: Any) -> int:
            assert len(arguments) == len(types), symbol
            seen.append((symbol, *arguments))
            for argument in arguments:
                if hasattr(argument, "_obj"):  # byref: an output
                    argument._obj.value = 99
            return 1 if symbol == "cudlaGetLastError" else 0

        return call

    monkeypatch.setattr(cudla, "_function", function)
    assert cudla.get_version() == cudla.device_get_count() == cudla.create_device(0, cudla.Mode.STANDALONE) == 99
    assert cudla.mem_register(1, 2, 3, 0) == cudla.module_load_from_memory(1, b"code", 4, 0) == 99
    assert cudla.device_get_attribute(1, cudla.DevAttributeType.DEVICE_VERSION).device_version == 0
    assert cudla.module_get_attributes(1, cudla.ModuleAttributeType.NUM_INPUT_TENSORS).num_input_tensors == 0
    task = cudla.Task()
    cudla.submit_task(1, task, 1, None, 0)
    assert seen[-1] == ("cudlaSubmitTask", 1, task.ptr, 1, 0, 0)
    for call in (cudla.destroy_device, lambda h: cudla.mem_unregister(h, 2), lambda h: cudla.module_unload(h, 0),
                 lambda h: cudla.set_task_timeout_in_ms(h, 5)):  # fmt: skip
        call(1)
    with pytest.raises(cudla.CudlaError):
        cudla.get_last_error(1)


def test_without_the_library_the_error_says_where_it_was_looked_for() -> None:
    from cuda.pathfinder import DynamicLibNotFoundError

    try:
        cudla.get_version()
    except DynamicLibNotFoundError as error:
        assert "cudla" in str(error)
    except cudla.CudlaError:
        pass  # an embedded board
