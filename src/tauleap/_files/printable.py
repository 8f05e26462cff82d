"""Text from files and file names, made safe to print: a terminal interprets control characters."""

from __future__ import annotations

import unicodedata

# Controls, formats such as marks that reverse the direction of writing, lone surrogates, and line separators.
_CATEGORIES = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str, *, lines: bool = False) -> str:
    r"""Return the text with control characters written as escapes.

    Args:
        text: Any text.
        lines: Leave line breaks and tabs as they are. Default: false, which escapes them too.

    Returns:
        A text that can be printed to a terminal.

    >>> print(printable("a\x1b[31mb\r\n"))
    a\x1b[31mb\r\n
    """
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        _escaped(mark) if unicodedata.category(mark) in _CATEGORIES and not (lines and mark in "\n\t") else mark
        for mark in text
    )


def one_line(text: str, *, most: int = 1000) -> str:
    r"""Return a text as one line without control characters.

    Args:
        text: any text.
        most: the largest number of characters; longer lines are cut off. Default: 1000.

    >>> one_line("size mismatch:\n\tweight")
    'size mismatch: weight'
    """
    line = printable(" ".join(text.split()))
    return line if len(line) <= most else f"{line[: most - 3]}..."


def _escaped(mark: str) -> str:
    return mark.encode("unicode_escape", "surrogatepass").decode("ascii")
