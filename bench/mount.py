#!/usr/bin/env python3
"""Times `xylem mount` beside FUSE alone, and counts the round trips of a read.

Usage: bench/mount.py [--size MIB] [--runs N] [--delay MS] [--bin DIR]

Three tables, the first of interleaved runs:

  warm    a file in the store, read in order (dd, 1 MiB a call) through a mount that was made for
          this run: the kernel has none of it cached, the file system below has it in memory. Beside
          it the same file through `xylem-bench-passthrough` (the same library, options and
          threads, without work on the bytes), and from the file system itself; with the
          processor seconds of the FUSE process, which other load affects less
  random  4 KiB at places not read before, of a share that is DELAY ms away (a proxy that delays each
          datagram by half of it, each way); in round trips
  sqlite  a row by its key of a database not read before, at the same distance: a tree of three levels,
          with a root that is read once and 140 inner pages that are read for the first row below each

Needs Linux, /dev/fuse, the right to mount, and both programs built with --release. The files lie in PLACE
(environment), default /dev/shm.
"""

import argparse
import heapq
import json
import os
import pathlib
import random
import select
import shutil
import socket
import sqlite3
import statistics
import subprocess
import sys
import tempfile
import threading
import time

ROWS = 1_000_000
HERE = pathlib.Path(__file__).resolve().parent.parent


def environment():
    clean = {k: v for k, v in os.environ.items() if not k.startswith("XYLEM_")}
    return clean | {"XYLEM_NO_LAN": "1", "XYLEM_NO_MAP": "1"}


class Proxy(threading.Thread):
    """Forwards datagrams of one client to `to`, and back, each after `delay` seconds."""

    def __init__(self, to, delay):
        super().__init__(daemon=True)
        self.front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.front.bind(("127.0.0.1", 0))
        self.back = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.back.connect(to)
        for s in (self.front, self.back):
            s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
        self.delay = delay
        self.address = "%s:%d" % self.front.getsockname()
        self.start()

    def run(self):
        queue, client, number = [], None, 0
        while True:
            now = time.monotonic()
            while queue and queue[0][0] <= now:
                _, _, back, data = heapq.heappop(queue)
                self.front.sendto(data, client) if back else self.back.send(data)
            wait = max(0.0, queue[0][0] - now) if queue else None
            for ready in select.select([self.front, self.back], [], [], wait)[0]:
                data, sender = ready.recvfrom(65536)
                back = ready is self.back
                if not back:
                    client = sender
                number += 1
                heapq.heappush(queue, (time.monotonic() + self.delay, number, back, data))


