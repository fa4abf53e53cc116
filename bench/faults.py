#!/usr/bin/env python3
"""Injects faults into the program on one machine and checks the results: the fault table of docs/reliability.md.

Usage: bench/faults.py [--times N] [--only TEXT] [--json] [--list]

Each case does the same to real processes N times, at random moments or places (--seed), or at every
Nth system call (strace), and checks afterwards: a file with its final name is the original, byte for
byte; the run ended with a code that docs and `--help` allow, without a panic; the next, undisturbed
run ends with 0; it finds the verified data; the store is right (`xylem store check`). A case whose
tool or command is missing is skipped by name. Exit 1 when one trial of any case failed.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
DONE, DAMAGED, UNREACHABLE, LOCAL = 0, 1, 3, 4
SECONDS = 90
# Parts of a line that show a bug and not a fault.
BUGS = ("panicked", "this is a bug", "RUST_BACKTRACE", "stack backtrace")


class Wrong(Exception):
    """A failed trial."""


class Loader(Exception):
    """The fault hit the system's loader, before the program."""


class Skip(Exception):
    """A case that is not possible here."""


class World:
    """A folder with originals, a store, and the program."""

    def __init__(self, options, folder, dice):
        self.xylem, self.folder, self.dice = options.xylem, folder, dice
        self.source = folder / "source"
        self.source.mkdir()
        (self.source / "large").write_bytes(os.urandom(options.size))
        for i in range(40):
            (self.source / f"small-{i}").write_bytes(os.urandom(1 + 500 * i))
        self.share = None
        self.fresh = 0

    def new(self, name):
        """A path that does not exist yet."""
        self.fresh += 1
        path = self.folder / f"{name}-{self.fresh}"
        return path

    def command(self, store, *arguments):
        return [str(part) for part in (self.xylem, "--store", store, *arguments)]

    def run(self, store, *arguments, prefix=(), environment=None, codes=(DONE,)):
        """Runs to the end; the exit code has to be one of `codes`."""
        command = [*map(str, prefix), *self.command(store, *arguments)]
        ended = subprocess.run(
            command,
            capture_output=True,
            timeout=SECONDS,
            env=dict(os.environ, **(environment or {})),
            check=False,
        )
        said = ended.stderr.decode(errors="replace")
        if ended.returncode == 127 and prefix:
            raise Loader
        if any(bug in said for bug in BUGS):
            raise Wrong(f"a bug was reported: {said.strip()[-300:]}")
        if ended.returncode not in codes:
            raise Wrong(f"`{arguments[0]}` ended with {ended.returncode}: {said.strip()[-300:]}")
        if ended.returncode in (UNREACHABLE, LOCAL) and not said.strip():
            raise Wrong(f"`{arguments[0]}` ended with {ended.returncode} and printed nothing")
        return ended

    def killed(self, store, *arguments, longest):
        """Starts a run and kills it at a random moment; returns its standard output so far."""
        process = subprocess.Popen(
            self.command(store, *arguments), stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )
        try:
            out, _ = process.communicate(timeout=self.dice.uniform(0, longest))
        except subprocess.TimeoutExpired:
            process.kill()
            out, _ = process.communicate()
        return out.decode(errors="replace")

    def shared(self):
        """The ticket of a share that runs until the end of the case."""
        if self.share is None:
            self.share = Share(self, self.source, self.folder / "store-share")
        return self.share.ticket

    def stop(self):
        if self.share:
            self.share.stop()
            self.share = None

    def same(self, copy, original=None):
        original = original or self.source
        command = ["diff", "-rq"] if original.is_dir() else ["cmp", "-s"]
        ended = subprocess.run([*command, original, copy], capture_output=True, check=False)
        return ended.returncode == 0

    def must_be_same(self, copy, original=None):
        if not self.same(copy, original):
            raise Wrong("the copy differs from the original")

    def finish(self, store, out, verified=0, ticket=None, original=None, slack=8192):
        """The undisturbed run after a fault: exit code 0, the right bytes, and verified data are found, except for
        one in 256 and `slack` bytes."""
        if out.exists():
            self.must_be_same(out, original)
            return
        ended = self.run(store, "--json", "get", ticket or self.shared(), "-o", out)
        self.must_be_same(out, original)
        done = last(ended.stdout.decode(), "done")
        if done.get("resumed", 0) < verified - verified // 256 - slack:
            raise Wrong(f"{verified} bytes had been verified, but only {done.get('resumed')} were resumed")

    def check(self, store):
        # Killed early enough, a run leaves none.
        if (store / "format").exists():
            self.run(store, "store", "check")

    def flip(self, path):
        """Flips one bit of a file as a disk does: its times stay."""
        before = path.stat()
        size = before.st_size
        if size == 0:
            raise Wrong(f"{path} is empty")
        at = self.dice.randrange(size)
        with open(path, "r+b") as file:
            file.seek(at)
            byte = file.read(1)[0]
            file.seek(at)
            file.write(bytes([byte ^ 1 << self.dice.randrange(8)]))
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        return at


