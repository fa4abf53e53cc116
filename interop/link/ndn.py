"""Interests and Data, as far as a fetch needs them (docs/spec/packet.md).

A name is the value of its TLV: its components one after the other.
"""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from packets import element, elements, tlv

from .primitives import Broken

INTEREST, DATA, LP, FRAGMENT, NACK = 0x05, 0x06, 0x64, 0x50, 0x0320
NAME, META, CONTENT, INFO, SIGNATURE = 0x07, 0x14, 0x15, 0x16, 0x17
FRESHNESS, FINAL_BLOCK, KIND, LOCATOR = 0x19, 0x1A, 0x1B, 0x1C
GENERIC, KEYWORD, SEGMENT, VERSION, SEQUENCE = 8, 32, 50, 54, 58

DIGEST_SHA256, ED25519, BLAKE3_MERKLE = 0, 5, 8


def nni(value: int) -> bytes:
    """A NonNegativeInteger, in its shortest form."""
    for width in (1, 2, 4):
        if value < 1 << 8 * width:
            return value.to_bytes(width, "big")
    return value.to_bytes(8, "big")


def generic(value: str | bytes) -> bytes:
    return tlv(GENERIC, value.encode() if isinstance(value, str) else value)


def keyword(value: str) -> bytes:
    return tlv(KEYWORD, value.encode())


def segment(index: int) -> bytes:
    return tlv(SEGMENT, nni(index))


def sequence(index: int) -> bytes:
    return tlv(SEQUENCE, nni(index))


def interest(name: bytes) -> bytes:
    return tlv(INTEREST, tlv(NAME, name), tlv(0x0A, os.urandom(4)), tlv(0x0C, nni(4000)))


def bare(packet: bytes) -> tuple[int, bytes]:
    """Type and value of the Interest or Data in a packet, and NACK for a refusal."""
    kind, value = next(elements(packet))
    if kind != LP:
        return kind, value
    if element(value, NACK) is not None:
        return NACK, element(value, FRAGMENT) or b""
    return bare(element(value, FRAGMENT) or b"\0\0")


def asked_name(packet: bytes) -> bytes | None:
    """The name of an Interest; None for any other packet."""
    kind, value = bare(packet)
    return element(value, NAME) if kind == INTEREST else None


@dataclass(frozen=True)
class Data:
    name: bytes
    meta: bytes
    content: bytes
    info: bytes
    signature: bytes
    # The signed portion: name to signature information.
    portion: bytes

    @staticmethod
    def decode(packet: bytes) -> Data | None:
        """A parsed Data; None for any other packet."""
        kind, value = bare(packet)
        if kind != DATA:
            return None
        parts = {kind: part for kind, part in elements(value)}
        signature = parts.get(SIGNATURE, b"")
        return Data(
            parts[NAME],
            parts.get(META, b""),
            parts.get(CONTENT, b""),
            parts.get(INFO, b""),
            signature,
            value[: len(value) - len(tlv(SIGNATURE, signature))],
        )

    @property
    def signature_type(self) -> int:
        return int.from_bytes(element(self.info, KIND) or b"", "big")

    def signed_by(self, publisher: bytes) -> None:
        if self.signature_type != ED25519:
            raise Broken("not signed with Ed25519")
        try:
            Ed25519PublicKey.from_public_bytes(publisher).verify(self.signature, self.portion)
        except InvalidSignature:
            raise Broken("not the publisher's signature") from None

    def intact(self) -> None:
        if self.signature_type != DIGEST_SHA256 or hashlib.sha256(self.portion).digest() != self.signature:
            raise Broken("a wrong digest")


def portion(
    name: bytes, content: bytes, kind: int, *, freshness: int | None = None, final: bytes = b"",
    locator: bytes = b"",
) -> bytes:
    meta = tlv(FRESHNESS, nni(freshness)) if freshness is not None else b""
    meta += tlv(FINAL_BLOCK, final) if final else b""
    info = tlv(KIND, nni(kind)) + (tlv(LOCATOR, tlv(NAME, locator)) if locator else b"")
    return tlv(NAME, name) + (tlv(META, meta) if meta else b"") + tlv(CONTENT, content) + tlv(INFO, info)


def data(signed: bytes, signature: bytes) -> bytes:
    return tlv(DATA, signed, tlv(SIGNATURE, signature))


def signed_data(key: Ed25519PrivateKey, signed: bytes) -> bytes:
    return data(signed, key.sign(signed))


def digested_data(name: bytes, content: bytes) -> bytes:
    signed = portion(name, content, DIGEST_SHA256)
    return data(signed, hashlib.sha256(signed).digest())
