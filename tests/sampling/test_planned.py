"""Planned unmasking: exact one site at a time, exact numbers of sites, and a bound on what several at once cost."""

import math
from itertools import pairwise
from typing import Any, get_args

import pytest
import torch

import tauleap as tl
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.pushforward import prior, pushforward_grid
from tauleap.noise import Absorbing, Constant, LogLinear, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import FirstHitting, Planned, WithCorrector, sample
from tauleap.sampling.planned import Order, within_bound
from tauleap.testing.cases import correlated, counts, draws
from tauleap.testing.laws import assert_drawn_from, random_law
from tauleap.testing.steps import relative_entropy

ORDERS = get_args(Order)


def grid_of(process: Absorbing, masked: list[int], sites: int) -> list[float]:
    """Times at which these numbers of the sites are masked."""
    fractions = torch.tensor([number / sites for number in masked], dtype=torch.float64)
    times = process.schedule.inverse_total(-torch.log1p(-fractions.clamp(max=1 - 1e-12))).clamp(max=1.0)
    return times.tolist()


@pytest.fixture(scope="module")
def case() -> tuple[ReverseProcess, torch.Tensor]:
    process = Absorbing(3, LogLinear())
    law = random_law(process.data_states.expand(4, -1), seed=5)
    return ReverseProcess(process, ExactDenoiser(law, process)), law


@pytest.mark.parametrize("order", ORDERS)
def test_one_site_at_a_time_is_exact_in_any_order(case: Any, order: Order) -> None:
    reverse, law = case
    start = prior(reverse, 4)
    one_by_one = pushforward_grid(Planned(order), reverse, start, grid_of(reverse.process, [4, 3, 2, 1, 0], 4))
    assert float((one_by_one - law).abs().max()) < 1e-14
    without_error = pushforward_grid(Planned(order, bound=0.0), reverse, start, [1.0, 0.0])
    assert float((without_error - law).abs().max()) < 1e-14
    two_at_a_time = pushforward_grid(Planned(order), reverse, start, grid_of(reverse.process, [4, 2, 0], 4))
    assert float((two_at_a_time - law).abs().sum()) / 2 > 0.02


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("gamma", [0.05, 0.3, 5.0])
def test_the_error_is_within_the_reported_bound(case: Any, order: Order, gamma: float) -> None:
    reverse, law = case
    sampler = Planned(order, bound=gamma)
    made = pushforward_grid(sampler, reverse, prior(reverse, 4), [1.0, 0.0])
    generator = torch.Generator().manual_seed(0)
    info = sample(reverse, sampler, (2000, 4), grid=[1.0, 0.0], final="none", generator=generator).info
    spent = float(info.entropy_bound.sum())
    assert relative_entropy(law, made) <= spent + 1e-12
    assert spent <= gamma * info.evaluations + 1e-6
    assert info.evaluations <= 4
    if gamma == 5.0:
        assert info.evaluations == 1


@pytest.mark.parametrize(("order", "gamma"), [("random", None), ("margin", None), ("entropy", 0.2), ("random", 0.2)])
def test_samples_have_the_pushed_law(case: Any, order: Order, gamma: float | None) -> None:
    reverse, _ = case
    sampler, grid = Planned(order, bound=gamma), grid_of(reverse.process, [4, 3, 1, 0], 4)
    expected = pushforward_grid(sampler, reverse, prior(reverse, 4), grid)
    generator = torch.Generator().manual_seed(0)
    found = sample(reverse, sampler, (4000, 2, 2), grid=grid, final="none", generator=generator)
    assert_drawn_from(counts(found.x0, expected), expected.reshape(-1))
    assert found.info.evaluations == 3 if gamma is None else 3 <= found.info.evaluations <= 4


def test_the_bound_of_one_evaluation_is_the_sum_of_entropies_but_the_largest(case: Any) -> None:
    reverse, _ = case
    masked = torch.full((1, 4), 2)
    _, info = Planned().step(reverse, masked, 1.0, 0.0)
    probs = reverse.posterior(masked, 1.0).probs
    entropy = -(probs * probs.clamp(min=1e-300).log()).sum(-1)[0]
    assert float(info.entropy_bound) == pytest.approx(float(entropy.sum() - entropy.max()))
    _, info = FirstHitting().step(reverse, masked, 1.0, 0.0)
    assert math.isnan(float(info.entropy_bound))
    sampler = WithCorrector(Planned(), steps=1)
    _, info = sampler.step(reverse, masked, 1.0, 0.5)
    assert math.isnan(float(info.entropy_bound)), "the error of the corrector is not known"


def test_the_surest_sites_come_first() -> None:
    """Three independent sites whose orders by probability, margin and entropy differ."""
    process = Absorbing(6, Constant(5.0))
    first = torch.tensor([0.50, 0.49, 0.01, 0.0, 0.0])  # a small margin, a small entropy
    second = torch.tensor([0.45, 0.15, 0.15, 0.15, 0.10])  # the largest margin and entropy
    third = torch.tensor([0.55, 0.27, 0.18, 0.0, 0.0])  # the largest probability
    law = (first[:, None, None] * second[:, None] * third).double()
    law = torch.nn.functional.pad(law, (0, 1) * 3)
    reverse = ReverseProcess(process, ExactDenoiser(law / law.sum(), process))
    masked, step = torch.full((200, 3), 5), grid_of(process, [3, 2], 3)
    filled: dict[str, list[int]] = {}
    for order in ORDERS:
        x, _ = Planned(order).step(reverse, masked, 1.0, step[1], generator=torch.Generator().manual_seed(0))
        assert bool(((x == 5).sum(1) == 2).all())
        filled[order] = (x != 5).sum(0).tolist()
    assert filled["entropy"] == [200, 0, 0]
    assert filled["margin"] == [0, 200, 0]
    assert filled["confidence"] == [0, 0, 200]
    assert min(filled["random"]) > 40


