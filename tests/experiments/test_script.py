"""The command line that trains a model of an experiment."""

import importlib.util
import sys
from pathlib import Path

import pytest

from tauleap import recipes

FILE = Path(__file__).parents[2] / "experiments" / "_script.py"


def test_steps_within_the_warm_up_raise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The learning rate decays until the last step, so the warm-up must end before it."""
    spec = importlib.util.spec_from_file_location("experiments_script", FILE)
    assert spec is not None
    assert spec.loader is not None
    script = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(script)
    monkeypatch.setattr(sys, "argv", ["train.py", "plain", "--data", "file", "--steps", "100"])
    with pytest.raises(SystemExit) as leaving:
        script.train_one("Trains.", ["plain"], lambda *_: recipes.toy(), runs=tmp_path, file="any")
    assert leaving.value.code == 2
    assert "--steps must be more than the 100 steps of the warm-up, got 100" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
