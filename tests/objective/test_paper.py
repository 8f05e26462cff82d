"""The paper's objectives are what the paper says, and L_CT has the gradient of the complete bound."""

import math

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Posterior
from tauleap.evaluate.joint_space import joint_states, site_kernels
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, ForwardProcess, Gaussian, LogLinear, RankOne, Uniform
from tauleap.objective import CompleteElbo, NoisedBatch, PaperElbo, UniformTimes
from tauleap.testing.examples import cycle
from tauleap.testing.laws import random_law, site_generators
from tauleap.testing.paths import TableDenoiser, at_paths, every_path

SIZE, SITES, TIME = 3, 2, 0.45
PROCESSES = {
    "uniform": Uniform(SIZE, Constant(0.7)),
    "absorbing": Absorbing(SIZE, Constant(1.3), mask=1),
    "rank one": RankOne(torch.tensor([0.6, 0.3, 0.1]), LogLinear()),
    "rank one by site": RankOne(torch.tensor([[0.6, 0.3, 0.1], [0.5, 0.0, 0.5]]), LogLinear()),
    "birth/death": BirthDeath(SIZE, Constant(2.0)),
    "gaussian": Gaussian(SIZE, Constant(1.5), sigma_0=0.8, sigma_r=1.0),
    "cycle": Dense(cycle(SIZE), Constant(1.5)),
}
each_process = pytest.mark.parametrize("name", PROCESSES)


def setting(name: str) -> tuple[ReverseProcess, Tensor]:
    process = PROCESSES[name]
    law = random_law(process.data_states.expand(SITES, -1), seed=1)
    return ReverseProcess(process, TableDenoiser.random(SIZE, SITES)), law


def joint_rates(reverse: ReverseProcess, t: float) -> Tensor:
    """Rhat_t(x, y) for every pair of joint states, (S^D, S^D); 0 for pairs that differ at more than one site."""
    states = joint_states(SIZE, SITES)
    rates = reverse.rates(states, t)
    apart = states[:, None] != states
    out = torch.zeros(len(states), len(states), dtype=torch.float64)
    for x, y in (apart.sum(-1) == 1).nonzero().tolist():
        site = int(apart[x, y].nonzero())
        out[x, y] = rates[x, site, states[y, site]]
    return out


def number(x: Tensor) -> Tensor:
    """The number of each joint state."""
    return (x * SIZE ** torch.arange(SITES - 1, -1, -1)).sum(-1)


def exits(process: ForwardProcess, x: Tensor, t: float) -> Tensor:
    """Z^t(x) of joint states (n, D)."""
    generators = float(process.schedule.rate(t)) * site_generators(process, (SITES,))
    return -generators[torch.arange(SITES), x, x].sum(-1)


@each_process
def test_two_passes_have_the_mean_of_proposition_2(name: str) -> None:
    """E_{q_t(x) r_t(x~ | x)} [ sum_x' Rhat(x, x') - Z(x) log Rhat(x~, x) ], with nothing summed in closed form."""
    reverse, law = setting(name)
    path = every_path(reverse.process, law, TIME)
    rates = joint_rates(reverse, TIME)
    z = exits(reverse.process, path.x, TIME)
    back = rates[number(path.x_tilde), number(path.x)]
    expected = rates[number(path.x)].sum(-1) - torch.where(z > 0, z * torch.where(z > 0, back, 1.0).log(), 0.0)
    found = at_paths(PaperElbo(passes=2), reverse, path, TIME)
    assert_close((path.weight * found).sum(), (path.weight * expected).sum(), rtol=1e-10, atol=1e-12)


@each_process
def test_one_pass_has_the_mean_of_appendix_c4(name: str) -> None:
    reverse, law = setting(name)
    path = every_path(reverse.process, law, TIME)
    rates = joint_rates(reverse, TIME)
    z = exits(reverse.process, path.x, TIME)
    back = rates[number(path.x_tilde), number(path.x)]
    expected = rates[number(path.x_tilde)].sum(-1) - torch.where(z > 0, z * torch.where(z > 0, back, 1.0).log(), 0.0)
    found = at_paths(PaperElbo(passes=1), reverse, path, TIME)
    assert_close((path.weight * found).sum(), (path.weight * expected).sum(), rtol=1e-10, atol=1e-12)


@each_process
def test_signal_is_the_formula_of_appendix_c3(name: str) -> None:
    """phi_t and Z as printed, products over all sites and all, for every x~ on its own."""
    reverse, law = setting(name)
    process = reverse.process
    path = every_path(process, law, TIME)
    kernels = site_kernels(process, (SITES,), TIME)
    forward = float(process.schedule.rate(TIME)) * site_generators(process, (SITES,))
    rates = reverse.rates(path.x_tilde, TIME)
    weights, logs = [], []
    for site in range(SITES):
        for v in range(SIZE):
            other = path.x_tilde.clone()
            other[:, site] = v
            q = kernels[torch.arange(SITES), path.x0, other].prod(-1)
            z = exits(process, other, TIME)
            rate = forward[site, v, path.x_tilde[:, site]] * (path.x_tilde[:, site] != v)
            weights.append(torch.stack([torch.where(z > 0, rate / z, 0.0) * q, rate * q]))
            logs.append(torch.where(rate * q > 0, rates[:, site, v], 1.0).log())
    phi, phi_z = torch.stack(weights).unbind(1)
    can_jump = exits(process, path.x, TIME) > 0
    signal = (phi_z * torch.stack(logs)).sum(0) / phi.sum(0)
    expected = rates.sum((-1, -2)) - torch.where(can_jump, signal, 0.0)
    assert_close(at_paths(PaperElbo(passes=1), reverse, path, TIME), expected, rtol=1e-9, atol=1e-10)


