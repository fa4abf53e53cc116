"""Tests Python against the command: each shares, gets and verifies the files of the other."""

import io
import logging
import os
import pickle
import random
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy
import pytest
import xylem
from conftest import World, noise, threads


def test_what_python_shares_the_command_gets(world: World) -> None:
    source = world.file("source", noise(3_000_001, 1))
    with xylem.share(source, store=world.store, listen=["127.0.0.1:0"]) as share:
        assert share.ticket.startswith("xylem:") and share.bytes == 3_000_001 and share.files == 1
        assert not share.wait(0.2)
        got = world.get(share.ticket, world.at / "copy")
        assert got.returncode == 0, got.stderr
        assert got.stdout.split()[0] == share.root
    assert (world.at / "copy").read_bytes() == source.read_bytes()
    assert share.wait(0)
    share.close()
    # Its ticket will be good again, but no peer answers meanwhile.
    with pytest.raises(xylem.UnreachableError):
        xylem.get(share.ticket, world.at / "other", store=world.at / "s", timeout=1)
    again = xylem.share(source, store=world.store)
    assert xylem.verify(world.at / "copy", again.ticket).bytes == 3_000_001
    ends = threading.Timer(0.3, again.close)
    ends.start()
    assert again.wait(30)


def test_what_the_command_shares_python_gets(world: World) -> None:
    source = world.file("source", noise(20_000_000, 2))
    share = world.share(source)
    told: list[tuple[int, int]] = []
    got = xylem.get(
        share.ticket,
        f"{world.at}/new/",
        store=world.store,
        limit=20_000_000,
        progress=lambda done, total: told.append((done, total)),
    )
    assert got.path == world.at / "new" / "source" and got.root == share.root
    assert got.path.read_bytes() == source.read_bytes()
    assert got.bytes == got.fetched == 20_000_000 and got.files == 1 and not got.already_complete
    assert told[-1] == (20_000_000, 20_000_000) and len(told) > 3
    assert [done for done, _ in told] == sorted(done for done, _ in told)
    assert xylem.get(share.ticket, got.path, store=world.store).already_complete
    # Something else has the name.
    other = world.file("other", b"precious")
    with pytest.raises(xylem.UsageError, match="exists and is something else"):
        xylem.get(share.ticket, other, store=world.store)
    assert other.read_bytes() == b"precious"
    xylem.get(share.ticket, other, store=world.store, existing="overwrite")
    assert other.read_bytes() == source.read_bytes()


def test_a_get_is_gone_on_with_where_its_progress_ended_it(world: World) -> None:
    source = world.file("source", noise(20_000_000, 3))
    share = world.share(source)

    def enough(done: int, total: int) -> None:
        if done > total // 3:
            raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        xylem.get(
            share.ticket, world.at / "copy", store=world.store, limit=10_000_000, progress=enough
        )
    assert not (world.at / "copy").exists()
    got = xylem.get(share.ticket, world.at / "copy", store=world.store)
    assert got.resumed >= 5_000_000 and got.resumed + got.fetched == 20_000_000
    assert (world.at / "copy").read_bytes() == source.read_bytes()


def test_a_file_is_read_anywhere(world: World) -> None:
    content = noise(8_000_001, 4)
    share = world.share(world.file("source", content))
    chance = random.Random(5)
    with xylem.open(share.ticket, store=world.store) as file:
        assert isinstance(file, io.BufferedReader) and isinstance(file.raw, xylem.File)
        assert (file.raw.size, file.raw.name) == (len(content), "source")
        assert file.readable() and file.seekable() and not file.writable()
        for _ in range(200):
            at, size = chance.randrange(len(content)), chance.randrange(1, 40_000)
            assert file.seek(at) == file.tell() == at
            assert file.read(size) == content[at : at + size]
        assert file.seek(-10, os.SEEK_END) == len(content) - 10
        assert file.read() == content[-10:] and file.read() == b""
        room = bytearray(2_500_000)
        file.seek(1_000)
        assert file.readinto(room) == len(room) and room == content[1_000:2_501_000]
        floats = numpy.zeros(1_000, "<f4")
        file.seek(4)
        assert file.readinto(floats.data) == 4_000
        assert floats.tobytes() == content[4:4_004]
    assert file.closed and file.raw.closed
    with pytest.raises(ValueError, match="closed"):
        file.read(1)
    with xylem.open(share.ticket, store=world.store, buffering=0) as raw:
        # A read of an unbuffered file is not short, either.
        assert raw.read(5_000_000) == content[:5_000_000]
        assert raw.seek(10, os.SEEK_CUR) == 5_000_010
        with pytest.raises(ValueError):
            raw.seek(-1)
        with pytest.raises(TypeError):
            raw.readinto(b"not writable")
        with pytest.raises(TypeError):
            raw.seek(1.5)  # type: ignore[arg-type]
        with pytest.raises(io.UnsupportedOperation):
            raw.write(b"x")
        assert raw.seek(-1, os.SEEK_END) and raw.read(None) == content[-1:] and raw.read(None) == b""
        raw.seek(5_000_010)
        assert raw.readall() == content[5_000_010:]


