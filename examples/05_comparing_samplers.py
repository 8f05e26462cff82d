"""Compare samplers on a known distribution with an exact denoiser: error against network evaluations.

    python examples/05_comparing_samplers.py

The data are points whose distribution is an image of the letter tau, with Gaussian noise, as in the paper's first
example. The denoiser is exact, and all samplers have equal numbers of evaluations, so the errors are those of the
samplers.
"""

import torch

import tauleap as tl
from tauleap.sampling import Ancestral, Extrapolated, Sampler, TauLeaping, Trapezoidal, geometric_grid, uniform_grid

SIZE, POINTS = 12, 5000
SAMPLERS: list[Sampler] = [TauLeaping(), TauLeaping("last"), Trapezoidal(), Ancestral(), Extrapolated()]


def reverse_process() -> tuple[tl.ReverseProcess, torch.Tensor]:
    law = tl.data.tau_pmf(SIZE)
    process = tl.noise.Gaussian(SIZE, tl.noise.Exponential(1.0, 5.0), sigma_0=3.0, sigma_r=1.0)
    return tl.ReverseProcess(process, tl.denoise.ExactDenoiser(law, process)), law


def distance(points: torch.Tensor, law: torch.Tensor) -> float:
    """Return the total variation between the histogram of points and the exact distribution."""
    counts = torch.bincount(points[:, 0] * SIZE + points[:, 1], minlength=law.numel()) / len(points)
    return 0.5 * (counts - law.reshape(-1)).abs().sum().item()


def main(budgets: tuple[int, ...] = (4, 8, 16, 32)) -> dict[str, list[float]]:
    reverse, law = reverse_process()
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(law.reshape(-1), POINTS, replacement=True, generator=generator)
    floor = distance(torch.stack([drawn // SIZE, drawn % SIZE], dim=1), law)
    print(f"total variation to the exact distribution, {POINTS} points; exact samples have {floor:.3f}")
    print(f"{'evaluations':36s}", *(f"{budget:6d}" for budget in budgets))
    found = {}
    for sampler in SAMPLERS:
        for name, grid in (("uniform", uniform_grid), ("geometric", geometric_grid)):
            errors = []
            for budget in budgets:
                steps = (budget - 1) // 2 if sampler.order == 2 else budget - 1  # one evaluation is for the final step
                made = tl.sample(reverse, sampler, (POINTS, 2), grid=grid(steps), final="sample", generator=generator)
                errors.append(distance(made.x0, law))
            label = f"{sampler!r}, {name} grid"
            found[label] = errors
            print(f"{label:36s}", *(f"{error:6.3f}" for error in errors))
    return found | {"exact samples": [floor]}


if __name__ == "__main__":
    main()
