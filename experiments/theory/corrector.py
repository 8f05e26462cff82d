"""Proposition 4: the stationary distribution of the corrector is q_t; how fast correctors reduce an error.

    python experiments/theory/corrector.py --write

Two dependent sites of three data states under four kinds of noise, exact denoiser. The wrong marginal at t
is q_1: samples with too much noise. All distributions are exact.
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
    """Return the flow of q under R + Rhat, the distance of its stationary law from q, and its spectral gap.

    R + Rhat does not satisfy detailed balance, so eigenvalues may be complex; the gap is that of their real parts.
    """
    x = joint_states(reverse.process.num_states, q.ndim)
    rates = joint_generator(reverse.corrector_rates(x, t))
    flow = q.reshape(-1) @ rates
    null = torch.linalg.svd(rates.mT)[2][-1]
    null = null / null.sum()
    parts = sorted(-torch.linalg.eigvals(rates).real)
    return {
        "flow": float(flow.abs().max() / rates.abs().max()),
        "distance": total_variation(null, q.reshape(-1)),
        "gap": float(parts[1]),
        "reverse alone": float((q.reshape(-1) @ joint_generator(reverse.rates(x, t))).abs().max() / rates.abs().max()),
    }


def leap_errors(reverse: ReverseProcess, law: Tensor, q: Tensor, t: float, tau: float) -> list[float]:
    """Return the total variation of ``law`` to q after the NUMBERS of corrector leaps of length tau."""
    out, made = [], 0
    for number in NUMBERS:
        for _ in range(number - made):
            law = push_corrector(reverse, law, t, tau)
        made = number
        out.append(total_variation(law, q))
    return out


def chain_errors(reverse: ReverseProcess, law: Tensor, q: Tensor, t: float, times: list[float]) -> list[float]:
    """Return the same for the exact corrector chain after the given times."""
    x = joint_states(reverse.process.num_states, q.ndim)
    rates, start = joint_generator(reverse.corrector_rates(x, t)), law.reshape(-1)
    return [total_variation(start @ torch.linalg.matrix_exp(time * rates), q.reshape(-1)) for time in times]


def sampling_error(reverse: ReverseProcess, law: Tensor, number: int, scale: float) -> float:
    sampler = WithCorrector(TauLeaping(), steps=number, scale=scale) if number else TauLeaping()
    found = pushforward_grid(sampler, reverse, marginal(reverse, law, 1.0), uniform_grid(STEPS, end=END))
    return total_variation(found, marginal(reverse, law, END))


def equal_cost(reverse: ReverseProcess, law: Tensor, number: int) -> float:
    """Return the error without correctors, with as many evaluations as STEPS steps with ``number`` correctors each."""
    found = pushforward_grid(
        TauLeaping(), reverse, marginal(reverse, law, 1.0), uniform_grid(STEPS * (1 + number), end=END)
    )
    return total_variation(found, marginal(reverse, law, END))


def compute() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NAMES:
        reverse, law = correlated(name, sites=2)
        q, wrong = marginal(reverse, law, TIME), marginal(reverse, law, 1.0)
        times = torch.logspace(-2, 1.5, 60, dtype=torch.float64).tolist()
        found[name] = {
            "stationary": stationary(reverse, q, TIME),
            "initial error": total_variation(wrong, q),
            "leaps": {f"{tau:g}": leap_errors(reverse, wrong, q, TIME, tau) for tau in LENGTHS},
            "times": times,
            "chain": chain_errors(reverse, wrong, q, TIME, times),
            "runs": {
                f"{n} x {scale:g}": sampling_error(reverse, law, n, scale) for n in PER_STEP[1:] for scale in SCALES
            },
            "steps alone": {str(n): equal_cost(reverse, law, n) for n in PER_STEP},
        }
    return found


def after(found: dict[str, Any], number: int) -> list[float]:
    """Return the errors after ``number`` correctors, one per length."""
    return [found["leaps"][f"{tau:g}"][NUMBERS.index(number)] for tau in LENGTHS]


def best(found: dict[str, Any], number: int) -> tuple[float, float]:
    """Return the smallest error after ``number`` correctors, and its step length."""
    return min(zip(after(found, number), LENGTHS, strict=True))


def floors(found: dict[str, Any]) -> list[float]:
    return after(found, NUMBERS[-1])


def order(found: dict[str, Any]) -> float:
    return slope(list(LENGTHS[-3:]), floors(found)[-3:])


def figure(results: dict[str, Any]):
    drawn, axes = panels(3, 2, (8, 9.5))
    for panel, name in zip(axes, NAMES, strict=False):
        found = results[name]
        panel.plot(found["times"], found["chain"], color="black", linewidth=1.5, label="exact chain")
        for colour, tau in zip(COLOURS, LENGTHS, strict=False):
            time = [count * tau for count in NUMBERS[1:]]
            errors = found["leaps"][f"{tau:g}"][1:]
            panel.plot(time, errors, ".-", color=colour, linewidth=1, label=f"leaps of {tau:g}")
        panel.set(xscale="log", yscale="log", ylim=(1e-4, 1), xlim=(0.01, 30))
        title = f"{name}, $t$ = {TIME:g}"
        scales(panel, legend=False, title=title, xlabel="total corrector time", ylabel="total variation to $q_t$")
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
    stationary_rows, error_rows = [], []
    for name in NAMES:
        found, balance = results[name], results[name]["stationary"]
        both = (or_rounding(balance[each], ".0e") for each in ("flow", "distance"))
        stationary_rows.append([name, *both, f"{balance['reverse alone']:.2f}", f"{balance['gap']:.2f}"])
        ends = dict(zip(LENGTHS, floors(found), strict=True))
        error_rows.append(
            [
                name,
                f"{found['initial error']:.3f}",
                *("{:.4f} ({:g})".format(*best(found, count)) for count in (FEW, SOME)),
                *(f"{ends[tau]:.1e}" for tau in (0.1, LENGTHS[-1])),
                f"{order(found):.2f}",
            ]
        )
    costs = [
        [
            f"{name}, {n} per step",
            f"{results[name]['steps alone']['0']:.4f}",
            *(f"{results[name]['runs'][f'{n} x {scale:g}']:.4f}" for scale in SCALES),
            f"{results[name]['steps alone'][str(n)]:.4f}",
        ]
        for name in NAMES
        for n in PER_STEP[1:]
    ]
    return "\n\n".join(
        [
            "### Stationary distribution",
            table(
                ["noise", "flow of $q_t$", "TV of the stationary law", r"flow under $\hat R_t$ alone", "gap"],
                stationary_rows,
            ),
            f"$t$ = {TIME:g}. Flows, $|q_t (R_t + \\hat R_t)|$ and $|q_t \\hat R_t|$, are the largest entry over the "
            "largest rate; the stationary law is the null vector of $R_t + \\hat R_t$, with its total variation to "
            "$q_t$. "
            f'"Rounding" is below 1e-12.',
            "### Speed of convergence",
            table(
                [
                    *("noise", "initial error"),
                    *(f"after {count} (best step)" for count in (FEW, SOME)),
                    *(f"floor, {tau:g}" for tau in (0.1, LENGTHS[-1])),
                    "order of the floor",
                ],
                error_rows,
            ),
            "The initial distribution is $q_1$ instead of $q_t$. Errors are total variations to $q_t$; the floor is "
            "the error "
            f"after {NUMBERS[-1]} correctors. The error of the exact chain falls exponentially, finally at the rate of "
            "its spectral gap. Leaps of finite length follow it at first and end at a floor, the distance between "
            "$q_t$ and the stationary law of the *leaps*, which falls with their length. " + nonmonotone(results),
            lengths(results),
            "### In sampling",
            f"Runs of {STEPS} tau-leaps from $q_1$ to $q$ at {END:g} with correctors after every step, their length "
            "a multiple of the step; and more steps with the same number of evaluations instead:",
            table(
                ["total variation at the end", "none", *(f"scale {scale:g}" for scale in SCALES), "more steps instead"],
                costs,
            ),
            "Two dependent sites of three data states, their law by `testing.cases.correlated`, which is "
            "`testing.laws.random_law` with seed 1; the denoiser is exact. The noise (the constant is $c(1)$): "
            f"{written_out(process(name) for name in NAMES)}. All distributions are exact.",
        ]
    )


def nonmonotone(results: dict[str, Any]) -> str:
    """Describe curves that fall below their floor by at least 5 %, and curves that rise."""
    dips, worse = [], []
    for name in NAMES:
        curves = {tau: results[name]["leaps"][f"{tau:g}"] for tau in LENGTHS}
        below = {tau: min(each) / each[-1] for tau, each in curves.items() if min(each) < min(each[0], 0.95 * each[-1])}
        if below:
            words = ", ".join(f"{tau:g}" for tau in below)
            dips.append(f"under {name} noise leaps of {words} (down to {100 * min(below.values()):.0f} % of it)")
        up = [f"{tau:g}" for tau, each in curves.items() if each[-1] > each[0]]
        worse += [f"under {name} noise those of {', '.join(up)}"] if up else []
    found = [f"Some curves fall below their floor and rise again: {'; '.join(dips)}."] if dips else []
    found += [f"The longest leaps increase the error: {'; '.join(worse)}."] if worse else []
    return " ".join(found)


def lengths(results: dict[str, Any]) -> str:
    """Describe the best length for few correctors and for more."""
    of_few, of_some = ([best(results[name], count)[1] for name in NAMES] for count in (FEW, SOME))
    longest = max(LENGTHS)
    found = (
        f"Of the lengths from {LENGTHS[-1]:g} to {longest:g} the best for {FEW} correctors is {span(of_few)}, and for "
        f"{SOME} it is {span(of_some)}"
    )
    if longest in of_few:
        found += f"; {longest:g} is the longest one tested"
    return f"{found}. So few correctors should be longer than many (lower right)."


def span(values: list[float]) -> str:
    low, high = min(values), max(values)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


EXPERIMENT = Experiment("corrector", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
