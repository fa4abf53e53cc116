#!/usr/bin/env python3
"""Checks whether two hosts behind NATs reach each other, which way, and how soon: every kind of NAT with every other.

Usage: bench/reach.py [--xylem PROGRAM] [--tries N] [--kinds A,B] [--json FILE] [--quick] [PART]...

Needs root, /dev/net/tun, `ip` and `nft` (bench/internet.py describes the network). The round trip between
any two hosts is 50 ms, and each sends at most 16 Mbit/s.

  probe    the behaviour of each NAT, measured by plain sockets: that it matches its name
  matrix   the sharer behind each kind, the getter behind each; a relay in the middle
  changes  NATs that lose mappings and reboot, hairpin, one LAN, a relay that dies
  code     from `share --code` and `get CODE` to the file
  dht      the same with nothing named: the two sides find each other in a DHT of nodes of its own (bench/dht_nodes.py), and
           a volunteer relay where both have symmetric NATs
  tickets  a public share behind one NAT, and a getter behind another whose ticket has addresses of the sharer's own network alone
  peers    sendme, croc, magic-wormhole, libtorrent in some of these places (--programs DIR, as
           bench/install_movers fills it, and --python with those of PyPI)

A getter is a new one in each try: another public address, an empty store. Times count from the start
of its process, and the network reports when there is content: at the tenth packet of 1,000 bytes or more,
from the relay or from the sharer itself. Exit 1 where a copy is missing or not exact, or where a NAT does
not match its name; with --quick also where a required direct path was not found. Speed decides nothing.
"""

import argparse
import concurrent.futures
import contextlib
import filecmp
import json
import os
import pathlib
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

import reach_peers
from internet import KINDS, RELAY, Internet, Place, end_all, middle, probe_all
from processes import Failed

ROOT = pathlib.Path(__file__).resolve().parent.parent
RATE = 16
DEADLINE = 20
# Pairs of --quick: one that punches, one that needs luck, one that needs the relay, and the kernel's own NATs.
QUICK = [
    ("port-restricted", "port-restricted"), ("address-restricted", "symmetric"), ("two NATs", "full cone"),
    ("symmetric", "symmetric"), ("no UDP", "port-restricted"), ("IPv6 only", "address-restricted"),
    ("nft", "nft-random"), ("nft", "nft"), ("symmetric", "open"),
]  # fmt: skip
# Addresses of the DHT's nodes: a lookup asks two of a host at most.
DHT_NODES = [f"20.0.{n}.1" for n in range(1, 25)]
EASY = {"open", "full cone", "address-restricted"}
HARD = {"symmetric", "nft-random"}


