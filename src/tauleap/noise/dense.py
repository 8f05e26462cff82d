"""Any generator at all, given as a matrix."""

from __future__ import annotations

from torch import Tensor

from tauleap import _check
from tauleap._shapes import Law, Matrix
from tauleap.noise.process import ForwardProcess
from tauleap.noise.schedule import Schedule


class Dense(ForwardProcess):
    """Use any generator, given as a matrix.

    The stationary distribution is computed from the generator. If it is not unique, ``prior`` is needed.

    Args:
        generator: The base generator R_b (S, S): rates from row to column, off-diagonal entries >= 0, rows that sum to
            0.
        schedule: The noise schedule beta(t).
        prior: The distribution from which the reverse chain starts. Default: the stationary distribution.
        ordinal: Whether states have an order, with similar neighbours. Default: False.

    Raises:
        ValueError: The matrix is not a generator, or its stationary distribution is not unique and ``prior`` is absent.

    >>> import torch
    >>> from tauleap.noise import Constant
    >>> cycle = torch.tensor([[-1.0, 1.0, 0.0], [0.0, -1.0, 1.0], [1.0, 0.0, -1.0]])
    >>> Dense(cycle, Constant(2.0)).prior()
    tensor([0.3333, 0.3333, 0.3333], dtype=torch.float64)
    """

    def __init__(
        self, generator: Matrix, schedule: Schedule, *, prior: Law | None = None, ordinal: bool = False
    ) -> None:
        rates = _check.generator(generator)
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
                raise ValueError(
                    f"prior must be stationary, but prior @ generator has an entry of size {drift:.3g} instead of 0: "
                    "leave prior out to compute it"
                )
            self.register_buffer("law", law)
        else:
            self.register_buffer("law", super().stationary())
        self.law: Tensor

    def generator(self) -> Matrix:
        return self.rates

    def stationary(self) -> Law:
        return self.law
