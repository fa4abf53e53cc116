"""NDN packets by hand and a Unix socket to send them on, as far as semantics.py needs them.

It is a second encoder on purpose: a check must not use the code under test.
NDN packet format v0.3; Signed Interest v0.3 for the one command, rib/register.
"""

from __future__ import annotations

import hashlib
import os
import socket
import struct
import time
from collections.abc import Iterator

from programs import Failed

INTEREST, DATA, LP = 0x05, 0x06, 0x64
NAME, COMPONENT, IMPLICIT_DIGEST, PARAMETERS_DIGEST = 0x07, 0x08, 0x01, 0x02
PIT_TOKEN, FRAGMENT, NACK = 0x62, 0x50, 0x0320


def number(value: int) -> bytes:
    """A TLV-TYPE or TLV-LENGTH."""
    if value < 253:
        return bytes([value])
    return b"\xfd" + struct.pack("!H", value) if value < 1 << 16 else b"\xfe" + struct.pack("!I", value)


def tlv(typ: int, *parts: bytes) -> bytes:
    value = b"".join(parts)
    return number(typ) + number(len(value)) + value


def components(uri):
    return b"".join(tlv(COMPONENT, part.encode()) for part in uri.split("/") if part)


def read_number(octets: bytes, at: int) -> tuple[int, int]:
    first = octets[at]
    if first < 253:
        return first, at + 1
    width = {253: 2, 254: 4, 255: 8}[first]
    return int.from_bytes(octets[at + 1 : at + 1 + width], "big"), at + 1 + width


def elements(octets: bytes) -> Iterator[tuple[int, bytes]]:
    """The TLVs of a value: (type, value)."""
    at = 0
    while at < len(octets):
        typ, at = read_number(octets, at)
        length, at = read_number(octets, at)
        yield typ, octets[at : at + length]
        at += length


def element(octets: bytes, typ: int) -> bytes | None:
    return next((value for each, value in elements(octets) if each == typ), None)


def interest(uri, *, prefix=False, fresh=False, hint=None, nonce=None, lifetime=4000, hops=None,
             digest=None):
    last = tlv(IMPLICIT_DIGEST, digest) if digest else b""
    return tlv(
        INTEREST,
        tlv(NAME, components(uri), last),
        tlv(0x21) if prefix else b"",
        tlv(0x12) if fresh else b"",
        tlv(0x1E, tlv(NAME, components(hint))) if hint else b"",
        tlv(0x0A, nonce or os.urandom(4)),
        tlv(0x0C, struct.pack("!H", lifetime)),
        tlv(0x22, bytes([hops])) if hops is not None else b"",
    )


def data(uri, content=b"content", freshness=None):
    """A Data signed by its SHA-256 digest."""
    meta = tlv(0x14, tlv(0x19, struct.pack("!H", freshness))) if freshness is not None else b""
    portion = tlv(NAME, components(uri)) + meta + tlv(0x15, content) + tlv(0x16, tlv(0x1B, b"\0"))
    return tlv(DATA, portion, tlv(0x17, hashlib.sha256(portion).digest()))


def implicit_digest(packet):
    return hashlib.sha256(packet).digest()


def with_token(packet, token):
    return tlv(LP, tlv(PIT_TOKEN, token), tlv(FRAGMENT, packet))


def register_command(uri):
    parameters = tlv(0x68, tlv(NAME, components(uri)))
    name = components("/localhost/nfd/rib/register") + tlv(COMPONENT, parameters)
    info = tlv(0x2C, tlv(0x1B, b"\0"), tlv(0x26, os.urandom(8)),
               tlv(0x28, struct.pack("!Q", int(time.time() * 1000))))
    signed = tlv(0x24) + info
    signed += tlv(0x2E, hashlib.sha256(name + signed).digest())
    name += tlv(PARAMETERS_DIGEST, hashlib.sha256(signed).digest())
    return tlv(INTEREST, tlv(NAME, name), tlv(0x12), tlv(0x0A, os.urandom(4)), signed)


class Packet:
    """A received packet: the bare Interest or Data, and the checked NDNLPv2 fields around it."""

    def __init__(self, frame):
        typ, value = next(elements(frame))
        self.token, self.nack, self.bare = None, None, frame
        if typ == LP:
            self.token = element(value, PIT_TOKEN)
            self.nack = element(value, NACK)
            self.bare = element(value, FRAGMENT)
        self.typ, self.value = next(elements(self.bare))

    def named(self, uri):
        return element(self.value, NAME).startswith(components(uri))

    def hop_limit(self):
        found = element(self.value, 0x22)
        return found[0] if found else None


class Face:
    """One connection to a forwarder's Unix socket."""

    def __init__(self, path):
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(str(path))
        self.buffer = b""

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.socket.close()

    def send(self, packet):
        self.socket.sendall(packet)

    def receive(self, seconds=1.0):
        """The next packet, or None after the timeout."""
        end = time.monotonic() + seconds
        while True:
            try:
                _, at = read_number(self.buffer, 0)
                length, at = read_number(self.buffer, at)
                if len(self.buffer) >= at + length:
                    frame, self.buffer = self.buffer[: at + length], self.buffer[at + length :]
                    return Packet(frame)
            except IndexError:
                pass
            self.socket.settimeout(max(end - time.monotonic(), 0.001))
            try:
                octets = self.socket.recv(65536)
            except TimeoutError:
                return None
            if not octets:
                raise Failed("the forwarder closed the connection")
            self.buffer += octets

    def register(self, uri):
        self.send(register_command(uri))
        answer = self.receive(2.0)
        # Content → ControlResponse → StatusCode.
        response = answer and answer.nack is None and element(answer.value, 0x15)
        if not response or element(element(response, 0x65) or b"", 0x66) != b"\xc8":
            raise Failed(f"rib/register {uri} was not answered with 200")
        return self
