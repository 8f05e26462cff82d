"""Notes as sound: a few overtones that die away, as of a plucked string. Exact in pitch and time, nothing to install.

symusic 0.5.9 with the soundfont of pretty_midi was tried: it plays most instruments out of tune and hangs on some.
"""

from __future__ import annotations

import io
import wave
from collections.abc import Sequence

import numpy as np

from tauleap.data.midi import Note

RATE = 22_050
"""Samples a second."""
_OVERTONES = 6
_FADE = 0.03  # seconds a note sounds on after its end


def to_wav(notes: Sequence[Note], seconds: float, total: int) -> bytes:
    """A WAV file, 16 bits and mono, of notes in units of ``seconds``; it lasts ``total`` units and the last fade."""
    sound = np.zeros(int((total * seconds + _FADE) * RATE) + 1)
    for note in notes:
        start = int(note.start * seconds * RATE)
        length = min(int(((note.end - note.start) * seconds + _FADE) * RATE), len(sound) - start)
        sound[start : start + length] += _tone(note.pitch, length)
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
