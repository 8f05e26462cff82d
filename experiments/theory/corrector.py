"""Proposition 4: the corrector's stationary law is q_t; how fast correctors repair a spoiled marginal.

    python experiments/theory/corrector.py --write

Two dependent sites of three data states under four kinds of noise, exact denoiser. The marginal at t is spoiled by
taking q_1 in its place: samples that are far too noisy. Whole laws are pushed, nothing is drawn.
"""

from __future__ import annotations

from typing import Any

import torch
from _experiment import COLOURS, Experiment, legend_below, or_rounding, panels, scales, table
from _small import written_out
from torch import Tensor

from tauleap.evaluate.joint_space import joint_generator, joint_states
from tauleap.evaluate.pushforward import marginal, push_corrector, pushforward_grid
from tauleap.reverse import ReverseProcess
from tauleap.sampling import TauLeaping, WithCorrector, uniform_grid
from tauleap.testing.cases import NAMES, correlated, process, slope, total_variation

TIME = 0.3
LENGTHS = (0.4, 0.2, 0.1, 0.05, 0.025, 0.0125, 0.00625)
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
    found = pushforward_grid(sampler, reverse, marginal(reverse, law, 1.0), uniform_grid(STEPS, end=END))
    return total_variation(found, marginal(reverse, law, END))


def equal_cost(reverse: ReverseProcess, law: Tensor, number: int) -> float:
    """As many evaluations as STEPS steps with ``number`` correctors each, all spent on steps."""
    found = pushforward_grid(
        TauLeaping(), reverse, marginal(reverse, law, 1.0), uniform_grid(STEPS * (1 + number), end=END)
    )
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


def after(found: dict[str, Any], number: int) -> list[float]:
    """The errors after ``number`` correctors, one for each of LENGTHS."""
    return [found["leaps"][f"{tau:g}"][NUMBERS.index(number)] for tau in LENGTHS]


def best(found: dict[str, Any], number: int) -> tuple[float, float]:
    """The smallest error after ``number`` correctors, and the step that gives it."""
    return min(zip(after(found, number), LENGTHS, strict=True))


def floors(found: dict[str, Any]) -> list[float]:
    return after(found, NUMBERS[-1])


def order(found: dict[str, Any]) -> float:
    return slope(list(LENGTHS[-3:]), floors(found)[-3:])


def figure(results: dict[str, Any]):
    drawn, axes = panels(3, 2, (8, 9.5))
    for panel, name in zip(axes, NAMES, strict=False):
        found = results[name]
        panel.plot(found["times"], found["chain"], color="black", linewidth=1.5, label="the chain itself")
        for colour, tau in zip(COLOURS, LENGTHS, strict=False):
            time = [count * tau for count in NUMBERS[1:]]
            errors = found["leaps"][f"{tau:g}"][1:]
            panel.plot(time, errors, ".-", color=colour, linewidth=1, label=f"leaps of {tau:g}")
        panel.set(xscale="log", yscale="log", ylim=(1e-4, 1), xlim=(0.01, 30))
        title = f"{name}, $t$ = {TIME:g}"
        scales(panel, legend=False, title=title, xlabel="time of correcting", ylabel="total variation to $q_t$")
    legend_below(drawn, axes[0], 4)
    for colour, name in zip(COLOURS, NAMES, strict=False):
        found = results[name]
        axes[4].loglog(LENGTHS, floors(found), ".-", color=colour, linewidth=1, label=f"{name}, {order(found):.2f}")
        for count, style in ((FEW, ".:"), (SOME, ".-")):
            label = name if count == SOME else None
            axes[5].loglog(LENGTHS, after(found, count), style, color=colour, linewidth=1, label=label)
    length, error = "step of the corrector", "total variation to $q_t$"
    scales(axes[4], title=f"the floor and its order: after {NUMBERS[-1]} correctors", xlabel=length, ylabel=error)
    scales(axes[5], title=f"after {FEW} correctors (dotted) and {SOME} (solid)", xlabel=length, ylabel=error)
    return drawn


