"""Train the model `toy` of the package by its recipe, evaluate it, and write it with its model card.

    python experiments/toy/ship.py [--out runs/toy]

Training is that of `tauleap train toy`, whose run in the same folder is resumed. It takes about 90 seconds on one core.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

from tauleap import recipes
from tauleap.data import tau_pmf
from tauleap.evaluate import bits_per_dim, hellinger_of_laws, pushforward
from tauleap.pretrained import load
from tauleap.recipes.toy import exact_reverse
from tauleap.sampling import Ancestral, TauLeaping, uniform_grid
from tauleap.training import Run, train

sys.path.append(str(Path(__file__).parents[1]))

from _ship import ship

CARD = """# toy

Points with two coordinates of 32 states each, whose distribution is an image of the letter tau in matplotlib's
mathematical font. Written by `python experiments/toy/ship.py`: the recipe `toy`, {step:,} steps of {batch} points, seed
{seed}, {weights:,} weights. It contains no personal data. It is for demonstrations and tests.

| | this model | exact denoiser |
|---|---:|---:|
{rows}

*Hellinger distances are those of the exact distribution of samples (pushforward), from the prior to t = 0.01 and the
most probable x0; bits/dim is the complete bound on {n:,} held-out points, standard error {stderr:.4f}, seed 0, with the
same noise for both.*
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("runs/toy"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    recipe = recipes.toy()
    result = train(recipe, Run(options.out))
    model, data = load(result.checkpoint), tau_pmf()
    held_out = recipe.data()[1]
    if held_out is None:
        raise RuntimeError("the recipe has no held-out points")
    points = held_out.rows(torch.arange(4000))
    bits, rows = [], []
    for reverse in (model.reverse, exact_reverse()):
        bits.append(bits_per_dim(reverse, points, generator=torch.Generator().manual_seed(0)))
    rows.append(f"| bits/dim | {bits[0].value:.4f} | {bits[1].value:.4f} |")
    wide = load(result.checkpoint).reverse.double()
    for name, sampler, work in (("ancestral", Ancestral(), 64), ("tau-leaping", TauLeaping(), 250)):
        with torch.no_grad():
            laws = [
                pushforward.sample_law(sampler, each, 2, uniform_grid(work - 1)) for each in (wide, exact_reverse())
            ]
        cells = " | ".join(f"{hellinger_of_laws(law, data):.4f}" for law in laws)
        rows.append(f"| Hellinger distance, {name}, {work} evaluations | {cells} |")
    weights = sum(p.numel() for p in model.reverse.parameters())
    model.about = {
        "data": ["points of a tau, 32 x 32"],
        "choice": [],
        "step": result.step,
        "seed": recipe.settings.seed,
        "bits_per_dim": {"value": bits[0].value, "stderr": bits[0].stderr, "n": bits[0].n},
    }
    settings = recipe.settings
    card = CARD.format(
        step=result.step,
        batch=settings.batch_size,
        seed=settings.seed,
        weights=weights,
        rows="\n".join(rows),
        n=bits[0].n,
        stderr=bits[0].stderr,
    )
    ship(model, "toy", card)
    print(card)


if __name__ == "__main__":
    main()
