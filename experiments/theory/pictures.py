"""The explanatory figures of the paper, drawn with this library: a path of a chain, Figure 1 and Figure 2.

python experiments/theory/pictures.py --write
"""

from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import matplotlib
import torch
from _experiment import COLOURS, TEXT, Experiment, panels, picture, scales
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from torch import Tensor

from tauleap.data import tau_pmf
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_generator, joint_states
from tauleap.evaluate.plots import STYLE
from tauleap.evaluate.pushforward import leap_laws, marginal, push_sites
from tauleap.noise import Constant, Dense, Exponential, Gaussian
from tauleap.reverse import ReverseProcess
from tauleap.sampling import TauLeaping, sample, uniform_grid
from tauleap.testing.cases import total_variation
from tauleap.testing.laws import integrate

MOMENTS = (0.0, 0.1, 0.25, 0.5, 1.0)
STEPS, SEED, PATH_SEED = 400, 3, 63
LEAP_FROM, LEAP_TIME, LEAP_LENGTH = (3, 0), 0.9, 0.5  # the paper's {S4, S1}, counted from 0
JUMPS = {(0, 1): 1, (1, 1): 2}  # its P_12 = 1 and P_22 = 2: one jump to S2 in dimension 1, two in dimension 2


def schematic() -> dict[str, Any]:
    """Return a path of three states: exponential holding times, and jumps sampled by the rates (Appendix A)."""
    rates = torch.tensor([[-2.0, 1.5, 0.5], [1.0, -1.5, 0.5], [1.0, 2.0, -3.0]])
    process, generator = Dense(rates, Constant(1.0)), torch.Generator().manual_seed(PATH_SEED)
    x, t, times, states = torch.tensor([[0]]), 0.0, [0.0], [0]
    while t < 5.0:
        holding = -math.log(1 - float(torch.rand((), generator=generator))) / float(process.exit_rate(x, 0.5))
        x, t = process.draw_jump(x, torch.tensor([0]), generator=generator)[None], t + holding
        times.append(t)
        states.append(int(x))
    return {"times": times, "states": states}


def toy() -> ReverseProcess:
    process = Gaussian(32, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0)
    return ReverseProcess(process, ExactDenoiser(tau_pmf(), process))


