"""Times hash_many, and single calls, beside the package `blake3` of PyPI and hashlib.

    python measure.py [ROUNDS]        (default 15; every case once a round, in turn; medians)

Needs numpy and blake3 installed beside xylem_blake3.
"""

import hashlib
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable

import blake3
import numpy
import xylem_blake3

MESSAGES, LENGTH = 10_000, 4096

Work = Callable[[], object]


def race(cases: dict[str, Work], rounds: int) -> dict[str, float]:
    """Median seconds of each case."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, work in cases.items():
            start = time.perf_counter()
            work()
            times[name].append(time.perf_counter() - start)
    return {name: statistics.median(taken) for name, taken in times.items()}


def many(rounds: int) -> None:
    messages = [os.urandom(LENGTH) for _ in range(MESSAGES)]
    array = numpy.frombuffer(b"".join(messages), numpy.uint8).reshape(MESSAGES, LENGTH)
    auto = xylem_blake3.blake3.AUTO
    cases: dict[str, Work] = {
        "hash_many, list": lambda: xylem_blake3.hash_many(messages),
        "hash_many, array": lambda: xylem_blake3.hash_many(array),
        "hash_many, array, all threads": lambda: xylem_blake3.hash_many(array, max_threads=auto),
        "loop of xylem_blake3.blake3": lambda: [xylem_blake3.blake3(m).digest() for m in messages],
        "loop of blake3.blake3 (PyPI)": lambda: [blake3.blake3(m).digest() for m in messages],
        "loop of hashlib.sha256": lambda: [hashlib.sha256(m).digest() for m in messages],
    }
    print(f"{MESSAGES} messages of {LENGTH} bytes")
    medians = race(cases, rounds)
    for name, taken in medians.items():
        rate = MESSAGES * LENGTH / taken / 1e9
        ratio = medians["loop of blake3.blake3 (PyPI)"] / taken
        print(f"  {name:32} {taken * 1e3:8.2f} ms {rate:6.2f} GB/s {ratio:6.2f} x PyPI")


def one(rounds: int) -> None:
    print("one message: blake3(message).digest()")
    for length, calls in ((64, 4000), (4096, 2000), (1 << 20, 20)):
        message = os.urandom(length)
        medians = race(
            {
                "ours": lambda: [xylem_blake3.blake3(message).digest() for _ in range(calls)],
                "PyPI": lambda: [blake3.blake3(message).digest() for _ in range(calls)],
            },
            rounds,
        )
        ours, theirs = medians["ours"] / calls * 1e9, medians["PyPI"] / calls * 1e9
        print(f"  {length:8} bytes  {ours:10.0f} ns, PyPI {theirs:10.0f} ns {theirs / ours:6.2f} x")


if __name__ == "__main__":
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    print(f"Python {platform.python_version()}, blake3 {blake3.__version__}, {os.cpu_count()} processors")
    many(rounds)
    one(rounds)
