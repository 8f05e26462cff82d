"""Convert the notes of a track to one state per step, and back.

A step is a sixteenth note. States 0..127 are MIDI pitches, and 128 is the rest. As in a pianoroll, a held note and a
repeated note have the same states.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tauleap.data.music.midi import Note

REST, NUM_STATES = 128, 129
STEPS_PER_QUARTER, STEPS_PER_BAR = 4, 16
_MAX_OVERLAP = Fraction(1, 20)  # fraction of the time in which any note sounds
_MAX_STEPS = 2**17  # about four and a half hours at 120 quarters per minute
TOO_LONG = f"a track longer than {_MAX_STEPS:,} steps"
_NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


def encode(notes: Sequence[Note], ticks_per_quarter: int) -> Tensor | None:
    """Return one state per sixteenth, uint8, or None if the notes are not a melody (:func:`not_a_melody`).

    Notes begin and end at the nearest sixteenth and last for at least one. Where two overlap, the later one sounds; so
    of several notes within one sixteenth the last one remains.

    >>> encode([Note(0, 100, 60), Note(100, 200, 62)], 100)
    tensor([60, 60, 60, 60, 62, 62, 62, 62], dtype=torch.uint8)

    Args:
        notes: The notes of a track.
        ticks_per_quarter: Ticks per quarter note.
    """
    return encode_melody(notes, ticks_per_quarter) if not_a_melody(notes, ticks_per_quarter) is None else None


def encode_melody(notes: Sequence[Note], ticks_per_quarter: int) -> Tensor:
    """Return the same as :func:`encode` for notes that are a melody, without a check.

    Args:
        notes: The notes of a track.
        ticks_per_quarter: Ticks per quarter note.
    """
    silent, total = _extent(notes, ticks_per_quarter)
    melody = np.full(total, REST, dtype=np.uint8)
    for note in sorted(notes):
        start, end = _span(note, ticks_per_quarter)
        melody[start - silent : end - silent] = note.pitch
    return torch.from_numpy(melody)


def not_a_melody(notes: Sequence[Note], ticks_per_quarter: int) -> str | None:
    """Return the reason why the notes of a track are not a melody, or None if they are.

    In a melody one note sounds at a time. Times are compared in ticks, before rounding. Recorded performances are
    seldom exact, so there are two tolerances, which the paper does not have. First, an overlap with the next note is
    legato and not counted if it is at most half a sixteenth and at most half of either note. Second, the other overlaps
    may take up to a twentieth of the time in which any note sounds.

    Args:
        notes: The notes of a track.
        ticks_per_quarter: Ticks per quarter note.
    """
    if not notes:
        return "no notes"
    if _extent(notes, ticks_per_quarter)[1] > _MAX_STEPS:
        return TOO_LONG
    order = sorted(notes)
    edges = [(note.start, 1) for note in order]
    for note, following in zip(order, [*order[1:], None], strict=True):
        end = note.end
        if following is not None:
            overlap = note.end - following.start
            shorter = min(note.end - note.start, following.end - following.start)
            if 0 < 2 * overlap <= shorter and 2 * STEPS_PER_QUARTER * overlap <= ticks_per_quarter:
                end = following.start
        edges.append((end, -1))
    sounding = overlapping = voices = now = 0
    for tick, change in sorted(edges):
        sounding += (tick - now) * (voices > 0)
        overlapping += (tick - now) * (voices > 1)
        voices, now = voices + change, tick
    return "more than one note at a time" if overlapping > _MAX_OVERLAP * sounding else None


def _span(note: Note, ticks_per_quarter: int) -> tuple[int, int]:
    """Return the steps at which a note begins and ends."""

    def step(tick: int) -> int:
        return (2 * tick * STEPS_PER_QUARTER + ticks_per_quarter) // (2 * ticks_per_quarter)

    return step(note.start), max(step(note.end), step(note.start) + 1)


def _extent(notes: Sequence[Note], ticks_per_quarter: int) -> tuple[int, int]:
    """Return the number of steps before the first bar with a note, and from there to the end."""
    spans = [_span(note, ticks_per_quarter) for note in notes]
    silent = min(start for start, _ in spans) // STEPS_PER_BAR * STEPS_PER_BAR
    return silent, max(end for _, end in spans) - silent


def decode(row: Sequence[int]) -> list[Note]:
    """Return the notes of a melody, in sixteenths; consecutive equal states are one note.

    >>> decode([60, 60, REST, 62])
    [Note(start=0, end=2, pitch=60), Note(start=3, end=4, pitch=62)]

    Args:
        row: One state per sixteenth.
    """
    return [Note(start, end, state) for start, end, state in _runs(row) if state != REST]


def spell(row: Sequence[int]) -> str:
    """Return the first notes by name with their lengths in sixteenths; a dot is a rest.

    Args:
        row: One state per sixteenth.
    """
    words = [
        f"{'.' if state == REST else f'{_NAMES[state % 12]}{state // 12 - 1}'}:{end - start}"
        for start, end, state in _runs(row)
    ]
    return " ".join(words[:24]) + (" ..." if len(words) > 24 else "")


def _runs(row: Sequence[int]) -> list[tuple[int, int, int]]:
    """Return (start, end, state) of each run of equal states."""
    edges = [0, *(at for at in range(1, len(row)) if row[at] != row[at - 1]), len(row)]
    return [(start, end, row[start]) for start, end in pairwise(edges)]
