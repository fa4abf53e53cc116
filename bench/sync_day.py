#!/usr/bin/env python3
"""A day of folders that `xylem sync` keeps in step, 48 times as quick: its cost while nothing changes, and in all.

    bench/sync_day.py [XYLEM] [--minutes N] [--only family,team] [--seed S] [--beside syncthing] [--json FILE]

Two groups of three members, each with its day from a script. *family*: at night nothing changes and one machine sleeps (it is stopped);
photos are copied in, sorted into folders, some removed; letters are saved again and again, by a new file that takes the name; a budget is
edited by two. *team*: branches are checked out (so many files others at once), builds write many small files and remove them, a log gets a line
every few seconds of real time, laptops are closed for meetings and at night. N minutes are 24 hours (30 by default); a burst writes all its
files at once. As root each member is in a network namespace of its own, and the bytes of its network are counted.

Printed for each group: bytes changed; bytes sent by all, and that per byte changed and member that had to get it; processor share of each
member in the quiet hours, of one core; resident memory of each after the first quarter, its maximum after that, and the rise of a line through
the second half; seconds until all members that are awake are equal after a burst, median and largest; in step at the end or not. Exit 1
where a group is not in step at the end.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from folders_group import Group, Syncthing, Xylem, alone, as_user, once, sweep
from folders_model import differences
from processes import Failed, descendants, stat_fields

TICKS = os.sysconf("SC_CLK_TCK")
MEMBERS = 3


class Day:
    """The events of a day, as (hour, what, words...); `work` performs one."""

    def __init__(self, seed, folders):
        self.random, self.folders, self.changed = random.Random(f"day {seed}"), folders, 0
        self.events = []

    def at(self, hour, what, *words):
        self.events.append((hour, what, words))

    def put(self, member, path, data, by_rename=False):
        whole = self.folders[member] / path
        whole.parent.mkdir(parents=True, exist_ok=True)
        to = whole.with_name(f"~{whole.name}") if by_rename else whole
        to.write_bytes(data)
        if by_rename:
            os.rename(to, whole)
        self.changed += len(data)

    def edit(self, member, path, size):
        """Edits a part of a document, saved by a new file that takes its name."""
        whole = self.folders[member] / path
        text = bytearray(whole.read_bytes() if whole.exists() else self.random.randbytes(size))
        at = self.random.randrange(max(len(text) - 200, 1))
        text[at : at + 200] = self.random.randbytes(200)
        self.put(member, path, bytes(text), by_rename=True)

    def remove(self, member, path):
        whole = self.folders[member] / path
        if whole.is_dir():
            shutil.rmtree(whole)
        elif whole.exists():
            whole.unlink()


class Family(Day):
    quiet = (1.0, 6.5)

    def script(self):
        self.at(0, "start")
        self.at(0.1, "photos", 0, "2025/summer", 30)
        self.at(22.5 - 22.4, "sleep", 1)
        self.at(7.0, "wake", 1)
        for hour in range(9, 12):
            for minute in range(0, 60, 5):
                self.at(hour + minute / 60, "letter", 0, "letters/school.odt")
        self.at(10.2, "budget", 1)
        self.at(12.0, "sleep", 1)
        self.at(12.5, "budget", 0)
        self.at(13.0, "wake", 1)
        self.at(14.0, "photos", 2, "camera", 60)
        self.at(15.5, "sort", 0, "camera", "2026/november")
        for hour in (16, 17):
            for minute in range(0, 60, 7):
                self.at(hour + minute / 60, "letter", 1, f"letters/{hour}.odt")
        self.at(19.0, "rename", 0, "2025/summer", "2025/summer by the sea")
        self.at(20.0, "cull", 2, "2026/november")
        self.at(21.0, "budget", 1)
        self.at(22.0, "budget", 0)
        self.at(22.5, "sleep", 1)
        self.at(23.7, "wake", 1)
        return sorted(self.events, key=lambda event: event[0])

    def photos(self, member, folder, count):
        for n in range(count):
            self.put(member, f"{folder}/IMG_{n:04}.jpg", self.random.randbytes(self.random.randint(300_000, 2_000_000)))

    def letter(self, member, path):
        self.edit(member, path, 60_000)

    def budget(self, member):
        self.edit(member, "budget.ods", 200_000)

    def sort(self, member, folder, to):
        top = self.folders[member]
        (top / to).mkdir(parents=True, exist_ok=True)
        for path in sorted((top / folder).glob("*.jpg")):
            os.rename(path, top / to / path.name)

    def rename(self, member, path, to):
        os.rename(self.folders[member] / path, self.folders[member] / to)

    def cull(self, member, folder):
        for path in sorted((self.folders[member] / folder).glob("*.jpg"))[::5]:
            path.unlink()


class Team(Day):
    quiet = (1.0, 6.5)

    def script(self):
        self.at(0, "start")
        self.at(0.1, "checkout", 0, 0)
        self.at(0.3, "sleep", 2)
        self.at(7.5, "wake", 2)
        for n, hour in enumerate((8.0, 9.5, 11.0, 13.5, 15.0, 16.5)):
            self.at(hour, "checkout", 0, n + 1)
            self.at(hour + 0.4, "build", 0, n)
            self.at(hour + 1.2, "clean", 0)
        for step in range(0, 10 * 60, 6):
            self.at(8 + step / 60, "log", 1)
        for hour in range(9, 18):
            self.at(hour + 0.25, "plan", hour % 3)
        for hour in (10.0, 14.0):
            self.at(hour, "sleep", 2)
            self.at(hour + 0.75, "wake", 2)
        self.at(20.0, "sleep", 2)
        self.at(23.5, "wake", 2)
        return sorted(self.events, key=lambda event: event[0])

    def checkout(self, member, branch):
        """Replaces a third of 300 files by those of another branch."""
        for n in range(300):
            if branch == 0 or (n + branch) % 3 == 0:
                self.put(member, f"source/{n % 12}/{n}.rs", self.random.randbytes(self.random.randint(500, 20_000)), by_rename=True)

    def build(self, member, number):
        for n in range(400):
            self.put(member, f"build/{n % 20}/{number}-{n}.o", self.random.randbytes(self.random.randint(200, 8_000)))

    def clean(self, member):
        self.remove(member, "build")

    def log(self, member):
        with open(self.folders[member] / "server.log", "ab", 0) as file:
            file.write(b"%f GET /index.html 200 1234 0.003\n" % time.time())
        self.changed += 45

    def plan(self, member):
        self.edit(member, "plan.md", 30_000)


def processor(member):
    total = 0
    for pid in descendants([member.process.pid]):
        if fields := stat_fields(pid):
            total += sum(int(field) for field in fields[11:15]) / TICKS
    return total


def resident(member):
    total = 0
    for pid in descendants([member.process.pid]):
        try:
            total += int(pathlib.Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096
        except OSError:
            pass
    return total / (1 << 20)


class Live:
    """A group that runs through its day."""

    def __init__(self, name, day, options, base):
        self.name, self.options = name, options
        kind = Syncthing(shutil.which("syncthing") or "syncthing") if options.beside else Xylem(options.xylem)
        self.group = Group(kind, base / name, MEMBERS, None, "2g")
        self.members = self.group.members
        self.day = day(options.seed, [member.folder for member in self.members])
        self.hour = options.minutes * 60 / 24
        self.samples = [[] for _ in self.members]
        self.latencies, self.idle = [], None

    def sent(self):
        """Bytes sent by all members, as counted by their networks."""
        total = 0
        for name in self.group.network.names if self.group.namespaces else ():
            text = subprocess.run(["ip", "-n", name, "-s", "-j", "link", "show", "eth0"], capture_output=True).stdout
            total += json.loads(text)[0]["stats64"]["tx"]["bytes"]
        return total

    def same_at_last(self):
        """A file that was just written is sent after it has rested for some seconds."""
        end = time.monotonic() + 60
        while not self.same() and time.monotonic() < end:
            time.sleep(0.5)
        return self.same()

    def same(self):
        awake = [member for member in self.members if not member.stopped]
        return not differences(awake, [member.tree() for member in awake], ())

    def sample(self, now):
        for member, samples in zip(self.members, self.samples):
            samples.append((now, resident(member)))

    def wait(self, until, began):
        """Waits until a time; samples memory, and records when all are in step again after a burst."""
        pending, next_sample = time.monotonic(), 0
        while True:
            now = time.monotonic()
            if pending is not None and self.same():
                self.latencies.append(now - pending)
                pending = None
            if now >= next_sample:
                self.sample(now - began)
                next_sample = now + 5
            if now >= until:
                # The next burst comes before all members have this one: it counts with the time so far.
                if pending is not None:
                    self.latencies.append(now - pending)
                return
            time.sleep(min(0.05 if pending is not None else 1, max(until - now, 0)))

    def begin(self):
        for member in self.members:
            self.group.start(member)
            end = time.monotonic() + 60
            while self.group.kind.ready_event and not member.ready:
                if time.monotonic() > end or not member.runs():
                    raise Failed(f"{self.name}: member {member.number} does not get ready")
                member.events()
                time.sleep(0.05)

    def work(self, what, words):
        if what == "sleep":
            self.members[words[0]].stop()
        elif what == "wake":
            self.members[words[0]].cont()
        elif what != "start":
            with as_user():
                getattr(self.day, what)(*words)

    def all(self):
        try:
            self.begin()
            time.sleep(5)
            before, began = self.sent(), time.monotonic()
            events = self.day.script()
            quiet = [(hour, "quiet", ()) for hour in self.day.quiet]
            for hour, what, words in sorted([*events, *quiet], key=lambda event: event[0]):
                self.wait(began + hour * self.hour, began)
                if what == "quiet":
                    self.note_quiet()
                else:
                    self.work(what, words)
            self.wait(began + 24 * self.hour, began)
            end = time.monotonic() + 120
            while not self.same() and time.monotonic() < end:
                time.sleep(0.2)
            return self.row(before)
        finally:
            self.group.close()

    def note_quiet(self):
        """Records usage at the begin and the end of the quiet hours."""
        now = time.monotonic()
        cpu = [processor(member) for member in self.members]
        if self.idle is None:
            self.idle = (now, cpu, self.sent())
        else:
            then, before, sent = self.idle
            self.shares = [(b - a) / (now - then) * 100 for a, b in zip(before, cpu)]
            self.quiet_bytes = (self.sent() - sent) / (now - then)

    def row(self, before):
        sent, changed = self.sent() - before, self.day.changed
        memory = []
        for samples in self.samples:
            half = samples[len(samples) // 2 :]
            quarter = samples[len(samples) // 4][1]
            slope = statistics.linear_regression([t for t, _ in half], [m for _, m in half]).slope
            rise = slope * (half[-1][0] - half[0][0])
            memory.append({"quarter": quarter, "most": max(m for _, m in samples), "rise": rise})
        return {
            "group": self.name, "changed": changed, "sent": sent, "per_byte": sent / (changed * (MEMBERS - 1)), "rest_percent": self.shares,
            "rest_bytes": self.quiet_bytes, "memory": memory, "median": statistics.median(self.latencies), "largest": max(self.latencies),
            "cpu": [processor(member) for member in self.members], "in_step": self.same_at_last(),
        }


def child(name, day, options, base, rows):
    alone()
    signal.signal(signal.SIGTERM, once)
    try:
        rows.put(Live(name, day, options, base).all())
    except Failed as e:
        rows.put({"group": name, "failed": str(e)})


def printed(row):
    print(f"{row['group']}:")
    if "failed" in row:
        print(f"  {row['failed']}")
        return
    share = ", ".join(f"{value:.2f} %" for value in row["rest_percent"])
    print(f"  changed {row['changed'] / 1e6:.1f} MB, sent {row['sent'] / 1e6:.1f} MB: {row['per_byte']:.3f} per byte and member")
    print(f"  at rest {share} of a core; {row['rest_bytes']:.0f} bytes a second by all; in all {sum(row['cpu']):.1f} processor seconds")
    for n, memory in enumerate(row["memory"]):
        words = f"{memory['quarter']:.1f} MiB after a quarter, at most {memory['most']:.1f}, second half {memory['rise']:+.2f}"
        print(f"  memory of member {n}: {words}")
    print(f"  in step after {row['median']:.2f} s (median), {row['largest']:.2f} s (largest); at the end: {'yes' if row['in_step'] else 'NO'}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xylem", nargs="?", default="target/release/xylem", type=pathlib.Path)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--only", default="family,team")
    parser.add_argument("--seed", default="1")
    parser.add_argument("--beside", choices=["syncthing"], default=None)
    parser.add_argument("--json", type=pathlib.Path, default=None)
    options = parser.parse_args()
    days = {"family": Family, "team": Team}
    signal.signal(signal.SIGTERM, once)
    sweep()
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=where, prefix="day-") as base:
        base = pathlib.Path(base)
        base.chmod(0o755)
        if not options.beside:
            shutil.copy(options.xylem, base / "xylem")
            (base / "xylem").chmod(0o755)
            options.xylem = base / "xylem"
        rows, names = multiprocessing.Queue(), options.only.split(",")
        running = [multiprocessing.Process(target=child, args=(name, days[name], options, base, rows)) for name in names]
        for one in running:
            one.start()
        try:
            found = [rows.get() for _ in running]
            for one in running:
                one.join()
        finally:
            for one in running:
                one.terminate()
                one.join()
    for row in sorted(found, key=lambda row: row["group"]):
        printed(row)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1))
    return 0 if all(row.get("in_step") for row in found) else 1


if __name__ == "__main__":
    sys.exit(main())
