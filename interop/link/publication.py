"""A publication of one file, as its publisher makes it and as a getter verifies it (docs/spec/object.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from blake3 import blake3
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from packets import element, elements, tlv

from . import ndn
from .ndn import Data, generic, keyword, nni, segment, sequence
from .primitives import Broken
from .tree import Geometry, Tree

ROOT = generic("_root")
TILE = keyword("tree") + sequence(0) + sequence(0)
FRESHNESS = 4000
FIND = "xylem v1 find a publication by its root over a link with this key"
VOUCH = b"xylem v1 vouch for a link key"
VOUCH_UNTIL = b"xylem v2 vouch for a link key until"
DAY = 86_400


def key_id(publisher: bytes) -> str:
    return blake3(publisher).hexdigest()[:16]


def question(root: bytes, link_key: bytes) -> bytes:
    """The name by which a publication is found over a link."""
    id = blake3(root + link_key, derive_key_context=FIND).digest()[:16]
    return generic("localhop") + keyword("xylem-find") + generic(id)


class Publication:
    """A publisher's side: answers to names."""

    def __init__(
        self, seed: bytes, file_name: str, content: bytes, *, mode: int = 0o644,
        modified: tuple[int, int] = (1_700_000_000, 0), version: int = 1_700_000_000_000_000,
    ) -> None:
        self.key = Ed25519PrivateKey.from_private_bytes(seed)
        self.publisher = self.key.public_key().public_bytes_raw()
        self.tree = Tree(content)
        id = key_id(self.publisher)
        self.name = (
            generic("xylem") + generic(id) + generic(file_name) + tlv(ndn.VERSION, nni(version))
        )
        fields = {
            0x81: nni(1), 0x83: nni(8), 0x85: nni(1), 0x87: nni(0), 0x89: nni(len(content)),
            0x8B: nni(3), 0x8D: self.tree.root, 0x92: file_name.encode(), 0x94: nni(mode),
            0x96: modified[0].to_bytes(8, "big", signed=True), 0x98: nni(modified[1]),
        }
        self.manifest = ndn.signed_data(self.key, ndn.portion(
            self.name + ROOT, b"".join(tlv(kind, value) for kind, value in fields.items()),
            ndn.ED25519, freshness=FRESHNESS,
            locator=generic("xylem") + generic(id) + generic("KEY"),
        ))

    def proven(self, name: bytes, content: bytes, proof: bytes, final: bytes = b"") -> bytes:
        signed = ndn.portion(
            self.name + name, content, ndn.BLAKE3_MERKLE, freshness=FRESHNESS, final=final,
            locator=self.name + ROOT,
        )
        return ndn.data(signed, proof)

    def segment(self, index: int) -> bytes:
        final = segment(self.tree.segments - 1)
        return self.proven(segment(index), self.tree.piece(index), self.tree.segment_proof(index), final)

    def answer(self, name: bytes, link_key: bytes) -> bytes | None:
        if name == question(self.tree.root, link_key):
            until = (int(time.time()) + 400 * DAY).to_bytes(8, "big")
            vouch = until + self.key.sign(VOUCH_UNTIL + link_key + until)
            return ndn.digested_data(name, b"\1\2" + vouch + self.manifest)
        rest = name.removeprefix(self.name)
        if rest == ROOT:
            return self.manifest
        if rest == TILE and self.tree.height > 3:
            return self.proven(TILE, *self.tree.tile())
        for index in range(self.tree.segments):
            if rest == segment(index):
                return self.segment(index)
        return None


@dataclass(frozen=True)
class Manifest:
    """The content that a getter trusts, once the signature is the publisher's."""

    prefix: bytes
    tree_kind: int
    root: bytes
    geometry: Geometry

    @staticmethod
    def verify(packet: bytes, publisher: bytes, root: bytes) -> Manifest:
        data = Data.decode(packet)
        if data is None or not data.name.endswith(ROOT):
            raise Broken("no manifest")
        data.signed_by(publisher)
        fields = dict(elements(data.content))
        if fields[0x8D] != root:
            raise Broken("a manifest of another root")
        size, log2 = (int.from_bytes(fields[kind], "big") for kind in (0x89, 0x8B))
        kind = int.from_bytes(fields[0x83], "big")
        return Manifest(data.name[: -len(ROOT)], kind, root, Geometry(size, log2))


def find(
    ask: Callable[[bytes], bytes], publisher: bytes, root: bytes, link_key: bytes, must_vouch: bool
) -> Manifest:
    """The first exchange over a new link. `ask` fetches the Data of a name."""
    data = Data.decode(ask(question(root, link_key)))
    assert data is not None
    data.intact()
    version, flags = data.content[0], data.content[1]
    if version != 1 or flags > 2:
        raise Broken("an answer of another version")
    at = 2
    if flags:
        until = data.content[2:10] if flags == 2 else b""
        if until and int.from_bytes(until, "big") <= time.time():
            raise Broken("the publisher does not vouch for this link any more")
        vouched = VOUCH_UNTIL + link_key + until if until else VOUCH + link_key
        start = at + len(until)
        at = start + 64
        try:
            Ed25519PublicKey.from_public_bytes(publisher).verify(data.content[start:at], vouched)
        except InvalidSignature:
            raise Broken("the publisher does not vouch for this link") from None
    elif must_vouch:
        raise Broken("nobody vouches for this link")
    return Manifest.verify(data.content[at:], publisher, root)


def fetch(ask: Callable[[bytes], bytes], manifest: Manifest) -> bytes:
    """Fetches all of a file of up to 2 MiB; each piece is proven before it is used."""
    geometry = manifest.geometry
    ends = [manifest.root]
    if geometry.height > 3:
        data = checked(ask(manifest.prefix + TILE), manifest)
        ends = geometry.verify_tile(data.content, data.signature, manifest.root)
    content = b""
    for index in range(geometry.segments):
        data = checked(ask(manifest.prefix + segment(index)), manifest)
        final = element(data.meta, ndn.FINAL_BLOCK)
        if final not in (None, segment(geometry.segments - 1)):
            raise Broken("another FinalBlockId than the signed size gives")
        end = ends[index >> 3] if geometry.height > 3 else ends[0]
        geometry.verify_segment(index, data.content, data.signature, end)
        content += data.content
    return content


def checked(packet: bytes, manifest: Manifest) -> Data:
    data = Data.decode(packet)
    if data is None or data.signature_type != manifest.tree_kind:
        raise Broken("signed in another way than the manifest says")
    return data
