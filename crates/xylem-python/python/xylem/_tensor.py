"""Compares tensors with a ticket where they are: in this machine's memory or in a GPU's."""

import math
import operator
import os
import sys
from collections.abc import Iterable
from typing import Any, NamedTuple

from . import _native
from ._errors import UsageError, damaged
from ._how import the_store
from ._native import Verified


class _Bytes(NamedTuple):
    """The bytes of a tensor: a view of this machine's memory, or a GPU's address, their number, and whether queued work
    may still write them."""

    view: memoryview | None
    gpu: tuple[int, int, bool] | None


_NOT_CONTIGUOUS = "the tensor is not contiguous in memory, so its bytes are not those of a file"


def _in_torch(tensor: Any, torch: Any) -> _Bytes:
    if tensor.layout != torch.strided or not tensor.is_contiguous():
        raise UsageError(_NOT_CONTIGUOUS)
    if tensor.is_conj() or tensor.is_neg():
        raise UsageError("the tensor's values are computed from its bytes when it is read (conj, neg)")
    if tensor.device.type == "cuda":
        return _Bytes(None, (tensor.data_ptr(), tensor.numel() * tensor.element_size(), True))
    if tensor.device.type != "cpu":
        raise UsageError(f"the tensor is on {tensor.device}: only CUDA devices can hash it there")
    flat = tensor.detach().reshape(-1)
    # numpy has no bfloat16, and an empty tensor has no view of bytes.
    view = memoryview(flat.view(torch.uint8).numpy() if flat.numel() else b"")
    return _Bytes(view, None)


def _in_gpu(interface: dict[str, Any]) -> _Bytes:
    shape, size = tuple(interface["shape"]), int(interface["typestr"][2:])
    if interface.get("mask") is not None:
        raise UsageError("the tensor has a mask")
    expected = size
    strides = interface.get("strides")
    count = math.prod(shape)
    if strides is not None and count:
        for extent, stride in zip(reversed(shape), reversed(strides), strict=True):
            if extent > 1 and stride != expected:
                raise UsageError(_NOT_CONTIGUOUS)
            expected *= extent
    address = interface["data"][0] or 0
    # Without a stream, a producer promises that nothing is queued, but only if it knows of the entry (version 3).
    pending = interface.get("version", 0) < 3 or interface.get("stream") is not None
    return _Bytes(None, (address, count * size, pending))


def _bytes_of(tensor: Any) -> _Bytes:
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(tensor, torch.Tensor):
        return _in_torch(tensor, torch)
    interface = getattr(tensor, "__cuda_array_interface__", None)
    if interface is not None:
        return _in_gpu(interface)
    numpy = sys.modules.get("numpy")
    if numpy is not None and isinstance(tensor, numpy.ndarray):
        if not tensor.flags.c_contiguous:
            raise UsageError(_NOT_CONTIGUOUS)
        # Some types have no format that memoryview knows.
        tensor = tensor.reshape(-1).view("u1") if tensor.size else b""
    try:
        view = memoryview(tensor)
    except TypeError:
        kind = type(tensor).__name__
        what = f"{kind} is no tensor: it has neither a buffer nor __cuda_array_interface__"
        raise UsageError(what) from None
    if not view.c_contiguous:
        raise UsageError(_NOT_CONTIGUOUS)
    return _Bytes(view.cast("B") if view.nbytes else memoryview(b""), None)


def verify_tensor(
    tensor: Any,
    ticket: str,
    path: str | os.PathLike[str] | None = None,
    *,
    offset: int = 0,
    store: str | os.PathLike[str] | None = None,
    peers: Iterable[str] = (),
    timeout: float = 30.0,
) -> Verified:
    """Compare the bytes of a tensor with a ticket's file, or with the file at ``path`` of a directory.

    They are the file's bytes from ``offset`` on, as many as the tensor has. A tensor in the memory of an NVIDIA GPU
    (PyTorch, or anything with ``__cuda_array_interface__``, such as CuPy, Numba and JAX) is hashed there, and only hashes
    come back; of bytes that share a block of 8 KiB with others at either end of the range, a copy comes back too. Any
    other contiguous buffer is hashed by the processor, with the same result.

    The nodes of the file's tree come from the store, else from peers. For a range that does not begin and end with a
    block, the blocks at its ends are read from a file that was shared or fetched with this store, else from peers.

    Raise :class:`DamagedError`, whose ``damage`` lists ranges of the file, if they differ; :class:`GpuError` if the GPU
    can't be used. Nothing may write to the tensor meanwhile. Work that is queued on the GPU is waited for.
    """
    offset = operator.index(offset)
    if not 0 <= offset < 1 << 64:
        raise UsageError(f"offset={offset} is no place in a file")
    view, gpu = _bytes_of(tensor)
    found, damage = _native.verify_tensor(
        view, gpu, ticket, path, offset, the_store(store), list(peers), timeout
    )
    if damage:
        raise damaged("the tensor", damage)
    return found
