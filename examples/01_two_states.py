"""Two states by hand: the reverse rate from Bayes' rule, and the same number from the library.

    python examples/01_two_states.py

A coin shows heads (0) with probability 0.9. Noise turns it over at rate beta in either direction, so that after a while
its original side is unknown. The reverse chain turns it back.
"""

import math

import torch

import tauleap as tl

HEADS, BETA, T = 0.9, 1.0, 0.4


def by_hand(t: float) -> dict[str, float]:
    """Everything about a coin that shows tails at time t, in closed form."""
    stays = (1 + math.exp(-2 * BETA * t)) / 2  # q(x_t = x_0): an even number of turns
    turns = 1 - stays
    q_heads = HEADS * stays + (1 - HEADS) * turns  # the marginal at t
    q_tails = 1 - q_heads
    posterior = HEADS * turns / q_tails  # p(x_0 = heads | x_t = tails), by Bayes' rule
    # Proposition 1: the forward rate from heads into tails, times the mean of q(heads | x0) / q(tails | x0).
    rate = BETA * (posterior * stays / turns + (1 - posterior) * turns / stays)
    # It is the rate times the ratio of the marginals, which a network does not know but its posterior implies.
    assert math.isclose(rate, BETA * q_heads / q_tails)
    return {"posterior": posterior, "rate": rate}


def by_library(t: float) -> dict[str, float]:
    process = tl.noise.Uniform(2, tl.noise.Constant(BETA))
    law = torch.tensor([HEADS, 1 - HEADS], dtype=torch.float64)
    reverse = tl.ReverseProcess(process, tl.denoise.ExactDenoiser(law, process))
    tails = torch.tensor([[1]])
    return {
        "posterior": reverse.posterior(tails, t).probs[0, 0, 0].item(),
        "rate": reverse.rates(tails, t)[0, 0, 0].item(),
    }


def generated(n: int = 20_000) -> float:
    """The share of heads among coins that start from pure noise and follow the reverse chain."""
    process = tl.noise.Uniform(2, tl.noise.Constant(4.0))  # enough noise to forget the data
    law = torch.tensor([HEADS, 1 - HEADS], dtype=torch.float64)
    reverse = tl.ReverseProcess(process, tl.denoise.ExactDenoiser(law, process))
    coins = tl.sample(
        reverse,
        tl.sampling.Ancestral(),
        (n, 1),
        grid=tl.sampling.uniform_grid(20),
        final="sample",
        generator=torch.Generator().manual_seed(0),
    )
    return (coins.x0 == 0).double().mean().item()


def main() -> tuple[dict[str, float], dict[str, float], float]:
    hand, library, heads = by_hand(T), by_library(T), generated()
    for name in hand:
        print(f"{name:10s} by hand {hand[name]:.12f}   by the library {library[name]:.12f}")
    print(f"heads      in the data {HEADS}   among samples {heads:.4f}")
    return hand, library, heads


if __name__ == "__main__":
    main()
