"""Losses of absorbing noise read the logits of masked, scored sites alone, and are those of the full computation."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import NetworkDenoiser, RaggedDenoiser
from tauleap.network import TableNetwork
from tauleap.noise import Absorbing, ForwardProcess, LogLinear
from tauleap.objective import (
    AnyOrderElbo,
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    Objective,
    PaperElbo,
    Subsampled,
)
from tauleap.reverse import at as reverse_at
from tauleap.reverse.rank_one.rates import RankOneStructure

STATES, SITES, BATCH, MASK = 6, 5, 7, 2
OBJECTIVES = {
    "complete": CompleteElbo(),
    "complete with reconstruction": CompleteElbo(reconstruction=True),
    "paper, one pass": PaperElbo(passes=1),
    "paper, two passes": PaperElbo(passes=2),
    "cross entropy": CrossEntropy(),
    "discrete time": DiscreteTimeElbo(4),
    "sum": CompleteElbo() + 0.1 * CrossEntropy("mean"),
    "subsampled": Subsampled(CompleteElbo() + CrossEntropy(), site_fraction=0.6),
    "any order": AnyOrderElbo(),
}


class Split(nn.Module):
    """A trunk that mixes the sites, and a head that counts the sites it is evaluated at."""

    def __init__(self) -> None:
        super().__init__()
        self.table, self.output = nn.Embedding(STATES, 8), nn.Linear(8, STATES)
        self.seen = 0

    def forward(self, x: Tensor, t: Tensor, *, return_hidden: bool = False) -> Tensor:
        hidden = self.table(x) * (1 + t.reshape(-1, 1, 1))
        hidden = hidden + hidden.mean(1, keepdim=True)
        return hidden if return_hidden else self.head(hidden, x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        self.seen += x.numel()
        return self.output(hidden)


class Whole(Split):
    def forward(self, x: Tensor, t: Tensor) -> Tensor:
        return super().forward(x, t)


def reversed_by(kind: type[Split]) -> ReverseProcess:
    torch.manual_seed(0)
    return ReverseProcess(Absorbing(STATES, LogLinear(), mask=MASK), NetworkDenoiser(kind().double()))


def data() -> Tensor:
    x0 = torch.randint(STATES - 1, (BATCH, SITES), generator=torch.Generator().manual_seed(1))
    return x0 + (x0 >= MASK)


def given() -> dict[str, object]:
    """Observed and missing sites; at a missing one x0 is in any state, also in the mask."""
    observed, missing = (
        torch.rand(BATCH, SITES, generator=torch.Generator().manual_seed(seed)) < 0.25 for seed in (2, 3)
    )
    return {"observed": Observed(observed, data()), "missing": missing & ~observed}


def loss_and_gradients(
    objective: Objective, reverse: ReverseProcess, x0: Tensor, **named: object
) -> tuple[list[Tensor], list[Tensor]]:
    reverse.zero_grad()
    loss = objective(reverse, x0, **named, generator=torch.Generator().manual_seed(4))  # pyright: ignore
    (loss.value * torch.linspace(1, 2, len(x0), dtype=torch.float64)).sum().backward()
    return [loss.value.detach(), *loss.terms.values()], [weight.grad.clone() for weight in reverse.parameters()]


@pytest.mark.parametrize("masks", [False, True], ids=["all scored", "observed and missing"])
@pytest.mark.parametrize("kind", [Split, Whole])
@pytest.mark.parametrize("name", OBJECTIVES)
def test_values_and_gradients_are_those_of_all_logits(
    name: str, kind: type[Split], masks: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    objective, named = OBJECTIVES[name], given() if masks else {}
    found, gradients = loss_and_gradients(objective, reversed_by(kind), data(), **named)
    monkeypatch.setattr(reverse_at, "structure_of", RankOneStructure)
    expected, reference = loss_and_gradients(objective, reversed_by(Whole), data(), **named)
    assert_close(found, expected, rtol=1e-10, atol=1e-10)
    assert_close(gradients, reference, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("name", ["complete", "paper, one pass", "cross entropy", "any order", "sum"])
def test_the_head_is_evaluated_at_masked_and_scored_sites(name: str) -> None:
    reverse, masks, counted = reversed_by(Split), given(), []
    network = reverse.denoiser.network
    network.register_forward_pre_hook(lambda _, inputs: counted.append(inputs[0] == MASK))
    OBJECTIVES[name](reverse, data(), **masks, generator=torch.Generator().manual_seed(4))  # pyright: ignore
    scored = ~(masks["observed"].mask | masks["missing"])  # pyright: ignore
    parts = len(OBJECTIVES[name].parts) if name == "sum" else 1  # pyright: ignore
    assert network.seen == parts * int((counted[0] & scored).sum())


@pytest.mark.parametrize("kind", [Split, Whole])
@pytest.mark.parametrize("name", ["complete", "cross entropy", "any order", "sum"])
def test_a_batch_without_a_masked_site_has_a_gradient_of_zero(name: str, kind: type[Split]) -> None:
    """Processes that train together wait for the gradient of every weight."""
    reverse = reversed_by(kind)
    OBJECTIVES[name](reverse, data(), t=1e-12, generator=torch.Generator().manual_seed(0)).mean().backward()
    for weight in reverse.parameters():
        assert weight.grad is not None
        assert torch.equal(weight.grad, torch.zeros_like(weight.grad))


def test_sites_with_different_numbers_of_states(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes = [3, 2, 5]
    torch.manual_seed(0)
    network = TableNetwork(sizes, width=8, hidden=8).double()
    for weight in network.parameters():
        nn.init.normal_(weight)
    process = Absorbing(6, LogLinear(), sizes=torch.tensor(sizes))
    reverse = ReverseProcess(process, RaggedDenoiser(network, 6))
    x0 = torch.stack(
        [torch.randint(size, (BATCH,), generator=torch.Generator().manual_seed(size)) for size in sizes], 1
    )
    for objective in (CompleteElbo(), AnyOrderElbo(), CrossEntropy()):
        found, gradients = loss_and_gradients(objective, reverse, x0)
        with monkeypatch.context() as patch:
            patch.setattr(reverse_at, "structure_of", RankOneStructure)
            expected, reference = loss_and_gradients(objective, reverse, x0)
        assert_close(found, expected, rtol=1e-10, atol=1e-10)
        assert_close(gradients, reference, rtol=1e-10, atol=1e-10)


def test_autocast_and_compiled_networks() -> None:
    """The head computes in half precision, and the loss in float32."""
    process: ForwardProcess = Absorbing(STATES, LogLinear(), mask=MASK)
    torch.manual_seed(0)
    network = Split()
    plain = ReverseProcess(process, NetworkDenoiser(network))
    compiled = ReverseProcess(process, NetworkDenoiser(torch.compile(network, backend="eager")))
    expected = CompleteElbo()(plain, data(), generator=torch.Generator().manual_seed(4)).value
    found = CompleteElbo()(compiled, data(), generator=torch.Generator().manual_seed(4)).value
    assert_close(found, expected)
    with torch.autocast("cpu", torch.bfloat16):
        half = CompleteElbo()(plain, data(), generator=torch.Generator().manual_seed(4)).value
    assert half.dtype == torch.float32
    assert not torch.equal(half, expected)
    assert_close(half, expected, rtol=0.03, atol=0.1)
