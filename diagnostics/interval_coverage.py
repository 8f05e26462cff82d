"""Measure how often nominal 95 % intervals of bits/dim contain the bound that they estimate.

    python diagnostics/interval_coverage.py [--times default uniform] [--only uniform absorbing] [--rows 200] [--write]

Five processes, three spaces that can be enumerated, and three denoisers: an untrained network, a partially trained
one, and the exact posterior. The bound itself is computed by enumeration of all data and noise, with Gauss-Legendre
nodes over the logarithm of the time. Each replicate is an estimate of ``bits_per_dim`` from fresh rows with 16 draws
per row. ``default`` are the defaults of ``bits_per_dim``; "uniform" and "log-uniform" force times. Results
are stored in diagnostics/results/interval_coverage.json, one entry per case, and a case that is stored is not computed
again; ``--write`` writes the table to docs/questions.md.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from _page import table, write
from torch import Tensor

import tauleap as tl
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.evaluate.joint_space import joint_states
from tauleap.noise import ForwardProcess
from tauleap.objective import LogUniformTimes, Times, UniformTimes
from tauleap.testing.laws import random_law
from tauleap.testing.paths import every_noise

RESULTS = Path(__file__).with_name("results") / "interval_coverage.json"
SIZES = {"2 sites x 4 states": (2, 4), "3 sites x 3 states": (3, 3), "5 sites x 2 states": (5, 2)}
DENOISERS = ("untrained", "partially trained", "exact")
STEPS = 150
"""Training steps of the partially trained networks, after which they are between untrained and exact."""
SAMPLES, NODES, EPS, SEED = 16, 96, 0.01, 0
_BLOCK = 2**15
"""Rows of one call, whose replicates are independent."""


def _mixing(make: Callable[[tl.noise.Schedule], ForwardProcess]) -> ForwardProcess:
    """Return ordered noise with the schedule of ``tauleap.fit``: the slowest mode decays to 0.001 at time 1."""
    spectrum = torch.linalg.eigvals(make(tl.noise.Exponential(1.0, 2.0)).generator()).real.sort().values
    base = 100.0
    return make(tl.noise.Exponential(math.log(1e3) / -float(spectrum[-2]) / (base - 1), base))


PROCESSES: dict[str, Callable[[int], ForwardProcess]] = {
    "uniform": lambda states: tl.noise.RankOne(torch.full((states,), 1 / states), tl.noise.LogLinear()),
    "absorbing": lambda states: tl.noise.Absorbing(states + 1, tl.noise.LogLinear()),
    "marginal": lambda states: tl.noise.RankOne(torch.softmax(torch.arange(states) / states, 0), tl.noise.LogLinear()),
    "birth/death": lambda states: _mixing(lambda schedule: tl.noise.BirthDeath(states, schedule)),
    "gaussian": lambda states: _mixing(
        lambda schedule: tl.noise.Gaussian(states, schedule, sigma_0=2.0 * states, sigma_r=1.0)
    ),
}
TIMES: dict[str, Times | None] = {
    "default": None,
    "uniform": UniformTimes(),
    "log-uniform": LogUniformTimes(),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--times", nargs="*", choices=list(TIMES), default=["default"])
    parser.add_argument("--only", nargs="*", choices=list(PROCESSES), default=list(PROCESSES))
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--replicates", type=int, default=2000)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    for times in arguments.times:
        for name in arguments.only:
            for size in SIZES:
                for denoiser in DENOISERS:
                    case = f"{times}, {name}, {size}, {denoiser}, {arguments.rows} rows"
                    if found.get(case, {}).get("replicates", 0) >= arguments.replicates:
                        continue
                    result = coverage(
                        PROCESSES[name](SIZES[size][1]),
                        SIZES[size],
                        denoiser,
                        TIMES[times],
                        arguments.rows,
                        arguments.replicates,
                    )
                    found = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
                    found[case] = result
                    RESULTS.parent.mkdir(exist_ok=True)
                    RESULTS.write_text(json.dumps(found, indent=1) + "\n")
                    print(case, json.dumps(result), flush=True)
    if arguments.write:
        write("questions.md", "intervals", as_text(found))


def coverage(
    process: ForwardProcess,
    size: tuple[int, int],
    denoiser: str,
    times: Times | None,
    rows: int,
    replicates: int,
) -> dict[str, float]:
    """Return the coverage of ``interval()`` and of 1.96 standard errors, the bias, and the processor time."""
    sites = size[0]
    allowed = process.data_states.expand(sites, -1)
    law = random_law(allowed, SEED)
    model = trained(process, law, denoiser)
    truth = bound(model, law)
    began = time.process_time()
    generator = torch.Generator().manual_seed(SEED)
    flat, every = law.reshape(-1), joint_states(process.num_states, sites)
    values: list[Tensor] = []
    while sum(map(len, values)) < replicates * rows:
        x0 = every[torch.multinomial(flat, _BLOCK // rows * rows, replacement=True, generator=generator)]
        found = bits_per_dim(
            model,
            x0,
            samples=SAMPLES,
            times=times,
            batch_size=_BLOCK,
            per_datapoint=True,
            generator=generator,
        )
        values.append(found.value)
    every_value = torch.cat(values)[: replicates * rows].reshape(replicates, rows)
    estimates = [Estimate.of_mean(row) for row in every_value]
    inside = [low <= truth <= high for low, high in (each.interval() for each in estimates)]
    normal = [abs(each.value - truth) <= 1.959964 * each.stderr for each in estimates]
    means = np.array([each.value for each in estimates])
    return {
        "replicates": replicates,
        "coverage": round(float(np.mean(inside)), 4),
        "normal": round(float(np.mean(normal)), 4),
        "bound": round(truth, 5),
        "bias": round(float((means.mean() - truth) / (means.std() / math.sqrt(replicates))), 2),
        "stderr": round(float(means.std()), 5),
        "seconds": round(time.process_time() - began),
    }


def trained(process: ForwardProcess, law: Tensor, name: str) -> tl.ReverseProcess:
    """Return the exact denoiser, or a small network after some steps of training."""
    if name == "exact":
        return tl.ReverseProcess(process, tl.denoise.ExactDenoiser(law, process))
    torch.manual_seed(SEED)
    if process.mask is None:
        network = tl.network.ResidualMLP(process.num_states, (law.ndim,), width=24, depth=1)
        denoiser: tl.denoise.Denoiser = tl.denoise.NetworkDenoiser(network)
    else:  # as tauleap.fit chooses: without t, so that the bound is that of numbers of masked sites
        network = tl.network.TableNetwork([process.num_states - 1] * law.ndim, width=24, hidden=48, depth=1)
        torch.nn.init.normal_(network.output.weight, std=0.3)
        denoiser = tl.denoise.RaggedDenoiser(network, process.num_states)
    reverse = tl.ReverseProcess(process, denoiser)
    if name == "untrained":
        return reverse
    generator = torch.Generator().manual_seed(SEED)
    every, loss = joint_states(process.num_states, law.ndim), tl.objective.CompleteElbo(times=LogUniformTimes())
    optimizer = torch.optim.Adam(network.parameters(), lr=3e-3)
    for _ in range(STEPS):
        x0 = every[torch.multinomial(law.reshape(-1), 128, replacement=True, generator=generator)]
        optimizer.zero_grad()
        loss(reverse, x0, generator=generator).value.mean().backward()
        optimizer.step()
    return reverse


@torch.no_grad()
def bound(reverse: tl.ReverseProcess, law: Tensor) -> float:
    """Return the mean of the bound in bits/dim over the data, by enumeration."""
    by_number = reverse.process.mask is not None and not reverse.denoiser.uses_time
    eps = 1e-9 if by_number else EPS
    if by_number:
        # By number of masked sites the path integral runs over all of 0 < 1 - alpha < 1 and has no other terms. This
        # schedule reaches 1 - alpha = 1 at time 1 up to 1e-9, where that of the model ends at 0.999.
        complete = tl.noise.Constant(math.log(1e9))
        reverse = tl.ReverseProcess(tl.noise.Absorbing(reverse.process.num_states, complete), reverse.denoiser)
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    length = -math.log(eps)
    t = torch.from_numpy(np.exp((nodes + 1) / 2 * length - length))
    weight = torch.from_numpy(weights / 2 * length) * t
    total = 0.0
    for time_, each in zip(t, weight, strict=True):
        path, when = every_noise(reverse.process, law, time_[None])
        total += float(each) * _mean(path.weight, reverse.divergence(path.x0, path.x, when))
    if not by_number:
        path, when = every_noise(reverse.process, law, torch.tensor([eps], dtype=torch.float64))
        total -= _mean(path.weight, reverse.at(path.x, when).log_prob(path.x0))
        total += _mean(path.weight, reverse.process.prior_divergence(path.x0))
    return total / law.ndim / math.log(2)


def _mean(weight: Tensor, values: Tensor) -> float:
    """Return the weighted sum over paths of the sums over sites."""
    return float((weight * values.double().flatten(1).sum(1)).sum())


def as_text(found: dict[str, dict[str, float]]) -> str:
    """Return the lowest and the highest coverage over sizes and denoisers, by times and process."""
    groups: dict[tuple[str, str, str], list[float]] = {}
    for case, result in found.items():
        times, process, _, _, rows = case.split(", ")
        groups.setdefault((times, rows, process), []).append(result["coverage"])
    names = {"uniform": "U(0.01, 1)"}
    lines = []
    for (times, rows, process), values in groups.items():
        covered = [f"{value:.1%}" for value in (min(values), float(np.mean(values)), max(values))]
        lines.append([names.get(times, times), rows, process, *covered, str(len(values))])
    head = ["times", "replicate", "noise", "lowest", "mean", "highest", "cases"]
    command = "`python diagnostics/interval_coverage.py`, also with `--rows 50` and `--times uniform`"
    return table(head, lines) + f"\n\n*{command}; seed {SEED}.*"


if __name__ == "__main__":
    main()
