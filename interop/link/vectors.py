"""docs/spec/vectors/link-v5.json: the results of each message and derivation.

    python -m link.vectors FILE          makes it
    python -m link.vectors FILE --check  makes it again, and compares

All random values of a link come from a seed here, with one exception. Libraries encapsulate with
randomness of their own, so secrets and ciphertexts of ML-KEM-768 are copied from the existing file,
where they match its keys.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from blake3 import blake3
from cryptography.hazmat.primitives.asymmetric.mlkem import MLKEM768PrivateKey

from . import elligator, envelope, frames
from .elligator import Ephemeral
from .envelope import Envelope
from .epoch import OVERHEAD, Epoch
from .handshake import Dialer, Outcome, Parameters, Responder
from .noise import Static
from .primitives import derive, keyed, x25519, x25519_public
from .session import SIZE
from .udp import mapped

FILE = Path(__file__).parents[2] / "docs" / "spec" / "vectors" / "link-v5.json"

Vector = dict[str, Any]

ABOUT = (
    "Test vectors of docs/spec/link.md, version 5. Octets are hexadecimal. Made by interop/link/vectors.py; "
    "checked by it and by crates/xylem-link/tests/spec_vectors.rs."
)


def drawn(seed: str) -> Callable[[int], bytes]:
    """A source of octets that gives the same ones in each run."""
    stream, at = blake3(seed.encode()), 0

    def draw(count: int) -> bytes:
        nonlocal at
        at += count
        return stream.digest(length=count, seek=at - count)

    return draw


def representatives() -> list[Vector]:
    """Representatives: any 32 bytes are one; the first ones are edge cases."""
    draw = drawn("representatives")
    edges = [bytes(32), b"\1".ljust(32, b"\0"), b"\xff" * 32, b"\xff" * 31 + b"\x3f"]
    edges.append(((elligator.P - 1) // 2).to_bytes(32, "little"))
    return [
        {"representative": each.hex(), "public": elligator.decode(each).hex()}
        for each in [*edges, *(draw(32) for _ in range(32))]
    ]


def ephemerals() -> list[Vector]:
    """Secrets with each of the eight points of small order, and both representatives."""
    draw, vectors = drawn("ephemerals"), []
    for torsion in range(8):
        for second in (False, True):
            representative = None
            while representative is None:
                secret, top = draw(32), draw(1)[0] & 3
                public = elligator.public_key(secret, torsion)
                representative = elligator.encode(public, second, top)
            peer = Static(draw(32))
            shared = x25519(peer.secret, elligator.decode(representative))
            assert shared == x25519(secret, peer.public), "small order does not matter to DH"
            vectors.append({
                "secret": secret.hex(),
                "public": public.hex(),
                "representative": representative.hex(),
                "peer_public": peer.public.hex(),
                "shared": shared.hex(),
            })
    return vectors


def envelopes() -> list[Vector]:
    draw, vectors = drawn("envelopes"), []
    for kind, given, sealed_in in patterns(draw):
        for length in (2, 26, 1176, envelope.LARGEST - envelope.OVERHEAD):
            id, body = draw(8), draw(length)
            vectors.append({
                "pattern": kind,
                "given": given.hex(),
                "id": id.hex(),
                "body": body.hex(),
                "datagram": sealed_in.seal(id, body).hex(),
            })
    return vectors


def patterns(draw: Callable[[int], bytes]) -> list[tuple[str, bytes, Envelope]]:
    key, knock = draw(32), draw(32)
    return [
        ("key", key, Envelope.key(key)),
        ("knock", knock, Envelope.knock(knock)),
        ("open", b"", Envelope.open()),
    ]


@dataclass
class Setting:
    """One handshake of the vectors."""

    name: str
    pattern: str
    hybrid: bool
    aes_is_fast: bool = False
    asks_xchacha: bool = False


SETTINGS = [
    Setting("plain, AES-256-GCM, by the responder's key", "key", False, aes_is_fast=True),
    Setting("hybrid, ChaCha20-Poly1305, by a knock", "knock", True),
    Setting("hybrid, XChaCha20-Poly1305, in the open envelope", "open", True, asks_xchacha=True),
]


def handshake(setting: Setting, before: Vector | None) -> Vector:
    draw = drawn(setting.name)
    dialer_static, responder_static = Static(draw(32)), Static(draw(32))
    given = {"key": responder_static.public, "knock": draw(32), "open": b""}[setting.pattern]
    sealed_in = Envelope(bytes([("open", "key", "knock").index(setting.pattern)]) + given.ljust(32, b"\0"))
    kem_seed, cookie = draw(64), draw(24)
    kem = MLKEM768PrivateKey.from_seed_bytes(kem_seed)
    dialer = Dialer(
        dialer_static,
        sealed_in,
        responder_static.public if setting.pattern == "key" else None,
        aes_is_fast=setting.aes_is_fast,
        asks_xchacha=setting.asks_xchacha,
        hybrid=setting.hybrid,
        parameters=Parameters(1452, 30_000, 0, 2),
        random=draw,
        ephemeral=Ephemeral.draw(draw),
        kem=kem,
    )
    assert dialer.ephemeral is not None
    first = dialer.first(cookie)
    message_1 = dialer.message
    encapsulated = None
    if setting.hybrid:
        encapsulated = encapsulation(kem, before)
    responder = Responder(
        responder_static,
        sealed_in,
        message_1,
        aes_is_fast=True,
        parameters=Parameters(65_507, 45_000, 1, 3),
        random=draw,
        ephemeral=Ephemeral.draw(draw),
        encapsulated=encapsulated,
    )
    response = responder.response()
    retry = sealed_in.seal(dialer.id, envelope.head(envelope.RETRY) + cookie, 100)
    assert dialer.read(retry) == cookie
    outcome = dialer.read(response)
    finish = dialer.last()
    other = responder.read(finish)
    assert isinstance(outcome, Outcome) and isinstance(other, Outcome), "the handshake completes"
    for initiator in (True, False):
        assert outcome.first_secret(initiator) == other.first_secret(initiator)
    vector: Vector = {
        "name": setting.name,
        "pattern": setting.pattern,
        "given": given.hex(),
        "dialer_static": dialer_static.secret.hex(),
        "responder_static": responder_static.secret.hex(),
        "dialer_ephemeral": ephemeral(dialer.ephemeral),
        "responder_ephemeral": ephemeral(responder.noise.ephemeral),
        "initial_id": dialer.initial_id.hex(),
        "dialer_id": dialer.id.hex(),
        "responder_id": responder.id.hex(),
        "flags": dialer.flags,
        "cookie": cookie.hex(),
        "dialer_parameters": dialer.parameters.encode().hex(),
        "responder_parameters": outcome.parameters.encode().hex(),
        "noise_message_1": message_1.hex(),
        "noise_message_2": responder.message.hex(),
        "noise_message_3": dialer.finish.hex(),
        "initial": first[0].hex(),
        "retry": retry.hex(),
        "response": response.hex(),
        "finish": finish.hex(),
        "hash": outcome.hash.hex(),
        "k1": outcome.k1.hex(),
        "k2": outcome.k2.hex(),
        "cipher": outcome.cipher,
        "hybrid": int(setting.hybrid),
    }
    if encapsulated:
        vector |= {
            "rest": first[1].hex(),
            "kem_seed": kem_seed.hex(),
            "kem_shared": encapsulated[0].hex(),
            "kem_ciphertext": encapsulated[1].hex(),
        }
    vector["initiator"] = chain(draw, Epoch(outcome.first_secret(True), outcome.cipher))
    vector["responder"] = chain(draw, Epoch(outcome.first_secret(False), outcome.cipher))
    return vector


def ephemeral(pair: Ephemeral) -> Vector:
    return {"secret": pair.secret.hex(), "representative": pair.representative.hex()}


def encapsulation(kem: MLKEM768PrivateKey, before: Vector | None) -> tuple[bytes, bytes]:
    if before:
        shared, ciphertext = (bytes.fromhex(before[key]) for key in ("kem_shared", "kem_ciphertext"))
        if kem.decapsulate(ciphertext) == shared:
            return shared, ciphertext
    return kem.public_key().encapsulate()


def chain(draw: Callable[[int], bytes], first: Epoch) -> list[Vector]:
    """An epoch, the next, one that includes a round, and the next again. Numbers continue through all."""
    a, b = draw(32), draw(32)
    dh = x25519(a, x25519_public(b))
    second = first.next()
    third = second.ratcheted(dh, 1)
    epochs = (first, second, third, third.next())
    numbers = ((0, 1, 2**31), (2**32 - 1, 2**32 + 2), (2**32 + 3, 2**32 + 5000), (2**32 + 5001,))
    vectors = [epoch(draw, each, these) for each, these in zip(epochs, numbers, strict=True)]
    vectors[2] |= {
        "round": 1,
        "offer_secret": a.hex(),
        "offer": x25519_public(a).hex(),
        "answer_secret": b.hex(),
        "answer": x25519_public(b).hex(),
        "dh": dh.hex(),
    }
    return vectors


def epoch(draw: Callable[[int], bytes], each: Epoch, numbers: tuple[int, ...]) -> Vector:
    begins = frames.EpochBegins(each.number, each.commitment).encode()
    plains = (begins, b"", frames.Packet(draw(SIZE - OVERHEAD - 3)).encode())
    datagrams = []
    for number, plain in zip(numbers, plains, strict=False):
        sealed = each.seal(number, plain)
        assert each.open(sealed, number) == (number, plain)
        datagrams.append({"number": number, "frames": plain.hex(), "datagram": sealed.hex()})
    return {
        "number": each.number,
        "secret": each.secret.hex(),
        "key": each.key.hex(),
        "iv": each.iv.hex(),
        "header_key": each.header_key.hex(),
        "id": each.id.hex(),
        "commitment": each.commitment.hex(),
        "datagrams": datagrams,
    }


def every_frame() -> list[Vector]:
    draw = drawn("frames")
    examples = [
        frames.Padding(3),
        frames.Ping(draw(8)),
        frames.Pong(draw(8)),
        frames.Packet(draw(5)),
        frames.Fragment(7, 1201, 8800, draw(9)),
        frames.Close(1),
        frames.Probe(1392),
        frames.ProbeAck(1392),
        frames.PathChallenge(draw(8)),
        frames.PathResponse(draw(8)),
        frames.EpochBegins(3, draw(32)),
        frames.EpochAck(3),
        frames.Ack(1000, 250, 3, ((0, 5), (2, 1))),
        frames.StreamOpen(2, 1),
        frames.StreamData(2, 65_000, draw(4)),
        frames.StreamClose(2, 65_004),
        frames.StreamReset(1, 2**32 - 1, 0),
        frames.StreamStop(1, 9),
        frames.WindowUpdate(2**32 - 1, 524_288),
        frames.GoAway(6),
        frames.Rekey(2, frames.ANSWER, draw(32)),
        frames.ResetToken(3, draw(16)),
        frames.Observed(mapped(("192.0.2.1", 7348))),
        frames.Candidates(2, frames.SYMMETRIC, (mapped(("192.0.2.1", 7348)), draw(18))),
        frames.CandidatesAck(2),
    ]
    assert [example.type for example in examples] == sorted(frames.KINDS)
    vectors = []
    for example in examples:
        assert list(frames.decode(example.encode())) == [example]
        values = {each.name: shown(getattr(example, each.name)) for each in fields(example)}
        name = type(example).__name__
        vectors.append({"frame": name, "fields": values, "octets": example.encode().hex()})
    return vectors


def shown(value: bytes | int | tuple[Any, ...]) -> Any:
    if isinstance(value, bytes):
        return value.hex()
    return value if isinstance(value, int) else [shown(each) for each in value]


def refused_frames() -> list[str]:
    """Each of these ends the link: all frames without their last octet, unknown types, empty contents."""
    cut = [bytes.fromhex(each["octets"])[:-1].hex() for each in every_frame()[1:]]
    empty: list[frames.Frame] = [frames.Packet(b""), frames.Fragment(1, 0, 1, b"")]
    empty += [frames.StreamData(2, 0, b""), frames.Ack(0, 0, 0, ())]
    empty.append(frames.Candidates(1, 0, (bytes(18),) * 17))
    return [*cut, "19", "ff", *(each.encode().hex() for each in empty)]


def reset_tokens() -> list[Vector]:
    draw, vectors = drawn("resets"), []
    static = draw(32)
    key = derive("stateless reset key", static)
    for host, port in (("192.0.2.1", 7348), ("127.0.0.1", 65535)):
        id = draw(8)
        vectors.append({
            "static": static.hex(),
            "reset_key": key.hex(),
            "id": id.hex(),
            "address": f"{host}:{port}",
            "token": keyed(key, id + mapped((host, port)))[:16].hex(),
        })
    return vectors


def make(before: Vector | None) -> Vector:
    known = {each["name"]: each for each in before["handshakes"]} if before else {}
    return {
        "about": ABOUT,
        "representatives": representatives(),
        "ephemerals": ephemerals(),
        "envelopes": envelopes(),
        "handshakes": [handshake(setting, known.get(setting.name)) for setting in SETTINGS],
        "frames": every_frame(),
        "refused_frames": refused_frames(),
        "reset_tokens": reset_tokens(),
    }


def check(file: Path = FILE) -> bool:
    """Whether the file equals the output of this implementation."""
    vectors = json.loads(file.read_text())
    return bool(make(vectors) == vectors)


def main() -> None:
    file = Path(sys.argv[1])
    if sys.argv[2:] == ["--check"]:
        sys.exit(0 if check(file) else f"{file} is not what interop/link makes")
    before = json.loads(file.read_text()) if file.exists() else None
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(json.dumps(make(before), indent=1) + "\n")


if __name__ == "__main__":
    main()
