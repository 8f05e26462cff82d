"""The tunes that come with music21, read by it."""

from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data import tunes
from tauleap.data.midi import Note
from tauleap.data.music import why_dull
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


def test_notes_repeats_and_what_cannot_be_read(tmp_path: Path) -> None:
    found = dict(tunes.read_tunes(folder_of(tmp_path, scale=TUNE, broken=BROKEN)))
    scale = [67, 69, 71, 72, 74, 76, 78, 79]
    pitches = (scale + scale[::-1]) * 4
    assert found["scale"] == [Note(240 * i, 240 * i + 240, pitch) for i, pitch in enumerate(pitches)]
    assert found["broken"] is None


def test_tunes_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    draw = np.random.default_rng(0)
    names = np.array(list("CDEFGABcdefgab"))
    long = {f"tune{number}": f"X:1\nM:4/4\nL:1/8\nK:C\n{''.join(draw.choice(names, 128))}|\n" for number in range(12)}
    corpus = folder_of(tmp_path, **long, short=TUNE)
    monkeypatch.setattr(tunes, "_corpus", lambda: corpus)
    opened = tunes.open_tunes(cache=tmp_path / "cache")
    assert opened.dataset.shape == (256,)
    assert len(opened.dataset) == 12
    assert all(why_dull(row) is None for row in opened.dataset.x)
    assert "12 melodies of 256 steps from 13 tunes" in opened.report[0]
    assert any("shorter than 256 steps: 1 (short)" in line for line in opened.report)
    monkeypatch.setattr(tunes, "read_tunes", lambda corpus: pytest.fail("they were kept"))
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
