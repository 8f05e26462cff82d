"""Write a denoiser, which maps noisy states and a time to a Posterior, and train it with the likelihood bound.

    python examples/04_your_own_denoiser.py

A row has six tokens, and every token is the previous one or its successor in the alphabet. The denoiser takes the noisy
tokens and the time, and returns logits (batch, sites, states). A plain network can be wrapped instead:
NetworkDenoiser(network).
"""

import torch
from torch import nn

import tauleap as tl

TOKENS, SITES = 4, 6


def rows(n: int, generator: torch.Generator) -> torch.Tensor:
    """Return rows in which each token is the previous one or its successor, with equal probability."""
    first = torch.randint(TOKENS, (n, 1), generator=generator)
    steps = torch.randint(2, (n, SITES - 1), generator=generator)
    return torch.cat([first, first + steps.cumsum(1)], dim=1) % TOKENS


class WholeRow(tl.denoise.Denoiser):
    """Predict p(x0 | x_t) of every site from the whole noisy row, by a network with one hidden layer."""

    def __init__(self, num_states: int, sites: int, width: int = 256) -> None:
        super().__init__()
        self.num_states = num_states
        self.network = nn.Sequential(
            nn.Linear(sites * num_states + 1, width), nn.SiLU(), nn.Linear(width, sites * num_states)
        )

    def forward(self, x_t, t, *, observed=None, condition=None):
        one_hot = nn.functional.one_hot(x_t, self.num_states).flatten(1).float()
        time = torch.as_tensor(t, dtype=torch.float32).expand(len(x_t))[:, None]
        logits = self.network(torch.cat([one_hot, time], dim=1))
        return tl.denoise.Posterior(logits.reshape(*x_t.shape, self.num_states))


def main(steps: int = 300) -> tuple[float, float, float]:
    generator = torch.Generator().manual_seed(0)
    torch.manual_seed(0)  # the initial weights of the network
    process = tl.noise.Absorbing(TOKENS + 1, tl.noise.LogLinear())
    reverse = tl.ReverseProcess(process, WholeRow(process.num_states, SITES))
    objective, optimizer = tl.objective.CompleteElbo(), torch.optim.Adam(reverse.parameters(), lr=5e-3)
    for step in range(steps):
        loss = objective(reverse, rows(128, generator), generator=generator).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step:4d}: {loss.item():.3f} nats per row")

    bits = tl.evaluate.bits_per_dim(reverse, rows(2000, generator), generator=generator)
    entropy = (2 + SITES - 1) / SITES  # log2(4) bits for the first token, and one bit per further token
    made = tl.sample(
        reverse, tl.sampling.FirstHitting(), (1000, SITES), grid=[1.0, 0.0], final="sample", generator=generator
    ).x0
    right = ((made.diff(dim=1) % TOKENS) <= 1).all(dim=1).double().mean().item()
    print(f"bound {bits.value:.3f} ± {bits.stderr:.3f} bits per token, the entropy of the data is {entropy:.3f}")
    print(f"{right:.1%} of the samples are valid rows; of random rows {0.5 ** (SITES - 1):.1%} are")
    return bits.value, entropy, right


if __name__ == "__main__":
    main()
