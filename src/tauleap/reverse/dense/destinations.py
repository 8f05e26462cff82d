"""Exit rates and destinations for any kernel, by one dot product per site instead of a product with a matrix.

The rate is an expectation over x0 of ``R_b(v, x) q(v | x0) / q(x | x0)``. So the exit rate is a dot product of p with a
row of the table

    exit[x, x0] = sum_v R_b(v, x) q(v | x0) / q(x | x0),

made once per time, and a destination is drawn by drawing x0 with weights ``p(x0) exit[x, x0]``, and then v with weights
``R_b(v, x) q(v | x0)`` (``DestinationSampler``). For many draws, x0 is drawn in two stages, first a block of 16 states
by the sums over blocks, which are known from the exit rate, and then a state of the block: 32 numbers are read instead
of S.

Near time 1, where jumps are many and ``q(v | x0)`` hardly depends on x0, destinations are drawn by rejection: v comes
from ``R_b(v, x) qmax(v)`` with qmax and qmin the extremes over x0, and is accepted at once with probability

    qmin(v) qmin(x) / (qmax(v) qmax(x)),

for every x0; otherwise x0 is drawn from p, and v is accepted or drawn again by the true ratio.

A step to an earlier time has the same form, with the kernels to that time and from it in the places of q and R.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tauleap import _device, _draw
from tauleap._chunks import chunks
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.base import OutgoingJumps

_MANY = 4000  # draws from which on the tables over blocks pay
_BLOCK = 16  # states: x0 is drawn fastest as one of S / 16 blocks and one of 16 states
_DESTINATION_BLOCK = 32  # states in a block of destinations, of which there must be a whole number
_FEW_DESTINATIONS = 500  # draws up to which reading whole rows is faster than the sums over blocks
_LARGEST = 512  # states up to which tables with S^3 / 32 entries are small
_SETTLED = 0.75  # the fraction of draws that the extremes must settle for rejection to pay


@dataclass(eq=False)
class DenseJumps(OutgoingJumps):
    """Draw v != x by ``scale rates_into(v, x) sum_x0 p(x0) q_s0(v | x0) / q_t0(x | x0)``; rates_into(x, x) is 0.

    For reverse rates s is t and ``rates_into`` are the jump rates; for a step to s, ``rates_into`` is q_t|s without its
    diagonal. ``scale`` is float64, () or (batch,). Tables that follow from several of the kernels are cached with
    ``cache_owner``, which must occur in this combination alone: q_t0 for rates, but q_t|s for a step, since other steps
    lead to s too.
    """

    x: States
    posterior: Posterior
    q_t0: DenseKernel
    q_s0: DenseKernel
    rates_into: DenseKernel
    scale: Tensor
    cache_owner: DenseKernel

    @property
    def size(self) -> int:
        """The number of states."""
        return self.q_t0.matrix.shape[-1]

    @cached_property
    @full_precision
    def exit_rate(self) -> PerSite:  # pyright: ignore[reportIncompatibleMethodOverride]
        if self.posterior.logits.requires_grad:
            probs = self.posterior.given_reachable(self.q_t0.reachable(self.x)).probs
            rate = torch.linalg.vecdot(probs, self.q_t0.select(self._exit_table(probs.dtype), self.x))
        else:
            rate = self._sums.sum(-1).reshape(self.x.shape)
        return rate * _device.moved_to(along_batch(self.scale, self.x.ndim), self.x.device, rate.dtype)

    @cached_property
    def _sums(self) -> Tensor:
        """p(x0) exit[x, x0] summed over each block of x0, (sites, S / 16), or over all of them, (sites, 1)."""
        rows = self.posterior.logits.detach().reshape(-1, self.size)
        width = _BLOCK if self._in_blocks else self.size
        out, ones = rows.new_empty(len(rows), self.size // width), rows.new_ones(width)
        exits = self._exit_table(rows.dtype)
        for part in chunks(len(rows), self.size, rows.device):
            x, samples = self._where(part)
            weights = self._reachable(rows[part], x, samples).softmax(-1)
            weights.mul_(self.q_t0.select(exits, x, samples))
            torch.mv(weights.view(-1, width), ones, out=out[part].view(-1))
        return out

    @full_precision
    def draw(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        if len(chosen) >= _MANY and self.q_t0.matrix.ndim == 2:
            extremes = _Extremes(self.q_t0, self.q_s0, self.rates_into) if _extremes_suffice(self.q_t0) else None
            if extremes is not None and extremes.settled >= _SETTLED:
                return self._by_rejection(chosen, extremes, generator)
            if self._in_blocks:
                return self._by_blocks(chosen, generator)
        out = torch.empty_like(chosen)
        for part in chunks(len(chosen), self.size, chosen.device):
            out[part] = self._by_rows(chosen[part], generator)
        return out

    def _by_rows(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        x, samples = self.x.reshape(-1)[chosen], chosen // self.x[:1].numel()
        logits = self.posterior.logits.reshape(-1, self.size).index_select(0, chosen)
        weights = self._reachable(logits.to(torch.float64), x, samples).softmax(-1)
        x0 = _draw.categorical(weights.mul_(self.q_t0.select(self._exit_table(torch.float64), x, samples)), generator)
        weights = self.q_s0.select(self.q_s0.matrix, x0, samples)
        columns = self.rates_into.columns_table(torch.float64)
        return _draw.categorical(weights.mul_(self.rates_into.select(columns, x, samples)), generator)

    def _by_blocks(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        logits = self.posterior.logits.detach().reshape(-1, _BLOCK)
        exits, number = self._exit_table(logits.dtype).reshape(-1, _BLOCK), self.size // _BLOCK
        x, x0 = self.x.reshape(-1).index_select(0, chosen), torch.empty_like(chosen)
        for part in chunks(len(chosen), 2 * _BLOCK, chosen.device):
            here, where = x[part], chosen[part]
            block = _draw.categorical(self._sums.index_select(0, where), generator)
            away = exits.index_select(0, here.mul(number).add_(block))
            weights = logits.index_select(0, where.mul(number).add_(block))
            if self.q_t0.has_zeros:
                weights.masked_fill_(away == 0, -torch.inf)  # not possible, so it must not enter the softmax
            weights = weights.softmax(-1).mul_(away)
            x0[part] = block.mul_(_BLOCK).add_(_draw.categorical(weights, generator))
        return DestinationSampler(self.q_s0, self.rates_into).draw(x, x0, generator)

    def _by_rejection(self, chosen: Tensor, extremes: _Extremes, generator: torch.Generator | None) -> Tensor:
        x = self.x.reshape(-1).index_select(0, chosen)
        out = extremes.proposals.draw(x, generator)
        chance = _draw.uniforms(x.shape, x.device, generator)
        undecided = (chance >= extremes.accepted.view(-1).index_select(0, x * self.size + out)).nonzero().squeeze(-1)
        q_s0, q_t0 = self.q_s0.matrix, self.q_t0.matrix
        while len(undecided):
            x_, v = x[undecided], out[undecided]
            x0 = self._draw_x0(chosen[undecided], generator)
            true = q_s0[x0, v] * extremes.least[x_] / (q_t0[x0, x_] * extremes.most[v])
            undecided = undecided[chance[undecided] >= true]
            out[undecided] = extremes.proposals.draw(x[undecided], generator)
            chance[undecided] = _draw.uniforms(undecided.shape, x.device, generator)
        return out

    def _draw_x0(self, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return x0 drawn from p at the chosen sites."""
        rows, out = self.posterior.logits.reshape(-1, self.size), torch.empty_like(chosen)
        for part in chunks(len(chosen), self.size, chosen.device):
            out[part] = _draw.categorical(rows.index_select(0, chosen[part]).softmax(-1), generator)
        return out

    def _reachable(self, logits: Tensor, x: Tensor, samples: Tensor | None) -> Tensor:
        """Return rows of logits with -inf at the x0 from which x cannot be reached."""
        if not self.q_t0.has_zeros:
            return logits
        possible = self.q_t0.select(self.q_t0.inverse_table(torch.float64), x, samples) > 0
        return logits.masked_fill(~(possible | ~possible.any(-1, keepdim=True)), -torch.inf)

    def _where(self, part: slice) -> tuple[Tensor, Tensor | None]:
        """Return x at the positions of ``part``, and their samples if these have different kernels."""
        x = self.x.reshape(-1)[part]
        if self.q_t0.matrix.ndim == 2:
            return x, None
        return x, torch.arange(part.start, part.start + len(x), device=x.device) // self.x[:1].numel()

    @property
    def _in_blocks(self) -> bool:
        fits = self.size % _DESTINATION_BLOCK == 0 and 4 * _BLOCK <= self.size <= _LARGEST
        return self.q_t0.matrix.ndim == 2 and fits

    def _exit_table(self, dtype: torch.dtype) -> Tensor:
        """Return exit[x, x0], the exit rate given x0."""
        matrix, zeros = self.q_t0.matrix, self.q_t0.has_zeros
        totals = self.cache_owner.table("totals", torch.float64, lambda: self.q_s0.matrix @ self.rates_into.matrix)
        return self.cache_owner.table(
            "exit", dtype, lambda: (torch.where(matrix > 0, totals / matrix, 0.0) if zeros else totals / matrix).mT
        )


