"""Cases: the NFD management protocol, each tool at each forwarder.

A reading case (status, faces, routes, cs, strategies) passes if the dataset shows the expected entries.
A command (face, route, strategy, cache) passes if a dataset shows its effect, and no longer shows it after
the opposite command; erase passes if it is answered with 200. `ndnd fw` checks the effect, so that a
tool is not its own witness.
"""

import json
import re

from clients import NDNTS
from programs import Failed, free_port

PREFIX = "/interop/managed"


def must(condition, text, output):
    if not condition:
        raise Failed(f"{text}: {' | '.join(output.splitlines())[-300:]}")


class Tool:
    """One management client at one forwarder. A method per column; a tool may lack some."""

    def __init__(self, programs, forwarder):
        self.programs = programs
        self.forwarder = forwarder
        self.transport = forwarder.transport("unix")

    def ndnd(self, *arguments):
        return self.programs.run([self.programs.tools.ndnd, "fw", *arguments], self.transport, 10)

    def seen(self, dataset, pattern, expected, output):
        """`ndnd fw DATASET` shows a line with the pattern, or shows none."""
        listed = self.ndnd(dataset)
        found = re.search(pattern, listed)
        must(bool(found) == expected, f"{dataset} {'lacks' if expected else 'still has'} {pattern} "
             f"after {output!r}", listed)
        return found

    def face_id(self, uri):
        return re.search(rf"faceid=(\d+) remote={re.escape(uri)} ", self.ndnd("face-list"))

    def lasting_face(self):
        """The identifier of a face for routes: a new one to a free UDP port."""
        uri = f"udp4://127.0.0.1:{free_port()}"
        self.ndnd("face-create", f"remote={uri}")
        found = self.face_id(uri)
        must(found, "no face was made", self.ndnd("face-list"))
        return found[1]


class NdndTool(Tool):
    title = "ndnd fw"

    def status(self):
        output = self.ndnd("status")
        must(re.search(r"nFibEntries=\d+", output), "no FIB count", output)

    def faces(self):
        output = self.ndnd("face-list")
        must("local=unix://" in output, "no Unix face, although this is one", output)

    def routes(self):
        output = self.ndnd("fib-list")
        must("/localhost/nfd nexthops=" in output, "no route for management", output)
        self.ndnd("route-list")

    def cs(self):
        output = self.ndnd("cs-info")
        must(re.search(r"capacity=\d+", output), "no capacity", output)

    def strategies(self):
        output = self.ndnd("strategy-list")
        must(re.search(r"prefix=/ strategy=/localhost/nfd/strategy/", output), "/ has none", output)

    def face(self):
        uri = f"udp4://127.0.0.1:{free_port()}"
        output = self.ndnd("face-create", f"remote={uri}")
        self.seen("face-list", rf"remote={re.escape(uri)} ", True, output)
        output = self.ndnd("face-destroy", f"face={uri}")
        self.seen("face-list", rf"remote={re.escape(uri)} ", False, output)

    def route(self):
        face = self.lasting_face()
        output = self.ndnd("route-add", f"prefix={PREFIX}", f"face={face}", "cost=7")
        self.seen("route-list", rf"prefix={PREFIX} nexthop={face} .*cost=7 ", True, output)
        self.seen("fib-list", rf"{PREFIX} nexthops=\{{faceid={face} \(cost=7\)", True, output)
        output = self.ndnd("route-remove", f"prefix={PREFIX}", f"face={face}")
        self.seen("fib-list", PREFIX, False, output)

    def strategy(self):
        strategy = "/localhost/nfd/strategy/multicast"
        output = self.ndnd("strategy-set", f"prefix={PREFIX}", f"strategy={strategy}")
        self.seen("strategy-list", rf"prefix={PREFIX} strategy={strategy}/v=", True, output)
        output = self.ndnd("strategy-unset", f"prefix={PREFIX}")
        self.seen("strategy-list", PREFIX, False, output)


class NdntsTool(Tool):
    """The steps, and the expected results of each, are in peers/ndnts.mjs."""

    title = "NDNts"

    def step(self, name):
        arguments = [self.programs.tools.node, NDNTS, "mgmt", name, str(free_port())]
        return self.programs.run(arguments, self.transport, 20)

    def status(self):
        self.step("status")

    def faces(self):
        self.step("faces")

    def routes(self):
        self.step("routes")

    def cs(self):
        self.step("cs")

    def strategies(self):
        self.step("strategies")

    def face(self):
        self.step("face")

    def route(self):
        self.step("route")

    def strategy(self):
        self.step("strategy")

    def cache(self):
        self.step("cache")

    def erase(self):
        self.step("erase")


