"""Learning curves of the first two minutes, with the former and today's choices of ``tauleap.fit``.

    python experiments/sequences/curves.py text --data FILE --out FOLDER
    python experiments/sequences/curves.py melodies --data FILE --out FOLDER

The .npz for text has ``train``, ``test`` and ``vocab``; the one for melodies has ``train`` (songs of 256 sixteenths).
The former choices: adaptive blocks with gates that begin at zero, vectors of sites of standard deviation 1, width 64 or
(text) 128 and depth 4, random observed sites, the complete bound, a constant learning rate of 1e-3, Adam with a second
beta of .999, and batches of 2,048 sites. Each is trained for two minutes of processor time on one thread, and the
averaged weights of 13 checkpoints are measured on the same 256 held-out rows with the same noise. Run the same command
again to resume. The results are written to experiments/sequences/results/curves-NAME.json, and the page
docs/experiments/sequences.md with its figure from all results.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _budget import last_step, seconds_per_step, stored, write_json
from _page import RESULTS, write_page
from shakespeare import opened
from torch import Tensor

import tauleap as tl
from tauleap.choose import choose
from tauleap.data import Dataset
from tauleap.training import RandomMasks, Recipe, Run, Settings, train

MINUTES, POINTS, ROWS = 2.0, 12, 256


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("text", "melodies"))
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=MINUTES, help="minutes of processor time (default: 2)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/curves"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    rows, held_out = text(arguments) if arguments.what == "text" else melodies(arguments)
    makers: dict[str, Callable[[Dataset, str, int], Recipe]] = {"before": before, "now": now}
    curves = {}
    for name, maker in makers.items():
        recipe = maker(rows, arguments.what, arguments.seed)
        folder = arguments.out / f"{arguments.what}-{name}"
        curves[name] = stored(
            folder / "curve.json", lambda r=recipe, f=folder: curve(r, held_out, f, arguments.minutes)
        )
    result = {"minutes": arguments.minutes, "seed": arguments.seed, "rows": len(held_out), "curves": curves}
    write_json(RESULTS / f"curves-{arguments.what}.json", result)
    write_page()


def text(arguments: argparse.Namespace) -> tuple[Dataset, Tensor]:
    """Return windows of the training text, and some of the test text."""
    data, test, _ = opened(arguments.data, arguments.out)
    chosen = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:ROWS]
    return data.dataset, test.in_memory()[chosen]


def melodies(arguments: argparse.Namespace) -> tuple[Dataset, Tensor]:
    """Return songs, and held-out ones."""
    with np.load(arguments.data, allow_pickle=False) as arrays:
        songs = torch.from_numpy(arrays["train"])
        test = torch.from_numpy(arrays["test"])
    chosen = torch.randperm(len(test), generator=torch.Generator().manual_seed(0))[:ROWS]
    return Dataset(songs, 129), test[chosen].long()


def now(rows: Dataset, what: str, seed: int) -> Recipe:
    """Return what ``tauleap.fit`` chooses for this time."""
    found = choose(rows, is_text=what == "text", minutes=MINUTES)

    def model() -> tl.Model:
        return tl.Model(found.process, found.denoiser(), shape=rows.shape)

    settings = replace(found.settings, seed=seed)
    return Recipe("now", lambda: (rows, None), model, found.objective, settings, masking=found.masking)


def before(rows: Dataset, what: str, seed: int) -> Recipe:
    """Return the former choices."""
    process = tl.noise.Absorbing(rows.num_states + 1, tl.noise.LogLinear())
    width = 128 if what == "text" else 64

    def model() -> tl.Model:
        network = tl.network.SequenceTransformer(
            rows.num_states + 1, rows.shape, width=width, depth=4, heads=width // 32
        )
        return tl.Model(process, tl.denoise.NetworkDenoiser(network), shape=rows.shape)

    size = max(8, min(64, 2048 // rows.shape[0]))
    settings = Settings(batch_size=size, lr=1e-3, warmup=100, ema=0.999, seed=seed)
    return Recipe("before", lambda: (rows, None), model, tl.objective.CompleteElbo(), settings, masking=RandomMasks())


def curve(recipe: Recipe, held_out: Tensor, folder: Path, minutes: float) -> dict[str, Any]:
    """Return processor seconds and bits per site at each checkpoint of a run."""
    plan = stored(folder / "plan.json", lambda: {"pace": seconds_per_step(recipe)})
    steps = max(POINTS, int(60 * minutes / plan["pace"]))
    every = -(-steps // POINTS)
    settings = replace(recipe.settings, steps=POINTS * every, checkpoint_every=every, validate_every=None)
    began, first = time.process_time(), last_step(folder / "run")
    run = Run(folder / "run", keep=POINTS + 1, tensorboard=False)
    train(replace(recipe, settings=settings), run)
    steps_made = POINTS * every - first
    pace = (time.process_time() - began) / steps_made if steps_made else plan["pace"]
    points = []
    for step in range(0, POINTS * every + 1, every):
        model = tl.load(folder / "run" / f"step-{step:08d}")
        bits = model.bits_per_dim(held_out, samples=4, seed=0)
        points.append([round(step * pace, 1), round(bits.value, 4), round(bits.stderr, 4)])
    return {"points": points, "steps": POINTS * every, "seconds_per_step": round(pace, 5)}


if __name__ == "__main__":
    main()
