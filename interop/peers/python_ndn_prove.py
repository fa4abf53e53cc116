"""Produces and fetches over one UDP face, with python-ndn.

Usage: python_ndn_prove.py HOST PORT PREFIX OBJECT OUTPUT

Asks for names below PREFIX until the forwarder, which then has a face, asks for one of them; answers that, and then
fetches OBJECT, which has a version and segments. The forwarder sends no more than three bytes for one until the answer's
PIT token has proven the address. Exit 0 when every segment came.
"""

import asyncio
import sys

from ndn.appv2 import NDNApp, pass_all
from ndn.encoding import Component, Name
from ndn.security import DigestSha256Signer
from ndn.transport.udp_face import UdpFace
from ndn.types import InterestNack, InterestTimeout


async def ask(app, name, **options):
    """One packet, asked for up to five times."""
    for _ in range(5):
        try:
            return await app.express(name, pass_all, lifetime=1000, **options)
        except InterestTimeout:
            continue
    raise InterestTimeout


async def run(app, prefix, name, output):
    asked = asyncio.Event()

    def answer(name, _parameters, reply, _context):
        reply(app.make_data(name, b"theirs", signer=DigestSha256Signer(), freshness_period=0))
        asked.set()

    app.attach_handler(prefix, answer)
    for number in range(100):
        if asked.is_set():
            break
        try:
            await app.express(f"{prefix}/ours/{number}", pass_all, lifetime=200)
        except (InterestTimeout, InterestNack):
            await asyncio.sleep(0.2)
    assert asked.is_set(), "the forwarder has asked for nothing"
    print("answered", flush=True)
    await asyncio.sleep(0.5)
    metadata = Name.normalize(name) + [Component.from_str("32=metadata")]
    _, content, _ = await ask(app, metadata, can_be_prefix=True, must_be_fresh=True)
    versioned = Name.from_bytes(bytes(content))
    with open(output, "wb") as file:
        last, number = None, 0
        while last is None or number <= last:
            segment = versioned + [Component.from_segment(number)]
            _, content, context = await ask(app, segment)
            file.write(bytes(content))
            final = context["meta_info"].final_block_id
            last = Component.to_number(final) if final else last
            number += 1


def main():
    host, port, prefix, name, output = sys.argv[1:]
    app = NDNApp(face=UdpFace(host, int(port)))
    outcome = {}

    async def to_the_end():
        try:
            await asyncio.wait_for(run(app, prefix, name, output), 60)
            outcome["ok"] = True
        finally:
            app.shutdown()

    app.run_forever(after_start=to_the_end())
    sys.exit(0 if outcome.get("ok") else 1)


if __name__ == "__main__":
    main()
