"""The format of monophonic melodies, as in Section 6.3 and Appendix H.3 of the paper: at each step a pitch, or a rest.

A step is a sixteenth note, 16 of them a bar of four quarters, and a datum has 256 steps: S = 129, D = 256. States
0..127 are MIDI's pitches and 128 is the rest. A note that is held and one that is struck again look the same, as in a
pianoroll.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from tauleap import _check, _files
from tauleap._files.printable import printable
from tauleap._formats import registration
from tauleap.data import limits, windows
from tauleap.data.dataset import Dataset
from tauleap.data.folder import files_in
from tauleap.data.format import LoadedData, RowFiles
from tauleap.data.music.melody import NUM_STATES, STEPS_A_BAR, STEPS_A_QUARTER, decode, encode, spell
from tauleap.data.music.midi import MidiFile, read_midi, write_midi
from tauleap.data.music.ode_to_joy import ode_to_joy
from tauleap.data.music.pianoroll import read_pianoroll
from tauleap.data.music.pieces import NO_MELODY, Pieces, odd_meter
from tauleap.data.music.sound import to_wav
from tauleap.data.music.soundfont import installed_soundfont
from tauleap.data.skipped import Skipped

_REGISTERED = registration("midi")
SUFFIXES, ROLLS = _REGISTERED.row_suffixes, _REGISTERED.folder_suffixes
STEPS = 256
_LONGEST_FILE = 2**24  # bytes; a symphony has a megabyte
_HEARD = 8  # melodies that are also written as sound
_TEMPO = 120  # quarters a minute
_LEFT_OUT = "left out: "


@dataclass(frozen=True)
class MusicFormat(RowFiles):
    """Melodies, one state per sixteenth note.

    Args:
        steps: The number of sixteenths in a row.
        order: ``order[state]`` is the pitch that a state stands for, or 128 for the rest. The paper permutes the states
            to remove the order of pitches. Default: None, states are pitches.
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
    def scrambled(steps: int = STEPS, *, seed: int = 0) -> MusicFormat:
        """Return a format with a random order of the states.

        Args:
            steps: Sixteenths in a row.
            seed: The seed of the order.
        """
        order = torch.randperm(NUM_STATES, generator=torch.Generator().manual_seed(seed))
        return MusicFormat(steps, tuple(order.tolist()))

    def states(self, pitches: Tensor) -> Tensor:
        """Return the states that stand for pitches, in the dtype given.

        Args:
            pitches: MIDI pitches, 128 for a rest.
        """
        if self.order is None:
            return pitches
        return torch.tensor(self.order, device=pitches.device).argsort().to(pitches.dtype)[pitches.long()]

    def pitches(self, states: Tensor) -> Tensor:
        """Return the pitches that states stand for.

        Args:
            states: States.
        """
        return states if self.order is None else torch.tensor(self.order, device=states.device)[states.long()]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.steps,)

    @property
    def num_states(self) -> int:
        return NUM_STATES

    @staticmethod
    def open(path: Path, *, length: int | None = None) -> LoadedData:
        """Return all melodies in a folder that pass the paper's filter.

        A melody is a track in which one note sounds at a time; it is cut into pieces, one after the other. A piece is
        left out when it rests for more than a bar, has one pitch only, or one pitch on more than 50 of 256 steps; or
        when it is a copy of another (Appendix H.3). Files with a time signature in which four quarters are not whole
        bars, or whose bars begin elsewhere, are left out, and so are those that cannot be read; the report says which.

        Args:
            path: A folder of MIDI files, or of the .npz files of the Lakh pianoroll dataset.
            length: Sixteenths in a row. Default: 256.
        """
        steps = STEPS if length is None else _check.integer("length", length, least=1)
        form, pieces = MusicFormat(steps), Pieces(steps)
        files = _files_of(path)
        for file in files:
            try:
                read = _read(file)
            except UnusableError as error:
                pieces.leave_out(file.name, error.reason, error.detail)
            else:
                pieces.take(read, file.name, file)
        return pieces.opened(form, path.name, "files")

    def read(self, path: Path) -> Dataset:
        """Return the first melody of each file, cut into rows; the end of the last row is missing, so that it can be
        continued.

        Of a folder, files that cannot be read or have no melody are left out, with a warning.

        Args:
            path: A file, or a folder of files.
        """
        data, report = self.read_with_report(path)
        for line in report:
            if line.startswith(_LEFT_OUT):
                warnings.warn(printable(f"{path.name}: {line}"), stacklevel=2)
        return data

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        rows, absent, skipped, remarks = [], [], Skipped(), Skipped()
        files = _files_of(path)
        for file in files:
            try:
                melody = _first_melody(file, remarks)
            except UnusableError as error:
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
        return data, [*remarks.lines(), *left_out]

    completion_remedy: ClassVar[str] = (
        "say what is known, such as --observed 0:32 to keep the first two bars and play on from there"
    )

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", "plays a melody on"

    def completion_start(self) -> Dataset:
        """Return one row that begins with two bars of the Ode to Joy; the rest is missing."""
        x, missing = windows.padded(self.states(ode_to_joy()), self.steps)
        return Dataset(x[:1], NUM_STATES, missing=missing[:1])

    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, anew: bool = True
    ) -> list[Path]:
        """Write one MIDI file per row, and a WAV file for each of the first eight: a piano, if pretty_midi is
        installed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for number, row in enumerate(self.pitches(self.check(x)).tolist(), start=first):
            for suffix in (".mid", ".wav") if number < _HEARD else (".mid",):
                files.append(folder / f"{stem}-{number:06d}{suffix}")
                if anew or not files[-1].exists():
                    with _files.atomic_write(files[-1]) as file:
                        file.write(_midi(row) if suffix == ".mid" else _sound(row))
        return files

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        return "\n".join(spell(row) for row in self.pitches(self.check(x[:n])).tolist())


def _midi(row: list[int]) -> bytes:
    return write_midi(decode(row), STEPS_A_QUARTER, _TEMPO)


def _sound(row: list[int]) -> bytes:
    return to_wav(decode(row), 60 / _TEMPO / STEPS_A_QUARTER, len(row), font=installed_soundfont())


class UnusableError(ValueError):
    """A file that cannot be read: the ``reason``, in words that are the same for others, and what is its own."""

    def __init__(self, message: str, reason: str, detail: str = "") -> None:
        super().__init__(message)
        self.reason, self.detail = reason, detail


def melodies(file: Path) -> list[Tensor]:
    """Return the tracks of a file in which one note sounds at a time: states (steps,) from the first bar with a note.

    Args:
        file: A MIDI file or piano roll.
    """
    read = _read(file)
    found = (encode(part, read.ticks_per_quarter) for part in read.parts)
    return [melody for melody in found if melody is not None]


def _first_melody(file: Path, remarks: Skipped) -> Tensor:
    """Return the first track in which one note sounds at a time; ``remarks`` collects what a user should know of it."""
    read = _read(file)
    for number, part in enumerate(read.parts, start=1):
        melody = encode(part, read.ticks_per_quarter)
        if melody is None:
            continue
        if len(read.parts) > 1:
            remarks.add(
                f"part {number} of {len(read.parts)} is taken, the first in which one note sounds at a time", file.name
            )
        if min(part).start * STEPS_A_QUARTER >= STEPS_A_BAR * read.ticks_per_quarter:
            remarks.add("the bars before its first note are left out", file.name)
        odd = odd_meter(read)
        if odd is not None:
            remarks.add(f"in {odd}, but read in bars of four quarters", file.name)
        return melody
    raise UnusableError(f"{file}: {NO_MELODY}", NO_MELODY)


def _read(file: Path) -> MidiFile:
    try:
        content = limits.contents(file, _LONGEST_FILE)
    except OSError as error:
        message = error.strerror or str(error)
        raise UnusableError(f"{file}: cannot be opened, {message}", "cannot be opened", message) from error
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


def _files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else files_in(path, (*SUFFIXES, *ROLLS))
