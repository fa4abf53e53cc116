#!/usr/bin/env python3
"""Times `xylem scrub` beside b3sum, cat and (as root) btrfs scrub, and repairs of damaged spots.

    python3 bench/scrub.py [--xylem PATH] [--mib N] [--rounds N] [--dir DIR] [--btrfs] [--cold DIR]
                           [--spots N]

The file is made under DIR, which should be on a tmpfs. The contenders run in turn, round by round;
medians are printed, with processor seconds. --cold DIR does the same for a copy on a disk, dropped from
the page cache before each run. --btrfs makes two loop devices on files under DIR for each checksum
(raid1, the file on both), scrubs them, damages spots on one of them, and scrubs again. Its rate counts
the bytes of one copy times two, since it reads both. A repair of ours fetches the same number of
spots from a second process over the encrypted link.
"""

import argparse
import json
import os
import random
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

MIB = 1 << 20


def run(command, stdout=subprocess.PIPE):
    """Wall and processor seconds, exit code and standard output of one run."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    begin = time.perf_counter()
    done = subprocess.run(command, stdout=stdout, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - begin
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return wall, cpu, done.returncode, done.stdout


def share(xylem, store, path):
    """A publisher and its ticket."""
    command = [xylem, "--store", store, "--json", "share", "--listen", "127.0.0.1:0", path]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    for line in child.stdout:
        event = json.loads(line)
        if event["event"] == "shared":
            return child, event["ticket"]
    sys.exit("share did not start")


def evict(path):
    """Drops files from the page cache."""
    fd = os.open(path, os.O_RDONLY)
    os.fsync(fd)
    os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
    os.close(fd)


def table(title, runs, size):
    print(f"\n{title}")
    for name, times in runs.items():
        wall = statistics.median(t[0] for t in times)
        cpu = statistics.median(t[1] for t in times)
        print(f"  {name:24} {wall:7.3f} s  {size / MIB / wall:8.0f} MiB/s  cpu {cpu:6.3f} s")


def compare(title, commands, size, rounds, before=lambda: None):
    runs = {name: [] for name in commands}
    for _ in range(rounds):
        for name, command in commands.items():
            before()
            wall, cpu, code, _ = run(command, subprocess.DEVNULL)
            if code:
                sys.exit(f"{name} ended with {code}")
            runs[name].append((wall, cpu))
    table(title, runs, size)


def damage(path, size, spots, seed):
    """Flips one byte at each of this many places; the time stays, as with decay. Returns the segments."""
    noise, times, hit = random.Random(seed), os.stat(path), set()
    with open(path, "r+b") as file:
        while len(hit) < spots:
            at = noise.randrange(size)
            if at // 8192 in hit:
                continue
            hit.add(at // 8192)
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
    return hit


def repairs(xylem, store, path, size, spots, rounds):
    print(f"\n{spots} damaged spots, mended from a peer over the encrypted link")
    for i in range(rounds):
        hit = damage(path, size, spots, i)
        scrub = [xylem, "--store", store, "--json", "scrub", path]
        _, _, code, out = run(scrub)
        found = [json.loads(line) for line in out.splitlines()]
        segments = set()
        for event in found:
            if event["event"] == "flaw":
                segments |= set(range(event["start"] // 8192, -(-event["end"] // 8192)))
        wall, cpu, code, out = run([*scrub, "--repair"])
        last = json.loads(out.splitlines()[-1])
        clean = run(scrub)[2] == 0
        print(
            f"  found {len(segments & hit)} of {len(hit)}, {len(segments - hit)} others; fetched "
            f"{last['fetched']} of {last['damaged']} bytes; {wall:.3f} s, cpu {cpu:.3f} s; "
            f"exit {code}, then clean: {clean}"
        )


def btrfs(folder, path, size, spots, rounds):
    """Scrub rates and a repair for each checksum of btrfs."""
    for csum in ["crc32c", "xxhash", "sha256", "blake2"]:
        images = [os.path.join(folder, f"image-{i}") for i in range(2)]
        devices, mount = [], os.path.join(folder, "mount")
        os.makedirs(mount, exist_ok=True)
        try:
            for image in images:
                with open(image, "wb") as file:
                    file.truncate(size + max(size // 4, 400 * MIB))
                loop = subprocess.check_output(["losetup", "-f", "--show", image], text=True)
                devices.append(loop.strip())
            make = ["mkfs.btrfs", "-q", "-f", "--csum", csum, "-m", "raid1", "-d", "raid1"]
            subprocess.run([*make, *devices], check=True, stderr=subprocess.DEVNULL)
            subprocess.run(["mount", "-t", "btrfs", devices[0], mount], check=True)
            shutil.copy(path, os.path.join(mount, "file"))
            subprocess.run(["sync", "-f", mount], check=True)
            scrub = ["btrfs", "scrub", "start", "-B", "-r", mount]
            walls = []
            for _ in range(rounds):
                wall, _, code, _ = run(scrub)
                walls.append(wall if code == 0 else float("nan"))
            wall = statistics.median(walls)
            rate = 2 * size / MIB / wall
            print(f"  btrfs scrub {csum:8}  {wall:7.3f} s  {rate:8.0f} MiB/s (two copies)")
            if spots:
                subprocess.run(["umount", mount], check=True)
                hit = wound(images[1], path, spots)
                subprocess.run(["mount", "-t", "btrfs", devices[0], mount], check=True)
                wall, _, code, _ = run(["btrfs", "scrub", "start", "-B", mount])
                status = subprocess.check_output(["btrfs", "scrub", "status", mount], text=True)
                said = " ".join(status.split("Error summary:")[-1].split())
                print(f"    {hit} spots on one copy: {wall:.3f} s, exit {code}; {said}")
        finally:
            subprocess.run(["umount", mount], stderr=subprocess.DEVNULL)
            for device in devices:
                subprocess.run(["losetup", "-d", device])
            for image in images:
                if os.path.exists(image):
                    os.remove(image)


def wound(image, path, spots):
    """Flips a byte in this many 4 KiB blocks of an image that hold the file's data."""
    noise, done = random.Random(7), 0
    wanted = {}
    with open(path, "rb") as file:
        size = os.path.getsize(path)
        while len(wanted) < spots:
            at = noise.randrange(size // 4096) * 4096
            file.seek(at)
            wanted[file.read(32)] = at
    with open(image, "r+b") as file:
        at = 0
        while piece := file.read(4 * MIB):
            for offset in range(0, len(piece), 4096):
                if piece[offset : offset + 32] in wanted:
                    file.seek(at + offset + 100)
                    file.write(bytes([piece[offset + 100] ^ 1]))
                    done += 1
            at += len(piece)
            file.seek(at)
        os.fsync(file.fileno())
    return done


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--xylem", default="target/release/xylem")
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--cold")
    parser.add_argument("--btrfs", action="store_true")
    parser.add_argument("--spots", type=int, default=300)
    arguments = parser.parse_args()
    xylem, size = os.path.abspath(arguments.xylem), arguments.mib * MIB
    folder = tempfile.mkdtemp(prefix="scrub-", dir=arguments.dir)
    disk = tempfile.mkdtemp(prefix="scrub-", dir=arguments.cold) if arguments.cold else None
    child = None
    try:
        path, store = os.path.join(folder, "file"), os.path.join(folder, "store")
        noise = random.Random(1)
        with open(path, "wb") as file:
            for _ in range(arguments.mib // 4):
                file.write(noise.randbytes(4 * MIB))
        commands = lambda path, store: {
            "xylem scrub": [xylem, "--store", store, "-q", "scrub", path],
            "b3sum": ["b3sum", "--no-mmap", path],
            "b3sum (mmap)": ["b3sum", path],
            "cat": ["cat", path],
        }
        # A shared file is known to the store.
        child, ticket = share(xylem, store, path)
        title = f"{arguments.mib} MiB in {arguments.dir}, warm"
        compare(title, commands(path, store), size, arguments.rounds)
        if disk:
            copy, other = os.path.join(disk, "file"), os.path.join(disk, "store")
            shutil.copy(path, copy)
            second, _ = share(xylem, other, copy)
            second.kill()
            title = f"{arguments.mib} MiB in {arguments.cold}, cold"
            rounds = max(3, arguments.rounds // 2)
            compare(title, commands(copy, other), size, rounds, lambda: evict(copy))
        if arguments.spots:
            # Another store fetches it, and its copy is damaged.
            theirs, out = os.path.join(folder, "theirs"), os.path.join(folder, "out")
            get = [xylem, "--store", theirs, "-q", "get", ticket, "-o", out]
            subprocess.run(get, check=True, stdout=subprocess.DEVNULL)
            repairs(xylem, theirs, out, size, arguments.spots, min(3, arguments.rounds))
            os.remove(out)
        if arguments.btrfs:
            print("\nbtrfs on loop devices in the same place")
            btrfs(folder, path, size, arguments.spots, min(3, arguments.rounds))
    finally:
        if child:
            child.kill()
        shutil.rmtree(folder, ignore_errors=True)
        if disk:
            shutil.rmtree(disk, ignore_errors=True)


if __name__ == "__main__":
    main()
