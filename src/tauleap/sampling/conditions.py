"""Draw the sites that a condition restricts to some of their states, before all others.

For absorbing noise p(x0 of a site | some sites, all others masked) is one evaluation of the denoiser. So a site that is
restricted to a set A is drawn first, from p restricted to A. For one restricted site this is exact. With several, each
is drawn given those before it, and the rows are weighted by the product of the probabilities of their sets,

    w = prod_k p(x_k in A_k | x_1 .. x_(k-1)),

and resampled by these weights. The first factor is the same in all rows, so the site with the least probable set is
drawn first: its factor could vary most. The more the weights vary, the fewer different rows are left: the effective
sample size of the weighted rows is (sum w)^2 / sum w^2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device, _draw
from tauleap._shapes import SiteMask, States
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess

_CANDIDATES, _LEAST_CANDIDATES = 2, 1024
"""If rows are resampled: how many are drawn per returned row, and how many at least. Resampling few rows would be
biased towards the law without weights. More rows are cheap, because only their restricted sites are drawn."""


@dataclass(frozen=True)
class ConditionDraw:
    """Hold the sites that were drawn or given, to condition the others on."""

    observed: Observed
    """The restricted sites with their states."""
    weighted: bool
    """Whether the rows were resampled by weights."""
    effective_size: float
    """The number of independent rows that they are worth: the effective sample size of the weighted rows, at most n."""
    log_probability: float | None
    """The logarithm of the model's probability that all sites are in their sets, estimated if there are several sets;
    None for other than absorbing noise, for which it would take many evaluations."""


def draw_conditions(
    reverse: ReverseProcess,
    shape: torch.Size | tuple[int, ...],
    sets: Mapping[int, Float[Tensor, " states"]],
    *,
    condition: Tensor | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> ConditionDraw:
    """Return states of the restricted sites of n rows.

    Args:
        reverse: The reverse process; its noise must be absorbing if a site has several allowed states.
        shape: The number of rows and the shape of one, (n, *shape).
        sets: For positions of sites in a flattened row, weights of the states in [0, 1]: 0 is excluded, and a fraction
            is the probability that the state is allowed.
        condition: The input of the denoiser, one entry per row. Default: none.
        batch_size: Rows per evaluation. Default: all.
        generator: The source of randomness. Default: that of torch.

    Raises:
        ValueError: A set is empty, no row can be in all sets, or the noise is not absorbing.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Absorbing, LogLinear
    >>> process = Absorbing(4, LogLinear())
    >>> pmf = torch.zeros(4, 4, dtype=torch.float64)
    >>> pmf[:3, :3] = torch.tensor([[0.2, 0.1, 0.0], [0.0, 0.3, 0.1], [0.1, 0.0, 0.2]])
    >>> reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
    >>> drawn = draw_conditions(reverse, (5, 2), {0: torch.tensor([1.0, 1.0, 0.0, 0.0])})
    >>> bool((drawn.observed.values[:, 0] < 2).all()), round(drawn.log_probability, 4)  # log 0.7
    (True, -0.3567)
    """
    n = shape[0]
    resampled = sum(int((weights > 0).sum()) > 1 for weights in sets.values()) > 1
    if condition is not None and resampled:
        raise ValueError(
            "several ranges need resampling of rows, which is not possible with a condition per row: give one range, "
            "and one value for each of the other sites"
        )
    rows = max(_CANDIDATES * n, _LEAST_CANDIDATES) if resampled else n
    weighted = weigh_conditions(
        reverse,
        (rows, *shape[1:]),
        sets,
        condition=condition,
        batch_size=batch_size,
        generator=generator,
    )
    observed, log_weight = weighted
    total = float(log_weight.logsumexp(0)) - math.log(rows) if reverse.process.mask is not None else None
    if not resampled:
        return ConditionDraw(observed, False, float(n), total)
    weight = (log_weight - log_weight.max()).exp()
    effective = min(float(n), weighted.effective_size)
    chosen = _resampled(weight, n, generator).to(observed.values.device)
    return ConditionDraw(observed.of_rows(chosen), True, effective, total)


class WeightedRows(NamedTuple):
    """Hold rows whose restricted sites are drawn one after another, with their importance weights."""

    observed: Observed
    """The restricted sites with their states."""
    log_weight: Float[Tensor, " n"]
    """The logarithm of the probability that each row's sites are in their sets, each given those before it."""

    @property
    def effective_size(self) -> float:
        """The number of independent rows that the weighted rows are worth."""
        weight = (self.log_weight - self.log_weight.max()).exp()
        return float(weight.sum().square() / weight.square().sum())


