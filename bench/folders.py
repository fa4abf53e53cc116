#!/usr/bin/env python3
"""Folders that users and faults change at once: compares `xylem sync` with a model.

    bench/folders.py [XYLEM] [--seed S] [--rounds N] [--operations N] [--minutes M] [--groups N] [--members N]
                     [--without WHAT,...] [--only WHAT,...] [--patience SECONDS] [--keep DIR] [--shrink TRIES] [--confirm]
                     [--beside syncthing] [--replay FILE] [--list]

Three to five members, each a process of XYLEM with a folder and a store of its own, on loopback or, as root, in network namespaces. In each
round users write, save, append, truncate, rename, chain, swap, move, link, chmod, and so on. There are few names, so that operations collide.
Meanwhile members are killed, stopped, cut off from each other, get full disks, wrong clocks, and older copies of their store or folder. Then
all faults end, and the folders have to become the same. A round fails in these ways:

  lost       a content that was in a member's folder, and that no user who had it there has replaced or removed, is not on every
             member: in the tree, in a conflict copy or in the trash
  apart      names, contents, kinds, modes, times or attributes differ after --patience seconds; paths that a member's rules exclude do not count
  unwritten  a content, name or mode exists that no user made
  leaked     a file that a member's rules excluded when it was written is on another member
  left over  data of a fetch are left in DIR/.xylem-sync
  ended      a program ends by itself, or panics

The operations follow from the seed; their timing relative to the programs does not. Rounds come in cases of --case rounds, each with
new members. A case that fails is repeated with fewer rounds, members and steps, for --shrink tries, and the smallest that still
fails is written to a file that --replay runs again. `--list` names all operations and faults, for --without and --only. With --beside
syncthing the same is done to Syncthing (trash can on; it has to be installed). The last line sums up; exit 1 after a failure.
"""

import argparse
import contextlib
import dataclasses
import json
import multiprocessing
import multiprocessing.connection
import os
import pathlib
import random
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from folders_group import (
    NOBODY, ROOT, Group, Syncthing, Xylem, alone, as_user, clock_library, once, sweep,
)
from folders_model import RULES, Impossible, Ledger, Operations, contents, differences, left_out, text_of, touched
from processes import Failed

PLAIN = ["a", "b.txt", "Notes", "photo.jpg", "x.tmp", "keep.tmp", "secret"]
ODD = [
    "\u00e9", "e\u0301", "two words", "line\nbreak", " before", "after ", "-rf", "--help", "#a#", "a\\b", "a:b?*", "\u202egpj.exe",
    "\U0001f600", "l" * 255, "\u00e9" * 127, "CON", "..x", "~", ".hidden", "tab\tin", "x" * 180 + ".tar.gz", "\u017f", "A", "B.TXT",
]
DIRECTORIES = ["", "", "d1", "d2", "D1", "d1/sub", "d2/deep/er", "dir \u00e9", "cache"]
RULE_TEXTS = ["", "*.tmp\n", "/cache\n", "secret\n", "*.tmp\n!keep.tmp\n", "/cache\nsecret\n"]
FILE_MODES = [0o644, 0o600, 0o755, 0o444, 0o664]
DIRECTORY_MODES = [0o755, 0o700, 0o750, 0o555]
# Number of files that never change, so that a removal never takes most of a folder at once.
STANDING = 40

# Operations and how often each is drawn.
OPERATIONS = {
    "write": 14, "save": 12, "append": 8, "truncate": 3, "middle": 3, "silent": 2, "sparse": 2, "burst": 2, "remove": 10,
    "rename": 10, "chain": 3, "swap": 3, "case": 2, "copy": 3, "make": 2, "into": 3, "to_directory": 2, "to_file": 2, "to_link": 3,
    "behind_link": 1, "hard_link": 2, "mode": 4, "directory_mode": 2, "time": 3, "ignore": 1, "attribute": 5,
}
# In one of so many cases the members exchange extended attributes, and users set them.
ATTRIBUTES_IN = 3
FAULTS = {
    "kill": 6, "leave": 3, "stop": 4, "cut": 8, "full-folder": 2, "full-store": 1, "clock": 3, "old-store": 2, "old-folder": 3, "read-only": 2,
}
# Attributes that are compared only in cases with operations that change them.
COMPARED = {"attributes": "attribute", "times": "time", "directory-modes": "directory_mode", "modes": "mode"}


