# SPDX-License-Identifier: Apache-2.0
"""Enum classes of the bindings."""

from __future__ import annotations

import copy
import pickle
import re

import pytest
from cuda.bindings import driver, nvrtc


def test_enum_member_equals_its_number() -> None:
    member = driver.CUresult.CUDA_ERROR_INVALID_VALUE
    assert member == 1
    assert isinstance(member, int)
    assert (member.name, member.value) == ("CUDA_ERROR_INVALID_VALUE", 1)
    assert type(member.value) is int
    assert repr(member) == "<CUresult.CUDA_ERROR_INVALID_VALUE: 1>"


def test_enum_value_returns_its_member() -> None:
    assert driver.CUresult(2) is driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert driver.CUresult["CUDA_SUCCESS"] is driver.CUresult(0)
    assert 700 in driver.CUresult
    assert 123456 not in driver.CUresult


def test_object_equal_to_an_enum_value_returns_its_member() -> None:
    zero, two = driver.CUresult.CUDA_SUCCESS, driver.CUresult.CUDA_ERROR_OUT_OF_MEMORY
    assert driver.CUresult(two) is two and driver.CUresult(2.0) is two and driver.CUresult(value=2) is two
    assert driver.CUresult(False) is zero and driver.CUresult(*(2,)) is two
    assert list(map(driver.CUresult, (0, 2))) == [zero, two]
    assert driver.CUstreamAttrID(2) is driver.CUlaunchAttributeID(2)  # two names of one class


def test_unknown_enum_value_raises() -> None:
    for value in (123456, -1, 1 << 70, "2", None, []):
        with pytest.raises(ValueError, match=f"{re.escape(repr(value))} is not a valid CUresult"):
            driver.CUresult(value)
    with pytest.raises(TypeError):
        driver.CUresult()


def test_enum_aliases_are_one_member() -> None:
    assert (
        driver.CUdevice_P2PAttribute(4)
        is driver.CUdevice_P2PAttribute.CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED
    )
    names = driver.CUdevice_P2PAttribute.__members__
    assert names["CU_DEVICE_P2P_ATTRIBUTE_ACCESS_ACCESS_SUPPORTED"] is driver.CUdevice_P2PAttribute(4)


def test_enums_iterate_and_pickle() -> None:
    assert len(list(driver.CUlimit)) == len(driver.CUlimit)
    member = nvrtc.nvrtcResult.NVRTC_ERROR_COMPILATION
    assert pickle.loads(pickle.dumps(member)) is member
    assert copy.deepcopy(member) is member


def test_enum_members_are_read_only() -> None:
    with pytest.raises(AttributeError):
        driver.CUresult.CUDA_SUCCESS = 5
