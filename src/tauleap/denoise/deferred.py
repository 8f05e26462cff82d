"""Predictions of a denoiser that is evaluated when logits are needed, and for the rows that need them alone.

A sampler that draws the sites that move before it looks at a logit leaves many rows as they are, above all on fine
grids: they need no prediction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _device
from tauleap._shapes import Time
from tauleap.denoise.lazy import Lazy
from tauleap.denoise.posterior import Posterior
from tauleap.denoise.undefined import check_defined, check_rows_defined

_MANY_ROWS = 64
"""Rows from which on an accelerator evaluates some of them: the host must wait for their number, and an accelerator
evaluates a few rows in about the time of one."""


class Deferred(Lazy):
    """Evaluate a denoiser for the rows of the sites in use, and check that these sites have a distribution.

    Args:
        evaluate: Returns the posterior of some rows, given by their numbers, or of all for None.
        shape: (batch, *shape, S).
        device: The device of the results.
        t: The time, for errors.
        selects_rows: Whether some rows may be evaluated without the others. Default: True.
    """

    def __init__(
        self,
        evaluate: Callable[[Tensor | None], Posterior],
        shape: torch.Size,
        device: torch.device,
        t: Time,
        *,
        selects_rows: bool = True,
    ) -> None:
        self._selects_rows = selects_rows
        self._evaluate, self.shape, self._device, self._t = evaluate, shape, device, t
        self._part: Posterior | None = None
        self._places: Tensor | None = None  # of each row in the part, -1 if it is not there; None if all are
        self.evaluated = 0
        """The number of rows that were evaluated."""

    @property
    def device(self) -> torch.device:
        return self._device

    def prepare(self, sites: Tensor) -> None:
        if self._part is not None:
            return
        if not self._selects_rows or (not _device.is_host(sites.device) and self.shape[0] < _MANY_ROWS):
            self._evaluate_all()
            return
        needed = torch.zeros(self.shape[0], dtype=torch.bool, device=sites.device)
        rows = needed.index_fill_(0, sites // self._sites_per_row, True).nonzero().squeeze(-1)
        if len(rows) == self.shape[0]:
            self._evaluate_all()
            return
        self._part, self.evaluated = self._evaluate(rows), self.evaluated + len(rows)
        places = torch.full(needed.shape, -1, dtype=torch.int64, device=sites.device)
        self._places = places.index_copy_(0, rows, torch.arange(len(rows), device=sites.device))

    def rows(self, sites: Tensor | None) -> Float[Tensor, "n states"]:
        if sites is None:
            whole = self._evaluate_all() if self._part is None or self._places is not None else self._part
            return check_defined(whole, self._t).logits.reshape(-1, self.shape[-1])
        if not len(sites):
            return torch.empty(0, self.shape[-1], device=self.device)
        part, place = self._evaluated(sites)
        return check_rows_defined(part.at(place), sites, self.shape[:-1], self._t)

    def parts(self, sites: Tensor) -> Iterator[tuple[slice | Tensor, Float[Tensor, "n states"]]]:
        if not len(sites):
            return
        part, place = self._evaluated(sites)
        for some, logits in part.parametrisation.parts(place):
            yield some, check_rows_defined(logits, sites[some], self.shape[:-1], self._t)

    def _evaluated(self, sites: Tensor) -> tuple[Posterior, Tensor]:
        """Return the posterior of the evaluated rows, and the places of the sites in it."""
        self.prepare(sites)
        part, place = self._part, sites
        if part is None or (self._places is not None and self._misses(sites)):
            part = self._evaluate_all()
        if self._places is not None:
            place = self._places[sites // self._sites_per_row] * self._sites_per_row + sites % self._sites_per_row
        return part, place

    @property
    def _sites_per_row(self) -> int:
        return self.shape[1:-1].numel()

    def _misses(self, sites: Tensor) -> bool:
        """Return whether the row of a site was not evaluated; on the CPU only, as indexing fails elsewhere."""
        if self._places is None or not _device.is_host(self._places.device):
            return False
        return bool((self._places[sites // self._sites_per_row] < 0).any())

    def _evaluate_all(self) -> Posterior:
        self._part, self._places = self._evaluate(None), None
        self.evaluated += self.shape[0]
        return self._part
