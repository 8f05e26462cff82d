"""The contract of the rates, the stationary distribution and the draws of a process."""

from __future__ import annotations

import torch
from hypothesis import given
from torch import Tensor
from torch.testing import assert_close

from tauleap.evaluate.joint_space import by_site, site_kernels
from tauleap.testing.kernel import OfProcess
from tauleap.testing.laws import assert_drawn_from, count, site_generators
from tauleap.testing.properties import PROPERTY, TIMES


class RatesContract(OfProcess):
    """Test that rates out and in are one matrix, for which the stationary law is stationary."""

    reversible: bool | None = None
    """Whether the process is in detailed balance with its stationary law; None where nothing is claimed."""

    prior_is_stationary: bool = True
    """False where the reverse chain starts from another law than the stationary one, as in absorbing noise."""

    @PROPERTY
    @given(t=TIMES)
    def test_rates_out_and_in_are_transposes(self, t: float) -> None:
        process = self.make()
        x = self.states(process)
        out = by_site(process.rates_from(x, t, dtype=torch.float64))
        into = by_site(process.rates_into(x, t, dtype=torch.float64))
        assert_close(into, out.mT, rtol=1e-15, atol=0.0)
        assert bool((out >= 0).all())
        assert bool((out.diagonal(dim1=-2, dim2=-1) == 0).all()), "the rate at a site's own state must be 0"
        exits = process.exit_rate(x, t, dtype=torch.float64).reshape(len(x), -1)
        assert_close(exits, out.sum(-1).mT, rtol=1e-13, atol=0.0)

    @PROPERTY
    @given(t=TIMES)
    def test_rates_are_the_schedule_times_the_generator(self, t: float) -> None:
        process = self.make()
        x = self.states(process)
        rates = by_site(process.rates_from(x, t, dtype=torch.float64))
        expected = float(process.schedule.rate(t)) * site_generators(process, self.shape)
        different = ~torch.eye(process.num_states, dtype=torch.bool)
        assert_close(rates[:, different], expected[:, different], rtol=1e-13, atol=0.0)
        if process.stationary().ndim == 1:
            generator = process.generator().expand(len(expected), -1, -1)
            assert generator.dtype == torch.float64
            assert_close(site_generators(process, self.shape), generator, rtol=1e-13, atol=1e-13)

    def test_rates_at_one_time_a_sample(self) -> None:
        process = self.make()
        x, t = self.random_states(process, 4), torch.tensor([0.0, 1e-4, 0.5, 1.0], dtype=torch.float64)
        for rates in (process.rates_from, process.rates_into, process.exit_rate):
            single = [rates(x[i : i + 1], float(t[i]), dtype=torch.float64) for i in range(len(x))]
            assert_close(rates(x, t, dtype=torch.float64), torch.cat(single), rtol=1e-14, atol=0.0)

    def test_the_stationary_law_stays(self) -> None:
        process = self.make()
        generators, laws = site_generators(process, self.shape), _per_site(process.stationary(), self.shape)
        assert laws.dtype == torch.float64
        assert bool((laws >= 0).all())
        assert_close(laws.sum(-1), torch.ones(len(laws), dtype=torch.float64), rtol=1e-14, atol=0.0)
        flow = torch.einsum("du,duv->dv", laws, generators)
        assert_close(flow, torch.zeros_like(flow), rtol=0.0, atol=1e-14 * float(generators.abs().max()))

    def test_the_prior(self) -> None:
        process = self.make()
        prior, stationary = process.prior(), process.stationary()
        assert_close(prior.sum(-1), torch.ones_like(prior[..., 0]), rtol=1e-14, atol=0.0)
        if self.prior_is_stationary:
            assert_close(prior, stationary, rtol=0.0, atol=0.0)
        else:  # then it must at least cover what noised data can be, for else the likelihood bound is infinite
            ends = site_kernels(process, self.shape, 1.0)
            data = _per_site(process.data_states, self.shape)
            assert not torch.equal(prior, stationary)
            assert bool(((_per_site(prior, self.shape)[:, None] > 0) | (ends == 0))[data].all())

    def test_detailed_balance_as_claimed(self) -> None:
        process = self.make()
        generators, laws = site_generators(process, self.shape), _per_site(process.stationary(), self.shape)
        flow = laws[..., None] * generators
        off = float((flow - flow.mT).abs().max() / generators.abs().max())
        if self.reversible is not None:
            assert (off < 1e-14) == self.reversible, f"flows there and back differ by {off:.3g} of the largest rate"


