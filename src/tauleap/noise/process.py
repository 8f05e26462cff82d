"""The forward process: a continuous-time Markov chain that turns data into noise, each site on its own (Section 4.2).

A process is a base generator R_b and a schedule beta: ``R_t = beta(t) R_b``, with ``R[i, j]`` the rate *from i to j*,
and the kernel ``q_t|s = exp((c(t) - c(s)) R_b)``. A new process needs nothing but its generator; the dense fallback
here does the rest. Where the generator has structure, ``kernel`` and the two rate methods are written to use it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor, nn

from tauleap import _check, _device, _draw
from tauleap._shapes import Law, Matrix, PerSite, PerState, States, Time
from tauleap.noise.derived import Derived
from tauleap.noise.kernel import DenseKernel, Kernel, along_batch, at_own_state, relative_entropy_terms
from tauleap.noise.matrix_exponential import MatrixExponential
from tauleap.noise.schedule import Schedule
from tauleap.noise.stationary import in_detailed_balance, stationary_law


class ForwardProcess(nn.Module, ABC):
    """Turn data x0 into noise x_t by a continuous-time Markov chain, independently at each site.

    Data is int64 of shape (batch, *shape); ``t`` is a number in [0, 1], or one per sample.

    A batch at one time costs one kernel, and the kernels of recurring times are cached. Buffers hold float64 and keep
    it when the module is cast, since kernels are computed in float64 and only used in the model's dtype. Rates and
    kernels are float64 as well unless ``dtype`` is given, since many entries are too small for float32; for states on a
    device without float64, such as mps, they are float32.

    Args:
        num_states: The number of states S of a site, >= 2.
        schedule: The noise schedule beta(t).

    >>> from tauleap.noise import Constant
    >>> class Decay(ForwardProcess):
    ...     def generator(self):
    ...         return torch.tensor([[0.0, 0.0], [1.0, -1.0]], dtype=torch.float64)
    >>> Decay(2, Constant(1.0)).kernel_from(torch.tensor([[1]]), 0.5)
    tensor([[[0.3935, 0.6065]]], dtype=torch.float64)
    """

    ordinal: bool = False
    """Whether neighbouring states are similar, so that jumps can be added."""
    mask: int | None = None
    """The mask of absorbing noise: each data state jumps to it at rate beta(t) and nowhere else, and it is never left.
    Samplers and objectives that fill masked sites work for every process that declares it."""

    def __init__(self, num_states: int, schedule: Schedule) -> None:
        super().__init__()
        self.num_states = _check.integer("num_states", num_states, least=2)
        if not isinstance(schedule, Schedule):
            raise TypeError(f"schedule must be a Schedule such as Constant(1.0), got {schedule!r}")
        self.schedule = schedule
        self._moved_to = _device.CPU
        self._derived = Derived()
        self.register_load_state_dict_post_hook(_forget_derived)

    @abstractmethod
    def generator(self) -> Matrix:
        """Return the base generator R_b (S, S) in float64."""

    def stationary(self) -> Law:
        """Return the stationary distribution: ``stationary R_b = 0``."""
        return self.cached("stationary", lambda: stationary_law(self._checked_generator()))

    def prior(self) -> Law:
        """Return p_ref, (S,) or (*shape, S): the law of x_1 in the bound on the likelihood."""
        return self.stationary()

    def sampling_prior(self) -> Law:
        """Return the law from which sampling starts, (S,) or (*shape, S): p_ref, unless the bound needs another one."""
        return self.prior()

    @property
    def data_states(self) -> Tensor:
        """Which states data may have, bool (S,) or (*shape, S)."""
        return torch.ones(self.num_states, dtype=torch.bool, device=self.tables_device)

    @property
    def all_states_are_data(self) -> bool:
        """Whether data may have every state; false, for instance, for a process with a mask."""
        return self.cached("all_data", lambda: bool(self.data_states.all()))

    def kernel(self, t: Time, s: Time = 0.0) -> Kernel:
        """Return the transition kernel q_t|s as an operator; for ``s = 0`` the distribution of x_t given the data.

        Args:
            t: The time, one for all samples or one per sample, in [0, 1].
            s: The earlier time, one for all samples or one per sample. Default: 0, the data.
        """
        c = self.noise_between(s, t)

        def make() -> DenseKernel:
            # One amount of noise may be on the CPU, and with it its kernel, which is moved to the tables.
            matrices = self.exponential(c.reshape(-1))
            return DenseKernel(matrices if c.ndim else _device.moved_to(matrices[0], self.tables_device))

        return self._cache.kernel(c, (s, t), make)

    def cached(self, name: str, make: Callable[[], Any]) -> Any:
        """Return the cached result of ``make``, which is called again once a buffer or an attribute has changed.

        Only content that an attribute holds by reference, such as the numbers of a schedule, can change unnoticed: a
        result that depends on them needs them in its name.

        Args:
            name: The key of the result.
            make: Computes the result.
        """
        return self._cache.get(name, make)

    def exponential(self, c: Tensor) -> Tensor:
        """Return exp(c R_b) for each amount of noise, (n, S, S) in float64.

        Args:
            c: The amounts of noise c(t) - c(s), float64 of shape (n,).
        """
        exponential = self.cached("exponential", self._matrix_exponential)
        if _device.is_host(exponential.device) or not c.numel():
            return exponential(c.to(exponential.device))
        # Reading c from an accelerator would wait for it; the noise at time 1 is an upper bound without waiting.
        largest = float(c.max() if _device.is_host(c.device) else self.schedule.total(1.0))
        return exponential(_device.moved_to(c, exponential.device), largest)

    @final
    def rates_from(self, x: States, t: Time, *, dtype: torch.dtype | None = None) -> PerState:
        """Return the forward rates R_t(x, .) out of x, 0 at x itself.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample, in [0, 1].
            dtype: The dtype of the result. Default: float64, or float32 on a device without it.
        """
        return self._timed(self._base_rates_from, x, t, dtype)

    @final
    def rates_into(self, x: States, t: Time, *, dtype: torch.dtype | None = None) -> PerState:
        """Return the forward rates R_t(., x) into x, 0 at x itself.

        Args:
            x: The states.
            t: The time, one for all samples or one per sample, in [0, 1].
            dtype: The dtype of the result. Default: float64, or float32 on a device without it.
        """
        return self._timed(self._base_rates_into, x, t, dtype)

    @final
    def kernel_from(self, x0: States, t: Time, s: Time = 0.0, *, dtype: torch.dtype | None = None) -> PerState:
        """Return q_t|s(. | x0); for ``s = 0`` the distribution of x_t given the data.

        Args:
            x0: The states at time s.
            t: The time, one for all samples or one per sample, in [0, 1].
            s: The earlier time, one for all samples or one per sample. Default: 0, the data.
            dtype: The dtype of the result. Default: float64, or float32 on a device without it.
        """
        x0 = self._check_states(x0, "x0")
        _check.time(t, x0.shape[0])
        _check.time(s, x0.shape[0], name="s")
        return self.kernel(t, s).rows(x0, dtype or _device.widest_dtype(x0.device))

    @final
    def kernel_into(self, x: States, t: Time, s: Time = 0.0, *, dtype: torch.dtype | None = None) -> PerState:
        """Return q_t|s(x | .), as a function of the earlier state.

        Args:
            x: The states at time t.
            t: The time, one for all samples or one per sample, in [0, 1].
            s: The earlier time, one for all samples or one per sample. Default: 0, the data.
            dtype: The dtype of the result. Default: float64, or float32 on a device without it.
        """
        x = self._check_states(x, "x")
        _check.time(t, x.shape[0])
        _check.time(s, x.shape[0], name="s")
        return self.kernel(t, s).columns(x, dtype or _device.widest_dtype(x.device))

    @final
    def propagate(self, w: PerState, t: Time, s: Time = 0.0) -> PerState:
        """Return w Q_t|s along the last axis, in the dtype of ``w``; differentiable in ``w``.

        Args:
            w: Weights of every site and state.
            t: The time, one for all samples or one per sample, in [0, 1].
            s: The earlier time, one for all samples or one per sample. Default: 0, the data.
        """
        if not isinstance(w, Tensor) or not w.is_floating_point():
            given = w.dtype if isinstance(w, Tensor) else type(w).__name__
            raise TypeError(f"w must be a floating-point tensor (batch, *shape, {self.num_states}), got {given}")
        if w.ndim < 2 or w.shape[-1] != self.num_states:
            raise ValueError(f"w must have shape (batch, *shape, {self.num_states}), got {tuple(w.shape)}")
        self._check_sites(w.shape[:-1], "w without its last axis")
        _check.time(t, w.shape[0])
        _check.time(s, w.shape[0], name="s")
        return self.kernel(t, s).propagate(w.contiguous())

    @final
    def noise(self, x0: States, t: Time, s: Time = 0.0, *, generator: torch.Generator | None = None) -> States:
        """Return a draw of x_t from q_t|s(. | x0): from the data, or from a state x_s reached earlier.

        Args:
            x0: The states at time s.
            t: The time, one for all samples or one per sample, in [0, 1].
            s: The earlier time, one for all samples or one per sample. Default: 0, the data.
            generator: The source of randomness. Default: that of torch.
        """
        x0 = self._check_states(x0, "x0")
        _check.time(t, x0.shape[0])
        _check.time(s, x0.shape[0], name="s")
        return self.kernel(t, s).sample(x0, generator)

    @final
    def prior_divergence(self, x0: States) -> PerSite:
        """Return KL(q_1|0(. | x0) || prior) of each site, in nats; inf where the prior lacks a state that q has.

        It is the prior term of the bound on the likelihood. For rank-one processes it is O(S) for all states together.

        Args:
            x0: The data.

        Returns:
            One number per site, in float64, or in float32 on a device without it.

        >>> from tauleap.noise import Absorbing, LogLinear
        >>> Absorbing(3, LogLinear()).prior_divergence(torch.tensor([[0, 1]]))  # 0.001 log 2
        tensor([[0.0007, 0.0007]], dtype=torch.float64)
        """
        # The schedule enters through c(1) alone, which also covers one whose attributes are changed in place.
        noise = float(self.schedule.total(1.0))
        table = self.cached(f"prior divergence at c = {noise!r}", lambda: self.kernel(1.0).divergences(self.prior()))
        if table is None:
            prior = self.prior()
            rows = self.kernel(1.0).rows(x0.to(prior.device), torch.float64)
            found = relative_entropy_terms(rows, prior).sum(-1)
        else:
            found = at_own_state(table, x0)
        return found if found.device == x0.device else _device.moved_to(found, x0.device)

    @final
    def exit_rate(self, x: States, t: Time, *, dtype: torch.dtype | None = None) -> PerSite:
        """Return the exit rate of each site, the sum of R_t(x, .).

        Args:
            x: The states.
            t: The time, one for all samples or one per sample, in [0, 1].
            dtype: The dtype of the result. Default: float64, or float32 on a device without it.
        """
        x = self._check_states(x, "x")
        beta = self.schedule.rate(_check.time(t, x.shape[0]))
        exits = at_own_state(self.base_exit_rates(), x)
        exits = _device.moved_to(exits, x.device, dtype or _device.widest_dtype(x.device))
        return exits.mul_(along_batch(_device.moved_to(beta, x.device, exits.dtype), x.ndim))

    @final
    def draw_jump(self, x: States, sites: Tensor, *, generator: torch.Generator | None = None) -> Tensor:
        """Return the destinations of forward jumps at the given positions of ``x.flatten()``, (n,).

        Args:
            x: The states.
            sites: The positions, int64 (n,), of sites whose exit rate is not 0.
            generator: The source of randomness. Default: that of torch.
        """
        x = self._check_states(x, "x")
        _check.positions(sites, x)
        return _draw.categorical(self._base_rates_at(x, sites), generator).to(x.device)

    def jump_rates(self) -> DenseKernel:
        """Return the off-diagonal part of R_b as an operator: rows are rates from a state, columns rates into it."""
        return self.cached("jumps", lambda: DenseKernel(self._checked_generator().clone().fill_diagonal_(0.0)))

    def base_exit_rates(self) -> Law:
        """Return the rate at which each state is left under R_b, (S,) or (*shape, S), in float64."""
        return self.jump_rates().matrix.sum(-1)

    def _base_rates_from(self, x: States, dtype: torch.dtype) -> PerState:
        return self.jump_rates().rows(x, dtype)

    def _base_rates_into(self, x: States, dtype: torch.dtype) -> PerState:
        return self.jump_rates().columns(x, dtype)

    def _base_rates_at(self, x: States, sites: Tensor) -> Tensor:
        matrix = self.jump_rates().matrix
        return self.jump_rates().rows(x.reshape(-1)[sites].to(matrix.device), torch.float64)

    def _check_states(self, x: States, name: str) -> States:
        """Return states that this process can have, contiguous."""
        x = _check.states(x, self.num_states, name=name)
        self._check_sites(x.shape, name)
        return x

    def check_data(self, x0: States, missing: Tensor | None = None) -> None:
        """Raise a ValueError unless states are data: sites of this process, in states that data may have.

        Args:
            x0: The states, checked to be some of 0..S-1.
            missing: Where x0 may hold any state, a bool mask in the shape of x0. Default: nowhere.
        """
        self._check_sites(x0.shape, "x0")
        if self.all_states_are_data or not _device.is_host(x0.device):
            return
        wrong = at_own_state(self.data_states.to(x0.device).double(), x0) == 0  # rows may stay on the host
        if missing is not None:
            wrong &= ~missing
        if bool(wrong.any()):
            raise ValueError(
                f"x0 holds {sorted(set(x0[wrong].tolist()))[:5]}, which data of this process cannot have (the mask "
                "of an absorbing process, or states of prior 0): pass missing=..., a mask that is true "
                "where the value is not known"
            )

    def _check_sites(self, shape: torch.Size, name: str) -> None:
        """Raise an error for a shape (batch, *shape) that differs from that of a process with a law per site."""

    def _timed(self, base_rates: Callable[..., PerState], x: States, t: Time, dtype: torch.dtype | None) -> PerState:
        x = self._check_states(x, "x")
        dtype = dtype or _device.widest_dtype(x.device)
        beta = _device.moved_to(self.schedule.rate(_check.time(t, x.shape[0])), x.device, dtype)
        return base_rates(x, dtype).mul_(along_batch(beta, x.ndim + 1))

    def noise_between(self, s: Time, t: Time) -> Tensor:
        """Return c(t) - c(s) in float64: () on the device of the times, or (B,) on the device of the tables.

        Args:
            s: The earlier time, one for all samples or one per sample.
            t: The later time, one for all samples or one per sample.
        """
        device, later = self.tables_device, _check.time(t)
        if not isinstance(s, Tensor) and s == 0:
            c = self.schedule.total(later)
        else:
            c = self.schedule.between(_device.moved_to(_check.time(s, name="s"), later.device), later)
            if _device.is_host(c.device) and bool((c < 0).any()):
                raise ValueError(f"s must not be later than t, got s = {s} and t = {t}")
        return c if c.ndim == 0 or c.device == device else _device.moved_to(c, device)

    @property
    def tables_device(self) -> torch.device:
        """Where kernels are made: where the buffers are, or where a process without buffers was last moved to."""
        # Its own buffers come first: to search the submodules would take a tenth of the time of small reverse rates.
        own = next((buffer.device for buffer in self._buffers.values() if buffer is not None), None)
        return own or next((buffer.device for buffer in self.buffers()), self._moved_to)

    def _checked_generator(self) -> Tensor:
        """Return the generator, which is checked once, since users define processes of their own.

        It is moved to the other tables, as a process that computes its generator makes it on the CPU.
        """
        return self.cached(
            "generator", lambda: _check.generator(self.generator(), self.num_states).to(self.tables_device)
        )

    def _matrix_exponential(self) -> MatrixExponential:
        generator = self._checked_generator()
        law = self.stationary().to(generator.device)
        return MatrixExponential(generator, law if in_detailed_balance(generator, law) else None)

    @property
    def _cache(self) -> Derived:
        return self._derived.valid_for(self._buffers.values())

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        # Any attribute but the mode may change a kernel or a law, also in a user's own process.
        if name != "training" and "_derived" in self.__dict__:
            self._derived.clear()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> ForwardProcess:
        """Move the float64 buffers without casting them; they stay on the CPU if the device has no float64."""
        before = self.tables_device
        exact = {name: b for name, b in self._buffers.items() if b is not None and b.dtype == torch.float64}
        for name in exact:
            self._buffers[name] = None
        super()._apply(fn, recurse)
        # From where they are, since a mere cast, such as half(), does not move anything.
        self._moved_to = _device.exact_device(fn(torch.empty(0, device=before)).device)
        for name, buffer in exact.items():
            self._buffers[name] = buffer.to(self._moved_to)
        self._derived.clear()
        return self

    def extra_repr(self) -> str:
        return f"num_states={self.num_states}, schedule={self.schedule}"


def _forget_derived(process: ForwardProcess, _: object) -> None:
    process._derived.clear()
