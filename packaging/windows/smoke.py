"""The Windows program under Wine beside this system's own, each the other's peer.

Usage (by packaging/windows/smoke, which sets Wine up): smoke.py XYLEM.EXE XYLEM FOLDER
"""

import json
import os
import pathlib
import random
import signal
import subprocess
import sys

EXE, HERE, AT = sys.argv[1], sys.argv[2], pathlib.Path(sys.argv[3]).resolve()
WINDOWS, LINUX = ["wine", EXE], [HERE]
# Several times what any step takes on two busy cores.
LIMIT = 180


def environment(side):
    kept = {name: value for name, value in os.environ.items() if not name.startswith("XYLEM_")}
    name = "windows" if side is WINDOWS else "linux"
    store = str(AT / f"store-{name}")
    # Under Wine the whole file system is drive Z.
    return kept | {"XYLEM_STORE": "Z:" + store.replace("/", "\\") if side is WINDOWS else store}


def run(side, *arguments, code=0, at=AT):
    done = subprocess.run([*side, *map(str, arguments)], env=environment(side), cwd=at, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
    assert done.returncode == code, (side[0], arguments, done.returncode, done.stdout, done.stderr)
    return done


class Share:
    """A running `share`, and its ticket."""

    def __init__(self, side, *arguments):
        self.process = subprocess.Popen(
            [*side, "share", *map(str, arguments), "--listen", "127.0.0.1:0"], env=environment(side), cwd=AT,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.ticket = self.process.stdout.readline().strip()
        if not self.ticket.startswith("xylem:"):
            raise AssertionError(self.process.stderr.read())

    def __enter__(self):
        return self.ticket

    def __exit__(self, *_):
        # Wine makes Ctrl-C of it.
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=LIMIT)
        assert self.process.returncode == 0, (self.process.returncode, said)


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def made(folder, files):
    for name, content in files.items():
        path = AT / folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return AT / folder


def sums():
    draw = random.Random(19)
    tree = made("sums", {f"sub/{size}": draw.randbytes(size) for size in (0, 1, 1024, 1025, 3_000_000)})
    names = [f"sub/{path.name}" for path in sorted((tree / "sub").iterdir())]
    ours = run(LINUX, "sum", *names, at=tree).stdout
    backslashes = [name.replace("/", "\\") for name in names]
    assert run(WINDOWS, "sum", *backslashes, at=tree).stdout.replace("\r\n", "\n") == ours
    (tree / "SUMS").write_text(ours)
    assert run(WINDOWS, "sum", "--check", "SUMS", at=tree).stdout.count(": OK") == len(names)
    (tree / "sub/1").write_bytes(b"x")
    assert "sub/1: FAILED" in run(WINDOWS, "sum", "--check", "SUMS", at=tree, code=1).stdout
    coloured = run(WINDOWS, "get", "no-ticket", "--color=always", code=2).stderr
    assert coloured.startswith("\x1b[") or "xylem: " in coloured, coloured


def main_job():
    assert "equal: every byte" in run(WINDOWS, "try").stdout


def trees_both_ways():
    deep = "/".join(["d" * 100] * 3) + "/" + "f" * 100 + ".txt"
    tree = made("tree", {"a": b"a" * 5000, "empty": b"", "sub/grüße 🌱.txt": b"hello", deep: b"more than 260"})
    with Share(LINUX, tree) as ticket:
        (AT / "from-linux").mkdir()
        run(WINDOWS, "get", ticket, "-o", "from-linux\\")
        assert contents(AT / "from-linux/tree") == contents(tree)
        # Over what is there already.
        (AT / "from-linux/tree/a").write_bytes(b"old")
        run(WINDOWS, "get", ticket, "-o", ".\\from-linux", "--overwrite")
        assert contents(AT / "from-linux/tree") == contents(tree)
    with Share(WINDOWS, "tree") as ticket:
        run(LINUX, "get", ticket, "-o", AT / "from-windows")
        assert contents(AT / "from-windows") == contents(tree)
        run(WINDOWS, "get", ticket, "-o", "Z:" + str(AT / "own").replace("/", "\\"))
        assert contents(AT / "own") == contents(tree)
        # Two runs see one state of a tree: what was fetched has the root that was shared.
        assert run(WINDOWS, "sum", "--tree", "own").stdout.split()[0] == run(WINDOWS, "sum", "--tree", "tree").stdout.split()[0]
        run(WINDOWS, "verify", "own", ticket)
    with Share(WINDOWS, "tree\\sub") as ticket:
        run(LINUX, "get", ticket, "-o", AT / "sub")
        assert contents(AT / "sub") == contents(tree / "sub")


def names_that_windows_has_not():
    for name in ("aux.c", "con", "Com1.txt", "a:b", "ends.", "ends ", "what?", "back\\slash"):
        tree = made("bad-" + name.encode().hex(), {name: b"1", "good": b"2"})
        with Share(LINUX, tree) as ticket:
            refused = run(WINDOWS, "get", ticket, "-o", tree.name + "-out", code=4).stderr.strip().splitlines()
            assert "Windows does not allow a file of this name" in refused[-1], refused
            assert not (AT / (tree.name + "-out")).exists()
    with Share(LINUX, made("bad-aux", {"aux.c": b"1", "good": b"2"})) as ticket:
        run(WINDOWS, "get", ticket, "-o", "without", "--exclude", "aux.c")
        assert contents(AT / "without") == {"good": b"2"}


def names_that_differ_in_case():
    with Share(LINUX, made("case", {"README": b"1", "readme": b"2"})) as ticket:
        refused = run(WINDOWS, "get", ticket, "-o", "case-out", code=4).stderr.strip().splitlines()
        assert "this file system does not distinguish the name from an existing one" in refused[-1], refused
        assert not (AT / "case-out").exists()


def ctrl_c_and_resume():
    content = random.Random(7).randbytes(8 << 20)
    (AT / "large").write_bytes(content)
    with Share(LINUX, AT / "large") as ticket:
        getting = subprocess.Popen(
            [*WINDOWS, "get", ticket, "-o", "large-out", "--json", "--limit", "1M"], env=environment(WINDOWS), cwd=AT,
            text=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for line in getting.stdout:
            event = json.loads(line)
            if event["event"] == "progress" and event["verified"] > 1 << 20:
                getting.send_signal(signal.SIGINT)
                break
        _, said = getting.communicate(timeout=LIMIT)
        assert getting.returncode == 130, (getting.returncode, said)
        assert not (AT / "large-out").exists()
        events = [json.loads(line) for line in run(WINDOWS, "get", ticket, "-o", "large-out", "--json").stdout.splitlines()]
        done = next(event for event in events if event["event"] == "done")
        assert done["resumed"] > 0 and done["resumed"] + done["fetched"] >= len(content), done
        assert (AT / "large-out").read_bytes() == content
    run(WINDOWS, "store", "check")


for step in (sums, main_job, trees_both_ways, names_that_windows_has_not, names_that_differ_in_case, ctrl_c_and_resume):
    step()
    print(f"windows: {step.__name__.replace('_', ' ')}: good", flush=True)
