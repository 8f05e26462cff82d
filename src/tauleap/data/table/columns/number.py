"""Numbers as states: atoms and quantile bins, decoded by interpolation of the empirical quantile function."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, replace
from decimal import Decimal
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np

from tauleap.data import limits
from tauleap.data.table.columns import precision
from tauleap.data.table.columns.fields import Fields, as_config, finite, list_of, rows, short
from tauleap.data.table.columns.precision import LARGEST_EXACT
from tauleap.data.table.columns.quantiles import MOST_KNOTS, cut

Knot = float | int
BINS = 100
"""Quantile bins of a column by default."""
MOST_BINS = 10_000
_OUTSIDE = 1e-3
"""Probability of the values of a bin that decoding cannot return, such as those of held-out rows. Chosen: it costs
.0014 bits per value."""


@dataclass(frozen=True)
class NumberEncoder:
    """Encode numbers as the states of atoms and quantile bins, in ascending order.

    Make it with :meth:`fit`. Larger numbers never have smaller states, and the states of decoded values are the states
    that were decoded. Numbers that were not in the data have the state of the bin that contains them or is nearest.

    Args:
        knots: Per state, ascending values relative to ``offset``: points with mass or the ends of intervals with mass.
            Whole numbers that no float64 is equal to are integers.
        weights: Per state, rows per point (as many as knots) or rows per interval (one fewer).
        decimals: Decimals of the values; -2 for multiples of 100.
        significant: Significant digits of the values, or None for no limit.
        integer: Whether the values are whole numbers.
        offset: Subtracted from whole numbers, so that those above 2**53 stay exact.
        infinite: Whether there are states for minus infinity (before the others) and infinity (after them).

    >>> encoder = NumberEncoder.fit(np.array([0, 0, 0, 7, 12]))
    >>> encoder.num_states, encoder.encode(np.array([7, 100, np.nan]))
    (3, (array([1, 2, 0]), array([False, False,  True])))
    >>> encoder.decode(np.array([0, 2]), np.random.default_rng(0)).tolist()
    [0, 12]
    """

    type: ClassVar[str] = "number"
    knots: tuple[tuple[Knot, ...], ...]
    weights: tuple[tuple[int, ...], ...]
    decimals: int
    significant: int | None
    integer: bool
    offset: int = 0
    infinite: tuple[bool, bool] = (False, False)

    def __post_init__(self) -> None:
        if len(self.knots) != len(self.weights) or not 1 <= self.num_states <= limits.STATES:
            raise ValueError(f"a number encoder must have 1..{limits.STATES:,} states, each with knots and weights")
        last = -math.inf
        for knots, weights in zip(self.knots, self.weights, strict=True):
            if len(weights) not in {len(knots), len(knots) - 1} or not weights:
                raise ValueError("every state of a number encoder must have one weight per point or interval")
            if sum(weights) == 0 or not last < knots[0] or any(low > high for low, high in pairwise(knots)):
                raise ValueError(f"the knots of a number encoder must ascend, with one row or more, got {short(knots)}")
            if self.integer and not all(float(knot).is_integer() for knot in (knots[0], knots[-1])):
                raise ValueError(f"a state of whole numbers must begin and end with whole numbers, got {short(knots)}")
            last = knots[-1]
        if self.offset and not (self.integer and self.decimals == 0):
            raise ValueError("a number encoder must have whole numbers if it has an offset")

    @classmethod
    def fit(cls, values: np.ndarray, *, counts: np.ndarray | None = None, bins: int = BINS) -> NumberEncoder:
        """Return the encoder of a column.

        Args:
            values: Integers or floats; NaN is left out. float32 keeps its precision.
            counts: Rows per value. Default: 1 each.
            bins: Quantile bins beside the atoms, 2 to 10,000. Default: 100.

        Returns:
            The encoder.

        Raises:
            ValueError: ``bins`` is out of range, or there is no value.

        >>> NumberEncoder.fit(np.arange(1000) / 8, bins=10).num_states
        18
        """
        if not 2 <= bins <= MOST_BINS:
            raise ValueError(f"bins must be a whole number of 2..{MOST_BINS:,}, got {bins}")
        distinct, rows = _distinct(values, counts)
        wide = distinct.astype(np.float64)
        finite_ = np.isfinite(wide)
        infinite = (bool((wide == -np.inf).any()), bool((wide == np.inf).any()))
        distinct, rows = distinct[finite_], rows[finite_]
        if len(wide) == 0:
            raise ValueError("a number encoder needs one value or more")
        integer = bool((wide[finite_] == np.rint(wide[finite_])).all())
        offset = 0
        if distinct.dtype.kind in "iu" and len(distinct) and max(-int(distinct[0]), int(distinct[-1])) > LARGEST_EXACT:
            offset = int(distinct[0])
        decimals = 0 if offset else precision.decimals_of(distinct)
        significant = None if integer else precision.significant_of(distinct, decimals)
        knots, weights = _states(distinct, rows, offset, bins, decimals)
        return cls(knots, weights, decimals, significant, integer, offset, infinite)

    def refit(self, values: np.ndarray, *, counts: np.ndarray | None = None, bins: int = BINS) -> NumberEncoder:
        """Return an encoder of the same precision whose states follow from other rows.

        Args:
            values: Integers or floats; NaN is left out.
            counts: Rows per value. Default: 1 each.
            bins: Quantile bins beside the atoms, 2 to 10,000. Default: 100.

        Returns:
            The encoder; this one if those rows have fewer than two different numbers.

        >>> NumberEncoder.fit(np.array([0.25, 1, 2, 3])).refit(np.array([1, 2])).knots
        ((1.0,), (2.0,))
        """
        distinct, rows = _distinct(values, counts)
        finite_ = np.isfinite(distinct.astype(np.float64))
        if finite_.sum() < 2:
            return self
        knots, weights = _states(distinct[finite_], rows[finite_], self.offset, bins, self.decimals)
        return replace(self, knots=knots, weights=weights) if len(knots) > 1 else self

    @property
    def num_states(self) -> int:
        """The number of states."""
        return len(self.knots) + sum(self.infinite)

    def encode(self, values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the state of every number.

        Args:
            values: Integers or floats of any shape; NaN is missing.

        Returns:
            int64 states, 0 where missing; and whether the value is missing.
        """
        relative = _relative(values, self.offset)
        missing = np.isnan(relative)
        states = np.searchsorted(self._cuts, np.where(missing, 0.0, relative), side="left") + self.infinite[0]
        states[relative == -np.inf] = 0
        states[relative == np.inf] = self.num_states - 1
        states = np.minimum(states, self.num_states - 1)
        return np.where(missing, 0, states), missing

    def decode(self, states: np.ndarray, rng: np.random.Generator | None = None, *, uniforms: Any = None) -> np.ndarray:
        """Return one number per state, drawn from the values of the state.

        Args:
            states: Whole numbers of ``0 .. num_states - 1``, of any shape.
            rng: The source of randomness. Default: a new one without a seed.
            uniforms: Numbers of [0, 1) instead of ``rng``, in the shape of ``states``: positions inside the states.

        Returns:
            int64 if the column has whole numbers (uint64 or objects beyond its range), float64 otherwise.
        """
        states = np.asarray(states)
        if uniforms is None:
            uniforms = (np.random.default_rng() if rng is None else rng).random(states.shape)
        inner = states - self.infinite[0]
        inside = (inner >= 0) & (inner < len(self.knots))
        result = np.where(inner < 0, -np.inf, np.inf)
        if inside.any():
            result[inside] = self._interpolate(inner[inside], np.asarray(uniforms, dtype=np.float64)[inside])
        if not self.integer or any(self.infinite):
            return result
        if self.offset == 0 and np.abs(result).max(initial=0.0) < 2**63:
            return result.astype(np.int64)
        plain = int if self.offset else _digits
        whole = [self._exact.get(value, plain(value)) + self.offset for value in result.ravel().tolist()]
        return np.array(whole, dtype=_smallest(whole)).reshape(result.shape)

    def log_density(self, values: np.ndarray) -> np.ndarray:
        """Return the natural logarithm of the probability of every value given its state.

        Values are numbers of the column's precision: a column with 2 decimals has multiples of 0.01. So the bits of a
        row, those of its states plus those of its values given the states, are comparable between numbers of bins. A
        thousandth of the probability is spread over the values of a bin that decoding cannot return.

        Args:
            values: Integers or floats of any shape; NaN is missing.

        Returns:
            The logarithms, at most 0; 0 where the value is missing.
        """
        relative = _relative(values, self.offset)
        states, missing = self.encode(values)
        inner = states - self.infinite[0]
        known = ~missing & np.isfinite(relative) & (inner >= 0) & (inner < len(self.knots))
        result = np.zeros(relative.shape)
        if known.any():
            result[known] = self._log_probability(relative[known], inner[known])
        return result

    def config(self) -> dict[str, Any]:
        """Return the fields as JSON can hold them."""
        return as_config(self.type, asdict(self))

    @classmethod
    def from_config(cls, config: object) -> NumberEncoder:
        """Return the encoder that :meth:`config` described.

        Args:
            config: What JSON holds.

        Raises:
            ValueError: It describes no number encoder.
        """
        names = ("knots", "weights", "decimals", "significant", "integer", "offset", "infinite")
        fields = Fields(config, names, "a number encoder")
        knots = fields.items("knots", list_of(_knot, MOST_KNOTS), limits.STATES, "a list of finite numbers")
        weights = fields.items("weights", list_of(rows, MOST_KNOTS), limits.STATES, "a list of counts")
        flags = fields.items("infinite", lambda v: v if isinstance(v, bool) else None, 2, "true or false")
        if len(flags) != 2:
            raise ValueError(f"infinite of a number encoder must be 2 flags, got {len(flags)}")
        return cls(
            knots,
            weights,
            fields.integer("decimals", -400, 400),
            fields.optional_integer("significant", 1, 15),
            fields.flag("integer"),
            fields.integer("offset", -(2**63), 2**64),
            (flags[0], flags[1]),
        )

    @cached_property
    def _low(self) -> np.ndarray:
        return np.array([knots[0] for knots in self.knots], dtype=np.float64)

    @cached_property
    def _high(self) -> np.ndarray:
        return np.array([knots[-1] for knots in self.knots], dtype=np.float64)

    @cached_property
    def _exact(self) -> dict[float, int]:
        """Return the knots that are no float64, by the nearest one."""
        return {float(knot): knot for knots in self.knots for knot in knots if isinstance(knot, int)}

    @cached_property
    def _cuts(self) -> np.ndarray:
        """Return the largest number of every state but the last."""
        high, low = self._high[:-1], self._low[1:]
        atom = self._low == self._high
        middle = high / 2 + low / 2
        middle = np.where((middle >= high) & (middle < low), middle, high)
        # Beside a bin, an atom contains its own value only.
        after_atom, before_atom = atom[:-1] & ~atom[1:], ~atom[:-1] & atom[1:]
        return np.where(after_atom, high, np.where(before_atom, np.nextafter(low, -np.inf), middle))

    @cached_property
    def _step(self) -> float:
        return 10.0**-self.decimals if abs(self.decimals) <= 300 else 0.0

    @cached_property
    def _pieces(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Return low end, high end and weight of all pieces, and the number of the first piece of every state."""
        low: list[float] = []
        high: list[float] = []
        first: list[int] = []
        half = self._step / 2
        for knots, weights in zip(self.knots, self.weights, strict=True):
            first.append(len(low))
            if len(weights) == len(knots):
                low += knots
                high += knots
                continue
            last = len(knots) - 1
            for i, (start, end) in enumerate(pairwise(knots)):
                point = start == end
                # With half a step more, rounding gives the lowest and the highest value their whole share. With half a
                # step less, it does not give the values of an interval to the point beside it.
                after = -half if i == 0 else half if knots[i - 1] == start else 0.0
                before = half if i + 1 == last else -half if end == knots[i + 2] else 0.0
                low.append(start if point else start + after)
                high.append(end if point else max(end + before, low[-1]))
        weight = np.array([weight_ for weights in self.weights for weight_ in weights], dtype=np.float64)
        return np.array(low, dtype=np.float64), np.array(high, dtype=np.float64), weight, np.array([*first, len(low)])

    def _interpolate(self, states: np.ndarray, uniforms: np.ndarray) -> np.ndarray:
        low, high, weight, first = self._pieces
        ends = np.cumsum(weight)
        starts = ends - weight
        total = np.add.reduceat(weight, first[:-1])
        target = starts[first[states]] + uniforms * total[states]
        piece = np.clip(np.searchsorted(ends, target, side="right"), first[states], first[states + 1] - 1)
        along = np.clip((target - starts[piece]) / np.maximum(weight[piece], 1), 0.0, 1.0)
        # A point must come back exactly.
        values = np.where(low[piece] == high[piece], low[piece], low[piece] * (1 - along) + high[piece] * along)
        inside = low[piece] != high[piece]
        values[inside] = precision.round_decimals(values[inside], self.decimals)
        if self.significant is not None:
            values[inside] = precision.round_significant(values[inside], self.significant)
        return np.clip(values, self._low[states], self._high[states])

    def _log_probability(self, values: np.ndarray, states: np.ndarray) -> np.ndarray:
        low, high, weight, first = self._pieces
        step, largest = max(self._step, 1e-300), np.finfo(np.float64).max
        # Pieces of one state ascend, as do the states, so that one search finds the piece.
        piece = np.clip(np.searchsorted(high, values, side="left"), first[states], first[states + 1] - 1)
        following = np.minimum(piece + 1, first[states + 1] - 1)
        piece = np.where((low[following] == values) & (high[following] == values), following, piece)
        covered = (values >= low[piece]) & (values <= high[piece])
        total = np.add.reduceat(weight, first[:-1])[states]
        cuts = np.concatenate([[-np.inf], self._cuts, [np.inf]])
        below, above = cuts[states], cuts[states + 1]
        bounded = np.isfinite(below) & np.isfinite(above)
        single = bounded & (self._low[states] == self._high[states])
        spread = max(2 * min(float(self._high[-1] / 2 - self._low[0] / 2), largest / 2), step)
        # Distances between the largest numbers overflow, and an absent probability is the logarithm of 0.
        with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
            width = np.clip(high[piece] - low[piece], step, largest)
            log_inside = np.log(np.where(covered, weight[piece] / total, 0.0)) - np.log(width) + math.log(step)
            # An atom has the unseen values up to the middle between it and the next one: is there one?
            room = step if self.decimals <= 0 else step * (1 - 1e-6)
            single &= (values - below <= room) & (above - values < room)
            # Beyond the lowest and the highest value of the data the density falls exponentially.
            distance = np.where(np.isfinite(below), values - below, np.where(np.isfinite(above), above - values, 0.0))
            falls = np.where(bounded, 0.0, -np.minimum(np.abs(distance), largest) / spread)
            range_ = np.where(bounded, above - below, spread)
            if len(self.knots) == 1:
                falls = -np.minimum(np.abs(values - self._low[0]), largest) / spread
                range_ = np.full(values.shape, 2 * min(spread, largest / 2))
            log_outside = falls - np.log(np.clip(range_, step, largest)) + math.log(step)
        mixed = np.logaddexp(np.log1p(-_OUTSIDE) + log_inside, math.log(_OUTSIDE) + log_outside)
        return np.where(single, 0.0, np.minimum(mixed, 0.0))


def _states(
    distinct: np.ndarray, rows: np.ndarray, offset: int, bins: int, decimals: int
) -> tuple[tuple[tuple[Knot, ...], ...], tuple[tuple[int, ...], ...]]:
    """Return the knots and weights of all states of a column."""
    relative, merged = _merged(_relative(distinct, offset), rows)
    states = cut(relative, merged, bins, decimals)
    exact = _inexact(distinct, rows, offset) if offset else {}
    knots = tuple(tuple(exact.get(knot, knot) for knot in state.knots) for state in states)
    return knots, tuple(state.weights for state in states)


def _inexact(distinct: np.ndarray, rows: np.ndarray, offset: int) -> dict[float, int]:
    """Return the whole numbers that no float64 is equal to, by the nearest float64; of several the most frequent."""
    order = np.argsort(rows, kind="stable")
    whole = [value - offset for value in distinct[order].tolist()]
    return {float(value): value for value in whole if float(value) != value}


def _digits(value: float) -> int:
    """Return a whole float as an integer with zeros for the digits that a float64 does not have."""
    return int(value) if abs(value) < LARGEST_EXACT else int(Decimal(repr(value)))


def _knot(value: object) -> Knot | None:
    """Return a finite number of JSON; an integer only if no float64 is equal to it."""
    number = finite(value)
    return value if number is not None and isinstance(value, int) and number != value else number


def _distinct(values: np.ndarray, counts: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    values = np.asarray(values)
    if values.dtype.kind == "b":
        values = values.astype(np.int64)
    if values.dtype.kind not in "iuf":
        values = values.astype(np.float64)
    known = ~np.isnan(values) if values.dtype.kind == "f" else np.ones(values.shape, dtype=bool)
    weights = np.ones(values.shape, dtype=np.int64) if counts is None else np.asarray(counts, dtype=np.int64)
    return _merged(values[known], weights[known])


def _merged(values: np.ndarray, counts: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the values that occur, ascending, and the rows of each."""
    distinct, inverse = np.unique(values, return_inverse=True)
    rows = np.bincount(inverse, weights=counts, minlength=len(distinct)).astype(np.int64)
    return distinct[rows > 0], rows[rows > 0]


def _relative(values: np.ndarray, offset: int) -> np.ndarray:
    values = np.asarray(values)
    if offset == 0:
        return values.astype(np.float64)
    if values.dtype.kind in "iu":
        return (values.astype(object) - offset).astype(np.float64)
    return values.astype(np.float64) - offset


def _smallest(whole: list[int]) -> type:
    low, high = min(whole, default=0), max(whole, default=0)
    if low >= -(2**63) and high < 2**63:
        return np.int64
    return np.uint64 if low >= 0 and high < 2**64 else object
