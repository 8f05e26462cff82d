"""A small classifier of MNIST digits: what it sees in a picture, and how sure it is of the digit.

    python experiments/images/classifier.py --data FILE

Trained on the same images as the models, for some minutes, unless it is there already; written to runs/images, or where
--models says. Its 64 features are what the Frechet distance of this experiment is taken on, which is therefore not FID.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pictures
import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save
from torch import Tensor, nn

from tauleap import _files

SEED, EPOCHS, BATCH, RATE = 0, 5, 128, 2e-3
AT_ONCE = 500
SURE = 0.9
"""A picture is recognised if some digit has more than this probability."""


class Seen(NamedTuple):
    """Of each picture."""

    features: Tensor
    probs: Tensor

    @property
    def recognised(self) -> Tensor:
        return self.probs.amax(1) > SURE

    @property
    def digits(self) -> float:
        """How many different digits: the exponential of the entropy of what is seen, 10 if all come equally often."""
        counts = self.probs.argmax(1).bincount(minlength=10).double()
        return float(torch.special.entr(counts / counts.sum()).sum().exp())


class Classifier(nn.Module):
    """Two convolutions, 64 features, ten digits."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.features, self.digits = nn.Linear(64 * 7 * 7, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Bytes (n, 1, 28, 28) -> features (n, 64) and logits (n, 10)."""
        h = F.max_pool2d(F.relu(self.first(x.float() / 255)), 2)
        h = F.max_pool2d(F.relu(self.second(h)), 2)
        features = F.relu(self.features(h.flatten(1)))
        return features, self.digits(F.dropout(features, 0.3, self.training))

    @torch.no_grad()
    def see(self, x: Tensor) -> Seen:
        self.eval()
        features, logits = zip(*(self(part) for part in x.split(AT_ONCE)), strict=True)
        return Seen(torch.cat(features), torch.cat(logits).softmax(-1))


def batches(count: int, generator: torch.Generator) -> Iterator[Tensor]:
    for _ in range(EPOCHS):
        yield from torch.randperm(count, generator=generator).split(BATCH)


def train(x: Tensor, y: Tensor) -> Classifier:
    torch.manual_seed(SEED)
    classifier, generator = Classifier(), torch.Generator().manual_seed(SEED)
    optimizer = torch.optim.Adam(classifier.parameters(), RATE)
    total = EPOCHS * -(-len(x) // BATCH)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, total)
    for rows in batches(len(x), generator):
        loss = F.cross_entropy(classifier(x[rows])[1], y[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return classifier


def load(models: Path) -> Classifier:
    path, classifier = models / "classifier.safetensors", Classifier()
    if not path.exists():
        raise SystemExit(f"{path} is not there: run classifier.py with the same --data and --models first")
    classifier.load_state_dict(load_file(path))
    return classifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    arguments = parser.parse_args()
    path = arguments.models / "classifier.safetensors"
    if path.exists():
        print(f"{path} is there, and is kept: samples may have been measured by it")
        return
    loaded = pictures.load(arguments.data)
    x, y = loaded.train.x, loaded.train.condition
    if y is None or loaded.test.condition is None:
        raise SystemExit("the file has no digits")
    classifier = train(x, y)
    seen = classifier.see(loaded.test.x)
    right = (seen.probs.argmax(1) == loaded.test.condition).double().mean()
    arguments.models.mkdir(parents=True, exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(save(classifier.state_dict()))
    print(f"test images: {right:.4f} right, {seen.recognised.double().mean():.4f} recognised with more than {SURE}")


if __name__ == "__main__":
    main()
