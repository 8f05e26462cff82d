"""The last outputs of a network that does not take t: a row that has not changed is not evaluated again.

Rows are compared by content, on the CPU. An accelerator would have to send its rows to the host first, and evaluates
all rows of a call.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from torch import Tensor

from tauleap._shapes import SiteMask, States

_CALLS = 2
"""How many calls' rows are kept: a sampler may evaluate two states of a row in turn, and returns to one of them."""


class RowMemory:
    """Keep the outputs of the last rows, and count the rows that were requested and those that were evaluated."""

    def __init__(self) -> None:
        self.requested = self.evaluated = 0
        self._known: OrderedDict[tuple[object, ...], Tensor] = OrderedDict()
        self._largest = 0

    @property
    def evaluated_fraction(self) -> float:
        """How many of the requested rows were evaluated, as a fraction."""
        return self.evaluated / self.requested if self.requested else 1.0

    def outputs(self, keys: list[tuple[object, ...]], evaluate: Callable[[Tensor | None], object]) -> object:
        """Return the outputs of a batch of rows.

        Args:
            keys: What the output of each row depends on.
            evaluate: Returns the outputs of some rows, given by their numbers, or of all for None.
        """
        first: dict[tuple[object, ...], int] = {}
        for number, key in enumerate(keys):
            if key not in self._known:
                first.setdefault(key, number)
        self.requested += len(keys)
        self.evaluated += len(first)
        found: object = None
        if first or not keys:
            found = evaluate(None if len(first) == len(keys) else torch.tensor(list(first.values())))
            if not isinstance(found, Tensor) or found.shape[:1] != (len(first),):
                return found  # the caller refuses it
        new = dict(zip(first, found, strict=True)) if isinstance(found, Tensor) else {}
        if len(new) < len(keys):
            found = torch.stack([new[key] if key in new else self._known[key] for key in keys])
        self._keep(keys, new)
        return found

    def _keep(self, keys: list[tuple[object, ...]], new: dict[tuple[object, ...], Tensor]) -> None:
        for key in keys:
            if key in new:
                self._known[key] = new[key].clone()  # a view would keep the outputs of all rows
            self._known.move_to_end(key)
        self._largest = max(self._largest, len(keys))
        while len(self._known) > _CALLS * self._largest:
            self._known.popitem(last=False)


_MEMORY: ContextVar[RowMemory | None] = ContextVar("tauleap_rows", default=None)


@contextmanager
def remembering() -> Iterator[RowMemory]:
    """Let networks that do not take t remember their last rows inside the block, in which weights must not change."""
    memory = RowMemory()
    token = _MEMORY.set(memory)
    try:
        yield memory
    finally:
        _MEMORY.reset(token)


def current_memory() -> RowMemory | None:
    """Return the memory of the innermost block of :func:`remembering`; None outside."""
    return _MEMORY.get()


def keys_of(x: States, observed: SiteMask | None, condition: Tensor | None, *also: object) -> list[tuple[object, ...]]:
    """Return one key per row, which is equal for rows of equal content.

    Args:
        x: The states, on the CPU.
        observed: The observed sites, or None.
        condition: One entry per row, or None.
        also: What else the output depends on.
    """
    given = [
        x,
        *(() if observed is None else (observed.expand(x.shape),)),
        *(() if condition is None else (condition,)),
    ]
    arrays = [part.detach().contiguous().flatten(1) if part.ndim > 1 else part.detach()[:, None] for part in given]
    rows = [part.contiguous().view(torch.uint8).numpy() for part in arrays]
    return [(*also, *(part[number].tobytes() for part in rows)) for number in range(len(x))]
