"""log p of one state per row of logits, without a tensor of the logits' size that is kept for the gradient."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Int64
from torch import Tensor
from torch.autograd.function import once_differentiable

from tauleap import _device
from tauleap._chunks import chunks
from tauleap._shapes import PerSite, PerState, States


def log_prob(logits: PerState, x0: States) -> PerSite:
    """Return ``logits.log_softmax(-1)`` at the states x0, without keeping a tensor of that size for the gradient.

    >>> log_prob(torch.zeros(1, 4), torch.tensor([2]))
    tensor([-1.3863])
    """
    return log_prob_of_rows(logits.reshape(-1, logits.shape[-1]), x0.reshape(-1)).view(x0.shape)


def log_prob_of_rows(
    logits: Float[Tensor, "rows states"],
    x0: Int64[Tensor, " n"],
    chosen: Int64[Tensor, " n"] | None = None,
    allowed: Bool[Tensor, " states"] | None = None,
) -> Float[Tensor, " n"]:
    """Return log p of one state per chosen row. Only these rows are read, a block of them at a time.

    Args:
        logits: Unnormalised log-probabilities.
        x0: The states.
        chosen: The rows. Default: all, in their order.
        allowed: The states that have a probability. Default: all.

    >>> log_prob_of_rows(torch.zeros(3, 4), torch.tensor([0]), torch.tensor([2]), torch.arange(4) < 2)
    tensor([-0.6931])
    """
    if chosen is None:
        return _LogProb.apply(logits, x0, allowed)
    return _LogProbOfSome.apply(logits, x0, chosen, allowed)


_WIDE = 2**13
"""States from which on a call per row costs less than to copy several rows for one call."""


class Exclusion:
    """Overwrite the numbers of excluded states, such as -inf for logits.

    Args:
        allowed: The other states, (S,); None for all.
    """

    def __init__(self, allowed: Bool[Tensor, " states"] | None) -> None:
        self._excluded = None if allowed is None else ~allowed
        self.any = allowed is not None
        # On the CPU a few columns instead of a comparison per entry, found once for all blocks of rows.
        is_host = allowed is not None and _device.is_host(allowed.device)
        self._columns = self._excluded.nonzero().squeeze(-1) if is_host and self._excluded is not None else None

    def write(self, rows: Float[Tensor, "n states"], value: float) -> Float[Tensor, "n states"]:
        """Return the rows with ``value`` at the excluded states, in the same memory.

        Args:
            rows: One number per row and state.
            value: The number to write.
        """
        if self._columns is not None:
            return rows.index_fill_(1, self._columns, value)
        return rows if self._excluded is None else rows.masked_fill_(self._excluded, value)

    def write_at(self, values: Float[Tensor, " n"], x0: Int64[Tensor, " n"], value: float) -> Float[Tensor, " n"]:
        """Return numbers that belong to states, with ``value`` where the state is excluded.

        Args:
            values: One number per row.
            x0: The state of each.
            value: The number to write.
        """
        return values if self._excluded is None else values.masked_fill_(self._excluded[x0], value)


class _LogProb(torch.autograd.Function):
    """Compute log p of all rows; nothing of their size is kept but themselves."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor, allowed: Tensor | None) -> Tensor:
        total, exclusion = logits.new_empty(len(x0)), Exclusion(allowed)
        for part in chunks(len(x0), logits.shape[-1], logits.device):
            rows = exclusion.write(logits[part].clone(), float("-inf")) if exclusion.any else logits[part]
            torch.logsumexp(rows, -1, out=total[part])
        ctx.save_for_backward(logits, x0, total, allowed)
        own = logits.gather(-1, x0[:, None]).squeeze(-1)
        return exclusion.write_at(own, x0, float("-inf")).sub_(total)

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None, None]:
        logits, x0, total, allowed = ctx.saved_tensors
        out, exclusion = torch.empty_like(logits), Exclusion(allowed)
        for part in chunks(len(x0), logits.shape[-1], logits.device):
            rows = torch.sub(logits[part], total[part, None], out=out[part])
            exclusion.write(rows.exp_().mul_(-gradient[part, None]), 0.0)
            _add_at(rows, x0[part], gradient[part])
        return out, None, None


class _LogProbOfSome(torch.autograd.Function):
    """Compute log p of chosen rows, whose exponentials are kept for the gradient.

    The gradient has as many rows as the logits, and is 0 where no row was chosen. On the CPU wide rows are read and
    written one by one, where they are: the gradient is then written once, and set to 0 only where that is needed.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor, chosen: Tensor, allowed: Tensor | None) -> Tensor:
        states, exclusion = logits.shape[-1], Exclusion(allowed)
        kept = logits.new_empty(len(chosen), states) if ctx.needs_input_grad[0] else None
        largest, total = logits.new_empty(len(chosen)), logits.new_empty(len(chosen))
        for part, where in _blocks(logits, chosen):
            place = logits.new_empty(part.stop - part.start, states) if kept is None else kept[part]
            if isinstance(where, slice):
                place.copy_(logits[where])
            else:
                torch.index_select(logits, 0, where, out=place)
            torch.amax(exclusion.write(place, float("-inf")), -1, out=largest[part])
            # Rows of -inf alone have no probabilities, and would become NaN here as in logsumexp's gradient.
            torch.sum(place.sub_(largest[part, None]).exp_(), -1, out=total[part])
        ctx.save_for_backward(kept, x0, total, chosen)
        ctx.shape = logits.shape
        own = exclusion.write_at(logits[chosen, x0], x0, float("-inf"))
        return own.sub_(largest).sub_(total.log())

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None, None, None]:
        kept, x0, total, chosen = ctx.saved_tensors
        scale, one_by_one = -gradient / total, _has_wide_rows(kept)
        out = kept.new_empty(ctx.shape) if one_by_one else kept.new_zeros(ctx.shape)
        unwritten = set(range(len(out))) if one_by_one else set()
        for part, where in _blocks(kept, chosen):
            first = where if isinstance(where, slice) and where.start in unwritten else None
            place = torch.empty_like(kept[part]) if first is None else out[first]
            rows = torch.mul(kept[part], scale[part, None], out=place)
            _add_at(rows, x0[part], gradient[part])
            if first is not None:
                unwritten.discard(first.start)
            elif isinstance(where, slice):
                out[where] += rows
            else:
                out.index_add_(0, where, rows)
        for row in unwritten:
            out[row].zero_()
        return out, None, None, None


def _add_at(rows: Tensor, x0: Tensor, values: Tensor) -> None:
    """Add one value to each row, at its state; ``scatter_add_`` takes 20 times as long for wide rows."""
    own = x0 + torch.arange(len(rows), device=rows.device) * rows.shape[-1]
    rows.view(-1).index_add_(0, own, values)


def _has_wide_rows(logits: Tensor) -> bool:
    return logits.shape[-1] >= _WIDE and _device.is_host(logits.device)


def _blocks(logits: Tensor, chosen: Tensor) -> Iterator[tuple[slice, slice | Tensor]]:
    """Return slices of the chosen rows, and where these rows are: a slice of all rows is read without a copy."""
    if _has_wide_rows(logits):
        for number, row in enumerate(chosen.tolist()):
            yield slice(number, number + 1), slice(row, row + 1)
        return
    for part in chunks(len(chosen), logits.shape[-1], logits.device):
        yield part, chosen[part]
