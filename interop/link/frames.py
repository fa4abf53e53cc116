"""Frames ("Frames"): each a dataclass with its fields in the order of the wire."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import astuple, dataclass
from typing import ClassVar

from .primitives import Broken


@dataclass(frozen=True)
class Frame:
    type: ClassVar[int]
    # Layout of the fields for `struct`; "*" if the last one is bytes after a length of 2 bytes.
    layout: ClassVar[str] = ""
    # Whether a datagram with this frame is acknowledged.
    asks: ClassVar[bool] = False

    def encode(self) -> bytes:
        fields = astuple(self)
        layout = self.layout
        if layout.endswith("*"):
            fields = (*fields[:-1], len(fields[-1]), fields[-1])
            layout = layout[:-1] + f"H{len(fields[-1])}s"
        return bytes([self.type]) + struct.pack("!" + layout, *fields)


@dataclass(frozen=True)
class Padding(Frame):
    """The rest of the datagram: it is the last frame, and has this length including its type."""

    type = 0x00
    length: int

    def encode(self) -> bytes:
        return bytes(self.length)


@dataclass(frozen=True)
class Ping(Frame):
    type, layout = 0x01, "8s"
    token: bytes


@dataclass(frozen=True)
class Pong(Frame):
    type, layout = 0x02, "8s"
    token: bytes


@dataclass(frozen=True)
class Packet(Frame):
    type, layout = 0x03, "*"
    packet: bytes


@dataclass(frozen=True)
class Fragment(Frame):
    type, layout = 0x04, "III*"
    message: int
    offset: int
    total: int
    piece: bytes


@dataclass(frozen=True)
class Close(Frame):
    type, layout = 0x05, "B"
    code: int


@dataclass(frozen=True)
class Probe(Frame):
    type, layout = 0x06, "I"
    size: int


@dataclass(frozen=True)
class ProbeAck(Frame):
    type, layout = 0x07, "I"
    size: int


@dataclass(frozen=True)
class PathChallenge(Frame):
    type, layout = 0x08, "8s"
    token: bytes


@dataclass(frozen=True)
class PathResponse(Frame):
    type, layout = 0x09, "8s"
    token: bytes


@dataclass(frozen=True)
class EpochBegins(Frame):
    type, layout = 0x0A, "Q32s"
    number: int
    commitment: bytes


@dataclass(frozen=True)
class EpochAck(Frame):
    type, layout = 0x0B, "Q"
    number: int


@dataclass(frozen=True)
class Ack(Frame):
    type = 0x0C
    largest: int
    delay_us: int
    marked: int
    # Pairs of (gap, length).
    ranges: tuple[tuple[int, int], ...]

    def encode(self) -> bytes:
        head = struct.pack("!BQIIB", self.type, self.largest, self.delay_us, self.marked, len(self.ranges))
        return head + b"".join(struct.pack("!II", *each) for each in self.ranges)


@dataclass(frozen=True)
class StreamOpen(Frame):
    type, layout, asks = 0x0D, "IH", True
    stream: int
    purpose: int


@dataclass(frozen=True)
class StreamData(Frame):
    type, layout, asks = 0x0E, "IQ*", True
    stream: int
    offset: int
    data: bytes


@dataclass(frozen=True)
class StreamClose(Frame):
    type, layout, asks = 0x0F, "IQ", True
    stream: int
    size: int


@dataclass(frozen=True)
class StreamReset(Frame):
    type, layout, asks = 0x10, "IIQ", True
    stream: int
    code: int
    size: int


@dataclass(frozen=True)
class StreamStop(Frame):
    type, layout, asks = 0x11, "II", True
    stream: int
    code: int


@dataclass(frozen=True)
class WindowUpdate(Frame):
    type, layout, asks = 0x12, "IQ", True
    stream: int
    limit: int


@dataclass(frozen=True)
class GoAway(Frame):
    type, layout, asks = 0x13, "I", True
    last: int


OFFER, ANSWER = 0, 1


@dataclass(frozen=True)
class Rekey(Frame):
    type, layout = 0x14, "IB32s"
    round: int
    stage: int
    key: bytes


@dataclass(frozen=True)
class ResetToken(Frame):
    type, layout = 0x15, "Q16s"
    epoch: int
    token: bytes


@dataclass(frozen=True)
class Observed(Frame):
    """The observed address of the receiver: in IPv6 form, with a port."""

    type, layout = 0x16, "18s"
    address: bytes


SYMMETRIC = 1


@dataclass(frozen=True)
class Candidates(Frame):
    """Further addresses at which the sender may be reached."""

    type = 0x17
    number: int
    flags: int
    addresses: tuple[bytes, ...]

    def encode(self) -> bytes:
        head = struct.pack("!BIBB", self.type, self.number, self.flags, len(self.addresses))
        return head + b"".join(self.addresses)


@dataclass(frozen=True)
class CandidatesAck(Frame):
    type, layout = 0x18, "I"
    number: int


KINDS: dict[int, type[Frame]] = {kind.type: kind for kind in Frame.__subclasses__()}


def encode(frames: list[Frame]) -> bytes:
    return b"".join(frame.encode() for frame in frames)


def decode(octets: bytes) -> Iterator[Frame]:
    """The frames of a datagram; raises `Broken` for malformed ones."""
    at = 0
    while at < len(octets):
        kind = KINDS.get(octets[at])
        if kind is None:
            raise Broken(f"unknown frame type {octets[at]:#04x}")
        if kind is Padding:
            yield Padding(len(octets) - at)
            return
        try:
            frame, length = decode_one(kind, octets[at + 1 :])
        except struct.error:
            raise Broken("a frame that is cut off") from None
        yield frame
        at += 1 + length


def decode_one(kind: type[Frame], octets: bytes) -> tuple[Frame, int]:
    """A frame without its type, and its length."""
    if kind is Ack:
        largest, delay, marked, count = struct.unpack_from("!QIIB", octets)
        ranges = struct.unpack_from(f"!{2 * count}I", octets, 17)
        if not 1 <= count <= 32:
            raise Broken("an ack of no ranges, or of too many")
        return Ack(largest, delay, marked, tuple(zip(ranges[::2], ranges[1::2], strict=True))), 17 + 8 * count
    if kind is Candidates:
        number, flags, count = struct.unpack_from("!IBB", octets)
        if count > 16:
            raise Broken("too many candidates")
        (addresses,) = struct.iter_unpack("18s" * count, octets[6 : 6 + 18 * count]) if count else ((),)
        return Candidates(number, flags, addresses), 6 + 18 * count
    layout = "!" + kind.layout.removesuffix("*")
    fields = struct.unpack_from(layout, octets)
    length = struct.calcsize(layout)
    if kind.layout.endswith("*"):
        (size,) = struct.unpack_from("!H", octets, length)
        (octets_of_it,) = struct.unpack_from(f"{size}s", octets, length + 2)
        if not octets_of_it:
            raise Broken("nothing in a frame that carries something")
        fields, length = (*fields, octets_of_it), length + 2 + size
    return kind(*fields), length
