"""Compares the results of hash_part and merge_parts with the package of PyPI."""

import random

import blake3 as official
import pytest
from xylem_blake3 import blake3, hash_part, merge_parts

RANDOM = random.Random(18)
KEY = bytes(range(32))
CONTEXT = "xylem 2026-11-23 test of parts"
LENGTHS = [0, 1, 1023, 1024, 1025, 2048, 5000, 65_536, 1_048_577, 3_000_000]


def cut(message: bytes) -> list[tuple[int, bytes]]:
    places = {RANDOM.randrange(0, len(message) + 1) // 1024 * 1024 for _ in range(5)}
    ends = sorted({0, *places, len(message)})
    if len(ends) == 1:
        ends.append(0)
    return [(start, message[start:end]) for start, end in zip(ends, ends[1:], strict=False)]


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("max_threads", [1, blake3.AUTO])
def test_parts_make_the_hash(length: int, max_threads: int) -> None:
    message = RANDOM.randbytes(length)
    for total in (None, length):
        pieces = cut(message)
        RANDOM.shuffle(pieces)

        plain = [hash_part(b, s, total=total, max_threads=max_threads) for s, b in pieces]
        # The same part twice, as after the loss of a worker.
        plain.append(plain[0])
        assert merge_parts(plain) == official.blake3(message).digest()

        keyed = [hash_part(b, s, total=total, key=KEY) for s, b in pieces]
        assert merge_parts(keyed, key=KEY) == official.blake3(message, key=KEY).digest()

        derived = [hash_part(b, s, total=total, derive_key_context=CONTEXT) for s, b in pieces]
        expected = official.blake3(message, derive_key_context=CONTEXT)
        assert merge_parts(derived, derive_key_context=CONTEXT) == expected.digest()
        if length > 1024:
            merged = merge_parts(derived, derive_key_context=CONTEXT, length=100, seek=7)
            assert merged == expected.digest(length=100, seek=7)


def test_what_is_wrong_is_said() -> None:
    message = RANDOM.randbytes(10_000)
    parts = [hash_part(message[s : s + 4096], s, total=10_000) for s in (0, 4096, 8192)]
    with pytest.raises(ValueError, match=r"no part covers bytes 8192\.\.10000"):
        merge_parts(parts[:2])
    with pytest.raises(ValueError, match=r"no part covers bytes 4096\.\.8192"):
        merge_parts([parts[2], parts[0]])
    other = hash_part(bytes(4096), 4096, total=10_000)
    with pytest.raises(ValueError, match="disagree"):
        merge_parts([*parts, other])
    with pytest.raises(ValueError, match="another kind"):
        merge_parts(parts, key=KEY)
    with pytest.raises(ValueError, match="part 1, line 1: not a line of a part"):
        merge_parts([parts[0], "what"])
    with pytest.raises(ValueError, match="nothing to merge"):
        merge_parts([])
    with pytest.raises(ValueError, match="multiples of 1024"):
        hash_part(message, 100)
    with pytest.raises(ValueError, match="behind the message"):
        hash_part(message, 0, total=9_999)
