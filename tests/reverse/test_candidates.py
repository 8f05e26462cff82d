"""Rank-one noise draws candidates by a bound of the exit rates, and evaluates the head at these sites alone."""

import pytest
import torch
from torch import Tensor, nn

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Denoiser, NetworkDenoiser, Posterior
from tauleap.noise import Constant, LogLinear, RankOne, RankOneProcess, Uniform
from tauleap.reverse.base import OutgoingJumps, UnobservedJumps
from tauleap.reverse.rank_one.destinations import RankOneJumps
from tauleap.sampling import Ancestral, Sampler, TauLeaping, Uniformization, run_corrector
from tauleap.testing import GivenLogits
from tauleap.testing.laws import assert_drawn_from, count

STATES, SITES, LEVEL = 5, 3, 1e-3
PROCESSES: dict[str, RankOneProcess] = {
    "uniform": Uniform(STATES, Constant(0.4)),
    "a state of law 0": RankOne(torch.tensor([0.4, 0.3, 0.2, 0.1, 0.0]), LogLinear()),
    "a law per site": RankOne(
        torch.rand(SITES, STATES, generator=torch.Generator().manual_seed(3)).double().softmax(-1), Constant(1.0)
    ),
}


class Split(nn.Module):
    """A trunk, and a head that counts the sites it is evaluated at."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.output = nn.Embedding(STATES, 6), nn.Linear(6, STATES)
        nn.init.normal_(self.output.weight)
        self.rows = self.sites = 0

    def forward(self, x: Tensor, t: Tensor, *, return_hidden: bool = False) -> Tensor:
        self.rows += len(x)
        hidden = self.table(x) * (1 + t[:, None, None])
        hidden = hidden + hidden.mean(1, keepdim=True)
        return hidden if return_hidden else self.head(hidden, x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        self.sites += len(x)
        return self.output(hidden)


class SameForAllRows(Denoiser):
    """Logits of each site, (1, sites, S)."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x_t, t, *, observed=None, condition=None) -> Posterior:
        return Posterior(self.logits.expand(len(x_t), -1, -1))


def states(rows: int) -> Tensor:
    return torch.randint(STATES - 1, (rows, SITES), generator=torch.Generator().manual_seed(1))


def sharp_logits(rows: int) -> Tensor:
    """Certain of x, certain of another state, and in between; float64."""
    generator = torch.Generator().manual_seed(2)
    logits = torch.randn(rows, SITES, STATES, dtype=torch.float64, generator=generator)
    return logits * torch.logspace(-1, 3, rows, dtype=torch.float64)[:, None, None]


@pytest.mark.parametrize("per_sample", [False, True])
@pytest.mark.parametrize("name", PROCESSES)
def test_the_bound_holds_for_any_prediction(name: str, per_sample: bool) -> None:
    process, x, posterior = PROCESSES[name], states(300), Posterior(sharp_logits(300))
    t = torch.linspace(0.01, 1.0, 300, dtype=torch.float64) if per_sample else 0.3
    at = ReverseProcess(process, GivenLogits(posterior.logits)).at(x, t, posterior=posterior)
    observed = Observed(x == 1, x)
    rates, step = at.reversal.jumps(posterior), at.reversal.step_jumps(t / 2, posterior)
    all_jumps: list[OutgoingJumps] = [rates, step, UnobservedJumps(rates, observed)]
    for jumps in all_jumps:
        bound, exits = jumps.exit_bound, jumps.exit_rate
        assert bound is not None
        assert bool((exits <= bound * (1 + 1e-12)).all())
        assert float((exits / bound.clamp(min=1e-300)).max()) > 0.9999  # and some predictions reach it
        sites = torch.arange(0, x.numel(), 7)
        torch.testing.assert_close(jumps.exit_rate_at(sites), exits.flatten()[sites], rtol=1e-12, atol=0.0)


