"""Autocast is for the network: rates, losses and draws are computed in full precision, on whatever device."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import tauleap as tl
from tauleap import Observed, ReverseProcess, _precision
from tauleap.denoise import Denoiser, Guided, NetworkDenoiser, Posterior, Tempered, TruncatedLogistic
from tauleap.denoise.truncated_logistic import LogisticParameters
from tauleap.noise import Absorbing, BirthDeath, Constant, Exponential, ForwardProcess, Gaussian, LogLinear, RankOne
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, Objective, PaperElbo, Subsampled
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    Sampler,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    run_corrector,
    uniform_grid,
)
from tauleap.testing import cases

SITES = 2
PROCESSES: dict[str, Callable[[], ForwardProcess]] = {
    **{name: (lambda name=name: cases.of_every_kind()[name]) for name in cases.of_every_kind()},
    "gaussian, 64 states": lambda: Gaussian(64, Exponential(1.0, 20.0), sigma_0=20.0, sigma_r=3.0),
    "birth/death, 64 states": lambda: BirthDeath(64, Constant(500.0)),
    "rank one, 64 states": lambda: RankOne(torch.arange(1.0, 65.0) / 2080, LogLinear()),
}
LOW = [torch.bfloat16, torch.float16]


class Answers(Denoiser):
    """The same logits for every state: no network that autocast could change."""

    def __init__(self, num_states: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.randn(SITES, num_states, generator=torch.Generator().manual_seed(0)))

    def forward(self, x_t, t, *, observed=None, condition=None) -> Posterior:
        return Posterior(self.logits.expand(*x_t.shape, -1))


class Network(nn.Module):
    """Two layers; keeps the dtype in which the first one answered."""

    def __init__(self, num_states: int, outputs: int | None = None) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            self.inside, self.outside = nn.Linear(SITES, 32), nn.Linear(32, SITES * (outputs or num_states))
        self.seen: list[torch.dtype] = []

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor | None = None) -> Tensor:
        hidden = self.inside(x.float())
        self.seen.append(hidden.dtype)
        shift = 0.0 if condition is None else condition[:, None]
        return self.outside(torch.relu(hidden + shift)).reshape(*x.shape, -1)


def data(process: ForwardProcess, rows: int = 6) -> Tensor:
    allowed = process.data_states.expand(SITES, -1).double()
    return torch.multinomial(allowed, rows, replacement=True, generator=torch.Generator().manual_seed(1)).T.contiguous()


def assert_same(run: Callable[[], list[Tensor]], low: torch.dtype) -> None:
    """To the bit: the arithmetic is the same with autocast and without."""
    plain = run()
    with torch.autocast("cpu", low):
        assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == low
        mixed = run()
        assert torch.is_autocast_enabled("cpu")
    for one, other in zip(mixed, plain, strict=True):
        assert one.dtype == other.dtype
        assert_close(one, other, rtol=0.0, atol=0.0)


@pytest.mark.parametrize("name", PROCESSES)
def test_rates_and_steps(name: str) -> None:
    process = PROCESSES[name]()
    x, x0 = process.noise(data(process), 0.6, generator=torch.Generator().manual_seed(2)), data(process)
    reverse = ReverseProcess(process, Answers(process.num_states))

    def everything() -> list[Tensor]:
        with torch.no_grad():
            posterior = reverse.posterior(x, 0.5, reachable_only=False)
            step = reverse.step_probs(x, 0.5, 0.3, posterior=posterior)
            assert_close(step.sum(-1), torch.ones_like(step[..., 0]), rtol=0.0, atol=1e-6)
            moved = reverse.draw_step(x, 0.5, 0.3, generator=torch.Generator().manual_seed(3))
            many = (reverse.exit_rate(x, 0.5).reshape(-1) > 0).nonzero().squeeze(-1)
            many = many.repeat(4000 // max(1, len(many)) + 1)
            return [
                *(
                    answer(x, 0.5, posterior=posterior)
                    for answer in (reverse.rates, reverse.ratios, reverse.corrector_rates, reverse.exit_rate)
                ),
                reverse.at(x, torch.linspace(0.1, 1.0, len(x))).corrector_exit_rate,
                reverse.rates(x, torch.linspace(0.1, 1.0, len(x))),
                step,
                moved,
                reverse.at(x, 0.5).draw_destination(many, generator=torch.Generator().manual_seed(4)),
                reverse.with_own_evidence(posterior, x, 0.5, x, 0.3).logits,
                reverse.conditional_rates(x0, x0, 0.5),
                reverse.divergence(x0, x0, 0.5),
                reverse.at(x0, 0.5).step_divergence(x0, 0.3),
                process.propagate(posterior.probs, 0.5, 0.1),
                process.kernel_from(x, 0.5),
                process.noise(x0, 0.5, generator=torch.Generator().manual_seed(5)),
            ]

    for low in LOW:
        assert_same(everything, low)


@pytest.mark.parametrize("name", PROCESSES)
def test_losses_and_their_gradients(name: str) -> None:
    """Also where backward is called inside of autocast."""
    process = PROCESSES[name]()
    x0 = data(process)
    reverse = ReverseProcess(process, Answers(process.num_states))
    observed = Observed(torch.tensor([[True, False]] * 3 + [[False, False]] * 3), x0)
    objectives: list[Objective] = [
        CompleteElbo(),
        CompleteElbo(reconstruction=True) + 0.5 * CrossEntropy("mean"),
        PaperElbo(passes=1),
        PaperElbo(passes=2),
        CrossEntropy(),
        DiscreteTimeElbo(5),
    ]
    if process.prior().ndim == 1:
        objectives.append(Subsampled(CompleteElbo(), site_fraction=0.5, samples_per_time=2))

    def everything() -> list[Tensor]:
        out = []
        for objective in objectives:
            reverse.denoiser.logits.grad = None
            loss = objective(reverse, x0, observed=observed, generator=torch.Generator().manual_seed(2))
            loss.mean().backward()
            out += [loss.value.detach(), reverse.denoiser.logits.grad, *loss.terms.values()]
        return out

    for low in LOW:
        assert_same(everything, low)


@pytest.mark.parametrize("name", PROCESSES)
def test_samplers(name: str) -> None:
    process = PROCESSES[name]()
    reverse = ReverseProcess(process, Answers(process.num_states))
    samplers: list[Sampler] = [
        TauLeaping(),
        Ancestral(look_ahead=0.5),
        Trapezoidal(),
        Extrapolated(),
        WithCorrector(TauLeaping("last"), steps=1),
    ]
    if process.num_states < 10:
        samplers += [NextReaction(0.1), Uniformization()]
    if isinstance(process, Absorbing):
        samplers.append(FirstHitting())
    if isinstance(process, tl.noise.RankOneProcess):
        samplers.append(FirstJump())

    def everything() -> list[Tensor]:
        x = process.noise(data(process), 0.9, generator=torch.Generator().manual_seed(2))
        out = []
        for sampler in samplers:
            with torch.no_grad():
                generator = torch.Generator().manual_seed(3)
                out.append(sampler.step(reverse, x, 0.9, 0.5, generator=generator)[0])
        generator = torch.Generator().manual_seed(3)
        out.append(run_corrector(reverse, x, 0.5, steps=2, step=0.01, generator=generator)[0])
        return out

    assert_same(everything, torch.bfloat16)


def test_the_network_runs_under_autocast_and_its_logits_are_promoted() -> None:
    process = Gaussian(8, Exponential(1.0, 20.0), sigma_0=3.0, sigma_r=1.0)
    x = data(process)
    network, width = Network(8), Network(8, outputs=2)
    denoisers: list[tuple[Denoiser, Network, Tensor | None]] = [
        (NetworkDenoiser(network), network, None),
        (Tempered(NetworkDenoiser(network), 0.7), network, None),
        (Guided(NetworkDenoiser(network), 2.0, null_label=3), network, torch.arange(6) % 3),
        (TruncatedLogistic(width, 8), width, None),
    ]
    for denoiser, called, condition in denoisers:
        reverse = ReverseProcess(process, denoiser)
        for run in (
            lambda reverse, condition: reverse.rates(x, 0.5, condition=condition),
            lambda reverse, condition: reverse.exit_rate(x, 0.5, condition=condition),
            lambda reverse, condition: CompleteElbo()(reverse, x, t=0.5, condition=condition).value,
            lambda reverse, condition: reverse.posterior(x, 0.5, condition=condition).probs,
        ):
            called.seen.clear()
            with torch.autocast("cpu", torch.bfloat16):
                answer = run(reverse, condition)
            assert answer.dtype == torch.float32
            assert called.seen == [torch.bfloat16]
        with torch.autocast("cpu", torch.bfloat16):
            posterior = reverse.posterior(x, 0.5, condition=condition)
            mixed = reverse.rates(x, 0.5, posterior=posterior)
        assert_close(mixed, reverse.rates(x, 0.5, posterior=posterior), rtol=0.0, atol=0.0)
        assert_close(posterior.probs.sum(-1), torch.ones(6, SITES), rtol=0.0, atol=1e-6)


def test_gradients_of_the_truncated_logistic_are_not_rounded() -> None:
    process = Gaussian(64, Exponential(1.0, 20.0), sigma_0=20.0, sigma_r=3.0)
    x0 = data(process)
    network = Network(64, outputs=2)

    def gradients() -> list[Tensor]:
        with torch.autocast("cpu", enabled=False):
            out = network(x0, torch.full((6,), 0.5)).detach().requires_grad_()
        posterior = LogisticParameters(out[..., 0].tanh(), out[..., 1] - 2, 64)
        (posterior.logits * torch.arange(64.0)).sum().backward()
        assert out.grad is not None
        return [out.grad]

    assert_same(gradients, torch.bfloat16)


def test_samples_of_a_network_under_autocast_are_data() -> None:
    process = Absorbing(5, LogLinear())
    network = Network(5)
    model = ReverseProcess(process, NetworkDenoiser(network))
    generator = torch.Generator().manual_seed(0)
    with torch.autocast("cpu", torch.bfloat16):
        drawn = tl.sample(model, TauLeaping(), (20, SITES), grid=uniform_grid(8), generator=generator)
    assert bool((drawn.x0 < 4).all())
    assert set(network.seen) == {torch.bfloat16}


def test_without_an_accelerator_none_is_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """PyTorch 2.6 raises where later versions return None."""

    def missing() -> torch.device:
        raise RuntimeError("Cannot access accelerator device when none is available.")

    monkeypatch.setattr(torch.accelerator, "is_available", lambda: False)
    monkeypatch.setattr(torch.accelerator, "current_accelerator", missing)
    _precision.autocast_types.cache_clear()
    try:
        assert _precision.full_precision(lambda: 1.0)() == 1.0
    finally:
        _precision.autocast_types.cache_clear()
