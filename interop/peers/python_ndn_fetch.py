"""Fetches an object of `xylem share --plain` with python-ndn, a foreign client.

Usage: fetch_with_python_ndn.py {udp|tcp} HOST PORT OBJECT_NAME OUTPUT

OBJECT_NAME is the name without its version: the version is found through RDR
(`OBJECT_NAME/32=metadata`), as other NDN tools do. Segments are fetched one by one by
python-ndn's own segment fetcher. Exit 0 when every segment came and agreed on the final block.
"""

import asyncio
import sys

from ndn.app import NDNApp
from ndn.app_support.segment_fetcher import segment_fetcher
from ndn.encoding import Component, Name
from ndn.security import KeychainDigest
from ndn.transport.stream_face import TcpFace
from ndn.transport.udp_face import UdpFace


async def accept(_name, _signature_pointers):
    """Accepts every packet, since python-ndn supports no tree signatures: bytes are compared with the original
    afterwards."""
    return True


async def discover(app, object_name):
    """The newest versioned name, from the RDR metadata packet."""
    metadata = Name.normalize(object_name) + [Component.from_str("32=metadata")]
    name, _meta, content = await app.express_interest(
        metadata, validator=accept, can_be_prefix=True, must_be_fresh=True, lifetime=4000
    )
    assert Component.get_type(name[-1]) == Component.TYPE_SEGMENT, Name.to_str(name)
    return Name.from_bytes(bytes(content))


async def fetch(app, object_name, output):
    versioned = await discover(app, object_name)
    assert Component.get_type(versioned[-1]) == Component.TYPE_VERSION, Name.to_str(versioned)
    segments = 0
    first = versioned + [Component.from_segment(0)]
    with open(output, "wb") as file:
        async for content in segment_fetcher(app, first, validator=accept):
            file.write(bytes(content) if content is not None else b"")
            segments += 1
    print(f"{Name.to_str(versioned)}: {segments} segments")


def main():
    transport, host, port, object_name, output = sys.argv[1:]
    face = {"udp": UdpFace, "tcp": TcpFace}[transport](host, int(port))
    app = NDNApp(face=face, keychain=KeychainDigest())
    outcome = {}

    async def run():
        try:
            await asyncio.wait_for(fetch(app, object_name, output), 120)
            outcome["ok"] = True
        finally:
            app.shutdown()

    app.run_forever(after_start=run())
    sys.exit(0 if outcome.get("ok") else 1)


if __name__ == "__main__":
    main()
