#!/usr/bin/env python3
"""Compares the speed of this tree with that of another commit: the tables of `xylem bench`, and whole transfers.

Usage: bench/all.py [--quick] [--against COMMIT] [--rounds N]
       bench/all.py [--quick] --programs BEFORE AFTER     folders with `xylem` and `xylem-bench` of each

Builds both commits for release (the other one in target/against) and lets them take turns on this machine, the order
changed in each round. A figure is the time before divided by the time now, of medians over the rounds: above 1 the tree
is faster. It counts as slower if each of its rounds was slower than each of the other's and the medians differ by more
than --limit. `--quick` takes about ten minutes on two cores, without the builds.

Other people's implementations, which the tables measure beside ours, are the same on both sides. What they show is this
machine's drift, and stands in the column "others".

Exit status: 0 measured, 1 a figure is slower, 2 wrong usage or a failed build.
"""

import argparse
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

import movers
import transfer

ROOT = pathlib.Path(__file__).resolve().parent.parent
AGAINST = ROOT / "target/against"
SUBJECTS = ("hash", "ndn", "link", "transfer")
# Tables that start other programs, or use all cores at the mercy of the neighbours.
LEFT_OUT = {"copies", "session", "sessions", "flood", "busy", "cores"}
# Beginnings of the names of figures that are of other people's code.
OTHERS = ("blake3", "ring", "rayon", "sha2", "SHA-NI", "plain library")


def build(tree, target):
    """Builds the programs of a commit, and returns the folder where they lie."""
    names = {p.parent.name for p in tree.glob("crates/*/Cargo.toml")}
    command = ["cargo", "build", "--release", "-p", "xylem-cli" if "xylem-cli" in names else "xylem", "-p", "xylem-bench"]
    environment = {**os.environ, "CARGO_TARGET_DIR": str(target)}
    if subprocess.call(command, cwd=tree, env=environment) != 0:
        sys.exit("all: the build has failed")
    return target / "release"


def build_other(commit):
    tree = AGAINST / "tree"
    subprocess.run(["git", "worktree", "remove", "--force", str(tree)], cwd=ROOT, check=False, capture_output=True)
    made = subprocess.run(["git", "worktree", "add", "--detach", str(tree), commit], cwd=ROOT, check=False, capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit(f"all: {made.stderr.strip()}")
    return build(tree, AGAINST / "build")


def tables(programs, subject, quick):
    """Nanoseconds of every figure: {(subject, table, row, figure): value}."""
    command = [programs / "xylem-bench", subject, "--json", *(["--quick"] if quick else [])]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True, text=True)
    found = {}
    for report in map(json.loads, done.stdout.splitlines()):
        if report.get("report") != "row" or report["table"] in LEFT_OUT:
            continue
        for figure in report["figures"]:
            if figure.get("nanoseconds"):
                found[subject, report["table"], report["label"], figure["name"]] = figure["nanoseconds"]
    return found


def transfers(programs, cases, place):
    """Seconds of whole transfers between two processes: wall time, and processor time of both."""
    options = argparse.Namespace(xylem=str(programs / "xylem"))
    found = {}
    for title, source in cases:
        row = transfer.run_once(movers.Xylem, options, source, place)
        found["copies", "copies", title, "wall"] = row["wall"]
        found["copies", "copies", title, "processor time"] = row["cpu"]
    return found


def make_cases(place, quick):
    one, many = place / "one.bin", place / "many"
    with open(one, "wb") as file:
        for _ in range(512 if quick else 1024):
            file.write(os.urandom(1 << 20))
    many.mkdir()
    for number in range(2_000 if quick else 10_000):
        (many / f"{number:05}").write_bytes(os.urandom(4096))
    return [(f"{one.stat().st_size >> 20} MiB", one), (f"{number + 1} x 4 KiB", many)]


def is_other(figure):
    return figure.startswith(OTHERS)


def compare(before, now, limit):
    """Rows (key, ratio, slower) of every figure that both have: lists of one value a round."""
    rows = []
    for key in before:
        if key in now:
            ratio = statistics.median(before[key]) / statistics.median(now[key])
            slower = min(now[key]) > max(before[key]) and ratio < 1 / (1 + limit / 100)
            rows.append((key, ratio, slower and not is_other(key[3])))
    return rows


def mean(ratios):
    return math.exp(statistics.mean(map(math.log, ratios))) if ratios else None


def markdown(rows):
    """One line a table: the geometric means of its figures, and the least."""
    lines = ["| subject | table | figures | ratio | least | others |", "|---|---|---|---|---|---|"]
    for name in dict.fromkeys(key[:2] for key, _, _ in rows):
        ours = [(ratio, key) for key, ratio, _ in rows if key[:2] == name and not is_other(key[3])]
        others = mean([ratio for key, ratio, _ in rows if key[:2] == name and is_other(key[3])])
        if ours:
            least, at = min(ours)
            beside = f"{others:.2f}" if others else ""
            lines.append(f"| {name[0]} | {name[1]} | {len(ours)} | {mean([r for r, _ in ours]):.2f} | {least:.2f} ({at[2]}, {at[3]}) | {beside} |")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="a tenth of the time for a row, smaller transfers")
    parser.add_argument("--against", default="HEAD~1", metavar="COMMIT")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--limit", type=float, default=10.0, help="percent by which a figure may be slower")
    parser.add_argument("--programs", nargs=2, metavar=("BEFORE", "AFTER"), type=pathlib.Path)
    parser.add_argument("--dir", default="/dev/shm", help="where the transfers' files lie")
    options = parser.parse_args()
    if options.programs:
        sides = [folder.resolve() for folder in options.programs]
    else:
        sides = [build_other(options.against), build(ROOT, ROOT / "target")]
    figures = [{}, {}]
    with tempfile.TemporaryDirectory(prefix="all-", dir=options.dir) as place:
        place = pathlib.Path(place)
        cases = make_cases(place, options.quick)
        for number in range(max(options.rounds, 2)):
            for subject in (*SUBJECTS, "copies"):
                for side in (0, 1) if number % 2 == 0 else (1, 0):
                    print(f"round {number + 1}, {subject}: {('before', 'now')[side]}", file=sys.stderr, flush=True)
                    if subject == "copies":
                        found = transfers(sides[side], cases, place)
                    else:
                        found = tables(sides[side], subject, options.quick)
                    for key, value in found.items():
                        figures[side].setdefault(key, []).append(value)
    rows = compare(*figures, options.limit)
    print(f"{transfer.cpu_model()}, {os.cpu_count()} cores; {max(options.rounds, 2)} rounds in turn; time before / time now\n")
    print(markdown(rows))
    slower = [(ratio, key) for key, ratio, is_slower in rows if is_slower]
    for ratio, key in sorted(slower):
        print(f"\nslower: {ratio:.2f}  {' / '.join(key)}", end="")
    print()
    return 1 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
