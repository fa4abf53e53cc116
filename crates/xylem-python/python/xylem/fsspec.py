"""Tickets for programs that read by URL through fsspec: ``xylem://TICKET/PATH``.

    pandas.read_csv("xylem://aebag…/2026/table.csv", storage_options={"timeout": 60})

``TICKET`` is a ticket without its ``xylem:``, as :func:`url` writes it. fsspec finds this module by its entry point, so
that a program imports nothing for it. Tickets are read-only: :func:`xylem.share` publishes.

A URL contains its ticket, and so do the paths that fsspec passes around (``info()["name"]``, ``ls()``, ``OpenFile``). The
messages of exceptions, and the texts and tokens of file systems and files, do not: they name the path below it.
"""

import ctypes
import errno
import os
import threading
import weakref
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import PurePath
from typing import Any, ClassVar, Literal, NamedTuple, NoReturn, TypedDict, TypeVar

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem  # type: ignore[import-untyped]
from fsspec.utils import stringify_path  # type: ignore[import-untyped]

from . import _native
from ._errors import UsageError
from ._how import lan_may_be_asked, the_store
from ._reading import BUFFER

__all__ = ["Options", "XylemFile", "XylemFileSystem", "url"]

SCHEME = "xylem:"
MAX_OPEN = 32
"""Publications that a file system keeps open. Each has a thread and sockets; the one used least recently is closed."""
READS_AT_ONCE = 8
"""Reads of one call of ``cat_ranges`` that wait for peers at the same time."""
OPTIONS_OF_FSSPEC = frozenset(
    {"asynchronous", "listings_expiry_time", "loop", "max_paths", "use_listings_cache"}
)
"""Options that fsspec passes to any file system. The content of a ticket never changes, so that they have no effect."""


class Options(TypedDict, total=False):
    """The ``storage_options``: what :func:`xylem.open` takes, with the same defaults."""

    store: str | os.PathLike[str] | None
    """Directory that keeps what was fetched."""
    peers: Sequence[str]
    """``HOST:PORT``, asked instead of the peers in the ticket."""
    timeout: float
    """Seconds without data after which a read fails."""
    lan: bool | None
    """Whether to search the LAN."""


def url(ticket: str, path: str | os.PathLike[str] = "") -> str:
    """Return the URL of a ticket, or of the file or directory at ``path`` below it."""
    inner = (path.as_posix() if isinstance(path, PurePath) else os.fspath(path)).strip("/")
    name = XylemFileSystem._strip_protocol(ticket)
    return f"{SCHEME}//{name}/{inner}" if inner else f"{SCHEME}//{name}"


class _Place(NamedTuple):
    """The two parts of a path of fsspec."""

    ticket: str
    inner: str


class _Key(NamedTuple):
    """What determines a reader. A forked process can't use a reader of its parent: the reader's thread is not there."""

    process: int
    ticket: str
    store: str | os.PathLike[str] | None
    peers: tuple[str, ...]
    timeout: float
    lan: bool


def _close(reader: _native.Reader, process: int) -> None:
    if process == os.getpid():
        reader.close()
    else:
        # Dropping it would wait for a thread that this process does not have.
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(reader))


