"""The image experiment writes figures, page and model card from an artificial table of results."""

import importlib
import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

import tauleap as tl
from tauleap.denoise import TruncatedLogistic
from tauleap.network import TimeExperts, UNet
from tauleap.noise import Constant, Uniform
from tauleap.objective import CompleteElbo, CrossEntropy
from tauleap.recipes.images import small_denoiser
from tauleap.training.recipe import to_jsonable

FOLDER = Path(__file__).parents[2] / "experiments" / "images"
NAMES = ("all", "classifier", "evaluate", "figures", "models", "page", "pictures", "rows", "ship", "time_experts")
"""Its modules; the music experiment has modules of the same names."""
SHARED = ("_results", "_panels", "_prose", "_row", "_script", "_ship")


@pytest.fixture
def images(monkeypatch: pytest.MonkeyPatch) -> Iterator[dict[str, ModuleType]]:
    """Import its files as modules, and remove them after the test."""
    monkeypatch.syspath_prepend(str(FOLDER.parent))
    monkeypatch.syspath_prepend(str(FOLDER))
    others = {name: sys.modules.pop(name) for name in (*NAMES, *SHARED) if name in sys.modules}
    try:
        yield {name: importlib.import_module(name) for name in NAMES}
    finally:
        for name in (*NAMES, *SHARED):
            sys.modules.pop(name, None)
        sys.modules.update(others)


def made_up(images: dict[str, ModuleType]) -> dict[str, Any]:
    """Return results for every row and every model."""
    one = {"value": 0.5, "stderr": 0.25}
    rows = {
        name: {
            "label": row.label,
            "model": row.model,
            "samples": 500 - 100 * (number % 2),
            "first": {str(n): {"frechet": {"value": n + number, "stderr": 3.0}, "recognised": one} for n in (400, 500)},
            "evaluations": float(row.evaluations),
            "frechet": {"value": 10.0 + number, "stderr": 1.0},
            "recognised": one,
            "digits": 9.5,
            "label_accuracy": one if row.conditional else None,
            "jumped": [0.5, 0.25],
            "clamped": [0.0, 0.125],
            "times": [0.5, 0.01],
        }
        for number, (name, row) in enumerate(images["rows"].ROWS.items())
    }
    models = {
        name: {
            "label": entry.label,
            "objective": repr(entry.objective),
            "mark": "",
            "steps": 7,
            "planned": 8,
            "batch": 64,
            "begins_with": entry.begins_with,
            "weights": 12345,
            "bits": None if name.startswith("late") else {"value": 1.25, "stderr": 0.125, "images": 256, "times": 4},
        }
        for name, entry in images["models"].MODELS.items()
    }
    real = {"images": 10000, "samples": 500, "frechet": one, "recognised": one, "digits": 10.0}
    noise = {"recognised": one, "digit": 8, "fraction": one}
    return {"rows": rows, "models": models, "real": real, "noise": noise, "trained_on": 59000}


