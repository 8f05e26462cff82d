"""Any generator at all, given as a matrix."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check
from tauleap._shapes import Law, Matrix
from tauleap.noise.process import ForwardProcess
from tauleap.noise.schedule import Schedule


class Dense(ForwardProcess):
    """``generator`` (S, S) holds the rates from row to column: off-diagonal >= 0, rows that sum to 0.

    The stationary law is found from it; where it is not unique, ``prior`` says where the reverse chain starts. Say
    ``ordinal=True`` where neighbouring states are alike.

    >>> from tauleap.noise import Constant
    >>> cycle = torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, -1.0]])
    >>> Dense(cycle, Constant(2.0)).prior()
    tensor([0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """

    def __init__(
        self, generator: Matrix, schedule: Schedule, *, prior: Law | None = None, ordinal: bool = False
    ) -> None:
        rates = _checked(generator)
        super().__init__(len(rates), schedule)
        self.ordinal = bool(ordinal)
        self.register_buffer("rates", rates)
        self.rates: Tensor
        if prior is not None:
            law = _check.law("prior", prior)
            if law.shape != (self.num_states,):
                raise ValueError(f"prior must have shape ({self.num_states},), got {tuple(law.shape)}")
            drift = (law @ rates).abs().max().item()
            if drift > 1e-6 * rates.abs().max().item():
                raise ValueError(f"prior must be stationary, prior @ generator = 0, but an entry of it is {drift:.3g}")
            self.register_buffer("law", law)
        else:
            self.register_buffer("law", super().stationary())
        self.law: Tensor

    def generator(self) -> Matrix:
        return self.rates

    def stationary(self) -> Law:
        return self.law


def _checked(generator: Tensor) -> Tensor:
    if not isinstance(generator, Tensor) or not generator.is_floating_point():
        given = generator.dtype if isinstance(generator, Tensor) else type(generator).__name__
        raise TypeError(f"generator must be a floating-point tensor (S, S), got {given}")
    if generator.ndim != 2 or generator.shape[0] != generator.shape[1] or generator.shape[0] < 2:
        raise ValueError(f"generator must be a square matrix (S, S) with S >= 2, got shape {tuple(generator.shape)}")
    exact = generator.detach().to(torch.float64).clone()
    off_diagonal = exact.clone().fill_diagonal_(0.0)
    if not bool(torch.isfinite(exact).all()) or bool((off_diagonal < 0).any()):
        raise ValueError(
            f"generator must be finite with off-diagonal rates >= 0, got a minimum of {off_diagonal.min().item():g}"
        )
    exits = off_diagonal.sum(1)
    off = (exact.sum(1)).abs().max().item()
    if off > _check.rounding(generator.dtype, len(exact)) * max(exits.max().item(), 1e-300):
        raise ValueError(
            f"the rows of generator must sum to 0, one sums to {off:.3g}: "
            "write generator - torch.diag(generator.sum(1)) to put the diagonal right"
        )
    if bool((exits == 0).all()):
        raise ValueError("generator must have at least one rate > 0, got all zeros: such a chain never moves")
    return off_diagonal - torch.diag(exits)
