#!/usr/bin/env python3
"""Transfers between two network namespaces whose only way to each other is a bad network.

Usage: bench/networks.py [--xylem PROGRAM]... [--jobs N] [--quick] [--json] [table|paths|ecn|beside|alone|short|start]...

Needs root, /dev/net/tun and `ip`. Each namespace has one TUN device; bench/relay carries packets
from one to the other with the delay, loss, rate and so on of the cell (this kernel has no netem).
Beside each program given with --xylem run, where they are installed, rsync (daemon, TCP as this
kernel does it) and socat (plain TCP with CUBIC).

  table  goodput over loss and round trip, 100 Mbit/s; then with a fifth of the packets late by up
         to half a round trip and one in a hundred twice
  paths  sizes of packets, a path that shrinks, partitions that heal, a client that moves
  ecn    a bottleneck that marks instead of dropping
  beside `get` and `get --low-priority` in one queue with a TCP of this kernel, CUBIC and BBR; not
         unless it is named
  alone  the queue that one flow keeps, by `ping`; not unless it is named
  short  bytes sent, and how fast, where the queue is short; not unless it is named
  start  1 MB over a path without loss, in round trips; not unless it is named

A figure is file bytes over seconds from the receiver's start, its handshake included, to its exit;
or, where the time of the cell (10 or 20 s) is over first, what was there by then. Whole copies are
compared with the original. Exit 1 where one differs, or where a case of `paths` did not end with
a right copy.
"""

import argparse
import concurrent.futures
import contextlib
import fcntl
import filecmp
import json
import os
import pathlib
import queue
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
LEFT, RIGHT, MOVED = "10.99.0.1", "10.99.0.2", "10.99.0.3"
PORT = 4363
LOSS = [0, 0.1, 1, 5, 20]
ROUND_TRIP = [1, 20, 100, 300]
RATE = 100
# Constants of <linux/if_tun.h>.
TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 0x0001, 0x1000


def sh(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


def first():
    """Runs in a child before its program starts: a higher priority than other load on this machine."""
    os.setpriority(os.PRIO_PROCESS, 0, -10)


def at_once():
    """The same for the relay, with a real-time priority: it runs when a packet is due."""
    with contextlib.suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(10))


def namespace(name, addresses):
    """Makes a network namespace with one TUN device; returns the file of the device's other end."""
    device = os.open("/dev/net/tun", os.O_RDWR)
    # A device name has at most 15 characters.
    request = struct.pack("16sH22x", name[-14:].encode(), IFF_TUN | IFF_NO_PI)
    fcntl.ioctl(device, TUNSETIFF, request)
    sh("ip", "netns", "add", name)
    sh("ip", "link", "set", name[-14:], "netns", name, "name", "tun")
    # The only queue that matters is the relay's.
    sh("ip", "-n", name, "link", "set", "tun", "txqueuelen", "10000", "up")
    sh("ip", "-n", name, "link", "set", "lo", "up")
    for address in addresses:
        sh("ip", "-n", name, "addr", "add", address, "dev", "tun", *(["nodad"] if ":" in address else []))
    sh("ip", "netns", "exec", name, "sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1")
    return device


class Pair:
    """Two namespaces, each with a TUN device; this process has the other ends."""

    def __init__(self, number):
        self.names = [f"xw{os.getpid()}-{number}{side}" for side in "lr"]
        self.devices = []
        for name, address in zip(self.names, [LEFT, RIGHT]):
            self.devices.append(namespace(name, [f"{address}/24"]))

    def ip(self, name, *words):
        sh("ip", "-n", name, *words)

    def set_mtu(self, mtu):
        for name in self.names:
            self.ip(name, "link", "set", "tun", "mtu", str(mtu))

    def home(self):
        """The left side's present address."""
        self.ip(self.names[0], "addr", "flush", "dev", "tun")
        self.ip(self.names[0], "addr", "add", f"{LEFT}/24", "dev", "tun")

    def start(self, side, command, **kwargs):
        words = ["ip", "netns", "exec", self.names[side], *map(str, command)]
        return subprocess.Popen(words, preexec_fn=first, start_new_session=True, **kwargs)

    def close(self):
        for device in self.devices:
            os.close(device)
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


