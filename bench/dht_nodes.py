#!/usr/bin/env python3
"""Nodes of a DHT, for bench/reach.py: they know each other and list each peer that announces itself (BEP 5, with implied_port).

Usage: bench/dht_nodes.py ADDRESS:PORT...

One node at each address. They answer find_node, get_peers and announce_peer until they are killed. Their ids are bound to
their addresses (BEP 42), so what they report of a NAT is believed.
"""

import hashlib
import selectors
import socket
import sys


def encode(value):
    if isinstance(value, int):
        return b"i%de" % value
    if isinstance(value, bytes):
        return b"%d:%s" % (len(value), value)
    if isinstance(value, list):
        return b"l" + b"".join(map(encode, value)) + b"e"
    return b"d" + b"".join(encode(key) + encode(value[key]) for key in sorted(value)) + b"e"


def decode(data, at=0):
    """A value and the place behind it."""
    kind = data[at : at + 1]
    if kind == b"i":
        end = data.index(b"e", at)
        return int(data[at + 1 : end]), end + 1
    if kind in (b"l", b"d"):
        items, at = [], at + 1
        while data[at : at + 1] != b"e":
            item, at = decode(data, at)
            items.append(item)
        return (items if kind == b"l" else dict(zip(items[::2], items[1::2]))), at + 1
    colon = data.index(b":", at)
    end = colon + 1 + int(data[at:colon])
    return data[colon + 1 : end], end


def compact(address):
    return socket.inet_aton(address[0]) + address[1].to_bytes(2, "big")


def crc32c(data):
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def bound_id(address):
    """An id whose first 21 bits follow from the IPv4 address and three bits of its last octet (BEP 42)."""
    drawn = hashlib.sha1(repr(address).encode()).digest()
    octets = [octet & mask for octet, mask in zip(socket.inet_aton(address[0]), (0x03, 0x0F, 0x3F, 0xFF))]
    octets[0] |= (drawn[19] & 7) << 5
    crc = crc32c(bytes(octets)).to_bytes(4, "big")
    return crc[:2] + bytes([crc[2] & 0xF8 | drawn[2] & 7]) + drawn[3:]


class Node:
    def __init__(self, address):
        self.address, self.id = address, bound_id(address)
        self.listed = {}
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.socket.bind(address)

    def answer(self, nodes):
        data, source = self.socket.recvfrom(2048)
        try:
            query, _ = decode(data)
            name, asked = query[b"q"], query[b"a"]
        except (ValueError, KeyError, IndexError, TypeError):
            return
        target = asked.get(b"info_hash") or asked.get(b"target")
        reply = {b"id": self.id}
        if name == b"announce_peer":
            port = source[1] if asked.get(b"implied_port") else asked[b"port"]
            self.listed.setdefault(target, {})[source[0], port] = True
        elif target:
            near = sorted(nodes, key=lambda node: int.from_bytes(node.id, "big") ^ int.from_bytes(target, "big"))
            reply[b"nodes"] = b"".join(node.id + compact(node.address) for node in near[:8])
            if name == b"get_peers":
                reply[b"token"] = b"token"
                if target in self.listed:
                    reply[b"values"] = [compact(peer) for peer in self.listed[target]]
        self.socket.sendto(encode({b"ip": compact(source), b"r": reply, b"t": query[b"t"], b"y": b"r"}), source)


def main():
    places = [word.rsplit(":", 1) for word in sys.argv[1:]]
    nodes = [Node((host, int(port))) for host, port in places]
    ready = selectors.DefaultSelector()
    for node in nodes:
        ready.register(node.socket, selectors.EVENT_READ, node)
    print('{"event": "ready"}', flush=True)
    while True:
        for key, _ in ready.select():
            key.data.answer(nodes)


if __name__ == "__main__":
    main()
