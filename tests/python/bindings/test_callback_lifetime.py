# SPDX-License-Identifier: Apache-2.0
"""Python callables are kept alive as long as the library may call them, and freed afterwards."""

from __future__ import annotations

import gc
import time
import weakref
from typing import Any

import pytest
from cuda.bindings import driver, runtime


class Watched:
    """A callable that records its calls, and a weak reference to it."""

    def __init__(self, seen: list[Any] | None = None) -> None:
        self.seen = seen

    def __call__(self, data: Any = None) -> None:
        if self.seen is not None:
            self.seen.append(data)


def gone(reference: Any) -> bool:
    for _ in range(200):
        if reference() is None:
            return True
        gc.collect()
        time.sleep(0.01)
    return False


def host_params(callback: Any, data: Any = None) -> Any:
    params = driver.CUDA_HOST_NODE_PARAMS()
    params.fn = callback
    params.userData = data
    return params


def test_struct_keeps_its_callable_until_it_is_replaced_or_destroyed() -> None:
    callback = Watched()
    reference = weakref.ref(callback)
    params = host_params(callback)
    del callback
    gc.collect()
    assert reference() is not None
    params.fn = None
    assert reference() is None
    callback = Watched()
    reference = weakref.ref(callback)
    params = host_params(callback)
    del callback, params
    assert gone(reference)


def test_graph_and_executables_keep_the_callables_of_their_nodes(stream: Any, check: Any) -> None:
    seen: list[Any] = []
    callback = Watched(seen)
    reference = weakref.ref(callback)
    graph = check(driver.cuGraphCreate(0))
    check(driver.cuGraphAddHostNode(graph, None, 0, host_params(callback, "data")))
    del callback
    executable = check(driver.cuGraphInstantiate(graph, 0))
    check(driver.cuGraphDestroy(graph))
    gc.collect()
    assert reference() is not None
    check(driver.cuGraphLaunch(executable, stream))
    check(driver.cuGraphLaunch(executable, stream))
    check(driver.cuStreamSynchronize(stream))
    assert seen == ["data", "data"]
    check(driver.cuGraphExecDestroy(executable))
    assert gone(reference)


def test_callable_of_a_nested_struct_is_kept_by_the_graph(stream: Any, check: Any) -> None:
    callback = Watched()
    reference = weakref.ref(callback)
    graph = check(driver.cuGraphCreate(0))
    params = driver.CUgraphNodeParams()
    params.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_HOST
    params.host.fn = callback
    check(driver.cuGraphAddNode(graph, None, None, 0, params))
    del callback, params
    gc.collect()
    assert reference() is not None
    check(driver.cuGraphDestroy(graph))
    assert gone(reference)


def test_captured_host_function_is_destroyed_with_its_graph(stream: Any, check: Any) -> None:
    seen: list[Any] = []
    callback = Watched(seen)
    reference = weakref.ref(callback)
    check(driver.cuStreamBeginCapture(stream, driver.CUstreamCaptureMode.CU_STREAM_CAPTURE_MODE_RELAXED))
    check(driver.cuLaunchHostFunc(stream, callback, 5))
    graph = check(driver.cuStreamEndCapture(stream))
    del callback
    executable = check(driver.cuGraphInstantiate(graph, 0))
    check(driver.cuGraphDestroy(graph))
    for _ in range(3):
        check(driver.cuGraphLaunch(executable, stream))
    check(driver.cuStreamSynchronize(stream))
    assert seen == [5, 5, 5]
    check(driver.cuGraphExecDestroy(executable))
    assert gone(reference)


