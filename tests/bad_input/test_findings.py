"""What once went wrong without a word, and now does not."""

from collections.abc import Iterator

import jaxtyping
import pytest
import torch
from torch import Tensor

import tauleap as tl
from tauleap.denoise import ExactDenoiser, Posterior
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, ForwardProcess, Gaussian, RankOne, Uniform


@pytest.fixture(autouse=True)
def _our_own_words() -> Iterator[None]:
    """Without the shape checks of testing, which would speak first."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


class Given(ForwardProcess):
    def __init__(self, matrix: Tensor, num_states: int) -> None:
        super().__init__(num_states, Constant(1.0))
        self.matrix = matrix

    def generator(self) -> Tensor:
        return self.matrix


@pytest.mark.parametrize(
    ("matrix", "size", "words"),
    [
        (torch.tensor([[-1.0, 0.5], [1.0, -1.0]]), 2, "rows of generator must sum to 0"),
        (torch.tensor([[1.0, -1.0], [1.0, -1.0]]), 2, "off-diagonal rates >= 0"),
        (torch.tensor([[-1.0, 1.0], [1.0, -1.0]]), 3, r"must be a square matrix \(3, 3\)"),
        (torch.tensor([[float("nan"), 1.0], [1.0, -1.0]]), 2, "inf or nan"),
    ],
)
def test_the_generator_of_a_users_own_process_is_looked_at(matrix: Tensor, size: int, words: str) -> None:
    process = Given(matrix, size)
    with pytest.raises(ValueError, match=words):
        process.kernel_from(torch.zeros(1, 1, dtype=torch.int64), 0.5)
    with pytest.raises(ValueError, match=words):
        process.rates_from(torch.zeros(1, 1, dtype=torch.int64), 0.5)


def test_a_float32_generator_of_a_users_own_process_is_taken() -> None:
    process = Given(torch.tensor([[-1.0, 1.0], [2.0, -2.0]]), 2)
    torch.testing.assert_close(process.stationary(), torch.tensor([2 / 3, 1 / 3], dtype=torch.float64))
    assert process.kernel_from(torch.zeros(1, 1, dtype=torch.int64), 0.5).sum().item() == pytest.approx(1)


@pytest.mark.parametrize("sigma_0", [1.0, 2.0])
def test_a_stationary_law_wider_than_float64(sigma_0: float) -> None:
    gaussian = Gaussian(256, Constant(1.0), sigma_0=sigma_0, sigma_r=1.0)
    found = Dense(gaussian.generator(), Constant(1.0)).prior()
    reachable = gaussian.prior() > 1e-290
    torch.testing.assert_close(found[reachable], gaussian.prior()[reachable], rtol=1e-9, atol=0.0)
    assert found.sum().item() == pytest.approx(1)


def test_a_stationary_law_that_climbs() -> None:
    ladder = torch.diag(torch.ones(199, dtype=torch.float64), 1) + torch.diag(torch.full((199,), 0.01).double(), -1)
    law = Dense(ladder - torch.diag(ladder.sum(1)), Constant(1.0)).prior()
    torch.testing.assert_close(law[-3:] / law[-1], torch.tensor([1e-4, 1e-2, 1.0], dtype=torch.float64))


def reverse_of(process: ForwardProcess) -> tl.ReverseProcess:
    law = process.data_states.double()
    return tl.ReverseProcess(process, ExactDenoiser(torch.outer(law, law) / law.sum() ** 2, process))


@pytest.mark.parametrize("process", [Uniform(3, Constant(1.0)), BirthDeath(3, Constant(1.0))], ids=["one", "matrix"])
@pytest.mark.parametrize("shape", [(2, 2, 4), (1, 2, 3), (2, 1, 3), (2, 3)])
def test_a_posterior_of_another_shape_is_refused(process: ForwardProcess, shape: tuple[int, ...]) -> None:
    reverse, x = reverse_of(process), torch.zeros(2, 2, dtype=torch.int64)
    for method in (reverse.rates, reverse.ratios, reverse.exit_rate, reverse.corrector_rates):
        with pytest.raises(ValueError, match=r"logits of shape"):
            method(x, 0.5, posterior=Posterior(torch.zeros(shape)))


def test_a_bare_tensor_is_no_posterior_and_a_bare_mask_no_observation() -> None:
    reverse, x = reverse_of(Uniform(3, Constant(1.0))), torch.zeros(2, 2, dtype=torch.int64)
    with pytest.raises(TypeError, match=r"write Posterior\(logits\)"):
        reverse.rates(x, 0.5, posterior=torch.zeros(2, 2, 3))  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match=r"must be an Observed\(mask, values\)"):
        reverse.rates(x, 0.5, observed=torch.ones(2, 2, dtype=torch.bool))  # pyright: ignore[reportArgumentType]


def test_a_given_posterior_loses_what_data_cannot_be() -> None:
    reverse = reverse_of(Absorbing(4, Constant(1.0)))
    x = torch.tensor([[3, 3]])
    flat = Posterior(torch.zeros(1, 2, 4, dtype=torch.float64))
    torch.testing.assert_close(reverse.rates(x, 0.5, posterior=flat), reverse.rates(x, 0.5))


def test_the_mask_is_no_observed_value() -> None:
    reverse = reverse_of(Absorbing(4, Constant(1.0)))
    observed = tl.Observed(torch.tensor([True, False]), torch.tensor([[3, 0]]))
    with pytest.raises(ValueError, match="states that data can have, got 3"):
        reverse.rates(torch.tensor([[3, 3]]), 0.5, observed=observed)


def test_the_exact_denoiser_checks_what_is_observed() -> None:
    process = Uniform(3, Constant(1.0))
    denoiser = ExactDenoiser(torch.full((3, 3), 1 / 9), process)
    with pytest.raises(ValueError, match="must have the shape of x"):
        denoiser(
            torch.zeros(2, 2, dtype=torch.int64),
            0.5,
            observed=tl.Observed(torch.tensor([True]), torch.tensor([[0]])),
        )


def test_clean_and_noisy_states_have_one_shape() -> None:
    reverse = reverse_of(Uniform(3, Constant(1.0)))
    with pytest.raises(ValueError, match="x0 must have the shape of x"):
        reverse.conditional_rates(torch.zeros(1, 2, dtype=torch.int64), torch.zeros(2, 2, dtype=torch.int64), 0.5)


def test_a_site_that_cannot_jump_has_no_destination() -> None:
    reverse = reverse_of(Absorbing(4, Constant(1.0)))
    with pytest.raises(ValueError, match="the exit rate of one of them is 0"):
        reverse.at(torch.tensor([[0, 3]]), 0.5).draw_destination(torch.tensor([0]))


def test_ratios_stay_numbers_where_a_factor_leaves_float32() -> None:
    prior = torch.tensor([1 - 1e-30 - 1e-7, 1e-30, 1e-7], dtype=torch.float64)
    process = RankOne(prior, Constant(1.0))
    reverse = tl.ReverseProcess(process, ExactDenoiser(torch.tensor([0.3, 0.3, 0.4]), process))
    ratios = reverse.ratios(torch.tensor([[1]]), 1e-12, posterior=Posterior(torch.tensor([[[3e38, -3e38, 0.0]]])))
    assert not bool(ratios.isnan().any())


@pytest.mark.parametrize("process", [Uniform(3, Constant(1.0)), BirthDeath(3, Constant(1.0))], ids=["one", "matrix"])
def test_an_empty_batch_has_empty_answers(process: ForwardProcess) -> None:
    x = torch.zeros(0, 2, dtype=torch.int64)
    assert reverse_of(process).rates(x, torch.zeros(0)).shape == (0, 2, 3)


@pytest.mark.parametrize(("sigma_0", "sigma_r"), [(1.0, 1e-200), (1e200, 1e200)])
def test_a_gaussian_of_extreme_width_has_a_kernel(sigma_0: float, sigma_r: float) -> None:
    process = Gaussian(8, Constant(1.0), sigma_0=sigma_0, sigma_r=sigma_r)
    kernel = process.kernel_from(torch.arange(8)[:, None], 0.5, dtype=torch.float64)
    torch.testing.assert_close(kernel.sum(-1), torch.ones(8, 1, dtype=torch.float64))


def test_a_gaussian_too_narrow_for_its_states_is_refused() -> None:
    with pytest.raises(ValueError, match="too small for 8 states"):
        Gaussian(8, Constant(1.0), sigma_0=1e-200, sigma_r=1.0)
