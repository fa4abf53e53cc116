"""Tests the file system of fsspec for tickets, with fsspec's own abstract tests for what reading covers."""

import asyncio
import gc
import inspect
import multiprocessing
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import pytest
import xylem
import xylem.fsspec
from conftest import World, noise, threads
from fsspec.implementations.asyn_wrapper import (  # type: ignore[import-untyped]
    AsyncFileSystemWrapper,
)
from fsspec.tests.abstract import (  # type: ignore[import-untyped]
    AbstractFixtures,
    AbstractGetTests,
)
from xylem.fsspec import XylemFileSystem, url


@pytest.fixture(autouse=True)
def nothing_is_kept() -> Iterator[None]:
    """Drop the file systems that fsspec keeps, so that each test begins with no open ticket."""
    yield
    XylemFileSystem.clear_instance_cache()
    gc.collect()


SCENARIOS = {
    "bulk": "_bulk_operations_scenario_0",
    "edges": "_glob_edge_cases_files",
    "prefix": "_dir_and_file_with_same_name_prefix",
    "hashed": "_10_files_with_hashed_names",
}


class TestGet(AbstractFixtures, AbstractGetTests):  # type: ignore[misc]
    """fsspec's tests of what is read. Their scenarios are shared at once, as nothing can be written."""

    @pytest.fixture(scope="class")
    @classmethod
    def shared(cls, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
        world = World(tmp_path_factory.mktemp("scenarios"))
        local = fsspec.filesystem("file", auto_mkdir=True)
        for name, make in SCENARIOS.items():
            getattr(cls(), make)(local, os.path.join, str(world.at / "tree" / name))
        world.file("tree/recursive/src/file", b"")
        yield world.share(world.at / "tree").ticket, str(world.store)
        for command in world.commands:
            command.kill()

    @pytest.fixture
    def fs(self, shared: tuple[str, str]) -> XylemFileSystem:
        return XylemFileSystem(store=shared[1])

    @pytest.fixture
    def fs_join(self) -> Callable[..., str]:
        return lambda *parts: "/".join(parts)

    @pytest.fixture
    def fs_path(self, shared: tuple[str, str]) -> str:
        return url(shared[0], "recursive")

    @pytest.fixture
    def supports_empty_directories(self) -> bool:
        return False

    @pytest.fixture
    def fs_bulk_operations_scenario_0(self, shared: tuple[str, str]) -> str:
        return url(shared[0], "bulk/source")

    @pytest.fixture
    def fs_glob_edge_cases_files(self, shared: tuple[str, str]) -> str:
        return url(shared[0], "edges/source")

    @pytest.fixture
    def fs_dir_and_file_with_same_name_prefix(self, shared: tuple[str, str]) -> str:
        return url(shared[0], "prefix/source")

    @pytest.fixture
    def fs_10_files_with_hashed_names(self, shared: tuple[str, str]) -> str:
        return url(shared[0], "hashed/source")

    def test_get_directory_recursive(  # type: ignore[no-untyped-def]
        self, fs, fs_join, fs_path, local_fs, local_join, local_target, monkeypatch
    ) -> None:
        # The directory that it makes is already there.
        for writing in ("mkdir", "touch"):
            monkeypatch.setattr(fs, writing, lambda *_: None)
        super().test_get_directory_recursive(
            fs, fs_join, fs_path, local_fs, local_join, local_target
        )


@pytest.fixture
def folder(world: World) -> Path:
    """A directory with files at several depths."""
    world.file("folder/a.txt", b"a\nb\n")
    world.file("folder/sub/large", noise(3_000_001, 21))
    world.file("folder/sub/deep/er/b.txt", b"bb")
    world.file("folder/sub/ü b#c?.txt", b"ccc")
    world.file("folder/empty", b"")
    return world.at / "folder"


def test_a_directory_is_listed_and_found(world: World, folder: Path) -> None:
    ticket = world.share(folder).ticket
    fs = XylemFileSystem(store=world.store)
    top = ticket.removeprefix("xylem:")
    for root in (ticket, top, f"xylem://{top}", f"xylem://{ticket}//", f"xylem://{top.upper()}"):
        assert fs.ls(root, detail=False) == [f"{top}/{name}" for name in ("a.txt", "empty", "sub")]
    assert fs.ls(f"{top}/sub") == [
        {"name": f"{top}/sub/deep", "size": 0, "type": "directory"},
        {"name": f"{top}/sub/large", "size": 3_000_001, "type": "file"},
        {"name": f"{top}/sub/ü b#c?.txt", "size": 3, "type": "file"},
    ]
    assert fs.ls(f"{top}/a.txt", detail=False) == [f"{top}/a.txt"]
    assert fs.info(f"{top}/sub/deep")["type"] == "directory"
    assert fs.glob(url(ticket, "**/*.txt")) == [
        f"{top}/{name}" for name in ("a.txt", "sub/deep/er/b.txt", "sub/ü b#c?.txt")
    ]
    below = [str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()]
    assert fs.find(ticket) == sorted(f"{top}/{path}" for path in below)
    assert [dirs for _, dirs, _ in fs.walk(ticket)] == [["sub"], ["deep"], ["er"], []]
    assert fs.du(ticket) == 3_000_001 + 4 + 2 + 3
    assert fs.exists(url(ticket, "sub")) and fs.isdir(ticket) and fs.isfile(f"{top}/empty")
    assert not fs.exists(url(ticket, "nothing")) and not fs.isfile(ticket)
    assert fs.cat(f"xylem://{top}//a.txt") == b"a\nb\n" == fs.cat(f"{top}/a.txt")
    assert fs.modified(f"{top}/a.txt") == fs.modified(ticket)
    assert fs.unstrip_protocol(f"{top}/a.txt") == url(ticket, Path("a.txt")) == f"xylem://{top}/a.txt"
    for absent in ("nothing", "a.txt/below", "sub/deep/nothing", "su"):
        for call in (fs.ls, fs.info, fs.modified, fs.open, fs.cat, lambda path: fs.cat(path, recursive=True)):
            with pytest.raises(FileNotFoundError, match=absent) as caught:
                call(url(ticket, absent))
            assert top not in str(caught.value)
    for call in (fs.open, fs.cat_file):
        with pytest.raises(IsADirectoryError) as refused:
            call(f"{top}/sub")
        assert top not in str(refused.value)


@pytest.mark.skipif(sys.platform != "linux", reason="names are text on this system")
def test_names_that_are_not_unicode_are_read(world: World) -> None:
    name = os.fsdecode(b"\xff.txt")
    world.file(f"folder/{name}", b"x")
    ticket = world.share(world.at / "folder").ticket
    fs = XylemFileSystem(store=world.store)
    [found] = fs.find(ticket)
    assert found == f"{ticket.removeprefix('xylem:')}/{name}" and fs.cat(found) == b"x"


def test_a_single_file_is_read_by_two_names(world: World) -> None:
    ticket = world.share(world.file("table.csv", b"x\n1\n")).ticket
    fs = XylemFileSystem(store=world.store)
    for name in (ticket, url(ticket), url(ticket, "table.csv")):
        assert fs.info(name) == {
            "name": name.replace("xylem://", "").replace("xylem:", ""),
            "size": 4,
            "type": "file",
        }
        assert fs.ls(name) == [fs.info(name)] and fs.find(name) == [fs.info(name)["name"]]
        assert fs.cat(name) == b"x\n1\n"
        with fs.open(name, "r") as text:
            assert text.readlines() == ["x\n", "1\n"]
    assert not fs.exists(url(ticket, "other"))


def test_ranges_are_those_of_slices(world: World, folder: Path) -> None:
    ticket = world.share(folder).ticket
    fs = XylemFileSystem(store=world.store)
    content = (folder / "sub" / "large").read_bytes()
    large, small = url(ticket, "sub/large"), url(ticket, "a.txt")
    cuts = [(None, None), (0, 0), (1, 2), (-10, None), (-10, -4), (2_000_000, 1), (5, 9_000_000)]
    cuts += [(1_500_000, 1_600_001), (1_600_001, 1_600_003), (1_600_002, 1_600_009), (-9_000_000, 3)]
    for start, end in cuts:
        assert fs.cat_file(large, start, end) == content[start:end], (start, end)
    for gap in (None, 0, 10_000_000):
        starts, ends = [start for start, _ in cuts], [end for _, end in cuts]
        paths = [large] * len(cuts) + [small]
        read = fs.cat_ranges(paths, [*starts, 1], [*ends, 3], max_gap=gap)
        assert read == [content[start:end] for start, end in cuts] + [b"\nb"]
    assert fs.cat_ranges([], [], []) == []
    assert fs.cat_ranges([small, large], 1, 3) == [b"\nb", content[1:3]]
    absent = url(ticket, "nothing")
    first, second = fs.cat_ranges([absent, small], 0, 1)
    assert isinstance(first, FileNotFoundError) and second == b"a"
    with pytest.raises(FileNotFoundError):
        fs.cat_ranges([absent, small], 0, 1, on_error="raise")
    with pytest.raises(ValueError):
        fs.cat_ranges([small], [0, 1], [1])


@pytest.mark.parametrize(
    "cache", ["none", "readahead", "bytes", "blockcache", "background", "all", "mmap"]
)
def test_caches_of_fsspec_read_the_same_bytes(world: World, cache: str) -> None:
    content = noise(400_001, 22)
    where = url(world.share(world.file("source", content)).ticket)
    fs = XylemFileSystem(store=world.store)
    with fs.open(where, block_size=50_000, cache_type=cache) as file:
        assert file.size == len(content) and file.readable() and not file.writable()
        for at, size in [(0, 10), (399_990, 100), (100_000, 120_000), (5, 3), (7, 399_990)]:
            assert file.seek(at) == at and file.read(size) == content[at : at + size]
        file.seek(1_000)
        room = bytearray(2_000)
        assert file.readinto(room) == 2_000 and room == content[1_000:3_000]
        again = pickle.loads(pickle.dumps(file))
        assert again.tell() == file.tell() == 3_000 and again.read(7) == content[3_000:3_007]
    assert file.closed
    with pytest.raises(ValueError, match="closed"):
        file.read(1)


def test_urls_are_opened_without_an_import(world: World, folder: Path) -> None:
    ticket = world.share(folder).ticket
    program = "import fsspec, sys; print(fsspec.open(sys.argv[1], store=sys.argv[2]).open().read())"
    command = [sys.executable, "-c", program, url(ticket, "a.txt"), str(world.store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.stdout == "b'a\\nb\\n'\n", done.stderr
    other = world.share(world.file("other", b"two")).ticket
    urls = [url(ticket, "a.txt"), url(other)]
    # Each URL is read from its own ticket.
    files = fsspec.open_files(urls, store=world.store)
    assert [file.open().read() for file in files] == [b"a\nb\n", b"two"]
    # A copy on disk, by a file system of fsspec in front.
    for cache in ("simplecache", "filecache"):
        options = {cache: {"cache_storage": str(world.at / cache)}, "xylem": {"store": world.store}}
        with fsspec.open(f"{cache}::{urls[0]}", **options) as file:
            assert file.read() == b"a\nb\n"


def test_writing_is_refused_and_names_share(world: World) -> None:
    where = url(world.share(world.file("source", b"x")).ticket)
    fs = XylemFileSystem(store=world.store)
    calls: list[Callable[[], Any]] = [
        lambda: fs.open(where, "wb"),
        lambda: fs.open(where, "w"),
        lambda: fs.open(where, "ab"),
        lambda: fs.open(where, "xb"),
        lambda: fs.pipe(where, b"y"),
        lambda: fs.pipe_file(where, b"y"),
        lambda: fs.write_bytes(where, b"y"),
        lambda: fs.write_text(where, "y"),
        lambda: fs.put(__file__, where),
        lambda: fs.upload(__file__, where),
        lambda: fs.touch(where),
        lambda: fs.mkdir(where + "/new"),
        lambda: fs.makedirs(where + "/new"),
        lambda: fs.rm(where),
        lambda: fs.rm_file(where),
        lambda: fs.delete(where),
        lambda: fs.rmdir(where),
        lambda: fs.copy(where, where + "2"),
        lambda: fs.mv(where, where + "2"),
        lambda: fs.start_transaction(),
    ]
    for call in calls:
        with pytest.raises(xylem.UsageError, match=r"read-only: xylem\.share") as caught:
            call()
        assert "\n" not in str(caught.value)


def test_unreachable_is_not_taken_for_absent(world: World) -> None:
    share = world.share(world.file("source", b"x"))
    share.kill()
    where = url(share.ticket)
    fs = XylemFileSystem(store=world.store, timeout=0.5)
    calls: list[Any] = [fs.exists, fs.isfile, fs.isdir, fs.ls, fs.find, fs.open]
    calls += [fs.glob, lambda where: fs.glob(where + "/*"), lambda where: list(fs.walk(where))]
    for call in calls:
        with pytest.raises(xylem.UnreachableError) as caught:
            call(where)
        assert where.removeprefix("xylem://") not in str(caught.value)
    for wrong in ("xylem://nonsense", "xylem://nonsense/x", "xylem://", ""):
        with pytest.raises(xylem.UsageError) as misused:
            fs.info(wrong)
        assert "nonsense" not in str(misused.value)


def test_wrong_options_are_errors(world: World) -> None:
    with pytest.raises(xylem.UsageError, match="no such storage option: tmeout"):
        fsspec.filesystem("xylem", tmeout=3)
    assert XylemFileSystem(use_listings_cache=False, store=world.store)
    taken = inspect.getfullargspec(XylemFileSystem.__init__).kwonlyargs
    opens = inspect.signature(xylem.open).parameters.keys() - {"ticket", "path", "buffering"}
    assert set(taken) == xylem.fsspec.Options.__annotations__.keys() == opens


def test_texts_and_tokens_hold_no_ticket(world: World) -> None:
    ticket = world.share(world.file("source", b"x")).ticket
    fs = XylemFileSystem(store=world.store)
    with fs.open(url(ticket)) as file:
        for text in (repr(file), str(file), repr(fs), fs.to_json(), fs._fs_token, fs.fsid):
            assert ticket.removeprefix("xylem:") not in text
        assert "source" in repr(file)


def test_a_pickled_file_system_opens_anew(world: World) -> None:
    where = url(world.share(world.file("source", noise(100_000, 23))).ticket)
    fs = XylemFileSystem(store=world.store)
    content = fs.cat(where)
    assert pickle.loads(pickle.dumps(fs)) == fs
    for method in sorted({"fork", "spawn"}.intersection(multiprocessing.get_all_start_methods())):
        with multiprocessing.get_context(method).Pool(2) as pool:
            # A forked process does not use the reader of its parent, whose thread it lacks.
            assert pool.map_async(fs.cat, [where] * 4).get(60) == [content] * 4
    assert fs.cat(where) == content


def test_threads_share_one_reader(world: World) -> None:
    content = noise(2_000_000, 24)
    where = url(world.share(world.file("source", content)).ticket)
    wrong: list[int] = []
    systems: dict[int, XylemFileSystem] = {}
    shared = len(xylem.fsspec._shared)

    def read(first: int) -> None:
        fs = XylemFileSystem(store=world.store)
        systems[id(fs)] = fs
        for at in range(first, len(content), 400_000):
            if fs.cat_file(where, at, at + 1_000) != content[at : at + 1_000]:
                wrong.append(at)

    threads = [threading.Thread(target=read, args=[first]) for first in range(0, 8_000, 1_000)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not wrong and len(systems) == 8 and len(xylem.fsspec._shared) == shared + 1


def test_async_programs_read_concurrently(world: World, folder: Path) -> None:
    ticket = world.share(folder).ticket
    fs = AsyncFileSystemWrapper(XylemFileSystem(store=world.store), asynchronous=True)

    async def read() -> list[bytes]:
        assert len(await fs._ls(url(ticket))) == 3
        parts = [fs._cat_file(url(ticket, "sub/large"), at, at + 9) for at in range(0, 99, 9)]
        return list(await asyncio.gather(*parts))

    assert b"".join(asyncio.run(read())) == (folder / "sub" / "large").read_bytes()[:99]


def settles_at(number: int) -> bool:
    deadline = time.monotonic() + 10
    while threads() > number and time.monotonic() < deadline:
        time.sleep(0.05)
    return threads() <= number


def test_closed_file_systems_leave_nothing_running(world: World) -> None:
    wheres = [url(world.share(world.file(f"f{n}", noise(9, n))).ticket) for n in range(3)]
    gc.collect()
    before, shared = threads(), len(xylem.fsspec._shared)
    fs = XylemFileSystem(store=world.store)
    left = fs.open(wheres[0])
    assert threads() > before or sys.platform != "linux"
    fs.close()
    # A file that is open stays open, and the file system can be used again.
    assert left.read() == noise(9, 0) and fs.cat(wheres[0]) == noise(9, 0)
    left.close()
    fs.close()
    assert settles_at(before)
    fs.cat(wheres)
    del fs, left
    XylemFileSystem.clear_instance_cache()
    gc.collect()
    assert settles_at(before) and len(xylem.fsspec._shared) == shared


def test_the_least_used_publications_are_closed(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(xylem.fsspec, "MAX_OPEN", 2)
    wheres = [url(world.share(world.file(f"f{n}", noise(9, n))).ticket) for n in range(3)]
    fs = XylemFileSystem(store=world.store)
    for _ in range(2):
        assert [fs.cat(where) for where in wheres] == [noise(9, n) for n in range(3)]
        assert len(fs._held) == 2
    fs.close()


PROGRAM = """
import sys, fsspec
fs = fsspec.filesystem("xylem", store=sys.argv[2], timeout=60)
where = sys.argv[1]
fs.cat_file(where, 0, 1)
print("begun", flush=True)
input()
try:
    fs.cat_ranges([where] * 4, [5_000_000 * n for n in range(1, 5)], [5_000_000 * n + 9 for n in range(1, 5)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_ctrl_c_ends_concurrent_reads_within_a_second(world: World) -> None:
    share = world.share(world.file("source", noise(25_000_000, 25)))
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, url(share.ticket), str(world.store)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdin and program.stdout and program.stdout.readline() == "begun\n"
    share.run.send_signal(signal.SIGSTOP)
    program.stdin.write("\n")
    program.stdin.flush()
    time.sleep(1)
    began = time.monotonic()
    program.send_signal(signal.SIGINT)
    assert program.stdout.readline() == "interrupted\n"
    took = time.monotonic() - began
    program.kill()
    program.communicate()
    assert took < 1.5, f"{took:.2f} s"


FORKS = """
import os, sys, fsspec
fs = fsspec.filesystem("xylem", store=sys.argv[2])
fs.cat(sys.argv[1])
if child := os.fork():
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
type(fs).clear_instance_cache()
del fs
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_a_forked_process_ends(world: World) -> None:
    where = url(world.share(world.file("source", b"x")).ticket)
    # Closing a reader of the parent would wait for a thread that the child does not have.
    command = [sys.executable, "-c", FORKS, where, str(world.store)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    assert done.returncode == 0, done.stderr
