"""Tests hash_many, and the class where it differs from the package of PyPI or goes beyond its tests.

Results are compared with that package (`blake3`) and not with our own class.
"""

import array
import random
import sys
import threading

from collections.abc import Callable
from pathlib import Path

import blake3 as official
import numpy
import pytest
import xylem_blake3
from numpy.typing import NDArray
from typing_extensions import Buffer
from xylem_blake3 import blake3, hash_many

KEY = bytes(range(32))
RANDOM = random.Random(3)

# Every message length class: empty, part of a block, chunk, batch, and longer than any batch.
LENGTHS = [0, 1, 63, 64, 65, 1023, 1024, 1025, 4096, 7168, 8192, 8193, 16384, 20000, 100_000]
MESSAGES = [RANDOM.randbytes(length) for length in LENGTHS * 5]


def digest(message: bytes, key: bytes | None = None) -> bytes:
    hasher = official.blake3(message) if key is None else official.blake3(message, key=key)
    return hasher.digest()


def test_the_official_package_is_not_ours() -> None:
    assert official.blake3.__module__ != blake3.__module__


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("max_threads", [1, 2, 10**9, blake3.AUTO])
def test_list(key: bytes | None, max_threads: int) -> None:
    messages = MESSAGES[:]
    RANDOM.shuffle(messages)
    got = hash_many(messages, key=key, max_threads=max_threads)
    assert got == [digest(message, key) for message in messages]


def test_any_iterable_of_any_buffers() -> None:
    kinds: list[Callable[[bytes], Buffer]] = [
        bytes,
        bytearray,
        memoryview,
        lambda message: array.array("b", message),
    ]
    messages = [kind(message) for kind in kinds for message in MESSAGES[:12]]
    assert hash_many(m for m in messages) == [digest(bytes(m)) for m in messages]
    assert hash_many(tuple(messages)) == hash_many(messages)
    assert hash_many([]) == []
    assert hash_many({b"one": 1, b"two": 2}) == [digest(b"one"), digest(b"two")]


@pytest.mark.parametrize("key", [None, KEY])
@pytest.mark.parametrize("dtype", [numpy.uint8, numpy.int8])
@pytest.mark.parametrize("shape", [(0, 0), (0, 5), (5, 0), (1, 1), (3, 4096), (1000, 1000)])
def test_array(shape: tuple[int, int], dtype: type[numpy.uint8], key: bytes | None) -> None:
    blocks: NDArray[numpy.uint8] = numpy.frombuffer(RANDOM.randbytes(shape[0] * shape[1]), dtype).reshape(shape)
    for max_threads in (1, blake3.AUTO):
        got = hash_many(blocks, key=key, max_threads=max_threads)
        assert isinstance(got, numpy.ndarray)
        assert got.shape == (shape[0], 32)
        assert got.dtype == numpy.uint8
        assert [row.tobytes() for row in got] == [digest(row.tobytes(), key) for row in blocks]
        got.fill(0)  # writable, with memory of its own


def test_rows_that_lie_apart() -> None:
    wide = numpy.frombuffer(RANDOM.randbytes(40 * 300), numpy.uint8).reshape(40, 300)
    for rows in (wide[:, 7:207], wide[::3], wide[::-1], wide[:, 5:6], wide[5:6], wide[:, ::300]):
        got = hash_many(rows)
        assert [row.tobytes() for row in got] == [digest(row.tobytes()) for row in rows]


def test_two_dimensions_without_numpy() -> None:
    rows = memoryview(bytes(range(12))).cast("B", (3, 4))
    assert hash_many(rows) == [digest(bytes(range(i, i + 4))) for i in (0, 4, 8)]


@pytest.mark.parametrize(
    "inputs",
    [b"one message", bytearray(3), numpy.zeros(5, numpy.uint8), numpy.zeros((2, 2, 2), numpy.uint8),
     numpy.zeros((), numpy.uint8), 5, None, "text", ["text"], [b"", None], [1]],
)
def test_what_is_no_list_of_messages(inputs: object) -> None:
    with pytest.raises(TypeError):
        hash_many(inputs)  # type: ignore