class Drawn:
    """A case as drawn by its seed."""

    def __init__(self, seed, options):
        self.random, self.options, self.seed = random.Random(f"folders {seed}"), options, seed
        self.members = options.members or self.random.choice([3, 3, 3, 4, 5])
        names = PLAIN + self.random.sample(ODD, 5)
        places = [os.path.join(d, name) for d in set(DIRECTORIES) for name in names]
        self.paths = self.random.sample(sorted(places), 28) + self.random.sample(PLAIN, 4)
        self.kinds = {kind: weight for kind, weight in OPERATIONS.items() if wanted(kind, options)}
        if options.beside or random.Random(f"attributes {seed}").randrange(ATTRIBUTES_IN):
            self.kinds.pop("attribute", None)
        self.faults = {kind: weight for kind, weight in FAULTS.items() if wanted(kind, options)}
        self.number, self.reader, self.copied = 0, None, set()

    def one(self, weights):
        return self.random.choices(list(weights), list(weights.values()))[0]

    def path(self):
        return self.random.choice(self.hot if self.random.random() < 0.6 else self.paths)

    def directory(self):
        return self.random.choice([name for name in DIRECTORIES if name])

    def size(self):
        most = self.one({300: 60, 5000: 15, 70_000: 15, 400_000: 6, 2_000_000: 1})
        return self.random.randint(20, most)

    def operation(self, member):
        self.number += 1
        kind = self.one(self.kinds)
        draw = {
            "write": lambda: [self.path(), self.size()],
            "truncate": lambda: [self.path(), self.random.choice([0, 25, 100, 5000])],
            "middle": lambda: [self.path(), self.random.randint(20, 5000)],
            "sparse": lambda: [self.path(), self.random.choice([10_000, 300_000, 2_000_000])],
            "burst": lambda: [self.path(), self.random.randint(2, 8)],
            "remove": lambda: [self.directory() if self.random.random() < 0.12 else self.path()],
            "rename": lambda: [self.directory(), self.directory()] if self.random.random() < 0.2 else [self.path(), self.path()],
            "chain": lambda: [self.path() for _ in range(self.random.randint(3, 5))],
            "swap": lambda: [self.path(), self.path()],
            "case": lambda: [self.directory() if self.random.random() < 0.3 else self.path()],
            "make": lambda: [self.directory()],
            "into": lambda: [self.directory(), self.directory()],
            "to_link": lambda: [self.path(), self.random.choice(["", "", "", "d1", "nowhere"])],
            "behind_link": lambda: [self.directory(), self.directory() + "/moved"],
            "mode": lambda: [self.path(), self.random.choice(FILE_MODES)],
            "directory_mode": lambda: [self.directory(), self.random.choice(DIRECTORY_MODES)],
            "time": lambda: [self.path(), self.random.randint(1, 1_700_000_000)],
            "attribute": lambda: [
                self.directory() if self.random.random() < 0.3 else self.path(), self.random.choice(["user.note", "user.tag", "user.a=b"]),
                self.random.choice(["", "one", f"of {self.number}", f"of {self.number}", "long " * 200]),
            ],
            "ignore": lambda: [RULES, self.random.choice(RULE_TEXTS)],
        }
        same = {"save": "write", "to_directory": "write", "to_file": "write", "copy": "swap", "hard_link": "swap"}
        alone = lambda: [self.path()]
        return ["do", member, self.number, kind, draw.get(kind, draw.get(same.get(kind), alone))()]

    def put_in(self, steps, *faults):
        """Inserts steps at random places of the round, in this order."""
        places = sorted(self.random.randint(0, len(steps)) for _ in faults)
        for place, fault in reversed(list(zip(places, faults))):
            steps.insert(place, fault)

    def fault(self, steps):
        kind, other = self.one(self.faults), self.random.randrange(1, self.members)
        any_one = self.random.randrange(self.members)
        if kind in ("kill", "leave"):
            self.put_in(steps, [kind, any_one], *([["start", any_one]] if self.random.random() < 0.7 else []))
        elif kind == "stop":
            self.put_in(steps, ["stop", any_one], ["pause", self.random.randint(50, 1500)], ["go", any_one])
        elif kind == "cut":
            order = self.random.sample(range(self.members), self.members)
            split = self.random.randint(1, self.members - 1)
            parts = [order[:split], order[split:]]
            if self.random.random() < 0.3:
                parts = [[n] for n in order]
            self.put_in(steps, ["cut", parts], ["pause", self.random.randint(100, 1000)], ["join"])
        elif kind in ("full-folder", "full-store"):
            self.put_in(steps, ["full", any_one, kind[5:]], ["pause", 300], ["room", any_one])
        elif kind == "clock":
            self.put_in(steps, ["clock", any_one, self.random.randint(-39_600, 39_600)])
        elif kind in ("old-store", "old-folder"):
            what, which = kind[4:], other if kind == "old-store" else any_one
            if (what, which) in self.copied and which != self.reader:
                self.copied.discard((what, which))
                self.put_in(steps, [kind, which, *([self.random.choice(["stopped", "runs"])] if what == "folder" else [])])
            else:
                self.copied.add((what, which))
                self.put_in(steps, ["copy-" + what, which])
        elif kind == "read-only":
            if self.reader is None:
                self.reader = other
                steps.insert(0, ["read-only", other])
            else:
                steps.insert(0, ["allow", self.reader])
                self.reader = None

    def round(self):
        self.hot = self.random.sample(self.paths, 6)
        active = self.random.sample(range(self.members), self.random.randint(2, self.members))
        steps = []
        for _ in range(self.random.randint(10, 50)):
            steps.append(self.operation(self.random.choice(active)))
            if self.random.random() < 0.25:
                steps.append(["pause", self.random.choice([1, 10, 40, 80, 200])])
        for _ in range(self.random.choice([0, 1, 1, 1, 2]) if self.faults else 0):
            self.fault(steps)
        return steps

    def case(self, rounds):
        """The files at the start: mostly of one member, sometimes of several."""
        apart, early = self.random.random() < 0.3, []
        for path in self.random.sample(self.paths, 20):
            self.number += 1
            early.append(["do", self.random.randrange(self.members) if apart else 0, self.number, "write", [path, self.size()]])
        return {"seed": self.seed, "members": self.members, "early": early, "rounds": [self.round() for _ in range(rounds)]}


