"""Exceptions: one class for each exit status of the command ``xylem``, with its message in one line."""

from collections.abc import Iterable
from pathlib import Path
from typing import ClassVar, NamedTuple


class Damage(NamedTuple):
    """A place that differs from what the ticket names."""

    path: Path
    """The file below the directory; empty for a single file."""
    start: int
    """The first bad byte."""
    end: int
    """The byte after the last bad one."""
    what: str
    """The kind of damage in words."""


class Error(OSError):
    """Any error of xylem. ``str()`` is one line: what happened, where, and how to mend it."""

    exit_code: ClassVar[int] = 4
    """The exit status of the command for this error."""


class DamagedError(Error):
    """Data did not verify."""

    exit_code = 1
    damage: tuple[Damage, ...] = ()
    """The damaged places, if :func:`xylem.verify` or :func:`xylem.verify_tensor` has found them."""


class UsageError(Error, ValueError):
    """Wrong usage or bad input, such as an invalid ticket or a file that the publication lacks."""

    exit_code = 2


class UnreachableError(Error):
    """No reachable peer has it, or time ran out. What was verified is kept, so a later call resumes."""

    exit_code = 3


class LocalError(Error):
    """A failure of this machine: a full disk, a permission, a store in use."""

    exit_code = 4


class GpuError(LocalError):
    """A GPU can't be used: there is no driver or no GPU, or the driver reports an error."""


class StoppedError(Error):
    """Another thread has asked the call to stop."""

    exit_code = 130


def damaged(what: str, damage: Iterable[tuple[Path, int, int, str]]) -> DamagedError:
    """Return the error for something that differs at these places."""
    places = tuple(Damage(*place) for place in damage)
    count = "1 place is" if len(places) == 1 else f"{len(places)} places are"
    error = DamagedError(f"{what}: {count} not what the ticket says")
    error.damage = places
    return error