@each_process
@pytest.mark.parametrize("observed", [False, True])
def test_two_passes_have_the_gradient_of_the_complete_bound(name: str, observed: bool) -> None:
    """By enumeration, once the factors T and T - eps are matched; also where a site is observed."""
    reverse, law = setting(name)
    free = torch.tensor([True, not observed])
    path = every_path(reverse.process, law, TIME, free=free)
    known = Observed(~free, path.x0) if observed else None
    table = reverse.denoiser.table
    gradients = []
    for objective, factor in ((PaperElbo(passes=2), 1.0), (CompleteElbo(), 0.99), (PaperElbo(passes=1), 1.0)):
        mean = (path.weight * at_paths(objective, reverse, path, TIME, observed=known)).sum()
        gradients.append(torch.autograd.grad(mean, table)[0] / factor)
    paper, complete, one_pass = gradients
    assert_close(paper, complete, rtol=1e-9, atol=1e-12)
    assert paper.abs().max() > 1e-3
    if name == "absorbing":  # how fast masks go is not for the model to say: only the signal has a gradient
        assert_close(one_pass, complete, rtol=1e-9, atol=1e-12)
    else:
        assert (one_pass - complete).abs().max() > 1e-3  # L_eCT has another gradient: one jump too many


@pytest.mark.usefixtures("unchecked")
def test_gradients_agree_by_monte_carlo() -> None:
    """Drawn noise and times: within 4 standard errors in every entry, of both gradients together."""
    process = PROCESSES["uniform"]
    law = random_law(process.data_states.expand(SITES, -1), seed=1)
    generator = torch.Generator().manual_seed(0)
    batch, repeats = 128, 60
    means = []
    for objective, factor in ((PaperElbo(passes=2), 1.0), (CompleteElbo(), 0.99)):
        reverse = ReverseProcess(process, TableDenoiser.random(SIZE, SITES))
        draws = []
        for _ in range(repeats):
            chosen = torch.multinomial(law.reshape(-1), batch, replacement=True, generator=generator)
            loss = objective(reverse, joint_states(SIZE, SITES)[chosen], generator=generator).mean() / factor
            draws.append(torch.autograd.grad(loss, reverse.denoiser.table)[0])
        stacked = torch.stack(draws)
        means.append((stacked.mean(0), stacked.var(0) / repeats))
    (paper, paper_variance), (complete, complete_variance) = means
    off = (paper - complete).abs() / (paper_variance + complete_variance).sqrt()
    assert off.max() < 4


def test_no_information_where_no_site_can_jump() -> None:
    """Everything is masked: Z(x) = 0, and the signal with it."""
    process = Absorbing(3, Constant(40.0))
    reverse = ReverseProcess(process, TableDenoiser.random(3, 2))
    x0 = torch.tensor([[0, 1], [1, 1]])
    for passes in (1, 2):
        loss = PaperElbo(passes=passes)(reverse, x0, t=1.0, generator=torch.Generator().manual_seed(0))
        assert torch.equal(loss.terms["signal"], torch.zeros(2, dtype=torch.float64))
        assert torch.equal(loss.value.detach(), loss.terms["outflow"])
        assert bool(loss.value.isfinite().all())


def test_jumped_is_noised_with_one_jump_of_a_scored_site() -> None:
    """The site by the sites' rates, the state by the forward rates: r_t(x~ | x)."""
    process = RankOne(torch.tensor([0.6, 0.3, 0.1]), LogLinear())
    x0 = torch.tensor([[0, 1, 2]]).repeat(30_000, 1)
    reverse = ReverseProcess(process, TableDenoiser.random(3, 3))
    observed = Observed(torch.tensor([False, False, True]), x0)
    draw = NoisedBatch(
        reverse,
        x0,
        UniformTimes(),
        frozenset({"x_tilde"}),
        t=0.02,
        observed=observed,
        generator=torch.Generator().manual_seed(0),
    )
    moved = draw.x_tilde != draw.x_t
    assert torch.equal(moved.sum(-1), torch.ones(len(x0), dtype=torch.int64))
    assert not moved[:, 2].any()
    settled = (draw.x_t == x0).all(-1)
    first = draw.x_tilde[settled & moved[:, 0], 0]
    share = float((settled & moved[:, 0]).sum() / settled.sum())
    expected = 0.4 / (0.4 + 0.7)
    assert abs(share - expected) < 4 * math.sqrt(expected * (1 - expected) / int(settled.sum()))
    to_one = float((first == 1).double().mean())
    assert abs(to_one - 0.75) < 4 * math.sqrt(0.75 * 0.25 / len(first))


def test_the_posterior_of_the_pass_is_used() -> None:
    """A denoiser that answers differently to x and to x~ shows which term takes which."""
    process = Uniform(3, Constant(0.7))

    class Sure(TableDenoiser):
        def forward(self, x_t, t, *, observed=None, condition=None):
            answer = super().forward(x_t, t, observed=observed, condition=condition)
            half = len(x_t) // 2
            return Posterior(torch.cat([answer.logits[:half] * 0, answer.logits[half:]]))

    x0 = torch.tensor([[0, 1]] * 4)
    reverse = ReverseProcess(process, Sure(TableDenoiser.random(3, 2).table.detach()))
    loss = PaperElbo(passes=2)(reverse, x0, t=0.5, generator=torch.Generator().manual_seed(0))
    x = NoisedBatch(
        reverse, x0, UniformTimes(), frozenset({"x_t"}), t=0.5, generator=torch.Generator().manual_seed(0)
    ).x_t
    flat = reverse.exit_rate(x, 0.5, posterior=Posterior(torch.zeros(4, 2, 3, dtype=torch.float64)))
    assert_close(loss.terms["outflow"], flat.sum(-1))
