"""The format of monophonic melodies of Section 6.3 and Appendix H.3 of the paper: one pitch or rest per step.

A step is a sixteenth note, a bar of four quarters has 16 steps, and a row has 256 steps: S = 129, D = 256. States
0..127 are MIDI pitches, and 128 is the rest. As in a pianoroll, a held note and a repeated note have the same states.
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
from tauleap.data.music.melody import NUM_STATES, STEPS_PER_BAR, STEPS_PER_QUARTER, decode, encode, spell
from tauleap.data.music.midi import MidiFile, read_midi, write_midi
from tauleap.data.music.ode_to_joy import ode_to_joy
from tauleap.data.music.pianoroll import read_pianoroll
from tauleap.data.music.pieces import NO_MELODY, Pieces, incompatible_meter
from tauleap.data.music.sound import to_wav
from tauleap.data.music.soundfont import installed_soundfont
from tauleap.data.skipped import Skipped

_REGISTERED = registration("midi")
SUFFIXES, PIANOROLL_SUFFIXES = _REGISTERED.row_suffixes, _REGISTERED.folder_suffixes
STEPS = 256
_MAX_FILE_BYTES = 2**24  # The MIDI file of a symphony has about a megabyte.
_WAV_FILES = 8  # melodies that are also written as WAV files
_TEMPO = 120  # quarter notes per minute
_LEFT_OUT = "left out: "


@dataclass(frozen=True)
class MusicFormat(RowFiles):
    """Read and write melodies with one state per sixteenth note.

    Args:
        steps: The number of sixteenths per row, >= 1. Default: 256.
        order: ``order[state]`` is the pitch of a state, or 128 for the rest. The paper permutes the states to remove
            the order of pitches. Default: None, states are pitches.
    """

    kind: ClassVar[str] = "midi"
    steps: int = STEPS
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if isinstance(self.steps, bool) or not isinstance(self.steps, int) or self.steps < 1:
            raise ValueError(f"steps must be a whole number >= 1, got {self.steps!r}")
        if self.order is not None and sorted(self.order) != list(range(NUM_STATES)):
            raise ValueError(f"order must be a permutation of 0..{NUM_STATES - 1}, the pitch of every state")

    @staticmethod
    def scrambled(steps: int = STEPS, *, seed: int = 0) -> MusicFormat:
        """Return a format with a random permutation of the states.

        Args:
            steps: The number of sixteenths per row. Default: 256.
            seed: The seed of the permutation. Default: 0.
        """
        order = torch.randperm(NUM_STATES, generator=torch.Generator().manual_seed(seed))
        return MusicFormat(steps, tuple(order.tolist()))

    def states(self, pitches: Tensor) -> Tensor:
        """Return the states of pitches, in the same dtype.

        Args:
            pitches: MIDI pitches, or 128 for a rest.
        """
        if self.order is None:
            return pitches
        return torch.tensor(self.order, device=pitches.device).argsort().to(pitches.dtype)[pitches.long()]

    def pitches(self, states: Tensor) -> Tensor:
        """Return the pitches of states.

        Args:
            states: States 0..128.
        """
        return states if self.order is None else torch.tensor(self.order, device=states.device)[states.long()]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.steps,)

    @property
    def num_states(self) -> int:
        return NUM_STATES

    @staticmethod
    def open(path: Path, *, length: int = STEPS) -> LoadedData:
        """Return all melodies in a folder that pass the filter of the paper (Appendix H.3).

        A melody is a track in which one note sounds at a time. It is cut into consecutive pieces. A piece is left out
        if it rests for more than a bar, has only one pitch, has one pitch on more than 50 of 256 steps, or is a copy of
        another. Files whose bars are not four quarters, and files that cannot be read, are left out and reported.

        Args:
            path: A folder of MIDI files, or of the .npz files of the Lakh pianoroll dataset.
            length: The number of sixteenths per row, >= 1. Default: 256.

        Raises:
            ValueError: No melody passes the filter.
        """
        steps = _check.integer("length", length, least=1)
        form, pieces = MusicFormat(steps), Pieces(steps)
        files = _files_of(path)
        for file in files:
            try:
                notes = _read(file)
            except UnusableError as error:
                pieces.skip(file.name, error.reason, error.detail)
            else:
                pieces.add_file(notes, file.name, file)
        return pieces.loaded_data(form, path.name, "files")

    def read(self, path: Path) -> Dataset:
        """Return the first melody of each file; steps after its end are missing, so that completion continues it.

        In a folder, files that cannot be read or have no melody are left out with a warning.

        Args:
            path: A file, or a folder of files.

        Raises:
            ValueError: No file has a melody.
        """
        data, report = self.read_with_report(path)
        for line in report:
            if line.startswith(_LEFT_OUT):
                warnings.warn(printable(f"{path.name}: {line}"), stacklevel=2)
        return data

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        rows, padding, skipped, remarks = [], [], Skipped(), Skipped()
        files = _files_of(path)
        for file in files:
            try:
                melody = _first_melody(file, remarks)
            except UnusableError as error:
                if path.is_file():
                    raise
                skipped.add(str(error).removeprefix(f"{file}: "), file.name)
                continue
            x, missing = windows.pad(melody, self.steps)
            rows.append(self.states(x))
            padding.append(missing)
        left_out = [f"{_LEFT_OUT}{line}" for line in skipped.lines()]
        if not rows:
            raise ValueError(
                f"{path} has no file with a melody ({'; '.join(skipped.lines())}): give a file with a track in "
                "which one note sounds at a time"
            )
        missing = torch.cat(padding)
        data = Dataset(torch.cat(rows), NUM_STATES, missing=missing if bool(missing.any()) else None)
        return data, [*remarks.lines(), *left_out]

    completion_remedy: ClassVar[str] = (
        "name the observed steps, such as --observed 0:32 to condition on the first two bars"
    )

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", "continues a melody"

    def completion_start(self) -> Dataset:
        """Return one row with the first two bars of the Ode to Joy; the other steps are missing."""
        x, missing = windows.pad(self.states(ode_to_joy()), self.steps)
        return Dataset(x[:1], NUM_STATES, missing=missing[:1])

    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, overwrite: bool = True
    ) -> list[Path]:
        """Write one MIDI file per row, and a WAV file for each of the first eight, and return the files.

        The WAV files sound like a piano if pretty_midi is installed.
        """
        folder.mkdir(parents=True, exist_ok=True)
        files = []
        for number, row in enumerate(self.pitches(self.check(x)).tolist(), start=first):
            for suffix in (".mid", ".wav") if number < _WAV_FILES else (".mid",):
                files.append(folder / f"{stem}-{number:06d}{suffix}")
                if overwrite or not files[-1].exists():
                    with _files.atomic_write(files[-1]) as file:
                        file.write(_midi(row) if suffix == ".mid" else _sound(row))
        return files

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        return "\n".join(spell(row) for row in self.pitches(self.check(x[:n])).tolist())


def _midi(row: list[int]) -> bytes:
    return write_midi(decode(row), STEPS_PER_QUARTER, _TEMPO)


def _sound(row: list[int]) -> bytes:
    return to_wav(decode(row), 60 / _TEMPO / STEPS_PER_QUARTER, len(row), font=installed_soundfont())


class UnusableError(ValueError):
    """Report a file that cannot be used.

    Args:
        message: The whole message.
        reason: The reason, in the same words for all files that share it.
        detail: A detail of this file. Default: none.
    """

    def __init__(self, message: str, reason: str, detail: str = "") -> None:
        super().__init__(message)
        self.reason, self.detail = reason, detail


def melodies(file: Path) -> list[Tensor]:
    """Return the melodies of a file, pitches (steps,) from the first bar with a note: tracks with one note at a time.

    Args:
        file: A MIDI file or pianoroll.
    """
    notes = _read(file)
    encoded = (encode(part, notes.ticks_per_quarter) for part in notes.parts)
    return [melody for melody in encoded if melody is not None]


def _first_melody(file: Path, remarks: Skipped) -> Tensor:
    """Return the first track in which one note sounds at a time, and add notices for the user to ``remarks``."""
    notes = _read(file)
    for number, part in enumerate(notes.parts, start=1):
        melody = encode(part, notes.ticks_per_quarter)
        if melody is None:
            continue
        if len(notes.parts) > 1:
            remarks.add(
                f"part {number} of {len(notes.parts)} is used, the first in which one note sounds at a time", file.name
            )
        if min(part).start * STEPS_PER_QUARTER >= STEPS_PER_BAR * notes.ticks_per_quarter:
            remarks.add("the bars before its first note are left out", file.name)
        meter = incompatible_meter(notes)
        if meter is not None:
            remarks.add(f"in {meter}, but read in bars of four quarters", file.name)
        return melody
    raise UnusableError(f"{file}: {NO_MELODY}", NO_MELODY)


def _read(file: Path) -> MidiFile:
    try:
        content = limits.contents(file, _MAX_FILE_BYTES)
    except OSError as error:
        message = error.strerror or str(error)
        raise UnusableError(f"{file}: cannot be opened: {message}", "cannot be opened", message) from error
    except ValueError as error:
        size = file.stat().st_size if file.is_file() else None
        reason = {None: "cannot be opened", 0: "empty"}.get(size, f"more than {_MAX_FILE_BYTES:,} bytes")
        raise UnusableError(str(error), reason) from error
    is_pianoroll = file.suffix.lower() in PIANOROLL_SUFFIXES
    try:
        return read_pianoroll(content) if is_pianoroll else read_midi(content)
    except ValueError as error:
        reason = "unreadable pianoroll" if is_pianoroll else "damaged MIDI"
        raise UnusableError(f"{file}: {reason}: {error}", reason, str(error)) from error


def _files_of(path: Path) -> list[Path]:
    return [path] if path.is_file() else files_in(path, (*SUFFIXES, *PIANOROLL_SUFFIXES))
