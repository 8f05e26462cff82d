"""Likelihoods from random orders and from weighted paths, against sums over all of them on enumerable spaces."""

import math
from itertools import permutations

import numpy as np
import pytest
import torch

from tauleap import Observed, ReverseProcess
from tauleap.denoise import ExactDenoiser, Posterior
from tauleap.evaluate import bits_per_dim, order_log_prob, path_log_prob, pushforward
from tauleap.evaluate.joint_space import joint_states
from tauleap.noise import Absorbing, BirthDeath, Constant, LogLinear, RankOne, Uniform
from tauleap.sampling import Ancestral
from tauleap.testing.laws import random_law
from tauleap.testing.paths import Perturbed, TableDenoiser

MASK = 3
ROWS = joint_states(3, 3)


class Timeless(TableDenoiser):
    """A table of logits that is the same at all times, and says so."""

    uses_time = False  # pyright: ignore[reportAssignmentType]


class Sharper(TableDenoiser):
    """A table of logits that is multiplied by a function of the time."""

    def forward(self, x_t, t, *, observed=None, condition=None):
        logits = super().forward(x_t, t, observed=observed, condition=condition).logits
        factor = 3 - 2.5 * torch.as_tensor(t, dtype=logits.dtype)
        return Posterior(logits * factor.expand(len(x_t))[:, None, None])


@pytest.fixture(scope="module")
def reverse() -> ReverseProcess:
    return ReverseProcess(Absorbing(4, LogLinear()), Timeless.random(4, 3))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


@torch.no_grad()
def along(
    reverse: ReverseProcess, row: torch.Tensor, order: tuple[int, ...], batches: tuple[int, ...], hidden: tuple = ()
) -> float:
    """The log-likelihood along one order, site by site; ``hidden`` sites stay masked."""
    x = row.clone()
    x[list(order) + list(hidden)] = MASK
    total, rest = 0.0, list(order)
    for batch in batches:
        log_probs = reverse.posterior(x[None], 0.5).log_probs[0]
        for site in rest[:batch]:
            total += float(log_probs[site, row[site]])
            x[site] = row[site]
        rest = rest[batch:]
    return total


def exact(
    reverse: ReverseProcess,
    row: torch.Tensor,
    sites: tuple[int, ...],
    batches: tuple[int, ...] = (1, 1, 1),
    hidden: tuple = (),
) -> float:
    """The probability of a row: the mean over all orders of the sites."""
    found = [math.exp(along(reverse, row, order, batches, hidden)) for order in permutations(sites)]
    return sum(found) / len(found)


@pytest.mark.parametrize("batches", [1, [2, 1], [1, 2], 3])
def test_it_is_the_mean_over_all_orders(reverse: ReverseProcess, batches: int | list[int]) -> None:
    many = ROWS[[0, 5, 17, 26]].repeat_interleave(300, 0)
    found = order_log_prob(reverse, many, orders=4, batches=batches, batch_size=37, generator=seeded())
    sizes = tuple(batches) if isinstance(batches, list) else (batches,) * 3
    for place, row in enumerate(ROWS[[0, 5, 17, 26]]):
        draws = found.value[place * 300 : (place + 1) * 300].exp()
        stderr = float(draws.std()) / 300**0.5
        assert abs(float(draws.mean()) - exact(reverse, row, (0, 1, 2), sizes)) < 4 * stderr + 1e-9
        # The errors that are claimed, as a whole: those of single rows come from four orders.
        if stderr > 1e-9:
            claimed = float((found.stderr * found.value.exp())[place * 300 : (place + 1) * 300].square().mean().sqrt())
            assert 0.8 < claimed / float(draws.std()) < 1.25


def test_batches_of_inputs_have_no_effect(reverse: ReverseProcess) -> None:
    """Equal inputs of several orders are merged, and a batch has some of the distinct ones."""
    many = ROWS.repeat_interleave(20, 0)
    found = [order_log_prob(reverse, many, orders=2, batch_size=n, generator=seeded()).value for n in (2, 5, 1000)]
    assert torch.allclose(found[0], found[2], atol=1e-9)
    assert torch.allclose(found[1], found[2], atol=1e-9)


