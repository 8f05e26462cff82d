"""The bound on the likelihood of data under a model, in bits per dimension."""

from __future__ import annotations

import math
from typing import Literal, overload

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import States
from tauleap.denoise.on_device import moved
from tauleap.evaluate._check import reverse_process
from tauleap.evaluate._mode import evaluating
from tauleap.evaluate.estimate import Estimate
from tauleap.objective import AnyOrderElbo, CompleteElbo, LogUniformTimes, NoisedBatch, Times
from tauleap.objective.arguments import check_missing, has_rows
from tauleap.objective.noised_batch import check_kinds
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling._progress import reporting


@overload
def bits_per_dim(
    reverse: ReverseProcess,
    data: States,
    *,
    samples: int = ...,
    times: Times | None = ...,
    batch_size: int = ...,
    per_datapoint: Literal[False] = ...,
    observed: Observed | None = ...,
    missing: Tensor | None = ...,
    condition: Tensor | None = ...,
    generator: torch.Generator | None = ...,
    progress: bool = ...,
) -> Estimate[float]: ...


@overload
def bits_per_dim(
    reverse: ReverseProcess,
    data: States,
    *,
    samples: int = ...,
    times: Times | None = ...,
    batch_size: int = ...,
    per_datapoint: Literal[True],
    observed: Observed | None = ...,
    missing: Tensor | None = ...,
    condition: Tensor | None = ...,
    generator: torch.Generator | None = ...,
    progress: bool = ...,
) -> Estimate[Tensor]: ...


