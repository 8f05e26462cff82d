"""Checks of the arguments of an evaluation."""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from tauleap import _check
from tauleap._shapes import States
from tauleap.network.labels import num_labels
from tauleap.reverse import ReverseProcess


@runtime_checkable
class HasReverse(Protocol):
    """Declare a model that reads data and has a reverse process, as :class:`tauleap.Model` does."""

    reverse: ReverseProcess

    def encode(self, x: Any, /) -> Any:
        """Return data as a dataset of states."""
        ...


def reverse_process(value: object, function: str) -> ReverseProcess:
    """Return ``value``; raise a TypeError unless it is a ReverseProcess."""
    if not isinstance(value, ReverseProcess):
        raise TypeError(
            f"{function} takes a ReverseProcess, got {type(value).__name__}: write ReverseProcess(process, denoiser)"
        )
    return value


def reverse_of(value: object, function: str) -> ReverseProcess:
    """Return the reverse process of a model, or the value itself if it is one."""
    if isinstance(value, ReverseProcess):
        return value
    if isinstance(value, HasReverse):
        return value.reverse
    raise TypeError(f"{function} takes a model or a ReverseProcess, got {type(value).__name__}: write tl.load(...)")


def complete_rows(model: object, rows: Any) -> States:
    """Return the rows without missing values as states; a model reads the type of data that it was fitted on.

    Raises:
        ValueError: No row is complete.
    """
    return labelled_rows(model, rows)[0]


def labelled_rows(model: object, rows: Any) -> tuple[States, Tensor | None]:
    """Return the rows without missing values as states, and their labels if the model takes them.

    Raises:
        ValueError: No row is complete.
    """
    if isinstance(model, HasReverse):
        data = model.encode(rows)
        complete = data.known().flatten(1).all(1).nonzero().flatten()
        if not len(complete):
            raise ValueError("every row has a missing value: give rows without missing values")
        takes_labels = num_labels(getattr(model.reverse.denoiser, "network", None)) is not None
        labels = data.condition if takes_labels else None
        return data.rows(complete), None if labels is None else labels[complete]
    reverse = reverse_of(model, "rows")
    x0 = _check.states(rows, reverse.process.num_states, name="rows")
    if x0.ndim < 2 or x0.numel() == 0:
        raise ValueError(f"rows must be states (n, *shape) with n >= 1, got shape {tuple(x0.shape)}")
    reverse.process.check_data(x0)
    return x0.to(torch.int64), None
