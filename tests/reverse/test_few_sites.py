"""Where each sample has a kernel of its own and few sites, kernels are read at few places: the answers are the same."""

import pytest
import torch
from torch import Tensor

from tauleap import ReverseProcess
from tauleap.denoise import Posterior
from tauleap.noise import BirthDeath, Constant, Dense, DenseKernel, Exponential, ForwardProcess, Gaussian
from tauleap.testing import GivenLogits
from tauleap.testing.examples import cycle, one_way

TIMES = [1e-6, 0.02, 0.3, 0.7, 1.0]
PROCESSES: dict[str, ForwardProcess] = {
    "gaussian": Gaussian(9, Exponential(5.0, 5.0), sigma_0=3.0, sigma_r=1.0),
    "small entries": BirthDeath(40, Constant(1.0)),
    "a cycle": Dense(cycle(6), Constant(2.0)),
    "one way": Dense(one_way(), Constant(2.0)),
}


def drawn(process: ForwardProcess, sites: int, t: Tensor) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(0)
    x0 = torch.randint(process.num_states, (len(t), sites), generator=generator)
    return x0, process.noise(x0, t, generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("spread", [1.0, 400.0])
@pytest.mark.parametrize("name", PROCESSES)
def test_each_sample_as_if_it_were_alone(
    name: str, spread: float, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Divergences, their gradients, ratios and rates; with zeros, and with logarithms that underflow."""
    process, t = PROCESSES[name], torch.tensor(TIMES, dtype=torch.float64)
    x0, x = drawn(process, 2, t)
    logits = spread * torch.randn(*x.shape, process.num_states, generator=torch.Generator().manual_seed(1))
    logits = logits.to(dtype).requires_grad_()
    reverse = ReverseProcess(process, GivenLogits(logits))
    rtol, atol = (1e-4, 1e-5) if dtype == torch.float32 else (1e-9, 1e-11)

    together = reverse.divergence(x0, x, t, posterior=Posterior(logits))
    (slope,) = torch.autograd.grad(together.sum(), logits)
    monkeypatch.setattr("tauleap.reverse.dense.loss._BLOCK_ENTRIES", 2 * 2 * process.num_states)
    in_blocks = reverse.divergence(x0, x, t, posterior=Posterior(logits))
    torch.testing.assert_close(in_blocks, together, rtol=rtol, atol=atol)
    torch.testing.assert_close(torch.autograd.grad(in_blocks.sum(), logits)[0], slope, rtol=rtol, atol=atol)

    ratios = reverse.ratios(x, t, posterior=Posterior(logits.detach()))
    known = reverse.conditional_rates(x0, x, t, dtype=dtype)
    for i, time in enumerate(TIMES):
        given = logits[i : i + 1].detach().requires_grad_()
        at, posterior = (x[i : i + 1], time), Posterior(given)
        alone = reverse.divergence(x0[i : i + 1], *at, posterior=posterior)
        torch.testing.assert_close(together[i : i + 1], alone, rtol=rtol, atol=atol)
        torch.testing.assert_close(slope[i : i + 1], torch.autograd.grad(alone.sum(), given)[0], rtol=rtol, atol=atol)
        torch.testing.assert_close(
            ratios[i : i + 1], reverse.ratios(*at, posterior=posterior).detach(), rtol=rtol, atol=atol
        )
        torch.testing.assert_close(
            known[i : i + 1], reverse.conditional_rates(x0[i : i + 1], *at, dtype=dtype), rtol=rtol, atol=atol
        )


@pytest.mark.parametrize("name", PROCESSES)
def test_reading_and_drawing_at_few_places(name: str) -> None:
    """The rows, the columns and, from the same generator, the draws that the tables give."""
    process, t = PROCESSES[name], torch.tensor(TIMES, dtype=torch.float64)
    kernel = process.kernel(t)
    assert isinstance(kernel, DenseKernel)
    few = torch.randint(process.num_states, (len(t), 3), generator=torch.Generator().manual_seed(0))
    many = few.repeat(1, process.num_states)
    assert kernel.prefer_gather(few)
    assert not kernel.prefer_gather(many)
    for read in (kernel.rows, kernel.columns):
        assert torch.equal(read(few, torch.float64), read(many, torch.float64)[:, :3])
    draws = kernel.sample(few, torch.Generator().manual_seed(5))
    u = torch.rand(few.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(5))
    cdf = kernel.rows(few, torch.float64).cumsum(-1)
    assert torch.equal(draws, (cdf < u[..., None] * cdf[..., -1:]).sum(-1))
