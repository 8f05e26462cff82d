"""Melodies cut into pieces of one length, those that pass the paper's filter (Appendix H.3)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tauleap.data import windows
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.music.melody import NUM_STATES, REST, STEPS_A_BAR, TOO_LONG, encoded, why_no_melody
from tauleap.data.music.midi import MidiFile
from tauleap.data.skipped import Skipped

_MOST_OF_ONE_PITCH = 50 / 256  # of the steps
NO_MELODY = "no track in which one note sounds at a time"


class Pieces:
    """Melodies cut into pieces, those that pass the filter; and what was left out, and why."""

    def __init__(self, steps: int) -> None:
        self.steps, self.skipped = steps, Skipped()
        self.seen = self.used = 0
        self._kept: dict[bytes, Tensor] = {}
        self._source: dict[bytes, Path] = {}
        self._joined: dict[Path, Path] = {}

    def leave_out(self, name: str, reason: str, detail: str = "") -> None:
        """Count a file or tune that cannot be read.

        Args:
            name: The file or tune.
            reason: Why, in words that are the same for others.
            detail: What differs from one file to the next.
        """
        self.seen += 1
        self.skipped.add(reason, name, detail)

    def take(self, read: MidiFile, name: str, source: Path | None = None) -> None:
        """Add the pieces of a file or tune, unless its bars are not those of four quarters.

        Args:
            read: The notes.
            name: The file or tune.
            source: The file, whose pieces are a group. Default: no groups.
        """
        self.seen += 1
        before = len(self._kept)
        odd = odd_meter(read)
        if odd is not None:
            self.skipped.add(f"in {odd}, where four quarters are not whole bars", name)
        elif not read.whole_bars:
            self.skipped.add("bars do not begin every four quarters", name)
        else:
            reasons = [why_no_melody(part, read.ticks_per_quarter) for part in read.parts]
            if TOO_LONG in reasons:
                self.skipped.add(TOO_LONG, name)
            elif None not in reasons:
                self.skipped.add(NO_MELODY, name)
            for part, reason in zip(read.parts, reasons, strict=True):
                if reason is None:
                    self.add(encoded(part, read.ticks_per_quarter), name, source)
        self.used += len(self._kept) > before

    def add(self, melody: Tensor, name: str, source: Path | None = None) -> None:
        """Cut a melody into pieces, and add those that pass the filter.

        Args:
            melody: One state per sixteenth.
            name: The file or tune.
            source: The file, whose pieces are a group. Default: no groups.
        """
        pieces = windows.whole(_whole_bars(melody), self.steps)
        if len(pieces) == 0:
            self.skipped.add(f"shorter than {self.steps} steps", name)
        for piece in pieces:
            content = piece.numpy().tobytes()
            reason = rejection_reason(piece) or ("there already" if content in self._kept else None)
            if reason is None:
                self._kept[content] = piece
            else:
                self.skipped.add(reason, name)
            if source is not None and (reason is None or content in self._kept):
                # Files that share a piece are of one song.
                self._joined[self._leader(source)] = self._leader(self._source.setdefault(content, source))

    def opened(self, form: Format, name: str, kind: str) -> LoadedData:
        """Return the rows and the report.

        Args:
            form: The format of the rows.
            name: What was read.
            kind: The plural of its parts, such as "files".
        """
        reasons = self.skipped.lines()
        if not self._kept:
            raise ValueError(
                f"{name} has no melody of {self.steps} steps ({'; '.join(reasons)}): "
                "write a shorter length, or files in which a track holds one melody"
            )
        x = torch.stack(list(self._kept.values()))
        report = [f"{name}: {len(x)} melodies of {self.steps} steps from {self.used} of {self.seen} {kind}"]
        return LoadedData(
            Dataset(x, NUM_STATES), form, report + [f"left out: {line}" for line in reasons], self._groups()
        )

    def _leader(self, source: Path) -> Path:
        while (other := self._joined.get(source, source)) != source:
            source = other
        return source

    def _groups(self) -> Tensor | None:
        """A number for each piece, the same for those of one source; None where no sources were named."""
        if len(self._source) < len(self._kept):
            return None
        number: dict[Path, int] = {}
        return torch.tensor(
            [number.setdefault(self._leader(self._source[content]), len(number)) for content in self._kept]
        )


def odd_meter(read: MidiFile) -> str | None:
    """Return the first time signature in which four quarters are not whole bars, or None.

    Args:
        read: The notes.
    """
    return next((f"{above}/{below}" for above, below in read.signatures if below % above), None)


def _whole_bars(melody: Tensor) -> Tensor:
    """With the rest that ends the last bar, which a file does not hold."""
    return torch.nn.functional.pad(melody, (0, -len(melody) % STEPS_A_BAR), value=REST)


def rejection_reason(piece: Tensor) -> str | None:
    """Return why the paper's filter rejects a piece, or None where it passes.

    Args:
        piece: One state per sixteenth.
    """
    rests = (piece == REST).tolist()
    longest = run = 0
    for rest in rests:
        run = run + 1 if rest else 0
        longest = max(longest, run)
    if longest > STEPS_A_BAR:
        return "rests for more than a bar"
    counts = torch.bincount(piece.long(), minlength=NUM_STATES)[:REST]
    if int((counts > 0).sum()) < 2:
        return "has one pitch only"
    if int(counts.max()) > max(_MOST_OF_ONE_PITCH * len(piece), STEPS_A_BAR):  # a short piece may have a long note
        return "stays on one pitch for too long"
    return None
