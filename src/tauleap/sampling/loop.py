"""Draw samples: the loop over the steps of a grid, for every sampler."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Real
from typing import Any, TypeAlias, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._seeds import derive_seed
from tauleap._shapes import States
from tauleap.denoise import Posterior
from tauleap.denoise.memory import RowMemory, remembering
from tauleap.denoise.on_device import moved
from tauleap.denoise.undefined import reporting_undefined
from tauleap.observed import Observed, check_observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling._progress import reporting
from tauleap.sampling.final import Final, fill_masked
from tauleap.sampling.grid import check_grid
from tauleap.sampling.sampler import Sampler, StepInfo, check_condition
from tauleap.sampling.steering import Particles, Potential, check_particles

Times: TypeAlias = Float[Tensor, "times"]
PerStep: TypeAlias = Float[Tensor, "steps"]


@dataclass(frozen=True)
class Trace:
    """Hold the states of a run at the requested times, or at the nearest times of the grid.

    >>> x = torch.zeros(2, 5, 3, dtype=torch.int64)  # two times, five samples of three sites
    >>> Trace(torch.tensor([1.0, 0.5]), x, x).x[-1].shape
    torch.Size([5, 3])
    """

    times: Times
    """The times of the grid."""
    x: Int64[Tensor, "times batch *shape"]
    """The noisy states x_t."""
    predicted_x0: Int64[Tensor, "times batch *shape"]
    """The denoiser's prediction of x0 at each time: the mode of p(x0 | x_t), one network evaluation each."""


@dataclass(frozen=True)
class Info:
    """Hold the cost of a run and counts of its events, with one number per step of the grid (see ``StepInfo``).

    >>> info = Info(2.0, 0.1, *torch.tensor([0.5, 0.25]).expand(6, -1))  # two steps
    >>> info.jumps.sum()
    tensor(0.7500)
    """

    evaluations: float
    """Network evaluations per sample, on average, including those for ``final`` and ``trace``."""
    seconds: float
    """The duration of the run."""
    jumped: PerStep
    """The proportion of sites whose state changed."""
    jumps: PerStep
    """Jumps per site."""
    rejected: PerStep
    """The proportion of sites whose jumps were rejected."""
    clamped: PerStep
    """The proportion of sites at which a value was clamped."""
    entropy_bound: PerStep
    """A bound on the error of the draws in nats per sample, which :class:`Planned` knows; NaN for other samplers."""
    effective_size: PerStep
    """The effective number of particles per sample, on average, before any resampling; NaN without a potential."""


@dataclass(frozen=True)
class Samples:
    """Hold the samples, the trace if one was requested, and the cost of the run.

    >>> info = Info(8.0, 0.1, *torch.zeros(6, 8))
    >>> parts = [Samples(torch.zeros(n, 3, dtype=torch.int64), None, info) for n in (4, 2)]
    >>> Samples.join(parts).x0.shape
    torch.Size([6, 3])
    """

    x0: States
    """The samples."""
    trace: Trace | None
    """The states at the requested times; None if none were requested."""
    info: Info
    """The cost of the run and counts of its events."""

    def to(self, device: torch.device) -> Samples:
        """Return the samples and their trace on ``device``.

        Args:
            device: The device to copy to.
        """
        trace = self.trace and Trace(self.trace.times, self.trace.x.to(device), self.trace.predicted_x0.to(device))
        return Samples(self.x0.to(device), trace, self.info)

    @staticmethod
    def join(parts: Sequence[Samples]) -> Samples:
        """Return blocks of one request as one, in the given order; seconds are summed.

        Args:
            parts: The blocks, at least one.

        Raises:
            ValueError: There are no parts.
        """
        if not parts:
            raise ValueError("parts must hold at least one block to join, got none")
        x0 = torch.cat([part.x0 for part in parts])
        traces = [part.trace for part in parts if part.trace is not None]
        trace = None
        if traces:
            x, predicted = (
                torch.cat([getattr(trace, name) for trace in traces], dim=1) for name in ("x", "predicted_x0")
            )
            trace = Trace(traces[0].times, x, predicted)
        total = max(1, len(x0))

        def mean(name: str) -> Tensor:
            return sum((len(part.x0) / total * getattr(part.info, name) for part in parts), torch.zeros(()))

        steps = (mean(name) for name in ("jumped", "jumps", "rejected", "clamped", "entropy_bound", "effective_size"))
        seconds = sum(part.info.seconds for part in parts)
        return Samples(x0, trace, Info(float(mean("evaluations")), seconds, *steps))