class DestinationSampler:
    """Draw a destination v given x and x0, with weights ``rates_into(v, x) q_s0(v | x0)``.

    For many draws a block of 32 states is drawn by the sums of the weights over blocks, and then a state of the block.
    The sums for all pairs of x0 and x are one matrix product per block, together as much work as one product of the
    kernel with the rates.

    Args:
        q_s0: one kernel (S, S), with S a multiple of 32.
        rates_into: one table of rates (S, S).
    """

    def __init__(self, q_s0: DenseKernel, rates_into: DenseKernel) -> None:
        self.kernel, self.size = q_s0.matrix, q_s0.matrix.shape[-1]
        self.rates, self.columns = rates_into.matrix, rates_into.columns_table(torch.float64)  # [v, x] and [x, v]

    def draw(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return a state for each entry of x and x0, (n,)."""
        out, draw = torch.empty_like(x), self._by_blocks if len(x) > _FEW_DESTINATIONS else self._by_rows
        for part in chunks(len(x), _DESTINATION_BLOCK, x.device):
            out[part] = draw(x[part], x0[part], generator)
        return out

    def _by_blocks(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        number = self.size // _DESTINATION_BLOCK
        places = torch.arange(0, number * self.size**2, self.size**2, device=x.device)[:, None] + (x0 * self.size + x)
        sums = self._sums.index_select(0, places.view(-1)).view(places.shape).cumsum_(0)
        block = (sums < _draw.targets(sums[-1], generator)).sum(0)
        weights = self.kernel.view(-1, _DESTINATION_BLOCK).index_select(0, x0 * number + block)
        weights.mul_(self.columns.view(-1, _DESTINATION_BLOCK).index_select(0, x * number + block))
        return _draw.categorical(weights, generator).add_(block.mul_(_DESTINATION_BLOCK))

    def _by_rows(self, x: Tensor, x0: Tensor, generator: torch.Generator | None) -> Tensor:
        weights = self.columns.index_select(0, x).mul_(self.kernel.index_select(0, x0))
        return _draw.categorical(weights, generator)

    @cached_property
    def _sums(self) -> Tensor:
        """sum_v rates_into(v, x) q_s0(v | x0) over the states v of a block, at [block, x0, x]."""
        number = self.size // _DESTINATION_BLOCK
        kernel = self.kernel.view(self.size, number, _DESTINATION_BLOCK).transpose(0, 1)
        return torch.bmm(kernel, self.rates.reshape(number, _DESTINATION_BLOCK, self.size)).view(-1)


def _extremes_suffice(q_t0: DenseKernel) -> bool:
    """Return whether ``_Extremes`` may settle enough draws, by a bound from the first and the last x0 alone.

    The settled fraction is at most the mean over x of the least q_t0(x | x0) over the largest.
    """
    ends = q_t0.matrix[[0, -1]]
    least, largest = torch.aminmax(ends, dim=0)
    return float((least / torch.where(largest > 0, largest, 1.0)).mean()) >= _SETTLED


class _Extremes:
    """Hold the extremes over x0 of q_s0(v | x0) and q_t0(x | x0), and draws of v from rates_into(v, x) most(v)."""

    def __init__(self, q_t0: DenseKernel, q_s0: DenseKernel, rates_into: DenseKernel) -> None:
        self.least, largest = torch.aminmax(q_t0.matrix, dim=0)
        smallest, self.most = torch.aminmax(q_s0.matrix, dim=0)
        rates = rates_into.columns_table(torch.float64)
        self.cdf = (rates * self.most).cumsum(-1)
        # If x can always be reached and v can be, v is accepted with this probability for every x0, [x, v].
        steady = self.least / largest
        self.accepted = smallest / torch.where(self.most > 0, self.most, 1.0) * steady[:, None]
        total = self.cdf[:, -1]
        settled = (rates * smallest).sum(-1) * steady / torch.where(total > 0, total, 1.0)
        self.settled = float(settled.mean()) if bool((self.least > 0).all()) else 0.0

    @cached_property
    def proposals(self) -> _InverseCdf:
        return _InverseCdf(self.cdf)


class _InverseCdf:
    """Draw many states from a few distributions by inverse CDF in float64, accurate in the tails.

    Beside the running sums (rows, S) there is a table of starting points: how many sums lie below each multiple of
    total / S. A draw then reads two or three entries, for any number of states.
    """

    def __init__(self, cdf: Tensor) -> None:
        self.cdf, self.size, self.total = cdf, cdf.shape[-1], cdf[:, -1].contiguous()
        # A sum counts from the first multiple that is not below it; starting too early costs a step and is not wrong.
        total = torch.where(self.total > 0, self.total, 1.0)[:, None]
        first = (cdf / total * self.size * (1 + 1e-12)).ceil().long().clamp_(max=self.size)
        counts = torch.zeros(len(cdf), self.size + 1, dtype=torch.int64, device=cdf.device)
        self.begin = counts.scatter_add_(-1, first, torch.ones_like(first)).cumsum(-1)[:, : self.size].contiguous()

    def draw(self, rows: Tensor, generator: torch.Generator | None) -> Tensor:
        """Return a state for each entry of ``rows``."""
        total, start = self.total.index_select(0, rows), rows * self.size
        target = _draw.targets(total, generator)
        place = target.div(total).mul_(self.size).long().clamp_(max=self.size - 1).add_(start)
        state = self.begin.view(-1).index_select(0, place)
        # Mostly it is the state there or the next; the rest, in the tails, is searched for.
        cdf = self.cdf.view(-1)
        state += cdf.index_select(0, start + state) < target
        further = (cdf.index_select(0, start.add_(state)) < target).nonzero().squeeze(-1)
        return state.index_copy_(0, further, _draw.first_to_reach(self.cdf, rows[further], target[further]))
