"""Epochs: secrets, values derived from them, and sealed datagrams ("Derivations", "Sealed datagrams")."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from cryptography.exceptions import InvalidTag

from .primitives import XCHACHA20_POLY1305, aead, derive, exclusive_or, siphash_1_3

ID, NUMBER, TAG = 8, 4, 16
OVERHEAD = ID + NUMBER + TAG
WINDOW = 4096


@dataclass(frozen=True)
class Epoch:
    """One epoch of one direction."""

    secret: bytes
    cipher: int
    number: int = 0
    # The round that its secret includes, if any.
    round: int | None = None

    @cached_property
    def key(self) -> bytes:
        return derive("aead key", self.secret)

    @cached_property
    def iv(self) -> bytes:
        return derive("aead iv", self.secret)[: 24 if self.cipher == XCHACHA20_POLY1305 else 12]

    @cached_property
    def header_key(self) -> bytes:
        return derive("header protection key", self.secret)

    @cached_property
    def id(self) -> bytes:
        return derive("connection id", self.secret)[:ID]

    @cached_property
    def commitment(self) -> bytes:
        return derive("epoch commitment", self.secret)

    def next(self) -> Epoch:
        return Epoch(derive("next epoch", self.secret), self.cipher, self.number + 1)

    def ratcheted(self, shared: bytes, round: int) -> Epoch:
        """The next epoch, if it includes the Diffie-Hellman of a round."""
        secret = derive("next epoch, ratcheted", self.secret + shared + round.to_bytes(4, "big"))
        return Epoch(secret, self.cipher, self.number + 1, round)

    def nonce(self, number: int) -> bytes:
        return self.iv[:-8] + exclusive_or(self.iv[-8:], number.to_bytes(8, "big"))

    def mask(self, sealed: bytes) -> bytes:
        """The mask of the packet number, from the 16 bytes after it."""
        return siphash_1_3(self.header_key[:16], sealed[:16])[:NUMBER]

    def seal(self, number: int, plain: bytes) -> bytes:
        low = (number % 2**32).to_bytes(NUMBER, "big")
        sealed = aead(self.cipher, self.key).encrypt(self.nonce(number), plain, self.id + low)
        return self.id + exclusive_or(low, self.mask(sealed)) + sealed

    def open(self, datagram: bytes, expected: int) -> tuple[int, bytes] | None:
        """Number and frames of a datagram; `expected` is the highest number received, plus one."""
        if len(datagram) < OVERHEAD or datagram[:ID] != self.id:
            return None
        sealed = datagram[ID + NUMBER :]
        low = exclusive_or(datagram[ID : ID + NUMBER], self.mask(sealed))
        number = nearest(int.from_bytes(low, "big"), expected)
        try:
            cipher = aead(self.cipher, self.key)
            return number, cipher.decrypt(self.nonce(number), sealed, self.id + low)
        except InvalidTag:
            return None


def nearest(low: int, expected: int) -> int:
    """The number with these low 32 bits that is nearest to `expected` (RFC 9000, appendix A.3)."""
    window = 2**32
    candidate = expected - expected % window + low
    if candidate <= expected - window // 2 and candidate < 2**62 - window:
        return candidate + window
    if candidate > expected + window // 2 and candidate >= window:
        return candidate - window
    return candidate


class Received:
    """The numbers received in a direction, so that copies are detected."""

    def __init__(self) -> None:
        self.highest = -1
        self.numbers: set[int] = set()

    def take(self, number: int) -> bool:
        """Whether it is new, and recent enough to decide that."""
        if number in self.numbers or number <= self.highest - WINDOW:
            return False
        self.numbers.add(number)
        if number > self.highest:
            self.highest = number
            self.numbers = {each for each in self.numbers if each > number - WINDOW}
        return True
