# SPDX-License-Identifier: Apache-2.0
"""Fixtures: a current context, a stream and a result checker for tests of the driver through cuda.bindings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest


def checked(result: tuple[Any, ...]) -> Any:
    """Returns the values of a result tuple; an error code fails the test."""
    code, *values = result
    assert code == 0, f"{code!r}"
    if not values:
        return None
    return values[0] if len(values) == 1 else tuple(values)


@pytest.fixture(scope="session")
def check() -> Callable[[tuple[Any, ...]], Any]:
    return checked


@pytest.fixture(scope="module")
def context() -> Iterator[Any]:
    from cuda.bindings import driver

    checked(driver.cuInit(0))
    made = checked(driver.cuDevicePrimaryCtxRetain(0))
    checked(driver.cuCtxSetCurrent(made))
    yield made
    checked(driver.cuCtxSetCurrent(made))
    checked(driver.cuCtxSynchronize())
    checked(driver.cuDevicePrimaryCtxRelease(0))


@pytest.fixture
def stream(context: Any) -> Iterator[Any]:
    from cuda.bindings import driver

    made = checked(driver.cuStreamCreate(driver.CUstream_flags.CU_STREAM_NON_BLOCKING))
    yield made
    checked(driver.cuStreamDestroy(made))
