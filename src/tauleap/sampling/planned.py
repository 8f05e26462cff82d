"""Planned unmasking: exact numbers of sites per step, in a chosen order, with a bound on the error of a draw."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal, NamedTuple, TypeAlias, get_args

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor

from tauleap import _check, _draw
from tauleap._shapes import States
from tauleap.denoise import Posterior
from tauleap.noise import ForwardProcess
from tauleap.noise.absorbing import mask_of
from tauleap.observed import Observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.sampling.sampler import Sampler, StepInfo

_NEED = "Planned() fills masked sites, which only Absorbing noise has", "write Ancestral()"
Order = Literal["random", "confidence", "margin", "entropy"]
_ROUNDING = 1e-9
Numbers: TypeAlias = Callable[[int], Sequence[int]]
"""Return how many sites each step fills, for a number of sites that are not observed."""


class Selection(NamedTuple):
    """Hold the sites to fill by one evaluation: rows, positions and logits, and the entropy bound of each row."""

    rows: Int64[Tensor, " k"]
    sites: Int64[Tensor, " k"]
    logits: Float[Tensor, "k states"]
    cost: Float[Tensor, " n"]


class Planned(Sampler):
    """Fill exact numbers of masked sites per step, selected before they are drawn. For absorbing noise.

    At time s, exactly the fraction ``1 - alpha(s)`` of the sites of a row that are not observed is masked, rounded to a
    whole number; ancestral steps have this number on average. With ``numbers``, each step fills the next of these
    numbers of sites instead, whatever its times, and a step to time 0 fills the rest. The sites to fill are selected
    from the posterior given the revealed sites, and then drawn independently. One site at a time this is exact for the
    exact posterior, in any order. Several sites at once miss their dependence: by at most the sum of their entropies
    minus the largest of them, in nats of relative entropy. ``info.entropy_bound`` has the mean of these sums over the
    samples.

    ``bound`` limits that sum for each evaluation. A step then fills sites in as many evaluations as are needed, so that
    the grid ``[1.0, 0.0]`` suffices: the number of evaluations follows from the data.

    Orders other than "random" fill the sites first of which the model is surest. That raises the accuracy where one
    answer is right and reduces the diversity of samples, because sites with few open possibilities fix those of the
    others; report the entropy of the samples next to their accuracy.

    Args:
        order: "random"; "confidence", the largest probability first; "margin", the largest difference of the two
            largest probabilities first (Kim et al. 2025); or "entropy", the smallest entropy first. Default: "random".
        bound: The largest sum of entropies minus the largest of them per evaluation, in nats, >= 0 (Ben-Hamu et al.
            2025). At 0 one site is filled per evaluation, or several of which the model is certain. Default: None, one
            evaluation per step.
        numbers: How many sites each step fills: whole numbers >= 1 whose sum is the number of sites that are not
            observed, such as (1, 2, 4); or a function that returns them for a number of such sites, for rows with
            different numbers. Default: None, they follow from the times.

    Raises:
        TypeError: ``bound`` or one of ``numbers`` is not a number.
        ValueError: ``order`` has another value, ``bound`` is negative, or one of ``numbers`` is below 1.

    >>> Planned("entropy", bound=0.1)
    Planned('entropy', bound=0.1)
    """

    order = 1.0

    def __init__(
        self, order: Order = "random", bound: float | None = None, numbers: Sequence[int] | Numbers | None = None
    ) -> None:
        if order not in get_args(Order):
            raise ValueError(f"order must be 'random', 'confidence', 'margin' or 'entropy', got {order!r}")
        self.by: Order = order
        self.bound = None if bound is None else _check.not_negative("bound", bound)
        self.numbers = numbers if numbers is None or callable(numbers) else FixedNumbers(numbers)

    def check(self, process: ForwardProcess) -> None:
        mask_of(process, *_NEED)

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
        out, plan = x.clone(), UnmaskingPlan.of(reverse.process, x, s, observed, self.numbers)
        cost = torch.zeros(len(x), dtype=torch.float64, device=x.device)
        evaluated, going = 0, (plan.remaining(out) > 0).nonzero().squeeze(-1)
        while len(going):
            here_observed, here_condition = select_rows(observed, condition, going)
            # Given numbers have no times of their own.
            times = plan.times(out, t if self.numbers is None else 1.0)[going]
            at = reverse.at(out[going], times, observed=here_observed, condition=here_condition, checked=True)
            evaluated += len(going)
            found = self.select(at.deferred().posterior, plan.masked(out)[going], plan.remaining(out)[going], generator)
            out.flatten(1)[going[found.rows], found.sites] = _draw.categorical(found.logits.softmax(-1), generator)
            cost[going] += found.cost
            going = going[:0] if self.bound is None else going[plan.remaining(out)[going] > 0]
        cost = cost.sum() / max(1, len(x))
        evaluations = evaluated / max(1, len(x))
        return out, StepInfo.count(x, out, evaluations=evaluations, observed=observed, entropy_bound=cost)

    def select(
        self,
        posterior: Posterior,
        masked: Bool[Tensor, "n sites"],
        number: Int64[Tensor, " n"],
        generator: torch.Generator | None = None,
    ) -> Selection:
        """Return the sites of each row to fill by one evaluation. Ties are broken at random.

        Args:
            posterior: p(x0 | x) of n rows.
            masked: The sites that can be filled.
            number: The largest number of sites of each row.
            generator: The source of randomness. Default: that of torch.
        """
        turn = _draw.uniforms(masked.shape, masked.device, generator).masked_fill(~masked, 2.0).argsort(1)
        needs_all = self.bound is not None or self.by != "random"
        # Without an order or a bound only the sites to fill are evaluated.
        rows, sites = (masked if needs_all else first_sites(turn, number)).nonzero().unbind(1)
        logits = posterior.at(rows * masked.shape[1] + sites).to(torch.float64)
        entropy = torch.zeros(masked.shape, dtype=torch.float64, device=masked.device)
        entropy[rows, sites] = entropy_of(logits)
        if needs_all:
            score = torch.full_like(entropy, torch.inf)
            score[rows, sites] = scores(logits, self.by)
            turn = turn.gather(1, score.gather(1, turn).argsort(dim=1, stable=True))
        chosen = within_bound(turn, number, entropy, self.bound)
        entropy = torch.where(chosen, entropy, 0.0)
        mine = chosen[rows, sites]
        return Selection(rows[mine], sites[mine], logits[mine], entropy.sum(1) - entropy.amax(1))

    def __repr__(self) -> str:
        bound = "" if self.bound is None else f", bound={self.bound:g}"
        numbers = "" if self.numbers is None else f", numbers={self.numbers!r}"
        return f"Planned({self.by!r}{bound}{numbers})"


class FixedNumbers:
    """Return the same numbers of sites for rows that have as many unknown sites as their sum.

    Args:
        numbers: Whole numbers >= 1.
    """

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = tuple(_check.integer("every entry of numbers", number, least=1) for number in numbers)

    def __call__(self, sites: int) -> tuple[int, ...]:
        if sites != sum(self.numbers):
            raise ValueError(
                f"numbers fill {sum(self.numbers)} sites, and a row has {sites} that are not observed: write numbers "
                "with this sum, or a function of the number of sites"
            )
        return self.numbers

    def __repr__(self) -> str:
        return repr(self.numbers)


@dataclass(frozen=True)
class UnmaskingPlan:
    """Hold how many sites of each row are masked at a time.

    Args:
        process: The noise.
        mask: Its mask.
        free: The sites that are not observed, (n, D).
        target: The number of masked sites of each row at the time to reach, (n,).
    """

    process: ForwardProcess
    mask: int
    free: Bool[Tensor, "n sites"]
    target: Int64[Tensor, " n"]

    @classmethod
    def of(
        cls, process: ForwardProcess, x: States, s: float, observed: Observed | None, numbers: Numbers | None = None
    ) -> UnmaskingPlan:
        """Return the plan of a step to time s, or of the next of the numbers of sites."""
        free = torch.ones_like(x, dtype=torch.bool) if observed is None else ~observed.mask
        free, mask = free.flatten(1), mask_of(process, *_NEED)
        total = free.sum(1)
        if s == 0:
            return cls(process, mask, free, torch.zeros_like(total))
        if numbers is None:
            fraction = float(-torch.expm1(-process.schedule.total(s)))
            return cls(process, mask, free, (total * fraction + 0.5 + _ROUNDING).floor().long())
        target, masked = torch.zeros_like(total), (free & (x.flatten(1) == mask)).sum(1)
        for sites in total.unique().tolist():
            rows = total == sites
            left = [sites - filled for filled in accumulate(numbers(sites))][::-1] if sites else [0]
            after = torch.tensor(left, device=x.device)  # the numbers of masked sites after the steps, increasing
            place = torch.searchsorted(after, masked[rows])  # the first that is not below the present number
            target[rows] = after[(place - 1).clamp(min=0)]
        return cls(process, mask, free, target)

    def masked(self, x: States) -> Bool[Tensor, "n sites"]:
        """Return which sites can be filled."""
        return self.free & (x.flatten(1) == self.mask)

    def remaining(self, x: States) -> Int64[Tensor, " n"]:
        """Return how many sites of each row are filled until the time to reach."""
        return (self.masked(x).sum(1) - self.target).clamp(min=0)

    def times(self, x: States, latest: float) -> Float[Tensor, " n"]:
        """Return the time at which as many sites are masked on average as now in each row, for networks that take t."""
        fraction = self.masked(x).sum(1) / self.free.sum(1).clamp(min=1)
        return time_of_fraction(self.process, fraction).clamp(max=latest)


def time_of_fraction(process: ForwardProcess, fraction: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Return the times, at most 1, at which these fractions of the sites are masked on average."""
    noise = -torch.log1p(-fraction.to(torch.float64).clamp(max=1 - 2.0**-53))
    return process.schedule.inverse_total(noise).clamp(max=1.0)


