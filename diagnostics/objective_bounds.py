"""Compute biases, limits and looseness of the objectives on enumerable spaces.

    python diagnostics/objective_bounds.py [--write]

Few sites of few states with dependent data, under each kind of noise; all means over data and noise are exact sums over
every state, and integrals over time are Gauss-Legendre sums in log t. Only ``bits_per_dim`` is random. There are four
parts: the minimum of L_eCT, the dependence of D3PM's bound on its number of steps, the looseness of the bound for a
wrong denoiser, and the freedom that birth/death rates leave. ``--write`` writes tables and figure to
docs/objectives.md. It takes half a minute.
"""

from __future__ import annotations

import argparse
import math

import matplotlib
import numpy as np
import torch
from _page import FIGURES, table, write
from matplotlib.figure import Figure
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate import bits_per_dim, exact_log_likelihood
from tauleap.evaluate.joint_space import joint_states
from tauleap.evaluate.plots import STYLE, save_png
from tauleap.noise import BirthDeath, Constant, ForwardProcess
from tauleap.objective import CompleteElbo, CrossEntropy, Objective, PaperElbo, UniformTimes
from tauleap.reverse import ReverseProcess
from tauleap.testing.cases import NAMES, process, slope
from tauleap.testing.laws import random_law
from tauleap.testing.paths import (
    Perturbed,
    TableDenoiser,
    at_paths,
    descend,
    every_noise,
    every_path,
    expected_discrete,
)

COMMAND = "`python diagnostics/objective_bounds.py --write`"
TIME = 0.5
STEPS = tuple(2**k for k in range(10))
EPS, SAMPLES = 0.01, 20_000


def data_law(forward: ForwardProcess, sites: int) -> Tensor:
    """Return dependent sites without states of very small probability."""
    law = random_law(forward.data_states.expand(sites, -1), seed=3)
    return 0.5 * law + 0.5 * (law > 0) / (law > 0).sum()


def complete_bound(reverse: ReverseProcess, law: Tensor, eps: float, *, reconstruction: bool) -> float:
    """Return the mean of the complete bound over data, noise and times from eps to 1."""
    points, weights = np.polynomial.legendre.leggauss(96)
    t = torch.exp(torch.tensor(0.5 * math.log(eps) * (1 - points)))
    shares = torch.tensor(weights) * -0.5 * math.log(eps) * t  # dt = t d log t
    objective = CompleteElbo(times=UniformTimes(eps))
    with torch.no_grad():
        path, when = every_noise(reverse.process, law, t)
        values = path.weight * at_paths(objective, reverse, path, when)
        prior = mean_prior(reverse, law)
        integral = sum(
            float(s) * (float(values[when == each].sum()) - prior) for s, each in zip(shares, t, strict=True)
        )
        total = prior + integral / (1 - eps)
        if not reconstruction:
            return total
        path, _ = every_noise(reverse.process, law, torch.tensor([eps]))
        surprise = at_paths(CrossEntropy(), reverse, path, eps)
        return total + float((path.weight * surprise).sum())


def mean_prior(reverse: ReverseProcess, law: Tensor) -> float:
    """Return the mean of the prior term over the data."""
    x0 = joint_states(reverse.process.num_states, law.ndim)[law.reshape(-1) > 0]
    return float(law[law > 0] @ reverse.process.prior_divergence(x0).sum(-1))


def rate_error(reverse: ReverseProcess, law: Tensor, t: float) -> float:
    """Return the largest error of a rate, relative to the largest rate."""
    states = joint_states(reverse.process.num_states, law.ndim)
    exact = ReverseProcess(reverse.process, ExactDenoiser(law, reverse.process)).rates(states, t)
    return float((reverse.rates(states, t).detach() - exact).abs().max() / exact.max())