def sample(
    reverse: ReverseProcess,
    sampler: Sampler,
    shape: Sequence[int],
    *,
    grid: Iterable[float] | Tensor,
    start: States | None = None,
    trace: Iterable[float] | None = None,
    final: Final = "mode",
    observed: Observed | None = None,
    condition: Tensor | None = None,
    batch_size: int | None = None,
    generator: torch.Generator | None = None,
    progress: bool = False,
    blocks: Iterable[int] | None = None,
    potential: Potential | None = None,
    particles: int | None = None,
) -> Samples:
    """Draw samples by running the reverse chain from noise to data.

    Args:
        reverse: The reverse process: a forward process and a denoiser.
        sampler: The sampler, such as ``TauLeaping()``.
        shape: The number of samples and the shape of one, (n, *shape).
        grid: The decreasing times of the steps, such as ``uniform_grid(100)``.
        start: The states at the first time of the grid. Default: drawn from ``process.sampling_prior()``.
        trace: Times at which to record x_t and the predicted x0, each at the nearest time of the grid. Default: none.
        final: The treatment of the noise left at the last time: ``"mode"`` takes the most probable x0, as the paper
            does (Appendix H), ``"sample"`` draws it site by site, ``"none"`` returns x unchanged. Default: "mode".
        observed: Observed sites with their values, for all samples; they never change. Default: none.
        condition: The input of the denoiser, with one entry per sample along its first axis. Default: none.
        batch_size: The number of samples per block. Each block has its own seed, which depends only on the generator's
            state and the block's number. Default: all samples in one block.
        generator: The source of randomness. Default: that of torch.
        progress: Show a bar with the remaining time. Default: False.
        blocks: The numbers of the blocks to draw: ``range(rank, n_blocks, world)`` on process ``rank`` of ``world``,
            or the rest after an interruption. All blocks, joined by ``Samples.join``, equal one call for all samples.
            Default: all.
        potential: A function f of clean states (n, *shape) that returns the logarithms (n,) of their weights. Samples
            then follow the distribution of the sampler times exp(f), normalised, up to an error that falls with the
            number of particles. A sample with f = -inf is never returned; predictions of x0 before the last step may
            have f = -inf. Default: None.
        particles: The number of particles per sample, >= 1, each with the cost of a sample and one more evaluation per
            step. ``info.effective_size`` shows how evenly they are weighted. Default: 8 with a potential.

    Returns:
        The samples, with their trace and the cost of the run.

    Raises:
        TypeError: An argument has the wrong type.
        ValueError: An argument is out of its range, or the sampler does not suit the process.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> from tauleap.sampling import TauLeaping, uniform_grid
    >>> process = Uniform(3, Constant(1.0))
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([0.0, 0.5, 0.5]), process))
    >>> seed = torch.Generator().manual_seed(0)
    >>> samples = sample(reverse, TauLeaping(), (1000, 1), grid=uniform_grid(20), generator=seed)
    >>> samples.x0.shape, int((samples.x0 == 0).sum()), round(samples.info.evaluations, 1)
    (torch.Size([1000, 1]), 0, 4.5)
    """
    _check_request(reverse, sampler, final)
    number, *site_shape = _check_shape(shape)
    times = check_grid(grid)
    device = reverse.device
    if _device.lacks_float64(device):
        named: dict[str, Any] = {
            "grid": grid,
            "start": start,
            "trace": trace,
            "final": final,
            "observed": observed,
            "condition": condition,
            "batch_size": batch_size,
            "generator": generator,
            "progress": progress,
            "blocks": blocks,
            "potential": potential,
            "particles": particles,
        }
        on_cpu = {name: moved(value, _device.CPU) for name, value in named.items()}
        return sample(reverse.on_cpu(), sampler, shape, **on_cpu).to(device)
    full = torch.Size((number, *site_shape))
    if start is not None:
        start = _check_start(start, full, reverse.process.num_states)
    if observed is not None:
        check_observed(observed).check(
            torch.empty(full, dtype=torch.int64, device=_device.META), reverse.process.num_states
        )
    if condition is not None:
        check_condition(condition, number)
    _check.randomness(generator)
    steering, each = check_particles(potential, particles)
    if steering is not None and trace is not None:
        raise ValueError("trace is of single samples: leave it out with a potential")
    trace_times = frozenset() if trace is None else _trace_times(trace, times)
    size = number if batch_size is None else _check.integer("batch_size", batch_size, least=1)
    count = max(1, math.ceil(number / max(1, size)))
    chosen = range(count) if blocks is None else _check_blocks(blocks, count)
    base = int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device if generator else _device.CPU))

    parts = []
    steps = len(chosen) * (len(times) - 1)
    with reporting(progress, steps, sampler) as advance, reporting_undefined(), torch.no_grad():
        for block in chosen:
            part = slice(block * size, min(number, (block + 1) * size))
            block_generator = _device.new_generator(
                device if generator is None else generator.device, derive_seed(base, "block", block)
            )
            steered = steering and Particles(steering, part.stop - part.start, each, device, block_generator)
            # The particles of a sample are neighbours.
            rows = torch.arange(part.start, part.stop).repeat_interleave(each)
            run = _Run(
                reverse,
                sampler,
                times,
                trace_times,
                final,
                None if observed is None else observed.of_rows(rows).to(device),
                None if condition is None else condition[rows].to(device),
                block_generator,
                steered,
            )
            x = None if start is None else start[rows].to(device)
            parts.append(run(x, torch.Size(((part.stop - part.start) * each, *site_shape)), advance))
    return Samples.join(parts)


