# SPDX-License-Identifier: Apache-2.0
"""The older name of cuda.core._utils.cuda_utils: the same objects."""

from cuda.core._utils.cuda_utils import *  # noqa: F403
from cuda.core._utils.cuda_utils import __all__ as __all__
