"""One forward pass (Appendix C.4): delta t of the paper's processes, and q_t against the distribution of x~.

    python experiments/theory/one_pass.py --write

L_eCT uses x~, which is x after one more forward jump, instead of x. delta t = 1 / sum_x' R_t(x, x') is the mean time of
that jump. On small spaces the distribution of x~ is an exact sum over all x.
"""

from __future__ import annotations

from typing import Any

import torch
from _experiment import COLOURS, Experiment, panels, scales, table
from _small import NOISES, chain_law, noise
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_generator, joint_states
from tauleap.evaluate.pushforward import marginal
from tauleap.noise import BirthDeath, Constant, Exponential, ForwardProcess, Gaussian, Uniform
from tauleap.reverse import ReverseProcess
from tauleap.testing.cases import slope, total_variation
from tauleap.testing.laws import push

TIMES = torch.linspace(0, 1, 101, dtype=torch.float64).tolist()
SITES, TOTAL, TIME = (1, 2, 3, 4, 5, 6), 2.0, 0.3
PAPER = {"images": "2e-06 to 2e-08", "music, uniform": "1e-03"}


def experiments() -> dict[str, tuple[ForwardProcess, int]]:
    """Return the paper's processes and their numbers of sites."""
    return {
        "toy": (Gaussian(32, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0), 2),
        "images": (Gaussian(256, Exponential(3.0, 100.0), sigma_0=512.0, sigma_r=6.0), 3 * 32 * 32),
        "music, uniform": (Uniform(129, Constant(0.03)), 256),
        "music, birth/death": (BirthDeath(129, Exponential(0.5, 10000.0)), 256),
    }


def step(process: ForwardProcess, sites: int) -> dict[str, Any]:
    """Return delta t at TIMES: from the mean exit rate under the stationary law, and its extremes over all x."""
    exits = -process.generator().diagonal()
    beta = [float(process.schedule.rate(t)) for t in TIMES]
    mean = float(process.stationary() @ exits)
    return {
        "sites": sites,
        "mean": [1 / (b * sites * mean) for b in beta],
        "least": [1 / (b * sites * float(exits.max())) for b in beta],
        "most": [1 / (b * sites * float(exits.min())) for b in beta],
    }


def one_jump(process: ForwardProcess, q: Tensor, t: float) -> tuple[Tensor, Tensor]:
    """Return the distribution of x~ if x has the distribution q, and the exit rate of every x."""
    x = joint_states(process.num_states, q.ndim)
    rates = joint_generator(process.rates_from(x, t, dtype=torch.float64))
    exits = -rates.diagonal()
    jumps = rates + torch.diag(exits)
    return ((q.reshape(-1) / exits) @ jumps).reshape(q.shape), exits


def distances(name: str, sites: int, t: float) -> dict[str, float]:
    """Return the total variation of the distribution of x~ to q_t, and to q at t + delta t."""
    process, law = noise(name, TOTAL), chain_law(sites)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    q = marginal(reverse, law, t)
    jumped, exits = one_jump(process, q, t)
    delta = 1 / float(q.reshape(-1) @ exits)
    c = process.schedule.total(t) + delta * process.schedule.rate(t)  # beyond t = 1 too
    later = push(law, process.exponential(c[None]).expand(sites, -1, -1))
    return {
        "sites": sites,
        "t": t,
        "delta t": delta,
        "to q_t": total_variation(jumped, q),
        "to q at t + delta t": total_variation(jumped, later),
        "moved": total_variation(later, q),
    }


def compute() -> dict[str, Any]:
    return {
        "delta t": {name: step(*each) for name, each in experiments().items()},
        "distance": {name: [distances(name, sites, TIME) for sites in SITES] for name in NOISES},
        "in time": {name: [distances(name, 4, t) for t in (0.02, 0.05, 0.1, 0.2, 0.4, 0.7, 1.0)] for name in NOISES},
    }


