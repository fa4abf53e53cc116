"""python-ndn as a member of a sync group, for interop/run: its ndn.app_support.svs of version 1.

Usage: python_ndn_svs.py GROUP NAME COUNT

Publishes COUNT packets with texts `NAME says N`, one each 200 ms, and fetches those of others; prints a line
`heard NAME N TEXT` for each, until it is ended. Connects to NDN_CLIENT_TRANSPORT.
"""

import asyncio
import sys

from ndn import appv2, encoding as enc
from ndn.app_support.svs import SvsInst
from ndn.security import DigestSha256Signer

group, name, count = enc.Name.normalize(sys.argv[1]), enc.Name.normalize(sys.argv[2]), int(sys.argv[3])
app = appv2.NDNApp()
published = {}
fetched = {}


def name_of(node, number):
    return node + group + [enc.Component.from_bytes(enc.pack_uint_bytes(number))]


async def believe(_name, _signature, _context):
    return appv2.ValidResult.PASS


def missing(svs):
    for node, newest in svs.local_sv.items():
        node = enc.Name.from_bytes(node)
        key = enc.Name.to_str(node)
        if node == name:
            continue
        for number in range(fetched.get(key, 0) + 1, newest + 1):
            asyncio.create_task(fetch(node, number))
        fetched[key] = newest


async def fetch(node, number):
    for _ in range(4):
        try:
            _, content, _ = await app.express(name_of(node, number), believe, lifetime=1000)
        except Exception as error:
            print("error", enc.Name.to_str(node), number, repr(error))
            continue
        print("heard", enc.Name.to_str(node), number, bytes(content).decode())
        return


def serve(interest, _parameters, reply, _context):
    found = published.get(enc.Name.to_str(interest))
    if found:
        reply(found)


async def main():
    # Digests with a nonce for each Interest: otherwise forwarders take them for repeated ones.
    signer = DigestSha256Signer(for_interest=True)
    app.attach_handler(name + group, serve)
    svs = SvsInst(group, name, missing, signer, believe)
    svs.start(app)
    await app.register(group)
    await app.register(name + group)
    print("joined")
    for number in range(1, count + 1):
        data = name_of(name, number)
        text = f"{enc.Name.to_str(name)} says {number}".encode()
        packet = enc.make_data(data, enc.MetaInfo(freshness_period=60_000), text, DigestSha256Signer())
        published[enc.Name.to_str(data)] = bytes(packet)
        svs.new_data()
        await asyncio.sleep(0.2)


app.run_forever(after_start=main())
