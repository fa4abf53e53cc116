"""Files of a publication, read where they are."""

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
"""Bytes that are read at once for who reads little at a time: what is hashed, and fetched, for one byte anywhere."""


class File(io.RawIOBase):
    """A file that is fetched where it is read: binary, seekable, each block proven before it is seen.

    One that is not buffered, as ``open(buffering=0)`` makes it; :class:`io.BufferedReader` takes it.
    A read brings as much as was asked for, less only at the end. A read that failed may be tried again.
    """

    def __init__(self, file: _native.File, reader: _native.Reader | None = None) -> None:
        self._file = file
        self._reader = reader
        self._at = 0

    @property
    def name(self) -> str:
        """What it is called in its publication."""
        return self._file.name

    @property
    def mode(self) -> str:
        """``"rb"``, as of any binary file that is read."""
        return "rb"

    @property
    def size(self) -> int:
        """Bytes of it."""
        return self._file.size

    def readable(self) -> bool:
        """It is."""
        return True

    def seekable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: "Buffer", /) -> int:
        """Fill a writable buffer from here on; how many bytes came."""
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
        """So many bytes from here on; all that are left for ``None`` or a negative number."""
        # readinto never returns None, as a non-blocking file would.
        return super().read(-1 if size is None else size) or b""

    def write(self, data: object, /) -> NoReturn:
        """It is read only."""
        self._check()
        raise io.UnsupportedOperation("write")

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        """Go elsewhere, as in any file; fetches nothing."""
        self._check()
        offset = operator.index(offset)
        start = {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self.size}.get(whence)
        if start is None:
            raise ValueError(f"whence is 0, 1 or 2, not {whence}")
        if start + offset < 0:
            raise ValueError("before the file's beginning")
        self._at = start + offset
        return self._at

    def tell(self) -> int:
        """Where the next read begins."""
        self._check()
        return self._at

    def close(self) -> None:
        """Read no more; what was read is kept in the store."""
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
        raise ValueError("there are no lines in a binary file to buffer by")
    return io.BufferedReader(file, BUFFER if buffering < 0 else buffering)


class Reader:
    """What a ticket names, as files to read; closed at the end of a ``with`` block.

    Files that are open then stay open. Any number of threads may read.
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
        """Whether it is a directory, and not a single file."""
        return self._reader.is_directory

    def files(self) -> list[tuple[Path, int]]:
        """Paths and sizes of its files; fetches none of them."""
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
        """Open the file at ``path``; of a publication of one file, that one."""
        return _buffered(File(self._reader.open(path)), buffering)

    def close(self) -> None:
        """Open no more files."""
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

    What is returned is read as any binary file: ``read``, ``readinto``, ``seek``, ``tell``. What is read is fetched
    then, with what is likely to come next, proven, and kept in the store. A read fails with
    :class:`UnreachableError` when nobody has brought any of it for ``timeout`` seconds.
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
