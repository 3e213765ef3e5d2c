"""Memory that goes to other processes as a file descriptor: none of them can take it away from under the others."""

from __future__ import annotations

import os
from typing import Any

import pytest
from cuda.bindings import driver as d

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
def test_a_shared_file_cannot_be_cut_off(context: Any, check: Any, export: Any) -> None:
    descriptor = export(check)
    size = os.fstat(descriptor).st_size
    assert size >= 1 << 20
    with pytest.raises(PermissionError):
        os.ftruncate(descriptor, 0)
    assert os.fstat(descriptor).st_size == size
    os.close(descriptor)
