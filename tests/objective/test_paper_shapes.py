"""At the sizes of the paper's experiments: extreme logits, the earliest time, states at the borders."""

import pytest
import torch

from tauleap import ReverseProcess
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Uniform,
)
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, Objective, PaperElbo
from tauleap.testing import GivenLogits

PROCESSES = {
    "music, uniform": Uniform(129, Constant(0.03)),
    "music, birth/death": BirthDeath(129, Exponential(0.5, 10_000.0)),
    "images": Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0),
    "toy": Gaussian(32, Exponential(5.0, 5.0), 8.0, 1.0),
    "masks": Absorbing(129, LogLinear()),
}
OBJECTIVES = {
    "CompleteElbo": CompleteElbo(),
    "CompleteElbo, all terms": CompleteElbo(reconstruction=True),
    "PaperElbo, 1 pass": PaperElbo(passes=1),
    "PaperElbo, 2 passes": PaperElbo(passes=2),
    "DiscreteTimeElbo": DiscreteTimeElbo(100),
    "CrossEntropy": CrossEntropy(),
}


def extreme_logits(size: int, dtype: torch.dtype) -> torch.Tensor:
    """Rows that are sure of the lowest, a middle and the highest state, of none, of half of them, and wild ones."""
    rows = torch.full((6, size), -1e4)
    rows[0, 0] = rows[1, size // 2] = rows[2, size - 2] = 1e4
    rows[3] = 0.0
    rows[4, ::2] = 1e4
    rows[5] = 1e4 * torch.randn(size, generator=torch.Generator().manual_seed(0))
    return rows.to(dtype)


@pytest.mark.parametrize("name", PROCESSES)
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("t", [0.01, 0.5, 1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_finite_losses_and_gradients(name: str, objective: str, t: float, dtype: torch.dtype) -> None:
    process: ForwardProcess = PROCESSES[name]
    loss_of: Objective = OBJECTIVES[objective]
    size = process.num_states
    top = size - 2 if name == "masks" else size - 1
    rows = extreme_logits(size, dtype)
    x0 = torch.tensor([0, 1, size // 2, top])[:, None].expand(-1, len(rows)).contiguous()
    logits = rows.expand(len(x0), -1, -1).clone().requires_grad_()
    passes = max(1, len(loss_of.needs))
    denoiser = GivenLogits(logits.repeat(passes, 1, 1))
    loss = loss_of(ReverseProcess(process, denoiser), x0, t=t, generator=torch.Generator().manual_seed(0))
    (gradient,) = torch.autograd.grad(loss.mean(), logits)
    assert loss.value.dtype == dtype
    assert bool(loss.value.isfinite().all())
    assert bool(gradient.isfinite().all())


@pytest.mark.parametrize("name", PROCESSES)
def test_float32_agrees_with_float64(name: str) -> None:
    process = PROCESSES[name]
    generator = torch.Generator().manual_seed(0)
    top = process.num_states - (1 if name == "masks" else 0)
    x0 = torch.randint(top, (6, 10), generator=generator)
    logits = 2 * torch.randn(6, 10, process.num_states, generator=generator)
    t = torch.tensor([0.01, 0.05, 0.2, 0.5, 0.9, 1.0], dtype=torch.float64)
    for objective in (CompleteElbo(), PaperElbo(passes=1)):
        values, gradients = [], []
        for dtype in (torch.float32, torch.float64):
            given = logits.to(dtype).requires_grad_()
            loss = objective(
                ReverseProcess(process, GivenLogits(given)), x0, t=t, generator=torch.Generator().manual_seed(1)
            )
            values.append(loss.value.detach().double())
            gradients.append(torch.autograd.grad(loss.value.sum(), given)[0].double())
        assert (values[0] - values[1]).abs().max() < 2e-5 * values[1].abs().max()
        assert (gradients[0] - gradients[1]).abs().max() < 2e-5 * gradients[1].abs().max()


@pytest.mark.parametrize("objective", OBJECTIVES)
def test_a_text_vocabulary_is_ordinary(objective: str) -> None:
    """S = 50,257: one matrix of S x S would be 10 GB in float32. float32 agrees with float64, gradients too."""
    size, loss_of = 50_257, OBJECTIVES[objective]
    x0 = torch.tensor([[0, 7], [50_000, 3]])
    logits = torch.randn(2 * max(1, len(loss_of.needs)), 2, size, generator=torch.Generator().manual_seed(0))
    even = torch.full((size,), 1 / size, dtype=torch.float64)
    for process in (RankOne(even, LogLinear()), Absorbing(size, LogLinear())):
        found = []
        for dtype in (torch.float32, torch.float64):
            given = logits.to(dtype).requires_grad_()
            loss = loss_of(
                ReverseProcess(process, GivenLogits(given)),
                x0,
                t=torch.tensor([0.5, 0.95]),
                generator=torch.Generator().manual_seed(1),
            )
            found.append((loss.value.detach().double(), torch.autograd.grad(loss.value.sum(), given)[0].double()))
        (value, gradient), (exact, exact_gradient) = found
        assert bool(exact.isfinite().all())
        assert bool((exact_gradient != 0).any())
        assert (value - exact).abs().max() < 2e-5 * exact.abs().max()
        assert (gradient - exact_gradient).abs().max() < 2e-4 * exact_gradient.abs().max()
