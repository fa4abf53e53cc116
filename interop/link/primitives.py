"""Primitives that the specification presupposes ("Conventions", "Sealed datagrams")."""

from __future__ import annotations

import struct

from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

LABELS = "xylem-link v5 "

AES_256_GCM, CHACHA20_POLY1305, XCHACHA20_POLY1305 = 1, 2, 3


class Broken(Exception):
    """The peer, or an attacker in its place, violated the protocol."""


def derive(label: str, data: bytes, length: int = 32) -> bytes:
    """H(label; data)."""
    return blake3(data, derive_key_context=LABELS + label).digest(length=length)


def keyed(key: bytes, data: bytes, length: int = 32) -> bytes:
    """K(key; data)."""
    return blake3(data, key=key).digest(length=length)


def x25519(secret: bytes, public: bytes) -> bytes:
    try:
        return X25519PrivateKey.from_private_bytes(secret).exchange(
            X25519PublicKey.from_public_bytes(public)
        )
    except ValueError:
        raise Broken("X25519 gives zeros") from None


def x25519_public(secret: bytes) -> bytes:
    return X25519PrivateKey.from_private_bytes(secret).public_key().public_bytes_raw()


def exclusive_or(left: bytes, right: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(left, right, strict=True))


def siphash_1_3(key: bytes, data: bytes) -> bytes:
    """SipHash with one round a word and three at the end; its 64 bits in little-endian order."""
    mask = (1 << 64) - 1

    def rotate(x: int, by: int) -> int:
        return ((x << by) | (x >> (64 - by))) & mask

    k0, k1 = struct.unpack("<QQ", key)
    v0, v1 = k0 ^ 0x736F6D6570736575, k1 ^ 0x646F72616E646F6D
    v2, v3 = k0 ^ 0x6C7967656E657261, k1 ^ 0x7465646279746573

    def rounds(count: int) -> None:
        nonlocal v0, v1, v2, v3
        for _ in range(count):
            v0, v2 = (v0 + v1) & mask, (v2 + v3) & mask
            v1, v3 = rotate(v1, 13) ^ v0, rotate(v3, 16) ^ v2
            v0, v2 = (rotate(v0, 32) + v3) & mask, (v2 + v1) & mask
            v3, v1 = rotate(v3, 21) ^ v0, rotate(v1, 17) ^ v2
            v2 = rotate(v2, 32)

    words = data[: len(data) // 8 * 8]
    last = data[len(words) :].ljust(7, b"\0") + bytes([len(data) & 0xFF])
    for (word,) in struct.iter_unpack("<Q", words + last):
        v3 ^= word
        rounds(1)
        v0 ^= word
    v2 ^= 0xFF
    rounds(3)
    return struct.pack("<Q", v0 ^ v1 ^ v2 ^ v3)


def hchacha20(key: bytes, nonce: bytes) -> bytes:
    """draft-irtf-cfrg-xchacha-03, section 2.2."""
    mask = (1 << 32) - 1
    state = list(struct.unpack("<16I", b"expand 32-byte k" + key + nonce))

    def quarter(a: int, b: int, c: int, d: int) -> None:
        for x, y, z, by in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
            state[x] = (state[x] + state[y]) & mask
            mixed = state[z] ^ state[x]
            state[z] = ((mixed << by) | (mixed >> (32 - by))) & mask

    for _ in range(10):
        for column in range(4):
            quarter(column, 4 + column, 8 + column, 12 + column)
        for column in range(4):
            quarter(column, 4 + (column + 1) % 4, 8 + (column + 2) % 4, 12 + (column + 3) % 4)
    return struct.pack("<8I", *state[:4], *state[12:])


class XChaCha20Poly1305:
    """Like ChaCha20Poly1305 of `cryptography`, with nonces of 24 bytes."""

    def __init__(self, key: bytes) -> None:
        self.key = key

    def inner(self, nonce: bytes) -> tuple[ChaCha20Poly1305, bytes]:
        return ChaCha20Poly1305(hchacha20(self.key, nonce[:16])), bytes(4) + nonce[16:]

    def encrypt(self, nonce: bytes, data: bytes, associated: bytes | None) -> bytes:
        cipher, rest = self.inner(nonce)
        return cipher.encrypt(rest, data, associated)

    def decrypt(self, nonce: bytes, data: bytes, associated: bytes | None) -> bytes:
        cipher, rest = self.inner(nonce)
        return cipher.decrypt(rest, data, associated)


def aead(cipher: int, key: bytes) -> AESGCM | ChaCha20Poly1305 | XChaCha20Poly1305:
    if cipher == AES_256_GCM:
        return AESGCM(key)
    return ChaCha20Poly1305(key) if cipher == CHACHA20_POLY1305 else XChaCha20Poly1305(key)


