"""Arrays of bytes in idx files, the format of MNIST and of the sets that took it over.

A file begins with two bytes 0, the type of the numbers (8 for bytes), the number of axes, and the length of each axis
as four bytes, the highest first; then come the numbers, the last axis fastest. The header says how many they are: no
more are read, whatever a compressed file would unpack to.
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
_MOST_AXES = 8
_RATIO = 1032  # deflate makes at most this many bytes of one
_BLOCK = 2**20


def is_idx(path: Path) -> bool:
    """Return whether a file is named as an idx file, such as ``train-images-idx3-ubyte.gz``.

    Args:
        path: The file.
    """
    return path.is_file() and _formats.IDX_NAME.search(path.name) is not None


def read_idx(path: str | os.PathLike[str]) -> Tensor:
    """Return the bytes of an idx file as a uint8 tensor with the axes of its header.

    Args:
        path: The file, compressed by gzip or not.
    """
    path = Path(path)
    size = limits.size(path)
    with path.open("rb") as file:
        packed = file.read(2) == b"\x1f\x8b"
        file.seek(0)
        if not packed:
            sides = _header(file, path)
            wanted, there = math.prod(sides), size - file.tell()
            if wanted != there:
                raise ValueError(f"{path} is damaged: shape {sides} needs {wanted:,} bytes, it has {there:,}")
            return _numbers(file, sides, path)
        try:
            with gzip.GzipFile(fileobj=file) as unpacked:
                sides = _header(unpacked, path)
                if math.prod(sides) > _RATIO * size:
                    raise ValueError(
                        f"{path} is damaged: {size:,} bytes cannot hold the shape {sides} that its header says"
                    )
                out = _numbers(unpacked, sides, path)
                if unpacked.read(1):  # the last read, which also compares the checksum
                    raise ValueError(f"{path} is damaged: it has more than the shape {sides} needs")
                return out
        except (EOFError, zlib.error, gzip.BadGzipFile) as error:
            raise ValueError(f"{path} is damaged: {error}") from error


def _header(file: io.BufferedIOBase, path: Path) -> tuple[int, ...]:
    head = file.read(4)
    if len(head) < 4 or head[:2] != b"\0\0":
        raise ValueError(f"{path} is no idx file: it does not begin with two bytes 0, a type and a number of axes")
    kind, axes = head[2:]
    if kind != 0x08:
        held = _TYPES.get(kind)
        raise ValueError(
            f"{path} is no idx file: its type {kind:#04x} is not known"
            if held is None
            else f"{path} must hold bytes (type 0x08), got {held} (type {kind:#04x}): save them as an .npy of states"
        )
    if not 1 <= axes <= _MOST_AXES:
        raise ValueError(f"{path} must have 1 to {_MOST_AXES} axes, got {axes}")
    lengths = file.read(4 * axes)
    if len(lengths) < 4 * axes:
        raise ValueError(f"{path} is damaged: it ends in its header")
    sides = struct.unpack(f">{axes}I", lengths)
    if math.prod(sides) == 0:
        raise ValueError(f"{path} has nothing in it: its shape is {sides}")
    if math.prod(sides) > limits.FILE_BYTES:
        raise ValueError(f"{path} has the shape {sides}, more than {limits.FILE_BYTES:,} bytes: save a part of it")
    return sides


def _numbers(file: io.BufferedIOBase, sides: tuple[int, ...], path: Path) -> Tensor:
    out = np.empty(math.prod(sides), dtype=np.uint8)
    at = 0
    while at < len(out):
        block = file.read(min(_BLOCK, len(out) - at))
        if not block:
            raise ValueError(f"{path} is damaged: it ends after {at:,} of the {len(out):,} bytes of shape {sides}")
        out[at : at + len(block)] = np.frombuffer(block, dtype=np.uint8)
        at += len(block)
    return torch.from_numpy(out.reshape(sides))
