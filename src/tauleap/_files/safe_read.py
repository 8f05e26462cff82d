"""Read files of unknown origin safely: plain files inside their folder, of bounded size, and strict JSON.

Every file of a model folder, a checkpoint or a run is read here. A name in such a folder may be a FIFO or a device,
which would block or never end, or a link to any file of the machine; JSON may be nested more deeply than Python's
stack; and the libraries that decode files raise exceptions of many kinds. All of that becomes one sentence that names
the file and the remedy.
"""

from __future__ import annotations

import errno
import json
import math
import os
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

from tauleap._files.printable import one_line, printable
from tauleap._version import __version__

JSON_BYTES = 2**25
"""Size of the largest JSON file: a table of 1000 columns with 1000 categories each has about 20 MB."""
_JSON_DEPTH = 50
"""Nesting of lists and objects: a model of ours has about 8."""
MODEL_REMEDY = "get another copy of the model, or train it again"
_FILE_REMEDY = "get another copy of it"
_PLAIN_REMEDY = "put a copy of the file there"
_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC


class FileError(ValueError):
    """Report a file that cannot be used; the message names the file, the problem and the remedy.

    Args:
        path: The file, or its name in messages.
        problem: The rest of a sentence that begins with the file; a text of a library is cut off after 1000 characters.
        remedy: What the user can do.
    """

    def __init__(self, path: Path | str, problem: str, remedy: str) -> None:
        self.path, self.problem, self.remedy = path, one_line(problem), remedy
        super().__init__(f"{printable(str(path))} {self.problem}: {remedy}")


class UnreadableError(FileError):
    """Report a file that is damaged, not a plain file, outside its folder, or larger than it may be."""


class OtherFormatError(FileError):
    """Report a file that another version of tauleap wrote.

    Args:
        path: The file.
        found: The format in the file.
        known: The format that this version reads.
    """

    def __init__(self, path: Path | str, found: object, known: int) -> None:
        problem = f"has format {found!r}, this version of tauleap ({__version__}) reads {known}"
        super().__init__(path, problem, "install the version of tauleap that wrote it")


class SystemRefusalError(OSError):
    """Report an OSError that named no file: its message now names the file and the remedy."""


def is_out_of_memory(error: BaseException) -> bool:
    """Return whether an error means that there was not enough memory.

    Args:
        error: any exception; torch raises a RuntimeError on a CPU.

    >>> is_out_of_memory(MemoryError()), is_out_of_memory(RuntimeError("can't allocate memory"))
    (True, True)
    """
    return isinstance(error, MemoryError) or any(
        phrase in str(error) for phrase in ("allocate memory", "out of memory")
    )


def read_bytes(path: Path, *, inside: Path | None = None, most: int | None = None) -> bytes:
    """Return the bytes of a plain file.

    Args:
        path: The file. Links are followed.
        inside: The folder that must hold the file after links are followed. Default: any.
        most: The largest size in bytes. Default: any.

    Raises:
        OSError: The file does not exist or cannot be opened.
        UnreadableError: It is not a plain file, not inside the folder, or too large.
    """
    with open_plain(path, inside=inside, most=most) as file:
        size = os.fstat(file.fileno()).st_size
        # Some files of the kernel declare no size and never end.
        return file.read(size)


@contextmanager
def open_plain(path: Path, *, inside: Path | None = None, most: int | None = None) -> Iterator[IO[bytes]]:
    """Open a plain file for reading.

    Args:
        path: The file. Links are followed.
        inside: The folder that must hold the file after links are followed. Default: any.
        most: The largest size in bytes. Default: any.

    Raises:
        OSError: The file does not exist or cannot be opened.
        UnreadableError: It is not a plain file, not inside the folder, or too large.
    """
    real = os.path.realpath(path, strict=True)
    if inside is not None and not any(Path(real).is_relative_to(root) for root in _roots(inside)):
        problem = f"is a link to {real}, outside {inside}"
        raise UnreadableError(path, problem, f"{_PLAIN_REMEDY} instead of the link")
    _check_plain(os.lstat(real), path, most)
    with os.fdopen(os.open(real, _FLAGS), "rb") as file:
        _check_plain(os.fstat(file.fileno()), path, most)
        yield file


def _roots(folder: Path) -> list[Path]:
    """Return the folders in which links of ``folder`` may end."""
    root = Path(os.path.realpath(folder))
    # The cache of the Hugging Face hub has models--owner--name/snapshots/commit/ with links to ../../blobs/checksum.
    return [root, root.parent.parent / "blobs"] if root.parent.name == "snapshots" else [root]


