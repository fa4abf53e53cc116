"""Tests comparisons of tensors with tickets: in this machine's memory, and on a GPU where there is one."""

import json
import random
from collections.abc import Callable
from typing import Any

import numpy
import pytest
import xylem
from conftest import World, noise

BLOCK = 8_192


class OnGpu:
    """Something with the interface of arrays on a GPU, at an address."""

    def __init__(self, **interface: Any) -> None:
        usual = {"shape": (64,), "typestr": "<f4", "data": (1 << 40, False), "version": 3}
        self.__cuda_array_interface__ = {**usual, "stream": None, **interface}


def ranges(size: int) -> list[tuple[int, int]]:
    """Return ranges of a file: all of it, and whole blocks or parts of blocks at either end."""
    chance = random.Random(size)
    some = [(0, size), (0, 0), (size, size), (0, 1), (size - 1, size), (BLOCK, 3 * BLOCK)]
    some += [(0, BLOCK - 1), (BLOCK, size), (7, 9), (size // BLOCK * BLOCK, size)]
    return some + [tuple(sorted(chance.choices(range(size + 1), k=2))) for _ in range(6)]  # type: ignore[misc]


def test_what_is_right_is_right(world: World) -> None:
    content = noise(9_500_001, 1)
    share = world.share(world.file("source", content))
    for start, end in ranges(len(content)):
        part = content[start:end]
        found = xylem.verify_tensor(part, share.ticket, offset=start, store=world.store)
        assert (found.bytes, found.files, found.root) == (end - start, 1, share.root)
    floats = numpy.frombuffer(content[4:4_000_004], "<f4").reshape(1_000, 1_000)
    assert xylem.verify_tensor(floats, share.ticket, offset=4, store=world.store).bytes == 4_000_000
    big = floats.view(">f4")
    assert xylem.verify_tensor(big, share.ticket, offset=4, store=world.store).bytes == 4_000_000
    # All that was asked of the command: what ranges need. A whole file needs no peer.
    share.kill()
    whole = numpy.frombuffer(content, "u1")
    assert xylem.verify_tensor(whole, share.ticket, store=world.at / "new", timeout=1).files == 1
    with pytest.raises(xylem.UnreachableError, match="hash tree is not in the store"):
        xylem.verify_tensor(whole[1:], share.ticket, offset=1, store=world.at / "new", timeout=1)


def test_nobody_is_asked_for_what_was_shared_or_fetched_here(world: World) -> None:
    content = noise(9_500_001, 2)
    source = world.file("source", content)
    with xylem.share(source, store=world.store, listen=["127.0.0.1:0"]) as share:
        xylem.get(share.ticket, world.at / "copy", store=world.at / "getter")
    for store in world.store, world.at / "getter":
        for start, end in ranges(len(content)):
            part = content[start:end]
            assert xylem.verify_tensor(part, share.ticket, offset=start, store=store, timeout=1)
    # A file that has changed since then is not believed, and the tree in the store is still right.
    source.write_bytes(noise(9_500_001, 3))
    part = content[5:100_000]
    with pytest.raises(xylem.UnreachableError, match="block that the first or last bytes share"):
        xylem.verify_tensor(part, share.ticket, offset=5, store=world.store, timeout=1)
    part = content[BLOCK : 20 * BLOCK]
    xylem.verify_tensor(part, share.ticket, offset=BLOCK, store=world.store, timeout=1)


def damage_of(compare: Callable[[], object]) -> list[tuple[int, int]]:
    """Return the ranges that a comparison reports."""
    with pytest.raises(xylem.DamagedError, match="not what the ticket says") as error:
        compare()
    assert all(place.what == "does not match" for place in error.value.damage)
    return [(place.start, place.end) for place in error.value.damage]


def test_damage_is_located(world: World) -> None:
    content = noise(9_500_001, 4)
    share = world.share(world.file("source", content))
    start, end = 3 * BLOCK - 5, 9_000_007
    for at in start, start + 5, end - 1, 4 << 20, 5_000_000, 8_999_000:
        tensor = bytearray(content[start:end])
        tensor[at - start] ^= 1
        block = at // BLOCK * BLOCK
        for store in world.store, world.at / "publisher":
            found = damage_of(
                lambda: xylem.verify_tensor(tensor, share.ticket, offset=start, store=store)
            )
            assert found == [(max(block, start), min(block + BLOCK, end))]
    # Other bytes, another place, another ticket.
    part = content[BLOCK : 9 * BLOCK]
    elsewhere = damage_of(lambda: xylem.verify_tensor(part, share.ticket, store=world.store))
    assert elsewhere == [(0, 8 * BLOCK)]
    other = world.share(world.file("other", noise(100_000, 5)))
    assert damage_of(lambda: xylem.verify_tensor(part, other.ticket, store=world.store))


def test_a_file_of_a_directory(world: World) -> None:
    header = json.dumps({"w": {"dtype": "F32", "shape": [500, 700], "data_offsets": [0, 1_400_000]}})
    weights = noise(1_400_000, 6)
    file = len(header).to_bytes(8, "little") + header.encode() + weights
    world.file("models/a/model.safetensors", file)
    world.file("models/b", b"other")
    share = world.share(world.at / "models")
    tensor = numpy.frombuffer(weights, "<f4").reshape(500, 700)
    name, offset = "a/model.safetensors", 8 + len(header)
    found = xylem.verify_tensor(tensor, share.ticket, name, offset=offset, store=world.store)
    assert (found.bytes, found.root) == (1_400_000, share.root)
    changed = tensor.copy()
    changed.view("u1")[250, 350] ^= 1
    with pytest.raises(xylem.DamagedError, match="1 place is not") as error:
        xylem.verify_tensor(changed, share.ticket, name, offset=offset, store=world.store)
    assert error.value.damage[0].path.as_posix() == name
    with pytest.raises(xylem.UsageError, match="no such file"):
        xylem.verify_tensor(tensor, share.ticket, "a", store=world.store)
    with pytest.raises(xylem.UsageError, match="name the file"):
        xylem.verify_tensor(tensor, share.ticket, store=world.store)


def test_wrong_calls(world: World) -> None:
    content = noise(100_000, 7)
    share = world.share(world.file("source", content))
    matrix = numpy.frombuffer(content[:65_536], "<f4").reshape(128, 128)
    refused: list[object] = [matrix.T, matrix[:, ::2], memoryview(content)[::2]]
    refused += [OnGpu(shape=(4, 4), strides=(4, 16)), OnGpu(strides=(8,))]
    for strided in refused:
        with pytest.raises(xylem.UsageError, match="not contiguous"):
            xylem.verify_tensor(strided, share.ticket, store=world.store)
    with pytest.raises(xylem.UsageError, match="neither a buffer nor"):
        xylem.verify_tensor(7, share.ticket, store=world.store)
    with pytest.raises(xylem.UsageError, match="more than the file's 100000"):
        xylem.verify_tensor(content, share.ticket, offset=1, store=world.store)
    with pytest.raises(xylem.UsageError, match="no place in a file"):
        xylem.verify_tensor(content, share.ticket, offset=-1, store=world.store)
    with pytest.raises(xylem.UsageError, match="no such file"):
        xylem.verify_tensor(content, share.ticket, "path", store=world.store)
    with pytest.raises(xylem.UsageError, match="not a ticket"):
        xylem.verify_tensor(content, "ticket", store=world.store)
    # A place that no GPU has, with strides as some libraries give them.
    nowhere = OnGpu(shape=(2, 1, 4), strides=(16, 5, 4))
    with pytest.raises(xylem.GpuError) as error:
        xylem.verify_tensor(nowhere, share.ticket, store=world.store)
    assert isinstance(error.value, xylem.LocalError) and "\n" not in str(error.value)


def gpu() -> Any:
    """Return PyTorch if it finds a GPU."""
    torch = pytest.importorskip("torch", reason="tensors on a GPU (no torch)")
    if not torch.cuda.is_available():
        pytest.skip("tensors on a GPU (no GPU)")
    return torch


def test_tensors_on_a_gpu(world: World) -> None:
    torch = gpu()
    content = noise(40_000_003, 8)
    share = world.share(world.file("source", content))
    host = torch.frombuffer(bytearray(content), dtype=torch.uint8)
    assert xylem.verify_tensor(host, share.ticket, store=world.store).bytes == len(content)
    whole = host.cuda()
    for start, end in ranges(len(content)):
        # At the address of the same alignment, and at another one.
        for tensor in whole[start:end], host[start:end].cuda():
            found = xylem.verify_tensor(tensor, share.ticket, offset=start, store=world.store)
            assert found.bytes == end - start
    start, end = 3 * BLOCK - 5, 39_000_007
    for at in start, end - 1, 8 << 20, 5_000_000:
        whole[at] ^= 1
        block = at // BLOCK * BLOCK
        tensor = whole[start:end]
        places = damage_of(
            lambda: xylem.verify_tensor(tensor, share.ticket, offset=start, store=world.store)
        )
        assert places == [(max(block, start), min(block + BLOCK, end))]
        whole[at] ^= 1
    # Work on another stream is waited for.
    stream = torch.cuda.Stream()
    other = torch.zeros_like(whole)
    torch.cuda.synchronize()
    with torch.cuda.stream(stream):
        torch.cuda._sleep(200_000_000)  # cycles
        other.copy_(whole)
    assert xylem.verify_tensor(other, share.ticket, store=world.store).bytes == len(content)
    halves = whole[:39_999_488].view(torch.bfloat16).reshape(-1, 128)
    assert xylem.verify_tensor(halves, share.ticket, store=world.store).bytes == 39_999_488
    with pytest.raises(xylem.UsageError, match="not contiguous"):
        xylem.verify_tensor(halves.T, share.ticket, store=world.store)