def both_ways() -> dict[str, Any]:
    """Return one point noised from 0 to 1, and one sampled from 1 to 0.01, on a fine grid."""
    reverse, generator = toy(), torch.Generator().manual_seed(SEED)
    times = uniform_grid(STEPS).tolist()
    x = torch.multinomial(tau_pmf().reshape(-1), 1, generator=generator)
    x = torch.stack([x // 32, x % 32], dim=-1)
    path = [x]
    for s, t in zip([0.0, *times[:0:-1]], times[::-1], strict=True):
        path.append(reverse.process.noise(path[-1], t, s, generator=generator))
    run = sample(reverse, TauLeaping(), (1, 2), grid=times, trace=times, final="none", generator=generator)
    assert run.trace is not None
    return {
        "times": times,
        "forward": torch.cat(path[1:]).flip(0).tolist(),
        "reverse": run.trace.x[:, 0].tolist(),
    }


def leap() -> dict[str, Any]:
    """Return a leap with the first seed for which the Poisson numbers are those of the paper's Figure 2."""
    process = Gaussian(5, Constant(1.0), sigma_0=2.0, sigma_r=1.5)
    place = torch.arange(5, dtype=torch.float64)
    law = torch.exp(-((place[:, None] - 1) ** 2 + (place - 2) ** 2) / 2 - (place[:, None] - place).abs() / 4)
    law = law / law.sum()
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x = torch.tensor([LEAP_FROM])
    rates = reverse.rates(x, LEAP_TIME)
    jumps = torch.zeros(2, 5)
    for (site, state), number in JUMPS.items():
        jumps[site, state] = number
    seed, numbers = 0, torch.full((2, 5), -1.0)
    while not torch.equal(numbers, jumps):
        seed += 1
        numbers = torch.poisson(LEAP_LENGTH * rates[0].float(), generator=torch.Generator().manual_seed(seed))
    after = (x + (numbers * (torch.arange(5) - x[..., None])).sum(-1).long()).clamp(0, 4)
    start = torch.zeros(5, 5, dtype=torch.float64)
    start[LEAP_FROM] = 1.0
    leapt = push_sites(torch.ones(1, dtype=torch.float64), leap_laws(rates, x, LEAP_LENGTH, "add"))
    states = joint_states(5, 2)

    def generators(times: Tensor) -> Tensor:
        return torch.stack([joint_generator(reverse.rates(states, t)) for t in times.tolist()])

    times = torch.linspace(LEAP_TIME, LEAP_TIME - LEAP_LENGTH, 65, dtype=torch.float64)
    chain = integrate(generators, start.reshape(-1), times)[-1].reshape(5, 5)
    return {
        "seed": seed,
        "rates": rates[0].tolist(),
        "numbers": numbers.long().tolist(),
        "after": after[0].tolist(),
        "leap": leapt.tolist(),
        "chain": chain.tolist(),
        "distance": total_variation(leapt, chain),
    }


def compute() -> dict[str, Any]:
    return {"schematic": schematic(), "both ways": both_ways(), "leap": leap()}


def draw_path(found: dict[str, Any]) -> Figure:
    drawn, (panel,) = panels(1, 1, (8, 2.6))
    times, states = found["times"], found["states"]
    for i, (begin, end) in enumerate(pairwise(times)):
        panel.plot([begin, min(end, 5)], [states[i]] * 2, color=COLOURS[0], linewidth=2)
        panel.plot([begin], [states[i]], "o", color=COLOURS[0], markersize=4)
        if end < 5:
            panel.plot([end] * 2, [states[i], states[i + 1]], ":", color="0.5", linewidth=1)
            panel.plot([end], [states[i]], "o", color="white", markeredgecolor=COLOURS[0], markersize=4)
    panel.set(yticks=[0, 1, 2], yticklabels=["S1", "S2", "S3"], xlim=(-0.05, 5), ylim=(-0.4, 2.4))
    arrow = {"arrowstyle": "->", "color": "0.4", "linewidth": 0.8}
    low, high = sorted(states[:2])
    words = {"fontsize": 8, "arrowprops": arrow}
    panel.annotate("jump, sampled by the rates", (times[1], low + 0.6 * (high - low)), (times[1] + 0.3, 2.15), **words)
    panel.annotate("holding time", (times[1] / 2, states[0]), (times[1] / 2 - 0.2, states[0] + 0.5), **words)
    scales(panel, legend=False, title="A path of a Markov chain in continuous time", xlabel="$t$", ylabel="state")
    return drawn


def draw_both_ways(found: dict[str, Any]) -> Figure:
    """Draw the distribution of x_t on top, a forward path below it, and a reverse path."""
    reverse, law = toy(), tau_pmf()
    with matplotlib.rc_context(STYLE | TEXT):
        figure = Figure(figsize=(8, 5.8), layout="constrained")
        grid = figure.add_gridspec(3, len(MOMENTS), height_ratios=[1.5, 1, 1])
        brightest = float(law.max()) / 2
        for column, t in enumerate(MOMENTS):
            panel = figure.add_subplot(grid[0, column])
            panel.imshow(marginal(reverse, law, t).T, origin="lower", vmin=0, vmax=brightest)
            panel.set_title({0.0: "data, $q_0$", 1.0: "noise, $q_1$"}.get(t, f"$q_t$, $t$ = {t:g}"))
        for row, name in ((1, "forward"), (2, "reverse")):
            panel = figure.add_subplot(grid[row, :])
            path = torch.tensor(found[name])
            for site, colour in ((0, COLOURS[0]), (1, COLOURS[1])):
                panel.step(found["times"], path[:, site], where="post", color=colour, linewidth=1, label="xy"[site])
            rate = "noise: rate $R_t$, left to right" if row == 1 else r"generation: rate $\hat R_t$, right to left"
            scales(panel, title=rate, xlabel="$t$", ylabel="state", ylim=(-1, 32))
    return figure


def draw_leap(found: dict[str, Any]) -> Figure:
    """Draw the rates and jumps in the left half, and the two distributions in the right half."""
    with matplotlib.rc_context(STYLE | TEXT):
        drawn = Figure(figsize=(8, 5.6), layout="constrained")
        grid = drawn.add_gridspec(2, 2, width_ratios=[1.5, 1])
        axes = [drawn.add_subplot(place) for place in (grid[:, 0], grid[0, 1], grid[1, 1])]
        draw_jumps(axes[0], found)
        brightest = float(torch.tensor(found["chain"]).max())
        for panel, name in ((axes[1], "leap"), (axes[2], "chain")):
            law = torch.tensor(found[name])
            panel.imshow(law.T, origin="lower", vmin=0, vmax=brightest, cmap="BuPu")
            for x, y in joint_states(5, 2).tolist():
                value = float(law[x, y])
                colour = "white" if value > brightest / 2 else "black"
                panel.text(x, y, f"{value:.3f}", ha="center", va="center", fontsize=8, color=colour)
            panel.set_title(
                {"leap": "distribution after the leap", "chain": "distribution after the reverse chain"}[name]
            )
        for panel in axes:
            edge = 0.6 if panel is axes[0] else 0.5
            panel.set(xlim=(-edge, 4 + edge), ylim=(-edge, 4 + edge), aspect="equal", xticks=range(5), yticks=range(5))
            panel.set(xticklabels=[f"S{i}" for i in range(1, 6)], yticklabels=[f"S{i}" for i in range(1, 6)])
            panel.tick_params(bottom=True, labelbottom=True, left=True, labelleft=True, labelsize=8)
            panel.set(xlabel="dimension 1", ylabel="dimension 2")
    return drawn


def draw_jumps(panel: Axes, found: dict[str, Any]) -> None:
    """Draw arrows as wide as their rates, and the state after the jumps."""
    rates, numbers, after = torch.tensor(found["rates"]), found["numbers"], found["after"]
    here, largest = LEAP_FROM, float(rates.max())
    for state in range(5):
        for site, end in ((0, (state, here[1])), (1, (here[0], state))):
            rate, number = float(rates[site, state]), numbers[site][state]
            if rate == 0:
                continue
            colour = COLOURS[3] if number else "0.45"
            bend = f"arc3,rad={-0.25 if end < here else 0.25}" if site == 0 else "arc3,rad=0.25"
            arrow = {"arrowstyle": "-|>", "color": colour, "linewidth": 0.5 + 3 * rate / largest}
            panel.annotate("", end, here, arrowprops=arrow | {"connectionstyle": bend, "shrinkA": 6, "shrinkB": 6})
            shift = (0.12 if number else 0, 0.2) if site == 0 else (-0.35, -0.1)
            label = f"{rate:.2f}" + (f"\n$P$ = {number}" if number else "")
            side = "left" if site == 0 and number else "center"
            panel.text(end[0] + shift[0], end[1] + shift[1], label, ha=side, fontsize=8, color=colour)
    corner = (after[0], here[1])
    panel.plot(*zip(here, corner, after, strict=True), ":", color=COLOURS[3], linewidth=1, zorder=0)
    panel.plot(*here, "o", color="black")
    panel.plot(*after, "*", color=COLOURS[3], markersize=12)
    panel.set_title("rates from $x_t$ (dot), and state after the jumps $P$ (star)")
    panel.grid(visible=True, linewidth=0.3)


def figure(results: dict[str, Any]) -> dict[str, Figure]:
    return {
        "path": draw_path(results["schematic"]),
        "both_ways": draw_both_ways(results["both ways"]),
        "leap": draw_leap(results["leap"]),
    }


def text(results: dict[str, Any]) -> str:
    found = results["leap"]
    after = ", ".join(f"S{state + 1}" for state in found["after"])
    return "\n\n".join(
        [
            "## A path",
            picture("A path of three states over time", "pictures_path"),
            "The chain stays in a state for an exponential time whose mean is one over its exit rate, then jumps to a "
            "state with probability proportional to the rates (Appendix A). It is right-continuous: full dots belong "
            f"to the path, empty ones do not. Seed {PATH_SEED}.",
            "## Noise and its reversal",
            picture("The letter tau becoming noise, a forward path and a reverse path", "pictures_both_ways"),
            "Top: the distribution of the points at five times. Middle: a path of one point under the forward rate "
            "$R_t$. Bottom: a path from noise under the reverse rate $\\hat R_t$ of the exact denoiser, in "
            f"{STEPS} tau-leaps to $t$ = 0.01. The coordinates are independent in the forward process; the reverse "
            "rate of "
            f"each depends on both. Seed {SEED}. This is the paper's Figure 1.",
            "## One leap in two dimensions",
            picture(
                "Rates from one state of a 5 x 5 grid, the sampled jumps, the distribution after the leap",
                "pictures_leap",
            ),
            "$x_t$ is (S4, S1), as in the paper's Figure 2. Its exit rates, written at the ends of the arrows, are "
            f"constant during the leap of length {LEAP_LENGTH:g} from $t$ = {LEAP_TIME:g}. Each gives a Poisson "
            "number of "
            f"jumps, with seed {found['seed']}, the first for which they are those of the paper's figure: one jump to "
            "S2 "
            "in dimension 1 and two of length one in dimension 2. All are applied at once, and $x$ becomes "
            f"({after}), which no single jump reaches. Right: the distribution after such a leap, and below it that of "
            "the reverse chain, whose rates change over time; their total variation is "
            f"{found['distance']:.3f}. The leap is this long only for illustration.",
        ]
    )


EXPERIMENT = Experiment("pictures", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
