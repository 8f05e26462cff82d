"""Tune a model: measure once how the error of sampling steps depends on their times, or on their numbers of sites."""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap.denoise.on_device import moved
from tauleap.evaluate._check import labelled_rows, reverse_of
from tauleap.evaluate._mode import evaluating
from tauleap.evaluate.forward_path import Current, Rows, forward_path, root_nodes
from tauleap.noise.absorbing import mask_of
from tauleap.reverse import ReverseProcess
from tauleap.sampling import TimeTuning, Tuning, UnmaskingTuning
from tauleap.sampling.planned import time_of_fraction
from tauleap.sampling.sampler import check_condition

_CELLS = 12
"""Cells between times at which errors are measured. With exact posteriors of small spaces, predicted errors of 2 to 64
steps are then right to 3 % (tests/evaluate/test_tune.py)."""
_NODES = 2
"""Times within a cell, which integrate the linear start of the error exactly."""
_KNOWN = 33
"""Numbers of known sites at which the cross entropy is measured, closer to each other at both ends."""
_ENTRIES = 2**22
"""Entries of float64 that are held together: rows x sites x states x times."""
_PILOT = 8
"""One of this many rows is used first, to place the times."""
_LARGEST_BATCH = 64
"""Rows per batch where the seconds are limited, so that they are checked often enough."""