class Relay:
    """The network between a pair while it runs; `report` afterwards has its counters."""

    def __init__(self, program, pair, conditions, changes=()):
        words = [program]
        for name, value in conditions.items():
            words += ["--" + name.replace("_", "-"), str(value)]
        for change in changes:
            words += ["--at", change]
        self.process = subprocess.Popen(
            words, stdin=pair.devices[0], stdout=pair.devices[1], stderr=subprocess.PIPE,
            text=True, preexec_fn=at_once,
        )
        self.report = None

    def __enter__(self):
        time.sleep(0.2)
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        _, text = self.process.communicate(timeout=10)
        if self.process.returncode != 0:
            raise SystemExit(f"the relay ended with {self.process.returncode}: {text}")
        self.report = json.loads(text.splitlines()[-1])


@contextlib.contextmanager
def running(process):
    try:
        yield process
    finally:
        # With its children: those of rsync would go on.
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


class Xylem:
    def __init__(self, program):
        self.program, self.name = program, "xylem"

    def __call__(self, pair, source, work, deadline, meanwhile):
        store = os.path.join(work, "store")
        share = pair.start(
            1, [self.program, "--store", store, "-q", "share", source, "--listen", f"{RIGHT}:{PORT}"],
            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        )
        with running(share):
            ticket = share.stdout.readline().strip()
            if not ticket:
                raise SystemExit("share printed no ticket")
            log = os.path.join(work, "events")
            out = os.path.join(work, "out")
            get = [self.program, "--store", os.path.join(work, "get"), "--json", "get", ticket, "-o", out]
            with open(log, "w") as events:
                began = time.monotonic()
                receiver = pair.start(0, get, stdout=events, stderr=events)
            with running(receiver):
                code, seconds = wait(receiver, began, deadline, meanwhile)
            events = [json.loads(line) for line in open(log) if line.startswith("{")]
            progress = [event["verified"] for event in events if event["event"] == "progress"]
            got = os.path.getsize(source) if code == 0 else max(progress, default=0)
            links = sum(event["event"] == "peer_connected" for event in events)
            return {"code": code, "seconds": seconds, "bytes": got, "out": out, "links": links,
                    "end": events[-1] if events else None}


KERNEL = pathlib.Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip().upper()


class Rsync:
    name = f"rsync, TCP {KERNEL}"

    def __call__(self, pair, source, work, deadline, meanwhile):
        config = os.path.join(work, "rsyncd.conf")
        pathlib.Path(config).write_text(
            f"use chroot = no\nuid = 0\ngid = 0\n[m]\npath = {os.path.dirname(source)}\n"
        )
        command = ["rsync", "--daemon", "--no-detach", f"--config={config}", f"--port={PORT}",
                   f"--address={RIGHT}"]
        with running(pair.start(1, command, stderr=subprocess.DEVNULL)):
            time.sleep(0.2)
            url = f"rsync://{RIGHT}:{PORT}/m/{os.path.basename(source)}"
            return tcp(pair, ["rsync", "-q", "--whole-file", "--inplace", url], work, deadline, meanwhile)


# setsockopt(IPPROTO_TCP, TCP_CONGESTION, …): <linux/tcp.h>
TCP_CUBIC = "setsockopt-string=6:13:cubic"


class Socat:
    name = "socat, TCP CUBIC"

    def __call__(self, pair, source, work, deadline, meanwhile):
        command = ["socat", "-u", f"FILE:{source}", f"TCP-LISTEN:{PORT},reuseaddr,{TCP_CUBIC}"]
        with running(pair.start(1, command, stderr=subprocess.DEVNULL)):
            time.sleep(0.2)
            command = ["socat", "-u", f"TCP:{RIGHT}:{PORT}", "STDOUT"]
            return tcp(pair, command, work, deadline, meanwhile, to_stdout=True)