class Mounted:
    """A mount that lasts as long as the block."""

    def __init__(self, command, at, ready):
        self.command, self.at, self.ready = command, at, ready

    def __enter__(self):
        self.at.mkdir(exist_ok=True)
        self.run = subprocess.Popen(
            self.command, env=environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        for _ in range(3000):
            if self.ready(self.at):
                return self.at
            time.sleep(0.01)
        raise SystemExit("nothing was mounted: " + " ".join(map(str, self.command)))

    def __exit__(self, *_):
        subprocess.run(["fusermount3", "-u", "-z", self.at], check=True)
        self.run.wait(20)


def processor_seconds(pid):
    """Processor time of a process so far, in user and kernel mode."""
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read_in_order(path):
    began = time.monotonic()
    subprocess.run(["dd", f"if={path}", "of=/dev/null", "bs=1M", "status=none"], check=True)
    return path.stat().st_size / (time.monotonic() - began) / 1e9


def main():
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--size", type=int, default=1024)
    options.add_argument("--runs", type=int, default=7)
    options.add_argument("--delay", type=float, default=50.0)
    options.add_argument("--bin", type=pathlib.Path, default=HERE / "target" / "release")
    options = options.parse_args()
    xylem, passthrough = options.bin / "xylem", options.bin / "xylem-bench-passthrough"
    place = pathlib.Path(tempfile.mkdtemp(prefix="xylem-mount-", dir=os.environ.get("PLACE", "/dev/shm")))
    share = None
    try:
        source = place / "source"
        chunk = random.Random(1).randbytes(1 << 20)
        with source.open("wb") as out:
            for i in range(options.size):
                out.write(i.to_bytes(8, "big") + chunk[8:])

        def begin(path):
            share = subprocess.Popen(
                [xylem, "--store", place / "publisher", "--json", "share", "--listen", "127.0.0.1:0", path],
                env=environment(), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            )
            shared = next(e for e in map(json.loads, share.stdout) if e["event"] == "shared")
            return share, shared["ticket"], shared["listen"][0]

        share, ticket, link = begin(source)

        def mount(store, *more):
            command = [xylem, "--store", place / store, "mount", ticket, place / "mnt", *more]
            return Mounted(command, place / "mnt", lambda at: (at / "source").exists())

        with mount("store") as at:
            print(f"cold, from a share on loopback: {read_in_order(at / 'source'):.2f} GB/s")
        plain = Mounted([passthrough, source, place / "pass"], place / "pass", lambda at: (at / "source").exists())
        results = {"passthrough": [], "mount": [], "again": [], "file": []}
        processor = {"passthrough": [], "mount": []}

        def measured(name, mounted):
            before = processor_seconds(mounted.run.pid)
            results[name].append(read_in_order(mounted.at / "source"))
            processor[name].append(processor_seconds(mounted.run.pid) - before)

        for _ in range(options.runs):
            with plain:
                measured("passthrough", plain)
            mounted = mount("store")
            with mounted as at:
                measured("mount", mounted)
                results["again"].append(read_in_order(at / "source"))
            results["file"].append(read_in_order(source))
        print("warm, GB/s (median, least, most):")
        for name, values in results.items():
            print(f"  {name:12} {statistics.median(values):.2f}  {min(values):.2f}  {max(values):.2f}")
        for name, values in processor.items():
            print(f"  {name:12} {statistics.median(values):.2f} s of processor  {min(values):.2f}  {max(values):.2f}")
        ratios = [a / b for a, b in zip(results["mount"], results["passthrough"])]
        print(f"  mount / passthrough {statistics.median(ratios):.2f}  {min(ratios):.2f}  {max(ratios):.2f}")

        host, port = link.rsplit(":", 1)
        proxy = Proxy((host, int(port)), options.delay / 2000)

        def in_round_trips(what, times):
            """Prints the duration of each call of `what` in round trips; the first call readies the peer, and is
            not counted."""
            what(0)
            time.sleep(1)
            took = []
            for i in range(1, times + 1):
                began = time.monotonic()
                what(i)
                took.append((time.monotonic() - began) * 1000 / options.delay)
            took.sort()
            return (
                f"{options.delay:g} ms away, in round trips: median {took[times // 2]:.2f}, "
                f"9 in 10 within {took[times * 9 // 10]:.2f}, most {took[-1]:.2f}"
            )

        with mount("store-2", "--from", proxy.address) as at:
            file, chance = os.open(at / "source", os.O_RDONLY), random.Random(2)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_RANDOM)
            read = lambda i: os.pread(file, 4096, i and chance.randrange(options.size << 20) & ~4095)
            print("random 4 KiB, cold,", in_round_trips(read, 100))
            os.close(file)
        share.kill()

        base = place / "base"
        db = sqlite3.connect(base)
        db.execute("create table t (k integer primary key, v text)")
        db.executemany("insert into t values (?, ?)", ((i, "x" * 200 + str(i)) for i in range(ROWS)))
        db.commit()
        db.close()
        share, ticket, link = begin(base)
        host, port = link.rsplit(":", 1)
        proxy = Proxy((host, int(port)), options.delay / 2000)
        command = [xylem, "--store", place / "store-3", "mount", ticket, place / "mnt", "--from", proxy.address]
        with Mounted(command, place / "mnt", lambda at: (at / "base").exists()) as at:
            db, chance = sqlite3.connect(f"file:{at}/base?immutable=1", uri=True), random.Random(3)
            row = lambda _: db.execute("select v from t where k = ?", (chance.randrange(ROWS),)).fetchone()
            print(f"sqlite, a row of {base.stat().st_size >> 20} MiB, cold,", in_round_trips(row, 100))
            db.close()
    finally:
        if share:
            share.kill()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    sys.exit(main())
