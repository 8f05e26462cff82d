"""Read the notes of a pianoroll that pypianoroll saved, such as the files of the Lakh pianoroll dataset.

Such an .npz has a sparse matrix of time steps by pitches per track (three arrays and a shape), and info.json with the
tracks and the number of time steps per quarter note. It may also mark the time steps at which bars begin. It has no
pickles, and none are read.
"""

from __future__ import annotations

import io
import json
import zipfile
from typing import Any

import numpy as np

from tauleap.data.array.file import BAD_ARCHIVE, read_entry
from tauleap.data.music.midi import MidiFile, Note

_MAX_UNPACKED_BYTES = 2**28
_PITCHES = 128
_DOWNBEAT = "downbeat.npy"
_PARTS = ("data", "indices", "indptr", "shape")


def read_pianoroll(content: bytes) -> MidiFile:
    """Return the notes in the bytes of a file, without drums.

    A note is an interval in which a pitch sounds without a gap, since a pianoroll does not mark repeated notes.

    Args:
        content: The bytes.

    Raises:
        ValueError: The file is damaged, too large, or not a pianoroll.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            if sum(entry.file_size for entry in archive.infolist()) > _MAX_UNPACKED_BYTES:
                raise ValueError(f"it unpacks to more than {_MAX_UNPACKED_BYTES:,} bytes")
            names = set(archive.namelist())
            if "info.json" not in names:
                raise ValueError("it has no info.json, so it is not a pianoroll")
            info = json.loads(archive.read("info.json"))
            arrays = {
                name.removesuffix(".npy"): read_entry(archive, archive.getinfo(name), name.removesuffix(".npy"))
                for name in names
                if name == _DOWNBEAT or (name.startswith("pianoroll_") and name.endswith(".npy"))
            }
    except BAD_ARCHIVE as error:
        raise ValueError(f"it is damaged or not an .npz ({error})") from error
    return _notes(info, arrays)


def _notes(info: Any, arrays: dict[str, np.ndarray]) -> MidiFile:
    resolution = None
    if isinstance(info, dict):
        resolution = info.get("resolution", info.get("beat_resolution"))
    if isinstance(resolution, bool) or not isinstance(resolution, int) or not 1 <= resolution < 2**15:
        raise ValueError(
            f"resolution in info.json must be a whole number of time steps per quarter note, got {resolution!r}"
        )
    file, number = MidiFile(resolution), 0
    while isinstance(track := info.get(str(number)), dict):
        if not track.get("is_drum"):
            file.parts.append(_track(arrays, number))
        number += 1
    file.parts = [part for part in file.parts if part]
    file.whole_bars = _whole_bars(arrays.get("downbeat"), 4 * resolution)
    return file


def _whole_bars(downbeat: np.ndarray | None, bar: int) -> bool:
    """Return whether bars begin every ``bar`` time steps; shorter bars such as 2/4 may divide it.

    A pianoroll that marks no bar, or only the first, passes.
    """
    if downbeat is None:
        return True
    begins = np.flatnonzero(downbeat)
    if len(begins) < 2:
        return True
    expected = np.arange(begins[0], begins[-1] + 1, bar)
    return bool((bar % np.diff(begins) == 0).all() and np.isin(expected, begins).all())


def _track(arrays: dict[str, np.ndarray], number: int) -> list[Note]:
    missing = [part for part in _PARTS if f"pianoroll_{number}_csc_{part}" not in arrays]
    if missing:
        raise ValueError(f"track {number} has no {missing[0]}")
    data, times, begins, shape = (arrays[f"pianoroll_{number}_csc_{part}"] for part in _PARTS)
    is_integer = all(np.issubdtype(array.dtype, np.integer) and array.ndim == 1 for array in (times, begins, shape))
    if not is_integer or data.ndim != 1 or shape.tolist()[1:] != [_PITCHES] or len(begins) != _PITCHES + 1:
        raise ValueError(f"track {number} is not a matrix of time steps by {_PITCHES} pitches")
    is_monotone = int(begins[0]) == 0 and int(begins[-1]) == len(data) and not (begins[1:] < begins[:-1]).any()
    if len(times) != len(data) or not is_monotone or (len(times) and not 0 <= times.min() <= times.max() < shape[0]):
        raise ValueError(f"track {number} has entries outside its matrix")
    notes = []
    for pitch in range(_PITCHES):
        part = slice(int(begins[pitch]), int(begins[pitch + 1]))
        sounding = np.unique(times[part][data[part] != 0])
        if len(sounding):
            gaps = np.flatnonzero(np.diff(sounding) > 1)
            starts, ends = np.r_[sounding[0], sounding[gaps + 1]], np.r_[sounding[gaps], sounding[-1]]
            notes += [Note(int(start), int(end) + 1, pitch) for start, end in zip(starts, ends, strict=True)]
    return sorted(notes)
