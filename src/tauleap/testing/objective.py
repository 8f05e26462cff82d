"""The contract of an objective."""

from __future__ import annotations

from abc import ABC, abstractmethod

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

from tauleap.noise import Absorbing, BirthDeath, Constant, ForwardProcess, LogLinear, RankOne, Uniform
from tauleap.objective import GridTimes, Objective
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.testing.layouts import LAYOUTS
from tauleap.testing.paths import TableDenoiser, table_of


class ObjectiveContract(ABC):
    """Test the contract of an objective, in a subclass.

    >>> from tauleap.objective import CompleteElbo
    >>> class TestMine(ObjectiveContract):
    ...     def make(self):
    ...         return CompleteElbo()
    >>> TestMine().test_scaling_and_adding()  # pytest runs all tests of the class
    """

    shape: tuple[int, ...] = (2, 2)
    processes: tuple[ForwardProcess, ...] = (
        Uniform(3, Constant(0.8)),
        Absorbing(3, LogLinear()),
        RankOne(torch.tensor([0.5, 0.3, 0.2]), LogLinear()),
        BirthDeath(3, Constant(2.0)),
    )

    @abstractmethod
    def make(self) -> Objective:
        """Return the objective to test, newly constructed."""

    def times(self, batch: int) -> Tensor:
        """Return times at which the objective can be evaluated.

        Args:
            batch: The number of samples.
        """
        times = self.make().times
        if isinstance(times, GridTimes):
            return (torch.arange(batch) % times.steps + 1) / times.steps
        return torch.linspace(0.01, 1.0, batch, dtype=torch.float64)

    def data(self, process: ForwardProcess, batch: int = 6, seed: int = 0) -> Tensor:
        """Return random data of a process.

        Args:
            process: The forward process.
            batch: The number of samples. Default: 6.
            seed: The seed. Default: 0.
        """
        allowed = process.data_states.nonzero().flatten()
        number = torch.randint(len(allowed), (batch, *self.shape), generator=torch.Generator().manual_seed(seed))
        return allowed[number]

    def reverse(self, process: ForwardProcess, dtype: torch.dtype = torch.float64) -> ReverseProcess:
        """Return the reverse process of a random denoiser.

        Args:
            process: The forward process.
            dtype: The dtype of the logits. Default: float64.
        """
        return ReverseProcess(process, TableDenoiser.random(process.num_states, 4, dtype=dtype))

    def test_one_finite_number_a_sample_and_terms_that_add_up(self) -> None:
        for process in self.processes:
            for dtype in (torch.float32, torch.float64):
                reverse, x0 = self.reverse(process, dtype), self.data(process)
                loss = self.make()(reverse, x0, generator=torch.Generator().manual_seed(0))
                assert loss.value.shape == (len(x0),)
                assert loss.value.dtype == dtype
                assert bool(loss.value.isfinite().all())
                total = torch.stack(list(loss.terms.values())).sum(0)
                assert_close(total, loss.value.detach(), rtol=1e-5, atol=1e-5)
                loss.mean().backward()
                gradient = table_of(reverse).table.grad
                assert gradient is not None
                assert bool(gradient.isfinite().all())
                assert bool((gradient != 0).any())

    def test_the_same_generator_gives_the_same_loss(self) -> None:
        process = self.processes[0]
        reverse, x0 = self.reverse(process), self.data(process)
        first, again, other = (
            self.make()(reverse, x0, generator=torch.Generator().manual_seed(seed)).value for seed in (3, 3, 4)
        )
        assert torch.equal(first, again)
        assert not torch.equal(first, other)

    def test_what_it_is_given_stays_as_it_was(self) -> None:
        for process in self.processes:
            x0, t = self.data(process), self.times(6)
            mask = torch.zeros(6, *self.shape, dtype=torch.bool)
            mask[:, 0] = True
            observed = Observed(mask, x0.clone())
            before = x0.clone(), t.clone(), observed.values.clone()
            self.make()(self.reverse(process), x0, t=t, observed=observed, generator=torch.Generator().manual_seed(0))
            for value, old in zip((x0, t, observed.values), before, strict=True):
                assert torch.equal(value, old)

    def test_the_network_is_evaluated_once(self) -> None:
        for process in self.processes:
            reverse = self.reverse(process)
            self.make()(reverse, self.data(process), t=self.times(6))
            assert table_of(reverse).calls == 1

    def test_observed_sites_reach_the_network_clean_and_have_no_loss(self) -> None:
        for process in self.processes:
            x0 = self.data(process)
            mask = torch.rand(6, *self.shape, generator=torch.Generator().manual_seed(1)) < 0.5
            mask[:, 0, 0], mask[:, 1, 1] = True, False
            observed = Observed(mask, x0)
            reverse = self.reverse(process)
            first = self.make()(
                reverse, x0, t=self.times(6), observed=observed, generator=torch.Generator().manual_seed(0)
            )
            seen = table_of(reverse).seen
            assert seen is not None
            assert seen[2] is not None
            times = len(seen[0]) // 6
            assert torch.equal(seen[2].mask, mask.repeat(times, 1, 1))
            assert torch.equal(seen[0][seen[2].mask], x0.repeat(times, 1, 1)[seen[2].mask])
            # At observed sites, neither x0 nor the output of the network may change the loss.
            elsewhere = torch.where(mask, self.data(process, seed=2), x0)
            answers = _with_table(reverse, lambda table: table + 5 * torch.rand_like(table), sites=mask.all(0))
            for changed_x0, changed in ((elsewhere, reverse), (x0, answers)):
                again = self.make()(
                    changed, changed_x0, t=self.times(6), observed=observed, generator=torch.Generator().manual_seed(0)
                )
                assert_close(again.value, first.value)

    def test_missing_sites_have_no_loss_and_may_hold_anything(self) -> None:
        for process in self.processes:
            x0, reverse = self.data(process), self.reverse(process)
            mask = torch.zeros(6, *self.shape, dtype=torch.bool)
            mask[:, 0, 1] = True
            first, again = (
                self.make()(reverse, rows, t=self.times(6), missing=mask, generator=torch.Generator().manual_seed(0))
                for rows in (x0, x0.masked_fill(mask, -1))
            )
            assert torch.equal(first.value, again.value)
            answers = _with_table(reverse, lambda table: table + 5 * torch.rand_like(table), sites=mask.all(0))
            again = self.make()(answers, x0, t=self.times(6), missing=mask, generator=torch.Generator().manual_seed(0))
            assert_close(again.value, first.value)

    def test_the_memory_layout_does_not_matter(self) -> None:
        """Check that permuted, strided and expanded inputs give the losses of contiguous ones."""
        for process in self.processes:
            observed, missing = torch.zeros(2, 6, *self.shape, dtype=torch.bool)
            observed[::2, 0, 0], missing[1::2, 1, 0] = True, True
            for name, layout in LAYOUTS.items():
                x0, known, unknown = (layout(x) for x in (self.data(process), observed, missing))
                losses = []
                for tensors in ((x0, known, unknown), tuple(x.contiguous() for x in (x0, known, unknown))):
                    reverse = self.reverse(process)
                    loss = self.make()(
                        reverse,
                        tensors[0],
                        observed=Observed(tensors[1], tensors[0]),
                        missing=tensors[2] & ~tensors[1],
                        generator=torch.Generator().manual_seed(0),
                    )
                    loss.mean().backward()
                    losses.append((loss.value.detach(), table_of(reverse).table.grad))
                for found, plain in zip(*losses, strict=True):
                    assert torch.equal(found, plain), f"{name} data gives another loss or gradient"

    def test_a_condition_reaches_the_network_row_by_row(self) -> None:
        process = self.processes[0]
        reverse, condition = self.reverse(process), torch.arange(6.0)
        self.make()(reverse, self.data(process), t=self.times(6), condition=condition)
        seen = table_of(reverse).seen
        assert seen is not None
        assert seen[3] is not None
        assert torch.equal(seen[3], condition.repeat(len(seen[0]) // 6))

    def test_one_time_for_all_is_each_sample_at_that_time(self) -> None:
        for process in self.processes:
            x0, reverse = self.data(process), self.reverse(process)
            t = float(self.times(6)[3])
            one, each = (
                self.make()(reverse, x0, t=time, generator=torch.Generator().manual_seed(0)).value
                for time in (t, torch.full((6,), t, dtype=torch.float64))
            )
            assert_close(one, each)

    def test_scaling_and_adding(self) -> None:
        process = self.processes[0]
        x0, reverse = self.data(process), self.reverse(process)
        one, scaled, added = (
            objective(reverse, x0, generator=torch.Generator().manual_seed(0))
            for objective in (self.make(), 0.25 * self.make(), self.make() * 0.75 + 0.25 * self.make())
        )
        assert_close(scaled.value, one.value / 4)
        assert_close(added.value, one.value)
        assert added.terms.keys() == one.terms.keys()
        for name, term in one.terms.items():
            assert_close(scaled.terms[name], term / 4)
            assert_close(added.terms[name], term)

    def test_extreme_logits_give_finite_losses_and_gradients(self) -> None:
        for process in self.processes:
            for dtype in (torch.float32, torch.float64):
                for seed in range(2):
                    signs = torch.randint(
                        2, table_of(self.reverse(process)).table.shape, generator=torch.Generator().manual_seed(seed)
                    )
                    table = (1e4 * (2.0 * signs - 1)).to(dtype)
                    reverse = ReverseProcess(process, TableDenoiser(table))
                    loss = self.make()(
                        reverse, self.data(process), t=self.times(6), generator=torch.Generator().manual_seed(seed)
                    )
                    loss.mean().backward()
                    gradient = table_of(reverse).table.grad
                    assert gradient is not None
                    assert bool(loss.value.isfinite().all())
                    assert bool(gradient.isfinite().all())

    def test_nothing_to_learn_from_is_an_error(self) -> None:
        process = self.processes[0]
        x0, reverse = self.data(process), self.reverse(process)
        everything = torch.ones_like(x0, dtype=torch.bool)
        with pytest.raises(ValueError, match="no site has a loss"):
            self.make()(reverse, x0, observed=Observed(everything, x0))
        with pytest.raises(ValueError, match="no site has a loss"):
            self.make()(reverse, x0, missing=everything)
        with pytest.raises(ValueError, match="at least one sample"):
            self.make()(reverse, x0[:0])

    def test_repr(self) -> None:
        assert repr(self.make()).startswith(type(self.make()).__name__)


def _with_table(reverse: ReverseProcess, change, *, sites: Tensor) -> ReverseProcess:
    """Return the denoiser with other logits at the given ``sites``."""
    table = table_of(reverse).table.detach()
    changed = torch.where(sites.reshape(-1)[:, None], change(table), table)
    return ReverseProcess(reverse.process, TableDenoiser(changed))
