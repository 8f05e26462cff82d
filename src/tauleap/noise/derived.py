"""The cache of a process: tables and kernels that follow from its buffers and attributes."""

from __future__ import annotations

import weakref
from collections import OrderedDict
from collections.abc import Callable, Collection
from typing import Any

import torch
from torch import Tensor

from tauleap import _device
from tauleap._shapes import Time
from tauleap.noise.kernel import DenseKernel

_CACHE_BYTES = 2**29


def _identity(t: Time) -> object:
    """Return a key of the times without reading the values of a tensor, which may have changed since."""
    return (t, t._version) if isinstance(t, Tensor) and not t.is_inference() else t


def _same(one: object, other: object) -> bool:
    """Return whether two results of ``_identity`` are the same times; false for tensors that count no writes."""
    if isinstance(one, tuple) and isinstance(other, tuple):
        return one[0] is other[0] and one[1] == other[1]
    return isinstance(one, float | int) and one == other


class Derived:
    """Cache what follows from the buffers and attributes of a process: tables, and kernels by their amount of noise.

    Never copied or saved with the process: it is computed again when it is needed.
    """

    def __init__(self) -> None:
        self._values: dict[str, Any] = {}
        self._kernels: OrderedDict[float, DenseKernel] = OrderedDict()
        self._last: tuple[Tensor, list[object], weakref.ref[DenseKernel]] | None = None
        self._buffers: list[tuple[Tensor, int | None]] = []

    def valid_for(self, buffers: Collection[Tensor | None]) -> Derived:
        """Return this cache, emptied if a buffer has been replaced or written to since the last call."""
        number = 0
        for buffer in buffers:
            if buffer is None:
                continue
            if number == len(self._buffers):
                break
            known, version = self._buffers[number]
            if buffer is not known or (version is not None and buffer._version != version):
                break
            number += 1
        else:
            if number == len(self._buffers):
                return self
        self.clear()
        # A tensor made in inference mode does not count how often it has been written to.
        self._buffers = [(b, None if b.is_inference() else b._version) for b in buffers if b is not None]
        return self

    def get(self, name: str, make: Callable[[], Any]) -> Any:
        if name not in self._values:
            with torch.inference_mode(False):  # the cached kernel must also be usable where gradients are computed
                self._values[name] = make()
        return self._values[name]

    def kernel(self, c: Tensor, times: tuple[Time, Time], make: Callable[[], DenseKernel]) -> DenseKernel:
        """Return the kernel of one amount of noise, or of one per sample, from the cache or newly made.

        The kernels of one amount each are found by their numbers. One kernel per sample is large, so that the last is
        found again only as long as it is in use: on the CPU by its amounts of noise ``c``; elsewhere, where the host
        would wait for a comparison, by the tensors of ``times`` from which they came.
        """
        if c.ndim == 0:
            noise = float(c)
            if noise not in self._kernels:
                with torch.inference_mode(False):
                    kernel = self._kernels[noise] = make()
                size = 4 * kernel.matrix.nbytes  # with the tables that using it makes
                while len(self._kernels) > max(1, _CACHE_BYTES // size):
                    self._kernels.popitem(last=False)
            self._kernels.move_to_end(noise)
            return self._kernels[noise]
        kernel, here = None, _device.is_host(c.device)
        if self._last is not None and (kernel := self._last[2]()) is not None:
            known, before, _ = self._last
            if not (torch.equal(known, c) if here else all(map(_same, map(_identity, times), before))):
                kernel = None
        if kernel is None:
            identities = [] if here else [_identity(t) for t in times]
            with torch.inference_mode(False):
                kernel = make()
            self._last = c.clone(), identities, weakref.ref(kernel)
        return kernel

    def clear(self) -> None:
        self._values.clear()
        self._kernels.clear()
        self._last = None
        self._buffers = []

    def __reduce__(self) -> tuple[type[Derived], tuple[()]]:
        return Derived, ()  # copies, and what else is made of the object's parts, make their own