def bits_per_dim(
    reverse: ReverseProcess,
    data: States,
    *,
    samples: int = 16,
    times: Times | None = None,
    batch_size: int = 256,
    per_datapoint: bool = False,
    observed: Observed | None = None,
    missing: Tensor | None = None,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Estimate[float] | Estimate[Tensor]:
    """Return an upper bound on -log2 p(x0) per dimension, from the complete bound (Table 1).

    It has all terms: prior, path and the reconstruction at the earliest time. Each datapoint gets ``samples`` times,
    stratified over the distribution of the times, with independent noise at each of them.

    For absorbing noise and a denoiser that does not use t, and unless ``times`` are given, it is the bound of
    :class:`tauleap.objective.AnyOrderElbo` with stratified numbers of masked sites: the same path integral with less
    variance, for a chain that starts fully masked, as sampling does.

    A datapoint's dimensions are the sites that have a loss: neither observed nor missing. The estimate is the mean over
    the datapoints with equal weights; its standard error includes the choice of the datapoints, the noise and the
    times. ``interval()`` of the result is calibrated: docs/questions.md has its coverage.

    With ``missing`` sites it bounds -log2 p(the known sites) for a chain of the known sites alone, whose rates are
    those of the model averaged over draws of the sampling prior at the missing ones. This is not the marginal of the
    model's law of all sites, unless the network has learned that such draws carry no information.

    Args:
        reverse: The reverse process. Its network is in evaluation mode during the call.
        data: The data, (n, *shape).
        samples: The number of times per datapoint, >= 1. Default: 16.
        times: The distribution of the times. Where most of the noise comes early, ``WeightedTimes`` can need far fewer
            samples for the same value. Default: log-uniform on (0.01, 1), because the loss grows like 1 / t towards the
            data, or numbers of masked sites where they suffice.
        batch_size: The number of noise draws per pass; with times the network is evaluated at two states of each, at
            the drawn time and at the earliest. Default: 256.
        per_datapoint: Return one number per datapoint, with the standard error of noise and times alone, from
            differences between pairs of neighbouring times: on average rather too large than too small, and imprecise
            where few draws hold most of the loss. Default: False.
        observed: Observed sites: inputs of the network without a loss. Default: none.
        missing: A bool mask of unknown values. Default: none.
        condition: The input of the network. If it is as long as the data, it has one row per datapoint; any other is
            passed unchanged. Default: none.
        generator: The source of randomness. Default: that of torch.
        progress: Show a bar with the remaining time. Default: False.

    Returns:
        The bound in bits per dimension with its standard error: a mean over the data, or with ``per_datapoint`` tensors
        (n,).

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of its range, or ``times`` does not give a bound.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import LogLinear, RankOne
    >>> process = RankOne(torch.tensor([0.5, 0.5]), LogLinear())
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([[0.5, 0.0], [0.0, 0.5]]), process))
    >>> data = torch.tensor([[0, 0], [1, 1]]).repeat(500, 1)
    >>> estimate = bits_per_dim(reverse, data, generator=torch.Generator().manual_seed(0))
    >>> abs(estimate.value - 0.5) < 3 * estimate.stderr  # one bit for two dimensions
    True
    """
    samples = _check.integer("samples", samples, least=1)
    by_number = times is None and isinstance(reverse, ReverseProcess) and has_any_order(reverse)
    times = LogUniformTimes() if times is None else times
    objective = AnyOrderElbo() if by_number else CompleteElbo(reconstruction=True, times=times)
    if not times.unbiased:
        raise ValueError(
            f"the mean of a loss over {times!r} does not bound the likelihood: write times=LogUniformTimes() or leave "
            "times out"
        )
    reverse_process(reverse, "bits_per_dim")
    check_kinds(observed, condition, generator)
    if not isinstance(data, Tensor) or data.dtype != torch.int64:
        given = data.dtype if isinstance(data, Tensor) else type(data).__name__
        raise TypeError(f"data must be an int64 tensor (n, *shape), got {given}")
    if data.ndim < 1 or data.numel() == 0:
        raise ValueError(f"data must be an int64 tensor (n, *shape) with n >= 1, got shape {tuple(data.shape)}")
    # Rows may stay where they are, usually on the CPU: each batch is moved to the model.
    device = next((each.device for each in (*reverse.parameters(), *reverse.buffers())), data.device)
    if _device.lacks_float64(device) or _device.lacks_float64(data.device):
        reverse, data, device = reverse.on_cpu(), moved(data, _device.CPU), _device.CPU
        observed, missing, condition = (moved(value, _device.CPU) for value in (observed, missing, condition))
    observed, missing = (moved(value, data.device) for value in (observed, missing))
    missing = None if missing is None else check_missing(missing, data, name="data")
    scored = _scored(data, observed, missing)
    if bool((scored == 0).any()):
        number = int((scored == 0).nonzero()[0, 0])
        raise ValueError(f"every value of row {number} is observed or missing: leave the row out")
    n = len(data)
    size = _check.integer("batch_size", batch_size, least=1)
    by_row = condition is not None and has_rows(condition, n)
    places = _draw.uniforms((n, samples), _device.CPU, generator)
    places = (torch.arange(samples) + places) / samples
    # On the CPU, so that a generator anywhere gives the same times.
    t, weight = (value.reshape(-1) for value in times.at(places))
    rows = torch.arange(n * samples).split(size)
    parts = []
    with evaluating(reverse), reporting(progress, len(rows), "bits/dim") as advance:
        for row in rows:
            pick = (row // samples).to(data.device)
            draw = NoisedBatch(
                reverse,
                moved(data[pick], device),
                times,
                objective.needs,
                t=None if by_number else t[row].to(device),
                places=places.reshape(-1)[row].to(device) if by_number else None,
                observed=None if observed is None else moved(observed.of_rows(pick), device),
                missing=None if missing is None else moved(missing[pick], device),
                condition=moved(
                    condition[pick.to(condition.device)] if condition is not None and by_row else condition, device
                ),
                rows=by_row,
                generator=generator,
            )
            loss = objective.evaluate(draw)
            exact = {name: _device.exact_on_cpu(term) for name, term in loss.terms.items()}
            # A time that is given has no weight of its own.
            path = exact.pop("path") * (1.0 if by_number else weight[row])
            parts.append(sum(exact.values(), path))
            advance()
    bits = torch.cat(parts).reshape(n, samples) / (scored.cpu()[:, None] * math.log(2))
    if bool(bits.isnan().any()):
        number = int(bits.isnan().any(1).nonzero()[0, 0])
        raise ValueError(f"the loss of row {number} is nan: check that the network returns finite logits for it")
    if not per_datapoint:
        if n == 1:
            return Estimate(float(bits.mean()), float(_neighbours_stderr(bits)), samples)
        return Estimate.of_mean(bits.mean(1))
    return Estimate(bits.mean(1), _neighbours_stderr(bits), samples)


def has_any_order(reverse: ReverseProcess) -> bool:
    """Return whether the likelihood bound is an average over orders of the sites: absorbing noise, t not used.

    Args:
        reverse: The reverse process.
    """
    return reverse.process.mask is not None and not reverse.denoiser.uses_time


def _scored(data: Tensor, observed: Observed | None, missing: Tensor | None) -> Tensor:
    """Return how many dimensions of each row have a loss."""
    out = torch.zeros_like(data, dtype=torch.bool)
    if observed is not None:
        if observed.mask.shape != data.shape:
            raise ValueError(
                f"observed must have the shape of data, {tuple(data.shape)}, got {tuple(observed.mask.shape)}"
            )
        out = out | observed.mask
    if missing is not None:
        out = out | missing
    return (~out).reshape(len(data), -1).sum(-1)


def _neighbours_stderr(values: Tensor) -> Tensor:
    """Return the standard error of the means of rows (n, k) that hold one draw from each of k strata.

    Their spread as a whole is no guide, since strata differ. Neighbours are taken together in pairs, the last three if
    k is odd: the variance within a group is on average at least the mean of those of its strata, and all strata count
    the same.
    """
    k = values.shape[1]
    if k == 1:
        return torch.full_like(values[:, 0], math.inf)
    paired = k - 3 * (k % 2)
    total = (values[:, 1:paired:2] - values[:, 0:paired:2]).square().sum(1)  # twice the variances of pairs
    if paired < k:
        total = total + 3 * values[:, paired:].var(1)
    return total.sqrt() / k