class PythonTool(Tool):
    """Its tools end with 0 whatever the answer; `nfdc` has no content store command."""

    title = "pynfdc"

    def pynfdc(self, *arguments):
        return self.programs.run(
            [self.programs.tools.python / "pynfdc", *arguments], self.transport, 10
        )

    def command(self, *arguments):
        output = self.pynfdc(*arguments)
        must("200 " in output, "the answer was not 200", output)
        return output

    def status(self):
        output = self.pynfdc("status")
        must(re.search(r"nFibEntries\s+\d+", output), "no FIB count", output)

    def faces(self):
        output = self.pynfdc("face")
        must("unix://" in output, "no Unix face, although this is one", output)

    def routes(self):
        output = self.pynfdc("route")
        must("/localhost/nfd" in output, "no route for management", output)

    def strategies(self):
        output = self.pynfdc("strategy")
        must("/localhost/nfd/strategy/" in output, "/ has no strategy", output)

    def face(self):
        uri = f"udp4://127.0.0.1:{free_port()}"
        output = self.command("nf", uri)
        face = self.seen("face-list", rf"faceid=(\d+) remote={re.escape(uri)} ", True, output)[1]
        output = self.command("rf", face)
        self.seen("face-list", rf"remote={re.escape(uri)} ", False, output)

    def route(self):
        face = self.lasting_face()
        output = self.command("nr", PREFIX, face)
        self.seen("fib-list", rf"{PREFIX} nexthops=\{{faceid={face} ", True, output)
        output = self.command("rr", PREFIX, face)
        self.seen("fib-list", PREFIX, False, output)

    def strategy(self):
        output = self.command("ss", PREFIX, "multicast")
        self.seen("strategy-list", rf"prefix={PREFIX} strategy=\S*/multicast", True, output)
        output = self.command("rs", PREFIX)
        self.seen("strategy-list", PREFIX, False, output)


class XylemTool(Tool):
    title = "xylem ndn ctl"

    def ctl(self, *arguments):
        return self.programs.run(
            [self.programs.tools.xylem, "--json", "ndn", "ctl", "--at", self.transport, *arguments], None, 10
        )

    def rows(self, *arguments):
        return [json.loads(line) for line in self.ctl(*arguments).splitlines()]

    def status(self):
        self.rows("status")

    def faces(self):
        output = self.ctl("face", "list")
        must("unix://" in output, "no Unix face, although this is one", output)

    def routes(self):
        output = self.ctl("fib", "list")
        must("/localhost/nfd" in output, "no route for management", output)
        self.ctl("route", "list")

    def cs(self):
        output = self.ctl("cs", "info")
        must("capacity" in output, "no capacity", output)

    def strategies(self):
        output = self.ctl("strategy", "list")
        must("/localhost/nfd/strategy/" in output, "/ has no strategy", output)

    def face(self):
        uri = f"udp4://127.0.0.1:{free_port()}"
        output = self.ctl("face", "create", uri)
        face = self.seen("face-list", rf"faceid=(\d+) remote={re.escape(uri)} ", True, output)[1]
        output = self.ctl("face", "destroy", face)
        self.seen("face-list", rf"remote={re.escape(uri)} ", False, output)

    def route(self):
        face = self.lasting_face()
        output = self.ctl("route", "add", PREFIX, face, "--cost", "7")
        self.seen("fib-list", rf"{PREFIX} nexthops=\{{faceid={face} \(cost=7\)", True, output)
        output = self.ctl("route", "remove", PREFIX, face)
        self.seen("fib-list", PREFIX, False, output)

    def cache(self):
        output = self.ctl("cs", "config", "--capacity", "4321")
        self.seen("cs-info", r"capacity=4321\b", True, output)
        output = self.ctl("cs", "config", "--capacity", "65535")
        self.seen("cs-info", r"capacity=65535\b", True, output)

    def erase(self):
        self.ctl("cs", "erase", PREFIX)

    def strategy(self):
        output = self.ctl("strategy", "set", PREFIX, "/localhost/nfd/strategy/multicast")
        self.seen("strategy-list", rf"prefix={PREFIX} strategy=\S*/multicast", True, output)
        output = self.ctl("strategy", "unset", PREFIX)
        self.seen("strategy-list", PREFIX, False, output)


COLUMNS = ["status", "faces", "routes", "cs", "strategies", "face", "route", "strategy", "cache", "erase"]


def tools(report, programs, forwarder, peers_alone):
    for kind in (NdndTool, NdntsTool, PythonTool, XylemTool):
        tool = kind(programs, forwarder)
        if forwarder.name == "ndnd" and kind is not XylemTool and not peers_alone:
            continue
        for column in COLUMNS:
            if hasattr(tool, column):
                report.case(
                    (forwarder.name, "management", kind.title, column), getattr(tool, column)
                )