class _Publication:
    """A publication that is opened when it is first used, and closed when nothing refers to this object."""

    def __init__(self, key: _Key) -> None:
        self._key = key
        self._lock = threading.Lock()
        self._reader: _native.Reader | None = None
        self._folders: dict[str, dict[str, int | None]] | None = None

    def _opened(self) -> _native.Reader:
        """Return the reader. The caller holds the lock."""
        if self._reader is None:
            key = self._key
            self._reader = _native.Reader(
                SCHEME + key.ticket, key.store, list(key.peers), key.timeout, key.lan
            )
            weakref.finalize(self, _close, self._reader, key.process)
        return self._reader

    @property
    def is_directory(self) -> bool:
        """Whether it is a directory and not a single file."""
        with self._lock:
            return self._opened().is_directory

    def folders(self) -> dict[str, dict[str, int | None]]:
        """Return the entries of each directory by name: the size of a file, ``None`` for a directory."""
        with self._lock:
            if self._folders is None:
                folders: dict[str, dict[str, int | None]] = {"": {}}
                for path, size in self._opened().files():
                    above, _, name = path.as_posix().rpartition("/")
                    is_new = above not in folders
                    folders.setdefault(above, {})[name] = size
                    while is_new:
                        above, _, name = above.rpartition("/")
                        is_new = above not in folders
                        folders.setdefault(above, {})[name] = None
                self._folders = folders
            return self._folders

    def size(self, inner: str) -> int | None:
        """Return the size of a file, ``None`` for a directory."""
        folders = self.folders()
        if not inner:
            # The path of a single file's ticket is the file itself.
            return None if self.is_directory else next(iter(folders[""].values()))
        above, _, name = inner.rpartition("/")
        try:
            return folders[above][name]
        except KeyError:
            raise _no_such_file(inner) from None

    def open(self, inner: str) -> _native.File:
        """Open a file."""
        with self._lock:
            reader = self._opened()
        if not inner and reader.is_directory:
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), ".")
        try:
            return reader.open(inner or None)
        except UsageError:
            if self.size(inner) is None:
                raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), inner) from None
            raise


def _no_such_file(inner: str) -> FileNotFoundError:
    return FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), inner)


