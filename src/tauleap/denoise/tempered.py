"""Sampling temperature."""

from __future__ import annotations

from torch import Tensor

from tauleap import _check
from tauleap._shapes import States, Time
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.lazy import Mapped
from tauleap.denoise.posterior import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class Tempered(Denoiser):
    """Divide the logits of p(x0 | x_t) by a temperature, at every time.

    Below 1 the likely states of a site become likelier: samples are more typical and less diverse. It is a heuristic:
    only a single site with absorbing noise then has the law p(x0)^(1/temperature), normalised. 1 changes nothing.

    Args:
        denoiser: The denoiser.
        temperature: The temperature, > 0.

    Raises:
        TypeError: ``denoiser`` is not a Denoiser.
        ValueError: ``temperature`` is not a positive number.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> import torch
    >>> exact = ExactDenoiser(torch.tensor([0.8, 0.2]), Uniform(2, Constant(9.0)))
    >>> Tempered(exact, 0.5)(torch.tensor([[0]]), 1.0).probs  # 16 to 1 instead of 4 to 1
    tensor([[[0.9412, 0.0588]]])
    """

    def __init__(self, denoiser: Denoiser, temperature: float) -> None:
        super().__init__()
        if not isinstance(denoiser, Denoiser):
            raise TypeError(f"denoiser must be a Denoiser, got {type(denoiser).__name__}")
        self.denoiser = denoiser
        self.temperature = _check.positive("temperature", temperature)

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        posterior = self.denoiser(x_t, t, observed=observed, condition=condition)
        tempered = Mapped(posterior.parametrisation, lambda rows, _: rows / self.temperature)
        return Posterior(tempered, over_data_states=posterior.over_data_states)

    @property
    def uses_time(self) -> bool:
        return self.denoiser.uses_time

    def check(self, process: ForwardProcess) -> None:
        self.denoiser.check(process)
