"""Steer a model of digits without training: digits with little or much ink, by sequential Monte Carlo.

    python examples/06_steering.py

The potential f(x0) is the logarithm of a weight. Samples follow the distribution of the sampler times exp(f), the
better the more particles a sample has. The effective size shows how many of the particles count in the end.
"""

import torch

import tauleap as tl
from tauleap.sampling import Samples


def ink(x0: torch.Tensor) -> torch.Tensor:
    """Return the mean brightness of each digit, 0 to 255."""
    return x0.double().flatten(1).mean(1)


def digits(strength: float, particles: int, n: int = 4) -> Samples:
    model = tl.load("mnist-small", device="cpu")
    plan = model.sampling_plan(steps=8)
    with torch.no_grad():
        return tl.sample(
            model.reverse,
            plan.sampler,
            (n, *model.shape),
            grid=plan.grid,
            final=plan.final,
            potential=lambda x0: strength * ink(x0),
            particles=particles,
            generator=torch.Generator().manual_seed(0),
        )


def main(particles: int = 4) -> dict[float, float]:
    """Return the mean brightness by the strength of the potential."""
    found = {}
    for strength in (-0.5, 0.0, 0.5):
        samples = digits(strength, particles)
        found[strength] = float(ink(samples.x0).mean())
        size = samples.info.effective_size[-1]
        print(f"f = {strength:4.1f} x ink: mean ink {found[strength]:.1f}, effective size {size:.1f} of {particles}")
    return found


if __name__ == "__main__":
    main()
