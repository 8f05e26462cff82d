"""The comparison of what the denoiser makes of the rates with what x0 makes of them, against plain autograd."""

import pytest
import torch
from torch import Tensor

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Denoiser, Posterior
from tauleap.noise import Absorbing, Constant, Dense, ForwardProcess, LogLinear, RankOne
from tauleap.reverse.base import PosteriorExpectation
from tauleap.testing.cases import of_every_kind

SIZE = 4


class Silent(Denoiser):
    """It is never evaluated: every posterior is given."""

    def forward(self, x_t, t, *, observed=None, condition=None):
        raise AssertionError


PROCESSES = of_every_kind()


def pairs(process: ForwardProcess, t: float) -> tuple[Tensor, Tensor]:
    """All (x0, x) that can come together at both of two sites, as (n, 2) each."""
    states = torch.arange(SIZE)
    every = torch.cartesian_prod(states, states)
    x0, x = every[:, :1].expand(-1, 2), every[:, 1:].expand(-1, 2)
    possible = process.kernel_from(x0, t, dtype=torch.float64).gather(-1, x[..., None]).squeeze(-1) > 0
    data = process.data_states.expand(2, SIZE)[torch.arange(2), x0]
    keep = (possible & data).all(-1)
    return x0[keep], x[keep]


def expectation(process: ForwardProcess, x: Tensor, kind: str) -> PosteriorExpectation:
    reverse = ReverseProcess(process, Silent())
    if kind == "rates":
        return reverse.at(x, 0.6).expected_rates
    s = {"step": 0.35, "step to 0": 0.0}[kind]
    return reverse.at(x, 0.6).reversal.step(s)


def plain(h: Tensor, c: Tensor) -> Tensor:
    """sum_v h - c + c log(c / h) with no care taken."""
    return (h - c + c * log_where(c, c) - c * log_where(c, h)).sum(-1)


def log_where(c: Tensor, value: Tensor) -> Tensor:
    """log value where c is not 0."""
    return torch.where(c > 0, value, 1.0).log()


