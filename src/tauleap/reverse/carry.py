"""What a site's own state says of its x0, exchanged.

The posterior of a site has two sources, ``p(x0 | x) ~ r(x0) q_t|0(x | x0)``: what the other sites say, r, and what the
site's own state says, q. The second is known exactly, so it can be taken out and put in again for another state y of
the site at another time s:

    p(x0) q_s|0(y | x0) / q_t|0(x | x0)

This is what the denoiser would say if the site had moved from x to y, its own noise had fallen from t to s, and the
other sites had stayed as they were, noise and all.
"""

from __future__ import annotations

import torch

from tauleap import _device
from tauleap._shapes import PerState, States
from tauleap.denoise import Posterior
from tauleap.noise import DenseKernel, Kernel, RankOneKernel
from tauleap.noise.kernel import along_batch


def carried(posterior: Posterior, x: States, at: Kernel, y: States, to: Kernel) -> Posterior:
    """``posterior``, of sites in the states x with the kernel ``at``, for the states y with the kernel ``to``.

    Where y cannot come from any x0 that x allows, the posterior stays as it is.
    """
    logits = posterior.logits
    if isinstance(at, RankOneKernel) and isinstance(to, RankOneKernel):
        exchanged = _exchange_rank_one(_exchange_rank_one(logits, x, at, -1.0), y, to, 1.0)
    elif isinstance(at, DenseKernel) and isinstance(to, DenseKernel):
        exchanged = (logits - _log_columns(at, x, logits.dtype)).add_(_log_columns(to, y, logits.dtype))
        # -inf - -inf: what x forbids is forbidden.
        exchanged = exchanged.masked_fill_(exchanged.isnan() | exchanged.isposinf(), -torch.inf)
    else:
        raise TypeError(f"{type(at).__name__} and {type(to).__name__} are not kernels of one process")
    impossible = (exchanged == -torch.inf).all(-1, keepdim=True)
    return Posterior(torch.where(impossible, logits, exchanged))


def _log_columns(kernel: DenseKernel, x: States, dtype: torch.dtype) -> PerState:
    return kernel.select(kernel.table("log columns", dtype, lambda: kernel.matrix.mT.log()), x)


def _exchange_rank_one(logits: PerState, x: States, kernel: RankOneKernel, sign: float) -> PerState:
    """Adds ``sign log q(x | .)`` up to a constant: only at x0 = x is it not the same for all x0."""
    law = kernel.law_at(x)
    elsewhere = along_batch(kernel.moved, x.ndim) * law
    known = elsewhere == 0  # then x0 is x
    extra = torch.log1p(along_batch(kernel.stayed, x.ndim) / torch.where(known, 1.0, elsewhere))
    extra = _device.moved_to(torch.where(known, 0.0, sign * extra), logits.device, logits.dtype)
    out = logits.scatter_add(-1, x[..., None], extra[..., None])
    if sign > 0 and (not _device.is_host(known.device) or bool(known.any())):
        own = torch.arange(logits.shape[-1], device=x.device) == x[..., None]
        out = out.masked_fill(known.to(x.device)[..., None] & ~own, -torch.inf)
    return out
