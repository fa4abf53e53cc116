"""One hash of one large file, by the workers of Dask or of Ray: the output of `b3sum FILE`.

Each task reads a range of the file, on any worker, and returns some lines of text; the caller merges
them. A task that is lost with its worker is repeated elsewhere, with the same lines.

    python parts.py dask FILE
    python parts.py ray FILE --part 268435456 --lose

--lose makes the worker that reads the middle of the file die once.
"""

import argparse
import os
import signal
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from xylem_blake3 import hash_part, merge_parts


def part(path: str, start: int, length: int, total: int, die_once: str | None) -> str:
    """Runs on a worker: the lines of `length` bytes of the file from `start` on."""
    if die_once is not None:
        try:
            os.close(os.open(die_once, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            pass
        else:
            os.kill(os.getpid(), signal.SIGKILL)
    data = bytearray(length)
    view = memoryview(data)
    with open(path, "rb", buffering=0) as file:
        at = 0
        while at < length:
            got = os.preadv(file.fileno(), [view[at:]], start + at)
            if got == 0:
                raise OSError(f"{path} became shorter while it was read")
            at += got
    return hash_part(data, start, total=total)


Task = tuple[str, int, int, int, str | None]


def tasks(path: str, total: int, size: int, die_once: str | None) -> Iterator[Task]:
    for start in range(0, max(total, 1), size):
        middle = start <= total // 2 < start + size
        yield path, start, min(size, total - start), total, die_once if middle else None


def with_dask(todo: Iterable[Task], workers: int) -> list[str]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=None) as cluster,
        Client(cluster) as client,
    ):
        # pure=False: two ranges of one file are two tasks, even with equal results.
        return client.gather([client.submit(part, *task, pure=False) for task in todo])


def with_ray(todo: Iterable[Task], workers: int) -> list[str]:
    import ray

    ray.init(num_cpus=workers, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    try:
        remote = ray.remote(num_cpus=1, max_retries=3)(part)
        return ray.get([remote.remote(*task) for task in todo])
    finally:
        ray.shutdown()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("engine", choices=["dask", "ray"])
    parser.add_argument("file", type=Path)
    parser.add_argument("--part", type=int, default=256 << 20, help="bytes of a task")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--lose", action="store_true", help="a worker dies in the middle")
    args = parser.parse_args()
    if args.part <= 0 or args.part % 1024:
        parser.error("--part is a multiple of 1024")
    file = args.file.resolve(strict=True)
    died = file.with_name(f".{file.name}.died-{os.getpid()}")
    try:
        todo = tasks(str(file), file.stat().st_size, args.part, str(died) if args.lose else None)
        run = with_dask if args.engine == "dask" else with_ray
        parts = run(todo, args.workers)
        if args.lose and not died.exists():
            print("no worker died", file=sys.stderr)
            return 1
    finally:
        died.unlink(missing_ok=True)
    print(f"{merge_parts(parts).hex()}  {args.file}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