def event(log, name, seconds, **fields):
    """The first event of a name in a file of events, as soon as it is there."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        for line in pathlib.Path(log).read_text(errors="replace").splitlines():
            with contextlib.suppress(ValueError):
                told = json.loads(line)
                if told["event"] == name and all(told.get(key) == value for key, value in fields.items()):
                    return told
        time.sleep(0.02)
    raise Failed(f"no {name} within {seconds} s: " + pathlib.Path(log).read_text(errors="replace")[-500:])


def must_be_direct(sharer, getter):
    """Whether a direct path exists that needs no luck."""
    pair = {sharer, getter}
    if "no UDP" in pair:
        return False
    if "IPv6 only" in pair:
        return pair == {"IPv6 only"}
    return bool(pair & EASY) or not pair & HARD


class Xylem:
    """`share` and `get` with a relay of their own, or without one."""

    name = "xylem"
    shares_once = False
    relay_flags = ()

    def __init__(self, options):
        self.program, self.with_relay = options.xylem, not options.no_relay
        self.relays, self.processes = [], {}

    def serve(self, internet, work):
        if not self.with_relay:
            return
        # Its default addresses, except the socket in /run, which is this machine's.
        places = ["xylem://0.0.0.0:7348", "xylem://[::]:7348", "xylem+wss://0.0.0.0:443", "xylem+wss://[::]:443"]
        command = [self.program, "--store", f"{work}/relay", "--json", "relay", *self.relay_flags]
        command += [f"--listen={place}" for place in places]
        log = self.start(internet, "relay", work, command)
        self.relays = [f"--relay={uri}" for uri in self.names_of(event(log, "relaying", 10))]

    def names_of(self, relaying):
        """What the sides name of the relay."""
        return relaying["uris"]

    def restart_relay(self, internet, work, number):
        """Ends the relay by a signal and starts it again, as a service manager does."""
        self.processes["relay"].send_signal(number)
        self.processes["relay"].wait(10)
        self.serve(internet, work)

    def share(self, internet, work, source, *more):
        command = [self.program, "--store", f"{work}/share", "--json", "share", source, *self.relays, *more]
        log = self.start(internet, "s", work, command)
        self.ticket = event(log, "shared", 10)["ticket"]
        if self.relays:
            # Saying a ticket takes a person longer than this.
            event(log, "relay", 10, registered=True)
        return log

    def start(self, internet, host, work, command):
        """Starts a long-running program; returns the file with its events."""
        log = f"{work}/{host}.log"
        environment = {"HOME": work, "XDG_RUNTIME_DIR": work}
        with open(log, "w") as file:
            self.processes[host] = internet.start(host, command, environment, stdout=file, stderr=file)
        return log

    def get(self, internet, work, out, *more):
        store = f"{out}.store"
        command = [self.program, "--store", store, "--json", "get", self.ticket, "-o", out, *more]
        log = open(f"{out}.log", "w")
        return internet.start("g", command, stdout=log, stderr=subprocess.STDOUT, environment={"HOME": work})


def one_try(program, internet, work, source, number, deadline=DEADLINE, meanwhile=None):
    """One getter from start to end, as observed by the network."""
    out = f"{work}/out{number}"
    internet.counts()
    began = time.monotonic()
    process = program.get(internet, work, out)
    told = meanwhile(process) if meanwhile else {}
    try:
        code = process.wait(max(0.1, deadline - (time.monotonic() - began)))
    except subprocess.TimeoutExpired:
        process.kill()
        code = process.wait() and None
    seconds, counts = time.monotonic() - began, internet.counts()
    copy = program.copy(out, source) if hasattr(program, "copy") else out
    exact = os.path.exists(copy) and filecmp.cmp(copy, source, shallow=False)
    direct, relayed = counts.get(("s", "g"), {}), counts.get(("relay", "g"), {})
    content = [way["content"] for way in (direct, relayed) if way.get("content") is not None]
    row = {
        "code": code, "exact": exact, "connected": bool(content) or exact, "seconds": round(seconds, 3),
        "first": min(content, default=None), "direct": direct.get("content"),
        "bytes": [direct.get("bytes", 0), relayed.get("bytes", 0)], **told,
    }  # fmt: skip
    if not exact and os.path.exists(f"{out}.log"):
        row["said"] = pathlib.Path(f"{out}.log").read_text(errors="replace").strip().splitlines()[-1:]
    for left in pathlib.Path(work).glob(f"out{number}*"):
        shutil.rmtree(left) if left.is_dir() else left.unlink()
    return row


def mine():
    """Prefix of this run's folders."""
    return f"xylem-reach-{os.getpid()}-"


def end_by(number, options):
    """Handles a signal: ends whatever other threads are doing."""
    end_all()
    if not options.keep:
        for left in pathlib.Path(options.dir).glob(mine() + "*"):
            shutil.rmtree(left, ignore_errors=True) if left.is_dir() else left.unlink(missing_ok=True)
    os._exit(128 + number)


@contextlib.contextmanager
def network(options, seed=1, nodes=()):
    """A network with a relay's host, and a folder that is removed afterwards."""
    work = tempfile.mkdtemp(prefix=mine(), dir=options.dir)
    try:
        with Internet(options.network, options.round_trip, seed, RATE) as internet:
            middle(internet, *nodes)
            yield internet, work
    finally:
        if options.keep:
            print(f"reach: kept {work}", file=sys.stderr)
        else:
            shutil.rmtree(work)