class Share:
    """A running `xylem share`."""

    def __init__(self, world, source, store, environment=None):
        command = world.command(store, "-q", "share", source, "--listen", "127.0.0.1:0")
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=dict(os.environ, **(environment or {})),
        )
        self.ticket = self.process.stdout.readline().decode().strip()
        if not self.ticket:
            raise Wrong("share printed no ticket")

    def stop(self):
        self.process.terminate()
        if self.process.wait(20) != 0:
            raise Wrong(f"share ended with {self.process.returncode}")


def last(events, name):
    """The last event of a name, or an empty one; a line cut by the kill is ignored."""
    found = {}
    for line in events.splitlines():
        try:
            event = json.loads(line)
        except ValueError:
            continue
        if event.get("event") == name:
            found = event
    return found


def took(world, *arguments):
    """Seconds of an undisturbed run in a store of its own."""
    began = time.monotonic()
    world.run(world.new("store"), *arguments)
    return time.monotonic() - began


# ---- killed at random moments ------------------------------------------------------------------


def kill_publish(world, times):
    root = world.run(world.new("store"), "sum", "--tree", world.source).stdout.split()[0]
    began = time.monotonic()
    Share(world, world.source, world.new("store")).stop()
    longest = 1.2 * (time.monotonic() - began)
    for _ in range(times):
        store = world.new("store")
        world.killed(store, "-q", "share", world.source, "--listen", "127.0.0.1:0", longest=longest)
        world.check(store)
        again = Share(world, world.source, store)
        out = world.new("out")
        world.run(world.new("store"), "get", again.ticket, "-o", out)
        again.stop()
        world.must_be_same(out)
        found = world.run(store, "sum", "--tree", out).stdout.split()[0]
        if found != root:
            raise Wrong("another root after the kill")
        shutil.rmtree(out)
        yield


def kill_fetch(world, times):
    """Kills fetches of a file and a directory in turn. A file may lack the tree nodes of a few segments. In a
    directory up to 256 segments that count as verified may be on their way to the disk (docs/spec/store.md)."""
    longest = 1.1 * took(world, "get", world.shared(), "-o", world.new("out"))
    large = world.source / "large"
    file = Share(world, large, world.new("store"))
    try:
        for number in range(times):
            store, out = world.new("store"), world.new("out")
            alone = number % 2 == 0
            ticket = file.ticket if alone else world.shared()
            said = world.killed(store, "--json", "get", ticket, "-o", out, longest=longest)
            verified = last(said, "progress").get("verified", 0)
            slack = 8 * 8192 if alone else 256 * 8192
            world.finish(store, out, verified, ticket, large if alone else None, slack)
            world.check(store)
            out.unlink() if alone else shutil.rmtree(out)
            shutil.rmtree(store)
            yield
    finally:
        file.stop()


def fetched(world):
    """A finished fetch: its store and its path."""
    store, out = world.new("store"), world.new("out")
    world.run(store, "get", world.shared(), "-o", out)
    return store, out


def kill_scrub(world, times):
    store, out = fetched(world)
    began = time.monotonic()
    world.run(store, "scrub", out)
    longest = 1.2 * (time.monotonic() - began)
    for _ in range(times):
        world.killed(store, "scrub", out, longest=longest)
        world.must_be_same(out)
        world.run(store, "scrub", out)
        world.check(store)
        yield


