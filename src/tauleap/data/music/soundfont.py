"""The recorded instruments of a soundfont (SoundFont 2.04), played note by note.

Renderers that can be had as wheels are out of tune (symusic 0.5.9) or need a compiler (tinysoundfont, by pyaudio), and
a melody needs little of the format: which recording sounds at a key, its root and tuning, its loop, and how its
loudness grows and dies away. Filters, vibrato and stereo are left out.
"""

from __future__ import annotations

import importlib.util
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

# Generators, by their numbers in the format.
_ATTACK, _HOLD, _DECAY, _SUSTAIN, _RELEASE = 34, 35, 36, 37, 38
_INSTRUMENT, _KEYS, _VELOCITIES, _QUIETER = 41, 43, 44, 48
_SEMITONES, _CENTS, _SAMPLE, _MODE, _SCALE, _ROOT = 51, 52, 53, 54, 56, 58
_OFFSETS = {"start": (0, 4), "end": (1, 12), "loop": (2, 45), "loop_end": (3, 50)}  # fine, and coarse by 32768
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
    """A recording that sounds at a key: its samples, how they are stepped through, and its loudness in time."""

    samples: np.ndarray
    rate: float
    """Of the recording, times what the pitch asks for."""
    loop: tuple[int, int] | None
    attack: float
    hold: float
    decay: float
    sustain: float
    release: float
    gain: float

    def play(self, sounding: int, rate: int) -> np.ndarray:
        """Return the samples of a key, and those after it is released.

        Args:
            sounding: For how many samples the key is held.
            rate: Samples per second.
        """
        total = sounding + int(min(self.release, 1.0) * rate)
        place = np.arange(total) * (self.rate / rate)
        if self.loop is not None:
            begin, end = self.loop
            place = np.where(place < end, place, begin + (place - begin) % (end - begin))
        whole = np.floor(place).astype(np.int64)
        heard = whole < len(self.samples) - 1
        whole = np.minimum(whole, len(self.samples) - 2)
        part = place - np.floor(place)
        sound = self.samples[whole] * (1 - part) + self.samples[whole + 1] * part
        return self.gain * np.where(heard, sound, 0.0) * self._loudness(sounding, total, rate)

    def _loudness(self, sounding: int, total: int, rate: int) -> np.ndarray:
        time = np.arange(total) / rate
        begun = np.minimum(1.0, time / max(self.attack, 0.002))
        # Loudness falls evenly in decibels: 100 of them in the decay's time, 96 and then silence in the release's.
        falling = np.maximum(time - self.attack - self.hold, 0.0) / max(self.decay, 0.001)
        level = np.maximum(10 ** (-5.0 * falling), self.sustain)
        gone = np.maximum(time - sounding / rate, 0.0) / max(self.release, 0.01)
        return begun * level * 10 ** (-4.8 * gone) * (gone < 1)


class SoundFont:
    """A soundfont's file in memory."""

    def __init__(self, content: bytes) -> None:
        chunks = _chunks(content)
        missing = [name for name in (*_TABLES, "smpl") if name not in chunks]
        if missing:
            raise ValueError(f"it is no soundfont: it has no {missing[0]}")
        self._samples = np.frombuffer(chunks["smpl"], dtype="<i2")
        self._tables = {name: np.frombuffer(chunks[name], dtype=np.dtype(kind)) for name, kind in _TABLES.items()}

    def voices(self, pitch: int, *, program: int = 0, velocity: int = 90) -> list[Voice]:
        """Return the recordings that sound when a key of an instrument of bank 0 is struck.

        Args:
            pitch: The key.
            program: The instrument.
            velocity: How hard the key is struck, 1..127.
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
                    # What an instrument's zone sets, the preset's adds to.
                    added = {k: v for k, v in outer.items() if k not in (_INSTRUMENT, _KEYS, _VELOCITIES)}
                    defaults = {_SCALE: 100, **dict.fromkeys((_ATTACK, _HOLD, _DECAY, _RELEASE), -12000)}
                    values = defaults | zone
                    values |= {k: values.get(k, 0) + v for k, v in added.items()}
                    voices.append(self._voice(values, pitch))
        return voices

    def play(self, pitch: int, sounding: int, rate: int) -> np.ndarray:
        """Return the samples of a piano's key.

        Args:
            pitch: The key.
            sounding: For how many samples it is held.
            rate: Samples per second.
        """
        voices = self.voices(pitch)
        parts = [voice.play(sounding, rate) for voice in voices]
        out = np.zeros(max(map(len, parts), default=sounding))
        for part in parts:
            out[: len(part)] += part / len(parts)  # the two sides of a stereo recording
        return out

    def _zones(self, level: str, number: int, last: int) -> list[_Zone]:
        """The zones of a preset or an instrument that lead on, each with what is set for all."""
        heads = self._tables["phdr" if level == "p" else "inst"]["bag"]
        bags, gens = self._tables[f"{level}bag"]["gen"], self._tables[f"{level}gen"]
        common: _Zone = {}
        out = []
        for place, bag in enumerate(range(int(heads[number]), int(heads[number + 1]))):
            part = gens[int(bags[bag]) : int(bags[bag + 1])]
            zone = {int(oper): int(amount) for oper, amount in part}
            if last in zone:
                out.append(common | zone)
            elif place == 0:
                common = zone
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
            gain=10 ** (-max(zone.get(_QUIETER, 0), 0) / 200),
        )


@cache
def installed_soundfont() -> SoundFont | None:
    """Return the soundfont of pretty_midi (TimGM6mb.sf2), or None where it is not installed."""
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
    """The named pieces of a RIFF file, those inside its lists among them."""
    out: dict[str, bytes] = {}

    def walk(at: int, end: int) -> None:
        while at + 8 <= end:
            name, size = content[at : at + 4], int.from_bytes(content[at + 4 : at + 8], "little")
            begin, stop = at + 8, at + 8 + size
            if stop > end:
                raise ValueError(f"byte {at}: {size} more bytes are wanted, {end - begin} are there")
            if name in (b"RIFF", b"LIST"):
                walk(begin + 4, stop)
            else:
                out[name.decode("latin-1")] = content[begin:stop]
            at = stop + size % 2

    walk(0, len(content))
    return out
