"""Render notes with the recorded instruments of a soundfont (SoundFont 2.04).

Renderers that are available as wheels are out of tune (symusic 0.5.9) or need a compiler (tinysoundfont, through
pyaudio). A melody needs few features of the format: the recording of a key, its root key and tuning, its loop, and its
volume envelope. Filters, vibrato and stereo are not implemented.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Generators, by their numbers in the format.
_ATTACK, _HOLD, _DECAY, _SUSTAIN, _RELEASE = 34, 35, 36, 37, 38
_INSTRUMENT, _KEYS, _VELOCITIES, _ATTENUATION = 41, 43, 44, 48
_SEMITONES, _CENTS, _SAMPLE, _MODE, _SCALE, _ROOT = 51, 52, 53, 54, 56, 58
_OFFSETS = {
    "start": (0, 4),
    "end": (1, 12),
    "loop": (2, 45),
    "loop_end": (3, 50),
}  # generators of fine offsets, and of coarse ones in units of 32768
_TABLES = {
    "phdr": [("name", "S20"), ("preset", "<u2"), ("bank", "<u2"), ("bag", "<u2"), ("rest", "<u4", 3)],
    "pbag": [("gen", "<u2"), ("mod", "<u2")],
    "pgen": [("oper", "<u2"), ("amount", "<i2")],
    "inst": [("name", "S20"), ("bag", "<u2")],
    "ibag": [("gen", "<u2"), ("mod", "<u2")],
    "igen": [("oper", "<u2"), ("amount", "<i2")],
    "shdr": [
        *[("name", "S20"), ("start", "<u4"), ("end", "<u4"), ("loop", "<u4"), ("loop_end", "<u4"), ("rate", "<u4")],
        *[("root", "u1"), ("correction", "i1"), ("link", "<u2"), ("kind", "<u2")],
    ],
}
_Zone = dict[int, int]


class Voice(NamedTuple):
    """Hold a recording that sounds at a key: its samples, its playback rate, and its volume envelope in seconds."""

    samples: np.ndarray
    rate: float
    """The sampling rate of the recording times the factor that transposes it to the key."""
    loop: tuple[int, int] | None
    attack: float
    hold: float
    decay: float
    sustain: float
    release: float
    gain: float

    def play(self, sounding: int, rate: int) -> np.ndarray:
        """Return the samples of a note, including its release.

        Args:
            sounding: The number of samples until the key is released.
            rate: Samples per second.
        """
        total = sounding + int(min(self.release, 1.0) * rate)
        position = np.arange(total) * (self.rate / rate)
        if self.loop is not None:
            begin, end = self.loop
            position = np.where(position < end, position, begin + (position - begin) % (end - begin))
        index = np.floor(position).astype(np.int64)
        is_inside = index < len(self.samples) - 1
        index = np.minimum(index, len(self.samples) - 2)
        fraction = position - np.floor(position)
        sound = self.samples[index] * (1 - fraction) + self.samples[index + 1] * fraction
        return self.gain * np.where(is_inside, sound, 0.0) * self._envelope(sounding, total, rate)

    def _envelope(self, sounding: int, total: int, rate: int) -> np.ndarray:
        time = np.arange(total) / rate
        attack = np.minimum(1.0, time / max(self.attack, 0.002))
        # The volume falls linearly in decibels: by 100 dB in the decay time, and by 96 dB in the release time.
        decay = np.maximum(time - self.attack - self.hold, 0.0) / max(self.decay, 0.001)
        level = np.maximum(10 ** (-5.0 * decay), self.sustain)
        release = np.maximum(time - sounding / rate, 0.0) / max(self.release, 0.01)
        return attack * level * 10 ** (-4.8 * release) * (release < 1)


class SoundFont:
    """Hold a soundfont in memory.

    Args:
        content: The bytes of its file.

    Raises:
        ValueError: The bytes are not a soundfont.
    """

    def __init__(self, content: bytes) -> None:
        chunks = _chunks(content)
        missing = [name for name in (*_TABLES, "smpl") if name not in chunks]
        if missing:
            raise ValueError(f"it is not a soundfont: the chunk {missing[0]} is missing")
        self._samples = np.frombuffer(chunks["smpl"], dtype="<i2")
        self._tables = {name: np.frombuffer(chunks[name], dtype=np.dtype(kind)) for name, kind in _TABLES.items()}

    def voices(self, pitch: int, *, program: int = 0, velocity: int = 90) -> list[Voice]:
        """Return the recordings that sound at a key of an instrument in bank 0.

        Args:
            pitch: The MIDI pitch of the key.
            program: The number of the instrument. Default: 0, a piano.
            velocity: The velocity of the note, 1..127. Default: 90.

        Raises:
            ValueError: The soundfont has no such instrument.
        """
        presets = self._tables["phdr"][:-1]
        found = np.flatnonzero((presets["preset"] == program) & (presets["bank"] == 0))
        if len(found) == 0:
            raise ValueError(f"the soundfont has no instrument {program}")
        voices = []
        for outer in self._zones("p", int(found[0]), _INSTRUMENT):
            if not _covers(outer, pitch, velocity):
                continue
            for zone in self._zones("i", outer[_INSTRUMENT], _SAMPLE):
                if _covers(zone, pitch, velocity):
                    # The values of the preset's zone are added to those of the instrument's zone.
                    added = {k: v for k, v in outer.items() if k not in (_INSTRUMENT, _KEYS, _VELOCITIES)}
                    defaults = {_SCALE: 100, **dict.fromkeys((_ATTACK, _HOLD, _DECAY, _RELEASE), -12000)}
                    values = defaults | zone
                    values |= {k: values.get(k, 0) + v for k, v in added.items()}
                    voices.append(self._voice(values, pitch))
        return voices

    def play(self, pitch: int, sounding: int, rate: int) -> np.ndarray:
        """Return the samples of a piano note.

        Args:
            pitch: The MIDI pitch of the key.
            sounding: The number of samples until the key is released.
            rate: Samples per second.
        """
        voices = self.voices(pitch)
        parts = [voice.play(sounding, rate) for voice in voices]
        out = np.zeros(max(map(len, parts), default=sounding))
        for part in parts:
            out[: len(part)] += part / len(parts)  # The two channels of a stereo recording are averaged.
        return out

    def _zones(self, level: str, number: int, last: int) -> list[_Zone]:
        """Return the zones of a preset or instrument with the generator ``last``, and the values of the global zone."""
        heads = self._tables["phdr" if level == "p" else "inst"]["bag"]
        bags, gens = self._tables[f"{level}bag"]["gen"], self._tables[f"{level}gen"]
        global_zone: _Zone = {}
        out = []
        for place, bag in enumerate(range(int(heads[number]), int(heads[number + 1]))):
            part = gens[int(bags[bag]) : int(bags[bag + 1])]
            zone = {int(oper): int(amount) for oper, amount in part}
            if last in zone:
                out.append(global_zone | zone)
            elif place == 0:
                global_zone = zone
        return out

    def _voice(self, zone: _Zone, pitch: int) -> Voice:
        head = self._tables["shdr"][zone[_SAMPLE] & 0xFFFF]
        at = {
            name: int(head[name]) + zone.get(fine, 0) + 32768 * zone.get(coarse, 0)
            for name, (fine, coarse) in _OFFSETS.items()
        }
        samples = self._samples[at["start"] : at["end"]] / 32768
        if len(samples) < 2:
            raise ValueError(f"the soundfont's recording {zone[_SAMPLE]} is empty")
        root = zone.get(_ROOT, -1)
        root = int(head["root"]) if root < 0 else root
        cents = zone[_SCALE] * (pitch - root) + 100 * zone.get(_SEMITONES, 0) + zone.get(_CENTS, 0)
        loop = (at["loop"] - at["start"], at["loop_end"] - at["start"])
        looped = zone.get(_MODE, 0) & 1 and 0 <= loop[0] < loop[1] < len(samples)
        return Voice(
            samples,
            float(head["rate"]) * 2 ** ((cents + int(head["correction"])) / 1200),
            loop if looped else None,
            *(2 ** (zone[time] / 1200) for time in (_ATTACK, _HOLD, _DECAY)),
            sustain=10 ** (-max(zone.get(_SUSTAIN, 0), 0) / 200),
            release=2 ** (zone[_RELEASE] / 1200),
            gain=10 ** (-max(zone.get(_ATTENUATION, 0), 0) / 200),
        )


@cache
def installed_soundfont() -> SoundFont | None:
    """Return the soundfont of pretty_midi (TimGM6mb.sf2), or None if pretty_midi is not installed."""
    found = importlib.util.find_spec("pretty_midi")
    if found is None or found.origin is None:
        return None
    path = Path(found.origin).with_name("TimGM6mb.sf2")
    return SoundFont(path.read_bytes()) if path.is_file() else None


def _covers(zone: _Zone, pitch: int, velocity: int) -> bool:
    for kind, value in ((_KEYS, pitch), (_VELOCITIES, velocity)):
        span = zone.get(kind)
        if span is not None and not span & 0xFF <= value <= span >> 8 & 0xFF:
            return False
    return True


def _chunks(content: bytes) -> dict[str, bytes]:
    """Return the chunks of a RIFF file by name, including those inside lists."""
    out: dict[str, bytes] = {}

    def walk(at: int, end: int) -> None:
        while at + 8 <= end:
            name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
            begin, stop = at + 8, at + 8 + size
            if stop > end:
                raise ValueError(f"byte {at}: {size} more bytes are needed, but only {end - begin} are left")
            if name in (b"RIFF", b"LIST"):
                walk(begin + 4, stop)
            else:
                out[name.decode("latin-1")] = content[begin:stop]
            at = stop + size % 2

    walk(0, len(content))
    return out
