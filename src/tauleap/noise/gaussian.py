"""Gaussian noise: jumps to nearby states, with a discretised Gaussian as stationary law (Appendix E)."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check
from tauleap._shapes import Law, Matrix
from tauleap.noise.matrix_exponential import MatrixExponential
from tauleap.noise.process import ForwardProcess
from tauleap.noise.schedule import Schedule


class Gaussian(ForwardProcess):
    """Jump to nearby states, with a discretised Gaussian as the stationary distribution.

    For ordinal data such as pixels.

    With ``p(x)`` proportional to ``exp(-(x - mu)^2 / (2 sigma_0^2))`` about the middle ``mu = (S - 1) / 2``, a jump
    towards the middle (or across it, to a state no further out) over the distance d has the rate ``exp(-(d - 1)^2 /
    sigma_r^2)``; the reverse jump has this rate times ``p(outer) / p(inner)``, by detailed balance. That is the
    construction of Appendix E, where the row of the outer state is filled first. The paper uses 32 states with (8, 1)
    for the toy and 256 states with (512, 6) for images.

    Args:
        num_states: The number of states S of a site, >= 2.
        schedule: The noise schedule beta(t).
        sigma_0: The standard deviation of the stationary distribution, in states, > 0.
        sigma_r: The length scale of a jump, in states, > 0.

    >>> from tauleap.noise import Exponential
    >>> Gaussian(4, Exponential(5.0, 5.0), sigma_0=2.0, sigma_r=1.0).generator()[0]
    tensor([-1.3862,  1.0000,  0.3679,  0.0183], dtype=torch.float64)
    """

    ordinal = True

    def __init__(self, num_states: int, schedule: Schedule, sigma_0: float, sigma_r: float) -> None:
        super().__init__(num_states, schedule)
        self.sigma_0 = _check.positive("sigma_0", sigma_0)
        self.sigma_r = _check.positive("sigma_r", sigma_r)
        states = torch.arange(self.num_states, dtype=torch.float64)
        log_p = -(((states - (self.num_states - 1) / 2) / self.sigma_0) ** 2) / 2
        distance = (states[:, None] - states).abs()
        log_rates = -(((distance - 1) / self.sigma_r) ** 2) + (log_p - log_p[:, None]).clamp(max=0.0)
        rates = log_rates.exp().fill_diagonal_(0.0)
        if not (bool(torch.isfinite(log_p).all()) and bool(torch.isfinite(rates).all())):
            raise ValueError(
                f"sigma_0 = {sigma_0:g} and sigma_r = {sigma_r:g} are too small for {num_states} states: "
                "write larger ones"
            )
        self.register_buffer("law", log_p.softmax(0), persistent=False)
        self.register_buffer("rates", rates - torch.diag(rates.sum(1)), persistent=False)
        self.law: Tensor
        self.rates: Tensor

    def generator(self) -> Matrix:
        return self.rates

    def stationary(self) -> Law:
        return self.law

    def _matrix_exponential(self) -> MatrixExponential:
        return MatrixExponential(self.rates, self.law)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, sigma_0={self.sigma_0:g}, sigma_r={self.sigma_r:g}"
