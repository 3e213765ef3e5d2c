# SPDX-License-Identifier: Apache-2.0
"""StrEnum for all supported Python versions."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """An enum whose members are strings; ``str()`` of a member is its value."""

        __str__ = str.__str__
        __format__ = str.__format__


__all__ = ["StrEnum"]
