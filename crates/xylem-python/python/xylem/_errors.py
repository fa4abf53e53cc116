"""What can go wrong: a class for each exit status of the command ``xylem``, with its one line."""

from pathlib import Path
from typing import ClassVar, NamedTuple


class Damage(NamedTuple):
    """A place that is not what the ticket says."""

    path: Path
    """The file below the directory; empty for a single file."""
    start: int
    """The first bad byte."""
    end: int
    """The byte after the last bad one."""
    what: str
    """In words."""


class Error(OSError):
    """Something of xylem's; ``str()`` is one line: what, where, and how to mend it."""

    exit_code: ClassVar[int] = 4
    """What the command exits with."""


class DamagedError(Error):
    """Data did not verify."""

    exit_code = 1
    damage: tuple[Damage, ...] = ()
    """Where, if :func:`xylem.verify` has found out."""


class UsageError(Error, ValueError):
    """Wrong usage or bad input: a ticket that is none, a file that is not in it."""

    exit_code = 2


class UnreachableError(Error):
    """Nobody reachable has it, or time ran out. What was verified is kept: try again."""

    exit_code = 3


class LocalError(Error):
    """Local trouble: a full disk, a permission, a store in use."""

    exit_code = 4


class StoppedError(Error):
    """It was asked to stop by another thread."""

    exit_code = 130
