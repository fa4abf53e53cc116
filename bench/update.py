#!/usr/bin/env python3
"""A newer version over an older copy: xylem beside rsync (over ssh, and its daemon) and zsync.

    bench/update.py [--xylem PATH] [--runs N] [--mib N] [--only CASE,...] [--trees OLD NEW]

Cases: 1 % of the 16 KiB blocks of a file changed in place; one byte inserted at its front; 10 % appended; and, with
--trees, a directory between two states (two installed toolchains, say). Both sides run on this machine, in a network
namespace of their own with packets of 1,500 bytes, on /dev/shm. A row a program: wall seconds of the getter from its start to its end, processor
seconds of both sides meanwhile, bytes on the loopback interface (both directions, headers included). Medians over
interleaved runs. Files that a program makes once for all getters (xylem's list, zsyncmake's file) are made before.
Needs root (for the namespace and sshd), rsync, zsync, nginx and openssh-server; missing programs are left out.
"""

import argparse
import json
import os
import pathlib
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from processes import Failed, Side, free_port, line_with

MIB = 1 << 20


def wire():
    """Bytes that this namespace's loopback has sent so far."""
    for line in pathlib.Path("/proc/self/net/dev").read_text().splitlines():
        if line.strip().startswith("lo:"):
            return int(line.split(":")[1].split()[8])
    raise Failed("no loopback interface")


def make_file(path, mib, seed):
    rng = random.Random(seed)
    with open(path, "wb") as out:
        for _ in range(mib):
            out.write(rng.randbytes(MIB))