def pair(options, make, kinds, tries):
    """All tries of one pair: rows, or the reason for which there are none."""
    rows = []
    try:
        with network(options, hash(kinds) & 0xFFFF, getattr(make, "nodes", ())) as (internet, work):
            Place(internet, "s", kinds[0], "30.0.0.1", "192.168.1.2")
            # Half of all homes have the same addresses inside.
            getter = Place(internet, "g", kinds[1], "40.0.0.1", "192.168.1.3")
            program = make(options)
            program.serve(internet, work)
            if not program.shares_once:
                program.share(internet, work, options.source)
            for number in range(tries):
                getter.moved(number)
                if program.shares_once:
                    program.share(internet, work, options.source)
                deadline = getattr(make, "deadline", DEADLINE)
                rows.append(one_try(program, internet, work, options.source, number, deadline))
    except (Failed, subprocess.CalledProcessError, RuntimeError, OSError, ValueError) as error:
        rows.append({"code": None, "exact": False, "connected": False, "said": [str(error)]})
    return rows


def median(rows, field):
    values = [row[field] for row in rows if row.get(field) is not None]
    return statistics.median(values) if values else None


def cell(rows, round_trip):
    """Numbers of tries that connected, that went direct, that were direct within a second; milliseconds to the
    first content and to the direct path."""
    connected = sum(row["exact"] for row in rows)
    direct = sum(row.get("direct") is not None for row in rows)
    soon = sum((row.get("direct") or 9) <= 1 for row in rows)
    first, path = median(rows, "first"), median(rows, "direct")
    text = f"{connected}/{len(rows)}"
    if connected:
        text += f", {direct} direct ({soon} in 1 s)" if direct else ", relayed"
        text += f", {first * 1e3:.0f} ms" if first else ""
        text += f" ({path * 1e3:.0f})" if path and path - first > round_trip / 1e3 / 2 else ""
    return text


def run_matrix(options, make, pairs, tries, pool):
    jobs = {kinds: pool.submit(pair, options, make, kinds, tries) for kinds in pairs}
    results = {}
    for kinds, job in jobs.items():
        results[kinds] = job.result()
        print(f"reach: {make.name}: {' → '.join(kinds)}: {cell(results[kinds], options.round_trip)}",
              file=sys.stderr, flush=True)
    return results


def matrix(options, pool):
    pairs = [(a, b) for a in options.kinds for b in options.kinds]
    if options.quick:
        pairs = [one for one in QUICK if set(one) <= set(options.kinds)]
    if options.pairs:
        pairs = [tuple(one.split(":")) for one in options.pairs.split(",")]
    results = run_matrix(options, Xylem, pairs, options.tries, pool)
    print(f"\n### Pairs\n\n{options.tries} tries each: exact copies, over a direct path (of these within 1 s of "
          "`get`'s start), median to the first content (to the direct path)\n")
    if len(pairs) == len(options.kinds) ** 2:
        print("| sharer ↓, getter → | " + " | ".join(options.kinds) + " |")
        print("|---|" + "---|" * len(options.kinds))
        for a in options.kinds:
            print(f"| {a} | " + " | ".join(cell(results[a, b], options.round_trip) for b in options.kinds) + " |")
    else:
        print("| sharer | getter | |\n|---|---|---|")
        for (a, b), rows in results.items():
            print(f"| {a} | {b} | {cell(rows, options.round_trip)} |")
    for kinds, rows in results.items():
        bad = [row for row in rows if not row["exact"]]
        if bad:
            options.wrong.append(f"{' → '.join(kinds)}: {len(bad)} of {len(rows)} without a copy: {bad[0].get('said')}")
        elif options.quick and must_be_direct(*kinds) and all(row["direct"] is None for row in rows):
            options.wrong.append(f"{' → '.join(kinds)}: no direct path")
    return [{"part": "matrix", "sharer": a, "getter": b, "tries": rows} for (a, b), rows in results.items()]


