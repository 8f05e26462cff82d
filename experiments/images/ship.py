"""Puts the trained model of MNIST into the package, with a card that says what it is.

    python experiments/images/ship.py

Takes runs/images/gaussian, or where --models says, and results/table.json, which evaluate.py has written for the same
weights; writes src/tauleap/pretrained/models/mnist-small. Run diagnostics/copies.py afterwards, which measures what the
models of the package repeat.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from evaluate import RESULTS
from rows import BUDGETS, KINDS
from time_experts import CUT

import tauleap as tl
from tauleap.cli.model import fingerprint

sys.path.append(str(Path(__file__).parents[1]))

from _ship import ship

NAME, MODEL = "mnist-small", "gaussian"

CARD = """# {name}

Handwritten digits, 28 x 28 pixels with 256 levels, every level a state. It draws digits, also one that is asked for
(`tauleap sample {name} --label 7`), and fills in pictures of which some pixels are given.

- Data: MNIST (Y. LeCun, C. Cortes and C. Burges; CC BY-SA 3.0), {trained_on:,} of its training images. Its test images
  are others.
- Model: the paper's Gaussian noise, the truncated logistic, and two U-Nets with {weights:,} weights together: one
  before t = {cut:g}, where pixels are to be cleaned, and one from there on, where the digit is to be guessed.
- Recipe: `tauleap.recipes.mnist`, each network by itself and then both together
{stages}
- Adam with a rate that falls along half a cosine, the last time from {lr:g}, averaged weights ({ema:g}), half
  precision, seed {seed}. In one of five cases some pixels were given, and in one of two the digit. The weights are
  rounded to 16 bits here; the numbers below are of those before.
- bits/dim of {images} test images: {bits} (standard error; {times} times each, seed 0).

Samples, the network in half precision; it was told a digit, each as often as another, but where a row says that it was
not. The Frechet distance is taken on 64 features of a small classifier that the experiment trains: it is not FID.
Recognised are those to which that classifier gives a digit with more than 0.9, as it does to {real} of real test
images.

| sampler | evaluations | samples | Frechet distance | recognised |
| --- | ---: | ---: | ---: | ---: |
{rows}

*`python experiments/images/train.py MODEL --data FILE` for {models}, then `evaluate.py` and `ship.py` beside it.*
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    run = parser.parse_args().models / MODEL
    model, table = tl.load(run), json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    found = table["models"].get(MODEL, {})
    if not found.get("mark", "").startswith(fingerprint(model)[:16]):
        raise SystemExit("results/table.json is of other weights: run evaluate.py first")
    with (run / "latest" / "recipe.json").open(encoding="utf-8") as file:
        recipe = json.load(file)["recipe"]
    bits = found["bits"]
    model.about = {
        "name": NAME,
        "data": [f"MNIST (Y. LeCun, C. Cortes and C. Burges; CC BY-SA 3.0), {table['trained_on']:,} training images"],
        "step": sum(table["models"][name]["steps"] for name in stages_of(MODEL, table["models"])),
        "seed": recipe["settings"]["seed"],
        "weights": found["weights"],
        "bits_per_dim": {"value": bits["value"], "stderr": bits["stderr"], "n": bits["images"]},
    }
    ship(model, NAME, card(table, found, recipe["settings"]))


def stages_of(name: str, models: dict[str, Any]) -> list[str]:
    """The models that it begins with, those that they begin with, and itself, in the order of training."""
    before = [stage for part in models[name]["begins_with"] for stage in stages_of(part, models)]
    return [*before, name]


def card(table: dict[str, Any], found: dict[str, Any], settings: dict[str, Any]) -> str:
    rows = [
        f"| {row['label']} | {row['evaluations']:.0f} | {row['samples']} | "
        f"{row['frechet']['value']:.2f} ± {row['frechet']['stderr']:.2f} | "
        f"{row['recognised']['value']:.1%} ± {row['recognised']['stderr']:.1%} |"
        for name, kind in KINDS.items()
        if kind.model == MODEL
        for budget in BUDGETS
        if (row := table["rows"].get(f"{name}-{budget}")) is not None
    ]
    bits, chain = found["bits"], stages_of(MODEL, table["models"])
    stages = [table["models"][name] for name in chain]
    return CARD.format(
        name=NAME,
        models=", ".join(chain),
        stages="\n".join(
            f"    - {stage['label']}: {stage['steps']:,} steps of {stage['batch']} images with `{stage['objective']}`"
            for stage in stages
        ),
        trained_on=table["trained_on"],
        weights=found["weights"],
        cut=CUT,
        **{name: settings[name] for name in ("lr", "ema", "seed")},
        images=bits["images"],
        bits=f"{bits['value']:.3f} ± {bits['stderr']:.3f}",
        times=bits["times"],
        real=f"{table['real']['recognised']['value']:.1%}",
        rows="\n".join(rows),
    )


if __name__ == "__main__":
    main()
