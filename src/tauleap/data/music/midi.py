"""Read the notes of a Standard MIDI File with every bound checked, and write a melody as such a file.

A damaged file must raise an error and not end the program, as symusic 0.5.9 does with a segmentation fault. Therefore
the few events that a melody needs are read here; other events are skipped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

_DRUMS = 9
# The number of data bytes after a status byte, by its upper four bits.
_DATA_BYTES = {0x8: 2, 0x9: 2, 0xA: 2, 0xB: 2, 0xC: 1, 0xD: 1, 0xE: 2}
_MAX_TICKS = 2**31


class Note(NamedTuple):
    """Hold one note, in ticks."""

    start: int
    end: int
    pitch: int


@dataclass
class MidiFile:
    """Hold the notes of a file, without drums.

    Args:
        ticks_per_quarter: Ticks per quarter note.
        parts: The notes of each track and channel, sorted by their beginning. Default: none.
        signatures: The time signatures in the file, such as (3, 4). Default: none.
        whole_bars: False if the file marks the beginnings of bars, and they are not four quarters apart. Default: True.
    """

    ticks_per_quarter: int
    parts: list[list[Note]] = field(default_factory=list)
    signatures: list[tuple[int, int]] = field(default_factory=list)
    whole_bars: bool = True


class _Bytes:
    """Read a range of bytes in a file from a position."""

    def __init__(self, content: bytes, at: int, end: int) -> None:
        self.content, self.at, self.end = content, at, end

    def take(self, count: int) -> bytes:
        if self.at + count > self.end:
            raise ValueError(f"byte {self.at}: {count} more bytes are needed, but only {self.end - self.at} are left")
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
    def has_more(self) -> bool:
        return self.at < self.end


def read_midi(content: bytes) -> MidiFile:
    """Return the notes in the bytes of a file.

    Bytes after the number of tracks in the header are ignored, since some programs leave such bytes.

    Args:
        content: The bytes.

    Raises:
        ValueError: The file is damaged; the message has the position of the byte.
    """
    whole = _Bytes(content, 0, len(content))
    if whole.take(4) != b"MThd":
        raise ValueError("byte 0: it does not begin with MThd, so it is not a MIDI file")
    length = whole.number(4)
    if length < 6:
        raise ValueError(f"byte 4: the header has {length} bytes, it must have at least 6")
    whole.number(2)
    tracks_left = whole.number(2)
    division = whole.number(2)
    whole.take(length - 6)
    if division == 0 or division >= 0x8000:
        raise ValueError("byte 12: the time division must be in ticks per quarter note, got SMPTE frames or 0")
    file = MidiFile(division)
    while tracks_left and whole.has_more:
        name, size = whole.take(4), whole.number(4)
        begin = whole.at
        whole.take(size)
        if name == b"MTrk":
            tracks_left -= 1
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

    while track.has_more:
        now += track.variable()
        if now > _MAX_TICKS:
            raise ValueError(f"byte {track.at}: the track is longer than {_MAX_TICKS} ticks")
        first = track.take(1)[0]
        if first < 0x80:  # Running status: the event has the status of the one before.
            if status < 0x80:
                raise ValueError(f"byte {track.at - 1}: expected an event, got {first:#04x}")
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
                raise ValueError(f"byte {track.at - 1}: a data byte of an event must be at most 127, got {max(data)}")
            channel = status & 0x0F
            if status >> 4 == 0x9 and data[1] > 0:
                stop(channel, data[0])  # A repeated note ends the one before.
                sounding[channel, data[0]] = now
            elif status >> 4 in (0x8, 0x9):
                stop(channel, data[0])
        else:
            raise ValueError(f"byte {track.at - 1}: {status:#04x} is not an event of a MIDI file")
    for channel, pitch in list(sounding):
        stop(channel, pitch)
    return [sorted(notes) for _, notes in sorted(channels.items())]


def write_midi(notes: Sequence[Note], ticks_per_quarter: int, tempo: int, *, velocity: int = 90) -> bytes:
    """Return the bytes of a MIDI file with one piano track.

    >>> read_midi(write_midi([Note(0, 3, 60), Note(3, 4, 62)], 4, 120)).parts
    [[Note(start=0, end=3, pitch=60), Note(start=3, end=4, pitch=62)]]

    Args:
        notes: The notes, in ticks.
        ticks_per_quarter: Ticks per quarter note.
        tempo: Quarter notes per minute.
        velocity: The velocity of the notes, 1..127. Default: 90.
    """
    # At equal ticks ends come before beginnings, since two consecutive notes may have the same pitch.
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
