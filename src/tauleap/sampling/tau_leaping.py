"""Tau-leaping (Algorithm 1): all jumps of a step at once, at the rates of its start."""

from __future__ import annotations

from typing import Literal, get_args

import torch
from torch import Tensor

from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, States
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.reverse.at import ReverseAt
from tauleap.reverse.base import OutgoingJumps, check_rates
from tauleap.sampling.sampler import Sampler, StepInfo

MultipleJumps = Literal["add", "reject", "last"]
_MANY = 18  # jumps a site from which on a Poisson variable for every state costs less than a draw for every jump


class TauLeaping(Sampler):
    """Apply all jumps of a step at once, at the rates of its start (Algorithm 1, Section 4.3).

    In a step of length tau, state v gets ``P_v ~ Poisson(tau Rhat(v))`` jumps at a site. ``multiple_jumps`` selects the
    treatment of several jumps at one site:

    * ``"add"``: ``x + sum_v P_v (v - x)``, clamped to the range of the states; for ordinal data,
    * ``"reject"``: the site stays where it is; for categories,
    * ``"last"``: the last jump counts, so that the site jumps with probability ``1 - exp(-tau Lambda)``. That is the
    law of
      the chain whose jump targets keep the rates that they had at x. No jump is discarded.

    Instead of S Poisson variables per site, one is drawn for their sum, ``N ~ Poisson(tau Lambda)`` with the exit rate
    ``Lambda = sum_v Rhat(v)``, and then N destinations from ``Rhat / Lambda``: the same law, as Poisson variables given
    their sum are multinomial. Only where N is large and jumps are added are all S drawn. One network evaluation per
    step, for rank-one noise only of samples with a candidate for a jump; the error is of order 1 (Theorem 1).

    Args:
        multiple_jumps: "add", "reject" or "last". Default: None, as in the paper: "add" for an ordinal process,
            "reject" for another.

    Raises:
        ValueError: ``multiple_jumps`` has another value.

    >>> TauLeaping("last")
    TauLeaping('last')
    """

    order = 1.0

    def __init__(self, multiple_jumps: MultipleJumps | None = None) -> None:
        self.multiple_jumps: MultipleJumps | None = check_multiple_jumps(multiple_jumps)

    def check(self, process: ForwardProcess) -> None:
        check_adding(self.multiple_jumps, process, type(self).__name__)

    def step(
        self,
        reverse: ReverseProcess,
        x_t: States,
        t: float,
        s: float,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[States, StepInfo]:
        x = self.enter(reverse, x_t, t, s, observed)
        at = reverse.at(x, t, observed=observed, condition=condition, checked=True).deferred()
        return leap(at, t - s, self.multiple_jumps, generator=generator)

    def __repr__(self) -> str:
        return f"TauLeaping({'' if self.multiple_jumps is None else repr(self.multiple_jumps)})"


def leap(
    at: ReverseAt,
    tau: float,
    multiple_jumps: MultipleJumps | None,
    *,
    generator: torch.Generator | None,
    corrector: bool = False,
) -> tuple[States, StepInfo]:
    """Return the states after one leap with constant rates, and counts of what happened.

    Args:
        at: the reverse process at the states and time of the start.
        tau: the length of the leap.
        multiple_jumps: see ``TauLeaping``. None: the default of the process.
        generator: the source of randomness.
        corrector: whether to leap with the corrector rates.
    """
    x, observed = at.x, at.observed
    how = multiple_jumps or ("add" if at.process.ordinal else "reject")
    outgoing = at.corrector_jumps if corrector else at.jumps
    flat, clamped, moved = x.reshape(-1), None, x.reshape(-1)
    if how == "add":
        mean = tau * check_rates(outgoing.exit_rate)
        jumps = poisson(mean, generator).reshape(-1)
        # One read from the device for both. The choice must not depend on the counts, since many jumps have new draws.
        expected, total = torch.stack([mean.mean().to(torch.float64), jumps.sum().to(torch.float64)]).tolist()
        if expected > _MANY:
            rates = at.corrector_rates if corrector else at.rates
            moved, jumps = _for_every_state(flat, tau, rates, generator)
        else:
            moved = _one_by_one(flat, outgoing, jumps, int(total), generator)
        out = moved.clamp(0, at.process.num_states - 1)
        clamped = moved != out
    else:
        jumps = _numbers_of_jumps(outgoing, tau, generator)
        moving = (jumps == 1 if how == "reject" else jumps > 0).nonzero().squeeze(-1)
        out = flat.clone().index_copy_(0, moving, outgoing.draw(moving, generator))
    rejected = jumps > 1 if how == "reject" else None
    out = out.reshape(x.shape)
    counts = {"jumps": jumps, "rejected": rejected, "clamped": clamped}
    return out, StepInfo.count(x, out, evaluations=at.evaluations, observed=observed, **counts)


def _numbers_of_jumps(outgoing: OutgoingJumps, tau: float, generator: torch.Generator | None) -> Tensor:
    """Return the number of jumps of each site, Poisson with mean tau times its exit rate.

    A bound of the rates gives candidates, each of which is a jump with probability rate over bound: the same law, and
    only sites with a candidate need a prediction.
    """
    bound = outgoing.exit_bound
    if bound is None:
        return poisson(tau * check_rates(outgoing.exit_rate), generator).reshape(-1)
    bound = bound.reshape(-1)
    jumps = poisson(tau * bound, generator)
    sites = jumps.nonzero().squeeze(-1)
    chance = check_rates(outgoing.exit_rate_at(sites)) / bound.index_select(0, sites)
    return jumps.index_copy_(0, sites, _binomial(jumps.index_select(0, sites), chance.clamp(max=1.0), generator))


def _one_by_one(
    x: Tensor, outgoing: OutgoingJumps, jumps: Tensor, total: int, generator: torch.Generator | None
) -> Tensor:
    """Return x + sum_v P_v (v - x), with a draw for each of the ``total`` jumps."""
    moving = torch.arange(len(x), device=x.device).repeat_interleave(jumps, output_size=total)
    to = outgoing.draw(moving, generator)
    return x.clone().index_add_(0, moving, to - x.index_select(0, moving))


def _for_every_state(
    x: Tensor, tau: float, rates: PerState, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """Return x + sum_v P_v (v - x), with a draw of P_v for every state v, and the number of jumps."""
    rows = rates.reshape(len(x), -1)
    moved, jumps = torch.empty_like(x), torch.empty_like(x)
    states = torch.arange(rows.shape[-1], device=x.device)
    for part in chunks(len(rows), rows.shape[-1], x.device):
        each = poisson(tau * rows[part], generator)
        jumps[part] = each.sum(-1)
        moved[part] = x[part] + (each * (states - x[part, None])).sum(-1)
    return moved, jumps


def poisson(mean: PerSite, generator: torch.Generator | None) -> Tensor:
    """Return Poisson counts, drawn on the device of the generator.

    torch uses a number of random values that depends on the mean. A ``PartOfBatch`` generator is therefore used as an
    ordinary one here, and its draws differ from those of the whole batch.
    """
    where = mean.device if generator is None else generator.device
    return torch.poisson(mean.to(where), generator=generator).to(mean.device).long()


def _binomial(number: Tensor, chance: Tensor, generator: torch.Generator | None) -> Tensor:
    """Return how many of a number of trials succeed, drawn on the device of the generator."""
    where = number.device if generator is None else generator.device
    trials = number.to(where, torch.float64)
    return torch.binomial(trials, chance.to(where, torch.float64), generator=generator).to(number.device).long()


def check_multiple_jumps(value: object) -> MultipleJumps | None:
    if value is None or value in get_args(MultipleJumps):
        return value  # pyright: ignore[reportReturnType]
    raise ValueError(
        f"multiple_jumps must be 'add' (ordinal data), 'reject' (categories), 'last' (either), or None for the "
        f"default of the process, got {value!r}"
    )


def check_adding(multiple_jumps: MultipleJumps | None, process: ForwardProcess, sampler: str) -> None:
    if multiple_jumps == "add" and not process.ordinal:
        name = type(process).__name__
        raise ValueError(
            f"the states of {name} have no order, so that jumps cannot be added: write {sampler} with "
            f"multiple_jumps='reject' or 'last' for {name}, or choose an ordinal process, such as Gaussian, BirthDeath "
            f"or Dense(generator, schedule, ordinal=True), for 'add'"
        )