def tcp(pair, command, work, deadline, meanwhile, to_stdout=False):
    out = os.path.join(work, "out")
    began = time.monotonic()
    if to_stdout:
        with open(out, "wb") as file:
            receiver = pair.start(0, command, stdout=file, stderr=subprocess.DEVNULL)
    else:
        receiver = pair.start(0, [*command, out], stderr=subprocess.DEVNULL)
    with running(receiver):
        code, seconds = wait(receiver, began, deadline, meanwhile)
    got = os.path.getsize(out) if os.path.exists(out) else 0
    return {"code": code, "seconds": seconds, "bytes": got, "out": out, "links": 1, "end": None}


def wait(process, began, deadline, meanwhile):
    """The exit code (None: the time was over) and seconds; `meanwhile` is a list of (seconds, action)."""
    actions = sorted(meanwhile, key=lambda one: one[0])
    while True:
        passed = time.monotonic() - began
        while actions and actions[0][0] <= passed:
            actions.pop(0)[1]()
        try:
            return process.wait(0.02), time.monotonic() - began
        except subprocess.TimeoutExpired:
            if passed > deadline:
                return None, passed


class Bench:
    """All resources of a run: sources by size, free pairs of namespaces."""

    def __init__(self, arguments, work):
        self.relay, self.case, self.work = arguments.relay, arguments.case, work
        self.free = queue.SimpleQueue()
        self.pairs = [Pair(number) for number in range(arguments.jobs)]
        for pair in self.pairs:
            self.free.put(pair)
        self.sources = {}
        self.wrong = []

    def source(self, size):
        return self.sources[size]

    def make(self, sizes):
        for size in sizes:
            path = os.path.join(self.work, f"{size}.bin")
            with open(path, "wb") as file:
                file.write(os.urandom(size))
            self.sources[size] = path

    def run(self, program, size, deadline, conditions, changes=(), mtu=1500, meanwhile=()):
        pair = self.free.get()
        work = tempfile.mkdtemp(dir=self.work)
        try:
            pair.set_mtu(mtu)
            actions = [(at, lambda act=act: act(pair)) for at, act in meanwhile]
            with Relay(self.relay, pair, conditions, changes) as relay:
                result = program(pair, self.source(size), work, deadline, actions)
            result["relay"] = relay.report
            result["right"] = result["code"] == 0 and filecmp.cmp(
                self.source(size), result.pop("out"), shallow=False
            )
            if result["code"] == 0 and not result["right"]:
                self.wrong.append(f"{program.name}: {conditions} {changes}: a wrong copy, exit 0")
            result["mbit"] = result["bytes"] * 8e-6 / result["seconds"]
            return result
        finally:
            shutil.rmtree(work)
            pair.home()
            self.free.put(pair)

    def close(self):
        for pair in self.pairs:
            pair.close()


def conditions(loss, round_trip, uneven=False):
    # A queue of 40 ms, or half the product of rate and round trip.
    queue_bytes = int(RATE * 1e6 / 8 * max(0.04, round_trip / 2e3))
    cell = {"delay": round_trip / 2, "loss": loss, "rate": RATE, "queue": queue_bytes}
    if uneven:
        cell |= {"late": 20, "late_by": round_trip / 2, "duplicate": 1}
    return cell


