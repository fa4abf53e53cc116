#!/usr/bin/env python3
"""Times `xylem ndn node` beside NDNd, as forwarders between the same load generator and the same producer.

Usage: bench/forward.py [TABLE]... [--runs N] [--seconds S] [--entries N] [--size BYTES] [--json]

Tables (all, if none is named):
  rate     Interests a second at 0 % loss, one way and both ways at once, unix and tcp; processor time
           of the forwarder for each Interest and Data
  latency  p50 and p99 at fixed rates that both can do
  memory   resident memory for each entry of a full PIT and of a full content store
  object   a 100 MB object: `xylem ndn put` and `share` → node → `xylem get`, beside `ndnd put` → NDNd →
           `ndnd cat`

Everything runs on this machine's cores at once: generator, forwarder, producer. Runs are interleaved
(A B A B …), figures are medians; a run with a lost Interest does not count for the rate. NDNd (and
with it the rest of interop/run's installation, target/interop) must be there. Exit 1 when a fetched
object is not byte-equal.
"""

import argparse
import filecmp
import json
import os
import re
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "interop"))

from forwarders import Ndnd, Node  # noqa: E402
from programs import Failed, Programs, free_port  # noqa: E402

TICKS = os.sysconf("SC_CLK_TCK")
KINDS = {"node": Node, "ndnd": Ndnd}
# Unanswered Interests at a time: below every queue of NDNd (1,024), from little to much pipelining.
WINDOWS = [64, 256, 900]


