#!/usr/bin/env python3
"""A relay's cost: 10,000 registered, idle clients, and 1 GiB through it beside the direct way.

Usage: bench/relay.py [--clients N] [--seconds N] [--rounds N] [--xylem PROGRAM] [--siege PROGRAM] [--only idle|rate] [--json]

The relay is `xylem relay`, the release program, with a raised limit for one host, so that all clients
can be on this machine. They validate their addresses, keep their registrations every 20 s and do nothing else
(`xylem-siege register`). Memory is the growth of the relay's resident set, CPU its time over the seconds
after all are registered.

Rate: the same file of 1 GiB, in memory, fetched in turn from `xylem share` directly and through a relay, by hosts
in network namespaces behind the relay's host. That host forwards their packets or does not (so it needs root).

Targets: under 20 MB and 3 % of a core; at least 0.8 of the direct rate. Exit 1 where one is missed.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETTINGS = """[node]
listen = ["xylem://HOST:0"]
[node.multicast]
enabled = false
[node.relay]
registrations_of_host = 100000
registrations_of_site = 100000
registrations_per_second = 0
connects_per_second = 0
bytes_per_second = 0
report_seconds = 1
"""


def resident(pid):
    """Bytes of resident memory."""
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("no VmRSS")


def cpu(pid):
    """Seconds of processor time so far."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Relay:
    """A relay of its own, with its URI."""

    def __init__(self, xylem, place, within=(), host="127.0.0.1"):
        settings = place / "relay.toml"
        settings.write_text(SETTINGS.replace("HOST", host))
        command = [*within, xylem, "--store", place / "relay", "--json", "--config", settings, "relay"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        for line in self.process.stdout:
            event = json.loads(line)
            if event["event"] == "relaying":
                self.uri = event["uris"][0]
                # It prints a line for each client, and would block if no reader took it.
                threading.Thread(target=self.process.stdout.read, daemon=True).start()
                return
        raise RuntimeError("the relay does not start")

    def end(self):
        self.process.kill()
        self.process.wait()


def idle(args, place):
    """The cost of idle registrations."""
    relay = Relay(args.xylem, place)
    try:
        # One client comes and goes, so that one-time allocations are made.
        subprocess.run([args.siege, "register", relay.uri, "50", "1"], check=True, stdout=subprocess.DEVNULL)
        pid = relay.process.pid
        before = resident(pid)
        command = [args.siege, "register", relay.uri, str(args.clients), str(args.seconds + 45)]
        clients = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        up = json.loads(clients.stdout.readline())
        # Meanwhile links end, addresses are validated again, and first keep-alives spread.
        time.sleep(30)
        begun, spent = time.monotonic(), cpu(pid)
        time.sleep(args.seconds)
        share = (cpu(pid) - spent) / (time.monotonic() - begun)
        more = resident(pid) - before
        told = json.loads(clients.stdout.readline())
        clients.wait()
    finally:
        relay.end()
    row = {
        "clients": up["up"],
        "more_bytes": more,
        "bytes_a_client": round(more / up["up"]),
        "cpu_of_a_core": round(share, 4),
        "registered_in_s": round(up["seconds"], 1),
        "lost": told["lost"],
    }
    row["good"] = more < 20_000_000 and share < 0.03 and told["lost"] == 0
    return row


class Hosts:
    """A sharer and a getter, each in a network of its own behind the relay's host, which decides whether they
    reach each other."""

    def __init__(self):
        self.names = {host: f"xrate{os.getpid()}{host}" for host in "srg"}
        for name in self.names.values():
            sh("ip", "netns", "add", name)
            sh("ip", "-n", name, "link", "set", "lo", "up")
        for host, net in (("s", 1), ("g", 2)):
            sh("ip", "link", "add", "eth0", "netns", self.names[host], "type", "veth", "peer", f"to{host}", "netns", self.names["r"])
            for at, device, end in ((host, "eth0", 2), ("r", f"to{host}", 1)):
                sh("ip", "-n", self.names[at], "address", "add", f"10.99.{net}.{end}/24", "dev", device)
                sh("ip", "-n", self.names[at], "link", "set", device, "up")
            sh("ip", "-n", self.names[host], "route", "add", "default", "via", f"10.99.{net}.1")

    def forward(self, on):
        """Sets whether the sharer and the getter reach each other."""
        sh(*self.command("r", ["sysctl", "-q", "-w", f"net.ipv4.ip_forward={int(on)}"]))

    def command(self, host, words):
        """A command line that runs at a host."""
        return ["ip", "netns", "exec", self.names[host], *map(str, words)]

    def end(self):
        for name in self.names.values():
            subprocess.run(["ip", "netns", "del", name], check=False)


def sh(*words):
    subprocess.run(words, check=True)


def fetch(args, place, hosts, relay, relayed):
    """Bytes a second of a fetch of 1 GiB, and the relay's processor time for it."""
    hosts.forward(not relayed)
    source = place / "source"
    more = ["--relay", relay.uri] if relayed else []
    command = [args.xylem, "--store", place / "share", "--json", "share", "--no-lan", "--no-map", *more, source]
    share = subprocess.Popen(hosts.command("s", command), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in share.stdout:
            event = json.loads(line)
            if event["event"] == "shared":
                break
        out = place / "out"
        out.unlink(missing_ok=True)
        command = [args.xylem, "--store", place / "get", "--json", "get", "--no-serve", "--no-lan", event["ticket"], "-o", out]
        spent = cpu(relay.process.pid)
        said = subprocess.run(hosts.command("g", command), stdout=subprocess.PIPE, text=True, check=True).stdout
        spent = cpu(relay.process.pid) - spent
        done = json.loads(said.splitlines()[-1])
        ways = [way["way"] for way in done["ways"]]
        if ways != ["relayed" if relayed else "lan"]:
            raise RuntimeError(f"the content arrived {ways}, not by the wanted way")
        out.unlink()
        return source.stat().st_size / done["seconds"], spent
    finally:
        share.kill()
        share.wait()


def rate(args, place):
    """Fetches 1 GiB directly and through a relay, in turn; the medians."""
    with (place / "source").open("wb") as out:
        for _ in range(1024):
            out.write(os.urandom(1 << 20))
    hosts, relay = Hosts(), None
    try:
        relay = Relay(args.xylem, place, hosts.command("r", []), "10.99.1.1")
        direct, relayed = [], []
        for _ in range(args.rounds):
            direct.append(fetch(args, place, hosts, relay, False))
            relayed.append(fetch(args, place, hosts, relay, True))
    finally:
        if relay:
            relay.end()
        hosts.end()
    row = {
        "direct_mb_s": round(statistics.median(rate for rate, _ in direct) / 1e6),
        "relayed_mb_s": round(statistics.median(rate for rate, _ in relayed) / 1e6),
        "relay_cpu_s": round(statistics.median(spent for _, spent in relayed), 2),
    }
    row["part"] = round(row["relayed_mb_s"] / row["direct_mb_s"], 2)
    row["good"] = row["part"] >= 0.8
    return row


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--clients", type=int, default=10_000)
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--xylem", default=ROOT / "target/release/xylem")
    parser.add_argument("--siege", default=ROOT / "target/release/xylem-siege")
    parser.add_argument("--only", choices=["idle", "rate"])
    parser.add_argument("--json", action="store_true")
    args = parser.parse_args()
    if not pathlib.Path(args.xylem).exists() or not pathlib.Path(args.siege).exists():
        subprocess.run(["cargo", "build", "--release", "-p", "xylem-cli", "-p", "xylem-siege"], cwd=ROOT, check=True)
    memory = "/dev/shm" if os.path.isdir("/dev/shm") else None
    good = True
    for name, measure in [("idle", idle), ("rate", rate)]:
        if args.only not in (None, name):
            continue
        with tempfile.TemporaryDirectory(dir=memory, prefix="xylem-relay-") as place:
            row = measure(args, pathlib.Path(place))
        good &= row["good"]
        print(json.dumps({name: row}) if args.json else f"{name}: " + ", ".join(f"{k} {v}" for k, v in row.items()))
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
