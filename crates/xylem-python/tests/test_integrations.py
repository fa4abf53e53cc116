"""Tries libraries that read through fsspec on tickets, and counts the bytes that travel for a part of a large file.

`run --integrations` installs the versions of requirements.txt and runs this. PyTorch is not among them: it is large.
"""

import json
import multiprocessing
import select
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import fsspec  # type: ignore[import-untyped]
import numpy
import pytest
from conftest import World, noise
from xylem.fsspec import XylemFileSystem, url


def library(name: str) -> Any:
    """Return the module, or skip the test."""
    return pytest.importorskip(name, reason=f"SKIPPED: tickets by {name}, which is not installed")


class Wire:
    """Forwards the datagrams between readers and one sharer, and counts the bytes that readers receive."""

    def __init__(self, sharer: str) -> None:
        host, _, port = sharer.rpartition(":")
        self._sharer = (host, int(port))
        self._front = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._front.bind(("127.0.0.1", 0))
        self._behind: dict[Any, socket.socket] = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._forward)
        self._thread.start()
        self.received = 0

    @property
    def address(self) -> str:
        """Where readers reach the sharer."""
        return f"127.0.0.1:{self._front.getsockname()[1]}"

    def _forward(self) -> None:
        readers: dict[socket.socket, Any] = {}
        while not self._ended.is_set():
            for ready in select.select([self._front, *readers], [], [], 0.05)[0]:
                data, reader = ready.recvfrom(65_536)
                if ready is not self._front:
                    self.received += len(data)
                    self._front.sendto(data, readers[ready])
                    continue
                if reader not in self._behind:
                    self._behind[reader] = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
                    self._behind[reader].connect(self._sharer)
                    readers[self._behind[reader]] = reader
                self._behind[reader].send(data)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()
        for each in (self._front, *self._behind.values()):
            each.close()


@pytest.fixture
def counted(world: World) -> Iterator[Callable[[Path], tuple[str, dict[str, Any], Wire]]]:
    """Share a path; return its ticket, storage options that fetch over a counted wire, and that."""
    wires: list[Wire] = []

    def share(path: Path) -> tuple[str, dict[str, Any], Wire]:
        shared = world.share(path)
        wires.append(Wire(shared.listen[0]))
        options = {"store": str(world.store), "peers": [wires[-1].address]}
        return shared.ticket, options, wires[-1]

    yield share
    XylemFileSystem.clear_instance_cache()
    for wire in wires:
        wire.close()


@pytest.fixture
def here(world: World) -> dict[str, Any]:
    """The storage options of these tests."""
    return {"store": str(world.store)}


def tables(at: Path, count: int = 3) -> Path:
    """Make a directory of CSV and Parquet files with 1,000 rows each."""
    pandas = library("pandas")
    library("pyarrow")
    for kind in ("csv", "parquet"):
        (at / "tables" / kind).mkdir(parents=True)
    for number in range(count):
        rows = numpy.arange(1_000) + 1_000 * number
        frame = pandas.DataFrame({"n": rows, "half": rows / 2, "name": [f"row {n}" for n in rows]})
        frame.to_csv(at / "tables" / "csv" / f"{number}.csv", index=False)
        frame.to_parquet(at / "tables" / "parquet" / f"{number}.parquet")
    return at / "tables"


TOTAL = 3_000 * 2_999 // 2
"""Sum of column `n` of all tables."""


def test_pandas(world: World, here: dict[str, Any]) -> None:
    pandas = library("pandas")
    ticket = world.share(tables(world.at)).ticket
    csv = pandas.read_csv(url(ticket, "csv/1.csv"), storage_options=here)
    parquet = pandas.read_parquet(url(ticket, "parquet/1.parquet"), storage_options=here)
    assert csv.equals(parquet) and csv["n"].sum() == sum(range(1_000, 2_000))
    whole = pandas.read_parquet(url(ticket, "parquet"), columns=["n"], storage_options=here)
    assert whole["n"].sum() == TOTAL
    with pytest.raises(OSError, match=r"xylem\.share"):
        csv.to_csv(url(ticket, "csv/new.csv"), storage_options=here)


