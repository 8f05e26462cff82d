"""The pushforward of a distribution under one step: the function that each sampler's file registers with."""

from __future__ import annotations

from dataclasses import dataclass
from functools import singledispatch

from torch import Tensor

from tauleap.denoise import Posterior
from tauleap.evaluate.joint_space import joint_states
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Sampler


@dataclass(frozen=True)
class Accuracy:
    """Set the accuracy of a pushforward: fewer digits take less time.

    >>> import torch
    >>> from tauleap import denoise, noise, sampling
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(torch.tensor([0.75, 0.25]), process))
    >>> start = torch.tensor([0.5, 0.5])
    >>> pushforward_step(sampling.Uniformization(), reverse, start, 1.0, 0.5, Accuracy(tolerance=1e-3))
    tensor([0.5799, 0.4201], dtype=torch.float64)
    """

    tolerance: float = 1e-7
    """The relative tolerance of the solver for exact samplers. Default: 1e-7."""
    negligible: float = 1e-15
    """Pairs of states with a smaller probability are omitted from a step of two stages. Default: 1e-15."""


FULL = Accuracy()
COARSE = Accuracy(tolerance=1e-3, negligible=1e-11)
"""For networks with kinks in t on a thousand states: a Hellinger distance of 0.0641 is right to 3e-5."""


@singledispatch
def pushforward_step(
    sampler: Sampler, reverse: ReverseProcess, law: Tensor, t: float, s: float, accuracy: Accuracy = FULL
) -> Tensor:
    """Return the pushforward of ``law`` under one step of the sampler.

    Args:
        sampler: The sampler.
        reverse: The reverse process.
        law: The distribution (S,)*D at time t.
        t: The time of the distribution, in (0, 1].
        s: The time to reach, in [0, t).
        accuracy: The accuracy where digits cost time. Default: full.

    Raises:
        TypeError: The kernel of a step of this sampler is not implemented.

    >>> import torch
    >>> from tauleap import denoise, noise, sampling
    >>> data = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> process = noise.Uniform(2, noise.Constant(1.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(data, process))
    >>> pushforward_step(sampling.Ancestral(), reverse, data.double(), 0.2, 0.1)
    tensor([[0.4726, 0.0274],
            [0.0274, 0.4726]], dtype=torch.float64)
    """
    raise TypeError(f"the exact kernel of a step of {sampler} is not implemented: use tauleap.sample")


def states_of(law: Tensor) -> Tensor:
    """Return every joint state of a law, (S^D, D)."""
    return joint_states(law.shape[0], law.ndim)


def exact_posterior(reverse: ReverseProcess, x: Tensor, t: float) -> Posterior:
    """Return the posterior at every joint state, in float64 even if the network uses less."""
    return Posterior(reverse.posterior(x, t).logits.double())


def exact_rates(reverse: ReverseProcess, x: Tensor, t: float) -> Tensor:
    """Return the reverse rates at every joint state, in float64."""
    return reverse.rates(x, t, posterior=exact_posterior(reverse, x, t))
