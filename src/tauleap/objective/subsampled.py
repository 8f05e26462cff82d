"""An objective from a part of the sites, and from fewer times than samples: the same in expectation, for less work."""

from __future__ import annotations

from functools import cached_property

import torch
from jaxtyping import Float
from torch import Tensor

from tauleap import _check
from tauleap._shapes import PerSite, States
from tauleap.denoise import Posterior
from tauleap.noise import Kernel
from tauleap.objective.draw import Draw, Pass
from tauleap.objective.objective import Loss, Objective, _parts
from tauleap.reverse import ReverseProcess
from tauleap.reverse.at import ReverseAt


class Subsampled(Objective):
    """An unbiased estimate of ``objective``: the network sees everything, the loss looks at some of the sites.

    With many states the loss costs as much as a small network, S^2 a site and S^3 a time where the generator has no
    structure, and neighbouring sites have much the same to say. So the loss looks at the share ``sites`` of all sites,
    drawn anew for every batch, and counts each of them 1 / ``sites`` times; and ``share`` samples of a batch have one
    time together, whose kernels are then made once.

    >>> from tauleap.objective import CompleteElbo
    >>> Subsampled(CompleteElbo(), sites=0.25, share=4)
    Subsampled(CompleteElbo(), sites=0.25, share=4)

    ``PaperElbo`` is not for this: it looks at x~, which differs from x at one site, and that one must be seen. Neither
    are processes whose sites have laws of their own. A batch that ``share`` does not divide shares as many as do.
    """

    def __init__(self, objective: Objective, *, sites: float = 1.0, share: int = 1) -> None:
        if not isinstance(objective, Objective):
            raise TypeError(f"objective must be an objective, such as CompleteElbo(), got {type(objective).__name__}")
        if "jumped" in objective.needs:
            raise ValueError(
                f"{objective!r} looks at the one site that jumped once more, which a part of the sites need not hold: "
                "take CompleteElbo()"
            )
        if any(isinstance(part, Subsampled) for _, part in _parts(objective)):
            raise ValueError(f"{objective!r} looks at a part already: write Subsampled once, around all that is added")
        self.objective = objective
        self.sites = _check.positive("sites", sites)
        if self.sites > 1:
            raise ValueError(f"sites must be a share of the sites in (0, 1], got {sites!r}")
        self.share = _check.integer("share", share, least=1)
        self.times = objective.times
        self.integrates = objective.integrates

    @property
    def needs(self) -> frozenset[Pass]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.objective.needs

    def evaluate(self, draw: Draw) -> Loss:
        if draw.reverse.process.prior().ndim > 1:
            raise ValueError("the sites of this process have laws of their own: a part of them cannot stand for all")
        return self.objective.evaluate(_part(draw, self.sites))

    def __repr__(self) -> str:
        return f"Subsampled({self.objective!r}, sites={self.sites:g}, share={self.share})"


def _part(draw: Draw, sites: float) -> Draw:
    """The same sites for all objectives that are added."""
    if sites not in draw.parts:
        draw.parts[sites] = _Part(draw, sites)
    return draw.parts[sites]


class _Part(Draw):
    """A draw of which some sites are looked at, samples that share a time in one row: (batch / share, share * sites).

    After the network was asked every site is on its own, so that it does not matter in which row it stands. So each row
    has a time of its own here, and nothing is shared any more.
    """

    def __init__(self, whole: Draw, sites: float) -> None:
        self._whole, self._sites = whole, sites
        self.reverse: ReverseProcess = whole.reverse
        self.times, self.passes, self.given, self.weight = whole.times, whole.passes, whole.given, whole.weight
        self.observed, self.missing, self.condition = whole.observed, whole.missing, whole.condition
        self.rows, self.generator, self.share, self.parts = whole.rows, whole.generator, 1, {}
        self.t, self.samples = whole.distinct, whole.samples
        every = whole.x0[0].numel()
        count = max(1, round(sites * every))
        self._chosen = None if count == every else _some(every, count, whole)
        self._factor = every / count
        self.x0: States = self._narrowed(whole.x0)
        self.scored = self._narrowed(whole.scored)
        self._at: dict[Pass, ReverseAt] = {}

    @property
    def _kernel(self) -> Kernel:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self._whole._kernel

    @cached_property
    def noised(self) -> States:
        return self._narrowed(self._whole.noised)

    @cached_property
    def earliest(self) -> States:
        return self._narrowed(self._whole.earliest)

    @property
    def jumped(self) -> States:  # pyright: ignore[reportIncompatibleVariableOverride]
        raise ValueError("the site that jumped once more need not be in a part of the sites: look at noised")

    @property
    def count(self) -> Tensor:
        return self._whole.count

    @cached_property
    def _posteriors(self) -> dict[Pass, Posterior]:
        return {which: self._whole.posterior(which).rearranged(self._narrowed) for which in self.passes}

    def sum(self, values: PerSite) -> Float[Tensor, " samples"]:
        return self._factor * super().sum(values)

    def per_sample(self, values: Tensor) -> Tensor:
        return values.repeat_interleave(self._whole.share)

    def again(self, t: float) -> Draw:
        return _Part(self._whole.again(t), self._sites)

    def _narrowed(self, values: Tensor) -> Tensor:
        """(batch, *shape, *more) -> (batch / share, share * sites, *more), whatever ``more`` is."""
        batch, more = len(values), values.shape[self._whole.x0.ndim :]
        some = values.reshape(batch, -1, *more)
        if self._chosen is not None:
            some = some.index_select(1, self._chosen)
        return some.reshape(batch // self._whole.share, -1, *more)


def _some(every: int, count: int, draw: Draw) -> Tensor:
    """The numbers of ``count`` sites out of ``every``, in order, each set of them as likely as another."""
    device = draw.generator.device if draw.generator is not None else draw.x0.device
    return torch.randperm(every, generator=draw.generator, device=device)[:count].sort().values.to(draw.x0.device)
