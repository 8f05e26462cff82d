"""Piano rolls of the Lakh pianoroll dataset, as pypianoroll writes them."""

import io
import json
import zipfile
from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pypianoroll
import pytest
import torch

from tauleap.data import open_data
from tauleap.data.music.format import melodies
from tauleap.data.music.melody import REST
from tauleap.data.music.midi import Note
from tauleap.data.music.pianoroll import read_pianoroll


def tune(steps: int, seed: int) -> np.ndarray:
    draw = np.random.default_rng(seed)
    notes = draw.integers(50, 80, steps // 2)
    notes[3::7] = REST
    return notes.repeat(2)


def roll(melody: np.ndarray, resolution: int) -> np.ndarray:
    """(times, 128): velocity 90 where a pitch sounds, a quarter of ``resolution`` times for each step."""
    frames = melody.repeat(resolution // 4)
    out = np.zeros((len(frames), 128), dtype=np.uint8)
    at = np.flatnonzero(frames != REST)
    out[at, frames[at]] = 90
    return out


def saved(path: Path, *tracks: np.ndarray, resolution: int = 24, drums: bool = False) -> Path:
    kinds = [pypianoroll.StandardTrack(pianoroll=track, is_drum=drums) for track in tracks]
    pypianoroll.Multitrack(name="song", resolution=resolution, tracks=kinds).save(str(path))
    return path


@pytest.mark.parametrize("resolution", [4, 24])
def test_melodies_are_read_back(resolution: int, tmp_path: Path) -> None:
    melody = tune(256, 0)
    chords = roll(melody, resolution).copy()
    chords[:, 40] = 90
    path = saved(tmp_path / "a.npz", roll(melody, resolution), chords, resolution=resolution)
    (found,) = melodies(path)
    assert found.tolist() == melody[: len(found)].tolist()
    assert (melody[len(found) :] == REST).all()


def test_notes_and_drums(tmp_path: Path) -> None:
    melody = np.array([60, 60, REST, 60, 62, 62, 62, 62])
    content = saved(tmp_path / "a.npz", roll(melody, 4), resolution=4).read_bytes()
    assert read_pianoroll(content).parts == [[Note(0, 2, 60), Note(3, 4, 60), Note(4, 8, 62)]]
    assert read_pianoroll(content).ticks_per_quarter == 4
    content = saved(tmp_path / "b.npz", roll(melody, 4), resolution=4, drums=True).read_bytes()
    assert read_pianoroll(content).parts == []


def test_folder_of_pianorolls(tmp_path: Path) -> None:
    folder = tmp_path / "lpd" / "A" / "B"
    folder.mkdir(parents=True)
    long = np.concatenate([tune(256, 1), tune(256, 2)])
    long[-1] = long[0] = 70
    saved(folder / "a.npz", roll(long, 24))
    saved(folder / "again.npz", roll(long, 24))
    (folder / "broken.npz").write_bytes((folder / "a.npz").read_bytes()[:300])
    np.savez(folder / "other.npz", x=np.zeros(3))
    opened = open_data(tmp_path / "lpd")
    assert torch.equal(opened.dataset.x.long(), torch.from_numpy(long.reshape(2, 256)))
    report = "\n".join(opened.report)
    assert "2 melodies of 256 steps from 1 of 4 files" in report
    assert "copies of other pieces: 2 (again.npz)" in report
    assert "unreadable pianoroll: 2 (broken.npz [it is damaged or not an .npz" in report
    assert "other.npz [it has no info.json, so it is not a pianoroll])" in report


@pytest.mark.parametrize(
    ("begins", "whole"),
    [
        (range(0, 1024, 16), True),
        (range(0, 1024, 8), True),  # 2/4
        ([0], True),  # nothing is said
        ([], True),
        (range(0, 1024, 12), False),  # 3/4
        ([0, 4, *range(20, 1024, 16)], False),  # an upbeat
        ([*range(0, 513, 16), *range(524, 1024, 12)], False),
        (range(0, 1024, 32), False),
    ],
)
@pytest.mark.parametrize("axes", [1, 2])
def test_bars_must_be_of_four_quarters(begins: Iterable[int], whole: bool, axes: int, tmp_path: Path) -> None:
    marks = np.zeros(1024, dtype=bool)
    marks[list(begins)] = True
    path = saved(tmp_path / "a.npz", roll(tune(256, 1), 4), resolution=4)
    with zipfile.ZipFile(path, "a") as archive, archive.open("downbeat.npy", "w") as file:
        np.lib.format.write_array(file, marks if axes == 1 else marks[:, None])
    assert read_pianoroll(path.read_bytes()).whole_bars is whole
    if whole:
        assert len(open_data(tmp_path).dataset) == 1
    else:
        with pytest.raises(ValueError, match=r"bars do not begin every four quarters: 1 \(a\.npz\)"):
            open_data(tmp_path)


def changed(content: bytes, **arrays: object) -> bytes:
    """The same file with other arrays, or another info.json."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for name in old.namelist():
            key = name.removesuffix(".npy").removeprefix("pianoroll_0_csc_").replace(".", "_")
            if key not in arrays:
                new.writestr(name, old.read(name))
            elif arrays[key] is not None:
                data = io.BytesIO()
                value = arrays[key]
                if name.endswith(".npy"):
                    np.save(data, np.asarray(value), allow_pickle=True)
                new.writestr(name, data.getvalue() if name.endswith(".npy") else json.dumps(value))
    return out.getvalue()


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"indices": [0, 10**6, 3]}, "entries outside"),
        ({"indices": [0.5]}, "must hold whole numbers"),
        ({"indptr": [0, 1]}, "not a matrix of time steps"),
        ({"shape": [8, 12]}, "not a matrix of time steps"),
        ({"shape": None}, "track 0 has no shape"),
        ({"data": np.array([{}], dtype=object)}, "must hold whole numbers, got object"),
        ({"info_json": {"0": {}}}, "time steps per quarter note"),
        ({"info_json": [1]}, "time steps per quarter note"),
    ],
)
def test_damaged_pianorolls_raise(arrays: dict[str, object], message: str, tmp_path: Path) -> None:
    content = saved(tmp_path / "a.npz", roll(np.array([60, 61, 62, 63]), 4), resolution=4).read_bytes()
    with pytest.raises(ValueError, match=message):
        read_pianoroll(changed(content, **arrays))


def rebuilt(content: bytes, name: str, entry: bytes) -> bytes:
    """The same file with other bytes in one entry, and right checksums."""
    out = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(content)) as old, zipfile.ZipFile(out, "w") as new:
        for each in old.namelist():
            new.writestr(each, entry if each == name else old.read(each))
    return out.getvalue()


def headed(shape: str) -> bytes:
    """Return an array file with this shape in its header, and a few bytes after it."""
    header = f"{{'descr': '<i4', 'fortran_order': False, 'shape': {shape}, }}\n".encode()
    return b"\x93NUMPY\1\0" + len(header).to_bytes(2, "little") + header + bytes(16)


@pytest.mark.parametrize(
    "entry",
    [
        headed("(4,)").replace(b"}", b" "),
        headed("(10000000000000,)"),
        headed("(10000000000000000000000000,)"),
        headed("(-4,)"),
        headed("(" * 300),
        headed("(5,)"),
        b"",
        b"no array",
    ],
)
def test_forged_array_skips_only_its_file(entry: bytes, tmp_path: Path) -> None:
    content = saved(tmp_path / "good.npz", roll(tune(256, 1), 4), resolution=4).read_bytes()
    for array in ("data", "indices", "indptr", "shape"):
        damaged = rebuilt(content, f"pianoroll_0_csc_{array}.npy", entry)
        with pytest.raises(ValueError, match=f"pianoroll_0_csc_{array}"):
            read_pianoroll(damaged)
        (tmp_path / f"{array}.npz").write_bytes(damaged)
    assert len(open_data(tmp_path).dataset) == 1


@pytest.mark.parametrize("method", [1, 8, 9, 12, 14, 93, 99])
def test_another_compression_method_is_an_error(method: int, tmp_path: Path) -> None:
    content = bytearray(saved(tmp_path / "a.npz", roll(tune(64, 3), 4), resolution=4).read_bytes())
    content = bytearray(rebuilt(bytes(content), "", b""))  # stored
    for mark, at in ((b"PK\3\4", 8), (b"PK\1\2", 10)):
        place = content.index(mark)
        content[place + at : place + at + 2] = method.to_bytes(2, "little")
    with pytest.raises(ValueError, match="damaged or not an"):
        read_pianoroll(bytes(content))


def test_arrays_changed_at_random_are_an_error_or_notes(tmp_path: Path) -> None:
    content = saved(tmp_path / "a.npz", roll(tune(64, 3), 4), resolution=4).read_bytes()
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    draw = np.random.default_rng(1)
    refused = 0
    for _ in range(300):
        name = str(draw.choice(list(entries)))
        damaged = bytearray(entries[name])
        for at in draw.integers(0, min(len(damaged), 200), draw.integers(1, 4)):
            damaged[at] = draw.integers(256) if draw.random() < 0.5 else draw.choice(list(b"0123456789,(){}' "))
        try:
            read_pianoroll(rebuilt(content, name, bytes(damaged)))
        except ValueError:
            refused += 1
    assert refused > 100


def test_a_track_without_a_note(tmp_path: Path) -> None:
    silent = np.zeros((16, 128), dtype=np.uint8)
    content = saved(tmp_path / "a.npz", silent, roll(np.array([60, 62]), 4), resolution=4).read_bytes()
    assert read_pianoroll(content).parts == [[Note(0, 1, 60), Note(1, 2, 62)]]


def test_bytes_changed_at_random_are_an_error_or_notes(tmp_path: Path) -> None:
    content = saved(tmp_path / "a.npz", roll(tune(64, 3), 4), resolution=4).read_bytes()
    draw = np.random.default_rng(0)
    refused = 0
    for _ in range(200):
        damaged = bytearray(content)
        for at in draw.integers(0, len(content), draw.integers(1, 5)):
            damaged[at] = draw.integers(256)
        try:
            read_pianoroll(bytes(damaged))
        except ValueError:
            refused += 1
    assert refused > 0
