"""Folders kept in step: by two programs of Python, and by one and the command."""

import time
from collections.abc import Callable
from pathlib import Path

import pytest
import xylem
from conftest import World


def until(what: str, holds: Callable[[], bool], patience: float = 60.0) -> None:
    """Wait until it holds."""
    end = time.monotonic() + patience
    while not holds():
        assert time.monotonic() < end, f"not within {patience} s: {what}"
        time.sleep(0.02)


def has(path: Path, content: bytes) -> bool:
    return path.exists() and path.read_bytes() == content


def member(world: World, name: str, ticket: str | None = None) -> xylem.Sync:
    """Keep the folder of this name in step, on loopback and without announcements."""
    store = world.at / f"{name}-store"
    listen = ["127.0.0.1:0"]
    return xylem.sync(
        world.at / name, ticket, name=name, store=store, listen=listen, lan=False, map=False
    )


def test_two_programs_keep_a_folder_in_step(world: World) -> None:
    world.file("alice/letter", b"hello")
    (world.at / "bob").mkdir()
    with member(world, "alice") as alice:
        assert alice.ticket.startswith("xylem-sync:")
        assert alice.name == "alice"
        with member(world, "bob", alice.ticket) as bob:
            until("the file at bob", lambda: has(world.at / "bob/letter", b"hello"))
            world.file("bob/answer", b"hi")
            until("the file at alice", lambda: has(world.at / "alice/answer", b"hi"))
            until("both in step", lambda: alice.in_step and bob.in_step)
            status = bob.status()
            assert [member["name"] for member in status["members"]] == ["alice"]
            assert status["missing"] == []
            assert not bob.wait(0.1)
    # Closed: what changes now is noticed by the next run.
    world.file("alice/later", b"later")
    with member(world, "alice"), member(world, "bob"):
        until("the later file", lambda: has(world.at / "bob/later", b"later"))


def test_wrong_calls_are_told_apart(world: World) -> None:
    store = world.at / "store"
    (world.at / "folder").mkdir()
    with pytest.raises(xylem.UsageError, match="damaged"):
        xylem.sync(world.at / "folder", "xylem-sync:abc", store=store)
    with pytest.raises(xylem.UsageError):
        xylem.sync(world.at / "none", store=store, lan=False, map=False)
    with pytest.raises(xylem.UsageError, match="limit"):
        xylem.sync(world.at / "folder", store=store, limit=0)
    with pytest.raises(xylem.UsageError, match="name"):
        xylem.sync(world.at / "folder", store=store, name="two words", lan=False, map=False)
    with (
        xylem.sync(world.at / "folder", store=store, lan=False, map=False, listen=["127.0.0.1:0"]),
        pytest.raises(xylem.Error, match="already runs"),
    ):
        xylem.sync(world.at / "folder", store=store, lan=False, map=False)
