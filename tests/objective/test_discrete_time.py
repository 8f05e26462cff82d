"""D3PM's bound: its terms by brute force, and its limit."""

import math
from itertools import pairwise

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, ForwardProcess, Gaussian, LogLinear, RankOne, Uniform
from tauleap.objective import CrossEntropy, DiscreteTimeElbo, GridTimes
from tauleap.testing.examples import cycle
from tauleap.testing.laws import random_law
from tauleap.testing.paths import TableDenoiser, at_paths, every_path, expected_discrete

SIZE = 3
PROCESSES = {
    "uniform": Uniform(SIZE, Constant(0.7)),
    "absorbing": Absorbing(SIZE, LogLinear(), mask=1),
    "rank one": RankOne(torch.tensor([0.6, 0.3, 0.1]), LogLinear()),
    "birth/death": BirthDeath(SIZE, Constant(2.0)),
    "gaussian": Gaussian(SIZE, Constant(1.5), sigma_0=0.8, sigma_r=1.0),
    "cycle": Dense(cycle(SIZE), Constant(1.5)),
}
each_process = pytest.mark.parametrize("name", PROCESSES)


def plain_term(reverse: ReverseProcess, x0: Tensor, x: Tensor, k: int, steps: int) -> Tensor:
    """KL(q(x_{k-1} | x_k, x0) || p(x_{k-1} | x_k)) summed over the sites, from the kernels and the posterior alone."""
    process, sites = reverse.process, x0.shape[1]
    whole, early, late = (
        site_kernels(process, (sites,), t, s)
        for t, s in ((k / steps, 0.0), ((k - 1) / steps, 0.0), (k / steps, (k - 1) / steps))
    )
    probs = reverse.posterior(x, k / steps).probs
    total = torch.zeros(len(x), dtype=torch.float64)
    for d in range(sites):
        into = whole[d][:, x[:, d]].mT
        conditional = early[d][None] * late[d][:, x[:, d]].mT[:, None] / into[..., None]  # (n, x0, x_{k-1})
        conditional = torch.where(into[..., None] > 0, conditional, 0.0)
        q = conditional[torch.arange(len(x)), x0[:, d]]
        p = (probs[:, d, :, None] * conditional).sum(1)
        total += (torch.xlogy(q, q) - torch.xlogy(q, p)).sum(-1)
    return total


@each_process
@pytest.mark.parametrize("k", [1, 2, 4])
def test_every_term_is_its_definition(name: str, k: int) -> None:
    process, steps = PROCESSES[name], 4
    reverse = ReverseProcess(process, TableDenoiser.random(SIZE, 2))
    law = random_law(process.data_states.expand(2, -1), seed=1)
    path = every_path(process, law, k / steps)
    found = at_paths(DiscreteTimeElbo(steps), reverse, path, k / steps)
    expected = steps * plain_term(reverse, path.x0, path.x, k, steps) + process.prior_divergence(path.x0).sum(-1)
    assert_close(found, expected, rtol=1e-9, atol=1e-10)
    if k == 1:  # the last step is the reconstruction
        surprise = -reverse.posterior(path.x, 1 / steps).log_probs.gather(-1, path.x0[..., None]).sum((-1, -2))
        assert_close(found, steps * surprise + process.prior_divergence(path.x0).sum(-1), rtol=1e-9, atol=1e-10)


def test_all_terms_are_the_mean_of_the_random_one() -> None:
    """At x = x0 the noise plays no part: a process that has no time to change anything."""
    process, steps = Uniform(SIZE, Constant(1e-12)), 5
    reverse = ReverseProcess(process, TableDenoiser.random(SIZE, 2))
    x0 = joint_states(SIZE, 2)
    every = DiscreteTimeElbo(steps, terms="all")(reverse, x0)
    random = [DiscreteTimeElbo(steps)(reverse, x0, t=k / steps) for k in range(1, steps + 1)]
    for name in ("prior", "steps", "reconstruction"):
        assert_close(every.terms[name], torch.stack([loss.terms[name] for loss in random]).mean(0))
    assert_close(every.value, torch.stack([loss.value for loss in random]).mean(0))
    assert bool((every.terms["reconstruction"] > 0).all())