def test_callable_set_in_an_executable_graph_is_destroyed_with_it(stream: Any, check: Any) -> None:
    seen: list[Any] = []
    first, second = Watched(seen), Watched(seen)
    references = [weakref.ref(first), weakref.ref(second)]
    graph = check(driver.cuGraphCreate(0))
    node = check(driver.cuGraphAddHostNode(graph, None, 0, host_params(first, 1)))
    executable = check(driver.cuGraphInstantiate(graph, 0))
    check(driver.cuGraphExecHostNodeSetParams(executable, node, host_params(second, 2)))
    check(driver.cuGraphDestroy(graph))
    del first, second
    gc.collect()
    assert references[1]() is not None
    for _ in range(3):
        check(driver.cuGraphLaunch(executable, stream))
    check(driver.cuGraphExecDestroy(executable))  # the launches may still run
    check(driver.cuStreamSynchronize(stream))
    assert seen == [2, 2, 2]
    assert all(gone(reference) for reference in references)


def test_runtime_frees_callables_with_its_executable_graphs(stream: Any, check: Any) -> None:
    callback = Watched()
    reference = weakref.ref(callback)
    graph = check(runtime.cudaGraphCreate(0))
    params = runtime.cudaHostNodeParams()
    params.fn = Watched()
    node = check(runtime.cudaGraphAddHostNode(graph, None, 0, params))
    executable = check(runtime.cudaGraphInstantiate(graph, 0))
    params.fn = callback
    check(runtime.cudaGraphExecHostNodeSetParams(executable, node, params))
    del callback, params
    gc.collect()
    assert reference() is not None
    check(runtime.cudaGraphExecDestroy(executable))
    check(runtime.cudaGraphDestroy(graph))
    assert gone(reference)


@pytest.mark.parametrize(
    ("register", "unregister"),
    [
        (driver.cuLogsRegisterCallback, driver.cuLogsUnregisterCallback),
        (runtime.cudaLogsRegisterCallback, runtime.cudaLogsUnregisterCallback),
    ],
)
def test_log_callback_is_freed_when_it_is_unregistered(
    context: Any, check: Any, register: Any, unregister: Any
) -> None:
    callback = Watched()
    reference = weakref.ref(callback)
    handle = check(register(callback, "data"))
    del callback
    gc.collect()
    assert reference() is not None
    check(unregister(handle))
    assert gone(reference)


def test_host_function_of_a_stream_is_freed_after_it_has_run(stream: Any, check: Any) -> None:
    callback = Watched()
    reference = weakref.ref(callback)
    check(driver.cuLaunchHostFunc(stream, callback, None))
    del callback
    check(driver.cuStreamSynchronize(stream))
    assert gone(reference)


def test_user_object_destructor_is_freed_after_it_has_run(context: Any, check: Any) -> None:
    seen: list[Any] = []
    callback = Watched(seen)
    reference = weakref.ref(callback)
    user_object = check(driver.cuUserObjectCreate("data", callback, 1, 1))
    del callback
    assert reference() is not None
    check(driver.cuUserObjectRelease(user_object, 1))
    assert gone(reference)
    assert seen == ["data"]


def test_runtime_host_function_is_freed_after_it_has_run(stream: Any, check: Any) -> None:
    seen: list[Any] = []
    callback = Watched(seen)
    reference = weakref.ref(callback)
    graph = check(runtime.cudaGraphCreate(0))
    params = runtime.cudaHostNodeParams()
    params.fn = callback
    params.userData = 1
    node = check(runtime.cudaGraphAddHostNode(graph, None, 0, params))
    other = Watched(seen)
    params.fn = other
    params.userData = 2
    check(runtime.cudaGraphHostNodeSetParams(node, params))
    del callback, other, params
    executable = check(runtime.cudaGraphInstantiate(graph, 0))
    check(runtime.cudaGraphLaunch(executable, stream))
    check(runtime.cudaStreamSynchronize(stream))
    assert seen == [2]
    check(runtime.cudaGraphExecDestroy(executable))
    check(runtime.cudaGraphDestroy(graph))
    assert gone(reference)


@pytest.mark.parametrize("wrong", ["text", 1.5, object()])
def test_callback_that_is_not_callable_raises(wrong: Any) -> None:
    with pytest.raises(TypeError, match="fn must be a callable"):
        driver.CUDA_HOST_NODE_PARAMS().fn = wrong
