"""The suites as a user meets them: three lines for a process that is right, and a refusal for each that is not."""

import pytest
import torch
from torch import Tensor

from tauleap._shapes import PerState, States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import Constant, DenseKernel, Exponential, ForwardProcess, Kernel
from tauleap.observed import Observed
from tauleap.testing import DenoiserContract, ProcessContract, ReverseContract


class Cycle(ForwardProcess):
    """Every state jumps to the next one, and now and then to the one after it."""

    def generator(self) -> Tensor:
        identity = torch.eye(self.num_states, dtype=torch.float64)
        return identity.roll(1, dims=1) + 0.2 * identity.roll(2, dims=1) - 1.2 * identity


class Flat(Denoiser):
    """Knows nothing."""

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        return Posterior(torch.zeros(*x_t.shape, 5))


class TestCycle(ProcessContract):
    reversible = False

    def make(self) -> ForwardProcess:
        return Cycle(5, Constant(2.0))


class TestReversedCycle(ReverseContract):
    def make(self) -> ForwardProcess:
        return Cycle(5, Constant(2.0))


class TestFlat(DenoiserContract):
    num_states = 5
    depends_on_time = False

    def make(self) -> Denoiser:
        return Flat()


class Transposed(Cycle):
    def _base_rates_into(self, x: States, dtype: torch.dtype) -> PerState:
        return self.jump_rates().rows(x, dtype)


class WrongWayRound(Cycle):
    def exponential(self, c: Tensor) -> Tensor:
        return super().exponential(c).mT.contiguous()


class BlindToTheSchedule(Cycle):
    def kernel(self, t: Time, s: Time = 0.0) -> Kernel:
        noise = torch.as_tensor(t, dtype=torch.float64) - torch.as_tensor(s, dtype=torch.float64)
        matrices = self.exponential(noise.reshape(-1))
        return DenseKernel(matrices if noise.ndim else matrices[0])


class TooCoarse(Cycle):
    """Right to eight digits, but not in small entries."""

    def exponential(self, c: Tensor) -> Tensor:
        return (super().exponential(c) + 1e-13).mul(1 / (1 + self.num_states * 1e-13))


class WrongLaw(Cycle):
    def stationary(self) -> Tensor:
        return torch.tensor([0.3, 0.2, 0.2, 0.2, 0.1], dtype=torch.float64)


class SameForAll(Cycle):
    """Draws once and uses it for every site."""

    def kernel(self, t: Time, s: Time = 0.0) -> Kernel:
        kernel = super().kernel(t, s)
        assert isinstance(kernel, DenseKernel)

        class Shared(DenseKernel):
            def sample(self, x: States, generator: torch.Generator | None) -> States:
                u = torch.rand(len(x), *[1] * (x.ndim - 1), dtype=torch.float64, generator=generator).expand(x.shape)
                cdf = kernel.rows(x, torch.float64).cumsum(-1)
                return (cdf < u[..., None]).sum(-1).clamp(max=cdf.shape[-1] - 1)

        return Shared(kernel.matrix)


class Stuck(Cycle):
    """The same kernel at all times."""

    def kernel(self, t: Time, s: Time = 0.0) -> Kernel:
        return DenseKernel(self.exponential(torch.tensor([0.1], dtype=torch.float64))[0])


REFUSED = [
    (Transposed, "test_rates_out_and_in_are_transposes"),
    (WrongWayRound, "test_the_forward_equation"),
    (WrongWayRound, "test_kernels_are_matrix_exponentials"),
    (BlindToTheSchedule, "test_the_forward_equation"),
    (BlindToTheSchedule, "test_kernels_are_matrix_exponentials"),
    (BlindToTheSchedule, "test_one_time_costs_one_kernel"),
    (TooCoarse, "test_small_entries_have_their_digits"),
    (TooCoarse, "test_no_time_means_no_change"),
    (WrongLaw, "test_the_stationary_law_stays"),
    (SameForAll, "test_sites_and_samples_are_noised_independently"),
    (Stuck, "test_no_time_means_no_change"),
    (Stuck, "test_two_steps_make_one"),
]


@pytest.mark.parametrize(("wrong", "test"), REFUSED, ids=lambda value: getattr(value, "__name__", value))
def test_what_is_wrong_is_refused(wrong: type[ForwardProcess], test: str) -> None:
    class Suite(ProcessContract):
        def make(self) -> ForwardProcess:
            return wrong(5, Exponential(1.0, 6.0))

    with pytest.raises(AssertionError):
        getattr(Suite(), test)()


def test_reversal_with_the_wrong_rates_is_refused() -> None:
    class Suite(ReverseContract):
        def make(self) -> ForwardProcess:
            return Detour(5, Exponential(1.0, 6.0))

    class Detour(Cycle):
        """Its rates and the jumps of its reversal contradict each other."""

        def jump_rates(self) -> DenseKernel:
            return DenseKernel(super().jump_rates().matrix.mT.contiguous())

        def _base_rates_from(self, x: States, dtype: torch.dtype) -> PerState:
            return super().jump_rates().rows(x, dtype)

        def _base_rates_into(self, x: States, dtype: torch.dtype) -> PerState:
            return super().jump_rates().columns(x, dtype)

    for test in ("test_rates_are_those_of_the_reversed_chain", "test_the_corrector_keeps_the_marginal"):
        with pytest.raises(AssertionError):
            getattr(Suite(), test)()


def test_claims_are_tested() -> None:
    class Claims(ProcessContract):
        reversible = True

        def make(self) -> ForwardProcess:
            return Cycle(5, Constant(2.0))

    with pytest.raises(AssertionError, match="flows there and back differ"):
        Claims().test_detailed_balance_as_claimed()


def test_a_denoiser_that_looks_at_its_neighbours_is_refused() -> None:
    class Mixed(Flat):
        def forward(
            self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
        ) -> Posterior:
            logits = torch.nn.functional.one_hot(x_t, 5).float()
            return Posterior(logits + logits.mean(0, keepdim=True))

    class Suite(DenoiserContract):
        num_states = 5

        def make(self) -> Denoiser:
            return Mixed()

    for test in ("test_samples_are_predicted_independently", "test_time_matters_as_declared"):
        with pytest.raises(AssertionError):
            getattr(Suite(), test)()
