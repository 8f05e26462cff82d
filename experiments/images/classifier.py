"""Train a small classifier of MNIST digits, whose features and probabilities evaluate the samples.

    python experiments/images/classifier.py --data FILE

It is trained on the same images as the models, for some minutes, and written to --models, runs/images by default. An
existing one is not trained again. The Frechet distance of this experiment uses its 64 features, and is therefore not
FID.
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
BATCH_OF_EVALUATION = 500
MIN_PROBABILITY = 0.9
"""An image is recognised if some digit has a probability above this."""


class Predictions(NamedTuple):
    """Features and class probabilities of each image."""

    features: Tensor
    probs: Tensor

    @property
    def recognised(self) -> Tensor:
        return self.probs.amax(1) > MIN_PROBABILITY

    @property
    def digits(self) -> float:
        """The effective number of different digits: the exponential of the entropy of the predicted classes."""
        counts = self.probs.argmax(1).bincount(minlength=10).double()
        return float(torch.special.entr(counts / counts.sum()).sum().exp())


class Classifier(nn.Module):
    """A network of two convolutions, 64 features and ten classes."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.features, self.digits = nn.Linear(64 * 7 * 7, 64), nn.Linear(64, 10)

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (n, 64) and logits (n, 10) of bytes (n, 1, 28, 28)."""
        h = F.max_pool2d(F.relu(self.first(x.float() / 255)), 2)
        h = F.max_pool2d(F.relu(self.second(h)), 2)
        features = F.relu(self.features(h.flatten(1)))
        return features, self.digits(F.dropout(features, 0.3, self.training))

    @torch.no_grad()
    def predict(self, x: Tensor) -> Predictions:
        self.eval()
        features, logits = zip(*(self(part) for part in x.split(BATCH_OF_EVALUATION)), strict=True)
        return Predictions(torch.cat(features), torch.cat(logits).softmax(-1))


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
        raise SystemExit(f"{path} does not exist: run classifier.py with the same --data and --models first")
    classifier.load_state_dict(load_file(path))
    return classifier


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    arguments = parser.parse_args()
    path = arguments.models / "classifier.safetensors"
    if path.exists():
        print(f"{path} exists and is not trained again, since samples may have been evaluated with it")
        return
    loaded = pictures.load(arguments.data)
    x, y = loaded.train.x, loaded.train.condition
    if y is None or loaded.test.condition is None:
        raise SystemExit("the data has no labels: save y_train and y_test")
    classifier = train(x, y)
    predictions = classifier.predict(loaded.test.x)
    accuracy = (predictions.probs.argmax(1) == loaded.test.condition).double().mean()
    arguments.models.mkdir(parents=True, exist_ok=True)
    with _files.atomic_write(path) as file:
        file.write(save(classifier.state_dict()))
    print(
        f"test images: {accuracy:.4f} correct, {predictions.recognised.double().mean():.4f} recognised with more than "
        f"{MIN_PROBABILITY}"
    )


if __name__ == "__main__":
    main()
