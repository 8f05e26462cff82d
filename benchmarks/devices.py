"""How often the host waits for an accelerator, counted on the simulated device of the tests: no times are measured."""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks import Row, benchmark
from tauleap.noise import ForwardProcess
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, PaperElbo
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
)
from tauleap.testing import cases
from tests import simulated
from tests.devices.waits import waits_per_evaluation, waits_per_step

_KINDS = ("uniform", "absorbing", "birth/death", "cycle")
_STEPS: list[Sampler] = [
    TauLeaping(),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Trapezoidal(),
    Extrapolated(),
    FirstJump(),
    NextReaction(step=0.4),
    FirstHitting(),
    WithCorrector(TauLeaping(), 1),
]
_JUMP_BY_JUMP: list[Sampler] = [Uniformization()]
"""Samplers without a limit: the number of samples with another candidate, and the number of jumps, are values on the
device. For noise that is not rank one, so is the length of the loop that thins candidates."""


@benchmark
def samplers() -> Iterator[Row]:
    for sampler in (*_STEPS, *_JUMP_BY_JUMP):
        limit = 2.0 if sampler in _STEPS else None
        for name, process in _processes(sampler).items():
            with simulated.active() as device:
                count = waits_per_evaluation(device, process, sampler, in_all=limit is None)
            yield Row(f"{sampler!r}, {name}", count, "waits per evaluation", at_most=limit)


@benchmark
def training() -> Iterator[Row]:
    for objective in (CompleteElbo(), PaperElbo(passes=2), CrossEntropy(), DiscreteTimeElbo(5)):
        for name in _KINDS:
            with simulated.active() as device:
                count = waits_per_step(device, cases.of_every_kind()[name], objective)
            yield Row(f"{objective!r}, {name}", count, "waits per step", at_most=1.0)


def _processes(sampler: Sampler) -> dict[str, ForwardProcess]:
    found: dict[str, ForwardProcess] = {}
    for name in _KINDS:
        process = cases.of_every_kind()[name]
        try:
            sampler.check(process)
        except ValueError:
            continue
        found[name] = process
    return found
