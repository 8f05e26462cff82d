"""Notes as sound: a piano by a soundfont where there is one, and otherwise a few overtones that die away."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence

import numpy as np

from tauleap.data.music.midi import Note
from tauleap.data.music.soundfont import SoundFont

RATE = 22_050
"""Samples a second."""
_OVERTONES = 6
_FADE = 0.03  # seconds a note sounds on after its end
_LET_GO = 1.0  # the same of a recording
_LOUD = 0.8


def to_wav(notes: Sequence[Note], seconds: float, total: int, *, font: SoundFont | None = None) -> bytes:
    """Return the bytes of a WAV file, 16 bits and mono, of notes.

    Args:
        notes: The notes, in units of ``seconds``.
        seconds: The length of a unit.
        total: How many units the file lasts, without the last fade.
        font: The soundfont. Default: None, a few overtones.
    """
    sound = np.zeros(int((total * seconds + (_FADE if font is None else _LET_GO)) * RATE) + 1)
    tones: dict[tuple[int, int], np.ndarray] = {}  # a melody has few different notes
    for note in notes:
        start, length = int(note.start * seconds * RATE), int((note.end - note.start) * seconds * RATE)
        if (note.pitch, length) not in tones:
            tones[note.pitch, length] = (
                _tone(note.pitch, length + int(_FADE * RATE)) if font is None else font.play(note.pitch, length, RATE)
            )
        tone = tones[note.pitch, length][: len(sound) - start]
        sound[start : start + len(tone)] += tone
    if font is not None:  # recordings are soft, so that chords fit
        sound *= _LOUD / max(float(np.abs(sound).max()), 1e-3)
    content = io.BytesIO()
    with wave.open(content, "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        file.writeframes((sound / max(1.0, np.abs(sound).max()) * 32_767).round().astype("<i2").tobytes())
    return content.getvalue()


def _tone(pitch: int, length: int) -> np.ndarray:
    time = np.arange(length) / RATE
    frequency = 440.0 * 2 ** ((pitch - 69) / 12)
    overtones = [k for k in range(1, _OVERTONES + 1) if k * frequency < RATE / 2]
    tone = sum(np.exp(-1.5 * k * time) * np.sin(2 * np.pi * k * frequency * time) / k**1.5 for k in overtones)
    edge = np.minimum(1, time / 0.005) * np.minimum(1, time[::-1] / _FADE)  # without clicks
    return 0.4 * edge * tone
