"""Tunes that come with the package music21: melodies to learn from where there is nothing else.

They are reels, hornpipes and other dances from Ryan's Mammoth Collection (1883) and O'Neill's Music of Ireland (1903).
music21 is an extra, ``pip install 'tauleap[music]'``. Its reading of some 3,000 tunes takes minutes, so what came of it
is kept in the user's cache.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Iterator
from contextlib import suppress
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console
from rich.progress import track

from tauleap import _files
from tauleap.data.array.file import read_arrays
from tauleap.data.dataset import Dataset
from tauleap.data.download import cache_folder
from tauleap.data.format import LoadedData
from tauleap.data.music.format import STEPS, MusicFormat
from tauleap.data.music.melody import NUM_STATES
from tauleap.data.music.midi import MidiFile, Note
from tauleap.data.music.pieces import Pieces

FOLDERS = ("ryansMammoth", "oneills1850")
_TICKS = 480  # a quarter
_FORMAT = 2  # of what is kept: another number wherever the same tunes would give other rows


def open_tunes(*, cache: Path | None = None) -> LoadedData:
    """Return all pieces of 256 steps that pass the filter.

    Args:
        cache: The folder in which they are kept. Default: one in the user's cache.
    """
    corpus = _corpus()
    version = importlib.metadata.version("music21")
    kept = (cache or cache_folder()) / f"tunes-{_FORMAT}-{version}.npz"
    found = _kept(kept)
    if found is None:
        pieces = Pieces(STEPS)
        for name, tune in read_tunes(corpus):
            if tune is None:
                pieces.leave_out(name, "cannot be read")
            else:
                pieces.take(tune, name)
        found = pieces.opened(MusicFormat(STEPS), f"music21 {version}", "tunes")
        kept.parent.mkdir(parents=True, exist_ok=True)
        report = np.frombuffer(json.dumps(found.report).encode(), dtype=np.uint8)
        with _files.atomic_write(kept) as file:
            np.savez_compressed(file, x=found.dataset.in_memory().numpy(), report=report)
    return found


def read_tunes(corpus: Path, most: int | None = None) -> Iterator[tuple[str, MidiFile | None]]:
    """Yield the name and the notes of each tune, None where music21 cannot read it; repeats are played.

    A tune that begins with an upbeat begins late in its first bar. Chords that are written as names above the notes
    are not played.

    Args:
        corpus: The folder of the tunes in music21.
        most: How many files to read, at most. Default: all.
    """
    from music21 import converter, stream

    paths = [path for folder in FOLDERS for path in sorted((corpus / folder).glob("*.abc"))]
    title = "reading the tunes of music21, once"
    for path in track(paths[:most], title, console=Console(stderr=True), transient=True):
        try:
            # Not by its path, since music21 leaves a file open that it cannot read, and keeps pickles of the others.
            parsed = converter.parse(path.read_text(encoding="utf-8", errors="replace"), format="abc")
        except Exception:  # its errors have no common class, and one tune must not end the others
            yield path.stem, None
            continue
        scores = list(parsed.scores) if isinstance(parsed, stream.Opus) else [parsed]
        for number, score in enumerate(scores):
            yield f"{path.stem} {number + 1}" if len(scores) > 1 else path.stem, _tune(score)


def _tune(score: Any) -> MidiFile | None:
    from music21 import harmony, meter, stream

    try:
        part = score.parts[0] if score.parts else score
        meters = part.recurse().getElementsByClass(meter.TimeSignature)
        signatures = [(int(each.numerator), int(each.denominator)) for each in meters]
        first = next(iter(part.recurse().getElementsByClass(stream.Measure)), None)
        lacking = Fraction(0 if first is None else first.paddingLeft)
        with suppress(Exception):  # where repeats are badly formed the tune is played once
            part = part.expandRepeats()
        notes = []
        for element in part.flatten().notes:  # ties need no care, as equal neighbours are one note
            if element.duration.isGrace or isinstance(element, harmony.ChordSymbol):
                continue
            start, length = lacking + Fraction(element.offset), Fraction(element.quarterLength)
            for pitch in element.pitches:
                notes.append(Note(round(_TICKS * start), round(_TICKS * (start + length)), int(pitch.midi)))
    except Exception:  # as above
        return None
    return MidiFile(_TICKS, [sorted(notes)], signatures) if notes else None


def _corpus() -> Path:
    found = importlib.util.find_spec("music21")
    if found is None or found.origin is None:
        raise ValueError(
            "the tunes come with music21, which is not installed: write pip install 'tauleap[music]', "
            "or give a folder of MIDI files of your own"
        )
    return Path(found.origin).parent / "corpus"


def _kept(path: Path) -> LoadedData | None:
    """What was kept, if it is whole."""
    try:
        arrays = read_arrays(path, ("x", "report"))
        x, report = torch.from_numpy(arrays["x"]), json.loads(arrays["report"].tobytes())
    except (OSError, ValueError, KeyError):
        return None
    if x.ndim != 2 or x.shape[1] != STEPS or x.dtype != torch.uint8 or not isinstance(report, list):
        return None
    return LoadedData(Dataset(x, NUM_STATES), MusicFormat(STEPS), report)
