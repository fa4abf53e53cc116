"""A group of members for `bench/folders.py`: their programs, disks and networks, and the faults of these.

As root each member has a network namespace, two small disks in memory (one for its folder, one for its store), and a
program that runs as `nobody`. Without root all members share one machine, cuts stop members instead, and disks never fill up.
"""

import contextlib
import ctypes
import json
import mmap
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from folders_model import RULES, Reader, left_out
from processes import Failed, free_port


def may_mount():
    """Whether this process is root, and may mount (a container may forbid it)."""
    words = ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"]
    return os.geteuid() == 0 and bool(shutil.which("unshare")) and subprocess.run(words, capture_output=True).returncode == 0


ROOT = may_mount()
NOBODY = 65534
LIBC = ctypes.CDLL(None, use_errno=True)
CLONE_NEWNS, CLONE_NEWNET, PR_SET_PDEATHSIG = 0x00020000, 0x40000000, 1
DISK = "128m"

CLOCK = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>
/* Seconds by which this process's clock is ahead, in a file that others change. */
static volatile int64_t *ahead;
__attribute__((constructor)) static void begin(void) {
    const char *path = getenv("FOLDERS_CLOCK");
    int file = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    if (file < 0) return;
    void *map = mmap(0, 8, PROT_READ, MAP_SHARED, file, 0);
    if (map != MAP_FAILED) ahead = map;
    close(file);
}
int clock_gettime(clockid_t which, struct timespec *at) {
    int wrong = syscall(SYS_clock_gettime, which, at);
    if (!wrong && ahead && (which == CLOCK_REALTIME || which == CLOCK_REALTIME_COARSE)) at->tv_sec += *ahead;
    return wrong;
}
int gettimeofday(struct timeval *at, void *zone) {
    struct timespec now;
    int wrong = clock_gettime(CLOCK_REALTIME, &now);
    if (at) { at->tv_sec = now.tv_sec; at->tv_usec = now.tv_nsec / 1000; }
    return wrong;
}
time_t time(time_t *at) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (at) *at = now.tv_sec;
    return now.tv_sec;
}
"""


def clock_library(base):
    """The library that shifts a program's clock; None without a compiler."""
    source, library = base / "clock.c", base / "clock.so"
    source.write_text(CLOCK)
    if not shutil.which("cc"):
        return None
    built = subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, source], capture_output=True)
    return library if built.returncode == 0 else None