def wanted(kind, options):
    return kind not in options.without and (not options.only or kind in options.only or kind in ("write", "remove"))


class Run:
    """A case that runs."""

    def __init__(self, case, options, base):
        self.case, self.options = case, options
        self.patience = options.patience
        kind = Syncthing(shutil.which("syncthing") or "syncthing") if options.beside else Xylem(base / "xylem")
        clock = base / "clock.so"
        self.base = pathlib.Path(tempfile.mkdtemp(dir=base, prefix="case-"))
        self.base.chmod(0o755)
        drawn = {step[3] for steps in [case["early"], *case["rounds"]] for step in steps if step[0] == "do"}
        kind.attributes = "attribute" in drawn
        self.group = Group(kind, self.base, case["members"], clock if clock.exists() and not options.beside else None)
        self.members = self.group.members
        self.ledger = Ledger()
        self.done = self.impossible = 0
        self.times, self.failures, self.round, self.ahead = [], [], 0, [0] * case["members"]
        self.restored, self.copies = set(), {}
        self.compared = {what for what, kind in COMPARED.items() if kind in drawn and kind not in options.loose}

    def fail(self, category, words):
        self.failures.append({"category": category, "round": self.round, "words": words})

    # Actions of users.

    def do(self, number, seed_number, kind, arguments):
        member = self.members[number]
        if kind == "ignore" and not wanted("ignore", self.options):
            return
        with member.held(), as_user():
            paths = touched(kind, arguments, seed_number)
            with root_again():
                names = member.reader.other_names(member.folder, paths, member.kind.own)
                paths = list(dict.fromkeys(paths + names))
                before = member.reader.at(member.folder, paths)
                above = missing_above(member.folder, paths)
            began = time.time_ns()
            user = Operations(member.folder, self.case["seed"], seed_number, self.ledger.wrote, member.kind.rules_file)
            try:
                getattr(user, kind)(*arguments)
                self.done += 1
            except (OSError, Impossible):
                self.impossible += 1
            with root_again():
                self.shift_times(member, paths, began)
                after = member.reader.at(member.folder, paths)
        self.ledger.named(paths)
        if kind == "ignore":
            self.rules(member)
        self.ledger.after(member, before, after, member.tree, quiet=kind == "silent")
        if member.reads_only:
            member.own_paths |= {path for path in {*before, *after} if before.get(path) != after.get(path)}
            # An operation that finds nothing to work on has made directories, too.
            member.own_paths |= above - missing_above(member.folder, paths)

    def shift_times(self, member, paths, began):
        """A machine with a wrong clock gives its files wrong times."""
        ahead = self.ahead[member.number]
        for path in paths if ahead else ():
            with contextlib.suppress(OSError):
                whole = member.folder / path
                state = os.lstat(whole)
                if state.st_mtime_ns >= began - 10_000_000:
                    times = (state.st_atime_ns, state.st_mtime_ns + ahead * 10**9)
                    os.utime(whole, ns=times, follow_symlinks=False)

    def rules(self, member):
        """The present rules, of whichever author."""
        try:
            lines = (member.folder / member.kind.rules_file).read_text(errors="replace").split("\n")
        except OSError:
            lines = []
        rules = tuple(line for line in lines if line)
        if self.group.kind.name == "syncthing":
            # The first rule that matches decides.
            rules = rules[::-1]
        if rules != member.rules:
            before, member.rules, member.rules_are_old = member.rules, rules, False
            member.all_rules.add(rules)
            tree = member.tree()
            self.ledger.rules_changed(member, tree, before)
            if member.reads_only:
                # What they uncover is a change that no other member takes.
                member.own_paths |= {path for path in tree if left_out(path, before) and not member.leaves_out(path)}

    # Faults.

    def step(self, step):
        kind, *rest = step
        if kind == "do":
            return self.do(*rest)
        if kind == "pause":
            return time.sleep(rest[0] / 1000)
        if kind == "cut":
            return self.group.cut(rest[0])
        if kind == "join":
            return self.group.network.heal() if self.group.namespaces else [member.cont() for member in self.members]
        member = self.members[rest[0]]
        if kind == "kill":
            member.end(signal.SIGKILL)
        elif kind == "leave":
            member.end(signal.SIGINT if self.group.kind.name == "xylem" else signal.SIGTERM)
        elif kind == "start":
            self.group.start(member)
        elif kind == "stop":
            member.stop()
        elif kind == "go":
            member.cont()
        elif kind == "full":
            member.fill(member.disk if rest[1] == "folder" else member.store_disk)
        elif kind == "room":
            member.empty(member.disk)
            member.empty(member.store_disk)
        elif kind == "clock":
            self.set_clock(member, rest[1])
        elif kind in ("copy-store", "copy-folder"):
            self.copy(member, kind[5:])
        elif kind == "old-store":
            self.old_store(member)
        elif kind == "old-folder":
            self.old_folder(member, rest[1])
        elif kind in ("read-only", "allow"):
            self.role(member, kind)

    def set_clock(self, member, seconds):
        if self.group.clock:
            self.ahead[member.number] = seconds
            with open(member.clock, "r+b") as file:
                file.write(struct.pack("=q", seconds))

    def copy(self, member, what):
        """A copy of the present state."""
        to = self.base / f"copy-{what}-{member.number}"
        shutil.rmtree(to, ignore_errors=True)
        with member.held():
            # Files that are being written may vanish.
            subprocess.run(["cp", "-a", member.store if what == "store" else member.folder, to], capture_output=True)
        if what == "folder":
            for own in member.kind.own:
                shutil.rmtree(to / own, ignore_errors=True)
        self.copies[what, member.number] = to

    def old_store(self, member):
        copy = self.copies.get(("store", member.number))
        if copy is None or member.number == 0 or member.reads_only:
            return
        member.end(signal.SIGKILL)
        empty(member.store)
        subprocess.run(["cp", "-a", f"{copy}/.", member.store], check=True)
        self.restored.add(member.number)
        self.group.start(member)

    def old_folder(self, member, how):
        copy = self.copies.get(("folder", member.number))
        if copy is None:
            return
        if how == "stopped":
            member.end(signal.SIGKILL)
        with member.held():
            before = member.tree()
            if how == "stopped":
                empty(member.folder, member.kind.own)
            else:
                self.make_way(member, copy)
            subprocess.run(["cp", "-a", "--remove-destination", f"{copy}/.", member.folder], capture_output=True)
            after = member.tree()
            self.rules(member)
        self.ledger.after(member, before, after, member.tree)
        if member.reads_only:
            member.own_paths |= {path for path in {*before, *after} if before.get(path) != after.get(path)}
        if how == "stopped":
            self.group.start(member)

    def make_way(self, member, copy):
        """Removes an entry of another kind from the path of the older copy."""
        for path, thing in member.reader.tree(copy).items():
            whole = member.folder / path
            if thing.kind == "directory" and os.path.lexists(whole) and (whole.is_symlink() or not whole.is_dir()):
                os.unlink(whole)
            elif thing.kind != "directory" and whole.is_dir() and not whole.is_symlink():
                shutil.rmtree(whole)

    def role(self, member, kind):
        if self.group.kind.name != "xylem" or member.key is None or member.reads_only == (kind == "read-only"):
            return
        # It has to learn of it before it goes on.
        self.group.heal()
        self.group.role("--" + kind, member)
        if kind == "read-only":
            member.reads_only, member.heard_role, member.own_paths = True, False, set()
            self.until("the member is notified that it only reads", lambda: member.events() and False or member.heard_role)
        else:
            member.reads_only, member.own_paths = False, set()
            self.ledger.may_write_again(member, member.tree())

    # The whole run.

    def until(self, what, ready, seconds=None):
        end = time.monotonic() + (seconds or self.patience)
        while not ready():
            if time.monotonic() > end:
                raise Failed(f"not within {seconds or self.patience} s: {what}")
            time.sleep(0.02)

    def begin(self):
        seeds = self.members[0].folder / "standing"
        with as_user():
            seeds.mkdir()
            for n in range(STANDING):
                (seeds / f"{n}").write_bytes(text_of(self.case["seed"], f"standing {n}", 60))
        with contextlib.nullcontext():
            tree = self.members[0].tree()
            self.ledger.after(self.members[0], {}, tree, dict)
        for step in self.case["early"]:
            self.step(step)
        for member in self.members:
            self.group.start(member)
            if self.group.kind.ready_event:
                self.until(f"member {member.number} is ready", lambda: member.events() and False or member.ready or not member.runs())
            if not member.runs():
                raise Failed(f"member {member.number} does not start: {' '.join(member.last_words())}")
        self.rest()

    def rejoin(self, member):
        """After its store was restored from a copy, the member has signed two different statements; it goes on
        under another key."""
        member.end(signal.SIGKILL)
        member.kind.forget(member)
        member.rewrote = set()
        self.restored.discard(member.number)
        self.group.start(member)

    def look_after(self):
        """Handles members that have ended by themselves, or that others distrust after their store was restored."""
        for member in self.members:
            member.events()
            told = any(member.key in other.rewrote for other in self.members)
            if member.number in self.restored and (told or not member.runs()):
                self.rejoin(member)
            elif not member.runs() and not member.meant:
                words = " | ".join(member.last_words()[-1:])
                member.times_ended += 1
                if member.times_ended > 2:
                    raise Failed(f"member {member.number} ends each time: {words}")
                self.fail("ended", f"member {member.number} ended with {member.process.returncode}: {words}")
                member.meant = True
                self.group.start(member)
            elif not member.runs():
                self.group.start(member)

    def look(self):
        trees = []
        for member in self.members:
            self.rules(member)
            trees.append(member.look())
        return trees

    def rest(self):
        """Ends all faults, waits until the folders are the same, and reports failures."""
        self.group.heal()
        began, first, wrong, asked = time.monotonic(), None, [], False
        different, left = [], []
        while time.monotonic() < (first or began) + self.patience:
            self.look_after()
            trees = self.look()
            different = differences(self.members, trees, self.compared)
            left = [(m.number, name) for m in self.members for name in m.kind.leftovers(m)]
            if different:
                first = None
                if not asked and time.monotonic() > began + 15:
                    asked = True
                    for member in self.members:
                        member.kind.accept_removals(member)
                time.sleep(0.1)
                continue
            now = time.monotonic()
            first = first or now
            if now - first < 0.3 or (left and now - first < 20):
                time.sleep(0.1)
                continue
            trashes = [member.trash() for member in self.members]
            wrong = self.ledger.wrong(self.members, trees, trashes)
            # A change on its way between two places gets time to arrive.
            if wrong and now - first < self.group.kind.settles:
                time.sleep(0.5)
                continue
            break
        if different:
            words = "; ".join(f"{path!r}: {shown_values(values)}" for path, values in different[:6])
            self.fail(apart_in(different), f"{len(different)} paths after {self.patience:.0f} s: {words}")
        else:
            self.times.append(first - began)
            for category, words in wrong[:10]:
                self.fail(category, words)
            # Reported once; the run goes on.
            if left and not self.failures:
                self.fail("left over", f"{left[:6]}")
        for member in self.members:
            member.rules_are_old, member.was_full = True, False
            for line in member.last_words():
                if "panicked" in line or "this is a bug" in line:
                    self.fail("ended", f"member {member.number}: {line}")

    def all(self):
        try:
            self.begin()
            for number, steps in enumerate(self.case["rounds"]):
                if any(failure["category"] != "left over" for failure in self.failures):
                    break
                self.round = number + 1
                for step in steps:
                    self.step(step)
                self.rest()
        except Failed as e:
            self.fail("stuck", str(e))
        finally:
            self.end()
        return {
            "seed": self.case["seed"], "failures": self.failures, "times": self.times, "done": self.done,
            "rounds": self.round, "impossible": self.impossible, "checked": self.ledger.checked,
        }

    def end(self):
        keep = self.options.keep if self.failures else None
        if keep:
            to = pathlib.Path(keep) / f"{self.case['seed']}"
            for member in self.members:
                member.end(signal.SIGKILL)
                shutil.rmtree(to / f"m{member.number}", ignore_errors=True)
                (to / f"m{member.number}").mkdir(parents=True)
                subprocess.run(["cp", "-a", member.folder, member.store, member.out, member.err, to / f"m{member.number}"], capture_output=True)
        self.group.close()
        shutil.rmtree(self.base, ignore_errors=True)