def kill_repair(world, times):
    store, out = fetched(world)
    repair = ("scrub", out, "--repair", "--from", world.shared())
    longest = None
    for _ in range(times):
        for _ in range(5):
            world.flip(out / "large")
        if longest is None:
            began = time.monotonic()
            world.run(store, *repair)
            longest = 1.2 * (time.monotonic() - began)
        else:
            world.killed(store, *repair, longest=longest)
            world.run(store, *repair)
        world.must_be_same(out)
        world.run(store, "scrub", out)
        world.check(store)
        yield


def kill_gc(world, times):
    for _ in range(times):
        store = world.new("store")
        kept, gone = world.new("kept"), world.new("gone")
        for path in (kept, gone):
            path.write_bytes(os.urandom(300_000))
            Share(world, path, store).stop()
        gone.unlink()
        world.killed(store, "store", "gc", longest=0.05)
        world.check(store)
        listed = world.run(store, "store", "list").stdout.decode()
        if kept.name not in listed:
            raise Wrong("`store gc` removed other files than its own")
        world.run(store, "scrub", kept)
        world.run(store, "store", "gc")
        world.run(store, "scrub", kept)
        world.check(store)
        yield


# ---- a disk that fails -------------------------------------------------------------------------


def strace(rule):
    program = shutil.which("strace")
    if not program:
        raise Skip("no strace")
    return [program, "-f", "-qq", "-o", "/dev/null", "-e", f"inject={rule}"]


