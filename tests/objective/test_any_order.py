"""The bound by the number of masked sites is the path integral of the complete bound, with less variance."""

from itertools import combinations

import numpy as np
import pytest
import torch
from scipy import stats
from torch import Tensor

from tauleap._shapes import States, Time
from tauleap.denoise import Denoiser, ExactDenoiser, Posterior
from tauleap.noise import Absorbing, Cosine, LogLinear, Uniform
from tauleap.objective import AnyOrderElbo, CompleteElbo, CrossEntropy, Objective
from tauleap.objective.random_order import draw_masked, time_of
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.testing.objective import ObjectiveContract
from tauleap.testing.paths import TableDenoiser, at_paths, every_noise, table_of

MASK = 2
SITES = 3


class TestAnyOrderElbo(ObjectiveContract):
    processes = (Absorbing(3, LogLinear()), Absorbing(4, Cosine(), mask=0))

    def make(self) -> Objective:
        return AnyOrderElbo()


class _AtOtherTimes(Denoiser):
    """A denoiser that depends on t: its logits are those of a table, times (6 t - 1)^2."""

    def __init__(self, table: TableDenoiser) -> None:
        super().__init__()
        self.table = table

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        scale = torch.as_tensor(t, dtype=torch.float64).reshape(-1, 1, 1)
        return Posterior((6 * scale - 1) ** 2 * self.table(x_t, t).logits)


def _process() -> Absorbing:
    return Absorbing(3, LogLinear())


def _random_reverse() -> ReverseProcess:
    return ReverseProcess(_process(), TableDenoiser.random(3, SITES))


def _by_enumeration(reverse: ReverseProcess, x0: Tensor, free: tuple[int, ...] = (0, 1, 2)) -> Tensor:
    """The mean over all numbers and sets of masked sites among ``free``; sites of ``x0`` below 0 are always masked."""
    total, n = torch.zeros((), dtype=torch.float64), len(free)
    for number in range(1, n + 1):
        sets = list(combinations(free, number))
        for masked in sets:
            x = x0.masked_fill(x0 < 0, MASK)
            x[list(masked)] = MASK
            log_probs = reverse.posterior(x[None], 0.5).log_probs[0]
            total = total - n * sum(log_probs[d, x0[d]] for d in masked) / number / len(sets) / n
    return total


def _path_integral(reverse: ReverseProcess, x0: Tensor, *, nodes: int = 200) -> Tensor:
    """The integral over t of the complete bound's integrand, by Gauss-Legendre quadrature in m = 1 - alpha.

    It ends at m = 0.999, the mask probability at t = 1; beyond, every site counts as masked, at t = 1.
    """
    places, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(nodes))
    end = 1 - torch.exp(-reverse.process.schedule.total(1.0))
    m = (places + 1) / 2 * end
    t = reverse.process.schedule.inverse_total(-torch.log1p(-m))
    law = torch.zeros((3,) * SITES, dtype=torch.float64)
    law[tuple(x0)] = 1.0
    path, when = every_noise(reverse.process, law, t)
    objective = CompleteElbo()
    prior = objective(reverse, x0[None], t=0.5).terms["prior"]
    values = (at_paths(objective, reverse, path, when).detach() - prior) / (1 - 0.01)  # the factor T - eps
    of_time = {float(time): number for number, time in enumerate(t)}
    index = torch.tensor([of_time[float(time)] for time in when])
    integrand = torch.zeros(nodes, dtype=torch.float64).index_add(0, index, path.weight * values)
    rest = -reverse.posterior(torch.full((1, SITES), MASK), 1.0).log_probs[0].gather(1, x0[:, None]).sum()
    # m is linear in t, so that dt is dm / 0.999.
    return (integrand * weights / 2).sum() + (1 - end) * rest.detach()


def test_it_is_the_path_integral_of_the_complete_bound() -> None:
    reverse, x0 = _random_reverse(), torch.tensor([0, 1, 1])
    exact = _by_enumeration(reverse, x0).detach()
    assert torch.isclose(_path_integral(reverse, x0), exact, rtol=1e-5)
    loss = AnyOrderElbo()(reverse, x0.expand(40_000, -1), generator=torch.Generator().manual_seed(0)).value.detach()
    assert abs(float(loss.mean() - exact)) < 4 * float(loss.std()) / 200


def test_its_variance_is_below_that_of_random_times() -> None:
    reverse, x0 = _random_reverse(), torch.tensor([[0, 1, 1]]).expand(20_000, -1)
    generator = torch.Generator().manual_seed(0)
    spread, other = (
        float(each(reverse, x0, generator=generator).value.detach().std())
        for each in (AnyOrderElbo(), CompleteElbo(reconstruction=True))
    )
    assert spread < 0.8 * other


