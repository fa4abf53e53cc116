"""Compares the cost of reads by `xylem.open` and by `open` on this machine: `python measure.py [MIB]`.

This process shares a file in PLACE (environment, else /dev/shm) and reads it: in order for the first time (from a share on
loopback, and kept), again by a new reader (from the store, each block hashed), and 4 KiB at random. In turn, medians of five.
"""

import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import xylem

SIZE = int(sys.argv[1] if len(sys.argv) > 1 else "512") << 20
os.environ |= {"XYLEM_NO_LAN": "1", "XYLEM_NO_MAP": "1"}


def in_order(file: BinaryIO) -> None:
    room = bytearray(1 << 20)
    while file.readinto(room):  # type: ignore[attr-defined]
        pass


def at_random(file: BinaryIO) -> None:
    chance = random.Random(1)
    for _ in range(2_000):
        file.seek(chance.randrange(SIZE - 4_096))
        file.read(4_096)


def took(what: Callable[[BinaryIO], None], file: BinaryIO) -> float:
    with file:
        began = time.perf_counter()
        what(file)
        return time.perf_counter() - began


with tempfile.TemporaryDirectory(dir=os.environ.get("PLACE", "/dev/shm")) as at:
    source = Path(at, "source")
    chunk = random.Random(1).randbytes(1 << 20)
    with source.open("wb") as out:
        for i in range(SIZE >> 20):
            out.write(i.to_bytes(8, "big") + chunk[8:])
    with xylem.share(source, store=f"{at}/publisher", listen=["127.0.0.1:0"]) as share:

        def opened() -> BinaryIO:
            return xylem.open(share.ticket, store=f"{at}/store")

        print(f"first time, in order: {SIZE / took(in_order, opened()) / 1e9:.2f} GB/s")
        for name, what, per, unit in (
            ("in order", in_order, SIZE / 1e9, "GB/s"),
            ("4 KiB at random", at_random, 2_000, "reads/s"),
        ):
            pairs = [(took(what, opened()), took(what, source.open("rb"))) for _ in range(5)]
            ours, theirs = (statistics.median(side) for side in zip(*pairs, strict=True))
            ratio = statistics.median(b / a for a, b in pairs)
            print(f"{name}: {per / ours:.2f} {unit}, open {per / theirs:.2f}, ratio {ratio:.3f}")
