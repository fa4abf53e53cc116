"""Cases: consumers on another machine fetch 1 MB over UDP, with nothing set.

The other machine is a network namespace: an address that is not loopback, as the node trusts those without proof. NDNd
has UDP only in its forwarder, so `ndnd cat` asks an NDNd there, which asks our node. Each case has a node of its own: an
address has one budget (docs/spec/faces.md, "Addresses that have not answered"). In the last cases there is no budget, and
the neighbours, which also produce, prove their address by an answer.
"""

import filecmp
import subprocess
import time
from contextlib import contextmanager
from types import SimpleNamespace

from clients import NDNTS, ndnd_cat, ndnts_cat, python_cat, xylem_put
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


# Below it a node asks every neighbour, without a route that an operator has made.
SEARCHED = "/interop/theirs"


class OpenNode(Node):
    """Our node with its UDP port at an address that other machines reach."""

    def config(self):
        return NODE_CONFIG.replace("udp4://127.0.0.1:", f"udp4://{HERE}:")

    def transport(self, kind):
        return super().transport(kind).replace("127.0.0.1", HERE if kind == "udp" else "127.0.0.1")


class StrictNode(OpenNode):
    """A node without a budget for unproven addresses."""

    def config(self):
        search = f'[[node.strategy]]\nprefix = "{SEARCHED}"\nstrategy = "/localhost/nfd/strategy/self-learning"\n'
        return super().config() + "udp_unproven_bytes = 0\n" + search


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


def asked_meanwhile(node, program):
    """The node asks for a name of the neighbour's until it is answered."""
    peek = [node.programs.tools.xylem, "ndn", "peek", f"{SEARCHED}/x", "-p", "--lifetime", "0.5"]
    for _ in range(20):
        try:
            node.programs.run([*peek, "--at", node.transport("unix")])
            return
        except Failed:
            if program.process.poll() is not None:
                raise Failed(f"ended early: {program.output()}") from None
            time.sleep(0.3)
    raise Failed("the neighbour does not answer")


def python_produces(elsewhere, node, served, fetched):
    """python-ndn answers the node, and then fetches."""
    script = NDNTS.parent / "python_ndn_prove.py"
    arguments = [elsewhere.tools.python / "python", script, HERE, str(node.port), SEARCHED]
    program = elsewhere.start([*arguments, served.name, fetched])
    try:
        asked_meanwhile(node, program)
        if not program.ends_within(60) or program.process.returncode != 0:
            raise Failed(f"the fetch failed: {program.output()[-300:]}")
    finally:
        elsewhere.stop(program)


def ndnd_produces(elsewhere, node, served, fetched):
    """A producer at NDNd answers the node; `ndnd cat` fetches over the same face."""
    there = Ndnd(elsewhere)
    there.listens = there.socket.exists
    there.start()
    content = elsewhere.file("theirs")
    content.write_bytes(b"theirs")
    try:
        at = there.transport("unix")
        route = ["fw", "route-add", "prefix=/", f"face={node.transport('udp')}"]
        elsewhere.run([elsewhere.tools.ndnd, *route], at)
        program = elsewhere.start([elsewhere.tools.ndnd, "pingserver", SEARCHED], at)
        for _ in range(3):
            # Its Interests make the face at our node, which then asks back.
            try:
                elsewhere.run([elsewhere.tools.ndnd, "cat", "/interop/none"], at, seconds=2)
            except Failed:
                pass
        peek = [node.programs.tools.xylem, "ndn", "ping", SEARCHED, "-c", "3"]
        node.programs.run([*peek, "--at", node.transport("unix")])
        elsewhere.stop(program)
        ndnd_cat(elsewhere, there, "unix", served, fetched)
    finally:
        there.stop()


def fetch(programs, elsewhere, kind, consumer, content):
    node = kind(programs)
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
        for title, kind, consumer in (
            ("ndnd cat, through NDNd's forwarder", OpenNode, through_ndnd),
            ("NDNts", OpenNode, straight_ndnts),
            ("python-ndn, `catchunks`", OpenNode, straight_catchunks),
            ("python-ndn, its segment fetcher", OpenNode, straight_fetcher),
            ("ndnd cat, after an answer of `ndnd pingserver`; no budget", StrictNode, ndnd_produces),
            ("python-ndn, after an answer of its own; no budget", StrictNode, python_produces),
        ):
            key = ("node", "elsewhere", title, "1 MB")
            report.case(key, fetch, programs, elsewhere, kind, consumer, content)
