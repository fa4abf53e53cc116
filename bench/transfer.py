#!/usr/bin/env python3
"""Times `xylem share` / `xylem get` between two processes over loopback, beside other programs that move files.

Usage: bench/transfer.py [--runs N] [--only NAME]... [--size BYTES] [--files N] [--json]
       bench/transfer.py --install DIR          fetches the other programs from their registries into DIR
       bench/transfer.py copies [--quick]       the same as reports, for `xylem bench transfer copies`

Every program moves the same files, in DIR (default: /dev/shm, so that no disk is measured), on
the same cores, in turn, N rounds; figures are medians. Wall time is the receiver's, from its start to its
exit, with the sender ready; processor seconds are of both sides and of all their children during that time;
memory is the peak resident set of a side. Every copy is compared with the original: exit 1 when one differs.
A program that is not installed is left out by name; one that takes longer than --patience is run once.
"""

import argparse
import json
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import movers
from processes import Failed, Sampler, Side

ROOT = pathlib.Path(__file__).resolve().parent.parent
LIMIT_SECONDS = 300
# The project's targets: (case, ratio name, reference, minimum).
ENCRYPTED_RATE, SENDME_RATE, RSYNC_RATE = 1.5, 4.0, 1.0
# Targets of --plain over TCP.
PLAIN_RATES = {"rclone serve http": 0.9, "socat, plain TCP": 0.75}
CPU_SHARE, MEMORY_MB = 0.65, 64


def equal(a, b):
    command = ["diff", "-r", "-q", a, b] if os.path.isdir(a) else ["cmp", "-s", a, b]
    return subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode == 0


def run_once(mover_class, options, source, place):
    """One transfer: wall, cpu, memory of either side (MB), seconds until the sender was ready."""
    work = pathlib.Path(tempfile.mkdtemp(prefix="run-", dir=place))
    mover = mover_class(options, source, work)
    homes = [work / "home-a", work / "home-b"]
    for home in homes:
        home.mkdir()
    server, client = Side(homes[0]), Side(homes[1])
    try:
        began = time.monotonic()
        mover.serve(server)
        ready = time.monotonic() - began
        before = server.cpu()
        server.sample()
        command, kwargs = mover.fetch()
        with Sampler([server, client]):
            began = time.monotonic()
            process = client.start(command, **kwargs)
            code = client.finish(process, LIMIT_SECONDS)
            wall = time.monotonic() - began
        server.sample()
        cpu = client.cpu() + server.cpu() - before
        if code != 0:
            raise Failed(f"{mover.name} ended with {code}")
        if not equal(source, mover.copy):
            raise Failed(f"{mover.name}: the copy differs from the original")
    finally:
        client.stop()
        server.stop()
        shutil.rmtree(work, ignore_errors=True)
    megabyte = 1024 / 1e6
    return {
        "wall": wall,
        "cpu": cpu,
        "memory_out": server.peak * megabyte,
        "memory_in": client.peak * megabyte,
        "ready": ready,
    }


class Case:
    """One transfer task for all programs."""

    def __init__(self, key, title, source, size):
        self.key, self.title, self.source, self.size = key, title, source, size
        self.rows = {}
        self.problems = {}

    def medians(self):
        """For each program: median figures and the number of runs."""
        found = {}
        for name, rows in self.rows.items():
            figures = {key: statistics.median(row[key] for row in rows) for key in rows[0]}
            found[name] = {**figures, "rate": self.size / 1e6 / figures["wall"], "runs": len(rows)}
        return found


def measure(cases, chosen, options, place, say):
    for number in range(options.runs):
        turn = number % len(chosen)
        for case in cases:
            directory = os.path.isdir(case.source)
            for mover in chosen[turn:] + chosen[:turn]:
                rows = case.rows.get(mover.name, [])
                slow = rows and max(row["wall"] for row in rows) > options.patience
                if slow or mover.name in case.problems:
                    continue
                if not (mover.directories if directory else mover.files):
                    continue
                say(f"round {number + 1}, {case.title}: {mover.name}")
                try:
                    row = run_once(mover, options, case.source, place)
                except (Failed, OSError, subprocess.SubprocessError) as problem:
                    case.problems[mover.name] = str(problem)
                    case.rows.pop(mover.name, None)
                    say(f"  {problem}")
                    continue
                case.rows.setdefault(mover.name, []).append(row)