def figure(results: dict[str, Any]):
    drawn, (steps, key, sites, times) = panels(2, 2, (8, 6.2))
    for colour, (name, found) in zip(COLOURS, results["delta t"].items(), strict=False):
        steps.fill_between(TIMES, found["least"], found["most"], color=colour, alpha=0.2, linewidth=0)
        steps.semilogy(TIMES, found["mean"], color=colour, linewidth=1, label=name)
    for colour, name in zip(COLOURS, NOISES, strict=False):
        rows = results["distance"][name]
        count = [row["sites"] for row in rows]
        sites.semilogy(count, [row["to q_t"] for row in rows], ".-", color=colour, linewidth=1, label=name)
        sites.semilogy(count, [row["to q at t + delta t"] for row in rows], ".--", color=colour, linewidth=1)
        rows = results["in time"][name]
        when = [row["t"] for row in rows]
        times.semilogy(when, [row["to q_t"] for row in rows], ".-", color=colour, linewidth=1)
        times.semilogy(when, [row["to q at t + delta t"] for row in rows], ".--", color=colour, linewidth=1)
    sites.set_xticks(SITES)
    tv = r"total variation of the law of $\tilde x$"
    scales(steps, legend=False, title="the paper's experiments", xlabel="$t$", ylabel=r"$\delta t$")
    scales(sites, legend=False, title=f"small spaces, $t$ = {TIME:g}", xlabel="sites $D$", ylabel=tv)
    scales(times, legend=False, title="small spaces, 4 sites", xlabel="$t$", ylabel=tv)
    above, below = steps.get_legend_handles_labels(), sites.get_legend_handles_labels()
    words = {"fontsize": 8, "title_fontsize": 9, "frameon": False, "alignment": "left"}
    key.add_artist(key.legend(*above, loc="upper left", title="left: experiments", **words))
    key.legend(*below, loc="lower left", title="below: to $q_t$; dashed: to $q$ at $t + \\delta t$", **words)
    key.set_axis_off()
    return drawn


def text(results: dict[str, Any]) -> str:
    rows = [
        [
            name,
            f"{found['sites']:,}",
            *(f"{found['mean'][TIMES.index(t)]:.1e}" for t in (0.0, 0.5, 1.0)),
            f"{min(found['least']):.1e} to {max(found['most']):.1e}",
            PAPER.get(name, ""),
        ]
        for name, found in results["delta t"].items()
    ]
    powers = {
        name: slope([float(row["sites"]) for row in found[2:]], [row["to q_t"] for row in found[2:]])
        for name, found in results["distance"].items()
    }
    apart = [
        [
            name,
            *(f"{row['to q_t']:.4f}" for row in found),
            f"{powers[name]:.2f}",
            f"{found[-1]['to q at t + delta t']:.4f}",
        ]
        for name, found in results["distance"].items()
    ]
    first, last = ({name: found[at]["to q_t"] for name, found in results["distance"].items()} for at in (0, -1))
    slowly = [name for name in NOISES if powers[name] > -0.75]
    quickly = [name for name in NOISES if name not in slowly]
    return "\n\n".join(
        [
            table(["process", "sites", "$t$ = 0", "$t$ = 0.5", "$t$ = 1", "any $x$, any $t$", "the paper"], rows),
            "$\\delta t$ in units of $T = 1$, for the mean exit rate under the stationary law; the range is over "
            "all times, and over $x$ with all sites in the slowest or the fastest state. These times agree with the "
            "paper's.",
            f"Total variation between $q_t$ and the law of $\\tilde x$ at $t$ = {TIME:g}, $c(1)$ = {TOTAL:g}, three "
            "states per site, and its exponent in $D$ over $D$ = 3 to 6; in the last column that to $q$ "
            f"at $t + \\delta t$, for $D$ = {SITES[-1]}. All distributions are exact sums over all $x$.",
            table(["noise", *(f"$D$ = {sites}" for sites in SITES), "power", "later"], apart),
            "On small spaces the law of $\\tilde x$ is *not* close to $q_t$. Under "
            + " and ".join(f"{name} noise (power {powers[name]:.2f})" for name in slowly)
            + " the distance falls slowly. A jump among $D$ sites changes the distribution of each by order $1/D$, but "
            "the total variation of the joint distribution adds up $D$ such changes; if they cancel like independent "
            "numbers, about $D^{-1/2}$ remains. Under "
            + " and ".join(
                f"{name} noise ({powers[name]:.2f}) it falls faster over these $D$, from {first[name]:.2f} with one "
                f"site to {last[name]:.2f} with {SITES[-1]}"
                + (", which is still the largest" if last[name] == max(last.values()) else "")
                for name in quickly
            )
            + ".",
        ]
    )


EXPERIMENT = Experiment("one_pass", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
