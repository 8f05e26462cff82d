"""log p of one state per row of logits, without a tensor of the logits' size that is kept for the gradient."""

from __future__ import annotations

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
    is_wide = logits.shape[-1] >= _WIDE and _device.is_host(logits.device)
    return (_LogProbOfWideRows if is_wide else _LogProbOfSome).apply(logits, x0, chosen, allowed)


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

    The gradient has as many rows as the logits, and is 0 where no row was chosen.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor, chosen: Tensor, allowed: Tensor | None) -> Tensor:
        states, exclusion = logits.shape[-1], Exclusion(allowed)
        kept = logits.new_empty(len(chosen), states) if ctx.needs_input_grad[0] else None
        largest, total = logits.new_empty(len(chosen)), logits.new_empty(len(chosen))
        for part in chunks(len(chosen), states, logits.device):
            place = logits.new_empty(part.stop - part.start, states) if kept is None else kept[part]
            torch.index_select(logits, 0, chosen[part], out=place)
            _exponentials(place, exclusion, largest[part], total[part])
        ctx.save_for_backward(kept, x0, total, chosen)
        ctx.shape = logits.shape
        return _own(logits, x0, chosen, exclusion).sub_(largest).sub_(total.log())

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None, None, None]:
        kept, x0, total, chosen = ctx.saved_tensors
        scale, out = -gradient / total, kept.new_zeros(ctx.shape)
        for part in chunks(len(chosen), kept.shape[-1], kept.device):
            rows = torch.mul(kept[part], scale[part, None])
            _add_at(rows, x0[part], gradient[part])
            out.index_add_(0, chosen[part], rows)
        return out, None, None, None


class _LogProbOfWideRows(torch.autograd.Function):
    """Compute log p of chosen rows one by one, on the CPU, with exponentials where the gradient will be.

    Half of the time of such a loss is the first touch of new memory. So nothing else of the size of the rows is made:
    the exponentials are written into the memory of the gradient, and become it by one factor per row.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, x0: Tensor, chosen: Tensor, allowed: Tensor | None) -> Tensor:
        exclusion = Exclusion(allowed)
        out = torch.empty_like(logits) if ctx.needs_input_grad[0] else None
        largest, total = _LogProbOfWideRows._write(logits, chosen, exclusion, out)
        ctx.save_for_backward(logits, x0, total, chosen)
        ctx.written, ctx.exclusion = out, exclusion
        return _own(logits, x0, chosen, exclusion).sub_(largest).sub_(total.log())

    @staticmethod
    @once_differentiable
    def backward(  # pyright: ignore[reportIncompatibleMethodOverride]
        ctx: Any, gradient: Tensor
    ) -> tuple[Tensor, None, None, None]:
        logits, x0, total, chosen = ctx.saved_tensors
        out, ctx.written = ctx.written, None
        if out is None:  # the memory of an earlier gradient of the same graph is not ours any more
            out = torch.empty_like(logits)
            _LogProbOfWideRows._write(logits, chosen, ctx.exclusion, out)
        scale = logits.new_zeros(len(out)).index_add_(0, chosen, -gradient / total)
        rows = chosen.unique()
        for row in rows.tolist():
            out[row].mul_(scale[row])
        for row in set(range(len(out))).difference(rows.tolist()):
            out[row].zero_()
        out.view(-1).index_add_(0, chosen * out.shape[-1] + x0, gradient)
        return out, None, None, None

    @staticmethod
    def _write(logits: Tensor, chosen: Tensor, exclusion: Exclusion, out: Tensor | None) -> tuple[Tensor, Tensor]:
        """Write the exponentials of the chosen rows to ``out``; return the largest logit and the sum of each row."""
        largest, total = logits.new_empty(len(chosen)), logits.new_empty(len(chosen))
        first: dict[int, int] = {}
        place = logits.new_empty(1, logits.shape[-1]) if out is None else out
        for number, row in enumerate(chosen.tolist()):
            before = first.setdefault(row, number)
            if before != number:
                largest[number], total[number] = largest[before], total[before]
                continue
            here = slice(0, 1) if out is None else slice(row, row + 1)
            place[here].copy_(logits[row : row + 1])
            part = slice(number, number + 1)
            _exponentials(place[here], exclusion, largest[part], total[part])
        return largest, total


def _exponentials(rows: Tensor, exclusion: Exclusion, largest: Tensor, total: Tensor) -> None:
    """Replace logits by the exponentials of their differences to the largest one; write that, and the sum."""
    torch.amax(exclusion.write(rows, float("-inf")), -1, out=largest)
    # Rows of -inf alone have no probabilities, and would become NaN here as in logsumexp's gradient.
    torch.sum(rows.sub_(largest[:, None]).exp_(), -1, out=total)


def _own(logits: Tensor, x0: Tensor, chosen: Tensor, exclusion: Exclusion) -> Tensor:
    """Return the logit of x0 of each chosen row."""
    return exclusion.write_at(logits[chosen, x0], x0, float("-inf"))


def _add_at(rows: Tensor, x0: Tensor, values: Tensor) -> None:
    """Add one value to each row, at its state; ``scatter_add_`` takes 20 times as long for wide rows."""
    own = x0 + torch.arange(len(rows), device=rows.device) * rows.shape[-1]
    rows.view(-1).index_add_(0, own, values)
