#!/usr/bin/env python3
"""Folders in step: `xylem sync` beside Syncthing, two members on loopback, and ten.

    bench/sync.py [--xylem PATH] [--runs N] [--files N] [--mib N] [--only CASE,...] [--members N] [--rest SECONDS] [--large N] [--cut SECONDS]

Cases, one after the other in the same folders: `join` (N files of 4 KiB exist, from the start of both programs), `file`
(a file of M MiB is added), `block` (4 KiB in its middle change), `rename` (the folder of N files is renamed), `apart` (one
member is away while both change 100 files each, ten of them the same; from its start), `partition` (for CUT seconds no packet
passes between them, and both change as much; from its end; needs root and nft), `rest` (no changes). Then `ten`: so many members
of either begin with 100 files each, and `large`: N files, at rest (processor share of a member, memory of each member with all its processes,
after both have joined and after both have been restarted), and processor seconds of each member for one changed file. A row a program: wall
seconds until all folders are equal, processor seconds of all members, the largest of their resident memories. While the clock runs, folders
are compared by names, sizes and times. After each case `xylem sum` of every file of every member has to be the same, and the first twelve
digits of a hash of all these are printed. Medians over interleaved runs; everything on /dev/shm. Syncthing scans and watches as by default,
but it has its peer's address, contacts no servers, and waits 1 s after a change instead of 10.
"""

import argparse
import hashlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from processes import Failed, Side, descendants, free_port, line_with

PATIENCE = 1800
OWN = {".xylem-sync", ".stfolder", ".stversions"}


