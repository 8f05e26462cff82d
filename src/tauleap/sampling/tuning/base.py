"""The interface of the result of ``tauleap.tune``: predicted errors, and the steps that make them smallest."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any, ClassVar, final

from tauleap import _check
from tauleap.noise import ForwardProcess


@dataclass(frozen=True)
class Tuning(ABC):
    """Predict the error of sampling steps, and find the steps with the smallest error.

    Errors are relative entropies in nats per row, of the model's reverse chain to the steps, summed over the steps.

    Args:
        rows: The number of rows of the estimate.
        relative_stderr: The standard error of predicted errors, divided by the error; None for one row.

    >>> @dataclass(frozen=True)
    ... class FirstOrder(Tuning):
    ...     kind = "first-order"
    ...     def error(self, steps, sites=None):
    ...         return 2.0 / steps
    ...     def steps(self, tol, sites=None):
    ...         return math.ceil(2.0 / tol)
    ...     def fit_problem(self, process, sites):
    ...         return None
    ...     def config(self):
    ...         return self._head()
    >>> FirstOrder(rows=100, relative_stderr=0.1).steps(tol=0.25)
    8
    """

    rows: int
    relative_stderr: float | None
    kind: ClassVar[str]

    @abstractmethod
    def error(self, steps: int, sites: int | None = None) -> float:
        """Return the predicted error of the best steps, in nats per row.

        Args:
            steps: The number of steps, >= 1.
            sites: The number of sites that are not observed. Default: all.
        """

    @abstractmethod
    def steps(self, tol: float, sites: int | None = None) -> int:
        """Return the smallest number of steps with at most this predicted error.

        Args:
            tol: The largest error, in nats per row summed over the steps, > 0.
            sites: The number of sites that are not observed. Default: all.

        Raises:
            ValueError: ``tol`` is not positive, or needs more than 100,000 steps.
        """

    @abstractmethod
    def fit_problem(self, process: ForwardProcess, sites: int | None) -> str | None:
        """Return why this is not the tuning of a model; None if it may be.

        Args:
            process: The forward process of the model.
            sites: The number of sites of its rows; None if unknown.
        """

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """Return everything as JSON values, from which :func:`tuning_from_config` builds it again."""

    @final
    def _head(self) -> dict[str, Any]:
        return {"kind": self.kind, "rows": self.rows, "relative_stderr": self.relative_stderr}

    def _check_head(self) -> None:
        _check.integer("rows", self.rows, least=1)
        if self.relative_stderr is not None:
            _check.not_negative("relative_stderr", self.relative_stderr)


def numbers(name: str, value: object) -> tuple[float, ...]:
    """Return a sequence of finite numbers as floats.

    Args:
        name: Its name, for the message.
        value: The sequence.

    Raises:
        ValueError: It is something else.
    """
    if not isinstance(value, Sequence) or isinstance(value, str):
        raise ValueError(f"{name} must be a list of numbers, got {type(value).__name__}")
    for each in value:
        if isinstance(each, bool) or not isinstance(each, Real) or not math.isfinite(each):
            raise ValueError(f"{name} must hold finite numbers, got {each!r}")
    return tuple(map(float, value))


def head(config: Mapping[str, Any]) -> tuple[int, float | None]:
    """Return the number of rows and the relative standard error of a configuration.

    Args:
        config: The configuration.

    Raises:
        ValueError: One of them is not such a number.
    """
    rows, error = config["rows"], config["relative_stderr"]
    return whole("rows", rows), None if error is None else numbers("relative_stderr", [error])[0]


def whole(name: str, value: object) -> int:
    """Return a whole number, at least 1, from a file.

    Args:
        name: Its name, for the message.
        value: The number.

    Raises:
        ValueError: It is something else.
    """
    try:
        return _check.integer(name, value, least=1)
    except TypeError as error:
        raise ValueError(str(error)) from error


def only_fields(config: Mapping[str, Any], fields: set[str]) -> None:
    """Raise ValueError unless a configuration has exactly these entries.

    Args:
        config: The configuration.
        fields: The names of the entries.
    """
    if config.keys() != fields:
        raise ValueError(f"it must have the entries {', '.join(sorted(fields))}, got {', '.join(sorted(config))}")