def test_pyarrow_datasets(world: World, here: dict[str, Any]) -> None:
    dataset = library("pyarrow.dataset")
    ticket = world.share(tables(world.at)).ticket
    for kind in ("csv", "parquet"):
        fs, where = fsspec.url_to_fs(url(ticket, kind), **here)
        found = dataset.dataset(where, filesystem=fs, format=kind)
        assert len(found.files) == 3 and found.count_rows() == 3_000
        few = found.to_table(columns=["name"], filter=dataset.field("n") > 2_990)
        assert few["name"].to_pylist() == [f"row {n}" for n in range(2_991, 3_000)]


def test_duckdb(world: World, here: dict[str, Any]) -> None:
    duckdb = library("duckdb")
    ticket = world.share(tables(world.at)).ticket
    with duckdb.connect() as database:
        database.register_filesystem(fsspec.filesystem("xylem", **here))
        for kind in ("csv", "parquet"):
            where = url(ticket, f"{kind}/*.{kind}")
            query = f"SELECT sum(n), count(*) FROM read_{kind}('{where}')"
            assert database.sql(query).fetchall() == [(TOTAL, 3_000)]


def test_polars(world: World, here: dict[str, Any]) -> None:
    polars = library("polars")
    ticket = world.share(tables(world.at)).ticket
    # Polars reads URLs of few kinds by itself, and files of fsspec.
    with fsspec.open(url(ticket, "csv/2.csv"), **here) as file:
        csv = polars.read_csv(file)
    with fsspec.open(url(ticket, "parquet/2.parquet"), **here) as file:
        parquet = polars.read_parquet(file, columns=["n", "half"])
    assert csv.select("n", "half").equals(parquet) and csv.height == 1_000
    fs, where = fsspec.url_to_fs(url(ticket, "parquet"), **here)
    dataset = library("pyarrow.dataset").dataset(where, filesystem=fs)
    lazy = polars.scan_pyarrow_dataset(dataset).filter(polars.col("n") < 10).select("n")
    assert lazy.collect()["n"].sum() == 45


def test_dask_over_two_workers(world: World, here: dict[str, Any]) -> None:
    frames = library("dask.dataframe")
    distributed = library("distributed")
    ticket = world.share(tables(world.at)).ticket
    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, dashboard_address=None, local_directory=str(world.at)
    )
    with cluster, distributed.Client(cluster) as client:
        assert len(client.scheduler_info()["workers"]) == 2
        csv = frames.read_csv(url(ticket, "csv/*.csv"), storage_options=here)
        parquet = frames.read_parquet(url(ticket, "parquet"), storage_options=here)
        for frame in (csv, parquet):
            assert frame.npartitions == 3 and frame["n"].sum().compute() == TOTAL


def test_zarr_and_xarray(
    world: World, counted: Callable[[Path], tuple[str, dict[str, Any], Wire]]
) -> None:
    zarr, xarray = library("zarr"), library("xarray")
    field = numpy.random.default_rng(31).random((64, 128, 128))
    cube = xarray.Dataset({"t": (("time", "y", "x"), field)}, {"time": numpy.arange(64)})
    cube.to_zarr(world.at / "cube.zarr", encoding={"t": {"chunks": (1, 128, 128)}})
    ticket, options, wire = counted(world.at / "cube.zarr")
    opened = xarray.open_zarr(url(ticket), storage_options=options)
    assert (opened["t"].sel(time=7).values == field[7]).all()
    # 8 MB of values; one chunk of 64 is wanted.
    assert wire.received < 1_000_000, wire.received
    array = zarr.open_group(url(ticket), mode="r", storage_options=options)["t"]
    assert (array[:] == field).all()
    with pytest.raises(Exception, match=r"read-only|read only|xylem\.share"):
        array[0, 0, 0] = 1


def test_one_column_of_parquet_is_fetched_alone(
    world: World, counted: Callable[[Path], tuple[str, dict[str, Any], Wire]]
) -> None:
    pandas = library("pandas")
    library("pyarrow")
    chance = numpy.random.default_rng(32)
    columns = {f"c{n}": chance.random(1_000_000) for n in range(10)}
    large = world.at / "large.parquet"
    pandas.DataFrame(columns).to_parquet(large, compression=None, row_group_size=100_000)
    ticket, options, wire = counted(large)
    one = pandas.read_parquet(url(ticket), columns=["c3"], storage_options=options)
    assert (one["c3"] == columns["c3"]).all()
    size, received = large.stat().st_size, wire.received
    print(f"Parquet: file {size:,} bytes, column c3 8,000,000, received {received:,}")
    assert size > 80_000_000 and 8_000_000 < received < 16_000_000, received
    # It is in the store now.
    again = pandas.read_parquet(url(ticket), columns=["c3"], storage_options=options)
    assert again.equals(one) and wire.received - received < 100_000