def test_figures_page_and_card(images: dict[str, ModuleType], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = made_up(images)
    monkeypatch.setattr(sys.modules["_panels"], "FIGURES", tmp_path)
    figures = images["figures"]
    for draw in (figures.distances, figures.per_step):
        draw(table)
    assert {path.name for path in tmp_path.iterdir()} == {
        "images_evaluations.png",
        "images_steps.png",
    }

    page, written = images["page"], {}
    (tmp_path / "table.json").write_text(json.dumps(table))
    loss = {"before": -5e7, "change": -8916.0, "stderr": 700.0, "images": 16}
    bits = {"value": 6.97, "stderr": 0.22, "images": 16}
    tried = {"weights": 35749766, "steps": 30, "batch": 8, "seed": 0, "loss": loss, "bits": bits, "samples": 8}
    (tmp_path / "cifar10.json").write_text(json.dumps(tried | {"evaluations": 41}))
    monkeypatch.setattr(page, "RESULTS", tmp_path)
    monkeypatch.setattr(page, "write_page", lambda name, parts: written.update({name: "\n".join(parts)}))
    page.main()
    text = written["images"]
    for row in table["rows"].values():
        assert f"| {row['label']} | {row['evaluations']:.0f} | " in text
    ahead = list(table["rows"]).index("tldr-3-64") - list(table["rows"]).index("tldr-0-64")
    expected = (
        f"with 64 evaluations minus tau-leaping (tLDR-0) with 64, the first 400 samples of each: +{ahead}.00 ± 4.24"
    )
    assert expected in text  # Of a row with 500 samples the first 400 are compared.
    assert "changed by -8,916 ± 700 at the same times" in " ".join(text.split())
    for entry in images["models"].MODELS.values():
        assert f"| {entry.label} | `{entry.objective!r}` | 12,345 | 7 of 8" in text
    assert (
        "| 7 of 8, the horizon of the learning-rate decay, after those of Gaussian noise, small network and Gaussian"
        in text
    )

    settings = {"lr": 0.001, "batch_size": 64, "ema": 0.999, "seed": 0}
    card = images["ship"].card(table, table["models"]["gaussian"], settings)
    assert "1.250 ± 0.125" in card
    assert "for early, late, late-on, gaussian, then" in card
    for name in ("early", "late", "late-on", "gaussian"):
        assert f": 7 steps of 64 images with `{images['models'].MODELS[name].objective!r}`" in card


def test_a_model_starts_from_the_weights_of_its_parts(images: dict[str, ModuleType], tmp_path: Path) -> None:
    """Each network has the weights of the model that was trained for its times."""

    def unet() -> UNet:
        return UNet(6, 1, width=4, multipliers=(1,), attention_levels=())

    process, parts = Uniform(6, Constant(1.0)), [unet(), unet()]
    for name, part in zip("ab", parts, strict=True):
        tl.Model(process, TruncatedLogistic(part, 6), shape=(1, 4, 4)).save(tmp_path / name)
    made = images["models"].with_trained_weights(
        lambda: TruncatedLogistic(TimeExperts([unet(), unet()], at=[0.3]), 6), [tmp_path / "a", tmp_path / "b"]
    )
    alone = images["models"].with_trained_weights(lambda: TruncatedLogistic(unet(), 6), [tmp_path / "a"])
    assert all(torch.equal(p, q) for p, q in zip(alone.parameters(), parts[0].parameters(), strict=True))
    for network, part in zip(made.network.networks, parts, strict=True):
        assert all(torch.equal(p, q) for p, q in zip(network.parameters(), part.parameters(), strict=True))


def test_parts_are_trained_before_models_that_need_them(images: dict[str, ModuleType]) -> None:
    assert images["all"].training_order() == [
        ["early", "late", "d3pm-absorbing"],
        ["late-on"],
        ["gaussian", "d3pm-gaussian"],
    ]
    assert [name for name, entry in images["models"].MODELS.items() if not entry.knows_all_times] == ["late", "late-on"]


def test_every_group_of_the_jackknife_has_every_digit(images: dict[str, ModuleType]) -> None:
    evaluate = images["evaluate"]
    digits = (torch.arange(500) % evaluate.PIECE % evaluate.DIGITS)[:, None]
    ordered = evaluate.balanced(digits)
    for group in range(evaluate.GROUPS):
        assert ordered[group :: evaluate.GROUPS].flatten().bincount().tolist() == [5] * 10
    assert sorted(evaluate.balanced(torch.arange(500)[:, None]).flatten().tolist()) == list(range(500))


def test_pieces_of_different_rows_have_different_marks(
    images: dict[str, ModuleType], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Marks depend on all settings: rows of one sampler and budget may differ in class conditioning only."""
    evaluate, rows = images["evaluate"], images["rows"].ROWS
    monkeypatch.setattr(evaluate, "fingerprint", lambda _: "weights")
    assert len({evaluate.mark(row, None) for row in rows.values()}) == len(rows)
    conditional, unconditional = rows["ancestral-64"], rows["unconditional-64"]
    assert evaluate.mark(replace(conditional, label=unconditional.label), None) != evaluate.mark(unconditional, None)
    assert evaluate.mark(replace(conditional, guidance=2.0), None) != evaluate.mark(conditional, None)


def test_a_run_with_another_objective_raises(images: dict[str, ModuleType], tmp_path: Path) -> None:
    (tmp_path / "latest").mkdir()
    recipe = {"recipe": {"objective": to_jsonable(CompleteElbo()), "settings": {}}}
    (tmp_path / "latest" / "recipe.json").write_text(json.dumps(recipe))
    objective_of = sys.modules["_results"].objective_of
    assert objective_of(tmp_path, CompleteElbo()) == "CompleteElbo()"
    with pytest.raises(SystemExit, match="was trained with another objective"):
        objective_of(tmp_path, CrossEntropy())


def test_the_early_network_is_small(images: dict[str, ModuleType]) -> None:
    experts = images["time_experts"]

    def weights(denoiser: torch.nn.Module) -> int:
        return sum(p.numel() for p in denoiser.parameters())

    assert weights(experts.denoiser_of_time_experts()) == weights(small_denoiser()) + weights(experts.early_denoiser())
    assert weights(experts.early_denoiser()) < 700_000


def test_late_times_are_trained_from_the_cut_on(images: dict[str, ModuleType]) -> None:
    experts = images["time_experts"]
    t, weight = experts.gradient_balanced().times.at(torch.tensor([0.0, 0.999], dtype=torch.float64))
    assert t[0] == experts.CUT
    assert weight[1] > 100 * weight[0]