def tree(top):
    """Names, sizes and times of all files, without the programs' internal files."""
    found, todo = {}, [top]
    while todo:
        at = todo.pop()
        try:
            entries = list(os.scandir(at))
        except OSError:
            continue
        for entry in entries:
            if entry.name in OWN or entry.name.startswith((".syncthing.", "~syncthing~")):
                continue
            try:
                if entry.is_dir(follow_symlinks=False):
                    todo.append(entry.path)
                else:
                    stat = entry.stat(follow_symlinks=False)
                    found[os.path.relpath(entry.path, top)] = (stat.st_size, stat.st_mtime_ns // 1_000_000)
            except OSError:
                continue
    return found


def same(folders):
    first = tree(folders[0])
    return first and all(tree(other) == first for other in folders[1:])


def root(program, folder):
    """A hash of every file's name and BLAKE3 root, for folders that look equal."""
    names = sorted(tree(folder))
    listed = "".join(f"./{name}\0" for name in names).encode()
    summed = subprocess.run(
        ["xargs", "-0", program, "sum"], cwd=folder, input=listed, capture_output=True, check=True
    ).stdout.splitlines()
    if len(summed) != len(names):
        raise Failed(f"{folder}: {len(summed)} sums of {len(names)} files")
    return hashlib.blake2b(b"\n".join(sorted(summed))).hexdigest()[:12]


def wait_for(what, ready, pause=0.05):
    end = time.monotonic() + PATIENCE
    while not ready():
        if time.monotonic() > end:
            raise Failed(what)
        time.sleep(pause)


class Xylem:
    name = "xylem sync"

    def __init__(self, program, base, count):
        self.program, self.sums, self.sides = program, program, []
        # The same port after a restart, like a member with a fixed port.
        self.protocol, self.ports = "udp", [free_port() for _ in range(count)]
        self.folders = [base / f"folder-{n}" for n in range(count)]
        self.ticket = None
        for n, folder in enumerate(self.folders):
            folder.mkdir(parents=True)
            (base / f"home-{n}").mkdir()
            quiet = {"XYLEM_NO_LAN": "1", "XYLEM_NO_MAP": "1"}
            self.sides.append(Side(base / f"home-{n}", quiet))

    def start(self, n):
        first = self.ticket is None
        command = [self.program, "sync", self.folders[n], *([] if first else [self.ticket])]
        command += ["--as", f"m{n}", "--listen", f"127.0.0.1:{self.ports[n]}"]
        process = self.sides[n].start(command, stdout=subprocess.PIPE if first else subprocess.DEVNULL)
        if first:
            self.ticket = line_with(process, process.stdout, b"xylem-sync:").strip()

    def stop(self, n):
        self.sides[n].stop()

    def again(self, n):
        # The group exists already.
        at = f"127.0.0.1:{self.ports[n]}"
        self.sides[n].start([self.program, "sync", self.folders[n], "--as", f"m{n}", "--listen", at])


class Syncthing:
    name = "Syncthing"

    def __init__(self, program, base, count):
        """`program` is xylem, which hashes the folders."""
        self.sums, self.sides, self.folders, self.homes = program, [], [], []
        ids, ports = [], [free_port() for _ in range(count)]
        self.protocol, self.ports = "tcp", ports
        for n in range(count):
            folder, home = base / f"folder-{n}", base / f"home-{n}"
            folder.mkdir(parents=True)
            home.mkdir()
            subprocess.run(["syncthing", "generate", "--home", home, "--no-default-folder"], check=True, capture_output=True)
            ids.append(re.search(r'<device id="([A-Z0-9-]+)"', (home / "config.xml").read_text())[1])
            self.sides.append(Side(home))
            self.folders.append(folder)
            self.homes.append(home)
        for n, home in enumerate(self.homes):
            text = (home / "config.xml").read_text()
            devices = "".join(
                f'<device id="{ids[m]}" name="m{m}" compression="metadata"><address>tcp://127.0.0.1:{ports[m]}</address></device>'
                for m in range(count)
            )
            shared = "".join(f'<device id="{i}"></device>' for i in ids)
            folder = (
                f'<folder id="bench" label="bench" path="{self.folders[n]}" type="sendreceive" rescanIntervalS="3600" '
                f'fsWatcherEnabled="true" fsWatcherDelayS="1"><filesystemType>basic</filesystemType>{shared}</folder>'
            )
            text = re.sub(r"<device id=.*?</device>", "", text, flags=re.S)
            text = text.replace("<gui", folder + devices + "<gui", 1)
            for option in ("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled", "crashReportingEnabled"):
                text = re.sub(f"<{option}>.*?</{option}>", f"<{option}>false</{option}>", text)
            text = re.sub(r"<listenAddress>.*?</listenAddress>", f"<listenAddress>tcp://127.0.0.1:{ports[n]}</listenAddress>", text)
            text = re.sub(r"<address>127.0.0.1:8384</address>", f"<address>127.0.0.1:{free_port()}</address>", text)
            text = re.sub(r"<urAccepted>.*?</urAccepted>", "<urAccepted>-1</urAccepted>", text)
            (home / "config.xml").write_text(text)

    def start(self, n):
        self.sides[n].start(["syncthing", "serve", "--home", self.homes[n], "--no-browser", "--no-upgrade"])

    again = start

    def stop(self, n):
        self.sides[n].stop()


def many(folder, count, of):
    folder.mkdir(parents=True, exist_ok=True)
    for n in range(count):
        (folder / f"{n:05}.bin").write_bytes(n.to_bytes(4, "big") * 1023 + of.to_bytes(4, "big"))


def timed(group, what, change):
    """Seconds from the change until all are equal, and processor seconds meanwhile."""
    before, began = sum(side.cpu() for side in group.sides), time.monotonic()
    change()
    wait_for(what, lambda: same(group.folders))
    took = time.monotonic() - began
    cpu = sum(side.cpu() for side in group.sides) - before
    roots = {root(group.sums, folder) for folder in group.folders}
    if len(roots) != 1:
        raise Failed(f"{what}: the folders differ")
    print(f"{what}: {len(group.folders)} members of {group.name} have {roots.pop()}", file=sys.stderr)
    return {"seconds": took, "cpu": cpu}


class Cut:
    """While it lasts, no packet passes from or to the ports at which members listen."""

    def __init__(self, group):
        ports = ", ".join(map(str, group.ports))
        drop = "".join(f"{group.protocol} {which} {{ {ports} }} drop\n" for which in ("dport", "sport"))
        self.rules = f"table inet xylem_sync {{\nchain cut {{\ntype filter hook input priority 0;\n{drop}}}\n}}\n"

    def __enter__(self):
        subprocess.run(["nft", "-f", "-"], input=self.rules.encode(), check=True)

    def __exit__(self, *_):
        subprocess.run(["nft", "delete", "table", "inet", "xylem_sync"], check=True)


def both_change(group, where):
    """Writes 100 files in each folder, ten of them with the same names."""
    a, b = group.folders[0], group.folders[1]
    many(a / where, 100, 1)
    time.sleep(2)
    many(b / where, 10, 2)
    for n in range(90):
        (b / where / f"b{n}.bin").write_bytes(b"x" * 4096)


def resident(side):
    """MiB of all processes of a side: Syncthing's first process only supervises the working one."""
    total = 0
    for pid in descendants(process.pid for process in side.processes if process.poll() is None):
        try:
            status = pathlib.Path(f"/proc/{pid}/status").read_text()
            total += int(re.search(r"VmRSS:\s+(\d+)", status)[1])
        except (OSError, TypeError):
            pass
    return total / 1024


def memory(group):
    return max(resident(side) for side in group.sides)


def large(group, options):
    """Many files: at rest, and one that changes."""
    folders = max(options.large // 1000, 1)
    for n in range(folders):
        many(group.folders[0] / f"d{n:03}", min(options.large, 1000), n)
    row = {}

    def cpu():
        return [side.cpu() for side in group.sides]

    def both():
        group.start(0)
        group.start(1)

    joined = timed(group, "join", both)
    row |= {"join_seconds": joined["seconds"], "join_cpu": joined["cpu"]}
    time.sleep(5)
    row |= {f"joined_mib_{n}": resident(side) for n, side in enumerate(group.sides)}
    before = cpu()
    time.sleep(options.rest)
    row["rest_percent"] = max(b - a for a, b in zip(before, cpu())) / options.rest * 100
    for what in ("change", "again"):
        before = cpu()
        (group.folders[0] / "d000" / "00007.bin").write_bytes(os.urandom(4096))
        began = time.monotonic()
        wait_for("change", lambda: same([folder / "d000" for folder in group.folders]), 0.02)
        row[f"{what}_seconds"] = time.monotonic() - began
        time.sleep(4)
        row |= {f"{what}_cpu_{n}": b - a for n, (a, b) in enumerate(zip(before, cpu()))}
    row |= {f"changed_mib_{n}": resident(side) for n, side in enumerate(group.sides)}
    for n in range(2):
        group.stop(n)
    group.again(0)
    group.again(1)
    time.sleep(10)
    row |= {f"begun_again_mib_{n}": resident(side) for n, side in enumerate(group.sides)}
    for n in range(2):
        group.stop(n)
    return row


def run(group, options, wanted):
    a, b = group.folders[0], group.folders[1]
    rows = {}
    many(a / "many", options.files, 0)

    def both():
        group.start(0)
        group.start(1)

    rows["join"] = timed(group, "join", both)

    def file():
        with open(a / "large.new", "wb") as out:
            for n in range(options.mib):
                out.write(os.urandom(1 << 20))
        os.rename(a / "large.new", a / "large.bin")

    def block():
        with open(a / "large.bin", "r+b") as out:
            out.seek(options.mib << 19)
            out.write(os.urandom(4096))

    if "file" in wanted or "block" in wanted:
        rows["file"] = timed(group, "file", file)
    if "block" in wanted:
        rows["block"] = timed(group, "block", block)
    if "rename" in wanted:
        rows["rename"] = timed(group, "rename", lambda: os.rename(a / "many", a / "many-renamed"))
    if "apart" in wanted:
        group.stop(1)
        both_change(group, "apart")
        rows["apart"] = timed(group, "apart", lambda: group.again(1))
    if "partition" in wanted:
        with Cut(group):
            both_change(group, "cut")
            time.sleep(options.cut)
        rows["partition"] = timed(group, "partition", lambda: None)
    if "rest" in wanted:
        time.sleep(5)
        before = sum(side.cpu() for side in group.sides)
        time.sleep(options.rest)
        cpu = sum(side.cpu() for side in group.sides) - before
        rows["rest"] = {"seconds": options.rest, "cpu": cpu / len(group.sides) / options.rest * 100}
    rows["join"]["memory"] = memory(group)
    for n in range(len(group.sides)):
        group.stop(n)
    return rows


def ten(group, options):
    for n, folder in enumerate(group.folders):
        many(folder / f"of-{n}", 100, n)

    def all_of_them():
        for n in range(options.members):
            group.start(n)

    row = timed(group, "join", all_of_them)
    row["memory"] = memory(group)
    for n in range(options.members):
        group.stop(n)
    return {"ten": row}


def begun(kind, options, base, count):
    return (Xylem if kind == Xylem.name else Syncthing)(options.xylem, base, count)


def told(case, kind, row):
    """Prints one run at once, so that an interrupted series is not lost."""
    print(case, kind, json.dumps({key: round(value, 3) for key, value in row.items()}), file=sys.stderr, flush=True)


def print_large(options):
    kinds = [Xylem.name] + ([Syncthing.name] if shutil.which("syncthing") and not options.alone else [])
    found = {kind: [] for kind in kinds}
    for _ in range(options.runs):
        for kind in kinds:
            with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="sync-") as base:
                base = pathlib.Path(base)
                group = begun(kind, options, base, 2)
                try:
                    found[kind].append(large(group, options))
                    told("large", kind, found[kind][-1])
                finally:
                    for side in group.sides:
                        side.stop()
    for key in found[kinds[0]][0]:
        print(f"{key:20}", *(f"{kind} {statistics.median(row[key] for row in found[kind]):9.2f}" for kind in kinds))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xylem", default="target/release/xylem", type=pathlib.Path)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--files", type=int, default=10_000)
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--members", type=int, default=10)
    parser.add_argument("--rest", type=int, default=30)
    parser.add_argument("--cut", type=int, default=60)
    parser.add_argument("--large", type=int, default=100_000)
    parser.add_argument("--only", default="join,file,block,rename,apart,partition,rest,ten")
    parser.add_argument("--alone", action="store_true", help="`large` without Syncthing")
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    options.xylem = options.xylem.resolve()
    wanted = options.only.split(",")
    found = {}
    # Leftovers of an interrupted run.
    if "partition" in wanted:
        subprocess.run(["nft", "delete", "table", "inet", "xylem_sync"], capture_output=True)
    if "large" in wanted:
        return print_large(options)
    kinds = [Xylem.name] + ([Syncthing.name] if shutil.which("syncthing") else [])
    parts = []
    if wanted != ["ten"]:
        parts.append((2, lambda group: run(group, options, wanted)))
    if "ten" in wanted:
        parts.append((options.members, lambda group: ten(group, options)))
    for _ in range(options.runs):
        for count, part in parts:
            for kind in kinds:
                with tempfile.TemporaryDirectory(dir="/dev/shm", prefix="sync-") as base:
                    group = begun(kind, options, pathlib.Path(base), count)
                    try:
                        for case, row in part(group).items():
                            found.setdefault((case, kind), []).append(row)
                            told(case, kind, row)
                    finally:
                        for side in group.sides:
                            side.stop()
    print(f"{'case':8} {'program':12} {'seconds':>9} {'cpu':>9} {'MiB':>7}")
    rows = []
    for (case, kind), all_rows in sorted(found.items()):
        middle = {key: statistics.median(row[key] for row in all_rows) for key in all_rows[0]}
        rows.append({"case": case, "program": kind, **middle})
        unit = "%" if case == "rest" else "s"
        print(f"{case:8} {kind:12} {middle['seconds']:9.2f} {middle['cpu']:8.2f}{unit} {middle.get('memory', 0):7.1f}")
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1))


if __name__ == "__main__":
    main()