def judge(case, rows):
    """The targets of this case: (what, value, bound as text, met)."""
    ours = rows.get("xylem")
    plain = rows.get("xylem --plain, TCP")
    verdicts = []

    def least(what, value, bound):
        verdicts.append((what, value, f"at least {bound}", value >= bound))

    def most(what, value, bound):
        verdicts.append((what, value, f"at most {bound}", value <= bound))

    def peers(wanted):
        encrypted = [m.name for m in movers.MOVERS if m.encrypted and m.name != "xylem"]
        return {n: rows[n] for n in encrypted if n in rows} if wanted else {}

    if not ours:
        return verdicts
    if "rsync daemon" in rows:
        value = rows["rsync daemon"]["wall"] / ours["wall"]
        least("rate, of the rsync daemon's", value, RSYNC_RATE)
    if case.key == "large":
        for name, row in peers(True).items():
            bound = SENDME_RATE if name.startswith("sendme") else ENCRYPTED_RATE
            least(f"rate, of that of {name}", row["wall"] / ours["wall"], bound)
        if encrypted := peers(True):
            cpu = min(row["cpu"] for row in encrypted.values())
            most("processor time, of the least encrypted peer's", ours["cpu"] / cpu, CPU_SHARE)
        for name, bound in PLAIN_RATES.items():
            if plain and name in rows:
                value = rows[name]["wall"] / plain["wall"]
                least(f"rate of --plain (TCP), of that of {name}", value, bound)
    for side, key in (("sharing", "memory_out"), ("getting", "memory_in")):
        most(f"memory, {side}, MB", ours[key], MEMORY_MB)
    return verdicts


def cpu_model():
    for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor()


def markdown(cases, report):
    lines = [f"Machine: {report['machine']}; load {report['load']:.2f} at the start."]
    lines.append("Medians of interleaved runs; every copy compared with the original.\n")
    for case in cases:
        rows = case.medians()
        lines += [f"## {case.title}\n"]
        head = "| program | encrypted | verified | wall, s | MB/s | CPU of both sides, s |"
        lines += [head + " memory out / in, MB | ready after, s | runs |"]
        lines += ["|---|---|---|---|---|---|---|---|---|"]
        for mover in movers.MOVERS:
            if row := rows.get(mover.name):
                yes = ["yes" if flag else "no" for flag in (mover.encrypted, mover.verifies)]
                memory = f"{row['memory_out']:.0f} / {row['memory_in']:.0f}"
                cells = [mover.name, *yes, f"{row['wall']:.2f}", f"{row['rate']:.0f}"]
                cells += [f"{row['cpu']:.2f}", memory, f"{row['ready']:.2f}", str(row["runs"])]
                lines += ["| " + " | ".join(cells) + " |"]
        lines += [""]
        lines += [f"- failed: {name}: {why}" for name, why in case.problems.items()]
        for what, value, bound, met in judge(case, rows):
            lines += [f"- {'met' if met else 'MISSED'}: {what}: {value:.2f}, wanted {bound}"]
        lines += [""]
    lines += [f"- left out: {name}: {why}" for name, why in report["left_out"].items()]
    return "\n".join(lines)


def reports(cases, report):
    """The same as lines for `xylem bench` (bench/src/report.rs)."""
    columns = {"s": "wall", "MB/s": "rate", "CPU, s": "cpu", "MB out": "memory_out", "MB in": "memory_in"}
    ratio = "xylem / theirs"
    for case in cases:
        rows = case.medians()
        notes = [
            "Wall time of the receiver with the sender ready; processor time of both sides; peak memory of "
            "each. Every copy was compared with the original.",
            "The ratio is of rates: above 1 says that xylem's encrypted link is faster.",
        ]
        yield {
            "report": "heading", "table": "copies", "title": case.title, "unit": "in_columns",
            "label": "program", "figures": list(columns), "ratios": [ratio], "notes": notes,
        }  # fmt: skip
        ours = rows.get("xylem", {}).get("wall")
        for name, row in rows.items():
            wanted = None
            if name == "rsync daemon":
                wanted = RSYNC_RATE
            elif case.key == "large" and name.startswith("sendme"):
                wanted = SENDME_RATE
            elif case.key == "large" and any(m.name == name and m.encrypted for m in movers.MOVERS):
                wanted = ENCRYPTED_RATE
            ratios = []
            if ours and name != "xylem":
                value = round(row["wall"] / ours, 2)
                met = wanted is None or value >= wanted
                bound = None if wanted is None else {"at_least": wanted}
                ratios = [{"name": ratio, "value": value, "wanted": bound, "met": met}]
            figures = [
                {"name": shown, "value": row[key], "nanoseconds": None, "spread": None, "rounds": row["runs"]}
                for shown, key in columns.items()
            ]
            yield {
                "report": "row", "table": "copies", "label": name, "bytes": case.size,
                "figures": figures, "ratios": ratios,
            }  # fmt: skip
        for name, why in {**case.problems, **report["left_out"]}.items():
            yield {"report": "absent", "table": "copies", "what": name, "why": why}


