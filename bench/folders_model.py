"""Operations of `bench/folders.py` on folders, and the conditions that have to hold afterwards.

`Operations` has one method for each operation of a user. `Ledger` records each content, its author and its removals, and
lists violations of the conditions by folders at rest.
"""

import contextlib
import dataclasses
import fnmatch
import hashlib
import os
import pathlib
import random
import re
import shutil
import stat

RULES = ".xylemignore"
# Parts of names of conflict copies, of both programs.
COPIES = (".conflict-", ".sync-conflict-")
COPY = re.compile(r"\.conflict-m[0-9]+-(?:[0-9a-f]{8}|[0-9a-f]{24})(?=\.|$)")


def digest(data):
    return hashlib.blake2b(data, digest_size=16).hexdigest()


NOTHING = digest(b"")


def text_of(seed, number, size):
    """Content that no other file has."""
    head = f"{seed}/{number}\n".encode()
    return head + random.Random(f"{seed}/{number}").randbytes(max(size - len(head), 0))


@dataclasses.dataclass(frozen=True)
class Thing:
    """An entry of a folder: `what` is a file's or link's digest, empty for a directory."""

    kind: str
    what: str = ""
    mode: int = 0
    time: int = 0
    # Digest of its extended attributes, empty without.
    attributes: str = ""


def attributes_of(path):
    with contextlib.suppress(OSError):
        names = sorted(name for name in os.listxattr(path, follow_symlinks=False) if name.startswith("user."))
        if names:
            return digest(repr([(name, os.getxattr(path, name, follow_symlinks=False)) for name in names]).encode())[:8]
    return ""


class Reader:
    """Reads trees; a file that has not changed since the last time is not read again."""

    def __init__(self):
        self.known = {}

    def file(self, path, state):
        key = (state.st_dev, state.st_ino, state.st_size, state.st_mtime_ns, state.st_ctime_ns)
        if key not in self.known:
            with open(path, "rb") as file:
                self.known[key] = digest(file.read())
        return self.known[key]

    def thing(self, path):
        state = os.lstat(path)
        if stat.S_ISLNK(state.st_mode):
            return Thing("link", digest(b"link:" + os.fsencode(os.readlink(path))))
        if stat.S_ISDIR(state.st_mode):
            return Thing("directory", mode=stat.S_IMODE(state.st_mode), attributes=attributes_of(path))
        if stat.S_ISREG(state.st_mode):
            return Thing("file", self.file(path, state), stat.S_IMODE(state.st_mode), state.st_mtime_ns, attributes_of(path))
        return Thing("other")

    def tree(self, top, own=()):
        """Path below `top` to `Thing`; entries that vanish meanwhile are left out."""
        found, todo = {}, [""]
        while todo:
            at = todo.pop()
            with contextlib.suppress(OSError):
                for name in os.listdir(os.path.join(top, at)):
                    if not at and name in own:
                        continue
                    path = os.path.join(at, name)
                    with contextlib.suppress(OSError):
                        found[path] = self.thing(os.path.join(top, path))
                        if found[path].kind == "directory":
                            todo.append(path)
        return found

    def other_names(self, top, paths, own=()):
        """All names of the files with one of these paths: a write to one hard link changes all."""
        inodes = set()
        for path in paths:
            with contextlib.suppress(OSError):
                state = os.lstat(os.path.join(top, path))
                if stat.S_ISREG(state.st_mode) and state.st_nlink > 1:
                    inodes.add(state.st_ino)
        if not inodes:
            return []
        found = []
        for path in self.tree(top, own):
            with contextlib.suppress(OSError):
                if os.lstat(os.path.join(top, path)).st_ino in inodes:
                    found.append(path)
        return found

    def at(self, top, paths):
        """As `tree`, for these paths and those below them."""
        found = {}
        for path in paths:
            whole = os.path.join(top, path)
            with contextlib.suppress(OSError):
                found[path] = self.thing(whole)
                if found[path].kind == "directory":
                    found |= {os.path.join(path, below): thing for below, thing in self.tree(whole).items()}
        return found


def contents(tree):
    return {thing.what for thing in tree.values() if thing.what and thing.what != NOTHING}