@pytest.mark.parametrize("batches", [1, [2, 1]])
def test_the_likelihoods_of_all_rows_sum_to_one_along_every_order(
    reverse: ReverseProcess, batches: int | list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    for order in permutations((0.9, 0.6, 0.3)):
        numbers = torch.tensor(order, dtype=torch.float64).expand(27, 3)
        monkeypatch.setattr("tauleap.evaluate.order_likelihood._draw.uniforms", lambda *_, numbers=numbers: numbers)
        found = order_log_prob(reverse, ROWS, orders=1, batches=batches)
        assert abs(float(found.value.exp().sum()) - 1) < 1e-9
        assert bool(found.stderr.isinf().all())


def test_with_the_exact_posterior_one_order_is_enough() -> None:
    process = Absorbing(4, LogLinear())
    law = torch.zeros(4, 4, 4, dtype=torch.float64)
    law[:3, :3, :3] = random_law(torch.ones(3, 3, dtype=torch.bool), 0)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    found = order_log_prob(reverse, ROWS, orders=3, generator=seeded())
    assert torch.allclose(found.value, law[tuple(ROWS.T)].log(), atol=1e-9)
    assert float(found.stderr.max()) < 1e-9


def test_bits_of_one_site_have_no_error_by_default() -> None:
    """The number of masked sites is always one, so that the any-order estimator has no variance."""
    reverse = ReverseProcess(Absorbing(4, LogLinear()), Timeless.random(4, 1))
    rows = torch.tensor([[0], [1], [2]])
    found = bits_per_dim(reverse, rows, samples=4, per_datapoint=True, generator=seeded())
    with torch.no_grad():
        expected = -reverse.posterior(torch.tensor([[MASK]]), 0.5).log_probs[0, 0, :3].double() / math.log(2)
    assert torch.allclose(found.value, expected, atol=1e-5)
    assert float(found.stderr.max()) < 1e-6


def test_it_is_tighter_than_the_bound(reverse: ReverseProcess) -> None:
    """On average over draws: bound < one order = bound < 16 orders < exact."""
    row = ROWS[5]
    many, truth = row.expand(400, 3), math.log(exact(reverse, row, (0, 1, 2)))
    bound = bits_per_dim(reverse, many, samples=8, generator=seeded())
    elbo, error = -bound.value * 3 * math.log(2), bound.stderr * 3 * math.log(2)
    one, sixteen = (order_log_prob(reverse, many, orders=n, generator=seeded(1)).value for n in (1, 16))
    assert abs(float(one.mean()) - elbo) < 4 * math.hypot(error, float(one.std()) / 20)
    assert elbo + 10 * error < float(sixteen.mean()) < truth + 4 * float(sixteen.std()) / 20


def test_observed_sites_are_conditioned_on_and_missing_ones_stay_masked(reverse: ReverseProcess) -> None:
    rows = ROWS[[5, 17]].repeat_interleave(400, 0)
    mask = torch.zeros_like(rows, dtype=torch.bool)
    mask[:, 1] = True
    given = order_log_prob(reverse, rows, orders=8, observed=Observed(mask, rows), generator=seeded())
    known = order_log_prob(reverse, rows, orders=8, missing=mask, generator=seeded())
    for place, row in enumerate(ROWS[[5, 17]]):
        for found, hidden in ((given, ()), (known, (1,))):
            draws = found.value[place * 400 : (place + 1) * 400].exp()
            truth = exact(reverse, row, (0, 2), hidden=hidden)
            assert abs(float(draws.mean()) - truth) < 4 * float(draws.std()) / 20 + 1e-9
    every = joint_states(3, 2)
    rows = torch.stack([every[:, 0], torch.ones(9, dtype=torch.int64), every[:, 1]], 1)
    mask = mask[:9]
    for option in ({"observed": Observed(mask, rows)}, {"missing": mask}):
        total = order_log_prob(reverse, rows, orders=3000, generator=seeded(), **option).value.exp().sum()
        assert abs(float(total) - 1) < 0.02


def test_states_of_missing_sites_have_no_effect(reverse: ReverseProcess) -> None:
    rows = ROWS[[5, 17]]
    missing = torch.tensor([[False, True, False], [True, False, False]])
    uniform = ReverseProcess(Uniform(3, Constant(2.0)), TableDenoiser.random(3, 3))
    for value in (-1, 1, MASK, 99):
        filled = rows.masked_fill(missing, value)
        for model, function, options in (
            (reverse, order_log_prob, {"orders": 3}),
            (uniform, path_log_prob, {"draws": 3, "grid": GRID}),
        ):
            both = [function(model, x, missing=missing, generator=seeded(), **options).value for x in (rows, filled)]
            assert torch.equal(*both)


def test_a_site_is_not_observed_and_missing_at_once(reverse: ReverseProcess) -> None:
    mask = torch.tensor([[False, True, False]])
    with pytest.raises(ValueError, match="a site cannot be observed and missing at once: clear one of the two masks"):
        order_log_prob(reverse, ROWS[:1], observed=Observed(mask, ROWS[:1]), missing=mask)


def test_rows_may_differ_in_their_known_sites(reverse: ReverseProcess) -> None:
    rows = ROWS[[5, 17, 20]]
    mask = torch.tensor([[False, True, True], [False, False, False], [True, False, False]])
    whole = order_log_prob(reverse, rows, orders=4000, missing=mask, generator=seeded())
    for place, sites in enumerate([(0,), (0, 1, 2), (1, 2)]):
        hidden = tuple(set(range(3)) - set(sites))
        error = 4 * float(whole.stderr[place]) + 1e-9
        assert abs(float(whole.value[place]) - math.log(exact(reverse, rows[place], sites, hidden=hidden))) < error


@torch.no_grad()
def _time_dependent_law(reverse: ReverseProcess, rows: torch.Tensor) -> torch.Tensor:
    """The law of first hitting on two sites, by quadrature over the two times at which they are revealed."""
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(40))
    first, second = torch.cartesian_prod((nodes + 1) / 2, (nodes + 1) / 2).unbind(1)
    weight = torch.outer(weights, weights).flatten() / 4
    # The larger of two uniform numbers has the density 2 m; the smaller one is uniform below it.
    weight, second = weight * 2 * first, second * first
    schedule = reverse.process.schedule
    largest = float(-torch.expm1(-schedule.total(1.0)))
    times = [schedule.inverse_total(-torch.log1p(-largest * each)) for each in (first, second)]
    law = torch.zeros(len(rows), dtype=torch.float64)
    for place, row in enumerate(rows):
        for a, b in ((0, 1), (1, 0)):
            x = torch.full((len(weight), 2), reverse.process.num_states - 1)
            own = reverse.posterior(x, times[0]).log_probs[:, a, row[a]]
            x[:, a] = row[a]
            law[place] += 0.5 * (weight * (own + reverse.posterior(x, times[1]).log_probs[:, b, row[b]]).exp()).sum()
    return law


