"""Twenty and more other kernels. Source: bench/cpp/kernels/more.cu, native side: more.cpp."""

from __future__ import annotations

PRESENT: dict[str, str] = {}
