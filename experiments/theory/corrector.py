"""Proposition 4: the corrector's stationary law is q_t; how fast correctors repair a spoiled marginal.

    python experiments/theory/corrector.py --write

Two dependent sites of three data states under four kinds of noise, exact denoiser. The marginal at t is spoiled by
taking q_1 in its place: samples that are far too noisy. Whole laws are pushed, nothing is drawn.
"""

from __future__ import annotations

from typing import Any

import torch
from _experiment import COLOURS, Experiment, panels, scales, table
from torch import Tensor

from tauleap.evaluate.joint_space import joint_generator, joint_states
from tauleap.evaluate.pushed import marginal, push_corrector, run
from tauleap.reverse import ReverseProcess
from tauleap.sampling import TauLeaping, WithCorrector, uniform_grid
from tauleap.testing.cases import NAMES, correlated, slope, total_variation

TIME = 0.3
LENGTHS = (0.1, 0.05, 0.025, 0.0125, 0.00625)
FEW, SOME = 2, 16
NUMBERS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512)
END, STEPS = 0.1, 12
PER_STEP, SCALES = (0, 1, 2, 4), (0.1, 0.3, 1.0)


def stationary(reverse: ReverseProcess, q: Tensor, t: float) -> dict[str, float]:
    """How much R + Rhat moves q, what law it keeps, and how fast it forgets: its gap, from its spectrum.

    R + Rhat is in balance with q in all, not in detail, so eigenvalues may be complex; the gap is of real parts.
    """
    x = joint_states(reverse.process.num_states, q.ndim)
    rates = joint_generator(reverse.corrector_rates(x, t))
    flow = q.reshape(-1) @ rates
    kept = torch.linalg.svd(rates.mT)[2][-1]
    kept = kept / kept.sum()
    parts = sorted(-torch.linalg.eigvals(rates).real)
    return {
        "flow": float(flow.abs().max() / rates.abs().max()),
        "distance": total_variation(kept, q.reshape(-1)),
        "gap": float(parts[1]),
        "reverse alone": float((q.reshape(-1) @ joint_generator(reverse.rates(x, t))).abs().max() / rates.abs().max()),
    }


def repaired(reverse: ReverseProcess, law: Tensor, q: Tensor, t: float, tau: float) -> list[float]:
    """Total variation of ``law`` to q after the NUMBERS of corrector leaps of length tau."""
    out, made = [], 0
    for number in NUMBERS:
        for _ in range(number - made):
            law = push_corrector(reverse, law, t, tau)
        made = number
        out.append(total_variation(law, q))
    return out


def repaired_exactly(reverse: ReverseProcess, law: Tensor, q: Tensor, t: float, times: list[float]) -> list[float]:
    """The same by the corrector's chain itself, after the given times."""
    x = joint_states(reverse.process.num_states, q.ndim)
    rates, start = joint_generator(reverse.corrector_rates(x, t)), law.reshape(-1)
    return [total_variation(start @ torch.linalg.matrix_exp(time * rates), q.reshape(-1)) for time in times]


def whole_run(reverse: ReverseProcess, law: Tensor, number: int, scale: float) -> float:
    sampler = WithCorrector(TauLeaping(), steps=number, scale=scale) if number else TauLeaping()
    found = run(sampler, reverse, marginal(reverse, law, 1.0), uniform_grid(STEPS, end=END))
    return total_variation(found, marginal(reverse, law, END))


def equal_cost(reverse: ReverseProcess, law: Tensor, number: int) -> float:
    """As many evaluations as STEPS steps with ``number`` correctors each, all spent on steps."""
    found = run(TauLeaping(), reverse, marginal(reverse, law, 1.0), uniform_grid(STEPS * (1 + number), end=END))
    return total_variation(found, marginal(reverse, law, END))


def compute() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NAMES:
        reverse, law = correlated(name, sites=2)
        q, spoiled = marginal(reverse, law, TIME), marginal(reverse, law, 1.0)
        times = torch.logspace(-2, 1.5, 60, dtype=torch.float64).tolist()
        found[name] = {
            "stationary": stationary(reverse, q, TIME),
            "spoiled": total_variation(spoiled, q),
            "leaps": {f"{tau:g}": repaired(reverse, spoiled, q, TIME, tau) for tau in LENGTHS},
            "times": times,
            "chain": repaired_exactly(reverse, spoiled, q, TIME, times),
            "runs": {f"{n} x {scale:g}": whole_run(reverse, law, n, scale) for n in PER_STEP[1:] for scale in SCALES},
            "steps alone": {str(n): equal_cost(reverse, law, n) for n in PER_STEP},
        }
    return found


