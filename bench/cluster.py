#!/usr/bin/env python3
"""Many getters of one source, started together: how often the source sends each byte, and how long it takes.

Usage: bench/cluster.py [--xylem PROGRAM]... [--getters N] [--mb N] [--mbit N] [--runs N] [--json]

Needs root and `ip`, `tc`. The source and each getter have a network namespace of their own, joined by a bridge; each
sends N Mbit/s at most (tbf), so that the source is not faster than the others. With several programs their runs
alternate. Each line has

  copies   bytes of content that the getters received from the source, over the file's size; 1 is the least
  wire     bytes that left the source's interface, over the file's size
  seconds  until the last getter had all of it, verified, and the same over the time of one getter alone

Exit 1 where a copy differs.
"""

import argparse
import contextlib
import filecmp
import json
import os
import pathlib
import signal
import statistics
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PORT = 7348
PATIENCE_S = 300


def sh(*words):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL)


class Cluster:
    """A bridge with one namespace for each machine; machine 0 is the source."""

    def __init__(self, machines, mbit):
        self.base = f"xc{os.getpid() % 10000}"
        self.names = [f"{self.base}m{i}" for i in range(machines)]
        self.switch = f"{self.base}s"
        sh("ip", "netns", "add", self.switch)
        sh("ip", "-n", self.switch, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.switch, "link", "set", "br0", "up")
        for i, name in enumerate(self.names):
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
            sh("ip", "-n", name, "link", "add", "eth0", "type", "veth", "peer", "name", f"p{i}", "netns", self.switch)
            sh("ip", "-n", self.switch, "link", "set", f"p{i}", "master", "br0", "up")
            sh("ip", "-n", name, "addr", "add", f"{self.address(i)}/24", "dev", "eth0")
            sh("ip", "-n", name, "link", "set", "eth0", "up")
            sh("ip", "netns", "exec", name, "tc", "qdisc", "add", "dev", "eth0", "root", "tbf",
               "rate", f"{mbit}mbit", "burst", "64k", "latency", "50ms")

    def address(self, i):
        return f"10.98.0.{i + 1}"

    def start(self, i, command, **kwargs):
        env = {name: value for name, value in os.environ.items() if not name.startswith("XYLEM_")}
        return subprocess.Popen(["ip", "netns", "exec", self.names[i], *map(str, command)], env=env, **kwargs)

    def sent(self, i):
        path = "/sys/class/net/eth0/statistics/tx_bytes"
        read = subprocess.run(["ip", "netns", "exec", self.names[i], "cat", path], check=True, capture_output=True)
        return int(read.stdout)

    def close(self):
        for name in [*self.names, self.switch]:
            subprocess.run(["ip", "netns", "del", name], check=False)


def run(program, getters, mb, mbit):
    """(copies, wire, seconds) of one run; None where a copy differs."""
    with contextlib.ExitStack() as stack:
        cluster = Cluster(getters + 1, mbit)
        stack.callback(cluster.close)
        work = pathlib.Path(stack.enter_context(tempfile.TemporaryDirectory()))
        source = work / "source"
        source.write_bytes(os.urandom(mb * 1_000_000))
        at = f"{cluster.address(0)}:{PORT}"
        share = cluster.start(0, [program, "--store", work / "store", "share", "--no-lan", "--no-map", "--no-dht", "--listen",
                                  at, source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        stack.callback(share.wait)
        stack.callback(share.send_signal, signal.SIGINT)
        ticket = share.stdout.readline().strip()
        before = cluster.sent(0)
        running = []
        for i in range(1, getters + 1):
            command = [program, "--store", work / f"store{i}", "--json", "get", ticket, "--no-lan", "--no-dht", "-o",
                       work / f"copy{i}"]
            getter = cluster.start(i, command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            stack.callback(getter.wait)
            stack.callback(getter.kill)
            running.append(getter)
        from_source, ended = 0, 0.0
        for getter in running:
            events = [json.loads(line) for line in getter.communicate(timeout=PATIENCE_S)[0].splitlines()]
            done = [event for event in events if event["event"] == "done"]
            if getter.returncode or not done:
                print(events[-1:], file=sys.stderr)
                return None
            ended = max(ended, done[0]["seconds"])
            from_source += sum(peer["bytes"] for peer in done[0]["peers"] if peer["peer"] == at)
        size = mb * 1_000_000
        wire = (cluster.sent(0) - before) / size
        if not all(filecmp.cmp(source, work / f"copy{i}", shallow=False) for i in range(1, getters + 1)):
            return None
        return from_source / size, wire, ended


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xylem", action="append", default=[])
    parser.add_argument("--getters", type=int, default=8)
    parser.add_argument("--mb", type=int, default=32)
    parser.add_argument("--mbit", type=int, default=20)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    programs = asked.xylem or [str(ROOT / "target/release/xylem")]
    found = {program: [] for program in programs}
    for _ in range(asked.runs):
        for program in programs:
            one = run(program, asked.getters, asked.mb, asked.mbit)
            if one is None:
                return 1
            found[program].append(one)
    alone = asked.mb * 8 / asked.mbit
    for program, runs in found.items():
        copies, wire, seconds = (statistics.median(column) for column in zip(*runs))
        if asked.json:
            print(json.dumps({"program": program, "getters": asked.getters, "mb": asked.mb, "mbit": asked.mbit,
                              "copies": copies, "wire": wire, "seconds": seconds, "runs": runs}))
        else:
            each = ", ".join(f"{one[0]:.2f}" for one in runs)
            print(f"{program}: {asked.getters} getters, {asked.mb} MB, {asked.mbit} Mbit/s: {copies:.2f} copies ({each}), "
                  f"{wire:.2f} on the wire, {seconds:.1f} s, {seconds / alone:.2f} of one alone")
    return 0


if __name__ == "__main__":
    sys.exit(main())
