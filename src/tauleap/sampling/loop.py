"""The one loop: a reverse process, a sampler and a grid give samples."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields
from itertools import pairwise
from numbers import Real
from typing import Any, Literal, TypeAlias, get_args

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _check, _device
from tauleap._seeds import derive_seed
from tauleap._shapes import States
from tauleap.denoise import Posterior
from tauleap.denoise.on_device import moved
from tauleap.denoise.undefined import reporting_undefined
from tauleap.noise.rank_one import draw_from
from tauleap.observed import Observed, check_observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling._progress import reporting
from tauleap.sampling.grid import check_grid
from tauleap.sampling.sampler import Sampler, StepInfo, check_condition

Final = Literal["mode", "sample", "none"]
Times: TypeAlias = Float[Tensor, "times"]
PerStep: TypeAlias = Float[Tensor, "steps"]


@dataclass(frozen=True)
class Trace:
    """The run at the times that were asked for, or the nearest of the grid."""

    times: Times
    x: Int64[Tensor, "times batch *shape"]
    """The noisy states x_t."""
    predicted_x0: Int64[Tensor, "times batch *shape"]
    """The denoiser's prediction of x0 at each time: the mode of p(x0 | x_t), one network evaluation each."""


@dataclass(frozen=True)
class Info:
    """What a run cost and how it went. Numbers a step are one for each step of the grid, see ``StepInfo``."""

    evaluations: float
    """Passes of the denoiser a sample took part in, on average, with those for ``final`` and ``trace``."""
    seconds: float
    jumped: PerStep
    jumps: PerStep
    rejected: PerStep
    clamped: PerStep


@dataclass(frozen=True)
class Samples:
    """The samples ``x0`` (n, *shape), ``trace`` if it was asked for, and ``info``."""

    x0: States
    trace: Trace | None
    info: Info

    def to(self, device: torch.device) -> Samples:
        """Return the samples and their trace on ``device``.

        Args:
            device: where to.
        """
        trace = self.trace and Trace(self.trace.times, self.trace.x.to(device), self.trace.predicted_x0.to(device))
        return Samples(self.x0.to(device), trace, self.info)

    @staticmethod
    def join(parts: Sequence[Samples]) -> Samples:
        """Blocks of one request as one, in the order given; seconds add up."""
        if not parts:
            raise ValueError("there must be at least one part to join")
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

        steps = (mean(name) for name in ("jumped", "jumps", "rejected", "clamped"))
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
) -> Samples:
    """Samples of the given ``shape``, (n, *shape), by running the reverse chain from noise to data.

    * ``grid``: the times at which the sampler stops, from the noise down: ``uniform_grid(100)``.
    * ``start``: the states at the first time of the grid; by default they are drawn from ``process.sampling_prior()``.
    * ``trace``: times at which to keep x_t and the denoiser's prediction of x0, each at the nearest time of the grid.
    * ``final``: what becomes of the noise that is left at the last time: ``"mode"`` takes the most probable x0, as the
      paper does (Appendix H), ``"sample"`` draws it site by site, ``"none"`` leaves x as it is.
    * ``observed``: sites that are given, with their values, for all samples; they never move.
    * ``condition``: passed to the denoiser, with one entry a sample along its first axis.
    * ``batch_size``: how many samples are made at a time. Each such block draws from a seed of its own, which depends
      on the generator's state and the block's number alone. So ``blocks=range(rank, n_blocks, world)`` makes some of
      them here and others elsewhere, or the rest of an interrupted run, and all together are what one call would give;
      ``Samples.join`` puts them together.
    * ``progress``: shows a bar with the time left.

    >>> from tauleap.denoise import ExactDenoiser
    >>> from tauleap.noise import Constant, Uniform
    >>> from tauleap.sampling import TauLeaping, uniform_grid
    >>> process = Uniform(3, Constant(1.0))
    >>> reverse = ReverseProcess(process, ExactDenoiser(torch.tensor([0.0, 0.5, 0.5]), process))
    >>> seed = torch.Generator().manual_seed(0)
    >>> samples = sample(reverse, TauLeaping(), (1000, 1), grid=uniform_grid(20), generator=seed)
    >>> samples.x0.shape, int((samples.x0 == 0).sum()), samples.info.evaluations
    (torch.Size([1000, 1]), 0, 21.0)
    """
    times = _check_request(reverse, sampler, grid, final)
    number, *site_shape = _check_shape(shape)
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
        }
        there = {name: moved(value, _device.CPU) for name, value in named.items()}
        return sample(reverse.on_cpu(), sampler, shape, **there).to(device)
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
    trace_times = _trace_times(trace, times)
    size = number if batch_size is None else _check.integer("batch_size", batch_size, least=1)
    count = max(1, math.ceil(number / max(1, size)))
    chosen = range(count) if blocks is None else _check_blocks(blocks, count)
    base = int(torch.randint(2**63 - 1, (), generator=generator, device=generator.device if generator else _device.CPU))

    parts = []
    steps = len(chosen) * (len(times) - 1)
    with reporting(progress, steps, f"{sampler}") as advance, reporting_undefined(), torch.no_grad():
        for block in chosen:
            part = slice(block * size, min(number, (block + 1) * size))
            run = _Run(
                reverse,
                sampler,
                times,
                trace_times,
                final,
                None if observed is None else _part_of(observed, part, device),
                None if condition is None else condition[part].to(device),
                _device.new_generator(
                    device if generator is None else generator.device, derive_seed(base, "block", block)
                ),
            )
            x = None if start is None else start[part].to(device)
            parts.append(run(x, torch.Size((part.stop - part.start, *site_shape)), advance))
    return Samples.join(parts)


