"""Files by ticket: share them, get them, compare them, and read them where they are.

    with xylem.share("model.pt") as share:     # until the block ends
        print(share.ticket)
        share.wait()

    xylem.get(ticket, "model.pt")              # resumed if it was interrupted; proven piece by piece
    torch.load(xylem.open(ticket))             # fetches only what is read

Errors are :class:`Error`; its subclasses tell a wrong call from a failure of the network or of this machine. Ctrl-C ends a
call within a second. Warnings go to the logger ``xylem``. Keys, hash trees and fetched data are kept in the store of the
command: ``store=``, else ``$XYLEM_STORE``, else ``~/.local/share/xylem``.
"""

import json
import os
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Any, Literal, Self, cast

from . import _native
from ._errors import (
    Damage,
    DamagedError,
    Error,
    GpuError,
    LocalError,
    StoppedError,
    UnreachableError,
    UsageError,
    damaged,
)
from ._how import lan_may_be_asked, the_store, router_may_be_asked
from ._native import Fetched, Verified, __version__
from ._reading import File, Reader, open
from ._tensor import verify_tensor

__all__ = [
    "Damage",
    "DamagedError",
    "Error",
    "Fetched",
    "File",
    "GpuError",
    "LocalError",
    "Reader",
    "Share",
    "StoppedError",
    "Sync",
    "UnreachableError",
    "UsageError",
    "Verified",
    "__version__",
    "get",
    "open",
    "share",
    "sync",
    "verify",
    "verify_tensor",
]


class Share:
    """A publication that is served until it is closed, as at the end of a ``with`` block. :func:`share` makes it."""

    def __init__(self, native: _native.Share) -> None:
        self._native = native

    @property
    def ticket(self) -> str:
        """The ticket, ``xylem:...``. Anyone with it can fetch the publication."""
        return self._native.ticket

    @property
    def root(self) -> str:
        """The root: what ``xylem sum`` prints for the file, and ``xylem sum --tree`` for the directory."""
        return self._native.root

    @property
    def bytes(self) -> int:
        """Bytes of content."""
        return self._native.bytes

    @property
    def files(self) -> int:
        """Number of files."""
        return self._native.files

    @property
    def listen(self) -> list[str]:
        """The addresses at which it listens, ``HOST:PORT``."""
        return self._native.listen

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most for ``timeout`` seconds; return whether it has ended."""
        return self._native.wait(timeout)

    def close(self) -> None:
        """Stop serving. The ticket is valid again when the same path is shared from the same store."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def share(
    path: str | os.PathLike[str],
    *,
    store: str | os.PathLike[str] | None = None,
    listen: Iterable[str] = (),
    lan: bool | None = None,
    map: bool | None = None,
) -> Share:
    """Publish a file or a directory, and serve it until it is closed. The files stay where they are.

    ``listen`` gives addresses, ``HOST:PORT``; the default is the usual port or a free one on all interfaces.
    ``lan=False`` makes no announcement on the LAN, ``map=False`` asks no router to forward the port.
    """
    lan, map = lan_may_be_asked(lan), router_may_be_asked(map)
    return Share(_native.Share(path, the_store(store), list(listen), lan, map))


class Sync:
    """A folder that is kept in step until it is closed, as at the end of a ``with`` block. :func:`sync` makes it."""

    def __init__(self, native: _native.Sync) -> None:
        self._native = native

    @property
    def ticket(self) -> str:
        """The group's ticket, ``xylem-sync:...``. Anyone with it can join."""
        return self._native.ticket

    @property
    def name(self) -> str:
        """The name of this member in the group."""
        return self._native.name

    @property
    def key(self) -> str:
        """The key of this member in the group."""
        return self._native.key

    @property
    def in_step(self) -> bool:
        """Whether all connected members with the right to write have the same state."""
        return cast(bool, self.status()["step"] == "in_step")

    def status(self) -> dict[str, Any]:
        """What ``xylem sync DIR --status --json`` prints: members, what is missing and why, and under ``fetching`` the
        present fetch with ``done`` and ``total`` bytes."""
        return cast(dict[str, Any], json.loads(self._native.status()))

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it ends, at most for ``timeout`` seconds; return whether it has ended."""
        return self._native.wait(timeout)

    def close(self) -> None:
        """Keep the folder in step no more. Changes made meanwhile are noticed when it is kept in step again.

        If another thread waits, its :meth:`wait` returns when all has ended, and this call at once."""
        self._native.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def sync(
    folder: str | os.PathLike[str],
    ticket: str | None = None,
    *,
    name: str | None = None,
    store: str | os.PathLike[str] | None = None,
    listen: Iterable[str] = (),
    limit: int | None = None,
    lan: bool | None = None,
    map: bool | None = None,
) -> Sync:
    """Keep a folder in step among members, until it is closed: each gets every change.

    Without ``ticket`` a new group begins, or the folder's own group continues with the settings of its last run, also
    those of the command. ``name`` is this member's in the group, at first USER@HOST. ``limit`` bounds bytes fetched per second. The other keywords are those of :func:`share`.
    """
    if limit == 0:
        raise UsageError("limit is bytes a second, 1 or more; None for no limit")
    lan, map = lan_may_be_asked(lan), router_may_be_asked(map)
    return Sync(
        _native.Sync(folder, ticket, name, the_store(store), list(listen), lan, map, limit)
    )


def get(
    ticket: str,
    output: str | os.PathLike[str] | None = None,
    *,
    progress: Callable[[int, int], object] | None = None,
    existing: Literal["refuse", "overwrite", "rename"] = "refuse",
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
    limit: int | None = None,
    lan: bool | None = None,
) -> Fetched:
    """Fetch what a ticket names to ``output``, else into this directory; each piece is verified on arrival.

    The result gets its final name when it is complete; an interrupted call is resumed. ``progress`` is called with the
    numbers of verified bytes and of all bytes, up to ten times a second, and at the end. An exception that it
    raises ends the call.

    ``output`` is a path, or a directory that exists or ends in ``/``. ``existing`` determines what happens if something
    else has the name. ``peers``, ``HOST:PORT``, are asked instead of those in the ticket. The call gives up after
    ``timeout`` seconds without progress, and fetches at most ``limit`` bytes per second.
    """
    if limit == 0:
        raise UsageError("limit is bytes a second, 1 or more; None for no limit")
    return _native.get(
        ticket,
        output,
        existing,
        the_store(store),
        list(peers),
        timeout,
        limit,
        lan_may_be_asked(lan),
        progress,
    )


def verify(
    path: str | os.PathLike[str],
    ticket: str,
    *,
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
    allow_extra: bool = False,
) -> Verified:
    """Compare a file or a directory with a ticket.

    Raise :class:`DamagedError`, whose ``damage`` lists the places, if it differs, or if it has more files and
    ``allow_extra`` is false.
    """
    found, damage = _native.verify(path, ticket, the_store(store), list(peers), timeout, allow_extra)
    if damage:
        raise damaged(os.fspath(path), damage)
    return found
