"""Algorithm 1 as written, with a Poisson variable for every state, and the fast leap are one and the same law."""

import itertools
import math

import pytest
import torch
from torch import Tensor

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.leaps import leap_laws
from tauleap.evaluate.pushforward import marginal, push_sites, pushforward_grid
from tauleap.noise import Constant, Dense
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import TauLeaping, sample, tau_leaping, uniform_grid
from tauleap.sampling.tau_leaping import MultipleJumps
from tauleap.testing.cases import LEAPS, correlated, counts, draws, total_variation
from tauleap.testing.laws import assert_drawn_from, random_law

TREATMENTS: tuple[MultipleJumps, ...] = ("add", "reject", "last")
LEVEL = 1e-3
MOST = 40


def by_a_poisson_variable_for_every_state(rates: Tensor, x: int, tau: float, how: MultipleJumps) -> Tensor:
    """One site: the sum over all vectors (P_v) up to ``MOST`` jumps."""
    size = len(rates)
    out = [0.0] * size
    others = [v for v in range(size) if v != x]
    chances = {
        v: [math.exp(-tau * rate) * (tau * rate) ** n / math.factorial(n) for n in range(MOST)]
        for v, rate in enumerate(rates.tolist())
    }
    for jumps in itertools.product(range(MOST), repeat=len(others)):
        chance = math.prod(chances[v][n] for v, n in zip(others, jumps, strict=True))
        total = sum(jumps)
        if how == "add":
            moved = x + sum(n * (v - x) for v, n in zip(others, jumps, strict=True))
            out[min(max(moved, 0), size - 1)] += chance
        elif total == 0 or (how == "reject" and total > 1):
            out[x] += chance
        else:  # in what order the jumps came is a matter of chance: each of them is as likely the last
            for v, n in zip(others, jumps, strict=True):
                out[v] += chance * n / total
    return torch.tensor(out, dtype=torch.float64)


def by_their_number_and_destinations(rates: Tensor, x: int, tau: float, how: MultipleJumps) -> Tensor:
    """One site: N from a Poisson law, then N destinations in turn."""
    size, exit_rate = len(rates), float(rates.sum())
    out, law = torch.zeros(size, dtype=torch.float64), {x: 1.0}
    for n in range(3 * MOST):
        chance = math.exp(-tau * exit_rate + n * math.log(tau * exit_rate) - math.lgamma(n + 1))
        if how == "add":
            for place, weight in law.items():
                out[min(max(place, 0), size - 1)] += chance * weight
            after: dict[int, float] = {}
            for place, weight in law.items():
                for v in range(size):
                    if rates[v] > 0:
                        to = place + v - x
                        after[to] = after.get(to, 0.0) + weight * float(rates[v]) / exit_rate
            law = after
        elif n == 0 or (how == "reject" and n > 1):
            out[x] += chance
        else:
            out += chance * rates / exit_rate
    return out


@pytest.mark.parametrize("how", TREATMENTS)
@pytest.mark.parametrize("x", [0, 1, 2])
@pytest.mark.parametrize("tau", [0.05, 1.5])
def test_the_two_forms_have_the_same_distribution(how: MultipleJumps, x: int, tau: float) -> None:
    rates = torch.tensor([0.7, 1.9, 0.4], dtype=torch.float64)
    rates[x] = 0.0
    plain = by_a_poisson_variable_for_every_state(rates, x, tau, how)
    assert plain.sum().item() == pytest.approx(1.0, abs=1e-13)
    torch.testing.assert_close(by_their_number_and_destinations(rates, x, tau, how), plain, rtol=0.0, atol=1e-13)
    closed = leap_laws(rates[None, None], torch.tensor([[x]]), tau, how)[0, 0]
    torch.testing.assert_close(closed, plain, rtol=0.0, atol=1e-13)


