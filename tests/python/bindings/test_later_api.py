# SPDX-License-Identifier: Apache-2.0
"""Names of CUDA 13.5, known from its documentation: structs can be filled, and an older library says what it lacks."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest
from cuda.bindings import driver, nvml, runtime
from cuda.bindings._internal.utils import FunctionNotFoundError


def test_a_batch_of_copies_has_its_count_from_its_lists() -> None:
    params = driver.CUDA_MEMCPY_BATCH_NODE_PARAMS()
    params.set_dsts_srcs([1, 2, 3], [4, 5, 6])
    params.sizes = [10, 20, 30]
    attributes = driver.CUmemcpyAttributes()
    params.attrs, params.attrsIdxs = [attributes], [0]
    assert (params.count, params.numAttrs) == (3, 1)
    assert [int(p) for p in params.dsts] == [1, 2, 3] and [int(p) for p in params.srcs] == [4, 5, 6]
    assert params.sizes == [10, 20, 30]
    with pytest.raises(ValueError, match="2 destinations, but 1 sources"):
        params.set_dsts_srcs([1, 2], [3])
    mine = runtime.cudaMemcpyBatchNodeParams()
    mine.dsts, mine.srcs, mine.sizes = [7, 8], [9, 10], [1, 1]
    assert (mine.count, mine.dsts, mine.srcs) == (2, [7, 8], [9, 10])


def test_a_node_takes_the_parameters_of_the_new_kinds() -> None:
    node = driver.CUgraphNodeParams()
    node.type = driver.CUgraphNodeType.CU_GRAPH_NODE_TYPE_MEMCPY_BATCH
    node.memcpyBatch.set_dsts_srcs([1], [2])
    assert node.memcpyBatch.count == 1
    operation = driver.CUDA_FABRIC_COPY_BATCH_OP()
    operation.src.type = driver.CUfabricCpyOperandType.CU_FABRIC_COPY_OPERAND_TYPE_LOGICAL_ENDPOINT
    operation.src.op.le.id, operation.src.op.le.offset = 5, 64
    operation.dst.op.ptr.ptr, operation.size = 4096, 128
    node.fabricCpyBatch.opList = [operation]
    assert node.fabricCpyBatch.numOps == 1
    assert int(node.fabricCpyBatch.opList[0].src.op.le.offset) == 64
    assert runtime.cudaGraphNodeParams().memcpyBatch.count == 0


def test_sizes_are_those_of_the_documented_structs() -> None:
    assert driver.sizeof(driver.CUDA_FABRIC_COPY_BATCH_OP) == 64
    assert driver.sizeof(driver.CUDA_MEMCPY_BATCH_NODE_PARAMS) == 64
    assert driver.sizeof(driver.CUgraphNodeParams) == 256
    numpy = pytest.importorskip("numpy")
    assert nvml.nvlink_lock_remap_table_v1_dtype == numpy.dtype(
        [("b_remap_table_locked", "u1"), ("b_remap_table_lock_disabled", "u1")]
    )
    assert nvml.gpu_uptime_v1_dtype.itemsize == 4


@pytest.mark.parametrize(
    "call",
    [
        lambda: driver.cuFabricCpyBatchAsync(0, [], 0, 0),
        lambda: driver.cuTensorMapSetAllocationClass(
            driver.CUtensorMap(), driver.CUtensorMapAllocClass.CU_TENSOR_MAP_ALLOC_CLASS_AUTO
        ),
        lambda: nvml.device_get_gpu_uptime_v1(0),
        lambda: nvml.device_get_nvlink_info_v3(0),
        lambda: nvml.device_get_nvlink_nvle_private_info_v1(0),
        lambda: nvml.device_get_nvlink_remap_table_info_v1(0),
        lambda: nvml.device_lock_nvlink_remap_table_v1(0, nvml.NvlinkLockRemapTable_v1().ptr),
        lambda: nvml.device_set_nvlink_nvle_ready_v1(0, nvml.NvlinkSetNvleReady_v1().ptr),
        lambda: nvml.device_setup_nvlink_nvle_encryption_key_v1(0, nvml.NvlinkSetupNvleEncryptionKey_v1().ptr),
        nvml.system_get_conf_compute_settings_v2,
    ],
)
def test_a_library_without_the_function_says_so(context: Any, call: Any) -> None:
    try:
        call()
    except FunctionNotFoundError as error:
        assert "not found" in str(error)
    except nvml.NvmlError:
        pass  # a library that has it


def test_later_structs_of_nvml_have_their_fields() -> None:
    key = nvml.NvlinkSetupNvleEncryptionKey_v1()
    key.nvle_key, key.local_gpu_alid = b"k" * 32, 7
    key.local_gpu_nvle_private_info.data_ = b"opaque"
    assert key.nvle_key == b"k" * 32 and key.local_gpu_nvle_private_info.data_ == b"opaque"
    assert ctypes.c_uint32.from_address(key.ptr + 40 + 256).value == 6
    settings = nvml.SystemConfComputeSettings_v2()
    assert settings.version >> 24 == 2 and settings.tdisp_state == 0
    assert len(nvml.NvlinkGetRemapTableInfo_v1().fla_remap_tab_addr) == 4096
    assert nvml.NvLinkInfo_v3().is_nvle_ready == 0
