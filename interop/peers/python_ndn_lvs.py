"""Fetches the metadata and the manifest of a `xylem share --sign key:NAME`, under a trust schema, with python-ndn.

Usage: python_ndn_lvs.py PORT SCHEMA ANCHOR OBJECT_NAME

SCHEMA is in its binary form, ANCHOR a certificate (raw) at which its chains end. Certificates between come from the
same share. Prints `accepted NAME` or `refused NAME` for each of the two packets. Refused metadata are fetched once
more without verification, so that the manifest has a name.
"""

import asyncio
import sys
from pathlib import Path

from Cryptodome.PublicKey import ECC
from ndn.app import NDNApp
from ndn.app_support.light_versec import Checker
from ndn.app_support.light_versec.validator import lvs_validator
from ndn.encoding import Component, Name, SignatureType
from ndn.security import KeychainDigest
from ndn.security.validator import verify_ed25519
from ndn.security.validator.cascade_validator import CascadeChecker, MemoryKeyStorage
from ndn.transport.stream_face import TcpFace
from ndn.types import ValidationFailure

theirs = CascadeChecker._verify_sig


def verify(key, packet):
    """Verifies Ed25519, which python-ndn supports, but which its validator of chains does not call."""
    if packet.signature_info.signature_type == SignatureType.ED25519:
        return verify_ed25519(ECC.import_key(bytes(key)), packet)
    return theirs(key, packet)


CascadeChecker._verify_sig = staticmethod(verify)


async def unseen(_name, _packet):
    return True


async def fetch(app, name, validator, **how):
    """The content, if it is accepted."""
    try:
        found, _meta, content = await app.express_interest(name, validator=validator, lifetime=4000, **how)
        print("accepted", Name.to_str(found))
        return bytes(content)
    except ValidationFailure as refused:
        print("refused", Name.to_str(refused.name))
        return None


async def both(app, schema, anchor, name):
    validator = lvs_validator(Checker.load(schema, {}), app, anchor, MemoryKeyStorage())
    metadata = Name.normalize(name) + [Component.from_str("32=metadata")]
    how = {"can_be_prefix": True, "must_be_fresh": True}
    content = await fetch(app, metadata, validator, **how)
    if content is None:
        _, _, content = await app.express_interest(metadata, validator=unseen, lifetime=4000, **how)
    manifest = Name.from_bytes(bytes(content)) + [Component.from_str("_root")]
    await fetch(app, manifest, validator, can_be_prefix=False, must_be_fresh=True)


def main():
    port, schema, anchor, name = sys.argv[1:]
    app = NDNApp(face=TcpFace("127.0.0.1", int(port)), keychain=KeychainDigest())
    ended = []

    async def run():
        try:
            await asyncio.wait_for(both(app, Path(schema).read_bytes(), Path(anchor).read_bytes(), name), 30)
            ended.append(True)
        finally:
            app.shutdown()

    app.run_forever(after_start=run())
    sys.exit(0 if ended else 1)


if __name__ == "__main__":
    main()
