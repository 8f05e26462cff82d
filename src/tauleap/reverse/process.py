"""The reverse process as a user meets it."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from tauleap import _check, _device, _draw
from tauleap._shapes import PerSample, PerSite, PerState, States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import DenseKernel, ForwardProcess, Kernel, RankOneProcess
from tauleap.observed import Observed, check_observed
from tauleap.reverse.bound import ExitBound, exit_bound
from tauleap.reverse.carry import carried
from tauleap.reverse.dense import DenseReversal
from tauleap.reverse.departures import Corrected, Departures, Free, exit_rates, positions
from tauleap.reverse.first_jump import FirstJumpClock
from tauleap.reverse.mixture import Mixture
from tauleap.reverse.on_cpu import exactly
from tauleap.reverse.rank_one import RankOneReversal
from tauleap.reverse.reversal import Reversal
from tauleap.reverse.undefined import check_defined


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

    @exactly
    def posterior(
        self, x: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """p(x0 | x) over the data states from which x can be reached."""
        x = self._enter(x, t, observed)
        posterior = self._guess(x, t, observed, condition)
        reachable = _reversal(self.process, x, t).reachable()
        if reachable is not None:
            possible = reachable & self.process.data_states.to(x.device)
            posterior = posterior.restricted(possible | ~possible.any(-1, keepdim=True))
        return check_defined(posterior, t)

    @exactly
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
        return _reversal(self.process, x, t).ratios(self._told(posterior, x, t, observed, condition))

    @exactly
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
        rates = _reversal(self.process, x, t).rates(self._told(posterior, x, t, observed, condition))
        return rates if observed is None else rates.masked_fill(observed.mask[..., None], 0.0)

    @exactly
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

    @exactly
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
        return self.departures(
            x, t, observed=observed, condition=condition, posterior=posterior, corrector=corrector
        ).exit_rate

    @exactly
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
        departures = self.departures(
            x, t, observed=observed, condition=condition, posterior=posterior, corrector=corrector
        )
        chosen = positions(sites, x)
        if _device.is_host(x.device) and bool((departures.exit_rate.reshape(-1)[chosen] == 0).any()):
            raise ValueError("sites must be sites that can jump: the exit rate of one of them is 0")
        return departures.draw(chosen, generator)

    def departures(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
        corrector: bool = False,
    ) -> Departures:
        """Both of the above for the same states, with what they have in common worked out once."""
        x = self._enter(x, t, observed)
        posterior = self._told(posterior, x, t, observed, condition)
        found = _reversal(self.process, x, t).departures(posterior)
        if corrector:
            found = Corrected(found, self.process, x, t)
        return found if observed is None else Free(found, observed)

    @exactly
    def conditional_rates(self, x0: States, x: States, t: Time, *, dtype: torch.dtype | None = None) -> PerState:
        """The reverse rates if the data x0 were known: R_t(v, x) q(v | x0) / q(x | x0), 0 at the site's own state.

        In float64 unless ``dtype`` is given; in float32 on a device without float64.
        """
        x0 = self._check_clean(x0, x)
        return self.at(x, t).jumps().known(x0, dtype or _device.widest_dtype(x.device))

    @exactly
    def divergence(
        self,
        x0: States,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
    ) -> PerSite:
        """How far the reverse rates are from those that know x0: sum_v Rhat_v - C_v + C_v log(C_v / Rhat_v) >= 0.

        With C the conditional rates; 0 at observed sites. Its integral over t is the bound on the likelihood.
        """
        x = self._enter(x, t, observed)
        x0 = self._check_clean(x0, x)
        posterior = self._told(posterior, x, t, observed, condition)
        out = self.at(x, t).jumps().divergence(x0, posterior)
        return out if observed is None else out.masked_fill(observed.mask, 0.0)

    @exactly
    def step_probs(
        self,
        x: States,
        t: Time,
        s: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
    ) -> PerState:
        """p(x_s | x_t = x) at a time s <= t, each site on its own: D3PM's kernel (Section 2), for any two times.

            p(x_s) = sum_x0 p(x0 | x) q_s|0(x_s | x0) q_t|s(x | x_s) / q_t|0(x | x0)

        At ``s = 0`` this is p(x0 | x). Observed sites stay where they are.
        """
        x = self._enter(x, t, observed)
        posterior = self._told(posterior, x, t, observed, condition)
        out = self._step(x, t, s).mixed(posterior)
        if observed is None:
            return out
        stays = torch.nn.functional.one_hot(x, self.process.num_states).to(out.dtype)
        return torch.where(observed.mask[..., None], stays, out)

    @exactly
    def draw_step(
        self,
        x: States,
        t: Time,
        s: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
        generator: torch.Generator | None = None,
    ) -> States:
        """A draw from ``step_probs`` that does not make them: which sites leave x, and where to."""
        x = self._enter(x, t, observed)
        _check.time(s, x.shape[0], name="s")
        earlier, between = self.process.kernel(s), self.process.kernel(t, s)
        posterior = self._told(posterior, x, t, observed, condition)
        away: Departures = _reversal(self.process, x, t).step_departures(earlier, between, posterior)
        if observed is not None:
            away = Free(away, observed)
        leaves = _draw.uniforms(x.shape, x.device, generator) < exit_rates(away)
        chosen = leaves.reshape(-1).nonzero().squeeze(-1)
        return x.reshape(-1).index_copy(0, chosen, away.draw(chosen, generator)).reshape(x.shape)

    @exactly
    def step_divergence(
        self,
        x0: States,
        x: States,
        t: Time,
        s: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
    ) -> PerSite:
        """KL(q(x_s | x, x0) || p(x_s | x)): how far the step is from the one that knows x0; 0 at observed sites."""
        x = self._enter(x, t, observed)
        x0 = self._check_clean(x0, x)
        posterior = self._told(posterior, x, t, observed, condition)
        out = self._step(x, t, s).divergence(x0, posterior)
        return out if observed is None else out.masked_fill(observed.mask, 0.0)

    @exactly
    def guess(
        self, x: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        """p(x0 | x) over the data states as the denoiser has it, before x rules any out: what other methods take."""
        return check_defined(self._guess(self._enter(x, t, observed), t, observed, condition), t)

    def at(self, x: States, t: Time, *, kernel: Kernel | None = None) -> Reversal:
        """The arithmetic of the formula at these states and times, for whoever brings a posterior.

        Whoever also brings q_t|0, from which x was drawn, has looked at x and t.
        """
        return _reversal(self.process, self._enter(x, t, None) if kernel is None else x, t, kernel)

    def _step(self, x: States, t: Time, s: Time) -> Mixture:
        _check.time(s, x.shape[0], name="s")
        return self.at(x, t).step(self.process.kernel(s), self.process.kernel(t, s))

    def carried(self, posterior: Posterior, x: States, t: Time, y: States, s: Time) -> Posterior:
        """``posterior``, given for x at t, if a site's own state were y at s and all other sites were as they are.

            p(x0) q_s|0(y | x0) / q_t|0(x | x0)

        So far as the other sites do not move, this is what the denoiser would say of y at s.
        """
        return carried(posterior, x, self.process.kernel(t), y, self.process.kernel(s))

    def draw_first_jump(
        self,
        x: States,
        t: float,
        s: float,
        *,
        observed: Observed | None = None,
        posterior: Posterior,
        generator: torch.Generator | None = None,
    ) -> PerSample:
        """When, going back from t, the first site of each sample jumps; s where none does before it.

        What the sites say of each other is taken to stay as ``posterior`` has it. For rank-one processes only.
        """
        if not isinstance(self.process, RankOneProcess):
            raise TypeError(f"the time of the first jump is known for rank-one processes, not for {self.process}")
        x = self._enter(x, t, observed)
        free = torch.ones_like(x, dtype=torch.bool) if observed is None else ~observed.mask
        return FirstJumpClock(self.process, x, t, posterior, free).draw(s, generator)

    def exit_bound(self, low: float, high: float) -> ExitBound:
        """What no exit rate exceeds, whatever the denoiser says, between the times ``low`` and ``high``."""
        total = self.process.schedule.total
        return exit_bound(self.process, float(total(low)), float(total(high)))

    def _enter(self, x: States, t: Time, observed: Observed | None) -> States:
        x = self.process._check_states(x, "x")
        _check.time(t, x.shape[0])
        if observed is None:
            return x
        check_observed(observed).check(
            x, self.process.num_states, None if self.process.all_states_are_data else self.process.data_states
        )
        return observed.fill(x)

    def _check_clean(self, x0: States, x: States) -> States:
        x0 = self.process._check_states(x0, "x0")
        if x0.shape != x.shape:
            raise ValueError(f"x0 must have the shape of x, {tuple(x.shape)}, got {tuple(x0.shape)}")
        return x0

    def _guess(self, x: States, t: Time, observed: Observed | None, condition: Tensor | None) -> Posterior:
        return self._told(None, x, t, observed, condition)

    def _told(
        self, posterior: Posterior | None, x: States, t: Time, observed: Observed | None, condition: Tensor | None
    ) -> Posterior:
        """What is known of x0: the posterior that was given, or what the denoiser says; over data states alone."""
        source = "the denoiser's posterior" if posterior is None else "posterior"
        if posterior is None:
            posterior = self.denoiser(x, t, observed=observed, condition=condition)
        if not isinstance(posterior, Posterior):
            raise TypeError(f"{source} must be a Posterior, got {type(posterior).__name__}: write Posterior(logits)")
        if posterior.shape != (*x.shape, self.process.num_states):
            raise ValueError(
                f"{source} must have logits of shape (B, *shape, S) = {(*x.shape, self.process.num_states)}, "
                f"got {tuple(posterior.shape)}"
            )
        if self.process.all_states_are_data or posterior.over_data_states:
            return posterior
        return posterior.restricted(self.process.data_states.to(x.device), over_data_states=True)


def _reversal(process: ForwardProcess, x: States, t: Time, kernel: Kernel | None = None) -> Reversal:
    time = _check.as_time(t)
    if time.ndim:  # one number alone may stay on the CPU
        time = _device.moved_to(time, x.device)
    beta = process.schedule.rate(time)
    if isinstance(process, RankOneProcess):
        return RankOneReversal(process.speed * beta, process.kernel_after(process.schedule.total(time)), x)
    kernel = kernel or process.kernel(t)
    if isinstance(kernel, DenseKernel):
        return DenseReversal(beta, kernel, process.jump_rates(), x)
    raise TypeError(f"the reversal of a {type(kernel).__name__} is not known: let the process return a DenseKernel")
