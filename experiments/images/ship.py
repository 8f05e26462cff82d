"""Add the trained model of MNIST to the package, with a model card.

    python experiments/images/ship.py

It reads gaussian in --models, runs/images by default, and results/table.json, which evaluate.py wrote for the same
weights. It writes src/tauleap/pretrained/models/mnist-small. Run diagnostics/copies.py afterwards, which measures how
much training data the models of the package reproduce.
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

Handwritten digits, 28 x 28 pixels with 256 levels; every level is a state. The model generates digits, optionally
class-conditional (`tauleap sample {name} --label 7`), and completes images of which some pixels are observed.

- Data: MNIST (Y. LeCun, C. Cortes and C. Burges; CC BY-SA 3.0), {trained_on:,} of its training images. The test images
  are not among them.
- Model: the paper's Gaussian noise, the truncated logistic, and two U-Nets with {weights:,} weights together: one for
  times before {cut:g}, where single pixels are denoised, and one for later times, where the shape of the digit emerges.
- Recipe: `tauleap.recipes.mnist`, each network by itself and then both together
{stages}
- Adam with cosine learning-rate decay, in the last stage from {lr:g}; averaged weights ({ema:g}); seed {seed}; half
  precision. Some pixels were observed in one of five cases, and the class label was given in one of two. The weights
  are rounded to 16 bits; the results below are those before rounding.
- bits/dim of {images} test images: {bits} (standard error; {times} times per image, seed 0).

Samples, with the network in half precision. They are class-conditional with all labels equally often, except in rows
called unconditional. The Frechet distance uses 64 features of a small classifier that the experiment trains; it is not
FID. A sample is recognised if that classifier gives a digit a probability above 0.9, as for {real} of the test images.

| sampler | evaluations | samples | Frechet distance | recognised |
| --- | ---: | ---: | ---: | ---: |
{rows}

*`python experiments/images/train.py MODEL --data FILE` for {models}, then `evaluate.py` and `ship.py`.*
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    run = parser.parse_args().models / MODEL
    model, table = tl.load(run), json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    found = table["models"].get(MODEL, {})
    if not found.get("mark", "").startswith(fingerprint(model)[:16]):
        raise SystemExit("results/table.json belongs to other weights: run evaluate.py first")
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
    """Return the models whose weights a model starts from, recursively, and itself, in the order of training."""
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