def test_with_the_exact_posterior_it_is_the_negative_log_likelihood() -> None:
    process = _process()
    pmf = torch.rand((3,) * SITES, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    pmf[MASK] = pmf[:, MASK] = pmf[:, :, MASK] = 0
    pmf /= pmf.sum()
    reverse = ReverseProcess(process, ExactDenoiser(pmf, process))
    for x0 in (torch.tensor([0, 1, 1]), torch.tensor([1, 1, 0])):
        assert torch.isclose(_by_enumeration(reverse, x0), -pmf[tuple(x0)].log())


def test_a_network_that_takes_t_has_the_value_of_its_own_times() -> None:
    """With t the bound is another number than at any fixed time, and still that of the path integral."""
    table = TableDenoiser.random(3, SITES)
    reverse, x0 = ReverseProcess(_process(), _AtOtherTimes(table)), torch.tensor([0, 1, 1])
    assert reverse.denoiser.uses_time
    loss = AnyOrderElbo()(reverse, x0.expand(40_000, -1), generator=torch.Generator().manual_seed(0)).value.detach()
    error = float(loss.std()) / 200
    assert abs(float(loss.mean() - _path_integral(reverse, x0))) < 4 * error
    at_one_time = float(_by_enumeration(reverse, x0).detach())
    assert abs(float(loss.mean()) - at_one_time) > 10 * error


def test_given_j_the_mask_probability_is_beta_distributed() -> None:
    scored = torch.ones(4000, 5, dtype=torch.bool)
    for number in (1, 3, 5):
        places = torch.full((4000,), (number - 0.5) / 5, dtype=torch.float64)
        drawn = draw_masked(scored, places, torch.Generator().manual_seed(number))
        assert bool((drawn.masked.sum(1) == number).all())
        assert stats.kstest(drawn.m.numpy(), stats.beta(number, 5 - number + 1).cdf).pvalue > 1e-3
        counts = drawn.masked.sum(0).numpy()  # every site as often as another
        assert stats.chisquare(counts).pvalue > 1e-3
        t = time_of(_process(), drawn.m)
        alpha = torch.exp(-_process().schedule.total(t))
        assert torch.allclose(1 - alpha, drawn.m.clamp(max=0.999))


def test_every_number_of_masked_sites_is_equally_likely() -> None:
    scored = torch.ones(6000, 4, dtype=torch.bool)
    drawn = draw_masked(scored, torch.rand(6000, generator=torch.Generator().manual_seed(0)).double(), None)
    assert stats.chisquare(drawn.masked.sum(1).bincount(minlength=5)[1:].numpy()).pvalue > 1e-3


def test_observed_sites_are_never_masked_and_missing_ones_always() -> None:
    reverse, x0 = _random_reverse(), torch.tensor([0, 1, 1])
    rows = x0.expand(20_000, -1).contiguous()
    mask = torch.zeros_like(rows, dtype=torch.bool)
    mask[:, 0] = True
    for given, masked_first in (({"observed": Observed(mask, rows)}, False), ({"missing": mask}, True)):
        loss = AnyOrderElbo()(reverse, rows, generator=torch.Generator().manual_seed(0), **given).value.detach()
        seen = table_of(reverse).seen
        assert seen is not None
        assert bool((seen[0][:, 0] == MASK).all()) == masked_first
        start = torch.tensor([-1, 1, 1]) if masked_first else x0
        exact = _by_enumeration(reverse, start, free=(1, 2)).detach()
        assert abs(float(loss.mean() - exact)) < 4 * float(loss.std()) / 20_000**0.5


def test_its_gradient_is_that_of_the_enumerated_bound() -> None:
    reverse, x0 = _random_reverse(), torch.tensor([0, 1, 1])
    table = table_of(reverse).table
    (exact,) = torch.autograd.grad(_by_enumeration(reverse, x0), table)
    rows = x0.expand(200_000, -1)
    loss = AnyOrderElbo()(reverse, rows, generator=torch.Generator().manual_seed(0))
    (drawn,) = torch.autograd.grad(loss.mean(), table)
    assert torch.allclose(drawn, exact, atol=0.02)
    assert float(exact.abs().max()) > 0.1


def test_a_row_without_scored_sites_has_no_loss() -> None:
    reverse = _random_reverse()
    rows = torch.zeros(2, SITES, dtype=torch.int64)
    missing = torch.tensor([[True, True, True], [False, True, True]])
    loss = AnyOrderElbo()(reverse, rows, missing=missing, generator=torch.Generator().manual_seed(0)).value.detach()
    assert float(loss[0]) == 0
    assert float(loss[1]) > 0


def test_it_refuses_other_noise_and_objectives_that_draw_times() -> None:
    process = Uniform(3, LogLinear())
    reverse = ReverseProcess(process, TableDenoiser.random(3, SITES))
    with pytest.raises(ValueError, match=r"is for Absorbing noise.*got Uniform: write CompleteElbo\(\)"):
        AnyOrderElbo()(reverse, torch.zeros(2, SITES, dtype=torch.int64))
    with pytest.raises(ValueError, match="objectives that draw times cannot be added to it"):
        AnyOrderElbo() + CrossEntropy()
    assert repr(2.0 * AnyOrderElbo()) == "2 * AnyOrderElbo()"
