#!/usr/bin/env python3
"""xylem and the buckets of a real Ceph (one monitor, three OSDs, an S3 gateway): run.py XYLEM [--bench] [--keep DIR]

Shares out of a bucket, fetches into one, and `xylem mirror`. Faults: an OSD is killed, the gateway is restarted, answers
are 500s, late or cut short, a byte of an object flips, an object is replaced, and names or credentials are wrong. One line
a check; ends with 1 if one failed. `--bench`: rates beside rclone, too. Needs ceph-mon, ceph-mgr, ceph-osd, ceph-common,
radosgw and rclone; names what is missing and ends with 77.
"""

import argparse
import filecmp
import json
import os
import pathlib
import re
import random
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True
from faults import Faults  # noqa: E402

SECRET = "not-a-secret"
failed = []


def check(what, holds, more=""):
    print(f"bucket: {what}: {'passed' if holds else 'FAILED ' + str(more)}", flush=True)
    if not holds:
        failed.append(what)


class World:
    def __init__(self, xylem, base):
        self.xylem, self.base = str(pathlib.Path(xylem).resolve()), base
        self.port = 7000 + os.getpid() % 20000
        self.env = {k: v for k, v in os.environ.items() if not k.startswith(("AWS_", "XYLEM_", "RCLONE_"))}
        self.ceph("start", str(self.port), str(2 << 30))
        self.env |= {
            "AWS_ACCESS_KEY_ID": "tester", "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_REGION": "default",
            "AWS_ENDPOINT_URL": f"http://127.0.0.1:{self.port}",
        }
        self.rclone_env = self.env | {
            "RCLONE_CONFIG_CEPH_TYPE": "s3", "RCLONE_CONFIG_CEPH_PROVIDER": "Ceph", "RCLONE_CONFIG_CEPH_ENV_AUTH": "true",
            "RCLONE_CONFIG_CEPH_ENDPOINT": self.env["AWS_ENDPOINT_URL"], "RCLONE_CONFIG": str(base / "none"),
        }

    def ceph(self, verb, *arguments):
        return subprocess.run([HERE / "ceph", verb, self.base / "ceph", *arguments], check=True, env=self.env, text=True, capture_output=True).stdout

    def pid(self, name):
        return int(self.ceph("pid", name))

    def rclone(self, *arguments, **more):
        return subprocess.run(["rclone", "-q", *arguments], check=True, env=self.rclone_env, stdout=subprocess.PIPE, **more).stdout

    def run(self, *arguments, store="getter", env=None, timeout=600):
        command = [self.xylem, "--store", self.base / store, *arguments]
        return subprocess.run(command, env=env or self.env, text=True, capture_output=True, timeout=timeout)

    def share(self, *paths, env=None, store="sharer"):
        return Share(self, paths, env or self.env, store)


class Share:
    """A `xylem share` that runs until it is closed."""

    def __init__(self, world, paths, env, store):
        self.errors = world.base / f"share-{random.random()}.err"
        command = [world.xylem, "--store", world.base / store, "share", "--listen", "127.0.0.1:0", "--foreground", *paths]
        self.process = subprocess.Popen(command, env=env, text=True, stdout=subprocess.PIPE, stderr=open(self.errors, "w"))
        self.tickets = []
        for _ in paths:
            line = self.process.stdout.readline()
            if not line:
                raise RuntimeError(self.said())
            self.tickets.append(line.split()[0])

    def said(self):
        return self.errors.read_text()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.send_signal(signal.SIGINT)
        self.process.wait(20)


