"""What was left out and why, counted, with a few names for each reason."""

from __future__ import annotations

from collections import defaultdict

_NAMED = 3


class Skipped:
    """
    >>> skipped = Skipped()
    >>> for name in "abcd": skipped.add("too small", name)
    >>> skipped.lines()
    ['too small: 4 (a, b, c, ...)']
    >>> skipped.add("damaged", "e", "byte 12")
    >>> skipped.lines()[1]
    'damaged: 1 (e [byte 12])'
    """

    def __init__(self) -> None:
        self._names: dict[str, list[str]] = defaultdict(list)

    def add(self, reason: str, name: str, detail: str = "") -> None:
        """Count one that was left out.

        Args:
            reason: Why, in words that are the same for others.
            name: Its name.
            detail: What differs from one to the next, written beside its name.
        """
        self._names[reason].append(f"{name} [{detail}]" if detail else name)

    def lines(self) -> list[str]:
        """Return one line per reason, the most frequent first, at most ten."""
        order = sorted(self._names.items(), key=lambda item: -len(item[1]))
        lines = []
        for reason, names in order[:10]:
            few = list(dict.fromkeys(names))
            lines.append(f"{reason}: {len(names)} ({', '.join(few[:_NAMED])}{', ...' if len(few) > _NAMED else ''})")
        return [*lines, f"{len(order) - 10} more reasons"] if len(order) > 10 else lines
