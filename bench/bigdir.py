#!/usr/bin/env python3
"""Shares a folder of many small entries and fetches it; prints time and peak memory of both sides.

usage: bench/bigdir.py PROGRAM [ENTRIES] [SHAPE]     SHAPE: tree (folders of 1,000, the default) or flat (one folder)

Files of 0 to 100 bytes in a memory file system (/dev/shm). The second share finds everything unchanged.
"""
import os, shutil, subprocess, sys, time

program, entries = sys.argv[1], int(sys.argv[2]) if len(sys.argv) > 2 else 1_000_000
flat = len(sys.argv) > 3 and sys.argv[3] == "flat"
work = f"/dev/shm/xylem-bigdir-{os.getpid()}"


def fill(top):
    os.makedirs(top)
    left, folder = entries, 0
    while left > 0:
        inside = left if flat else min(left - 1, 999)
        where = top if flat else f"{top}/folder-{folder:05}"
        if not flat:
            os.mkdir(where)
            left -= 1
        at = os.open(where, os.O_RDONLY)
        for n in range(inside):
            fd = os.open(f"file-{n:07}.dat", os.O_WRONLY | os.O_CREAT, dir_fd=at)
            os.write(fd, b"%d/%d " % (folder, n) * 10 if n % 101 > 50 else b"%d" % n * (n % 10))
            os.close(fd)
        os.close(at)
        left, folder = left - inside, folder + 1


def peak(pid):
    with open(f"/proc/{pid}/status") as status:
        return int(next(line for line in status if line.startswith("VmHWM")).split()[1]) / 1024


def share():
    started = time.time()
    command = [program, "share", f"{work}/in", "--listen", "127.0.0.1:0", "--store", f"{work}/s", "-q"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    ticket = child.stdout.readline().strip()
    return child, ticket, time.time() - started


try:
    fill(f"{work}/in")
    child, ticket, first = share()
    first_peak = peak(child.pid)
    command = [program, "get", ticket, "-o", f"{work}/out", "--store", f"{work}/g", "-q"]
    started = time.time()
    get = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(get.pid, 0)
    took = time.time() - started
    if status:
        sys.exit(f"get failed: {get.stderr.read()}")
    served = peak(child.pid)
    child.terminate(); child.wait()
    again, _, second = share()
    second_peak = peak(again.pid)
    again.terminate(); again.wait()
    print(f"{entries:,} entries {'flat' if flat else 'tree'}: share {first:.2f} s, {first_peak:.0f} MB before and {served:.0f} MB after serving; "
          f"get {took:.2f} s, {usage.ru_maxrss / 1024:.0f} MB; share again {second:.2f} s, {second_peak:.0f} MB", flush=True)
finally:
    shutil.rmtree(work, ignore_errors=True)
