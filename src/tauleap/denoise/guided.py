"""Guidance: a condition made louder, for a denoiser that can also do without it."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _check
from tauleap._shapes import States, Time
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.posterior import Posterior
from tauleap.observed import Observed


class Guided(Denoiser):
    """p(x0 | x_t, label)^scale p(x0 | x_t)^(1 - scale) at each site, normalised (Ho and Salimans 2022).

    Above 1 samples are more clearly of their label, and less diverse; 1 changes nothing. The network must have been
    trained with the label ``unknown`` too, as :class:`tauleap.training.ForgetLabels` has it. Like a temperature it is a
    heuristic: only a single site with absorbing noise then has the law p(x0 | label)^scale p(x0)^(1 - scale),
    normalised. The network is asked once, about twice as many states. Without a condition it is not guided.

    By Bayes p(x0 | x_t, label) / p(x0 | x_t) is p(label | x0, x_t) / p(label | x_t), at most 1 / p(label | x_t). The
    tails of what a network says know nothing of that: where one is a power of the other their ratio has no limit, and a
    state that neither believes in would win. So the ratio counts up to ``most``.

    Args:
        denoiser: of a network whose condition is a label for each sample.
        scale: > 0.
        unknown: the label that says nothing, ``num_classes`` of the networks of this package.
        most: the largest ratio; > 1.

    >>> from tauleap.denoise import NetworkDenoiser
    >>> class Labelled(torch.nn.Module):  # two labels, and 2 for "not known"
    ...     def forward(self, x, t, *, condition):
    ...         odds = torch.tensor([[4.0, 1.0], [1.0, 4.0], [1.0, 1.0]])[condition]
    ...         return odds.log()[:, None].expand(*x.shape, 2)
    >>> told, label = NetworkDenoiser(Labelled()), torch.tensor([0])
    >>> Guided(told, 2.0, unknown=2)(torch.tensor([[0]]), 0.5, condition=label).probs  # 16 to 1 in the place of 4 to 1
    tensor([[[0.9412, 0.0588]]])
    """

    def __init__(self, denoiser: Denoiser, scale: float, *, unknown: int, most: float = 10.0) -> None:
        super().__init__()
        if not isinstance(denoiser, Denoiser):
            raise TypeError(f"denoiser must be a Denoiser, got {type(denoiser).__name__}")
        self.denoiser = denoiser
        self.scale = _check.positive("scale", scale)
        self.unknown = _check.integer("unknown", unknown, least=0)
        self.most = _check.positive("most", most)
        if self.most <= 1:
            raise ValueError(f"most must be a ratio > 1, got {most!r}")

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        if condition is None or self.scale == 1:
            return self.denoiser(x_t, t, observed=observed, condition=condition)
        if condition.is_floating_point() or condition.shape != x_t.shape[:1]:
            given = f"{condition.dtype} of shape {tuple(condition.shape)}"
            raise ValueError(f"Guided is for a label each sample, {len(x_t)} integers, got {given}")
        both = self.denoiser(
            torch.cat([x_t, x_t]),
            torch.cat([t, t]) if isinstance(t, Tensor) and t.ndim else t,
            observed=None if observed is None else _twice(observed),
            condition=torch.cat([condition, torch.full_like(condition, self.unknown)]),
        )
        told, untold = both.log_probs.chunk(2)
        louder = told + (self.scale - 1) * (told - untold).clamp(max=math.log(self.most))
        # What cannot be stays out: the difference of two infinities says nothing.
        logits = louder.masked_fill(told == -torch.inf, -torch.inf)
        return Posterior(logits, over_data_states=both.over_data_states)


def _twice(observed: Observed) -> Observed:
    return Observed(torch.cat([observed.mask, observed.mask]), torch.cat([observed.values, observed.values]))