def _read(file: _native.File, start: int, end: int) -> bytes:
    """Read the bytes from ``start`` to ``end``; fewer where the file ends."""
    pieces: list[bytes] = []
    while start < end and (piece := file.read(start, end - start)):
        pieces.append(piece)
        start += len(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


# All file systems of a process share its open publications, since fsspec makes a file system for each thread.
_shared: weakref.WeakValueDictionary[_Key, _Publication] = weakref.WeakValueDictionary()
_sharing = threading.Lock()


def _forked() -> None:
    """Replace what another thread may have held at the time of a fork."""
    global _shared, _sharing
    _shared, _sharing = weakref.WeakValueDictionary(), threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


class XylemFile(AbstractBufferedFile):  # type: ignore[misc]
    """A file of a ticket, with one of fsspec's caches in front. The default one reads 16 KiB ahead."""

    DEFAULT_BLOCK_SIZE = BUFFER

    def __init__(
        self, fs: "XylemFileSystem", path: str, native: _native.File, **options: Any
    ) -> None:
        self._native = native
        super().__init__(fs, path, mode="rb", **(options | {"size": native.size}))

    def _fetch_range(self, start: int, end: int) -> bytes:
        return _read(self._native, start, end)

    def close(self) -> None:
        """Close the file. What was read is kept in the store."""
        if not self.closed:
            super().close()
            self._native.close()

    def __str__(self) -> str:
        return f"<xylem.fsspec.XylemFile {self._native.name!r}>"

    __repr__ = __str__


class XylemFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """All tickets, read-only; the first part of a path is the ticket. The options are those of :class:`Options`.

    Any number of threads may read. A pickled file system opens its tickets anew where it is loaded.
    """

    protocol: ClassVar[str] = "xylem"
    root_marker: ClassVar[str] = ""

    def __init__(
        self,
        *,
        store: str | os.PathLike[str] | None = None,
        peers: Sequence[str] = (),
        timeout: float = 30.0,
        lan: bool | None = None,
        **of_fsspec: Any,
    ) -> None:
        if unknown := sorted(of_fsspec.keys() - OPTIONS_OF_FSSPEC):
            known = ", ".join(Options.__annotations__)
            raise UsageError(f"no such storage option: {unknown[0]}; there are {known}")
        super().__init__(**of_fsspec)
        self._options = (store, tuple(peers), timeout, lan)
        self._held: OrderedDict[_Key, _Publication] = OrderedDict()

    @property
    def fsid(self) -> str:
        """A name for all file systems of this kind: they read the same tickets."""
        return "xylem"

    @classmethod
    def _strip_protocol(cls, path: Any) -> Any:
        if isinstance(path, list):
            return [cls._strip_protocol(each) for each in path]
        rest = stringify_path(path).removeprefix(f"{SCHEME}//").removeprefix(SCHEME)
        ticket, slash, inner = rest.partition("/")
        # Base32 has no case, but one ticket has one name.
        return (ticket.lower() + slash + inner.lstrip("/")).rstrip("/")

    def _place(self, path: str) -> _Place:
        ticket, _, inner = self._strip_protocol(path).partition("/")
        if not ticket:
            raise UsageError("the URL names no ticket: it is xylem://TICKET/PATH")
        return _Place(ticket, inner)

    def _publication(self, ticket: str) -> _Publication:
        store, peers, timeout, lan = self._options
        key = _Key(
            os.getpid(), ticket, the_store(store), peers, timeout, lan_may_be_asked(lan)
        )
        dropped: list[object] = []
        with _sharing:
            publication = self._held.get(key) or _shared.get(key) or _Publication(key)
            self._held[key] = _shared[key] = publication
            self._held.move_to_end(key)
            # Its files that are open stay open, and a later use opens it again.
            while len(self._held) > MAX_OPEN:
                dropped.append(self._held.popitem(last=False))
        return publication

    def close(self) -> None:
        """Close the publications that no other file system and no open file uses. A later use opens them again."""
        with _sharing:
            held, self._held = self._held, OrderedDict()
        # Closing one waits for its thread, which need not keep others waiting.
        held.clear()

    def _entry(self, path: str, size: int | None) -> dict[str, Any]:
        kind = "directory" if size is None else "file"
        return {"name": path, "size": size or 0, "type": kind}

    def info(self, path: str, **_: Any) -> dict[str, Any]:
        """Return name, size and type. The path of a single file's ticket is a file, with and without the file's name."""
        ticket, inner = self._place(path)
        return self._entry(self._strip_protocol(path), self._publication(ticket).size(inner))

    def ls(self, path: str, detail: bool = True, **_: Any) -> list[Any]:
        """List a directory; the list of a file is the file alone."""
        ticket, inner = self._place(path)
        publication = self._publication(ticket)
        name = self._strip_protocol(path)
        size = publication.size(inner)
        entries = (
            [
                self._entry(f"{name}/{below}", size)
                for below, size in sorted(publication.folders().get(inner, {}).items())
            ]
            if size is None
            else [self._entry(name, size)]
        )
        return entries if detail else [entry["name"] for entry in entries]

    def modified(self, path: str) -> datetime:
        """Return 1970 for all that exists: the content of a ticket never changes. DuckDB asks, to see what is stale."""
        self.info(path)
        return datetime.fromtimestamp(0, UTC)

    def exists(self, path: str, **_: Any) -> bool:
        """Whether there is such a file or directory. A ticket that can't be opened is an error, not an absence."""
        try:
            self.info(path)
        except FileNotFoundError:
            return False
        return True

    def isdir(self, path: str) -> bool:
        """Whether it is a directory; errors as for ``exists``."""
        return self.exists(path) and self.info(path)["type"] == "directory"

    def isfile(self, path: str) -> bool:
        """Whether it is a file; errors as for ``exists``."""
        return self.exists(path) and self.info(path)["type"] == "file"

    def walk(self, path: str, *args: Any, **options: Any) -> Iterator[Any]:
        """Walk through directories, as ``os.walk``."""
        # fsspec would take a ticket that can't be opened for an empty directory.
        self.exists(path)
        yield from super().walk(path, *args, **options)

    def expand_path(self, path: Any, *args: Any, **options: Any) -> list[str]:
        """Return all paths that patterns match."""
        try:
            return list(super().expand_path(path, *args, **options))
        except FileNotFoundError:
            # The message of fsspec shows paths with their tickets.
            first = path if isinstance(path, (str, os.PathLike)) else next(iter(path), "")
            raise _no_such_file(self._strip_protocol(first).partition("/")[2]) from None

    def _native(self, path: str) -> _native.File:
        ticket, inner = self._place(path)
        return self._publication(ticket).open(inner)

    def _open(
        self,
        path: str,
        mode: str = "rb",
        block_size: int | None = None,
        autocommit: bool = True,
        cache_options: dict[str, Any] | None = None,
        **options: Any,
    ) -> XylemFile:
        if mode != "rb":
            self._refuse()
        return XylemFile(
            self,
            path,
            self._native(path),
            block_size=block_size,
            cache_options=cache_options,
            **options,
        )

    def cat_file(
        self, path: str, start: int | None = None, end: int | None = None, **_: Any
    ) -> bytes:
        """Return the bytes from ``start`` to ``end``, which count as in a slice."""
        file = self._native(path)
        start, end, _step = slice(start, end).indices(file.size)
        return _read(file, start, end)

    def cat_ranges(
        self,
        paths: list[str],
        starts: int | None | Sequence[int | None],
        ends: int | None | Sequence[int | None],
        max_gap: int | None = None,
        on_error: Literal["return", "raise"] = "return",
        **_: Any,
    ) -> list[Any]:
        """Return ranges of files, read concurrently; those with at most ``max_gap`` bytes between them are read as one."""
        if not isinstance(paths, list):
            raise TypeError("paths is a list")
        starts = list(starts) if isinstance(starts, Iterable) else [starts] * len(paths)
        ends = list(ends) if isinstance(ends, Iterable) else [ends] * len(paths)
        if not len(paths) == len(starts) == len(ends):
            raise ValueError("paths, starts and ends differ in length")
        files = _at_once(self._native, {self._strip_protocol(path) for path in paths})
        opened = {path: file for path, file in files.items() if not isinstance(file, Exception)}
        wanted: list[tuple[str, int, int]] = []
        for path, start, end in zip(map(self._strip_protocol, paths), starts, ends, strict=True):
            size = opened[path].size if path in opened else 0
            wanted.append((path, *slice(start, end).indices(size)[:2]))
        filled = [(path, start, end) for path, start, end in wanted if start < end]
        merged = _merged(filled, BUFFER if max_gap is None else max_gap)
        read = _at_once(lambda whole: _read(opened[whole[0]], *whole[1:]), merged)
        out: list[Any] = []
        for path, start, end in wanted:
            content: Any = b"" if path in opened else files[path]
            if start < end:
                whole = merged[bisect_right(merged, (path, start, opened[path].size)) - 1]
                content = read[whole]
                if not isinstance(content, Exception):
                    content = content[start - whole[1] : end - whole[1]]
            if isinstance(content, Exception) and on_error == "raise":
                raise content
            out.append(content)
        return out

    def _refuse(self, *_: Any, **__: Any) -> NoReturn:
        """Raise an error: tickets are read-only."""
        raise UsageError("a ticket is read-only: xylem.share(PATH) publishes files, as a new ticket")

    copy = cp_file = makedirs = mkdir = mv = pipe = pipe_file = put = put_file = _refuse
    rm = rm_file = rmdir = start_transaction = touch = _rm = _refuse


def _merged(ranges: list[tuple[str, int, int]], max_gap: int) -> list[tuple[str, int, int]]:
    """Join ranges of a file that overlap or are near each other. Older versions of fsspec's function lose nested ones."""
    merged: list[tuple[str, int, int]] = []
    for path, start, end in sorted(ranges):
        if merged and merged[-1][0] == path and start - merged[-1][2] <= max_gap:
            _, first, last = merged.pop()
            start, end = first, max(end, last)
        merged.append((path, start, end))
    return merged


T = TypeVar("T")
U = TypeVar("U")


def _at_once(call: Callable[[T], U], inputs: Iterable[T]) -> dict[T, U | Exception]:
    """Call for each input, several at a time; return the results, or the exceptions."""

    def caught(one: T) -> U | Exception:
        try:
            return call(one)
        except Exception as why:
            return why

    inputs = list(inputs)
    if len(inputs) < 2:
        return {one: caught(one) for one in inputs}
    pool = ThreadPoolExecutor(min(READS_AT_ONCE, len(inputs)), "xylem-ranges")
    try:
        return dict(zip(inputs, pool.map(caught, inputs), strict=True))
    finally:
        # Ctrl-C does not wait for reads that have begun.
        pool.shutdown(wait=False, cancel_futures=True)


