"""Dialer and responder of a handshake, message by message ("Handshake", "Course").

Neither uses sockets or clocks: datagrams go in and come out, and the caller repeats lost ones.
An unreadable or unauthentic message gives None, and changes nothing.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey, MLKEM768PublicKey

from . import envelope
from .elligator import Ephemeral
from .envelope import Envelope
from .noise import Handshake, Static
from .primitives import AES_256_GCM, CHACHA20_POLY1305, XCHACHA20_POLY1305, Broken, derive

Random = Callable[[int], bytes]

AES_IS_FAST, OFFERS_HYBRID, ASKS_XCHACHA = 1, 2, 4


@dataclass(frozen=True)
class Parameters:
    """Parameters that a side sends to the other."""

    largest_datagram: int = 1452
    idle_ms: int = 30_000
    shaping_wanted: int = 0
    shaping_limit: int = 0

    def encode(self) -> bytes:
        return struct.pack(
            "!HIBB", self.largest_datagram, self.idle_ms, self.shaping_wanted, self.shaping_limit
        )

    @staticmethod
    def decode(octets: bytes) -> Parameters:
        if len(octets) != 8:
            raise Broken("parameters of another length")
        parameters = Parameters(*struct.unpack("!HIBB", octets))
        if parameters.largest_datagram < 1200:
            raise Broken("a largest datagram below 1,200 bytes")
        return parameters


def choose_cipher(flags: int, aes_is_fast: bool) -> int:
    if flags & ASKS_XCHACHA:
        return XCHACHA20_POLY1305
    return AES_256_GCM if flags & AES_IS_FAST and aes_is_fast else CHACHA20_POLY1305


@dataclass(frozen=True)
class Outcome:
    """Results of a handshake for the link."""

    dialer: bool
    k1: bytes
    k2: bytes
    hybrid_secret: bytes | None
    hash: bytes
    cipher: int
    peer: bytes
    parameters: Parameters

    def first_secret(self, initiator: bool) -> bytes:
        """S0 of one direction."""
        label, k = ("initiator", self.k1) if initiator else ("responder", self.k2)
        q = bytes(32) if self.hybrid_secret is None else self.hybrid_secret
        choices = bytes([self.hybrid_secret is not None, self.cipher])
        return derive(f"{label} first epoch", k + q + self.hash + choices)


@dataclass
class Dialer:
    """One dial. `key` is the key that the responder has to prove, if it is known."""

    static: Static
    sealed_in: Envelope
    key: bytes | None = None
    aes_is_fast: bool = False
    asks_xchacha: bool = False
    hybrid: bool = True
    parameters: Parameters = Parameters()
    random: Random = os.urandom
    # Set where a test has to know it.
    ephemeral: Ephemeral | None = None
    kem: MLKEM768PrivateKey | None = None

    id: bytes = b""
    message: bytes = b""
    cookies: list[bytes] = field(default_factory=list)
    # Message 3 and its connection id, once message 2 has come.
    finish_id: bytes = b""
    finish: bytes = b""

    def __post_init__(self) -> None:
        self.ephemeral = self.ephemeral or Ephemeral.draw(self.random)
        self.noise = Handshake(True, self.static, self.ephemeral)
        # The id for the responder's answer, and the id that links the initial and its rest, in every repetition.
        self.id, self.initial_id = self.random(8), self.random(8)
        self.flags = (
            (AES_IS_FAST if self.aes_is_fast else 0)
            | (OFFERS_HYBRID if self.hybrid else 0)
            | (ASKS_XCHACHA if self.asks_xchacha else 0)
        )
        payload = self.id + bytes([self.flags])
        if self.hybrid:
            self.kem = self.kem or MLKEM768PrivateKey.generate()
            payload += self.kem.public_key().public_bytes_raw()
        self.message = self.noise.write(payload)

    def length(self, smallest: int, largest: int) -> int:
        return smallest + int.from_bytes(self.random(4), "big") % (largest - smallest + 1)

    def small(self) -> int:
        """The length of a rest or finish."""
        return self.length(1200, 1232) if self.parameters.shaping_wanted else self.length(128, 255)

    def first(self, cookie: bytes = envelope.NO_COOKIE) -> list[bytes]:
        """The initial, and with a hybrid its rest."""
        body = envelope.initial(cookie, self.message)
        datagrams = [self.sealed_in.seal(self.initial_id, body, self.length(1200, 1232))]
        if self.hybrid:
            body = envelope.rest(self.message)
            datagrams.append(self.sealed_in.seal(self.initial_id, body, self.small()))
        return datagrams

    def read(self, datagram: bytes) -> Outcome | bytes | None:
        """The outcome for a response, the cookie for a retry, None for any other message."""
        try:
            opened = self.sealed_in.unseal(datagram)
            if opened is None or opened[0] != self.id:
                return None
            kind, content = envelope.read(opened[1])
            if kind == envelope.RETRY and isinstance(content, bytes):
                return content
            if kind not in (envelope.RESPONSE, envelope.HYBRID_RESPONSE) or self.finish:
                return None
            assert isinstance(content, bytes)
            return self.read_response(content, kind == envelope.HYBRID_RESPONSE)
        except Broken:
            return None

    def read_response(self, message: bytes, long: bool) -> Outcome:
        before = dict(self.noise.__dict__)
        try:
            payload = self.noise.read(message)
            peer = self.noise.remote_static[1:]
            if self.key is not None and peer != self.key:
                raise Broken("another key than the one that was expected")
            id, cipher, hybrid = payload[:8], payload[8], payload[9]
            if self.asks_xchacha != (cipher == XCHACHA20_POLY1305) or not (
                cipher in (CHACHA20_POLY1305, XCHACHA20_POLY1305)
                or (cipher == AES_256_GCM and self.aes_is_fast)
            ):
                raise Broken("a cipher that was not asked for")
            if hybrid not in (0, 1) or hybrid != long or (hybrid and not self.hybrid):
                raise Broken("a hybrid that was not offered")
            parameters = Parameters.decode(payload[10:18])
            secret = None
            if hybrid:
                assert self.kem is not None
                secret = self.kem.decapsulate(payload[18:])
            self.finish_id, self.finish = id, self.noise.write(self.parameters.encode())
        except Broken:
            self.noise.__dict__.update(before)
            raise
        k1, k2 = self.noise.split()
        return Outcome(True, k1, k2, secret, self.noise.h, cipher, peer, parameters)

    def last(self) -> bytes:
        """The finish."""
        body = envelope.head(envelope.FINISH) + self.finish
        return self.sealed_in.seal(self.finish_id, body, self.small())


class Responder:
    """One handshake, begun by a dialer's complete first message."""

    def __init__(
        self,
        static: Static,
        sealed_in: Envelope,
        message: bytes,
        *,
        hybrid: bool = True,
        aes_is_fast: bool = False,
        parameters: Parameters = Parameters(),
        random: Random = os.urandom,
        ephemeral: Ephemeral | None = None,
        encapsulated: tuple[bytes, bytes] | None = None,
    ) -> None:
        """Raises Broken if the message is invalid. `encapsulated` is shared secret and ciphertext, set where a
        test has to know them."""
        self.sealed_in, self.random = sealed_in, random
        self.noise = Handshake(False, static, ephemeral or Ephemeral.draw(random))
        payload = self.noise.read(message)
        self.dialer_id, flags = payload[:8], payload[8]
        if flags & ~(AES_IS_FAST | OFFERS_HYBRID | ASKS_XCHACHA):
            raise Broken("an unknown flag")
        self.cipher = choose_cipher(flags, aes_is_fast)
        self.id = random(8)
        self.hybrid_secret, ciphertext = None, b""
        if hybrid and flags & OFFERS_HYBRID:
            if encapsulated is None:
                try:
                    encapsulated = MLKEM768PublicKey.from_public_bytes(payload[9:]).encapsulate()
                except ValueError:
                    raise Broken("no key of ML-KEM-768") from None
            self.hybrid_secret, ciphertext = encapsulated
        choices = bytes([self.cipher, bool(ciphertext)])
        self.message = self.noise.write(self.id + choices + parameters.encode() + ciphertext)

    def response(self) -> bytes:
        kind = envelope.RESPONSE if self.hybrid_secret is None else envelope.HYBRID_RESPONSE
        # The address has sent at least an initial of 1,200 bytes, and with a hybrid its rest, which bounds the answer.
        smallest = 1200 if kind == envelope.RESPONSE else 1229
        largest = smallest if kind == envelope.RESPONSE else 1232
        length = smallest + self.random(1)[0] % (largest - smallest + 1)
        return self.sealed_in.seal(self.dialer_id, envelope.head(kind) + self.message, length)

    def read(self, datagram: bytes) -> Outcome | None:
        """The outcome, for a finish."""
        opened = self.sealed_in.unseal(datagram)
        if opened is None or opened[0] != self.id:
            return None
        try:
            kind, content = envelope.read(opened[1])
            if kind != envelope.FINISH or not isinstance(content, bytes):
                return None
            parameters = Parameters.decode(self.noise.read(content))
        except Broken:
            return None
        k1, k2 = self.noise.split()
        peer = self.noise.remote_static[1:]
        return Outcome(False, k1, k2, self.hybrid_secret, self.noise.h, self.cipher, peer, parameters)
