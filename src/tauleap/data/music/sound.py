"""Convert notes to sound: a piano if a soundfont is installed, and otherwise a sum of decaying overtones."""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence

import numpy as np

from tauleap.data.music.midi import Note
from tauleap.data.music.soundfont import SoundFont

RATE = 22_050
"""Samples per second."""
_OVERTONES = 6
_FADE = 0.03  # seconds in which a synthetic note fades out after its end
_RELEASE = 1.0  # the same for a recorded note
_PEAK = 0.8  # the largest amplitude of recorded notes; 1 is the maximum of the format


def to_wav(notes: Sequence[Note], seconds: float, total: int, *, font: SoundFont | None = None) -> bytes:
    """Return notes as the bytes of a WAV file, 16 bits and mono.

    Args:
        notes: The notes, in units of ``seconds``.
        seconds: The length of a unit.
        total: The length of the file in units, without the last fade-out.
        font: The soundfont. Default: None, a sum of overtones.
    """
    sound = np.zeros(int((total * seconds + (_FADE if font is None else _RELEASE)) * RATE) + 1)
    tones: dict[tuple[int, int], np.ndarray] = {}  # A melody has few different notes.
    for note in notes:
        start, length = int(note.start * seconds * RATE), int((note.end - note.start) * seconds * RATE)
        if (note.pitch, length) not in tones:
            tones[note.pitch, length] = (
                _tone(note.pitch, length + int(_FADE * RATE)) if font is None else font.play(note.pitch, length, RATE)
            )
        tone = tones[note.pitch, length][: len(sound) - start]
        sound[start : start + len(tone)] += tone
    if font is not None:  # Recordings have a small amplitude, so that chords do not clip.
        sound *= _PEAK / max(float(np.abs(sound).max()), 1e-3)
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
    edge = np.minimum(1, time / 0.005) * np.minimum(
        1, time[::-1] / _FADE
    )  # Steps in amplitude would be heard as clicks.
    return 0.4 * edge * tone