def table(bench, programs, pool, quick):
    size = 8_000_000 if quick else 40_000_000
    bench.make([size])
    rows = {}
    for uneven in [False, True]:
        for loss in LOSS:
            for round_trip in ROUND_TRIP:
                deadline = (3 if quick else 10) * (1 if round_trip < 100 else 2)
                cell = conditions(loss, round_trip, uneven)
                for number, program in enumerate(programs):
                    job = pool.submit(bench.run, program, size, deadline, cell)
                    rows[uneven, loss, round_trip, number] = job
    rows = {key: job.result() for key, job in rows.items()}
    for uneven in [False, True]:
        print("\n### " + ("A fifth of the packets up to half a round trip late, 1 % of them twice"
                          if uneven else "Loss and round trip") + "\n")
        print("| loss, each way | program | " + " | ".join(f"{rtt} ms" for rtt in ROUND_TRIP) + " |")
        print("|---|---|" + "---|" * len(ROUND_TRIP))
        for loss in LOSS:
            for number, program in enumerate(programs):
                cells = [rows[uneven, loss, rtt, number]["mbit"] for rtt in ROUND_TRIP]
                print(f"| {loss} % | {program.name} | " + " | ".join(f"{c:.1f}" for c in cells) + " |")
    late = max(row["relay"][way]["late_us"] for row in rows.values() for way in ["outward", "inward"])
    print(f"\nThe relay was late by {late / 1e3:.1f} ms at most.")
    return [{"table": "loss", "uneven": k[0], "loss": k[1], "round_trip": k[2],
             "program": programs[k[3]].name, **row} for k, row in rows.items()]


def move(pair):
    """Changes the client's address: the old one goes, sockets stay."""
    pair.ip(pair.names[0], "addr", "del", f"{LEFT}/24", "dev", "tun")
    pair.ip(pair.names[0], "addr", "add", f"{MOVED}/24", "dev", "tun")


# Label, packets of the devices, changes in the relay, seconds and actions on the namespaces.
PATHS = [
    ("packets of 1,280 bytes", 1280, [], []),
    ("packets of 1,500 bytes", 1500, [], []),
    ("packets of 9,000 bytes", 9000, [], []),
    ("devices say 9,000, the path takes 1,500", 9000, ["0:mtu=1500"], []),
    ("devices say 1,500, the path takes 1,280", 1500, ["0:mtu=1280"], []),
    ("9,000 shrinks to 1,280 after 2 s", 9000, ["2:mtu=1280"], []),
    ("1,500 shrinks to 1,280 after 2 s", 1500, ["2:mtu=1280"], []),
    ("a partition of 1 s after 2 s", 1500, ["2:cut=1"], []),
    ("a partition of 8 s after 2 s", 1500, ["2:cut=8"], []),
    ("three partitions of 2 s", 1500, ["1:cut=2", "4:cut=2", "7:cut=2"], []),
    ("new UDP ports by a translator after 1, 2 and 3 s", 1500, ["1:rebind", "2:rebind", "3:rebind"], []),
    ("the client's address changes after 2 s", 1500, [], [(2, move)]),
    ("the rate falls to 10 Mbit/s after 2 s", 1500, ["2:rate=10"], []),
]


def paths(bench, programs, pool, _quick):
    size = 50_000_000
    bench.make([size])
    jobs = {}
    for what, mtu, changes, meanwhile in [one for one in PATHS if bench.case in one[0]]:
        for number, program in enumerate(p for p in programs if isinstance(p, Xylem)):
            cell = conditions(0, 20)
            job = pool.submit(bench.run, program, size, 90, cell, changes, mtu, meanwhile)
            jobs[what, number] = program, job
    print("\n### Paths that change\n\n50 MB at 100 Mbit/s, 20 ms; at best 4.2 s.\n")
    print("| what happens | program | seconds | links | copy |\n|---|---|---|---|---|")
    results = []
    for (what, _), (program, job) in jobs.items():
        row = job.result()
        ok = "right" if row["right"] else f"**none** ({row['end'] or row['code']})"
        print(f"| {what} | {program.name} | {row['seconds']:.1f} | {row['links']} | {ok} |")
        if not row["right"]:
            bench.wrong.append(f"{program.name}: {what}: no right copy")
        results.append({"table": "paths", "what": what, "program": program.name, **row})
    return results


