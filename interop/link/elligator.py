"""Elligator2 over Curve25519: keys that are 32 uniform bytes ("Elligator2").

It uses Python's integers, so it is neither fast nor constant in time.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass

P = 2**255 - 19
A = 486662
# Order of the base point, and d of the Edwards form -x² + y² = 1 + dx²y².
ORDER = 2**252 + 27742317777372353535851937790883648493
D = -121665 * pow(121666, -1, P) % P
SQRT_MINUS_ONE = pow(2, (P - 1) // 4, P)


def square_root(x: int) -> int | None:
    x %= P
    root = pow(x, (P + 3) // 8, P)
    if root * root % P != x:
        root = root * SQRT_MINUS_ONE % P
    return root if root * root % P == x else None


def decode(representative: bytes) -> bytes:
    """The public key of a representative; any 32 bytes are a representative."""
    r = int.from_bytes(representative, "little") % 2**254
    w = -A * pow(1 + 2 * r * r, -1, P) % P
    square = square_root(w**3 + A * w * w + w) is not None
    u = w if square else (-w - A) % P
    return u.to_bytes(32, "little")


def encode(public: bytes, second: bool, top: int) -> bytes | None:
    """One of the two representatives of a public key, with `top` (0 to 3) as its highest bits.

    About half of all keys have none.
    """
    u = int.from_bytes(public, "little")
    numerator, denominator = (u + A, u) if second else (u, u + A)
    if numerator % P == 0 or denominator % P == 0:
        return None
    r = square_root(-numerator * pow(2 * denominator, -1, P))
    if r is None:
        return None
    return (min(r, P - r) + (top << 254)).to_bytes(32, "little")


Point = tuple[int, int, int, int]


def add(a: Point, b: Point) -> Point:
    """Addition on the Edwards curve, in extended coordinates (RFC 8032, section 5.1.4)."""
    x1, y1, z1, t1 = a
    x2, y2, z2, t2 = b
    e = (y1 - x1) * (y2 - x2) % P
    f = (y1 + x1) * (y2 + x2) % P
    g = 2 * t1 * t2 * D % P
    h = 2 * z1 * z2 % P
    x, y, z, t = f - e, h - g, h + g, f + e
    return x * y % P, z * t % P, y * z % P, x * t % P


def multiply(by: int, point: Point) -> Point:
    total: Point = (0, 1, 1, 0)
    for bit in bin(by)[2:]:
        total = add(total, total)
        if bit == "1":
            total = add(total, point)
    return total


def point_of(y: int) -> Point | None:
    """The point with this y, and an even x."""
    x = square_root((y * y - 1) * pow(D * y * y + 1, -1, P))
    if x is None:
        return None
    x = P - x if x % 2 else x
    return x, y, 1, x * y % P


def montgomery_u(point: Point) -> bytes:
    _, y, z, _ = point
    return ((z + y) * pow(z - y, P - 2, P) % P).to_bytes(32, "little")


def torsion_points() -> list[Point]:
    """The eight points whose order divides 8."""
    for candidate in range(2, 100):
        point = point_of(candidate)
        if point:
            small = multiply(ORDER, point)
            _, y, z, _ = multiply(4, small)
            if y != z:
                return [multiply(i, small) for i in range(8)]
    raise AssertionError("every eighth point will do")


BASE = point_of(4 * pow(5, -1, P) % P)
TORSION = torsion_points()


def public_key(secret: bytes, torsion: int) -> bytes:
    """The secret's point with a point of small order added. DH multiplies by 8, which cancels that point. Without
    it all keys would lie in the subgroup, which an observer could test."""
    scalar = int.from_bytes(secret, "little") & ~7 & (2**255 - 1) | 2**254
    assert BASE is not None
    return montgomery_u(add(multiply(scalar, BASE), TORSION[torsion]))


@dataclass(frozen=True)
class Ephemeral:
    """A secret and the representative of its public key."""

    secret: bytes
    representative: bytes

    @staticmethod
    def draw(random: Callable[[int], bytes] = os.urandom) -> Ephemeral:
        while True:
            secret, choice = random(32), random(1)[0]
            public = public_key(secret, choice & 7)
            representative = encode(public, bool(choice & 8), choice >> 4 & 3)
            if representative:
                return Ephemeral(secret, representative)
