"""What ``tl.fit`` and ``tauleap train`` say about a table, and what a saved model knows."""

import json
from pathlib import Path

import numpy as np
import pandas
import pytest

import tauleap as tl
from tauleap import cli


def test_dependencies_are_reported_and_saved(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = np.random.default_rng(0).integers(0, 6, 400)
    names = np.array(["Ulm", "Ulm", "Bonn", "Bonn", "Kiel", "Kiel"])
    frame = pandas.DataFrame(
        {"code": code + 100, "city": names[code], "sold": np.random.default_rng(1).random(400) < 0.5}
    )
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert cli.main(["train", str(tmp_path / "t.csv"), "--steps", "2", "--out", str(tmp_path / "run")]) == 0
    line = "in all training rows code determines city"
    assert line in capsys.readouterr().out
    assert cli.main(["info", str(tmp_path / "run")]) == 0
    assert line in capsys.readouterr().out
    assert cli.main(["info", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["dependencies"] == [["code", "city"]]
    model = tl.load(tmp_path / "run")
    assert model.violations(frame) == {("code", "city"): 0}
    wrong = frame.assign(city=np.where(frame.index < 30, "Ulm", frame.city))
    assert model.violations(wrong) == {("code", "city"): int((wrong.city != frame.city).sum())}
    with pytest.raises(ValueError, match="given code = 100 and city = Kiel contradict each other"):
        model.sample(2, given={"city": "Kiel", "code": 100})
