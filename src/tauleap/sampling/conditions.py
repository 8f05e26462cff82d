"""Draw the sites that a condition restricts to some of their states, before all others.

For absorbing noise p(x0 of a site | some sites, all others masked) is one evaluation of the denoiser. So a site that is
restricted to a set A is drawn first, from p restricted to A. For one restricted site this is exact. With several, each
is drawn given those before it, and the rows are weighted by the product of the probabilities of their sets,

    w = prod_k p(x_k in A_k | x_1 .. x_(k-1)),

and resampled by these weights. The more the weights vary, the fewer different rows are left: the effective sample size
is (sum w)^2 / sum w^2.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import States
from tauleap.noise import Absorbing
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess

_CANDIDATES = 2
"""Rows that are drawn for each that is returned, if they are resampled."""


@dataclass(frozen=True)
class ConditionDraw:
    """Hold the sites that were drawn or given, to condition the others on."""

    observed: Observed
    """The restricted sites with their states."""
    effective_size: float
    """The effective sample size of the resampled rows, at most their number."""
    log_probability: float
    """The logarithm of the model's probability that all sites are in their sets given the fixed ones, estimated."""


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
        ValueError: A set is empty, or the noise is not absorbing.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import LogLinear
    >>> process = Absorbing(4, LogLinear())
    >>> pmf = torch.zeros(4, 4, dtype=torch.float64)
    >>> pmf[:3, :3] = torch.tensor([[0.2, 0.1, 0.0], [0.0, 0.3, 0.1], [0.1, 0.0, 0.2]])
    >>> reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
    >>> drawn = draw_conditions(reverse, (5, 2), {0: torch.tensor([1.0, 1.0, 0.0, 0.0])})
    >>> bool((drawn.observed.values[:, 0] < 2).all()), round(drawn.log_probability, 4)  # log 0.7
    (True, -0.3567)
    """
    n, *site_shape = shape
    for site, weights in sets.items():
        if not bool((weights > 0).any()):
            raise ValueError(f"site {site} has no allowed state")
    fixed = {site: int(weights.argmax()) for site, weights in sets.items() if int((weights > 0).sum()) == 1}
    open_sets = {site: weights for site, weights in sets.items() if site not in fixed}
    process = reverse.process
    mask = process.mask if isinstance(process, Absorbing) else 0
    if open_sets and not isinstance(process, Absorbing):
        raise ValueError(
            f"a range or several values of a site need absorbing noise, and the model has {type(process).__name__}: "
            "give one value, or fit with process='absorbing'"
        )
    resampled = len(open_sets) > 1
    rows = n * (_CANDIDATES if resampled else 1)
    if condition is not None and resampled:
        condition = condition.repeat_interleave(_CANDIDATES, 0)
    x = torch.zeros(rows, *site_shape, dtype=torch.int64, device=reverse.device)
    flat, known = x.flatten(1), torch.zeros_like(x, dtype=torch.bool)
    for site, state in fixed.items():
        flat[:, site], known.flatten(1)[:, site] = state, True
    log_weight = torch.zeros(rows, dtype=torch.float64)
    first_mass = 0.0
    for number, (site, weights) in enumerate(open_sets.items()):
        masses = _draw_site(reverse, mask, x, known, site, weights, condition, batch_size, generator)
        log_weight += masses.log()
        first_mass = float(masses.mean().log()) if number == 0 else first_mass
    if not resampled:
        return ConditionDraw(Observed(known, x), float(n), first_mass if open_sets else 0.0)
    if bool(log_weight.isneginf().all()):
        raise ValueError("no row can fulfil all conditions at once, by the model: leave one of them out")
    # Every row's own candidates when a label belongs to it, else all of them together.
    weight = (log_weight - log_weight.max()).exp()
    effective = float(weight.sum().square() / weight.square().sum()) * n / rows
    chosen = _resampled(weight, n, generator) if condition is None else _own_candidate(weight, n, generator)
    total = float(log_weight.logsumexp(0)) - math.log(rows)
    chosen = chosen.to(x.device)
    return ConditionDraw(Observed(known[chosen], x[chosen]), effective, total)


def _draw_site(
    reverse: ReverseProcess,
    mask: int,
    x: States,
    known: Tensor,
    site: int,
    weights: Tensor,
    condition: Tensor | None,
    batch_size: int | None,
    generator: torch.Generator | None,
) -> Tensor:
    """Draw a site of all rows in place, and return the probability of its set in each row."""
    masses = []
    weights = weights.to(x.device, torch.float64)
    sites = x[:1].numel()
    for part in torch.arange(len(x), device=x.device).split(len(x) if batch_size is None else batch_size):
        observed = Observed(known[part], x[part])
        masked = torch.where(known[part], x[part], mask)
        given = None if condition is None else condition[part.to(condition.device)].to(x.device)
        posterior = reverse.posterior(masked, 1.0, observed=observed, condition=given)
        places = torch.arange(len(part), device=x.device) * sites + site
        allowed = posterior.at(places).to(torch.float64).softmax(-1) * weights
        mass = allowed.sum(-1)
        # A row that cannot be in the set has weight 0: any allowed state will do.
        allowed = torch.where(mass[:, None] > 0, allowed, weights)
        drawn = _draw.categorical(allowed, generator)
        x.flatten(1)[part, site], known.flatten(1)[part, site] = drawn, True
        masses.append(mass.cpu())
    return torch.cat(masses)


def _resampled(weight: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    """Return n rows by systematic resampling: each row about n times its share of the weights."""
    start = _draw.uniforms((1,), weight.device, generator)
    places = (torch.arange(n) + start) / n * weight.sum()
    chosen = torch.searchsorted(weight.cumsum(0), places).clamp(max=len(weight) - 1)
    order = _draw.uniforms((n,), weight.device, generator).argsort()
    return chosen[order]


def _own_candidate(weight: Tensor, n: int, generator: torch.Generator | None) -> Tensor:
    """Return one of the candidates of each row."""
    own = weight.reshape(n, _CANDIDATES)
    own = torch.where(own.sum(1, keepdim=True) > 0, own, 1.0)
    return torch.arange(n) * _CANDIDATES + _draw.categorical(own, generator)
