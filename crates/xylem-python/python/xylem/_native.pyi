from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Final, Self, final

__version__: Final[str]

@final
class Fetched:
    @property
    def path(self) -> Path: ...
    @property
    def root(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> int: ...
    @property
    def fetched(self) -> int: ...
    @property
    def resumed(self) -> int: ...
    @property
    def reused(self) -> int: ...
    @property
    def seconds(self) -> float: ...
    @property
    def already_complete(self) -> bool: ...

@final
class Verified:
    @property
    def root(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> int: ...

@final
class Share:
    def __new__(
        cls,
        path: str | PathLike[str],
        store: str | PathLike[str] | None,
        listen: list[str],
        lan: bool,
        map: bool,
    ) -> Self: ...
    @property
    def ticket(self) -> str: ...
    @property
    def root(self) -> str: ...
    @property
    def bytes(self) -> int: ...
    @property
    def files(self) -> int: ...
    @property
    def listen(self) -> list[str]: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def close(self) -> None: ...

@final
class Sync:
    def __new__(
        cls,
        folder: str | PathLike[str],
        ticket: str | None,
        name: str | None,
        store: str | PathLike[str] | None,
        listen: list[str],
        lan: bool,
        map: bool,
        limit: int | None,
    ) -> Self: ...
    @property
    def ticket(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def key(self) -> str: ...
    def status(self) -> str: ...
    def wait(self, timeout: float | None = None) -> bool: ...
    def close(self) -> None: ...

@final
class Reader:
    def __new__(
        cls,
        ticket: str,
        store: str | PathLike[str] | None,
        peers: list[str],
        timeout: float,
        lan: bool,
    ) -> Self: ...
    @property
    def is_directory(self) -> bool: ...
    def files(self) -> list[tuple[Path, int]]: ...
    def open(self, path: str | PathLike[str] | None) -> File: ...
    def close(self) -> None: ...

@final
class File:
    @property
    def name(self) -> str: ...
    @property
    def size(self) -> int: ...
    def read(self, offset: int, len: int) -> bytes: ...
    def close(self) -> None: ...

def get(
    ticket: str,
    output: str | PathLike[str] | None,
    existing: str,
    store: str | PathLike[str] | None,
    peers: list[str],
    timeout: float,
    limit: int | None,
    lan: bool,
    progress: Callable[[int, int], object] | None,
) -> Fetched: ...
def verify(
    path: str | PathLike[str],
    ticket: str,
    store: str | PathLike[str] | None,
    peers: list[str],
    timeout: float,
    allow_extra: bool,
) -> tuple[Verified, list[tuple[Path, int, int, str]]]: ...
def verify_tensor(
    view: memoryview | None,
    gpu: tuple[int, int, bool] | None,
    ticket: str,
    path: str | PathLike[str] | None,
    offset: int,
    store: str | PathLike[str] | None,
    peers: list[str],
    timeout: float,
) -> tuple[Verified, list[tuple[Path, int, int, str]]]: ...