def text(results: dict[str, Any]) -> str:
    keeps, mends = [], []
    for name in NAMES:
        found, kept = results[name], results[name]["stationary"]
        both = (or_rounding(kept[each], ".0e") for each in ("flow", "distance"))
        keeps.append([name, *both, f"{kept['reverse alone']:.2f}", f"{kept['gap']:.2f}"])
        ends = dict(zip(LENGTHS, floors(found), strict=True))
        mends.append(
            [
                name,
                f"{found['spoiled']:.3f}",
                *("{:.4f} ({:g})".format(*best(found, count)) for count in (FEW, SOME)),
                *(f"{ends[tau]:.1e}" for tau in (0.1, LENGTHS[-1])),
                f"{order(found):.2f}",
            ]
        )
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
            "### What it keeps",
            table(["noise", "flow of $q_t$", "TV of the kept law", r"flow under $\hat R_t$ alone", "gap"], keeps),
            f"$t$ = {TIME:g}. Flows, $|q_t (R_t + \\hat R_t)|$ and $|q_t \\hat R_t|$, are the largest entry over the "
            "largest rate; the kept law is the null vector of $R_t + \\hat R_t$, its total variation that to $q_t$. "
            f'"Rounding" is below 1e-12.',
            "### How fast it mends",
            table(
                [
                    *("noise", "spoiled by"),
                    *(f"after {count} (best step)" for count in (FEW, SOME)),
                    *(f"floor, {tau:g}" for tau in (0.1, LENGTHS[-1])),
                    "order of the floor",
                ],
                mends,
            ),
            "The marginal is spoiled by taking $q_1$ for $q_t$; errors are total variations to $q_t$, the floor what "
            f"{NUMBERS[-1]} correctors leave. The chain itself forgets the wrong start exponentially, in the end at "
            "the rate of its spectral gap. Leaps of finite length follow it for a while, and end at a floor of their "
            "own, the distance between $q_t$ and the law that *leaps* keep, which falls with their length. "
            + passing(results),
            lengths(results),
            "### In whole runs",
            f"Runs of {STEPS} tau-leaps from $q_1$ to $q$ at {END:g} with correctors after every step, their length "
            "a multiple of the step's; and the same evaluations spent on more steps:",
            table(
                ["total variation at the end", "none", *(f"scale {scale:g}" for scale in SCALES), "more steps instead"],
                costs,
            ),
            "Two dependent sites of three data states, their law by `testing.cases.correlated`, which is "
            "`testing.laws.random_law` with seed 1; the denoiser is exact. The noise (the constant is $c(1)$): "
            f"{written_out(process(name) for name in NAMES)}. Whole laws are pushed: nothing else is drawn.",
        ]
    )


def passing(results: dict[str, Any]) -> str:
    """Where the way down leads below the floor, by a twentieth of it or more, and where it leads up."""
    dips, worse = [], []
    for name in NAMES:
        way = {tau: results[name]["leaps"][f"{tau:g}"] for tau in LENGTHS}
        below = {tau: min(each) / each[-1] for tau, each in way.items() if min(each) < min(each[0], 0.95 * each[-1])}
        if below:
            words = ", ".join(f"{tau:g}" for tau in below)
            dips.append(f"under {name} noise leaps of {words} (down to {100 * min(below.values()):.0f} % of it)")
        up = [f"{tau:g}" for tau, each in way.items() if each[-1] > each[0]]
        worse += [f"under {name} noise those of {', '.join(up)}"] if up else []
    found = [f"Some pass below their floor on the way and come back: {'; '.join(dips)}."] if dips else []
    found += [f"The longest end farther off than they start: {'; '.join(worse)}."] if worse else []
    return " ".join(found)


def lengths(results: dict[str, Any]) -> str:
    """Which step is best after few correctors and after more."""
    few, some = ([best(results[name], count)[1] for name in NAMES] for count in (FEW, SOME))
    longest = max(LENGTHS)
    found = (
        f"Of the lengths from {LENGTHS[-1]:g} to {longest:g} the best for {FEW} correctors is {span(few)}, and for "
        f"{SOME} it is {span(some)}"
    )
    if longest in few:
        found += f"; {longest:g} is the longest that was tried"
    return f"{found}. So few correctors should be longer than many (lower right): the length is a setting worth trying."


def span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


EXPERIMENT = Experiment("corrector", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
