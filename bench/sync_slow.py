#!/usr/bin/env python3
"""Folders in step over a slow line, while one of them changes all the time.

Usage: sync_slow.py [--rate MBIT] [--every SECONDS ...] PROGRAM...

Two members in network namespaces of their own with a line of RATE (2 Mbit/s) between them, both ways. The first has 5 MB in
ten files, and a log that gets a line at each interval in seconds (1; 0: none). The second joins. Prints for each program, in
turn, after how many seconds it has the ten files, the bytes received for them, and after how many seconds it has a new file
of 1 MB. A run ends after 120 s. Needs root and tc; without them it prints a line and ends with 0.
"""

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LIMIT = 120
FILES, SIZE = 10, 500_000


def run(*command):
    subprocess.run(command, check=True, capture_output=True)


class Line:
    """Two namespaces with a slow line between them."""

    def __init__(self, rate):
        self.names = [f"xs{end}{os.getpid()}" for end in "ab"]
        for name in self.names:
            run("ip", "netns", "add", name)
        run("ip", "link", "add", *self.device(0), "netns", self.names[0], "type", "veth", "peer", *self.device(1), "netns", self.names[1])
        for end, name in enumerate(self.names):
            device = f"x{end}"
            for command in (f"addr add {self.address(end)}/24 dev {device}", f"link set {device} up", "link set lo up"):
                run("ip", "-n", name, *command.split())
            shape = f"qdisc add dev {device} root tbf rate {rate}mbit burst 16kb latency 200ms"
            run("ip", "netns", "exec", name, "tc", *shape.split())

    def device(self, end):
        return ["name", f"x{end}"] if end else [f"x{end}"]

    def address(self, end):
        return f"10.99.0.{end + 1}"

    def start(self, end, command, out, env):
        return subprocess.Popen(["ip", "netns", "exec", self.names[end], *command], stdout=out, stderr=subprocess.DEVNULL, env=env)

    def came(self, end):
        path = f"/sys/class/net/x{end}/statistics/rx_bytes"
        return int(subprocess.check_output(["ip", "netns", "exec", self.names[end], "cat", path]))

    def end(self):
        for name in self.names:
            subprocess.run(["ip", "netns", "del", name], check=False)


def until(ready):
    """Seconds until `ready()`; None after LIMIT."""
    began = time.monotonic()
    while time.monotonic() - began < LIMIT:
        if ready():
            return time.monotonic() - began
        time.sleep(0.1)
    return None


def same(one, other):
    return other.exists() and one.read_bytes() == other.read_bytes()


def measure(program, rate, every, folder):
    line, running, resting = Line(rate), [], threading.Event()
    env = dict(os.environ, HOME=str(folder), XYLEM_NO_LAN="1", XYLEM_NO_MAP="1", XYLEM_NO_PROGRESS="1")
    first, second = folder / "first", folder / "second"
    try:
        first.mkdir()
        second.mkdir()
        for number in range(FILES):
            (first / f"f{number}").write_bytes(os.urandom(SIZE))
        (first / "log").write_text("begun\n")

        def member(end, at, *ticket):
            ticket_file = folder / f"ticket-{end}"
            listen = f"{line.address(end)}:7348"
            command = [program, "--store", folder / f"store-{end}", "sync", at, *ticket, "--listen", listen, "--as", at.name]
            with open(ticket_file, "wb") as out:
                running.append(line.start(end, command, out, env))
            assert until(lambda: ticket_file.stat().st_size > 0) is not None, "the member did not begin"
            return ticket_file.read_text().split()[0]

        ticket = member(0, first)

        def write():
            while every and not resting.wait(every):
                with open(first / "log", "a") as log:
                    log.write("a line\n")

        threading.Thread(target=write, daemon=True).start()
        before = line.came(1)
        threading.Thread(target=member, args=(1, second, ticket), daemon=True).start()
        names = [f"f{number}" for number in range(FILES)]
        joined = until(lambda: all(same(first / name, second / name) for name in names))
        came = line.came(1) - before
        (first / "new").write_bytes(os.urandom(1_000_000))
        new = until(lambda: same(first / "new", second / "new"))
        return joined, came, new
    finally:
        resting.set()
        for process in running:
            process.terminate()
            process.wait()
        line.end()


def shown(seconds):
    return "not" if seconds is None else f"{seconds:.1f} s"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rate", type=float, default=2)
    parser.add_argument("--every", type=float, nargs="*", default=[1.0])
    parser.add_argument("programs", nargs="+", type=Path, metavar="PROGRAM")
    options = parser.parse_args()
    if os.getuid() != 0 or not shutil.which("tc"):
        print("no root, or no tc: SKIPPED")
        return 0
    print("| program | a line each | ten files of 500 kB | bytes that came | 1 MB more |\n|---|---|---|---|---|")
    for every in options.every:
        for program in options.programs:
            with tempfile.TemporaryDirectory(prefix="xs-") as folder:
                joined, came, new = measure(program.resolve(), options.rate, every, Path(folder))
            print(f"| {program} | {every:g} s | {shown(joined)} | {came:,} | {shown(new)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