def probes(options, _pool):
    found, wrong = probe_all(options.network, options.round_trip, options.kinds)
    columns = ["mapping", "filter", "keeps port", "hairpin", "tcp", "round trip"]
    print("\n### What the NATs do\n\n| NAT | " + " | ".join(columns) + " |\n|---|" + "---|" * len(columns))
    for kind, row in found.items():
        print(f"| {kind} | " + " | ".join(str(row.get(name, "")) for name in columns) + " |")
    options.wrong.extend(wrong)
    return [{"part": "probe", "kind": kind, **row} for kind, row in found.items()]


def content(internet, until, what=None):
    """Seconds until content arrives at the getter (from `what`), None if none did."""
    began = time.monotonic()
    while time.monotonic() - began < until:
        time.sleep(0.02)
        counts = internet.counts()
        if any(to == "g" and (what in (None, source)) and row["large"] > 0
               for (source, to), row in counts.items()):
            return round(time.monotonic() - began, 2)
    return None


def longest_pause(internet, process):
    """The longest time in seconds in which no content arrived, until this getter ends."""
    last, longest = time.monotonic(), 0
    while process.poll() is None and time.monotonic() - last < DEADLINE:
        time.sleep(0.01)
        # A handshake within TCP has one or two large packets.
        arrived = any(to == "g" and row["large"] > 2 for (_, to), row in internet.counts().items())
        longest = max(longest, time.monotonic() - last)
        if arrived:
            last = time.monotonic()
    return round(longest, 2)


def change(options, what):
    """One case of `changes`."""
    with network(options) as (internet, work), concurrent.futures.ThreadPoolExecutor(1) as pool:
        program = Xylem(options)
        box = {"forget": 30} if what == "forgets" else {}
        if what in ("hairpin", "no hairpin"):
            # Two homes behind one provider's NAT.
            internet.box("isp", {"filter": "port"}, "30.0.0.1", hairpin=what == "hairpin")
            for host, inside in (("s", "192.168.1.2"), ("g", "192.168.1.3")):
                internet.box(host + "c", {"filter": "port"}, f"100.64.0.{inside[-1]}", "isp")
                internet.host(host, [inside], host + "c")
        elif what == "one LAN":
            internet.box("sb", {"filter": "port"}, "30.0.0.1")
            for host, inside in (("s", "192.168.1.2"), ("g", "192.168.1.3")):
                internet.host(host, [inside], "sb")
        else:
            kind = "no UDP" if what.endswith("over TCP") else "symmetric" if what in RESTARTS else "port-restricted"
            Place(internet, "s", kind, "30.0.0.1", "192.168.1.2", box)
            Place(internet, "g", kind, "40.0.0.1", "192.168.1.3", box)
        program.serve(internet, work)
        program.share(internet, work, options.source)
        if what == "forgets":
            time.sleep(75)

        def meanwhile(process):
            if content(internet, DEADLINE) is None:
                return {}
            time.sleep(1)
            if what in RESTARTS:
                restart = pool.submit(program.restart_relay, internet, work, RESTARTS[what])
                gap = longest_pause(internet, process)
                restart.result()
                return {"gap": gap}
            if what == "the relay dies":
                internet.tell("cut", name="relay", cut=True)
            else:
                internet.tell("reboot", name="gb" if what == "getter's NAT reboots" else "sb")
            internet.counts()
            # Packets that were on their way at that moment still arrive.
            time.sleep(options.round_trip / 1e3)
            internet.counts()
            gap = content(internet, DEADLINE)
            return {"gap": None if gap is None else round(gap + options.round_trip / 1e3, 2)}

        acts = what.endswith("reboots") or what == "the relay dies" or what in RESTARTS
        return one_try(program, internet, work, options.source, 0, 40, meanwhile if acts else None)


# How a relay ends that is started again, while all content passes through it.
RESTARTS = {
    "the relay restarts": signal.SIGTERM, "the relay restarts, over TCP": signal.SIGTERM,
    "the relay is killed and restarts": signal.SIGKILL, "the relay is killed and restarts, over TCP": signal.SIGKILL,
}  # fmt: skip
CHANGES = ["getter's NAT reboots", "sharer's NAT reboots", "the relay dies", *RESTARTS, "hairpin", "no hairpin", "one LAN", "forgets"]


