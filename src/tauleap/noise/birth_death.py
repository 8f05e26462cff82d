"""Birth/death noise: one step up or down at a time, ends that reflect (Appendix H.3)."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import Law, Matrix
from tauleap.noise.process import ForwardProcess
from tauleap.noise.schedule import Schedule


class BirthDeath(ForwardProcess):
    """Jump to each neighbouring state at rate ``rate``, with reflecting ends.

    For ordinal data. The paper uses it for music with ``Exponential(0.5, 10000)``, as an example of a process that does
    not suit the data.

    The walk between reflecting ends is a free walk on the circle of 2S places, folded once: with g(n) the probability
    that the latter has moved by n,

        q(j | i) = g(i - j) + g(i + j + 1).

    So a kernel follows from 2S numbers, which are Bessel functions summed over the turns of the circle, or, once the
    chain has mixed, a cosine series (the eigenvectors are the DCT-II basis).

    Args:
        num_states: The number of states S of a site, >= 2.
        schedule: The noise schedule beta(t).
        rate: The base rate to each neighbour, > 0. Default: 1.

    >>> from tauleap.noise import Constant
    >>> BirthDeath(3, Constant(1.0)).generator()
    tensor([[-1.,  1.,  0.],
            [ 1., -2.,  1.],
            [ 0.,  1., -1.]], dtype=torch.float64)
    """

    ordinal = True

    def __init__(self, num_states: int, schedule: Schedule, rate: float = 1.0) -> None:
        super().__init__(num_states, schedule)
        self.rate = _check.positive("rate", rate)
        law = torch.full((self.num_states,), 1 / self.num_states, dtype=torch.float64)
        self.register_buffer("law", law, persistent=False)
        self.law: Tensor

    def generator(self) -> Matrix:
        ones = torch.full_like(self.law[1:], self.rate)
        rates = torch.diag(ones, 1) + torch.diag(ones, -1)
        return rates - torch.diag(rates.sum(1))

    def stationary(self) -> Law:
        return self.law

    def exponential(self, c: Tensor) -> Tensor:
        size = self.num_states
        mean = 2 * self.rate * c
        mixed = mean >= size**2 / 10  # the smallest g is then above 1e-5, far above the rounding of the series
        if _device.is_host(c.device):
            by_distance = c.new_empty(len(c), 2 * size)
            if bool(mixed.any()):
                by_distance[mixed] = _around_circle_by_cosines(mean[mixed], size)
            if not bool(mixed.all()):
                by_distance[~mixed] = _around_circle_by_bessel(mean[~mixed], size)
        else:  # both cost less than to look which are needed
            by_bessel = _around_circle_by_bessel(mean, size)
            by_distance = torch.where(mixed[:, None], _around_circle_by_cosines(mean, size), by_bessel)
        state = torch.arange(size, device=c.device)
        return by_distance[:, (state[:, None] - state).abs()] + by_distance[:, state[:, None] + state + 1]

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rate={self.rate:g}"


def _around_circle_by_cosines(mean: Tensor, size: int) -> Tensor:
    """Return g(n) = sum_k exp(-mean (1 - cos(pi k / S))) cos(pi k n / S) / 2S."""
    angle = math.pi / size * torch.arange(2 * size, dtype=mean.dtype, device=mean.device)
    decay = torch.exp(-2 * mean[:, None] * torch.sin(angle / 2) ** 2)
    # The angles are reduced as whole numbers first: cos of a large argument would cost the digits won above.
    place = torch.arange(2 * size, device=mean.device)
    return decay @ torch.cos(angle)[place[:, None] * place % (2 * size)] / (2 * size)


def _around_circle_by_bessel(mean: Tensor, size: int) -> Tensor:
    """Return g(n) = sum_m exp(-mean) I_|n + 2 S m|(mean), every entry right in relative terms.

    The ratios ``r_n = I_{n+1} / I_n`` come from their downward recurrence ``r_{n-1} = mean / (2 n + mean r_n)``, which
    forgets its start and only adds positive numbers. For ``mean < S^2 / 10`` what lies beyond two turns, or 40 steps,
    is below 1e-17 of g.
    """
    turns = max(2, math.ceil(20 / size))
    longest = turns * 2 * size
    ratio = torch.zeros_like(mean)
    ratios = mean.new_empty(longest, len(mean))
    for n in range(longest + 60, 0, -1):
        ratio = mean / (2 * n + mean * ratio)
        if n <= longest:
            ratios[n - 1] = ratio
    scaled = torch.cat([torch.ones_like(mean)[None], ratios.cumprod(0)])
    scaled = (scaled / (1 + 2 * scaled[1:].sum(0))).T
    forwards = scaled[:, :longest].reshape(len(mean), turns, 2 * size).sum(1)
    backwards = scaled[:, 1:].flip(1).reshape(len(mean), turns, 2 * size).sum(1)
    return forwards + backwards
