"""Rank-one processes: at every event a site forgets its state and draws a new one from the law pi.

    R_b = base_rate (1 pi^T - I),      q = alpha I + (1 - alpha) 1 pi^T,      alpha = exp(-base_rate c)

Uniform and absorbing noise are of this kind. Everything is O(S) per site and no (S, S) matrix is formed, so a text
vocabulary of 50,257 states is ordinary; ``pi`` may differ from site to site.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import NamedTuple, final

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import Law, Matrix, PerSite, PerState, States, Time
from tauleap.noise.kernel import Kernel, along_batch, at_own_state, relative_entropy_terms
from tauleap.noise.process import ForwardProcess
from tauleap.noise.schedule import Schedule

_DOMINANT = 0.9  # with more mass in one state, float32 leaves fewer than six digits of the mass of the others


class LawFacts(NamedTuple):
    """Hold properties of a law as plain numbers, which are read from the device once, since reading waits."""

    least: float
    least_positive: float
    even: bool
    """Whether all states have the same probability, and all sites."""
    spread: bool
    """False where every law has all its mass in one state."""
    dominated: bool
    """Whether some state has nearly all of the mass, so that ``1 - pi`` has lost its digits."""

    @staticmethod
    def of(law: Law) -> LawFacts:
        """Return the properties of ``law``, (S,) or (*shape, S), by one read from the device."""
        positive = torch.where(law > 0, law, torch.inf).min()
        spread = (law.amax(-1) < 1).any()
        dominated = ((law > _DOMINANT) & (law < 1)).any()
        found = torch.stack([law.min(), law.max(), positive, spread.to(law.dtype), dominated.to(law.dtype)]).tolist()
        least, largest, least_positive, spread, dominated = found
        even = law.ndim == 1 and least == largest
        return LawFacts(least, least_positive, even, even or bool(spread), bool(dominated))


class RankOneKernel(Kernel):
    """Hold a rank-one kernel alpha I + (1 - alpha) 1 pi^T with alpha = exp(-noise).

    Args:
        noise: base_rate times c, in float64, () or (B,).
        law: The distribution pi, (S,) or (*shape, S).
        elsewhere: The mass of all other states, for each state: ``mass_elsewhere(law)``.
        facts: Properties of ``law`` as plain numbers.

    >>> from tauleap.noise import Absorbing, Constant
    >>> kernel = Absorbing(3, Constant(1.0)).kernel(0.5)
    >>> kernel.alpha, kernel.law
    (tensor(0.6065, dtype=torch.float64), tensor([0., 0., 1.], dtype=torch.float64))
    """

    def __init__(self, noise: Tensor, law: Law, elsewhere: Law, facts: LawFacts) -> None:
        self.noise, self.facts = noise, facts
        self.alpha = torch.exp(-noise)
        self.one_minus_alpha = -torch.expm1(-noise)
        self.law, self.elsewhere = law, elsewhere

    def law_at(self, x: States) -> PerSite:
        """Return pi_x, the probability of each site's own state, in float64.

        Args:
            x: The states.
        """
        return at_own_state(self.law, x)

    def rows(self, x: States, dtype: torch.dtype) -> PerState:
        alpha, one_minus_alpha = self._factors(x.ndim + 1, x.device, dtype)
        out = (one_minus_alpha * _device.moved_to(self.law, x.device, dtype)).expand(*x.shape, -1).clone()
        return out.scatter_add_(-1, x[..., None], alpha.expand(*x.shape, 1))

    def columns(self, x: States, dtype: torch.dtype) -> PerState:
        elsewhere = along_batch(self.one_minus_alpha, x.ndim) * self.law_at(x)
        at_x = along_batch(self.alpha, x.ndim) + elsewhere
        out = _device.moved_to(elsewhere, x.device, dtype)[..., None].repeat(*(1,) * x.ndim, self.law.shape[-1])
        return out.scatter_(-1, x[..., None], _device.moved_to(at_x, x.device, dtype)[..., None])

    def propagate(self, w: PerState) -> PerState:
        alpha, one_minus_alpha = self._factors(w.ndim, w.device, w.dtype)
        return alpha * w + one_minus_alpha * w.sum(-1, keepdim=True) * _device.moved_to(self.law, w.device, w.dtype)

    def sample(self, x: States, generator: torch.Generator | None) -> States:
        stays = _draw.uniforms(x.shape, self.law.device, generator) < along_batch(self.alpha, x.ndim)
        drawn = _draw.from_law(self.law, x.shape, generator)
        return torch.where(stays, x.to(drawn.device), drawn).to(x.device)

    def divergences(self, prior: Law) -> Law | None:
        """Return KL(q(. | x0) || prior) for every x0, in O(S) for all of them together.

            sum_{v != x0} (1 - alpha) pi_v log((1 - alpha) pi_v / prior_v) + q(x0 | x0) log(q(x0 | x0) / prior_x0)

        Args:
            prior: The distribution to compare with, (S,) or (*shape, S).
        """
        q_elsewhere = self.one_minus_alpha * self.law
        away, own = relative_entropy_terms(q_elsewhere, prior), self.alpha + q_elsewhere
        # Infinite terms of the other states are counted, since subtracting one from the sum would be inf - inf.
        infinite = torch.isinf(away)
        finite = torch.where(infinite, 0.0, away)
        others = finite.sum(-1, keepdim=True) - finite
        elsewhere = infinite.sum(-1, keepdim=True) > infinite.long()
        return torch.where(elsewhere, torch.inf, others + relative_entropy_terms(own, prior))

    def _factors(self, ndim: int, device: torch.device, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
        factors = (along_batch(factor, ndim) for factor in (self.alpha, self.one_minus_alpha))
        alpha, one_minus_alpha = (_device.moved_to(factor, device, dtype) for factor in factors)
        return alpha, one_minus_alpha


def mass_elsewhere(law: Law) -> Law:
    """Return the probability of all states but each one, in the shape of ``law``.

    1 - pi_x has no digits left where nearly all of the mass is in x: there the others are added up.
    """
    largest = law.argmax(-1, keepdim=True)
    others = law.scatter(-1, largest, 0.0).sum(-1, keepdim=True)
    return (1 - law).scatter_(-1, largest, others)


class RankOneProcess(ForwardProcess):
    """Define a process ``R_b = base_rate (1 pi^T - I)``; subclasses define ``stationary`` and ``base_rate``.

    >>> from tauleap.noise import Constant
    >>> class Biased(RankOneProcess):
    ...     def stationary(self):
    ...         return torch.tensor([0.75, 0.25], dtype=torch.float64)
    >>> Biased(2, Constant(1.0)).generator()
    tensor([[-0.2500,  0.2500],
            [ 0.7500, -0.7500]], dtype=torch.float64)
    """

    base_rate: float = 1.0

    @abstractmethod
    def stationary(self) -> Law:
        """Return pi in float64, (S,) or (*shape, S)."""

    def kernel(self, t: Time, s: Time = 0.0) -> RankOneKernel:
        return self.kernel_after(self.noise_between(s, t))

    @final
    def kernel_after(self, c: Tensor) -> RankOneKernel:
        """Return the kernel after the noise ``c``: O(1) per sample, without a cache.

        Args:
            c: The amount of noise, float64 of shape () or (batch,).
        """
        law = self.stationary()
        noise = self.base_rate * (_device.moved_to(c, law.device) if c.ndim else c)
        return RankOneKernel(noise, law, self.elsewhere(), self.cached("facts", lambda: LawFacts.of(law)))

    @final
    def elsewhere(self) -> Law:
        """Return the stationary mass of all states but each one, in float64."""
        return self.cached("mass elsewhere", lambda: mass_elsewhere(self.stationary()))

    def generator(self) -> Matrix:
        law = self.stationary()
        if law.ndim > 1:
            raise ValueError(
                f"the sites have laws of their own, shape {tuple(law.shape)}, so there is no one generator: "
                "write RankOne(prior[site], schedule).generator() for one of them"
            )
        identity = torch.eye(self.num_states, dtype=law.dtype, device=law.device)
        return self.base_rate * (law.expand(self.num_states, -1) - identity)

    def _base_rates_from(self, x: States, dtype: torch.dtype) -> PerState:
        law = _device.moved_to(self.base_rate * self.stationary(), x.device, dtype)
        out = law.expand(*x.shape, -1).clone()
        return out.scatter_(-1, x[..., None], 0.0)

    def _base_rates_into(self, x: States, dtype: torch.dtype) -> PerState:
        into = _device.moved_to(self.base_rate * at_own_state(self.stationary(), x), x.device, dtype)
        return into[..., None].repeat(*(1,) * x.ndim, self.num_states).scatter_(-1, x[..., None], 0.0)

    def _base_rates_at(self, x: States, sites: Tensor) -> Tensor:
        law, sites = self.stationary(), sites.to(self.stationary().device)
        if law.ndim > 1:
            law = law.reshape(-1, law.shape[-1])[sites % x[:1].numel()]
        own = x.to(law.device).reshape(-1)[sites]
        return law.expand(len(sites), -1).clone().scatter_(-1, own[:, None], 0.0)

    def base_exit_rates(self) -> Law:
        return self.base_rate * self.elsewhere()

    def _check_sites(self, shape: torch.Size, name: str) -> None:
        law = self.stationary()
        if law.ndim > 1 and shape[1:] != law.shape[:-1]:
            raise ValueError(
                f"{name} must have shape (batch, *sites), where the sites {tuple(law.shape[:-1])} are those of the "
                f"prior, got {tuple(shape)}"
            )


class RankOne(RankOneProcess):
    """Jump to a state drawn from any distribution pi at rate beta: ``R_b = 1 pi^T - I``.

    A site does not have states of probability 0: data is never in them, and noise never reaches them.

    Hybrid noise, a mask and uniform noise together, is of this kind (GIDD, von Rütte et al. 2025): pi has most of its
    mass in a state that data does not have, and the rest spread over the data states. Masked sites are filled as under
    absorbing noise, and filled sites can still change.

    Args:
        prior: The distribution pi, (S,) or, with one per site, (*shape, S).
        schedule: The noise schedule beta(t).
        data_states: The states that data may have, bool like ``prior``, among those of positive probability. Default:
            all of these.

    Raises:
        TypeError: ``data_states`` is not bool.
        ValueError: ``prior`` is not a distribution, or ``data_states`` does not fit it.

    >>> from tauleap.noise import LogLinear
    >>> process = RankOne(torch.tensor([0.6, 0.2, 0.2]), LogLinear())
    >>> process.kernel_from(torch.tensor([[0]]), 0.5)
    tensor([[[0.8002, 0.0999, 0.0999]]], dtype=torch.float64)
    >>> hybrid = RankOne(torch.tensor([0.05, 0.05, 0.9]), LogLinear(), data_states=torch.tensor([True, True, False]))
    >>> hybrid.data_states
    tensor([ True,  True, False])
    """

    def __init__(self, prior: Law, schedule: Schedule, data_states: Tensor | None = None) -> None:
        law = _check.law("prior", prior)
        super().__init__(law.shape[-1], schedule)
        self.register_buffer("law", law)
        self.law: Tensor
        self.register_buffer("allowed", None if data_states is None else _checked_states(data_states, law))
        self.allowed: Tensor | None

    def stationary(self) -> Law:
        return self.law

    @property
    def data_states(self) -> Tensor:
        return self.law > 0 if self.allowed is None else self.allowed


def _checked_states(data_states: object, law: Law) -> Tensor:
    if not isinstance(data_states, Tensor) or data_states.dtype != torch.bool:
        given = data_states.dtype if isinstance(data_states, Tensor) else type(data_states).__name__
        raise TypeError(f"data_states must be a bool tensor like prior, true for the states of data, got {given}")
    if data_states.shape != law.shape:
        raise ValueError(
            f"data_states must have the shape of prior, {tuple(law.shape)}, got {tuple(data_states.shape)}"
        )
    if bool((data_states & (law == 0).to(data_states.device)).any()):
        raise ValueError(
            "data_states names states of probability 0, which noise never reaches: give them a probability in prior"
        )
    if not bool(data_states.any(-1).all()):
        raise ValueError("data_states must name at least one state of every site, got none")
    return data_states.detach().clone()
