"""The reverse process: the one home of the reverse-rate formula (Propositions 1, 3 and 4).

With p(x0 | x) what the denoiser says of a site, q the kernel and R_t the forward rates,

    s_v(x)   = sum_x0 p(x0 | x) q_t|0(v | x0) / q_t|0(x | x0)          how much likelier v is than x at time t
    Rhat(v)  = R_t(v, x) s_v(x)                         v != x         the rate of the reverse jump from x to v
    R_c(v)   = R_t(x, v) + Rhat(v)                      v != x         the corrector's rate: it keeps q_t as it is

Note the transpose: the reverse rate to v has the forward rate from v *into* x. Data states that cannot have led to x
(``q(x | x0) = 0``) are taken out of p before it is normalised; no epsilon hides a zero.

Two things do the arithmetic: ``_DenseReversal`` follows the formula with matrices, and ``_RankOneReversal`` uses what
the formula comes to for ``q = alpha I + (1 - alpha) 1 pi^T``,

    Rhat(v) = beta [ alpha / (1 - alpha) p(v) + (1 - p(x) + p(x) kappa) pi_v ],
    kappa   = (1 - alpha) pi_x / (alpha + (1 - alpha) pi_x).
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from tauleap import _check, _draw
from tauleap._shapes import PerSite, PerState, States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import DenseKernel, ForwardProcess, RankOneKernel, RankOneProcess
from tauleap.noise.kernel import along_batch
from tauleap.observed import Observed

_SMALLEST_IN_FLOAT32 = 1e-18  # from here on p / q times q stays far inside the range of float32


class ReverseProcess(nn.Module):
    """A forward process and a denoiser, turned round: rates of the chain that runs from noise to data.

    Every method takes states x (batch, *shape) and a time; ``posterior`` saves the denoiser's pass where it is known
    from before, ``observed`` marks sites that are given and do not jump, and ``condition`` is passed to the denoiser.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> process = Uniform(2, Constant(0.5))
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([0.9, 0.1]), process))
    >>> reverse.rates(torch.tensor([[1]]), 0.5)
    tensor([[[1.4592, 0.0000]]])
    """

    def __init__(self, process: ForwardProcess, denoiser: Denoiser) -> None:
        super().__init__()
        if not isinstance(process, ForwardProcess):
            raise TypeError(f"process must be a ForwardProcess such as Uniform, got {type(process).__name__}")
        if not isinstance(denoiser, Denoiser):
            raise TypeError(
                f"denoiser must be a Denoiser, got {type(denoiser).__name__}: "
                "for a network write NetworkDenoiser(network)"
            )
        self.process = process
        self.denoiser = denoiser

    def posterior(
        self, x: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """p(x0 | x) over the data states from which x can be reached."""
        x = self._enter(x, t, observed)
        posterior = self._guess(x, t, observed, condition)
        reachable = _reversal(self.process, x, t).reachable()
        if reachable is None:
            return posterior
        possible = reachable & self.process.data_states.to(x.device)
        return posterior.restricted(possible | ~possible.any(-1, keepdim=True))

    def ratios(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
    ) -> PerState:
        """s_v(x), an estimate of q_t(x with the site set to v) / q_t(x); 1 at the site's own state."""
        x = self._enter(x, t, observed)
        return _reversal(self.process, x, t).ratios(posterior or self._guess(x, t, observed, condition))

    def rates(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
    ) -> PerState:
        """Rhat_t(x, .): reverse rates, 0 at the site's own state and at observed sites."""
        x = self._enter(x, t, observed)
        rates = _reversal(self.process, x, t).rates(posterior or self._guess(x, t, observed, condition))
        return rates if observed is None else rates.masked_fill(observed.mask[..., None], 0.0)

    def corrector_rates(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
    ) -> PerState:
        """R_t(x, .) + Rhat_t(x, .), which has q_t as its stationary law (Proposition 4)."""
        rates = self.rates(x, t, observed=observed, condition=condition, posterior=posterior)
        forward = self.process.rates_from(x, t, dtype=rates.dtype)
        if observed is not None:
            forward = forward.masked_fill_(observed.mask[..., None], 0.0)
        return rates + forward

    def exit_rate(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
        corrector: bool = False,
    ) -> PerSite:
        """The sum of a site's reverse rates, or corrector rates, without making them."""
        x = self._enter(x, t, observed)
        out = _reversal(self.process, x, t).exit_rate(posterior or self._guess(x, t, observed, condition))
        if corrector:
            out = out + self.process.exit_rate(x, t, dtype=out.dtype)
        return out if observed is None else out.masked_fill(observed.mask, 0.0)

    def draw_destination(
        self,
        x: States,
        t: Time,
        sites: Tensor,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
        corrector: bool = False,
        generator: torch.Generator | None = None,
    ) -> Tensor:
        """Where the given sites jump to, (n,): draws from their rates, normalised.

        ``sites`` is a bool mask (batch, *shape), or int64 positions in ``x.flatten()``, which may come more than once.
        They must be sites whose exit rate is not 0.
        """
        x = self._enter(x, t, observed)
        chosen = positions(sites, x)
        posterior = posterior or self._guess(x, t, observed, condition)
        reversal = _reversal(self.process, x, t)
        out = reversal.draw_destination(posterior, chosen, generator)
        if not corrector:
            return out
        backward = reversal.exit_rate(posterior).reshape(-1)[chosen].to(torch.float64)
        forward = self.process.exit_rate(x, t, dtype=torch.float64).reshape(-1)[chosen]
        noises = _draw.uniforms(chosen.shape, x.device, generator) * (forward + backward) < forward
        return torch.where(noises, self.process.draw_jump(x, chosen, generator=generator), out)

    def _enter(self, x: States, t: Time, observed: Observed | None) -> States:
        _check.states(x, self.process.num_states)
        _check.time(t, x.shape[0])
        if observed is None:
            return x
        observed.check(x, self.process.num_states)
        return observed.fill(x)

    def _guess(self, x: States, t: Time, observed: Observed | None, condition: Tensor | None) -> Posterior:
        posterior = self.denoiser(x, t, observed=observed, condition=condition)
        if posterior.logits.shape[-1] != self.process.num_states:
            raise ValueError(
                f"the denoiser speaks of {posterior.logits.shape[-1]} states, the process has {self.process.num_states}"
            )
        if self.process.all_states_are_data:
            return posterior
        return posterior.restricted(self.process.data_states.to(x.device))


