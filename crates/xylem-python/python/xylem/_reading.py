"""Reads files of a publication without fetching the whole."""

import io
import operator
import os
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, NoReturn, Self, overload

from . import _native
from ._how import lan_may_be_asked, the_store

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer as Buffer

BUFFER = 16 << 10
"""Size in bytes of the default buffer: what a read of a single byte anywhere hashes and fetches."""


class File(io.RawIOBase):
    """A binary, seekable file whose blocks are fetched when they are read, and proven before they are returned.

    It is unbuffered, as ``open(buffering=0)`` makes it; :class:`io.BufferedReader` can wrap it.
    A read returns as many bytes as were asked for, less only at the end. A failed read can be tried again.
    """

    def __init__(self, file: _native.File, reader: _native.Reader | None = None) -> None:
        self._file = file
        self._reader = reader
        self._at = 0

    @property
    def name(self) -> str:
        """Its name in the publication."""
        return self._file.name

    @property
    def mode(self) -> str:
        """``"rb"``, as for any binary file open for reading."""
        return "rb"

    @property
    def size(self) -> int:
        """Size in bytes."""
        return self._file.size

    def readable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        """Read into a writable buffer from the present position; return the number of bytes."""
        self._check()
        done = 0
        with memoryview(buffer) as view, view.cast("B") as room:
            while done < len(room):
                try:
                    piece = self._file.read(self._at + done, len(room) - done)
                except OSError:
                    # Return what has come; the next read reports the error.
                    if done:
                        break
                    raise
                if not piece:
                    break
                room[done : done + len(piece)] = piece
                done += len(piece)
        self._at += done
        return done

    def read(self, size: int | None = -1, /) -> bytes:
        """Read ``size`` bytes from the present position, or all that are left if it is ``None`` or negative."""
        # readinto never returns None, as a non-blocking file would.
        return super().read(-1 if size is None else size) or b""

    def write(self, data: object, /) -> NoReturn:
        """Raise an error: the file is read-only."""
        self._check()
        raise io.UnsupportedOperation("write")

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Change the position, as in any file. This fetches nothing."""
        self._check()
        offset = operator.index(offset)
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}.get(whence)
        if start is None:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if start + offset < 0:
            raise ValueError("seek before the beginning of the file")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Return the position of the next read."""
        self._check()
        return self._at

    def close(self) -> None:
        """Close the file. What was read is kept in the store."""
        if not self.closed:
            super().close()
            self._file.close()
            if self._reader is not None:
                self._reader.close()

    def _check(self) -> None:
        if self.closed:
            raise ValueError("I/O operation on closed file")


def _buffered(file: File, buffering: int) -> File | io.BufferedReader:
    if buffering == 0:
        return file
    if buffering == 1:
        file.close()
        raise ValueError("a binary file cannot be buffered by lines")
    return io.BufferedReader(file, BUFFER if buffering < 0 else buffering)


class Reader:
    """A publication whose files can be read; closed at the end of a ``with`` block.

    Files that are open at that time stay open. Any number of threads may read.
    """

    def __init__(
        self,
        ticket: str,
        *,
        store: str | os.PathLike[str] | None = None,
        peers: Iterable[str] = (),
        timeout: float = 30.0,
        lan: bool | None = None,
    ) -> None:
        self._reader = _native.Reader(
            ticket, the_store(store), list(peers), timeout, lan_may_be_asked(lan)
        )

    @property
    def is_directory(self) -> bool:
        """Whether the publication is a directory and not a single file."""
        return self._reader.is_directory

    def files(self) -> list[tuple[Path, int]]:
        """Return the paths and sizes of its files, without fetching them."""
        return self._reader.files()

    @overload
    def open(
        self, path: str | os.PathLike[str] | None = None, *, buffering: Literal[0]
    ) -> File: ...
    @overload
    def open(
        self, path: str | os.PathLike[str] | None = None, *, buffering: Literal[-1] = -1
    ) -> io.BufferedReader: ...
    @overload
    def open(
        self, path: str | os.PathLike[str] | None = None, *, buffering: int
    ) -> File | io.BufferedReader: ...
    def open(
        self, path: str | os.PathLike[str] | None = None, *, buffering: int = -1
    ) -> File | io.BufferedReader:
        """Open the file at ``path``, or the only file of the publication."""
        return _buffered(File(self._reader.open(path)), buffering)

    def close(self) -> None:
        """Close the publication for new files."""
        self._reader.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


@overload
def open(
    ticket: str,
    path: str | os.PathLike[str] | None = None,
    *,
    buffering: Literal[0],
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
    lan: bool | None = None,
) -> File: ...
@overload
def open(
    ticket: str,
    path: str | os.PathLike[str] | None = None,
    *,
    buffering: Literal[-1] = -1,
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
    lan: bool | None = None,
) -> io.BufferedReader: ...
@overload
def open(
    ticket: str,
    path: str | os.PathLike[str] | None = None,
    *,
    buffering: int,
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
    lan: bool | None = None,
) -> File | io.BufferedReader: ...
def open(
    ticket: str,
    path: str | os.PathLike[str] | None = None,
    *,
    buffering: int = -1,
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
    lan: bool | None = None,
) -> File | io.BufferedReader:
    """Open a file that a ticket names, or the file at ``path`` of a directory, without fetching it.

    The result is a binary file: ``read``, ``readinto``, ``seek``, ``tell``. A read fetches its blocks, and those that are
    likely to be read next, proves them, and keeps them in the store. A read fails with :class:`UnreachableError` if no
    peer has sent any of it for ``timeout`` seconds.
    """
    reader = _native.Reader(
        ticket, the_store(store), list(peers), timeout, lan_may_be_asked(lan)
    )
    try:
        file = File(reader.open(path), reader)
    except BaseException:
        reader.close()
        raise
    return _buffered(file, buffering)
