"""Fit digits of 8 x 8 pixels with 17 levels by tl.fit: bits/dim of the model and of independent pixels, and samples.

    python experiments/own_data/digits.py [--minutes 2 | --steps 700] [--write]

``--write`` writes the results to docs/own_data.md and the figure to docs/figures.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import torch

import tauleap as tl

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "diagnostics")]

from _page import FIGURES, table, write  # noqa: E402


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--steps", type=int, default=None)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    images = tl.data.digits().x[:, 0].numpy()
    minutes = arguments.minutes if arguments.steps is None else None
    budget = f"--minutes {minutes:g}" if minutes is not None else f"--steps {arguments.steps}"
    model = tl.fit(images, num_states=17, minutes=minutes, steps=arguments.steps, seed=arguments.seed)
    about = model.about
    rows = [
        [name, f"{about[key]['value']:.3f}", f"{about[key]['stderr']:.3f}", f"{about[key]['n']}"]
        for name, key in (("the model's bound", "bits_per_dim"), ("independent pixels", "independent_bits_per_dim"))
    ]
    text = table(["bits/dim of held-out images", "value", "standard error", "images"], rows)
    text += (
        f"\n\n{about['rows']:,} images, {about['weights']:,} weights, {about['step']:,} steps in "
        f"{about['seconds'] / 60:.1f} minutes, including evaluation. {'; '.join(about['choice'])}. Above: samples; "
        "below: held-out images, the upper halves observed and the lower halves completed."
        "\n\n![Samples and completions](figures/own_digits.png)"
        f"\n\n*`python experiments/own_data/digits.py {budget} --seed {arguments.seed} --write`*"
    )
    print(text)
    if arguments.write:
        write("own_data.md", "digits", text)
        draw(model, torch.from_numpy(images), arguments.seed)


def draw(model: tl.Model, images: torch.Tensor, seed: int) -> None:
    """Draw 32 samples above 16 images whose upper halves were observed."""
    from PIL import Image

    _, held_out = tl.data.Dataset(images, 17).split(round(0.1 * len(images)), seed=seed)
    upper = torch.zeros(8, 8, dtype=torch.bool)
    upper[:4] = True
    samples = model.sample(32, steps=100, seed=seed)
    completed = model.complete(held_out.x[:16], upper, steps=100, seed=seed)
    tiles = torch.cat([samples, completed])
    grey = torch.nn.functional.pad(255 - tiles * 255 // 16, (1, 1, 1, 1), value=255).reshape(3, 16, 10, 10)
    picture = grey.permute(0, 2, 1, 3).reshape(30, 160).repeat_interleave(4, 0).repeat_interleave(4, 1)
    FIGURES.mkdir(parents=True, exist_ok=True)
    Image.fromarray(picture.to(torch.uint8).numpy()).save(FIGURES / "own_digits.png")


if __name__ == "__main__":
    main()
