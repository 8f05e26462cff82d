"""Correctors: leaps, or draws of single sites, at a fixed time that bring the law closer to q_t (Section 4.4)."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from tauleap import _check, _device, _draw
from tauleap._shapes import States
from tauleap.denoise.on_device import moved
from tauleap.denoise.undefined import reporting_undefined
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed, check_observed, select_rows
from tauleap.reverse import ReverseProcess
from tauleap.reverse.base import check_rates
from tauleap.sampling.gibbs import Selection, check_gibbs, check_selection, gibbs_step
from tauleap.sampling.sampler import (
    Sampler,
    StepInfo,
    check_condition,
)
from tauleap.sampling.tau_leaping import MultipleJumps, check_adding, check_multiple_jumps, leap


class WithCorrector(Sampler):
    """Follow each step of a sampler by corrector steps at the time that it has reached.

    ``kind="rates"``, the paper's, is a tau-leap with the corrector rates. ``R_c = R_t + Rhat_t`` has q_t as its
    stationary distribution (Proposition 4), so that running it at a fixed time draws the samples towards q_t. The
    paper's settings (Appendix H):

    * images: ``WithCorrector(TauLeaping(), steps=10, scale=1.5, start=0.1)`` on ``uniform_grid(495)``,
    * music: ``WithCorrector(TauLeaping(), steps=2, scale=0.1, start=0.9)`` on ``uniform_grid(990)``.

    ``kind="gibbs"`` redraws ``sites`` sites of each row from their conditional distributions s_v / sum s, where s are
    the ratios of the reverse process (informed correctors, Zhao et al. 2024). One random site leaves q_t invariant;
    several at once do so approximately. ``selection="margin"`` redraws the sites whose states are the least likely
    compared with the best other state. It is a heuristic: q_t is not invariant under it.

    One network evaluation per corrector step. For the same number of evaluations, correctors help on some grids and are
    worse than more steps on others; docs/samplers.md has the measurements.

    Args:
        sampler: The sampler of the predictor steps.
        steps: The number of corrector leaps per step, >= 1.
        scale: The length of a corrector leap, in lengths of the preceding step, > 0. Default: 1.
        start: Correctors run where the time reached is below this, in (0, 1]. Default: 1.
        multiple_jumps: The treatment of several jumps at one site by corrector leaps, see ``TauLeaping``. Default:
            None.
        kind: "rates" or "gibbs". Default: "rates".
        sites: The number of sites per row that a Gibbs step redraws, >= 1. Default: 1.
        selection: The sites that a Gibbs step redraws, "random" or "margin". Default: "random".

    Raises:
        TypeError: ``sampler`` is not a Sampler.
        ValueError: A number is out of its range, or an argument belongs to the other kind.

    >>> from tauleap.sampling import TauLeaping
    >>> WithCorrector(TauLeaping(), steps=2, scale=0.1, start=0.9)
    WithCorrector(TauLeaping(), steps=2, scale=0.1, start=0.9)
    """

    def __init__(
        self,
        sampler: Sampler,
        steps: int,
        scale: float = 1.0,
        start: float = 1.0,
        multiple_jumps: MultipleJumps | None = None,
        *,
        kind: Literal["rates", "gibbs"] = "rates",
        sites: int = 1,
        selection: Selection = "random",
    ) -> None:
        if not isinstance(sampler, Sampler):
            raise TypeError(f"sampler must be a Sampler such as TauLeaping(), got {sampler!r}")
        self.sampler = sampler
        self.steps = _check.integer("steps", steps, least=1)
        self.scale = _check.positive("scale", scale)
        self.start = _check.positive("start", start)
        if self.start > 1:
            raise ValueError(f"start must be a time in (0, 1], got {start!r}")
        self.multiple_jumps: MultipleJumps | None = check_multiple_jumps(multiple_jumps)
        if kind not in ("rates", "gibbs"):
            raise ValueError(f"kind must be 'rates' or 'gibbs', got {kind!r}")
        self.kind: Literal["rates", "gibbs"] = kind
        self.sites = _check.integer("sites", sites, least=1)
        self.selection: Selection = check_selection(selection)
        if kind == "gibbs" and (self.scale != 1 or multiple_jumps is not None):
            raise ValueError("scale and multiple_jumps need kind='rates', got kind='gibbs': leave them out")
        if kind == "rates" and (self.sites != 1 or selection != "random"):
            raise ValueError("sites and selection need kind='gibbs', got kind='rates': write kind='gibbs'")
        self.order = min(1.0, sampler.order)

    def check(self, process: ForwardProcess) -> None:
        self.sampler.check(process)
        if self.kind == "gibbs":
            check_gibbs(process, self.selection)
        check_adding(self.multiple_jumps, process, "WithCorrector")

    def step(
        self,
        reverse: ReverseProcess,
        x_t: States,
        t: float,
        s: float,
        *,
        observed: Observed | None = None,
        condition: Tensor | None = None,
        generator: torch.Generator | None = None,
    ) -> tuple[States, StepInfo]:
        before = self.enter(reverse, x_t, t, s, observed)
        x, info = self.sampler.step(reverse, before, t, s, observed=observed, condition=condition, generator=generator)
        if s >= self.start or s == 0:  # at time 0 there is no noise that could be corrected
            return x, info
        infos = [info]
        given = {"observed": observed, "condition": condition}
        for _ in range(self.steps):
            if self.kind == "gibbs":
                x, info = gibbs_step(reverse, x, s, self.sites, self.selection, **given, generator=generator)
            else:
                at = reverse.at(x, s, **given, checked=True).deferred()
                x, info = leap(at, self.scale * (t - s), self.multiple_jumps, generator=generator, corrector=True)
            infos.append(info)
        return x, StepInfo.merged(infos, before, x, observed)

    def __repr__(self) -> str:
        if self.kind == "gibbs":
            how = "" if self.selection == "random" else f", selection={self.selection!r}"
            return (
                f"WithCorrector({self.sampler}, steps={self.steps}, start={self.start:g}, kind='gibbs', "
                f"sites={self.sites}{how})"
            )
        how = "" if self.multiple_jumps is None else f", multiple_jumps={self.multiple_jumps!r}"
        return f"WithCorrector({self.sampler}, steps={self.steps}, scale={self.scale:g}, start={self.start:g}{how})"


def run_corrector(
    reverse: ReverseProcess,
    x: States,
    t: float,
    *,
    steps: int,
    step: float,
    exact: bool = False,
    multiple_jumps: MultipleJumps | None = None,
    observed: Observed | None = None,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> tuple[States, StepInfo]:
    """Run the corrector from x at the fixed time ``t`` for ``steps`` leaps of length ``step``.

    The states explore q_t: the paper shows a thousand such steps at t = 0.4, with a picture every hundred (Appendix
    F.2), which is ten calls with ``steps=100``. At a fixed time the chain is homogeneous, so that Gillespie's algorithm
    simulates it without approximation (``exact``).

    Args:
        reverse: The reverse process.
        x: The states at time t.
        t: The time, in (0, 1].
        steps: The number of leaps, >= 1; one network evaluation each.
        step: The length of a leap, in time, > 0.
        exact: Simulate the chain for the same time jump by jump; one network evaluation per jump. Default: False.
        multiple_jumps: The treatment of several jumps at one site, see ``TauLeaping``. Default: that of the process.
        observed: The observed sites and their values. Default: none.
        condition: The input of the denoiser, with one entry per sample along its first axis. Default: none.
        generator: The source of randomness. Default: that of torch.

    Returns:
        The states after the leaps, and counts of the events.

    Raises:
        ValueError: An argument is out of its range, or does not suit the process.

    >>> from tauleap import denoise, noise
    >>> process = noise.Uniform(2, noise.Constant(3.0))
    >>> reverse = ReverseProcess(process, denoise.ExactDenoiser(torch.tensor([0.75, 0.25]), process))
    >>> generator = torch.Generator().manual_seed(0)
    >>> x = torch.zeros(1000, 1, dtype=torch.int64)
    >>> out, info = run_corrector(reverse, x, 0.1, steps=20, step=0.05, generator=generator)
    >>> round(float(out.double().mean()), 1), float(info.evaluations)  # q_0.1 has 0.36 in state 1
    (0.4, 20.0)
    """
    if not isinstance(reverse, ReverseProcess):
        raise TypeError(f"reverse must be a ReverseProcess, got {type(reverse).__name__}")
    steps, step = _check.integer("steps", steps, least=1), _check.positive("step", step)
    how = check_multiple_jumps(multiple_jumps)
    check_adding(how, reverse.process, "run_corrector")
    checked = _check.time(t)
    if checked.ndim:
        raise ValueError(f"t must be one time for all samples, got shape {tuple(checked.shape)}")
    time = float(checked)
    if time == 0:
        raise ValueError("t must be > 0: at time 0 there is no noise, and no jump")
    x = _check.states(x, reverse.process.num_states)
    if observed is not None:
        check_observed(observed).check(x, reverse.process.num_states)
        x = observed.fill(x)
    if condition is not None:
        check_condition(condition, len(x))
    _check.randomness(generator)
    if _device.lacks_float64(x.device):
        out, info = run_corrector(
            reverse.on_cpu(),
            moved(x, _device.CPU),
            time,
            steps=steps,
            step=step,
            exact=exact,
            multiple_jumps=how,
            observed=moved(observed, _device.CPU),
            condition=moved(condition, _device.CPU),
            generator=generator,
        )
        return moved(out, x.device), info
    with torch.no_grad(), reporting_undefined():
        if exact:
            return _gillespie(reverse, x, time, steps * step, observed, condition, generator)
        before, infos = x, []
        for _ in range(steps):
            at = reverse.at(x, time, observed=observed, condition=condition, checked=True).deferred()
            x, info = leap(at, step, how, generator=generator, corrector=True)
            infos.append(info)
        return x, StepInfo.merged(infos, before, x, observed)


def _gillespie(
    reverse: ReverseProcess,
    x: States,
    t: float,
    duration: float,
    observed: Observed | None,
    condition: Tensor | None,
    generator: torch.Generator | None,
) -> tuple[States, StepInfo]:
    """Run the corrector's chain at a fixed t for a duration, each sample on its own clock (Appendix F.1)."""
    out, jumps = x.clone(), torch.zeros_like(x)
    left = torch.full((len(x),), duration, dtype=torch.float64, device=x.device)
    going, evaluated = torch.arange(len(x), device=x.device), 0
    while len(going):
        here = out[going]
        here_observed, here_condition = select_rows(observed, condition, going)
        at = reverse.at(here, t, observed=here_observed, condition=here_condition, checked=True)
        outgoing = at.deferred().corrector_jumps
        exits = check_rates(outgoing.exit_rate)
        rates = exits.flatten(1).to(torch.float64)
        left[going] += torch.log1p(-_draw.uniforms((len(going),), x.device, generator)) / rates.sum(1)
        rows = (left[going] > 0).nonzero().squeeze(-1)
        if not len(rows):
            evaluated += at.evaluations * len(going)
            break
        sites = _draw.categorical(rates[rows], generator)
        to = outgoing.draw(rows * rates.shape[1] + sites, generator)
        evaluated += at.evaluations * len(going)
        going = going[rows]
        out.flatten(1)[going, sites] = to
        jumps.flatten(1)[going, sites] += 1
    info = StepInfo.count(x, out, evaluations=evaluated / max(1, len(x)), observed=observed, jumps=jumps)
    return out, info