@pytest.mark.parametrize(
    "inputs",
    [numpy.zeros((4, 4), numpy.uint8)[:, ::2], numpy.zeros((4, 4), numpy.uint8).T,
     numpy.zeros((4, 4), numpy.uint16), [array.array("i", [1])], [numpy.zeros(4, numpy.uint8)[::2]]],
)
def test_bytes_that_lie_apart_or_are_none(inputs: object) -> None:
    with pytest.raises(BufferError):
        hash_many(inputs)  # type: ignore


def test_arguments_that_are_refused() -> None:
    for length in (0, 31, 33):
        with pytest.raises(ValueError):
            hash_many([b""], key=bytes(length))
    for max_threads in (0, -2):
        with pytest.raises(ValueError):
            hash_many([b""], max_threads=max_threads)
    with pytest.raises(ZeroDivisionError):
        hash_many(bytes(1 // (i - 3)) for i in range(4, 0, -1))


def test_buffers_are_given_back_and_results_have_one_owner() -> None:
    messages = [bytearray(5000) for _ in range(50)]
    before = [sys.getrefcount(message) for message in messages]
    results = hash_many(messages)
    assert [sys.getrefcount(message) for message in messages] == before
    assert [sys.getrefcount(result) for result in results] == before
    for message in messages:
        message.extend(b"a view that were still held would forbid this")
    with pytest.raises(TypeError):
        hash_many([*messages, None])  # type: ignore
    messages[0].extend(b"also after an error")


def test_other_threads_run_meanwhile() -> None:
    blocks = numpy.zeros((10_000, 4096), numpy.uint8)
    done = threading.Event()
    seen = 0

    def work() -> None:
        hash_many(blocks)
        done.set()

    thread = threading.Thread(target=work)
    interval = sys.getswitchinterval()
    # Threads are not made to release the interpreter before the work is done.
    sys.setswitchinterval(1000)
    try:
        thread.start()
        while not done.is_set():
            seen += 1
            done.wait(0.0001)
    finally:
        sys.setswitchinterval(interval)
    thread.join()
    assert seen > 1


def test_output_ends_after_2_64_minus_1_bytes() -> None:
    hasher, last = blake3(b"x"), 2**64 - 2
    assert len(hasher.digest(1, seek=last)) == 1
    assert hasher.digest(0, seek=last + 1) == b""
    for length, seek in ((2, last), (1, last + 1), (0, 2**64), (1, -1), (-1, 0)):
        with pytest.raises(OverflowError):
            hasher.digest(length, seek=seek)


def test_extended_output_against_the_official_package() -> None:
    for message in MESSAGES[:15]:
        ours, theirs = blake3(message, key=KEY), official.blake3(message, key=KEY)
        for length, seek in ((1, 0), (32, 1), (33, 31), (5000, 2**40 + 77)):
            assert ours.digest(length, seek=seek) == theirs.digest(length, seek=seek)
            assert ours.hexdigest(length, seek=seek) == theirs.hexdigest(length, seek=seek)


def test_random_pieces_against_the_official_package() -> None:
    for max_threads in (1, blake3.AUTO):
        ours, theirs = blake3(max_threads=max_threads), official.blake3()
        for _ in range(200):
            piece = RANDOM.randbytes(RANDOM.choice([1, 60, 1400, 10_000, 600_000]) + RANDOM.randrange(9))
            ours.update(piece)
            theirs.update(piece)
            assert ours.digest() == theirs.digest()


def test_update_mmap_of_what_cannot_be_mapped(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError):
        blake3().update_mmap(tmp_path)
    assert blake3().update_mmap("/proc/version").digest() == digest(open("/proc/version", "rb").read())


def test_documented() -> None:
    for name in ("update", "update_mmap", "copy", "reset", "digest", "hexdigest"):
        assert getattr(blake3, name).__doc__
    assert blake3.__doc__ and hash_many.__doc__ and xylem_blake3.__doc__
