"""Cases: three of our nodes in a line, each with NDNd's distance vector beside it (`ndnd dv`).

Registrations of programs at the first node are announced to that node's `dv` (`readvertise`), distributed by it, and
reached from the third node, without any further command.
"""

from forwarders import NODE_CONFIG, Node
from programs import Failed

SETTINGS = NODE_CONFIG + "management = {{ readvertise = {readvertise} }}\n"

DV = """\
dv:
  network: /net
  router: /net/{name}
  keychain: insecure
  advertise_interval: 1000
  router_dead_interval: 5000
  neighbors: [{neighbours}]
"""


class Router(Node):
    """A node and its `dv`."""

    def __init__(self, programs, name, readvertise):
        super().__init__(programs)
        self.name = name
        self.socket = programs.folder / f"{name}.sock"
        self.readvertise = readvertise

    def config(self):
        return SETTINGS.replace("{readvertise}", str(self.readvertise).lower())

    def command(self, path):
        store = ["--store", self.programs.folder / f"store-{self.name}"]
        return [self.programs.tools.xylem, *store, "--config", path, "ndn", "node"]

    def start_dv(self, neighbours):
        path = self.programs.file("dv.yml")
        uris = ", ".join(f'{{uri: "{router.transport("udp")}"}}' for router in neighbours)
        path.write_text(DV.format(name=self.name, neighbours=uris))
        self.dv = self.programs.start(
            [self.programs.tools.ndnd, "dv", "run", path], self.transport("unix")
        )
        return self

    def routes(self, name):
        """The RIB's routes of a name, as `ctl` shows them."""
        try:
            return self.programs.run(
                [self.programs.tools.xylem, "ndn", "ctl", "route", "list", name], self.transport("unix"), seconds=5
            )
        except Failed:
            return ""


def peeked(programs, router, name):
    try:
        return programs.run(
            [programs.tools.xylem, "ndn", "peek", name, "-p", "-l", "1"], router.transport("unix"), seconds=5
        )
    except Failed:
        return ""


def line(programs, readvertise):
    routers = [Router(programs, name, readvertise) for name in ("a", "b", "c")]
    for router in routers:
        router.start()
    first, middle, last = routers
    first.start_dv([middle])
    middle.start_dv([first, last])
    last.start_dv([middle])
    # The first router knows the last: routers' own prefixes come along the same way.
    last.dv.wait_until(lambda: "/net/a/" in last.routes("") or "net/a" in last.dv.output(), 30)
    return routers


def reached(programs, readvertise):
    first, _, last = routers = line(programs, readvertise)
    note = programs.file("note")
    note.write_text("from a")
    store = programs.folder / "store-put"
    put = programs.start(
        [programs.tools.xylem, "--store", store, "ndn", "put", "/shop/note", note], first.transport("unix")
    )
    put.wait_until(lambda: "/shop/note" in first.routes("/shop/note"))
    try:
        if not readvertise:
            # A manual command to the daemon is queued after those of the node, and arrives.
            by_hand = "/localhost/nlsr/rib/register/h%0A%07%08%08%06marker"
            announce = [programs.tools.xylem, "ndn", "peek", by_hand, "--parameters", note]
            programs.run(announce, first.transport("unix"), seconds=5)
            last.program.wait_until(lambda: "/marker" in last.routes("/marker"), 30)
            if last.routes("/shop/note") or "from a" in peeked(programs, last, "/shop/note"):
                raise Failed("the prefix is announced although readvertise is off")
            return
        put.wait_until(lambda: "from a" in peeked(programs, last, "/shop/note"), 30)
        # It is withdrawn with its program.
        programs.stop(put)
        last.program.wait_until(lambda: not last.routes("/shop/note"), 30)
    finally:
        for router in reversed(routers):
            programs.stop(router.dv)
            programs.stop(router.program)


def cases(report, programs):
    for title, readvertise in (("readvertise", True), ("without", False)):
        report.case(("node", "routing", "ndnd dv", title), reached, programs, readvertise)
