"""The Gibbs corrector: redraw randomly chosen sites from their conditional distributions under q_t."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import States
from tauleap.denoise import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.reverse.at import structure_of
from tauleap.sampling.sampler import StepInfo

Selection = Literal["random", "margin"]


def gibbs_step(
    reverse: ReverseProcess,
    x: States,
    t: float,
    sites: int,
    selection: Selection,
    *,
    observed: Observed | None,
    condition: Tensor | None,
    generator: torch.Generator | None,
) -> tuple[States, StepInfo]:
    """Redraw ``sites`` sites of each row at time t, with one network evaluation.

    The conditional distribution of a site given the others is s_v / sum s, with the ratios s of the reverse process.
    One random site leaves q_t invariant. Several at once are drawn independently, which does not.

    Args:
        reverse: The reverse process.
        x: The states at time t.
        t: The time, in (0, 1].
        sites: The number of sites of each row; all sites that are not observed, where these are fewer.
        selection: "random" sites, or by "margin" those whose state is the least likely compared with the best other.
        observed: The observed sites, which are never redrawn.
        condition: The input of the denoiser.
        generator: The source of randomness.

    Returns:
        The states, and counts of the step.
    """
    size = x[:1].numel()
    if sites > size:
        raise ValueError(f"sites must be at most the number of sites of a sample, {size}, got {sites}")
    unobserved = torch.ones_like(x, dtype=torch.bool) if observed is None else ~observed.mask
    unobserved = unobserved.flatten(1)
    given = {"observed": observed, "condition": condition}
    if selection == "margin":
        ratios = site_ratios(reverse, x, t, **given)
        chosen = least_likely(ratios, x, sites, unobserved)
        probs = ratios[chosen]
    else:
        # Uniform numbers are below 1, so that the observed sites come last.
        order = _draw.uniforms(unobserved.shape, x.device, generator).masked_fill(~unobserved, 2.0)
        chosen = _smallest(order, sites) & unobserved
        probs = conditionals(reverse, x, t, chosen, **given)
    out = x.clone(memory_format=torch.contiguous_format)
    out.flatten(1)[chosen] = _draw.categorical(probs, generator)
    return out, StepInfo.count(x, out, evaluations=1.0, observed=observed)


def conditionals(
    reverse: ReverseProcess,
    x: States,
    t: float,
    chosen: Bool[Tensor, "n sites"],
    *,
    observed: Observed | None = None,
    condition: Tensor | None = None,
) -> Float[Tensor, "k states"]:
    """Return q_t(x of a site | the other sites) of every chosen site, unnormalised.

    A revealed site has no ratios for other states, because absorbing noise has no jump between two data states.
    Under absorbing noise the chosen sites are therefore masked before the evaluation.
    """
    process, mask = reverse.process, reverse.process.mask
    if mask is None:
        return site_ratios(reverse, x, t, observed=observed, condition=condition)[chosen]
    hidden = torch.where(chosen.reshape(x.shape), mask, x)
    at = reverse.at(hidden, t, observed=observed, condition=condition, checked=True).deferred()
    probs = at.posterior.at(chosen.reshape(-1).nonzero().squeeze(-1)).to(torch.float64).softmax(-1)
    total = process.schedule.total(t)
    probs = probs * float(torch.exp(-total))
    probs[:, mask] = float(-torch.expm1(-total))
    return probs


def least_likely(
    ratios: Float[Tensor, "n sites states"], x: States, sites: int, unobserved: Bool[Tensor, "n sites"] | None = None
) -> Bool[Tensor, "n sites"]:
    """Return the sites of each row whose state is the least likely compared with the best other one."""
    margin = -ratios.scatter(-1, x.flatten(1)[..., None], 0.0).amax(-1)
    if unobserved is None:
        return _smallest(margin, sites)
    return _smallest(margin.masked_fill(~unobserved, torch.inf), sites) & unobserved


def site_ratios(
    reverse: ReverseProcess,
    x: States,
    t: float,
    *,
    observed: Observed | None = None,
    condition: Tensor | None = None,
) -> Float[Tensor, "n sites states"]:
    """Return the ratios s_v of every site, in float64."""
    predicted = reverse.posterior(x, t, observed=observed, condition=condition)
    posterior = Posterior(predicted.logits.to(torch.float64), over_data_states=predicted.over_data_states)
    return reverse.ratios(x, t, observed=observed, posterior=posterior).flatten(1, -2)


def check_gibbs(process: ForwardProcess, selection: Selection) -> None:
    """Raise a ValueError unless all data states reach the same states, or the process is absorbing."""
    if process.mask is not None:
        if selection == "margin":
            raise ValueError(
                "selection='margin' needs the ratios of revealed sites, which Absorbing noise does not give: write "
                "selection='random'"
            )
        return
    if structure_of(process).mixes:
        return
    raise ValueError(
        f"kind='gibbs' needs a process whose data states all reach the same states, and those of this "
        f"{type(process).__name__} do not: its kernel has zeros, so that some states exclude some x0; write "
        "kind='rates'"
    )


def check_selection(value: object) -> Selection:
    """Return ``value`` if it is a selection of sites; raise ValueError for another."""
    if value in get_args(Selection):
        return value  # pyright: ignore[reportReturnType]
    raise ValueError(f"selection must be 'random' or 'margin', got {value!r}")


def _smallest(values: Tensor, number: int) -> Tensor:
    """Return a mask of the smallest values of each row."""
    order = values.argsort(1)[:, :number]
    return torch.zeros_like(values, dtype=torch.bool).scatter_(1, order, True)