def changes(options, pool):
    cases = [what for what in CHANGES if options.case in what and not (options.quick and what == "forgets")]
    jobs = {what: pool.submit(change, options, what) for what in cases}
    print("\n### What happens meanwhile\n\n| | copy | direct after, ms | seconds | without content for, s |\n|---|---|---|---|---|")
    results = []
    for what, job in jobs.items():
        row = job.result()
        direct = row.get("direct") and round(row["direct"] * 1e3)
        print(f"| {what} | {'exact' if row['exact'] else row.get('said') or row['code']} | {direct} | {row['seconds']} | {row.get('gap', '')} |")
        if not row["exact"]:
            options.wrong.append(f"{what}: no copy: {row.get('said')}")
        results.append({"part": "changes", "what": what, **row})
    return results


class Code(Xylem):
    """The same with a spoken code."""

    name = "xylem --code"
    shares_once = True

    def share(self, internet, work, source):
        if last := self.processes.get("s"):
            last.terminate()
            last.wait(10)
        log = super().share(internet, work, source, "--code")
        self.ticket = event(log, "code", 10)["code"]

    def get(self, internet, work, out, *more):
        return super().get(internet, work, out, *self.relays, *more)


class CodeByHost(Code):
    """The same with a relay that both sides name by its host alone."""

    name = "xylem --code, relay without key"
    relay_flags = ("--accept-open",)

    def names_of(self, relaying):
        return [host for host in relaying["hosts"] if host == RELAY]


def code(options, pool):
    pairs = [("port-restricted", "port-restricted"), ("no UDP", "no UDP"), ("no UDP", "symmetric"), ("symmetric", "no UDP")]
    if options.pairs:
        pairs = [tuple(one.split(":")) for one in options.pairs.split(",")]
    print("\n### Codes, with a relay\n\n| relay named by | offerer | taker | |\n|---|---|---|---|")
    all_rows = []
    for make, by in ((Code, "key and host"), (CodeByHost, "host")):
        for (a, b), rows in run_matrix(options, make, pairs, options.tries, pool).items():
            print(f"| {by} | {a} | {b} | {cell(rows, options.round_trip)}; {median(rows, 'seconds')} s to the end |")
            if not all(row["exact"] for row in rows):
                options.wrong.append(f"code: {by}: {a} → {b}: {[row.get('said') for row in rows if not row['exact']][0]}")
            all_rows.append({"part": "code", "by": by, "sharer": a, "getter": b, "tries": rows})
    return all_rows


class CodeByDht(Code):
    """A code, with no relay and nothing named but where the DHT is entered."""

    name = "xylem --code, DHT"
    nodes = DHT_NODES

    def serve(self, internet, work):
        places = [f"{address}:6881" for address in DHT_NODES]
        log = self.start(internet, "relay", work, [sys.executable, ROOT / "bench/dht_nodes.py", *places])
        event(log, "ready", 10)
        self.entry = f"--dht-bootstrap={places[0]}"

    def share(self, internet, work, source):
        if last := self.processes.get("s"):
            last.terminate()
            last.wait(10)
        log = Xylem.share(self, internet, work, source, "--code", self.entry)
        self.ticket = event(log, "code", 10, dht=True)["code"]

    def get(self, internet, work, out, *more):
        return super().get(internet, work, out, self.entry, *more)


class CodeByVolunteer(CodeByDht):
    """The same with one volunteer relay somewhere, which the two sides find in the DHT."""

    name = "xylem --code, DHT, a volunteer"

    def serve(self, internet, work):
        super().serve(internet, work)
        command = [self.program, "--store", f"{work}/volunteer", "--json", "relay", "--volunteer", self.entry]
        command.append(f"--listen=xylem://{RELAY}:7348")
        log = f"{work}/volunteer.log"
        with open(log, "w") as file:
            environment = {"HOME": work, "XDG_RUNTIME_DIR": work}
            self.processes["volunteer"] = internet.start("relay", command, environment, stdout=file, stderr=file)
        event(log, "volunteering", 20)


