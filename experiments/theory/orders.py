"""Orders of convergence: every sampler on every process, in the number of steps.

    python experiments/theory/orders.py --write

Two dependent sites of four states with the exact denoiser; distributions are computed exactly from q_1 to q at t = 0.1
on uniform grids. Exact samplers without a transition kernel are sampled instead, and compared with exact samples.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from _experiment import COLOURS, Experiment, folded, legend_below, panels, scales, table
from _small import written_out
from convergence import END, SAMPLERS, fits
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import site_kernels
from tauleap.evaluate.pushforward import pushforward_grid
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
SHORT = dict(
    zip(
        NAMES,
        [
            *("leaps: add", "leaps: reject", "leaps: last"),
            *("Ancestral", "look ahead", "Trapezoidal", "Extrapolated", "FirstJump"),
            *("corrector", "NextReaction"),
        ],
        strict=True,
    )
)
COLUMNS = {"absorbing, first state": "first absorbs", "rank one by site": "by site", "absorbing as a matrix": "matrix"}
DRAWN: list[Sampler] = [FirstHitting(), Uniformization()]


def marginal(process: ForwardProcess, law: Tensor, t: float) -> Tensor:
    """Return q_t, also if the sites have different processes."""
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
        law = pushforward_grid(sampler, reverse, start, grid)
        if not abs(float(law.sum()) - 1) < 1e-6:
            raise ArithmeticError(
                f"{sampler} in {steps} steps of {reverse.process}: the probabilities sum to {law.sum():g} instead of 1"
            )
        found.append(total_variation(law, target))
    return found


def drawn_error(sampler: Sampler, reverse: ReverseProcess, law: Tensor) -> dict[str, float]:
    """Return the total variation of samples at END, and its mean and standard deviation for exact samples."""
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
    """Return the order of convergence, or nan if the error is only rounding."""
    if found[-1] < 1e-10:
        return math.nan
    return -slope([float(steps) for steps in STEPS[-FITTED:]], found[-FITTED:])


def figure(results: dict[str, Any]):
    drawn, axes = panels(3, 3, (8, 8.6))
    palette = dict(zip(NAMES, COLOURS, strict=False))
    for number, (panel, (title, curves)) in enumerate(zip(axes, results["pushed"].items(), strict=True)):
        for name, found in curves.items():
            if not math.isnan(order(found)):
                panel.loglog(STEPS, found, ".-", color=palette[name], linewidth=1)
        panel.set_ylim(8e-6, 1)
        panel.set_xticks(STEPS, [str(steps) for steps in STEPS])
        panel.minorticks_off()
        scales(
            panel,
            legend=False,
            title=title,
            xlabel="steps" if number >= 6 else "",
            ylabel="total variation" if number % 3 == 0 else "",
        )
    for name, colour in palette.items():
        axes[0].plot([], [], ".-", color=colour, label=SHORT[name])
    legend_below(drawn, axes[0], 5)
    return drawn


def text(results: dict[str, Any]) -> str:
    powers, errors = [], []
    for name in NAMES:
        curves = [each.get(name) for each in results["pushed"].values()]
        exact = [found is not None and math.isnan(order(found)) for found in curves]
        cells = zip(curves, exact, strict=True)
        powers.append(
            [
                SHORT[name],
                *("" if found is None else "exact" if known else f"{order(found):.2f}" for found, known in cells),
            ]
        )
        cells = zip(curves, exact, strict=True)
        errors.append(
            [
                SHORT[name],
                *("" if found is None else "exact" if known else f"{found[-1]:.0e}" for found, known in cells),
            ]
        )
    drawn = [
        [
            type_of(sampler),
            name,
            f"{found['found']:.4f}",
            f"{found['exact']:.4f} ± {found['deviation']:.4f}",
            f"{(found['found'] - found['exact']) / found['deviation']:+.1f}",
        ]
        for name, each in results["drawn"].items()
        for sampler, found in each.items()
    ]
    columns = [COLUMNS.get(name, name) for name in results["pushed"]]
    names = [[SHORT[name], f"`{name}`", ""] for name in NAMES]
    for name in results["pushed"]:
        process = of_every_kind()[name]
        words = f"{name}: " if name in COLUMNS else ""
        amount = float(process.schedule.total(1.0))
        names.append([COLUMNS.get(name, name), words + written_out([process]), f"{amount:.3g}"])
    return "\n\n".join(
        [
            table(["order", *columns], powers),
            folded(f"Total variation at {STEPS[-1]} steps", table(["", *columns], errors)),
            f"Two dependent sites of four states with the exact denoiser; uniform grids from $q_1$ to $q$ at {END:g}; "
            "data distributions by `testing.laws.random_law` with seed 1; all errors are exact. Orders "
            f"are slopes over the {FITTED} finest of {STEPS[0]} to {STEPS[-1]} steps, *exact* where the error is "
            "rounding. Empty: the sampler does not support the process. The steps of NextReaction are those of its "
            "rule.",
            folded("Names of samplers and processes, and amounts of noise", table(["", "", "$c(1)$"], names)),
            f"Exact samplers, {DRAWS:,} samples with seed 0: total variation to $q$ at {END:g}, its mean and standard "
            f"deviation over {REPEATS} sets of as many exact samples, and the difference in standard deviations:",
            table(["sampler", "process", "samples", "exact samples", "standard deviations"], drawn),
        ]
    )


def type_of(sampler: str) -> str:
    return sampler.partition("(")[0]


EXPERIMENT = Experiment("orders", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
