"""MIDI files as melodies, and back to notes and sound."""

import io
import wave
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
import symusic
import torch

from tauleap._files import safe_read
from tauleap.data import open_data
from tauleap.data.format import format_from_config
from tauleap.data.music.format import MusicFormat, melodies
from tauleap.data.music.melody import REST, decode, encode
from tauleap.data.music.midi import Note, read_midi, write_midi
from tauleap.data.music.pieces import rejection_reason
from tauleap.data.music.sound import to_wav


def tune(steps: int = 256, seed: int = 0) -> torch.Tensor:
    """A melody that passes the filter: notes of two steps, a rest now and then; neighbours differ."""
    draw = torch.Generator().manual_seed(seed)
    notes = torch.randint(50, 80, (steps // 2,), generator=draw)
    notes[::7] = REST
    return notes.repeat_interleave(2)


def midi(*tracks: list[tuple[int, int, int]], ticks: int = 480, drums: bool = False) -> bytes:
    """Notes are (start, end, pitch) in sixteenths."""
    score = symusic.Score(ticks)
    for notes in tracks:
        track = symusic.Track(program=0, is_drum=drums)
        for start, end, pitch in notes:
            track.notes.append(symusic.Note(start * ticks // 4, (end - start) * ticks // 4, pitch, 80))
        score.tracks.append(track)
    return score.dumps_midi()


def test_written_rows_are_read_back(tmp_path: Path) -> None:
    form, x = MusicFormat(), torch.stack([tune(seed=s) for s in range(10)])
    written = form.write(x, tmp_path / "out", first=3)
    assert [path.name for path in written[:3]] == ["samples-000003.mid", "samples-000003.wav", "samples-000004.mid"]
    assert sum(path.suffix == ".wav" for path in written) == 5  # rows 3..7
    # A melody starts at the first bar with a note, and a rest at the end cannot be seen.
    read = form.read(tmp_path / "out")
    known = torch.ones_like(read.x, dtype=torch.bool) if read.missing is None else ~read.missing
    assert torch.equal(read.x[known].long(), x[known])
    assert bool((x[~known] == REST).all())


def test_sound(tmp_path: Path) -> None:
    form = MusicFormat(32)
    form.write(torch.stack([tune(32), torch.full((32,), REST)]), tmp_path)
    waves = {}
    for name in ("samples-000000.wav", "samples-000001.wav"):
        with wave.open(str(tmp_path / name)) as file:
            assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 22050)
            waves[name] = np.frombuffer(file.readframes(file.getnframes()), dtype="<i2").astype(float)
    melody, rests = waves.values()
    # 32 sixteenths at 120 quarters per minute, and the last fade-out.
    assert 4 <= len(melody) / 22050 <= 4 + 1.01
    played = symusic.Score.from_midi((tmp_path / "samples-000000.mid").read_bytes()).to("second")
    assert played.tracks[0].notes[-1].end == pytest.approx(4, abs=0.001)
    assert np.abs(melody).max() > 1000
    assert np.abs(rests).max(initial=0) == 0


@pytest.mark.parametrize("pitch", range(24, 120, 5))
def test_the_sound_is_in_tune(pitch: int) -> None:
    """Nine tenths of the energy are within a third of a semitone of the note and its overtones."""
    with wave.open(io.BytesIO(to_wav([Note(0, 8, pitch)], 0.125, 8))) as file:
        sound = np.frombuffer(file.readframes(16384), dtype="<i2").astype(float)
    energy = np.abs(np.fft.rfft(sound * np.hanning(len(sound)))) ** 2
    frequencies = np.fft.rfftfreq(len(sound), 1 / 22050)
    note = 440 * 2 ** ((pitch - 69) / 12)
    overtone = np.round(frequencies / note)
    near = (overtone >= 1) & (np.abs(frequencies - overtone * note) < max(0.02 * note, 4))
    assert energy[near].sum() > 0.9 * energy.sum()
    assert energy[near & (overtone == 1)].sum() > 0.5 * energy.sum()  # and not an octave higher


def test_reader_agrees_with_symusic() -> None:
    draw = np.random.default_rng(0)
    for _ in range(50):
        at, notes = 0, []
        for _ in range(draw.integers(1, 30)):
            at += int(draw.integers(0, 4))
            end = at + int(draw.integers(1, 6))
            notes.append((at, end, int(draw.integers(0, 128))))
            at = end
        content = midi(notes, ticks=int(draw.choice([96, 120, 480])))
        other = symusic.Score.from_midi(content)
        ours = read_midi(content)
        assert ours.ticks_per_quarter == other.ticks_per_quarter
        theirs = [Note(n.start, n.end, n.pitch) for n in other.tracks[0].notes]
        assert ours.parts == [sorted(theirs)]


def test_symusic_reads_written_files() -> None:
    row = tune(64).tolist()
    other = symusic.Score.from_midi(write_midi(decode(row), 4, 120))
    assert [(n.start, n.end, n.pitch) for n in other.tracks[0].notes] == [tuple(note) for note in decode(row)]
    assert other.tempos[0].qpm == 120


def test_running_status_and_skipped_events() -> None:
    events = bytes(
        [0, 0xFF, 3, 2, 65, 66, 0, 0xC0, 5, 0, 0x90, 60, 80, 96, 60, 0, 0, 62, 80, 0x60, 62, 0, 0, 0xFF, 47, 0]
    )
    content = (
        b"MThd" + bytes([0, 0, 0, 6, 0, 0, 0, 1, 0, 96]) + b"XFIH\0\0\0\1?" + b"MTrk" + bytes([0, 0, 0, len(events)])
    )
    assert read_midi(content + events).parts == [[Note(0, 96, 60), Note(96, 192, 62)]]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"RIFF....", "not a MIDI file"),
        (b"MThd\0\0\0\6\0\0\0\1", "2 more bytes are needed, but only 0 are left"),
        (b"MThd\0\0\0\6\0\0\0\1\xe7\x28", "must be in ticks per quarter note"),
        (b"MThd\0\0\0\6\0\0\0\1\0\x60MTrk\0\0\0\5ab", "5 more bytes are needed, but only 2 are left"),
        (b"MThd\0\0\0\6\0\0\0\1\0\x60MTrk\0\0\0\2\0\x40", "expected an event, got 0x40"),
        (b"MThd\0\0\0\6\0\0\0\1\0\x60MTrk\0\0\0\2\0\xf1", "0xf1 is not an event"),
        (b"MThd\0\0\0\6\0\0\0\1\0\x60MTrk\0\0\0\4\xff\xff\xff\xff", "more than four bytes"),
    ],
)
def test_damaged_files(content: bytes, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        read_midi(content)
    (tmp_path / "a.mid").write_bytes(content)
    with pytest.raises(ValueError, match=r"a\.mid: damaged MIDI: byte \d+"):
        melodies(tmp_path / "a.mid")


def test_time_is_rounded_to_sixteenths() -> None:
    notes = [Note(5, 118, 60), Note(121, 130, 61), Note(350, 480, 62)]
    found = encode(notes, 480)
    assert found is not None
    assert found.tolist() == [60, 61, REST, 62]


def test_chords_are_not_a_melody() -> None:
    assert encode([Note(0, 480, 60), Note(0, 480, 64)], 480) is None
    legato = encode([Note(100 * i, 100 * i + 110, 60 + i % 5) for i in range(40)], 100)
    assert legato is not None
    assert legato.tolist() == [60 + i // 4 % 5 for i in range(160)]


def fast(length: Fraction, count: int) -> list[Note]:
    """One note after the other, each of ``length`` quarters, at 480 ticks."""
    return [Note(int(480 * length * i), int(480 * length * (i + 1)), 60 + i % 12) for i in range(count)]


@pytest.mark.parametrize("length", [Fraction(1, 8), Fraction(1, 6), Fraction(1, 12), Fraction(1, 16), Fraction(1, 5)])
def test_fast_runs_are_melodies(length: Fraction) -> None:
    notes = fast(length, 60)
    found = encode(notes, 480)
    assert found is not None
    # At each step sounds a note that is there, no further than half a step away.
    for step, pitch in enumerate(found.tolist()):
        near = {note.pitch for note in notes if note.start <= 120 * step + 60 and note.end >= 120 * step - 60}
        assert pitch in near
    # In thirty-seconds the note on the sixteenth is the one that is heard.
    if length == Fraction(1, 8):
        assert found.tolist()[:6] == [60, 62, 64, 66, 68, 70]


def test_tolerance_of_overlapping_notes() -> None:
    single = [Note(480 * i, 480 * i + 480, 60 + i % 2) for i in range(20)]
    # A twentieth of the time, and a tick more.
    assert encode([*single, Note(100, 580, 72)], 480) is not None
    assert encode([*single, Note(100, 581, 72)], 480) is None
    # Legato for half a sixteenth, of quarters and of notes of which it is half; and a tick more.
    for length in (480, 120):
        for over, is_melody in ((60, True), (61, False)):
            notes = [Note(length * i, length * (i + 1) + over, 60 + i % 5) for i in range(40)]
            assert (encode(notes, 480) is not None) is is_melody
    short = [Note(60 * i, 60 * i + 60 + 60, 60 + i % 5) for i in range(40)]
    assert encode(short, 480) is not None
    assert encode([Note(n.start, n.end + 1, n.pitch) for n in short], 480) is None
    # Chords of short notes are chords.
    assert encode([Note(60 * i, 60 * i + 60, pitch) for i in range(40) for pitch in (60, 64)], 480) is None
    assert encode([], 480) is None


def test_order_of_notes_does_not_matter() -> None:
    notes = [Note(0, 130, 60), Note(120, 240, 62), Note(240, 360, 64)]
    assert encode(notes[::-1], 480).tolist() == encode(notes, 480).tolist() == [60, 62, 64]  # pyright: ignore[reportOptionalMemberAccess]


def test_too_long_track_is_reported(tmp_path: Path) -> None:
    (tmp_path / "good.mid").write_bytes(write_midi(decode(tune().tolist()), 4, 120))
    longest = 2**17
    edge = [Note(0, 1, 60), Note(longest - 1, longest, 62)]
    assert encode(edge, 4) is not None
    assert encode([edge[0], Note(longest, longest + 1, 62)], 4) is None
    (tmp_path / "long.mid").write_bytes(write_midi([edge[0], Note(longest, longest + 1, 62)], 4, 120))
    report = "\n".join(open_data(tmp_path).report)
    assert "a track longer than 131,072 steps: 1 (long.mid)" in report
    assert "one note sounds at a time" not in report


def test_damaged_files_share_one_reason(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    content = write_midi(decode(tune().tolist()), 4, 120)
    (tmp_path / "good.mid").write_bytes(content)
    for number in range(12):
        (tmp_path / f"cut{number:02d}.mid").write_bytes(content[: 30 + 7 * number])
    for name in ("none.mid", "nothing.mid"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "secret.mid").write_bytes(content)
    (tmp_path / "short.mid").write_bytes(write_midi(decode(tune(32).tolist()), 4, 120))
    content_of = safe_read.read_bytes

    def refused(path: Path, **limits: int) -> bytes:  # root, who may run the tests, can read everything
        if path.name == "secret.mid":
            raise PermissionError(13, "Permission denied", str(path))
        return content_of(path, **limits)

    monkeypatch.setattr(safe_read, "read_bytes", refused)
    report = open_data(tmp_path).report
    assert "1 melodies of 256 steps from 1 of 17 files" in report[0]
    (damaged,) = [line for line in report if "damaged MIDI" in line]
    assert damaged.startswith("left out: damaged MIDI: 12 (cut00.mid [byte 22: ")
    assert "cut02.mid [byte 22: " in damaged
    assert "left out: empty: 2 (none.mid, nothing.mid)" in report
    assert "left out: cannot be opened: 1 (secret.mid [Permission denied])" in report
    assert "left out: shorter than 256 steps: 1 (short.mid)" in report
    with pytest.raises(ValueError, match=r"none\.mid is empty"):
        melodies(tmp_path / "none.mid")


@pytest.mark.parametrize("rest", [b"\0", b"\0" * 7, b"\x1a" * 100, b"MTrk\xff\xff\xff\xff??"])
def test_bytes_after_the_last_track_are_ignored(rest: bytes) -> None:
    content = write_midi([Note(0, 3, 60), Note(3, 4, 62)], 4, 120)
    assert read_midi(content + rest) == read_midi(content)


def test_the_edges_of_the_filter() -> None:
    many = torch.arange(256) % 20 + 70
    for rests, reason in ((16, None), (17, "rests for more than a bar")):
        for begin in (0, 100, 256 - rests):
            x = many.clone()
            x[begin : begin + rests] = REST
            assert rejection_reason(x) == reason
    # More than 50 rests are no pitch, in bars that are not silent; 51 of one pitch are too many, next to each other
    # or not.
    at = torch.arange(256)
    assert rejection_reason(torch.where(at % 4 == 0, REST, many)) is None
    for count, reason in ((50, None), (51, "has one pitch on too many steps")):
        assert rejection_reason(torch.where((at % 5 == 0) & (at < 5 * count), 60, many)) == reason
    # Two pitches pass, where each has few enough steps, one does not.
    few = torch.full((256,), REST)
    few[::10], few[5::10] = 60, 62
    assert rejection_reason(few) is None
    assert rejection_reason(few.where(few != 62, 60)) == "has only one pitch"


def test_the_filter_of_the_paper() -> None:
    good = tune()
    assert rejection_reason(good) is None
    silent = good.clone()
    silent[20:37] = REST
    assert rejection_reason(silent) == "rests for more than a bar"
    assert rejection_reason(torch.full((256,), 60)) == "has only one pitch"
    assert rejection_reason(torch.where(torch.arange(256) < 51, 60, torch.arange(256) % 20 + 70)) == (
        "has one pitch on too many steps"
    )
    assert rejection_reason(torch.where(torch.arange(256) < 50, 60, torch.arange(256) % 20 + 70)) is None


def test_a_folder(tmp_path: Path) -> None:
    def spans(x: torch.Tensor) -> list[tuple[int, int, int]]:
        return [(i, i + 1, int(p)) for i, p in enumerate(x.tolist()) if p != REST]

    # The last step sounds, so that nothing is cut off.
    long = torch.cat([tune(seed=1), tune(seed=2)])
    long[-1] = long[0] = 70
    folder = tmp_path / "songs" / "more"
    folder.mkdir(parents=True)
    (folder / "a.mid").write_bytes(midi(spans(long)))
    (folder / "again.MIDI").write_bytes(midi(spans(long)))
    (folder / "chord.mid").write_bytes(midi([(0, 64, 60), (0, 64, 64)]))
    (folder / "drums.mid").write_bytes(midi(spans(long), drums=True))
    (folder / "broken.mid").write_bytes(midi(spans(long))[:-20])
    (folder / "short.mid").write_bytes(midi(spans(long[:100])))
    (folder / "words.txt").write_text("la la")
    (folder / ".hidden.mid").write_text("?")
    opened = open_data(tmp_path / "songs")
    assert torch.equal(opened.dataset.x.long(), long.reshape(2, 256))
    assert (opened.form.num_states, opened.form.shape) == (129, (256,))
    report = "\n".join(opened.report)
    assert "2 melodies of 256 steps from 1 of 6 files" in report
    assert "copies of other pieces: 2 (again.MIDI)" in report
    assert "no track in which one note sounds at a time: 2 (chord.mid, drums.mid)" in report
    assert "shorter than 256 steps: 1 (short.mid)" in report
    assert "damaged MIDI: 1 (broken.mid [byte" in report
    assert "1 files of other kinds" in report
    assert len(open_data(tmp_path / "songs", length=64).dataset) == 8
    # The rest at the end of the last bar is part of it.
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "a.mid").write_bytes(midi(spans(long[:250])))
    assert open_data(tmp_path / "one").dataset.x[0].tolist() == long[:250].tolist() + [REST] * 6
    with pytest.raises(ValueError, match="has no melody of 1024 steps"):
        open_data(tmp_path / "songs", length=1024)


def test_time_signatures(tmp_path: Path) -> None:
    def written(name: str, *signatures: tuple[int, int]) -> None:
        score = symusic.Score(480)
        track = symusic.Track(program=0)
        for at, pitch in enumerate(tune(seed=len(name)).tolist()):
            if pitch != REST:
                track.notes.append(symusic.Note(120 * at, 120, pitch, 80))
        for number, (above, below) in enumerate(signatures):
            score.time_signatures.append(symusic.TimeSignature(1920 * number, above, below))
        score.tracks.append(track)
        (tmp_path / name).write_bytes(score.dumps_midi())

    written("common.mid", (4, 4))
    written("march.mid", (2, 4), (2, 2))
    written("waltz.mid", (3, 4))
    written("changing.mid", (4, 4), (6, 8))
    opened = open_data(tmp_path)
    report = "\n".join(opened.report)
    assert "2 melodies of 256 steps from 2 of 4 files" in report
    assert "in 3/4, where four quarters are not whole bars: 1 (waltz.mid)" in report
    assert "in 6/8, where four quarters are not whole bars: 1 (changing.mid)" in report


def test_permuted_states_are_saved_with_a_model(tmp_path: Path) -> None:
    form, x = MusicFormat.scrambled(32, seed=1), tune(32)[None]
    states = form.states(x)
    assert format_from_config(form.config()) == form
    assert format_from_config({"kind": "midi", "steps": 32}) == MusicFormat(32)  # saved before there was an order
    form.write(states, tmp_path)
    read = MusicFormat(32).read(tmp_path / "samples-000000.mid").x[0].long()
    assert torch.equal(read, x[0][: len(read)])
    assert torch.equal(form.read(tmp_path / "samples-000000.mid").x[0].long(), states[0])


def test_steps_after_the_end_are_missing(tmp_path: Path) -> None:
    (tmp_path / "a.mid").write_bytes(midi([(0, 4, 60), (4, 8, 62)]))
    read = MusicFormat(16).read(tmp_path / "a.mid")
    assert read.x[0, :8].tolist() == [60] * 4 + [62] * 4
    assert read.missing is not None
    assert read.missing[0].tolist() == [False] * 8 + [True] * 8


def test_unreadable_files_of_a_folder_are_skipped(tmp_path: Path) -> None:
    (tmp_path / "a.mid").write_bytes(midi([(0, 4, 60), (4, 8, 62)]))
    (tmp_path / "broken.mid").write_bytes(midi([(0, 4, 60)])[:-9])
    (tmp_path / "chord.mid").write_bytes(midi([(0, 64, 60), (0, 64, 64)]))
    data, report = MusicFormat(16).read_with_report(tmp_path)
    assert data.x[:, :8].tolist() == [[60] * 4 + [62] * 4]
    assert "left out: no track in which one note sounds at a time: 1 (chord.mid)" in report
    assert any("damaged MIDI" in line and "(broken.mid)" in line for line in report)
    with pytest.warns(UserWarning, match="left out"):
        assert torch.equal(MusicFormat(16).read(tmp_path).x, data.x)
    (tmp_path / "a.mid").unlink()
    with pytest.raises(ValueError, match=r"has no file with a melody .*chord\.mid"):
        MusicFormat(16).read(tmp_path)
    with pytest.raises(ValueError, match=r"chord\.mid: no track in which one note sounds"):
        MusicFormat(16).read(tmp_path / "chord.mid")
    with pytest.raises(ValueError, match=r"broken\.mid: damaged MIDI"):
        MusicFormat(16).read(tmp_path / "broken.mid")


def test_choice_of_the_part_is_reported(tmp_path: Path) -> None:
    score = symusic.Score.from_midi(midi([(0, 64, 60), (0, 64, 64)], [(35, 39, 60), (40, 44, 62)], [(0, 4, 71)]))
    score.time_signatures.append(symusic.TimeSignature(0, 3, 4))
    (tmp_path / "a.mid").write_bytes(score.dumps_midi())
    data, report = MusicFormat(16).read_with_report(tmp_path / "a.mid")
    assert data.x[0, :8].tolist() == [REST] * 3 + [60] * 4 + [REST]
    assert report == [
        "part 2 of 3 is used, the first in which one note sounds at a time: 1 (a.mid)",
        "the bars before its first note are left out: 1 (a.mid)",
        "in 3/4, but read in bars of four quarters: 1 (a.mid)",
    ]
    (tmp_path / "b.mid").write_bytes(midi([(15, 20, 60)]))
    assert MusicFormat(16).read_with_report(tmp_path / "b.mid")[1] == []


def test_preview() -> None:
    x = torch.tensor([[60, 60, REST, 61, 127, 0]])
    assert MusicFormat(6).preview(x, 1) == "C4:2 .:1 C#4:1 G9:1 C-1:1"


def test_wav_file_is_complete(tmp_path: Path) -> None:
    written = MusicFormat(16).write(torch.full((1, 16), 69), tmp_path)
    with wave.open(io.BytesIO(written[1].read_bytes())) as file:
        assert file.getnframes() > 0
