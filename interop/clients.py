"""Producers and consumers of an object: how each program is started on one transport.

A producer is a function (programs, forwarder, transport, name, file) that returns a context manager
in which the object is served. A consumer (programs, forwarder, transport, served, file) fetches it.
`served` has the object's name, and for xylem also the ticket.
"""

import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from programs import Failed

NDNTS = Path(__file__).parent / "peers" / "ndnts.mjs"


@dataclass
class Served:
    name: str
    # Whether the segments carry signatures that an NDN client of today can check (SHA-256 digests).
    digests: bool = True
    ticket: str | None = None


def until_registered(program, forwarder, name):
    """A producer is ready once its prefix is in the forwarder's RIB; if it never is, the fetch fails."""
    try:
        program.wait_until(lambda: forwarder.has_route(name), 8.0)
    except Failed:
        if program.process.poll() is not None:
            raise
    return program


@contextmanager
def serving(programs, program, forwarder, served):
    try:
        until_registered(program, forwarder, served.name)
        yield served
    finally:
        programs.stop(program)


def ndnd_put(programs, forwarder, transport, name, file):
    with open(file, "rb") as content:
        program = programs.start(
            [programs.tools.ndnd, "put", name], forwarder.transport(transport), stdin=content
        )
    return serving(programs, program, forwarder, Served(name))


def ndnts_put(programs, forwarder, transport, name, file):
    program = programs.start(
        [programs.tools.node, NDNTS, "put", name, file], forwarder.transport(transport)
    )
    return serving(programs, program, forwarder, Served(name))


def python_put(programs, forwarder, transport, name, file):
    program = programs.start(
        [programs.tools.python / "pyndntools", "putchunks", name, file],
        forwarder.transport(transport),
    )
    return serving(programs, program, forwarder, Served(name))


def xylem_put(programs, forwarder, transport, name, file, sign="digest-sha256"):
    program = programs.start(
        [programs.tools.xylem, "--store", programs.folder / "store", "ndn", "put", name, file]
        + ["--sign", sign, "--at", forwarder.transport(transport)]
    )
    return serving(programs, program, forwarder, Served(name, digests=sign == "digest-sha256"))


def xylem_put_signed(programs, forwarder, transport, name, file):
    return xylem_put(programs, forwarder, transport, name, file, sign="ed25519")


@contextmanager
def xylem_share(programs, forwarder, transport, name, file):
    tickets = programs.file("ticket")
    with open(tickets, "wb") as out:
        program = programs.start(
            [programs.tools.xylem, "--store", programs.folder / "store", "share", file, "--as", name]
            + ["--listen", "127.0.0.1:0", "--via", forwarder.transport(transport)],
            stdout=out,
        )
    try:
        program.wait_until(lambda: tickets.read_text().endswith("\n"))
        until_registered(program, forwarder, name)
        yield Served(name, digests=False, ticket=tickets.read_text().strip())
    finally:
        programs.stop(program)


def ndnd_cat(programs, forwarder, transport, served, file):
    with open(file, "wb") as out:
        programs.run(
            [programs.tools.ndnd, "cat", served.name], forwarder.transport(transport), stdout=out
        )


def ndnts_cat(programs, forwarder, transport, served, file):
    verb = "cat" if served.digests else "cat-unverified"
    programs.run(
        [programs.tools.node, NDNTS, verb, served.name, file], forwarder.transport(transport)
    )


def python_cat(programs, forwarder, transport, served, file):
    # Its own discovery asks for the bare name, and takes any cached segment for the metadata.
    programs.run(
        [programs.tools.python / "pyndntools", "catchunks", "-f", "-r", "3", "-o", file]
        + [f"{served.name}/32=metadata"],
        forwarder.transport(transport),
    )


def xylem_get(programs, forwarder, transport, served, file):
    # With a ticket the fetch is verified; objects of other producers have digests, which prove no publisher.
    what = [served.ticket] if served.ticket else [served.name, "--insecure"]
    programs.run(
        [programs.tools.xylem, "--store", programs.folder / "store", "get", *what, "-o", file]
        + ["--overwrite", "--from", forwarder.transport(transport)]
    )


PRODUCERS = {
    "xylem share": xylem_share,
    "xylem ndn put": xylem_put,
    "xylem ndn put, Ed25519": xylem_put_signed,
    "ndnd put": ndnd_put,
    "NDNts": ndnts_put,
    "python-ndn": python_put,
}

CONSUMERS = {
    "xylem get": xylem_get,
    "ndnd cat": ndnd_cat,
    "NDNts": ndnts_cat,
    "python-ndn": python_cat,
}
