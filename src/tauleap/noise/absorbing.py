"""Absorbing noise: a site jumps to one state, the mask, and stays there (Appendix E)."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._shapes import Law
from tauleap.noise.process import ForwardProcess
from tauleap.noise.rank_one import RankOneProcess
from tauleap.noise.schedule import Schedule


class Absorbing(RankOneProcess):
    """Jump from every data state to the mask ``*`` at rate beta, and stay there: ``R_b = 1 e_*^T - I``.

    At time 1 a fraction ``alpha = exp(-c(1))`` of the sites is not masked yet. The prior of the likelihood bound
    spreads this mass over the data states, because with the mask alone the bound would be infinite. Sampling starts
    fully
    masked: a site that started in a random data state would never leave it.

    Args:
        num_states: The number of states S, including the mask, >= 2.
        schedule: The noise schedule beta(t).
        mask: The state that is the mask. Default: the last one.
        sizes: The number of data states of each site, int64 of shape (*shape), where sites differ. A site has the first
            ``size`` data states; its data, noise and prior are restricted to these and the mask. Default: all states.

    Raises:
        ValueError: ``mask`` is not a state, or a size is out of range.

    >>> from tauleap.noise import Constant
    >>> Absorbing(3, Constant(1.0)).generator()
    tensor([[-1.,  0.,  1.],
            [ 0., -1.,  1.],
            [ 0.,  0.,  0.]], dtype=torch.float64)
    """

    def __init__(
        self, num_states: int, schedule: Schedule, mask: int | None = None, sizes: Tensor | None = None
    ) -> None:
        super().__init__(num_states, schedule)
        chosen = self.num_states - 1 if mask is None else _check.integer("mask", mask, least=0)
        if chosen >= self.num_states:
            raise ValueError(f"mask must be one of the states 0..{self.num_states - 1}, got {mask}")
        self.mask = chosen
        law = torch.zeros(self.num_states, dtype=torch.float64)
        law[chosen] = 1.0
        self.register_buffer("law", law, persistent=False)
        self.law: Tensor
        self.register_buffer("sizes", None if sizes is None else _checked(sizes, self.num_states))
        self.sizes: Tensor | None

    def stationary(self) -> Law:
        return self.law

    def prior(self) -> Law:
        left = _device.moved_to(torch.exp(-self.schedule.total(1.0)), self.law.device)
        data = self.data_states
        return torch.where(data, left / data.sum(-1, keepdim=True), (1 - left) * self.law)

    def sampling_prior(self) -> Law:
        """Return the law that is certain of the mask."""
        return self.law

    @property
    def data_states(self) -> Tensor:
        return self.cached("data states", self._data_states)

    def _data_states(self) -> Tensor:
        data = self.law == 0
        return data if self.sizes is None else data & (data.cumsum(0) <= self.sizes[..., None].to(data.device))

    def _check_sites(self, shape: torch.Size, name: str) -> None:
        if self.sizes is not None and shape[1:] != self.sizes.shape:
            raise ValueError(
                f"{name} must match the sites {tuple(self.sizes.shape)} of the process, one per entry of sizes, got "
                f"sites {tuple(shape[1:])}"
            )

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, mask={self.mask}"


def mask_of(process: ForwardProcess, need: str, remedy: str) -> int:
    """Return the mask that a process declares; raise a ValueError for other than absorbing noise.

    Args:
        process: The process.
        need: What needs absorbing noise, and why, for the message.
        remedy: What to write instead.
    """
    if process.mask is not None:
        return process.mask
    raise ValueError(f"{need}, got {type(process).__name__}: {remedy}")


def _checked(sizes: object, num_states: int) -> Tensor:
    if not isinstance(sizes, Tensor) or sizes.dtype != torch.int64:
        given = sizes.dtype if isinstance(sizes, Tensor) else type(sizes).__name__
        raise TypeError(f"sizes must be an int64 tensor (*shape), the number of data states of each site, got {given}")
    if sizes.ndim < 1 or sizes.numel() == 0 or int(sizes.min()) < 1 or int(sizes.max()) >= num_states:
        raise ValueError(
            f"sizes must hold numbers of data states in 1..{num_states - 1} for one or more sites, got "
            f"{sizes.flatten().tolist()[:10]} of shape {tuple(sizes.shape)}"
        )
    return sizes.detach().clone()
