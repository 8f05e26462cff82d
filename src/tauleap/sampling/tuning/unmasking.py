"""Tuned numbers of sites per step, for absorbing noise.

h(j) is the mean cross entropy of a masked site given j others that are known, over all sites and all sets of others.
It falls with j. A step that fills s sites at once, when n are known, draws each of them with the uncertainty h(n),
while one at a time they would have h(n), h(n+1), ..., h(n+s-1). So batches s_1, ..., s_K have the error

    sum_k sum_{i < s_k} [ h(n_{k-1}) - h(n_{k-1} + i) ]  =  sum_k s_k h(n_{k-1}) - sum_j h(j),    n_k = s_1 + ... + s_k

in nats of relative entropy in expectation over random orders (Lavenant and Zanella 2025; Chen, Cong and Li 2025), and
the best batches for each K follow by dynamic programming. With observed sites, n_0 is their number.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar

import numpy as np

from tauleap import _check
from tauleap.noise import ForwardProcess
from tauleap.sampling.tuning.base import Tuning, head, numbers, only_fields, whole
from tauleap.sampling.tuning.chains import BestChains, fewest_steps

_POINTS = 1024
"""With more unknown sites, the dynamic program considers this many numbers of known sites, evenly spaced."""


@dataclass(frozen=True)
class UnmaskingTuning(Tuning):
    """Hold the mean cross entropy of a masked site given j others, as ``tauleap.tune`` measures it.

    Args:
        rows: The number of rows of the estimate.
        relative_stderr: The standard error of predicted errors, divided by the error.
        sites: The number of sites of a row.
        known: Increasing numbers j of known sites, the first 0. Between them h is interpolated linearly.
        entropy: h(j) in nats for each of them. It must not increase.

    >>> tuning = UnmaskingTuning(100, 0.1, 4, (0, 1, 2, 3), (0.7, 0.5, 0.1, 0.1))
    >>> tuning.numbers(2), round(tuning.error(2), 4)  # two sites at 0.7, two at 0.1, instead of 0.7 + 0.5 + 0.1 + 0.1
    ((2, 2), 0.2)
    >>> tuning.numbers(2, sites=3)  # one site is observed
    (1, 2)
    >>> tuning.steps(tol=0.1)
    3
    """

    sites: int
    known: tuple[int, ...]
    entropy: tuple[float, ...]
    kind: ClassVar[str] = "numbers of sites"

    def __post_init__(self) -> None:
        self._check_head()
        _check.integer("sites", self.sites, least=1)
        if len(self.known) != len(self.entropy) or not self.known or self.known[0] != 0:
            raise ValueError(f"known must begin with 0 and have as many numbers as entropy, got {self.known}")
        if any(a >= b for a, b in zip(self.known, self.known[1:], strict=False)) or self.known[-1] >= self.sites:
            raise ValueError(f"known must increase and stay below {self.sites} sites, got {self.known}")
        if any(a < b for a, b in zip(self.entropy, self.entropy[1:], strict=False)) or self.entropy[-1] < 0:
            raise ValueError("entropy must be >= 0 and not increase with the number of known sites")

    def numbers(self, steps: int, sites: int | None = None) -> tuple[int, ...]:
        """Return how many sites each of the best steps fills.

        Args:
            steps: The number of steps, from 1 to the number of sites.
            sites: The number of sites that are not observed. Default: all.

        Raises:
            ValueError: There are more steps than sites.
        """
        return _program(self, self._unknown(sites)).numbers(_check.integer("steps", steps, least=1))

    def error(self, steps: int, sites: int | None = None) -> float:
        return _program(self, self._unknown(sites)).error(_check.integer("steps", steps, least=1))

    def error_of(self, numbers: tuple[int, ...]) -> float:
        """Return the predicted error of any numbers of sites, in nats per row.

        Args:
            numbers: How many sites each step fills, >= 1. If they are fewer than all, the others are observed.
        """
        for number in numbers:
            _check.integer("a number of sites", number, least=1)
        h = self.curve(self._unknown(sum(numbers)))
        known = np.cumsum([0, *numbers])[:-1]
        return float(np.dot(numbers, h[known]) - h.sum())

    def steps(self, tol: float, sites: int | None = None) -> int:
        tol, program = _check.positive("tol", tol), _program(self, self._unknown(sites))
        return fewest_steps(program.error, tol, program.unknown) or program.unknown

    def curve(self, sites: int | None = None) -> np.ndarray:
        """Return h(j) for the numbers j of known sites that occur, from the observed ones to all but one.

        Args:
            sites: The number of sites that are not observed. Default: all.
        """
        unknown = self._unknown(sites)
        return np.interp(np.arange(self.sites - unknown, self.sites), self.known, self.entropy)

    def fit_problem(self, process: ForwardProcess, sites: int | None) -> str | None:
        if process.mask is None:
            return "it has numbers of sites, which only absorbing noise uses"
        if sites not in (None, self.sites):
            return f"it is for rows of {self.sites} sites, and the model has {sites}"
        return None

    def config(self) -> dict[str, Any]:
        return self._head() | {"sites": self.sites, "known": list(self.known), "entropy": list(self.entropy)}

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> UnmaskingTuning:
        """Return the tuning of a configuration.

        Args:
            config: The result of :meth:`config`.

        Raises:
            ValueError: It is something else.
        """
        only_fields(config, {"kind", "rows", "relative_stderr", "sites", "known", "entropy"})
        known = numbers("known", config["known"])
        if any(each != int(each) for each in known):
            raise ValueError(f"known must hold whole numbers, got {known}")
        entropy = numbers("entropy", config["entropy"])
        return cls(*head(config), whole("sites", config["sites"]), tuple(map(int, known)), entropy)

    def _unknown(self, sites: int | None) -> int:
        unknown = self.sites if sites is None else _check.integer("sites", sites, least=1)
        if unknown > self.sites:
            raise ValueError(f"sites must be at most {self.sites}, the sites of a row, got {unknown}")
        return unknown


class TunedNumbers:
    """Return the best numbers of sites for any number of unknown sites, as ``Planned(numbers=...)`` takes them.

    Args:
        tuning: The tuning of the model.
        steps: The largest number of steps. Default: None, the smallest number within the tolerance.
        tol: The largest error of a row, in nats. Default: None; one of the two is needed.

    >>> tuning = UnmaskingTuning(100, 0.1, 4, (0, 1, 2, 3), (0.7, 0.5, 0.1, 0.1))
    >>> numbers = TunedNumbers(tuning, steps=2)
    >>> numbers, numbers(4), numbers(1)
    (tuned, (2, 2), (1,))
    """

    def __init__(self, tuning: UnmaskingTuning, steps: int | None = None, tol: float | None = None) -> None:
        self._tuning, self._steps, self._tol = tuning, steps, tol
        self._found: dict[int, tuple[int, ...]] = {}

    def __call__(self, sites: int) -> tuple[int, ...]:
        if sites not in self._found:
            steps = self._tuning.steps(self._tol, sites) if self._tol is not None else self._steps or 1
            self._found[sites] = self._tuning.numbers(min(steps, sites), sites)
        return self._found[sites]

    def __repr__(self) -> str:
        return "tuned"


class _Program:
    """Find the best numbers of sites for one number of unknown sites."""

    def __init__(self, tuning: UnmaskingTuning, unknown: int) -> None:
        h = tuning.curve(unknown)
        self.filled = np.unique(np.linspace(0, unknown, min(unknown, _POINTS) + 1).round().astype(np.int64))
        uncertainty = np.append(h[self.filled[:-1]], 0.0)
        self.chains = BestChains((self.filled - self.filled[:, None]) * uncertainty[:, None])
        self.total, self.unknown = float(h.sum()), unknown

    @property
    def most(self) -> int:
        return self.chains.most

    def error(self, steps: int) -> float:
        """Return the error; that of sampling one site at a time is exactly 0."""
        return 0.0 if steps >= self.unknown else max(0.0, self.chains.total(min(steps, self.most)) - self.total)

    def numbers(self, steps: int) -> tuple[int, ...]:
        if steps > self.unknown:
            raise ValueError(f"steps must be at most {self.unknown}, the number of sites to fill, got {steps}")
        if steps > self.most:  # more than the dynamic program distinguishes: as even as possible
            return tuple(np.diff(np.linspace(0, self.unknown, steps + 1).round().astype(np.int64)).tolist())
        return tuple(np.diff(self.filled[self.chains.points(steps)]).tolist())


@lru_cache(maxsize=16)
def _program(tuning: UnmaskingTuning, unknown: int) -> _Program:
    return _Program(tuning, unknown)
