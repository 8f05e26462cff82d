"""``tauleap demo``: everything it promises is in its folder, and the numbers are those of what is there."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

import tauleap as tl
from tauleap import cli
from tauleap.cli import toy_demo
from tauleap.data import tau_pmf
from tauleap.evaluate import hellinger, hellinger_of_laws, pushed

TINY = toy_demo.Size(steps=3, leaps=(4, 6), ancestral=(4,), draws=40, rows=8, processes=0, frames=3)


@pytest.fixture(autouse=True)
def tiny(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(toy_demo, "QUICK", TINY)
    monkeypatch.setattr("tauleap.recipes.toy._ROWS", 2000, raising=False)
    before = pushed.TOLERANCE
    yield
    pushed.TOLERANCE = before


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("demo") / "a" / "b"


@pytest.fixture
def shown(folder: Path, capsys: pytest.CaptureFixture[str]) -> str:
    assert cli.main(["demo", "--quick", "--out", str(folder)]) == 0
    return capsys.readouterr().out


def test_the_demo_writes_what_it_says(shown: str, folder: Path) -> None:
    assert sorted(path.name for path in folder.iterdir()) == [
        *("figure.png", "metrics.json", "model", "reverse.gif", "samples.npz")
    ]
    for path in folder.iterdir():
        assert str(path) in shown
    with Image.open(folder / "figure.png") as figure, Image.open(folder / "reverse.gif") as film:
        figure.load()
        assert getattr(film, "n_frames", 1) == TINY.frames + 1
    assert (folder / "reverse.gif").stat().st_size < 1_000_000
    metrics = json.loads((folder / "metrics.json").read_bytes())
    data, exact = tau_pmf(), toy_demo.exact_reverse()
    model = tl.load(folder / "model").reverse.double()
    grid = tl.sampling.uniform_grid(5)
    (entry,) = (e for e in metrics["samplers"] if (e["sampler"], e["evaluations"]) == ("tau-leaping", 6))
    with torch.no_grad():
        for reverse, key in ((model, "hellinger"), (exact, "hellinger_exact_denoiser")):
            law = pushed.generated(tl.sampling.TauLeaping("add"), reverse, 2, grid)
            assert entry[key] == pytest.approx(hellinger_of_laws(law, data), rel=1e-9)
    assert f"{entry['hellinger']:.4f}" in shown
    drawn = np.load(folder / "samples.npz")["tau_leaping"]
    found = hellinger(torch.from_numpy(drawn).long(), data)
    assert metrics["drawn"]["tau-leaping"] == {"n": 40, "hellinger": found.value, "stderr": found.stderr}
    bits = metrics["bits_per_dim"]
    # What the exact denoiser cannot get below, and what it gets: the reconstruction adds a little.
    assert (
        bits["entropy"] < bits["entropy"] + bits["prior"] < bits["exact_denoiser"] + 4 * bits["exact_denoiser_stderr"]
    )
    assert bits["difference"] == pytest.approx(bits["trained"] - bits["exact_denoiser"])


def test_the_demo_for_scripts_is_one_object(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--quick", "--out", str(tmp_path / "out"), "--json", "--seed", "3"]) == 0
    facts = json.loads(capsys.readouterr().out)
    assert all(Path(file).exists() for file in facts["files"])
    assert facts["metrics"]["seed"] == 3


@pytest.mark.parametrize("seed", ["-1", str(2**63)])
def test_the_demo_refuses_a_seed(seed: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--out", str(tmp_path / "out"), "--seed", seed]) == 2
    assert capsys.readouterr().err.startswith("tauleap: error: --seed must be")
    assert not (tmp_path / "out").exists()


def test_the_demo_does_not_write_into_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "taken").write_text("")
    assert cli.main(["demo", "--out", str(tmp_path / "taken")]) == 2
    assert "taken" in capsys.readouterr().err
