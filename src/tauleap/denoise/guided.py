"""Classifier-free guidance: strengthen class conditioning by the ratio of two predictions of one network."""

from __future__ import annotations

import math

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check
from tauleap._shapes import States, Time
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.lazy import Lazy
from tauleap.denoise.parametrisation import Parametrisation
from tauleap.denoise.posterior import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed


class Guided(Denoiser):
    """Return p(x0 | x_t, label)^scale p(x0 | x_t)^(1 - scale) at each site, normalised (Ho and Salimans 2022).

    A scale above 1 makes samples more typical of their label and less diverse; 1 changes nothing. The network must have
    been trained with ``null_label`` too, as :class:`tauleap.training.LabelDropout` does. Like a temperature, guidance
    is a heuristic: only a single site with absorbing noise then has the law p(x0 | label)^scale p(x0)^(1 - scale),
    normalised. The network is evaluated once, on a batch of twice the size. Without a condition there is no guidance.

    By Bayes p(x0 | x_t, label) / p(x0 | x_t) is p(label | x0, x_t) / p(label | x_t), at most 1 / p(label | x_t). The
    tails of a network's predictions do not respect that bound: where one is a power of the other, their ratio is
    unbounded, and a state that is improbable under both would win. The ratio is therefore limited to ``max_ratio``.

    Args:
        denoiser: A denoiser whose condition is one class label per sample.
        scale: The guidance scale, > 0; 1 is no guidance.
        null_label: The label that stands for "no label": ``num_classes`` of the networks of this package.
        max_ratio: The largest ratio of the conditional to the unconditional probability, > 1. Default: 10.

    Raises:
        TypeError: ``denoiser`` is not a Denoiser.
        ValueError: A number is out of its range.

    >>> from tauleap.denoise import NetworkDenoiser
    >>> class Labelled(torch.nn.Module):  # two labels, and 2 for "no label"
    ...     def forward(self, x, t, *, condition):
    ...         odds = torch.tensor([[4.0, 1.0], [1.0, 4.0], [1.0, 1.0]])[condition]
    ...         return odds.log()[:, None].expand(*x.shape, 2)
    >>> conditional, label = NetworkDenoiser(Labelled()), torch.tensor([0])
    >>> guided = Guided(conditional, 2.0, null_label=2)
    >>> guided(torch.tensor([[0]]), 0.5, condition=label).probs  # 16 to 1 instead of 4 to 1
    tensor([[[0.9412, 0.0588]]])
    """

    def __init__(self, denoiser: Denoiser, scale: float, *, null_label: int, max_ratio: float = 10.0) -> None:
        super().__init__()
        if not isinstance(denoiser, Denoiser):
            raise TypeError(f"denoiser must be a Denoiser, got {type(denoiser).__name__}")
        self.denoiser = denoiser
        self.scale = _check.positive("scale", scale)
        self.null_label = _check.integer("null_label", null_label, least=0)
        self.max_ratio = _check.positive("max_ratio", max_ratio)
        if self.max_ratio <= 1:
            raise ValueError(f"max_ratio must be > 1, got {max_ratio!r}")

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """Return the guided posterior of every site.

        Args:
            x_t: The noisy states.
            t: The time, one for all samples or one per sample.
            observed: The observed sites. Default: none.
            condition: One integer label per sample. Default: None, no guidance.

        Raises:
            ValueError: ``condition`` is not one integer per sample.
        """
        if condition is None or self.scale == 1:
            return self.denoiser(x_t, t, observed=observed, condition=condition)
        if condition.is_floating_point() or condition.shape != x_t.shape[:1]:
            given = f"{condition.dtype} of shape {tuple(condition.shape)}"
            raise ValueError(f"Guided needs one label per sample, {len(x_t)} integers, got {given}")
        both = self.denoiser(
            torch.cat([x_t, x_t]),
            torch.cat([t, t]) if isinstance(t, Tensor) and t.ndim else t,
            observed=None if observed is None else _twice(observed),
            condition=torch.cat([condition, torch.full_like(condition, self.null_label)]),
        )
        guided = _GuidedLogits(both.parametrisation, self.scale, math.log(self.max_ratio))
        return Posterior(guided, over_data_states=both.over_data_states)

    @property
    def uses_time(self) -> bool:
        return self.denoiser.uses_time

    def check(self, process: ForwardProcess) -> None:
        self.denoiser.check(process)


class _GuidedLogits(Lazy):
    """Combine the logits of each site, with its label and without.

    Args:
        both: The parameters of all sites with the label, and then of all sites without it.
        scale: The guidance scale.
        largest: The limit of the logarithm of the ratio.
    """

    def __init__(self, both: Parametrisation, scale: float, largest: float) -> None:
        self._both, self._scale, self._largest = both, scale, largest
        self.shape = torch.Size((both.shape[0] // 2, *both.shape[1:]))

    @property
    def device(self) -> torch.device:
        return self._both.device

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        number = self.shape[:-1].numel()
        if sites is None:
            rows = self._both.logits.reshape(2 * number, -1)
        else:
            rows = self._both.at(torch.cat([sites, sites + number]))
        conditional, unconditional = rows.log_softmax(-1).chunk(2)
        log_ratio = (conditional - unconditional).clamp(max=self._largest)
        # States of probability 0 keep it: the difference of two infinities is not defined.
        return (conditional + (self._scale - 1) * log_ratio).masked_fill(conditional == -torch.inf, -torch.inf)


def _twice(observed: Observed) -> Observed:
    return Observed(torch.cat([observed.mask, observed.mask]), torch.cat([observed.values, observed.values]))
