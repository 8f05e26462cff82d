"""The contract of a sampler: with the exact posterior of a known law it leads back to that law."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from itertools import islice

import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import site_kernels
from tauleap.noise import Absorbing, BirthDeath, Constant, Dense, ForwardProcess, Gaussian, RankOne, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Sampler, sample, uniform_grid
from tauleap.testing.cases import counts, draws
from tauleap.testing.examples import HYBRID, Example, cycle
from tauleap.testing.laws import assert_drawn_from, push, random_law
from tauleap.testing.layouts import LAYOUTS

END = 0.1
"""The time at which samples are compared with their exact distribution."""
EXAMPLES: tuple[Example, ...] = (
    Example("uniform", lambda: Uniform(3, Constant(0.7))),
    Example("absorbing", lambda: Absorbing(3, Constant(3.0))),
    Example("birth-death", lambda: BirthDeath(3, Constant(2.0))),
    Example("gaussian", lambda: Gaussian(4, Constant(1.0), sigma_0=1.5, sigma_r=1.0)),
    Example("per-site", lambda: RankOne(torch.tensor([[0.2, 0.3, 0.5], [0.9, 0.0, 0.1]]), Constant(2.0)), (2,)),
    Example("hybrid", lambda: RankOne(HYBRID, Constant(3.0), data_states=HYBRID < 0.5)),
    Example("one-way", lambda: Dense(cycle(3), Constant(1.0))),
    Example("absorbing-per-site", lambda: Absorbing(4, Constant(2.0), sizes=torch.tensor([3, 2])), (2,)),
)
"""Quick to simulate jump by jump: few states, few jumps."""


class SamplerContract(ABC):
    """Test the contract of a sampler on each process that it accepts, in a subclass.

    ``draws`` samples, each taken in ``steps`` steps, must pass a chi-square test against the exact distribution. The
    seeds are fixed, and the level of the test is ``laws.LEVEL``.

    >>> from tauleap.sampling import Ancestral
    >>> class TestMine(SamplerContract):
    ...     examples = EXAMPLES[:2]  # default: all
    ...     def make(self):
    ...         return Ancestral()
    >>> TestMine().test_no_samples_and_no_free_sites()  # pytest runs all tests of the class
    """

    steps: int = 24
    draws: int = 2000
    examples: tuple[Example, ...] = EXAMPLES

    @abstractmethod
    def make(self) -> Sampler:
        """Return the sampler to test."""

    def each(self) -> Iterator[tuple[ForwardProcess, tuple[int, ...], Tensor]]:
        """Yield every process that the sampler accepts, with a shape and a law of data, (S,)*D."""
        accepted = 0
        for number, example in enumerate(self.examples):
            process, shape = example.make(), example.shape or (2,)
            try:
                self.make().check(process)
            except ValueError:
                continue
            accepted += 1
            allowed = process.data_states.expand(*shape, -1).reshape(math.prod(shape), -1)
            yield process, shape, random_law(allowed, number)
        assert accepted > 0, "the sampler refuses every process here: give `examples` that it accepts"

    def test_leads_back_to_the_law(self) -> None:
        """Check that samples have the law q_t, and with the first site observed, its conditional law."""
        for process, shape, law in self.each():
            x0, generator = _draws(law, shape, 2 * self.draws)
            mask = torch.zeros(len(x0), math.prod(shape), dtype=torch.bool)
            mask[self.draws :, 0] = True
            found = sample(
                _reverse(process, law),
                self.make(),
                x0.shape,
                grid=uniform_grid(self.steps, end=END),
                start=process.noise(x0, 1.0, generator=generator),
                final="none",
                observed=Observed(mask.reshape(x0.shape), x0),
                generator=generator,
            ).x0.flatten(1)
            unconditional, conditional = self.expected(process, shape, law)
            _assert_law(found[: self.draws], unconditional)
            assert torch.equal(found[mask], x0.flatten(1)[mask]), "an observed site has changed"
            _assert_law(found[self.draws :], conditional)

    def expected(self, process: ForwardProcess, shape: tuple[int, ...], law: Tensor) -> tuple[Tensor, Tensor]:
        """Return the distributions of the samples: with no site observed, and with the first site observed.

        By default they are those of the exact chain.

        Args:
            process: The forward process.
            shape: The shape of one sample.
            law: The distribution of the data, (S,)*D.
        """
        kernels = site_kernels(process, shape, END)
        unconditional = push(law, kernels)
        kernels[0] = torch.eye(process.num_states)
        return unconditional, push(law, kernels)

    def test_a_step_is_a_function_of_its_arguments(self) -> None:
        """Check that equal seeds give equal states and another seed other states, and that no input changes."""
        for process, shape, law in self.each():
            reverse = _reverse(process, law)
            x, generator = _draws(law, shape, 50)
            x = process.noise(x, 0.6, generator=generator)
            before, results = x.clone(), []
            for seed in (1, 1, 2):
                generator = torch.Generator().manual_seed(seed)
                results.append(self.make().step(reverse, x, 0.6, 0.3, generator=generator)[0])
            assert torch.equal(x, before), "the step has changed its input"
            assert torch.equal(results[0], results[1]), "the same generator gave other states"
            assert not torch.equal(results[0], results[2]), "the generator is not used"
            assert results[0].dtype == torch.int64
            assert int(results[0].min()) >= 0
            assert int(results[0].max()) < process.num_states

    def test_the_layout_of_the_sites_does_not_matter(self) -> None:
        for process, shape, law in self.each():
            if process.prior().ndim > 1:
                continue
            reverse = _reverse(process, law)
            x, generator = _draws(law, shape, 30)
            x = process.noise(x, 0.6, generator=generator)
            plain, other = (
                self.make().step(
                    reverse, x.reshape(len(x), *layout), 0.6, 0.3, generator=torch.Generator().manual_seed(3)
                )[0]
                for layout in (shape, (1, *shape, 1))
            )
            assert torch.equal(plain, other.reshape(plain.shape))

    def test_the_memory_layout_does_not_matter(self) -> None:
        """Check that permuted, strided and expanded inputs give the samples of contiguous ones."""
        for process, shape, _ in islice(self.each(), 3):
            # Two axes of sites: when they are permuted, no view can merge them into one.
            shape = (2, 2) if process.data_states.ndim == 1 and process.prior().ndim == 1 else shape
            allowed = process.data_states.expand(*shape, -1).reshape(math.prod(shape), -1)
            reverse = _reverse(process, law := random_law(allowed, 11))
            x0, generator = _draws(law, shape, 10)
            x, mask = process.noise(x0, 0.9, generator=generator), torch.zeros(x0.shape, dtype=torch.bool)
            mask.view(len(x0), -1)[::3, 0] = True
            for name, layout in LAYOUTS.items():
                start, given, values = layout(x), layout(mask), layout(x0)
                found, plain = (
                    self.make().step(reverse, rows, 0.9, 0.4, generator=torch.Generator().manual_seed(5))[0]
                    for rows in (start, start.contiguous())
                )
                assert torch.equal(found, plain), (
                    f"a step from {name} states gives other states than one from contiguous states"
                )
                # An expanded batch repeats one row, and no step may leave the state of that row.
                stays = name != "expanded" and torch.equal(found, start)
                assert not stays, f"a step from {name} states changes none of them"
                found, plain = (
                    sample(
                        reverse,
                        self.make(),
                        x.shape,
                        grid=[0.9, 0.6],
                        start=rows,
                        observed=observed,
                        final="none",
                        generator=torch.Generator().manual_seed(4),
                    ).x0
                    for rows, observed in (
                        (start, Observed(given, values)),
                        (start.contiguous(), Observed(given.contiguous(), values.contiguous())),
                    )
                )
                assert torch.equal(found, plain), f"a {name} start gives other samples"

    def test_information_about_a_step(self) -> None:
        for process, shape, law in self.each():
            x, generator = _draws(law, shape, 300)
            x = process.noise(x, 0.8, generator=generator)
            out, info = self.make().step(_reverse(process, law), x, 0.8, 0.3, generator=generator)
            assert float(info.evaluations) > 0
            assert_close(float(info.jumped), (out != x).double().mean().item(), rtol=1e-6, atol=0.0)
            assert float(info.jumps) >= float(info.jumped) * (1 - 1e-6)
            for fraction in (info.rejected, info.clamped):
                assert 0 <= float(fraction) <= 1

    def test_no_samples_and_no_free_sites(self) -> None:
        for process, shape, law in self.each():
            reverse, grid = _reverse(process, law), uniform_grid(2, end=0.5)
            generator = torch.Generator().manual_seed(0)
            found = sample(reverse, self.make(), (0, *shape), grid=grid, generator=generator)
            assert found.x0.shape == (0, *shape)
            x0, _ = _draws(law, shape, 3)
            everything = Observed(torch.ones_like(x0, dtype=torch.bool), x0)
            found = sample(reverse, self.make(), x0.shape, grid=grid, observed=everything, generator=generator)
            assert torch.equal(found.x0, x0)


def _reverse(process: ForwardProcess, law: Tensor) -> ReverseProcess:
    return ReverseProcess(process, ExactDenoiser(law, process))


def _draws(law: Tensor, shape: tuple[int, ...], number: int) -> tuple[Tensor, torch.Generator]:
    generator = torch.Generator().manual_seed(number + law.ndim)
    return draws(law, number, generator).reshape(number, *shape), generator


def _assert_law(x: Tensor, law: Tensor) -> None:
    assert_drawn_from(counts(x, law), law.reshape(-1))
