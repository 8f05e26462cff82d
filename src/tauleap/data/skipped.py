"""Count files and rows that were left out, by reason."""

from __future__ import annotations

from collections import defaultdict

_MAX_NAMES, _MAX_REASONS = 3, 10


class Skipped:
    """Collect what was left out and why, with a few names for each reason.

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
        """Count one item that was left out.

        Args:
            reason: The reason, in the same words for all items that share it.
            name: The name of the item.
            detail: A detail of this item, shown after its name. Default: none.
        """
        self._names[reason].append(f"{name} [{detail}]" if detail else name)

    def lines(self) -> list[str]:
        """Return one line per reason, the most frequent first; after ten reasons the others are counted."""
        order = sorted(self._names.items(), key=lambda item: -len(item[1]))
        lines = []
        for reason, names in order[:_MAX_REASONS]:
            distinct = list(dict.fromkeys(names))
            more = ", ..." if len(distinct) > _MAX_NAMES else ""
            lines.append(f"{reason}: {len(names)} ({', '.join(distinct[:_MAX_NAMES])}{more})")
        rest = len(order) - _MAX_REASONS
        return [*lines, f"{rest} more reasons"] if rest > 0 else lines
