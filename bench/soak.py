#!/usr/bin/env python3
"""A week in a day: the real program for half an hour, with all kinds of events at once.

Usage: bench/soak.py [--minutes N] [--seed N] [--processes N] [--xylem PATH] [--json]

Two dozen processes: permanent shares, a background node with changing shares, a forwarder with a share
behind it, shares that are killed (SIGKILL), ended and started again, often with new content, and
fetches of files and directories: fresh, onto older copies, with old copies, onto small disks that are full,
killed at random moments and resumed. The clocks of some jump by days and years (libfaketime). Every
result is compared with its source, byte for byte; every store is checked.

Memory (resident) and open files of the permanent processes are sampled; a line is fitted through the second
half of the samples. Exit 1 if a result differed, a run ended in a way or with a code that it must not, or
memory or open files grew. Random choices follow from the seed; the timing of events does not.
"""

import argparse
import collections
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
from faults import BUGS, Skip, faketime  # noqa: E402
from processes import free_port  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parent.parent
DONE, DAMAGED, UNREACHABLE, LOCAL = 0, 1, 3, 4
# Tries after which a fetch counts as one that never ends.
TRIES = 40
# Growth over the second half that is tolerated: bytes, open files, or this share of the total.
MEMORY_SLACK, FILES_SLACK, PART = 4 << 20, 8, 0.1
# Minutes below which growth is not judged: the processes still warm up.
LONG_ENOUGH = 5
SAMPLE_SECONDS = 2
JUMPS = ["+1d", "-1d", "+10y", "-10y", "+0", "+3m", "-7s"]


class Wrong(Exception):
    """A violation."""


