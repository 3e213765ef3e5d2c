# SPDX-License-Identifier: Apache-2.0
"""Memory exported as a file descriptor: no process can truncate it."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cuda.bindings import driver as d
from cuda.core import CUDAError, DeviceMemoryResource
from cuda.core._ipc import IPCAllocationHandle

pytestmark = pytest.mark.cpu_only
DESCRIPTOR = d.CUmemAllocationHandleType.CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR


def exported_memory(check: Any) -> int:
    prop = d.CUmemAllocationProp()
    prop.type = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED
    prop.location.type, prop.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    prop.requestedHandleTypes = DESCRIPTOR
    return int(check(d.cuMemExportToShareableHandle(check(d.cuMemCreate(2 << 20, prop, 0)), DESCRIPTOR, 0)))


def exported_pool(check: Any) -> int:
    props = d.CUmemPoolProps()
    props.allocType, props.handleTypes = d.CUmemAllocationType.CU_MEM_ALLOCATION_TYPE_PINNED, DESCRIPTOR
    props.location.type, props.location.id = d.CUmemLocationType.CU_MEM_LOCATION_TYPE_DEVICE, 0
    pool = check(d.cuMemPoolCreate(props))
    check(d.cuMemAllocFromPoolAsync(1 << 20, pool, 0))
    return int(check(d.cuMemPoolExportToShareableHandle(pool, DESCRIPTOR, 0)))


@pytest.mark.parametrize("export", [exported_memory, exported_pool])
def test_exported_file_cannot_be_truncated(context: Any, check: Any, export: Any) -> None:
    descriptor = export(check)
    size = os.fstat(descriptor).st_size
    assert size >= 1 << 20
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    assert os.fstat(descriptor).st_size == size
    os.close(descriptor)


def made_file(how: str, check: Any) -> int:
    if how == "memory":
        return exported_memory(check)
    file = os.memfd_create("cucore-pool" if how == "a name" else "other")
    os.ftruncate(file, 0 if how == "empty" else 4 << 20)
    return file


@pytest.mark.parametrize("how", ["memfd", "empty", "a name", "memory"])
def test_import_of_a_file_that_is_not_a_pool_returns_an_error(check, how):
    file = made_file(how, check)
    assert d.cuMemPoolImportFromShareableHandle(file, DESCRIPTOR, 0)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
    os.close(file)


def test_cuda_core_import_of_a_file_that_is_not_a_pool_raises(check):
    file = os.memfd_create("other")
    handle = IPCAllocationHandle._make(os.dup(file), None)
    with pytest.raises(CUDAError, match=r"file descriptor \d+ is not the handle of a memory pool"):
        DeviceMemoryResource.from_allocation_handle(0, handle)
    os.close(file)


def test_exported_pool_is_imported(check):
    file = exported_pool(check)
    assert check(d.cuMemPoolImportFromShareableHandle(file, DESCRIPTOR, 0))
    os.close(file)


@pytest.mark.parametrize("size", [1 << 44, 1 << 47, 1 << 62, 2**64 - (2 << 20)], ids=hex)
def test_reservation_larger_than_the_address_space_is_out_of_memory(check, size):
    assert d.cuMemAddressReserve(size, 0, 0, 0)[0] == d.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert d.cuMemAddressReserve(size + 1 if size < 2**63 else 1, 0, 0, 0)[0] == d.CUresult.CUDA_ERROR_INVALID_VALUE
