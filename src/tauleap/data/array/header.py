"""The header of an array in numpy's format, read and checked before memory is taken for the array."""

from __future__ import annotations

import io
import math
import warnings
from dataclasses import dataclass
from tokenize import TokenError

import numpy as np

MAGIC = b"\x93NUMPY"
"""The first bytes of an ``.npy`` file."""
# What numpy's parser raises for a header that is none.
_BAD_HEADER = (ValueError, TypeError, SyntaxError, OverflowError, RecursionError, MemoryError, KeyError, TokenError)


@dataclass(frozen=True)
class Header:
    """The contents of a header, checked against the size of the file.

    Args:
        shape: of the array.
        dtype: a type of whole numbers.
        column_major: whether the first axis varies fastest.
        offset: where in the file the values begin.
        rest: bytes after the header that were read with it.
    """

    shape: tuple[int, ...]
    dtype: np.dtype
    column_major: bool
    offset: int
    rest: bytes


def parse_header(file: io.BufferedIOBase, size: int, where: str) -> Header:
    """Return the header of an open file.

    Args:
        file: at the beginning of the array.
        size: bytes of the file.
        where: its name in messages.

    Raises:
        ValueError: it is not a header, not of whole numbers, or of another number of bytes than there are.
    """
    # The header is at most 64 KiB, and it is parsed apart from the file, so that nothing else can be asked of it.
    head = file.read(min(size, 2**16 + 12))
    parse = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}
    stream = io.BytesIO(head)
    try:
        version = np.lib.format.read_magic(stream)
        if version not in parse:
            raise ValueError(f"its version {version} is not known")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # headers of old versions are no concern of the reader
            shape, column_major, dtype = parse[version](stream)
    except _BAD_HEADER as error:
        raise ValueError(f"{where} is not an array in numpy's format: {error}") from error
    if dtype.hasobject or dtype.kind not in "iub" or dtype.shape:
        raise ValueError(f"{where} must hold whole numbers, got {dtype}: save x.astype(numpy.int64) or categories")
    if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in shape):
        raise ValueError(f"{where} has a shape that is none: {shape}")
    offset = stream.tell()
    needed, there = math.prod(shape) * dtype.itemsize, size - offset
    if needed != there:
        raise ValueError(f"{where} is damaged: shape {shape} of {dtype} needs {needed:,} bytes, it has {there:,}")
    return Header(shape, dtype, column_major, offset, stream.read())
