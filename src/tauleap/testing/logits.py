"""The contract of the reversal for any logits: finite rates and correct gradients."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close

from tauleap.evaluate.joint_space import uniform_states
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess
from tauleap.testing.denoiser import GivenLogits
from tauleap.testing.laws import assert_relative
from tauleap.testing.properties import POSITIVE_TIMES, PROPERTY, SEEDS


def extreme_logits(*shape: int) -> Tensor:
    """Return logits in float32, (5, *shape): ordinary ones, and ones at the ends of the range of float32."""
    generator = torch.Generator().manual_seed(0)
    normal = torch.randn(shape, generator=generator)
    signs = torch.randint(2, shape, generator=generator) * 2.0 - 1
    one_hot = torch.nn.functional.one_hot(torch.randint(shape[-1], shape[:-1], generator=generator), shape[-1])
    return torch.stack([normal, 1e4 * normal, 3e38 * signs, 3e38 * (2.0 * one_hot - 1), torch.full(shape, -3e38)])


def dense_rates(process: ForwardProcess, x: Tensor, t: float, logits: Tensor) -> Tensor:
    """Return R_t(v, x) sum_x0 p(x0 | x) q(v | x0) / q(x | x0), by this formula: (batch, *shape, S) in float64."""
    kernel = process.kernel_from(uniform_states(process.num_states, x.shape[1:]), t, dtype=torch.float64)
    likelihood = process.kernel_into(x, t, dtype=torch.float64)
    possible = (likelihood > 0) & process.data_states
    possible = possible | ~possible.any(-1, keepdim=True)
    probs = logits.double().masked_fill(~possible, float("-inf")).softmax(-1)
    weights = probs * torch.where(likelihood > 0, 1 / likelihood, 0.0)
    return process.rates_into(x, t, dtype=torch.float64) * torch.einsum("b...u,u...v->b...v", weights, kernel)


def assert_finite_rates(process: ForwardProcess, x: Tensor, logits: Tensor) -> None:
    """Check that rates, exit rates and their gradients in float32 ``logits`` are finite at all times."""
    reverse = ReverseProcess(process, GivenLogits(logits.requires_grad_()))
    for t in (0.0, 1e-4, 0.01, 0.3, 1.0):
        for answer in (reverse.rates, reverse.exit_rate, reverse.corrector_rates):
            rates = answer(x, t)
            assert rates.dtype == torch.float32
            assert bool(rates.isfinite().all()), f"{answer.__name__} at t = {t}"
            assert bool((rates >= 0).all()), f"{answer.__name__} at t = {t}"
            (gradient,) = torch.autograd.grad(rates.sum(), logits)
            assert bool(gradient.isfinite().all()), f"gradient of {answer.__name__} at t = {t}"


class LogitsContract(ABC):
    """Test that rates follow from any finite logits, correct and differentiable, in float32 and float64."""

    fixed_shape: tuple[int, ...] | None = None
    """The shape of a sample, where the process fixes it."""

    @abstractmethod
    def make(self) -> ForwardProcess:
        """Return the process to reverse, newly constructed."""

    def test_every_finite_logit_gives_finite_rates(self) -> None:
        process = self.make()
        x = self._states(process)
        logits = extreme_logits(*x.shape, process.num_states)
        x = x.repeat(len(logits), *[1] * (x.ndim - 1))
        assert_finite_rates(process, x, logits.flatten(0, 1))

    @PROPERTY
    @given(t=POSITIVE_TIMES, seed=SEEDS)
    def test_rates_and_their_gradient_are_those_of_the_formula(self, t: float, seed: int) -> None:
        process = self.make()
        x = self._states(process)
        generator = torch.Generator().manual_seed(seed)
        logits = torch.randn(*x.shape, process.num_states, dtype=torch.float64, generator=generator)
        logits.requires_grad_()
        weights = torch.rand(logits.shape, dtype=torch.float64, generator=generator)
        reverse = ReverseProcess(process, GivenLogits(logits))

        expected = dense_rates(process, x, t, logits)
        rates = reverse.rates(x, t)
        assert_relative(rates.detach(), expected.detach(), 1e-10, floor=1e-250)
        (gradient,) = torch.autograd.grad((rates * weights).sum(), logits)
        (expected_gradient,) = torch.autograd.grad((expected * weights).sum(), logits)
        scale = float(expected.detach().max())
        assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-12 * scale)

        exits = reverse.exit_rate(x, t)
        (gradient,) = torch.autograd.grad((exits * weights[..., 0]).sum(), logits)
        (expected_gradient,) = torch.autograd.grad(
            (dense_rates(process, x, t, logits).sum(-1) * weights[..., 0]).sum(), logits
        )
        assert_close(gradient, expected_gradient, rtol=1e-9, atol=1e-12 * scale)

    def test_at_time_0_the_data_is_known_whatever_the_logits(self) -> None:
        process = self.make()
        x = self._states(process)
        data = process.data_states.expand(*x.shape, -1).gather(-1, x[..., None]).squeeze(-1)
        logits = torch.randn(*x.shape, process.num_states, generator=torch.Generator().manual_seed(0))
        reverse = ReverseProcess(process, GivenLogits(logits))
        own = torch.nn.functional.one_hot(x, process.num_states).to(logits.dtype)
        assert_close(reverse.posterior(x, 0.0).probs[data], own[data], rtol=0.0, atol=0.0)
        for rates in (reverse.rates(x, 0.0), reverse.exit_rate(x, 0.0)):
            assert_close(rates, torch.zeros_like(rates), rtol=0.0, atol=0.0)

    def test_gradients_agree_with_differences(self) -> None:
        process = self.make()
        x = self._states(process)
        generator = torch.Generator().manual_seed(0)
        logits = torch.randn(*x.shape, process.num_states, dtype=torch.float64, generator=generator).requires_grad_()
        for answer in ("rates", "exit_rate"):
            assert torch.autograd.gradcheck(
                lambda logits, answer=answer: getattr(ReverseProcess(process, GivenLogits(logits)), answer)(x, 0.4),
                (logits,),
                fast_mode=True,
            )

    @PROPERTY
    @given(t=POSITIVE_TIMES, seed=SEEDS)
    def test_float32_agrees_with_float64(self, t: float, seed: int) -> None:
        process = self.make()
        x = self._states(process)
        generator = torch.Generator().manual_seed(seed)
        logits = 3 * torch.randn(*x.shape, process.num_states, generator=generator)
        narrow, wide = (ReverseProcess(process, GivenLogits(given)) for given in (logits, logits.double()))
        for name in ("rates", "exit_rate", "corrector_rates"):
            actual, expected = getattr(narrow, name)(x, t), getattr(wide, name)(x, t)
            assert actual.dtype == torch.float32
            assert_close(actual.double(), expected, rtol=1e-5, atol=1e-30)

    def _states(self, process: ForwardProcess) -> Tensor:
        """Return every state at every site, and some mixed states."""
        shape = self.fixed_shape or (2,)
        mixed = torch.randint(process.num_states, (3, *shape), generator=torch.Generator().manual_seed(0))
        return torch.cat([uniform_states(process.num_states, shape), mixed])
