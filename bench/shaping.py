#!/usr/bin/env python3
"""Measures what an observer sees of `xylem share` and `xylem get --shape LEVEL`, and the cost of shaping.

Two processes in two network namespaces joined by a veth pair of MTU 1500; tcpdump on the
sharer's end. Needs root, iproute2, ethtool and tcpdump.

  bench/shaping.py [--xylem target/release/xylem] [--bytes 8388608] [--rounds 3]
"""

import argparse
import json
import os
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

LEVELS = ["off", "low", "medium", "high", "paranoid"]
TAG = f"xs{os.getpid() % 10000}"
HOSTS = [(f"{TAG}a", "10.77.0.1"), (f"{TAG}b", "10.77.0.2")]
PORT = 7348


def sh(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def inside(namespace, *command):
    return ["ip", "netns", "exec", namespace, *command]


def network():
    for namespace, _ in HOSTS:
        sh("ip", "netns", "add", namespace)
    (a, at_a), (b, at_b) = HOSTS
    sh("ip", "link", "add", "eth0", "netns", a, "type", "veth", "peer", "name", "eth0", "netns", b)
    for namespace, address in HOSTS:
        sh(*inside(namespace, "ip", "address", "add", f"{address}/24", "dev", "eth0"))
        sh(*inside(namespace, "ip", "link", "set", "lo", "up"))
        sh(*inside(namespace, "ip", "link", "set", "eth0", "up"))
        # Off, so that datagrams are captured and not trains of them.
        off = ["gso", "gro", "tso", "tx-udp-segmentation"]
        for feature in off:
            sh(*inside(namespace, "ethtool", "-K", "eth0", feature, "off"), check=False)


def remove():
    for namespace, _ in HOSTS:
        sh("ip", "netns", "delete", namespace, check=False)


def datagrams(path):
    """Time, direction (whether from the sharer), and UDP payload of each datagram of a capture."""
    data = open(path, "rb").read()
    nano = struct.unpack_from("<I", data)[0] == 0xA1B23C4D
    at, seen = 24, []
    while at + 16 <= len(data):
        seconds, part, kept, _ = struct.unpack_from("<IIII", data, at)
        frame = data[at + 16 : at + 16 + kept]
        at += 16 + kept
        if len(frame) < 42 or frame[12:14] != b"\x08\x00" or frame[23] != 17:
            continue
        udp = 14 + (frame[14] & 15) * 4
        source, _, length = struct.unpack_from(">HHH", frame, udp)
        seen.append((seconds + part / (1e9 if nano else 1e6), source == PORT, length - 8))
    return seen


def run(xylem, level, path, home, limit=None):
    """One fetch; returns its result and the captured datagrams."""
    (a, at_a), (b, _) = HOSTS
    capture = os.path.join(home, "seen.pcap")
    dump = subprocess.Popen(
        inside(a, "tcpdump", "-i", "eth0", "-n", "-U", "--immediate-mode", "-s", "64", "-w", capture,
               "--time-stamp-precision=nano", "udp", "port", str(PORT)),
        stderr=subprocess.PIPE, text=True)
    while "listening" not in dump.stderr.readline():
        pass
    shape = [] if level == "off" else [f"--shape={level}"]
    share = subprocess.Popen(
        inside(a, xylem, "--json", "--store", os.path.join(home, "1"), "share", path,
               f"--listen={at_a}:{PORT}", *shape),
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        for line in share.stdout:
            event = json.loads(line)
            if event["event"] == "shared":
                break
        got = subprocess.run(
            inside(b, xylem, "--json", "--store", os.path.join(home, "2"), "get", event["ticket"],
                   "-o", os.path.join(home, "got"), "--overwrite", f"--from={at_a}:{PORT}",
                   *shape, *([f"--limit={limit}"] if limit else [])),
            capture_output=True, text=True, timeout=300)
    finally:
        share.send_signal(signal.SIGTERM)
        share.wait()
        time.sleep(0.3)
        dump.send_signal(signal.SIGINT)
        said = dump.communicate()[1]
        if "0 packets dropped" not in said:
            print(f"{level}: the capture has holes: {said}", file=sys.stderr)
    events = [json.loads(line) for line in got.stdout.splitlines()]
    done = next((event for event in events if event["event"] == "done"), None)
    if done is None:
        raise SystemExit(f"{level}: {got.stdout[-500:]} {got.stderr}")
    os.remove(os.path.join(home, "got"))
    shaped = next((event["level"] for event in events if event["event"] == "shaped"), "off")
    assert shaped == level, f"{shaped} in force where {level} is wanted"
    return done, datagrams(capture)


def look(seen, down):
    """Sizes and gaps of one direction, without its first datagrams, which are the handshake."""
    side = [(t, size) for t, is_down, size in seen if is_down == down]
    side = side[4:]
    gaps = sorted((b[0] - a[0]) * 1e3 for a, b in zip(side, side[1:]))
    sizes = {}
    for _, size in side:
        sizes[size] = sizes.get(size, 0) + 1
    return sizes, gaps


def quantiles(values):
    at = lambda q: values[min(len(values) - 1, int(q * len(values)))] if values else float("nan")
    return " ".join(f"{at(q):.2f}" for q in (0.1, 0.5, 0.9, 0.99))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xylem", default="target/release/xylem")
    parser.add_argument("--bytes", type=int, default=8 << 20)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    results = {level: [] for level in LEVELS}
    seen = {}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as home:
        path = os.path.join(home, "file")
        with open(path, "wb") as file:
            file.write(os.urandom(arguments.bytes))
        network()
        try:
            for _ in range(arguments.rounds):
                for level in LEVELS:
                    done, here = run(arguments.xylem, level, path, home)
                    wire = sum(size + 28 for _, _, size in here)
                    down = sum(size + 28 for _, is_down, size in here if is_down)
                    results[level].append(
                        (done["seconds"], done["bytes"] / done["seconds"], wire, down, len(here)))
                    seen[level] = here
            slow = str(max(arguments.bytes // 15, 1))
            _, seen["paranoid, slow"] = run(arguments.xylem, "paranoid", path, home, slow)
        finally:
            remove()
    base = statistics.median(wire for _, _, wire, _, _ in results["off"])
    print(f"{arguments.bytes} bytes, medians of {arguments.rounds}")
    print("level      seconds  MB/s   bytes on the wire (IP)  of them to the fetcher  overhead  datagrams")
    for level in LEVELS:
        column = lambda i: statistics.median(result[i] for result in results[level])
        print(f"{level:9} {column(0):8.2f} {column(1) / 1e6:6.2f} {column(2):16.0f} "
              f"{column(3):16.0f} {column(2) / base:12.2f} {column(4):10.0f}")
    for level, here in seen.items():
        for down in (True, False):
            sizes, gaps = look(here, down)
            top = sorted(sizes.items(), key=lambda item: -item[1])[:6]
            total = sum(sizes.values())
            shares = ", ".join(f"{size}: {count * 100 / max(total, 1):.0f} %" for size, count in top)
            way = "to the fetcher" if down else "to the sharer "
            print(f"{level:14} {way}  {len(sizes):4} sizes ({shares}); "
                  f"gaps ms, 10/50/90/99 %: {quantiles(gaps)}")


if __name__ == "__main__":
    main()
