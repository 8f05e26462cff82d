"""Reverse rates and steps with matrices, for any kernel: with w(x0) = p(x0) / q(x | x0), the ratios are w Q.

A kernel that is not a matrix is converted by reading its rows, so that the four methods of ``Kernel`` suffice.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from tauleap import _device
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, PerState, SiteMask, States, Time
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel, ForwardProcess, Kernel
from tauleap.noise.kernel import along_batch
from tauleap.noise.schedule import times_on
from tauleap.reverse.base import (
    ExpectationOfLogits,
    OutgoingJumps,
    PosteriorExpectation,
    Reversal,
    Structure,
    replaced_logits,
)
from tauleap.reverse.bound import DenseBound
from tauleap.reverse.dense.destinations import DenseJumps
from tauleap.reverse.dense.loss import SMALLEST_IN_FLOAT32, dense_loss

_SMALLEST_IN_EXPECTATION = 1e-30  # of q, for h in float32: p / q times q then stays inside its range
_BLOCK_ENTRIES = 2**18  # of the logits: intermediate results stay in the cache
_SCALED_ENTRIES = 2**16  # of the rates, from which on scaling them takes longer than a new matrix (20 us)


@dataclass(eq=False)
class DenseStructure(Structure):
    """Define the formula for any process whose sites have the same kernel."""

    process: ForwardProcess

    @property
    def mixes(self) -> bool:
        return self.process.cached("mixes", lambda: _mixes(self.process))

    def at(self, x: States, t: Time, kernel: Kernel | None = None) -> DenseReversal:
        return DenseReversal(self.process, x, t, kernel)

    def with_own_evidence(self, posterior: Posterior, x: States, t: Time, y: States, s: Time) -> Posterior:
        logits = posterior.logits
        exchanged = (logits - _log_columns(_matrix(self.process, t), x, logits.dtype)).add_(
            _log_columns(_matrix(self.process, s), y, logits.dtype)
        )
        # -inf - -inf: an x0 that x excludes stays excluded.
        exchanged = exchanged.masked_fill_(exchanged.isnan() | exchanged.isposinf(), -torch.inf)
        return replaced_logits(posterior, exchanged)

    def exit_bound(self, low: float, high: float) -> DenseBound:
        return DenseBound(self.process, low, high)


@dataclass(eq=False)
class DenseReversal(Reversal):
    """Evaluate the formula at states x and time t; q_t|0 is computed when it is needed, unless it is given."""

    process: ForwardProcess
    x: States
    t: Time
    kernel: Kernel | None

    @cached_property
    def q_t0(self) -> DenseKernel:
        """q_t|0 as a matrix, or as one matrix per sample."""
        return _matrix(self.process, self.t, kernel=self.kernel)

    @cached_property
    def beta(self) -> Tensor:
        """The rate of the schedule, in float64."""
        return self.process.schedule.rate(times_on(self.x.device, self.t))

    def reachable(self) -> Tensor | None:
        return self.q_t0.reachable(self.x)

    def log_prob(self, x0: States, posterior: Posterior, scored: SiteMask | None = None) -> PerSite:
        return posterior.given_reachable(self.reachable()).log_prob(x0)

    def ratios(self, posterior: Posterior) -> PerState:
        probs = posterior.given_reachable(self.q_t0.reachable(self.x)).probs
        if self.q_t0.smallest < SMALLEST_IN_FLOAT32:
            probs = probs.to(torch.float64)
        inverse = self.q_t0.inverse_columns(self.x, probs.dtype)
        return self.q_t0.propagate(_mul_inplace(inverse, probs)).to(posterior.logits.dtype)

    def rates(self) -> PosteriorExpectation:
        beta, q_t0 = self.beta, self.q_t0
        return DenseExpectation(self.x, q_t0, q_t0, self.process.jump_rates(), beta)

    def step(self, s: Time) -> PosteriorExpectation:
        q_t0, q_s0, q_ts = self._step_kernels(s)
        return DenseExpectation(self.x, q_t0, q_s0, q_ts, torch.ones((), dtype=torch.float64))

    def jumps(self, posterior: Posterior) -> OutgoingJumps:
        return DenseJumps(self.x, posterior, self.q_t0, self.q_t0, self.process.jump_rates(), self.beta, self.q_t0)

    def step_jumps(self, s: Time, posterior: Posterior) -> OutgoingJumps:
        q_t0, q_s0, q_ts = self._step_kernels(s)
        away = DenseKernel(q_ts.matrix - torch.diag_embed(q_ts.matrix.diagonal(dim1=-2, dim2=-1)))
        one = torch.ones((), dtype=torch.float64)
        return DenseJumps(self.x, posterior, q_t0, q_s0, away, one, away)

    def _step_kernels(self, s: Time) -> tuple[DenseKernel, DenseKernel, DenseKernel]:
        """Return q_t|0, q_s|0 and q_t|s."""
        return self.q_t0, _matrix(self.process, s), _matrix(self.process, self.t, s)


class DenseExpectation(ExpectationOfLogits):
    """Evaluate h_v = scale rates_into(v, x) sum_x0 p(x0) q_s0(v | x0) / q_t0(x | x0), with ``scale`` () or (batch,).

    For reverse rates s is t, and ``rates_into`` are the jump rates; for a step to s, ``rates_into`` is q_t|s.
    """

    def __init__(self, x: States, q_t0: DenseKernel, q_s0: DenseKernel, rates_into: DenseKernel, scale: Tensor) -> None:
        self.x, self.q_t0, self.q_s0, self.rates_into, self.scale = x, q_t0, q_s0, rates_into, scale
        self.per_sample = 3 in (q_t0.matrix.ndim, q_s0.matrix.ndim, rates_into.matrix.ndim)
        """Whether samples have different kernels."""

    @full_precision
    def under(self, posterior: Posterior) -> PerState:
        logits = posterior.logits
        if logits.requires_grad or not _device.is_host(logits.device):
            return self._under(posterior)
        # A few rows at a time: intermediate results stay in the cache. If all samples have one kernel, a site can be
        # treated like a sample.
        apart = self.per_sample or self.scale.ndim > 0
        whole = self if apart else self._site_by_site()
        rows = logits.reshape(*whole.x.shape, logits.shape[-1])
        out = torch.empty(rows.shape, dtype=rows.dtype)
        at_once = max(1, _BLOCK_ENTRIES // max(1, rows[:1].numel(), self.q_t0.matrix[:1].numel() if apart else 0))
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            whole._at(part)._under(Posterior(rows[part]), out=out[part])
        return out.reshape(logits.shape)

    def _under(self, posterior: Posterior, out: Tensor | None = None) -> PerState:
        probs = posterior.given_reachable(self.q_t0.reachable(self.x)).probs
        if self.q_t0.smallest < _SMALLEST_IN_EXPECTATION:
            probs = probs.to(torch.float64)
        ratios = self.q_s0.propagate(_mul_inplace(self.q_t0.inverse_columns(self.x, probs.dtype), probs))
        rates_into = self.rates_into.columns(self.x, ratios.dtype)
        if self.scale.ndim or float(self.scale) != 1:
            rates_into.mul_(self._scale(ratios.dtype, ratios.ndim))
        if out is not None:
            return torch.mul(rates_into, ratios, out=out)
        return _mul_inplace(rates_into, ratios).to(posterior.logits.dtype)

    def _site_by_site(self) -> DenseExpectation:
        """Return the same with every site as a sample and, if that saves work, the scale in the matrix."""
        x, rates_into, scale = self.x.reshape(-1), self.rates_into, self.scale
        states = rates_into.matrix.shape[0]
        if len(x) * states > max(states**2, _SCALED_ENTRIES) and float(scale) != 1:
            rates_into, scale = DenseKernel(rates_into.matrix * scale), torch.ones_like(scale)
        return DenseExpectation(x, self.q_t0, self.q_s0, rates_into, scale)

    def _at(self, part: slice) -> DenseExpectation:
        """Return the same for some of the samples."""
        kernels = [self.q_t0, self.q_s0, self.rates_into]
        if self.per_sample:
            kernels = [DenseKernel(each.matrix[part]) if each.matrix.ndim == 3 else each for each in kernels]
        return DenseExpectation(self.x[part], *kernels, self.scale[part] if self.scale.ndim else self.scale)

    def given(self, x0: States, dtype: torch.dtype) -> PerState:
        # In float64 to the end: the kernel's entries may be too small for a narrower dtype where their ratio is not.
        inverse = self.q_t0.inverse_columns(self.x, torch.float64).gather(-1, x0[..., None])
        out = self.q_s0.rows(x0, torch.float64).mul_(inverse).mul_(self.rates_into.columns(self.x, torch.float64))
        return out.mul_(self._scale(torch.float64, out.ndim)).to(dtype)

    @full_precision
    def given_among(self, x0: States, leaving: Tensor, total: Tensor) -> PerSite:
        sites, states = math.prod(self.x.shape[1:]), leaving.shape[-1]
        if leaving.ndim > 2 or leaving.dtype != torch.float64 or sites < states // 2:
            return super().given_among(x0, leaving, total)
        # For a site it depends on x and x0 alone: one matrix product per sample instead of one sum per site.
        divisor = leaving[:, :, None] + (total[:, None] - leaving).clamp(min=0.0)[:, None, :]
        into = self.rates_into.matrix.to(leaving.device)
        among = self.q_s0.matrix.to(leaving.device) @ torch.where(into > 0, into / divisor, 0.0)
        among = among.mul_(self.q_t0.inverse_table(torch.float64).mT.to(leaving.device))
        rows = x0.reshape(len(x0), -1) * states + self.x.reshape(len(x0), -1)
        out = among.flatten(1).gather(1, rows).reshape(x0.shape)
        return out * self._scale(torch.float64, out.ndim)

    _loss = dense_loss

    def _scale(self, dtype: torch.dtype, ndim: int) -> Tensor:
        return _device.moved_to(along_batch(self.scale, ndim), self.x.device, dtype)


def _log_columns(kernel: DenseKernel, x: States, dtype: torch.dtype) -> PerState:
    return kernel.select(kernel.table("log columns", dtype, lambda: kernel.matrix.mT.log()), x)


def _matrix(process: ForwardProcess, t: Time, s: Time = 0.0, kernel: Kernel | None = None) -> DenseKernel:
    """Return q_t|s, or the given kernel, as a matrix, or as one matrix per sample."""
    samples = next((len(time) for time in (t, s) if isinstance(time, Tensor) and time.ndim > 0), None)
    kernel = process.kernel(t, s) if kernel is None else kernel
    return kernel.as_matrix(process.num_states, process.tables_device, samples)


def _mul_inplace(fresh: Tensor, other: Tensor) -> Tensor:
    """Return ``fresh * other``, in the memory of ``fresh``, which has no other owner, unless a gradient needs both."""
    return fresh * other if other.requires_grad else fresh.mul_(other)


def _mixes(process: ForwardProcess) -> bool:
    """Return whether every data state leads to the same states."""
    rates = process.jump_rates().matrix
    reach = ((rates > 0) | torch.eye(len(rates), dtype=torch.bool, device=rates.device)).to(torch.float32)
    paths = 1
    while paths < len(reach):
        reach, paths = ((reach @ reach) > 0).to(torch.float32), 2 * paths
    rows = reach[process.data_states.reshape(-1, len(reach)).any(0).to(reach.device)]
    return bool((rows == rows[0]).all())