def calls(first=1):
    """The calls that fail: every one of the first twelve, then fewer and fewer."""
    n = first
    while True:
        yield n
        n += 1 if n < 12 else max(1, n // 3)


def failing(world, times, rules, act, after):
    """Makes the Nth call of each of `rules` fail, for growing N."""
    for rule in rules:
        tried, numbers = 0, calls()
        while tried < times:
            n = next(numbers)
            try:
                state = act(world, strace(f"{rule}:when={n}"))
            except Loader:
                continue
            after(world, *state)
            tried += 1
            yield


def failing_fetch(errors, mends=False):
    def act(world, prefix):
        store, out = world.new("store"), world.new("out")
        # The store exists already: its format is written once.
        Share(world, world.source / "small-1", store).stop()
        codes = (DONE, DAMAGED, UNREACHABLE, LOCAL)
        world.run(store, "get", world.shared(), "-o", out, prefix=prefix, codes=codes)
        return store, out

    def after(world, store, out):
        if out.exists():
            world.must_be_same(out)
        world.finish(store, out)
        if mends:
            # A tree that the disk lost is reported as missing, and made again.
            repair = ("store", "check", "--repair-tree")
            world.run(store, *repair, codes=(DONE, DAMAGED))
        world.check(store)
        shutil.rmtree(out)
        shutil.rmtree(store)

    return lambda world, times: failing(world, times, errors, act, after)


def failing_publish(errors):
    def act(world, prefix):
        store = world.new("store")
        process = subprocess.Popen(
            [*prefix, *world.command(store, "share", world.source, "--listen", "127.0.0.1:0")],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        ticket = process.stdout.readline()
        if ticket:
            os.killpg(process.pid, signal.SIGTERM)
        said = process.communicate(timeout=SECONDS)[1].decode(errors="replace")
        if any(bug in said for bug in BUGS):
            raise Wrong(f"a bug was reported: {said[-300:]}")
        if process.returncode == 127:
            raise Loader
        if not ticket and process.returncode not in (LOCAL, DAMAGED):
            raise Wrong(f"share ended with {process.returncode}: {said[-300:]}")
        return (store,)

    def after(world, store):
        again = Share(world, world.source, store)
        out = world.new("out")
        world.run(world.new("store"), "get", again.ticket, "-o", out)
        again.stop()
        world.must_be_same(out)
        world.check(store)
        shutil.rmtree(out)

    return lambda world, times: failing(world, times, errors, act, after)


def failing_scrub(errors):
    def act(world, prefix):
        store, out = world.new("store"), world.new("out")
        world.run(store, "get", world.shared(), "-o", out)
        world.run(store, "scrub", out, prefix=prefix, codes=(DONE, DAMAGED, LOCAL))
        return store, out

    def after(world, store, out):
        world.must_be_same(out)
        world.run(store, "scrub", out)
        world.check(store)
        shutil.rmtree(out)

    return lambda world, times: failing(world, times, errors, act, after)


WRITE_ERRORS = [f"{call}:error={error}" for call in ("pwrite64", "pwritev") for error in ("EIO", "ENOSPC")]
# The call reports a write that it did not make.
LOST_WRITES = ["pwrite64:retval=8192", "pwrite64:retval=1"]
RENAME_ERRORS = ["rename:error=EIO", "renameat:error=EIO", "renameat2:error=EIO", "ftruncate:error=ENOSPC"]
READ_ERRORS = ["pread64:error=EIO", "read:error=EIO", "preadv:error=EIO"]


# ---- flipped bits ------------------------------------------------------------------------------


def flip_partial(what):
    def trials(world, times):
        longest = took(world, "get", world.shared(), "-o", world.new("out"))
        for _ in range(times):
            store, out = world.new("store"), world.new("out")
            world.killed(store, "get", world.shared(), "-o", out, longest=longest)
            part = out.with_name(f".{out.name}.xylem-part")
            places = [part] if what == "data" else [store / "partial"]
            files = [p for place in places for p in place.rglob("*") if p.is_file() and p.stat().st_size]
            for path in files[:5]:
                world.flip(path)
            world.finish(store, out)
            world.check(store)
            shutil.rmtree(out)
            shutil.rmtree(store)
            yield

    return trials


def flip_finished(world, times):
    store, out = fetched(world)
    for _ in range(times):
        at = world.flip(out / "large")
        world.run(store, "verify", out, world.shared(), codes=(DAMAGED,))
        ended = world.run(store, "scrub", out, codes=(DAMAGED,))
        if f"(block {at // 16384})" not in (ended.stdout + ended.stderr).decode():
            raise Wrong(f"scrub does not name block {at // 16384}")
        world.run(store, "scrub", out, "--repair", "--from", world.shared())
        world.must_be_same(out)
        yield


def flip_store(world, times):
    """Flips bytes anywhere in the store of a share, except its keys and its format (a store with an unknown format
    is not opened): served data stay right, and the share repairs what it needs."""
    for _ in range(times):
        store = world.new("store")
        Share(world, world.source, store).stop()
        files = [p for p in store.rglob("*") if p.is_file() and p.stat().st_size]
        files = [p for p in files if "key" not in p.name and p.name != "format"]
        victim = world.dice.choice(sorted(files))
        world.flip(victim)
        out = world.new("out")
        try:
            again = Share(world, world.source, store)
        except Wrong as why:
            raise Wrong(f"{why} after a bit of {victim.relative_to(store)} was flipped") from why
        codes = (DONE, DAMAGED, UNREACHABLE)
        code = world.run(
            world.new("store"), "get", again.ticket, "-o", out, "--timeout", "3", codes=codes
        ).returncode
        again.stop()
        if code == DONE:
            world.must_be_same(out)
        elif out.exists():
            raise Wrong("a fetch failed and left a file under its final name")
        world.run(store, "store", "check", "--repair-tree", codes=(DONE, DAMAGED))
        mended = Share(world, world.source, store)
        shutil.rmtree(out, ignore_errors=True)
        world.run(world.new("store"), "get", mended.ticket, "-o", out)
        mended.stop()
        world.must_be_same(out)
        shutil.rmtree(out)
        yield


# ---- clocks ------------------------------------------------------------------------------------


def faketime():
    for folder in pathlib.Path("/usr/lib").glob("*/faketime"):
        if (folder / "libfaketimeMT.so.1").exists():
            return str(folder / "libfaketimeMT.so.1")
    raise Skip("no libfaketime")


def clock_jumps(world, times):
    library = faketime()
    offsets = ["+1d", "-1d", "+10y", "-10y", "+0"]
    for _ in range(times):
        clock = world.new("clock")
        clock.write_text("+0\n")
        environment = {
            "LD_PRELOAD": library,
            "FAKETIME_TIMESTAMP_FILE": str(clock),
            "FAKETIME_NO_CACHE": "1",
            # A step of the clock does not change the monotonic clock.
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        share = Share(world, world.source, world.new("store"), environment)
        store, out = world.new("store"), world.new("out")
        process = subprocess.Popen(
            world.command(store, "get", share.ticket, "-o", out, "--limit", "8M"),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=dict(os.environ, **environment),
        )
        while process.poll() is None:
            clock.write_text(world.dice.choice(offsets) + "\n")
            time.sleep(0.05)
        said = process.stderr.read().decode(errors="replace")
        if process.returncode != 0 or any(bug in said for bug in BUGS):
            raise Wrong(f"get ended with {process.returncode}: {said[-300:]}")
        world.must_be_same(out)
        share.stop()
        world.check(store)
        yield


CASES = {
    "kill -9 while publishing": (kill_publish, 1),
    "kill -9 while fetching": (kill_fetch, 1),
    "kill -9 while scrubbing": (kill_scrub, 1),
    "kill -9 while repairing": (kill_repair, 1),
    "kill -9 while collecting garbage": (kill_gc, 1),
    "fetch: the Nth write fails (EIO, ENOSPC)": (failing_fetch(WRITE_ERRORS), 0.2),
    "fetch: the Nth write is lost": (failing_fetch(LOST_WRITES, mends=True), 0.2),
    "fetch: the Nth rename or truncation fails": (failing_fetch(RENAME_ERRORS, mends=True), 0.1),
    "fetch: the Nth read fails": (failing_fetch(READ_ERRORS), 0.2),
    "publish: the Nth read fails": (failing_publish(READ_ERRORS), 0.2),
    "publish: the Nth write fails": (failing_publish(WRITE_ERRORS), 0.1),
    "publish: the Nth rename fails": (failing_publish(RENAME_ERRORS), 0.1),
    "scrub: the Nth read fails": (failing_scrub(READ_ERRORS), 0.2),
    "bits flipped in partial data": (flip_partial("data"), 0.2),
    "bits flipped in partial trees": (flip_partial("tree"), 0.2),
    "a bit flipped in a finished file": (flip_finished, 0.2),
    "a bit flipped in the store of a share": (flip_store, 0.5),
    "the clock jumps by days and years": (clock_jumps, 0.05),
}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--xylem", default=str(ROOT / "target/release/xylem"))
    parser.add_argument("--times", type=int, default=100, help="kills of each kind; other cases a part of it")
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--size", type=int, default=8 << 20, help="bytes of the large file")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--dir", default="/dev/shm")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--list", action="store_true", help="print the names of the cases")
    return parser.parse_args()


def try_case(options, name):
    trials, part = CASES[name]
    times = max(1, round(options.times * part))
    folder = pathlib.Path(tempfile.mkdtemp(prefix="xylem-faults-", dir=options.dir))
    result = {"case": name, "trials": 0, "problem": None, "skipped": None}
    try:
        world = World(options, folder, random.Random(f"{options.seed} {name}"))
        try:
            for _ in trials(world, times):
                result["trials"] += 1
        finally:
            world.stop()
    except Skip as why:
        result["skipped"] = str(why)
    except (Wrong, subprocess.TimeoutExpired, OSError) as problem:
        result["problem"] = str(problem)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return result


def main():
    options = arguments()
    if options.list:
        print("\n".join(CASES))
        return 0
    results = []
    for name in CASES:
        if options.only in name:
            results.append(try_case(options, name))
            print(results[-1], file=sys.stderr, flush=True)
    if options.json:
        print(json.dumps(results, indent=1))
    else:
        print("| case | trials | passed |\n|---|---|---|")
        for result in results:
            outcome = "all"
            if result["skipped"]:
                outcome = f"skipped: {result['skipped']}"
            elif result["problem"]:
                outcome = f"**the next trial failed**: {result['problem']}"
            print(f"| {result['case']} | {result['trials']} | {outcome} |")
    return 1 if any(result["problem"] for result in results) else 0


if __name__ == "__main__":
    sys.exit(main())
