"""Dense: any generator, its exponential, its stationary law, and tables that never outlive the generator."""

import copy

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap import ReverseProcess
from tauleap.noise import Constant, Dense, Gaussian
from tauleap.noise.matrix_exponential import MatrixExponential
from tauleap.noise.stationary import in_detailed_balance, stationary_law
from tauleap.testing import GivenLogits
from tauleap.testing.examples import cycle, ladder, one_way, reversible, stiff
from tauleap.testing.laws import assert_relative, exact_exponential


def answers(process: Dense) -> list[Tensor]:
    x = torch.arange(process.num_states)[:, None]
    reverse = ReverseProcess(process, GivenLogits(torch.zeros(len(x), 1, len(x), dtype=torch.float64)))
    return [
        process.kernel_from(x, 0.3, dtype=torch.float64),
        process.kernel_into(x, 0.3, dtype=torch.float64),
        process.rates_from(x, 0.3, dtype=torch.float64),
        process.exit_rate(x, 0.3, dtype=torch.float64),
        process.prior().clone(),
        process.noise(x.expand(-1, 50), 0.3, generator=torch.Generator().manual_seed(0)),
        reverse.rates(x, 0.3),
        reverse.exit_rate(x, 0.3),
    ]


def test_a_loaded_generator_is_used_everywhere() -> None:
    """Kernels and tables of the generator before it were kept; none of them may answer now."""
    process, other = Dense(cycle(4), Constant(2.0)), Dense(reversible(4), Constant(2.0))
    before, expected = answers(process), answers(other)
    process.load_state_dict(other.state_dict())
    for old, new, reference in zip(before, answers(process), expected, strict=True):
        assert_close(new, reference, rtol=0, atol=0)
        assert not torch.equal(old, reference)


def test_loaded_as_part_of_a_larger_module() -> None:
    pair, other = (
        torch.nn.ModuleList([Dense(make(4), Constant(2.0))]) for make in (cycle, lambda size: reversible(size, 5))
    )
    answers(pair[0])
    pair.load_state_dict(other.state_dict())
    assert_close(answers(pair[0])[0], answers(other[0])[0], rtol=0.0, atol=0.0)


def test_a_copy_with_another_generator_leaves_the_first_alone() -> None:
    process, other = Dense(cycle(4), Constant(2.0)), Dense(reversible(4), Constant(2.0))
    before = answers(process)
    copied = copy.deepcopy(process)
    copied.load_state_dict(other.state_dict())
    answers(copied)
    for old, again in zip(before, answers(process), strict=True):
        assert_close(again, old, rtol=0, atol=0)


@pytest.mark.parametrize("generator", [cycle(4), reversible(5), ladder(9), one_way(), stiff()])
def test_the_given_matrix_is_the_generator(generator: Tensor) -> None:
    process = Dense(generator, Constant(1.0))
    assert_close(process.generator(), generator, rtol=1e-14, atol=1e-14)
    assert process.generator().data_ptr() != generator.data_ptr(), "the process must hold a copy of its own"


def test_rounding_of_a_float32_generator_is_put_right() -> None:
    generator = reversible(6).float()
    process = Dense(generator, Constant(1.0))
    sums = process.generator().sum(1)
    assert_close(sums, torch.zeros_like(sums), rtol=0.0, atol=1e-14)
    assert_close(process.generator(), generator.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("c", [1e-6, 0.01, 1.0, 30.0, 1000.0])
@pytest.mark.parametrize("balanced", [True, False])
def test_small_entries_whatever_the_way_taken(c: float, balanced: bool) -> None:
    """By series and by eigenvectors: relative errors as the module promises them."""
    generator = ladder(7)
    law = stationary_law(generator) if balanced else None
    kernel = MatrixExponential(generator, law)(torch.tensor([c], dtype=torch.float64))[0]
    assert_relative(kernel, exact_exponential(generator, c), 1e-9 if balanced else 1e-11, floor=1e-30)


def test_many_amounts_of_noise_at_once() -> None:
    """Some by series, some by eigenvectors, and each as if it were alone."""
    process = Gaussian(8, Constant(1.0), sigma_0=3.0, sigma_r=2.0)
    c = torch.tensor([0.0, 20.0, 1e-3, 5.0, 0.5], dtype=torch.float64)
    alone = torch.cat([process.exponential(c[i : i + 1]) for i in range(len(c))])
    assert_relative(process.exponential(c), alone, 1e-12)


def test_the_stationary_law_keeps_small_probabilities() -> None:
    """A ladder that is a thousand times likelier to be climbed down: its law falls by 1000 a rung, to 1e-27."""
    size = 10
    rates = torch.diag(torch.full((size - 1,), 1e-3), 1) + torch.diag(torch.ones(size - 1), -1)
    rates = rates.double()
    law = stationary_law(rates - torch.diag(rates.sum(1)))
    expected = (rates[0, 1] / rates[1, 0]) ** torch.arange(size, dtype=torch.float64)
    assert_relative(law, expected / expected.sum(), 1e-13)


def test_transient_states_have_stationary_probability_0() -> None:
    law = stationary_law(one_way())
    assert law[:2].tolist() == [0.0, 0.0]
    flow = law[2:, None] * one_way()[2:, 2:]
    assert_close(flow.sum(0), torch.zeros(3, dtype=torch.float64), rtol=0.0, atol=1e-15)


def test_detailed_balance_is_recognised() -> None:
    for generator, balanced in [(cycle(3), False), (reversible(5), True), (ladder(6), True), (stiff(), False)]:
        assert in_detailed_balance(generator, stationary_law(generator)) == balanced
