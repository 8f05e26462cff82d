"""Predict the error of the steps of a grid from held-out rows, without drawing a sample."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import pairwise
from typing import Any, Literal, get_args, overload

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import States
from tauleap.denoise.on_device import moved
from tauleap.evaluate._check import complete_rows, reverse_of
from tauleap.evaluate._mode import evaluating
from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.forward_path import Current, Estimator, Rows, forward_path, root_nodes
from tauleap.observed import Observed, check_observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.sampling.grid import check_grid
from tauleap.sampling.sampler import check_condition

_NODES = 40
"""Nodes of all steps together: with 5 nodes in each of 8 steps the quadrature is right to 1e-3."""
_ENTRIES = 2**22
"""Entries per evaluation: the rates at all nodes of a step are held together, in float64."""


@overload
def discretisation_error(
    model: Any,
    rows: Any,
    grid: Iterable[float] | Tensor,
    *,
    final: Literal["sample", "none"] = ...,
    estimator: Estimator = ...,
    per_step: Literal[False] = ...,
    nodes: int | None = ...,
    batch_size: int | None = ...,
    observed: Observed | None = ...,
    condition: Tensor | None = ...,
    generator: torch.Generator | None = ...,
) -> Estimate[float]: ...


@overload
def discretisation_error(
    model: Any,
    rows: Any,
    grid: Iterable[float] | Tensor,
    *,
    final: Literal["sample", "none"] = ...,
    estimator: Estimator = ...,
    per_step: Literal[True],
    nodes: int | None = ...,
    batch_size: int | None = ...,
    observed: Observed | None = ...,
    condition: Tensor | None = ...,
    generator: torch.Generator | None = ...,
) -> Estimate[Tensor]: ...


def discretisation_error(
    model: Any,
    rows: Any,
    grid: Iterable[float] | Tensor,
    *,
    final: Literal["sample", "none"] = "sample",
    estimator: Estimator = "rates",
    per_step: bool = False,
    nodes: int | None = None,
    batch_size: int | None = None,
    observed: Observed | None = None,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Estimate[float] | Estimate[Tensor]:
    """Estimate KL(reverse chain || ``Ancestral()`` steps on a grid), the error of the steps, in nats per row.

    In a step from t to s the sampler predicts each site from the states of the others at t, while the chain follows
    them. The error of the step is the expected divergence between the reverse rates at x_u and the rates from the
    posterior at x_t with each site's own evidence replaced by x_u, integrated over u from s to t. The pairs (x_u, x_t)
    are rows with noise, so that no sample is drawn. It works for any forward process.

    With the exact denoiser the sum over the steps is the relative entropy of the joint distributions of all states at
    the times of the grid and of the sample. It bounds that of the samples alone, which is smaller.

    For a trained denoiser there are two estimators, which agree if it is exact:

    * ``"rates"``: the divergence from the model's own chain. It is never negative, and has the smaller variance.
    * ``"likelihood"``: by how much the steps increase the bound on -log p(rows). It can be negative, because of
      sampling noise, and where the network predicts worse from the states at u than from those at t.

    Args:
        model: A model or a reverse process.
        rows: Held-out rows of the type that the model takes; for a reverse process int64 states (n, *shape). Rows with
            missing values are not used.
        grid: The decreasing times of the steps.
        final: Whether the error of drawing the sample at the last time counts, "sample" or "none". Default: "sample".
        estimator: "rates" or "likelihood". Default: "rates".
        per_step: Return one number per step, the final one included. Default: False.
        nodes: The number of times u per step; with this number plus one per step the network is evaluated for each row.
            Default: 2 to 5, fewer for more steps.
        batch_size: Rows per evaluation. Default: as many as have 4 million entries (rows x sites x states).
        observed: Observed sites of the rows. Default: none.
        condition: The input of the denoiser, one entry per row. Default: none.
        generator: The source of randomness. Default: that of torch.

    Returns:
        The estimate, with its standard error over the rows.

    Raises:
        ValueError: An argument is out of its range.

    >>> import math
    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Absorbing, LogLinear
    >>> process = Absorbing(3, LogLinear())
    >>> pmf = torch.zeros(3, 3, dtype=torch.float64)
    >>> pmf[0, 0] = pmf[1, 1] = 0.5  # two sites that are equal
    >>> reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
    >>> rows = torch.tensor([[0, 0], [1, 1]])
    >>> seed = torch.Generator().manual_seed(0)
    >>> found = discretisation_error(reverse, rows.repeat(500, 1), [1.0, 0.5], generator=seed)
    >>> exact = 0.5 * math.log(2)  # log 2 times the probability that both sites are drawn in one step
    >>> abs(found.value - exact) < 3 * found.stderr
    True
    """
    reverse = reverse_of(model, "discretisation_error")
    times = check_grid(grid)
    if final not in ("sample", "none"):
        raise ValueError(f"final must be 'sample' or 'none', got {final!r}")
    if estimator not in get_args(Estimator):
        raise ValueError(f"estimator must be 'rates' or 'likelihood', got {estimator!r}")
    if final == "sample" and times[-1] > 0:
        times.append(0.0)
    number = max(2, min(5, _NODES // (len(times) - 1))) if nodes is None else _check.integer("nodes", nodes, least=1)
    x0 = complete_rows(model, rows)
    entries = x0[:1].numel() * reverse.process.num_states
    size = max(1, _ENTRIES // entries) if batch_size is None else _check.integer("batch_size", batch_size, least=1)
    if observed is not None:
        check_observed(observed).check(x0, reverse.process.num_states, name="rows")
    if condition is not None:
        check_condition(condition, len(x0))
    _check.randomness(generator)
    steps = list(pairwise(times))[::-1]
    reverse = reverse.in_float64()
    with evaluating(reverse):
        parts = [
            _errors(reverse, part, steps, number, estimator, generator)
            for part in _batches(x0, observed, condition, size, reverse.device)
        ]
    errors = torch.cat(parts).flip(1)
    if not per_step:
        return Estimate.of_mean(errors.sum(1))
    each = torch.tensor([[e.value, e.stderr] for e in map(Estimate.of_mean, errors.unbind(1))], dtype=torch.float64)
    return Estimate(each[:, 0], each[:, 1], len(errors))


def _errors(
    reverse: ReverseProcess,
    rows: Rows,
    steps: list[tuple[float, float]],
    nodes: int,
    estimator: Estimator,
    generator: torch.Generator | None,
) -> Tensor:
    """Return the error of each row in each step, (n, steps), the earliest step first."""
    inner = [root_nodes(s, t, nodes) for t, s in steps]
    times = [time for (t, _), here in zip(steps, inner, strict=True) for time in (*(u for u, _ in here), t)]
    path, out = forward_path(reverse, rows, times, generator), []
    for here in inner:
        inside = [(weight, Current(reverse, rows, next(path), estimator)) for _, weight in here]
        later = next(path)
        out.append(torch.stack([weight * current.divergence(later) for weight, current in inside]).sum(0))
    return _device.exact_on_cpu(torch.stack(out, 1))


def _batches(
    x0: States, observed: Observed | None, condition: Tensor | None, size: int, device: torch.device
) -> Iterator[Rows]:
    for part in torch.arange(len(x0)).split(size):
        yield Rows(*(moved(value, device) for value in (x0[part], *select_rows(observed, condition, part))))
