"""Models that come with the package: they load by name, and are as good as the documentation says."""

from pathlib import Path

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap import cli
from tauleap.data import tau_pmf
from tauleap.evaluate import hellinger_of_laws, pushforward
from tauleap.pretrained import builtin_models
from tauleap.recipes.toy import exact_reverse


@pytest.mark.parametrize("name", builtin_models())
def test_each_loads_by_its_name_and_says_what_it_is(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    model = tl.load(name)
    assert model.shape is not None
    assert cli.main(["info", name]) == 0
    printed = capsys.readouterr().out
    assert "bits/dim" in printed
    assert min(len(line.strip()) for line in printed.splitlines()) > 1


def test_a_sentence_about_the_data_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = tl.load("toy")
    model.about["data"] = "points of a tau"
    assert cli.main(["info", str(model.save(tmp_path / "m"))]) == 0
    assert "          points of a tau\n" in capsys.readouterr().out


def test_the_toy_is_nearly_as_good_as_the_exact_denoiser() -> None:
    """The law of 64 ancestral steps, pushed exactly: 1.15 times the distance of the exact denoiser at the most."""
    data = tau_pmf()
    with torch.no_grad():
        trained, best = (
            hellinger_of_laws(
                pushforward.sample_law(tl.sampling.Ancestral(), reverse, 2, tl.sampling.uniform_grid(64)), data
            )
            for reverse in (tl.load("toy").reverse, exact_reverse())
        )
    assert best < trained < 1.15 * best


def test_the_toy_is_sampled_at_once(tmp_path: Path) -> None:
    assert cli.main(["sample", "toy", "-n", "20", "--steps", "5", "--out", str(tmp_path / "points")]) == 0
    points = np.load(tmp_path / "points" / "samples.npy")
    assert points.shape == (20, 2)
    assert 0 <= points.min() <= points.max() < 32


def test_a_folder_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "toy").mkdir()
    with pytest.raises(FileNotFoundError, match="toy holds no model, which has"):
        tl.load("toy")


def test_an_unknown_name_is_refused_with_the_known_ones(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["sample", "tau"]) == 2
    printed = capsys.readouterr().err
    assert "tau is not a folder of a run" in printed
    assert "toy" in printed
