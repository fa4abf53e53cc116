#!/usr/bin/env python3
"""Fetches that are killed or interrupted at random moments, and how much the next run fetches again.

Usage: bench/resume.py [--moments N] [--size BYTES] [--only CASE] [--json]

Cases: SIGKILL and Ctrl-C (SIGINT); each with nothing changed, with one byte flipped in the partial data, and
with one byte flipped in the partial outboard (all of them in one file, and in a directory). After each, the
second run has to end with 0 and the copy has to equal the original: exit 1 where it does not.

Bytes sent again are those that the sharing process read from files for both runs (rchar of /proc/PID/io:
content and proofs), less those that it reads for an uninterrupted fetch (median of three). This is an upper
bound: it includes data under way when the first run ended, and those that the second run asked for twice.
Start-up is the time from a process's start to its event `resumed`, with half of the file present.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WANTED_AGAIN = 0.01
WANTED_START = 0.3
FLIPS = ("nothing", "data", "outboard")


class Share:
    """A running `xylem share`."""

    def __init__(self, xylem, source, store):
        command = [xylem, "--store", store, "-q", "share", source, "--listen", "127.0.0.1:0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self.ticket = self.process.stdout.readline().strip()

    def read(self):
        """Bytes that it has read from files so far."""
        for line in pathlib.Path(f"/proc/{self.process.pid}/io").read_text().splitlines():
            if line.startswith("rchar:"):
                return int(line.split()[1])
        raise SystemExit("/proc/PID/io has no rchar")

    def stop(self):
        self.process.terminate()
        self.process.wait(20)


class Fetch:
    """One `xylem get`, with its events."""

    def __init__(self, xylem, store, ticket, out, *more):
        command = [xylem, "--json", "--store", store, "get", ticket, "-o", out, *more]
        self.began = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.events = {}

    def until(self, reached):
        """Reads events until `reached(event)`, or the end; returns seconds since the start."""
        for line in self.process.stdout:
            event = json.loads(line)
            self.events[event["event"]] = event
            if reached(event):
                break
        return time.monotonic() - self.began

    def end(self, how=None):
        if how is not None:
            self.process.send_signal(how)
        self.until(lambda _: False)
        return self.process.wait(120)


def part_of(out):
    return out.with_name(f".{out.name}.xylem-part")


def largest(folder):
    """The file with most bytes on disk below a folder (or the file itself)."""
    if folder.is_file():
        return folder
    files = [path for path in folder.rglob("*") if path.is_file()]
    return max(files, key=lambda path: path.stat().st_blocks, default=None)


def flip(path, dice):
    """Flips one bit of a byte that is not zero, that is, of written data; false where there is none."""
    if path is None or path.stat().st_size == 0:
        return False
    with open(path, "r+b") as file:
        for _ in range(10_000):
            at = dice.randrange(path.stat().st_size)
            file.seek(at)
            byte = file.read(1)
            if byte != b"\0":
                file.seek(at)
                file.write(bytes([byte[0] ^ 1 << dice.randrange(8)]))
                return True
    return False


def one(xylem, share, source, size, usual, place, how, what, moment, dice):
    """One interrupted fetch and the run after it; a dict, or None if it was over before the signal."""
    out, store = place / "out", place / "store-get"
    before = share.read()
    fetch = Fetch(xylem, store, share.ticket, out)
    fetch.until(lambda e: e["event"] == "progress" and e["verified"] >= moment * size)
    code = fetch.end(how)
    if "done" in fetch.events:
        return None
    expected = 130 if how == signal.SIGINT else -signal.SIGKILL
    verified = fetch.events.get("progress", {}).get("verified", 0)
    flipped = True
    if what == "data":
        flipped = flip(largest(part_of(out)), dice)
    elif what == "outboard":
        partial = [p for p in (store / "partial").rglob("*") if p.is_file()] if store.exists() else []
        staged = [p for p in part_of(out).rglob("*outboard*")] if part_of(out).is_dir() else []
        flipped = flip(max([*partial, *staged], key=lambda p: p.stat().st_size, default=None), dice)
    second = Fetch(xylem, store, share.ticket, out)
    last = second.end()
    right = last == 0 and code == expected
    command = ["diff", "-rq"] if source.is_dir() else ["cmp", "-s"]
    right = right and subprocess.run([*command, source, out], check=False).returncode == 0
    done = second.events.get("done", {})
    again = (share.read() - before - usual) / size
    row = {
        "moment": verified / size,
        "again": again,
        # Share of the first run's verified bytes, as last reported, that the second run did not find.
        "lost": max(0, verified - done.get("resumed", 0)) / size,
        "resumed": done.get("resumed", 0),
        "fetched": done.get("fetched", 0),
        "verified": verified,
        "flipped": flipped,
        "right": right,
        "codes": [code, last],
    }
    for path in (out, store):
        shutil.rmtree(path, ignore_errors=True) if path.is_dir() else path.unlink(missing_ok=True)
    return row


def uninterrupted(xylem, share, place):
    """Bytes that the sharing process reads for a whole fetch."""
    out, store = place / "out", place / "store-get"
    before = share.read()
    if Fetch(xylem, store, share.ticket, out).end() != 0:
        raise SystemExit("a fetch failed that was not interrupted")
    read = share.read() - before
    for path in (out, store):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    return read


def start_up(xylem, share, size, place, runs):
    """Seconds until `resumed` with half of it present, for each run."""
    out, store = place / "out", place / "store-get"
    fetch = Fetch(xylem, store, share.ticket, out)
    fetch.until(lambda e: e["event"] == "progress" and e["verified"] >= size / 2)
    fetch.end(signal.SIGKILL)
    found = []
    for _ in range(runs):
        # Slow, so that a little more than half is there in the end.
        again = Fetch(xylem, store, share.ticket, out, "--limit", "1M")
        seconds = again.until(lambda e: e["event"] in ("resumed", "done"))
        resumed = again.events.get("resumed", {}).get("bytes", 0)
        again.end(signal.SIGKILL)
        found.append((seconds, resumed / size))
    shutil.rmtree(store, ignore_errors=True)
    part = part_of(out)
    shutil.rmtree(part) if part.is_dir() else part.unlink(missing_ok=True)
    return found


def make(place, size, files):
    """Makes the large file and the directory; returns their sizes."""
    large = place / "large"
    with open(large, "wb") as file:
        for at in range(0, size, 1 << 20):
            file.write(os.urandom(min(1 << 20, size - at)))
    tree, total = place / "tree", 0
    tree.mkdir()
    for i in range(files):
        length = 4096 if i % 100 else size // files * 30
        (tree / f"{i:05}").write_bytes(os.urandom(length))
        total += length
    return [("one file", large, size), ("directory", tree, total)]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xylem", default=str(ROOT / "target/release/xylem"))
    parser.add_argument("--moments", type=int, default=10)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--files", type=int, default=5_000)
    parser.add_argument("--only", default="", help="cases whose line contains this")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def series(options, share, source, size, usual, place, label, how, what, dice):
    rows, tries = [], 0
    while len(rows) < options.moments and tries < 3 * options.moments:
        tries += 1
        moment = dice.uniform(0.01, 0.9)
        row = one(options.xylem, share, source, size, usual, place, how, what, moment, dice)
        if row:
            rows.append(row)
            print(f"{label}: at {row['moment']:.0%}, lost {row['lost']:.3%}, again {row['again']:.3%}", file=sys.stderr)
    return rows


def main():
    options = arguments()
    dice = random.Random(options.seed)
    place = pathlib.Path(tempfile.mkdtemp(prefix="xylem-resume-", dir=options.dir))
    report, starts = {}, {}
    try:
        for kind, source, size in make(place, options.size, options.files):
            share = Share(options.xylem, source, place / "store-share")
            usual = statistics.median(uninterrupted(options.xylem, share, place) for _ in range(3))
            print(f"{kind}: a whole fetch reads {usual / size:.2%} of its size", file=sys.stderr)
            for name, how in (("SIGKILL", signal.SIGKILL), ("Ctrl-C", signal.SIGINT)):
                for what in FLIPS:
                    label = f"{kind}, {name}, {what} flipped"
                    if options.only in label:
                        rows = series(
                            options, share, source, size, usual, place, label, how, what, dice
                        )
                        report[label] = rows
            if options.only in f"{kind}, start-up":
                starts[kind] = start_up(options.xylem, share, size, place, 5)
            share.stop()
    finally:
        shutil.rmtree(place, ignore_errors=True)
    print(json.dumps({"cases": report, "starts": starts}, indent=1) if options.json else text(report, starts))
    return 0 if all(row["right"] for rows in report.values() for row in rows) else 1


def text(report, starts):
    lines = ["| case | runs | right | verified and lost, most | sent again, median | most | |"]
    lines += ["|---|---|---|---|---|---|---|"]
    for label, rows in report.items():
        if not rows:
            lines.append(f"| {label} | 0 | | | | | every run was over before its signal |")
            continue
        again = [row["again"] for row in rows]
        right = sum(row["right"] for row in rows)
        met = max(again) <= WANTED_AGAIN and right == len(rows)
        if not all(row["flipped"] for row in rows):
            label += f" (in {sum(row['flipped'] for row in rows)} of them)"
        cells = [label, str(len(rows)), str(right), f"{max(r['lost'] for r in rows):.3%}"]
        cells.append(f"{statistics.median(again):.3%}")
        lines.append(f"| {' | '.join(cells)} | {max(again):.3%} | {'met' if met else 'MISSED'} |")
    for kind, found in starts.items():
        seconds = statistics.median(second for second, _ in found)
        share = statistics.median(part for _, part in found)
        verdict = "met" if seconds < WANTED_START else "MISSED"
        lines.append(f"\nStart-up of a resume, {kind}, {share:.0%} there: {seconds:.3f} s, {verdict} (< {WANTED_START} s)")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
