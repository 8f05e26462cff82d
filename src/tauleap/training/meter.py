"""Losses on their way to the logs, and the alarm when one is not a number."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor


class NonFiniteError(ArithmeticError):
    """The loss, or a weight, has become infinite or not a number."""


class Meter:
    """Keeps what each step gave where it is, and looks at it only when asked: looking makes an accelerator wait."""

    def __init__(self) -> None:
        self._values: dict[str, list[Tensor]] = {}

    def __len__(self) -> int:
        return len(self._values.get("loss", []))

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Takes in what one step gave: the loss, its terms, and what else is to be logged, one number each."""
        for name, value in values.items():
            self._values.setdefault(name, []).append(value)

    def first_bad(self, last: int) -> int | None:
        """How many steps ago, among the ``last`` ones, a loss first was not a number; None where all were. Waits."""
        recent = self._values.get("loss", [])[-last:]
        if len(recent) == 1:
            return None if math.isfinite(recent[0].item()) else 0
        bad = (~torch.isfinite(torch.stack(recent))).nonzero() if recent else []
        return len(recent) - 1 - int(bad[0]) if len(bad) else None

    def at(self, ago: int) -> dict[str, Tensor]:
        """What the step gave that was ``ago`` steps before the last."""
        return {name: values[-1 - ago] for name, values in self._values.items()}

    def means(self) -> dict[str, Tensor]:
        """Since the last :meth:`clear`."""
        return {name: values.mean() for name, values in self.state().items()}

    def clear(self) -> None:
        """Forgets."""
        self._values.clear()

    def state(self) -> dict[str, Tensor]:
        """What has come since the last :meth:`clear`, (steps,) each."""
        return {name: torch.stack(values) for name, values in self._values.items()}

    def restore(self, state: Mapping[str, Tensor]) -> None:
        """Takes back what :meth:`state` gave."""
        self._values = {name: list(values.unbind()) for name, values in state.items()}
