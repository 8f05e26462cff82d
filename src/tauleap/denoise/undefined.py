"""Sites without a distribution: a network's NaN must become an error, not a sample.

Looking at a value makes the host wait for an accelerator. There the first such sites are recorded on the device, and
:func:`reporting_undefined` looks once, at the end of the call. On the CPU the error comes at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _check, _device
from tauleap._device import is_host
from tauleap._shapes import SiteMask, Time
from tauleap.denoise.posterior import Posterior

_NAMED = 3
"""How many sites a message names."""


class _Record:
    """Hold the first undefined sites of a call, as tensors on the device."""

    def __init__(self, undefined: SiteMask, t: Time) -> None:
        flat, self.shape = undefined.reshape(-1), undefined.shape[1:]
        total = flat.numel()
        places = torch.arange(total, device=flat.device).masked_fill(~flat, total)
        first = places.topk(min(_NAMED, total), largest=False).values
        times = _device.moved_to(_check.as_time(t), flat.device, torch.float32).expand(len(undefined))
        # Not ``times[number]``: a number on the device would be read by the host.
        self.time = times.index_select(0, first[:1].clamp(max=total - 1) // max(1, math.prod(self.shape)))[0]
        first = torch.nn.functional.pad(first, (0, _NAMED - len(first)), value=total)
        # Number of undefined sites, number of all, and the positions of the first.
        self.found = torch.cat([torch.stack([flat.sum(), flat.new_full((), total, dtype=torch.int64)]), first])

    def keep_first(self, later: _Record) -> None:
        """Take over what ``later`` found, where nothing was found before."""
        nothing = self.found[0] == 0
        self.found = torch.where(nothing, later.found, self.found)
        self.time = torch.where(nothing, later.time, self.time)

    def raise_if_any(self) -> None:
        """Raise an error that names the time and the first sites. The host waits here."""
        count, total, *positions = self.found.tolist()
        if count == 0:
            return
        named = "; ".join(self._name(place) for place in positions[:count])
        raise ValueError(
            f"the denoiser returns no distribution at t = {float(self.time):.6g} for {count} of {total} sites, "
            f"first at {named} of the batch: its logits there are NaN, +inf, or -inf for every clean state from which "
            "x can come; check the network's weights, and give a finite logit to each data state"
        )

    def _name(self, place: int) -> str:
        row, site = divmod(place, max(1, math.prod(self.shape)))
        axes = tuple(int(i) for i in torch.unravel_index(torch.tensor(site), self.shape)) if self.shape else ()
        return f"site {axes} of row {row}"


class _Call:
    """Hold the record of one call of a sampler's loop."""

    def __init__(self) -> None:
        self.record: _Record | None = None

    def add(self, found: _Record) -> None:
        """Keep the first site of all."""
        if self.record is None:
            self.record = found
        else:
            self.record.keep_first(found)


_CALL: ContextVar[_Call | None] = ContextVar("tauleap_undefined", default=None)


def check_defined(posterior: Posterior, t: Time) -> Posterior:
    """Raise if a site has no distribution: at once on the CPU; on an accelerator when the call ends.

    Until then such a site counts as uniform, because NaN weights make the accelerator's own draws fail for good.
    """
    if posterior.shape[:-1].numel() == 0:
        return posterior
    undefined = posterior.undefined
    if is_host(undefined.device):
        if bool(undefined.any()):
            _Record(undefined, t).raise_if_any()
    elif (call := _CALL.get()) is not None:
        call.add(_Record(undefined, t))
        return posterior.uniform_at(undefined)
    return posterior


def check_rows_defined(
    rows: Float[Tensor, "n states"], sites: Int64[Tensor, " n"], shape: torch.Size, t: Time
) -> Float[Tensor, "n states"]:
    """Return the logits of some sites after the check of :func:`check_defined`.

    Args:
        rows: The logits.
        sites: The positions of the sites.
        shape: (batch, *shape), that of the states.
        t: The time.
    """
    undefined = ~rows.amax(-1).isfinite()

    def everywhere() -> _Record:
        places = torch.zeros(shape, dtype=torch.bool, device=rows.device)
        places.view(-1).index_copy_(0, sites, undefined)
        return _Record(places, t)

    if is_host(undefined.device):
        if bool(undefined.any()):
            everywhere().raise_if_any()
    elif (call := _CALL.get()) is not None and len(rows):
        call.add(everywhere())
        return rows.masked_fill(undefined[:, None], 0.0)
    return rows


@contextmanager
def reporting_undefined() -> Iterator[None]:
    """Raise at the end of the block for what was recorded on an accelerator inside it."""
    call = _Call()
    token = _CALL.set(call)
    try:
        yield
    finally:
        _CALL.reset(token)
    if call.record is not None:
        call.record.raise_if_any()
