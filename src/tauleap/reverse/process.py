"""The public interface of the reverse process."""

from __future__ import annotations

import copy
from typing import TypedDict

import torch
from torch import Tensor, nn
from typing_extensions import Unpack

from tauleap import _device
from tauleap._shapes import PerSite, PerState, States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.denoise.on_device import DenoiserOnDevice, moved
from tauleap.noise import ForwardProcess, Kernel
from tauleap.observed import Observed, check_observed
from tauleap.reverse.at import ReverseAt, structure_of
from tauleap.reverse.bound import ExitBound


class Given(TypedDict, total=False):
    """The optional arguments of :meth:`ReverseProcess.at`, which its methods such as ``rates`` pass on."""

    observed: Observed | None
    condition: Tensor | None
    posterior: Posterior | None


class ReverseProcess(nn.Module):
    """Reverse a forward process in time, given a denoiser: a chain that runs from noise to data.

    :meth:`at` binds states and a time once; its properties and methods are the formulas. The most frequent ones are
    here as well, as methods of one line, with the same optional arguments.

    Args:
        process: the forward process.
        denoiser: predicts p(x0 | x_t).

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
        denoiser.check(process)
        self.process = process
        self.denoiser = denoiser

    def at(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        posterior: Posterior | None = None,
        kernel: Kernel | None = None,
        checked: bool = False,
    ) -> ReverseAt:
        """Bind states and a time, so that everything is computed from one evaluation of the denoiser.

        Args:
            x: states, int64.
            t: one time in [0, 1], or one per sample.
            observed: sites that are given: they hold their values and do not jump. Default: none.
            condition: passed to the denoiser, such as class labels. Default: none.
            posterior: p(x0 | x), if it is known. Default: the denoiser is evaluated when it is first needed.
            kernel: q_t|0, if it is known; x and t are then not checked. Default: that of the process.
            checked: whether the caller has checked these arguments, as :meth:`check_states` does, and those of the
                methods, so that no check is repeated. Default: false.

        Returns:
            The reverse process at x and t.

        >>> from tauleap.denoise import ExactDenoiser
        >>> from tauleap.noise import Constant, Uniform
        >>> process = Uniform(2, Constant(0.5))
        >>> at = ReverseProcess(process, ExactDenoiser(torch.tensor([0.9, 0.1]), process)).at(torch.tensor([[1]]), 0.5)
        >>> at.exit_rate, at.step_probs(0.0)
        (tensor([[1.4426]]), tensor([[[0.6879, 0.3121]]]))
        """
        checked = checked or kernel is not None
        if not isinstance(x, Tensor) or not _device.lacks_float64(x.device):
            return ReverseAt(self, x, t, observed, condition, posterior, kernel, checked=checked)
        here = (moved(value, _device.CPU) for value in (x, t, observed, condition, posterior))
        return ReverseAt(self.on_cpu(), *here, checked=checked, home=x.device)

    def check_states(self, x: States, observed: Observed | None = None, *, name: str = "x") -> States:
        """Return states with the observed values filled in; raise for states that the process cannot have.

        Args:
            x: the states.
            observed: the observed sites and their values. Default: none.
            name: what an error calls the states. Default: "x".

        Returns:
            int64 states in the shape of ``x``.
        """
        process = self.process
        x = process._check_states(x, name)
        if observed is None:
            return x
        data_states = None if process.all_states_are_data else process.data_states
        check_observed(observed).check(x, process.num_states, data_states)
        return observed.fill(x)

    def posterior(
        self,
        x: States,
        t: Time,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        reachable_only: bool = True,
    ) -> Posterior:
        """Return p(x0 | x) over the data states.

        Args:
            x: states.
            t: one time, or one per sample.
            observed: sites that are given. Default: none.
            condition: passed to the denoiser. Default: none.
            reachable_only: whether to exclude the x0 from which x cannot be reached. Default: True.

        Returns:
            The distribution of each site, over S states.

        Raises:
            ValueError: The denoiser returns NaN, or no possible state, for a site.
        """
        at = self.at(x, t, observed=observed, condition=condition)
        return at.reachable_posterior() if reachable_only else at.predicted_posterior()

    def ratios(self, x: States, t: Time, **given: Unpack[Given]) -> PerState:
        """Return s_v(x), an estimate of q_t(x with the site set to v) / q_t(x); 1 at the site's own state.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            The ratios (batch, *shape, S), >= 0, in the dtype of the logits.
        """
        return self.at(x, t, **given).ratios

    def rates(self, x: States, t: Time, **given: Unpack[Given]) -> PerState:
        """Return the reverse rates Rhat_t(x, .), 0 at the site's own state and at observed sites.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            The rates (batch, *shape, S), >= 0, per unit of time, in the dtype of the logits.
        """
        return self.at(x, t, **given).rates

    def corrector_rates(self, x: States, t: Time, **given: Unpack[Given]) -> PerState:
        """Return R_t(x, .) + Rhat_t(x, .), whose stationary distribution is q_t (Proposition 4).

        Args:
            x: The states.
            t: The time, one for all samples or one per sample.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            The rates (batch, *shape, S), >= 0, per unit of time, in the dtype of the logits.
        """
        return self.at(x, t, **given).corrector_rates

    def exit_rate(self, x: States, t: Time, **given: Unpack[Given]) -> PerSite:
        """Return the sum of each site's reverse rates, without computing them one by one.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            The rates (batch, *shape) per unit of time.
        """
        return self.at(x, t, **given).exit_rate

    def divergence(self, x0: States, x: States, t: Time, **given: Unpack[Given]) -> PerSite:
        """Return the divergence of the reverse rates from those given x0; see :meth:`ReverseAt.divergence`.

        Args:
            x0: The data.
            x: The states.
            t: The time, one for all samples or one per sample.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            The divergence (batch, *shape) in nats per unit of time, >= 0.
        """
        return self.at(x, t, **given).divergence(x0)

    def conditional_rates(self, x0: States, x: States, t: Time, *, dtype: torch.dtype | None = None) -> PerState:
        """Return the reverse rates given x0; see :meth:`ReverseAt.conditional_rates`.

        Args:
            x0: The data.
            x: The states.
            t: The time, one for all samples or one per sample.
            dtype: The dtype of the result. Default: float64, or float32 on a device without it.

        Returns:
            The rates (batch, *shape, S), >= 0, per unit of time.
        """
        return self.at(x, t).conditional_rates(x0, dtype=dtype)

    def step_probs(self, x: States, t: Time, s: Time, **given: Unpack[Given]) -> PerState:
        """Return p(x_s | x_t = x) at a time s <= t; see :meth:`ReverseAt.step_probs`.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample.
            s: The earlier time, one for all samples or one per sample.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            The probabilities (batch, *shape, S), which sum to 1 at each site.
        """
        return self.at(x, t, **given).step_probs(s)

    def draw_step(
        self, x: States, t: Time, s: Time, *, generator: torch.Generator | None = None, **given: Unpack[Given]
    ) -> States:
        """Return a draw from :meth:`step_probs`, without computing them.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample.
            s: The earlier time, one for all samples or one per sample.
            generator: The source of randomness. Default: that of PyTorch.
            given: ``observed``, ``condition`` and ``posterior``, as in :meth:`at`.

        Returns:
            int64 states in the shape of ``x``.
        """
        return self.at(x, t, **given).draw_step(s, generator=generator)

    def with_own_evidence(self, posterior: Posterior, x: States, t: Time, y: States, s: Time) -> Posterior:
        """Return ``posterior`` as if each site's own noisy state were y at time s, instead of x at time t.

        Args:
            posterior: p(x0 | x).
            x: The states.
            t: The time, one for all samples or one per sample.
            y: The states to assume.
            s: Their time, one for all samples or one per sample.

        Returns:
            The distribution of each site, over S states.
        """
        return structure_of(self.process).with_own_evidence(posterior, x, t, y, s)

    def exit_bound(self, low: float, high: float) -> ExitBound:
        """Return an upper bound of the exit rates between two times, for any denoiser.

        Args:
            low: the earlier time, > 0.
            high: the later time.

        Returns:
            The bound, a function of the states and of the amount of noise.
        """
        total = self.process.schedule.total
        return structure_of(self.process).exit_bound(float(total(low)), float(total(high)))

    @property
    def device(self) -> torch.device:
        """The device of the states: that of the denoiser's weights, or else of its buffers."""
        if isinstance(self.denoiser, DenoiserOnDevice):
            return _device.CPU
        tensors = (*self.denoiser.parameters(), *self.denoiser.buffers(), *self.parameters(), *self.buffers())
        return next((tensor.device for tensor in tensors), _device.CPU)

    def on_cpu(self) -> ReverseProcess:
        """Return the process with all arithmetic but the network's on the CPU; weights stay and receive gradients."""
        device = self.device
        if _device.is_host(device):
            return self
        process = self.process.cached("on the CPU", lambda: copy.deepcopy(self.process).to(_device.CPU))
        return type(self)(process, DenoiserOnDevice(self.denoiser, device)).train(self.training)

    def in_float64(self) -> ReverseProcess:
        """Return the process with its arithmetic where float64 exists: itself, or on the CPU."""
        return self.on_cpu() if _device.lacks_float64(self.device) else self