def left_out(path, rules):
    """Whether rules of the forms that are drawn here (`*.tmp`, `/cache`, `secret`, `!keep.tmp`) exclude a path."""
    if not rules:
        return False
    # A conflict copy is excluded where its original is.
    parts = [COPY.sub("", part) for part in path.split("/")]
    for end in range(1, len(parts) + 1):
        out = False
        for rule in rules:
            bare = rule.lstrip("!")
            if bare.startswith("/"):
                fits = "/".join(parts[:end]) == bare[1:]
            else:
                fits = fnmatch.fnmatchcase(parts[end - 1], bare)
            if fits:
                out = not rule.startswith("!")
        if out:
            return True
    return False


class Impossible(Exception):
    """The drawn operation is not possible in the present folder and is skipped."""


class Operations:
    """Operations of users, each by the system calls of a usual program. Paths are below `top`; `number` makes
    contents unique."""

    def __init__(self, top, seed, number, states, rules_file=RULES):
        """`states` receives the digest of each content between two steps of an operation."""
        self.top, self.seed, self.number, self.states = str(top), seed, number, states
        self.rules_file = rules_file

    def at(self, path):
        """Follows no links, so that only the named path is changed."""
        whole, parts = self.top, path.split("/")
        for part in parts[:-1]:
            whole = os.path.join(whole, part)
            if os.path.islink(whole):
                raise Impossible
        return os.path.join(self.top, path)

    def made(self, path):
        """A path that can be written."""
        whole = self.at(path)
        os.makedirs(os.path.dirname(whole), exist_ok=True)
        return whole

    def is_file(self, path):
        whole = self.at(path)
        if os.path.islink(whole) or not os.path.isfile(whole):
            raise Impossible
        return whole

    def text(self, size):
        return text_of(self.seed, self.number, size)

    def put(self, descriptor, data):
        """Writes all of a file; each intermediate state is reported."""
        done = 0
        while done < len(data):
            done += os.write(descriptor, data[done:])

    def write(self, path, size):
        whole = self.made(path)
        if os.path.islink(whole) or os.path.isdir(whole):
            raise Impossible
        descriptor = os.open(whole, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        try:
            self.put(descriptor, self.text(size))
        finally:
            os.close(descriptor)

    def save(self, path, size):
        """Saves like an editor: a new file takes the name."""
        whole = self.made(path)
        new = os.path.join(os.path.dirname(whole), self.between())
        try:
            descriptor = os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644)
            try:
                self.put(descriptor, self.text(size))
            finally:
                os.close(descriptor)
            os.rename(new, whole)
        except OSError:
            with contextlib.suppress(OSError):
                os.unlink(new)
            raise

    def between(self):
        return f"~save{self.number}"

    def append(self, path):
        with open(self.is_file(path), "ab", 0) as file:
            file.write(self.text(40))

    def truncate(self, path, size):
        os.truncate(self.is_file(path), size)

    def middle(self, path, size):
        """Overwrites a part in place."""
        with open(self.is_file(path), "r+b", 0) as file:
            file.seek(os.fstat(file.fileno()).st_size // 2)
            file.write(self.text(size))

    def silent(self, path):
        """Writes another content of the same size and time."""
        whole = self.is_file(path)
        before = os.stat(whole)
        if before.st_size < 30:
            raise Impossible
        with open(whole, "r+b", 0) as file:
            file.write(self.text(before.st_size)[: before.st_size])
        os.utime(whole, ns=(before.st_atime_ns, before.st_mtime_ns))

    def sparse(self, path, size):
        whole = self.made(path)
        if os.path.islink(whole) or os.path.isdir(whole):
            raise Impossible
        with open(whole, "wb", 0) as file:
            file.truncate(size)
            self.states(digest(bytes(size)))
            file.seek(size // 2)
            file.write(self.text(50))

    def burst(self, path, count):
        """Appends line after line, like a log."""
        whole = self.is_file(path)
        for line in range(count):
            with open(whole, "r+b", 0) as file:
                text = file.read() + text_of(self.seed, f"{self.number}.{line}", 30)
                self.states(digest(text))
                file.write(text[-30:])

    def remove(self, path):
        whole = self.at(path)
        if os.path.isdir(whole) and not os.path.islink(whole):
            shutil.rmtree(whole)
        else:
            os.unlink(whole)

    def rename(self, path, to):
        whole, to = self.at(path), self.at(to)
        if not os.path.lexists(whole):
            raise Impossible
        os.makedirs(os.path.dirname(to), exist_ok=True)
        os.rename(whole, to)

    def chain(self, *paths):
        """Renames in a chain: the last but one path takes the last one's name, and so on."""
        for path, to in reversed(list(zip(paths, paths[1:]))):
            with contextlib.suppress(Impossible):
                self.rename(path, to)

    def swap(self, path, other):
        between = self.between()
        self.rename(path, between)
        try:
            self.rename(other, path)
        except (OSError, Impossible):
            self.rename(between, path)
            raise
        self.rename(between, other)

    def case(self, path):
        """Changes the case of a name."""
        folder, name = os.path.split(path)
        self.rename(path, os.path.join(folder, name.swapcase()))

    def copy(self, path, to):
        with open(self.is_file(path), "rb") as file:
            data = file.read()
        whole = self.made(to)
        if os.path.islink(whole) or os.path.isdir(whole):
            raise Impossible
        with open(whole, "wb", 0) as file:
            file.write(data)

    def make(self, path):
        os.makedirs(self.at(path))

    def into(self, path, other):
        """Moves a directory into another one."""
        self.rename(path, os.path.join(other, os.path.basename(path)))

    def to_directory(self, path, size):
        whole = self.at(path)
        if os.path.isdir(whole) and not os.path.islink(whole):
            raise Impossible
        os.unlink(whole)
        os.mkdir(whole)
        self.write(os.path.join(path, "inside"), size)

    def to_file(self, path, size):
        whole = self.at(path)
        if not os.path.lexists(whole):
            raise Impossible
        self.remove(path)
        self.write(path, size)

    def to_link(self, path, target):
        whole = self.made(path)
        if os.path.lexists(whole):
            self.remove(path)
        os.symlink(target or f"to-{self.seed}-{self.number}", whole)

    def behind_link(self, path, to):
        """Moves a directory away and puts a link to it under its name."""
        whole = self.at(path)
        if os.path.islink(whole) or not os.path.isdir(whole) or to.startswith(path + "/"):
            raise Impossible
        self.rename(path, to)
        os.symlink(os.path.relpath(to, os.path.dirname(path) or "."), whole)

    def hard_link(self, path, to):
        whole, new = self.is_file(path), self.made(to)
        if os.path.lexists(new):
            raise Impossible
        os.link(whole, new)

    def mode(self, path, mode):
        os.chmod(self.is_file(path), mode)

    def directory_mode(self, path, mode):
        whole = self.at(path)
        if os.path.islink(whole) or not os.path.isdir(whole):
            raise Impossible
        os.chmod(whole, mode)

    def time(self, path, seconds):
        os.utime(self.is_file(path), (seconds, seconds))

    def attribute(self, path, name, value):
        whole = self.at(path)
        if os.path.islink(whole) or not os.path.lexists(whole):
            raise Impossible
        if value:
            os.setxattr(whole, name, value.encode())
        else:
            os.removexattr(whole, name)

    def ignore(self, _path, text):
        new = self.at(self.between())
        with open(new, "w") as file:
            file.write(text)
        os.rename(new, self.at(self.rules_file))


# The arguments of an operation that are paths; all others stay as they are.
PATHS = {"rename": 2, "swap": 2, "copy": 2, "into": 2, "behind_link": 2, "hard_link": 2, "chain": 99}


def touched(kind, arguments, number):
    """The paths that may differ after an operation."""
    paths = list(arguments[: PATHS.get(kind, 1)])
    if kind == "case":
        paths.append(os.path.join(os.path.dirname(paths[0]), os.path.basename(paths[0]).swapcase()))
    if kind == "into":
        paths[1] = os.path.join(paths[1], os.path.basename(paths[0]))
    if kind == "ignore":
        paths = [RULES]
    between = f"~save{number}"
    return list(dict.fromkeys(paths + [between, os.path.join(os.path.dirname(paths[0]), between)]))


@dataclasses.dataclass
class Entry:
    """One content that a user wrote."""

    path: str
    wanted: bool
    # The only member that has to have it: its author may not write for others.
    only: int | None = None
    # The member to which rules kept it: no other member may have it.
    secret: int | None = None
    # Members that removed it without the right to remove it for others.
    without: set = dataclasses.field(default_factory=set)
    # All members had it at rest.
    settled: bool = False
    # Paths at which a member had it.
    places: set = dataclasses.field(default_factory=set)
    # It was removed once. If it was wanted again since, that is one copy of it; other copies may still be on their way
    # out.
    once_gone: bool = False
    # One of several copies was removed: members with the others may have removed them, too.
    partly_gone: bool = False
    # A scan may have missed it before another change came: it has to be somewhere, but not everywhere.
    quiet: bool = False


class Ledger:
    """Contents that have to exist somewhere, and the members that may lack them."""

    def __init__(self):
        self.entries = {}
        self.known = {NOTHING}
        self.names, self.modes = set(), set()
        self.checked = 0

    def wrote(self, what):
        self.known.add(what)

    def named(self, paths):
        for path in paths:
            self.names |= set(path.split("/"))

    def after(self, member, before, after, everything, quiet=False):
        """Records an operation of `member` that turned `before` into `after`; `everything` returns its tree, if
        needed."""
        self.named(after)
        self.known |= {thing.what for thing in after.values() if thing.what}
        self.modes |= {(thing.kind, thing.mode) for thing in after.values()}
        for path, thing in after.items():
            old = before.get(path)
            if thing.what and thing.what != NOTHING and path != RULES and (old is None or old.what != thing.what):
                self.came(member, path, thing.what)
                if quiet and thing.what in self.entries:
                    self.entries[thing.what].quiet = True
        gone = [
            (path, thing.what)
            for path, thing in before.items()
            if thing.what in self.entries and (path not in after or after[path].what != thing.what)
        ]
        # Content that moved to an excluded path is gone for the others. Another name that stays, of a hard link, may be on
        # its way out.
        came = {path: thing for path, thing in after.items() if path not in before or before[path].what != thing.what}
        now = contents({path: thing for path, thing in came.items() if not member.leaves_out(path)})
        gone = [(path, what) for path, what in gone if what not in now]
        if gone:
            now = contents({path: thing for path, thing in everything().items() if not member.leaves_out(path)})
            for path, what in gone:
                if what not in now or self.entries[what].once_gone:
                    self.went(member, path, what)
                else:
                    self.entries[what].partly_gone = True

    def came(self, member, path, what):
        out = member.leaves_out(path)
        entry = self.entries.get(what)
        if out:
            if entry is None:
                self.entries[what] = Entry(path, False, secret=member.number if member.rules_are_old else None)
            elif entry.secret != member.number:
                # Two users made the same, such as links to one place: where it came from is not known any more.
                entry.secret = None
            return
        if entry is None:
            entry = self.entries[what] = Entry(path, True)
            entry.only = member.number if member.reads_only else None
        elif not entry.wanted:
            entry.only = member.number if member.reads_only else None
        elif not member.reads_only:
            entry.only = None
        # No scan need have seen that it was away from a place of its own, and a removal that was on its way may arrive.
        entry.partly_gone |= entry.once_gone and path in entry.places
        entry.places.add(path)
        entry.wanted, entry.secret, entry.path = True, None, path
        entry.without.discard(member.number)

    def went(self, member, path, what):
        entry = self.entries[what]
        if member.leaves_out(path) and entry.wanted:
            entry.without.add(member.number)
        elif member.reads_only and entry.only != member.number:
            entry.without.add(member.number)
        else:
            entry.wanted, entry.once_gone = False, True

    def rules_changed(self, member, tree, before):
        """Records that other rules than `before` are in force."""
        for path, thing in tree.items():
            if not thing.what or thing.what == NOTHING or path == RULES:
                continue
            was, now = left_out(path, before), member.leaves_out(path)
            if was and not now:
                # What it replaced while its rules left the path out is replaced for all now.
                for replaced in self.entries.values():
                    replaced.partly_gone |= member.number in replaced.without and path in replaced.places
            entry = self.entries.get(thing.what)
            if was and not now and entry and entry.once_gone:
                # It may reach other members, but need not.
                entry.secret = None
            elif was and not now:
                self.came(member, path, thing.what)
            elif now and not was and entry and not entry.settled:
                entry.wanted = False

    def may_write_again(self, member, tree):
        """Changes that `member` made for itself alone now go to all."""
        here = contents(tree)
        for what, entry in self.entries.items():
            if entry.only == member.number and what in here:
                entry.only = None
            if member.number in entry.without and what not in here:
                entry.wanted = False

    def wrong(self, members, trees, trashes):
        """Violations at rest: (category, words)."""
        has = [contents(tree) | contents(trash) for tree, trash in zip(trees, trashes)]
        # Content that a member's rules exclude counts for itself alone.
        stand = [
            contents({path: thing for path, thing in tree.items() if not member.leaves_out(path)}) for member, tree in zip(members, trees)
        ]
        hidden = [set() for _ in members]
        for k, member in enumerate(members):
            if not member.rules and not member.own_paths:
                continue
            for tree in trees:
                hidden[k] |= {
                    t.what for path, t in tree.items() if member.leaves_out(path) or path in member.holding or member.apart(path)
                }
        found = []
        for what, entry in list(self.entries.items()):
            if entry.secret is not None:
                others = [m.number for k, m in enumerate(members) if m.number != entry.secret and what in has[k]]
                if others:
                    found.append(("leaked", f"content {what[:8]}, {entry.path!r} of member {entry.secret}, left out by its rules, is at {others}"))
            if not entry.wanted:
                continue
            self.checked += 1
            # A copy of a member that only reads is for itself: no other member takes what that one offers.
            offers = (contents_of for k, contents_of in enumerate(stand) if not members[k].reads_only or entry.only == members[k].number)
            stands = any(what in contents_of for contents_of in offers)
            somewhere = any(what in contents_of for contents_of in has)
            if not stands and (entry.partly_gone or (somewhere and entry.quiet)):
                entry.wanted = False
                continue
            lack = [
                member.number
                for k, member in enumerate(members)
                if what not in has[k]
                and what not in hidden[k]
                and member.number not in entry.without
                and (entry.only is None or entry.only == member.number)
                and (stands or not (member.was_full or member.has_left_out(entry.path)))
            ]
            if lack:
                where = [
                    f"{path!r} of {member.number}{' (trash)' if of is trashes else ''}"
                    for of in (trees, trashes)
                    for member, tree in zip(members, of)
                    for path, thing in tree.items()
                    if thing.what == what
                ]
                found.append(("lost", f"content {what[:8]}, last at {entry.path!r}, is not at {lack}; it is at {', '.join(where) or 'none'}"))
            else:
                entry.settled = entry.only is None
                entry.places |= {path for tree in trees for path, thing in tree.items() if thing.what == what}
                # Content that only the trash has is removed in time, and at once where there is no room.
                entry.wanted = stands
        for member, tree, trash in zip(members, trees, trashes):
            for path, thing in [*tree.items(), *trash.items()]:
                if thing.what and thing.what not in self.known:
                    found.append(("unwritten", f"{path!r} of member {member.number} has content that no operation wrote"))
                    # It is reported once.
                    self.known.add(thing.what)
            for path, thing in tree.items():
                if thing.kind == "file" and (thing.kind, thing.mode) not in self.modes:
                    found.append(("unwritten", f"{path!r} of member {member.number} has mode {thing.mode:o}, which no operation set"))
                if not any(mark in path for mark in COPIES) and not set(path.split("/")) <= self.names:
                    found.append(("unwritten", f"{path!r} of member {member.number} is a name that no operation used"))
                    self.named([path])
        return found


def differences(members, trees, compared):
    """Paths that differ between members which should have the same: [(path, {member: value})]."""
    found = []
    # A reader keeps what others leave out, and its directories: no other has removed it, and one that would take it again
    # takes nothing from a reader.
    holding = {}
    for member, tree in zip(members, trees):
        if member.reads_only:
            alone = [path for path in tree if any(other.leaves_out(path) for other in members)]
            holding[member.number] = {str(parent) for path in alone for parent in pathlib.PurePosixPath(path).parents} | set(alone)
    for path in sorted(set().union(*trees)):
        if path == RULES:
            continue
        values = {}
        for member, tree in zip(members, trees):
            if member.leaves_out(path) or path in member.holding or member.apart(path):
                continue
            if path in holding.get(member.number, ()):
                continue
            thing = tree.get(path)
            if thing and thing.kind == "directory" and "directory-modes" not in compared:
                thing = dataclasses.replace(thing, mode=0)
            if thing and thing.kind != "directory" and "modes" not in compared:
                thing = dataclasses.replace(thing, mode=0)
            if thing and "times" not in compared:
                thing = dataclasses.replace(thing, time=0)
            if thing and "attributes" not in compared:
                thing = dataclasses.replace(thing, attributes="")
            values[member.number] = thing
        for member in members:
            # Attributes that a reader gave a file stay with the file if another member renames it.
            mine, others = values.get(member.number), [thing for number, thing in values.items() if number != member.number]
            if member.own_paths and mine and others and others[0]:
                values[member.number] = dataclasses.replace(mine, attributes=others[0].attributes)
        if len(set(values.values())) > 1:
            found.append((path, values))
    return found
