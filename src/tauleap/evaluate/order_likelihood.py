"""The likelihood of the any-order chain of absorbing noise, from random orders of the sites.

First hitting fills one masked site after another, in an order s that is uniformly random, and draws its state from the
posterior given the sites that are filled. The probability of a row is therefore a mean over orders,

    p(x) = E_s [ prod_k p(x_s(k) | x_s(1), .., x_s(k-1)) ],

and each product is computed exactly by one evaluation of the denoiser per site. The logarithm of the mean over K drawn
orders is a lower bound on log p(x) in expectation, which rises with K; for K = 1 its mean is the bound of
``AnyOrderElbo``.

The order of first hitting is that of independent uniform numbers, one per site: a site is masked while 1 - alpha(t) is
above its number times 1 - alpha(1). The same numbers give the times, so that the likelihood of a denoiser that takes t
is that of its chain, too.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Integral

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import SiteMask, States
from tauleap.denoise import Posterior
from tauleap.denoise.on_device import moved
from tauleap.evaluate._check import reverse_process
from tauleap.evaluate._mode import evaluating
from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.known_rows import KnownRows, known_rows, log_mean_exp
from tauleap.noise.absorbing import mask_of
from tauleap.objective.random_order import time_of
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling._progress import reporting

_ENTRIES = 2**22
"""Sites of all rows and orders that are in memory at once."""
_WORTH_MERGING = 0.8
"""Fraction of distinct inputs below which equal ones are evaluated once; finding them costs a sort."""


def order_log_prob(
    reverse: ReverseProcess,
    data: States,
    *,
    orders: int = 16,
    batches: int | Sequence[int] = 1,
    batch_size: int = 1024,
    observed: Observed | None = None,
    missing: Tensor | None = None,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Estimate[Tensor]:
    """Return log p(x) of each row in nats under absorbing noise, from random orders of its sites.

    It is the likelihood of the chain that ``FirstHitting`` samples. It is a lower bound in expectation, by about half
    the variance of the probability along one order over its squared mean and the number of orders.

    A denoiser that takes t is evaluated at the times at which the sites of a drawn order are revealed: each order has a
    draw of these times, so that the mean is over both.

    Observed sites are revealed from the beginning: the value is log p(the other sites given these). Missing sites stay
    masked: the value is log p(the known sites), for the chain that fills the missing sites last.

    Args:
        reverse: The reverse process, whose noise is absorbing.
        data: The rows, (n, *shape).
        orders: The number of random orders per row, >= 1. Default: 16.
        batches: The number of sites that are revealed per evaluation: one number, or a list of numbers whose sum is at
            least the number of sites to reveal. Sites of a batch are independent given those before it, so with more
            than 1 it is the likelihood of ``Planned`` sampling with such batches. Default: 1.
        batch_size: Rows per evaluation. Default: 1024.
        observed: Observed sites. Default: none.
        missing: A bool mask of unknown values. Default: none.
        condition: The input of the network. If it is as long as the data, it has one entry per row. Default: none.
        generator: The source of randomness. Default: that of torch.
        progress: Show a bar with the remaining time. Default: False.

    Returns:
        One value per row, with the standard error from the spread over orders (inf for one order).

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: The noise is not absorbing, a row has no known value, or an argument is out of its range.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Absorbing, LogLinear
    >>> process = Absorbing(3, LogLinear())
    >>> law = torch.zeros(3, 3, dtype=torch.float64)
    >>> law[:2, :2] = torch.tensor([[0.4, 0.1], [0.2, 0.3]])
    >>> reverse = ReverseProcess(process, ExactDenoiser(law, process))
    >>> order_log_prob(reverse, torch.tensor([[0, 0], [1, 1]]), orders=2).value.exp()
    tensor([0.4000, 0.3000], dtype=torch.float64)
    """
    reverse_process(reverse, "order_log_prob")
    orders = _check.integer("orders", orders, least=1)
    size = _check.integer("batch_size", batch_size, least=1)
    _check.randomness(generator)
    mask_of(reverse.process, "order_log_prob is for Absorbing noise", "write path_log_prob(reverse, data, grid=...)")
    rows = known_rows(reverse, data, observed, missing, condition)
    ends = _ends(batches, int(rows.scored.sum(1).max()))
    sites = rows.x.shape[1]
    parts = torch.arange(len(rows.x)).split(max(1, _ENTRIES // (orders * sites)))
    values = []
    with evaluating(rows.reverse), reporting(progress, len(parts) * len(ends), "orders") as advance:
        for part in parts:
            row = part.repeat_interleave(orders)
            uniforms = _draw.uniforms((len(row), sites), _device.CPU, generator)
            found = torch.zeros(len(row), dtype=torch.float64)
            begin = 0
            for end in ends:
                found += _revealed(rows, row, uniforms, begin, end, size)
                begin = end
                advance()
            values.append(found.reshape(len(part), orders))
    return log_mean_exp(torch.cat(values))


def order_ranks(uniforms: Float[Tensor, "n sites"], scored: SiteMask) -> Int64[Tensor, "n sites"]:
    """Return the position of each site in the order of its row, from 0: the largest number comes first.

    Args:
        uniforms: One number in [0, 1) per site.
        scored: The sites that have a position; the others come after them.

    >>> order_ranks(torch.tensor([[0.2, 0.9, 0.5]]), torch.tensor([[True, False, True]]))
    tensor([[1, 2, 0]])
    """
    order = uniforms.masked_fill(~scored, -1.0).argsort(dim=1, descending=True, stable=True)
    return torch.empty_like(order).scatter_(1, order, torch.arange(order.shape[1]).expand_as(order))


def _ends(batches: int | Sequence[int], sites: int) -> list[int]:
    """Return the positions in an order at which batches of sites end."""
    if isinstance(batches, Sequence) and not isinstance(batches, str):
        sizes = [_check.integer("a number of batches", size, least=1) for size in batches]
        if sum(sizes) < sites:
            raise ValueError(
                f"batches must add up to the number of sites to reveal, {sites}, or more, got {sum(sizes)}: "
                f"write batches={[*sizes, sites - sum(sizes)]}"
            )
    else:
        if not isinstance(batches, Integral):
            kind = type(batches).__name__
            raise TypeError(f"batches must be a whole number >= 1 or a list of them, got {batches!r} of type {kind}")
        size = _check.integer("batches", batches, least=1)
        sizes = [size] * math.ceil(sites / size)
    ends = torch.tensor(sizes).cumsum(0).clamp(max=sites).unique().tolist()
    return [int(end) for end in ends]


def _revealed(
    rows: KnownRows, row: Tensor, uniforms: Tensor, begin: int, end: int, batch_size: int
) -> Float[Tensor, " n"]:
    """Return the sum of log p over the sites at the positions ``begin`` to ``end`` of each order, given those before.

    Args:
        rows: The rows.
        row: The row of each order.
        uniforms: One number per order and site, which defines the order and the times.
        begin: The first position.
        end: The position after the last one.
        batch_size: Inputs per evaluation.
    """
    out = torch.zeros(len(row), dtype=torch.float64)
    row_index = torch.arange(len(row))[rows.scored[row].sum(1) > begin]
    if len(row_index) == 0:
        return out
    row, uniforms = row[row_index], uniforms[row_index]
    scored, x = rows.scored[row], rows.x[row]
    rank = order_ranks(uniforms, scored)
    masked = (scored & (rank >= begin)) | rows.missing[row]
    now = scored & (rank >= begin) & (rank < end)
    process = rows.reverse.process
    inputs = x.masked_fill(masked, process.mask or 0)
    times = None
    if rows.reverse.denoiser.uses_time:
        # The first of the batch is revealed at this time, from a chain that starts fully masked at time 1.
        largest = uniforms.masked_fill(~now, 0.0).amax(1)
        times = time_of(process, largest * float(-torch.expm1(-process.schedule.total(1.0))))
    merged = _Inputs.of(rows, row, inputs, times)
    found = torch.zeros(len(row), dtype=torch.float64)
    # In the order of the inputs, so that each evaluation serves a slice of them.
    number, site = now.nonzero().unbind(1)
    by_input = merged.place[number].argsort(stable=True)
    number, site = number[by_input], site[by_input]
    place = merged.place[number]
    for start in range(0, len(merged.first), batch_size):
        stop = min(start + batch_size, len(merged.first))
        low, high = (int(each) for each in torch.searchsorted(place, torch.tensor([start, stop])))
        posterior = merged.posterior(start, stop)
        device = rows.reverse.device
        sites = ((place[low:high] - start) * x.shape[1] + site[low:high]).to(device)
        states = x[number[low:high], site[low:high]].to(device)
        found.index_add_(0, number[low:high], _device.exact_on_cpu(posterior.log_prob(states, sites)))
    return out.index_copy(0, row_index, found)


@dataclass(frozen=True)
class _Inputs:
    """The distinct inputs of many orders.

    Args:
        rows: The rows.
        row: The row of each order.
        inputs: The input of each order.
        times: The time of each order; None if it has no effect.
        first: For each distinct input an order that has it.
        place: For each order the number of its input.
    """

    rows: KnownRows
    row: Tensor
    inputs: Tensor
    times: Tensor | None
    first: Tensor
    place: Tensor

    @classmethod
    def of(cls, rows: KnownRows, row: Tensor, inputs: Tensor, times: Tensor | None) -> _Inputs:
        """Return the distinct inputs; all count as distinct where finding equal ones saves little."""
        every = torch.arange(len(row))
        if times is None and not rows.by_row and _many_are_equal(inputs):
            # A network may distinguish observed from revealed sites.
            key = torch.where(rows.observed[row], inputs + rows.reverse.process.num_states, inputs)
            distinct, place = torch.unique(key, dim=0, return_inverse=True)
            first = torch.zeros(len(distinct), dtype=torch.int64).index_copy_(0, place, every)
            return cls(rows, row, inputs, times, first, place)
        return cls(rows, row, inputs, times, every, every)

    def posterior(self, start: int, stop: int) -> Posterior:
        """Evaluate the denoiser at some of the distinct inputs."""
        rows, chosen = self.rows, self.first[start:stop]
        device = rows.reverse.device
        x = self.inputs[chosen].reshape(len(chosen), *rows.shape).to(device)
        mask = rows.observed[self.row[chosen]].reshape(x.shape).to(device)
        t = 1.0 if self.times is None else self.times[chosen].to(device)
        observed = Observed(mask, x) if rows.has_observed else None
        condition = rows.condition_of(self.row[chosen])
        return rows.reverse.posterior(x, t, observed=observed, condition=moved(condition, device), reachable_only=False)


def _many_are_equal(inputs: Tensor) -> bool:
    """Return whether many inputs are equal, estimated from the first 4,096 of them."""
    sample = inputs[torch.arange(len(inputs))[: 2**12]]
    if len(sample) < 2:
        return False
    return len(torch.unique(sample, dim=0)) < _WORTH_MERGING * len(sample)
