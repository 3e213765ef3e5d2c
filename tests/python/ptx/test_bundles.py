# SPDX-License-Identifier: Apache-2.0
"""Every instruction bundle of docs/design/ptx.md in a typical CUDA kernel: the PTX that NVRTC generates uses the bundle's
instruction families, and the kernel computes the right result."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from ptxsuite import bundles_scalar, bundles_special  # noqa: F401  each registers its bundles, in this order
from ptxsuite.bundle import BUNDLES, Bundle
from ptxsuite.nvrtc import skip_module_without_nvrtc
from ptxsuite.program import Program

skip_module_without_nvrtc()

ROOT = Path(__file__).resolve().parents[3]


@pytest.mark.parametrize("bundle", [pytest.param(b, id=b.name) for b in BUNDLES])
def test_bundle_uses_its_instructions_and_computes_the_result(bundle: Bundle) -> None:
    program = Program(bundle.source, *bundle.options, arch=bundle.arch)
    text = program.ptx.decode()
    families = re.findall(r"(?:[^|(]|\([^)]*\))+", bundle.uses)  # a family may contain alternatives in parentheses
    missing = [family for family in families if not re.search(family, text)]
    assert not missing, "NVRTC made no such instruction of this kernel"
    bundle.check(program)


def test_documentation_lists_every_bundle() -> None:
    text = (ROOT / "docs" / "design" / "ptx.md").read_text()
    listed = re.findall(r"^\| ([^|]+?) \| [\d.]+ %", text, re.M)
    assert [name for name in listed if not name.startswith("needs a device linker")] == [b.name for b in BUNDLES]
