"""Train the published recipe for a few steps on CIFAR-10, then compute bits/dim and eight samples.

    python experiments/images/cifar10.py --data FILE --steps 30

FILE is an .npz with ``x_train`` and ``x_test``, bytes (n, 32, 32, 3). Training is as published except for a smaller
batch, since the published one takes a minute on a CPU, and a warm-up that ends within 30 steps. Sampling has 20 steps
instead of 495. The loss of test images and its change are written to results/cifar10.json.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor

import tauleap as tl
from tauleap import _device
from tauleap._seeds import derive_seed
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.evaluate._mode import evaluating
from tauleap.objective import Objective
from tauleap.recipes import cifar10
from tauleap.recipes.images import published_sampler
from tauleap.sampling import sample, uniform_grid
from tauleap.training import Run, train

RESULTS = Path(__file__).with_name("results")
SEED, BATCH, WARMUP = 0, 8, 10
SAMPLES, STEPS_DOWN, TESTED = 8, 20, 16


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with x_train and x_test")
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--out", type=Path, default=Path("runs") / "images" / "cifar10")
    arguments = parser.parse_args()
    recipe = cifar10(arguments.data)
    numbers = {"batch_size": BATCH, "warmup": WARMUP, "steps": arguments.steps, "seed": SEED}
    quiet = {"log_every": 1, "validation_rows": 4, "sample_every": None, "checkpoint_every": 10}
    recipe = replace(recipe, settings=replace(recipe.settings, **numbers, **quiet))
    result = train(recipe, Run(arguments.out, tensorboard=False, keep=1))
    model, (_, test) = tl.load(result.checkpoint), recipe.data()
    rows = test.rows(torch.arange(TESTED))
    _device.seed_defaults(_device.CPU, derive_seed(SEED, "weights"))  # the initial weights of training
    before, after = (losses(recipe.objective, one, rows) for one in (recipe.model(), model))
    change = Estimate.of_mean((after - before).double())
    with evaluating(model.reverse):
        bits = bits_per_dim(model.reverse, rows, samples=1, generator=torch.Generator().manual_seed(SEED))
        drawn = sample(
            model.reverse,
            published_sampler(10),
            (SAMPLES, *rows.shape[1:]),
            grid=uniform_grid(STEPS_DOWN),
            generator=torch.Generator().manual_seed(SEED),
        )
    results = {
        "weights": sum(p.numel() for p in model.denoiser.parameters()),
        "steps": result.step,
        "batch": BATCH,
        "seed": SEED,
        "loss": {"before": float(before.mean()), "change": change.value, "stderr": change.stderr, "images": TESTED},
        "bits": {"value": bits.value, "stderr": bits.stderr, "images": bits.n},
        "samples": len(drawn.x0),
        "evaluations": round(drawn.info.evaluations),
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "cifar10.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    print(json.dumps(results, indent=1))


def losses(objective: Objective, model: tl.Model, rows: Tensor) -> Tensor:
    """Return the published loss of each image, with the same times and noise for all weights."""
    with evaluating(model.reverse), torch.no_grad():
        return objective(model.reverse, rows, generator=torch.Generator().manual_seed(SEED)).value


if __name__ == "__main__":
    main()
