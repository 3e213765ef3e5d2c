# SPDX-License-Identifier: Apache-2.0
"""Functions of the bindings: docstrings, signatures, arguments and results."""

from __future__ import annotations

import inspect
import pickle
import pydoc
import subprocess
import sys

import pytest
from cuda.bindings import driver, nvrtc, runtime
from cuda.bindings.driver import raising


def test_docstring_has_the_c_signature_and_parameter_roles() -> None:
    text = pydoc.render_doc(driver.cuLaunchKernel, renderer=pydoc.plaintext)
    assert "CUresult cuLaunchKernel(CUfunction f, unsigned int gridDimX" in text
    assert "kernelParams: address, buffer of addresses, or (values, ctypes types)" in text


def test_signatures_have_the_documented_names() -> None:
    assert str(inspect.signature(driver.cuGraphGetEdges)) == "(hGraph, numEdges=0)"
    assert list(inspect.signature(driver.cuLinkAddData).parameters)[:2] == ["state", "typename"]


def test_functions_pickle_by_name() -> None:
    assert pickle.loads(pickle.dumps(driver.cuInit)).__name__ == "cuInit"
    again = pickle.loads(pickle.dumps(raising.cuDeviceGetCount))
    assert again is raising.cuDeviceGetCount


def test_kept_results_are_not_overwritten(device: object) -> None:
    wanted = driver.CUdevice_attribute
    kept = [driver.cuDeviceGetAttribute(wanted(number), 0) for number in (1, 10, 1)]  # block size, warp size
    assert kept[0] == kept[2] != kept[1] and kept[1] == (0, 32)
    assert len({id(result) for result in kept}) == 3
    first = hash(driver.cuDeviceGetAttribute(wanted(10), 0))  # freed: the next call may reuse its memory
    second = hash(driver.cuDeviceGetAttribute(wanted(1), 0))
    assert (first, second) == (hash((0, 32)), hash(kept[0]))


def test_integers_outside_their_type_raise(context: object) -> None:
    code, memory = driver.cuMemAlloc(16)
    assert code == 0
    assert driver.cuMemsetD8(memory, 255, 16)[0] == 0
    with pytest.raises(OverflowError, match="uc"):
        driver.cuMemsetD8(memory, 256, 16)
    with pytest.raises(OverflowError):
        driver.cuMemsetD8(memory, -1, 16)
    assert driver.cuMemsetD32(memory, 2**32 - 1, 4)[0] == 0
    with pytest.raises(OverflowError):
        driver.cuMemsetD32(memory, 2**32, 4)
    back = bytearray(16)
    assert driver.cuMemcpyDtoH(back, memory, 16)[0] == 0 and back == b"\xff" * 16
    assert driver.cuMemFree(2**64 - 1)[0] != 0  # an arbitrary address
    assert driver.cuMemFree(memory)[0] == 0


def test_keyword_arguments_work_and_wrong_ones_raise(device: object) -> None:
    assert driver.cuDeviceGet(ordinal=0)[0] == 0
    with pytest.raises(TypeError, match="missing required argument 'bytesize'"):
        driver.cuMemAlloc()
    with pytest.raises(TypeError, match="takes 1 arguments"):
        driver.cuMemAlloc(1, 2)
    with pytest.raises(TypeError, match="unexpected keyword argument 'size'"):
        driver.cuMemAlloc(size=1)
    with pytest.raises(TypeError, match="multiple values"):
        driver.cuMemAlloc(1, bytesize=1)


def test_error_is_returned_with_none_for_values(device: object) -> None:
    assert driver.cuDeviceGet(9999) == (driver.CUresult.CUDA_ERROR_INVALID_DEVICE, None)
    assert driver.cuDeviceGetName(256, 9999) == (driver.CUresult.CUDA_ERROR_INVALID_DEVICE, None)


@pytest.mark.parametrize("size", [-1, 1 << 64])
def test_size_out_of_range_raises_an_error_that_names_the_parameter(size: int) -> None:
    with pytest.raises(OverflowError, match=r"cuMemAlloc\(\): bytesize must be between 0 and"):
        driver.cuMemAlloc(size)


@pytest.mark.parametrize("size", ["16", float("nan"), None, [16]])
def test_size_of_the_wrong_type_raises_an_error_that_names_the_parameter(size: object) -> None:
    with pytest.raises(TypeError, match=r"cuMemAlloc\(\): bytesize must be an integer"):
        driver.cuMemAlloc(size)


def test_size_accepts_any_integer_type(context: object) -> None:
    numpy = pytest.importorskip("numpy")
    for size in (numpy.uint32(64), numpy.array(64), 64.0):
        code, pointer = driver.cuMemAlloc(size)
        assert code == 0
        assert driver.cuMemFree(pointer) == (0,)


def test_a_context_is_created_with_two_arguments_or_three(device: object) -> None:
    for arguments in ((0, device), (None, 0, device)):
        code, context = driver.cuCtxCreate(*arguments)
        assert code == 0
        assert driver.cuCtxDestroy(context) == (0,)


def test_the_raising_style_raises_and_returns_bare_values(context: object) -> None:
    assert raising.cuDeviceGetCount() >= 1
    free, total = raising.cuMemGetInfo()
    assert 0 < free <= total
    with pytest.raises(raising.CUDABindingsError, match=r"cuMemFree: CUDA_ERROR_INVALID_VALUE \(1\)") as caught:
        raising.cuMemFree(3)
    assert caught.value.code is driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert pickle.loads(pickle.dumps(caught.value)).code is caught.value.code


def test_list_shorter_than_its_count_raises() -> None:
    with pytest.raises(ValueError, match="options has 1 elements, but numOptions is 2"):
        nvrtc.nvrtcCompileProgram(0, 2, [b"-G"])


def test_every_name_of_a_module_can_be_accessed() -> None:
    for module in (driver, runtime, nvrtc):
        for name in module.__all__:
            assert getattr(module, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'cuNothing'"):
        _ = driver.cuNothing


def test_import_creates_no_class_and_loads_no_library() -> None:
    code = (
        "import sys; from cuda.bindings import driver, runtime, nvrtc;"
        "assert not [n for n in vars(driver) if n.startswith('CU')];"
        "assert 'numpy' not in sys.modules and 'typing' not in sys.modules and 'enum' not in sys.modules;"
        "print(open('/proc/self/maps').read().count('libcucore_cpu') + open('/proc/self/maps').read().count('nvrtc.so'))"
    )
    done = subprocess.run([sys.executable, "-S", "-c", _with_path(code)], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "0"


def _with_path(code: str) -> str:
    return f"import sys; sys.path[:0] = {[p for p in sys.path if p]!r}; " + code