def test_ties_are_broken_at_random() -> None:
    process = Absorbing(3, LogLinear())
    law = torch.zeros(3, 3, 3, dtype=torch.float64)
    law[:2, :2, :2] = 1 / 8
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    x, _ = Planned("confidence").step(
        reverse, torch.full((600, 3), 2), 1.0, grid_of(process, [2], 3)[0], generator=torch.Generator().manual_seed(0)
    )
    assert min((x != 2).sum(0).tolist()) > 150


def test_rows_have_their_own_numbers() -> None:
    """Half of the sites that are not observed are masked at the time with alpha = 1/2, in every row."""
    process = Absorbing(3, LogLinear())
    reverse = ReverseProcess(process, tl.denoise.NetworkDenoiser(tl.network.ResidualMLP(3, (8,))))
    mask = torch.arange(8) < torch.tensor([0, 2, 4, 7, 8])[:, None]
    given = Observed(mask, torch.ones(5, 8, dtype=torch.int64))
    half = grid_of(process, [1], 2)
    found = sample(reverse, Planned(), (5, 8), grid=[1.0, *half], final="none", observed=given).x0
    assert (found == 2).sum(1).tolist() == [4, 3, 2, 1, 0]
    assert bool((found[mask] == 1).all())
    whole = sample(reverse, Planned(), (5, 8), grid=[1.0, *half, 0.0], final="none", observed=given)
    assert bool((whole.x0 != 2).all())
    assert whole.info.evaluations == pytest.approx((2 * 3 + 1 + 0) / 5)  # one free site needs one, none needs none


def test_a_start_with_fewer_masks_waits() -> None:
    reverse, law = correlated("absorbing", 2)
    x = draws(law, 5, torch.Generator().manual_seed(0))
    out, info = Planned("entropy").step(reverse, x, 0.9, 0.2)
    assert torch.equal(out, x)
    assert float(info.evaluations) == 0


def test_networks_see_the_time_of_the_number_of_masks() -> None:
    seen: list[Any] = []

    class Network(torch.nn.Module):
        def forward(self, x: Any, t: Any) -> Any:
            seen.append((x.eq(2).sum(1) / 4, t))
            return torch.zeros(*x.shape, 3)

    process = Absorbing(3, LogLinear())
    reverse = ReverseProcess(process, tl.denoise.NetworkDenoiser(Network()))
    sample(reverse, Planned("entropy", bound=0.0), (3, 4), grid=[1.0, 0.0], final="none")
    assert len(seen) == 4
    for (_, before), (_, after) in pairwise(seen):
        assert bool((after < before).all())
    for fraction, t in seen[1:]:
        torch.testing.assert_close(
            1 - torch.exp(-process.schedule.total(t)), fraction, rtol=1e-4, atol=1e-4, check_dtype=False
        )
    assert bool((seen[0][1] == 1).all())


def test_a_prefix_within_the_bound() -> None:
    turn, number = torch.tensor([[2, 0, 1, 3]]), torch.tensor([4])
    entropy = torch.tensor([[0.2, 0.5, 0.1, 0.0]], dtype=torch.float64)
    for bound, expected in [(None, [1, 1, 1, 1]), (0.0, [0, 0, 1, 0]), (0.1, [1, 0, 1, 0]), (0.3, [1, 1, 1, 1])]:
        assert within_bound(turn, number, entropy, bound).tolist() == [[bool(v) for v in expected]], bound


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (
            lambda: Planned("best"),
            ValueError,
            "order must be 'random', 'confidence', 'margin' or 'entropy', got 'best'",
        ),
        (lambda: Planned(bound=-0.1), ValueError, "bound must be a finite number >= 0, got -0.1"),
        (lambda: Planned(bound=math.nan), ValueError, "bound must be a finite number >= 0"),
        (lambda: Planned(bound="low"), TypeError, "bound must be a number >= 0, got 'low'"),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_settings(make: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        make()


def test_noise_without_masks_is_refused() -> None:
    process = Uniform(3, Constant(1.0))
    reverse = ReverseProcess(process, ExactDenoiser(torch.ones(3).double() / 3, process))
    with pytest.raises(ValueError, match=r"only Absorbing noise has, got Uniform: write Ancestral\(\)"):
        sample(reverse, Planned("margin"), (2, 1), grid=[1.0, 0.0])


@pytest.mark.parametrize(
    ("sampler", "text"), [(Planned(), "Planned('random')"), (Planned("margin", 0.1), "Planned('margin', bound=0.1)")]
)
def test_names(sampler: Planned, text: str) -> None:
    assert repr(sampler) == text
