# SPDX-License-Identifier: Apache-2.0
"""Makes codegen and the comparison importable for the tests of this folder."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