def in_place(old, new):
    shutil.copyfile(old, new)
    rng = random.Random(2)
    blocks = os.path.getsize(old) // 16384
    with open(new, "r+b") as out:
        for block in rng.sample(range(blocks), max(blocks // 100, 1)):
            out.seek(block * 16384)
            out.write(rng.randbytes(16384))


def inserted(old, new):
    with open(old, "rb") as source, open(new, "wb") as out:
        out.write(b"x")
        shutil.copyfileobj(source, out, MIB)


def appended(old, new):
    shutil.copyfile(old, new)
    rng = random.Random(3)
    with open(new, "ab") as out:
        for _ in range(os.path.getsize(old) // 10 // MIB):
            out.write(rng.randbytes(MIB))


CASES = {"in place": in_place, "inserted": inserted, "appended": appended}


class Program:
    """One program with its publisher running; `get` updates `copy`."""

    def __init__(self, name, folder, new):
        self.name, self.new = name, pathlib.Path(new)
        self.folder = pathlib.Path(folder) / name.replace(" ", "-")
        self.folder.mkdir()
        self.there, self.here = Side(self.folder), Side(self.folder)
        self.directory = self.new.is_dir()

    def run(self, copy):
        cpu, sent, start = self.there.cpu(), wire(), time.monotonic()
        process = self.here.start(self.command(copy))
        code = self.here.finish(process, 600)
        wall = time.monotonic() - start
        if code != 0:
            raise Failed(f"{self.name} ended with {code}")
        own, self.here.ended_cpu = self.here.ended_cpu, 0.0
        time.sleep(0.2)  # further work of the publisher for it
        return wall, own, self.there.cpu() - cpu, wire() - sent

    def stop(self):
        self.here.stop()
        self.there.stop()


class Xylem(Program):
    def __init__(self, folder, new, xylem):
        super().__init__("xylem", folder, new)
        self.xylem = xylem
        share = [xylem, "--store", self.folder / "there", "--json", "share", "--listen", "127.0.0.1:0", new]
        process = self.there.start(share, stdout=subprocess.PIPE)
        self.ticket = json.loads(line_with(process, process.stdout, b'"shared"', 600))["ticket"]

    def command(self, copy):
        store = self.folder / "here"
        shutil.rmtree(store, ignore_errors=True)
        get = [self.xylem, "--store", store, "get", "--no-serve", "--no-progress", "-q"]
        # Into a folder it gets its own name.
        return [*get, "--overwrite", "-o", copy.parent if self.directory else copy, self.ticket]


class RsyncDaemon(Program):
    def __init__(self, folder, new):
        super().__init__("rsync daemon", folder, new)
        port = free_port()
        config = self.folder / "rsyncd.conf"
        parent = self.new if self.directory else self.new.parent
        config.write_text(f"use chroot = no\nport = {port}\nuid = root\ngid = root\n[pub]\npath = {parent}\n")
        self.there.serve(["rsync", "--daemon", "--no-detach", f"--config={config}"], port)
        self.source = f"rsync://127.0.0.1:{port}/pub/" + ("" if self.directory else self.new.name)

    def command(self, copy):
        return ["rsync", "-a", "--no-owner", "--no-group", self.source, f"{copy}/" if self.directory else copy]


class RsyncSsh(Program):
    def __init__(self, folder, new):
        super().__init__("rsync ssh", folder, new)
        self.port = free_port()
        for name in ("host", "user"):
            keygen = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", self.folder / name]
            subprocess.run(keygen, check=True)
        config = self.folder / "sshd_config"
        config.write_text(
            f"Port {self.port}\nListenAddress 127.0.0.1\nHostKey {self.folder}/host\nStrictModes no\n"
            f"AuthorizedKeysFile {self.folder}/user.pub\nPidFile none\nPermitRootLogin yes\n"
        )
        os.makedirs("/run/sshd", exist_ok=True)
        self.there.serve(["/usr/sbin/sshd", "-D", "-f", config], self.port)

    def command(self, copy):
        ssh = f"ssh -p {self.port} -i {self.folder}/user -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
        source = f"root@127.0.0.1:{self.new}" + ("/" if self.directory else "")
        into = f"{copy}/" if self.directory else copy
        return ["rsync", "-a", "--no-owner", "--no-group", "-e", ssh, source, into]


class Zsync(Program):
    def __init__(self, folder, new):
        super().__init__("zsync", folder, new)
        port = free_port()
        root = self.folder / "www"
        root.mkdir()
        os.link(new, root / "new")
        url = f"http://127.0.0.1:{port}/new"
        make = ["zsyncmake", "-u", url, "-f", "new", "-o", root / "new.zsync", root / "new"]
        subprocess.run(make, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        config = self.folder / "nginx.conf"
        config.write_text(
            f"daemon off; pid {self.folder}/pid; error_log /dev/null; user root; events {{}}\n"
            f"http {{ access_log off; sendfile on; server {{ listen 127.0.0.1:{port}; root {root}; }} }}\n"
        )
        self.there.serve(["nginx", "-c", config], port)
        self.url = url + ".zsync"

    def command(self, copy):
        out = copy.with_name("made")
        return ["sh", "-c", f"zsync -q -i '{copy}' -o '{out}' '{self.url}' && mv '{out}' '{copy}'"]


def programs(folder, new, xylem):
    yield Xylem(folder, new, xylem)
    if shutil.which("rsync"):
        yield RsyncDaemon(folder, new)
        if os.path.exists("/usr/sbin/sshd"):
            yield RsyncSsh(folder, new)
    if shutil.which("zsync") and shutil.which("nginx") and not os.path.isdir(new):
        yield Zsync(folder, new)


def same(a, b):
    if os.path.isdir(a):
        return subprocess.run(["diff", "-rq", "--no-dereference", a, b], stdout=subprocess.PIPE).stdout.find(b"differ") < 0
    return subprocess.run(["cmp", "-s", a, b]).returncode == 0


def table(name, old, new, xylem, runs, folder):
    folder = pathlib.Path(tempfile.mkdtemp(dir=folder))
    there = list(programs(folder, new, xylem))
    rows = {program.name: [] for program in there}
    try:
        for _ in range(runs):
            for program in there:
                copy = folder / "copy" / os.path.basename(new)
                copy.parent.mkdir()
                if os.path.isdir(old):
                    shutil.copytree(old, copy, symlinks=True)
                else:
                    shutil.copyfile(old, copy)
                    os.utime(copy, (1, 1))  # or rsync may take it for unchanged
                rows[program.name].append(program.run(copy))
                if not same(new, copy):
                    raise Failed(f"{program.name}: the copy differs from the original")
                shutil.rmtree(copy.parent)
    finally:
        for program in there:
            program.stop()
        shutil.rmtree(folder, ignore_errors=True)
    print(f"\n{name}\n{'':14}{'wall s':>8}{'getter CPU':>12}{'publisher CPU':>15}{'bytes moved':>15}")
    for program, measured in rows.items():
        wall, own, other, moved = (statistics.median(column) for column in zip(*measured))
        print(f"{program:14}{wall:8.2f}{own:12.2f}{other:15.3f}{moved:15,.0f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--xylem", default="target/release/xylem", type=os.path.abspath)
    parser.add_argument("--runs", default=3, type=int)
    parser.add_argument("--mib", default=1024, type=int)
    parser.add_argument("--only", default=",".join(CASES))
    parser.add_argument("--trees", nargs=2, metavar=("OLD", "NEW"))
    parser.add_argument("--inside", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if not args.inside:
        inside = ["unshare", "--net", sys.executable, __file__, "--inside", *sys.argv[1:]]
        sys.exit(subprocess.run(inside).returncode)
    # MTU of a real network, for all alike: with loopback's 64 KiB one header would stand for forty.
    subprocess.run(["ip", "link", "set", "lo", "up", "mtu", "1500"], check=True)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        if args.only:
            old, new = os.path.join(folder, "old"), os.path.join(folder, "new")
            make_file(old, args.mib, 1)
            for case in args.only.split(","):
                CASES[case](old, new)
                table(f"{args.mib} MiB, {case}", old, new, args.xylem, args.runs, folder)
                os.unlink(new)
            os.unlink(old)
        if args.trees:
            old, new = map(os.path.abspath, args.trees)
            table(f"{old} to {new}", old, new, args.xylem, args.runs, folder)
    print("load:", pathlib.Path("/proc/loadavg").read_text().split()[0])


if __name__ == "__main__":
    main()