@pytest.mark.parametrize("name", ["uniform", "absorbing", "birth/death", "gaussian"])
def test_tends_to_the_complete_bound_as_one_over_k(name: str) -> None:
    """With the exact posterior the complete bound is the entropy of the data; the slope of the excess is -1."""
    process: ForwardProcess = {
        "uniform": Uniform(SIZE, Constant(4.0)),
        "absorbing": Absorbing(SIZE + 1, Constant(14.0)),
        "birth/death": BirthDeath(SIZE, Constant(14.0)),
        "gaussian": Gaussian(SIZE, Constant(10.0), sigma_0=1.0, sigma_r=1.0),
    }[name]
    law = random_law(process.data_states.expand(2, -1), seed=2)
    law = 0.5 * law + 0.5 * (law > 0) / (law > 0).sum()  # rare states come into their own at large K only
    entropy = -float(torch.xlogy(law, law).sum())
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    excess = [expected_discrete(reverse, law, steps) - entropy for steps in (128, 256, 512)]
    assert all(value > 0 for value in excess)
    slopes = [math.log2(later / sooner) for sooner, later in pairwise(excess)]
    assert abs(slopes[1] + 1) < 0.02, slopes
    assert abs(slopes[1] + 1) < abs(slopes[0] + 1), slopes


@pytest.mark.parametrize("name", PROCESSES)
def test_one_site_does_not_depend_on_k(name: str) -> None:
    process = PROCESSES[name]
    law = random_law(process.data_states.expand(1, -1), seed=2)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    values = [expected_discrete(reverse, law, steps) for steps in (1, 2, 7)]
    assert_close(values, [values[0]] * 3, rtol=1e-9, atol=1e-9)


def test_hybrid_shares_k_and_the_pass() -> None:
    reverse = ReverseProcess(PROCESSES["uniform"], TableDenoiser.random(SIZE, 2))
    x0 = joint_states(SIZE, 2)
    objective = DiscreteTimeElbo(10) + 0.001 * CrossEntropy()
    assert objective.times == GridTimes(10)
    loss = objective(reverse, x0, generator=torch.Generator().manual_seed(0))
    bound = DiscreteTimeElbo(10)(reverse, x0, generator=torch.Generator().manual_seed(0))
    assert_close(loss.value - 0.001 * loss.terms["cross_entropy"] / 0.001, bound.value)
    assert reverse.denoiser.calls == 2
    seen = reverse.denoiser.seen
    assert torch.equal((seen[1] * 10).round() / 10, seen[1])


def test_observed_sites_are_out_of_every_term() -> None:
    """All terms together too: nothing hangs on what the network says of an observed site, nor on what x0 holds."""
    process = PROCESSES["uniform"]
    x0 = joint_states(SIZE, 2)
    observed = Observed(torch.tensor([True, False]), x0)
    table = TableDenoiser.random(SIZE, 2).table.detach()
    changed = table.clone()
    changed[..., 0, :] += torch.randn(SIZE, generator=torch.Generator().manual_seed(0))
    values = [
        DiscreteTimeElbo(5, terms="all")(
            ReverseProcess(process, TableDenoiser(each)),
            x0,
            observed=observed,
            generator=torch.Generator().manual_seed(0),
        )
        for each in (table, changed)
    ]
    assert_close(values[0].value, values[1].value)
    prior = process.prior_divergence(x0)[:, 1]
    assert_close(values[0].terms["prior"], prior)


def test_all_terms_have_the_mean_of_the_random_one() -> None:
    """By Monte Carlo, noise and k drawn: within 4 standard errors."""
    reverse = ReverseProcess(PROCESSES["birth/death"], TableDenoiser.random(SIZE, 2))
    x0 = joint_states(SIZE, 2).repeat(400, 1)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        every, one = (
            DiscreteTimeElbo(4, terms=terms)(reverse, x0, generator=generator).value for terms in ("all", "random")
        )
    error = ((every.var() + one.var()) / len(x0)).sqrt()
    assert abs(every.mean() - one.mean()) < 4 * error


def test_only_times_of_the_grid() -> None:
    reverse = ReverseProcess(PROCESSES["uniform"], TableDenoiser.random(SIZE, 2))
    with pytest.raises(ValueError, match=r"t must be one of k/4 with k = 1\.\.4"):
        DiscreteTimeElbo(4)(reverse, torch.zeros(3, 2, dtype=torch.int64), t=0.3)
    for t in (0.3, 0.5):
        with pytest.raises(
            ValueError, match=r'terms="all" evaluates all of the 4 times and takes no t: .* write DiscreteTimeElbo\(4\)'
        ):
            DiscreteTimeElbo(4, terms="all")(reverse, torch.zeros(3, 2, dtype=torch.int64), t=t)
    with pytest.raises(ValueError, match="t must be one of"):
        DiscreteTimeElbo(4)(reverse, torch.zeros(3, 2, dtype=torch.int64), t=0.0)
