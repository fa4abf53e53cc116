"""Cases: an object of 10 MB from each producer to each consumer through each forwarder, byte-equal."""

import filecmp
import itertools

from clients import CONSUMERS, PRODUCERS
from programs import Failed

# The transports besides unix on which each peer can be a producer. UDP faces are never local, so registering over them
# needs a key that the forwarder trusts. `ndnd put` over TCP takes the forwarder for a distant one and asks /localhop,
# which neither forwarder allows by default.
PRODUCERS_ON = {
    "xylem share": ["tcp", "ws"],
    "xylem ndn put": ["tcp"],
    "NDNts": ["tcp", "ws"],
    "python-ndn": ["tcp"],
}
# Consumers, with the producers of their objects and the transports: `ndnd cat` has no UDP.
CONSUMERS_ON = {
    "xylem get TICKET": ("xylem get", "xylem share", ["tcp", "udp", "ws"]),
    "xylem get NAME": ("xylem get", "xylem ndn put", ["tcp", "udp"]),
    "ndnd cat": ("ndnd cat", "xylem ndn put", ["tcp"]),
    "NDNts": ("NDNts", "xylem ndn put", ["tcp", "udp", "ws"]),
    "python-ndn": ("python-ndn", "xylem ndn put", ["tcp", "udp"]),
}

counter = itertools.count()


def fetch(programs, forwarder, content, producer, consumer, put_on="unix", get_on="unix"):
    """One case: serves `content` under a name of its own, fetches it, compares."""
    name = f"/interop/object/{next(counter)}"
    fetched = programs.file("fetched")
    try:
        with PRODUCERS[producer](programs, forwarder, put_on, name, content) as served:
            CONSUMERS[consumer](programs, forwarder, get_on, served, fetched)
        if not fetched.exists():
            raise Failed("the consumer ended with 0 but wrote no file")
        if not filecmp.cmp(content, fetched, shallow=False):
            raise Failed(f"{fetched.stat().st_size} bytes, which differ from the served ones")
    finally:
        fetched.unlink(missing_ok=True)


def pairs(report, programs, forwarder, content, peers_alone):
    """Through NDNd only the pairs with a xylem end, unless `peers_alone`."""
    for producer, consumer in itertools.product(PRODUCERS, CONSUMERS):
        ours = producer.startswith("xylem") or consumer.startswith("xylem")
        if forwarder.name == "node" or ours or peers_alone:
            key = (forwarder.name, "objects", producer, consumer)
            report.case(key, fetch, programs, forwarder, content, producer, consumer)


def transports(report, programs, forwarder, content):
    """Each peer on each other transport, with another program on unix at the other end."""
    for producer, kinds in PRODUCERS_ON.items():
        for kind in kinds:
            if forwarder.name == "node" or producer.startswith("xylem"):
                key = (forwarder.name, "producers", producer, kind)
                report.case(
                    key, fetch, programs, forwarder, content, producer, "ndnd cat", kind, "unix"
                )
    for title, (consumer, producer, kinds) in CONSUMERS_ON.items():
        for kind in kinds:
            if forwarder.name == "node" or consumer.startswith("xylem"):
                key = (forwarder.name, "consumers", title, kind)
                report.case(
                    key, fetch, programs, forwarder, content, producer, consumer, "unix", kind
                )