class _Reversal(ABC):
    """The formula's arithmetic at given states and time."""

    @abstractmethod
    def reachable(self) -> Tensor | None:
        """From which clean states x can be reached, bool (batch, *shape, S); None where from all."""

    @abstractmethod
    def ratios(self, posterior: Posterior) -> PerState: ...

    @abstractmethod
    def rates(self, posterior: Posterior) -> PerState: ...

    @abstractmethod
    def exit_rate(self, posterior: Posterior) -> PerSite: ...

    @abstractmethod
    def draw_destination(self, posterior: Posterior, chosen: Tensor, generator: torch.Generator | None) -> Tensor: ...


def _reversal(process: ForwardProcess, x: States, t: Time) -> _Reversal:
    kernel = process.kernel(t)
    beta = process.schedule.rate(_check.time(t))
    if isinstance(process, RankOneProcess) and isinstance(kernel, RankOneKernel):
        return _RankOneReversal(process.speed * beta, kernel, x)
    if isinstance(kernel, DenseKernel):
        return _DenseReversal(beta, kernel, process.jump_rates(), x)
    raise TypeError(f"the reversal of a {type(kernel).__name__} is not known: return a DenseKernel or a RankOneKernel")


class _DenseReversal(_Reversal):
    """With w(x0) = p(x0) / q(x | x0), the ratios are w Q: one product with the kernel."""

    def __init__(self, beta: Tensor, kernel: DenseKernel, jumps: DenseKernel, x: States) -> None:
        self.beta, self.kernel, self.jumps, self.x = beta, kernel, jumps, x

    def reachable(self) -> Tensor | None:
        return self.kernel.columns(self.x, torch.float64) > 0 if self.kernel.has_zeros else None

    def ratios(self, posterior: Posterior) -> PerState:
        return self._ratios(posterior).to(posterior.logits.dtype)

    def rates(self, posterior: Posterior) -> PerState:
        ratios = self._ratios(posterior)
        into = self.jumps.columns(self.x, ratios.dtype).mul_(self._beta(self.x.ndim + 1, ratios.dtype))
        return _times(into, ratios).to(posterior.logits.dtype)

    def exit_rate(self, posterior: Posterior) -> PerSite:
        probs = self._probs(posterior)
        exits = self.kernel.select(self._exit_table(probs.dtype), self.x)
        return torch.linalg.vecdot(probs, exits) * self._beta(self.x.ndim, probs.dtype)

    def draw_destination(self, posterior: Posterior, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        # The rate is a mixture over x0 of the rates that would hold if x0 were known: draw x0 with the share that it
        # has in the exit rate, then the destination given x0. No product with the kernel is made.
        x, samples = self.x.reshape(-1)[chosen], chosen // self.x[0].numel()
        logits = posterior.logits.reshape(-1, posterior.logits.shape[-1])[chosen]
        exits = self.kernel.select(self._exit_table(torch.float64), x, samples)
        possible = self.kernel.select(self._inverse_table(torch.float64), x, samples) > 0
        x0 = _draw.categorical(Posterior(logits.double()).restricted(possible).probs * exits, generator)
        onward = self.kernel.select(self.kernel.matrix, x0, samples)
        return _draw.categorical(onward * self.jumps.columns(x, torch.float64), generator)

    def _ratios(self, posterior: Posterior) -> PerState:
        """In float64 where p / q leaves the range of a narrower dtype."""
        probs = self._probs(posterior)
        if self.kernel.smallest < _SMALLEST_IN_FLOAT32:
            probs = probs.to(torch.float64)
        inverse = self.kernel.select(self._inverse_table(probs.dtype), self.x)
        return self.kernel.propagate(_times(inverse, probs))

    def _probs(self, posterior: Posterior) -> PerState:
        reachable = self.reachable()
        return posterior.probs if reachable is None else posterior.restricted(reachable).probs

    def _inverse_table(self, dtype: torch.dtype) -> Tensor:
        """1 / q(x | x0) at [x, x0], 0 where x cannot be reached."""

        def make() -> Tensor:
            columns = self.kernel.matrix.mT
            return torch.where(columns > 0, 1 / columns, 0.0)

        return self.kernel.table("inverse", dtype, make)

    def _exit_table(self, dtype: torch.dtype) -> Tensor:
        """sum_v R_b(v, x) q(v | x0) / q(x | x0) at [x, x0]: the exit rate if x0 were known."""
        matrix = self.kernel.matrix
        return self.kernel.table(
            "exit", dtype, lambda: (matrix @ self.jumps.matrix).mT * self._inverse_table(torch.float64)
        )

    def _beta(self, ndim: int, dtype: torch.dtype) -> Tensor:
        return along_batch(self.beta, ndim).to(dtype).to(self.x.device)


class _RankOneReversal(_Reversal):
    """O(S) a site: the rates are a multiple of p plus a multiple of pi."""

    def __init__(self, beta: Tensor, kernel: RankOneKernel, x: States) -> None:
        self.beta, self.kernel, self.x = beta, kernel, x
        self.own_law = kernel.law_at(x)
        stayed, moved = along_batch(kernel.stayed, x.ndim), along_batch(kernel.moved, x.ndim)
        # Where pi_x = 0 nothing comes into x, and where nothing has moved yet nothing came: then x0 is x.
        self.fixed = ((self.own_law == 0) | (moved == 0)).to(x.device)
        self.odds = torch.where(moved == 0, 0.0, stayed / moved)
        arrived = stayed + moved * self.own_law
        self.arrived = torch.where(arrived == 0, 1.0, arrived)  # x cannot be: any number will do

    def reachable(self) -> Tensor | None:
        if not bool(self.fixed.any()):
            return None
        own = torch.arange(self.kernel.law.shape[-1], device=self.x.device) == self.x[..., None]
        return own | ~self.fixed[..., None]

    def ratios(self, posterior: Posterior) -> PerState:
        probs, own, others = self._split(posterior)
        inverse = torch.where(self.own_law > 0, 1 / self.own_law, 0.0)
        moved = along_batch(self.kernel.moved, self.x.ndim)
        on_law = others * self._as(inverse, probs) + own * self._as(moved / self.arrived, probs)
        return self._combine(probs, self._as(self.odds * inverse, probs), on_law, at_own_state=1.0)

    def rates(self, posterior: Posterior) -> PerState:
        probs, own, others = self._split(posterior)
        beta = along_batch(self.beta, self.x.ndim)
        on_law = (others + own * self._as(self._kappa(), probs)) * self._as(beta, probs)
        return self._combine(probs, self._as(self.odds * beta, probs), on_law, at_own_state=0.0)

    def exit_rate(self, posterior: Posterior) -> PerSite:
        probs, own, others = self._split(posterior)
        towards_law = (others + own * self._as(self._kappa(), probs)) * self._as(1 - self.own_law, probs)
        beta = self._as(along_batch(self.beta, self.x.ndim), probs)
        return beta * (self._as(self.odds, probs) * others + towards_law)

    def draw_destination(self, posterior: Posterior, chosen: Tensor, generator: torch.Generator | None) -> Tensor:
        logits = posterior.logits.reshape(-1, posterior.logits.shape[-1])[chosen]
        rates = self._at(chosen).rates(Posterior(logits.to(torch.float64)))
        return _draw.categorical(rates, generator)

    def _at(self, chosen: Tensor) -> _RankOneReversal:
        """The same, for the chosen sites as a batch of their own."""
        sites = self.x[0].numel()
        samples, law = (chosen // sites).to(self.kernel.law.device), self.kernel.law
        if law.ndim > 1:
            law = law.reshape(-1, law.shape[-1])[(chosen % sites).to(law.device)]
        noise, beta = (value[samples] if value.ndim else value for value in (self.kernel.noise, self.beta))
        return _RankOneReversal(beta, RankOneKernel(noise, law), self.x.reshape(-1)[chosen])

    def _split(self, posterior: Posterior) -> tuple[PerState, PerSite, PerSite]:
        """p without each site's own state, p of the own state, and the sum of the rest (1 - p(x) would cancel)."""
        probs, index = posterior.probs, self.x[..., None]
        own = probs.gather(-1, index).squeeze(-1)
        probs = probs.scatter(-1, index, 0.0) if probs.requires_grad else probs.scatter_(-1, index, 0.0)
        others = probs.sum(-1)
        return probs, own.masked_fill(self.fixed, 1.0), others.masked_fill(self.fixed, 0.0)

    def _combine(self, probs: PerState, on_probs: PerSite, on_law: PerSite, *, at_own_state: float) -> PerState:
        law = self.kernel.law.to(probs.dtype).to(probs.device)
        on_probs = on_probs.masked_fill(self.fixed, 0.0)[..., None]
        if probs.requires_grad:
            return torch.addcmul(probs * on_probs, on_law[..., None], law).scatter(-1, self.x[..., None], at_own_state)
        return probs.mul_(on_probs).addcmul_(on_law[..., None], law).scatter_(-1, self.x[..., None], at_own_state)

    def _kappa(self) -> Tensor:
        return along_batch(self.kernel.moved, self.x.ndim) * self.own_law / self.arrived

    def _as(self, value: Tensor, probs: Tensor) -> Tensor:
        return value.to(probs.dtype).to(probs.device)


def positions(sites: Tensor, x: States) -> Tensor:
    """``sites``, a bool mask or positions, as int64 positions in ``x.flatten()``."""
    if not isinstance(sites, Tensor) or sites.dtype not in (torch.bool, torch.int64):
        given = sites.dtype if isinstance(sites, Tensor) else type(sites).__name__
        raise TypeError(f"sites must be a bool mask (batch, *shape) or int64 positions in x.flatten(), got {given}")
    if sites.dtype == torch.bool:
        if sites.shape != x.shape:
            raise ValueError(f"a mask of sites must have the shape of x, {tuple(x.shape)}, got {tuple(sites.shape)}")
        return sites.reshape(-1).nonzero().squeeze(-1)
    if sites.ndim != 1:
        raise ValueError(f"positions of sites must have one axis, got shape {tuple(sites.shape)}")
    return sites


def _times(fresh: Tensor, other: Tensor) -> Tensor:
    """fresh * other, in the memory of ``fresh``, which nobody else holds, where no gradient needs it."""
    return fresh * other if other.requires_grad else fresh.mul_(other)
