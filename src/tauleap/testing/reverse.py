"""The contract of a reversal: with the exact posterior, everything agrees with brute force over the joint space."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap.denoise import ExactDenoiser
from tauleap.evaluate.joint_space import joint_generator, joint_states, neighbours, site_kernels
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.testing.laws import (
    assert_drawn_from,
    assert_relative,
    count,
    integrate,
    posterior_marginals,
    push,
    random_law,
    site_generators,
)
from tauleap.testing.logits import LogitsContract

LARGEST_SPACE = 300


class Case:
    """Compute exact quantities of a law of D sites by brute force, for every joint state x in ``states``."""

    def __init__(self, process: ForwardProcess, shape: tuple[int, ...], law: Tensor) -> None:
        self.process, self.shape, self.law, self.sites = process, shape, law, law.ndim
        self.reverse = ReverseProcess(process, ExactDenoiser(law, process))
        self.joint = joint_states(process.num_states, self.sites)
        self.states = self.joint.reshape(-1, *shape)
        self.data = process.data_states.expand(*self.states.shape, -1).reshape(*self.joint.shape, -1)

    def marginal(self, t: float) -> Tensor:
        """Return the marginal q_t, (S,)*D."""
        return push(self.law, site_kernels(self.process, self.shape, t))

    def likelihood(self, t: float) -> Tensor:
        """Return q_t|0(x^d | .), (S^D, D, S)."""
        return site_kernels(self.process, self.shape, t).mT[torch.arange(self.sites), self.joint]

    def rates_into(self, t: float) -> Tensor:
        """Return R_t(v, x^d), 0 at v = x^d, (S^D, D, S)."""
        columns = float(self.process.schedule.rate(t)) * site_generators(self.process, self.shape).mT
        columns.diagonal(dim1=-2, dim2=-1).zero_()
        return columns[torch.arange(self.sites), self.joint]


class ReverseContract(LogitsContract):
    """Test the contract of the time reversal of a process, in a subclass.

    Set ``fixed_shape`` where the process fixes the shape of a sample.

    >>> from tauleap.noise import Constant, Uniform
    >>> class TestMine(ReverseContract):
    ...     def make(self):
    ...         return Uniform(3, Constant(2.0))
    >>> TestMine().test_posterior_is_bayes_rule()  # pytest runs all tests of the class
    """

    times: tuple[float, ...] = (0.002, 0.3, 1.0)

    def cases(self) -> list[Case]:
        """Return correlated laws of one, two and three sites, some with joint states of probability 0."""
        process, found = self.make(), []
        shapes = [(2,), (1,), (3,)] if self.fixed_shape is None else [self.fixed_shape]
        for number, shape in enumerate(shapes):
            sites = math.prod(shape)
            if process.num_states**sites <= LARGEST_SPACE:
                allowed = process.data_states.expand(*shape, -1).reshape(sites, -1)
                found.append(Case(process, shape, random_law(allowed, number, holes=0.4 if sites == 2 else 0.0)))
        assert found, f"{process} has too many states for brute force: make one with fewer"
        return found

    def each(self) -> Iterator[tuple[Case, float, Tensor]]:
        """Yield every case and time, and which joint states have a probability above 0 there."""
        for case in self.cases():
            for t in self.times:
                yield case, t, case.marginal(t).reshape(-1) > 0

    def test_posterior_is_bayes_rule(self) -> None:
        for case, t, possible in self.each():
            expected, total = posterior_marginals(case.law, case.likelihood(t))
            assert_relative(total, case.marginal(t).reshape(-1), 1e-11, floor=1e-250)
            actual = _flat(case.reverse.posterior(case.states, t).probs)
            assert_relative(actual[possible], expected[possible], 1e-10, floor=1e-250)

    def test_rates_are_those_of_the_reversed_chain(self) -> None:
        """Compare rates with R_t(v, x) q_t(v) / q_t(x), and ratios wherever v can jump into x."""
        for case, t, possible in self.each():
            marginal = case.marginal(t)
            ratios = (neighbours(marginal) / marginal.reshape(-1, 1, 1))[possible]
            into = case.rates_into(t)[possible]
            actual = _flat(case.reverse.rates(case.states, t))
            assert bool(actual.isfinite().all()), "rates must be finite also where x has probability 0"
            assert_relative(actual[possible], into * ratios, 1e-10, floor=1e-250)
            given = _flat(case.reverse.ratios(case.states, t))
            assert_relative(given[possible][into > 0], ratios[into > 0], 1e-10, floor=1e-250)
            own = given.gather(-1, case.joint[..., None])[possible]
            assert_close(own, torch.ones_like(own), rtol=1e-10, atol=0.0)

    def test_exit_rates_are_sums_of_rates(self) -> None:
        for case, t, _ in self.each():
            reverse, x = case.reverse, case.states
            rates, corrector = reverse.rates(x, t), reverse.corrector_rates(x, t)
            assert_relative(reverse.exit_rate(x, t), rates.sum(-1), 1e-10)
            assert_relative(reverse.at(x, t).corrector_exit_rate, corrector.sum(-1), 1e-10)
            assert_relative(corrector, rates + case.process.rates_from(x, t, dtype=torch.float64), 1e-13)

    def test_the_corrector_keeps_the_marginal(self) -> None:
        for case, t, _ in self.each():
            generator = joint_generator(_flat(case.reverse.corrector_rates(case.states, t)))
            marginal = case.marginal(t).reshape(-1)
            flow = marginal @ generator
            scale = float((marginal @ generator.abs()).max())
            assert_close(flow, torch.zeros_like(flow), rtol=0.0, atol=1e-13 * scale)

    def test_the_reverse_chain_leads_back(self) -> None:
        """Check that the Kolmogorov equation, integrated from q_1, gives q_t down to t = 0.02.

        It is integrated over the noise c instead of t, so that the steps follow the schedule.
        """
        case = self.cases()[0]
        schedule = case.process.schedule

        def generators(noise: Tensor) -> Tensor:
            x = case.states.repeat(len(noise), *[1] * len(case.shape))
            t = schedule.inverse_total(noise)
            rates = _flat(case.reverse.rates(x, t.repeat_interleave(len(case.states))))
            of_each = rates.reshape(len(t), len(case.states), case.sites, -1) / schedule.rate(t)[:, None, None, None]
            return joint_generator(of_each)

        start, end = (math.log10(float(schedule.total(t))) for t in (1.0, 0.02))
        noise = torch.logspace(start, end, 97, dtype=torch.float64)
        laws = integrate(generators, case.marginal(1.0).reshape(-1), noise)
        for i in (24, 48, 96):
            expected = case.marginal(float(schedule.inverse_total(noise[i]))).reshape(-1)
            assert_close(laws[i], expected, rtol=0.0, atol=1e-6)
        assert float((laws[-1] - laws[0]).abs().max()) > 0.05, "the law did not change, so that this tests nothing"

    def test_destinations_have_the_law_of_the_rates(self) -> None:
        """Compare destinations with rates by chi-square at level ``laws.LEVEL``: one time, several, correctors."""
        case = self.cases()[0]
        reverse, size, draws = case.reverse, case.process.num_states, 150
        x = case.states[case.marginal(0.3).reshape(-1) > 0]
        per_sample = torch.linspace(0.05, 1.0, len(x), dtype=torch.float64)
        for seed, (t, corrector) in enumerate([(0.3, False), (0.3, True), (per_sample, False), (per_sample, True)]):
            rates = (reverse.corrector_rates if corrector else reverse.rates)(x, t).reshape(-1, size)
            moving = getattr(reverse.at(x, t), "corrector_exit_rate" if corrector else "exit_rate") > 0
            sites = moving.reshape(-1).nonzero().squeeze(-1)

            def draw(sites: Tensor, t: float | Tensor = t, corrector: bool = corrector, seed: int = seed) -> Tensor:
                generator = torch.Generator().manual_seed(seed)
                return reverse.at(x, t).draw_destination(sites, corrector=corrector, generator=generator)

            counts = count(draw(sites.repeat(draws)).reshape(draws, -1), size)
            if rates.count_nonzero(dim=-1).max() > 1:
                assert_drawn_from(counts, rates[sites] / rates[sites].sum(-1, keepdim=True))
            else:
                assert torch.equal(counts > 0, rates[sites] > 0)
            assert torch.equal(draw(moving), draw(sites)), (
                "a mask of sites and their positions must give the same draws"
            )

    def test_given_sites_are_conditioned_on(self) -> None:
        """Check that observed sites keep their values and do not jump, and that other sites are conditioned on them."""
        t = 0.3
        for case in self.cases():
            reverse, x, size = case.reverse, case.states, case.process.num_states
            mask = torch.rand(case.joint.shape, generator=torch.Generator().manual_seed(case.sites)) < 0.4
            mask &= case.data.gather(-1, case.joint[..., None]).squeeze(-1)
            observed = Observed(mask.reshape(x.shape), x)
            known = torch.nn.functional.one_hot(case.joint, size).to(torch.float64)
            expected, total = posterior_marginals(case.law, torch.where(mask[..., None], known, case.likelihood(t)))
            possible = total > 0
            # The values of x at observed sites do not matter: the observed values replace them.
            spoiled = torch.where(observed.mask, (x + 1) % size, x)
            posterior = reverse.posterior(spoiled, t, observed=observed)
            assert_relative(_flat(posterior.probs)[possible], expected[possible], 1e-10, floor=1e-250)

            free = ~observed.mask[..., None]
            rates = reverse.rates(spoiled, t, observed=observed)
            assert_relative(rates[possible], (reverse.rates(x, t, posterior=posterior) * free)[possible], 1e-12)
            forward = case.process.rates_from(x, t, dtype=torch.float64) * free
            corrector = reverse.corrector_rates(spoiled, t, observed=observed)
            assert_relative(corrector[possible], (rates + forward)[possible], 1e-12)
            for with_forward, summed in ((False, rates), (True, corrector)):
                exits = getattr(
                    reverse.at(spoiled, t, observed=observed), "corrector_exit_rate" if with_forward else "exit_rate"
                )
                assert_relative(exits[possible], summed.sum(-1)[possible], 1e-10)

    def test_at_time_0_the_data_is_known(self) -> None:
        for case in self.cases():
            x = case.states[case.law.reshape(-1) > 0]
            own = torch.nn.functional.one_hot(x, case.process.num_states).to(torch.float64)
            assert_close(case.reverse.posterior(x, 0.0).probs, own, rtol=0.0, atol=0.0)
            rates = case.reverse.rates(x, 0.0)
            assert_close(rates, torch.zeros_like(rates), rtol=0.0, atol=0.0)

    def test_layout_and_form_of_time_do_not_matter(self) -> None:
        layouts = {1: (), 2: (1, 2)}
        for case in self.cases()[:2]:
            reverse, x = case.reverse, case.states
            t = torch.linspace(0.01, 1.0, len(x), dtype=torch.float64)
            other = x if self.fixed_shape else x.reshape(len(x), *layouts[case.sites])
            for answer in (reverse.rates, reverse.ratios, reverse.corrector_rates, reverse.exit_rate):
                batched = answer(x, t)
                assert_close(answer(other, t).reshape(batched.shape), batched, rtol=1e-13, atol=0.0)
                for i in (0, len(x) // 2):
                    assert_relative(answer(x[i : i + 1], float(t[i]))[0], batched[i], 1e-11, floor=1e-250)


def _flat(values: Tensor) -> Tensor:
    """Return values (S^D, *shape, S) in the shape (S^D, D, S)."""
    return values.reshape(len(values), -1, values.shape[-1])
