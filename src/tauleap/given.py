"""Samples of a table under conditions: ``model.sample(n, given={"sex": "Female", "age": (30, 40)})``."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from tauleap.data.format import Format
from tauleap.data.table.columns.condition import Condition
from tauleap.data.table.columns.dependency import Dependency
from tauleap.data.table.format import TableFormat
from tauleap.reverse import ReverseProcess
from tauleap.sampling.conditions import ConditionDraw, draw_conditions

FEW = 0.1
"""The fraction of the rows below which the effective sample size is worth a warning."""
IMPROBABLE = 1e-6
"""The probability of all conditions at once below which they probably contradict each other: a network gives every
combination of values some probability."""


@dataclass(frozen=True)
class GivenColumns:
    """Hold the conditions on a table.

    Args:
        form: The format, whose columns decode to allowed values.
        sets: For each restricted site the weights of its states.
    """

    form: TableFormat
    sets: Mapping[int, Tensor]

    @classmethod
    def of(
        cls,
        form: Format | None,
        given: Mapping[str, Any],
        num_states: int,
        dependencies: Sequence[Dependency] = (),
    ) -> GivenColumns:
        """Return the conditions that a user gave.

        Args:
            form: The format of the model.
            given: Conditions by the names of columns: a value, a list of values, a range ``(low, high)`` whose ends are
                included, or None for a missing value.
            num_states: S of the process.
            dependencies: Columns that follow from others, which conditions must not contradict. Default: none.

        Raises:
            TypeError: The conditions are not a mapping.
            ValueError: The model is not one of a table, or cannot fulfil the conditions; all of them are named.
        """
        if not isinstance(given, Mapping):
            raise TypeError(f"given must be a mapping such as {{'age': (30, 40)}}, got {type(given).__name__}")
        if not isinstance(form, TableFormat):
            raise ValueError("given is for models of tables: write complete(x, observed) for other data")
        encoder = form.encoder.conditioned(given)
        found = {column.name: column.condition for column in encoder.columns if isinstance(column.condition, Condition)}
        _check_dependencies(found, dependencies)
        sets = {}
        for site, place in enumerate(encoder.sites):
            condition = encoder.columns[place].condition
            if isinstance(condition, Condition):
                weights = torch.zeros(num_states, dtype=torch.float64)
                weights[: len(condition.weights)] = torch.from_numpy(condition.weights)
                sets[site] = weights
        return cls(replace(form, encoder=encoder), sets)

    def draw(
        self,
        reverse: ReverseProcess,
        n: int,
        *,
        batch_size: int,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> ConditionDraw:
        """Return the states of the restricted columns of n rows; warn if few rows are effectively different.

        Args:
            reverse: The reverse process of the model.
            n: The number of rows.
            batch_size: Rows per evaluation.
            condition: Input of a conditional network. Default: none.
            generator: The source of randomness. Default: that of PyTorch.
        """
        shape = (n, *self.form.shape)
        drawn = draw_conditions(
            reverse, shape, self.sets, condition=condition, batch_size=batch_size, generator=generator
        )
        if drawn.log_probability is not None and drawn.log_probability < math.log(IMPROBABLE):
            warnings.warn(
                f"under the model a row fulfils all conditions with probability {math.exp(drawn.log_probability):.1g}: "
                "they may contradict each other, and samples may be unlike the data",
                stacklevel=3,
            )
        if drawn.effective_size < FEW * n:
            warnings.warn(
                f"the {n} rows are worth about {drawn.effective_size:.0f} independent rows, because few rows fulfil "
                "all conditions at once: draw more rows, or use wider ranges",
                stacklevel=3,
            )
        return drawn


def _check_dependencies(conditions: Mapping[str, Condition], dependencies: Sequence[Dependency]) -> None:
    """Raise ValueError if conditions on two columns contradict what all training rows have."""
    for each in dependencies:
        first, second = conditions.get(each.determinant), conditions.get(each.dependent)
        if first is None or second is None:
            continue
        allowed = first.weights.nonzero()[0].tolist()
        follow = [each.states[state] if state < len(each.states) else -1 for state in allowed]
        # A state without training rows may have any value.
        if all(0 <= state < len(second.weights) and second.weights[state] == 0 for state in follow):
            raise ValueError(
                f"given {each.determinant} = {first.text} and {each.dependent} = {second.text} contradict each other: "
                f"in all training rows {each.determinant} determines {each.dependent}, and none has both; leave one of "
                "them out"
            )
