"""The tunes in the package music21."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data.music import tunes
from tauleap.data.music.melody import REST, encode
from tauleap.data.music.midi import Note
from tauleap.data.music.pieces import rejection_reason
from tauleap.recipes.music import music

TUNE = """X:1
T:A scale, twice
M:4/4
L:1/8
K:G
GABc defg | gfed cBAG :|
|: GABc defg | gfed cBAG :|
"""
BROKEN = "X:1\nK:\nthis is no tune %% ((( [[["


def folder_of(tmp_path: Path, **files: str) -> Path:
    (tmp_path / "corpus" / "ryansMammoth").mkdir(parents=True)
    for name, content in files.items():
        (tmp_path / "corpus" / "ryansMammoth" / f"{name}.abc").write_text(content)
    return tmp_path / "corpus"


def test_notes_repeats_and_unreadable_tunes(tmp_path: Path) -> None:
    found = dict(tunes.read_tunes(folder_of(tmp_path, scale=TUNE, broken=BROKEN)))
    scale = [67, 69, 71, 72, 74, 76, 78, 79]
    pitches = (scale + scale[::-1]) * 4
    assert found["scale"] is not None
    assert found["scale"].signatures == [(4, 4)]
    (notes,) = found["scale"].parts
    assert notes == [Note(240 * i, 240 * i + 240, pitch) for i, pitch in enumerate(pitches)]
    assert found["broken"] is None


def test_upbeat_and_chord_symbols(tmp_path: Path) -> None:
    upbeat = 'X:1\nM:4/4\nL:1/8\nK:C\n"G7"GA|"C"c2 d2 e2 f2|"G"g8|\n'
    ((_, found),) = tunes.read_tunes(folder_of(tmp_path, upbeat=upbeat))
    assert found is not None
    melody = encode(found.parts[0], found.ticks_per_quarter)
    assert melody is not None
    assert melody.tolist() == [
        *[REST] * 12, 67, 67, 69, 69,
        *[72] * 4, *[74] * 4, *[76] * 4, *[77] * 4,
        *[79] * 16,
    ]  # fmt: skip


def test_incompatible_meters_are_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def reel(meter: str, bar: int, seed: int) -> str:
        names = np.random.default_rng(seed).choice(np.array(list("CDEFGABcdefgab")), (192 // bar, bar))
        return f"X:1\nM:{meter}\nL:1/8\nK:C\n{'|'.join(map(''.join, names))}|\n"

    corpus = folder_of(
        tmp_path,
        reel=reel("C|", 8, 0),
        march=reel("2/4", 4, 1),
        jig=reel("6/8", 6, 2),
        waltz=reel("3/4", 6, 3),
    )
    monkeypatch.setattr(tunes, "_corpus", lambda: corpus)
    (tmp_path / "cache").mkdir()
    version = tunes.importlib.metadata.version("music21")
    np.savez(tmp_path / "cache" / f"tunes-{version}.npz", x=np.zeros((1, 256), dtype=np.uint8), report=np.array("[]"))
    opened = tunes.open_tunes(cache=tmp_path / "cache")  # a cache without files of earlier versions
    assert "2 melodies of 256 steps from 2 of 4 tunes" in opened.report[0]
    report = "\n".join(opened.report)
    assert "in 3/4, where four quarters are not whole bars: 1 (waltz)" in report
    assert "in 6/8, where four quarters are not whole bars: 1 (jig)" in report


def test_damaged_cache_is_read_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0).choice(np.array(list("CDEFGABcdefgab")), (16, 8))
    corpus = folder_of(tmp_path, tune=f"X:1\nM:4/4\nL:1/8\nK:C\n{'|'.join(map(''.join, draw))}|\n")
    monkeypatch.setattr(tunes, "_corpus", lambda: corpus)
    opened = tunes.open_tunes(cache=tmp_path)
    (cached,) = tmp_path.glob("tunes-*.npz")
    content = cached.read_bytes()
    for damaged in (content[:-30], b"", b"PK", content[:100] + b"?" * 50 + content[150:]):
        cached.write_bytes(damaged)
        assert torch.equal(tunes.open_tunes(cache=tmp_path).dataset.x, opened.dataset.x)


def test_tunes_are_cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    names = np.array(list("CDEFGABcdefgab"))
    long = {f"tune{number}": f"X:1\nM:4/4\nL:1/8\nK:C\n{''.join(draw.choice(names, 128))}|\n" for number in range(12)}
    corpus = folder_of(tmp_path, **long, short=TUNE)
    monkeypatch.setattr(tunes, "_corpus", lambda: corpus)
    opened = tunes.open_tunes(cache=tmp_path / "cache")
    assert opened.dataset.shape == (256,)
    assert len(opened.dataset) == 12
    assert all(rejection_reason(row) is None for row in opened.dataset.x)
    assert "12 melodies of 256 steps from 12 of 13 tunes" in opened.report[0]
    assert any("shorter than 256 steps: 1 (short)" in line for line in opened.report)
    monkeypatch.setattr(tunes, "read_tunes", lambda corpus: pytest.fail("the cache was not used"))
    again = tunes.open_tunes(cache=tmp_path / "cache")
    assert torch.equal(again.dataset.x, opened.dataset.x)
    assert again.report == opened.report
    # The recipe takes them from the user's cache.
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    (tmp_path / "cache").rename(tmp_path / "tauleap")
    train, held_out = music().data()
    assert held_out is not None
    assert len(held_out) >= 1
    assert len(train) == 12 * (12 - len(held_out))


def test_without_music21(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tunes.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"pip install 'tauleap\[music\]'"):
        tunes.open_tunes()