def least(found: dict[str, Any], number: int) -> str:
    """The smallest error after ``number`` correctors, and the step that gives it."""
    error, tau = min((found["leaps"][f"{tau:g}"][NUMBERS.index(number)], tau) for tau in LENGTHS)
    return f"{error:.4f} ({tau:g})"


def floors(found: dict[str, Any]) -> list[float]:
    return [found["leaps"][f"{tau:g}"][-1] for tau in LENGTHS]


def figure(results: dict[str, Any]):
    drawn, axes = panels(2, 3, (12, 7))
    for panel, name in zip(axes, NAMES, strict=False):
        found = results[name]
        panel.plot(found["times"], found["chain"], color="black", linewidth=1.5, label="the chain itself")
        for colour, tau in zip(COLOURS, LENGTHS, strict=False):
            time = [number * tau for number in NUMBERS[1:]]
            errors = found["leaps"][f"{tau:g}"][1:]
            panel.plot(time, errors, ".-", color=colour, linewidth=1, label=f"leaps of {tau:g}")
        panel.set(xscale="log", yscale="log", ylim=(1e-6, 1), xlim=(0.01, 30))
        scales(panel, title=f"{name}, t = {TIME:g}", xlabel="time of correcting", ylabel="total variation to q_t")
    for colour, name in zip(COLOURS, NAMES, strict=False):
        left = floors(results[name])
        label = f"{name}, slope {slope(list(LENGTHS[-3:]), left[-3:]):.2f}"
        axes[4].loglog(LENGTHS, left, ".-", color=colour, linewidth=1, label=label)
        for number, style in ((FEW, ".:"), (SOME, ".-")):
            errors = [results[name]["leaps"][f"{tau:g}"][NUMBERS.index(number)] for tau in LENGTHS]
            axes[5].loglog(LENGTHS, errors, style, color=colour, linewidth=1, label=name if number == SOME else None)
    scales(axes[4], title=f"after {NUMBERS[-1]} correctors", xlabel="step of the corrector", ylabel="total variation")
    scales(
        axes[5],
        title=f"after {FEW} (dotted) and {SOME} correctors",
        xlabel="step of the corrector",
        ylabel="total variation",
    )
    return drawn


def text(results: dict[str, Any]) -> str:
    rows = []
    for name in NAMES:
        found, kept = results[name], results[name]["stationary"]
        few, some = (least(found, number) for number in (FEW, SOME))
        rows.append(
            [
                name,
                *(f"{kept[key]:.0e}" for key in ("flow", "distance")),
                f"{kept['reverse alone']:.2f}",
                f"{kept['gap']:.2f}",
                f"{found['spoiled']:.3f}",
                few,
                some,
                *(f"{found['leaps'][f'{tau:g}'][-1]:.1e}" for tau in (LENGTHS[0], LENGTHS[-1])),
                f"{slope(list(LENGTHS[-3:]), floors(found)[-3:]):.2f}",
            ]
        )
    head = ["noise", "flow of q_t", "TV of the kept law", "flow under Rhat alone", "gap", "spoiled by"]
    head += [
        f"after {FEW} (best step)",
        f"after {SOME} (best step)",
        f"floor, {LENGTHS[0]:g}",
        f"floor, {LENGTHS[-1]:g}",
        "order of the floor",
    ]
    costs = [
        [
            f"{name}, {n} a step",
            f"{results[name]['steps alone']['0']:.4f}",
            *(f"{results[name]['runs'][f'{n} x {scale:g}']:.4f}" for scale in SCALES),
            f"{results[name]['steps alone'][str(n)]:.4f}",
        ]
        for name in NAMES
        for n in PER_STEP[1:]
    ]
    return "\n\n".join(
        [
            table(head, rows),
            f"t = {TIME:g}. Flows, |q_t (R + Rhat)| and |q_t Rhat|, are the largest entry over the largest rate; the "
            "kept law is the null vector of R + Rhat. Total variation to q_t, from a start in q_1; "
            f"the floor is what {NUMBERS[-1]} correctors leave.",
            f"Whole runs of {STEPS} tau-leaps from q_1 to q at {END:g} with correctors after every step, their length "
            "a multiple of the step's; and the same evaluations spent on more steps:",
            table(
                ["total variation at the end", "none", *(f"scale {scale:g}" for scale in SCALES), "more steps instead"],
                costs,
            ),
        ]
    )


EXPERIMENT = Experiment("corrector", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
