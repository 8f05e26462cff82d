"""Mutations of files: bytes, numbers in text, nodes of JSON, and the kind of a file."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

_NUMBERS = (b"0", b"-1", b"1e308", b"9223372036854775808", b"NaN", b"1e400", b"-0", b"00", b"4294967296", b"9" * 5000)
_TEXTS = (b"\xff\xfe", b"\xc3\x28", b"\x00", b"\x1b[31m", b"\x07\r\n", b"\xed\xa0\x80", b'"', b",", b"\n", b"{" * 50)
NODES: tuple[Any, ...] = (
    *(0, -1, 1, 2, 7, 1000, 10**9, 2**31, 2**63, 2**64, 10**30, 10**400, 1.5, -0.5, 1e-308, 1e308, float("nan")),
    *(float("inf"), None, True, False, "", "a", "\x1b]0;x\x07\r", "\ud800", "../../x", [], {}, [[]], [1] * 1000),
    *(
        [-1],
        [10**9, 10**9],
        [2**62, 4],
        {"tensor": "process.law"},
        {"class": "Uniform"},
        {"class": []},
        {"a": {"b": 1}},
    ),
)
_SPARSE = 8 * 2**30


def mutate_bytes(rng: random.Random, content: bytes, other: bytes = b"") -> bytes:
    """Apply one to three random changes to the bytes."""
    for _ in range(rng.choice((1, 1, 1, 2, 3))):
        content = rng.choice(_BYTES)(rng, content, other)
    return content


def _flip(rng: random.Random, content: bytes, _: bytes) -> bytes:
    out = bytearray(content)
    for _ in range(rng.choice((1, 1, 4, 32))):
        if out:
            # Headers are short and decide most: half of the changes fall into the first bytes.
            at = rng.randrange(len(out)) if rng.random() < 0.5 else rng.randrange(min(len(out), 256))
            out[at] ^= 1 << rng.randrange(8)
    return bytes(out)


def _truncate(rng: random.Random, content: bytes, _: bytes) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _chunk(rng: random.Random, content: bytes) -> tuple[int, int]:
    begin = rng.randrange(len(content) + 1)
    return begin, min(len(content), begin + rng.choice((1, 4, 16, 512, 4096)))


def _delete(rng: random.Random, content: bytes, _: bytes) -> bytes:
    begin, end = _chunk(rng, content)
    return content[:begin] + content[end:]


def _duplicate(rng: random.Random, content: bytes, _: bytes) -> bytes:
    begin, end = _chunk(rng, content)
    return content[:end] + content[begin:end] * rng.choice((1, 2, 50)) + content[end:]


def _insert(rng: random.Random, content: bytes, other: bytes) -> bytes:
    at = rng.randrange(len(content) + 1)
    piece = rng.choice((*_TEXTS, rng.randbytes(rng.choice((1, 8, 64))), other[:100]))
    return content[:at] + piece + content[at:]


def _large_size(rng: random.Random, content: bytes, _: bytes) -> bytes:
    """Write the largest numbers of two, four and eight bytes somewhere, as a size that a header declares."""
    value = rng.choice((2**16 - 1, 2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1, 2**64 - 1, 0))
    width = rng.choice([n for n in (2, 4, 8) if value < 256**n])
    at = rng.randrange(min(max(len(content) - width, 1), rng.choice((64, 1024, len(content) + 1))))
    return content[:at] + value.to_bytes(width, rng.choice(("little", "big"))) + content[at + width :]


def _number(rng: random.Random, content: bytes, _: bytes) -> bytes:
    found = list(re.finditer(rb"-?\d+(\.\d+)?", content[:100_000]))
    if not found:
        return content
    where = rng.choice(found)
    return content[: where.start()] + rng.choice(_NUMBERS) + content[where.end() :]


def _other(rng: random.Random, content: bytes, other: bytes) -> bytes:
    return rng.choice((other, b"", b"\n", b"[" * 10**5, rng.randbytes(1000), content + other))


_BYTES: tuple[Callable[[random.Random, bytes, bytes], bytes], ...] = (
    *(_flip, _flip, _truncate, _delete, _duplicate, _insert, _large_size, _large_size, _number, _number, _other),
)


def mutate_json(rng: random.Random, text: bytes) -> bytes:
    """Replace, remove or repeat one node of a JSON document."""
    document = json.loads(text)
    places: list[tuple[Any, Any]] = []
    waiting = [document]
    while waiting:
        node = waiting.pop()
        keys = list(node) if isinstance(node, dict) else list(range(len(node))) if isinstance(node, list) else []
        places += [(node, key) for key in keys]
        waiting += [node[key] for key in keys]
    if not places:
        return b"null"
    node, key = rng.choice(places)
    way = rng.random()
    if way < 0.1:
        del node[key]
    elif way < 0.2 and isinstance(node, dict):
        node[rng.choice(("\x1b[2J", "extra", "class", "tensor", "\ud800", "__init__"))] = node[key]
    elif way < 0.4 and isinstance(node[key], int | float) and not isinstance(node[key], bool):
        node[key] = _another_digit(rng, node[key])
    else:
        node[key] = rng.choice(NODES)
    nested = rng.random() < 0.04
    if nested:
        node[key if key in (node if isinstance(node, dict) else ()) else 0 if node else key] = "NESTED"
    out = json.dumps(document).encode()
    if nested:
        depth = rng.choice((60, 900, 10**5))
        out = out.replace(b'"NESTED"', b"[" * depth + b"]" * depth)
    if rng.random() < 0.04:
        out = out.replace(b"{", b'{"format": 1, "format": 1, ', 1)
    return out


def _another_digit(rng: random.Random, value: float) -> float:
    digits = list(str(value))
    at = rng.choice([place for place, mark in enumerate(digits) if mark.isdigit()])
    digits[at] = rng.choice("0123456789")
    try:
        return type(value)("".join(digits))
    except ValueError:
        return value


def replace_name(rng: random.Random, path: Path, outside: Path) -> str:
    """Replace ``path`` by something that is not a plain file; ``outside`` is a good file elsewhere."""
    kind = rng.choice(
        (
            "missing",
            "folder",
            "fifo",
            "device",
            "outside",
            "loop",
            "dangling",
            "sparse",
            "empty",
            "full folder",
            "terminal",
        )
    )
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    if kind == "folder":
        path.mkdir()
    elif kind == "full folder":
        path.mkdir()
        (path / "x\x1b[31m.csv").write_bytes(b"a,b\n1,2\n")
    elif kind == "fifo":
        os.mkfifo(path)
    elif kind == "sparse":
        with path.open("wb") as file:
            file.truncate(_SPARSE)
    elif kind == "empty":
        path.touch()
    elif kind != "missing":
        target = {"device": "/dev/zero", "terminal": "/dev/tty", "outside": str(outside), "loop": path.name}
        path.symlink_to(target.get(kind, "nothing-here"))
    return kind
