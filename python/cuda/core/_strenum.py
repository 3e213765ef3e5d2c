# SPDX-License-Identifier: Apache-2.0
"""StrEnum for every Python this package supports."""

from __future__ import annotations

import sys

if sys.version_info >= (3, 11):
    from enum import StrEnum
else:
    from enum import Enum

    class StrEnum(str, Enum):
        """An enum whose members are strings and print as them."""

        __str__ = str.__str__
        __format__ = str.__format__


__all__ = ["StrEnum"]
