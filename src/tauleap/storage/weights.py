"""The file of a model's weights: its header is checked against its size before anything else is read.

A safetensors file begins with the length of its header in eight bytes, then has the header, JSON with a dtype, a shape
and a place for every tensor, and then the numbers.
"""

from __future__ import annotations

import hashlib
import math
import os
from pathlib import Path
from typing import Any, NamedTuple

import safetensors.torch
import torch
from torch import Tensor

from tauleap._files import safe_read

_DTYPES = {
    "BOOL": torch.bool,
    "U8": torch.uint8,
    "I8": torch.int8,
    "I16": torch.int16,
    "I32": torch.int32,
    "I64": torch.int64,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "F32": torch.float32,
    "F64": torch.float64,
}
_METADATA = "__metadata__"


class Declared(NamedTuple):
    """Hold the dtype and shape of one tensor, as the header declares them."""

    dtype: torch.dtype
    shape: tuple[int, ...]


def read_header(path: Path, *, inside: Path) -> dict[str, Declared]:
    """Return the dtype and shape of every tensor, after their sizes were compared with that of the file.

    Args:
        path: The safetensors file.
        inside: The folder that must hold it after links are followed.
    """
    with safe_read.open_plain(path, inside=inside) as file:
        size = os.fstat(file.fileno()).st_size
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or length > min(size - 8, safe_read.JSON_BYTES):
            raise _damaged(path, f"its header declares {length:,} bytes, but the file has {size:,}")
        header = safe_read.parse_json(file.read(length), f"the header of {path}")
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not a mapping of names to tensors")
    declared, end = {}, 0
    for name, entry in header.items():
        if name == _METADATA:
            continue
        declared[name], bytes_ = _declared(entry, name, path)
        end += bytes_
    if 8 + length + end != size:
        raise _damaged(path, f"its tensors need {8 + length + end:,} bytes, but the file has {size:,}")
    return declared


def read_weights(path: Path, *, inside: Path, sha256: object) -> dict[str, Tensor]:
    """Return the tensors of a file whose header was checked.

    Args:
        path: The file.
        inside: The folder that must hold the file after links are followed.
        sha256: The checksum that the file must have.
    """
    content = safe_read.read_bytes(path, inside=inside)
    if hashlib.sha256(content).hexdigest() != sha256:
        problem = "is damaged, or belongs to another config.json: its checksum differs"
        raise safe_read.UnreadableError(path, problem, safe_read.MODEL_REMEDY)
    return load_bytes(content, path)


def load_bytes(content: bytes, path: Path) -> dict[str, Tensor]:
    """Return the tensors in the bytes of a safetensors file.

    Args:
        content: The bytes.
        path: The file, for messages.
    """
    with safe_read.explaining(path, safe_read.MODEL_REMEDY):
        return safetensors.torch.load(content)


def _declared(entry: Any, name: str, path: Path) -> tuple[Declared, int]:
    try:
        dtype, shape, (begin, end) = _DTYPES[entry["dtype"]], entry["shape"], entry["data_offsets"]
        sides = tuple(_side(side) for side in shape)
        bytes_ = math.prod(sides) * dtype.itemsize
        fits = _side(end) - _side(begin) == bytes_
    except (KeyError, TypeError, ValueError) as error:
        raise _damaged(path, f"its header has no valid dtype, shape and data_offsets of {name!r}") from error
    if not fits:
        raise _damaged(path, f"the shape and the data_offsets of {name!r} have different sizes")
    return Declared(dtype, sides), bytes_


def _side(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**63:
        raise ValueError(f"{value!r} is not a size")
    return value


def _damaged(path: Path, why: str) -> safe_read.UnreadableError:
    return safe_read.UnreadableError(path, f"is damaged: {why}", safe_read.MODEL_REMEDY)