class DrawsContract(OfProcess):
    """Test that draws have the laws of kernels and rates, at level ``laws.LEVEL`` with fixed seeds."""

    draws: int = 2000
    """For each state."""

    def test_noised_states_have_the_law_of_the_kernel(self) -> None:
        """Compare draws from the data, and from a state reached earlier, with the kernel."""
        process = self.make()
        size, generator = process.num_states, _generator(0)
        x = self.states(process).repeat(self.draws, *[1] * len(self.shape))
        counts, laws = [], []
        for t, s in ((0.15, 0.0), (1.0, 0.0), (0.6, 0.35)):
            drawn = process.noise(x, t, s, generator=generator)
            counts.append(count(drawn.reshape(self.draws, size, -1), size).transpose(0, 1))
            laws.append(site_kernels(process, self.shape, t, s))
        assert_drawn_from(torch.stack(counts), torch.stack(laws))

    def test_noised_states_at_one_time_per_sample(self) -> None:
        process = self.make()
        size, times = process.num_states, torch.tensor([0.05, 0.4, 0.9], dtype=torch.float64)
        draws = self.draws // 4
        x = self.states(process).repeat(draws * len(times), *[1] * len(self.shape))
        t = times.repeat_interleave(draws * size)
        drawn = process.noise(x, t, t / 3, generator=_generator(3))
        counts = [count(part.reshape(draws, size, -1), size).transpose(0, 1) for part in drawn.chunk(len(times))]
        laws = [site_kernels(process, self.shape, time, time / 3) for time in times.tolist()]
        assert_drawn_from(torch.stack(counts), torch.stack(laws))

    def test_sites_and_samples_are_noised_independently(self) -> None:
        process = self.make()
        size = process.num_states
        x = self.random_states(process, 2)
        draws = 4 * self.draws
        drawn = process.noise(x.repeat(draws, *[1] * len(self.shape)), 0.5, generator=_generator(4))
        drawn, start = drawn.reshape(draws, -1), x.reshape(-1)
        kernels = site_kernels(process, self.shape, 0.5)
        for i, j in ((0, len(start) - 1), (0, 1)):  # two samples; two sites, where a sample has them
            laws = [kernels[k % len(kernels), start[k]] for k in (i, j)]
            pairs = count(drawn[:, i] * size + drawn[:, j], size**2)
            assert_drawn_from(pairs, torch.outer(*laws).reshape(-1))

    def test_jumps_have_the_law_of_the_rates(self) -> None:
        process = self.make()
        x = self.states(process)
        rates = process.rates_from(x, 0.5, dtype=torch.float64).reshape(-1, process.num_states)
        moving = (rates.sum(-1) > 0).nonzero().squeeze(-1)
        sites = moving.repeat(self.draws)
        if rates.count_nonzero(dim=-1).max() < 2:  # nothing is left to chance
            assert_close(process.draw_jump(x, moving), rates[moving].argmax(-1))
            return
        drawn = process.draw_jump(x, sites, generator=_generator(5))
        counts = count(drawn.reshape(self.draws, -1), process.num_states)
        assert_drawn_from(counts, rates[moving] / rates[moving].sum(-1, keepdim=True))

    def test_the_same_generator_gives_the_same_draw(self) -> None:
        process = self.make()
        x = self.random_states(process, 200)
        sites = (process.exit_rate(x, 0.5).reshape(-1) > 0).nonzero().squeeze(-1)
        for draw in (
            lambda generator: process.noise(x, 0.5, generator=generator),
            lambda generator: process.noise(x, torch.linspace(0.2, 0.5, 200), 0.1, generator=generator),
            lambda generator: process.draw_jump(x, sites, generator=generator),
        ):
            assert torch.equal(draw(_generator(6)), draw(_generator(6)))
        one, other = process.noise(x, 0.5, generator=_generator(6)), process.noise(x, 0.5, generator=_generator(7))
        assert not torch.equal(one, other)


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def _per_site(law: Tensor, shape: tuple[int, ...]) -> Tensor:
    return law.expand(*shape, -1).reshape(-1, law.shape[-1])
