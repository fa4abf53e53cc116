"""Cases: objects of `xylem share --plain-listen`, fetched without a forwarder between."""

import filecmp
import json
from types import SimpleNamespace

from clients import NDNTS, Served, ndnd_cat, ndnts_cat
from programs import Failed

PYTHON_FETCH = NDNTS.parent / "python_ndn_fetch.py"

# Empty, one byte, one segment, one byte more, and many segments.
SIZES = [0, 1, 8192, 8193, 3_000_000]


def python_fetch(programs, share, transport, served, file):
    """python-ndn's own segment fetcher, over the case's transport."""
    programs.run(
        [programs.tools.python / "python", PYTHON_FETCH, transport, share.host, str(share.port)]
        + [served.name, file]
    )


def fetch(programs, share, consumer, transport, served, content):
    fetched = programs.file("fetched")
    consumer(programs, share, transport, served, fetched)
    if not fetched.exists() or not filecmp.cmp(content, fetched, shallow=False):
        raise Failed("the fetched bytes differ from the shared ones")
    fetched.unlink()


def plain_port(events):
    """The port of the plain endpoint, once the share prints it."""
    for line in events.read_text().splitlines():
        event = json.loads(line)
        if event["event"] == "shared":
            return int(event["plain"][0].rsplit(":", 1)[1])
    return None


def cases(report, programs, random_file):
    for size in SIZES:
        content = random_file(size)
        name = f"/interop/share/{size}"
        events = programs.file("events")
        with open(events, "wb") as out:
            program = programs.start(
                [programs.tools.xylem, "--store", programs.folder / "store", "--json", "share"]
                + [content, "--as", name, "--listen", "127.0.0.1:0", "--plain-listen", "127.0.0.1:0"],
                stdout=out,
            )
        program.wait_until(lambda: plain_port(events) is not None)
        port = plain_port(events)
        share = SimpleNamespace(
            host="127.0.0.1", port=port, transport=lambda kind: f"{kind}4://127.0.0.1:{port}"
        )
        served = Served(name, digests=False)
        for title, consumer, transports in (
            ("python-ndn", python_fetch, ("udp", "tcp")),
            ("NDNts", ndnts_cat, ("udp", "tcp")),
            ("ndnd cat", ndnd_cat, ("tcp",)),
        ):
            for transport in transports:
                key = ("direct", "share", title, f"{transport} {size}")
                report.case(key, fetch, programs, share, consumer, transport, served, content)
        if programs.stop(program) != 0:
            raise Failed("the share did not end with 0 on SIGTERM")
