"""Sampler steps without the network, at the shapes of the paper's experiments, against Algorithm 1 as written."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch
from torch import Tensor

from benchmarks import FixedLogits, Row, benchmark, peak_memory, side_by_side
from benchmarks.paper import DenseRates
from tauleap import ReverseProcess
from tauleap.noise import Constant, Exponential, ForwardProcess, Gaussian, Uniform
from tauleap.sampling import TauLeaping

TAU = 0.001  # the paper's step in both experiments


class PlainLeap:
    """Algorithm 1 as written: rates of all states of all sites, a Poisson variable for each, and their sum."""

    def __init__(self, process: ForwardProcess) -> None:
        self.dense, self.ordinal, self.num_states = DenseRates(process), process.ordinal, process.num_states

    def __call__(self, logits: Tensor, x: Tensor, t: float, tau: float) -> Tensor:
        rates = self.dense.rates(logits, x, torch.full((len(x),), t))
        # The authors' code also clamps rates, since small kernel entries in float32 may be negative or infinite.
        jumps = torch.poisson(tau * rates.nan_to_num_(0.0, 0.0, 0.0).clamp_(0.0, 1e4))
        x_next = x + (jumps * (torch.arange(self.num_states) - x[..., None])).sum(-1).long()
        if not self.ordinal:
            x_next = torch.where(jumps.sum(-1) > 1, x, x_next)
        return x_next.clamp(0, self.num_states - 1)


@benchmark
def music() -> Iterator[Row]:
    process = Uniform(129, Constant(0.03))
    x, logits = torch.randint(129, (16, 256)), torch.randn(16, 256, 129)
    for t in (0.1, 0.5, 1.0):
        yield from _rows("music, uniform", process, logits, x, t, faster=12.0)


@benchmark
def images() -> Iterator[Row]:
    process = Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0)
    x, logits = torch.randint(256, (8, 3, 32, 32)), torch.randn(8, 3, 32, 32, 256)
    for t, faster in ((0.02, 8.0), (0.1, 8.0), (0.25, 8.0), (0.49, 8.0), (1.0, 3.0)):
        yield from _rows("images, Gaussian", process, logits, x, t, faster=faster)


def _rows(name: str, process: ForwardProcess, logits: Tensor, x: Tensor, t: float, *, faster: float) -> Iterator[Row]:
    """Compare one step, with uniform ``x`` and normal ``logits`` as of an untrained network; trained ones jump less.

    Every step has a new time, as in sampling, so its kernel is not cached.
    """
    reverse, sampler, plain = ReverseProcess(process, FixedLogits(logits)), TauLeaping(), PlainLeap(process)
    generator, steps = torch.Generator().manual_seed(0), count()

    def ours() -> object:
        now = t * (1 - 1e-6 * next(steps))
        return sampler.step(reverse, x, now, now - TAU, generator=generator)

    ours_seconds, plain_seconds = side_by_side(ours, lambda: plain(logits, x, t, TAU))
    yield Row(
        f"{name}, t = {t}: tau-leap against Algorithm 1", plain_seconds / ours_seconds, "x faster", at_least=faster
    )
    ours_seconds, softmax = side_by_side(ours, lambda: logits.softmax(-1))
    limit = 6.0 if t < 0.5 else None
    yield Row(f"{name}, t = {t}: tau-leap in softmaxes", ours_seconds / softmax, "softmaxes", at_most=limit)
    peak = peak_memory(ours)
    yield Row(f"{name}, t = {t}: peak beyond the logits", peak / logits.nbytes, "x logits", at_most=3.0)
