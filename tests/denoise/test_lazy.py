"""Logits that are computed for the sites in use: the same numbers and gradients as all logits at once."""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tauleap.denoise import Guided, NetworkDenoiser, Posterior, Tempered
from tauleap.denoise.lazy import HiddenStates, Lazy
from tauleap.network import MusicTransformer, SequenceTransformer

STATES, SHAPE = 6, (4,)
SITES = torch.tensor([7, 0, 3])


class Split(nn.Module):
    """A trunk and a head that remembers how many sites it was evaluated at."""

    def __init__(self, states: int = STATES, width: int = 5) -> None:
        super().__init__()
        generator = torch.Generator().manual_seed(0)
        self.table = nn.Parameter(torch.randn(states, width, generator=generator))
        self.weight = nn.Parameter(torch.randn(width, states, generator=generator))
        self.own = nn.Parameter(torch.randn(states, states, generator=generator))
        self.seen: list[int] = []

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor | None = None, return_hidden: bool = False) -> Tensor:
        hidden = self.table[x] * (1 + t.reshape(-1, *[1] * x.ndim))
        hidden = hidden + hidden.mean(1, keepdim=True)
        if condition is not None:
            hidden = hidden * (1 + condition[:, None, None])
        return hidden if return_hidden else self.head(hidden, x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        self.seen.append(x.numel())
        return hidden @ self.weight + self.own[x]


class Whole(nn.Module):
    """The same network without the possibility to split it."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor | None = None) -> Tensor:
        return self.network(x, t) if condition is None else self.network(x, t, condition=condition)


def states(batch: int = 3) -> Tensor:
    return torch.randint(STATES, (batch, *SHAPE), generator=torch.Generator().manual_seed(1))


NETWORKS = {
    "own": Split,
    "sequence": lambda: SequenceTransformer(STATES, SHAPE, width=8, depth=1, heads=2),
    "plain": lambda: SequenceTransformer(STATES, SHAPE, width=8, depth=1, heads=2, plain=True),
    "music": lambda: MusicTransformer(
        STATES, width=8, heads=2, hidden=8, depth=1, time_size=4, time_hidden=4, time_width=4
    ),
}


@pytest.fixture(params=NETWORKS)
def network(request: pytest.FixtureRequest) -> nn.Module:
    torch.manual_seed(0)
    network = NETWORKS[request.param]().double().eval()
    for parameter in network.parameters():  # output layers that begin at 0 would hide errors
        nn.init.normal_(parameter)
    return network


def test_logits_and_gradients_are_those_of_the_whole_network(network: nn.Module) -> None:
    x, other = states(), copy.deepcopy(network)
    posterior = NetworkDenoiser(network)(x, 0.3)
    expected = other(x, torch.full((3,), 0.3, dtype=torch.float64))
    assert isinstance(posterior.parametrisation, HiddenStates)
    assert posterior.shape == (3, *SHAPE, STATES)
    assert_close(posterior.logits, expected)
    weight = torch.randn(3, STATES, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    split = NetworkDenoiser(network)(x, 0.3).at(SITES)
    assert_close(split, expected.flatten(0, 1)[SITES])
    (split * weight).sum().backward()
    (expected.flatten(0, 1)[SITES] * weight).sum().backward()
    for (name, ours), theirs in zip(network.named_parameters(), other.parameters(), strict=True):
        if theirs.grad is None:
            assert ours.grad is None, name
        else:
            assert_close(ours.grad, theirs.grad, msg=name)


def test_the_head_is_evaluated_only_where_it_is_needed() -> None:
    network = Split()
    posterior = NetworkDenoiser(network)(states(), 0.3)
    network.seen.clear()
    posterior.at(SITES)
    posterior.log_prob(torch.tensor([1, 2, 0]), SITES)
    posterior.rearranged(lambda values: values[1:]).restricted(torch.arange(STATES) < 5).at(torch.tensor([2]))
    assert [number for number in network.seen if number] == [3, 3, 1]


CHANGES = {
    "rows": lambda posterior: posterior.rearranged(lambda values: values[[2, 0]]),
    "sites": lambda posterior: posterior.rearranged(lambda values: values.flip(1)),
    "restricted": lambda posterior: posterior.restricted(torch.arange(STATES) != 2),
    "restricted per site": lambda posterior: posterior.restricted(
        torch.arange(STATES) < torch.tensor([[3], [6], [4], [5]])
    ),
    "restricted everywhere": lambda posterior: posterior.given_reachable(
        torch.rand(posterior.shape, generator=torch.Generator().manual_seed(5)) < 0.6
    ),
    "restricted twice": lambda posterior: posterior.restricted(torch.arange(STATES) != 2).restricted(
        torch.arange(STATES) != 4
    ),
    "uniform": lambda posterior: posterior.uniform_at(states() == 3),
    "rows, restricted, sites": lambda posterior: (
        posterior.rearranged(lambda values: values[[2, 0]])
        .restricted(torch.arange(STATES) < 4)
        .rearranged(lambda values: values.flatten(0, 1)[None])
    ),
}


@pytest.mark.parametrize("name", CHANGES)
def test_changes_of_lazy_logits_are_those_of_plain_ones(name: str) -> None:
    """Some sites and all of them, and log p of a state."""
    plain = Posterior(NetworkDenoiser(Split())(states(), 0.3).logits)
    expected = CHANGES[name](plain).logits.flatten(0, -2)
    sites = torch.arange(len(expected)).flip(0)[:5]
    x0 = torch.randint(STATES, (5,), generator=torch.Generator().manual_seed(6))
    for whole_first in (False, True):
        lazy = CHANGES[name](NetworkDenoiser(Split())(states(), 0.3))
        if whole_first:
            assert_close(lazy.logits.flatten(0, -2), expected)
        assert_close(lazy.at(sites), expected[sites])
        log_probs = expected.log_softmax(-1)
        assert_close(lazy.log_prob(x0, sites), log_probs[sites, x0])
        assert_close(CHANGES[name](plain).log_prob(x0, sites), log_probs[sites, x0])
        everywhere = expected.argmax(-1)
        assert_close(lazy.log_prob(everywhere.view(lazy.shape[:-1])).flatten(), log_probs.amax(-1))
        assert_close(lazy.logits.flatten(0, -2), expected)
        assert torch.equal(lazy.undefined, torch.zeros(lazy.shape[:-1], dtype=torch.bool))


WRAPPERS = {
    "tempered": lambda denoiser: Tempered(denoiser, 0.7),
    "guided": lambda denoiser: Guided(denoiser, 2.5, null_label=0),
    "both": lambda denoiser: Tempered(Guided(denoiser, 1.5, null_label=0), 0.7),
}


@pytest.mark.parametrize("name", WRAPPERS)
def test_temperature_and_guidance_are_lazy(name: str) -> None:
    network = Split()
    expected = WRAPPERS[name](NetworkDenoiser(Whole(network)))(states(), 0.3, condition=torch.tensor([1, 2, 0]))
    denoiser = WRAPPERS[name](NetworkDenoiser(network))
    network.seen.clear()
    found = denoiser(states(), 0.3, condition=torch.tensor([1, 2, 0]))
    assert isinstance(found.parametrisation, Lazy)
    assert_close(found.at(SITES), expected.logits.flatten(0, 1)[SITES])
    assert sum(network.seen) == len(SITES) * (1 if name == "tempered" else 2)
    assert_close(found.logits, expected.logits)


@pytest.mark.parametrize("wide", [256, 257], ids=["a block per row", "several rows per block"])
def test_log_prob_of_some_rows_and_its_gradient(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Against log_softmax, with excluded states, in several blocks, and rows that occur twice."""
    monkeypatch.setattr("tauleap.denoise.log_prob._WIDE", wide)
    generator = torch.Generator().manual_seed(0)
    logits = 30 * torch.randn(5, 400, 256, dtype=torch.float64, generator=generator)
    allowed = torch.rand(256, generator=generator) < 0.8
    sites = torch.randint(2000, (1500,), generator=generator)
    x0 = allowed.nonzero().squeeze(-1)[torch.randint(int(allowed.sum()), (1500,), generator=generator)]
    weight = torch.randn(1500, dtype=torch.float64, generator=generator)
    plain, ours = logits.clone().requires_grad_(), logits.clone().requires_grad_()
    expected = plain.masked_fill(~allowed, -torch.inf).log_softmax(-1).flatten(0, 1)[sites, x0]
    found = Posterior(ours).restricted(allowed).log_prob(x0, sites)
    assert_close(found, expected, rtol=1e-13, atol=1e-13)
    for value in (expected, found):
        (value * weight).sum().backward()
    assert_close(ours.grad, plain.grad, rtol=1e-12, atol=1e-14)
    excluded = (~allowed).nonzero()[0]
    assert Posterior(logits).restricted(allowed).log_prob(excluded, sites[:1]).tolist() == [-torch.inf]


def test_no_site_has_a_gradient_of_zero() -> None:
    """Training over several processes waits for the gradient of every weight, also where no site has a loss."""
    network = Split()
    none = torch.zeros(0, dtype=torch.int64)
    NetworkDenoiser(network)(states(), 0.3).restricted(torch.arange(STATES) != 2).log_prob(none, none).sum().backward()
    for parameter in network.parameters():
        assert torch.equal(parameter.grad, torch.zeros_like(parameter))


def test_logits_without_a_graph_do_not_serve_where_one_is_needed() -> None:
    posterior = NetworkDenoiser(Split())(states(), 0.3)
    with torch.no_grad():
        expected = posterior.logits
    assert not expected.requires_grad
    assert posterior.at(SITES).requires_grad
    assert posterior.logits.requires_grad
    with torch.no_grad():
        assert posterior.logits.requires_grad  # they are there already


def test_a_head_is_evaluated_as_its_trunk_was(monkeypatch: pytest.MonkeyPatch) -> None:
    """Under autocast the output layer computes in half precision, also if its logits are read where it is disabled."""
    network = SequenceTransformer(STATES, SHAPE, width=8, depth=1, heads=2)
    nn.init.normal_(network.output.weight)
    x = states()
    with torch.autocast("cpu", torch.bfloat16):
        posterior = NetworkDenoiser(network)(x, 0.3)
        expected = network(x, torch.full((3,), 0.3))
    assert expected.dtype == torch.bfloat16
    assert posterior.at(SITES).dtype == torch.float32
    assert torch.equal(posterior.at(SITES), expected.float().flatten(0, 1)[SITES])


def test_compiled_networks_split() -> None:
    network = Split()
    compiled = torch.compile(network, backend="eager")
    expected = network(states(), torch.full((3,), 0.3))
    network.seen.clear()
    posterior = NetworkDenoiser(compiled)(states(), 0.3)
    assert_close(posterior.at(SITES), expected.flatten(0, 1)[SITES])
    assert sum(network.seen) == len(SITES)
    assert_close(posterior.logits, expected)


class Wrong(Split):
    def __init__(self, hidden: bool) -> None:
        super().__init__()
        self.hidden = hidden

    def forward(self, x: Tensor, t: Tensor, *, return_hidden: bool = False) -> Tensor:
        out = super().forward(x, t, return_hidden=return_hidden)
        return out[:, 0] if self.hidden else out

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        return super().head(hidden, x) if self.hidden else hidden.new_zeros(2, STATES)


@pytest.mark.parametrize(
    ("network", "message"),
    [
        (Wrong(hidden=True), r"with return_hidden=True the network must return .*\(3, 4, width\), got \(3, 5\)"),
        (Wrong(hidden=False), r"head\(hidden, x\) of the network must return logits \(n, S\) .* of shape \(2, 6\)"),
    ],
)
def test_wrong_shapes_are_named(network: nn.Module, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        NetworkDenoiser(network)(states(), 0.3)


def test_a_network_that_does_not_split_is_evaluated_whole() -> None:
    """A method called head, or a parameter of the name, is not enough."""

    class Headed(Whole):
        def head(self, hidden: Tensor) -> Tensor:
            raise AssertionError("not ours")

    network = Split()
    posterior = NetworkDenoiser(Headed(network))(states(), 0.3)
    assert not isinstance(posterior.parametrisation, Lazy)
    assert_close(posterior.at(SITES), network(states(), torch.full((3,), 0.3)).flatten(0, 1)[SITES])


@pytest.mark.parametrize("wide", [256, 257], ids=["wide", "not wide"])
def test_a_second_gradient_of_one_graph(wide: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one takes the memory in which the exponentials were kept, and may be changed by its owner."""
    monkeypatch.setattr("tauleap.denoise.log_prob._WIDE", wide)
    logits = torch.randn(1, 9, 256, dtype=torch.float64, generator=torch.Generator().manual_seed(0)).requires_grad_()
    sites, x0 = torch.tensor([7, 2, 2, 5]), torch.tensor([3, 9, 255, 0])
    found = Posterior(logits).restricted(torch.arange(256) != 17).log_prob(x0, sites).sum()
    (first,) = torch.autograd.grad(found, logits, retain_graph=True)
    kept = first.clone()
    first.fill_(torch.nan)
    (second,) = torch.autograd.grad(found, logits)
    assert_close(second, kept, rtol=1e-13, atol=1e-15)
