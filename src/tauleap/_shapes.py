"""Type aliases of tensors, and the names of their axes.

* ``batch`` (B): independent samples.
* ``*shape``: the data's own shape, with D entries ("dimensions", "sites") in all.
* ``states`` (S): the values ``0 .. S-1`` that a site can take.

A *time* is one number for the whole batch, or one number per sample.
"""

from __future__ import annotations

from typing import TypeAlias

from jaxtyping import Bool, Float, Int64
from torch import Tensor

States: TypeAlias = Int64[Tensor, "batch *shape"]
"""x0 or x_t: one state per site."""

PerState: TypeAlias = Float[Tensor, "batch *shape states"]
"""One number for each state of each site: probabilities, ratios, rates, logits."""

PerSite: TypeAlias = Float[Tensor, "batch *shape"]
"""One number per site: an exit rate, a probability of one state."""

PerSample: TypeAlias = Float[Tensor, "batch"]
"""One number per sample."""

SiteMask: TypeAlias = Bool[Tensor, "batch *shape"]
"""A selection of sites."""

Time: TypeAlias = float | Float[Tensor, ""] | Float[Tensor, "batch"]
"""t in [0, 1]: a number, or one per sample."""

Matrix: TypeAlias = Float[Tensor, "states states"]
"""A generator or a transition kernel; row i is *from* state i."""

Law: TypeAlias = Float[Tensor, "*sites states"]
"""A distribution over the states: one for all sites, (S,), or one per site, (*shape, S)."""
