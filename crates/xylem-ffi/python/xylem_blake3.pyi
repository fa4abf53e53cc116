import sys
from collections.abc import Iterable
from os import PathLike
from typing import ClassVar, Final, Self, final, overload

if sys.version_info >= (3, 12):
    from collections.abc import Buffer
else:
    from typing_extensions import Buffer

import numpy
from numpy.typing import NDArray

__all__ = ["__version__", "blake3", "hash_many", "hash_part", "merge_parts"]

__version__: Final[str]

@final
class blake3:
    name: ClassVar[str]
    digest_size: ClassVar[int]
    block_size: ClassVar[int]
    key_size: ClassVar[int]
    AUTO: ClassVar[int]
    def __new__(
        cls,
        data: Buffer | None = None,
        /,
        *,
        key: Buffer | None = None,
        derive_key_context: str | None = None,
        max_threads: int = 1,
        usedforsecurity: bool = True,
    ) -> Self: ...
    def update(self, data: Buffer, /) -> Self: ...
    def update_mmap(self, path: str | PathLike[str]) -> Self: ...
    def copy(self) -> Self: ...
    def reset(self) -> None: ...
    def digest(self, length: int = 32, *, seek: int = 0) -> bytes: ...
    def hexdigest(self, length: int = 32, *, seek: int = 0) -> str: ...

@overload
def hash_many(
    inputs: NDArray[numpy.uint8] | NDArray[numpy.int8],
    /,
    *,
    key: Buffer | None = None,
    max_threads: int = 1,
) -> NDArray[numpy.uint8]: ...
@overload
def hash_many(
    inputs: Iterable[Buffer] | memoryview,
    /,
    *,
    key: Buffer | None = None,
    max_threads: int = 1,
) -> list[bytes]: ...

def hash_part(
    data: Buffer,
    /,
    start: int = 0,
    *,
    total: int | None = None,
    key: Buffer | None = None,
    derive_key_context: str | None = None,
    max_threads: int = 1,
) -> str: ...
def merge_parts(
    parts: Iterable[str],
    /,
    *,
    key: Buffer | None = None,
    derive_key_context: str | None = None,
    length: int = 32,
    seek: int = 0,
) -> bytes: ...
