#!/usr/bin/env python3
"""Times `xylem sum` beside b3sum: wall and processor time, in turn, medians.

    python3 bench/sum.py [--xylem PATH] [--b3sum PATH] [--runs N] [--dir DIR] [CASE]...

The files are made once under DIR, which should be on a tmpfs and needs 2 GiB. Before anything is
timed the two programs' output is compared byte for byte. Other programs can be added with
--also NAME=COMMAND (a build from before a change, say).
"""

import argparse
import os
import random
import shlex
import shutil
import statistics
import subprocess
import sys
import time

KIB, MIB, GIB = 1 << 10, 1 << 20, 1 << 30

# Name, number of files, bytes of each.
CASES = [
    ("64KiB", 1, 64 * KIB),
    ("256KiB", 1, 256 * KIB),
    ("1MiB", 1, MIB),
    ("4MiB", 1, 4 * MIB),
    ("16MiB", 1, 16 * MIB),
    ("1GiB", 1, GIB),
    ("10x64MiB", 10, 64 * MIB),
    ("10000x4KiB", 10_000, 4 * KIB),
    ("100000x100B", 100_000, 100),
    ("mixed", 10_001, None),
]


def make(folder, count, size):
    """Makes the files of one case unless they exist; the names are short because of ARG_MAX."""
    done = os.path.join(folder, ".made")
    if not os.path.exists(done):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        noise = random.Random(1)
        for i in range(count):
            # The mixed case: one huge file in the middle of many small ones.
            left = size or (512 * MIB if i == count // 2 else 2 * KIB)
            with open(os.path.join(folder, f"f{i}"), "wb") as file:
                while left > 0:
                    left -= file.write(noise.randbytes(min(left, 16 * MIB)))
        open(done, "w").close()
    return [f"f{i}" for i in range(count)]


def timed(command, folder, files):
    """Wall and processor seconds of one run, and its peak memory in KiB."""
    with open(os.devnull, "wb") as null:
        begin = time.perf_counter()
        child = subprocess.Popen([*command, *files], cwd=folder, stdout=null)
        _, status, used = os.wait4(child.pid, 0)
        wall = time.perf_counter() - begin
    if status != 0:
        sys.exit(f"{shlex.join(command)} ended with wait status {status}")
    return wall, used.ru_utime + used.ru_stime, used.ru_maxrss


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", help="of: " + ", ".join(c[0] for c in CASES))
    parser.add_argument("--xylem", default="target/release/xylem")
    parser.add_argument("--b3sum", default=shutil.which("b3sum") or "b3sum")
    parser.add_argument("--also", action="append", default=[], metavar="NAME=COMMAND")
    parser.add_argument("--flags", default="", help="given to all programs")
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--dir", default="/dev/shm/xylem-sum")
    parser.add_argument("--no-single", action="store_true", help="leave one thread out")
    arguments = parser.parse_args()
    ours, theirs = [os.path.abspath(arguments.xylem), "sum"], [arguments.b3sum]
    programs = {"xylem": ours, "b3sum": theirs}
    if not arguments.no_single:
        programs |= {"xylem, 1": [*ours, "--num-threads=1"], "b3sum, 1": [*theirs, "--num-threads=1"]}
    for also in arguments.also:
        name, _, command = also.partition("=")
        programs[name] = shlex.split(command)
    flags = shlex.split(arguments.flags)
    for name, count, size in CASES:
        if arguments.case and name not in arguments.case:
            continue
        folder = os.path.join(arguments.dir, name)
        files = make(folder, count, size)
        outputs = [
            subprocess.run([*command, *flags, *files], cwd=folder, check=True, capture_output=True).stdout
            for command in (ours, theirs)
        ]
        if outputs[0] != outputs[1]:
            sys.exit(f"{name}: the two programs print different hashes")
        # Short runs are noisy and cheap: more of them.
        runs = arguments.runs * (10 if count * (size or 60 * KIB) <= 16 * MIB and count == 1 else 1)
        samples = {program: [] for program in programs}
        for _ in range(runs):
            for program, command in programs.items():
                samples[program].append(timed([*command, *flags], folder, files))
        row = {p: [statistics.median(column) for column in zip(*s)] for p, s in samples.items()}
        for program, (wall, cpu, memory) in row.items():
            ratio = row["b3sum, 1" if program == "xylem, 1" else "b3sum"][0] / wall
            print(
                f"{name:12} {program:10} wall {wall * 1e3:9.2f} ms  cpu {cpu * 1e3:9.2f} ms  "
                f"{memory / 1024:6.1f} MB  b3sum/this {ratio:5.2f}",
                flush=True,
            )


if __name__ == "__main__":
    main()