def make_files(options, place):
    cases = []
    large = os.path.join(place, "source-large")
    small = os.path.join(place, "source-small", "small")
    os.makedirs(large)
    os.makedirs(small)
    if options.size:
        path = os.path.join(large, "big.bin")
        with open(path, "wb") as file:
            for at in range(0, options.size, 1 << 20):
                file.write(os.urandom(min(1 << 20, options.size - at)))
        title = f"one file of {options.size >> 20} MiB, random bytes"
        cases.append(Case("large", title, path, options.size))
    if options.files:
        for i in range(options.files):
            with open(os.path.join(small, f"{i:05}"), "wb") as file:
                file.write(os.urandom(4096))
        title = f"{options.files} files of 4 KiB"
        cases.append(Case("small", title, small, 4096 * options.files))
    return cases


class Options(argparse.Namespace):
    """The command line, and the paths of programs."""

    def folders(self):
        return [os.path.join(self.programs, "bin"), os.path.join(self.programs, "venv/bin"), *self.at]

    def find(self, name):
        return movers.find(name, self.folders())

    def python_with(self, module):
        candidates = [os.path.join(folder, "python3") for folder in self.folders()]
        return movers.python_with(module, candidates)


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", nargs="?", choices=["copies"], help="print reports for `xylem bench`")
    parser.add_argument("--quick", action="store_true", help="one round")
    parser.add_argument("--xylem", default=str(ROOT / "target/release/xylem"))
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--only", action="append", default=[], help="programs whose name contains it")
    parser.add_argument("--patience", type=float, default=15.0)
    parser.add_argument("--size", type=int, default=1 << 30)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--programs", default=str(ROOT / "target/movers"), help="where --install put them")
    parser.add_argument("--at", action="append", default=[], help="another folder with programs")
    parser.add_argument("--install", metavar="DIR")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args(namespace=Options())
    options.xylem = os.path.abspath(options.xylem)
    options.runs = 1 if options.quick else max(options.runs, 1)
    return options


def main():
    options = arguments()
    if options.install:
        return subprocess.call([str(ROOT / "bench/install_movers"), options.install])
    wanted = [m for m in movers.MOVERS if not options.only or any(o in m.name for o in options.only)]
    left_out = {m.name: why for m in wanted if (why := m.missing(options))}
    chosen = [m for m in wanted if m.name not in left_out]
    report = {
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, Linux {platform.release()}",
        "load": os.getloadavg()[0],
        "left_out": left_out,
    }
    place = tempfile.mkdtemp(prefix="xylem-bench-", dir=options.dir)
    try:
        cases = make_files(options, place)
        measure(cases, chosen, options, place, lambda line: print(line, file=sys.stderr, flush=True))
    finally:
        shutil.rmtree(place, ignore_errors=True)
    if options.table:
        for line in reports(cases, report):
            print(json.dumps(line))
    elif options.json:
        report["cases"] = {
            case.key: {"title": case.title, "rows": case.medians(), "failed": case.problems,
                       "wanted": judge(case, case.medians())}
            for case in cases
        }  # fmt: skip
        print(json.dumps(report, indent=1))
    else:
        print(markdown(cases, report))
    differs = any("differs" in why for case in cases for why in case.problems.values())
    return 1 if differs else 0


if __name__ == "__main__":
    sys.exit(main())
