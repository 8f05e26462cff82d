"""Cut melodies into pieces of equal length, and apply the filter of the paper (Appendix H.3)."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from tauleap.data import windows
from tauleap.data.dataset import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.music.melody import NUM_STATES, REST, STEPS_PER_BAR, TOO_LONG, encode_melody, not_a_melody
from tauleap.data.music.midi import MidiFile
from tauleap.data.skipped import Skipped

_MAX_PITCH_FRACTION = 50 / 256  # of the steps, in Appendix H.3
NO_MELODY = "no track in which one note sounds at a time"


class Pieces:
    """Collect the pieces of melodies that pass the filter, and count the others by reason.

    Args:
        steps: The number of sixteenths per piece.
    """

    def __init__(self, steps: int) -> None:
        self.steps, self.skipped = steps, Skipped()
        self.seen = self.used = 0
        self._pieces: dict[bytes, Tensor] = {}
        self._source: dict[bytes, Path] = {}
        self._joined: dict[Path, Path] = {}

    def skip(self, name: str, reason: str, detail: str = "") -> None:
        """Count a file or tune that cannot be read.

        Args:
            name: The name of the file or tune.
            reason: The reason, in the same words for all files that share it.
            detail: A detail of this file. Default: none.
        """
        self.seen += 1
        self.skipped.add(reason, name, detail)

    def add_file(self, notes: MidiFile, name: str, source: Path | None = None) -> None:
        """Add the pieces of a file or tune, unless its bars are not compatible with four quarters.

        Args:
            notes: The notes.
            name: The name of the file or tune.
            source: The file, whose pieces form a group. Default: no groups.
        """
        self.seen += 1
        before = len(self._pieces)
        meter = incompatible_meter(notes)
        if meter is not None:
            self.skipped.add(f"in {meter}, where four quarters are not whole bars", name)
        elif not notes.whole_bars:
            self.skipped.add("bars do not begin every four quarters", name)
        else:
            reasons = [not_a_melody(part, notes.ticks_per_quarter) for part in notes.parts]
            if TOO_LONG in reasons:
                self.skipped.add(TOO_LONG, name)
            elif None not in reasons:
                self.skipped.add(NO_MELODY, name)
            for part, reason in zip(notes.parts, reasons, strict=True):
                if reason is None:
                    self.add(encode_melody(part, notes.ticks_per_quarter), name, source)
        self.used += len(self._pieces) > before

    def add(self, melody: Tensor, name: str, source: Path | None = None) -> None:
        """Cut a melody into pieces, and add those that pass the filter.

        Args:
            melody: One state per sixteenth.
            name: The name of the file or tune.
            source: The file, whose pieces form a group. Default: no groups.
        """
        pieces = windows.cut(_pad_to_bar(melody), self.steps)
        if len(pieces) == 0:
            self.skipped.add(f"shorter than {self.steps} steps", name)
        for piece in pieces:
            content = piece.numpy().tobytes()
            reason = rejection_reason(piece) or ("copies of other pieces" if content in self._pieces else None)
            if reason is None:
                self._pieces[content] = piece
            else:
                self.skipped.add(reason, name)
            if source is not None and (reason is None or content in self._pieces):
                # Files that share a piece belong to one song.
                self._joined[self._leader(source)] = self._leader(self._source.setdefault(content, source))

    def loaded_data(self, form: Format, name: str, noun: str) -> LoadedData:
        """Return the pieces as rows, and the report.

        Args:
            form: The format of the rows.
            name: The name of the folder or collection.
            noun: The plural noun for its parts, such as "files".

        Raises:
            ValueError: No piece passed the filter.
        """
        reasons = self.skipped.lines()
        if not self._pieces:
            raise ValueError(
                f"{name} has no melody of {self.steps} steps ({'; '.join(reasons)}): "
                "write a smaller length, or give files with a track in which one note sounds at a time"
            )
        x = torch.stack(list(self._pieces.values()))
        report = [f"{name}: {len(x)} melodies of {self.steps} steps from {self.used} of {self.seen} {noun}"]
        return LoadedData(
            Dataset(x, NUM_STATES), form, report + [f"left out: {line}" for line in reasons], self._groups()
        )

    def _leader(self, source: Path) -> Path:
        while (other := self._joined.get(source, source)) != source:
            source = other
        return source

    def _groups(self) -> Tensor | None:
        """Return a number per piece, the same for pieces of one song, or None if pieces have no source."""
        if len(self._source) < len(self._pieces):
            return None
        number: dict[Path, int] = {}
        return torch.tensor(
            [number.setdefault(self._leader(self._source[content]), len(number)) for content in self._pieces]
        )


def incompatible_meter(notes: MidiFile) -> str | None:
    """Return the first time signature in which four quarters are not whole bars, or None.

    Args:
        notes: The notes.
    """
    return next((f"{above}/{below}" for above, below in notes.signatures if below % above), None)


def _pad_to_bar(melody: Tensor) -> Tensor:
    """Fill the last bar with a rest, which a file does not contain."""
    return torch.nn.functional.pad(melody, (0, -len(melody) % STEPS_PER_BAR), value=REST)


def rejection_reason(piece: Tensor) -> str | None:
    """Return the reason why the filter of the paper rejects a piece, or None if it passes.

    Args:
        piece: One state per sixteenth.
    """
    rests = (piece == REST).tolist()
    longest = run = 0
    for rest in rests:
        run = run + 1 if rest else 0
        longest = max(longest, run)
    if longest > STEPS_PER_BAR:
        return "rests for more than a bar"
    counts = torch.bincount(piece.long(), minlength=NUM_STATES)[:REST]
    if int((counts > 0).sum()) < 2:
        return "has only one pitch"
    # A short piece may have one note that lasts for a bar.
    if int(counts.max()) > max(_MAX_PITCH_FRACTION * len(piece), STEPS_PER_BAR):
        return "has one pitch on too many steps"
    return None