@pytest.mark.parametrize("schedule", [LogLinear(), Constant(0.5)], ids=["all noise", "little noise at time 1"])
def test_a_denoiser_that_takes_t_has_the_likelihood_of_its_chain(schedule) -> None:
    process = Absorbing(3, schedule)
    reverse = ReverseProcess(process, Sharper.random(3, 2))
    assert reverse.denoiser.uses_time
    rows = joint_states(2, 2)
    truth = _time_dependent_law(reverse, rows)
    assert abs(float(truth.sum()) - 1) < 1e-6
    found = order_log_prob(reverse, rows, orders=4000, generator=seeded())
    assert float(((found.value - truth.log()) / found.stderr).abs().max()) < 4
    assert abs(float(found.value.exp().sum()) - 1) < 4 * float((found.stderr * found.value.exp()).norm())


def test_sites_of_a_batch_are_revealed_at_the_time_of_the_first() -> None:
    process = Absorbing(3, LogLinear())
    reverse = ReverseProcess(process, Sharper.random(3, 2))
    rows = joint_states(2, 2)
    nodes, weights = (torch.from_numpy(each) for each in np.polynomial.legendre.leggauss(40))
    first = (nodes + 1) / 2  # the larger of two uniform numbers, with the density 2 m
    largest = float(-torch.expm1(-process.schedule.total(1.0)))
    time = process.schedule.inverse_total(-torch.log1p(-largest * first))
    with torch.no_grad():
        log_probs = reverse.posterior(torch.full((40, 2), 2), time).log_probs
    own = torch.stack([log_probs[:, 0, a] + log_probs[:, 1, b] for a, b in rows.tolist()]).exp()
    truth = (own * weights * first).sum(1)
    found = order_log_prob(reverse, rows, orders=4000, batches=2, generator=seeded())
    assert float(((found.value.exp() - truth) / (found.stderr * truth)).abs().max()) < 4