class TicketByDht(CodeByDht):
    """The ticket of a public share. The sharer polls for getters every 28 s."""

    name = "xylem --public, DHT"
    shares_once = False
    deadline = 60

    def share(self, internet, work, source):
        Xylem.share(self, internet, work, source, "--public", self.entry)
        # It is listed by then.
        time.sleep(5)


class ByRoot(TicketByDht):
    """The same by `get b3:ROOT`, without any ticket."""

    name = "xylem get b3:, DHT"

    def share(self, internet, work, source):
        super().share(internet, work, source)
        self.ticket = "b3:" + event(f"{work}/s.log", "shared", 10)["root"]


class TicketByVolunteer(TicketByDht, CodeByVolunteer):
    """The ticket where no direct way is found, with one volunteer relay somewhere."""

    name = "xylem --public, DHT, a volunteer"
    deadline = 90


class RootByVolunteer(ByRoot, CodeByVolunteer):
    """The root, in the same way."""

    name = "xylem get b3:, DHT, a volunteer"
    deadline = 90


def tickets(options, pool):
    pairs = [("open", "port-restricted"), ("full cone", "port-restricted"), ("port-restricted", "port-restricted")]
    relayed = [("symmetric", "symmetric"), ("port-restricted", "symmetric"), ("symmetric", "port-restricted")]
    if options.pairs:
        given = [tuple(one.split(":")) for one in options.pairs.split(",")]
        pairs, relayed = ([pair for pair in of if pair in given] for of in (pairs, relayed))
    print("\n### Tickets and roots by the DHT\n\n| by | sharer | getter | |\n|---|---|---|---|")
    all_rows = []
    parts = [(TicketByDht, "ticket", pairs), (ByRoot, "b3:", pairs)]
    parts += [(TicketByVolunteer, "ticket, a volunteer", relayed), (RootByVolunteer, "b3:, a volunteer", relayed)]
    for make, by, pairs in parts:
        for (a, b), rows in run_matrix(options, make, pairs, options.tries, pool).items():
            print(f"| {by} | {a} | {b} | {cell(rows, options.round_trip)}; {median(rows, 'seconds')} s to the end |")
            if not all(row["exact"] for row in rows):
                options.wrong.append(f"tickets: {by}: {a} → {b}: {[row.get('said') for row in rows if not row['exact']][0]}")
            all_rows.append({"part": "tickets", "by": by, "sharer": a, "getter": b, "tries": rows})
    return all_rows


def dht(options, pool):
    pairs = [("port-restricted", "port-restricted"), ("symmetric", "symmetric")]
    if not options.quick:
        pairs += [("open", "port-restricted"), ("port-restricted", "open"), ("two NATs", "two NATs"), ("nft", "nft")]
        pairs += [("symmetric", "port-restricted"), ("port-restricted", "symmetric"), ("nft-random", "nft")]
    if options.pairs:
        pairs = [tuple(one.split(":")) for one in options.pairs.split(",")]
    direct = [pair for pair in pairs if not set(pair) <= HARD]
    results = run_matrix(options, CodeByDht, direct, options.tries, pool)
    results |= run_matrix(options, CodeByVolunteer, [pair for pair in pairs if pair not in direct], options.tries, pool)
    print("\n### Codes by the DHT\n\n| offerer | taker | |\n|---|---|---|")
    for (a, b), rows in results.items():
        print(f"| {a} | {b} | {cell(rows, options.round_trip)}; {median(rows, 'seconds')} s to the end |")
        if not all(row["exact"] for row in rows):
            options.wrong.append(f"dht: {a} → {b}: {[row.get('said') for row in rows if not row['exact']][0]}")
    return [{"part": "dht", "sharer": a, "getter": b, "tries": rows} for (a, b), rows in results.items()]


