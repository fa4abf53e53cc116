"""Cases: our `xylem ndn svs` in one sync group with members of other programs, through each forwarder."""

import subprocess
from pathlib import Path

from programs import Failed

COUNT = 5
PEERS = Path(__file__).parent / "peers"

# Foreign members, with the version of each.
MEMBERS = {
    "ndnd": ("3", lambda tools, group, name: [tools.svs, group, name, COUNT]),
    "NDNts, version 3": ("3", lambda tools, group, name: [tools.node, PEERS / "svs.mjs", "3", group, name, COUNT]),
    "NDNts": ("2", lambda tools, group, name: [tools.node, PEERS / "svs.mjs", "2", group, name, COUNT]),
    "python-ndn": ("1", lambda tools, group, name: [tools.python / "python", PEERS / "python_ndn_svs.py", group, name, COUNT]),
}


class Ours:
    """A `xylem ndn svs`, which publishes `NAME says N` like the others."""

    def __init__(self, programs, transport, group, name, version):
        self.program = programs.start(
            [programs.tools.xylem, "ndn", "svs", group, "--as", name, "--sync-version", version, "--sign", "digest-sha256"],
            transport,
            stdin=subprocess.PIPE,
        )
        self.name = name
        self.program.wait_for("a member of")

    def speak(self):
        for number in range(1, COUNT + 1):
            self.program.process.stdin.write(f"{self.name} says {number}\n".encode())
        self.program.process.stdin.flush()


def hears(program, form, names):
    """Waits until a member has printed all publications of `names`."""
    wanted = [form.format(name=name, number=n, text=f"{name} says {n}") for name in names for n in range(1, COUNT + 1)]
    try:
        program.wait_until(lambda: all(line in program.output() for line in wanted), 20)
    except Failed as failure:
        missing = [line for line in wanted if line not in program.output()]
        raise Failed(f"not received: {missing[:3]}; {failure}") from None


OURS, THEIRS = "{name} {number}: {text}", "heard {name} {number} {text}"


def group(programs, forwarder, which, first):
    """Members of the kinds `which` and ours in one group; each has to receive all others' lines. `first`: ours
    starts first."""
    transport = forwarder.transport("unix")
    group.count += 1
    name, version = f"/interop/svs/{group.count}", MEMBERS[which[0]][0]
    names = [f"/member{n}" for n in range(len(which))]
    running = []
    try:
        def start_ours():
            running.append(Ours(programs, transport, name, "/xylem", version))

        if first:
            start_ours()
        theirs = []
        for kind, member in zip(which, names):
            program = programs.start(MEMBERS[kind][1](programs.tools, name, member), transport)
            theirs.append(program)
            program.wait_for("joined")
        if not first:
            start_ours()
        running[0].speak()
        hears(running[0].program, OURS, names)
        for member, program in zip(names, theirs):
            hears(program, THEIRS, ["/xylem"] + [other for other in names if other != member])
    finally:
        programs.stop_all_but(forwarder.program)


group.count = 0


def cases(report, programs, forwarder):
    for kind in MEMBERS:
        for column, first in (("ours comes first", True), ("ours comes last", False)):
            report.case((forwarder.name, "svs", kind, column), group, programs, forwarder, [kind], first)