def one_pass() -> str:
    """Compute the bias of the gradient of L_eCT, and its minimum."""
    rows = []
    for name in NAMES:
        for sites in (1, 2, 3):
            forward = process(name, 3)
            law = data_law(forward, sites)
            denoiser = TableDenoiser.random(forward.num_states, sites)
            reverse = ReverseProcess(forward, denoiser)
            path = every_path(forward, law, TIME)
            gradients = []
            for passes in (1, 2):
                mean = (path.weight * at_paths(PaperElbo(passes), reverse, path, TIME)).sum()
                gradients.append(torch.autograd.grad(mean, denoiser.table)[0])
            biased, right = gradients
            descend(PaperElbo(passes=1), reverse, law, TIME)
            path, _ = every_noise(forward, law, torch.tensor([TIME]))
            exact = ReverseProcess(forward, ExactDenoiser(law, forward))
            with torch.no_grad():
                found, best = (
                    float((path.weight * at_paths(CompleteElbo(), each, path, TIME)).sum()) for each in (reverse, exact)
                )
            path_only = best - mean_prior(exact, law)
            rows.append(
                [
                    f"{name}, {sites} site{'s' if sites > 1 else ''}",
                    percent((biased - right).norm() / right.norm()),
                    percent(rate_error(reverse, law, TIME)),
                    percent((found - best) / path_only),
                ]
            )
    head = ["noise", "gradient off by", "rates at the minimum off by", "bound at the minimum worse by"]
    caption = (
        f"*{COMMAND}: three data states, t = {TIME:g}, exact sums. The gradient of L_eCT against that of L_CT at a "
        "table of random logits (seed 0), norms; the largest error of a reverse rate over the largest rate at the "
        "minimum of L_eCT; the integrand of the complete bound there against its least value.*"
    )
    return f"{table(head, rows)}\n\n{caption}"


def percent(fraction: float | Tensor) -> str:
    return f"{100 * float(fraction):.2f} %" if abs(float(fraction)) >= 5e-5 else "< 0.01 %"


def discrete() -> tuple[str, Figure]:
    """Compute L_DT minus CompleteElbo against K."""
    curves = {}
    for name in NAMES:
        forward = process(name, 3)
        law = data_law(forward, 2)
        for label, size in (("exact denoiser", 0.0), ("wrong denoiser", 0.5)):
            reverse = ReverseProcess(forward, Perturbed(law, forward, size))
            limit = complete_bound(reverse, law, 1e-10, reconstruction=False)
            curves[f"{name}, {label}"] = [expected_discrete(reverse, law, steps) - limit for steps in STEPS]
    shown = (1, 4, 16, 64, 256, 512)
    rows = [
        [
            name,
            *(f"{excess[STEPS.index(k)]:.2e}" for k in shown),
            f"{slope([*map(float, STEPS[-4:])], excess[-4:]):.3f}",
        ]
        for name, excess in curves.items()
    ]
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(5.6, 3.6), layout="constrained")
        axes = figure.subplots()
        for colour, name in zip(matplotlib.colormaps["tab10"].colors, NAMES, strict=False):  # pyright: ignore
            axes.loglog(STEPS, curves[f"{name}, exact denoiser"], ".-", color=colour, linewidth=1, label=name)
            axes.loglog(STEPS, curves[f"{name}, wrong denoiser"], ".--", color=colour, linewidth=1)
        axes.loglog([4, 256], [0.02, 0.02 / 64], color="0.4", linewidth=0.8)
        axes.text(12, 0.0042, "1/K", color="0.4", fontsize=8)
        axes.set(
            xlabel="K", ylabel="L_DT(K) - complete bound, nats", title="solid: the exact denoiser, dashed: a wrong one"
        )
        axes.tick_params(which="major", bottom=True, labelbottom=True, left=True, labelleft=True, labelsize=7, length=3)
        axes.grid(visible=True, linewidth=0.3)
        axes.legend(fontsize=7, frameon=False)
    caption = (
        f"*{COMMAND}: two dependent sites of three data states, exact sums, nats; the slope by regression over the "
        "four largest of K = 1, 2, 4, ..., 512. The wrong denoiser adds normal numbers times 0.5 to the exact logits "
        "(seed 0).*"
    )
    head = ["L_DT(K) - complete bound", *(f"K = {k}" for k in shown), "slope"]
    picture = "![D3PM's bound less the complete one against K, log-log](figures/objective_discrete.png)"
    return f"{picture}\n\n{table(head, rows)}\n\n{caption}", figure


