"""Detect the encoding of a text file."""

from __future__ import annotations

import codecs
import re

from tauleap.data.table.columns.dialect import ENCODINGS
from tauleap.data.table.columns.raw import Problem, TableError

_SAMPLE = 2**16
_CHUNK = 2**20
_ALIASES = {"utf8": "utf-8", "utf16": "utf-16", "latin1": "latin-1", "iso-8859-1": "latin-1", "windows-1252": "cp1252"}
_MAGIC = {
    b"PAR1": ("a parquet file", "give it the ending .parquet"),
    b"PK\x03\x04": ("a spreadsheet or a ZIP archive", "save the table as CSV, or unpack it"),
    b"\x1f\x8b": ("compressed with gzip", "unpack it"),
    b"\xd0\xcf\x11\xe0": ("an Excel file", "save the table as CSV"),
}
_OTHER_TEXT = (
    (
        re.compile(rb'(\xef\xbb\xbf)?\s*(\[\s*)?\{\s*"'),
        "JSON",
        "save the table as CSV, such as with pandas",
    ),
    (re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|html|\?xml)", re.IGNORECASE), "HTML or XML", "save the table as CSV"),
)


def detect_encoding(content: bytes, name: str, given: str | None = None) -> tuple[str, list[Problem]]:
    """Return the encoding of a file.

    A byte-order mark decides; then UTF-16 is recognised by its zero bytes, and UTF-8 because the whole file is valid.
    Everything else is read as Windows-1252, or as Latin-1 if it has bytes that Windows-1252 lacks.

    Args:
        content: The bytes of the file.
        name: The file in messages.
        given: The encoding that the user gave. Default: it is detected.

    Returns:
        The encoding by its Python name, and a problem if the file is not Unicode.

    Raises:
        TableError: The file is not text, or not in the given encoding.
        ValueError: The encoding is not known.

    >>> detect_encoding("Zoë".encode(), "a.csv"), detect_encoding("Zoë".encode("latin-1"), "a.csv")[0]
    (('utf-8', []), 'cp1252')
    """
    for magic, (what, remedy) in _MAGIC.items():
        if content.startswith(magic):
            raise TableError(name, [Problem(f"it is {what}, not delimited text", remedy)])
    for beginning, what, remedy in _OTHER_TEXT:
        if beginning.match(content):
            raise TableError(name, [Problem(f"it is {what}, not delimited text", remedy)])
    if given is not None:
        encoding = encoding_name(given)
        place = first_invalid(content, encoding)
        if place is not None:
            line = content.count(b"\n", 0, place) + 1
            problem = Problem(
                f"the byte {content[place]:#04x} is not {encoding}", "write another encoding, or none", line=line
            )
            raise TableError(name, [problem])
        return encoding, []
    encoding = _unicode(content)
    place = first_invalid(content, encoding)
    if place is None:
        return encoding, _check_text(content, encoding, name)
    line = content.count(b"\n", 0, place) + 1
    if encoding.startswith("utf-16"):
        problem = Problem("the bytes are not valid UTF-16, the file may be cut off", "save it again", line=line)
        raise TableError(name, [problem])
    encoding = "cp1252" if first_invalid(content, "cp1252") is None else "latin-1"
    _check_text(content, encoding, name)
    message = f"the byte {content[place]:#04x} is not UTF-8, so the file was read as {encoding}"
    return encoding, [Problem(message, "save the table as UTF-8 if letters are wrong", line=line)]


def encoding_name(given: str) -> str:
    """Return the Python name of an encoding that a user gave.

    Args:
        given: The name, such as ``"UTF8"``.

    Raises:
        ValueError: The encoding is not known.

    >>> encoding_name("ISO-8859-1")
    'latin-1'
    """
    plain = given.lower().replace("_", "-")
    encoding = _ALIASES.get(plain, plain)
    if encoding not in ENCODINGS:
        raise ValueError(f"encoding must be one of {', '.join(ENCODINGS)}, got {given!r}")
    return encoding


def first_invalid(content: bytes, encoding: str) -> int | None:
    """Return the position of the first byte that is not valid in an encoding, or None.

    Args:
        content: The bytes.
        encoding: The encoding.

    >>> first_invalid(b"ab\\xff", "utf-8")
    2
    """
    decoder = codecs.getincrementaldecoder(encoding)()
    # In parts, because the text of a large file needs four times its memory.
    for start in range(0, max(len(content), 1), _CHUNK):
        try:
            decoder.decode(content[start : start + _CHUNK], final=start + _CHUNK >= len(content))
        except UnicodeDecodeError as error:
            return min(start + error.start, len(content) - 1)
    return None


def _unicode(content: bytes) -> str:
    if content.startswith(codecs.BOM_UTF8):
        return "utf-8-sig"
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    sample = content[:_SAMPLE]
    half = max(len(sample) // 2, 1)
    if sample[1::2].count(0) > 0.3 * half and sample[::2].count(0) == 0:
        return "utf-16-le"
    return "utf-16-be" if sample[::2].count(0) > 0.3 * half and sample[1::2].count(0) == 0 else "utf-8"


def _check_text(content: bytes, encoding: str, name: str) -> list[Problem]:
    if not encoding.startswith("utf-16") and b"\0" in content:
        line = content.count(b"\n", 0, content.index(b"\0")) + 1
        raise TableError(name, [Problem("a zero byte: this is not a text file", "save the table as CSV", line=line)])
    return []