def sh(*words, text=None):
    done = subprocess.run([str(word) for word in words], input=text, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{' '.join(map(str, words))}: {done.stderr.strip()}")


@contextlib.contextmanager
def as_user():
    """Runs the block as an ordinary user."""
    if ROOT:
        os.seteuid(NOBODY)
    try:
        yield
    finally:
        if ROOT:
            os.seteuid(0)


class Network:
    """A namespace for each member, and one with a switch between them."""

    def __init__(self, count):
        self.names = [f"xf{os.getpid()}m{n}" for n in range(count)]
        self.hub = f"xf{os.getpid()}h"
        self.addresses = [f"10.99.0.{n + 1}" for n in range(count)]
        self.files = []
        sh("ip", "netns", "add", self.hub)
        sh("ip", "-n", self.hub, "link", "add", "br0", "type", "bridge")
        sh("ip", "-n", self.hub, "link", "set", "br0", "up")
        for n, name in enumerate(self.names):
            sh("ip", "netns", "add", name)
            sh("ip", "-n", self.hub, "link", "add", f"v{n}", "type", "veth", "peer", "name", "eth0", "netns", name)
            sh("ip", "-n", self.hub, "link", "set", f"v{n}", "master", "br0", "up")
            sh("ip", "-n", name, "addr", "add", f"{self.addresses[n]}/24", "dev", "eth0")
            sh("ip", "-n", name, "link", "set", "eth0", "up")
            sh("ip", "-n", name, "link", "set", "lo", "up")
            self.files.append(os.open(f"/run/netns/{name}", os.O_RDONLY | os.O_CLOEXEC))

    def cut(self, parts):
        """Cuts the network: only members of the same part reach each other."""
        for part in parts:
            others = ", ".join(address for n, address in enumerate(self.addresses) if n not in part)
            if others:
                chain = f"chain in {{\ntype filter hook input priority 0\nip saddr {{ {others} }} drop\n}}\n"
                for n in part:
                    sh("ip", "netns", "exec", self.names[n], "nft", "-f", "-", text=f"flush ruleset\ntable ip cut {{\n{chain}}}\n")

    def heal(self):
        for name in self.names:
            sh("ip", "netns", "exec", name, "nft", "flush", "ruleset")

    def close(self):
        for file in self.files:
            os.close(file)
        for name in [*self.names, self.hub]:
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def sweep():
    """Removes namespaces of runs that were killed."""
    for name in os.listdir("/run/netns") if ROOT and os.path.isdir("/run/netns") else ():
        found = re.fullmatch(r"xf(\d+)(h|m\d+)", name)
        if found and not os.path.exists(f"/proc/{found[1]}"):
            subprocess.run(["ip", "netns", "del", name], capture_output=True)


def once(*_):
    """Handles SIGTERM once, so that the cleanup is not interrupted."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    sys.exit(1)


class Here:
    """The network without namespaces."""

    def __init__(self, count):
        self.addresses = ["127.0.0.1"] * count
        self.files = [None] * count

    def close(self):
        pass


def has_networks():
    return ROOT and bool(shutil.which("nft")) and subprocess.run(["ip", "netns", "list"], capture_output=True).returncode == 0


class Xylem:
    """How `xylem sync` is run, and its internal files in a folder."""

    name = "xylem"
    own = (".xylem-sync", RULES)
    # Prefixes of names of unfinished files, which lie beside the final ones.
    unfinished = ("\0",)
    rules_file = RULES
    ready_event = "sync_ready"
    # Seconds for which equal folders may still turn out to be wrong: a change may be on its way.
    settles = 10

    def __init__(self, program):
        self.program = str(program)
        # Whether the members exchange extended attributes.
        self.attributes = False

    def command(self, member, ticket):
        words = [self.program, "--store", member.store, "--json", "sync", member.folder]
        words += [ticket] if ticket else []
        words += ["--xattrs"] if self.attributes else []
        return [*words, "--as", f"m{member.number}", "--listen", member.address]

    def prepare(self, members):
        pass

    def trash(self, member):
        return member.folder / ".xylem-sync" / "trash"

    def leftovers(self, member):
        own = member.folder / ".xylem-sync"
        names = os.listdir(own) if own.is_dir() else []
        # The program may remove it meanwhile.
        with contextlib.suppress(FileNotFoundError):
            names += [f"staged/{name}" for name in os.listdir(own / "staged")]
        return [name for name in names if re.search(r"^staged/|incoming|xylem-part|\.new$|\.tmp$", name)]

    def accept_removals(self, member):
        """Confirms, as a user, the removal of most of a folder."""
        words = [self.program, "--store", str(member.store), "sync", str(member.folder), "--accept-removals"]
        subprocess.run(words, capture_output=True, timeout=60, **member.as_it())

    def forget(self, member):
        """Follows the advice of its last line after its store was restored from a copy: a new key, and joining
        again."""
        shutil.rmtree(member.store / "sync", ignore_errors=True)


class Syncthing:
    """Syncthing with trash can versioning and a delay of one second after changes; it contacts no servers."""

    name = "syncthing"
    own = (".stfolder", ".stversions", ".stignore")
    # It keeps these for a day.
    unfinished = (".syncthing.", "~syncthing~")
    rules_file = ".stignore"
    ready_event = None
    # A full scan runs each minute.
    settles = 75

    def __init__(self, program):
        self.program = str(program)

    def command(self, member, _ticket):
        return [self.program, "serve", "--home", member.store, "--no-browser", "--no-upgrade", "--no-restart"]

    def prepare(self, members):
        ids = []
        for member in members:
            words = [self.program, "generate", "--home", str(member.store), "--no-default-folder"]
            subprocess.run(words, check=True, capture_output=True, **member.as_it())
            text = (member.store / "config.xml").read_text()
            ids.append(re.search(r'<device id="([A-Z0-9-]+)"', text)[1])
        devices = "".join(
            f'<device id="{i}" name="m{m.number}" compression="metadata"><address>tcp://{m.address}</address></device>'
            for i, m in zip(ids, members)
        )
        shared = "".join(f'<device id="{i}"></device>' for i in ids)
        for member in members:
            self.configure(member, devices, shared)

    def configure(self, member, devices, shared):
        path = member.store / "config.xml"
        text = re.sub(r"<device id=.*?</device>", "", path.read_text(), flags=re.S)
        folder = (
            f'<folder id="f" label="f" path="{member.folder}" type="sendreceive" rescanIntervalS="60" fsWatcherEnabled="true" '
            f'fsWatcherDelayS="1"><filesystemType>basic</filesystemType>{shared}<minDiskFree unit="%">0</minDiskFree>'
            f'<versioning type="trashcan"><param key="cleanoutDays" val="0"></param></versioning></folder>'
        )
        text = text.replace("<gui", folder + devices + "<gui", 1)
        settings = dict.fromkeys(
            ("globalAnnounceEnabled", "localAnnounceEnabled", "relaysEnabled", "natEnabled", "crashReportingEnabled"), "false"
        )
        settings |= {"urAccepted": "-1", "reconnectionIntervalS": "2", "listenAddress": f"tcp://{member.address}"}
        for key, value in settings.items():
            text = re.sub(f"<{key}>.*?</{key}>", f"<{key}>{value}</{key}>", text)
        text = re.sub(r"<address>127.0.0.1:8384</address>", f"<address>127.0.0.1:{free_port()}</address>", text)
        path.write_text(text)

    def trash(self, member):
        return member.folder / ".stversions"

    def leftovers(self, member):
        return []

    def accept_removals(self, member):
        pass

    def forget(self, member):
        pass


class Member:
    """One member: a folder, a store, and a program that may run."""

    def __init__(self, group, number):
        self.group, self.number, self.kind = group, number, group.kind
        base = group.base / f"m{number}"
        self.disk, self.store_disk, self.home = base / "disk", base / "store", base / "home"
        self.folder, self.store = self.disk / "folder", self.store_disk / "store"
        for disk in (self.disk, self.store_disk):
            disk.mkdir(parents=True)
            if ROOT:
                sh("mount", "-t", "tmpfs", "-o", f"size={group.disk}", "none", disk)
        for place in (self.folder, self.store, self.home, self.disk, self.store_disk):
            place.mkdir(exist_ok=True)
            if ROOT:
                os.chown(place, NOBODY, NOBODY)
        self.store.chmod(0o700)
        # Made once and kept: other members store the address.
        port = 4400 if group.namespaces else free_port()
        self.address = f"{group.network.addresses[number]}:{port}"
        self.out, self.err = base / "out", base / "err"
        self.clock = base / "clock"
        self.clock.write_bytes(bytes(8))
        self.clock.chmod(0o644)
        self.process, self.key, self.ready = None, None, False
        self.read, self.rest = 0, b""
        self.stopped, self.meant, self.ended = False, False, []
        self.rules, self.rules_are_old, self.holding, self.all_rules = (), False, set(), set()
        self.reads_only, self.heard_role, self.own_paths = False, True, set()
        self.rewrote, self.was_full, self.times_ended = set(), False, 0
        self.reader = Reader()

    # Its program.

    def as_it(self):
        """Arguments for `subprocess`: in its namespace, as an ordinary user."""
        environment = {
            "PATH": os.environ["PATH"], "HOME": str(self.home), "XYLEM_NO_LAN": "1", "XYLEM_NO_MAP": "1",
            "XYLEM_NO_PROGRESS": "1", "STNODEFAULTFOLDER": "1", "FOLDERS_CLOCK": str(self.clock),
        }
        if self.group.clock:
            environment["LD_PRELOAD"] = str(self.group.clock)
        network = self.group.network.files[self.number]

        def begin():
            if network is not None and LIBC.setns(network, CLONE_NEWNET):
                os._exit(99)
            if ROOT:
                os.setgroups([])
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            # It ends with this program, however that ends.
            LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)

        return {"env": environment, "cwd": self.home, "preexec_fn": begin, "stdin": subprocess.DEVNULL}

    def start(self, ticket=None):
        if self.runs():
            return
        self.stopped, self.meant, self.ready = False, False, False
        with open(self.out, "ab") as out, open(self.err, "ab") as err:
            words = [str(word) for word in self.kind.command(self, ticket)]
            self.process = subprocess.Popen(words, stdout=out, stderr=err, start_new_session=True, **self.as_it())

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def end(self, how):
        """Ends its program with a signal."""
        if not self.runs():
            return
        self.meant = True
        self.cont()
        os.killpg(self.process.pid, how)
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def stop(self):
        if self.runs():
            self.stopped = True
            self.signal_and_see()

    def signal_and_see(self):
        os.killpg(self.process.pid, signal.SIGSTOP)
        end = time.monotonic() + 10
        while time.monotonic() < end and not all_stopped(self.process.pid):
            time.sleep(0.0005)

    def cont(self):
        if self.stopped and self.runs():
            os.killpg(self.process.pid, signal.SIGCONT)
        self.stopped = False

    @contextlib.contextmanager
    def held(self):
        """Stops its program during the block, so that the removals of an operation are known. The program may be
        stopped at any point."""
        runs = self.runs() and not self.stopped
        if runs:
            self.signal_and_see()
        try:
            yield
        finally:
            if runs and self.runs():
                os.killpg(self.process.pid, signal.SIGCONT)

    def events(self):
        """New events of its program; records the relevant ones."""
        with open(self.out, "rb") as file:
            file.seek(self.read)
            text = file.read()
        self.read += len(text)
        *lines, self.rest = (self.rest + text).split(b"\n")
        found = []
        for line in lines:
            with contextlib.suppress(ValueError):
                found.append(json.loads(line))
        for event in found:
            if event.get("event") == self.kind.ready_event:
                self.ready, self.key = True, event["key"]
                if self.number == 0:
                    self.group.ticket = event["ticket"]
            elif event.get("event") == "sync_read_only":
                self.heard_role = True
            elif event.get("event") == "sync_rewrote":
                self.rewrote.add(event["key"])
        return found

    def last_words(self):
        with contextlib.suppress(OSError):
            return self.err.read_text(errors="replace").strip().splitlines()[-3:]
        return []

    # Its folder.

    def tree(self):
        tree = self.reader.tree(self.folder, self.kind.own)
        return {path: thing for path, thing in tree.items() if not os.path.basename(path).startswith(self.kind.unfinished)}

    def trash(self):
        """Contents of its trash, under names with its number, so that none collide."""
        return self.reader.tree(self.kind.trash(self))

    def leaves_out(self, path):
        return left_out(path, self.rules)

    def has_left_out(self, path):
        """Whether present or earlier rules exclude a path: the trash then need not have a file that was never
        fetched."""
        return any(left_out(path, rules) for rules in self.all_rules)

    def apart(self, path):
        """Whether its version of a path may differ from the others': it is read-only, and has changed the path, or has
        something in a directory that its rules exclude and that a version of others was to replace."""
        if any(mark in path for mark in (".conflict-", ".sync-conflict-")):
            return bool(self.own_paths or (self.reads_only and self.holding))
        return any(
            path == own or path.startswith(own + "/") or own.startswith(path + "/") for own in self.own_paths
        )

    def look(self):
        """Its present rules, and the directories with excluded entries."""
        tree = self.tree()
        self.holding = set()
        if self.rules:
            for path in tree:
                if self.leaves_out(path):
                    parts = path.split("/")[:-1]
                    self.holding |= {"/".join(parts[:end]) for end in range(1, len(parts) + 1)}
        return tree

    # Its disks.

    def fill(self, disk):
        """Fills its disk up to a few KiB."""
        self.was_full, ballast = True, disk / "ballast"
        free = os.statvfs(disk)
        size = free.f_bavail * free.f_frsize - 8192
        if ROOT and size > 0:
            descriptor = os.open(ballast, os.O_WRONLY | os.O_CREAT, 0o644)
            with contextlib.suppress(OSError):
                os.posix_fallocate(descriptor, 0, size)
            os.close(descriptor)

    def empty(self, disk):
        with contextlib.suppress(OSError):
            os.unlink(disk / "ballast")


def all_stopped(pid):
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/stat") as file:
                if file.read().rsplit(")", 1)[1].split()[0] not in "TtZX":
                    return False
    return True


class Group:
    """All members of a case."""

    def __init__(self, kind, base, count, clock, disk=DISK):
        self.kind, self.base, self.ticket, self.members, self.disk = kind, pathlib.Path(base), None, [], disk
        self.clock = clock
        self.namespaces = has_networks()
        self.network = (Network if self.namespaces else Here)(count)
        try:
            self.members = [Member(self, n) for n in range(count)]
            kind.prepare(self.members)
        except BaseException:
            self.close()
            raise

    def ticket_of(self, member):
        """The ticket that it starts with: the first founds the group, the others join it, and later none is
        needed."""
        known = (member.store / "sync").is_dir() if self.kind.name == "xylem" else True
        return None if known or member.number == 0 else self.ticket

    def start(self, member):
        member.start(self.ticket_of(member))

    def cut(self, parts):
        if self.namespaces:
            return self.network.cut(parts)
        for part in sorted(parts, key=len)[:-1]:
            for n in part:
                self.members[n].stop()

    def heal(self):
        if self.namespaces:
            self.network.heal()
        for member in self.members:
            member.cont()
            for disk in (member.disk, member.store_disk):
                member.empty(disk)

    def role(self, option, member):
        """Changes a member's role, as the founder."""
        founder = self.members[0]
        words = [self.kind.program, "--store", str(founder.store), "sync", str(founder.folder), option, member.key]
        subprocess.run(words, capture_output=True, timeout=60, **founder.as_it())

    def close(self):
        for member in self.members:
            member.end(signal.SIGKILL)
        self.network.close()
        if ROOT:
            for member in self.members:
                for disk in (member.disk, member.store_disk):
                    subprocess.run(["umount", "-l", disk], capture_output=True)


def alone():
    """Gives this process mounts of its own, which end with it."""
    if ROOT and not LIBC.unshare(CLONE_NEWNS):
        subprocess.run(["mount", "--make-rprivate", "/"], capture_output=True)
