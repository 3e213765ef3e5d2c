# SPDX-License-Identifier: Apache-2.0
"""Makes codegen importable: it is a folder of scripts, not an installed package."""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "codegen"))