class TellsObserved(TableDenoiser):
    """A table of logits that are sharper where the first site is observed, and not only revealed."""

    uses_time = False  # pyright: ignore[reportAssignmentType]

    def forward(self, x_t, t, *, observed=None, condition=None):
        logits = super().forward(x_t, t, observed=observed, condition=condition).logits
        return Posterior(logits * (1 + 3 * observed.mask[:, 0].to(logits.dtype))[:, None, None])


def test_equal_inputs_with_other_observed_sites_are_not_merged() -> None:
    reverse = ReverseProcess(Absorbing(4, LogLinear()), TellsObserved.random(4, 3))
    row, masks = torch.tensor([[0, 1, 2]]), torch.tensor([[True, False, False], [False, True, False]])
    options = {"orders": 2000, "generator": seeded()}
    both = order_log_prob(reverse, row.expand(2, 3), observed=Observed(masks, row.expand(2, 3)), **options)
    for place in range(2):
        alone = order_log_prob(reverse, row, observed=Observed(masks[place : place + 1], row), **options)
        error = math.hypot(float(both.stderr[place]), float(alone.stderr[0]))
        assert abs(float(both.value[place] - alone.value[0])) < 4 * error + 1e-9


class OfClass(ExactDenoiser):
    """The exact denoiser of one of two laws, by the class of each row: the second is the first one transposed."""

    def forward(self, x_t, t, *, observed=None, condition=None):
        own = super().forward(x_t, t, observed=observed).log_probs
        other = super().forward(x_t.flip(1), t).log_probs.flip(1)
        return Posterior(torch.where(condition[:, None, None] == 0, own, other))


def test_each_path_has_the_condition_of_its_row() -> None:
    process = Uniform(3, Constant(2.0))
    law = random_law(torch.ones(2, 3, dtype=torch.bool), 0)
    rows = torch.tensor([[0, 1]]).expand(4, 2)
    grid = torch.linspace(1.0, 0.0, 30).tolist()
    classes = torch.tensor([0, 1, 1, 0])
    reverse = ReverseProcess(process, OfClass(law, process))
    options = {"grid": grid, "draws": 300, "batch_size": 70, "generator": seeded()}
    found = path_log_prob(reverse, rows, condition=classes, **options)
    expected = torch.stack([law[0, 1], law[1, 0]])[classes]
    assert torch.allclose(found.value.exp(), expected, rtol=0.1)  # 30 steps are not quite exact
    assert law[1, 0] > 2 * law[0, 1]


GRID = [1.0, 0.7, 0.4]
"""It ends where much noise is left, so that no path has a weight that is rare and large."""


@pytest.mark.parametrize(
    "process",
    [
        Uniform(3, Constant(1.0)),
        RankOne(torch.tensor([0.5, 0.3, 0.2]), LogLinear()),
        BirthDeath(3, Constant(2.0)),
    ],
    ids=["uniform", "rank one", "birth/death"],
)
@pytest.mark.parametrize("end", [0.4, 0.0])
def test_weighted_paths_have_the_law_of_ancestral_samples(process, end: float) -> None:
    law = random_law(torch.ones(2, 3, dtype=torch.bool), 0)
    reverse = ReverseProcess(process, Perturbed(law, process, 0.5))
    grid = GRID if end else [*GRID, 0.0]
    truth = pushforward.sample_law(Ancestral(), reverse, 2, torch.tensor(grid), "sample" if end else "none")
    rows = joint_states(3, 2)
    found = path_log_prob(reverse, rows, grid=grid, draws=3000, generator=seeded())
    expected = truth[tuple(rows.T)]
    assert float(((found.value.exp() - expected) / (found.stderr * expected)).abs().max()) < 4
    assert abs(float(found.value.exp().sum()) - 1) < 0.03


