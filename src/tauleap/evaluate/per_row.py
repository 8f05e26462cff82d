"""Completions against the truth, row by row: how Section 6.3 of the paper measures music.

A row is a song, and its histogram says how many of its sites have each state, wherever they are; the rest is a state
like the pitches. Both numbers are taken for each song and then averaged over songs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check, _device
from tauleap.evaluate.estimate import Estimate


def row_hellinger(samples: Tensor, reference: Tensor) -> Float[Tensor, " batch"]:
    """Return the Hellinger distance between the histograms of the states of each row and of its reference.

    It is sqrt(1 - sum_v sqrt(p(v) q(v))), p and q the frequencies of the state v in the two rows.

    Args:
        samples: Rows of states, (n, *shape).
        reference: One reference row per sample, (n, *shape).

    Returns:
        One distance in [0, 1] per row, (n,), in float64.

    >>> row_hellinger(torch.tensor([[0, 0, 1, 1]]), torch.tensor([[1, 0, 1, 0]]))
    tensor([0.], dtype=torch.float64)
    >>> row_hellinger(torch.tensor([[0, 0]]), torch.tensor([[0, 1]]))  # sqrt(1 - sqrt(1/2))
    tensor([0.5412], dtype=torch.float64)
    """
    p, q = (counts / counts.sum(1, keepdim=True) for counts in _counts(samples, reference))
    # As a sum of squares, which does not cancel when the histograms are close.
    return (((p.sqrt() - q.sqrt()) ** 2).sum(1) / 2).sqrt()


def row_outliers(samples: Tensor, reference: Tensor) -> Float[Tensor, " batch"]:
    """Return the proportion of the sites of each row whose state does not occur in its reference.

    Args:
        samples: Rows of states, (n, *shape).
        reference: One reference row per sample, (n, *shape).

    Returns:
        One proportion in [0, 1] per row, (n,), in float64.

    >>> row_outliers(torch.tensor([[0, 5, 5, 1]]), torch.tensor([[0, 1, 1, 1]]))
    tensor([0.5000], dtype=torch.float64)
    """
    counts, others = _counts(samples, reference)
    return counts.masked_fill(others > 0, 0.0).sum(1) / counts.sum(1)


@dataclass(frozen=True)
class Completions:
    """Hold the mean of a measure over songs and completions, with its errors.

    >>> mean = Completions.of(torch.tensor([[0.25, 0.75], [0.5, 1.0]])).mean  # two songs, completed twice
    >>> mean.value, mean.stderr
    (0.625, 0.25)
    """

    mean: Estimate[float]
    """The mean, with the standard error over songs, each weighted equally by the mean of its completions."""
    spread: float
    """The standard deviation between runs through all songs, which the paper writes after its ± (inf for one run)."""
    runs: int
    """The number of runs."""

    @staticmethod
    def of(values: Float[Tensor, "runs songs"]) -> Completions:
        """Return the mean of one number per completion of each song.

        Args:
            values: The numbers, with one row per run through all songs.

        >>> Completions.of(torch.tensor([[0.25, 0.75], [0.5, 1.0]]))
        Completions(mean=Estimate(value=0.625, stderr=0.25, n=2), spread=0.176..., runs=2)
        """
        if values.ndim != 2 or values.numel() == 0:
            raise ValueError(
                f"values must be (runs, songs), one number per completion, got shape {tuple(values.shape)}"
            )
        exact = _device.exact_on_cpu(values)
        spread = float(exact.mean(1).std()) if len(exact) > 1 else math.inf
        return Completions(Estimate.of_mean(exact.mean(0)), spread, len(exact))


def _counts(samples: Tensor, reference: Tensor) -> tuple[Tensor, Tensor]:
    """Return how many sites of each row have each state, (batch, S) for both."""
    for name, x in (("samples", samples), ("reference", reference)):
        if not isinstance(x, Tensor) or x.dtype != torch.int64 or x.ndim < 2 or x.numel() == 0:
            given = f"{x.dtype} of shape {tuple(x.shape)}" if isinstance(x, Tensor) else type(x).__name__
            raise ValueError(f"{name} must be int64 rows (n, *shape) with n >= 1, got {given}")
    if len(samples) != len(reference):
        raise ValueError(
            f"samples and reference must have the same number of rows, got {len(samples)} and {len(reference)}"
        )
    num_states = 1 + max(int(samples.max()), int(reference.max()))
    out = []
    for name, x in (("samples", samples), ("reference", reference)):
        rows = _check.states(x, num_states, name=name).reshape(len(x), -1).to(_device.exact_device(x.device))
        counts = torch.zeros(len(x), num_states, dtype=torch.float64, device=rows.device)
        out.append(counts.scatter_add_(1, rows, torch.ones_like(rows, dtype=torch.float64)))
    return out[0], out[1]