def scores(logits: Float[Tensor, "n states"], order: Order) -> Float[Tensor, " n"]:
    """Return a number per site; the site with the smallest is filled first."""
    if order == "entropy":
        return entropy_of(logits)
    if order == "random":
        return torch.zeros_like(logits[:, 0])
    top = logits.softmax(-1).topk(min(2, logits.shape[-1]), dim=-1).values
    return -top[:, 0] if order == "confidence" else top[:, -1] - top[:, 0]


def entropy_of(logits: Float[Tensor, "n states"]) -> Float[Tensor, " n"]:
    """Return the entropy of each site, in nats."""
    log_probs = logits.log_softmax(-1)
    return -(log_probs.exp() * log_probs.clamp(min=torch.finfo(log_probs.dtype).min)).sum(-1)


def first_sites(turn: Int64[Tensor, "n sites"], number: Int64[Tensor, " n"]) -> Bool[Tensor, "n sites"]:
    """Return the first ``number`` sites of each row, in the order ``turn``."""
    first = torch.arange(turn.shape[1], device=turn.device) < number[:, None]
    return torch.zeros_like(turn, dtype=torch.bool).scatter(1, turn, first)


def within_bound(
    turn: Int64[Tensor, "n sites"],
    number: Int64[Tensor, " n"],
    entropy: Float[Tensor, "n sites"],
    bound: float | None,
) -> Bool[Tensor, "n sites"]:
    """Return the first sites of each row, at most ``number``, up to which the entropy is within the bound.

    The entropy is the sum over these sites without the largest term. The first site is always among them.
    """
    if bound is None:
        return first_sites(turn, number)
    each = entropy.gather(1, turn)
    excess = each.cumsum(1) - each.cummax(1).values
    # Sums never decrease but for rounding, which must not end the prefix early.
    fitting = (excess <= bound + _ROUNDING * (1 + each.cumsum(1))).long().cumprod(1).sum(1).clamp(min=1)
    return first_sites(turn, torch.minimum(number, fitting))
