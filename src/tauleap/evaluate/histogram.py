"""The distance of a histogram of samples from a distribution."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import Law, States
from tauleap.evaluate.estimate import Estimate


def hellinger(samples: States, reference: Tensor) -> Estimate[float]:
    """Return the Hellinger distance between the histogram of samples and a reference, from 0 to 1.

    It is sqrt(1 - sum_x sqrt(p(x) q(x))), p the histogram of ``samples`` and q the reference. The standard error is
    that of p by the delta method. A histogram of few draws is far from its own law: with n draws from q itself the
    distance is about sqrt(K / 8 n) for K states that occur.

    Args:
        samples: The samples, (n, *shape).
        reference: A table (S,)*D of probabilities over the joint states of the D sites, or other samples.

    Returns:
        The distance in [0, 1] with its standard error.

    Raises:
        ValueError: Shapes differ, or the table is not a distribution.

    >>> law = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> hellinger(torch.tensor([[0, 0], [1, 1], [0, 1], [1, 1]]), law).value  # sqrt(1 - sqrt(1/8) - sqrt(2/8))
    0.382...
    """
    if not isinstance(reference, Tensor):
        raise TypeError(f"reference must be a tensor (a distribution, or samples), got {type(reference).__name__}")
    if reference.is_floating_point():
        law = _check.law("reference", reference.reshape(-1)).reshape(reference.shape)
        num_states = law.shape[0]
        if any(side != num_states for side in law.shape):
            raise ValueError(f"a distribution must be a table (S,)*D, one axis per site, got shape {tuple(law.shape)}")
    else:
        num_states = 1 + max(int(reference.max()) if reference.numel() else 0, int(samples.max()))
        reference = _check.states(reference, num_states, name="reference")
        law = histogram(reference, num_states)
    samples = _check.states(samples, num_states, name="samples")
    if len(samples) == 0:
        raise ValueError("samples must hold at least one row, got none")
    if samples[:1].numel() != law.ndim:
        raise ValueError(
            f"samples have {samples[:1].numel()} sites and the reference has {law.ndim}: give both for the same sites"
        )
    found = histogram(samples, num_states).reshape(-1)
    return _distance(found, law.reshape(-1).to(found.device), len(samples))


def hellinger_of_laws(p: Tensor, q: Tensor) -> float:
    """Return the Hellinger distance of two distributions, without sampling error.

    Args:
        p: A table of probabilities.
        q: Another table of the same shape.

    Returns:
        The distance in [0, 1].

    >>> hellinger_of_laws(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))  # sqrt(1 - sqrt(1/2))
    0.541...
    """
    if p.shape != q.shape:
        raise ValueError(
            f"two distributions must be tables of the same shape, got {tuple(p.shape)} and {tuple(q.shape)}"
        )
    p, q = _device.exact(p), _device.exact(q)
    # As a sum of squares, which does not cancel when the laws are close.
    return math.sqrt(float(((p.sqrt() - q.sqrt()) ** 2).sum()) / 2)


def histogram(samples: States, num_states: int) -> Law:
    """Return the frequency of each joint state, as a distribution (S,)*D on an enumerable space."""
    sites = samples[:1].numel()
    if num_states**sites > 2**24:
        raise ValueError(
            f"a histogram must have <= {2**24:,} joint states, got {num_states}^{sites}: select fewer sites"
        )
    samples = samples.to(_device.exact_device(samples.device))
    places = num_states ** torch.arange(sites - 1, -1, -1, device=samples.device)
    counts = torch.bincount((samples.reshape(len(samples), -1) * places).sum(1), minlength=num_states**sites)
    return (counts.double() / len(samples)).reshape([num_states] * sites)


def _distance(p: Tensor, q: Tensor, n: int) -> Estimate[float]:
    value = hellinger_of_laws(p, q)
    # BC = sum_x sqrt(p q) has the slope sqrt(q / p) / 2 at p, and the distance is sqrt(1 - BC).
    slope = torch.where(p > 0, (q / torch.where(p > 0, p, 1.0)).sqrt() / 2, 0.0)
    variance = float((p * slope**2).sum() - (p * slope).sum() ** 2)
    stderr = math.sqrt(max(variance, 0.0) / n) / (2 * value) if value > 0 else math.inf
    return Estimate(value, stderr, n)
