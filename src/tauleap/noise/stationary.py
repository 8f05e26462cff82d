"""The stationary law of a generator, and whether the chain is in detailed balance with it."""

from __future__ import annotations

import torch
from torch import Tensor


def stationary_law(generator: Tensor) -> Tensor:
    """Return the law pi with ``pi R = 0``, by the elimination of Grassmann, Taksar and Heyman (1985).

    It subtracts nothing, so small probabilities keep their digits. States that the chain leaves for good get 0.
    """
    recurrent = _recurrent_states(generator)
    rates = generator[recurrent][:, recurrent].clone()
    rates.fill_diagonal_(0.0)
    size = len(rates)
    for last in range(size - 1, 0, -1):
        rates[:last, last] /= rates[last, :last].sum()
        rates[:last, :last] += torch.outer(rates[:last, last], rates[last, :last])
        rates[:last, :last].fill_diagonal_(0.0)
    weights = torch.ones(size, dtype=generator.dtype, device=generator.device)
    for last in range(1, size):
        weights[last] = weights[:last] @ rates[:last, last]
        if weights[last] > 1:  # keep weights in the range of float64: a much smaller one becomes 0
            weights[: last + 1] /= weights[last].clone()
    out = torch.zeros(len(generator), dtype=generator.dtype, device=generator.device)
    out[recurrent] = weights / weights.sum()
    return out


def in_detailed_balance(generator: Tensor, law: Tensor) -> bool:
    """Return whether ``pi_i R_ij = pi_j R_ji`` for a law that is positive everywhere."""
    flow = law[:, None] * generator
    return bool((law > 0).all()) and bool(torch.allclose(flow, flow.mT, rtol=1e-10, atol=1e-290))


def _recurrent_states(generator: Tensor) -> Tensor:
    """Return the indices of the closed class; raise an error if there are several, since the law is not unique."""
    reach = (generator > 0).to(generator.dtype)
    reach.fill_diagonal_(1.0)
    paths = 1
    while paths < len(generator):
        reach = (reach @ reach > 0).to(generator.dtype)
        paths *= 2
    reached_by_all = (reach > 0).all(dim=0)
    if not bool(reached_by_all.any()):
        raise ValueError(
            "the generator has several closed classes, so its stationary law is not unique: override stationary(), "
            "or write Dense(generator, schedule, prior=...), with the law to start the reverse chain from"
        )
    return reached_by_all.nonzero().squeeze(-1)