@dataclass(frozen=True)
class _Run:
    """Run one block from its first time to its last."""

    reverse: ReverseProcess
    sampler: Sampler
    times: list[float]
    trace_times: frozenset[float]
    final: Final
    observed: Observed | None
    condition: Tensor | None
    generator: torch.Generator
    particles: Particles | None = None

    def __call__(self, x: States | None, shape: torch.Size, advance: Callable[[], None]) -> Samples:
        with remembering() as memory:
            return self._run(x, shape, advance, memory)

    def _run(self, x: States | None, shape: torch.Size, advance: Callable[[], None], memory: RowMemory) -> Samples:
        began = time.perf_counter()
        if x is None:
            x = _draw.from_law(self.reverse.process.sampling_prior(), shape, self.generator).to(self.reverse.device)
        if self.observed is not None:
            x = self.observed.fill(x)
        recorded: list[tuple[float, Tensor, Tensor]] = []
        infos: list[StepInfo] = []
        last = self.times[-1]
        if self.times[0] in self.trace_times:
            self._record(recorded, x, self.times[0])
        for t, s in pairwise(self.times):
            x, info = self.sampler.step(
                self.reverse, x, t, s, observed=self.observed, condition=self.condition, generator=self.generator
            )
            infos.append(info)
            if self.particles is not None and s != last:
                given = {"observed": self.observed, "condition": self.condition}
                x = self.particles.step(x, self.reverse.posterior(x, s, **given).mode)
            if s != last and s in self.trace_times:
                self._record(recorded, x, s)
            advance()
        posterior = self._record(recorded, x, last) if last in self.trace_times else None
        other_evaluations = float(len(recorded))
        if self.final != "none" and posterior is None and self.reverse.process.mask is not None:
            given = {"observed": self.observed, "condition": self.condition}
            at = self.reverse.at(x, last, **given, checked=True).deferred()
            x = fill_masked(at, self.final, self.generator)
            other_evaluations += at.evaluations
        elif self.final != "none":
            if posterior is None:
                posterior = self.reverse.at(
                    x, last, observed=self.observed, condition=self.condition
                ).reachable_posterior()
                other_evaluations += 1
            x = posterior.mode if self.final == "mode" else posterior.sample(generator=self.generator)
            x = x if self.observed is None else self.observed.fill(x)
        trace = None
        if recorded:
            times, states, predictions = zip(*recorded, strict=True)
            trace = Trace(torch.tensor(times, dtype=torch.float64), torch.stack(states), torch.stack(predictions))
        columns = _columns(infos)
        evaluations = float(columns.pop("evaluations").sum()) + other_evaluations
        sizes = torch.full((len(infos),), torch.nan)
        if self.particles is not None:
            x, sizes = self.particles.select(x)
            # Each step but the last also predicts x0, to weight the particles.
            evaluations = self.particles.each * (evaluations + len(infos) - 1)
        evaluations *= memory.evaluated_fraction
        return Samples(x, trace, Info(evaluations, time.perf_counter() - began, **columns, effective_size=sizes))

    def _record(self, recorded: list[tuple[float, Tensor, Tensor]], x: States, t: float) -> Posterior:
        """Record x at one of the trace times, and return the denoiser's prediction for it."""
        posterior = self.reverse.posterior(x, t, observed=self.observed, condition=self.condition)
        predicted = posterior.mode
        recorded.append((t, x, predicted if self.observed is None else self.observed.fill(predicted)))
        return posterior


