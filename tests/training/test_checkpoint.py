"""Checkpoints are whole or not there, and damage is found."""

import json
import random
from pathlib import Path

import pytest

from tauleap.pretrained.runs import latest_checkpoint
from tauleap.training.checkpoint import Checkpoints

FILES = {"config.json": b'{"a": 1}\n', "state.pt": bytes(range(256)) * 20}


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    made = Checkpoints(tmp_path, keep=3)
    for step in (10, 20):
        made.write(step, FILES)
    return made


def test_the_last_ones_are_kept(checkpoints: Checkpoints, tmp_path: Path) -> None:
    for step in (30, 40):
        checkpoints.write(step, FILES)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "latest",
        "step-00000020",
        "step-00000030",
        "step-00000040",
    ]
    assert (tmp_path / "latest").resolve().name == "step-00000040"
    newest = checkpoints.newest(pytest.fail)
    assert newest is not None
    assert newest.step == 40
    assert {name: newest.read(name) for name in FILES} == FILES


def test_none_yet(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=1)
    assert checkpoints.newest(pytest.fail) is None
    assert checkpoints.last_good() == "there is no checkpoint yet"


def test_at_least_one_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="keep must be >= 1, got 0"):
        Checkpoints(tmp_path, keep=0)


@pytest.mark.parametrize("name", ["config.json", "state.pt", "manifest.json"])
@pytest.mark.parametrize("damage", ["truncate", "empty", "flip", "remove"])
def test_damage_is_found_and_said(checkpoints: Checkpoints, tmp_path: Path, name: str, damage: str) -> None:
    path = tmp_path / "step-00000020" / name
    content = bytearray(path.read_bytes())
    if damage == "remove":
        path.unlink()
    elif damage == "flip":
        content[random.Random(name).randrange(len(content))] ^= 4
        path.write_bytes(content)
    else:
        path.write_bytes(content[: len(content) // 2] if damage == "truncate" else b"")
    said: list[str] = []
    newest = checkpoints.newest(said.append)
    assert newest is not None
    assert newest.step == 10
    assert (tmp_path / "latest").resolve().name == "step-00000010"
    assert "step-00000020 is damaged" in said[0]
    assert name in said[0]
    assert "step-00000010" in said[1]
    # It is kept aside, does not count any more, and its step can be written again.
    assert (tmp_path / "damaged-step-00000020").is_dir()
    assert checkpoints.newest(pytest.fail) == newest
    checkpoints.write(20, FILES)
    again = checkpoints.newest(pytest.fail)
    assert again is not None
    assert again.step == 20


def test_a_link_to_itself_is_replaced(checkpoints: Checkpoints, tmp_path: Path) -> None:
    (tmp_path / "latest").unlink()
    (tmp_path / "latest").symlink_to("latest")
    assert latest_checkpoint(tmp_path) == tmp_path / "step-00000020"
    newest = checkpoints.newest(pytest.fail)
    assert newest is not None
    assert newest.step == 20
    assert (tmp_path / "latest").resolve().name == "step-00000020"


def test_no_bit_of_a_manifest_can_flip_unseen(checkpoints: Checkpoints, tmp_path: Path) -> None:
    path = tmp_path / "step-00000020" / "manifest.json"
    content = path.read_bytes()
    expected = json.loads(content)
    for at in range(0, len(content), 7):
        flipped = bytearray(content)
        flipped[at] ^= 1
        path.write_bytes(flipped)
        try:
            harmless = json.loads(flipped) == expected  # white space
        except ValueError:
            harmless = False
        newest = checkpoints.newest(lambda _: None)
        assert newest is not None
        assert newest.step == (20 if harmless else 10), at
        if not harmless:
            (tmp_path / "damaged-step-00000020").rename(tmp_path / "step-00000020")


def test_all_damaged(checkpoints: Checkpoints, tmp_path: Path) -> None:
    for folder in tmp_path.glob("step-*"):
        (folder / "state.pt").write_bytes(b"")
    before = sorted(path.name for path in tmp_path.iterdir())
    for _ in range(2):
        with pytest.raises(ValueError, match=r"every checkpoint .* is damaged"):
            checkpoints.newest(pytest.fail)
        assert sorted(path.name for path in tmp_path.iterdir()) == before


def test_a_later_format_is_not_damage(checkpoints: Checkpoints, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tauleap._files.manifest.FORMAT", 2)
    with pytest.raises(ValueError, match=r"has format 1, this version of tauleap \(\S+\) reads 2: install the version"):
        checkpoints.newest(pytest.fail)


def test_an_error_while_writing_leaves_the_rest(checkpoints: Checkpoints, tmp_path: Path) -> None:
    before = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(TypeError):
        checkpoints.write(30, FILES | {"wrong": "text"})  # pyright: ignore[reportArgumentType]
    assert sorted(path.name for path in tmp_path.iterdir()) == before
    newest = checkpoints.newest(pytest.fail)
    assert newest is not None
    assert newest.step == 20
