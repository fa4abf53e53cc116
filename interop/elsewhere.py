"""Cases: consumers on another machine fetch 1 MB over UDP, with nothing set.

The other machine is a network namespace: an address that is not loopback, as the node trusts those without proof. NDNd
has UDP only in its forwarder, so `ndnd cat` asks an NDNd there, which asks our node. Each case has a node of its own: an
address has one budget (docs/spec/faces.md, "Addresses that have not answered").
"""

import filecmp
import subprocess
from contextlib import contextmanager
from types import SimpleNamespace

from clients import ndnd_cat, ndnts_cat, python_cat, xylem_put
from direct import python_fetch
from forwarders import NODE_CONFIG, Ndnd, Node
from programs import Failed

# From the range for tests between networks (RFC 2544).
HERE, THERE = "198.18.77.1", "198.18.77.2"
SIZE = 1_000_000
# A faster wire fills NDNd's receive buffer, which has the system's default of 208 KiB, and NDNd gives up after it has
# lost the same segment three times.
RATE = "100mbit"


class Elsewhere:
    """`Programs` whose programs run in a network namespace; files are those of this machine."""

    def __init__(self, programs, namespace):
        self.programs = programs
        self.enter = ["ip", "netns", "exec", namespace]

    def __getattr__(self, name):
        return getattr(self.programs, name)

    def start(self, arguments, *more, **named):
        return self.programs.start([*self.enter, *arguments], *more, **named)

    def run(self, arguments, *more, **named):
        return self.programs.run([*self.enter, *arguments], *more, **named)


@contextmanager
def other_machine(programs, tag):
    """Programs on a machine of its own, one wire away; `None` where namespaces or `tc` are not to be had."""
    namespace, here, there = f"xi-{tag}", f"xi{tag}a", f"xi{tag}b"

    def run(line):
        try:
            return subprocess.run(line.split(), capture_output=True).returncode == 0
        except FileNotFoundError:
            return False

    def ip(line):
        return run(f"ip {line}")

    try:
        made = (
            ip(f"netns add {namespace}")
            and ip(f"link add {here} type veth peer name {there} netns {namespace}")
            and ip(f"addr add {HERE}/24 dev {here}")
            and ip(f"link set {here} up")
            and ip(f"-n {namespace} addr add {THERE}/24 dev {there}")
            and ip(f"-n {namespace} link set {there} up")
            and ip(f"-n {namespace} link set lo up")
            and run(f"tc qdisc add dev {here} root tbf rate {RATE} burst 64kb latency 2s")
        )
        yield Elsewhere(programs, namespace) if made else None
    finally:
        ip(f"link del {here}")
        ip(f"netns del {namespace}")


class OpenNode(Node):
    """Our node with its UDP port at an address that other machines reach."""

    def config(self):
        return NODE_CONFIG.replace("udp4://127.0.0.1:", f"udp4://{HERE}:")

    def transport(self, kind):
        return super().transport(kind).replace("127.0.0.1", HERE if kind == "udp" else "127.0.0.1")


def through_ndnd(elsewhere, node, served, fetched):
    """`ndnd cat` at an NDNd on the other machine, whose routes all lead to our node."""
    there = Ndnd(elsewhere)
    # Its sockets are of the other machine, but for the Unix one.
    there.listens = there.socket.exists
    there.start()
    try:
        route = ["fw", "route-add", "prefix=/", f"face={node.transport('udp')}"]
        elsewhere.run([elsewhere.tools.ndnd, *route], there.transport("unix"))
        ndnd_cat(elsewhere, there, "unix", served, fetched)
    finally:
        there.stop()


def straight_ndnts(elsewhere, node, served, fetched):
    ndnts_cat(elsewhere, node, "udp", served, fetched)


def straight_catchunks(elsewhere, node, served, fetched):
    python_cat(elsewhere, node, "udp", served, fetched)


def straight_fetcher(elsewhere, node, served, fetched):
    share = SimpleNamespace(host=HERE, port=node.port)
    python_fetch(elsewhere, share, "udp", served, fetched)


def fetch(programs, elsewhere, consumer, content):
    node = OpenNode(programs)
    node.start()
    fetched = programs.file("fetched")
    try:
        with xylem_put(programs, node, "unix", "/interop/elsewhere", content) as served:
            consumer(elsewhere, node, served, fetched)
        if not fetched.exists() or not filecmp.cmp(content, fetched, shallow=False):
            raise Failed("the fetched bytes differ from the published ones")
    finally:
        fetched.unlink(missing_ok=True)
        node.stop()


def cases(report, programs, random_file):
    content = random_file(SIZE)
    with other_machine(programs, programs.folder.name[-5:]) as elsewhere:
        if elsewhere is None:
            print("interop: node/elsewhere: SKIPPED: no network namespaces here (root), or no tc (iproute2)")
            return
        for title, consumer in {
            "ndnd cat, through NDNd's forwarder": through_ndnd,
            "NDNts": straight_ndnts,
            "python-ndn, `catchunks`": straight_catchunks,
            "python-ndn, its segment fetcher": straight_fetcher,
        }.items():
            key = ("node", "elsewhere", title, "1 MB")
            report.case(key, fetch, programs, elsewhere, consumer, content)
