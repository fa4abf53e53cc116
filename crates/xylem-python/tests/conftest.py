"""Runs the command `xylem` as the peer of the tests: it shares and gets."""

import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

XYLEM = os.environ.get("XYLEM", "xylem")
# Keep off this machine's network: neither query nor announce.
os.environ |= {"XYLEM_NO_LAN": "1", "XYLEM_NO_MAP": "1"}
os.environ.pop("XYLEM_STORE", None)


def noise(size: int, seed: int) -> bytes:
    """Return incompressible bytes, the same each time."""
    return random.Random(seed).randbytes(size)


def threads() -> int:
    """Number of threads of this process, with those of Rust."""
    return len(os.listdir("/proc/self/task")) if sys.platform == "linux" else 0


class Command:
    """A `xylem share` of one path; killed at the end."""

    def __init__(self, path: Path, store: Path) -> None:
        listen = ["--listen", "127.0.0.1:0"]
        command = [XYLEM, "--store", str(store), "--json", "share", *listen, str(path)]
        self.run = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self.run.stdout
        shared = next(e for e in map(json.loads, self.run.stdout) if e["event"] == "shared")
        self.ticket: str = shared["ticket"]
        self.root: str = shared["root"]
        self.listen: list[str] = shared["listen"]

    def kill(self) -> None:
        """Kill it at once, so that it sends no more messages."""
        self.run.kill()
        self.run.wait()


class World:
    """A folder, and commands in it."""

    def __init__(self, at: Path) -> None:
        self.at = at
        self.store = at / "store"
        self.commands: list[Command] = []

    def file(self, name: str, content: bytes) -> Path:
        path = self.at / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
        return path

    def share(self, path: Path) -> Command:
        command = Command(path, self.at / "publisher")
        self.commands.append(command)
        return command

    def get(self, ticket: str, output: Path) -> subprocess.CompletedProcess[str]:
        store = str(self.at / "getter")
        command = [XYLEM, "--store", store, "get", ticket, "-o", str(output)]
        return subprocess.run(command, capture_output=True, text=True, timeout=60)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    """A folder of its own for each test."""
    world = World(tmp_path)
    yield world
    for command in world.commands:
        command.kill()
