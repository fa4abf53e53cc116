#!/usr/bin/env python3
"""Times `xylem share` / `xylem get` between two processes over loopback, beside cp + b3sum.

Usage: bench/transfer.py [--runs N] [--size BYTES] [--files N] [--dir DIR] [--json]

Every figure is a median of N interleaved runs (A B A B …) on files in DIR (default: /dev/shm, so
that the disk is not what is measured). Wall time is the receiver's, from its start to its exit,
with the sender ready; CPU seconds are those of both processes during the transfer; memory is each
process's peak resident set. Exit 1 when a fetched copy is not byte-equal.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TICKS = os.sysconf("SC_CLK_TCK")


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def peak_kib(pid):
    for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1])
    return 0


def timed(command, **kwargs):
    """Runs a command: wall seconds, CPU seconds, peak KiB."""
    start = time.monotonic()
    process = subprocess.Popen(command, **kwargs)
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - start
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise SystemExit(f"{command} ended with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss


class Share:
    """A running `xylem share`, ready to serve."""

    def __init__(self, xylem, path, store, plain=False):
        command = [xylem, "--store", store, "-q", "share", path, "--listen", "127.0.0.1:0"]
        if plain:
            command += ["--plain-listen", "127.0.0.1:0", "--json"]
        start = time.monotonic()
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        self.ticket = self.process.stdout.readline().strip()
        self.ready_after = time.monotonic() - start
        if not self.ticket:
            raise SystemExit("share gave no ticket")
        self.cpu_before = cpu_seconds(self.process.pid)

    def finish(self):
        cpu = cpu_seconds(self.process.pid) - self.cpu_before
        peak = peak_kib(self.process.pid)
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(10) != 0:
            raise SystemExit("share did not end with 0")
        return cpu, peak


def equal(a, b):
    return subprocess.run(["diff", "-r", "-q", a, b], stdout=subprocess.DEVNULL).returncode == 0


def xylem_row(xylem, source, work):
    store = tempfile.mkdtemp(dir=work)
    out = os.path.join(work, "fetched")
    share = Share(xylem, source, store)
    wall, cpu, peak = timed(
        [xylem, "--store", tempfile.mkdtemp(dir=work), "-q", "get", share.ticket, "-o", out],
        stdout=subprocess.DEVNULL,
    )
    share_cpu, share_peak = share.finish()
    if not equal(source, out):
        raise SystemExit("what was fetched differs from what was shared")
    for path in [out, store]:
        shutil.rmtree(path) if os.path.isdir(path) else os.remove(path)
    return {
        "wall": wall,
        "cpu": cpu + share_cpu,
        "rss_share": share_peak,
        "rss_get": peak,
        "publish": share.ready_after,
    }


def copy_row(source, work, b3sum):
    out = os.path.join(work, "copied")
    wall, cpu, peak = timed(["cp", "-r", source, out])
    if os.path.isdir(out):
        files = [os.path.join(d, f) for d, _, fs in os.walk(out) for f in fs]
        hashed = timed([*b3sum, *files], stdout=subprocess.DEVNULL)
        shutil.rmtree(out)
    else:
        hashed = timed([*b3sum, out], stdout=subprocess.DEVNULL)
        os.remove(out)
    return {"wall": wall + hashed[0], "cpu": cpu + hashed[1], "rss_get": peak}


def median(rows, key):
    values = [row[key] for row in rows if key in row]
    return statistics.median(values) if values else None


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xylem", default=str(ROOT / "target/release/xylem"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()

    b3sum = [shutil.which("b3sum")] if shutil.which("b3sum") else [arguments.xylem, "sum"]
    work = tempfile.mkdtemp(prefix="xylem-bench-", dir=arguments.dir)
    report = {"machine": f"{cpu_model()}, {os.cpu_count()} cores, {platform.release()}"}
    try:
        big = os.path.join(work, "big.bin")
        with open(big, "wb") as file:
            for _ in range(arguments.size >> 20):
                file.write(os.urandom(1 << 20))
        small = os.path.join(work, "small")
        os.mkdir(small)
        for i in range(arguments.files):
            with open(os.path.join(small, f"{i:05}"), "wb") as file:
                file.write(os.urandom(4096))
        for label, source in [("1 file", big), ("small files", small)]:
            ours, copies = [], []
            for _ in range(arguments.runs):
                ours.append(xylem_row(arguments.xylem, source, work))
                copies.append(copy_row(source, work, b3sum))
            report[label] = {
                "xylem": {k: median(ours, k) for k in ours[0]},
                "cp + " + os.path.basename(b3sum[0]): {k: median(copies, k) for k in copies[0]},
                "rate over cp + b3sum": median(copies, "wall") / median(ours, "wall"),
            }
        report["1 file"]["xylem"]["MB/s"] = arguments.size / 1e6 / report["1 file"]["xylem"]["wall"]
    finally:
        shutil.rmtree(work, ignore_errors=True)

    if arguments.json:
        print(json.dumps(report, indent=1))
        return
    print(f"machine: {report.pop('machine')}; medians of {arguments.runs} interleaved runs")
    for label, rows in report.items():
        print(f"\n{label}")
        for name, row in rows.items():
            if isinstance(row, dict):
                cells = [f"{k} {v:.3g}" if v < 1e4 else f"{k} {v:.0f}" for k, v in row.items() if v]
                print(f"  {name:<14} " + "  ".join(cells))
            else:
                print(f"  {name}: {row:.3f}")


if __name__ == "__main__":
    sys.exit(main())
