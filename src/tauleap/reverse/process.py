"""The reverse process as a user meets it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tauleap import _check, _draw
from tauleap._shapes import PerSite, PerState, States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import DenseKernel, ForwardProcess, RankOneKernel, RankOneProcess
from tauleap.observed import Observed
from tauleap.reverse.dense import DenseReversal
from tauleap.reverse.rank_one import RankOneReversal
from tauleap.reverse.reversal import Reversal


class ReverseProcess(nn.Module):
    """A forward process and a denoiser, turned round: rates of the chain that runs from noise to data.

    Every method takes states x (batch, *shape) and a time; ``posterior`` saves the denoiser's pass where it is known
    from before, ``observed`` marks sites that are given and do not jump, and ``condition`` is passed to the denoiser.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> process = Uniform(2, Constant(0.5))
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([0.9, 0.1]), process))
    >>> reverse.rates(torch.tensor([[1]]), 0.5)
    tensor([[[1.4426, 0.0000]]])
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


def _reversal(process: ForwardProcess, x: States, t: Time) -> Reversal:
    kernel = process.kernel(t)
    beta = process.schedule.rate(_check.time(t))
    if isinstance(process, RankOneProcess) and isinstance(kernel, RankOneKernel):
        return RankOneReversal(process.speed * beta, kernel, x)
    if isinstance(kernel, DenseKernel):
        return DenseReversal(beta, kernel, process.jump_rates(), x)
    raise TypeError(f"the reversal of a {type(kernel).__name__} is not known: return a DenseKernel or a RankOneKernel")


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