def apart_in(different):
    """The category of a difference: in the files, or only in the reports."""
    values = [set(values.values()) for _, values in different]
    plain = [{thing and dataclasses.replace(thing, mode=0, time=0, attributes="") for thing in things} for things in values]
    if any(len(things) > 1 for things in plain):
        return "apart"
    if any(len({thing.attributes for thing in things}) > 1 for things in values):
        return "apart in attributes"
    if any(next(iter(things)).kind == "directory" for things in values):
        return "apart in directory modes"
    modes = any(len({thing.mode for thing in things}) > 1 for things in values)
    return "apart in modes" if modes else "apart in times"


def shown_values(values):
    """Each value once, with its members."""
    who = {}
    for number, thing in values.items():
        words = f"{thing.kind} {thing.what[:8]} {thing.mode:o} {thing.time / 1e9:.3f} {thing.attributes}" if thing else "nothing"
        who.setdefault(words, []).append(number)
    return ", ".join(f"{words} at {numbers}" for words, numbers in who.items())


@contextlib.contextmanager
def root_again():
    """Within `as_user`: reads a path whatever its mode."""
    if ROOT:
        os.seteuid(0)
    try:
        yield
    finally:
        if ROOT:
            os.seteuid(NOBODY)


def missing_above(folder, paths):
    """The directories on the way to these paths that are not there."""
    above = {str(parent) for path in paths for parent in pathlib.PurePosixPath(path).parents if str(parent) != "."}
    return {path for path in above if not os.path.lexists(os.path.join(folder, path))}


