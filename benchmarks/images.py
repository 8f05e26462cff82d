"""The cost of a step besides the U-Net of the image experiment, at batch 8, relative to the network."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch import Tensor, nn

from benchmarks import Row, benchmark, side_by_side
from tauleap import ReverseProcess
from tauleap.denoise import TruncatedLogistic
from tauleap.network import UNet
from tauleap.objective import CompleteElbo
from tauleap.recipes.images import LEVELS, gaussian_noise, one_pass
from tauleap.sampling import Ancestral, TauLeaping

SHAPE = (8, 3, 32, 32)
TAU = 0.001


class TwoOutputs(nn.Module):
    """Replace the network: return two constants per site at no cost."""

    def __init__(self) -> None:
        super().__init__()
        self.out = nn.Parameter(torch.zeros(*SHAPE[1:], 2))

    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return self.out.expand(*x.shape, 2)


@benchmark
def sampling() -> Iterator[Row]:
    """Compare logistic, reverse rates and sampling, with a new kernel each time, with the network's forward pass."""
    reverse, network = ReverseProcess(gaussian_noise(), TruncatedLogistic(TwoOutputs(), LEVELS)), UNet().eval()
    x, times = torch.randint(LEVELS, SHAPE, generator=torch.Generator().manual_seed(0)), torch.full((8,), 0.5)
    for sampler in (TauLeaping(), Ancestral()):
        for t in (0.02, 0.1, 0.5, 1.0):
            steps = count()

            def ours(sampler=sampler, t=t, steps=steps) -> object:
                now = t * (1 - 1e-6 * next(steps))
                return sampler.step(reverse, x, now, now - TAU)

            with torch.no_grad():
                our_time, network_time = side_by_side(ours, lambda: network(x, times), seconds=0.0, rounds=2)
            name = f"images, batch 8, t = {t}: {sampler} beside the U-Net's pass"
            yield Row(name, 100 * our_time / network_time, "% of it", at_most=5.0)


@benchmark
def training() -> Iterator[Row]:
    """Compare noise, logistic, loss and gradient with the network's forward and backward pass."""
    reverse, network = ReverseProcess(gaussian_noise(), TruncatedLogistic(TwoOutputs(), LEVELS)), UNet()
    x, times = torch.randint(LEVELS, SHAPE, generator=torch.Generator().manual_seed(0)), torch.full((8,), 0.5)
    for name, objective in (("complete bound", CompleteElbo()), ("the paper's", one_pass())):
        our_time, network_time = side_by_side(
            lambda objective=objective: objective(reverse, x).mean().backward(),
            lambda: network(x, times).sum().backward(),
            seconds=0.0,
            rounds=1,
        )
        label = f"images, batch 8, {name}: loss beside the U-Net's two passes"
        yield Row(label, 100 * our_time / network_time, "% of it", at_most=10.0)
