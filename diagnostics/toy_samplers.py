"""Quality against work on the paper's toy: Hellinger distance to the data's law for every sampler, grid and budget.

    python diagnostics/toy_samplers.py [--write]

S = 32, D = 2, the law is a picture of a tau, noise is the paper's Gaussian process, and the denoiser exact. The start
is the prior, the last time 0.01, and the final step takes the most probable x0. Laws are pushed through the steps
exactly, but for pairs of states below 1e-11 in steps of two stages. An evaluation is a pass of the denoiser, the final
one among them. ``--write`` puts figure and tables into docs/samplers.md. It takes about half an hour.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable

import torch
from _page import FIGURES, table, write
from torch import Tensor

from tauleap.data import tau_pmf
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.plots import draw_laws, save_png
from tauleap.noise import Exponential, Gaussian
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    geometric_grid,
    noise_grid,
    sample,
    uniform_grid,
)
from tauleap.testing import pushed
from tauleap.testing.cases import hellinger

BUDGETS = (8, 16, 32, 64)
END = 0.01
DRAWS = 500

process = Gaussian(32, Exponential(5.0, 5.0), sigma_0=8.0, sigma_r=1.0)
data = tau_pmf()
reverse = ReverseProcess(process, ExactDenoiser(data, process))

GRIDS: dict[str, Callable[[int], Tensor]] = {
    "uniform in t": uniform_grid,
    "uniform in c": lambda steps: noise_grid(process.schedule, steps),
    "geometric": geometric_grid,
}
SAMPLERS: list[Sampler] = [
    TauLeaping("reject"),
    TauLeaping("last"),
    TauLeaping("add"),
    WithCorrector(TauLeaping("add"), steps=1, scale=0.5, start=0.2),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Ancestral(look_ahead=1.0),
    Trapezoidal(),
    Extrapolated(),
]


def grid_within(sampler: Sampler, grid: Callable[[int], Tensor], budget: int) -> Tensor:
    """The finest grid that costs no more than the budget, the final step included."""
    for steps in range(budget - 1, 0, -1):
        times = grid(steps)
        correctors = int((times[1:] < sampler.start).sum()) * sampler.steps if isinstance(sampler, WithCorrector) else 0
        if steps * (2 if sampler.order == 2 else 1) + correctors + 1 <= budget:
            return times
    raise ValueError(f"{budget} evaluations are too few for {sampler}")


def law_of(sampler: Sampler, times: Tensor) -> Tensor:
    law = pushed.run(sampler, reverse, pushed.prior(reverse, 2), times)
    return pushed.most_probable(reverse, law / law.sum(), END)


def exact_law() -> Tensor:
    """That of the exact reverse chain from the prior: q(x_END | x_1), averaged over the prior."""
    ratio = pushed.prior(reverse, 2) / pushed.marginal(reverse, data, 1.0)
    kernel = process.kernel(1.0, END).matrix  # pyright: ignore[reportAttributeAccessIssue]
    law = pushed.marginal(reverse, data, END) * (kernel @ ratio @ kernel.mT)
    return pushed.most_probable(reverse, law, END)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help="put figure and tables into docs/samplers.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    pushed.NEGLIGIBLE = 1e-11

    generator = torch.Generator().manual_seed(0)
    run = sample(reverse, Uniformization(), (DRAWS, 2), grid=[1.0, END], generator=generator)
    floor, noiseless = exact_law(), pushed.most_probable(reverse, pushed.marginal(reverse, data, END), END)
    tables, shown = [], {}
    for name, grid in GRIDS.items():
        rows = []
        for sampler in SAMPLERS:
            laws = {budget: law_of(sampler, grid_within(sampler, grid, budget)) for budget in BUDGETS}
            cells = [f"{hellinger(law, data):.4f}" for law in laws.values()]
            rows.append([f"`{sampler}`", *cells])
            shown[name, repr(sampler)] = laws[16]
            print(name, rows[-1], flush=True)
        head = [f"grid {name}: evaluations", *map(str, BUDGETS)]
        tables.append(table(head, rows))
    exact = (
        f"Exact simulation from the prior: {hellinger(floor, data):.4f}, with {run.info.evaluations:.0f} evaluations a "
        f"sample by `Uniformization()` (mean of {DRAWS} samples, seed 0). From q_1 in the place of the prior: "
        f"{hellinger(noiseless, data):.4f}, which is what the final step costs."
    )
    print(*tables, exact, sep="\n\n")
    if options.write:
        pictures = {
            "data": data,
            "tau-leaping, add": shown["uniform in t", "TauLeaping('add')"],
            "ancestral": shown["uniform in t", "Ancestral()"],
            "geometric: add": shown["geometric", "TauLeaping('add')"],
            "ancestral ": shown["geometric", "Ancestral()"],
            "exact": floor,
        }
        save_png(
            draw_laws(torch.stack(list(pictures.values())), [name.strip() for name in pictures]),
            FIGURES / "toy_samplers.png",
        )
        command = (
            "*`python diagnostics/toy_samplers.py --write`: laws pushed exactly, Hellinger distance "
            "sqrt(1 - sum sqrt(p q)).*"
        )
        picture = (
            "![Laws of the samples at 16 evaluations](figures/toy_samplers.png)\n\n"
            "*The data's law; what comes out at 16 evaluations with tau-leaping and with ancestral steps on the grid "
            "uniform in t, and on the geometric one; exact simulation.*"
        )
        write("samplers.md", "toy", "\n\n".join([picture, *tables, exact, command]))


if __name__ == "__main__":
    main()