def empty(folder, but=()):
    for name in os.listdir(folder):
        whole = os.path.join(folder, name)
        if name in but:
            continue
        if os.path.isdir(whole) and not os.path.islink(whole):
            shutil.rmtree(whole, ignore_errors=True)
        else:
            os.unlink(whole)


def child(case, options, base, pipe):
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Asked to end, it ends its programs first.
    signal.signal(signal.SIGTERM, once)
    alone()
    try:
        pipe.send(Run(case, options, base).all())
    except Exception as e:  # An error of the harness itself: reported, and counted as a failure.
        import traceback

        pipe.send(
            {"seed": case["seed"], "failures": [{"category": "harness", "round": 0, "words": traceback.format_exc() or repr(e)}], "times": [],
             "done": 0, "rounds": 0, "impossible": 0, "checked": 0}
        )


class Started:
    """A case in a process of its own, since it mounts and changes users."""

    def __init__(self, case, options, base):
        self.case = case
        self.pipe, end = multiprocessing.Pipe(False)
        self.process = multiprocessing.Process(target=child, args=(case, options, base, end))
        self.process.start()
        end.close()

    def result(self):
        try:
            result = self.pipe.recv()
        except EOFError:
            result = {"seed": self.case["seed"], "failures": [{"category": "harness", "round": 0, "words": "it ended"}], "times": [],
                      "done": 0, "rounds": 0, "impossible": 0, "checked": 0}
        self.process.join()
        return result


