#!/usr/bin/env python3
"""A share and a node under attack: the remaining rate of honest fetches, and the attack's cost for both sides.

Usage: bench/siege.py [--quick] [--only WORD] [--xylem PROGRAM] [--json]

Each row is one attack on a program of its own. Before, during and after it the same file is fetched again
and again by honest `xylem get`s; their bytes a second (start of the process and handshake included) are the
goodput. "During" begins after the attack had some seconds to fill tables and queues. "After" is the first
good fetch within five seconds of its end, or the best. Memory and descriptors are the maximum of the attacked program.

All attackers are one process of the lowest priority, whatever their number. On the attacked machine itself,
a hundred processes would only show how the kernel shares processors. Its datagrams are sent as fast as the
fetches' load on the machine permits.

Targets: during the attack at least half of the goodput, five seconds after it nine tenths; answers to an
unvalidated address are at most three times the requests, beyond the budget of an address (docs/spec/faces.md). Exit 1 where an attack of the table
misses a target in three rounds of three, also compared with unattacked programs right after: a machine
with other load meanwhile decides nothing. `--quick` measures for shorter, and leaves out similar attacks.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WANTED_DURING = 0.5
WANTED_AFTER = 0.9
# The budget of an address, and what it regains within the measurement.
WANTED_BEYOND = 2_000_000 + 100_000
RECOVERY = 5.0
ROUNDS = 3
LIFETIME_MS = 60_000


# Packets of attackers.


def tlv(kind, value):
    """One TLV of a type below 253."""
    length = len(value)
    if length < 253:
        return bytes([kind, length]) + value
    return bytes([kind, 253]) + length.to_bytes(2, "big") + value


def number(value):
    """A NonNegativeInteger."""
    size = next(size for size in (1, 2, 4, 8) if value < 1 << (8 * size))
    return value.to_bytes(size, "big")


def components(uri):
    """The components of one of our names, which has versions and plain text only."""
    out = b""
    for part in uri.strip("/").split("/"):
        version = part.startswith("v=") and part[2:].isdigit()
        out += tlv(54, number(int(part[2:]))) if version else tlv(8, part.encode())
    return out


def interest(name, nonce, lifetime=LIFETIME_MS):
    body = tlv(7, name) + tlv(10, nonce.to_bytes(4, "big")) + tlv(12, number(lifetime))
    return tlv(5, body)


def lowest_priority():
    os.nice(19)


class Here:
    """An attack by threads of a process of its own, forked from this one: `work(stop, told)`."""

    def __init__(self, work):
        read, write = os.pipe()
        self.read = os.fdopen(read)
        self.pid = os.fork()
        if self.pid == 0:
            try:
                lowest_priority()
                over = threading.Event()
                signal.signal(signal.SIGTERM, lambda *_: over.set())
                told = work(over.is_set)
                os.write(write, (json.dumps(told) + "\n").encode())
            finally:
                os._exit(0)
        os.close(write)

    def stop(self):
        os.kill(self.pid, signal.SIGTERM)
        line = self.read.readline()
        self.read.close()
        os.waitpid(self.pid, 0)
        return json.loads(line) if line else {}


class Program:
    """An attack by `xylem-siege`, which ends by itself or is ended."""

    def __init__(self, siege, *arguments):
        self.process = subprocess.Popen(
            [siege, *map(str, arguments)],
            stdout=subprocess.PIPE,
            text=True,
            preexec_fn=lowest_priority,
        )
        if not self.process.stdout.readline():
            raise SystemExit("xylem-siege: ended before the attack began")

    def stop(self):
        line = self.process.stdout.readline()
        self.process.wait(60)
        return json.loads(line) if line else {}


def datagrams(at, name):
    """Interests for missing content, over plain UDP from one port."""

    def work(stop):
        sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        sock.connect(at)
        sock.setblocking(False)
        sent = octets = 0
        begun = time.monotonic()
        while not stop():
            for _ in range(64):
                frame = interest(name + tlv(8, random.randbytes(8)), random.getrandbits(32))
                try:
                    octets += sock.send(frame)
                    sent += 1
                except OSError:
                    pass
            try:
                while True:
                    sock.recv(9000)
            except OSError:
                pass
        return {"datagrams": sent, "bytes": octets, "seconds": time.monotonic() - begun}

    return Here(work)


def many_ports(at, ports):
    """Interests of 14 bytes, each in a datagram from another port, again every second."""

    def work(stop):
        frame = tlv(5, tlv(7, tlv(8, b"xy")) + tlv(10, b"1234"))
        assert len(frame) == 14
        sent = octets = 0
        begun = time.monotonic()
        while not stop():
            for _ in range(ports):
                sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                try:
                    octets += sock.sendto(frame, at)
                    sent += 1
                except OSError:
                    pass
                sock.close()
            time.sleep(1)
        return {"datagrams": sent, "bytes": octets, "seconds": time.monotonic() - begun}

    return Here(work)


def idle_connections(at, count):
    """TCP connections that send nothing, dialled again when they are ended."""

    def work(stop):
        held, made = [], 0
        begun = time.monotonic()
        while not stop():
            while len(held) < count and not stop():
                try:
                    held.append(socket.create_connection(at, timeout=0.2))
                    made += 1
                except OSError:
                    break
            for sock in list(held):
                sock.setblocking(False)
                try:
                    if sock.recv(1) == b"":
                        raise OSError
                except BlockingIOError:
                    continue
                except OSError:
                    held.remove(sock)
                    sock.close()
            time.sleep(0.1)
        return {"datagrams": made, "bytes": made * 40, "seconds": time.monotonic() - begun}

    return Here(work)


# Targets of attacks.


class Target:
    """A running `xylem share` or `xylem ndn node`."""

    def __init__(self, command, wanted):
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.told = []
        for line in self.process.stdout:
            self.told.append(json.loads(line))
            if wanted(self.told):
                break
        else:
            raise SystemExit(f"{command[0]}: ended before it was ready")
        # Read its output, so that it never blocks.
        threading.Thread(target=lambda: [None for _ in self.process.stdout], daemon=True).start()

    def memory(self):
        for line in pathlib.Path(f"/proc/{self.process.pid}/status").read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
        return 0.0

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.process.pid}/fd"))

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        self.process.stdout.close()


class Place:
    """A folder with the shared content, the programs, and their getters."""

    def __init__(self, options, size):
        self.xylem, self.siege = options.xylem, options.siege
        self.folder = pathlib.Path(tempfile.mkdtemp(dir=options.scratch, prefix="siege-"))
        self.source = self.folder / "source"
        self.source.write_bytes(os.urandom(size))
        self.size = size
        self.targets = []
        self.runs = 0

    def share(self, *more):
        command = [self.xylem, "--store", self.folder / "store", "--json", "share"]
        command += ["--listen", "127.0.0.1:0", *more, self.source]
        registered = "--via" in more
        event = "registered" if registered else "shared"
        share = Target(command, lambda told: told[-1]["event"] == event)
        self.targets.append(share)
        shared = next(event for event in share.told if event["event"] == "shared")
        self.ticket, self.name = shared["ticket"], components(shared["name"])
        self.plain = shared["plain"][0] if shared["plain"] else None
        return share

    def node(self, more=""):
        settings = self.folder / "node.toml"
        socket_at = self.folder / "node.sock"
        settings.write_text(
            f'[node]\nlisten = ["unix://{socket_at}", "udp4://127.0.0.1:0", "tcp4://127.0.0.1:0"]\n'
            f"{more}[node.multicast]\nenabled = false\n"
        )
        command = [self.xylem, "--store", self.folder / "node-store", "--json"]
        command += ["--config", settings, "ndn", "node"]
        listens = lambda told: sum("uri" in event for event in told) == 3
        node = Target(command, listens)
        self.targets.append(node)
        self.at = {event["uri"].split(":")[0]: event["uri"] for event in node.told if "uri" in event}
        return node

    def get(self, more):
        """Seconds of one fetch; `None` if it did not end with the right file."""
        self.runs += 1
        out, store = self.folder / f"out-{self.runs}", self.folder / f"get-{self.runs}"
        command = [self.xylem, "--store", store, "-q", "get", self.ticket, "-o", out]
        begun = time.monotonic()
        done = subprocess.run(
            command + ["--no-serve", "--timeout", "15", *more],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
        took = time.monotonic() - begun
        right = done.returncode == 0 and out.stat().st_size == self.size
        right = right and out.read_bytes() == self.source.read_bytes()
        out.unlink(missing_ok=True)
        shutil.rmtree(store, ignore_errors=True)
        return took if right else None

    def stop(self):
        for target in reversed(self.targets):
            target.stop()
        shutil.rmtree(self.folder)


def address(uri):
    host, port = uri.split("://")[-1].rsplit(":", 1)
    return host, int(port)


# The attacks: each returns the target program, the attack, and how honest getters fetch.


def by_links(count):
    def prepare(place, seconds):
        target = place.share("--plain-listen", "127.0.0.1:0")
        return target, lambda: Program(place.siege, "links", place.ticket, count, 0, seconds), []

    return prepare


def by_datagrams(place, _seconds):
    target = place.share("--plain-listen", "127.0.0.1:0")
    return target, lambda: datagrams(address(place.plain), place.name), []


def through_a_node(place, _seconds):
    node = place.node()
    place.share("--via", place.at["unix"])
    # Not over UDP: peers of one UDP socket share the kernel's buffer (docs/spec/faces.md).
    more = ["--from", place.at["tcp4"]]
    return node, lambda: datagrams(address(place.at["udp4"]), place.name), more


def in_front(place, _seconds):
    place.share("--plain-listen", "127.0.0.1:0")
    route = f'[[node.route]]\nprefix = "/"\nto = "tcp4://{place.plain}"\n'
    node = place.node(route)
    more = ["--from", place.at["tcp4"]]
    return node, lambda: datagrams(address(place.at["udp4"]), place.name), more


def by_ports(place, _seconds):
    target = place.share("--plain-listen", "127.0.0.1:0")
    more = ["--from", f"udp4://{place.plain}"]
    return target, lambda: many_ports(address(place.plain), 1_100), more


def by_connections(place, _seconds):
    node = place.node()
    place.share("--via", place.at["unix"])
    more = ["--from", place.at["unix"]]
    return node, lambda: idle_connections(address(place.at["tcp4"]), 1_100), more


def by_handshakes(place, seconds):
    target = place.share("--plain-listen", "127.0.0.1:0")
    return target, lambda: Program(place.siege, "half", place.ticket, 2_000, seconds), []


ATTACKS = [
    ("what does not exist, 1 link", by_links(1), True),
    ("what does not exist, 10 links", by_links(10), False),
    ("what does not exist, 100 links", by_links(100), True),
    ("what does not exist, plain UDP", by_datagrams, True),
    ("what does not exist, through a node", through_a_node, True),
    ("what does not exist, through a node that dials the share", in_front, False),
    ("14 bytes from each of 1,100 ports", by_ports, True),
    ("1,100 idle TCP connections", by_connections, True),
    ("2,000 half handshakes a second", by_handshakes, True),
]


def reflected(place):
    """Bytes beyond three for one that come back to an address that sends nothing but requests, for more than its budget;
    `None` where this machine has no address but loopback, which nothing outside can forge."""
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        # Sends nothing; the kernel chooses the address that it would send from.
        sock.connect(("192.0.2.1", 9))
    except OSError:
        return None
    own = sock.getsockname()[0]
    sock.close()
    place.share("--plain-listen", f"{own}:0")
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind((own, 0))
    sock.settimeout(1.0)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4 << 20)
    sent = came = 0
    # Two turns use the budget up (docs/spec/faces.md).
    for turn in range(4):
        for segment in range(200):
            name = place.name + tlv(50, number(segment))
            sent += sock.sendto(interest(name, 200 * turn + segment + 1), address(place.plain))
        try:
            while True:
                came += len(sock.recv(65_536))
        except OSError:
            pass
    sock.close()
    return came - 3 * sent


def goodput(place, more, seconds, least=1):
    """Bytes a second of consecutive fetches; 0 where one of them failed."""
    begun, took = time.monotonic(), []
    while time.monotonic() - begun < seconds or len(took) < least:
        one = place.get(more)
        if one is None:
            return 0.0
        took.append(one)
    return place.size * len(took) / sum(took)


def recovers(place, more, wanted):
    """Bytes a second of the best fetch that begins within five seconds, or of the first that is good enough."""
    begun, best = time.monotonic(), 0.0
    while best < wanted and time.monotonic() - begun < RECOVERY:
        took = place.get(more)
        best = max(best, place.size / took if took else 0.0)
    return best


def undisturbed(options, prepare, plan):
    """Bytes a second of fetches from programs that were never attacked: the machine's present speed."""
    place = Place(options, plan["size"])
    try:
        _target, _attack, more = prepare(place, 1)
        gives = goodput(place, more, plan["before"], 3)
        if not gives:
            raise SystemExit("bench/siege.py: a fetch failed without an attack")
        return gives
    finally:
        place.stop()