def test_other_libraries_read_it(world: World) -> None:
    folder = world.at / "folder"
    array = numpy.random.default_rng(6).random((300, 400))
    folder.mkdir()
    numpy.save(folder / "array.npy", array)
    with zipfile.ZipFile(folder / "archive.zip", "w") as archive:
        archive.writestr("large", noise(2_000_000, 7))
        archive.writestr("small", b"found")
    (folder / "object.pickle").write_bytes(pickle.dumps({"weights": array, "step": 7}, protocol=5))
    share = world.share(folder)
    with xylem.Reader(share.ticket, store=world.store) as reader:
        assert reader.is_directory
        names = [(str(path), size) for path, size in reader.files()]
        assert names == [(p.name, p.stat().st_size) for p in sorted(folder.iterdir())]
        assert (numpy.load(reader.open("array.npy")) == array).all()
        for buffering in (0, -1):
            with reader.open("archive.zip", buffering=buffering) as file:
                assert zipfile.ZipFile(file).read("small") == b"found"
            loaded = pickle.load(reader.open("object.pickle", buffering=buffering))
            assert loaded["step"] == 7 and (loaded["weights"] == array).all()
        with pytest.raises(xylem.UsageError, match="no such file"):
            reader.open("nothing")
        left = reader.open(Path("archive.zip"))
    with pytest.raises(ValueError):
        reader.files()
    # Files that were open stay open.
    assert zipfile.ZipFile(left).read("large") == noise(2_000_000, 7)
    with pytest.raises(xylem.UsageError, match="name one of its files"):
        xylem.open(share.ticket, store=world.store)
    with xylem.open(share.ticket, "array.npy", store=world.store) as file:
        assert (numpy.load(file) == array).all()


def test_a_model_is_loaded_where_it_is(world: World) -> None:
    torch = pytest.importorskip("torch", reason="SKIPPED: torch.load, as there is no torch")
    model = world.at / "model.pt"
    torch.save({"a": torch.arange(10)}, model)
    share = world.share(model)
    assert torch.load(xylem.open(share.ticket, store=world.store))["a"].sum() == 45


def guide() -> list[str]:
    """Return the programs in the guide's section on Python, in order."""
    text = (Path(__file__).parents[3] / "docs" / "guide.md").read_text()
    section = text.split("\n## The same from Python\n")[1].split("\n## ")[0]
    return [block.split("```")[0] for block in section.split("```python\n")[1:]]


