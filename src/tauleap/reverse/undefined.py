"""Sites without a distribution: a network's NaN must become an error, not a sample.

Looking at a value makes the host wait for an accelerator. There the first such site is recorded on the device, and
:func:`reporting_undefined` looks once, at the end of the call. On the CPU the error comes at once.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

import torch

from tauleap import _check
from tauleap._shapes import SiteMask, Time
from tauleap.denoise import Posterior


class _Record:
    """The first undefined site of a call, as tensors on the device."""

    def __init__(self, undefined: SiteMask, t: Time) -> None:
        flat, self.shape = undefined.reshape(-1), undefined.shape[1:]
        self.total = flat.numel()
        self.count, self.position = flat.sum(), flat.to(torch.uint8).argmax()
        times = _check.as_time(t).to(torch.float32).to(flat.device).expand(len(undefined))
        self.time = times[self.position // max(1, math.prod(self.shape))]

    def keep_first(self, later: _Record) -> None:
        """Take over what ``later`` found, where nothing was found before."""
        nothing = self.count == 0
        for name in ("count", "position", "time"):
            setattr(self, name, torch.where(nothing, getattr(later, name), getattr(self, name)))

    def raise_if_any(self) -> None:
        """Raise an error that names the time and the first site. The host waits here."""
        count = int(self.count)
        if count == 0:
            return
        row, place = divmod(int(self.position), max(1, math.prod(self.shape)))
        site = tuple(int(i) for i in torch.unravel_index(torch.tensor(place), self.shape)) if self.shape else ()
        raise ValueError(
            f"the denoiser returns no distribution at t = {float(self.time):.6g} for {count} of {self.total} sites, "
            f"first at site {site} of row {row} of the batch: its logits there are NaN, +inf, or -inf for every clean "
            "state from which x can come; check the network's weights, and give a finite logit to each data state"
        )


class _Call:
    """What is recorded during one call of a sampler's loop."""

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
    if _host_may_look(undefined.device):
        if bool(undefined.any()):
            _Record(undefined, t).raise_if_any()
    elif (call := _CALL.get()) is not None:
        call.add(_Record(undefined, t))
        return posterior.uniform_at(undefined)
    return posterior


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


def _host_may_look(device: torch.device) -> bool:
    return device.type == "cpu"
