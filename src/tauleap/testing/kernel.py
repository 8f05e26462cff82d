"""The contract of the kernels of a process."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close

from tauleap.evaluate.joint_space import by_site, site_kernels, uniform_states
from tauleap.noise import ForwardProcess
from tauleap.testing.laws import assert_relative, exact_exponential, site_generators
from tauleap.testing.properties import PROPERTY, SEEDS, TIMES


class OfProcess(ABC):
    """Construct the process that the suites of a process test."""

    shape: tuple[int, ...] = (2,)
    """The shape of a sample; say it where the process fixes it."""

    @abstractmethod
    def make(self) -> ForwardProcess:
        """Return the process to test, newly constructed, with a dozen states at most."""

    def states(self, process: ForwardProcess) -> Tensor:
        """Return S samples (S, *shape): in sample v every site is in state v."""
        return uniform_states(process.num_states, self.shape)

    def random_states(self, process: ForwardProcess, batch: int, seed: int = 0) -> Tensor:
        """Return random states (batch, *shape)."""
        generator = torch.Generator().manual_seed(seed)
        return torch.randint(process.num_states, (batch, *self.shape), generator=generator)


class KernelContract(OfProcess):
    """Test that kernels are correct as a family of laws, as solutions of the forward equation, and entry by entry."""

    @PROPERTY
    @given(one=TIMES, other=TIMES)
    def test_every_row_of_a_kernel_is_a_law(self, one: float, other: float) -> None:
        kernels = site_kernels(self.make(), self.shape, max(one, other), min(one, other))
        assert bool((kernels >= 0).all())
        assert_close(kernels.sum(-1), torch.ones_like(kernels[..., 0]), rtol=0.0, atol=1e-12)

    @PROPERTY
    @given(t=TIMES)
    def test_no_time_means_no_change(self, t: float) -> None:
        process = self.make()
        identity = torch.eye(process.num_states, dtype=torch.float64)
        for kernels in (site_kernels(process, self.shape, 0.0), site_kernels(process, self.shape, t, t)):
            assert_close(kernels, identity.expand_as(kernels), rtol=0.0, atol=0.0)

    @PROPERTY
    @given(t=TIMES)
    def test_a_declared_mask_absorbs(self, t: float) -> None:
        """Check that a data state is kept with probability exp(-c(t)), and is the mask otherwise."""
        process = self.make()
        if process.mask is None:
            return
        alpha = float(torch.exp(-process.schedule.total(t)))
        expected = alpha * torch.eye(process.num_states, dtype=torch.float64)
        expected[:, process.mask] += 1 - alpha
        kernels = site_kernels(process, self.shape, t)
        assert_close(kernels, expected.expand_as(kernels), rtol=0.0, atol=1e-12)
        assert not bool(process.data_states[..., process.mask].any())

    @PROPERTY
    @given(one=TIMES, other=TIMES)
    def test_two_steps_make_one(self, one: float, other: float) -> None:
        process, s, t = self.make(), min(one, other), max(one, other)
        twice = site_kernels(process, self.shape, s) @ site_kernels(process, self.shape, t, s)
        assert_relative(twice, site_kernels(process, self.shape, t), 1e-10, floor=1e-30)

    @PROPERTY
    @given(t=TIMES)
    def test_the_forward_equation(self, t: float) -> None:
        """Check d/dt q = q R_t by differences of fourth order, whose step follows the fastest rate."""
        process = self.make()
        generators = site_generators(process, self.shape)
        fastest = max(1.0, float(-generators.diagonal(dim1=-2, dim2=-1).min()))
        step = 1e-3 / (fastest * max(10.0, float(process.schedule.rate(t))))
        t = min(max(t, 2 * step), 1 - 2 * step)
        before, earlier, later, after = (site_kernels(process, self.shape, t + k * step) for k in (-2, -1, 1, 2))
        slope = (8 * (later - earlier) - (after - before)) / (12 * step)
        rates = float(process.schedule.rate(t)) * generators
        expected = site_kernels(process, self.shape, t) @ rates
        assert_close(slope, expected, rtol=0.0, atol=1e-9 * max(1.0, float(rates.abs().max())))

    @PROPERTY
    @given(t=TIMES)
    def test_kernels_are_matrix_exponentials(self, t: float) -> None:
        process = self.make()
        expected = torch.matrix_exp(process.schedule.total(t) * site_generators(process, self.shape))
        assert_close(site_kernels(process, self.shape, t), expected, rtol=0.0, atol=1e-11)

    def test_small_entries_have_their_digits(self) -> None:
        """Check that entries above 1e-30, by which reverse rates divide, are correct to ten digits."""
        process = self.make()
        generators = site_generators(process, self.shape)
        for t in (1e-9, 1e-4, 1e-2, 0.3, 1.0):
            c = float(process.schedule.total(t))
            for kernel, generator in zip(site_kernels(process, self.shape, t), generators, strict=True):
                assert_relative(kernel, exact_exponential(generator, c), 1e-10, floor=1e-30)

    @PROPERTY
    @given(one=TIMES, other=TIMES)
    def test_columns_are_the_transpose_of_rows(self, one: float, other: float) -> None:
        process, s, t = self.make(), min(one, other), max(one, other)
        into = by_site(process.kernel_into(self.states(process), t, s, dtype=torch.float64))
        assert_close(into, site_kernels(process, self.shape, t, s).mT, rtol=1e-15, atol=0.0)

    @PROPERTY
    @given(one=TIMES, other=TIMES, seed=SEEDS)
    def test_propagate_is_the_product_with_the_kernel(self, one: float, other: float, seed: int) -> None:
        process, s, t = self.make(), min(one, other), max(one, other)
        generator = torch.Generator().manual_seed(seed)
        size = (3, *self.shape, process.num_states)
        w = torch.randn(size, dtype=torch.float64, generator=generator).requires_grad_()
        weights = torch.randn(size, dtype=torch.float64, generator=generator)
        kernels = site_kernels(process, self.shape, t, s)

        propagated = process.propagate(w, t, s)
        assert_close(propagated, _times_kernels(w, kernels), rtol=0.0, atol=1e-12)
        (gradient,) = torch.autograd.grad((propagated * weights).sum(), w)
        assert_close(gradient, _times_kernels(weights, kernels.mT), rtol=0.0, atol=1e-12)

    def test_one_time_a_sample_is_the_same_as_one_at_a_time(self) -> None:
        process = self.make()
        x = self.random_states(process, 6)
        t = torch.tensor([0.0, 1e-4, 0.2, 0.2, 0.7, 1.0], dtype=torch.float64)
        s = t * torch.tensor([1.0, 0.5, 0.0, 1.0, 0.9, 0.1], dtype=torch.float64)
        w = torch.randn(*x.shape, process.num_states, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        batched = (
            process.kernel_from(x, t, s, dtype=torch.float64),
            process.kernel_into(x, t, s, dtype=torch.float64),
            process.propagate(w, t, s),
        )
        for i in range(len(x)):
            one, time, start = slice(i, i + 1), float(t[i]), float(s[i])
            single = (
                process.kernel_from(x[one], time, start, dtype=torch.float64),
                process.kernel_into(x[one], time, start, dtype=torch.float64),
                process.propagate(w[one], time, start),
            )
            for whole, part in zip(batched, single, strict=True):
                assert_close(whole[one], part, rtol=1e-12, atol=1e-15)

    def test_one_time_costs_one_kernel(self) -> None:
        """Check that any batch at one time computes one kernel, and none if the time recurs."""
        process = self.make()
        made: list[int] = []
        exponential = process.exponential

        def counted(c: Tensor) -> Tensor:
            made.append(len(c))
            return exponential(c)

        object.__setattr__(process, "exponential", counted)
        x = self.random_states(process, 50)
        process.noise(x, 0.3, generator=torch.Generator().manual_seed(0))
        assert sum(made) <= 1, f"{sum(made)} kernels for one time"
        process.noise(x, 0.3, generator=torch.Generator().manual_seed(0))
        process.kernel_from(x, torch.tensor(0.3, dtype=torch.float64))
        process.kernel_into(x, 0.3)
        process.propagate(torch.ones(*x.shape, process.num_states), 0.3)
        assert sum(made) <= 1, f"{sum(made)} kernels for a time that came again"


def _times_kernels(w: Tensor, kernels: Tensor) -> Tensor:
    """Return w (B, *shape, S) times the kernel (S, S) of each site."""
    flat = w.reshape(len(w), len(kernels), -1)
    return torch.einsum("bdu,duv->bdv", flat, kernels).reshape(w.shape)