def looseness() -> str:
    """Compare the bound with the likelihood of the model's samples."""
    rows = []
    cases = [("uniform", size) for size in (0.0, 0.25, 0.5, 1.0)] + [(name, 0.5) for name in NAMES[1:]]
    for name, size in cases:
        forward = process(name, 3)
        law = data_law(forward, 2)
        reverse = ReverseProcess(forward, Perturbed(law, forward, size))
        x = joint_states(forward.num_states, 2)[law.reshape(-1) > 0]
        weights, unit = law[law > 0], 2 * math.log(2)
        exact = float(weights @ -exact_log_likelihood(reverse, x, eps=EPS)) / unit
        bound = complete_bound(reverse, law, EPS, reconstruction=True) / unit
        drawn = bits_per_dim(
            reverse,
            x,
            samples=SAMPLES,
            batch_size=20_000,
            per_datapoint=True,
            generator=torch.Generator().manual_seed(0),
        )
        value = float(weights @ drawn.value)
        error = float((weights.square() @ drawn.stderr.square()).sqrt())
        entropy = float(weights @ -weights.log()) / unit
        rows.append(
            [
                f"{name}, {size:g}",
                f"{exact - entropy:.4f}",
                f"{exact:.4f}",
                f"{bound:.4f}",
                f"{value:.4f} ± {error:.4f}",
                f"{bound - exact:.4f}",
            ]
        )
    head = [
        "noise, error of the logits",
        "model worse than the data's law",
        "exact",
        "bound",
        "`bits_per_dim`",
        "loose by",
    ]
    caption = (
        f"*{COMMAND}: two dependent sites of three data states, bits a dimension, means over the data's law. The "
        "logits are the exact ones plus normal numbers times the error (seed 0). exact: `exact_log_likelihood`; bound: "
        f"its mean by exact sums; `bits_per_dim` with {SAMPLES:,} samples a state, seed 0, and its standard error.*"
    )
    return f"{table(head, rows)}\n\n{caption}"


def undetermined() -> str:
    """Birth/death rates fix two numbers per site; the effect of the others on results of the whole posterior."""
    forward = BirthDeath(5, Constant(3.0))
    law = data_law(forward, 2)
    rows = []
    objectives: list[Objective] = [CompleteElbo(), CompleteElbo() + 0.001 * CrossEntropy(), CrossEntropy()]
    states = joint_states(5, 2)
    for t in (TIME, EPS):
        path, _ = every_noise(forward, law, torch.tensor([t]))
        seen = torch.zeros(5, 5, dtype=torch.float64).index_put_(tuple(path.x.unbind(-1)), path.weight, accumulate=True)
        exact = ReverseProcess(forward, ExactDenoiser(law, forward))
        for objective in objectives:
            reverse = ReverseProcess(forward, TableDenoiser.random(5, 2))
            descend(objective, reverse, law, t)

            def mean(values: Tensor, seen: Tensor = seen) -> float:
                return float((seen.reshape(-1, 1) * values).sum()) / 2

            with torch.no_grad():
                found, truth = (each.posterior(states, t).probs for each in (reverse, exact))
                steps = [
                    mean((reverse.step_probs(states, t, s) - exact.step_probs(states, t, s)).abs().sum(-1) / 2)
                    for s in (t / 2, 0.9 * t)
                ]
            rows.append(
                [
                    f"t = {t:g}, `{objective!r}`",
                    percent(rate_error(reverse, law, t)),
                    f"{mean((found - truth).abs().sum(-1) / 2):.4f}",
                    percent(mean((found.argmax(-1) != truth.argmax(-1)).double())),
                    *(f"{step:.5f}" for step in steps),
                ]
            )
    head = ["minimum of", "rates off by", "posterior, TV", "argmax differs", "`Ancestral` to t/2, TV", "to 0.9 t, TV"]
    caption = (
        f"*{COMMAND}: birth/death noise with c = 3 t, two dependent sites of five states, tables of logits (seed 0) "
        "fitted to exact sums at one time. Total variations and shares are means over q_t and sites, against the exact "
        "posterior.*"
    )
    return f"{table(head, rows)}\n\n{caption}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put tables and figure into docs/objectives.md")
    options = parser.parse_args()
    torch.set_num_threads(1)

    text, figure = discrete()
    parts = {"discrete": text, "one pass": one_pass(), "looseness": looseness(), "undetermined": undetermined()}
    print(*parts.values(), sep="\n\n")
    if options.write:
        save_png(figure, FIGURES / "objective_discrete.png")
        for name, part in parts.items():
            write("objectives.md", name, part)


if __name__ == "__main__":
    main()
