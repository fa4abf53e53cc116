#!/usr/bin/env python3
"""Times `xylem scrub`, `share` and `sum` of files on a disk that are not in memory, beside cat and tar.

    python3 bench/cold.py [--xylem NAME=PROGRAM]... [--dir DIR] [--mib N] [--files N] [--rounds N]
                          [--read-ahead KIB]

One file of N MiB, then a directory of N files of 4 KiB, under DIR, which must be on a disk. The contenders run in
turn, round by round; medians are printed, and ratios to cat or `tar c | cat`. `share` is timed until it prints its
ticket, each time with a store of its own. Before each run with the one file, that file and the stores are written
back and dropped from memory, but not the programs; before a run with the directory all caches of the system are
dropped (root). --read-ahead sets Linux's read-ahead on DIR's disk for the time of the run: 128 is its default.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


def forget(path, work):
    """Drops from memory: for one file, its bytes and those of the stores; for a directory, all caches."""
    os.sync()
    if path.is_dir():
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
        return
    for file in [path, *(p for p in work.rglob("*") if p.is_file())]:
        with open(file, "rb") as opened:
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def seconds(command):
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    took = time.perf_counter() - begin
    if done.returncode:
        sys.exit(f"{command} ended with {done.returncode}")
    return took


def until_ticket(xylem, store, path):
    """Seconds until `share` has printed its ticket; the share is ended then."""
    command = [xylem, "--store", store, "--json", "share", "--listen", "127.0.0.1:0", path]
    begin = time.perf_counter()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as child:
        for line in child.stdout:
            if json.loads(line)["event"] == "shared":
                took = time.perf_counter() - begin
                child.kill()
                return took
    sys.exit(f"{command} printed no ticket")


def compare(title, bar, path, programs, what, work, rounds):
    runs = {name: [] for name in ["bar", *(f"{verb} {name}" for verb in what for name in programs)]}
    for name, program in programs.items():
        until_ticket(program, work / f"known-{name}", path)
    for turn in range(rounds):
        forget(path, work)
        runs["bar"].append(seconds(bar))
        for verb in what:
            for name, program in programs.items():
                forget(path, work)
                if verb == "share":
                    store = work / f"new-{name}-{turn}"
                    took = until_ticket(program, store, path)
                    shutil.rmtree(store)
                elif verb == "scrub":
                    took = seconds([program, "--store", work / f"known-{name}", "-q", "scrub", path])
                else:
                    took = seconds([program, verb, path])
                runs[f"{verb} {name}"].append(took)
    for name in programs:
        shutil.rmtree(work / f"known-{name}")
    print(f"\n{title}")
    base = statistics.median(runs.pop("bar"))
    print(f"  {' '.join(bar[-1:]) if len(bar) > 2 else bar[0]:32} {base:7.3f} s")
    for name, times in runs.items():
        median = statistics.median(times)
        print(f"  {name:32} {median:7.3f} s  rate over it {base / median:5.2f}  ({min(times):.3f} to {max(times):.3f})")


def queue_of(folder):
    """The block queue of the disk that a folder is on."""
    device = os.stat(folder).st_dev
    place = pathlib.Path(f"/sys/dev/block/{os.major(device)}:{os.minor(device)}").resolve()
    return next(p / "queue" for p in [place, place.parent] if (p / "queue").is_dir())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xylem", action="append", help="NAME=PROGRAM; target/release/xylem unless given")
    parser.add_argument("--dir", default=".")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--read-ahead", type=int)
    arguments = parser.parse_args()
    given = [item.rpartition("=")[::2] for item in arguments.xylem or ["target/release/xylem"]]
    programs = {name or "xylem": os.path.abspath(program) for name, program in given}
    work = pathlib.Path(tempfile.mkdtemp(prefix="cold-", dir=arguments.dir))
    ahead = before = None
    if arguments.read_ahead is not None:
        ahead = queue_of(work) / "read_ahead_kb"
        before = ahead.read_text()
        ahead.write_text(str(arguments.read_ahead))
    try:
        noise = random.Random(1)
        if arguments.mib:
            path = work / "file"
            with open(path, "wb") as file:
                for _ in range(arguments.mib):
                    file.write(noise.randbytes(MIB))
            title, what = f"{arguments.mib} MiB", ["scrub", "share", "sum"]
            compare(title, ["cat", path], path, programs, what, work, arguments.rounds)
            path.unlink()
        if arguments.files:
            path = work / "files"
            for i in range(arguments.files):
                folder = path / f"{i // 1000}"
                folder.mkdir(parents=True, exist_ok=True)
                (folder / f"{i}").write_bytes(noise.randbytes(4096))
            title = f"{arguments.files} files of 4 KiB"
            # GNU tar does not read files if its output is /dev/null.
            tar = ["sh", "-c", 'tar c -C "$0" . | cat', str(path)]
            compare(title, tar, path, programs, ["scrub", "share"], work, max(3, arguments.rounds // 2))
    finally:
        if ahead:
            ahead.write_text(before)
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
