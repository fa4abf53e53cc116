#!/usr/bin/env python3
"""Times following a growing file: latency, processor time a checkpoint, memory over many checkpoints.

usage: bench/follow.py [--xylem PATH] [--dir DIR] [--gib N] [--checkpoints N]

One sharer and one follower on this machine, over the encrypted link on loopback.
"""
import argparse
import json
import os
import signal
import statistics
import subprocess
import tempfile
import time

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--xylem", default="target/release/xylem")
parser.add_argument("--dir")
parser.add_argument("--gib", type=float, default=1)
parser.add_argument("--checkpoints", type=int, default=10_000)
parser.add_argument("--pace", type=int, default=20, help="appends between two waits for the follower")
options = parser.parse_args()
TICK = os.sysconf("SC_CLK_TCK")


def start(store, *arguments):
    command = [options.xylem, "--store", store, "--json", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)


def event(process, name):
    for line in process.stdout:
        found = json.loads(line)
        if found["event"] == name:
            return found
    raise SystemExit(f"the program ended before the event {name}")


def drain(process):
    import threading

    seen = {"checkpoints": 0}

    def run():
        for line in process.stdout:
            seen["checkpoints"] += b'"checkpoint"' in line

    threading.Thread(target=run, daemon=True).start()
    return seen


def cpu(process):
    fields = open(f"/proc/{process.pid}/stat").read().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


def rss(process):
    for line in open(f"/proc/{process.pid}/status"):
        if line.startswith("VmRSS"):
            return int(line.split()[1]) / 1024
    return 0.0


def wait_for(path, size):
    while not os.path.exists(path) or os.stat(path).st_size < size:
        time.sleep(0.0002)


def pair(folder, log, *more):
    sharer = start(f"{folder}/s", "share", "--listen", "127.0.0.1:0", "--follow", *more, log)
    ticket = event(sharer, "shared")["ticket"]
    out = f"{folder}/out"
    follower = start(f"{folder}/g", "get", "--follow", ticket, "-o", out)
    return sharer, follower, out


def end(sharer, follower):
    sharer.send_signal(signal.SIGINT)
    codes = sharer.wait(30), follower.wait(30)
    assert codes == (0, 0), codes


def latency(folder):
    log = f"{folder}/small"
    open(log, "wb").close()
    sharer, follower, out = pair(folder, log, "--every", "0.01")
    drain(sharer), drain(follower)
    wait_for(out, 0)
    time.sleep(1)
    times, size = [], 0
    with open(log, "ab", buffering=0) as file:
        for _ in range(100):
            time.sleep(0.05)
            begun = time.monotonic()
            file.write(b"x" * 100)
            size += 100
            wait_for(out, size)
            times.append(time.monotonic() - begun)
    end(sharer, follower)
    times.sort()
    print(f"append of 100 bytes to written at the follower (--every 0.01): median "
          f"{statistics.median(times) * 1e3:.1f} ms, 90 % {times[89] * 1e3:.1f} ms")


def cost(folder):
    log = f"{folder}/large"
    block = os.urandom(1 << 20)
    with open(log, "wb") as file:
        for _ in range(int(options.gib * 1024)):
            file.write(block)
    sharer, follower, out = pair(folder, log, "--every-bytes", "1M")
    made, taken = drain(sharer), drain(follower)
    size = os.stat(log).st_size
    wait_for(out, size)
    before, steps = (cpu(sharer), cpu(follower), made["checkpoints"]), 200
    with open(log, "ab", buffering=0) as file:
        for _ in range(steps):
            file.write(block)
            size += len(block)
            wait_for(out, size)
    time.sleep(0.2)
    count = made["checkpoints"] - before[2]
    print(f"on a file of {options.gib} GiB, each MiB appended: sharer "
          f"{(cpu(sharer) - before[0]) / steps * 1e3:.2f} ms and follower "
          f"{(cpu(follower) - before[1]) / steps * 1e3:.2f} ms of processor time "
          f"({count} checkpoints made)")
    end(sharer, follower)
    assert subprocess.run(["cmp", log, out]).returncode == 0
    os.unlink(log), os.unlink(out)


def memory(folder):
    log = f"{folder}/many"
    open(log, "wb").close()
    sharer, follower, out = pair(folder, log, "--every-bytes", "512", "--every", "0.005")
    made, taken = drain(sharer), drain(follower)
    wait_for(out, 0)
    begun, rows = time.monotonic(), []
    tenth = options.checkpoints // 10
    with open(log, "ab", buffering=0) as file:
        for number in range(1, options.checkpoints + 1):
            file.write(os.urandom(512))
            if number % options.pace == 0:
                wait_for(out, number * 512)
            if number % tenth == 0:
                rows.append((made["checkpoints"], taken["checkpoints"], rss(sharer), rss(follower)))
    for row in rows[:1] + rows[4:5] + rows[-1:]:
        print(f"after {row[0]} checkpoints made, {row[1]} taken: sharer {row[2]:.1f} MiB, "
              f"follower {row[3]:.1f} MiB resident")
    print(f"({time.monotonic() - begun:.0f} s)")
    end(sharer, follower)
    assert subprocess.run(["cmp", log, out]).returncode == 0


for table in (latency, cost, memory):
    with tempfile.TemporaryDirectory(dir=options.dir) as folder:
        table(folder)
