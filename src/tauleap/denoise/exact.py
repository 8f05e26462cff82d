"""The exact posterior of a known distribution on an enumerable space: the ground truth of the tests."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import PerState, States, Time
from tauleap.denoise.denoiser import Denoiser
from tauleap.denoise.posterior import Posterior
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed

_BLOCK_ENTRIES = 2**24


class ExactDenoiser(Denoiser):
    """Compute the exact posterior p(x0^d | x_t) of data with a known distribution, on spaces small enough to enumerate.

        p(x0^d | x) proportional to sum over the other sites of pmf(x0) prod_d q_t|0(x^d | x0^d)

    ``x`` may have any shape with D entries, in the table's order. Observed sites have no noise: there q is 1 at their
    value and 0 elsewhere. Sums are computed in float64; the result has the dtype of ``pmf`` (``.double()`` changes it).

    Args:
        pmf: The probabilities of all joint states, a table of shape (S,)*D.
        process: The forward process.

    Raises:
        TypeError: ``pmf`` is not a floating-point tensor, or ``process`` is not a ForwardProcess.
        ValueError: ``pmf`` is not a distribution over the data states of the process.

    >>> from tauleap.noise import Constant, Uniform
    >>> pmf = torch.tensor([[0.5, 0.0], [0.0, 0.5]])
    >>> exact = ExactDenoiser(pmf, Uniform(2, Constant(0.5)))
    >>> exact(torch.tensor([[0, 0]]), 0.5).probs
    tensor([[[0.9434, 0.0566],
             [0.9434, 0.0566]]])
    """

    def __init__(self, pmf: Tensor, process: ForwardProcess) -> None:
        super().__init__()
        if not isinstance(process, ForwardProcess):
            raise TypeError(f"process must be a ForwardProcess such as Uniform, got {type(process).__name__}")
        size = process.num_states
        if not isinstance(pmf, Tensor) or not pmf.is_floating_point():
            given = pmf.dtype if isinstance(pmf, Tensor) else type(pmf).__name__
            raise TypeError(f"pmf must be a floating-point tensor, got {given}")
        if pmf.ndim < 1 or any(n != size for n in pmf.shape):
            raise ValueError(f"pmf must be a table of shape (S,)*D with S = {size}, got {tuple(pmf.shape)}")
        law = _check.law("pmf", pmf.reshape(-1)).reshape(pmf.shape)
        _refuse_impossible_states(law, process)
        self.process = process
        self.register_buffer("pmf", law.to(pmf.dtype))
        self.pmf: Tensor

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        if condition is not None:
            raise TypeError("ExactDenoiser takes no condition: its law is fixed by pmf")
        sites, size = self.pmf.ndim, self.process.num_states
        x_t = _check.states(x_t, size)
        device, where = x_t.device, _device.exact_device(x_t.device)
        x_t, observed = x_t.to(where), None if observed is None else observed.to(where)
        likelihood = self.process.kernel_into(x_t, t, dtype=torch.float64)
        if math.prod(x_t.shape[1:]) != sites:
            raise ValueError(
                f"pmf has {sites} dimensions, so x must have {sites} sites per sample, got {tuple(x_t.shape)}"
            )
        if observed is not None:
            observed.check(x_t, size)
            known = torch.nn.functional.one_hot(observed.fill(x_t), size).to(torch.float64)
            likelihood = torch.where(observed.mask[..., None], known, likelihood)
        # Only ratios between states matter; scaled to 1 the product over the sites does not underflow.
        largest = likelihood.amax(-1, keepdim=True)
        likelihood = likelihood / torch.where(largest == 0, 1.0, largest)
        rows = likelihood.reshape(-1, sites, size)
        block = max(1, _BLOCK_ENTRIES // size ** max(sites - 1, 1))
        joint = torch.cat([self._joint_marginals(part) for part in rows.split(block)])
        # A noisy state of probability 0 has no posterior; the uniform distribution is returned there.
        impossible = joint.sum(-1, keepdim=True) == 0
        logits = torch.where(impossible, 0.0, joint.log())
        return Posterior(_device.moved_to(logits.reshape(likelihood.shape), device, self.pmf.dtype))

    def _joint_marginals(self, likelihood: PerState) -> PerState:
        """Return the sum over the other sites of pmf(x0) prod_d likelihood_d(x0^d), for each site; (n, D, S)."""
        sites = likelihood.shape[1]
        marginals = []
        for site in range(sites):
            table = self.pmf.to(likelihood.device).to(torch.float64).movedim(site, 0)
            others = [d for d in range(sites) if d != site]
            # Contract the last axis first, by one matrix product for all samples; the rest sample by sample.
            if others:
                table = torch.einsum("ns,...s->n...", likelihood[:, others[-1]], table)
            else:
                table = table.expand(len(likelihood), -1)
            for d in reversed(others[:-1]):
                table = torch.einsum("n...s,ns->n...", table, likelihood[:, d])
            marginals.append(table * likelihood[:, site])
        return torch.stack(marginals, dim=1)


def _refuse_impossible_states(law: Tensor, process: ForwardProcess) -> None:
    allowed = process.data_states.expand(law.ndim, -1) if process.data_states.ndim == 1 else process.data_states
    allowed = allowed.reshape(-1, process.num_states)
    if len(allowed) != law.ndim:
        raise ValueError(
            f"the process has {len(allowed)} sites with different distributions, pmf has {law.ndim} dimensions"
        )
    for site in range(law.ndim):
        mass = law.sum([d for d in range(law.ndim) if d != site]) if law.ndim > 1 else law
        if bool((mass[~allowed[site]] > 0).any()):
            states = (~allowed[site] & (mass > 0)).nonzero().flatten().tolist()
            raise ValueError(
                f"pmf gives dimension {site} the states {states}, which data of this process cannot have "
                "(the mask of an absorbing process, or states of prior 0): put 0 there"
            )
