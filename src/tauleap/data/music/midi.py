"""The notes of a Standard MIDI File, read byte by byte with every bound checked; and a melody written as one.

A file may come from anywhere, and a damaged one must be an error and not the end of the program (symusic 0.5.9 ends by
a segmentation fault), so the few events that a melody needs are read here; what else a file holds is stepped over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_DRUMS = 9
# Bytes that follow a status byte, by its upper half.
_DATA_BYTES = {0x8: 2, 0x9: 2, 0xA: 2, 0xB: 2, 0xC: 1, 0xD: 1, 0xE: 2}
_LONGEST = 2**31


class Note(NamedTuple):
    """One note, in ticks."""

    start: int
    end: int
    pitch: int


@dataclass
class MidiFile:
    """Ticks a quarter note, and the notes of each track and channel in the order of their beginnings; no drums.

    ``signatures`` are the time signatures that it names, such as (3, 4); none are needed. ``whole_bars`` is False where
    it tells the beginnings of its bars, and they are not every four quarters.
    """

    ticks_per_quarter: int
    parts: list[list[Note]] = field(default_factory=list)
    signatures: list[tuple[int, int]] = field(default_factory=list)
    whole_bars: bool = True


class _Bytes:
    """A piece of a file that is read from its beginning."""

    def __init__(self, content: bytes, at: int, end: int) -> None:
        self.content, self.at, self.end = content, at, end

    def take(self, count: int) -> bytes:
        if self.at + count > self.end:
            raise ValueError(f"byte {self.at}: {count} more bytes are wanted, {self.end - self.at} are there")
        self.at += count
        return self.content[self.at - count : self.at]

    def number(self, count: int) -> int:
        return int.from_bytes(self.take(count), "big")

    def variable(self) -> int:
        """Return a number in groups of seven bits, at most four of them."""
        value = 0
        for _ in range(4):
            byte = self.take(1)[0]
            value = value << 7 | byte & 0x7F
            if byte < 0x80:
                return value
        raise ValueError(f"byte {self.at - 4}: a length has more than four bytes")

    @property
    def left(self) -> bool:
        return self.at < self.end


def read_midi(content: bytes) -> MidiFile:
    """Return the notes in the bytes of a file; a ValueError says at which byte it is damaged.

    What follows the tracks that the header announces is not looked at: some programs leave bytes there.

    Args:
        content: The bytes.
    """
    whole = _Bytes(content, 0, len(content))
    if whole.take(4) != b"MThd":
        raise ValueError("byte 0: it does not begin with MThd, so it is no MIDI file")
    length = whole.number(4)
    if length < 6:
        raise ValueError(f"byte 4: the header has {length} bytes, it must have 6")
    whole.number(2)
    announced = whole.number(2)
    division = whole.number(2)
    whole.take(length - 6)
    if division == 0 or division >= 0x8000:
        raise ValueError("byte 12: it counts time in seconds or not at all; ticks a quarter note are wanted")
    file = MidiFile(division)
    while announced and whole.left:
        name, size = whole.take(4), whole.number(4)
        begin = whole.at
        whole.take(size)
        if name == b"MTrk":
            announced -= 1
            file.parts += _read_track(_Bytes(content, begin, begin + size), file.signatures)
    return file


def _read_track(track: _Bytes, signatures: list[tuple[int, int]]) -> list[list[Note]]:
    channels: dict[int, list[Note]] = {}
    sounding: dict[tuple[int, int], int] = {}
    now = status = 0

    def stop(channel: int, pitch: int) -> None:
        start = sounding.pop((channel, pitch), None)
        if start is not None and now > start and channel != _DRUMS:
            channels.setdefault(channel, []).append(Note(start, now, pitch))

    while track.left:
        now += track.variable()
        if now > _LONGEST:
            raise ValueError(f"byte {track.at}: the track is longer than {_LONGEST} ticks")
        first = track.take(1)[0]
        if first < 0x80:  # the status of the event before counts on
            if status < 0x80:
                raise ValueError(f"byte {track.at - 1}: {first:#04x} where an event must begin")
            track.at -= 1
        else:
            status = first
        if status in (0xF0, 0xF7):
            track.take(track.variable())
            status = 0
        elif status == 0xFF:
            kind = track.take(1)[0]
            payload = track.take(track.variable())
            status = 0
            if kind == 0x58 and len(payload) >= 2 and payload[0] and payload[1] < 8:
                signatures.append((payload[0], 2 ** payload[1]))
            if kind == 0x2F:
                break
        elif status >> 4 in _DATA_BYTES:
            data = track.take(_DATA_BYTES[status >> 4])
            if max(data) > 0x7F:
                raise ValueError(f"byte {track.at - 1}: a value above 127 in an event")
            channel = status & 0x0F
            if status >> 4 == 0x9 and data[1] > 0:
                stop(channel, data[0])  # a note that is struck again has ended
                sounding[channel, data[0]] = now
            elif status >> 4 in (0x8, 0x9):
                stop(channel, data[0])
        else:
            raise ValueError(f"byte {track.at - 1}: {status:#04x} is no event of a file")
    for channel, pitch in list(sounding):
        stop(channel, pitch)
    return [sorted(notes) for _, notes in sorted(channels.items())]


def write_midi(notes: Sequence[Note], ticks_per_quarter: int, tempo: int, *, velocity: int = 90) -> bytes:
    """Return the bytes of a file with one track of piano.

    >>> read_midi(write_midi([Note(0, 3, 60), Note(3, 4, 62)], 4, 120)).parts
    [[Note(start=0, end=3, pitch=60), Note(start=3, end=4, pitch=62)]]

    Args:
        notes: The notes, in ticks.
        ticks_per_quarter: Ticks per quarter note.
        tempo: Quarter notes per minute.
        velocity: How hard the keys are struck, 1..127.
    """
    # At the same tick a note ends before the next begins, which may have its pitch.
    events = sorted(
        [(note.end, 0, bytes([0x80, note.pitch, 0])) for note in notes]
        + [(note.start, 1, bytes([0x90, note.pitch, velocity])) for note in notes]
    )
    track = b"\0\xff\x51\x03" + round(60_000_000 / tempo).to_bytes(3, "big") + b"\0\xc0\0"
    now = 0
    for tick, _, event in events:
        track += _as_variable(tick - now) + event
        now = tick
    track += b"\0\xff\x2f\0"
    head = b"MThd" + (6).to_bytes(4, "big") + bytes([0, 0, 0, 1]) + ticks_per_quarter.to_bytes(2, "big")
    return head + b"MTrk" + len(track).to_bytes(4, "big") + track


def _as_variable(value: int) -> bytes:
    groups = [value & 0x7F]
    while value := value >> 7:
        groups.append(value & 0x7F | 0x80)
    return bytes(reversed(groups))
