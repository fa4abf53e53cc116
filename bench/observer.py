#!/usr/bin/env python3
"""Measures how much an observer of sizes and times learns of real sessions: captures, a classifier, and a table beside chance.

Each session is `xylem get` in one network namespace from `xylem share` in another; the observer has only the datagrams between
them. It gets the labels of nine of ten parts of the sessions, and guesses the tenth (a random forest of 200 trees,
cross-validated). Three questions: which of ten files, by level and by features; which carrier; and whether a flow is xylem's,
by one rule without training. Needs root and iproute2; makes a virtual environment with scikit-learn and aioquic.

  bench/observer.py [--xylem target/release/xylem] [--sessions 12] [--levels off,low,medium,high,paranoid] [--lanes 4]

docs/threat-model/observer.md names what it prints. All sessions are of one machine on one path without delay: a censor's
false alarms on real traffic are not measured.
"""

import argparse
import json
import os
import random
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

LEVELS = ["off", "low", "medium", "high", "paranoid"]
CARRIERS = ["tls", "wss", "doh"]
# Two pairs are 2 % apart.
SIZES = [100_000, 200_000, 204_000, 350_000, 500_000, 700_000, 900_000, 918_000, 1_200_000, 1_500_000]
PORT = 7348
TREES = 200
# A datagram or segment: nanoseconds, whether it goes to the fetcher, UDP or TCP, the fetcher's port, payload length,
# first bytes.
RECORD = struct.Struct("<QBBHI8s")


def sh(*command, check=True):
    return subprocess.run(command, check=check, capture_output=True, text=True)


def with_packages(venv):
    """Runs this again in an environment with the required packages."""
    python = venv / "bin" / "python"
    if not python.exists():
        sh(sys.executable, "-m", "venv", str(venv))
    found = sh(str(python), "-c", "import sklearn, aioquic", check=False)
    if found.returncode:
        sh(str(venv / "bin" / "pip"), "install", "-q", "scikit-learn", "aioquic")
    if Path(sys.prefix).resolve() != venv.resolve():
        os.execv(str(python), [str(python), *sys.argv])


# The traffic.


def sniff(out):
    """Writes a record for each datagram or segment with a payload, until it is ended."""
    tap = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
    tap.bind(("eth0", 0))
    tap.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 << 20)
    with open(out, "wb", buffering=0) as file:
        file.write(b"")
        print("sniffs", flush=True)
        while True:
            frame = tap.recv(65_600)
            now = time.time_ns()
            if frame[12:14] != b"\x08\x00" or frame[23] not in (6, 17):
                continue
            at = 14 + (frame[14] & 15) * 4
            whole = 14 + struct.unpack_from(">H", frame, 16)[0]
            source, target = struct.unpack_from(">HH", frame, at)
            if PORT not in (source, target):
                continue
            udp = frame[23] == 17
            payload = frame[at + (8 if udp else (frame[at + 12] >> 4) * 4) : whole]
            if payload:
                down = source == PORT
                port = target if down else source
                file.write(RECORD.pack(now, down, udp, port, len(payload), payload[:8]))


