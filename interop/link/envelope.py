"""Envelopes, in which handshake messages look like random bytes, and their bodies ("Envelope")."""

from __future__ import annotations

import hmac
from dataclasses import dataclass

from .primitives import Broken, derive, exclusive_or, keyed

VERSION = 5
INITIAL, RETRY, RESPONSE, FINISH, REST, HYBRID_RESPONSE = 1, 2, 3, 4, 5, 6

ID, TAG = 8, 16
OVERHEAD = ID + TAG
LARGEST = 1500
SMALLEST_INITIAL = 1200

COOKIE = 24
NO_COOKIE = bytes(COOKIE)
# Lengths of Noise messages: the first without a hybrid's key, the second with and without a ciphertext.
FIRST, SECOND, THIRD = 41, 115, 73
HYBRID_SECOND = SECOND + 1088
CHECK = 16
# How much of a hybrid's first message follows in the initial, and how much in the rest.
MIDDLE, REST_LENGTH = 1093, 91
LENGTHS = {RETRY: COOKIE, RESPONSE: SECOND, FINISH: THIRD, REST: REST_LENGTH, HYBRID_RESPONSE: HYBRID_SECOND}

HYBRID_FLAG = 2


@dataclass(frozen=True)
class Envelope:
    """The inputs for making or opening an envelope: P of the specification."""

    pattern: bytes

    @staticmethod
    def key(public: bytes) -> Envelope:
        return Envelope(b"\1" + public)

    @staticmethod
    def knock(knock: bytes) -> Envelope:
        return Envelope(b"\2" + knock)

    @staticmethod
    def open() -> Envelope:
        return Envelope(b"\0" + bytes(32))

    def tag(self, id: bytes, body: bytes) -> bytes:
        return keyed(derive("handshake envelope tag", self.pattern), id + body)[:TAG]

    def masked(self, tag: bytes, body: bytes) -> bytes:
        stream = keyed(derive("handshake envelope stream", self.pattern), tag, len(body))
        return exclusive_or(body, stream)

    def seal(self, id: bytes, body: bytes, length: int = 0) -> bytes:
        """An envelope with this body, padded to this length."""
        body = body.ljust(length - OVERHEAD, b"\0")
        tag = self.tag(id, body)
        return id + tag + self.masked(tag, body)

    def unseal(self, datagram: bytes) -> tuple[bytes, bytes] | None:
        """Id and body, or None if it is no envelope of this kind."""
        if not OVERHEAD < len(datagram) <= LARGEST:
            return None
        id, tag = datagram[:ID], datagram[ID:OVERHEAD]
        body = self.masked(tag, datagram[OVERHEAD:])
        return (id, body) if hmac.compare_digest(self.tag(id, body), tag) else None


def check_of(rest: bytes) -> bytes:
    return derive("first message rest", rest)[:CHECK]


def head(kind: int) -> bytes:
    return bytes([VERSION, kind])


def initial(cookie: bytes, message: bytes) -> bytes:
    """The body with Noise message 1, or as much of it as fits."""
    body = head(INITIAL) + cookie + message[:FIRST]
    if message[FIRST:]:
        body += check_of(message[-REST_LENGTH:]) + message[FIRST:-REST_LENGTH]
    return body


def rest(message: bytes) -> bytes:
    return head(REST) + message[-REST_LENGTH:]


@dataclass(frozen=True)
class Initial:
    cookie: bytes
    # Noise message 1, or its beginning, which a rest that matches `check` completes.
    message: bytes
    check: bytes | None


def read(body: bytes) -> tuple[int, bytes | Initial]:
    """Kind and content of a body, without the padding, which is ignored."""
    if len(body) < 2 or body[0] != VERSION:
        raise Broken("another version")
    kind, content = body[1], body[2:]
    if kind == INITIAL:
        return kind, read_initial(content)
    if kind not in LENGTHS or len(content) < LENGTHS[kind]:
        raise Broken("no message of the handshake")
    return kind, content[: LENGTHS[kind]]


def read_initial(content: bytes) -> Initial:
    if len(content) + 2 + OVERHEAD < SMALLEST_INITIAL:
        raise Broken("a small initial")
    cookie, message, more = content[:COOKIE], content[COOKIE : COOKIE + FIRST], content[COOKIE + FIRST :]
    # The flags are the last byte.
    if not message[-1] & HYBRID_FLAG:
        return Initial(cookie, message, None)
    return Initial(cookie, message + more[CHECK : CHECK + MIDDLE], more[:CHECK])
