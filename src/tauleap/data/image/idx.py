"""Arrays of bytes in idx files, the format of MNIST and similar datasets.

A file begins with two zero bytes, the type of the numbers (8 for bytes), the number of axes, and the length of each
axis as a big-endian 32-bit number. The numbers follow in C order. Only as many bytes are read as the header announces,
even if a compressed file would unpack to more.
"""

from __future__ import annotations

import gzip
import io
import math
import os
import struct
import zlib
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tauleap import _formats
from tauleap.data import limits

_TYPES = {0x08: "bytes", 0x09: "signed bytes", 0x0B: "int16", 0x0C: "int32", 0x0D: "float32", 0x0E: "float64"}
_MAX_AXES = 8
_MAX_RATIO = 1032  # the largest compression ratio of deflate
_BLOCK_BYTES = 2**20
_COPY = "get another copy of it"


def is_idx(path: Path) -> bool:
    """Return whether a file has the name of an idx file, such as ``train-images-idx3-ubyte.gz``.

    Args:
        path: The file.
    """
    return path.is_file() and _formats.IDX_NAME.search(path.name) is not None


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """Return the bytes of an idx file as a uint8 tensor with the shape in its header.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "labels-idx1-ubyte")
    ...     _ = path.write_bytes(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 2, 1]))
    ...     read_idx(path)
    tensor([7, 2, 1], dtype=torch.uint8)

    Args:
        path: The file, which may be compressed by gzip.

    Returns:
        uint8, in the shape that the header declares.

    Raises:
        ValueError: The file is damaged, too large, or not an idx file of bytes.
    """
    path = Path(path)
    size = limits.size(path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            shape = _read_header(file, path)
            expected, available = math.prod(shape), size - file.tell()
            if expected != available:
                raise ValueError(
                    f"{path} is damaged: shape {shape} needs {expected:,} bytes, it has {available:,}: {_COPY}"
                )
            return _read_values(file, shape, path)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                shape = _read_header(unpacked, path)
                if math.prod(shape) > _MAX_RATIO * size:
                    raise ValueError(
                        f"{path} is damaged: {size:,} compressed bytes cannot hold the shape {shape} in its header: "
                        f"{_COPY}"
                    )
                values = _read_values(unpacked, shape, path)
                if unpacked.read(1):  # This read also verifies the checksum of gzip.
                    raise ValueError(f"{path} is damaged: it has more bytes than the shape {shape} needs: {_COPY}")
                return values
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged ({error}): {_COPY}") from error


def _read_header(file: io.BufferedIOBase, path: Path) -> tuple[int, ...]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise ValueError(f"{path} is not an idx file: it must begin with two zero bytes, a type and a number of axes")
    kind, axes = head[2:]
    if kind != 0x08:
        type_name = _TYPES.get(kind)
        raise ValueError(
            f"{path} is not an idx file: its type {kind:#04x} is unknown"
            if type_name is None
            else f"{path} must hold bytes (type 0x08), got {type_name} (type {kind:#04x}): use numpy.save"
        )
    if not 1 <= axes <= _MAX_AXES:
        raise ValueError(f"{path} must have 1 to {_MAX_AXES} axes, got {axes}: use numpy.save")
    lengths = file.read(4 * axes)
    if len(lengths) < 4 * axes:
        raise ValueError(f"{path} is damaged: it ends inside the header: {_COPY}")
    shape = struct.unpack(f">{axes}I", lengths)
    if math.prod(shape) == 0:
        raise ValueError(f"{path} is empty: its shape is {shape}; give a file with one entry or more")
    if math.prod(shape) > limits.FILE_BYTES:
        raise ValueError(f"{path} has the shape {shape}, more than {limits.FILE_BYTES:,} bytes: save part of it")
    return shape


def _read_values(file: io.BufferedIOBase, shape: tuple[int, ...], path: Path) -> Tensor:
    values = np.empty(math.prod(shape), dtype=np.uint8)
    at = 0
    while at < len(values):
        block = file.read(min(_BLOCK_BYTES, len(values) - at))
        if not block:
            raise ValueError(
                f"{path} is damaged: it ends after {at:,} of the {len(values):,} bytes of shape {shape}: {_COPY}"
            )
        values[at : at + len(block)] = np.frombuffer(block, dtype=np.uint8)
        at += len(block)
    return torch.from_numpy(values.reshape(shape))
