"""The baselines of the experiments on rows of symbols are distributions, and what they are measured by is right."""

import importlib
import itertools
import math
from collections import Counter
from pathlib import Path
from types import ModuleType

import pytest
import torch

from tauleap.data import Dataset
from tauleap.training import Settings

FOLDER = Path(__file__).parents[2] / "experiments" / "sequences"


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> dict[str, ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    return {name: importlib.import_module(name) for name in ("_autoregressive", "_trigram", "_measures")}


def network(scripts: dict[str, ModuleType], *, end: int | None) -> torch.nn.Module:
    torch.manual_seed(0)
    sizes = {"width": 16, "depth": 2, "heads": 2, "dropout": 0.0}
    found = scripts["_autoregressive"].Autoregressive(4, 4, **sizes, end=end).double()
    for weight in found.parameters():
        torch.nn.init.normal_(weight, std=0.5)
    return found


def test_the_autoregressive_network_is_a_distribution_over_rows_of_all_lengths(scripts: dict[str, ModuleType]) -> None:
    model = network(scripts, end=2)
    texts = [text for n in range(4) for text in itertools.product((0, 1), repeat=n)]
    rows = torch.tensor([[*text, *[2] * (4 - len(text))] for text in texts])
    probs = 2.0 ** -model.bits(rows)
    assert float(probs.sum()) == pytest.approx(1.0, abs=1e-9)
    drawn = model.sample(4000, seed=0)
    counts = torch.tensor([int((drawn == row).all(1).sum()) for row in rows])
    assert int(counts.sum()) == 4000
    assert bool(((counts - 4000 * probs).abs() < 5 * (4000 * probs * (1 - probs)).sqrt() + 1).all())
    states = torch.tensor(list(itertools.product((0, 1, 2), repeat=4)))
    assert float((2.0 ** -network(scripts, end=None).bits(states)).sum()) == pytest.approx(1.0, abs=1e-9)


def test_a_stopped_run_of_the_autoregressive_network_resumes(scripts: dict[str, ModuleType], tmp_path: Path) -> None:
    train = scripts["_autoregressive"].trained
    rows = Dataset(torch.randint(3, (40, 4), generator=torch.Generator().manual_seed(0)), 3)
    settings = Settings(8, lr=1e-2, warmup=2)
    short = train(network(scripts, end=None), rows, settings, tmp_path, minutes=0.002, seed=0)
    longer = train(network(scripts, end=None), rows, settings, tmp_path, minutes=0.004, seed=0)
    assert longer["steps"] > short["steps"]
    again = train(network(scripts, end=None), rows, settings, tmp_path, minutes=0.004, seed=0)
    assert again["steps"] == longer["steps"]


def test_the_trigram_model_is_a_distribution(scripts: dict[str, ModuleType]) -> None:
    model = scripts["_trigram"].Trigram(["ab", "a", "abb", ""], added=0.5)
    total = sum(2 ** -model.bits("".join(text)) for n in range(15) for text in itertools.product("ab", repeat=n))
    assert total == pytest.approx(1.0, abs=0.01)
    exact = 2 ** -model.bits("a")
    drawn = model.sample(4000, seed=0).count("a") / 4000
    assert abs(drawn - exact) < 5 * math.sqrt(exact * (1 - exact) / 4000)


def test_total_variation(scripts: dict[str, ModuleType]) -> None:
    measures = scripts["_measures"]
    assert measures.variation(Counter("aab"), Counter("abb")) == pytest.approx(1 / 3)
    assert measures.distances(["ab", "a"], ["ab", "ba"]) == {"lengths": 0.5, "symbols": pytest.approx(1 / 6, abs=1e-5)}
    assert measures.fraction(1, 4) == [0.25, round(math.sqrt(0.25 * 0.75 / 4), 5), 4]
