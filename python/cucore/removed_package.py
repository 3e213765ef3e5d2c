# SPDX-License-Identifier: Apache-2.0
"""Installed as cuda/core.py, cuda/bindings.py and cuda/pathfinder.py beside the packages of these names.

Python prefers a folder with `__init__.py` to a module, and a module to a folder without. So this is imported only where
uninstalling NVIDIA's package has removed our `__init__.py` along with theirs.
"""

from cucore.mixed import fail

fail(__name__)