def peers(options, pool):
    places = ["open", "port-restricted", "symmetric", "no UDP"]
    pairs = [(a, b) for a in places for b in places]
    if options.pairs:
        pairs = [tuple(one.split(":")) for one in options.pairs.split(",")]
    results, lines = [], []
    for make in [Xylem, *reach_peers.PROGRAMS]:
        if options.peer not in make.name:
            continue
        missing = make.missing(options) if hasattr(make, "missing") else None
        if missing:
            lines.append(f"| {make.name} | {missing} |")
            continue
        found = run_matrix(options, make, pairs, options.tries, pool)
        rows = [row for rows in found.values() for row in rows]
        good = [row for row in rows if row["exact"]]
        connected = sum(all(row["exact"] for row in rows) for rows in found.values())
        direct = sum(all(row["exact"] and row["direct"] is not None for row in rows) for rows in found.values())
        first, seconds = median(good, "first"), median(good, "seconds")
        size = os.path.getsize(options.source)
        figures = [f"{connected} of {len(pairs)}", str(direct), f"{first:.2f}" if first else "",
                   f"{size * 8e-6 / seconds:.1f}" if seconds else "", str(getattr(make, "characters", ""))]
        lines.append(f"| {make.name} | " + " | ".join(figures) + " |")
        results += [{"part": "peers", "program": make.name, "sharer": a, "getter": b, "tries": rows} for (a, b), rows in found.items()]
    print("\n### Peers\n\n| program | pairs that connect | of these direct | median s to the first content "
          "| Mbit/s, start included | characters to say |\n|---|---|---|---|---|---|")
    print("\n".join(lines))
    return results


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xylem", default=str(ROOT / "target/release/xylem"))
    parser.add_argument("--network", default=str(ROOT / "target/release/xylem-relay"), help="the network's program")
    parser.add_argument("--no-relay", action="store_true", help="tickets without a relay")
    parser.add_argument("--tries", type=int, help="of each pair [default: 10; with --quick 1]")
    parser.add_argument("--round-trip", type=float, default=50, help="milliseconds")
    parser.add_argument("--size", type=int, help="bytes of the file [default: 4 MB; with --quick 3 MB]")
    parser.add_argument("--kinds", help="some of: " + ", ".join(KINDS))
    parser.add_argument("--pairs", help="SHARER:GETTER,... instead of all")
    parser.add_argument("--case", default="", help="of `changes`: those whose name contains this")
    parser.add_argument("--peer", default="", help="of `peers`: those whose name contains this")
    parser.add_argument("--jobs", type=int, default=4, help="networks side by side")
    parser.add_argument("--quick", action="store_true", help="the short form of .ci/run")
    parser.add_argument("--json", help="a file for all that was measured")
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--programs", default=str(ROOT / "target/movers/bin"))
    parser.add_argument("--python", default=str(ROOT / "target/movers/venv/bin/python3"))
    parser.add_argument("--keep", action="store_true", help="leave logs and stores where they are")
    parser.add_argument("parts", nargs="*", metavar="PART")
    options = parser.parse_args()
    options.kinds = options.kinds.split(",") if options.kinds else KINDS
    options.tries = options.tries or (1 if options.quick else 10)
    options.size = options.size or (3_000_000 if options.quick else 4_000_000)
    options.wrong = []
    if unknown := [part for part in options.parts if part not in PARTS]:
        parser.error(f"no part {unknown[0]}")
    for path in (options.network, options.xylem):
        if not os.access(path, os.X_OK):
            parser.error(f"no program {path}: cargo build --release -p xylem-cli -p xylem-relay")
    if os.geteuid() != 0:
        parser.error("namespaces and TUN devices take root")
    return options


PARTS = {"probe": probes, "matrix": matrix, "changes": changes, "code": code, "dht": dht, "tickets": tickets, "peers": peers}


def main():
    options = arguments()
    chosen = options.parts or (["probe", "matrix", "changes", "dht"] if options.quick else list(PARTS))
    results = []
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda number, _: end_by(number, options))
    with tempfile.NamedTemporaryFile(prefix=mine(), dir=options.dir) as source:
        source.write(os.urandom(options.size))
        source.flush()
        options.source = source.name
        with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
            for part in chosen:
                results += PARTS[part](options, pool)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(results))
    for line in options.wrong:
        print(f"reach: {line}", file=sys.stderr)
    sys.exit(1 if options.wrong else 0)


if __name__ == "__main__":
    main()
