"""Adapters give the posterior of an exact model that was converted to logits, left-out sites or scores."""

from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

import tauleap as tl
from tauleap.denoise import LeaveOneOut, MaskedLogits, ScoreRatios
from tauleap.evaluate.joint_space import joint_states
from tauleap.noise import Absorbing, Constant, LogLinear, Uniform
from tauleap.testing.cases import of_every_kind
from tauleap.testing.laws import random_law

SHARED = [name for name in of_every_kind() if name != "rank one by site"]
"""Processes with the same kernel at all sites."""


class Function(nn.Module):
    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *arguments: Any) -> Tensor:
        return self.function(*arguments)


def exact(name: str) -> tuple[tl.ReverseProcess, Tensor, Tensor]:
    """Return an exact model of two sites, its states, and which of them can occur."""
    process = of_every_kind()[name]
    law = random_law(process.data_states.expand(2, -1), seed=3)
    reverse = tl.ReverseProcess(process, tl.denoise.ExactDenoiser(law, process))
    x = joint_states(process.num_states, 2)
    return reverse, x, law


def left_out(law: Tensor, reverse: tl.ReverseProcess, x: Tensor, t: Tensor) -> Tensor:
    """Return log p(x0^d | the other site), from the law of the data, not from the posterior."""
    evidence = reverse.process.kernel_into(x, float(t[0]), dtype=torch.float64)
    first = evidence[:, 1] @ law.mT
    second = evidence[:, 0] @ law
    return torch.stack([first, second], 1).log()


@pytest.mark.parametrize("t", [0.0625, 0.375])
@pytest.mark.parametrize("name", list(of_every_kind()))
def test_leave_one_out(name: str, t: float) -> None:
    reverse, x, law = exact(name)
    x = x[reverse.process.kernel_into(x, t, dtype=torch.float64).sum(-1).gt(0).all(1)]
    adapter = LeaveOneOut(Function(lambda x, t: left_out(law, reverse, x, t)), reverse.process)
    probs, expected = adapter(x, t).probs, reverse.posterior(x, t).probs
    possible = expected.isfinite().all(-1) & probs.isfinite().all(-1)
    assert possible.double().mean() > 0.3
    assert_close(probs[possible], expected[possible], rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("t", [0.0625, 0.375])
@pytest.mark.parametrize("name", SHARED)
def test_scores_in_both_directions(name: str, t: float) -> None:
    reverse, x, _ = exact(name)
    x = x[(x != reverse.process.mask).all(1)] if reverse.process.mask is not None and t < 0.1 else x
    adapter = ScoreRatios(Function(lambda x, t: reverse.ratios(x, float(t[0])).log()), reverse.process)
    there = reverse.ratios(x, t)
    usable = there.isfinite().all(-1).all(-1)
    assert bool(usable.any())
    back = tl.ReverseProcess(reverse.process, adapter)
    assert_close(back.ratios(x[usable], t), there[usable], rtol=1e-6, atol=1e-9)
    assert_close(adapter(x[usable], t).probs, reverse.posterior(x[usable], t).probs, rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("with_mask", [True, False])
def test_masked_logits(with_mask: bool) -> None:
    reverse, x, _ = exact("absorbing")

    def logits(x: Tensor) -> Tensor:
        found = torch.randn(*x.shape, 4, generator=torch.Generator().manual_seed(0)).double()  # ignored where revealed
        found = torch.where((x == 3)[..., None], reverse.posterior(x, 0.5).logits, found)
        return found if with_mask else found[..., :3]

    adapter = MaskedLogits(Function(logits), mask=3)
    possible = reverse.posterior(x, 0.5).probs.isfinite().all(-1).all(-1)
    x = x[possible]
    found = tl.ReverseProcess(reverse.process, adapter).posterior(x, 0.5)
    masked = x == 3
    assert_close(found.probs[masked], reverse.posterior(x, 0.5).probs[masked])
    assert_close(found.probs[~masked], torch.nn.functional.one_hot(x[~masked], 4).double())


def test_batches_have_their_own_times() -> None:
    process = Uniform(3, Constant(0.7))
    law = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64)
    reverse = tl.ReverseProcess(process, tl.denoise.ExactDenoiser(law, process))
    t = torch.tensor([0.2, 0.7], dtype=torch.float64)
    adapter = ScoreRatios(Function(lambda x, t: reverse.ratios(x, t.double()).log()), process)
    x = torch.tensor([[0], [2]])
    assert_close(adapter(x, t).probs, reverse.posterior(x, t).probs, rtol=1e-5, atol=1e-6)


def test_an_adapted_model_samples() -> None:
    process = Absorbing(4, LogLinear())
    adapter = MaskedLogits(nn.Embedding(4, 4), mask=3)
    x = tl.Model(process, adapter, shape=(5,)).sample(6, steps=3, seed=0)
    assert bool((x < 3).all())


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda x: MaskedLogits(nn.Embedding(4, 2), mask=3)(x, 0.5),
            ValueError,
            r"logits \(1, 2, S\) with S > mask = 3",
        ),
        (lambda x: MaskedLogits(nn.Embedding(4, 2), mask=-1), ValueError, "mask must be a whole number >= 0"),
        (
            lambda x: LeaveOneOut(nn.Identity(), 3),
            TypeError,
            "process must be a ForwardProcess such as Uniform",
        ),
        (
            lambda x: LeaveOneOut(Function(lambda x, t: x), Uniform(4, Constant(1.0)))(x, 0.5),
            ValueError,
            r"must return \(1, 2, 4\) numbers, got shape \(1, 2\)",
        ),
    ],
)
@pytest.mark.usefixtures("unchecked")
def test_arguments(call: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        call(torch.tensor([[0, 1]]))