class Soak:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.ends = time.monotonic() + 60 * options.minutes
        self.lock = threading.Lock()
        self.counts = collections.Counter()
        self.problems = []
        self.sources = {}  # ticket → folder or file of it
        self.forwarder = None  # its URI, and the ticket of the share behind it
        self.fresh = 0
        try:
            self.faketime = faketime()
        except Skip:
            self.faketime = None

    def over(self):
        return time.monotonic() >= self.ends or bool(self.problems)

    def rest(self, seconds):
        time.sleep(max(0.0, min(seconds, self.ends - time.monotonic())))

    def count(self, what):
        with self.lock:
            self.counts[what] += 1

    def new(self, name):
        with self.lock:
            self.fresh += 1
            return self.folder / f"{name}-{self.fresh}"

    def command(self, store, *arguments):
        return [str(part) for part in (self.options.xylem, "--store", store, *arguments)]

    def clock(self):
        """An environment with a clock that a file sets, and that file."""
        if not self.faketime:
            return {}, None
        clock = self.new("clock")
        clock.write_text("+0\n")
        return {
            "LD_PRELOAD": self.faketime,
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            # A step of the clock does not change the monotonic clock.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }, clock

    def run(self, store, *arguments, codes=(DONE,)):
        ended = subprocess.run(
            self.command(store, *arguments), capture_output=True, timeout=120, check=False
        )
        judge(arguments[0], ended.returncode, ended.stderr, codes)
        return ended

    def guard(self, work, dice):
        """A thread that runs `work` until the end of the run; an error ends the whole run."""

        def guarded():
            try:
                work(dice)
            except Exception as problem:  # noqa: BLE001: whatever it is, the soak has failed
                with self.lock:
                    self.problems.append(f"{type(problem).__name__}: {problem}")

        thread = threading.Thread(target=guarded)
        thread.start()
        return thread


def judge(what, code, said, codes):
    said = said.decode(errors="replace").strip()
    if any(bug in said for bug in BUGS):
        raise Wrong(f"`{what}` reported a bug: {said[-400:]}")
    if code not in codes:
        raise Wrong(f"`{what}` ended with {code}: {said[-400:]}")
    if code and not said:
        raise Wrong(f"`{what}` ended with {code} and printed nothing")


def make_source(soak, dice):
    """A file, or a directory of small ones and a larger one."""
    path = soak.new("source")
    if dice.random() < 0.4:
        path.write_bytes(dice.randbytes(dice.randrange(1, 3 << 20)))
        return path
    path.mkdir()
    (path / "inner").mkdir()
    (path / "large").write_bytes(dice.randbytes(dice.randrange(1 << 20)))
    for number in range(dice.randrange(2, 40)):
        where = path / ("inner" if number % 3 == 0 else ".")
        (where / f"small-{number}").write_bytes(dice.randbytes(dice.randrange(20_000)))
    return path


def make_older(source, out, dice):
    """An older copy of a source: some of it is changed."""
    if source.is_dir():
        shutil.copytree(source, out)
        files = [path for path in sorted(out.rglob("*")) if path.is_file()]
    else:
        shutil.copy(source, out)
        files = [out]
    for path in dice.sample(files, min(3, len(files))):
        content = bytearray(path.read_bytes())
        if content:
            content[dice.randrange(len(content))] ^= 1
            path.write_bytes(content)


def remove(path):
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()


def same(source, out):
    command = ["diff", "-rq"] if source.is_dir() else ["cmp", "-s"]
    return subprocess.run([*command, source, out], capture_output=True, check=False).returncode == 0


# ---- sharers -----------------------------------------------------------------------------------


class Share:
    """A `xylem share` of one source, at a port of its own."""

    def __init__(self, soak, dice, *more):
        self.soak, self.dice, self.more = soak, dice, more
        self.store, self.port = soak.new("store"), free_port()
        self.source = make_source(soak, dice)
        self.process = self.ticket = None

    def start(self, environment=None):
        self.errors = open(self.soak.new("errors"), "w+b")
        self.process = subprocess.Popen(
            self.soak.command(
                self.store, "-q", "share", self.source, "--foreground",
                "--listen", f"127.0.0.1:{self.port}", *self.more,
            ),
            stdout=subprocess.PIPE,
            stderr=self.errors,
            env=dict(os.environ, **(environment or {})),
        )
        ticket = self.process.stdout.readline().decode().strip()
        if not ticket:
            self.end(signal.SIGKILL, said=True)
        with self.soak.lock:
            if self.ticket != ticket:
                self.soak.sources.pop(self.ticket, None)
            self.ticket = ticket
            self.soak.sources[ticket] = self.source

    def end(self, how, said=False):
        self.process.send_signal(how)
        code = self.process.wait(60)
        self.errors.seek(0)
        text = self.errors.read()
        self.errors.close()
        os.unlink(self.errors.name)
        judge("share", code, text or b"-", (DONE, 130, 143) if how != signal.SIGKILL else (-9,))
        if said:
            raise Wrong(f"share printed no ticket: {text.decode(errors='replace')[-300:]}")


def comes_and_goes(soak):
    """A share that is killed or ended and comes back, with a clock that jumps."""

    def work(dice):
        share = Share(soak, dice)
        while not soak.over():
            environment, clock = soak.clock()
            share.start(environment)
            until = time.monotonic() + dice.uniform(4, 40)
            while time.monotonic() < until and not soak.over():
                if clock and dice.random() < 0.3:
                    clock.write_text(dice.choice(JUMPS) + "\n")
                    soak.count("clock jumps")
                soak.rest(1)
            killed = dice.random() < 0.5
            share.end(signal.SIGKILL if killed else dice.choice([signal.SIGTERM, signal.SIGINT]))
            soak.count("shares killed" if killed else "shares ended")
            if clock:
                clock.unlink()
            soak.run(share.store, "store", "check")
            if dice.random() < 0.5:
                with soak.lock:
                    soak.sources.pop(share.ticket, None)
                # A getter may be comparing with the old source.
                share.source = make_source(soak, dice)
            soak.rest(dice.uniform(0, 3))

    return work


def background(soak, node):
    """Shares and unshares at the background node."""

    def work(dice):
        shared = []
        while not soak.over():
            if len(shared) < 4 and dice.random() < 0.6:
                source = make_source(soak, dice)
                ticket = soak.run(node.store, "-q", "share", source).stdout.decode().split()[-1]
                with soak.lock:
                    soak.sources[ticket] = source
                shared.append((ticket, source))
                soak.count("shared with the background node")
            elif shared:
                ticket, source = shared.pop(dice.randrange(len(shared)))
                with soak.lock:
                    soak.sources.pop(ticket)
                soak.run(node.store, "unshare", source)
                soak.count("unshared")
            soak.rest(dice.uniform(2, 8))

    return work


class Resident:
    """A permanent process, with its resource usage."""

    def __init__(self, name, process):
        self.name, self.process, self.samples = name, process, []

    def sample(self, at):
        folder = pathlib.Path(f"/proc/{self.process.pid}")
        try:
            pages = int((folder / "statm").read_text().split()[1])
            files = len(os.listdir(folder / "fd"))
        except (FileNotFoundError, ProcessLookupError, PermissionError) as gone:
            raise Wrong(f"{self.name} ended by itself, with {self.process.poll()}") from gone
        self.samples.append((at, pages * os.sysconf("SC_PAGE_SIZE"), files))

    def grown(self, which):
        """Growth over the second half by the best line, and the mean there."""
        half = self.samples[len(self.samples) // 2 :]
        times, values = [s[0] for s in half], [s[which] for s in half]
        mean_time, mean = sum(times) / len(times), sum(values) / len(values)
        spread = sum((at - mean_time) ** 2 for at in times)
        slope = sum((at - mean_time) * (v - mean) for at, v in zip(times, values)) / (spread or 1)
        return slope * (times[-1] - times[0]), mean


# ---- getters -----------------------------------------------------------------------------------


def fetches(soak, small_disk):
    def work(dice):
        while not soak.over():
            with soak.lock:
                known = list(soak.sources.items())
            if not known:
                soak.rest(0.5)
                continue
            one_fetch(soak, dice, *dice.choice(known), small_disk)
            soak.rest(dice.uniform(0, 2))

    return work


def one_fetch(soak, dice, ticket, source, small_disk):
    store, home = soak.new("store"), soak.new("home")
    home.mkdir()
    # Into the folder, under the publisher's name: an existing copy is merged then.
    out, options = home / source.name, []
    kind = dice.random()
    if kind < 0.2:
        make_older(source, out, dice)
        options += ["--overwrite"] + (["--delete"] if dice.random() < 0.5 else [])
    elif kind < 0.3:
        make_older(source, home / "old", dice)
        options += ["--like", str(home / "old")]
    elif small_disk and kind < 0.5:
        out = small_disk / home.name / source.name
        out.parent.mkdir()
        # Room for a part of it, until the filler is removed.
        filler = small_disk / f"filler-{home.name}"
        free = shutil.disk_usage(small_disk).free
        try:
            filler.write_bytes(bytes(max(0, free - dice.randrange(1 << 20))))
        except OSError:
            pass
    if dice.random() < 0.3:
        options += ["--fsync"]
    if soak.forwarder and soak.forwarder[1] == ticket and dice.random() < 0.6:
        options += ["--from", soak.forwarder[0]]
        soak.count("by the forwarder")
    if dice.random() < 0.7:
        options += ["--limit", dice.choice(["200K", "500K", "1M"])]
    for number in range(TRIES):
        if soak.over():
            break
        environment, clock = soak.clock() if dice.random() < 0.3 else ({}, None)
        process = subprocess.Popen(
            soak.command(store, "-q", "get", ticket, "-o", out.parent, "--timeout", "5", *options),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(os.environ, **environment),
        )
        killed = dice.random() < 0.4 and number < TRIES // 2
        until = time.monotonic() + (dice.expovariate(1.5) if killed else 120)
        while process.poll() is None and time.monotonic() < until:
            if clock and dice.random() < 0.3:
                clock.write_text(dice.choice(JUMPS) + "\n")
                soak.count("clock jumps")
            time.sleep(0.05)
        if process.poll() is None:
            process.kill()
            if not killed:
                raise Wrong("a fetch did not end")
        said = process.communicate()[1]
        if clock:
            clock.unlink()
        if process.returncode == -9:
            soak.count("fetches killed")
            continue
        judge("get", process.returncode, said, (DONE, UNREACHABLE, LOCAL))
        if process.returncode == DONE:
            if not same(source, out):
                raise Wrong(f"{out} differs from {source}")
            soak.count("fetches right")
            break
        if process.returncode == LOCAL:
            if b"no space left" not in said and b"No space left" not in said:
                raise Wrong(f"exit 4: {said.decode(errors='replace')[-300:]}")
            soak.count("full disks")
            for filler in small_disk.glob("filler-*") if small_disk else ():
                filler.unlink(missing_ok=True)
            remove(out.parent) if number > 3 and small_disk in out.parents else None
            out.parent.mkdir(exist_ok=True)
        else:
            soak.count("fetches without a reachable sharer")
            with soak.lock:
                if ticket not in soak.sources:
                    break
        soak.rest(0.5)
    else:
        raise Wrong(f"{source} was not fetched in {TRIES} tries")
    if (store / "format").exists():
        if dice.random() < 0.2:
            soak.run(store, "store", "gc")
        if dice.random() < 0.2 and out.exists():
            soak.run(store, "scrub", out, codes=(DONE, DAMAGED, LOCAL, 2))
        soak.run(store, "store", "check")
    for path in (out.parent, home, store):
        remove(path)


def residents(soak, dice):
    """Starts the permanent processes; returns them, and how to end them."""
    found, ends = [], []
    # Programs that connect by a socket of this machine may register names.
    socket = f"unix://{soak.folder}/node.sock"
    node = subprocess.Popen(
        soak.command(soak.new("store"), "-q", "ndn", "node", "--listen", socket),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    found.append(Resident("node", node))
    ends.append((lambda: node.terminate(), node))
    time.sleep(1)
    for number in range(4):
        more = ["--via", socket] if number == 0 else []
        share = Share(soak, random.Random(dice.random()), *more)
        share.start()
        if more:
            soak.forwarder = (more[1], share.ticket)
        found.append(Resident(f"share {number + 1}" + (" --via" if more else ""), share.process))
        ends.append((lambda share=share: share.process.terminate(), share.process))
    store = soak.new("store")
    service = subprocess.Popen(
        soak.command(store, "-q", "service", "run", "--listen", f"127.0.0.1:{free_port()}"),
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    resident = Resident("service", service)
    resident.store = store
    found.append(resident)
    ends.append((lambda: service.terminate(), service))
    time.sleep(1)
    return found, ends


def mounted(folder):
    """A disk of 3 MiB, if this user may mount one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def soak(options, folder):
    dice, world = random.Random(options.seed), Soak(options, folder)
    small = folder / "small"
    has_small = mounted(small)
    if not has_small:
        print("soak: no small disk can be mounted here; full disks SKIPPED", file=sys.stderr)
    if not world.faketime:
        print("soak: no libfaketime; jumps of the clock SKIPPED", file=sys.stderr)
    staying, ends = residents(world, dice)
    work = [background(world, staying[-1]), *(comes_and_goes(world) for _ in range(4))]
    getters = max(1, options.processes - len(staying) - 4)
    work += [fetches(world, small if has_small and n < 3 else None) for n in range(getters)]
    threads = [world.guard(part, random.Random(dice.random())) for part in work]
    began, started = time.monotonic(), time.time()
    try:
        while not world.over():
            for resident in staying:
                resident.sample(time.monotonic() - began)
            world.rest(SAMPLE_SECONDS)
    except Wrong as problem:
        world.problems.append(str(problem))
    finally:
        world.ends = 0
        for thread in threads:
            thread.join()
        for end, process in ends:
            end()
            if process.wait(60) not in (0, 130, 143):
                world.problems.append(f"a long-running process ended with {process.returncode}")
        for process in list_children():
            world.problems.append(f"a process is left over: {process}")
        if has_small:
            subprocess.run(["umount", "-l", str(small)], check=False)
        remove_shared_clocks(started)
    return world, staying, time.monotonic() - began


def remove_shared_clocks(since):
    """Removes shared memory that libfaketime left after kills."""
    for left in pathlib.Path("/dev/shm").glob("*faketime_s*_*"):
        pid = left.name.rpartition("_")[2]
        if left.stat().st_mtime >= since and not pathlib.Path(f"/proc/{pid}").exists():
            left.unlink(missing_ok=True)


def list_children():
    """Names of processes that were started here and still run."""
    mine = pathlib.Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()
    return [pathlib.Path(f"/proc/{pid}/comm").read_text().strip() for pid in mine]


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xylem", default=str(ROOT / "target/release/xylem"))
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--processes", type=int, default=24, help="of the program, at a time")
    parser.add_argument("--seed", type=int, default=int(os.environ.get("SEED", "1")))
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main():
    options = arguments()
    print(f"soak: seed {options.seed}, {options.minutes:g} minutes, {options.processes} processes")
    with tempfile.TemporaryDirectory(prefix="xylem-soak-", dir=options.dir) as folder:
        world, staying, took = soak(options, pathlib.Path(folder))
    rows = []
    for resident in staying:
        if len(resident.samples) < 8:
            continue
        (memory, mean), (files, mean_files) = resident.grown(1), resident.grown(2)
        rows.append({
            "process": resident.name,
            "memory_mib": round(mean / 2**20, 1),
            "memory_growth_kib": round(memory / 1024),
            "files": round(mean_files, 1),
            "files_growth": round(files, 1),
        })
        if options.minutes < LONG_ENOUGH:
            continue
        if memory > max(MEMORY_SLACK, PART * mean):
            world.problems.append(f"{resident.name}: memory grows")
        if files > max(FILES_SLACK, PART * mean_files):
            world.problems.append(f"{resident.name}: open files grow")
    report = {
        "seed": options.seed, "seconds": round(took), "counts": dict(sorted(world.counts.items())),
        "staying": rows, "problems": world.problems,
    }
    if options.json:
        print(json.dumps(report))
        return 1 if world.problems else 0
    print(f"after {took:.0f} s: " + ", ".join(f"{n} {what}" for what, n in sorted(world.counts.items())))
    print("\n| process | memory, second half | growth there | open files | growth there |")
    print("|---|---:|---:|---:|---:|")
    for row in rows:
        print(
            f"| {row['process']} | {row['memory_mib']} MiB | {row['memory_growth_kib']} KiB | "
            f"{row['files']} | {row['files_growth']} |"
        )
    for problem in world.problems:
        print(f"WRONG: {problem}")
    return 1 if world.problems else 0


if __name__ == "__main__":
    sys.exit(main())
