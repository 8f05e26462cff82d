"""What the ranks of a run do together. With one process all of this comes to nothing."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, distributed

Result = TypeVar("Result")


def is_first_rank() -> bool:
    """Return whether this process is the one that should print and write: the only one, or the first of several.

    >>> is_first_rank()
    True
    """
    return not (distributed.is_available() and distributed.is_initialized()) or distributed.get_rank() == 0


def on_first(fabric: Fabric, action: Callable[[], Result]) -> Result | None:
    """Runs ``action`` on the first rank alone; the others wait for it, and leave quietly when it fails there."""
    result, error = None, None
    if fabric.is_global_zero:
        try:
            result = action()
        except Exception as caught:  # told to the others, then raised
            error = caught
    failed = fabric.broadcast(error is not None)
    if error is not None:
        raise error
    if failed:
        # The first rank says why. Another exit code would make the launcher kill it before it could.
        raise SystemExit(0)
    return result


def from_first(fabric: Fabric, action: Callable[[], Result]) -> Result:
    """What ``action`` gives on the first rank, to every rank."""
    return cast(Result, fabric.broadcast(on_first(fabric, action)))


def largest(fabric: Fabric, numbers: Sequence[int]) -> list[int]:
    """For each number, the largest that any rank has; of flags, whether any rank has raised it."""
    if fabric.world_size == 1:
        return [int(number) for number in numbers]
    here = torch.tensor(numbers, dtype=torch.int64, device=fabric.device)
    return [int(number) for number in _reduced(fabric, here, "max")]


def mean(fabric: Fabric, values: Tensor) -> Tensor:
    """The mean over the ranks."""
    return values if fabric.world_size == 1 else _reduced(fabric, values, "mean")


def gathered(fabric: Fabric, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The values of all ranks, (ranks, ...) each, on the CPU."""
    return {
        name: _stacked(fabric, {fabric.global_rank: value}, fabric.world_size).cpu() for name, value in values.items()
    }


def in_blocks(fabric: Fabric, blocks: int, work: Callable[[int], Tensor]) -> Tensor:
    """``work(0), work(1), ...`` stacked, (blocks, ...), done by all ranks in turn and known to all of them.

    What a block gives must follow from its number; then the result does not depend on the number of ranks.
    """
    world, rank = fabric.world_size, fabric.global_rank
    # Every rank works as often as every other, if need be for nothing: sharded networks are asked by all at once.
    rounds = [turn * world + rank for turn in range(math.ceil(blocks / world))]
    done = {block: work(min(block, blocks - 1)) for block in rounds}
    return _stacked(fabric, {block: value for block, value in done.items() if block < blocks}, blocks, like=done[rank])


def _stacked(fabric: Fabric, here: Mapping[int, Tensor], number: int, like: Tensor | None = None) -> Tensor:
    """(number, ...) from the entries that the ranks have, each at its place."""
    if fabric.world_size == 1:
        return torch.stack([here[place] for place in range(number)])
    example = next(iter(here.values())) if like is None else like
    whole = torch.zeros((number, *example.shape), dtype=example.dtype, device=fabric.device)
    for place, value in here.items():
        whole[place] = value
    return _reduced(fabric, whole, "sum")  # to the others' zeros, so nothing is rounded


def _reduced(fabric: Fabric, values: Tensor, operation: str) -> Tensor:
    return cast(Tensor, fabric.all_reduce(values, reduce_op=operation))
