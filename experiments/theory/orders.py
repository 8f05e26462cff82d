"""Orders of convergence: every sampler on every process, in the number of steps.

    python experiments/theory/orders.py --write

Two dependent sites of four states with the exact denoiser; whole laws pushed from q_1 to q at t = 0.1 on uniform grids.
Samplers that are exact and have no step to push are drawn instead, with a seed, beside as many exact draws.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from _experiment import COLOURS, Experiment, panels, scales, table
from convergence import END, SAMPLERS, fits
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import site_kernels
from tauleap.evaluate.pushed import run
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    FirstHitting,
    NextReaction,
    Sampler,
    TauLeaping,
    Uniformization,
    WithCorrector,
    sample,
    uniform_grid,
)
from tauleap.testing.cases import counts, draws, of_every_kind, slope, total_variation
from tauleap.testing.laws import push, random_law

STEPS = (4, 8, 16, 32, 64, 128)
FITTED = 3
DRAWS, REPEATS = 20_000, 200
STEPPED: list[Sampler] = [*SAMPLERS, WithCorrector(TauLeaping(), steps=1, scale=0.5)]
RULE = "NextReaction(step)"
NAMES = [*map(repr, STEPPED), RULE]
DRAWN: list[Sampler] = [FirstHitting(), Uniformization()]


def marginal(process: ForwardProcess, law: Tensor, t: float) -> Tensor:
    """q_t, also where the sites differ."""
    return push(law, site_kernels(process, (law.ndim,), t))


def case(process: ForwardProcess) -> tuple[ReverseProcess, Tensor]:
    law = random_law(process.data_states.expand(2, -1), seed=1)
    return ReverseProcess(process, ExactDenoiser(law, process)), law


def errors(sampler: Sampler, reverse: ReverseProcess, law: Tensor) -> list[float]:
    start, target = (marginal(reverse.process, law, t) for t in (1.0, END))
    found = []
    for steps in STEPS:
        if isinstance(sampler, NextReaction):
            sampler, grid = NextReaction((1 - END) / steps), [1.0, END]
        else:
            grid = uniform_grid(steps, end=END)
        law = run(sampler, reverse, start, grid)
        if not abs(float(law.sum()) - 1) < 1e-6:
            raise ArithmeticError(f"{sampler} in {steps} steps of {reverse.process}: the law adds up to {law.sum():g}")
        found.append(total_variation(law, target))
    return found


def drawn_error(sampler: Sampler, reverse: ReverseProcess, law: Tensor) -> dict[str, float]:
    """Total variation of draws at END, and its mean and deviation for exact draws."""
    generator = torch.Generator().manual_seed(0)
    start, target = (marginal(reverse.process, law, t) for t in (1.0, END))
    x = draws(start, DRAWS, generator)
    made = sample(reverse, sampler, x.shape, grid=[1.0, END], start=x, final="none", generator=generator).x0
    exact = torch.distributions.Multinomial(DRAWS, target.reshape(-1), validate_args=False)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        others = [total_variation(exact.sample() / DRAWS, target.reshape(-1)) for _ in range(REPEATS)]
    spread = torch.tensor(others)
    return {
        "found": total_variation(counts(made, target) / DRAWS, target.reshape(-1)),
        "exact": float(spread.mean()),
        "deviation": float(spread.std()),
    }


def compute() -> dict[str, Any]:
    found: dict[str, Any] = {"pushed": {}, "drawn": {}}
    for name, process in of_every_kind().items():
        reverse, law = case(process)
        found["pushed"][name] = {repr(each): errors(each, reverse, law) for each in STEPPED if fits(each, reverse)}
        found["pushed"][name][RULE] = errors(NextReaction(), reverse, law)
        fitting = [each for each in DRAWN if fits(each, reverse)]
        found["drawn"][name] = {repr(each): drawn_error(each, reverse, law) for each in fitting}
    return found


def order(found: list[float]) -> float:
    """nan where there is nothing but rounding."""
    if found[-1] < 1e-10:
        return math.nan
    return -slope([float(steps) for steps in STEPS[-FITTED:]], found[-FITTED:])


def figure(results: dict[str, Any]):
    drawn, axes = panels(2, 5, (16, 7))
    palette = dict(zip(NAMES, COLOURS, strict=False))
    for panel, (title, curves) in zip(axes, results["pushed"].items(), strict=False):
        for name, found in curves.items():
            if not math.isnan(order(found)):
                panel.loglog(STEPS, found, ".-", color=palette[name], linewidth=1, label=f"{order(found):.2f}")
        scales(panel, title=title, xlabel="steps", ylabel="total variation")
    for name, colour in palette.items():
        axes[-1].plot([], [], ".-", color=colour, label=name)
    axes[-1].legend(fontsize=8, frameon=False, loc="center", title="in the panels: the order")
    axes[-1].set_axis_off()
    return drawn


def text(results: dict[str, Any]) -> str:
    rows = []
    for name in NAMES:
        cells = []
        for curves in results["pushed"].values():
            found = curves.get(name)
            power = order(found) if found else math.nan
            cells.append("" if found is None else "exact" if math.isnan(power) else f"{power:.2f} ({found[-1]:.0e})")
        rows.append([f"`{name}`", *cells])
    exact = [
        [
            f"`{sampler}`, {name}",
            f"{found['found']:.4f}",
            f"{found['exact']:.4f} ± {found['deviation']:.4f}",
            f"{(found['found'] - found['exact']) / found['deviation']:+.1f}",
        ]
        for name, each in results["drawn"].items()
        for sampler, found in each.items()
    ]
    return "\n\n".join(
        [
            table([f"order (total variation at {STEPS[-1]} steps)", *results["pushed"]], rows),
            f"Uniform grids from q_1 to q at {END:g}; data laws by `testing.laws.random_law` with seed 1; slopes over "
            f"the {FITTED} finest of {STEPS[0]} to {STEPS[-1]} steps, *exact* where the error is rounding. Empty: the "
            "sampler refuses the process. For `NextReaction` the steps are those of its rule.",
            f"Exact samplers, {DRAWS:,} draws with seed 0: total variation to q at {END:g}, beside its mean and "
            f"standard deviation over {REPEATS} sets of as many exact draws, and the difference in these deviations:",
            table(["sampler, process", "samples", "exact draws", "deviations"], exact),
        ]
    )


EXPERIMENT = Experiment("orders", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