def shared(world, local):
    """Objects of a bucket, served in place."""
    with world.share("s3://models/blob.bin", "s3://models/tree") as share:
        got = world.run("get", share.tickets[0], "-o", world.base / "blob")
        check("a shared object is what lies there", got.returncode == 0 and filecmp.cmp(local / "blob.bin", world.base / "blob", False), got.stderr)
        root = got.stdout.split()[0]
        again = world.run("sum", local / "blob.bin").stdout.split()[0]
        check("its root is the hash of the file", root == again)
        got = world.run("get", share.tickets[1], "-o", world.base / "tree")
        both = subprocess.run(["diff", "-r", local / "tree", world.base / "tree"], capture_output=True, text=True)
        check("a shared prefix is the folder", got.returncode == 0 and both.returncode == 0, got.stderr + both.stdout)
        middle = (local / "blob.bin").stat().st_size // 2
        part = world.run("get", share.tickets[0], "--range", f"{middle}..{middle + 100}", "-o", world.base / "part")
        with open(local / "blob.bin", "rb") as file:
            file.seek(middle)
            wanted = file.read(100)
        check("a range of it", part.returncode == 0 and (world.base / "part").read_bytes() == wanted, part.stderr)
    started = time.monotonic()
    with world.share("s3://models/blob.bin") as share:
        check("and is not read again for the next share", share.tickets and time.monotonic() - started < 5)
    copies = sum(f.stat().st_size for f in (world.base / "sharer").rglob("*") if f.is_file())
    check("nothing of it is copied", copies < (local / "blob.bin").stat().st_size // 10, copies)


def written(world, local):
    """Content of a ticket, fetched into a bucket."""
    with world.share(local / "blob.bin", local / "tree") as share:
        file, tree = share.tickets
        got = world.run("get", file, "-o", "s3://out/blob.bin")
        there = world.rclone("cat", "ceph:out/blob.bin")
        check("a file into a bucket", got.returncode == 0 and there == (local / "blob.bin").read_bytes(), got.stderr)
        check("its line names the object", got.stdout.split()[1:] == ["s3://out/blob.bin"], got.stdout)
        again = world.run("get", file, "-o", "s3://out/blob.bin")
        check("again: it is there already", again.returncode == 0 and "there already" in again.stderr, again.stderr)
        other = world.run("get", tree, "-o", "s3://out/copy/")
        world.rclone("copy", "ceph:out/copy/tree", str(world.base / "copied"))
        both = subprocess.run(["diff", "-r", local / "tree", world.base / "copied"], capture_output=True, text=True)
        check("a folder into a bucket", other.returncode == 0 and both.returncode == 0, other.stderr + both.stdout)
        world.rclone("rcat", "ceph:out/taken", input=b"of somebody else")
        refused = world.run("get", file, "-o", "s3://out/taken")
        check("what stands there is not replaced", refused.returncode == 2 and world.rclone("cat", "ceph:out/taken") == b"of somebody else", refused)
        asked = world.run("get", file, "-o", "s3://out/taken", "--overwrite")
        check("but for --overwrite", asked.returncode == 0 and world.rclone("cat", "ceph:out/taken") == there, asked.stderr)
        copies = sum(f.stat().st_size for f in (world.base / "getter").rglob("*") if f.is_file())
        check("nothing of it stays on this disk", copies < len(there) // 10, copies)
        # Killed in the middle: uploaded parts are not sent again.
        gateway = Faults(world.port)
        env = world.env | {"AWS_ENDPOINT_URL": gateway.url}
        command = [world.xylem, "--store", world.base / "killed", "get", file, "-o", "s3://out/resumed", "--limit", "20M"]
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        some = -(-len(there) // (8 << 20)) // 3
        wait_for(lambda: gateway.count("PUT", "partNumber") >= some)
        time.sleep(1.5)
        process.kill()
        process.wait()
        before = gateway.count("PUT", "partNumber")
        got = world.run("get", file, "-o", "s3://out/resumed", store="killed", env=env)
        parts = -(-len(there) // (8 << 20))
        sent = gateway.count("PUT", "partNumber")
        whole = got.returncode == 0 and world.rclone("cat", "ceph:out/resumed") == there
        check("killed, the next run goes on", whole and sent <= parts + 4 and before >= some, (got.stderr, before, sent, parts))


def mirrored(world, local):
    """A publication and its newer versions, kept in a bucket."""
    tree = world.base / "versions"
    shutil.copytree(local / "tree", tree)
    (tree / "large").write_bytes((local / "blob.bin").read_bytes()[:20_000_000])
    os.symlink("a", tree / "link")
    os.link(tree / "a", tree / "second name")
    (tree / "nothing in it").mkdir()
    os.chmod(tree / "a", 0o751)
    os.utime(tree / "a", (1_000_000_000, 1_000_000_000))
    there = "s3://out/mirror"

    def files_of(place):
        """The files of a version, as any S3 client reads them."""
        to = world.base / f"client-{random.random()}"
        world.rclone("copy", f"ceph:{place.removeprefix('s3://')}", str(to))
        return to

    def served(what, ticket, wanted, store):
        """`ticket` names it, with its publisher's signature, served out of the bucket by a machine with an empty
        store."""
        with world.share(there, store=store) as share:
            to = world.base / f"{store} out"
            got = world.run("get", share.tickets[0], "-o", to, store=f"{store}-getter")
            both = subprocess.run(["diff", "-r", "--no-dereference", wanted, to], capture_output=True, text=True)
            listed = world.run("sum", "--tree", to).stdout.split()[:1] == world.run("sum", "--tree", wanted).stdout.split()[:1]
            signed = says(world, share.tickets[0]) == says(world, ticket)
            check(what, got.returncode == 0 and both.returncode == 0 and listed and signed, got.stderr + both.stdout + share.said())
            return share.said()

    with world.share(tree) as share:
        first = share.tickets[0]
        kept = world.run("mirror", first, there, store="mirror")
        root, place = (kept.stdout.split() + ["", ""])[:2]
        check("a publication is kept in a bucket", kept.returncode == 0 and place == f"{there}/{root}", kept)
        read = files_of(place)
        same = all((read / name).read_bytes() == (tree / name).read_bytes() for name in ["a", "second name", "large", "deep/b.txt", "deep/er/c c", "ü+&=%20.bin", "empty"])
        check("any S3 client reads it whole", same)
        again = world.run("mirror", first, there, store="mirror")
        check("again: all of it is there", again.returncode == 0 and "there already" in again.stderr, again.stderr)
        other = world.run("mirror", first, there, store="another mirror")
        check("and from another machine", other.returncode == 0 and "there already" in other.stderr, other.stderr)
        copies = sum(f.stat().st_size for f in (world.base / "mirror").rglob("*") if f.is_file())
        check("nothing of it is copied here", copies < 20_000_000 // 10, copies)
    served("it is served as its publisher signed it, who is gone", first, tree, "away")

    # A newer version: unchanged parts are not sent.
    old = world.base / "old version"
    shutil.copytree(tree, old, symlinks=True)
    (old / "second name").unlink()
    os.link(old / "a", old / "second name")
    (tree / "deep" / "new").write_bytes(b"new")
    (tree / "empty").write_bytes(b"not any more")
    (tree / "deep" / "b.txt").unlink()
    gateway = Faults(world.port)
    env = world.env | {"AWS_ENDPOINT_URL": gateway.url}
    with world.share(tree) as share:
        newer = share.tickets[0]
        # Killed before the list of versions is written: the old version stays current.
        process = subprocess.Popen([world.xylem, "--store", world.base / "mirror", "mirror", newer, there], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_for(lambda: gateway.count("PUT", ".outboard") + gateway.count("PUT", ".listing") + gateway.count("PUT", "deep/new") >= 1)
        process.kill()
        process.wait()
        served("killed in the middle of a newer one: the older one is served", first, old, "between")
        kept = world.run("mirror", newer, there, store="mirror", env=env)
        _, place = (kept.stdout.split() + ["", ""])[:2]
        large = sum(1 for m, path, _ in gateway.seen if m == "PUT" and path.split("?")[-1].startswith("partNumber") and "/large" in path)
        check("a newer one is kept; what is the same is not sent", kept.returncode == 0 and large == 0, (kept, large))
        read = files_of(place)
        check("and read whole", (read / "deep" / "new").read_bytes() == b"new" and not (read / "deep" / "b.txt").exists())
        served("and served", newer, tree, "newer")
        held = world.run("verify", there, first, store="checker")
        check("the version before is kept, too", held.returncode == 0, held)
        held = world.run("verify", there, newer, store="checker")
        check("verify reads it in the bucket", held.returncode == 0, held)
        # Another publication is refused there.
        with world.share(local / "small", store="somebody") as somebody:
            refused = world.run("mirror", somebody.tickets[0], there, store="mirror")
            check("a mirror is for one publication", refused.returncode == 2 and refused.stderr.count("\n") == 1, refused)
        # A byte flips in the bucket.
        content = bytearray((tree / "large").read_bytes())
        content[12_345_678] ^= 4
        world.rclone("rcat", f"ceph:{place.removeprefix('s3://')}/large", input=bytes(content))
        held = world.run("verify", there, newer, store="checker")
        check("a flipped byte in the bucket is found and named", held.returncode == 1 and "large" in held.stdout and "12345344" in held.stdout.replace(",", ""), held)
        with world.share(there, store="flipped share") as flipped:
            out = world.base / "flipped out"
            got = world.run("get", flipped.tickets[0], "-o", out, "--timeout", "5", "--no-serve")
            rest = (out / "deep" / "new").exists() and not (out / "large").exists()
            check("and not served, and the rest is", got.returncode == 1 and "without large" in got.stderr and rest, got.stderr)
        scrubbed = world.run("scrub", there, store="checker")
        check("scrub names it, too", scrubbed.returncode == 1 and "large" in scrubbed.stdout, scrubbed)
        mended = world.run("mirror", newer, there, "--repair", store="mirror")
        held = world.run("verify", there, newer, store="checker")
        check("mirror --repair puts it right", mended.returncode == 0 and held.returncode == 0 and "large" in mended.stderr, (mended, held))
        # An object is missing: reported, and restored.
        world.rclone("deletefile", f"ceph:{place.removeprefix('s3://')}/a")
        share_now = world.run("share", "--foreground", there, store="checker")
        check("a missing object is named", share_now.returncode == 1 and "/a: missing" in share_now.stderr, share_now.stderr)
        mended = world.run("mirror", newer, there, store="mirror")
        held = world.run("verify", there, newer, store="checker")
        check("the same command puts it right", mended.returncode == 0 and held.returncode == 0, (mended, held))
        # An attacker that can write to the bucket can't have other content served.
        folder = "ceph:out/mirror/.xylem"
        names = world.rclone("lsf", folder).decode().split()
        manifest = next(n for n in names if n.startswith(place.split("/")[-1]) and n.endswith(".manifest"))
        whole = world.rclone("cat", f"{folder}/{manifest}")
        bad = bytearray(whole)
        bad[len(bad) // 2] ^= 1
        world.rclone("rcat", f"{folder}/{manifest}", input=bytes(bad))
        refused = world.run("share", "--foreground", there, store="fresh checker")
        check("a manifest that nobody signed is refused and named", refused.returncode == 1 and manifest in refused.stderr, refused.stderr)
        # A repair begins from the ticket, and not from the damaged objects.
        for name in (manifest, "versions"):
            right = whole if name == manifest else world.rclone("cat", f"{folder}/{name}")
            for how, damaged in (("gone", None), ("empty", b""), ("cut", right[:20]), ("other bytes", bytes(len(right)))):
                if damaged is None:
                    world.rclone("deletefile", f"{folder}/{name}")
                else:
                    world.rclone("rcat", f"{folder}/{name}", input=damaged)
                mended = world.run("mirror", newer, there, store="mirror")
                now = world.rclone("cat", f"{folder}/{name}")
                check(f"mirror mends a {name.split('.')[-1]} that is {how}", mended.returncode == 0 and now == right, mended)
        trees = next(n for n in names if n.startswith(place.split("/")[-1]) and n.endswith(".files"))
        bad = bytearray(world.rclone("cat", f"{folder}/{trees}"))
        bad[40] ^= 1
        world.rclone("rcat", f"{folder}/{trees}", input=bytes(bad))
        said = served("damaged trees are made anew", newer, tree, "without trees")
        check("and named", trees in said, said)
        world.rclone("rcat", f"{folder}/versions", input=b"xylem mirror 1\nxylem:nonsense\n")
        refused = world.run("share", "--foreground", there, store="fresh checker")
        check("a list that is none is refused and named", refused.returncode == 1 and "/versions" in refused.stderr, refused.stderr)
    # One file.
    with world.share(local / "blob.bin") as share:
        kept = world.run("mirror", share.tickets[0], "s3://out/one", store="mirror")
        place = (kept.stdout.split() + ["", ""])[1]
        there_now = world.rclone("cat", f"ceph:{place.removeprefix('s3://')}") if place else b""
        check("one file is kept under its name", place.endswith("/blob.bin") and there_now == (local / "blob.bin").read_bytes(), kept)
        ticket = share.tickets[0]
    started = time.monotonic()
    with world.share("s3://out/one", store="one away") as share:
        took = time.monotonic() - started
        got = world.run("get", share.tickets[0], "-o", world.base / "one out")
        check("and served as it was signed", got.returncode == 0 and says(world, share.tickets[0]) == says(world, ticket) and filecmp.cmp(local / "blob.bin", world.base / "one out", False), got.stderr + share.said())
        check("without being read first", "Hashing" not in share.said() and took < 20, share.said())


def guide(world, local):
    """Runs the commands of docs/guide.md literally."""
    text = (HERE.parents[1] / "docs" / "guide.md").read_text()
    section = text.split("\n## Share from and mirror into an S3 bucket\n")[1].split("\n## ")[0]
    typed = [line[2:] for line in section.splitlines() if line.startswith("$ ")]
    home = world.base / "guide"
    (home / "climate").mkdir(parents=True)
    (home / "climate" / "2021.csv").write_bytes(b"1,2\n" * 100_000)
    os.symlink(world.xylem, home / "xylem")
    env = world.env | {"PATH": f"{home}:{os.environ['PATH']}", "HOME": str(home), "XYLEM_LISTEN": "127.0.0.1:0", "XYLEM_NO_MAP": "1", "XYLEM_NO_LAN": "1"}
    world.rclone("mkdir", "ceph:lab")
    world.rclone("copyto", str(home / "climate" / "2021.csv"), "ceph:lab/raw/2021.csv")
    tickets, running = {}, []
    for command in typed:
        words = command.split("   #")[0]
        for word, ticket in tickets.items():
            words = words.replace(word, ticket)
        shares = re.match(r"(xylem share \S+) > (\S+) &$", words)
        if shares:
            process = subprocess.Popen(shares[1].split(), env=env, cwd=home, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
            running.append(process)
            (home / shares[2]).write_text(process.stdout.readline())
            check(f"guide: {command}", (home / shares[2]).read_text().startswith("xylem:"))
        else:
            done = subprocess.run(words, shell=True, env=env, cwd=home, text=True, capture_output=True, timeout=120)
            check(f"guide: {command}", done.returncode == 0, done.stderr)
    for process in running:
        process.send_signal(signal.SIGINT)
        process.wait(20)
    check("guide: commands were typed", len(typed) >= 5, typed)


def says(world, ticket):
    """Publisher and content of a ticket."""
    said = json.loads(world.run("--json", "ticket", ticket).stdout.splitlines()[0])
    return said["publisher"], said["root"]


def wait_for(ready, seconds=60):
    until = time.monotonic() + seconds
    while not ready():
        if time.monotonic() > until:
            raise TimeoutError
        time.sleep(0.05)


def faulty(world, local):
    """Stores that fail."""
    gateway = Faults(world.port)
    env = world.env | {"AWS_ENDPOINT_URL": gateway.url}
    blob = local / "blob.bin"

    def both_ways(what, name):
        with world.share("s3://models/blob.bin", env=env, store=f"sharer-{name}") as share:
            got = world.run("get", share.tickets[0], "-o", world.base / name)
            fine = got.returncode == 0 and filecmp.cmp(blob, world.base / name, False)
            check(f"{what}: shared", fine, got.stderr + share.said())
        with world.share(blob) as share:
            got = world.run("get", share.tickets[0], "-o", f"s3://out/{name}", env=env)
            fine = got.returncode == 0 and world.rclone("cat", f"ceph:out/{name}") == blob.read_bytes()
            check(f"{what}: written", fine, got.stderr)

    gateway.how = lambda method, path, number: "error" if number % 3 == 0 else None
    both_ways("every third answer is a 500", "errors")
    gateway.how = lambda method, path, number: "slow" if number % 5 == 0 else None
    both_ways("every fifth answer is late", "slow")
    gateway.how = lambda method, path, number: "short" if method == "GET" and number % 3 == 0 else None
    both_ways("every third answer is cut short", "short")
    gateway.how = lambda *_: None
    # The gateway ends in the middle, and begins again.
    with world.share("s3://models/blob.bin", store="sharer-restart") as share:
        target = world.base / "restart"
        command = [world.xylem, "--store", world.base / "getter", "get", share.tickets[0], "-o", target, "--limit", "20M"]
        process = subprocess.Popen(command, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        os.kill(world.pid("gateway"), signal.SIGKILL)
        time.sleep(1)
        world.ceph("gateway")
        _, said = process.communicate(timeout=120)
        check("the gateway is killed and begins again: shared", process.returncode == 0 and filecmp.cmp(blob, target, False), said + share.said())
    with world.share(blob) as share:
        command = [world.xylem, "--store", world.base / "getter", "get", share.tickets[0], "-o", "s3://out/restart", "--limit", "20M"]
        process = subprocess.Popen(command, env=world.env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        time.sleep(2)
        os.kill(world.pid("gateway"), signal.SIGKILL)
        time.sleep(1)
        world.ceph("gateway")
        _, said = process.communicate(timeout=120)
        if process.returncode:
            said = world.run("get", share.tickets[0], "-o", "s3://out/restart").stderr
        check("the gateway is killed and begins again: written", world.rclone("cat", "ceph:out/restart") == blob.read_bytes(), said)
    # One of three OSDs dies.
    os.kill(world.pid("osd.2"), signal.SIGKILL)
    both_ways("an OSD is killed", "osd")


def changed(world, local):
    """Objects that change in the bucket while they are shared."""
    content = bytearray((local / "blob.bin").read_bytes())
    content[100_000_000 % len(content)] ^= 1
    # Replaced by another client: a new version.
    world.rclone("copyto", str(local / "blob.bin"), "ceph:models/changing")
    with world.share("s3://models/changing") as share:
        world.rclone("rcat", "ceph:models/changing", input=bytes(content))
        got = world.run("get", share.tickets[0], "-o", world.base / "changing", "--timeout", "8")
        fine = got.returncode != 0 and not (world.base / "changing").exists()
        check("a replaced object is not handed out", fine, got)
        said = share.said()
        check("and its sharer says which", "s3://models/changing" in said and ("changed since it was hashed" in said or "was replaced while it was read" in said), said)
    # A byte flips where the store can't detect it: in its answers.
    gateway = Faults(world.port)
    env = world.env | {"AWS_ENDPOINT_URL": gateway.url}
    with world.share("s3://models/blob.bin", env=env) as share:
        flipped = world.base / "flipped"
        gateway.flip = (local / "blob.bin").stat().st_size * 2 // 5
        for _ in range(4):
            got = world.run("get", share.tickets[0], "-o", flipped, "--timeout", "3")
            fine = got.returncode != 0 and not flipped.exists() and "did not verify" not in got.stderr
            if not fine:
                break
        check("a flipped byte is not handed out, however often it is asked for", fine, got)
        damaged = f"s3://models/blob.bin: damaged at byte {gateway.flip // 8192 * 8192}"
        check("and its sharer says where it is", damaged in share.said(), share.said())
        gateway.flip = None
        got = world.run("get", share.tickets[0], "-o", flipped)
        check("once it is right again, the rest comes", got.returncode == 0 and filecmp.cmp(local / "blob.bin", flipped, False), got.stderr)


def refused(world, local):
    """Bad input: one line, the right exit code, and no secret in it."""
    def one(what, code, arguments, env=None, word=""):
        got = world.run(*arguments, env=env, timeout=60)
        lines = [line for line in got.stderr.splitlines() if line.startswith("xylem:")]
        fine = got.returncode == code and len(lines) == 1 and word in got.stderr and SECRET not in got.stderr + got.stdout
        check(f"refused: {what}", fine, got)

    nobody = {k: v for k, v in world.env.items() if not k.startswith("AWS_")} | {"HOME": str(world.base)}
    one("an odd bucket", 2, ["share", "--foreground", "s3://a b/c"], word="s3://BUCKET/KEY")
    one("a key with dots", 2, ["share", "--foreground", "s3://models/../x"], word="..")
    one("nothing there", 2, ["share", "--foreground", "s3://models/nothing"], word="s3://models/nothing")
    one("no such bucket", 2, ["share", "--foreground", "s3://nobucket/x"], word="s3://nobucket/x")
    one("no credentials", 2, ["share", "--foreground", "s3://models/blob.bin"], env=nobody, word="AWS_ACCESS_KEY_ID")
    wrong = world.env | {"AWS_SECRET_ACCESS_KEY": SECRET + "x"}
    one("a wrong secret", 4, ["share", "--foreground", "s3://models/blob.bin"], env=wrong, word="credentials")
    away = world.env | {"AWS_ENDPOINT_URL": "http://127.0.0.1:1"}
    one("nobody there", 3, ["share", "--foreground", "s3://models/blob.bin"], env=away)
    with world.share(local / "small") as share:
        one("an odd place", 2, ["get", share.tickets[0], "-o", "s3://a b/c"], word="s3://BUCKET/KEY")
        one("no bucket to write to", 2, ["get", share.tickets[0], "-o", "s3://nobucket/x"], word="s3://nobucket/x")
        one("a part of it", 2, ["get", share.tickets[0], "-o", "s3://out/x", "--range", "0..1"], word="--range")
        process = subprocess.run(["ps", "axww", "-o", "args"], text=True, capture_output=True)
        check("no secret in the list of processes", SECRET not in process.stdout)
        check("none in a ticket", SECRET not in share.tickets[0])
        secret = subprocess.run(["grep", "-r", "-l", SECRET, world.base / "getter", world.base / "sharer"], capture_output=True, text=True)
        check("none in a store", not secret.stdout, secret.stdout)


def bench(world, local):
    """Rates beside rclone, in turn."""
    size = (local / "blob.bin").stat().st_size

    def timed(work):
        started = time.monotonic()
        work()
        return size / (time.monotonic() - started) / 1e6

    def theirs_out():
        with open(world.base / "bench", "wb") as out:
            subprocess.run(["rclone", "-q", "cat", "ceph:models/blob.bin"], check=True, env=world.rclone_env, stdout=out)

    def theirs_in():
        with open(local / "blob.bin", "rb") as content:
            subprocess.run(["rclone", "-q", "rcat", "ceph:out/bench"], check=True, env=world.rclone_env, stdin=content)

    rates = {"rclone cat": [], "hashed for sharing": [], "share to get": [], "share of a local file to get": [], "rclone rcat": [], "get into a bucket": []}
    with world.share("s3://models/blob.bin") as out, world.share(local / "blob.bin") as into:
        for turn in range(5):
            def ours_out():
                (world.base / "bench").unlink(missing_ok=True)
                assert world.run("get", out.tickets[0], "-o", world.base / "bench").returncode == 0

            def from_disk():
                (world.base / "bench").unlink(missing_ok=True)
                assert world.run("get", into.tickets[0], "-o", world.base / "bench", store="from disk").returncode == 0

            def ours_in():
                got = world.run("get", into.tickets[0], "-o", "s3://out/bench", "--overwrite", store="into")
                assert got.returncode == 0, got.stderr

            def hashed():
                with world.share("s3://models/blob.bin", store=f"fresh-{turn}"):
                    pass

            for name, work in [("rclone cat", theirs_out), ("share to get", ours_out), ("share of a local file to get", from_disk), ("rclone rcat", theirs_in),
                               ("get into a bucket", ours_in), ("hashed for sharing", hashed)]:
                if name == "get into a bucket":
                    world.rclone("deletefile", "ceph:out/bench")
                rates[name].append(timed(work))
    print(f"\n| {size / 1e6:.0f} MB | MB/s, median of 5 | of rclone's |\n|---|--:|--:|")
    for name, all_of_them in rates.items():
        base = "rclone rcat" if name in ("rclone rcat", "get into a bucket") else "rclone cat"
        rate, of = statistics.median(all_of_them), statistics.median(rates[base])
        print(f"| {name} | {rate:.0f} | {rate / of:.2f} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("xylem")
    parser.add_argument("--bench", action="store_true")
    parser.add_argument("--mb", type=int, default=100)
    parser.add_argument("--only", default="shared,written,refused,mirrored,changed,guide,faulty")
    options = parser.parse_args()
    missing = [p for p in ("ceph-mon", "ceph-mgr", "ceph-osd", "radosgw", "radosgw-admin", "rclone", "curl") if not shutil.which(p)]
    if missing:
        print(f"bucket: SKIPPED: no {', '.join(missing)}")
        return 77
    place = "/dev/shm" if shutil.disk_usage("/dev/shm").free > 4 << 30 else None
    base = pathlib.Path(tempfile.mkdtemp(prefix="bucket-", dir=place))
    world = None
    try:
        try:
            world = World(options.xylem, base)
        except subprocess.CalledProcessError as error:
            print(f"bucket: SKIPPED: the store does not start: {error.stderr.strip().splitlines()[-1:]}")
            return 77
        local = base / "local"
        (local / "tree" / "deep" / "er").mkdir(parents=True)
        chance = random.Random(7)
        with open(local / "blob.bin", "wb") as blob:
            for _ in range(options.mb):
                blob.write(chance.randbytes(1_000_000))
            blob.write(chance.randbytes(12345))
        (local / "small").write_bytes(b"small")
        for n, name in enumerate(["a", "deep/b.txt", "deep/er/c c", "ü+&=%20.bin", "empty", "deep/er/d#'\"e"]):
            (local / "tree" / name).write_bytes(chance.randbytes([10, 0, 5_000_000, 65536, 0, 1][n]))
        for bucket in ("models", "out"):
            world.rclone("mkdir", f"ceph:{bucket}")
        world.rclone("copyto", str(local / "blob.bin"), "ceph:models/blob.bin")
        world.rclone("copy", str(local / "tree"), "ceph:models/tree")
        for part in options.only.split(","):
            {"shared": shared, "written": written, "refused": refused, "mirrored": mirrored, "guide": guide, "changed": changed, "faulty": faulty}[part](world, local)
        if options.bench:
            bench(world, local)
    finally:
        subprocess.run([HERE / "ceph", "stop", base / "ceph"], check=False)
        shutil.rmtree(base, ignore_errors=True)
    print(f"bucket: {'all passed' if not failed else 'FAILED: ' + ', '.join(failed)}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