def logits_for(process: ForwardProcess, x: Tensor, seed: int = 0) -> Tensor:
    logits = torch.randn(*x.shape, SIZE, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    return logits.masked_fill(~process.data_states, -torch.inf)


@pytest.mark.parametrize("kind", ["rates", "step", "step to 0"])
@pytest.mark.parametrize("name", PROCESSES)
def test_value_and_gradient_are_those_of_the_plain_sum(name: str, kind: str) -> None:
    process = PROCESSES[name]
    x0, x = pairs(process, 0.6)
    mixed = expectation(process, x, kind)
    logits = logits_for(process, x).requires_grad_()
    c = mixed.given(x0, torch.float64)
    sure = torch.nn.functional.one_hot(x0, SIZE).double().log()
    torch.testing.assert_close(c, mixed.under(Posterior(sure)), rtol=1e-12, atol=1e-14)

    expected = plain(mixed.under(Posterior(logits)), c)
    found = mixed.divergence(x0, Posterior(logits))
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12)
    upstream = torch.rand(x.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    reference = torch.autograd.grad(expected, logits, upstream)[0]
    got = torch.autograd.grad(found, logits, upstream)[0]
    torch.testing.assert_close(got, reference, rtol=1e-9, atol=1e-12)
    assert (found > -1e-12).all()


@pytest.mark.parametrize("total", [True, False])
@pytest.mark.parametrize("name", PROCESSES)
def test_parts_of_the_comparison(name: str, total: bool) -> None:
    process = PROCESSES[name]
    x0, x = pairs(process, 0.6)
    mixed = expectation(process, x, "rates")
    logits = logits_for(process, x).requires_grad_()
    weight = torch.rand(len(x), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    found = mixed.compare(x0, Posterior(logits), weight=weight, total=total)
    h, c = mixed.under(Posterior(logits)), mixed.given(x0, torch.float64)
    signal = (c * log_where(c, h)).sum(-1)
    expected = (h.sum(-1) if total else 0.0) - weight[:, None] * signal
    torch.testing.assert_close(found.cost, expected, rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.signal, signal.detach(), rtol=1e-10, atol=1e-12)
    torch.testing.assert_close(found.total, h.sum(-1).detach(), rtol=1e-10, atol=1e-12)
    got, reference = (torch.autograd.grad(value.sum(), logits)[0] for value in (found.cost, expected))
    torch.testing.assert_close(got, reference, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("name", PROCESSES)
def test_one_time_a_sample_and_float32(name: str) -> None:
    process = PROCESSES[name]
    x0, x = (value[:3] for value in pairs(process, 0.3))
    logits = logits_for(process, x)
    t, s = torch.tensor([0.3, 0.6, 1.0], dtype=torch.float64), torch.tensor([0.0, 0.5, 0.6], dtype=torch.float64)
    reverse = ReverseProcess(process, Silent())
    together = reverse.divergence(x0, x, t, posterior=Posterior(logits))
    steps = reverse.at(x, t, posterior=Posterior(logits)).step_divergence(x0, s)
    for i in range(3):
        one = slice(i, i + 1)
        posterior = Posterior(logits[one])
        torch.testing.assert_close(
            together[one], reverse.divergence(x0[one], x[one], float(t[i]), posterior=posterior), rtol=1e-9, atol=1e-12
        )
        alone = reverse.at(x[one], float(t[i]), posterior=posterior).step_divergence(x0[one], float(s[i]))
        torch.testing.assert_close(steps[one], alone, rtol=1e-9, atol=1e-12)
    narrow = reverse.divergence(x0, x, t, posterior=Posterior(logits.float()))
    assert narrow.dtype == torch.float32
    torch.testing.assert_close(narrow.double(), together, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", ["rates", "step", "step to 0"])
@pytest.mark.parametrize("name", PROCESSES)
def test_extreme_logits_give_finite_values_and_gradients(name: str, kind: str, dtype: torch.dtype) -> None:
    process = PROCESSES[name]
    x0, x = pairs(process, 0.6)
    mixed = expectation(process, x, kind)
    allowed = process.data_states.expand(2, SIZE)
    for sure in range(SIZE):
        for other in (-1e4, 0.0):
            logits = torch.full((len(x), 2, SIZE), other, dtype=dtype)
            logits[..., sure] = 1e4
            logits = logits.masked_fill(~allowed, -torch.inf).requires_grad_()
            found = mixed.divergence(x0, Posterior(logits))
            found.sum().backward()
            assert torch.isfinite(found).all()
            assert logits.grad is not None
            assert torch.isfinite(logits.grad).all()
            assert (found > -1e-4).all()


def test_lost_logarithms_are_right() -> None:
    """-log p(x0) at a masked site, from logits whose softmax is exactly 0 there; by both kinds of arithmetic."""
    logits = torch.tensor([[[500.0, -500.0, 0.0]]]).requires_grad_()
    x, x0 = torch.tensor([[2]]), torch.tensor([[1]])
    rank_one = Absorbing(3, Constant(1.5))
    matrix = Dense(rank_one.generator(), Constant(1.5))
    t, odds = 0.5, 1.5 / torch.expm1(torch.tensor([[0.75]]))
    for process in (rank_one, matrix):
        posterior = Posterior(logits).restricted(torch.tensor([True, True, False]))
        divergence = ReverseProcess(process, Silent()).divergence(x0, x, t, posterior=posterior)
        torch.testing.assert_close(divergence, 1000 * odds, rtol=1e-5, atol=0)
        compared = ReverseProcess(process, Silent()).at(x, t).expected_rates.compare(x0, posterior, total=False)
        torch.testing.assert_close(compared.signal, odds * (odds.log() - 1000), rtol=1e-5, atol=0)
        for cost in (divergence, compared.cost):
            (gradient,) = torch.autograd.grad(cost.sum(), logits, retain_graph=True)
            torch.testing.assert_close(gradient[0], odds * torch.tensor([[1.0, -1.0, 0.0]]), rtol=1e-5, atol=0)


def test_many_samples_are_worked_on_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    for process in PROCESSES.values():
        x0, x = pairs(process, 0.6)
        logits = logits_for(process, x).requires_grad_()
        weight = torch.rand(len(x), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        whole = expectation(process, x, "rates").compare(x0, Posterior(logits), weight=weight)
        for name in ("dense.loss._BLOCK_ENTRIES", "rank_one.loss._LARGE_BLOCKS"):
            monkeypatch.setattr(f"tauleap.reverse.{name}", 3 * 2 * SIZE)
        monkeypatch.setattr("tauleap.reverse.rank_one.loss._SMALL_BLOCKS", SIZE)
        chunked = expectation(process, x, "rates").compare(x0, Posterior(logits), weight=weight)
        monkeypatch.undo()
        for one, other in zip(whole, chunked, strict=True):
            torch.testing.assert_close(one, other)
        one, other = (torch.autograd.grad(found.cost.sum(), logits)[0] for found in (whole, chunked))
        torch.testing.assert_close(one, other)


def test_observed_sites_have_none() -> None:
    process = PROCESSES["uniform"]
    observed = Observed(torch.tensor([True, False]), torch.tensor([[3, 0]]))
    x0, x = torch.tensor([[3, 1]]), torch.tensor([[0, 2]])
    posterior = Posterior(torch.zeros(1, 2, SIZE))
    reverse = ReverseProcess(process, Silent())
    for found in (
        reverse.divergence(x0, x, 0.5, observed=observed, posterior=posterior),
        reverse.at(x, 0.5, observed=observed, posterior=posterior).step_divergence(x0, 0.2),
    ):
        assert found[0, 0] == 0
        assert found[0, 1] > 0


def test_a_text_vocabulary_is_ordinary() -> None:
    """S = 50,257: nothing of the size of S^2 is made, for a law that is even, one that is not, and the mask's."""
    size = 50_257
    x0, x = torch.tensor([[0, 7], [50_000, 3]]), torch.tensor([[5, 7], [1, size - 1]])
    law = torch.rand(size, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    logits = torch.randn(2, 2, size, generator=torch.Generator().manual_seed(1))
    for process in (
        RankOne(torch.full((size,), 1 / size, dtype=torch.float64), LogLinear()),
        RankOne(law / law.sum(), LogLinear()),
        Absorbing(size, LogLinear()),
    ):
        reverse = ReverseProcess(process, Silent())
        found, exact = [], []
        for dtype, into in ((torch.float32, found), (torch.float64, exact)):
            given = logits.to(dtype).requires_grad_()
            posterior = Posterior(given).restricted(process.data_states)
            value = reverse.divergence(x0, x, torch.tensor([0.01, 0.9]), posterior=posterior)
            into += [value, torch.autograd.grad(value.sum(), given)[0]]
        assert torch.isfinite(found[0]).all()
        torch.testing.assert_close(found[0].double(), exact[0], rtol=2e-4, atol=1e-4)
        torch.testing.assert_close(found[1].double(), exact[1], rtol=2e-3, atol=1e-5)