def test_the_programs_of_the_guide_work(world: World) -> None:
    reads, shares, gets, tensors, syncs = guide()
    (world.at / "results").mkdir()
    (world.at / "results" / "field.npy").write_bytes(noise(200_000, 11))
    home = os.environ | {"HOME": str(world.at / "alice")}
    command = [sys.executable, "-c", shares]
    alice = subprocess.Popen(command, env=home, cwd=world.at, stdout=subprocess.PIPE, text=True)
    try:
        assert alice.stdout
        ticket = alice.stdout.readline().strip()
        assert gets.count("xylem:results…") == 2
        program = gets.replace("xylem:results…", ticket)
        home = os.environ | {"HOME": str(world.at / "bob")}
        bob = subprocess.run([sys.executable, "-c", program], env=home, cwd=world.at, timeout=60)
        assert bob.returncode == 0
        got, source = (world.at / name / "field.npy" for name in ("copy", "results"))
        assert got.read_bytes() == source.read_bytes()
    finally:
        alice.send_signal(signal.SIGINT)
        alice.wait(20)

    # A test of its own loads a model with torch.
    reads = "\n".join(line for line in reads.splitlines() if "torch.load" not in line)
    tables = world.at / "tables"
    tables.mkdir()
    numpy.save(tables / "field.npy", numpy.arange(1000))
    program = reads.replace("torch, ", "").replace("xylem:climate…", world.share(tables).ticket)
    program += "\nassert (table == numpy.arange(1000)).all()"
    home = os.environ | {"HOME": str(world.at / "carol")}
    carol = subprocess.run([sys.executable, "-c", program], env=home, cwd=world.at, timeout=60)
    assert carol.returncode == 0

    model = world.file("models/model.safetensors", noise(200_008, 12))
    program = f"import numpy\nweights, begin = numpy.fromfile({str(model)!r}, '<f4')[2:], 8\n"
    program += tensors.replace("xylem:model…", world.share(model.parent).ticket)
    frank = subprocess.run([sys.executable, "-c", program], env=home, cwd=world.at, timeout=60)
    assert frank.returncode == 0

    group = world.at / "group"
    (group / "photos").mkdir(parents=True)
    (world.at / "photos").mkdir()
    (group / "photos" / "one").write_bytes(b"a photo")
    photos, listen = group / "photos", ["127.0.0.1:0"]
    with xylem.sync(photos, store=world.store, listen=listen, lan=False, map=False) as dave:
        program = syncs.replace("xylem-sync:photos…", dave.ticket).replace("wait(10)", "wait(0.1)")
        home = os.environ | {"HOME": str(world.at / "erin")}
        command = [sys.executable, "-u", "-c", program]
        erin = subprocess.Popen(command, env=home, cwd=world.at, stdout=subprocess.PIPE, text=True)
        try:
            assert erin.stdout
            while erin.stdout.readline().strip() != "in step":
                assert erin.poll() is None
            assert (world.at / "photos" / "one").read_bytes() == b"a photo"
        finally:
            erin.send_signal(signal.SIGINT)
            erin.wait(20)


def tamper(path: Path, at: int) -> None:
    """Change a byte, but neither size nor time."""
    before = path.stat()
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    with path.open("r+b") as file:
        file.write(content)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def test_a_tampering_peer_is_never_seen(world: World, caplog: pytest.LogCaptureFixture) -> None:
    content = noise(8_000_000, 8)
    source = world.file("source", content)
    share = world.share(source)
    tamper(source, 4_000_000)
    with xylem.open(share.ticket, store=world.store, timeout=2) as file:
        assert file.read(100_000) == content[:100_000]
        file.seek(3_999_900)
        with pytest.raises(xylem.UnreachableError) as caught:
            file.read(200)
        assert str(caught.value).startswith("source: ") and "\n" not in str(caught.value)
        assert caught.value.exit_code == 3
    with caplog.at_level(logging.WARNING, "xylem"), pytest.raises(xylem.Error) as failed:
        xylem.get(share.ticket, world.at / "copy", store=world.at / "other", timeout=2)
    assert failed.value.exit_code in (1, 3) and not (world.at / "copy").exists()
    # A sharer compares a changed file with the tree itself, and refuses wrong data.
    assert "refuses parts of it" in caplog.text


def test_damage_is_told(world: World) -> None:
    source = world.file("source", noise(1_000_000, 9))
    share = world.share(source)
    copy = world.file("copy", noise(1_000_000, 9))
    verified = xylem.verify(copy, share.ticket, store=world.store)
    assert (verified.root, verified.bytes, verified.files) == (share.root, 1_000_000, 1)
    tamper(copy, 500_000)
    with pytest.raises(xylem.DamagedError, match="1 place is not what") as caught:
        xylem.verify(copy, share.ticket, store=world.store)
    assert caught.value.exit_code == 1
    [damage] = caught.value.damage
    assert damage.start <= 500_000 < damage.end <= damage.start + 65_536 and damage.what


def test_wrong_input_is_one_line(world: World) -> None:
    source = world.file("source", b"x")
    for call in (
        lambda: xylem.get("xylem:nonsense", store=world.store),
        lambda: xylem.open("no ticket", store=world.store),
        lambda: xylem.verify(source, "", store=world.store),
        lambda: xylem.share(world.at / "nothing", store=world.store),
        lambda: xylem.share(source, store=world.store, listen=["nowhere"]),
        lambda: xylem.get("xylem:x", store=world.store, existing="other"),  # type: ignore[arg-type]
        lambda: xylem.get("xylem:x", store=world.store, limit=0),
    ):
        with pytest.raises(xylem.UsageError) as caught:
            call()
        assert str(caught.value) and "\n" not in str(caught.value)
        assert isinstance(caught.value, ValueError) and isinstance(caught.value, OSError)
    store = world.file("taken", b"a file where the store would be")
    with pytest.raises(xylem.LocalError):
        xylem.share(source, store=store)