def ecn(bench, programs, pool, quick):
    size = 8_000_000 if quick else 40_000_000
    bench.make([size])
    print("\n### A bottleneck that marks\n\n40 MB at 100 Mbit/s; marks above a quarter of the queue.\n")
    print("| round trip | program | Mbit/s | packets | marked | dropped |\n|---|---|---|---|---|---|")
    jobs = {}
    for round_trip in [20, 100]:
        cell = conditions(0, round_trip)
        cell["mark"] = cell["queue"] // 4
        for number, program in enumerate(programs):
            jobs[round_trip, number] = pool.submit(bench.run, program, size, 20, cell)
    results = []
    for (round_trip, number), job in jobs.items():
        row, program = job.result(), programs[number]
        way = row["relay"]["inward"]
        print(f"| {round_trip} ms | {program.name} | {row['mbit']:.1f} | {way['packets']} "
              f"| {way['marked']} | {way['overflowed']} |")
        results.append({"table": "ecn", "round_trip": round_trip, "program": program.name, **row})
    return results


def beside_tcp(bench, program, flags, control, round_trip, queue, seconds):
    """Mbit/s of a fetch, and of a TCP that began 2 s before it, after both had a third of the time."""
    pair, work = bench.free.get(), tempfile.mkdtemp(dir=bench.work)
    source = bench.source(BESIDE_BYTES)
    cell = {"delay": round_trip / 2, "loss": 0, "rate": RATE,
            "queue": int(RATE * 125 * round_trip * queue)}
    store, log, theirs = (os.path.join(work, name) for name in ["store", "events", "theirs"])
    share = [program.program, "--store", store, "-q", "share", source, "--listen", f"{RIGHT}:{PORT}"]
    serve = ["socat", "-u", f"FILE:{source}", f"TCP-LISTEN:{PORT + 1},reuseaddr,setsockopt-string=6:13:{control}"]
    quiet = {"stderr": subprocess.DEVNULL}

    def ours():
        progress = [json.loads(line) for line in open(log) if '"progress"' in line and line.endswith("\n")]
        return max((event["verified"] for event in progress), default=0)

    try:
        with Relay(bench.relay, pair, cell), contextlib.ExitStack() as stack:
            shared = stack.enter_context(running(pair.start(1, share, stdout=subprocess.PIPE, text=True, **quiet)))
            ticket = shared.stdout.readline().strip()
            stack.enter_context(running(pair.start(1, serve, **quiet)))
            time.sleep(0.2)
            with open(theirs, "wb") as out:
                stack.enter_context(running(pair.start(0, ["socat", "-u", f"TCP:{RIGHT}:{PORT + 1}", "STDOUT"], stdout=out, **quiet)))
            time.sleep(2)
            get = [program.program, "--store", os.path.join(work, "get"), "--json", "get", *flags, ticket, "-o", os.path.join(work, "out")]
            with open(log, "w") as events:
                stack.enter_context(running(pair.start(0, get, stdout=events, stderr=events)))
            time.sleep(seconds / 3)
            began, before = time.monotonic(), (ours(), os.path.getsize(theirs))
            time.sleep(seconds * 2 / 3)
            passed, after = time.monotonic() - began, (ours(), os.path.getsize(theirs))
            return [(b - a) * 8e-6 / passed for a, b in zip(before, after)]
    finally:
        shutil.rmtree(work)
        bench.free.put(pair)


# More than a path of RATE carries within a cell's time.
BESIDE_BYTES = 500_000_000


def beside(bench, programs, pool, quick):
    bench.make([BESIDE_BYTES])
    seconds = 9 if quick else 30
    kinds = [("`get`", []), ("`get --low-priority`", ["--low-priority"])]
    jobs = {}
    for program in (p for p in programs if isinstance(p, Xylem)):
        for what, flags in kinds:
            for control in ["cubic", "bbr"]:
                for round_trip in [20, 100]:
                    for queue in [0.5, 1, 4]:
                        key = (program.name, what, control, round_trip, queue)
                        jobs[key] = pool.submit(beside_tcp, bench, program, flags, control, round_trip, queue, seconds)
    print(f"\n### Beside a TCP of this kernel\n\n{RATE} Mbit/s; Mbit/s of the fetch and of the TCP, which began 2 s before it.\n")
    print("| program | beside | round trip | a queue of 0.5 round trips | 1 | 4 |\n|---|---|---|---|---|---|")
    results = []
    for (name, what, control, round_trip, queue), job in jobs.items():
        results.append({"table": "beside", "program": name, "what": what, "control": control,
                        "round_trip": round_trip, "queue": queue, "mbit": job.result()})
    rows = {}
    for row in results:
        key = (f"{row['program']}, {row['what']}", row["control"].upper(), row["round_trip"])
        rows.setdefault(key, []).append("{:.1f} and {:.1f}".format(*row["mbit"]))
    for (what, control, round_trip), cells in rows.items():
        print(f"| {what} | {control} | {round_trip} ms | " + " | ".join(cells) + " |")
    return results


