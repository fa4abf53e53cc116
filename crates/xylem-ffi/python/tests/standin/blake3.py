"""Answers to `import blake3`, for running the test suite of the package of that name on ours."""

from xylem_blake3 import *
from xylem_blake3 import __version__ as __version__
