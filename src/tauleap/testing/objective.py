"""The contract of an objective, and expectations of one by enumeration instead of chance."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tauleap._shapes import States, Time
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import Absorbing, BirthDeath, Constant, ForwardProcess, LogLinear, RankOne, Uniform
from tauleap.objective import DiscreteTimeElbo, Draw, GridTimes, Objective, UniformTimes
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.testing.laws import joint_states, site_generators, site_kernels


class TableDenoiser(Denoiser):
    """A parameter for each answer to each question: ``table`` (S, ..., S, D, S), the logits at every joint state.

    It knows no time, so use it at one. ``calls`` counts how often it was asked, and ``seen`` holds what it last saw.
    """

    def __init__(self, table: Tensor) -> None:
        super().__init__()
        self.table = nn.Parameter(table)
        self.calls = 0
        self.seen: tuple[States, Time, Observed | None, Tensor | None] | None = None

    @classmethod
    def random(cls, num_states: int, sites: int, seed: int = 0, dtype: torch.dtype = torch.float64) -> TableDenoiser:
        shape = (*(num_states,) * sites, sites, num_states)
        return cls(torch.randn(shape, dtype=dtype, generator=torch.Generator().manual_seed(seed)))

    def forward(
        self, x_t: States, t: Time, *, observed: Observed | None = None, condition: Tensor | None = None
    ) -> Posterior:
        self.calls += 1
        self.seen = (x_t, t, observed, condition)
        rows = x_t.reshape(len(x_t), -1)
        return Posterior(self.table[tuple(rows.unbind(-1))].reshape(*x_t.shape, -1))


class Path(NamedTuple):
    """Rows (x0, x, x~) with the probability of each: a data law, the noise at one time, and one forward jump."""

    weight: Tensor
    x0: States
    x: States
    jumped: States


def every_path(process: ForwardProcess, law: Tensor, t: float, *, free: Tensor | None = None) -> Path:
    """All that can happen by time t, and one jump of a ``free`` site (D,) after it; sites that are not stay at x0.

    Where nothing can jump, x~ is x.
    """
    sites, size = law.ndim, process.num_states
    free = torch.ones(sites, dtype=torch.bool) if free is None else free
    kernels = site_kernels(process, (sites,), t)
    kernels = torch.where(free[:, None, None], kernels, torch.eye(size, dtype=torch.float64))
    rates = site_generators(process, (sites,)) * free[:, None, None]
    rates.diagonal(dim1=-2, dim2=-1).zero_()
    states = joint_states(size, sites)
    found = []
    for x0 in states[law.reshape(-1) > 0]:
        arrival = torch.stack([kernels[d, x0[d], states[:, d]] for d in range(sites)]).prod(0)
        for x, probability in zip(states[arrival > 0], arrival[arrival > 0], strict=True):
            weight = law[tuple(x0)] * probability
            leaving = torch.stack([rates[d, x[d]] for d in range(sites)])
            if leaving.sum() == 0:
                found.append((weight, x0, x, x))
            for d, v in leaving.nonzero().tolist():
                jumped = x.clone()
                jumped[d] = v
                found.append((weight * leaving[d, v] / leaving.sum(), x0, x, jumped))
    return Path(*(torch.stack(column) for column in zip(*found, strict=True)))


def every_noise(process: ForwardProcess, law: Tensor, times: Tensor) -> tuple[Path, Tensor]:
    """All data and all noise at each of ``times`` (n,), x~ left at x, and the time of each row.

    The weights add up to 1 at each time.
    """
    flat, states = law.reshape(-1), joint_states(process.num_states, law.ndim)
    clean, noisy, when = torch.cartesian_prod(
        flat.nonzero().flatten(), torch.arange(len(states)), torch.arange(len(times))
    ).unbind(-1)
    x0, x, t = states[clean], states[noisy], times.double()[when]
    arrival = process.kernel_from(x0, t, dtype=torch.float64).gather(-1, x[..., None]).squeeze(-1).prod(-1)
    seen = arrival > 0
    return Path(flat[clean][seen] * arrival[seen], x0[seen], x[seen], x[seen]), t[seen]


def at_paths(
    objective: Objective,
    reverse: ReverseProcess,
    path: Path,
    t: Time,
    *,
    weight: Tensor | None = None,
    observed: Observed | None = None,
) -> Tensor:
    """The value of ``objective`` on every path, as if the noise had been drawn so; x at the earliest time is x too.

    ``weight`` is what the law of times gave with t; 1 if absent.
    """
    draw = Draw(
        reverse,
        path.x0,
        objective.times or UniformTimes(),
        objective.needs or frozenset({"noised"}),
        t=t,
        observed=observed,
    )
    draw.__dict__.update(noised=path.x, jumped=path.jumped, earliest=path.x)
    if weight is not None:
        draw.weight = weight
    return objective.evaluate(draw).value


def expected(objective: Objective, reverse: ReverseProcess, law: Tensor, t: float) -> Tensor:
    """The mean of ``objective`` at time t over data of ``law`` and all noise."""
    path = every_path(reverse.process, law, t)
    return (path.weight * at_paths(objective, reverse, path, t)).sum()


def expected_discrete(reverse: ReverseProcess, law: Tensor, steps: int) -> float:
    """The mean of L_DT with ``steps`` steps over data and noise, all its terms, by enumeration."""
    path, t = every_noise(reverse.process, law, torch.arange(1, steps + 1, dtype=torch.float64) / steps)
    with torch.no_grad():
        return float((path.weight * at_paths(DiscreteTimeElbo(steps), reverse, path, t)).sum()) / steps


def descend(objective: Objective, reverse: ReverseProcess, law: Tensor, t: float) -> None:
    """Fits a ``TableDenoiser`` to the mean of the objective at time t, by enumeration: no chance is left."""
    if "jumped" in objective.needs:
        path = every_path(reverse.process, law, t)
    else:
        path, _ = every_noise(reverse.process, law, torch.tensor([t]))
    optimizer = torch.optim.LBFGS(
        [_table(reverse).table],
        max_iter=300,
        history_size=50,
        tolerance_grad=1e-8,
        tolerance_change=0,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        optimizer.zero_grad()
        loss = (path.weight * at_paths(objective, reverse, path, t)).sum()
        loss.backward()
        return loss

    optimizer.step(closure)


class ObjectiveContract(ABC):
    """What every objective must satisfy. A test of your own is

    class TestMine(ObjectiveContract):
        def make(self):
            return Mine()
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
        """The objective to test, made anew."""

    def times(self, batch: int) -> Tensor:
        """Times at which it can look."""
        times = self.make().times
        if isinstance(times, GridTimes):
            return (torch.arange(batch) % times.steps + 1) / times.steps
        return torch.linspace(0.01, 1.0, batch, dtype=torch.float64)

    def data(self, process: ForwardProcess, batch: int = 6, seed: int = 0) -> Tensor:
        allowed = process.data_states.nonzero().flatten()
        number = torch.randint(len(allowed), (batch, *self.shape), generator=torch.Generator().manual_seed(seed))
        return allowed[number]

    def reverse(self, process: ForwardProcess, dtype: torch.dtype = torch.float64) -> ReverseProcess:
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
                gradient = _table(reverse).table.grad
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

    def test_the_network_is_asked_once(self) -> None:
        for process in self.processes:
            reverse = self.reverse(process)
            self.make()(reverse, self.data(process), t=self.times(6))
            assert _table(reverse).calls == 1

    def test_observed_sites_reach_the_network_clean_and_have_no_loss(self) -> None:
        for process in self.processes:
            x0 = self.data(process)
            mask = torch.rand(6, *self.shape, generator=torch.Generator().manual_seed(1)) < 0.5
            mask[:, 0, 0], mask[:, 1, 1] = True, False
            observed = Observed(mask, x0)
            reverse = self.reverse(process)
            told = self.make()(
                reverse, x0, t=self.times(6), observed=observed, generator=torch.Generator().manual_seed(0)
            )
            seen = _table(reverse).seen
            assert seen is not None
            assert seen[2] is not None
            times = len(seen[0]) // 6
            assert torch.equal(seen[2].mask, mask.repeat(times, 1, 1))
            assert torch.equal(seen[0][seen[2].mask], x0.repeat(times, 1, 1)[seen[2].mask])
            # What x0 says there is not looked at, nor what the network answers.
            elsewhere = torch.where(mask, self.data(process, seed=2), x0)
            answers = _with_table(reverse, lambda table: table + 5 * torch.rand_like(table), sites=mask.all(0))
            for changed_x0, changed in ((elsewhere, reverse), (x0, answers)):
                again = self.make()(
                    changed, changed_x0, t=self.times(6), observed=observed, generator=torch.Generator().manual_seed(0)
                )
                assert_close(again.value, told.value)

    def test_missing_sites_have_no_loss_and_may_hold_anything(self) -> None:
        for process in self.processes:
            x0, reverse = self.data(process), self.reverse(process)
            mask = torch.zeros(6, *self.shape, dtype=torch.bool)
            mask[:, 0, 1] = True
            told, again = (
                self.make()(reverse, rows, t=self.times(6), missing=mask, generator=torch.Generator().manual_seed(0))
                for rows in (x0, x0.masked_fill(mask, -1))
            )
            assert torch.equal(told.value, again.value)
            answers = _with_table(reverse, lambda table: table + 5 * torch.rand_like(table), sites=mask.all(0))
            again = self.make()(answers, x0, t=self.times(6), missing=mask, generator=torch.Generator().manual_seed(0))
            assert_close(again.value, told.value)

    def test_a_condition_reaches_the_network_row_by_row(self) -> None:
        process = self.processes[0]
        reverse, condition = self.reverse(process), torch.arange(6.0)
        self.make()(reverse, self.data(process), t=self.times(6), condition=condition)
        seen = _table(reverse).seen
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
                        2, _table(self.reverse(process)).table.shape, generator=torch.Generator().manual_seed(seed)
                    )
                    table = (1e4 * (2.0 * signs - 1)).to(dtype)
                    reverse = ReverseProcess(process, TableDenoiser(table))
                    loss = self.make()(
                        reverse, self.data(process), t=self.times(6), generator=torch.Generator().manual_seed(seed)
                    )
                    loss.mean().backward()
                    gradient = _table(reverse).table.grad
                    assert gradient is not None
                    assert bool(loss.value.isfinite().all())
                    assert bool(gradient.isfinite().all())

    def test_nothing_to_learn_from_is_an_error(self) -> None:
        process = self.processes[0]
        x0, reverse = self.data(process), self.reverse(process)
        everything = torch.ones_like(x0, dtype=torch.bool)
        with pytest.raises(ValueError, match="no site to have a loss"):
            self.make()(reverse, x0, observed=Observed(everything, x0))
        with pytest.raises(ValueError, match="no site to have a loss"):
            self.make()(reverse, x0, missing=everything)
        with pytest.raises(ValueError, match="at least one sample"):
            self.make()(reverse, x0[:0])

    def test_it_says_what_it_is(self) -> None:
        assert repr(self.make()).startswith(type(self.make()).__name__)


def _table(reverse: ReverseProcess) -> TableDenoiser:
    assert isinstance(reverse.denoiser, TableDenoiser)
    return reverse.denoiser


def _with_table(reverse: ReverseProcess, change, *, sites: Tensor) -> ReverseProcess:
    """The same with other logits at the given ``sites``."""
    table = _table(reverse).table.detach()
    changed = torch.where(sites.reshape(-1)[:, None], change(table), table)
    return ReverseProcess(reverse.process, TableDenoiser(changed))
