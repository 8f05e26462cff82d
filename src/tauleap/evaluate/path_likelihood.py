"""The likelihood of ancestral sampling for any noise, from importance-weighted paths.

With K steps t_0 > t_1 > .. > t_K, ancestral sampling draws x_(k+1) from p(x_(k+1) | x_k), and x0 from p(x0 | x_K). A
path that is drawn from the forward process given x0 has the weight

    w = p(x_0) / q(x_0 | x0)  *  prod_k p(x_(k+1) | x_k) / q(x_(k+1) | x_k, x0)  *  p(x0 | x_K),

whose mean is the probability of x0 in those samples. The logarithm of the mean over several paths is a lower bound in
expectation (importance-weighted autoencoders, Burda et al. 2016), which rises with their number; for one path its mean
is the bound in discrete time, ``DiscreteTimeElbo`` on this grid.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import States
from tauleap.denoise import Posterior
from tauleap.denoise.on_device import moved
from tauleap.evaluate._check import reverse_process
from tauleap.evaluate._mode import evaluating
from tauleap.evaluate.estimate import Estimate
from tauleap.evaluate.known_rows import KnownRows, known_rows, log_mean_exp
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling._progress import reporting
from tauleap.sampling.grid import check_grid


def path_log_prob(
    reverse: ReverseProcess,
    data: States,
    *,
    grid: Iterable[float] | Tensor,
    draws: int = 16,
    batch_size: int = 1024,
    observed: Observed | None = None,
    missing: Tensor | None = None,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
) -> Estimate[Tensor]:
    """Return log p(x) of each row in nats for ancestral sampling on a grid, from importance-weighted paths.

    Observed sites are conditioned on. Missing sites are simulated by the model along each path, so that the value is
    that of the known sites: their marginal likelihood.

    Args:
        reverse: The reverse process; its noise is not absorbing, for which ``order_log_prob`` needs fewer evaluations.
        data: The rows, (n, *shape).
        grid: Decreasing times, the first at most 1. Each costs one evaluation per row and draw.
        draws: The number of paths per row, >= 1. Default: 16.
        batch_size: Paths per evaluation. Default: 1024.
        observed: Observed sites. Default: none.
        missing: A bool mask of unknown values. Default: none.
        condition: The input of the network. If it is as long as the data, it has one entry per row. Default: none.
        generator: The source of randomness. Default: that of torch.
        progress: Show a bar with the remaining time. Default: False.

    Returns:
        One value per row, with the standard error from the spread over paths (inf for one path).

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: A row has no known value, or an argument is out of its range.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import LogLinear, RankOne
    >>> process = RankOne(torch.tensor([0.5, 0.5]), LogLinear())
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([0.8, 0.2], dtype=torch.float64), process))
    >>> found = path_log_prob(reverse, torch.tensor([[0]]), grid=[1.0, 0.5, 0.01], draws=4)
    >>> bool((found.value.exp() - 0.8).abs() < 0.01)
    True
    """
    reverse_process(reverse, "path_log_prob")
    draws = _check.integer("draws", draws, least=1)
    size = _check.integer("batch_size", batch_size, least=1)
    _check.randomness(generator)
    times = tuple(check_grid(grid))
    rows = known_rows(reverse, data, observed, missing, condition)
    if rows.reverse.process.mask is not None:
        raise ValueError(
            "path_log_prob needs noise without a mask: for absorbing noise write order_log_prob(reverse, data)"
        )
    row = torch.arange(len(rows.x)).repeat_interleave(draws).split(size)
    values = []
    with evaluating(rows.reverse), reporting(progress, len(row), "paths") as advance:
        for part in row:
            values.append(_weights(rows, part, times, generator))
            advance()
    return log_mean_exp(torch.cat(values).reshape(-1, draws))


def _weights(
    rows: KnownRows, row: Tensor, times: tuple[float, ...], generator: torch.Generator | None
) -> Float[Tensor, " n"]:
    """Return the log-weight of one path for each of the rows."""
    reverse, process = rows.reverse, rows.reverse.process
    device, shape = reverse.device, (len(row), *rows.shape)
    x0, scored, missing, mask = (
        each[row].reshape(shape).to(device) for each in (rows.x, rows.scored, rows.missing, rows.observed)
    )
    given = {"condition": moved(rows.condition_of(row), device)}
    if rows.has_observed:
        given["observed"] = Observed(mask, x0)

    def logarithm(probs: Tensor, x: States) -> Tensor:
        """Return the sum of the logarithms over the scored sites."""
        own = probs.to(torch.float64).gather(-1, x[..., None]).squeeze(-1).log()
        return own.masked_fill(~scored, 0.0).flatten(1).sum(1)

    # The posterior of one who knows x0, under which a step of the model is q(x_s | x_t, x0).
    certain = torch.nn.functional.one_hot(x0, process.num_states).to(torch.float64).log()
    certain = Posterior(torch.where(missing[..., None], 0.0, certain))
    prior = process.sampling_prior().to(device, torch.float64)
    kernel = process.kernel_from(x0, times[0], dtype=torch.float64)
    start = torch.where(missing[..., None], prior.expand(kernel.shape), kernel)
    x = torch.where(mask, x0, _draw.categorical(start, generator).to(device))
    total = logarithm(prior.expand(kernel.shape), x) - logarithm(kernel, x)
    for t, s in pairwise(times):
        step = reverse.step_probs(x, t, s, **given)
        true = reverse.step_probs(x, t, s, posterior=certain)
        drawn = _draw.categorical(torch.where(missing[..., None], step.to(true.dtype), true), generator)
        x = torch.where(mask, x0, drawn.to(device))
        total += logarithm(step, x) - logarithm(true, x)
    if times[-1] > 0:
        found = reverse.posterior(x, times[-1], **given).log_prob(x0).to(torch.float64)
        total += found.masked_fill(~scored, 0.0).flatten(1).sum(1)
    return _device.exact_on_cpu(total)