@dataclass(frozen=True)
class _Run:
    """One block from its first time to its last."""

    reverse: ReverseProcess
    sampler: Sampler
    times: list[float]
    trace_times: frozenset[float]
    final: Final
    observed: Observed | None
    condition: Tensor | None
    generator: torch.Generator

    def __call__(self, x: States | None, shape: torch.Size, advance: Callable[[], None]) -> Samples:
        began = time.perf_counter()
        if x is None:
            x = draw_from(self.reverse.process.sampling_prior(), shape, self.generator).to(self.reverse.device)
        if self.observed is not None:
            x = self.observed.fill(x)
        recorded: list[tuple[float, Tensor, Tensor]] = []
        infos: list[StepInfo] = []
        last = self.times[-1]
        self._record(recorded, x, self.times[0])
        for t, s in pairwise(self.times):
            x, info = self.sampler.step(
                self.reverse, x, t, s, observed=self.observed, condition=self.condition, generator=self.generator
            )
            infos.append(info)
            if s != last:
                self._record(recorded, x, s)
            advance()
        posterior = self._record(recorded, x, last)
        passes = len(recorded)
        if self.final != "none":
            if posterior is None:
                posterior = self._posterior(x, last)
                passes += 1
            x = posterior.mode if self.final == "mode" else posterior.sample(generator=self.generator)
            x = x if self.observed is None else self.observed.fill(x)
        trace = None
        if recorded:
            times, states, predictions = zip(*recorded, strict=True)
            trace = Trace(torch.tensor(times, dtype=torch.float64), torch.stack(states), torch.stack(predictions))
        columns = _columns(infos)
        evaluations = float(columns.pop("evaluations").sum()) + passes
        return Samples(x, trace, Info(evaluations, time.perf_counter() - began, **columns))

    def _record(self, recorded: list[tuple[float, Tensor, Tensor]], x: States, t: float) -> Posterior | None:
        """Keeps x if t was asked for, and gives what the denoiser then said of it."""
        if t not in self.trace_times:
            return None
        posterior = self._posterior(x, t)
        predicted = posterior.mode
        recorded.append((t, x, predicted if self.observed is None else self.observed.fill(predicted)))
        return posterior

    def _posterior(self, x: States, t: float) -> Posterior:
        return self.reverse.posterior(x, t, observed=self.observed, condition=self.condition)


def _columns(infos: Sequence[StepInfo]) -> dict[str, Tensor]:
    """Return each number of the steps as one tensor on the CPU, by one copy from the device."""
    names = [field.name for field in fields(StepInfo)]
    rows = [[getattr(info, name) for name in names] for info in infos]
    device = next((value.device for value in rows[0] if not _device.is_host(value.device)), _device.CPU)
    table = torch.stack([torch.stack([_device.moved_to(value, device) for value in row]) for row in rows])
    return dict(zip(names, table.cpu().unbind(1), strict=True))


def _check_request(reverse: object, sampler: object, grid: object, final: object) -> list[float]:
    if not isinstance(reverse, ReverseProcess):
        raise TypeError(
            f"reverse must be a ReverseProcess, got {type(reverse).__name__}: write ReverseProcess(process, denoiser)"
        )
    if not isinstance(sampler, Sampler):
        raise TypeError(f"sampler must be a Sampler such as TauLeaping(), got {sampler!r}")
    if final not in get_args(Final):
        raise ValueError(f"final must be 'mode', 'sample' or 'none', got {final!r}")
    sampler.check(reverse.process)
    return check_grid(grid)


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
        raise ValueError(f"blocks must name each block once, as it comes out the same every time, got {chosen}")
    return chosen


def _trace_times(trace: object, times: list[float]) -> frozenset[float]:
    if trace is None:
        return frozenset()
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


def _part_of(observed: Observed, part: slice, device: torch.device) -> Observed:
    return Observed(observed.mask[part].to(device), observed.values[part].to(device))