def tune(
    model: Any,
    rows: Any,
    *,
    most_rows: int = 4096,
    seconds: float = 60.0,
    batch_size: int | None = None,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Tuning:
    """Measure the error of sampling steps on held-out rows, and store it with the model.

    A tuned model uses the best steps for each number of them, and finds the number of steps for a tolerance: see
    ``tol`` of :meth:`tauleap.Model.sample`. Nothing is trained, and no sample is drawn.

    For absorbing noise, the mean cross entropy of a masked site is measured by the number of sites that are known, with
    up to 33 network evaluations per row. The best numbers of sites per step follow by dynamic programming. For other
    noise, the errors of ancestral steps between 13 times are measured as by
    :func:`tauleap.evaluate.discretisation_error`, with 36 network evaluations per row. The density of the error over
    both times of a step follows, and from it the best times.

    Predictions are for rows without observed sites, at temperature 1 and guidance scale 1. Where sites are observed,
    absorbing noise begins with their number: the numbers of sites are planned anew for the unknown ones, on the
    assumption that the observed ones are as informative as random ones. Other noise uses the same times and the same
    number of steps as without observed sites.

    Args:
        model: A model, whose ``tuning`` is set, or a reverse process.
        rows: Held-out rows of the type that the model takes; for a reverse process int64 states (n, *shape). Rows with
            missing values are not used.
        most_rows: The largest number of rows; of more, as many random ones are used, >= 1. Default: 4096.
        seconds: The time limit, after which the rows so far are used; at least one batch. Default: 60.
        batch_size: Rows per batch. Default: as many as have 4 million numbers (rows x sites x states x times), at most
            64.
        condition: The input of the denoiser, one entry per row. Default: the labels of the rows, if the model has them.
        generator: The source of randomness. Default: that of torch.

    Returns:
        The tuning, with methods for errors, times or numbers of sites, and numbers of steps.

    Raises:
        ValueError: An argument is out of its range, or the model gives a row probability 0.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Absorbing, LogLinear
    >>> process = Absorbing(3, LogLinear())
    >>> pmf = torch.zeros(3, 3, dtype=torch.float64)
    >>> pmf[0, 0] = pmf[1, 1] = 0.5  # two sites that are equal: one step draws both with an error of log 2
    >>> reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
    >>> tuning = tune(reverse, torch.tensor([[0, 0], [1, 1]]))
    >>> round(tuning.error(1), 4), tuning.error(2), tuning.steps(tol=0.05)
    (0.6931, 0.0, 2)
    """
    reverse = reverse_of(model, "tune")
    most = _check.integer("most_rows", most_rows, least=1)
    seconds = _check.positive("seconds", seconds)
    x0, labels = labelled_rows(model, rows)
    condition = labels if condition is None else condition
    if condition is not None:
        check_condition(condition, len(x0))
    _check.randomness(generator)
    if len(x0) > most:
        chosen = torch.randperm(len(x0), generator=generator)[:most].sort().values
        x0, condition = x0[chosen], None if condition is None else condition[chosen]
    reverse = reverse.in_float64()
    given = Rows(x0, None, condition)
    size = None if batch_size is None else _check.integer("batch_size", batch_size, least=1)
    with evaluating(reverse):
        measure = _tune_times if reverse.process.mask is None else _tune_numbers
        found = measure(reverse, _Batches(given, reverse.device, size, time.monotonic() + seconds), generator)
    if not isinstance(model, ReverseProcess):
        model.tuning = found
    return found


class _Batches:
    """Measure rows batch by batch until the time is over."""

    def __init__(self, rows: Rows, device: torch.device, size: int | None, deadline: float) -> None:
        self.rows, self.device, self.size, self.deadline = rows, device, size, deadline

    def measure(self, of: Callable[[Rows], Tensor], entries: int, number: int | None = None) -> np.ndarray:
        """Return what ``of`` returns for each row, of the first ``number`` rows."""
        x0, _, condition = self.rows
        size = max(1, min(_LARGEST_BATCH, _ENTRIES // entries)) if self.size is None else self.size
        parts, longest, begin, number = [], 0.0, 0, len(x0) if number is None else number
        while begin < number and (begin == 0 or time.monotonic() + longest < self.deadline):
            start, part = time.monotonic(), slice(begin, min(begin + size, number))
            taken = (moved(each, self.device) for each in (x0[part], None if condition is None else condition[part]))
            values, labels = taken
            parts.append(_device.exact_on_cpu(of(Rows(values, None, labels))))
            longest, begin = max(longest, time.monotonic() - start), part.stop
        found = torch.cat(parts).numpy()
        if not np.isfinite(found).all():
            raise ValueError("the model gives a row probability 0, so that errors are infinite: give other rows")
        return found


def _tune_numbers(reverse: ReverseProcess, batches: _Batches, generator: torch.Generator | None) -> UnmaskingTuning:
    sites = batches.rows.x0[0].numel()
    angle = np.linspace(0, math.pi, min(sites, _KNOWN))
    places = np.arange(sites) if sites <= _KNOWN else ((sites - 1) * (1 - np.cos(angle)) / 2).round()
    known = np.unique(places).astype(np.int64).tolist()
    entries = 4 * sites * reverse.process.num_states
    each = batches.measure(lambda rows: _cross_entropies(reverse, rows, known, generator), entries)
    entropy = tuple(decreasing(each.mean(0)).tolist())
    found = UnmaskingTuning(len(each), None, sites, tuple(known), entropy)
    filled = found.numbers(max(1, sites // 4))
    before = np.cumsum([0, *filled])[:-1]
    curves = np.stack([np.interp(np.arange(sites), known, row) for row in each])
    errors = curves[:, before] @ np.array(filled) - curves.sum(1)
    return UnmaskingTuning(len(each), _relative(errors, errors.mean()), sites, tuple(known), entropy)


def _cross_entropies(
    reverse: ReverseProcess, rows: Rows, known: list[int], generator: torch.Generator | None
) -> Tensor:
    """Return the mean of -log p(x0) over the masked sites, given the first j of a random order, (rows, known)."""
    x0, mask = rows.x0.flatten(1), mask_of(reverse.process, "tune() measures masked sites", "use other noise")
    rank = _draw.uniforms(x0.shape, x0.device, generator).argsort(1).argsort(1)
    out = []
    for number in known:
        masked = rank >= number
        x = x0.masked_fill(masked, mask).reshape(rows.x0.shape)
        t = time_of_fraction(reverse.process, torch.tensor([1 - number / x0.shape[1]], device=x0.device))
        at = reverse.at(x, t.expand(len(x)), condition=rows.condition, checked=True)
        row, site = masked.nonzero().unbind(1)
        logits = at.deferred().posterior.at(row * x0.shape[1] + site).double()
        loss = -logits.log_softmax(-1).gather(-1, x0[row, site][:, None])[:, 0]
        out.append(loss.new_zeros(len(x)).index_add_(0, row, loss) / (x0.shape[1] - number))
    return torch.stack(out, 1)


def decreasing(values: np.ndarray) -> np.ndarray:
    """Return the closest values that do not increase, in squares: means of neighbours where the given ones increase.

    >>> decreasing(np.array([3.0, 1.0, 2.0, 0.0])).tolist()
    [3.0, 1.5, 1.5, 0.0]
    """
    blocks: list[tuple[float, int]] = []
    for value in values.tolist():
        blocks.append((value, 1))
        while len(blocks) > 1 and blocks[-2][0] < blocks[-1][0]:
            (a, n), (b, m) = blocks[-2:]
            blocks[-2:] = [((n * a + m * b) / (n + m), n + m)]
    return np.concatenate([np.full(number, value) for value, number in blocks])


def _tune_times(reverse: ReverseProcess, batches: _Batches, generator: torch.Generator | None) -> TimeTuning:
    roots = np.linspace(0, 1, _CELLS + 1)
    number = len(batches.rows.x0)
    entries = 2 * _NODES * _CELLS * batches.rows.x0[0].numel() * reverse.process.num_states

    def measured(times: np.ndarray, most: int) -> np.ndarray:
        return batches.measure(lambda rows: _pair_errors(reverse, rows, times.tolist(), generator), entries, most)

    pilot = np.sqrt(np.maximum(0.0, np.diagonal(measured(roots**2, -(-number // _PILOT)).mean(0))))
    # Half of the cells by parts of the error, half evenly: the pilot has few rows.
    parts = pilot / pilot.sum() if pilot.sum() > 0 else np.full(_CELLS, 1 / _CELLS)
    place = np.concatenate([[0.0], (parts / 2 + 1 / (2 * _CELLS)).cumsum()])
    times = np.interp(np.linspace(0, 1, _CELLS + 1), place, roots) ** 2
    times[0], times[-1] = 0.0, 1.0
    each = measured(times, number)
    # The step from time j + 1 to time i has the cells i, ..., j, with the context at its start.
    errors = np.flip(np.flip(each.mean(0), 0).cumsum(0), 0)
    rows = tuple(tuple(errors[i, i:].tolist()) for i in range(_CELLS))
    own = np.sqrt(np.diagonal(errors))
    weights = own.sum() / np.where(own > 0, own, np.inf)
    relative = _relative(np.diagonal(each, axis1=1, axis2=2) @ weights, own.sum() ** 2)
    return TimeTuning(len(each), relative, tuple(times.tolist()), rows)


def _pair_errors(reverse: ReverseProcess, rows: Rows, times: list[float], generator: torch.Generator | None) -> Tensor:
    """Return the error in cell i of a step that starts at the end of cell j >= i, (rows, cells, cells)."""
    cells = list(pairwise(times))
    inner = [root_nodes(s, t, _NODES) for s, t in cells]
    path = forward_path(
        reverse,
        rows,
        [u for (_, t), here in zip(cells, inner, strict=True) for u in (*(n for n, _ in here), t)],
        generator,
    )
    out = torch.zeros(len(rows.x0), len(cells), len(cells), dtype=torch.float64, device=reverse.device)
    inside: list[list[tuple[float, Current]]] = []
    for j, here in enumerate(inner):
        inside.append([(weight, Current(reverse, rows, next(path), "rates")) for _, weight in here])
        later = next(path)
        for i, currents in enumerate(inside):
            out[:, i, j] = sum(weight * current.divergence(later) for weight, current in currents)
    return out


def _relative(values: np.ndarray, mean: float) -> float | None:
    """Return the standard error of the mean of values, divided by ``mean``."""
    return None if len(values) < 2 or mean <= 0 else float(values.std(ddof=1) / math.sqrt(len(values)) / mean)
