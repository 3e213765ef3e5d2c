"""The older name of cuda.core: the same objects."""

from cuda.core import *  # noqa: F403
from cuda.core import __all__ as __all__
from cuda.core import checkpoint as checkpoint
from cuda.core import graph as graph
from cuda.core import system as system
from cuda.core import texture as texture
from cuda.core import typing as typing
from cuda.core import utils as utils
