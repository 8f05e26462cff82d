"""One melody: the notes of a track as one state a step, and back.

A step is a sixteenth note. States 0..127 are MIDI's pitches and 128 is the rest. A note that is held and one that is
struck again look the same, as in a pianoroll.
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
STEPS_A_QUARTER, STEPS_A_BAR = 4, 16
_MOST_OVERLAP = Fraction(1, 20)
_LONGEST_PART = 2**17  # steps, about four hours and a half
TOO_LONG = f"a track longer than {_LONGEST_PART:,} steps"
_NAMES = ("C", "C#", "D", "D#", "E", "F", "F#", "G", "G#", "A", "A#", "B")


def encode(notes: Sequence[Note], ticks_per_quarter: int) -> Tensor | None:
    """Return one state per sixteenth, uint8; None where :func:`why_no_melody` returns a reason.

    Notes begin and end at the nearest sixteenth and last for one at least; where two meet, the later one sounds. So
    of notes shorter than a sixteenth those are heard that begin last in their step.

    >>> encode([Note(0, 100, 60), Note(100, 200, 62)], 100)
    tensor([60, 60, 60, 60, 62, 62, 62, 62], dtype=torch.uint8)

    Args:
        notes: The notes of a track.
        ticks_per_quarter: Ticks per quarter note.
    """
    return encoded(notes, ticks_per_quarter) if why_no_melody(notes, ticks_per_quarter) is None else None


def encoded(notes: Sequence[Note], ticks_per_quarter: int) -> Tensor:
    """Return the same for notes that are known to be a melody.

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


def why_no_melody(notes: Sequence[Note], ticks_per_quarter: int) -> str | None:
    """Return why the notes of a track are no melody, or None where they are one.

    In a melody one note sounds at a time. Time is counted in ticks, before anything is rounded, and two tolerances are
    allowed, which are ours and not the paper's: played files are seldom exact. A note that lasts into the next one is
    legato, and not counted, where it does so by at most half a sixteenth and half of either note. And all else that
    sounds together may be a twentieth of the time in which anything sounds.

    Args:
        notes: The notes of a track.
        ticks_per_quarter: Ticks per quarter note.
    """
    if not notes:
        return "no notes"
    if _extent(notes, ticks_per_quarter)[1] > _LONGEST_PART:
        return TOO_LONG
    order = sorted(notes)
    edges = [(note.start, 1) for note in order]
    for note, following in zip(order, [*order[1:], None], strict=True):
        end = note.end
        if following is not None:
            over = note.end - following.start
            shorter = min(note.end - note.start, following.end - following.start)
            if 0 < 2 * over <= shorter and 2 * STEPS_A_QUARTER * over <= ticks_per_quarter:
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
        return (2 * tick * STEPS_A_QUARTER + ticks_per_quarter) // (2 * ticks_per_quarter)

    return step(note.start), max(step(note.end), step(note.start) + 1)


def _extent(notes: Sequence[Note], ticks_per_quarter: int) -> tuple[int, int]:
    """The steps before the first bar with a note, and the steps from there to the end."""
    spans = [_span(note, ticks_per_quarter) for note in notes]
    silent = min(start for start, _ in spans) // STEPS_A_BAR * STEPS_A_BAR
    return silent, max(end for _, end in spans) - silent


def decode(row: Sequence[int]) -> list[Note]:
    """Return the notes of a melody, in sixteenths; equal neighbours are one note.

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
    """(start, end, state) of equal neighbours."""
    edges = [0, *(at for at in range(1, len(row)) if row[at] != row[at - 1]), len(row)]
    return [(start, end, row[start]) for start, end in pairwise(edges)]
