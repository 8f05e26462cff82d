"""Small models of each kind of data, made once by the real command."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from tauleap import cli
from tauleap.data.music.midi import Note, write_midi

STEPS = 3


def table(folder: Path) -> Path:
    draw = np.random.default_rng(0)
    rows = draw.integers(0, 2, 60)
    lines = [f"{'xy'[i]},{'pqr'[(i + draw.integers(0, 2)) % 3]},{draw.integers(0, 9)}" for i in rows]
    lines[3], lines[7] = ",p,", "x,,3"
    (folder / "t.csv").write_text("one,two,three\n" + "\n".join(lines) + "\n")
    return folder / "t.csv"


def text(folder: Path) -> Path:
    (folder / "t.txt").write_text("the quick brown fox jumps over the lazy dog. " * 40)
    return folder / "t.txt"


def array(folder: Path) -> Path:
    np.save(folder / "t.npy", np.random.default_rng(0).integers(3, 8, (50, 2, 3)))
    return folder / "t.npy"


def music(folder: Path) -> Path:
    (folder / "songs").mkdir()
    draw = np.random.default_rng(0)
    for song in range(4):
        notes = [Note(2 * i, 2 * i + 2, int(p)) for i, p in enumerate(draw.integers(60, 72, 40))]
        (folder / "songs" / f"{song}.mid").write_bytes(write_midi(notes, 4, 120))
    return folder / "songs"


def pictures(folder: Path) -> Path:
    (folder / "pictures").mkdir()
    draw = np.random.default_rng(0)
    for number in range(6):
        PIL.Image.fromarray(draw.integers(0, 256, (4, 4)).astype(np.uint8)).save(folder / "pictures" / f"{number}.png")
    return folder / "pictures"


MAKERS: dict[str, tuple[Callable[[Path], Path], list[str]]] = {
    "table": (table, []),
    "text": (text, ["--length", "8"]),
    "array": (array, []),
    "midi": (music, ["--length", "16"]),
    "images": (pictures, []),
}


@pytest.fixture(scope="session")
def run_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], tuple[Path, Path]]:
    """Of a kind: the folder of a run of a few steps, and the data."""
    made: dict[str, tuple[Path, Path]] = {}

    def run(kind: str) -> tuple[Path, Path]:
        if kind not in made:
            make, more = MAKERS[kind]
            folder = tmp_path_factory.mktemp(kind)
            data = make(folder)
            threads = torch.get_num_threads()
            torch.set_num_threads(1)
            assert cli.main(["train", str(data), "--out", str(folder / "run"), "--steps", str(STEPS), *more]) == 0
            torch.set_num_threads(threads)
            made[kind] = folder / "run", data
        return made[kind]

    return run
