"""A site's own part of the posterior, exchanged; and the time of the first jump, which rests on it."""

import numpy as np
import pytest
import torch

from tauleap.denoise import ExactDenoiser, Posterior
from tauleap.evaluate.joint_space import joint_states
from tauleap.noise import Absorbing, BirthDeath, Constant, Gaussian, RankOne, Uniform
from tauleap.reverse import ReverseProcess
from tauleap.testing.cases import NAMES, correlated, process
from tauleap.testing.laws import random_law


@pytest.mark.parametrize("name", NAMES)
def test_is_exact_for_one_site(name: str) -> None:
    """There are no other sites, so that carrying the posterior to y and s gives the posterior of y at s."""
    forward = process(name, 4)
    law = random_law(forward.data_states[None], 0)
    reverse = ReverseProcess(forward, ExactDenoiser(law, forward))
    x = torch.arange(forward.num_states)[:, None]
    for y in range(forward.num_states):
        for t, s in [(0.8, 0.3), (0.3, 0.8), (0.5, 0.5)]:
            other = torch.full_like(x, y)
            found = reverse.with_own_evidence(reverse.posterior(x, t), x, t, other, s).probs
            expected = reverse.posterior(other, s).probs
            if name == "absorbing":  # where x0 is known from x, it cannot have led to another state than x or the mask
                same = (x == forward.num_states - 1) | (x == y)
                if y == forward.num_states - 1:
                    own = torch.nn.functional.one_hot(x, forward.num_states).double()
                    torch.testing.assert_close(found[~same], own[~same])
                found, expected = found[same], expected[same]
            torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_a_time_a_sample() -> None:
    for forward in (Uniform(4, Constant(0.5)), BirthDeath(4, Constant(1.0)), Gaussian(4, Constant(1.0), 2.0, 1.0)):
        reverse = ReverseProcess(forward, ExactDenoiser(random_law(torch.ones(2, 4), 3), forward))
        x = joint_states(4, 2)
        t = torch.linspace(0.1, 0.9, len(x), dtype=torch.float64)
        posterior = reverse.posterior(x, t)
        found = reverse.with_own_evidence(posterior, x, t, x.flip(1), t / 2).probs
        for i in range(0, len(x), 3):
            alone = reverse.with_own_evidence(
                Posterior(posterior.logits[i : i + 1]), x[i : i + 1], float(t[i]), x[i : i + 1].flip(1), float(t[i] / 2)
            )
            torch.testing.assert_close(found[i : i + 1], alone.probs, rtol=1e-9, atol=1e-12)


def test_two_ancestral_steps_with_the_carried_posterior_are_one() -> None:
    """If only a site's own move is accounted for, a step to u and one to s make up the step to s."""
    for name in NAMES:
        reverse, _ = correlated(name, sites=2, num_states=3)
        size = reverse.process.num_states
        x, t, u, s = joint_states(size, 2), 0.9, 0.5, 0.2
        posterior = reverse.posterior(x, t)
        whole = reverse.step_probs(x, t, s, posterior=posterior)
        parts = torch.zeros_like(whole)
        first = reverse.step_probs(x, t, u, posterior=posterior)
        for y in range(size):
            between = torch.full_like(x, y)
            second = reverse.step_probs(between, u, s, posterior=reverse.with_own_evidence(posterior, x, t, between, u))
            parts += first[..., y, None] * torch.where(first[..., y, None] > 0, second, 0.0)
        torch.testing.assert_close(parts, whole, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "forward",
    [
        Uniform(3, Constant(0.6)),
        Absorbing(4, Constant(2.0)),
        RankOne(torch.tensor([0.6, 0.3, 0.1]), Constant(1.5)),
    ],
    ids=["uniform", "absorbing", "rank-one"],
)
def test_the_time_of_the_first_jump(forward: Uniform) -> None:
    """Against the integral of the exit rates on the way, along which the sites' own part of the posterior changes."""
    law = random_law(forward.data_states.expand(2, -1), 5)
    reverse = ReverseProcess(forward, ExactDenoiser(law, forward))
    t, s, n = 0.9, 0.2, 20_000
    x = torch.full((1, 2), forward.num_states - 1)
    posterior = reverse.posterior(x, t)
    fine = torch.linspace(s, t, 2001, dtype=torch.float64)
    middle = (fine[1:] + fine[:-1]) / 2
    many = x.expand(len(middle), -1)
    logits = posterior.logits.expand(len(middle), -1, -1)
    with_evidence = reverse.with_own_evidence(Posterior(logits), many, t, many, middle)
    hazard = (reverse.exit_rate(many, middle, posterior=with_evidence).sum(1) * fine.diff()).flip(0).cumsum(0).flip(0)
    stays = torch.exp(-torch.cat([hazard, torch.zeros(1)]))  # the probability of no jump between fine and t
    times = reverse.at(
        x.expand(n, -1).contiguous(), t, posterior=Posterior(posterior.logits.expand(n, -1, -1))
    ).draw_first_jump(s, generator=torch.Generator().manual_seed(2))
    assert float(times.min()) >= s
    assert float(times.max()) <= t
    # Kolmogorov and Smirnov's distance, which exceeds 1.95 / sqrt(n) once in a thousand times.
    order = times.sort().values
    expected = torch.from_numpy(np.interp(order.numpy(), fine.numpy(), stays.numpy()))
    found = torch.arange(1, n + 1) / n
    jumped = order > s
    assert (found - expected)[jumped].abs().max() < 1.95 / n**0.5
    assert abs((~jumped).double().mean() - stays[0]) < 1.95 / n**0.5


def test_the_first_jump_is_for_rank_one_processes() -> None:
    reverse, _ = correlated("birth/death", sites=1)
    x = torch.zeros(1, 1, dtype=torch.int64)
    with pytest.raises(TypeError, match="needs a rank-one process"):
        reverse.at(x, 0.5, posterior=reverse.posterior(x, 0.5)).draw_first_jump(0.1)
