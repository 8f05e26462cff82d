"""The models of ``default_samplers.py``, and the errors of their samples: 0 for exact samples, up to sampling noise."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import tauleap as tl
from tauleap.evaluate import hellinger_of_laws
from tauleap.sampling import FirstHitting

sys.path.append(str(Path(__file__).parents[1] / "examples" / "data"))

import make_some

SEED = 0
DIGIT_ROUGHNESS = 0.06672
"""Mean absolute difference of neighbouring pixels / 255 in the 10,000 test images of MNIST, averaged over classes."""
DIGIT_EDGES = torch.tensor([1, 8, 32, 128])
DIGIT_DIFFERENCES = torch.tensor([0.80683, 0.02202, 0.03334, 0.08110, 0.05671], dtype=torch.float64)
"""Distribution of these differences over 0, 1-7, 8-31, 32-127 and 128-255 levels, for the same images."""

Error = Callable[[Tensor], float]


@dataclass(frozen=True)
class Task:
    """A model, the errors of a set of its samples, and the number of samples.

    Args:
        model: The model.
        errors: Functions of the states (n, *shape), by what they measure.
        samples: How many are drawn, by the number of evaluations.
        labels: The number of classes; with it the samples have the labels 0, 1, ... in turn.
    """

    model: tl.Model
    errors: dict[str, Error]
    samples: dict[int, int]
    labels: int | None = None

    def condition(self, n: int) -> Tensor | None:
        """Return the labels of ``n`` samples.

        Args:
            n: How many; a multiple of the number of classes.
        """
        return None if self.labels is None else torch.arange(n) % self.labels


def table_task(process: str) -> Task:
    """Return a fitted table of five columns with a known distribution.

    Args:
        process: The noise by its name, as ``tl.fit`` takes it.
    """
    law, sizes = torch.from_numpy(make_some.law()), [len(held) for held in make_some.COLUMNS.values()]
    rows = torch.from_numpy(make_some.orders(20_000, seed=100 + SEED))
    data = tl.data.Dataset(rows, max(sizes), sizes=torch.tensor(sizes))
    model = tl.fit(data, steps=1500, seed=SEED, process=process, progress=False)
    pairs = list(itertools.combinations(range(len(sizes)), 2))
    exact = [law.sum([k for k in range(len(sizes)) if k not in pair]) for pair in pairs]

    def error(x: Tensor) -> float:
        total = 0.0
        for (a, b), held in zip(pairs, exact, strict=True):
            counts = torch.bincount(x[:, a] * sizes[b] + x[:, b], minlength=sizes[a] * sizes[b])
            total += 0.5 * float((counts.reshape(held.shape) / len(x) - held).abs().sum())
        return total / len(pairs)

    return Task(model, {"total variation, mean over pairs of columns": error}, {16: 20_000, 64: 10_000, 256: 5_000})


def text_task(process: str, length: int = 32) -> Task:
    """Return a fitted text of 20 invented words, cut into rows.

    Args:
        process: The noise by its name, as ``tl.fit`` takes it.
        length: Letters per row; rows per batch and samples are such that the number of letters is the same for each.
    """
    generator = np.random.default_rng(SEED)
    lexicon = ["".join(generator.choice(list("abdegiklmnoprstu"), generator.integers(2, 6))) for _ in range(20)]
    chances = 1 / np.arange(1, 21)
    stream = " ".join(generator.choice(lexicon, 60_000, p=chances / chances.sum()))
    letters = sorted(set(stream))
    codes = torch.tensor([letters.index(letter) for letter in stream])
    rows = codes[: len(codes) // length * length].reshape(-1, length)
    # A dense network, which is the choice for so few sites, does not see that all places of a text are alike.
    model = tl.fit(
        rows,
        steps=1500,
        seed=SEED,
        process=process,
        network="sequence-transformer",
        width=64,
        depth=2,
        batch_size=2048 // length,
        lr=2e-3,
        masking=None,
        num_states=len(letters),
        progress=False,
    )
    known = set(lexicon)

    def error(x: Tensor) -> float:
        words = [word for row in x.tolist() for word in "".join(letters[c] for c in row).split(" ")[1:-1]]
        return sum(word not in known for word in words) / max(1, len(words))

    samples = {evaluations: 32 * rows // length for evaluations, rows in ((16, 1024), (64, 512), (256, 256))}
    return Task(model, {"fraction of words that do not exist": error}, samples)


def digits_task() -> Task:
    """Return the shipped digits, equally many per class; errors of the noise show in differences of neighbours."""

    def roughness(x: Tensor) -> float:
        pixels = x.double().reshape(-1, 28, 28) / 255
        across, down = pixels.diff(dim=2).abs().mean(), pixels.diff(dim=1).abs().mean()
        return abs(float(across + down) / 2 / DIGIT_ROUGHNESS - 1)

    def differences(x: Tensor) -> float:
        pixels = x.reshape(-1, 28, 28)
        each = torch.cat([pixels.diff(dim=2).flatten(), pixels.diff(dim=1).flatten()]).abs()
        counts = torch.bincount(torch.bucketize(each, DIGIT_EDGES, right=True), minlength=5).double()
        return float(hellinger_of_laws(counts / counts.sum(), DIGIT_DIFFERENCES))

    errors: dict[str, Error] = {
        "Hellinger distance of differences of neighbouring pixels to MNIST": differences,
        "relative error of their mean, the roughness": roughness,
    }
    return Task(tl.load("mnist-small"), errors, {16: 80, 64: 60, 256: 20}, labels=10)


def music_task() -> Task:
    """Return the shipped melodies, compared with exact samples of the same model."""
    model = tl.load("music-small")
    exact = model.sample(48, sampler=FirstHitting(), seed=SEED + 1, states=True)
    rest, edges = 128, torch.tensor([1, 3, 6, 13])

    def intervals(x: Tensor) -> Tensor:
        """Return frequencies of pitch changes of 0, 1-2, 3-5, 6-12 and more semitones, and of changes of rests."""
        before, after = x[:, :-1].flatten(), x[:, 1:].flatten()
        place = torch.bucketize((after - before).abs(), edges, right=True)
        place[(before != after) & ((before == rest) | (after == rest))] = 5
        counts = torch.bincount(place, minlength=6).double()
        return counts / counts.sum()

    reference = intervals(exact)

    def error(x: Tensor) -> float:
        return float(hellinger_of_laws(intervals(x), reference))

    name = "Hellinger distance of intervals to exact samples of the model"
    return Task(model, {name: error}, {16: 48, 64: 32, 256: 12})
