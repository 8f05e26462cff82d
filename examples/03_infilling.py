"""Infilling: some sites are observed, the others are sampled, and the result is compared with the exact one.

    python examples/03_infilling.py

Observed sites get no noise and do not jump, and the denoiser takes their mask. The pattern is arbitrary: a prefix, the
middle, or scattered sites. Here the data is a chain of five letters with a known distribution, so the conditional
distribution of the missing letters is known as well. With a trained model, call `model.complete(x, observed)`.
"""

import torch

import tauleap as tl

LETTERS, SITES = 3, 5


def chain() -> torch.Tensor:
    """Return the distribution of five letters, (3,)*5: each equals the one before it with probability 0.7."""
    follow = torch.full((LETTERS, LETTERS), 0.15, dtype=torch.float64).fill_diagonal_(0.7)
    law = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    for _ in range(SITES - 1):
        law = law[..., None] * follow
    return law


def main(n: int = 10_000) -> tuple[torch.Tensor, torch.Tensor]:
    law = chain()
    process = tl.noise.Absorbing(LETTERS + 1, tl.noise.LogLinear())  # the last state is the mask
    with_mask = torch.nn.functional.pad(law, (0, 1) * SITES)
    reverse = tl.ReverseProcess(process, tl.denoise.ExactDenoiser(with_mask, process))

    # The word is  ? c ? ? a : site 1 is letter 2, site 4 is letter 0.
    mask = torch.tensor([False, True, False, False, True]).expand(n, -1)
    values = torch.tensor([0, 2, 0, 0, 0]).expand(n, -1)
    found = tl.sample(
        reverse,
        tl.sampling.FirstHitting(),  # exact for absorbing noise: one network evaluation per missing site
        (n, SITES),
        grid=[1.0, 0.0],
        observed=tl.Observed(mask, values),
        final="sample",
        generator=torch.Generator().manual_seed(0),
    )
    assert bool((found.x0[:, 1] == 2).all()), "observed sites do not change"
    assert bool((found.x0[:, 4] == 0).all()), "observed sites do not change"

    exact = law[:, 2, :, :, 0]
    exact = exact / exact.sum()
    missing = found.x0[:, [0, 2, 3]]
    counts = torch.zeros_like(exact).index_put_(tuple(missing.T), torch.full((n,), 1 / n).double(), accumulate=True)
    print("? c ? ? a: the most probable words and their frequency in", n, "samples")
    for place in exact.reshape(-1).argsort(descending=True)[:5]:
        first, third, fourth = (int(i) for i in torch.unravel_index(place, exact.shape))
        word = "".join("abc"[i] for i in (first, 2, third, fourth, 0))
        print(f"  {word}   exact {exact.reshape(-1)[place]:.4f}   samples {counts.reshape(-1)[place]:.4f}")
    return counts, exact


if __name__ == "__main__":
    main()
