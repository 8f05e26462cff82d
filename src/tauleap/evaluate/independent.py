"""The baseline of independent sites: has a model learned that sites depend on each other?"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import States
from tauleap.evaluate.estimate import Estimate

_FEW_ROWS = 10
"""Held-out rows below which a standard error is itself too uncertain to be relied on."""
_SMALL = 1e-3
"""A smaller part of the bits of independent sites is no reason to train longer: after one step, a network that begins
with the marginals of one site has lost 3e-5 of a bit, which over hundreds of rows is more than two standard errors."""


def independent_bits_per_dim(
    data: States,
    marginals: Tensor,
    *,
    missing: Tensor | None = None,
    observed: Tensor | None = None,
) -> Float[Tensor, " batch"]:
    """Return -log2 of the product of the marginals for each row, per dimension.

    It is comparable row by row with ``bits_per_dim(..., per_datapoint=True)``: a row's dimensions are the sites that
    are neither observed nor missing.

    >>> marginals = torch.tensor([[0.5, 0.5], [0.25, 0.75]])
    >>> independent_bits_per_dim(torch.tensor([[0, 0], [1, 0]]), marginals)  # (1 + 2) / 2 bits
    tensor([1.5000, 1.5000], dtype=torch.float64)

    Args:
        data: rows of states, int64 (n, *shape).
        marginals: probability of each state at each site, (*shape, S); states that occur must have one above 0 for
            the result to be finite.
        missing: True where a value is unknown. Default: all are known.
        observed: True where a value is observed; it does not count. Default: none is.

    Returns:
        Bits per dimension of each row, float64 (n,).

    Raises:
        ValueError: if shapes differ, a state is out of range, or a row has no dimension left.
    """
    _check.states(data, marginals.shape[-1], name="data")
    if marginals.shape[:-1] != data.shape[1:]:
        raise ValueError(
            f"marginals must be (*shape, S) for rows of shape {tuple(data.shape[1:])}, got {tuple(marginals.shape)}"
        )
    scored = torch.ones_like(data, dtype=torch.bool)
    for name, mask in (("missing", missing), ("observed", observed)):
        if mask is not None:
            if mask.shape != data.shape:
                raise ValueError(f"{name} must have the shape of data, {tuple(data.shape)}, got {tuple(mask.shape)}")
            scored = scored & ~mask
    where = _device.exact_device(data.device)
    data, scored = data.to(where), scored.to(where)
    log_probs = _device.exact(marginals).log2().expand(*data.shape, -1)
    bits = -log_probs.gather(-1, data[..., None]).squeeze(-1)
    # Not a product with the mask: the marginal of an arbitrary state at a missing site may be 0.
    bits = torch.where(scored, bits, 0.0).reshape(len(data), -1).sum(1)
    dimensions = scored.reshape(len(data), -1).sum(1)
    if bool((dimensions == 0).any()):
        number = int((dimensions == 0).nonzero()[0, 0])
        raise ValueError(f"every value of row {number} is observed or missing: leave the row out")
    return bits / dimensions


@dataclass(frozen=True)
class Comparison:
    """Compare the bits/dim of a model with those of independent sites on the same rows.

    >>> found = Comparison.of(torch.tensor([1.0, 2.0, 1.5]), torch.tensor([2.0, 3.0, 2.6]))
    >>> found.is_better
    True
    >>> print(found.gain)
    1.033 +- 0.033 (n = 3)
    """

    model: Estimate[float]
    """The bits/dim of the model."""
    independent: Estimate[float]
    """The bits/dim of independent sites."""
    gain: Estimate[float]
    """The bits/dim of independent sites minus those of the model, with the standard error of the paired difference."""

    @staticmethod
    def of(model: Tensor, independent: Tensor) -> Comparison:
        """Compare bits/dim of the same rows.

        Args:
            model: bits/dim of each row under the model.
            independent: bits/dim of each row under independent sites.

        Returns:
            The means of both, and the mean difference, with standard errors.
        """
        if model.shape != independent.shape:
            raise ValueError(
                f"model and independent must have the same shape, one number per row, got {tuple(model.shape)} and "
                f"{tuple(independent.shape)}"
            )
        gain = Estimate.of_mean(independent.detach().cpu().double() - model.detach().cpu().double())
        return Comparison(Estimate.of_mean(model), Estimate.of_mean(independent), gain)

    @property
    def is_better(self) -> bool:
        """Whether the model is better than independent sites by more than two standard errors."""
        return is_clear(self.gain.value, self.gain.stderr)

    @property
    def is_worse(self) -> bool:
        """Whether the model is worse than independent sites by more than two standard errors, and by a thousandth."""
        return is_clear(-self.gain.value, self.gain.stderr) and -self.gain.value > _SMALL * self.independent.value

    def verdict(self, *, varying_sites: int) -> bool | None:
        """Return whether the model is better than independent sites, or None where the rows cannot show it.

        With fewer than two varying sites no model can be better; one that is clearly worse needs more training.

        Args:
            varying_sites: how many sites have more than one state.
        """
        if varying_sites < 2:
            return False if self.is_worse else None
        return self.is_better if self.gain.n > 1 else None

    def sentence(self, *, varying_sites: int, unit: str = "bits/dim") -> str:
        """Return an interpretation of the numbers in one line.

        Args:
            varying_sites: how many sites have more than one state.
            unit: the unit of the numbers. Default: "bits/dim".
        """
        numbers = f"{self.model} {unit} on held-out rows; independent sites: {self.independent}"
        if varying_sites < 2 and not self.is_worse:
            return f"{numbers}. Fewer than two sites vary, so there is no dependence between sites to learn"
        if self.gain.n == 1:
            return f"{numbers}. One held-out row does not show if the model has learned dependence between the sites"
        difference = f"{abs(self.gain.value):.4f} +- {self.gain.stderr:.4f}"
        note = f" (only {self.gain.n} held-out rows: a rough comparison)" if self.gain.n < _FEW_ROWS else ""
        if self.is_better:
            return f"{numbers}. The model is better by {difference}: it has learned dependence between the sites{note}"
        how = f"worse by {difference}"
        if varying_sites < 2:
            missing = "it has not learned the distribution of the site yet, and needs more training"
            return f"{numbers}. The model is {how}: {missing}{note}"
        if self.gain.value > 0:
            how = f"better by {difference}, less than two standard errors"
        missing = "it has not learned dependence between the sites yet, or there is none"
        return f"{numbers}. The model is {how}: {missing}{note}"


def is_clear(gain: float, stderr: float) -> bool:
    """Return whether a gain is larger than two standard errors.

    >>> is_clear(0.3, 0.1), is_clear(0.1, 0.1), is_clear(0.0, 0.0), is_clear(0.3, math.inf)
    (True, False, False, False)

    Args:
        gain: the difference.
        stderr: its standard error; inf for a single row, from which it cannot be estimated.
    """
    return math.isfinite(gain) and gain > 2 * stderr