def cpu_seconds(pid):
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def resident_bytes(pid):
    return int(re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{pid}/status").read_text())[1]) * 1024


class Bench:
    def __init__(self, programs, options):
        self.programs = programs
        self.options = options
        self.start_at = 0

    def xylem(self, *arguments):
        return [self.programs.tools.xylem, "--store", self.programs.folder / "store", *arguments]

    def forwarder(self, kind, cs=1_024, **limits):
        """Both forwarders with NDNd's default content store, 1,024 packets, unless that is measured."""
        return KINDS[kind](self.programs, cs=cs, **limits).start()

    def producer(self, forwarder, transport, prefix):
        """A load producer; it is ready when the forwarder has its route."""
        program = self.programs.start(
            self.xylem("ndn", "traffic", prefix, "--serve", "--size", str(self.options.size))
            + ["--at", forwarder.transport(transport)]
        )
        return program.wait_until(lambda: forwarder.has_route(prefix))

    def generator(self, forwarder, transport, prefix, *arguments):
        """Starts a load; `result` has its report. Each run uses names that no cache has."""
        self.start_at += 1 << 32
        command = self.xylem("--json", "ndn", "traffic", prefix, "--at", forwarder.transport(transport))
        command += ["--start", str(self.start_at), "--pid", str(forwarder.program.process.pid)]
        return self.programs.start([*command, *arguments])

    def result(self, program):
        code = program.process.wait(self.options.seconds + 30)
        if code != 0:
            raise Failed(f"traffic ended with {code}: {program.output()[-300:]}")
        return json.loads(program.output().splitlines()[-1])


def rate_run(bench, kind, transport, window, ways):
    """Interests answered each second by one forwarder, started for this run; and its CPU time for each."""
    forwarder = bench.forwarder(kind)
    try:
        prefixes = [f"/bench/{way}" for way in range(ways)]
        producers = [bench.producer(forwarder, transport, prefix) for prefix in prefixes]
        pid = forwarder.program.process.pid
        cpu = cpu_seconds(pid)
        loads = [
            bench.generator(forwarder, transport, prefix, "--rate", "max", "--window", str(window),
                            "--duration", str(bench.options.seconds))
            for prefix in prefixes
        ]
        reports = [bench.result(load) for load in loads]
        cpu = cpu_seconds(pid) - cpu
        for producer in producers:
            bench.programs.stop(producer)
    finally:
        forwarder.stop()
    answered = sum(report["answered"] for report in reports)
    lost = sum(report["lost"] + report["nacked"] for report in reports)
    seconds = max(report["seconds"] for report in reports)
    return {"rate": answered / seconds, "lost": lost, "cpu_us": cpu / max(answered, 1) * 1e6}


def rate(bench):
    rows = []
    for transport, ways in (("unix", 1), ("unix", 2), ("tcp", 1)):
        runs = {(kind, window): [] for kind in KINDS for window in WINDOWS}
        for _ in range(bench.options.runs):
            for window in WINDOWS:
                for kind in KINDS:
                    runs[kind, window].append(rate_run(bench, kind, transport, window, ways))
        for kind in KINDS:
            # Each forwarder with its best window.
            clean = {
                window: statistics.median(run["rate"] for run in runs[kind, window])
                for window in WINDOWS
                if all(run["lost"] == 0 for run in runs[kind, window])
            }
            window = max(clean, key=clean.get) if clean else WINDOWS[0]
            cpu = statistics.median(run["cpu_us"] for run in runs[kind, window])
            rows.append({"transport": transport, "ways": ways, "forwarder": kind, "window": window,
                         "rate": clean.get(window), "cpu_us": cpu})
    return rows


def latency_run(bench, kind, transport, each_second):
    forwarder = bench.forwarder(kind)
    try:
        producer = bench.producer(forwarder, transport, "/bench/latency")
        load = bench.generator(forwarder, transport, "/bench/latency", "--rate", str(each_second),
                               "--window", "1024", "--duration", str(bench.options.seconds))
        report = bench.result(load)
        bench.programs.stop(producer)
    finally:
        forwarder.stop()
    return report


def latency(bench):
    rows = []
    for each_second in (1_000, 10_000):
        runs = {kind: [] for kind in KINDS}
        for _ in range(bench.options.runs):
            for kind in KINDS:
                runs[kind].append(latency_run(bench, kind, "unix", each_second))
        for kind, reports in runs.items():
            middle = {
                key: statistics.median(report[key] for report in reports)
                for key in ("p50_us", "p99_us")
            }
            lost = sum(report["lost"] + report["nacked"] for report in reports)
            rows.append({"each_second": each_second, "forwarder": kind, "lost": lost, **middle})
    return rows


def entries(forwarder, field):
    """A count of the forwarder's general status, as NDNd's tool reads it."""
    status = forwarder.programs.run(
        [forwarder.programs.tools.ndnd, "fw", "status"], forwarder.transport("unix")
    )
    return int(re.search(rf"{field}=(\d+)", status)[1])


def pit_run(bench, kind):
    """Sends Interests without an answer, towards a UDP port that is bound and never read."""
    wanted = bench.options.entries
    forwarder = bench.forwarder(kind, pit=wanted + wanted // 4)
    silent = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    silent.bind(("127.0.0.1", 0))
    try:
        uri = f"udp4://127.0.0.1:{silent.getsockname()[1]}"
        ndnd = [bench.programs.tools.ndnd, "fw", "route-add", "prefix=/bench/pit", f"face={uri}"]
        bench.programs.run(ndnd, forwarder.transport("unix"))
        pid = forwarder.program.process.pid
        before = resident_bytes(pid)
        load = bench.generator(forwarder, "unix", "/bench/pit", "--rate", "20000", "--window",
                               str(wanted), "--lifetime", "600", "--duration", str(wanted / 20000))
        end = time.monotonic() + wanted / 20000 + 60
        while entries(forwarder, "nPitEntries") < wanted * 0.99 and time.monotonic() < end:
            time.sleep(0.5)
        held = entries(forwarder, "nPitEntries")
        grown = resident_bytes(pid) - before
        bench.programs.stop(load)
    finally:
        silent.close()
        forwarder.stop()
    return {"held": held, "bytes": grown / max(held, 1)}


def cs_run(bench, kind):
    """Fills a content store with one producer's answers; NDNd's holds at most 131,070 packets."""
    wanted = bench.options.entries
    limit = min(wanted, 65_535) if kind == "ndnd" else wanted
    wanted = min(wanted, 2 * limit) if kind == "ndnd" else wanted
    forwarder = bench.forwarder(kind, cs=limit)
    try:
        pid = forwarder.program.process.pid
        producer = bench.producer(forwarder, "unix", "/bench/cs")
        before = resident_bytes(pid)
        load = bench.generator(forwarder, "unix", "/bench/cs", "--rate", "max", "--window", "256",
                               "--duration", "600")
        while entries(forwarder, "nCsEntries") < wanted * 0.99:
            if load.process.poll() is not None:
                break
            time.sleep(0.5)
        bench.programs.stop(load)
        held = entries(forwarder, "nCsEntries")
        grown = resident_bytes(pid) - before
        bench.programs.stop(producer)
    finally:
        forwarder.stop()
    return {"held": held, "bytes": grown / max(held, 1)}


def memory(bench):
    rows = []
    for table, run in (("PIT", pit_run), ("content store", cs_run)):
        for kind in KINDS:
            rows.append({"table": table, "forwarder": kind, **run(bench, kind)})
    return rows


def timed(command, environment, stdout):
    """Wall and CPU seconds of a command, which has to end with 0."""
    began = time.monotonic()
    process = subprocess.Popen(
        [str(part) for part in command], env=environment, stdout=stdout, stderr=subprocess.DEVNULL
    )
    _, status, usage = os.wait4(process.pid, 0)
    wall = time.monotonic() - began
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failed(f"{command} ended with {process.returncode}")
    return wall, usage.ru_utime + usage.ru_stime


def object_run(bench, way, content):
    """One object from producer to consumer: the consumer's wall time, CPU of all three."""
    programs = bench.programs
    forwarder = bench.forwarder("ndnd" if way == "ndnd put, cat" else "node")
    transport = forwarder.transport("unix")
    fetched = programs.file("fetched")
    stdout = subprocess.DEVNULL
    name = f"/bench/object/{bench.start_at}"
    bench.start_at += 1
    try:
        if way == "ndnd put, cat":
            with open(content, "rb") as stdin:
                put = programs.start([programs.tools.ndnd, "put", name], transport, stdin=stdin)
            get = [programs.tools.ndnd, "cat", name]
            stdout = open(fetched, "wb")
        elif way == "xylem ndn put, get":
            put = programs.start(
                bench.xylem("ndn", "put", name, content, "--sign", "digest-sha256", "--at", transport)
            )
            get = bench.xylem("get", name, "--insecure", "--from", transport, "-o", fetched)
        else:
            tickets = programs.file("ticket")
            put = programs.start(
                bench.xylem("share", content, "--as", name, "--listen", "127.0.0.1:0", "--via", transport),
                stdout=open(tickets, "wb"),
            )
            put.wait_until(lambda: tickets.read_text().endswith("\n"))
            get = bench.xylem("get", tickets.read_text().strip(), "--from", transport, "-o", fetched)
        put.wait_until(lambda: forwarder.has_route(name), 30)
        forwarder_cpu = cpu_seconds(forwarder.program.process.pid)
        wall, get_cpu = timed(get, programs.environment(transport), stdout)
        forwarder_cpu = cpu_seconds(forwarder.program.process.pid) - forwarder_cpu
        # Processor time of the producer from its start: signing is part of the cost.
        put_cpu = cpu_seconds(put.process.pid)
        programs.stop(put)
        if not filecmp.cmp(content, fetched, shallow=False):
            raise Failed(f"{way}: other bytes than those published")
    finally:
        fetched.unlink(missing_ok=True)
        forwarder.stop()
    cpu = put_cpu + forwarder_cpu + get_cpu
    return {"wall": wall, "cpu": cpu, "put": put_cpu, "forwarder": forwarder_cpu, "get": get_cpu}


def objects(bench):
    size = 100_000_000
    content = bench.programs.file("object")
    content.write_bytes(os.urandom(size))
    runs = {way: [] for way in ("ndnd put, cat", "xylem ndn put, get", "xylem share, get")}
    for _ in range(bench.options.runs):
        for way in runs:
            runs[way].append(object_run(bench, way, content))
    rows = []
    for way, each in runs.items():
        middle = {key: statistics.median(run[key] for run in each) for key in each[0]}
        rows.append({"way": way, "mb_each_second": size / 1e6 / middle["wall"], **middle})
    return rows


TABLES = {"rate": rate, "latency": latency, "memory": memory, "object": objects}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--entries", type=int, default=1_000_000)
    parser.add_argument("--size", type=int, default=1024, help="content of a load Data, bytes")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    peers = ROOT / "target" / "interop"
    tools = SimpleNamespace(
        xylem=Path(os.environ.get("XYLEM", ROOT / "target/release/xylem")).resolve(),
        ndnd=peers / "ndnd" / "ndnd",
        ndnts=peers / "ndnts",
    )
    failed = False
    with tempfile.TemporaryDirectory(prefix="xb-", dir="/dev/shm") as folder:
        programs = Programs(folder, tools)
        (programs.folder / "home").mkdir()
        bench = Bench(programs, options)
        try:
            for title in options.tables or TABLES:
                for row in TABLES[title](bench):
                    print(json.dumps({"table": title, **row}) if options.json else line(title, row))
                    sys.stdout.flush()
        except Failed as failure:
            print(f"forward.py: {failure}", file=sys.stderr)
            failed = True
        finally:
            programs.stop_all()
    sys.exit(1 if failed else 0)


def line(title, row):
    """A row for people: numbers with three significant digits."""
    cells = (f"{key} {value:.4g}" if isinstance(value, float) else f"{key} {value}"
             for key, value in row.items())
    return f"{title}: " + ", ".join(cells)


if __name__ == "__main__":
    main()
