# SPDX-License-Identifier: Apache-2.0
"""The older name of cuda.core.utils: the same objects."""

from cuda.core.utils import *  # noqa: F403
from cuda.core.utils import __all__ as __all__
