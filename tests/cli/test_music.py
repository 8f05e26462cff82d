"""Melodies that are continued, by the commands that a user types."""

import json
from collections.abc import Callable
from pathlib import Path

import PIL.Image
import pytest
import torch

import tauleap as tl
from tauleap import cli
from tauleap.cli.run.demo_music import play
from tauleap.data.music.format import MusicFormat
from tauleap.data.music.midi import Note, write_midi
from tauleap.data.music.ode_to_joy import ode_to_joy
from tauleap.evaluate.rolls import draw_rolls
from tauleap.recipes.music import absorbing_noise, quick_network


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An untrained one, of the shape that the package ships."""
    torch.manual_seed(0)
    denoiser = tl.denoise.NetworkDenoiser(quick_network())
    form = MusicFormat()
    return tl.Model(absorbing_noise(), denoiser, shape=form.shape, form=form).save(
        tmp_path_factory.mktemp("model") / "music"
    )


def test_the_opening_is_played_on(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    command = ["complete", str(model), "--variants", "2", "--steps", "3", "--out", str(out), "--json"]
    assert cli.main(command) == 0
    files = [Path(name) for name in json.loads(capsys.readouterr().out)["files"]]
    assert [path.name for path in files] == [
        *("completed-1-000000.mid", "completed-1-000000.wav", "completed-2-000000.mid", "completed-2-000000.wav"),
        "rolls.png",
    ]
    first, second = (MusicFormat().read(files[at]).x[0] for at in (0, 2))
    assert torch.equal(first[:32], ode_to_joy())
    assert torch.equal(second[:32], ode_to_joy())
    assert not torch.equal(first, second)
    with PIL.Image.open(files[-1]) as picture:
        assert min(picture.size) > 100


def test_a_file_is_played_on(model: Path, tmp_path: Path) -> None:
    (tmp_path / "mine.mid").write_bytes(write_midi([Note(2 * i, 2 * i + 2, 60 + i % 5) for i in range(24)], 4, 120))
    command = ["complete", str(model), str(tmp_path / "mine.mid"), "--steps", "3", "--out", str(tmp_path / "out")]
    assert cli.main(command) == 0
    assert (tmp_path / "out" / "rolls.png").is_file()
    played = MusicFormat().read(tmp_path / "out" / "completed-000000.mid").x[0]
    assert played[:48].tolist() == [60 + i // 2 % 5 for i in range(48)]


def test_a_whole_song_says_what_to_write(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    notes = [Note(2 * i, 2 * i + 2, 60 + i % 5) for i in range(128)]
    (tmp_path / "whole.mid").write_bytes(write_midi(notes, 4, 120))
    command = ["complete", str(model), str(tmp_path / "whole.mid"), "--steps", "3", "--out", str(tmp_path / "out")]
    assert cli.main(command) == 2
    said = capsys.readouterr().err
    assert "--observed 0:32" in said
    assert "cells" not in said
    assert cli.main([*command, "--observed", "0:32"]) == 0
    played = MusicFormat().read(tmp_path / "out" / "completed-000000.mid").x[0]
    assert played[:32].tolist() == [60 + i // 2 % 5 for i in range(32)]


def test_a_folder_with_a_broken_file(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    songs = tmp_path / "songs"
    songs.mkdir()
    notes = [Note(16 + 2 * i, 18 + 2 * i, 60 + i % 5) for i in range(24)]
    (songs / "mine.mid").write_bytes(write_midi(notes, 4, 120))
    (songs / "broken.mid").write_bytes(b"MThd")
    assert cli.main(["complete", str(model), str(songs), "--steps", "2", "--out", str(tmp_path / "out")]) == 0
    said = capsys.readouterr().out
    assert "the bars before its first note are left out: 1 (mine.mid)" in said
    assert "left out: damaged MIDI" in said
    assert cli.main(["evaluate", str(model), str(songs), "--samples", "1", "--json"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert facts["rows"] == 1
    assert any("broken.mid" in line for line in facts["read"])


def test_other_models_need_a_file(
    run_of: Callable[[str], tuple[Path, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    capsys.readouterr()
    assert cli.main(["complete", str(run_of("text")[0]), "--out", "nowhere"]) == 2
    assert "a file to complete is missing" in capsys.readouterr().err
    assert not Path("nowhere").exists()
    assert cli.main(["complete", str(run_of("text")[0]), "a.txt", "b.txt"]) == 2
    assert "expected one file, got 2" in capsys.readouterr().err


def test_the_demo(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    play(tmp_path, steps=3, seed=0, as_json=True, model=tl.load(model))
    facts = json.loads(capsys.readouterr().out)
    assert all(Path(name).is_file() for name in facts["files"])
    played, *_, filled, free = (torch.tensor(melody) for melody in facts["melodies"])
    assert torch.equal(played[:32], ode_to_joy().long())
    assert torch.equal(filled[:96], played[:96])
    assert torch.equal(filled[160:], played[160:])
    assert not torch.equal(filled, played)
    assert not torch.equal(free[:32], played[:32])


def test_rolls() -> None:
    melodies = torch.tensor([[60, 60, 128, 62], [128, 128, 128, 128]])
    figure = draw_rolls(melodies, ["one", "two"], given=torch.tensor([[True, True, False, False], [False] * 4]))
    first, second = figure.axes
    corners = [path.get_extents().bounds for path in first.collections[0].get_paths()]
    assert [(x, width, y + height / 2) for x, y, width, height in corners] == [(0.0, 2.0, 60.0), (3.0, 1.0, 62.0)]
    assert [line.get_xdata()[0] for line in first.lines if line.get_color() == "black"] == [2]
    assert not second.collections[0].get_paths()
    with pytest.raises(ValueError, match="every melody needs a title"):
        draw_rolls(melodies, ["one"])
