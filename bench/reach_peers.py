"""Programs for bench/reach.py that move a file between two hosts behind NATs, each with servers of its own.

None contacts any host except the relay's host of its network. A `Peer` starts its servers (`serve`),
its sharing side (`share`), and gives the getter's process (`get`) and the path of its copy (`copy`).
"""

import os
import pathlib
import subprocess
import sys
import time

from internet import RELAY
from movers import find, python_with
from processes import Failed, line_with

HERE = pathlib.Path(__file__).resolve().parent


def wait_for(process, stream, wanted):
    """As `line_with`, within ten seconds; a server or sharer that is not ready then counts as failed."""
    return line_with(process, stream, wanted, 10)


class Peer:
    """One program; `shares_once`: its sharing side ends with the first copy."""

    name = ""
    needs = ()
    shares_once = False

    def __init__(self, options):
        self.options, self.process = options, None

    @classmethod
    def missing(cls, options):
        absent = [name for name in cls.needs if not program(options, name)]
        return f"not installed: {', '.join(absent)}" if absent else None

    def start(self, internet, host, work, command, environment=None, **kwargs):
        home = f"{work}/{host}"
        os.makedirs(home, exist_ok=True)
        kwargs.setdefault("cwd", home)
        command = [program(self.options, command[0]) or command[0], *command[1:]]
        return internet.start(host, command, {"HOME": home, **(environment or {})}, **kwargs)

    def again(self):
        """Ends the last sharing side."""
        if self.process:
            self.process.kill()
            self.process.wait()

    def copy(self, out, source):
        return f"{out}/{os.path.basename(source)}"


def program(options, name):
    return find(name, [options.programs, os.path.dirname(options.python)])


class Sendme(Peer):
    name = "sendme, iroh-relay"
    needs = ("sendme", "iroh-relay")
    relay = f"http://{RELAY}:3340"

    def serve(self, internet, work):
        server = self.start(internet, "relay", work, ["iroh-relay", "--dev"], stderr=subprocess.PIPE,
                            environment={"RUST_LOG": "info"})
        wait_for(server, server.stderr, b"erving")

    def share(self, internet, work, source):
        command = ["sendme", "send", "--no-progress", "--relay", self.relay, source]
        process = self.start(internet, "s", work, command, stdout=subprocess.PIPE)
        self.ticket = wait_for(process, process.stdout, b"sendme receive ").split()[-1]
        self.characters = len(self.ticket)
        Sendme.characters = self.characters

    def get(self, internet, work, out):
        os.makedirs(out)
        log = open(f"{out}.log", "w")
        command = ["sendme", "receive", "--no-progress", "--relay", self.relay, self.ticket]
        return self.start(internet, "g", work, command, cwd=out, stdout=log, stderr=log)


class Croc(Peer):
    name = "croc, its relay"
    needs = ("croc",)
    shares_once = True
    characters = len("1234-reach-net-bench")

    def serve(self, internet, work):
        ports = "9009,9010,9011,9012,9013"
        server = self.start(internet, "relay", work, ["croc", "relay", "--host", RELAY, "--ports", ports],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for(server, server.stdout, b"9009")
        self.number = 1000

    def share(self, internet, work, source):
        self.again()
        self.number += 1
        self.code = {"CROC_SECRET": f"{self.number}-reach-net-bench"}
        command = ["croc", "--relay", f"{RELAY}:9009", "--ignore-stdin", "--disable-clipboard", "send", source]
        self.process = self.start(internet, "s", work, command, self.code, stderr=subprocess.PIPE)
        wait_for(self.process, self.process.stderr, b"Code is")
        # No output shows when it has joined the relay's room.
        time.sleep(2)

    def get(self, internet, work, out):
        os.makedirs(out)
        log = open(f"{out}.log", "w")
        command = ["croc", "--yes", "--relay", f"{RELAY}:9009", "--out", out, "--ignore-stdin", "--disable-clipboard"]
        return self.start(internet, "g", work, command, self.code, stdout=log, stderr=log)


class Wormhole(Peer):
    name = "magic-wormhole, mailbox and transit relay"
    needs = ("wormhole", "twist")
    shares_once = True
    characters = len("7-crossover-clockwork")

    def serve(self, internet, work):
        self.number = 0
        mailbox = ["twist", "wormhole-mailbox", f"--port=tcp:4000:interface={RELAY}", f"--channel-db={work}/mailbox"]
        transit = ["twist", "transitrelay", f"--port=tcp:4001:interface={RELAY}"]
        for command in (mailbox, transit):
            server = self.start(internet, "relay", work, command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            wait_for(server, server.stdout, b"starting on 400")

    def command(self, *words):
        return ["wormhole", "--relay-url", f"ws://{RELAY}:4000/v1", "--transit-helper", f"tcp:{RELAY}:4001", *words]

    def share(self, internet, work, source):
        self.again()
        self.number += 1
        self.code = f"{self.number}-reach-bench"
        command = self.command("send", "--hide-progress", "--code", self.code, source)
        self.process = self.start(internet, "s", work, command, stderr=subprocess.PIPE)
        wait_for(self.process, self.process.stderr, b"wormhole receive")

    def get(self, internet, work, out):
        log = open(f"{out}.log", "w")
        command = self.command("receive", "--accept-file", "--hide-progress", "-o", out, self.code)
        return self.start(internet, "g", work, command, stdout=log, stderr=log)

    def copy(self, out, source):
        return out


class BitTorrent(Peer):
    name = "libtorrent, DHT"
    characters = len("magnet:?xt=urn:btmh:1220") + 64
    known = ",".join(f"{RELAY}:{port}" for port in range(6881, 6889))

    @classmethod
    def missing(cls, options):
        return None if python_with("libtorrent", [options.python]) else "not installed: libtorrent (PyPI)"

    def script(self, *words):
        python = python_with("libtorrent", [self.options.python]) or sys.executable
        return [python, HERE / "torrent.py", *words]

    def serve(self, internet, work):
        # A few nodes that can store announcements.
        for port in range(6881, 6889):
            command = self.script("node", f"{RELAY}:{port}", self.known)
            server = self.start(internet, "relay", work, command, stdout=subprocess.PIPE)
            wait_for(server, server.stdout, b"a node")

    def share(self, internet, work, source):
        seeder = self.start(internet, "s", work, self.script("offer", source, self.known), stdout=subprocess.PIPE)
        self.magnet = line_with(seeder, seeder.stdout, b"magnet:", 30).strip()
        if not self.magnet:
            raise Failed("no magnet link")

    def get(self, internet, work, out):
        os.makedirs(out)
        log = open(f"{out}.log", "w")
        return self.start(internet, "g", work, self.script("find", self.magnet, out, self.known), stdout=log, stderr=log)


PROGRAMS = [Sendme, Croc, Wormhole, BitTorrent]
