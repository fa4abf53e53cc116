"""Replaces the package `blake3`, so that its test suite runs on our module."""

from xylem_blake3 import *
from xylem_blake3 import __version__ as __version__