PROGRAM = """
import sys, xylem
what, ticket, at = sys.argv[1:]
here = {"store": at + "/s"}
try:
    file = xylem.open(ticket, timeout=60, **here) if what == "read" else None
    print("begun", flush=True)
    input()
    if what == "read":
        file.read()
    elif what == "open":
        xylem.open(ticket, timeout=60, **here)
    elif what == "share":
        with xylem.share(at + "/source", listen=["127.0.0.1:0"], **here) as share:
            share.wait()
    else:
        xylem.get(ticket, at + "/copy", timeout=60, limit=1_000_000, **here)
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.parametrize("what", ["get", "get from nobody", "open", "read", "share"])
def test_ctrl_c_ends_it_within_a_second(world: World, what: str) -> None:
    share = world.share(world.file("source", noise(20_000_000, 10)))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, what, share.ticket, str(world.at)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin and program.stdout and program.stdout.readline() == "begun\n"
    if what not in ("get", "share"):
        # The sharer stays connected and sends nothing.
        share.run.send_signal(signal.SIGSTOP)
    program.stdin.write("\n")
    program.stdin.flush()
    time.sleep(1)
    began = time.monotonic()
    program.send_signal(signal.SIGINT)
    rest, _ = program.communicate(timeout=30)
    took = time.monotonic() - began
    assert rest == "interrupted\n"
    # With the time that the interpreter needs to exit.
    assert took < 1.5, f"{took:.2f} s"


def test_other_threads_run_meanwhile(world: World) -> None:
    share = world.share(world.file("source", noise(10_000_000, 11)))
    ticks, ended = 0, threading.Event()

    def tick() -> None:
        nonlocal ticks
        while not ended.wait(0.01):
            ticks += 1

    thread = threading.Thread(target=tick)
    thread.start()
    xylem.get(share.ticket, world.at / "copy", store=world.store, limit=5_000_000)
    ended.set()
    thread.join()
    assert ticks > 50, ticks


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_refused_and_does_not_hang(world: World) -> None:
    source = world.file("source", noise(3_000_000, 13))
    share = world.share(source)
    reader = xylem.Reader(share.ticket, store=world.store)
    file = xylem.open(share.ticket, store=world.store, buffering=0)
    served = xylem.share(source, store=world.at / "served", listen=["127.0.0.1:0"])
    uses: list[Callable[[], object]] = [
        lambda: file.read(1),
        lambda: reader.files(),
        lambda: reader.open(),
        lambda: served.wait(),
    ]
    child = os.fork()
    if child == 0:
        status = 0
        try:
            refused = 0
            for use in uses:
                try:
                    use()
                except xylem.UsageError as why:
                    refused += "os.fork()" in str(why)
            for ends in (file.close, reader.close, served.close):
                ends()
            status = refused
        finally:
            os._exit(status)
    deadline = time.monotonic() + 20
    while (ended := os.waitpid(child, os.WNOHANG)) == (0, 0):
        if time.monotonic() > deadline:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.05)
    assert os.waitstatus_to_exitcode(ended[1]) == 4
    # The parent's go on.
    assert file.read(10) == noise(3_000_000, 13)[:10]
    assert [size for _, size in reader.files()] == [3_000_000]
    assert not served.wait(0)
    file.close()
    served.close()


def test_nothing_is_left_running(world: World) -> None:
    share = world.share(world.file("source", noise(1_000_000, 12)))
    before = threads()
    with xylem.open(share.ticket, store=world.store) as file:
        file.read(1)
        assert threads() > before or sys.platform != "linux"
    # A reader that is neither closed nor referenced.
    xylem.open(share.ticket, store=world.store)
    xylem.Reader(share.ticket, store=world.store)
    xylem.share(world.at / "source", store=world.store, listen=["127.0.0.1:0"])
    with pytest.raises(xylem.UsageError):
        xylem.share(world.at / "nothing", store=world.store)
    deadline = time.monotonic() + 10
    while threads() > before:
        assert time.monotonic() < deadline, f"{threads()} threads, {before} before"
        time.sleep(0.05)
