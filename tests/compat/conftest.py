# SPDX-License-Identifier: Apache-2.0
"""Makes codegen and the comparison importable for the tests of this folder."""

import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent.parent / "codegen")]
