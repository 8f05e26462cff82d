"""A kernel of one's own: its four methods suffice for noise, rates, objectives, samplers, bounds and training."""

import pytest
import torch
from torch import Tensor
from torch.testing import assert_close

import tauleap as tl
from tauleap import _draw
from tauleap.denoise import ExactDenoiser, Posterior
from tauleap.noise import Constant, Dense, ForwardProcess, Kernel, Schedule
from tauleap.noise.kernel import along_batch, at_own_state
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, Objective, PaperElbo, Subsampled
from tauleap.reverse import ReverseProcess
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    uniform_grid,
)
from tauleap.testing import ProcessContract, ReverseContract
from tauleap.testing.laws import assert_drawn_from, random_law

LEVEL = 1e-3


class Switching(Kernel):
    """Block-diagonal: a site moves between the two states of its block, 2k and 2k + 1."""

    def __init__(self, leaves: Tensor) -> None:
        self.leaves = leaves  # the probability that each state has become its partner, (S,) or (batch, S)

    def _at(self, x: Tensor) -> Tensor:
        if self.leaves.ndim == 1:
            return self.leaves.to(x.device)[x]
        size = self.leaves.shape[-1]
        table = self.leaves.to(x.device).reshape(len(x), *(1,) * (x.ndim - 1), size).expand(*x.shape, size)
        return table.gather(-1, x[..., None]).squeeze(-1)

    def _two(self, x: Tensor, own: Tensor, partner: Tensor, dtype: torch.dtype) -> Tensor:
        out = torch.zeros(*x.shape, self.leaves.shape[-1], dtype=torch.float64, device=x.device)
        out.scatter_(-1, x[..., None], own[..., None]).scatter_(-1, (x ^ 1)[..., None], partner[..., None])
        return out.to(dtype)

    def rows(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self._two(x, 1 - self._at(x), self._at(x), dtype)

    def columns(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self._two(x, 1 - self._at(x), self._at(x ^ 1), dtype)

    def propagate(self, w: Tensor) -> Tensor:
        leaves = self.leaves.to(w.device, w.dtype)
        leaves = leaves.reshape(*leaves.shape[:-1], *(1,) * (w.ndim - leaves.ndim), -1) if leaves.ndim > 1 else leaves
        partner = torch.arange(w.shape[-1], device=w.device) ^ 1
        return w * (1 - leaves) + (w * leaves)[..., partner]

    def sample(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        return torch.where(_draw.uniforms(x.shape, x.device, generator) < self._at(x), x ^ 1, x)


class Blocks(ForwardProcess):
    """Two states per block, left at rates 1 and 2; blocks never mix, so that the stationary law has to be given."""

    def __init__(self, num_states: int, schedule: Schedule) -> None:
        super().__init__(num_states, schedule)

    def generator(self) -> Tensor:
        rates = 1.0 + torch.arange(self.num_states, dtype=torch.float64) % 2
        out = -torch.diag(rates)
        out[torch.arange(self.num_states), torch.arange(self.num_states) ^ 1] = rates
        return out

    def stationary(self) -> Tensor:
        law = 2.0 - torch.arange(self.num_states, dtype=torch.float64) % 2
        return law / law.sum()

    def kernel(self, t: object, s: object = 0.0) -> Kernel:
        c = self.noise_between(s, t)  # pyright: ignore[reportArgumentType]
        rates = 1.0 + torch.arange(self.num_states, dtype=torch.float64, device=c.device) % 2
        return Switching(rates / 3 * -torch.expm1(-3 * c)[..., None])


class Shift(Kernel):
    """Circulant: q(v | u) depends on v - u alone."""

    def __init__(self, first_row: Tensor) -> None:
        self.first_row = first_row  # (S,) or (batch, S)

    def _shifted(self, x: Tensor, sign: int, dtype: torch.dtype) -> Tensor:
        size = self.first_row.shape[-1]
        places = (sign * (torch.arange(size, device=x.device) - x[..., None])) % size
        row = self.first_row.to(x.device)
        if row.ndim > 1:
            row = row.reshape(len(x), *(1,) * (x.ndim - 1), size)
        return row.expand(*x.shape, size).gather(-1, places).to(dtype)

    def rows(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self._shifted(x, 1, dtype)

    def columns(self, x: Tensor, dtype: torch.dtype) -> Tensor:
        return self._shifted(x, -1, dtype)

    def propagate(self, w: Tensor) -> Tensor:
        states = torch.arange(w.shape[-1], device=w.device).expand(w.shape[0], -1)
        matrix = self.rows(states, w.dtype)
        return (w.reshape(len(w), -1, w.shape[-1]) @ matrix).reshape(w.shape)

    def sample(self, x: Tensor, generator: torch.Generator | None) -> Tensor:
        return _draw.categorical(self.rows(x, torch.float64), generator)


class Ring(ForwardProcess):
    """A walk on a ring, one step up at rate 1 and one down at rate 0.25."""

    def generator(self) -> Tensor:
        eye = torch.eye(self.num_states, dtype=torch.float64)
        return eye.roll(1, 1) + 0.25 * eye.roll(-1, 1) - 1.25 * eye

    def kernel(self, t: object, s: object = 0.0) -> Kernel:
        c = self.noise_between(s, t)[..., None]  # pyright: ignore[reportArgumentType]
        term = torch.zeros(self.num_states, dtype=torch.float64, device=c.device).index_fill_(0, torch.tensor(0), 1.0)
        term = term.expand(*c.shape[:-1], -1)
        total = term
        for k in range(1, 80):  # uniformization: products of nonnegative numbers only
            term = (term.roll(1, -1) + 0.25 * term.roll(-1, -1)) * c / k
            total = total + term
        return Shift(total * torch.exp(-1.25 * c))


def processes() -> dict[str, ForwardProcess]:
    return {"blocks": Blocks(4, Constant(2.0)), "ring": Ring(5, Constant(3.0))}


class TestRing(ProcessContract):
    def make(self) -> ForwardProcess:
        return Ring(5, Constant(3.0))


class TestBlocks(ProcessContract):
    def make(self) -> ForwardProcess:
        return Blocks(4, Constant(2.0))


class TestReverseOfRing(ReverseContract):
    def make(self) -> ForwardProcess:
        return Ring(4, Constant(3.0))


class TestReverseOfBlocks(ReverseContract):
    def make(self) -> ForwardProcess:
        return Blocks(4, Constant(2.0))


def dense(process: ForwardProcess) -> Dense:
    return Dense(process.generator(), process.schedule, prior=process.stationary())


@pytest.mark.parametrize("name", processes())
def test_kernels_are_those_of_the_generator(name: str) -> None:
    process = processes()[name]
    x = torch.arange(process.num_states).reshape(-1, 1)
    t = torch.linspace(0.1, 1.0, len(x), dtype=torch.float64)
    for time in (0.3, t):
        for method in ("kernel_from", "kernel_into"):
            assert_close(getattr(process, method)(x, time), getattr(dense(process), method)(x, time))
        w = torch.rand(len(x), 2, process.num_states, dtype=torch.float64)
        assert_close(process.propagate(w, time), dense(process).propagate(w, time))


OBJECTIVES: list[Objective] = [
    CompleteElbo(reconstruction=True),
    PaperElbo(passes=1) + 0.1 * CrossEntropy(),
    PaperElbo(passes=2),
    DiscreteTimeElbo(4),
    Subsampled(CompleteElbo(), site_fraction=0.5),
]


@pytest.mark.parametrize("objective", OBJECTIVES, ids=repr)
@pytest.mark.parametrize("name", processes())
def test_losses_and_gradients_are_those_of_the_generator(name: str, objective: Objective) -> None:
    """At the same states: those of the draws of noise differ, and are compared as distributions elsewhere."""
    process = processes()[name]
    x0 = torch.randint(process.num_states, (6, 4), generator=torch.Generator().manual_seed(0))
    found = []
    for each in (process, dense(process)):
        logits = torch.zeros(1, 4, process.num_states, dtype=torch.float64, requires_grad=True)
        reverse = ReverseProcess(each, _Constant(logits))
        losses = [
            objective(reverse, x0.repeat(2000, 1), generator=torch.Generator().manual_seed(seed)).value.reshape(2000, 6)
            for seed in range(2)
        ]
        value = torch.cat(losses)
        value.mean().backward()
        found.append((value.detach().mean(0), value.detach().std(0) / len(value) ** 0.5, logits.grad))
    (one, error, gradient), (other, other_error, other_gradient) = found
    assert bool(torch.isfinite(gradient).all())
    assert bool(((one - other).abs() <= 5 * (error**2 + other_error**2).sqrt() + 1e-9).all())
    assert_close(gradient, other_gradient, rtol=0.2, atol=0.2)


class _Constant(tl.denoise.Denoiser):
    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.logits = logits

    def forward(self, x_t: Tensor, t: object, *, observed: object = None, condition: object = None) -> Posterior:
        return Posterior(self.logits.expand(*x_t.shape, -1))


SAMPLERS: list[Sampler] = [
    TauLeaping("last"),
    Ancestral(),
    Ancestral(look_ahead=0.5),
    Extrapolated(),
    Trapezoidal(),
    NextReaction(step=0.02),
    Uniformization(),
    WithCorrector(Ancestral(), 1),
]


GIBBS = WithCorrector(Ancestral(), 1, kind="gibbs")
CASES = [(name, sampler) for name in processes() for sampler in SAMPLERS] + [("ring", GIBBS)]


@pytest.mark.parametrize(("name", "sampler"), CASES, ids=str)
def test_every_sampler_recovers_the_data_distribution(name: str, sampler: Sampler) -> None:
    """Chi-square over all pairs of two sites; the start is the exact q_1, since the blocks never mix."""
    process = processes()[name]
    law = random_law(process.data_states.expand(2, -1), 3)
    generator = torch.Generator().manual_seed(0)
    number = _draw.categorical(law.reshape(1, -1).expand(2000, -1), generator)
    x0 = torch.stack([number // process.num_states, number % process.num_states], -1)
    reverse = ReverseProcess(process, ExactDenoiser(law, process))
    start = process.noise(x0, 1.0, generator=generator)
    found = tl.sample(
        reverse, sampler, x0.shape, grid=uniform_grid(40, end=0.1), start=start, final="none", generator=generator
    )
    expected = process.propagate(process.propagate(law, 0.1).mT.contiguous(), 0.1).mT
    pairs = found.x0[:, 0] * process.num_states + found.x0[:, 1]
    counts = torch.bincount(pairs, minlength=law.numel())
    assert_drawn_from(counts[None], expected.reshape(1, -1), LEVEL)


def test_no_sampler_is_forgotten() -> None:
    """Each is in the test above, or refuses the processes with a message."""
    names = [name for name in tl.sampling.__all__ if isinstance(getattr(tl.sampling, name), type)]
    kinds = {kind for name in names if issubclass(kind := getattr(tl.sampling, name), Sampler)} - {Sampler}
    for kind in kinds - {type(sampler) for sampler in SAMPLERS}:
        for process in processes().values():
            with pytest.raises(ValueError, match=r"write|rank|noise"):
                kind().check(process)


def test_gibbs_corrector_is_refused_where_blocks_never_mix() -> None:
    with pytest.raises(ValueError, match=r"Blocks do not: its kernel has zeros.*write kind='rates'"):
        GIBBS.check(processes()["blocks"])


@pytest.mark.parametrize("name", processes())
def test_bounds_are_those_of_the_generator(name: str) -> None:
    """Every term of the bound, for all data, states and three times; then the bound itself, 1,000 rows, seed 0."""
    process = processes()[name]
    states, sites = process.num_states, (2,)
    law = random_law(process.data_states.expand(*sites, -1), 3)
    own, other = (ReverseProcess(each, ExactDenoiser(law, each)) for each in (process, dense(process)))
    pairs = torch.cartesian_prod(torch.arange(states), torch.arange(states))
    x0, x = pairs.repeat_interleave(len(pairs), 0), pairs.repeat(len(pairs), 1)
    possible = process.kernel_from(x0, 1.0).gather(-1, x[..., None]).squeeze(-1).gt(0).all(-1)
    x0, x = x0[possible], x[possible]
    for t in (0.05, 0.4, 1.0):
        assert_close(own.divergence(x0, x, t), other.divergence(x0, x, t), rtol=1e-6, atol=1e-9)
    assert_close(own.process.prior_divergence(pairs), other.process.prior_divergence(pairs))

    number = _draw.categorical(law.reshape(1, -1).expand(1000, -1), torch.Generator().manual_seed(0))
    data = torch.stack([number // states, number % states], -1)
    bits = tl.evaluate.bits_per_dim(own, data, samples=4, generator=torch.Generator().manual_seed(0))
    entropy = float(-torch.xlogy(law, law).sum() / (2 * torch.log(torch.tensor(2.0))))
    assert bits.value > entropy - 4 * bits.stderr


def test_exit_rates_stay_below_their_bound() -> None:
    for process in processes().values():
        x = torch.randint(process.num_states, (50, 2), generator=torch.Generator().manual_seed(0))
        logits = torch.randn(50, 2, process.num_states, generator=torch.Generator().manual_seed(1))
        reverse = ReverseProcess(process, _Constant(torch.zeros(1, 2, process.num_states)))
        bound = reverse.exit_bound(0.1, 1.0)
        rates = reverse.exit_rate(x, 0.4, posterior=Posterior(logits)).double()
        c = process.schedule.total(torch.full((50,), 0.4, dtype=torch.float64))
        assert bool((rates <= bound.at(x, c) * along_batch(process.schedule.rate(0.4), 2) * (1 + 1e-6)).all())
        assert bool((at_own_state(process.base_exit_rates(), x) > 0).all())


@pytest.mark.parametrize("name", processes())
def test_fit_trains_samples_completes_and_evaluates(name: str, tmp_path) -> None:
    process = processes()[name]
    x = torch.randint(process.num_states, (200, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 3)
    model = tl.fit(x, process=process, steps=5, device="cpu", out=tmp_path / "run")
    assert model.sample(4, steps=4, seed=0).shape == (4, 3)
    assert model.complete(x[:2], observed=torch.tensor([True, False, False]), steps=4, seed=0)[:, 0].equal(x[:2, 0])
    assert model.bits_per_dim(x[:20]).value > 0
    model.save(tmp_path / "saved")
    assert tl.load(tmp_path / "saved", classes=[type(process)], device="cpu").sample(2, steps=2, seed=0).shape == (2, 3)