def besiege(options, prepare, plan):
    """One round of one attack."""
    place = Place(options, plan["size"])
    try:
        lasts = plan["fills"] + plan["during"] + 1
        target, attack, more = prepare(place, lasts)
        before = goodput(place, more, plan["before"], 3)
        if not before:
            raise SystemExit("bench/siege.py: a fetch failed before the attack")
        attacker = attack()
        time.sleep(plan["fills"])
        during = goodput(place, more, plan["during"])
        descriptors = target.descriptors()
        told = attacker.stop()
        after = recovers(place, more, WANTED_AFTER * before)
        seconds = told.get("seconds") or 1
        if during < WANTED_DURING * before or after < WANTED_AFTER * before:
            before = min(before, undisturbed(options, prepare, plan))
        return {
            "packets/s": told.get("datagrams", 0) / seconds,
            "bytes/s": told.get("bytes", 0) / seconds,
            "before": before,
            "during": during / before,
            "after": after / before,
            "memory": target.memory(),
            "descriptors": descriptors,
        }
    finally:
        place.stop()


FULL = {"size": 64 << 20, "before": 3, "fills": 8, "during": 6}
QUICK = {"size": 16 << 20, "before": 0.5, "fills": 3, "during": 1}


def good(row):
    return row["during"] >= WANTED_DURING and row["after"] >= WANTED_AFTER


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="the short form that CI runs")
    parser.add_argument("--only", default="", help="attacks whose names have this in them")
    parser.add_argument("--xylem", default=ROOT / "target/release/xylem", help="program under attack")
    parser.add_argument("--siege", default=ROOT / "target/release/xylem-siege", help="attackers over links")
    parser.add_argument("--scratch", default=None, help="folder for files (usual: /dev/shm)")
    parser.add_argument("--json", action="store_true", help="lines of JSON instead of a table")
    options = parser.parse_args()
    if options.scratch is None:
        options.scratch = "/dev/shm" if os.path.isdir("/dev/shm") else None
    plan = QUICK if options.quick else FULL
    fell = []
    if not options.json:
        print(
            "| attack | packets/s, bytes/s | goodput before, MB/s | during, after (of before) |"
            " memory, MiB | descriptors |\n|---|---|---|---|---|---|"
        )
    for label, prepare, quick in ATTACKS:
        if options.only not in label or (options.quick and not quick):
            continue
        best = None
        for _ in range(ROUNDS):
            row = besiege(options, prepare, plan)
            score = min(row["during"] / WANTED_DURING, row["after"] / WANTED_AFTER)
            if best is None or score > best[0]:
                best = (score, row)
            if good(row):
                break
        row = best[1]
        if not good(row):
            fell.append(label)
        if options.json:
            print(json.dumps({"attack": label, **row}), flush=True)
        else:
            print(
                f"| {label} | {row['packets/s']:,.0f}; {row['bytes/s']:,.0f} | {row['before'] / 1e6:.0f} |"
                f" {row['during']:.2f}; {row['after']:.2f} | {row['memory']:.0f} | {row['descriptors']} |",
                flush=True,
            )
    if options.only in "reflection":
        place = Place(options, plan["size"])
        try:
            beyond = reflected(place)
        finally:
            place.stop()
        if options.json:
            print(json.dumps({"attack": "reflection", "beyond": beyond}))
        elif beyond is None:
            print("\nReflection: no address but loopback here; SKIPPED")
        else:
            print(
                f"\nPlain UDP reflects {beyond / 1e6:.2f} MB beyond three bytes for one, to an address that has not answered"
                f" (wanted: at most {WANTED_BEYOND / 1e6:.2f} MB)."
            )
        if beyond is not None and beyond > WANTED_BEYOND:
            fell.append("reflection")
    if fell:
        print(f"bench/siege.py: wanted values missed: {', '.join(fell)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