@pytest.fixture(scope="module")
def busy() -> ReverseProcess:
    """An ordinal process of four states whose rates are such that several jumps come together often."""
    rates = torch.rand(4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.5
    process = Dense(rates - torch.diag(rates.sum(1)), Constant(1.5), ordinal=True)
    return ReverseProcess(process, ExactDenoiser(random_law(process.data_states.expand(2, -1), 0), process))


@pytest.mark.parametrize("how", TREATMENTS)
def test_samples_have_that_distribution(how: MultipleJumps, busy: ReverseProcess, generator: torch.Generator) -> None:
    """Two sites at once: chi-square on 1e5 draws, level 1e-3."""
    t, s = 0.9, 0.5
    x = torch.tensor([[1, 2]])
    law = push_sites(torch.ones(1, dtype=torch.float64), leap_laws(busy.rates(x, t), x, t - s, how))
    drawn, _ = TauLeaping(how).step(busy, x.expand(100_000, -1).contiguous(), t, s, generator=generator)
    assert_drawn_from(counts(drawn, law), law.reshape(-1), LEVEL)


@pytest.mark.parametrize("corrector", [False, True])
@pytest.mark.parametrize("many", [0, 10**6], ids=["for every state", "one by one"])
def test_added_jumps_have_that_distribution_in_both_implementations(
    many: int, corrector: bool, busy: ReverseProcess, generator: torch.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chi-square on 1e5 draws, level 1e-3; a site that is given stays."""
    monkeypatch.setattr(tau_leaping, "_MANY", many)
    t, tau = 0.9, 0.4
    x, number = torch.tensor([[1, 2]]), 100_000
    for mask in (None, torch.tensor([False, True])):
        few, all_ = (None if mask is None else Observed(mask, rows) for rows in (x, x.repeat(number, 1)))
        rates = (busy.corrector_rates if corrector else busy.rates)(x, t, observed=few)
        law = push_sites(torch.ones(1, dtype=torch.float64), leap_laws(rates, x, tau, "add"))
        states = x.repeat(number, 1)
        at = busy.at(states, t, observed=all_)
        drawn, _ = tau_leaping.leap(at, tau, "add", generator=generator, corrector=corrector)
        assert_drawn_from(counts(drawn, law), law.reshape(-1), LEVEL)


@pytest.mark.parametrize(("name", "how"), LEAPS)
def test_samples_have_that_distribution_under_every_noise(
    name: str, how: MultipleJumps, generator: torch.Generator
) -> None:
    """From states with all that a site can be, masked or not, at an end or not; Poisson variables for every state."""
    reverse, _ = correlated(name, sites=2)
    t, s, size = 0.8, 0.3, reverse.process.num_states
    x = torch.tensor([[size - 1, size - 1], [1, size - 1]])
    rates = reverse.rates(x, t)
    for row in range(len(x)):
        laws = [
            by_a_poisson_variable_for_every_state(rates[row, site], int(x[row, site]), t - s, how) for site in (0, 1)
        ]
        law = torch.outer(*laws)
        drawn, _ = TauLeaping(how).step(reverse, x[row].expand(50_000, -1).contiguous(), t, s, generator=generator)
        assert_drawn_from(counts(drawn, law), law.reshape(-1), LEVEL)


def test_rejection_matters_on_coarse_grids_and_not_on_fine_ones(generator: torch.Generator) -> None:
    """Whole runs: laws pushed with and without it, and what the loop counts on the way."""
    reverse, law = correlated("uniform", sites=2)
    start, apart, counted = marginal(reverse, law, 1.0), [], []
    for steps in (4, 64, 256):
        grid = uniform_grid(steps, end=0.1)
        rejecting, taking = (pushforward_grid(TauLeaping(how), reverse, start, grid) for how in ("reject", "last"))
        apart.append(total_variation(rejecting, taking))
        x = draws(start, 4000, generator)
        found = sample(reverse, TauLeaping("reject"), x.shape, grid=grid, start=x, final="none", generator=generator)
        counted.append(float(found.info.rejected.sum()))
        assert_drawn_from(counts(found.x0, rejecting), rejecting.reshape(-1), LEVEL)
        if steps == 4:
            with pytest.raises(AssertionError, match="chi-square"):
                assert_drawn_from(counts(found.x0, rejecting), taking.reshape(-1), LEVEL)
    assert apart[0] > 0.05
    assert apart[1] < 0.3 * apart[0]
    assert apart[2] < 0.3 * apart[1]
    assert counted[0] > 0.05 > counted[2] > 0


def test_jumps_are_rejected_and_counted(busy: ReverseProcess, generator: torch.Generator) -> None:
    t, s, n = 0.9, 0.5, 50_000
    x = torch.tensor([[1, 2]]).expand(n, -1).contiguous()
    exits = (t - s) * busy.exit_rate(x[:1], t)[0]
    _, rejecting = TauLeaping("reject").step(busy, x, t, s, generator=generator)
    _, taking = TauLeaping("last").step(busy, x, t, s, generator=generator)
    _, adding = TauLeaping("add").step(busy, x, t, s, generator=generator)
    twice = (1 - torch.exp(-exits) * (1 + exits)).mean().item()
    once = (1 - torch.exp(-exits)).mean().item()
    spread = 4 * 0.5 / math.sqrt(2 * n)
    assert 0.1 < twice < 0.9
    assert rejecting.rejected.item() == pytest.approx(twice, abs=spread)
    assert rejecting.jumps.item() == pytest.approx(exits.mean().item(), abs=4 * math.sqrt(exits.max().item() / (2 * n)))
    assert rejecting.jumped.item() == pytest.approx((exits * torch.exp(-exits)).mean().item(), abs=spread)
    assert taking.rejected.item() == 0
    assert taking.jumped.item() == pytest.approx(once, abs=spread)
    assert rejecting.jumped < 0.75 * taking.jumped, "rejection must make a difference here"
    assert adding.rejected.item() == 0
    assert adding.clamped.item() > 0.05
    assert rejecting.clamped.item() == taking.clamped.item() == 0