@pytest.mark.parametrize("split", [True, False])
@pytest.mark.parametrize("sampler", [Ancestral(), Ancestral(look_ahead=0.5)], ids=repr)
@pytest.mark.parametrize("name", PROCESSES)
def test_steps_are_those_of_all_predictions(
    name: str, sampler: Sampler, split: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For one seed: a site leaves if a uniform draw is below its probability, which candidates do not change."""
    network = Split().double()
    denoiser = NetworkDenoiser(network) if split else SameForAllRows(sharp_logits(9)[5:6])
    reverse, x = ReverseProcess(PROCESSES[name], denoiser), states(400)
    observed = Observed(x == 2, x)
    found = []
    for bound in (RankOneJumps.exit_bound, property(lambda _: None)):
        monkeypatch.setattr(RankOneJumps, "exit_bound", bound)
        generator = torch.Generator().manual_seed(5)
        found += [sampler.step(reverse, x, 0.4, 0.3, observed=observed, generator=generator)[0]]
    assert torch.equal(*found)
    assert 0.05 < (found[0] != x).double().mean() < 0.5


@pytest.mark.parametrize("how", ["reject", "last"])
@pytest.mark.parametrize("corrector", [False, True])
@pytest.mark.parametrize("name", PROCESSES)
def test_leaps_have_the_law_of_all_predictions(name: str, corrector: bool, how: str) -> None:
    """A Poisson number of jumps with the mean of the exit rate, and a destination from the rates."""
    process, copies, tau, t = PROCESSES[name], 20_000, 0.3, 0.5
    x, logits = torch.tensor([[0, 3, 1]]), torch.randn(1, SITES, STATES, generator=torch.Generator().manual_seed(4))
    reverse = ReverseProcess(process, SameForAllRows(logits))
    at = reverse.at(x, t)
    rates = (at.corrector_rates if corrector else at.rates).double()[0]
    total = rates.sum(-1, keepdim=True)
    moves = -torch.expm1(-tau * total) if how == "last" else tau * total * torch.exp(-tau * total)
    expected = moves * rates / total
    expected = expected.scatter(-1, x[0, :, None], 1 - moves)
    generator, start = torch.Generator().manual_seed(6), x.repeat(copies, 1)
    if corrector:
        drawn, _ = run_corrector(reverse, start, t, steps=1, step=tau, multiple_jumps=how, generator=generator)  # pyright: ignore
    else:
        drawn, info = TauLeaping(how).step(reverse, start, t, t - tau, generator=generator)  # pyright: ignore
        assert float(info.evaluations) < 1
    assert_drawn_from(count(drawn, STATES), expected, LEVEL)


def test_the_head_is_evaluated_at_candidates_and_the_trunk_for_their_rows() -> None:
    """A step of a tenth of the noise at a few sites of many rows."""
    network, x = Split(), states(200)
    reverse = ReverseProcess(PROCESSES["uniform"], NetworkDenoiser(network))
    with torch.no_grad():
        bound = reverse.at(x, 0.5).reversal.step_jumps(0.48, Posterior(torch.zeros(*x.shape, STATES))).exit_bound
        assert bound is not None
        candidates = torch.rand(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(7)) < bound
        out, info = Ancestral().step(reverse, x, 0.5, 0.48, generator=torch.Generator().manual_seed(7))
    rows = int(candidates.any(1).sum())
    assert 0 < int((out != x).sum()) < network.sites == int(candidates.sum()) < x.numel() / 4
    assert network.rows == rows < 100
    assert float(info.evaluations) == pytest.approx(rows / 200)


@pytest.mark.parametrize("sampler", [Uniformization(), TauLeaping()], ids=repr)
def test_samplers_evaluate_the_head_at_some_sites(sampler: Sampler) -> None:
    network, x = Split(), states(200)
    with torch.no_grad():
        generator = torch.Generator().manual_seed(7)
        _, info = sampler.step(
            ReverseProcess(PROCESSES["uniform"], NetworkDenoiser(network)), x, 0.5, 0.45, generator=generator
        )
    assert network.sites < 0.75 * SITES * network.rows
    assert float(info.evaluations) == pytest.approx(network.rows / 200)
    if isinstance(sampler, Uniformization):
        assert network.sites == network.rows  # one candidate at a time


def test_a_draw_at_a_site_that_was_no_candidate() -> None:
    x, logits = states(50), sharp_logits(50)
    jumps = ReverseProcess(PROCESSES["uniform"], GivenLogits(logits)).at(x, 0.3).jumps
    everywhere = ReverseProcess(PROCESSES["uniform"], GivenLogits(logits)).at(x, 0.3).jumps
    some = torch.arange(0, x.numel(), 3)
    jumps.exit_rate_at(some)
    chosen = torch.arange(30)
    drawn = [each.draw(chosen, torch.Generator().manual_seed(8)) for each in (jumps, everywhere)]
    assert torch.equal(*drawn)


class NeedsRows(Split):
    """A network that takes no empty batch."""

    def forward(self, x: Tensor, t: Tensor, *, return_hidden: bool = False) -> Tensor:
        assert len(x) > 0
        return super().forward(x, t, return_hidden=return_hidden)


@pytest.mark.parametrize("sampler", [Ancestral(), TauLeaping()], ids=repr)
def test_without_a_candidate_nothing_is_evaluated(sampler: Sampler) -> None:
    reverse = ReverseProcess(PROCESSES["uniform"], NetworkDenoiser(NeedsRows()))
    x, generator = states(4), torch.Generator().manual_seed(0)
    after, info = sampler.step(reverse, x, 0.5, 0.5 - 1e-12, generator=generator)
    assert torch.equal(after, x)
    assert float(info.evaluations) == 0