def weigh_conditions(
    reverse: ReverseProcess,
    shape: torch.Size | tuple[int, ...],
    sets: Mapping[int, Float[Tensor, " states"]],
    *,
    condition: Tensor | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
) -> WeightedRows:
    """Return states of the restricted sites of n rows with their weights; :func:`draw_conditions` resamples them.

    Args:
        reverse: The reverse process; its noise must be absorbing if a site has several allowed states.
        shape: The number of rows and the shape of one, (n, *shape).
        sets: Weights of the states in [0, 1] by the position of the site, as in :func:`draw_conditions`.
        condition: The input of the denoiser, one entry per row. Default: none.
        batch_size: Rows per evaluation. Default: all.
        generator: The source of randomness. Default: that of torch.

    Raises:
        ValueError: A set is empty, no row can be in all sets, or the noise is not absorbing.
    """
    rows, *site_shape = shape
    for site, weights in sets.items():
        if not bool((weights > 0).any()):
            raise ValueError(f"site {site} has no allowed state: give one state or more a weight > 0")
    fixed = {site: int(weights.argmax()) for site, weights in sets.items() if int((weights > 0).sum()) == 1}
    open_sets = {site: weights for site, weights in sets.items() if site not in fixed}
    process = reverse.process
    mask = process.mask
    if open_sets and mask is None:
        raise ValueError(
            f"a range or several values of a site need absorbing noise, and the model has {type(process).__name__}: "
            "give one value, or fit with process='absorbing'"
        )
    draws = _SiteDraws(reverse, mask or 0, condition, rows if batch_size is None else batch_size, generator)
    x = torch.zeros(rows, *site_shape, dtype=torch.int64, device=reverse.device)
    flat, known = x.flatten(1), torch.zeros_like(x, dtype=torch.bool)
    log_fixed = torch.zeros((), dtype=torch.float64)
    first_row = torch.zeros(1, dtype=torch.int64, device=x.device)
    for site, state in fixed.items():
        if mask is not None:
            log_fixed += draws.allowed(x, known, first_row, site, sets[site]).sum().log().cpu()
        flat[:, site], known.flatten(1)[:, site] = state, True
    log_weight = log_fixed.repeat(rows)
    order = list(open_sets)
    if len(order) > 1:
        order.sort(key=lambda site: float(draws.allowed(x, known, first_row, site, open_sets[site]).sum()))
    for site in order:
        log_weight += draws.draw(x, known, site, open_sets[site]).log()
    if bool(log_weight.isneginf().all() if len(order) > 1 else log_weight.isneginf().any()):
        raise ValueError("under the model no row can fulfil all conditions at once: leave one of them out")
    return WeightedRows(Observed(known, x), log_weight)


@dataclass(frozen=True)
class _SiteDraws:
    """Draw one site of many rows, of which some sites are known."""

    reverse: ReverseProcess
    mask: int
    condition: Tensor | None
    batch_size: int
    generator: torch.Generator | None

    def allowed(
        self, x: States, known: SiteMask, part: Tensor, site: int, weights: Float[Tensor, " states"]
    ) -> Float[Tensor, "n states"]:
        """Return p(x0 of the site | the known sites) times the weights of the states, in some of the rows."""
        observed = Observed(known[part], x[part])
        masked = torch.where(known[part], x[part], self.mask)
        given = None if self.condition is None else self.condition[part.to(self.condition.device)].to(x.device)
        posterior = self.reverse.posterior(masked, 1.0, observed=observed, condition=given)
        places = torch.arange(len(part), device=x.device) * x[:1].numel() + site
        where = _device.exact_device(x.device)
        return posterior.at(places).to(where).to(torch.float64).softmax(-1) * weights.to(torch.float64).to(where)

    def draw(self, x: States, known: SiteMask, site: int, weights: Float[Tensor, " states"]) -> Tensor:
        """Draw the site of all rows in place, and return the probability of its set in each row."""
        masses = []
        for part in torch.arange(len(x), device=x.device).split(self.batch_size):
            allowed = self.allowed(x, known, part, site, weights)
            mass = allowed.sum(-1)
            # A row that cannot be in the set has weight 0: any allowed state will do.
            allowed = torch.where(mass[:, None] > 0, allowed, weights.to(torch.float64).to(allowed.device))
            x.flatten(1)[part, site] = _draw.categorical(allowed, self.generator).to(x.device)
            masses.append(mass.cpu())
        known.flatten(1)[:, site] = True
        return torch.cat(masses)


def _resampled(weight: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    """Return n rows by systematic resampling: each row about n times its share of the weights."""
    start = _draw.uniforms((1,), weight.device, generator)
    places = (torch.arange(n) + start) / n * weight.sum()
    chosen = torch.searchsorted(weight.cumsum(0), places).clamp(max=len(weight) - 1)
    order = _draw.uniforms((n,), weight.device, generator).argsort()
    return chosen[order]
