"""The soundfont of pretty_midi: every key of its piano is in tune, and sounds until it is released."""

import io
import wave

import numpy as np
import pytest

from tauleap.data.music.midi import Note
from tauleap.data.music.sound import RATE, to_wav
from tauleap.data.music.soundfont import SoundFont, installed_soundfont


@pytest.fixture(scope="module")
def font() -> SoundFont:
    found = installed_soundfont()
    assert found is not None
    return found


@pytest.mark.parametrize("pitch", range(21, 109, 6))
def test_keys_are_in_tune(font: SoundFont, pitch: int) -> None:
    """Nine tenths of the energy are within a third of a semitone of the note and its overtones.

    A tenth is that of the note itself, which a sound has not that is an octave too high.
    """
    sound = font.play(pitch, RATE, RATE)
    energy = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2
    frequencies = np.fft.rfftfreq(len(sound), 1 / RATE)
    note = 440 * 2 ** ((pitch - 69) / 12)
    overtone = np.round(frequencies / note)
    near = (overtone >= 1) & (np.abs(frequencies - overtone * note) < max(0.02 * note, 4))
    assert energy[near].sum() > 0.9 * energy.sum()
    assert energy[near & (overtone == 1)].sum() > 0.1 * energy.sum()


def test_a4_is_440_hertz(font: SoundFont) -> None:
    sound = font.play(69, 4 * RATE, RATE)
    spectrum = np.abs(np.fft.rfft(sound * np.hanning(len(sound))))
    assert np.fft.rfftfreq(len(sound), 1 / RATE)[spectrum.argmax()] == pytest.approx(440, abs=1)


def test_note_ends_after_the_key_is_released(font: SoundFont) -> None:
    with wave.open(io.BytesIO(to_wav([Note(0, 4, 60)], 0.25, 16, font=font))) as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, RATE)
        sound = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(float)
    assert len(sound) == pytest.approx(5 * RATE, abs=2)  # four seconds, and one for the last fade
    assert np.abs(sound[: RATE // 2]).max() == pytest.approx(0.8 * 32767, abs=2)
    held, later = (np.sqrt((sound[int(t * RATE) : int((t + 0.25) * RATE)] ** 2).mean()) for t in (0.6, 1.5))
    assert later < 0.05 * held
    assert np.abs(sound[int(2.2 * RATE) :]).max() == 0


def test_invalid_soundfonts_raise(font: SoundFont) -> None:
    with pytest.raises(ValueError, match="not a soundfont: the chunk phdr is missing"):
        SoundFont(b"RIFF\4\0\0\0sfbk")
    with pytest.raises(ValueError, match="100 more bytes are needed"):
        SoundFont(b"RIFF\x64\0\0\0sfbk")
    with pytest.raises(ValueError, match="has no instrument 999"):
        font.voices(60, program=999)