def _check_plain(status: os.stat_result, path: Path, most: int | None) -> None:
    if not stat.S_ISREG(status.st_mode):
        kinds = {stat.S_IFDIR: "a folder", stat.S_IFIFO: "a FIFO", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(status.st_mode), "a device")
        raise UnreadableError(path, f"is {kind}, it must be a plain file", _PLAIN_REMEDY)
    if most is not None and status.st_size > most:
        raise UnreadableError(path, f"has {status.st_size:,} bytes, it must have at most {most:,}", _FILE_REMEDY)


def read_json(path: Path, *, inside: Path | None = None) -> Any:
    """Return the content of a JSON file.

    Args:
        path: The file. Links are followed.
        inside: The folder that must hold the file after links are followed. Default: any.

    Raises:
        OSError: The file does not exist or cannot be opened.
        UnreadableError: See :func:`read_bytes` and :func:`parse_json`.
    """
    return parse_json(read_bytes(path, inside=inside, most=JSON_BYTES), str(path))


def parse_json(text: bytes, where: str) -> Any:
    """Return the content of a JSON text, read strictly.

    Args:
        text: The bytes of the file.
        where: The name of the file in messages.

    Raises:
        UnreadableError: It is not JSON, is nested more than 50 deep, repeats a name in an object, or holds a number
            that is not finite or has more than 64 bits.

    >>> parse_json(b'{"a": 1, "a": 2}', "x.json")
    Traceback (most recent call last):
        ...
    tauleap._files.safe_read.UnreadableError: x.json is damaged: it is not JSON (the name 'a' occurs twice): get ...
    """
    try:
        found = json.loads(
            text,
            object_pairs_hook=_object,
            parse_constant=_refuse_constant,
            parse_int=_integer,
            parse_float=_finite,
        )
    except RecursionError:
        raise _nested(where) from None
    except ValueError as error:
        reason = one_line(str(error), most=200)
        raise UnreadableError(where, f"is damaged: it is not JSON ({reason})", _FILE_REMEDY) from error
    level, depth = [found], 0
    while level := [inner for node in level for inner in _inner(node)]:
        depth += 1
        if depth > _JSON_DEPTH:
            raise _nested(where)
    return found


def _nested(where: str) -> UnreadableError:
    problem = f"is damaged: its lists and objects are nested more than {_JSON_DEPTH} deep"
    return UnreadableError(where, problem, _FILE_REMEDY)


def _inner(node: Any) -> list[Any]:
    values = node.values() if isinstance(node, dict) else node if isinstance(node, list) else ()
    return [value for value in values if isinstance(value, dict | list)]


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"the name {next(name for name in names if names.count(name) > 1)!r} occurs twice")
    return found


def _refuse_constant(word: str) -> Any:
    raise ValueError(f"{word} is not valid in JSON")


def _integer(digits: str) -> int:
    if len(digits) > 20 or not -(2**63) <= (value := int(digits)) < 2**64:
        raise ValueError(f"a whole number of {len(digits)} digits does not fit into 64 bits")
    return value


def _finite(digits: str) -> float:
    value = float(digits)
    if not math.isfinite(value):
        raise ValueError(f"the number {digits} is not finite")
    return value


@contextmanager
def explaining(path: Path, remedy: str, *, describe: Callable[[Exception], str] = str) -> Iterator[None]:
    """Turn every exception of the block into one sentence that names the file and the remedy.

    Args:
        path: The file or folder that is read.
        remedy: What to do about a file that is damaged.
        describe: Returns the words for an exception of a library. Default: its message.

    Raises:
        OSError: The system refused, or there is not enough memory.
        FileError: Everything else; the exception is its cause. A FileError of the block passes as it is.
    """
    try:
        yield
    except (FileError, SystemRefusalError):
        raise
    except OSError as error:
        if error.filename is not None:
            raise
        reason = one_line(error.strerror or str(error))
        raise SystemRefusalError(error.errno, f"{printable(str(path))}: {reason}: {remedy}") from error
    except Exception as error:
        if is_out_of_memory(error):
            message = f"not enough memory to read {printable(str(path))}"
            raise SystemRefusalError(errno.ENOMEM, message) from error
        if isinstance(error, ValueError | TypeError):
            raise UnreadableError(path, f"cannot be read: {error}", remedy) from error
        problem = f"cannot be read ({type(error).__name__}: {describe(error)})"
        raise UnreadableError(path, problem, remedy) from error
