# SPDX-License-Identifier: Apache-2.0
"""The functions of `cuda.bindings.driver`, which raise exceptions for errors and return bare values."""

from __future__ import annotations

from cuda.bindings import _errors, _lazy

CUDABindingsError = _errors.CUDABindingsError
_missing, __dir__ = _lazy.lazy(__name__, "cuda.bindings.driver", raising=True)