def without_member(case, gone):
    """The same case without this member."""
    def other(n):
        return n - (n > gone)

    def steps(all_of_them):
        for step in all_of_them:
            if step[0] == "cut":
                parts = [[other(n) for n in part if n != gone] for part in step[1]]
                parts = [part for part in parts if part]
                if len(parts) > 1:
                    yield ["cut", parts]
            elif step[0] in ("pause", "join"):
                yield step
            elif step[1] != gone:
                yield [step[0], other(step[1]), *step[2:]]

    return case | {
        "members": case["members"] - 1, "early": list(steps(case["early"])), "rounds": [list(steps(r)) for r in case["rounds"]],
    }


class Shrinking:
    """Makes a failing case smaller, with a limited number of tries."""

    def __init__(self, case, category, options, base):
        self.case, self.category, self.base = case, category, base
        self.name = f"smallest-{category.replace(' ', '-')}-{case['seed']}"
        self.tries, self.end = options.shrink, time.monotonic() + 60 * options.shrink_minutes
        self.options = argparse.Namespace(**vars(options) | {"patience": min(options.patience, 15), "keep": None})

    def fails(self, case):
        """Runs a case; one that passes is tried once more, since failures depend on chance."""
        for _ in range(2):
            if self.tries <= 0 or time.monotonic() > self.end:
                return False
            self.tries -= 1
            result = Started(case, self.options, self.base).result()
            rounds = [failure["round"] for failure in result["failures"] if failure["category"] == self.category]
            if rounds:
                # Later rounds make no difference.
                self.case = case | {"rounds": case["rounds"][: rounds[0]]}
                # A user that interrupts this has the smallest case so far.
                written(self.case, self.options, self.name)
                return True
        return False

    def parts(self, items, make):
        """Drops halves, quarters and so on of a list while the case still fails; the last round is the failing
        one."""
        size = max(len(items) // 2, 1)
        while items:
            at, shorter = 0, False
            while at < len(items):
                rest = items[:at] + items[at + size:]
                if self.fails(make(rest)):
                    items, shorter = rest, True
                else:
                    at += size
                if self.tries <= 0:
                    return items
            if size == 1 and not shorter:
                return items
            size = max(size // 2, 1)
        return items

    def run(self):
        if not self.fails(self.case):
            return False
        *before, last = self.case["rounds"] or [[]]
        self.parts(before, lambda rounds: self.case | {"rounds": [*rounds, last]})
        for gone in reversed(range(self.case["members"])):
            if self.case["members"] > 2:
                self.fails(without_member(self.case, gone))
        # All steps as one list of (round, step).
        flat = [(0, step) for step in self.case["early"]]
        flat += [(n + 1, step) for n, steps in enumerate(self.case["rounds"]) for step in steps]
        count = len(self.case["rounds"])

        def again(items):
            rounds = [[step for n, step in items if n == r + 1] for r in range(count)]
            return self.case | {"early": [step for n, step in items if n == 0], "rounds": rounds}

        self.parts(flat, again)
        return True


def size_of(case):
    return sum(1 for steps in [case["early"], *case["rounds"]] for step in steps if step[0] != "pause")


def written(case, options, name):
    folder = pathlib.Path(options.replays)
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.json"
    lines = ",\n".join("  [\n" + ",\n".join("   " + json.dumps(step) for step in steps) + "\n  ]" for steps in case["rounds"])
    early = json.dumps(case["early"])
    path.write_text(f'{{"seed": {json.dumps(case["seed"])}, "members": {case["members"]}, "early": {early}, "rounds": [\n{lines}\n]}}\n')
    return path


def shown(result):
    for failure in result["failures"]:
        print(f"FAILED seed {result['seed']} round {failure['round']}: {failure['category']}: {failure['words'][:1500]}", flush=True)


class All:
    """Runs cases until there are enough, several at a time."""

    def __init__(self, options, base):
        self.options, self.base = options, base
        self.results, self.failed, self.next = [], {}, 0
        self.end = time.monotonic() + 60 * options.minutes if options.minutes else None

    def enough(self, running):
        rounds = sum(result["rounds"] for result in self.results) + sum(len(one.case["rounds"]) for one in running)
        if self.end and time.monotonic() > self.end:
            return True
        if self.options.operations:
            return sum(result["done"] for result in self.results) >= self.options.operations
        return rounds >= self.options.rounds if not self.end or self.options.rounds_given else False

    def begin(self):
        seed = f"{self.options.seed}.{self.next}"
        self.next += 1
        rounds = min(self.options.case, self.options.rounds) if not self.options.operations else self.options.case
        return Started(Drawn(seed, self.options).case(rounds), self.options, self.base)

    def took(self, one):
        result = one.result()
        self.results.append(result)
        shown(result)
        if result["failures"]:
            category = result["failures"][0]["category"]
            path = written(one.case, self.options, f"{result['seed']}-{category.replace(' ', '-')}")
            print(f"again: {sys.argv[0]} --replay {path}", flush=True)
            self.failed.setdefault(category, []).append(one.case)

    def run(self):
        running = []
        try:
            while True:
                while len(running) < self.options.groups and not self.enough(running):
                    running.append(self.begin())
                if not running:
                    return
                ready = multiprocessing.connection.wait([one.pipe for one in running], 5)
                for one in [one for one in running if one.pipe in ready]:
                    running.remove(one)
                    self.took(one)
        finally:
            for one in running:
                one.process.terminate()
            for one in running:
                one.process.join()

    def shrink(self):
        """Shrinks the first failure of each kind."""
        for category, cases in self.failed.items():
            if category == "harness":
                continue
            case = min(cases, key=size_of)
            smaller = Shrinking(case, category, self.options, self.base)
            if not smaller.run():
                print(f"{category}: seed {case['seed']} did not fail again in two tries", flush=True)
                continue
            path = written(smaller.case, self.options, smaller.name)
            print(f"{category}: {size_of(case)} steps made {size_of(smaller.case)}: {sys.argv[0]} --replay {path}", flush=True)
            print(path.read_text(), flush=True)

    def confirm(self):
        """Runs each failed case twice more. Timing is chance; a failure that does not recur is reported, but does
        not count."""
        again = False
        for category, cases in self.failed.items():
            for case in cases:
                results = [Started(case, self.options, self.base).result() for _ in range(2)]
                failed = [result for result in results if result["failures"]]
                for result in failed:
                    shown(result)
                print(f"{category}: seed {case['seed']} failed in {len(failed)} of 2 further runs", flush=True)
                again |= bool(failed)
        return 1 if again else 0

    def sum_up(self):
        times = [seconds for result in self.results for seconds in result["times"]]
        total = {key: sum(result[key] for result in self.results) for key in ("rounds", "done", "impossible", "checked")}
        kinds = {}
        for result in self.results:
            for failure in {failure["category"] for failure in result["failures"]}:
                kinds[failure] = kinds.get(failure, 0) + 1
        middle, largest = (statistics.median(times), max(times)) if times else (0, 0)
        failed = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "none"
        print(
            f"{'syncthing' if self.options.beside else 'xylem'}: seed {self.options.seed}: {len(self.results)} cases, {total['rounds']} rounds, "
            f"{total['done']} operations ({total['impossible']} more had nothing to work on), {total['checked']} contents looked for; in step "
            f"after {middle:.1f} s (median), {largest:.1f} s (largest); cases failed: {failed}",
            flush=True,
        )
        return 1 if kinds else 0


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words = lambda text: [word for word in text.split(",") if word]
    parser.add_argument("xylem", nargs="?", default="target/release/xylem", type=pathlib.Path)
    parser.add_argument("--seed", default=None, help="any word [default: drawn, and printed]")
    parser.add_argument("--rounds", type=int, default=None)
    parser.add_argument("--operations", type=int, default=0, help="as many rounds as that takes")
    parser.add_argument("--minutes", type=float, default=0, help="no new case after that")
    parser.add_argument("--groups", type=int, default=2, help="cases at a time")
    parser.add_argument("--case", type=int, default=10, help="rounds that a group of members lasts")
    parser.add_argument("--members", type=int, default=0)
    parser.add_argument("--without", type=words, default=[], help="operations and faults that are not drawn")
    parser.add_argument("--only", type=words, default=[], help="with write and remove, the only ones that are")
    parser.add_argument("--loose", type=words, default=[], help="drawn, but what they change is not compared: mode, directory_mode, time")
    parser.add_argument("--patience", type=float, default=120)
    parser.add_argument("--keep", default=None, help="folders and stores of what fails are copied there")
    parser.add_argument("--replays", default="target/folders", help="where failing cases are written")
    parser.add_argument("--shrink", type=int, default=None, help="tries for each kind of failure; 0 for none [default: 60; 0 with --replay]")
    parser.add_argument("--confirm", action="store_true", help="exit 1 only where a case that failed fails again in one of two further runs")
    parser.add_argument("--shrink-minutes", type=float, default=10)
    parser.add_argument("--beside", choices=["syncthing"], default=None)
    parser.add_argument("--replay", type=pathlib.Path, default=None)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    options.rounds_given = options.rounds is not None
    options.rounds = options.rounds or 30
    if options.shrink is None:
        options.shrink = 0 if options.replay else 60
    options.seed = options.seed or f"{random.SystemRandom().randrange(10**6)}"
    return options


def main():
    options = arguments()
    if options.list:
        print("operations:", *OPERATIONS)
        print("faults:", *FAULTS)
        return 0
    sweep()
    where = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    signal.signal(signal.SIGTERM, once)
    with tempfile.TemporaryDirectory(dir=where, prefix="folders-") as base:
        base = pathlib.Path(base)
        base.chmod(0o755)
        if not options.beside:
            shutil.copy(options.xylem, base / "xylem")
            (base / "xylem").chmod(0o755)
        if clock_library(base) is None:
            print("folders: no C compiler; wrong clocks SKIPPED", flush=True)
        if not ROOT:
            print("folders: not root; cuts stop members, full disks and other users SKIPPED", flush=True)
        everything = All(options, base)
        if options.replay:
            case = json.loads(options.replay.read_text())
            everything.took(Started(case, options, base))
            options.seed = case["seed"]
            code = everything.sum_up()
            if options.shrink:
                everything.shrink()
            return code
        print(f"folders: --seed {options.seed}", flush=True)
        everything.run()
        code = everything.sum_up()
        if options.confirm:
            code = everything.confirm()
        if options.shrink:
            everything.shrink()
        return code


if __name__ == "__main__":
    sys.exit(main())
