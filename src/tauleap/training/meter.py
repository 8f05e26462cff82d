"""Collect losses for the logs, and detect losses that are not finite."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


class NonFiniteError(ArithmeticError):
    """Report a loss or a weight that became infinite or NaN.

    >>> issubclass(NonFiniteError, ArithmeticError)
    True
    """


class Meter:
    """Collect the values of each step on their device; reading them makes an accelerator wait."""

    def __init__(self) -> None:
        self._values: dict[str, list[Tensor]] = {}

    def __len__(self) -> int:
        return len(self._values.get("loss", []))

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Append the values of a step.

        Args:
            values: The loss, its terms and other values to be logged, one number each.
        """
        for name, value in values.items():
            self._values.setdefault(name, []).append(value)

    def first_bad(self, last: int) -> int | None:
        """Return how many steps ago a loss first was not finite, None if all are; waits for the device.

        Args:
            last: How many of the last steps to check.
        """
        recent = self._values.get("loss", [])[-last:]
        if len(recent) == 1:
            return None if math.isfinite(recent[0].item()) else 0
        bad = (~torch.isfinite(torch.stack(recent))).nonzero() if recent else []
        return len(recent) - 1 - int(bad[0]) if len(bad) else None

    def at(self, ago: int) -> dict[str, Tensor]:
        """Return the values of a step.

        Args:
            ago: The number of steps since then; 0 is the last step.
        """
        return {name: values[-1 - ago] for name, values in self._values.items()}

    def means(self) -> dict[str, Tensor]:
        """Return the mean of each value since the last :meth:`clear`."""
        return {name: values.mean() for name, values in self.state().items()}

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()

    def state(self) -> dict[str, Tensor]:
        """Return the values since the last :meth:`clear`, (steps,) each."""
        return {name: torch.stack(values) for name, values in self._values.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Set the values.

        Args:
            state: A result of :meth:`state`.
        """
        self._values = {name: list(values.unbind()) for name, values in state.items()}
