"""The clients of ndn-python-repo, for interop/run: insert, fetch or delete a file at a repository.

Usage: python_ndn_repo.py put|get|delete REPO CLIENT NAME FILE

Prints `done N` with the number of packets (get: of bytes). Connects to NDN_CLIENT_TRANSPORT and signs with the
default key below HOME.
"""

import asyncio
import sys

from ndn.app import NDNApp
from ndn.encoding import Name
from ndn_python_repo.clients import DeleteClient, GetfileClient, PutfileClient

what, repo, client, name, path = sys.argv[1:]
repo, client, name = (Name.normalize(uri) for uri in (repo, client, name))
app = NDNApp()


async def main():
    try:
        if what == "put":
            putter = PutfileClient(app, client, repo)
            done = await putter.insert_file(path, name, 4000, 1000, 1, check_prefix=client)
        elif what == "delete":
            done = await DeleteClient(app, client, repo).delete_file(name, 0, None, check_prefix=client)
        else:
            await GetfileClient(app, repo).fetch_file(name, path, True)
            try:
                done = len(open(path, "rb").read())
            except FileNotFoundError:
                done = 0
        print("done", done)
    finally:
        app.shutdown()


app.run_forever(after_start=main())