def tensors(at: Path) -> tuple[Path, dict[str, Any]]:
    """Make a model of 16 tensors with 4 MiB each."""
    chance = numpy.random.default_rng(33)
    layers = {f"layer.{n}": chance.random((1024, 1024), numpy.float32) for n in range(16)}
    library("safetensors.numpy").save_file(layers, at / "model.safetensors")
    return at / "model.safetensors", layers


def lazy_tensor(file: Any, name: str) -> Any:
    """Read one tensor of a safetensors file, and nothing else but the header."""
    length = int.from_bytes(file.read(8), "little")
    entry = json.loads(file.read(length))[name]
    start, end = entry["data_offsets"]
    file.seek(8 + length + start)
    return numpy.frombuffer(file.read(end - start), "<f4").reshape(entry["shape"])


def test_one_tensor_is_fetched_alone(
    world: World, counted: Callable[[Path], tuple[str, dict[str, Any], Wire]]
) -> None:
    model, layers = tensors(world.at)
    ticket, options, wire = counted(model)
    with fsspec.open(url(ticket), **options) as file:
        assert (lazy_tensor(file, "layer.11") == layers["layer.11"]).all()
    size, received = model.stat().st_size, wire.received
    print(f"safetensors: file {size:,} bytes, tensor 4,194,304, received {received:,}")
    assert size > 67_000_000 and 4_194_304 < received < 8_000_000, received
    # The library's own functions take the bytes of a whole file, or a name on disk (`xylem mount`).
    loaded = library("safetensors.numpy").load(fsspec.filesystem("xylem", **options).cat(url(ticket)))
    assert loaded.keys() == layers.keys() and (loaded["layer.0"] == layers["layer.0"]).all()


def readme() -> list[str]:
    """Return the programs of the README's section on URLs, in order."""
    text = (Path(__file__).parents[1] / "README.md").read_text()
    section = text.split("\n## By URL")[1].split("\n## ")[0]
    return [block.split("```")[0] for block in section.split("```python\n")[1:]]


def test_the_programs_of_the_readme_work(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    pandas = library("pandas")
    library("pyarrow")
    model, layers = tensors(world.at)
    folder = world.at / "folder"
    (folder / "2026").mkdir(parents=True)
    model.rename(folder / "model.safetensors")
    frame = pandas.DataFrame({"t": [1.5, 2.5], "u": [3, 4]})
    frame.to_csv(folder / "2026" / "stations.csv", index=False)
    frame.to_parquet(folder / "2026" / "field.parquet")
    monkeypatch.setenv("XYLEM_STORE", str(world.store))
    names: dict[str, Any] = {"ticket": world.share(folder).ticket}
    with_pandas, with_safetensors = readme()
    exec(with_pandas, names)
    assert names["small"].equals(frame) and names["column"].equals(frame[["t"]])
    exec(with_safetensors, names)
    assert (names["tensor"] == layers["layer.11"]).all()


class Items:
    """A data set as PyTorch takes it: item N of a file of 4,096 bytes each."""

    def __init__(self, where: str, options: dict[str, Any], count: int) -> None:
        self.where, self.options, self.count = where, options, count
        self.fs = fsspec.filesystem("xylem", **options)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, number: int) -> Any:
        if not 0 <= number < self.count:
            raise IndexError(number)
        item = self.fs.cat_file(self.where, number * 4_096, (number + 1) * 4_096)
        return numpy.frombuffer(item, numpy.uint8).copy()


def test_spawned_workers_read_items(world: World, here: dict[str, Any]) -> None:
    content = noise(4_096 * 64, 34)
    items = Items(url(world.share(world.file("items", content)).ticket), here, 64)
    assert items[0].tobytes() == content[:4_096]
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        read = pool.map_async(items.__getitem__, range(64)).get(120)
    assert b"".join(item.tobytes() for item in read) == content


def test_pytorch_data_loader_with_spawned_workers(world: World, here: dict[str, Any]) -> None:
    data = library("torch.utils.data")
    content = noise(4_096 * 64, 35)
    items = Items(url(world.share(world.file("items", content)).ticket), here, 64)
    loader = data.DataLoader(
        items, batch_size=8, num_workers=2, multiprocessing_context="spawn", timeout=120
    )
    read = b"".join(batch.numpy().tobytes() for batch in loader)
    assert read == content
