"""Define a forward process by its generator; everything else is derived from it.

    python examples/02_your_own_generator.py

The states are the hours of a clock, and noise moves the hand to the next or the previous hour. Twelve is next to one,
which no process of the library has. The contract suite of tauleap.testing tests such a class in three lines, see
docs/extending.md.
"""

import torch

import tauleap as tl


class Clock(tl.noise.ForwardProcess):
    """R_b: every hour to its two neighbours at rate 1, around the circle."""

    ordinal = False  # Jumps across twelve cannot be added.

    def generator(self) -> torch.Tensor:
        identity = torch.eye(self.num_states, dtype=torch.float64)
        return identity.roll(1, dims=1) + identity.roll(-1, dims=1) - 2 * identity


def appointments() -> torch.Tensor:
    """Return the distribution of two hours, (12, 12): a meeting starts around twelve and lasts one or two hours."""
    start = torch.zeros(12, dtype=torch.float64)
    start[[11, 0, 1]] = torch.tensor([0.3, 0.4, 0.3], dtype=torch.float64)
    law = torch.zeros(12, 12, dtype=torch.float64)
    for hour in range(12):
        law[hour, (hour + 1) % 12] = 0.7 * start[hour]
        law[hour, (hour + 2) % 12] = 0.3 * start[hour]
    return law


def main(n: int = 10_000) -> tuple[Clock, float]:
    clock = Clock(12, tl.noise.Exponential(0.5, 100.0))
    law = appointments()
    reverse = tl.ReverseProcess(clock, tl.denoise.ExactDenoiser(law, clock))

    noon = torch.tensor([[0, 1]])
    for t in (0.1, 0.3, 1.0):
        print(f"t = {t}: noon has become", [round(p, 3) for p in clock.kernel_from(noon, t)[0, 0].tolist()])

    found = tl.sample(
        reverse,
        tl.sampling.Ancestral(look_ahead=0.5),
        (n, 2),
        grid=tl.sampling.geometric_grid(60),
        final="sample",
        generator=torch.Generator().manual_seed(0),
    )
    counts = torch.bincount(found.x0[:, 0] * 12 + found.x0[:, 1], minlength=144).reshape(12, 12) / n
    distance = 0.5 * (counts - law).abs().sum().item()
    print(f"{n} meetings: total variation to the exact distribution {distance:.4f}")
    print("one hour long:", f"{sum(counts[h, (h + 1) % 12] for h in range(12)):.3f}", "of 0.7")
    return clock, distance


if __name__ == "__main__":
    main()
