"""Measure whether the models of the package reproduce training data: the two tests of docs/responsible_use.md.

    python diagnostics/copies.py --music FILE --images FILE

The files are those of the music and image experiments (music/songs.py, images/pictures.py). It writes the
table of the page. Samples are those of ancestral steps, seed 0.
"""

from __future__ import annotations

import argparse
import math
import sys
from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

import tauleap as tl
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.objective import LogUniformTimes

sys.path.append(str(Path(__file__).parents[1] / "experiments" / "music"))
sys.path.append(str(Path(__file__).parents[1] / "experiments" / "images"))

import _page
import pictures
import songs

NUMBER, STEPS, TIMES, AT_ONCE = 200, 64, 4, 4000
COMMAND = "python diagnostics/copies.py --music FILE --images FILE"
HEAD = [
    "model and distance",
    "samples to training rows",
    "rows held out to these",
    "copies",
    "bits/dim, training",
    "held out",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--music", type=Path, required=True, help=".npz with train, test and the strict masks")
    parser.add_argument("--images", type=Path, required=True, help="a folder of idx files, or an .npz")
    arguments = parser.parse_args()
    music, images = songs.load(arguments.music), pictures.load(arguments.images)
    rows = [
        row("music-small", "steps that differ, in any key", music.transposed()[0].x, music.test, differing),
        row("mnist-small", "mean difference of pixels", images.train.x, images.test.x, mean_difference),
    ]
    made = (
        f"*`{COMMAND}`: of {NUMBER} samples by ancestral steps in {STEPS} and of {NUMBER} rows held out the distance "
        f"to the nearest training row; bits/dim of {NUMBER} rows, {TIMES} times each; seed 0, ± is a standard error.*"
    )
    said = " ".join(verdict(cells) for cells in rows)
    _page.write("responsible_use.md", "copies", f"{_page.table(HEAD, rows)}\n\n{said}\n\n{made}")


def verdict(cells: list[str]) -> str:
    """Return the conclusion of a row, by two standard errors."""
    name = cells[0].partition(":")[0]
    samples, others, training, held_out = (tuple(map(float, cells[k].split(" ± "))) for k in (1, 2, 4, 5))
    nearer = others[0] - samples[0] > 2 * math.hypot(samples[1], others[1])
    likelier = held_out[0] - training[0] > 2 * math.hypot(training[1], held_out[1])
    memorised = "likelier than others: it has memorised part of them" if likelier else "no likelier than others"
    return (
        f"{name}: samples are {'nearer' if nearer else 'no nearer'} to the training rows than other rows are, and the "
        f"model finds its training rows {memorised}."
    )


def row(name: str, what: str, train: Tensor, test: Tensor, distance: Callable[[Tensor, Tensor], Tensor]) -> list[str]:
    model, generator = tl.load(name), torch.Generator().manual_seed(0)
    held_out = test[torch.randperm(len(test), generator=generator)[:NUMBER]]
    learnt = train[torch.randperm(len(train), generator=generator)[:NUMBER]]
    drawn = model.sample(NUMBER, steps=STEPS, seed=0, states=True).to(train.dtype)
    apart = [nearest(x, train, distance) for x in (drawn, held_out)]
    bits = [
        bits_per_dim(
            model.reverse,
            x.long(),
            samples=TIMES,
            times=LogUniformTimes(0.01),
            batch_size=32,
            generator=torch.Generator().manual_seed(0),
        )
        for x in (learnt, held_out)
    ]
    return [
        f"`{name}`: {what}",
        *(f"{found.value:.1f} ± {found.stderr:.1f}" for found in (Estimate.of_mean(x.double()) for x in apart)),
        str(int((apart[0] == 0).sum())),
        *(f"{found.value:.3f} ± {found.stderr:.3f}" for found in bits),
    ]


def nearest(x: Tensor, reference: Tensor, distance: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Return the smallest distance of each row of x to a row of the reference."""
    flat = x.flatten(1)
    return torch.stack([distance(flat, part.flatten(1)).amin(1) for part in reference.split(AT_ONCE)]).amin(0)


def differing(x: Tensor, reference: Tensor) -> Tensor:
    """Return the number of differing entries, (rows of x, rows of the reference)."""
    return torch.stack([(one != reference).sum(1) for one in x])


def mean_difference(x: Tensor, reference: Tensor) -> Tensor:
    """Return the distance in levels."""
    return torch.cdist(x.float(), reference.float(), p=1.0) / x.shape[1]


if __name__ == "__main__":
    main()