def start(bench, programs, pool, quick):
    size, trips, rounds = 1_000_000, [20, 100, 300], 3 if quick else 7
    bench.make([size])
    jobs = {}
    for turn in range(rounds):
        for round_trip in trips:
            for number, program in enumerate(programs):
                job = pool.submit(bench.run, program, size, 20, conditions(0, round_trip))
                jobs[round_trip, number, turn] = job
    print(f"\n### Start\n\n1 MB at {RATE} Mbit/s: round trips from the receiver's start to its end, handshake included, median of {rounds}.\n")
    print("| program | " + " | ".join(f"{rtt} ms" for rtt in trips) + " |\n|---|" + "---|" * len(trips))
    for number, program in enumerate(programs):
        cells = []
        for rtt in trips:
            seconds = [jobs[rtt, number, turn].result()["seconds"] for turn in range(rounds)]
            cells.append(statistics.median(seconds) / (rtt / 1e3))
        print(f"| {program.name} | " + " | ".join(f"{c:.1f}" for c in cells) + " |")
    return [{"table": "start", "round_trip": k[0], "program": programs[k[1]].name, **job.result()} for k, job in jobs.items()]


def standing(bench, program, round_trip, queue, seconds):
    """By how many round trips a ping takes longer while a flow alone fills the path: median and 95th percentile."""
    pinged = tempfile.NamedTemporaryFile("r", dir=bench.work)
    probes = []

    def ping(pair):
        command = ["ping", "-n", "-i", "0.05", "-w", str(seconds // 2), RIGHT]
        probes.append(pair.start(0, command, stdout=open(pinged.name, "w")))

    cell = {"delay": round_trip / 2, "loss": 0, "rate": RATE, "queue": int(RATE * 125 * round_trip * queue)}
    result = bench.run(program, BESIDE_BYTES, seconds, cell, meanwhile=[(seconds / 2, ping)])
    probes[0].wait()
    waits = [float(ms) for ms in re.findall(r"time=([0-9.]+)", pinged.read())]
    times = sorted((ms - round_trip) / round_trip for ms in waits)
    return {"mbit": result["mbit"], "median": statistics.median(times), "p95": times[len(times) * 95 // 100]}


def alone(bench, programs, pool, quick):
    bench.make([BESIDE_BYTES])
    seconds = 8 if quick else 16
    jobs = {}
    for number, program in enumerate(programs):
        for round_trip in [20, 100, 300]:
            jobs[number, round_trip] = pool.submit(standing, bench, program, round_trip, 4, seconds)
    print(f"\n### The queue of one flow alone\n\n{RATE} Mbit/s, room for 4 round trips; by how many round trips a ping takes longer "
          "in the second half of the time, median and 95th percentile, and Mbit/s of it all.\n")
    print("| program | 20 ms | 100 ms | 300 ms |\n|---|---|---|---|")
    results = []
    for number, program in enumerate(programs):
        cells = []
        for round_trip in [20, 100, 300]:
            row = jobs[number, round_trip].result()
            results.append({"table": "alone", "program": program.name, "round_trip": round_trip, **row})
            cells.append("{median:.2f}, {p95:.2f}; {mbit:.1f}".format(**row))
        print(f"| {program.name} | " + " | ".join(cells) + " |")
    return results


# Mbit/s, round trip in ms, bytes of queue.
SHORT = [(100, 1, 50_000), (100, 1, 100_000), (20, 30, 20_000), (20, 30, 80_000), (5, 60, 40_000), (5, 60, 100_000)]


def short(bench, programs, pool, quick):
    rounds = 1 if quick else 3
    jobs = {}
    bench.make([rate * 500_000 for rate in {rate for rate, _, _ in SHORT}])
    for turn in range(rounds):
        for rate, round_trip, waiting in SHORT:
            cell = {"delay": round_trip / 2, "loss": 0, "rate": rate, "queue": waiting}
            for number, program in enumerate(programs):
                job = pool.submit(bench.run, program, rate * 500_000, 20, cell)
                jobs[rate, round_trip, waiting, number, turn] = job
    print("\n### Short queues\n\nFour seconds' worth of content: bytes sent over those of the content, headers included, and Mbit/s; "
          f"medians of {rounds}.\n")
    print("| Mbit/s, round trip, queue | " + " | ".join(program.name for program in programs) + " |")
    print("|---|" + "---|" * len(programs))
    for case in SHORT:
        cells = []
        for number in range(len(programs)):
            runs = [jobs[*case, number, turn].result() for turn in range(rounds)]
            sent = statistics.median(run["relay"]["inward"]["bytes"] / max(run["bytes"], 1) for run in runs)
            wrong = "" if all(run["right"] for run in runs) else " (not all of it)"
            cells.append(f"{sent:.2f}, {statistics.median(run['mbit'] for run in runs):.1f}{wrong}")
        print("| {}, {} ms, {} KB | ".format(*case[:2], case[2] // 1000) + " | ".join(cells) + " |")
    return [{"table": "short", "rate": k[0], "round_trip": k[1], "queue": k[2], "program": programs[k[3]].name,
             **job.result()} for k, job in jobs.items()]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xylem", action="append", help="can be repeated: NAME=PROGRAM or PROGRAM")
    parser.add_argument("--relay", default=str(ROOT / "target/release/xylem-relay"))
    parser.add_argument("--jobs", type=int, default=2, help="cells side by side")
    parser.add_argument("--quick", action="store_true", help="a fifth of the time, rougher")
    parser.add_argument("--only", action="store_true", help="no rsync, no socat")
    parser.add_argument("--case", default="", help="of `paths`: those whose name contains this")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("what", nargs="*", default=[])
    arguments = parser.parse_args()
    tables = {"table": table, "paths": paths, "ecn": ecn, "beside": beside, "alone": alone, "short": short, "start": start}
    chosen = arguments.what or ["table", "paths", "ecn"]
    if unknown := [what for what in chosen if what not in tables]:
        parser.error(f"no table {unknown[0]}")

    programs = []
    for given in arguments.xylem or [str(ROOT / "target/release/xylem")]:
        name, _, path = given.rpartition("=")
        programs.append(Xylem(path))
        programs[-1].name = name or "xylem"
    if not arguments.only:
        programs += [peer for peer in [Rsync(), Socat()] if shutil.which(peer.name.split(",")[0])]
    for path in [arguments.relay, *(p.program for p in programs if isinstance(p, Xylem))]:
        if not os.access(path, os.X_OK):
            parser.error(f"no program {path}: cargo build --release -p xylem-cli -p xylem-relay")
    if os.geteuid() != 0:
        parser.error("namespaces and TUN devices take root")
    work = tempfile.mkdtemp(prefix="xylem-networks-", dir=arguments.dir)
    bench = Bench(arguments, work)
    results = []
    try:
        with concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
            for what in chosen:
                results += tables[what](bench, programs, pool, arguments.quick)
    finally:
        bench.close()
        shutil.rmtree(work)
    if arguments.json:
        print(json.dumps(results))
    for line in bench.wrong:
        print(f"networks: {line}", file=sys.stderr)
    sys.exit(1 if bench.wrong else 0)


if __name__ == "__main__":
    main()
