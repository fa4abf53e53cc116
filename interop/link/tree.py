"""BLAKE3 trees and their proofs (docs/spec/tree.md).

The compression function is written out, since libraries only hash whole files.
"""

from __future__ import annotations

import struct
from functools import cached_property

from blake3 import blake3

from .primitives import Broken

CHUNK = 1024
SEGMENT_PROOF_LEVELS, TILE_LEVELS, TILE_PROOF_LEVELS = 3, 8, 7

IV = (0x6A09E667, 0xBB67AE85, 0x3C6EF372, 0xA54FF53A, 0x510E527F, 0x9B05688C, 0x1F83D9AB, 0x5BE0CD19)
PERMUTATION = (2, 6, 3, 10, 7, 0, 4, 13, 1, 11, 12, 5, 9, 14, 15, 8)
CHUNK_START, CHUNK_END, PARENT, ROOT = 1, 2, 4, 8
MASK = 0xFFFFFFFF
# Four columns, then four diagonals.
QUARTERS = ((0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
            (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14))


def compress(value: bytes, block: bytes, counter: int, length: int, flags: int) -> bytes:
    m = list(struct.unpack("<16I", block.ljust(64, b"\0")))
    v = [*struct.unpack("<8I", value), *IV[:4], counter & MASK, counter >> 32, length, flags]
    for _ in range(7):
        for i, (a, b, c, d) in enumerate(QUARTERS):
            for word, right, left in ((m[2 * i], 16, 12), (m[2 * i + 1], 8, 7)):
                v[a] = (v[a] + v[b] + word) & MASK
                x = v[d] ^ v[a]
                v[d] = (x >> right | x << (32 - right)) & MASK
                v[c] = (v[c] + v[d]) & MASK
                x = v[b] ^ v[c]
                v[b] = (x >> left | x << (32 - left)) & MASK
        m = [m[i] for i in PERMUTATION]
    return struct.pack("<8I", *(v[i] ^ v[i + 8] for i in range(8)))


def parent(left: bytes, right: bytes, root: bool) -> bytes:
    return compress(struct.pack("<8I", *IV), left + right, 0, 64, PARENT | (ROOT if root else 0))


def subtree(octets: bytes, counter: int) -> bytes:
    """The chaining value of some chunks; the first chunk has this counter."""
    if len(octets) > CHUNK:
        half = CHUNK
        while 2 * half < len(octets):
            half *= 2
        right = subtree(octets[half:], counter + half // CHUNK)
        return parent(subtree(octets[:half], counter), right, False)
    value = struct.pack("<8I", *IV)
    for at in range(0, max(len(octets), 1), 64):
        block = octets[at : at + 64]
        flags = (CHUNK_START if at == 0 else 0) | (CHUNK_END if at + 64 >= len(octets) else 0)
        value = compress(value, block, counter, len(block), flags)
    return value


class Geometry:
    """The nodes of the tree of a file with this size."""

    def __init__(self, size: int, log2: int) -> None:
        self.size, self.log2 = size, log2
        self.segment = CHUNK << log2
        self.segments = max(1, -(-size // self.segment))
        self.height = (self.segments - 1).bit_length()

    def count(self, level: int) -> int:
        return -(-self.segments >> level) if level else self.segments

    def way(self, level: int, index: int, end: int) -> list[tuple[int, int]]:
        """The existing siblings on the way up from a node to a level."""
        siblings = [(at, (index >> (at - level)) ^ 1) for at in range(level, end)]
        return [(at, i) for at, i in siblings if i < self.count(at)]

    def segment_end(self) -> int:
        return min(SEGMENT_PROOF_LEVELS, self.height)

    def leaf(self, index: int, content: bytes) -> bytes:
        if self.segments == 1:
            return blake3(content).digest()
        return subtree(content, index << self.log2)

    def climb(self, level: int, index: int, end: int, value: bytes, siblings: list[bytes]) -> bytes:
        """The value at `end` that follows from a node's value and its siblings."""
        if len(siblings) != len(self.way(level, index, end)):
            raise Broken("a proof of another length")
        left = list(siblings)
        for at in range(level, end):
            i = index >> (at - level)
            if i ^ 1 < self.count(at):
                sibling = left.pop(0)
                pair = (sibling, value) if i & 1 else (value, sibling)
                value = parent(*pair, at + 1 == self.height)
        return value

    def verify_segment(self, index: int, content: bytes, signature: bytes, end_value: bytes) -> None:
        """`end_value`: the root, or the value of the tile's node at which the way ends."""
        if len(content) != min(self.segment, self.size - index * self.segment):
            raise Broken("a segment of another length")
        own, *siblings = values(signature)
        if self.leaf(index, content) != own:
            raise Broken("the content is not what its proof is about")
        if self.climb(0, index, self.segment_end(), own, siblings) != end_value:
            raise Broken("a proof that does not hold")

    def verify_tile(self, content: bytes, signature: bytes, root: bytes) -> list[bytes]:
        """The base nodes of the only tile of tier 0, in a tree without further tiles."""
        base, nodes = SEGMENT_PROOF_LEVELS, values(content)
        if len(nodes) != self.count(base) or signature != root or len(nodes) > 1 << TILE_LEVELS:
            raise Broken("no tile of this tree")
        if rows_above(nodes)[-1][0] != root:
            raise Broken("a tile that does not lead to the root")
        return nodes


def rows_above(row: list[bytes]) -> list[list[bytes]]:
    """All levels of a tree from one on, up to the root. A node without a sibling is promoted."""
    rows = [row]
    while len(row) > 1:
        above = [parent(row[i], row[i + 1], len(row) == 2) for i in range(0, len(row) - 1, 2)]
        row = above + row[len(row) // 2 * 2 :]
        rows.append(row)
    return rows


def values(octets: bytes) -> list[bytes]:
    if not octets or len(octets) % 32:
        raise Broken("no list of values")
    return [octets[at : at + 32] for at in range(0, len(octets), 32)]


class Tree(Geometry):
    """All values of a file's tree, computed from the file."""

    def __init__(self, content: bytes, log2: int = 3) -> None:
        super().__init__(len(content), log2)
        self.content = content

    def piece(self, index: int) -> bytes:
        return self.content[index * self.segment : (index + 1) * self.segment]

    @cached_property
    def levels(self) -> list[list[bytes]]:
        return rows_above([self.leaf(i, self.piece(i)) for i in range(self.segments)])

    @property
    def root(self) -> bytes:
        return self.levels[-1][0]

    def segment_proof(self, index: int) -> bytes:
        way = self.way(0, index, self.segment_end())
        return self.levels[0][index] + b"".join(self.levels[at][i] for at, i in way)

    def tile(self) -> tuple[bytes, bytes]:
        """Content and proof of the only tile of a file of up to 2 MiB."""
        assert SEGMENT_PROOF_LEVELS < self.height <= SEGMENT_PROOF_LEVELS + TILE_LEVELS
        return b"".join(self.levels[SEGMENT_PROOF_LEVELS]), self.root
