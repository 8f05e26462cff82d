"""The figures of docs/experiments/images.md, from results, pieces and trained models.

    python experiments/images/figures.py --data FILE

Figures without models or results are not changed.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pictures
import torch
from evaluate import RESULTS, load_model, pieces_of
from models import MODELS
from PIL import Image
from rows import BUDGETS, KINDS, ONLY_AT
from torch import Tensor

import tauleap as tl
from tauleap import _files
from tauleap.evaluate._mode import evaluating
from tauleap.recipes.images import sheet
from tauleap.sampling import TauLeaping, run_corrector, sample, uniform_grid

sys.path.append(str(Path(__file__).parents[1]))

from _panels import COLOURS, FIGURES, panels

SEED, STEPS, TRACED_SITES, ANIMATED = 0, 255, 12, 16
SHOWN, SHEET = ("tldr-0", "ancestral", "guided", "d3pm-gaussian", "d3pm-absorbing"), 100
CORRECTOR_TIME, CORRECTOR_STEPS, CORRECTOR_INTERVAL, CORRECTOR_LENGTH, CORRECTOR_IMAGES = 0.4, 1000, 100, 0.001, 2
COMPLETIONS, COMPLETED_IMAGES = 5, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    arguments = parser.parse_args()
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    distances(table)
    per_step(table)
    folder = arguments.models
    models = {name: load_model(folder / name) for name in MODELS if (folder / name / "latest").exists()}
    grids(models, folder)
    model = models.get("gaussian")
    if model is not None:
        with evaluating(model.reverse):
            draw_trajectory(model)
            draw_correctors(model)
            completions(model, pictures.load(arguments.data).test.x.long())


def save(name: str, picture: np.ndarray, scale: int = 2) -> None:
    """Write an image, enlarged ``scale`` times."""
    path = FIGURES / f"{name}.png"
    with _files.atomic_write(path) as file:
        Image.fromarray(picture.repeat(scale, 0).repeat(scale, 1)).save(file, format="PNG", optimize=True)
    print(f"written: {path}")


def tiled(pictures: Tensor) -> np.ndarray:
    """Return images (rows, columns, 1, 28, 28) as one image with lines between them."""
    rows, columns, _, height, width = pictures.shape
    tiles = torch.full((rows, columns, height + 2, width + 2), 96, dtype=torch.uint8)
    tiles[:, :, 1:-1, 1:-1] = pictures[:, :, 0].to(torch.uint8)
    return tiles.permute(0, 2, 1, 3).reshape(rows * (height + 2), columns * (width + 2)).numpy()


def distances(table: dict[str, Any]) -> None:
    """Draw the Frechet distance and the fraction of recognised images against evaluations (Figure 4, right)."""
    found = {
        kind.label: [row for budget in BUDGETS if (row := table["rows"].get(f"{name}-{budget}")) is not None]
        for name, kind in KINDS.items()
    }
    if not any(found.values()):
        return
    with panels("images_evaluations", 2) as both:
        for axes, number in zip(both, ("frechet", "recognised"), strict=True):
            for (label, points), colour in zip(found.items(), COLOURS[: len(found)], strict=True):
                if points:
                    axes.errorbar(
                        [point["evaluations"] for point in points],
                        [point[number]["value"] for point in points],
                        [point[number]["stderr"] for point in points],
                        label=label,
                        color=colour,
                        marker="o",
                        markersize=3,
                        linewidth=1.3,
                    )
            axes.axhline(
                table["real"][number]["value"], color="0.6", linestyle="--", linewidth=0.8, label="test images"
            )
            axes.set(xscale="log", xlabel="network evaluations per sample")
            axes.set_xticks(BUDGETS, [str(budget) for budget in BUDGETS])
            axes.minorticks_off()
        both[0].set(ylabel="Frechet distance", yscale="log")
        both[1].set(ylabel="fraction recognised")
        lines, labels = both[1].get_legend_handles_labels()
        both[1].figure.legend(lines, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=7)


def per_step(table: dict[str, Any]) -> None:
    """Draw the fraction of sites that jump in a step, and of those that leave 0..255 and are clamped."""
    found = [row for budget in BUDGETS if (row := table["rows"].get(f"tldr-0-{budget}")) is not None]
    if not found:
        return
    row = found[-1]
    with panels("images_steps", 2) as both:
        for axes, number in zip(both, ("jumped", "clamped"), strict=True):
            axes.plot(row["times"], row[number], color=COLOURS[0], linewidth=1.2)
            axes.set(xlabel="t, from noise (1) to data (0)", ylabel=f"fraction of sites {number}", xlim=(1, 0))


def grids(models: dict[str, tl.Model], folder: Path) -> None:
    """Draw samples of some rows side by side, each with its largest number of evaluations; one column per digit."""
    found = []
    for name in SHOWN:
        largest = ONLY_AT.get(name, BUDGETS)[-1]
        pieces = pieces_of(f"{name}-{largest}", models.get(KINDS[name].model), folder)
        if not pieces:
            return
        found.append(sheet(torch.from_numpy(pieces[0]["x"][:SHEET])))
    gap = np.full((found[0].shape[0], 8), 255, dtype=np.uint8)
    save("images_samples", np.concatenate([part for each in found for part in (each, gap)][:-1], axis=1), scale=1)


def draw_trajectory(model: tl.Model) -> None:
    """Draw samples between noise and data: an animation, and the states of some sites."""
    grid = uniform_grid(STEPS)
    drawn = sample(
        model.reverse,
        TauLeaping(),
        (ANIMATED, *(model.shape or ())),
        grid=grid,
        trace=grid[::8].tolist(),
        generator=torch.Generator().manual_seed(SEED),
    )
    if drawn.trace is None:
        raise RuntimeError("there is no trace")
    with panels("images_progress", 1, 6.0) as (axes,):
        sites = torch.randperm(28 * 28, generator=torch.Generator().manual_seed(SEED))[:TRACED_SITES]
        paths = drawn.trace.x[:, 0].flatten(1)[:, sites]
        axes.plot(drawn.trace.times, paths, linewidth=0.9)
        axes.set(xlabel="t, from noise (1) to data (0)", ylabel="intensity", xlim=(1, 0))
    frames = [
        Image.fromarray(np.concatenate([sheet(x), sheet(predicted)], axis=1).repeat(2, 0).repeat(2, 1))
        for x, predicted in zip(drawn.trace.x, drawn.trace.predicted_x0, strict=True)
    ]
    end = np.concatenate([sheet(drawn.x0), sheet(drawn.x0)], axis=1).repeat(2, 0).repeat(2, 1)
    frames = [frame.quantize(16) for frame in (*frames, Image.fromarray(end))]
    path = FIGURES / "images_sampling.gif"
    with _files.atomic_write(path) as file:
        times = [800, *[120] * (len(frames) - 2), 1600]
        frames[0].save(file, format="GIF", save_all=True, append_images=frames[1:], duration=times, loop=0)
    print(f"written: {path}")


def draw_correctors(model: tl.Model) -> None:
    """Draw correctors at a fixed time, with the denoiser's prediction below each state (Appendix F.2)."""
    generator = torch.Generator().manual_seed(SEED)
    down = sample(
        model.reverse,
        TauLeaping(),
        (CORRECTOR_IMAGES, *(model.shape or ())),
        grid=uniform_grid(STEPS, end=CORRECTOR_TIME),
        trace=[CORRECTOR_TIME],
        generator=generator,
    )
    if down.trace is None:
        raise RuntimeError("there is no trace")
    x, states, predictions = down.trace.x[-1], [], []
    for at in range(0, CORRECTOR_STEPS + 1, CORRECTOR_INTERVAL):
        if at:
            x, _ = run_corrector(
                model.reverse, x, CORRECTOR_TIME, steps=CORRECTOR_INTERVAL, step=CORRECTOR_LENGTH, generator=generator
            )
        states.append(x)
        with torch.no_grad():
            predictions.append(model.reverse.posterior(x, CORRECTOR_TIME).mode)
    rows = [
        torch.stack([x[number] for x in kind]) for number in range(CORRECTOR_IMAGES) for kind in (states, predictions)
    ]
    save("images_correctors", tiled(torch.stack(rows)))


def completions(model: tl.Model, test: Tensor) -> None:
    """Draw images of which one half is observed, and several completions of each."""
    observed = torch.zeros(1, 28, 28, dtype=torch.bool)
    observed[:, :14] = True
    known = test[:COMPLETED_IMAGES]
    done = model.complete(
        known.repeat_interleave(COMPLETIONS, 0),
        observed.expand(COMPLETED_IMAGES * COMPLETIONS, *observed.shape),
        steps=STEPS,
        sampler=TauLeaping(),
        seed=SEED,
        states=True,
    )
    masked = torch.where(observed, known, 96)
    rows = torch.cat([known[:, None], masked[:, None], done.reshape(COMPLETED_IMAGES, COMPLETIONS, 1, 28, 28)], dim=1)
    save("images_completions", tiled(rows))


if __name__ == "__main__":
    main()
