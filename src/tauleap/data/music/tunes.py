"""The tunes in the package music21, which can be used as training data without other files.

They are reels, hornpipes and other dances from Ryan's Mammoth Collection (1883) and O'Neill's Music of Ireland (1903).
music21 is an extra, ``pip install 'tauleap[music]'``. It takes minutes to read some 3,000 tunes, so the
result is stored in the user's cache.
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
_TICKS = 480  # per quarter note
_CACHE_VERSION = 2  # to be increased when the same tunes would give other rows


def open_tunes(*, cache: Path | None = None) -> LoadedData:
    """Return all pieces of 256 steps that pass the filter of the paper.

    Args:
        cache: The folder in which the result is stored. Default: the user's cache.

    Raises:
        ValueError: music21 is not installed.
    """
    corpus = _corpus()
    version = importlib.metadata.version("music21")
    cached = (cache or cache_folder()) / f"tunes-{_CACHE_VERSION}-{version}.npz"
    loaded = _read_cache(cached)
    if loaded is None:
        pieces = Pieces(STEPS)
        for name, tune in read_tunes(corpus):
            if tune is None:
                pieces.skip(name, "cannot be read")
            else:
                pieces.add_file(tune, name)
        loaded = pieces.loaded_data(MusicFormat(STEPS), f"music21 {version}", "tunes")
        cached.parent.mkdir(parents=True, exist_ok=True)
        report = np.frombuffer(json.dumps(loaded.report).encode(), dtype=np.uint8)
        with _files.atomic_write(cached) as file:
            np.savez_compressed(file, x=loaded.dataset.in_memory().numpy(), report=report)
    return loaded


def read_tunes(corpus: Path, most: int | None = None) -> Iterator[tuple[str, MidiFile | None]]:
    """Yield the name and the notes of each tune, with repeats expanded, or None if music21 cannot read it.

    A tune with an upbeat begins late in its first bar. Chord symbols above the notes are ignored.

    Args:
        corpus: The folder of the tunes in music21.
        most: The largest number of files to read. Default: all.
    """
    from music21 import converter, stream

    paths = [path for folder in FOLDERS for path in sorted((corpus / folder).glob("*.abc"))]
    title = "reading the tunes of music21 (only the first time)"
    for path in track(paths[:most], title, console=Console(stderr=True), transient=True):
        try:
            # Given a path, music21 leaves a file open that it cannot read, and stores pickles of the others.
            parsed = converter.parse(path.read_text(encoding="utf-8", errors="replace"), format="abc")
        except Exception:  # Its errors have no common class, and one tune must not stop the others.
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
        upbeat_offset = Fraction(0 if first is None else first.paddingLeft)
        with suppress(Exception):  # A tune with invalid repeats is read without them.
            part = part.expandRepeats()
        notes = []
        for element in part.flatten().notes:  # Ties need no special case, since consecutive equal states are one note.
            if element.duration.isGrace or isinstance(element, harmony.ChordSymbol):
                continue
            start, length = upbeat_offset + Fraction(element.offset), Fraction(element.quarterLength)
            for pitch in element.pitches:
                notes.append(Note(round(_TICKS * start), round(_TICKS * (start + length)), int(pitch.midi)))
    except Exception:  # The errors of music21 have no common class.
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


def _read_cache(path: Path) -> LoadedData | None:
    """Return the stored result, or None if there is none or it is damaged."""
    try:
        arrays = read_arrays(path, ("x", "report"))
        x, report = torch.from_numpy(arrays["x"]), json.loads(arrays["report"].tobytes())
    except (OSError, ValueError, KeyError):
        return None
    if x.ndim != 2 or x.shape[1] != STEPS or x.dtype != torch.uint8 or not isinstance(report, list):
        return None
    return LoadedData(Dataset(x, NUM_STATES), MusicFormat(STEPS), report)