class Lane:
    """Two namespaces, with a share in one and fetches in the other."""

    def __init__(self, number, xylem, home):
        self.xylem, self.home = xylem, home / f"lane{number}"
        self.home.mkdir()
        tag = f"xo{os.getpid() % 10_000}n{number}"
        self.near, self.far = f"{tag}a", f"{tag}b"
        self.at = "10.79.0.1"
        for namespace in (self.near, self.far):
            sh("ip", "netns", "add", namespace)
        sh("ip", "link", "add", "eth0", "netns", self.near, "type", "veth", "peer", "name", "eth0", "netns", self.far)
        for namespace, address in ((self.near, self.at), (self.far, "10.79.0.2")):
            sh("ip", "-n", namespace, "address", "add", f"{address}/24", "dev", "eth0")
            # Off, so that datagrams are captured and not trains of them.
            sh("ip", "-n", namespace, "link", "set", "eth0", "up", "gso_max_segs", "1")
            sh("ip", "-n", namespace, "link", "set", "lo", "up")
        self.processes = []
        self.records = self.home / "records"
        tap = self.start(self.near, sys.executable, __file__, "--sniff", str(self.records))
        assert "sniffs" in tap.stdout.readline()
        self.read = 0
        self.sessions = 0

    def start(self, namespace, *command):
        process = subprocess.Popen(["ip", "netns", "exec", namespace, *command], stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.processes.append(process)
        return process

    def share(self, files, listen, *more):
        """Tickets of the files."""
        share = self.start(self.near, self.xylem, "--json", "--store", str(self.home / "sharer"), "share", "--no-lan", "--no-map",
                           f"--listen={listen}", *more, *map(str, files))
        tickets = []
        for line in share.stdout:
            event = json.loads(line)
            if event["event"] == "shared":
                tickets.append(event["ticket"])
                if len(tickets) == len(files):
                    break
        threading.Thread(target=share.stdout.read, daemon=True).start()
        return share, tickets

    def end(self, process):
        process.send_signal(signal.SIGINT)
        process.wait()
        self.processes.remove(process)

    def fetch(self, ticket, at, *more):
        """The records of one fetch."""
        self.sessions += 1
        store, out = self.home / f"getter{self.sessions}", self.home / "got"
        self.fresh()
        done = sh("ip", "netns", "exec", self.far, self.xylem, "--json", "--store", str(store), "get", ticket, "-o", str(out),
                  f"--from={at}", "--no-lan", *more, check=False)
        if done.returncode:
            raise SystemExit(f"get {' '.join(more)}: {done.stderr}")
        out.unlink()
        time.sleep(0.3)
        sh("rm", "-r", str(store))
        return self.fresh()

    def fresh(self):
        """Records captured since the last call."""
        data = self.records.read_bytes()[self.read :]
        data = data[: len(data) // RECORD.size * RECORD.size]
        self.read += len(data)
        return [RECORD.unpack_from(data, at) for at in range(0, len(data), RECORD.size)]

    def close(self):
        for process in self.processes:
            process.kill()
            process.wait()
        for namespace in (self.near, self.far):
            sh("ip", "netns", "delete", namespace, check=False)


def sessions_of(lanes, jobs):
    """Runs the jobs (functions of a lane) side by side; returns their results."""
    results, lock = [None] * len(jobs), threading.Lock()
    left = list(enumerate(jobs))
    failed = []

    def run(lane):
        while True:
            with lock:
                if not left or failed:
                    return
                at, job = left.pop()
            try:
                results[at] = job(lane)
            except (Exception, SystemExit) as why:
                failed.append(why)
                return

    threads = [threading.Thread(target=run, args=(lane,)) for lane in lanes]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if failed:
        raise failed[0]
    return results


# The evaluation.


def quantiles(values):
    values = sorted(values)
    if not values:
        return [0] * 5
    return [values[min(len(values) - 1, int(q * len(values)))] for q in (0.1, 0.25, 0.5, 0.75, 0.9)]


def features(session, which):
    """The numeric features of a session."""
    begun = session[0][0]
    lasts = (session[-1][0] - begun) / 1e9
    sides = [[record for record in session if record[1] == down] for down in (0, 1)]
    amounts = [sum(record[4] for record in side) for side in sides]
    if which == "bytes":
        return amounts
    if which == "duration":
        return [lasts]
    found = [lasts, *amounts, *map(len, sides)]
    for side in sides:
        gaps = [b[0] - a[0] for a, b in zip(side, side[1:])]
        found += quantiles([record[4] for record in side]) + [gap / 1e6 for gap in quantiles(gaps)]
    first = [record[4] if record[1] else -record[4] for record in session[:24]]
    found += first + [0] * (24 - len(first))
    for edge in (128, 256, 512, 1_024, 1_232):
        found += [sum(record[4] <= edge for record in side) for side in sides]
    return found


def accuracy(rows, labels):
    """The share of unlabelled sessions that are classified rightly."""
    from sklearn.ensemble import RandomForestClassifier
    from sklearn.model_selection import StratifiedKFold, cross_val_score

    folds = StratifiedKFold(n_splits=min(10, min(labels.count(label) for label in set(labels))), shuffle=True, random_state=1)
    forest = RandomForestClassifier(n_estimators=TREES, random_state=1, n_jobs=1)
    return float(cross_val_score(forest, rows, labels, cv=folds).mean())


def table(sessions, labels):
    """A row: all features, bytes alone, duration alone, cut to the shortest session, and with random labels."""
    shortest = min(session[-1][0] - session[0][0] for session in sessions)
    cut = [[record for record in session if record[0] - session[0][0] <= shortest] for session in sessions]
    mixed = labels[:]
    random.Random(1).shuffle(mixed)
    of = lambda sessions, which, labels: accuracy([features(session, which) for session in sessions], labels)
    return [of(sessions, "all", labels), of(sessions, "bytes", labels), of(sessions, "duration", labels),
            of(cut, "all", labels), of(sessions, "all", mixed)]


def is_xylem(session):
    """One rule, made from docs/spec/link.md and not from captures: a first datagram of 1,200 to 1,232 bytes
    without a known beginning, and then one of 128 to 255 bytes, or as long as the first."""
    up = [record for record in session if not record[1] and record[2]]
    if len(up) < 2 or not 1_200 <= up[0][4] <= 1_232:
        return False
    head = up[0][5]
    quic = head[0] & 0xC0 == 0xC0 and head[1:5] in (b"\0\0\0\x01", b"\x6b\x33\x43\xcf")
    dtls = head[0] in (20, 21, 22, 23) and head[1] == 0xFE
    wireguard = head[0] in (1, 2, 3, 4) and head[1:4] == b"\0\0\0"
    return not (quic or dtls or wireguard) and (128 <= up[1][4] <= 255 or up[1][4] >= 1_168)


QUIC_SERVER = """
import asyncio, sys
from aioquic.asyncio import serve
from aioquic.quic.configuration import QuicConfiguration
async def main():
    configuration = QuicConfiguration(is_client=False, alpn_protocols=["x"])
    configuration.load_cert_chain(sys.argv[1], sys.argv[2])
    await serve("0.0.0.0", int(sys.argv[3]), configuration=configuration, stream_handler=lambda r, w: w.write(b"x" * 200_000))
    print("serves", flush=True)
    await asyncio.Future()
asyncio.run(main())
"""
QUIC_CLIENT = """
import asyncio, ssl, sys
from aioquic.asyncio import connect
from aioquic.quic.configuration import QuicConfiguration
async def main():
    configuration = QuicConfiguration(is_client=True, alpn_protocols=["x"], verify_mode=ssl.CERT_NONE)
    async with connect(sys.argv[1], int(sys.argv[2]), configuration=configuration) as client:
        reader, writer = await client.create_stream()
        writer.write(b"get")
        await reader.read(200_000)
asyncio.run(main())
"""


def certificate(home):
    """A certificate of this run."""
    from datetime import datetime, timedelta, timezone
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    now = datetime.now(timezone.utc)
    made = x509.CertificateBuilder().subject_name(name).issuer_name(name).public_key(key.public_key())
    made = made.serial_number(1).not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    made = made.sign(key, hashes.SHA256())
    pem = serialization.Encoding.PEM
    paths = home / "cert.pem", home / "key.pem"
    paths[0].write_bytes(made.public_bytes(pem))
    paths[1].write_bytes(key.private_bytes(pem, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()))
    return paths


def quic_sessions(lane, count, home):
    """Sessions of another program over UDP."""
    cert, key = certificate(home)
    server = lane.start(lane.near, sys.executable, "-c", QUIC_SERVER, str(cert), str(key), str(PORT))
    assert "serves" in server.stdout.readline()
    sessions = []
    for _ in range(count):
        lane.fresh()
        sh("ip", "netns", "exec", lane.far, sys.executable, "-c", QUIC_CLIENT, lane.at, str(PORT))
        time.sleep(0.3)
        sessions.append(lane.fresh())
    lane.end(server)
    return sessions


def noise_sessions(count):
    """UDP datagrams of random sizes and bytes, similar to games and calls."""
    chance = random.Random(2)
    sizes = lambda: [chance.randrange(20, 1_473) for _ in range(30)]
    record = lambda at, size: (at, at % 2, 1, 1, size, chance.randbytes(8))
    return [[record(at, size) for at, size in enumerate(sizes())] for _ in range(count)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xylem", default="target/release/xylem")
    parser.add_argument("--sessions", type=int, default=12, help="of each file at each level, and of each carrier")
    parser.add_argument("--levels", default=",".join(LEVELS))
    parser.add_argument("--no-carriers", action="store_true")
    parser.add_argument("--lanes", type=int, default=4)
    parser.add_argument("--venv", type=Path, default=Path("target/observer"))
    parser.add_argument("--sniff", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.sniff:
        return sniff(arguments.sniff)
    with_packages(arguments.venv)
    levels = [level for level in arguments.levels.split(",") if level]
    rows, flows, lanes = [], [], []
    with tempfile.TemporaryDirectory() as home:
        home = Path(home)
        files = []
        for number, size in enumerate(SIZES):
            files.append(home / f"f{number}")
            files[-1].write_bytes(os.urandom(size))
        try:
            for number in range(arguments.lanes):
                lanes.append(Lane(number, os.path.abspath(arguments.xylem), home))
            for level in levels:
                shape = [f"--shape={level}"]
                shares = {lane: lane.share(files, f"{lane.at}:{PORT}", *shape) for lane in lanes}
                labels = [number for number in range(len(SIZES)) for _ in range(arguments.sessions)]
                random.Random(level).shuffle(labels)
                fetch = lambda number: lambda lane: lane.fetch(shares[lane][1][number], f"{lane.at}:{PORT}", *shape)
                sessions = sessions_of(lanes, [fetch(number) for number in labels])
                for lane, (share, _) in shares.items():
                    lane.end(share)
                flows += [(level, session) for session in sessions]
                rows.append((level, table(sessions, labels)))
                print(f"{level}: {len(sessions)} sessions", file=sys.stderr)
            if not arguments.no_carriers:
                labels, sessions = [], []
                for carrier in CARRIERS:
                    at = f"xylem+{carrier}://{lanes[0].at}:{PORT}"
                    shares = {lane: lane.share(files[:1], at) for lane in lanes}
                    fetch = lambda lane: lane.fetch(shares[lane][1][0], at)
                    found = sessions_of(lanes, [fetch] * arguments.sessions)
                    for lane, (share, _) in shares.items():
                        lane.end(share)
                    labels += [carrier] * len(found)
                    sessions += found
                sizes = lambda session: [r[4] if r[1] else -r[4] for r in session[:8]] + [0] * max(0, 8 - len(session))
                carriers = accuracy([sizes(session) for session in sessions], labels)
            others = [("QUIC", session) for session in quic_sessions(lanes[0], arguments.sessions, home)]
        finally:
            for lane in lanes:
                lane.close()
    others += [("random", session) for session in noise_sessions(200)]
    print(f"{arguments.sessions} sessions of each class; chance beside each number\n")
    print("| which of ten files | all features | bytes alone | duration alone | cut to the shortest | labels that mean nothing |")
    print("|---|---|---|---|---|---|")
    for level, row in rows:
        print(f"| {level} | " + " | ".join(f"{found:.2f} (0.10)" for found in row) + " |")
    print("\n| question | answered right |\n|---|---|")
    if not arguments.no_carriers:
        print(f"| which carrier, by eight sizes | {carriers:.2f} ({1 / len(CARRIERS):.2f}) |")
    for level in levels:
        of_level = [session for found, session in flows if found == level]
        print(f"| xylem ({level}), by one rule | {sum(map(is_xylem, of_level))} of {len(of_level)} |")
    for other in ("QUIC", "random"):
        of_other = [session for found, session in others if found == other]
        print(f"| {other} taken for xylem by it | {sum(map(is_xylem, of_other))} of {len(of_other)} |")


if __name__ == "__main__":
    main()
