"""Monophonic melodies, as in Section 6.3 and Appendix H.3 of the paper: at each step a pitch, or a rest.

A step is a sixteenth note, 16 of them a bar of four quarters, and a datum has 256 steps: S = 129, D = 256. States
0..127 are MIDI's pitches and 128 is the rest. A note that is held and one that is struck again look the same, as in a
pianoroll.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from pathlib import Path
from typing import ClassVar

import numpy as np
import torch
from torch import Tensor

from tauleap import _check, _files
from tauleap.data import limits, windows
from tauleap.data.arrays import Dataset
from tauleap.data.folder import files_in
from tauleap.data.form import Form, Opened
from tauleap.data.midi import MidiFile, Note, read_midi, write_midi
from tauleap.data.pianoroll import read_pianoroll
from tauleap.data.skipped import Skipped
from tauleap.data.sound import to_wav
from tauleap.data.soundfont import installed_soundfont

SUFFIXES = (".mid", ".midi")
ROLLS = (".npz",)
REST, NUM_STATES, STEPS = 128, 129, 256
_STEPS_A_QUARTER, STEPS_A_BAR = 4, 16
_MOST_OF_ONE_PITCH = 50 / 256  # of the steps (Appendix H.3)
_MOST_OVERLAP = Fraction(1, 20)
_LONGEST_FILE = 2**24  # bytes; a symphony has a megabyte
_LONGEST_PART = 2**17  # steps, about four hours and a half
_TOO_LONG = f"a track longer than {_LONGEST_PART:,} steps"
_HEARD = 8  # melodies that are also written as sound
_TEMPO = 120  # quarters a minute
_LEFT_OUT = "left out: "
_NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


@dataclass(frozen=True)
class MusicForm(Form):
    """Melodies of ``steps`` sixteenths.

    With ``order`` the states are scrambled, as the paper does to take away the order of pitches: ``order[state]`` is
    the pitch that a state stands for, or 128. It is kept with a model, so that its samples are pitches again.
    """

    kind: ClassVar[str] = "midi"
    steps: int = STEPS
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps must be a whole number >= 1, got {self.steps!r}")
        if self.order is not None and sorted(self.order) != list(range(NUM_STATES)):
            raise ValueError(f"order must hold each of 0..{NUM_STATES - 1} once, the pitch of every state")

    @staticmethod
    def scrambled(steps: int = STEPS, *, seed: int = 0) -> MusicForm:
        """With an order that the seed draws."""
        order = torch.randperm(NUM_STATES, generator=torch.Generator().manual_seed(seed))
        return MusicForm(steps, tuple(order.tolist()))

    def states(self, pitches: Tensor) -> Tensor:
        """The states that stand for these pitches, in the dtype given."""
        if self.order is None:
            return pitches
        return torch.tensor(self.order, device=pitches.device).argsort().to(pitches.dtype)[pitches.long()]

    def pitches(self, states: Tensor) -> Tensor:
        """The pitches that these states stand for."""
        return states if self.order is None else torch.tensor(self.order, device=states.device)[states.long()]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.steps,)

    @property
    def num_states(self) -> int:
        return NUM_STATES

    def read(self, path: Path) -> Dataset:
        """The first melody of each file, cut into rows; what the last row lacks is missing, so that it can go on.

        Of a folder, files that cannot be read or have no melody are left out, with a warning.
        """
        data, told = self.read_and_tell(path)
        for line in told:
            if line.startswith(_LEFT_OUT):
                warnings.warn(f"{path.name}: {line}", stacklevel=2)
        return data

    def read_and_tell(self, path: Path) -> tuple[Dataset, list[str]]:
        rows, absent, skipped, told = [], [], Skipped(), Skipped()
        files = _files_of(path, (*SUFFIXES, *ROLLS))
        for file in files:
            try:
                melody = _first_melody(file, told)
            except ValueError as error:
                if path.is_file():
                    raise
                skipped.add(str(error).removeprefix(f"{file}: "), file.name)
                continue
            x, missing = windows.padded(melody, self.steps)
            rows.append(self.states(x))
            absent.append(missing)
        left_out = [f"{_LEFT_OUT}{line}" for line in skipped.lines()]
        if not rows:
            raise ValueError(f"{path} has no file with a melody, {'; '.join(left_out)}")
        missing = torch.cat(absent)
        data = Dataset(torch.cat(rows), NUM_STATES, missing=missing if bool(missing.any()) else None)
        return data, [*told.lines(), *left_out]

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0) -> list[Path]:
        """One MIDI file a row, and a WAV file for each of the first eight: a piano, if pretty_midi is installed."""
        folder.mkdir(parents=True, exist_ok=True)
        written = []
        for number, row in enumerate(self.pitches(self.check(x)).tolist(), start=first):
            notes = decode(row)
            files = {".mid": write_midi(notes, _STEPS_A_QUARTER, _TEMPO)}
            if number < _HEARD:
                files[".wav"] = to_wav(notes, 60 / _TEMPO / _STEPS_A_QUARTER, len(row), font=installed_soundfont())
            for suffix, content in files.items():
                written.append(folder / f"{stem}-{number:06d}{suffix}")
                with _files.replacing(written[-1]) as file:
                    file.write(content)
        return written

    def show(self, x: Tensor, n: int) -> str:
        return "\n".join(_spell(row) for row in self.pitches(self.check(x[:n])).tolist())


def open_music(path: Path, *, length: int | None = None) -> Opened:
    """All melodies of ``length`` steps (256 by default) in a folder that pass the paper's filter.

    The folder holds MIDI files, or the .npz files of the Lakh pianoroll dataset. A melody is a track in which one note
    sounds at a time; it is cut into pieces, one after the other. A piece is left out when it rests for more than a bar,
    has one pitch only, or one pitch on more than 50 of 256 steps; or when it is there already (Appendix H.3). Files
    with a time signature in which four quarters are not whole bars, or whose bars begin elsewhere, are left out, and so
    are those that cannot be read; the report says which.
    """
    steps = STEPS if length is None else _check.integer("length", length, least=1)
    form, pieces = MusicForm(steps), Pieces(steps)
    files = _files_of(path, (*SUFFIXES, *ROLLS))
    for file in files:
        try:
            read = _read(file)
        except UnusableError as error:
            pieces.leave_out(file.name, error.reason, error.detail)
        else:
            pieces.take(read, file.name, file)
    return pieces.opened(form, path.name, "files")


class UnusableError(ValueError):
    """A file that cannot be read: the ``reason``, in words that are the same for others, and what is its own."""

    def __init__(self, message: str, reason: str, detail: str = "") -> None:
        super().__init__(message)
        self.reason, self.detail = reason, detail


class Pieces:
    """Melodies cut into pieces, those that pass the filter; and what was left out, and why."""

    def __init__(self, steps: int) -> None:
        self.steps, self.skipped = steps, Skipped()
        self.seen = self.used = 0
        self._kept: dict[bytes, Tensor] = {}
        self._source: dict[bytes, Path] = {}
        self._joined: dict[Path, Path] = {}

    def leave_out(self, name: str, reason: str, detail: str = "") -> None:
        """Counts a file or tune that cannot be read."""
        self.seen += 1
        self.skipped.add(reason, name, detail)

    def take(self, read: MidiFile, name: str, source: Path | None = None) -> None:
        """The pieces of a file or tune called ``name``, unless its bars are not those of four quarters."""
        self.seen += 1
        before = len(self._kept)
        odd = [f"{above}/{below}" for above, below in read.signatures if below % above]
        if odd:
            self.skipped.add(f"in {odd[0]}, where four quarters are not whole bars", name)
        elif not read.whole_bars:
            self.skipped.add("bars do not begin every four quarters", name)
        else:
            reasons = [why_no_melody(part, read.ticks_per_quarter) for part in read.parts]
            if _TOO_LONG in reasons:
                self.skipped.add(_TOO_LONG, name)
            elif None not in reasons:
                self.skipped.add("no track in which one note sounds at a time", name)
            for part, reason in zip(read.parts, reasons, strict=True):
                if reason is None:
                    self.add(_encoded(part, read.ticks_per_quarter), name, source)
        self.used += len(self._kept) > before

    def add(self, melody: Tensor, name: str, source: Path | None = None) -> None:
        """Cuts a melody, which comes from what is called ``name``; the pieces of one ``source`` are a group."""
        pieces = windows.whole(_whole_bars(melody), self.steps)
        if len(pieces) == 0:
            self.skipped.add(f"shorter than {self.steps} steps", name)
        for piece in pieces:
            content = piece.numpy().tobytes()
            reason = why_dull(piece) or ("there already" if content in self._kept else None)
            if reason is None:
                self._kept[content] = piece
            else:
                self.skipped.add(reason, name)
            if source is not None and (reason is None or content in self._kept):
                # Files that share a piece are of one song.
                self._joined[self._leader(source)] = self._leader(self._source.setdefault(content, source))

    def opened(self, form: MusicForm, name: str, kind: str) -> Opened:
        """The rows and the report; ``kind`` is what was read, such as files."""
        told = self.skipped.lines()
        if not self._kept:
            raise ValueError(
                f"{name} has no melody of {self.steps} steps ({'; '.join(told)}): "
                "write a shorter length, or files in which a track holds one melody"
            )
        x = torch.stack(list(self._kept.values()))
        report = [f"{name}: {len(x)} melodies of {self.steps} steps from {self.used} of {self.seen} {kind}"]
        return Opened(Dataset(x, NUM_STATES), form, report + [f"left out: {line}" for line in told], self._groups())

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


def melodies(file: Path) -> list[Tensor]:
    """The tracks of a file in which one note sounds at a time: states (steps,) from the first bar with a note."""
    return _melodies(_read(file))


def _first_melody(file: Path, told: Skipped) -> Tensor:
    """The first track in which one note sounds at a time; what else a user should know of it goes to ``told``."""
    read = _read(file)
    for number, part in enumerate(read.parts, start=1):
        melody = encode(part, read.ticks_per_quarter)
        if melody is None:
            continue
        if len(read.parts) > 1:
            told.add(
                f"part {number} of {len(read.parts)} is taken, the first in which one note sounds at a time", file.name
            )
        if min(part).start * _STEPS_A_QUARTER >= STEPS_A_BAR * read.ticks_per_quarter:
            told.add("the bars before its first note are left out", file.name)
        odd = [f"{above}/{below}" for above, below in read.signatures if below % above]
        if odd:
            told.add(f"in {odd[0]}, but read in bars of four quarters", file.name)
        return melody
    raise ValueError(f"{file}: no track in which one note sounds at a time")


def _read(file: Path) -> MidiFile:
    try:
        content = limits.contents(file, _LONGEST_FILE)
    except OSError as error:
        told = error.strerror or str(error)
        raise UnusableError(f"{file}: cannot be opened, {told}", "cannot be opened", told) from error
    except ValueError as error:
        size = file.stat().st_size if file.is_file() else None
        reason = {None: "cannot be opened", 0: "empty"}.get(size, f"more than {_LONGEST_FILE:,} bytes")
        raise UnusableError(str(error), reason) from error
    roll = file.suffix.lower() in ROLLS
    try:
        return read_pianoroll(content) if roll else read_midi(content)
    except ValueError as error:
        reason = "no piano roll that can be read" if roll else "damaged MIDI"
        raise UnusableError(f"{file}: {reason}, {error}", reason, str(error)) from error


def _melodies(read: MidiFile) -> list[Tensor]:
    found = (encode(part, read.ticks_per_quarter) for part in read.parts)
    return [melody for melody in found if melody is not None]


def encode(notes: Sequence[Note], ticks_per_quarter: int) -> Tensor | None:
    """One state a sixteenth, uint8; None where :func:`why_no_melody` has a reason.

    Notes begin and end at the nearest sixteenth and last for one at least; where two meet, the later one sounds. So
    of notes shorter than a sixteenth those are heard that begin last in their step.

    >>> encode([Note(0, 100, 60), Note(100, 200, 62)], 100)
    tensor([60, 60, 60, 60, 62, 62, 62, 62], dtype=torch.uint8)
    """
    return _encoded(notes, ticks_per_quarter) if why_no_melody(notes, ticks_per_quarter) is None else None


def _encoded(notes: Sequence[Note], ticks_per_quarter: int) -> Tensor:
    silent, total = _extent(notes, ticks_per_quarter)
    melody = np.full(total, REST, dtype=np.uint8)
    for note in sorted(notes):
        start, end = _span(note, ticks_per_quarter)
        melody[start - silent : end - silent] = note.pitch
    return torch.from_numpy(melody)


def why_no_melody(notes: Sequence[Note], ticks_per_quarter: int) -> str | None:
    """Why the notes of a track are no melody, or None where they are one.

    In a melody one note sounds at a time. Time is counted in ticks, before anything is rounded, and two tolerances are
    allowed, which are ours and not the paper's: played files are seldom exact. A note that lasts into the next one is
    legato, and not counted, where it does so by at most half a sixteenth and half of either note. And all else that
    sounds together may be a twentieth of the time in which anything sounds.
    """
    if not notes:
        return "no notes"
    if _extent(notes, ticks_per_quarter)[1] > _LONGEST_PART:
        return _TOO_LONG
    order = sorted(notes)
    edges = [(note.start, 1) for note in order]
    for note, following in zip(order, [*order[1:], None], strict=True):
        end = note.end
        if following is not None:
            over = note.end - following.start
            shorter = min(note.end - note.start, following.end - following.start)
            if 0 < 2 * over <= shorter and 2 * _STEPS_A_QUARTER * over <= ticks_per_quarter:
                end = following.start
        edges.append((end, -1))
    sounding = together = voices = now = 0
    for tick, change in sorted(edges):
        sounding += (tick - now) * (voices > 0)
        together += (tick - now) * (voices > 1)
        voices, now = voices + change, tick
    return "more than one note at a time" if together > _MOST_OVERLAP * sounding else None


def _span(note: Note, ticks_per_quarter: int) -> tuple[int, int]:
    """The steps at which a note begins and ends."""

    def step(tick: int) -> int:
        return (2 * tick * _STEPS_A_QUARTER + ticks_per_quarter) // (2 * ticks_per_quarter)

    return step(note.start), max(step(note.end), step(note.start) + 1)


def _extent(notes: Sequence[Note], ticks_per_quarter: int) -> tuple[int, int]:
    """The steps before the first bar with a note, and the steps from there to the end."""
    spans = [_span(note, ticks_per_quarter) for note in notes]
    silent = min(start for start, _ in spans) // STEPS_A_BAR * STEPS_A_BAR
    return silent, max(end for _, end in spans) - silent


def _whole_bars(melody: Tensor) -> Tensor:
    """With the rest that ends the last bar, which a file does not hold."""
    return torch.nn.functional.pad(melody, (0, -len(melody) % STEPS_A_BAR), value=REST)


def why_dull(piece: Tensor) -> str | None:
    """Why the paper's filter leaves a piece out, or None where it does not."""
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


def decode(row: Sequence[int]) -> list[Note]:
    """The notes of a melody, in sixteenths; equal neighbours are one note.

    >>> decode([60, 60, REST, 62])
    [Note(start=0, end=2, pitch=60), Note(start=3, end=4, pitch=62)]
    """
    return [Note(start, end, state) for start, end, state in _runs(row) if state != REST]


def _spell(row: Sequence[int]) -> str:
    """The first notes by name with their lengths in sixteenths; a dot is a rest."""
    words = [
        f"{'.' if state == REST else f'{_NAMES[state % 12]}{state // 12 - 1}'}:{end - start}"
        for start, end, state in _runs(row)
    ]
    return " ".join(words[:24]) + (" ..." if len(words) > 24 else "")


def _runs(row: Sequence[int]) -> list[tuple[int, int, int]]:
    """(start, end, state) of equal neighbours."""
    edges = [0, *(at for at in range(1, len(row)) if row[at] != row[at - 1]), len(row)]
    return [(start, end, row[start]) for start, end in pairwise(edges)]


def _files_of(path: Path, suffixes: Sequence[str] = SUFFIXES) -> list[Path]:
    return [path] if path.is_file() else files_in(path, suffixes)