def test_paths_condition_on_observed_sites_and_sum_over_missing_ones() -> None:
    process = Uniform(3, Constant(1.0))
    law = random_law(torch.ones(2, 3, dtype=torch.bool), 0)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    fine = torch.linspace(1.0, 0.0, 30).tolist()
    rows = torch.tensor([[0, 1], [1, 1], [2, 1]])
    mask = torch.tensor([[False, True]]).expand(3, 2)
    given = path_log_prob(reverse, rows, grid=fine, draws=400, observed=Observed(mask, rows), generator=seeded())
    assert torch.allclose(given.value.exp(), law[:, 1] / law[:, 1].sum(), atol=0.01)
    known = path_log_prob(reverse, rows, grid=fine, draws=1500, missing=mask, generator=seeded())
    sampled = pushforward.sample_law(Ancestral(), reverse, 2, torch.tensor(fine), "none").sum(1)
    assert torch.allclose(known.value.exp(), sampled, atol=0.02)


def test_missing_sites_of_paths_start_from_the_prior() -> None:
    """With little noise at time 1, where the prior differs most from any value that is filled in."""
    process = Uniform(3, Constant(0.5))
    law = (torch.eye(3, dtype=torch.float64) + 0.05) / (torch.eye(3, dtype=torch.float64) + 0.05).sum()
    reverse = ReverseProcess(process, Perturbed(law, process, 0.5))
    grid, rows = [1.0, 0.7, 0.4], torch.tensor([[0, 0], [1, 0], [2, 0]])
    truth = pushforward.sample_law(Ancestral(), reverse, 2, torch.tensor(grid), "sample").sum(1)
    missing = torch.tensor([[False, True]]).expand(3, 2)
    found = path_log_prob(reverse, rows, grid=grid, draws=10_000, missing=missing, generator=seeded())
    assert float(((found.value.exp() - truth) / (found.stderr * truth)).abs().max()) < 4


class Recorder(TableDenoiser):
    """A table of logits that keeps the inputs of all calls."""

    def forward(self, x_t, t, *, observed=None, condition=None):
        self.inputs = [*getattr(self, "inputs", []), x_t.clone()]
        return super().forward(x_t, t, observed=observed, condition=condition)


def test_observed_sites_of_paths_hold_their_values() -> None:
    denoiser = Recorder.random(3, 2)
    reverse = ReverseProcess(Uniform(3, Constant(3.0)), denoiser)
    rows = joint_states(3, 2)
    mask = torch.tensor([[False, True]]).expand(9, 2)
    path_log_prob(reverse, rows, grid=[1.0, 0.5, 0.1], draws=20, observed=Observed(mask, rows), generator=seeded())
    assert len(denoiser.inputs) == 3
    for x in denoiser.inputs:
        assert torch.equal(x[:, 1], rows[:, 1].repeat_interleave(20))
        assert not torch.equal(x[:, 0], rows[:, 0].repeat_interleave(20))


def test_wrong_arguments(reverse: ReverseProcess) -> None:
    with pytest.raises(ValueError, match="orders must be a whole number >= 1, got 0"):
        order_log_prob(reverse, ROWS, orders=0)
    with pytest.raises(ValueError, match=r"batches must add up to .* 3, or more, got 2: write batches=\[1, 1, 1\]"):
        order_log_prob(reverse, ROWS, batches=[1, 1])
    with pytest.raises(ValueError, match="which data of this process cannot have"):
        order_log_prob(reverse, torch.full((1, 3), MASK))
    missing = torch.tensor([[False] * 3, [True] * 3])
    with pytest.raises(ValueError, match="every value of row 1 is observed or missing: leave the row out"):
        order_log_prob(reverse, ROWS[:2], missing=missing)
    uniform = ReverseProcess(Uniform(3, Constant(1.0)), TableDenoiser.random(3, 3))
    with pytest.raises(ValueError, match="order_log_prob is for Absorbing noise"):
        order_log_prob(uniform, ROWS)
    with pytest.raises(
        ValueError, match=r"path_log_prob needs noise without a mask: for absorbing noise write order_log_prob"
    ):
        path_log_prob(reverse, ROWS, grid=[1.0, 0.5])
