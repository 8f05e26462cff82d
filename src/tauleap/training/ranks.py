"""Communication between the ranks of a run; a single process sends nothing."""

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
    """Call ``action`` on the first rank, and return its result there and None elsewhere.

    Errors on the first rank are broadcast: the other ranks exit without a message.

    Args:
        fabric: The processes of the run.
        action: The function.
    """
    result, error = None, None
    if fabric.is_global_zero:
        try:
            result = action()
        except Exception as caught:  # broadcast to the other ranks, then raised
            error = caught
    failed = fabric.broadcast(error is not None)
    if error is not None:
        raise error
    if failed:
        # The first rank prints the reason. Another exit code would make the launcher kill it before that.
        raise SystemExit(0)
    return result


def from_first(fabric: Fabric, action: Callable[[], Result]) -> Result:
    """Call ``action`` on the first rank, and return its result on every rank.

    Args:
        fabric: The processes of the run.
        action: The function.
    """
    return cast(Result, fabric.broadcast(on_first(fabric, action)))


def largest(fabric: Fabric, numbers: Sequence[int]) -> list[int]:
    """Return the maximum of each number over the ranks.

    Args:
        fabric: The processes of the run.
        numbers: The numbers of this rank; flags are 0 or 1.
    """
    if fabric.world_size == 1:
        return [int(number) for number in numbers]
    here = torch.tensor(numbers, dtype=torch.int64, device=fabric.device)
    return [int(number) for number in _reduced(fabric, here, "max")]


def mean(fabric: Fabric, values: Tensor) -> Tensor:
    """Return the mean over the ranks.

    Args:
        fabric: The processes of the run.
        values: The values of this rank.
    """
    return values if fabric.world_size == 1 else _reduced(fabric, values, "mean")


def gathered(fabric: Fabric, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the values of all ranks, (ranks, ...) each, on the CPU.

    Args:
        fabric: The processes of the run.
        values: The values of this rank.
    """
    return {
        name: _stacked(fabric, {fabric.global_rank: value}, fabric.world_size).cpu() for name, value in values.items()
    }


def in_blocks(fabric: Fabric, blocks: int, work: Callable[[int], Tensor]) -> Tensor:
    """Return ``work(0), work(1), ...`` stacked, (blocks, ...), on every rank; the ranks share the work.

    The result of a block must depend only on its number; then the output does not depend on the number of ranks.

    Args:
        fabric: The processes of the run.
        blocks: The number of blocks, >= 1.
        work: Returns the result of a block, given its number.
    """
    world, rank = fabric.world_size, fabric.global_rank
    # All ranks compute equally many blocks, some of them twice: sharded networks are evaluated by all ranks at once.
    rounds = [turn * world + rank for turn in range(math.ceil(blocks / world))]
    done = {block: work(min(block, blocks - 1)) for block in rounds}
    return _stacked(fabric, {block: value for block, value in done.items() if block < blocks}, blocks, like=done[rank])


def _stacked(fabric: Fabric, here: Mapping[int, Tensor], number: int, like: Tensor | None = None) -> Tensor:
    """Return (number, ...) from the entries of all ranks, each at its index."""
    if fabric.world_size == 1:
        return torch.stack([here[place] for place in range(number)])
    example = next(iter(here.values())) if like is None else like
    whole = torch.zeros((number, *example.shape), dtype=example.dtype, device=fabric.device)
    for place, value in here.items():
        whole[place] = value
    return _reduced(fabric, whole, "sum")  # the other ranks have zeros, so nothing is rounded


def _reduced(fabric: Fabric, values: Tensor, operation: str) -> Tensor:
    return cast(Tensor, fabric.all_reduce(values, reduce_op=operation))