def _columns(infos: Sequence[StepInfo]) -> dict[str, Tensor]:
    """Return each number of the steps as one tensor on the CPU, by one copy from the device."""
    names = [field.name for field in fields(StepInfo)]
    rows = [[getattr(info, name) for name in names] for info in infos]
    device = next((value.device for value in rows[0] if not _device.is_host(value.device)), _device.CPU)
    table = torch.stack([torch.stack([_device.moved_to(value, device) for value in row]) for row in rows])
    return dict(zip(names, table.cpu().unbind(1), strict=True))


def _check_request(reverse: object, sampler: object, final: object) -> None:
    if not isinstance(reverse, ReverseProcess):
        raise TypeError(
            f"reverse must be a ReverseProcess, got {type(reverse).__name__}: write ReverseProcess(process, denoiser)"
        )
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a Sampler such as TauLeaping(), got {sampler!r}")
    if final not in get_args(Final):
        raise ValueError(f"final must be 'mode', 'sample' or 'none', got {final!r}")
    sampler.check(reverse.process)


def _check_shape(shape: object) -> list[int]:
    if not isinstance(shape, Sequence) or not shape:
        raise TypeError(f"shape must be the number of samples and then the shape of one, (n, *shape), got {shape!r}")
    return [_check.integer("every entry of shape", size, least=0 if i == 0 else 1) for i, size in enumerate(shape)]


def _check_start(start: object, shape: torch.Size, num_states: int) -> States:
    states = _check.states(start, num_states, name="start")
    if states.shape != shape:
        raise ValueError(f"start must have the shape of the samples, {tuple(shape)}, got {tuple(states.shape)}")
    return states


def _check_blocks(blocks: object, count: int) -> list[int]:
    if not isinstance(blocks, Iterable):
        raise TypeError(f"blocks must hold the numbers of blocks to make, got {blocks!r}: write blocks=[{blocks!r}]")
    chosen = [_check.integer("every block", block, least=0) for block in blocks]
    if not chosen or max(chosen) >= count:
        raise ValueError(f"blocks must name some of the blocks 0..{count - 1} of this request, got {chosen}")
    if len(set(chosen)) < len(chosen):
        raise ValueError(
            f"blocks must name each block once, since a repeated block gives the same samples, got {chosen}"
        )
    return chosen


def _trace_times(trace: object, times: list[float]) -> frozenset[float]:
    if isinstance(trace, Tensor):
        trace = trace.tolist()
    if not isinstance(trace, Iterable):
        raise TypeError(f"trace must hold the times to keep, got {trace!r}: write trace=[{trace!r}]")
    requested = list(trace)
    for t in requested:
        if isinstance(t, bool) or not isinstance(t, Real):
            raise TypeError(f"trace must hold times, numbers from {times[0]} to {times[-1]}, got {t!r}")
        if not times[-1] <= float(t) <= times[0]:
            raise ValueError(f"trace must hold times of the run, from {times[0]} to {times[-1]}, got {t}")
    return frozenset(min(times, key=lambda s: abs(s - float(t))) for t in requested)
