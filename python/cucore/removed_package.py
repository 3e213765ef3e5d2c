# SPDX-License-Identifier: Apache-2.0
"""Installed as cuda/core.py, cuda/bindings.py and cuda/pathfinder.py beside the packages of these names.

Python prefers a directory with `__init__.py` to a module, and a module to a directory without. This module is therefore
imported only if the removal of NVIDIA's package has also removed our `__init__.py`.
"""

from cucore.mixed import fail

fail(__name__)
