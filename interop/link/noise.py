"""Noise_XX_25519_ChaChaPoly_SHA256 (revision 34) with keys of 33 bytes ("Handshake")."""

from __future__ import annotations

import copy
import hashlib
import hmac
from dataclasses import dataclass

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from . import elligator
from .elligator import Ephemeral
from .primitives import Broken, x25519, x25519_public

NAME = b"Noise_XX_25519_ChaChaPoly_SHA256"
PROLOGUE = b"xylem-link/5 Noise_XX_25519_ChaChaPoly_SHA256 Elligator2"
PATTERNS = (("e",), ("e", "ee", "s", "es"), ("s", "se"))

PLAIN, REPRESENTATIVE = b"\0", b"\1"
TAG = 16


@dataclass(frozen=True)
class Static:
    """A side's static key."""

    secret: bytes

    @property
    def public(self) -> bytes:
        return x25519_public(self.secret)


def hkdf(chaining_key: bytes, material: bytes) -> tuple[bytes, bytes]:
    temporary = hmac.digest(chaining_key, material, "sha256")
    first = hmac.digest(temporary, b"\1", "sha256")
    return first, hmac.digest(temporary, first + b"\2", "sha256")


def diffie_hellman(secret: bytes, key: bytes) -> bytes:
    """Diffie-Hellman with a key of 33 bytes: its form, then the key."""
    if key[:1] == PLAIN:
        return x25519(secret, key[1:])
    if key[:1] == REPRESENTATIVE:
        return x25519(secret, elligator.decode(key[1:]))
    raise Broken("a key of an unknown form")


class Handshake:
    """Noise's HandshakeState, with its SymmetricState and CipherState."""

    def __init__(self, initiator: bool, static: Static, ephemeral: Ephemeral) -> None:
        self.initiator = initiator
        self.static = static
        self.ephemeral = ephemeral
        self.remote_static = b""
        self.remote_ephemeral = b""
        self.message = 0
        # The name is as long as a hash, so it is not hashed.
        self.h = self.chaining_key = NAME
        self.key: bytes | None = None
        self.nonce = 0
        self.mix_hash(PROLOGUE)

    def mix_hash(self, data: bytes) -> None:
        self.h = hashlib.sha256(self.h + data).digest()

    def mix_key(self, material: bytes) -> None:
        self.chaining_key, self.key = hkdf(self.chaining_key, material)
        self.nonce = 0

    def next_nonce(self) -> bytes:
        self.nonce += 1
        return bytes(4) + (self.nonce - 1).to_bytes(8, "little")

    def encrypt_and_hash(self, plain: bytes) -> bytes:
        sealed = plain
        if self.key:
            sealed = ChaCha20Poly1305(self.key).encrypt(self.next_nonce(), plain, self.h)
        self.mix_hash(sealed)
        return sealed

    def decrypt_and_hash(self, sealed: bytes) -> bytes:
        plain = sealed
        if self.key:
            try:
                plain = ChaCha20Poly1305(self.key).decrypt(self.next_nonce(), sealed, self.h)
            except InvalidTag:
                raise Broken("a Noise message whose tag is wrong") from None
        self.mix_hash(sealed)
        return plain

    def mix_diffie_hellman(self, token: str) -> None:
        """The first letter is the initiator's key, the second the responder's."""
        mine, theirs = (token[0], token[1]) if self.initiator else (token[1], token[0])
        secret = self.ephemeral.secret if mine == "e" else self.static.secret
        remote = self.remote_ephemeral if theirs == "e" else self.remote_static
        self.mix_key(diffie_hellman(secret, remote))

    def write(self, payload: bytes) -> bytes:
        """This side's next message."""
        wire = b""
        for token in PATTERNS[self.message]:
            if token == "e":
                # The form is hashed but not sent.
                wire += self.ephemeral.representative
                self.mix_hash(REPRESENTATIVE + self.ephemeral.representative)
            elif token == "s":
                wire += self.encrypt_and_hash(PLAIN + self.static.public)
            else:
                self.mix_diffie_hellman(token)
        self.message += 1
        return wire + self.encrypt_and_hash(payload)

    def read(self, wire: bytes) -> bytes:
        """The payload of the peer's next message. After `Broken` the state is unchanged."""
        trial = copy.copy(self)
        payload = trial.read_here(wire)
        self.__dict__.update(trial.__dict__)
        return payload

    def read_here(self, wire: bytes) -> bytes:
        for token in PATTERNS[self.message]:
            if token == "e":
                self.remote_ephemeral, wire = REPRESENTATIVE + wire[:32], wire[32:]
                self.mix_hash(self.remote_ephemeral)
            elif token == "s":
                length = 33 + TAG
                self.remote_static = self.decrypt_and_hash(wire[:length])
                if self.remote_static[:1] != PLAIN:
                    raise Broken("a static key of another form")
                wire = wire[length:]
            else:
                self.mix_diffie_hellman(token)
        self.message += 1
        return self.decrypt_and_hash(wire)

    def split(self) -> tuple[bytes, bytes]:
        """k1 (initiator to responder) and k2."""
        return hkdf(self.chaining_key, b"")
