"""The measures of the suites are correct, and reject wrong distributions."""

import math

import pytest
import torch
from torch.testing import assert_close

from tauleap.evaluate.joint_space import joint_generator, joint_states, neighbours
from tauleap.testing.examples import cycle, reversible
from tauleap.testing.laws import (
    assert_drawn_from,
    assert_relative,
    count,
    exact_exponential,
    integrate,
    posterior_marginals,
    push,
    random_law,
)


def test_joint_states_are_in_the_order_of_the_table() -> None:
    table = torch.arange(27).reshape(3, 3, 3)
    states = joint_states(3, 3)
    assert torch.equal(table[states.unbind(-1)], torch.arange(27))
    assert neighbours(table)[14].tolist() == [[5, 14, 23], [11, 14, 17], [12, 13, 14]]  # of the state (1, 1, 2)


def test_the_joint_generator_is_the_kronecker_sum() -> None:
    one, other = cycle(3), reversible(3)
    identity = torch.eye(3, dtype=torch.float64)
    states = joint_states(3, 2)
    rates = torch.stack([one[states[:, 0]], other[states[:, 1]]], dim=1)
    assert_close(joint_generator(rates), torch.kron(one, identity) + torch.kron(identity, other))


def test_pushing_a_law_is_multiplying_by_the_kronecker_product() -> None:
    law = random_law(torch.ones(2, 3), 0)
    kernels = torch.matrix_exp(torch.stack([cycle(3), reversible(3)]))
    assert_close(push(law, kernels).reshape(-1), law.reshape(-1) @ torch.kron(*kernels))


def test_random_laws_are_correlated_and_respect_what_is_allowed() -> None:
    allowed = torch.tensor([[True, True, False], [True, True, True]])
    law = random_law(allowed, 1, holes=0.3)
    assert_close(float(law.sum()), 1.0)
    assert bool((law[2] == 0).all())
    independent = torch.outer(law.sum(1), law.sum(0))
    assert float((law - independent).abs().max()) > 0.01


def test_bayes_rule_on_a_case_worked_out_by_hand() -> None:
    """Two equal coins; one of them is seen through a channel that errs one time in four."""
    law = torch.tensor([[0.5, 0.0], [0.0, 0.5]], dtype=torch.float64)
    likelihood = torch.tensor([[[0.75, 0.25], [1.0, 1.0]]], dtype=torch.float64)
    marginals, total = posterior_marginals(law, likelihood)
    assert_close(marginals, torch.tensor([[[0.75, 0.25], [0.75, 0.25]]], dtype=torch.float64))
    assert_close(total, torch.tensor([0.5], dtype=torch.float64))


def test_the_exact_exponential() -> None:
    """Of two states in closed form, with an entry of 1e-20."""
    rates = torch.tensor([[-1e-20, 1e-20], [1.0, -1.0]], dtype=torch.float64)
    stay = math.exp(-0.5)
    expected = torch.tensor([[1.0, 1e-20 * (1 - stay)], [1 - stay, stay]], dtype=torch.float64)
    assert_relative(exact_exponential(rates, 0.5), expected, 1e-15)


def test_the_integrator_is_of_fourth_order() -> None:
    """On generators that do not commute, against many more steps of its own, up and down in time."""

    def generators(times: torch.Tensor) -> torch.Tensor:
        return cycle(3) + times[:, None, None] * reversible(3)

    start = torch.tensor([1.0, 0.0, 0.0], dtype=torch.float64)
    for ends in ((0.0, 1.0), (1.0, 0.0)):
        reference, coarse, fine = (
            integrate(generators, start, torch.linspace(*ends, steps + 1, dtype=torch.float64))[-1]
            for steps in (512, 8, 16)
        )
        order = math.log2(float((coarse - reference).norm() / (fine - reference).norm()))
        assert order == pytest.approx(4.0, abs=0.3)
    constant = integrate(lambda t: cycle(3).expand(len(t), 3, 3), start, torch.tensor([0.0, 2.0], dtype=torch.float64))
    assert_close(constant[-1], start @ torch.matrix_exp(2 * cycle(3)))


@pytest.mark.parametrize("draws", [2_000, 200_000])
def test_chi_square_takes_draws_from_the_law(draws: int) -> None:
    law = torch.tensor([[0.5, 0.3, 0.2 - 1e-4, 1e-4, 0.0], [0.0, 0.0, 1.0, 0.0, 0.0]], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.stack([torch.multinomial(row, draws, replacement=True, generator=generator) for row in law], dim=1)
    assert_drawn_from(count(drawn, 5), law)


@pytest.mark.parametrize("wrong", [[0.52, 0.28, 0.2], [0.5, 0.32, 0.18], [0.47, 0.33, 0.2]])
def test_chi_square_refuses_draws_from_another_law(wrong: list[float]) -> None:
    law = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    generator = torch.Generator().manual_seed(0)
    drawn = torch.multinomial(torch.tensor(wrong), 20_000, replacement=True, generator=generator)
    with pytest.raises(AssertionError, match="chi-square"):
        assert_drawn_from(count(drawn, 3), law)


def test_chi_square_refuses_what_cannot_be_and_what_says_nothing() -> None:
    with pytest.raises(AssertionError, match="1 draws of something of probability 0"):
        assert_drawn_from(torch.tensor([999, 1]), torch.tensor([1.0, 0.0]))
    with pytest.raises(AssertionError, match="nothing was tested"):
        assert_drawn_from(torch.tensor([1000, 0]), torch.tensor([1.0, 0.0]))


def test_relative_errors() -> None:
    expected = torch.tensor([1.0, 1e-20, 0.0], dtype=torch.float64)
    assert_relative(expected * (1 + 1e-12), expected, 1e-11)
    with pytest.raises(AssertionError, match="in relative terms"):
        assert_relative(expected * torch.tensor([1.0, 1.1, 1.0]), expected, 1e-11)
    with pytest.raises(AssertionError, match="where there should be at most 0"):
        assert_relative(expected + torch.tensor([0.0, 0.0, 1e-300], dtype=torch.float64), expected, 1e-11)
    with pytest.raises(AssertionError, match="relative"):
        assert_relative(torch.tensor([math.nan]), torch.tensor([1.0]), 1e-11)
