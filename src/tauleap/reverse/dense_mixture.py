"""A mixture with matrices, for any kernel: with w = p / q(x | .), h = into (w Q), one product with a kernel."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from tauleap import _device
from tauleap._precision import full_precision
from tauleap._shapes import PerSite, PerState, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel
from tauleap.noise.kernel import along_batch
from tauleap.reverse.dense_comparison import compare, inverse_at
from tauleap.reverse.dense_comparison import inverse_table as inverse_table
from tauleap.reverse.mixture import Mixture, Wanted, Worked

_SMALLEST_TO_MIX = 1e-30  # for h itself, where p / q times q need only stay inside that range
_MIXED_ENTRIES = 2**18


class DenseMixture(Mixture):
    """h_v = scale into(v, x) sum_x0 p(x0) onward(v | x0) / over(x | x0), with ``scale`` float64, () or (batch,).

    For reverse rates ``over`` and ``onward`` are the kernel from 0 to t and ``into`` the jump rates; for a step to s,
    ``onward`` leads from 0 to s and ``into`` from s to t.
    """

    def __init__(self, x: States, over: DenseKernel, onward: DenseKernel, into: DenseKernel, scale: Tensor) -> None:
        self.x, self.over, self.onward, self.into, self.scale = x, over, onward, into, scale

    @full_precision
    def mixed(self, posterior: Posterior) -> PerState:
        logits = posterior.logits
        if logits.requires_grad or not _device.is_host(logits.device):
            return self._mixed(posterior)
        # A few rows at a time: what is made on the way stays in the cache and out of the memory. Where all samples
        # have one kernel, a site is as good as a sample.
        apart = self.per_sample or self.scale.ndim > 0
        whole = self if apart else self._site_by_site()
        rows = logits.reshape(*whole.x.shape, logits.shape[-1])
        out = torch.empty(rows.shape, dtype=rows.dtype)
        at_once = max(1, _MIXED_ENTRIES // max(1, rows[:1].numel(), self.over.matrix[:1].numel() if apart else 0))
        for start in range(0, len(rows), at_once):
            part = slice(start, start + at_once)
            whole._at(part)._mixed(Posterior(rows[part]), out=out[part])
        return out.reshape(logits.shape)

    def _mixed(self, posterior: Posterior, out: Tensor | None = None) -> PerState:
        probs = reachable_probs(self.over, self.x, posterior)
        if self.over.smallest < _SMALLEST_TO_MIX:
            probs = probs.to(torch.float64)
        onward = self.onward.propagate(times(inverse_at(self.over, self.x, probs.dtype), probs))
        into = self.into.columns(self.x, onward.dtype)
        if self.scale.ndim or float(self.scale) != 1:
            into.mul_(self._scale(onward.dtype, onward.ndim))
        if out is not None:
            return torch.mul(into, onward, out=out)
        return times(into, onward).to(posterior.logits.dtype)

    def _site_by_site(self) -> DenseMixture:
        """The same with every site as a sample, and the scale, where it saves work, in the matrix."""
        x, into, scale = self.x.reshape(-1), self.into, self.scale
        if len(x) > into.matrix.shape[0] and float(scale) != 1:
            into, scale = DenseKernel(into.matrix * scale), torch.ones_like(scale)
        return DenseMixture(x, self.over, self.onward, into, scale)

    def _at(self, part: slice) -> DenseMixture:
        """The same for some of the samples."""
        over, onward, into = (
            DenseKernel(kernel.matrix[part]) if kernel.matrix.ndim == 3 else kernel
            for kernel in (self.over, self.onward, self.into)
        )
        return DenseMixture(self.x[part], over, onward, into, self.scale[part] if self.scale.ndim else self.scale)

    def known(self, x0: States, dtype: torch.dtype) -> PerState:
        # In float64 to the end: the kernel's entries may be too small for a narrower dtype where their ratio is not.
        inverse = inverse_at(self.over, self.x, torch.float64).gather(-1, x0[..., None])
        out = self.onward.rows(x0, torch.float64).mul_(inverse).mul_(self.into.columns(self.x, torch.float64))
        return out.mul_(self._scale(torch.float64, out.ndim)).to(dtype)

    @full_precision
    def known_among(self, x0: States, leaving: Tensor, total: Tensor) -> PerSite:
        sites, states = math.prod(self.x.shape[1:]), leaving.shape[-1]
        if leaving.ndim > 2 or leaving.dtype != torch.float64 or sites < states // 2:
            return super().known_among(x0, leaving, total)
        # Of a site it depends on x and x0 alone: one product with matrices for a sample, in the place of its sites.
        divisor = leaving[:, :, None] + (total[:, None] - leaving).clamp(min=0.0)[:, None, :]
        into = self.into.matrix.to(leaving.device)
        among = self.onward.matrix.to(leaving.device) @ torch.where(into > 0, into / divisor, 0.0)
        among = among.mul_(inverse_table(self.over, torch.float64).mT.to(leaving.device))
        rows = x0.reshape(len(x0), -1) * states + self.x.reshape(len(x0), -1)
        out = among.flatten(1).gather(1, rows).reshape(x0.shape)
        return out * self._scale(torch.float64, out.ndim)

    @property
    def per_sample(self) -> bool:
        """Whether samples have kernels of their own."""
        return any(kernel.matrix.ndim == 3 for kernel in (self.over, self.onward, self.into))

    def _worked(self, logits: Tensor, x0: States, wanted: Wanted) -> Worked:
        return compare(self, logits, x0, wanted)

    def _scale(self, dtype: torch.dtype, ndim: int) -> Tensor:
        return _device.moved_to(along_batch(self.scale, ndim), self.x.device, dtype)


def reachable_states(kernel: DenseKernel, x: States) -> Tensor | None:
    """From which clean states x can be reached, bool (batch, *shape, S); None where from all."""
    return kernel.columns(x, torch.float64) > 0 if kernel.may_have_zeros else None


def reachable_probs(kernel: DenseKernel, x: States, posterior: Posterior) -> PerState:
    """p given that x has been reached."""
    reachable = reachable_states(kernel, x)
    if reachable is None:
        return posterior.probs
    # Where x cannot be, any law will do.
    return posterior.restricted(reachable | ~reachable.any(-1, keepdim=True)).probs


def times(fresh: Tensor, other: Tensor) -> Tensor:
    """fresh * other, in the memory of ``fresh``, which nobody else holds, where no gradient needs it."""
    return fresh * other if other.requires_grad else fresh.mul_(other)
