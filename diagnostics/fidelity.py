"""Compare torch-fidelity's FID with tauleap's Frechet distance on the same features.

    pip install 'tauleap[fid]'
    python diagnostics/fidelity.py [--n 600] [--seed 0]

The features are those of a small random network instead of Inception, whose weights must be downloaded. ``fid_and_is``
runs on a folder of PNGs as ``tauleap sample`` writes them, and on an array on disk. The two values must agree to a
relative 1e-6. The Inception Score is compared with its formula. The exit status is 1 if they differ.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import Tensor, nn
from torch_fidelity import FeatureExtractorBase
from torch_fidelity import __version__ as version

from tauleap.data.image.format import ImageFormat
from tauleap.evaluate import Moments, fid_and_is, frechet_distance, frechet_of_moments
from tauleap.evaluate.pictures import pictures

AGREEMENT = 1e-6


class Small(FeatureExtractorBase):
    """A network of two convolutions, in float64, because torch-fidelity averages in the precision of the features."""

    def __init__(self, width: int = 64, classes: int = 10) -> None:
        super().__init__("small-random", ["features", "logits"])
        self.body = nn.Sequential(nn.Conv2d(3, 32, 5, 2), nn.Tanh(), nn.Conv2d(32, width, 3, 2), nn.Tanh()).double()
        self.head = nn.Linear(width, classes, dtype=torch.float64)

    @staticmethod
    def get_provided_features_list() -> tuple[str, ...]:
        return "features", "logits"

    @staticmethod
    def get_default_feature_layer_for_metric(metric: str) -> str:
        return {"fid": "features", "isc": "logits"}[metric]

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        features = self.body(x.double() / 127.5 - 1).mean((2, 3))
        return features, 20 * self.head(features)


def drawn(n: int, channels: int, high: int, generator: torch.Generator) -> Tensor:
    """Return 16 x 16 images of smooth noise."""
    rough = torch.randint(0, high, (n, channels, 4, 4), generator=generator).float()
    return nn.functional.interpolate(rough, size=16, mode="bilinear").round().long()


def score(logits: Tensor, splits: int = 10) -> float:
    """Return exp E KL(p(y | x), p(y)), averaged over the parts into which torch-fidelity shuffles the images."""
    logits = logits[np.random.RandomState(2020).permutation(len(logits))]
    bounds = [k * len(logits) // splits for k in range(splits + 1)]
    values = []
    for begin, end in itertools.pairwise(bounds):
        log_p = logits[begin:end].log_softmax(1)
        values.append(float((log_p.exp() * (log_p - log_p.exp().mean(0).log())).sum(1).mean().exp()))
    return sum(values) / splits


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n", type=int, default=600)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    generator = torch.Generator().manual_seed(options.seed)
    torch.manual_seed(options.seed)
    extractor, worst = Small(), 0.0
    print(f"torch-fidelity {version}, torch {torch.__version__}, n = {options.n}, seed {options.seed}")
    with tempfile.TemporaryDirectory() as name:
        for channels, kind in ((3, "colour"), (1, "grey")):
            samples, reference = (drawn(n, channels, high, generator) for n, high in ((options.n, 256), (500, 240)))
            folder, file = Path(name) / kind, Path(name) / f"{kind}.npy"
            ImageFormat(channels, 16, 16).write(samples, folder)
            (folder / "request.json").write_text("{}")
            np.save(file, reference.to(torch.uint8).numpy())
            found = fid_and_is(folder, file, extractor=extractor)
            with torch.no_grad():
                ours = [
                    extractor(torch.stack([rows[k] for k in range(len(rows))]))
                    for rows in (pictures(samples), pictures(reference))
                ]
            (x, logits), (y, _) = ours
            own, own_score = frechet_of_moments(Moments.of(x), Moments.of(y)), score(logits)
            off = abs(found.fid / own - 1), abs(found.isc_mean / own_score - 1)
            worst = max(worst, *off)
            print(f"{kind}: {found}")
            print(f"  FID of torch-fidelity {found.fid:.12g}, own {own:.12g}, relative difference {off[0]:.1e}")
            print(f"  IS of torch-fidelity {found.isc_mean:.12g}, formula {own_score:.12g}, difference {off[1]:.1e}")
            print(f"  own, with its standard error: {frechet_distance(x, y)}")
    agree = worst <= AGREEMENT
    print(f"{'agree' if agree else 'DIFFER'}: worst relative difference {worst:.1e}, at most {AGREEMENT:g} allowed")
    return 0 if agree else 1


if __name__ == "__main__":
    sys.exit(main())
