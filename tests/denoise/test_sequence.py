"""Rows that end: the constraints of the denoiser, and the law of the samples over whole rows."""

import itertools

import pytest
import torch
from scipy import stats
from torch import Tensor, nn

from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.sequences.opening import open_texts
from tauleap.denoise import Denoiser, ExactDenoiser, NetworkDenoiser, SequenceDenoiser
from tauleap.evaluate import bits_per_dim
from tauleap.noise import Absorbing, LogLinear, Uniform
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.sampling import FirstHitting, sample

ROWS = {"": 0.06, "a": 0.1, "b": 0.14, "ab": 0.05, "ba": 0.17, "aa": 0.08, "abb": 0.22, "bab": 0.11, "bba": 0.07}
PROCESS = Absorbing(4, LogLinear())


def law() -> tuple[Tensor, SequenceFormat, Tensor]:
    """Return the probability of each joint state, the format, and the rows as states."""
    form = open_texts(list(ROWS)).form
    assert isinstance(form, SequenceFormat)
    x = form.encode_texts(list(ROWS)).in_memory().long()
    pmf = torch.zeros((4,) * x.shape[1], dtype=torch.float64)
    pmf[tuple(x.T)] = torch.tensor(list(ROWS.values()), dtype=torch.float64)
    return pmf, form, x


class Careless(nn.Module):
    """Return the exact logits, with nonsense wherever the visible ends and symbols decide the state."""

    def __init__(self, exact: Denoiser) -> None:
        super().__init__()
        self.exact = [exact]
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        logits = self.exact[0](x, 0.5).log_probs.clone().clamp(min=-30.0)
        visible_end = (x == 2).cumsum(1) > 0
        visible_end[:, -1] = True
        symbol = ((x == 0) | (x == 1)).flip(1).cumsum(1).flip(1) > 0
        logits[visible_end] = torch.tensor([5.0, 1.0, -3.0, 2.0], dtype=logits.dtype)
        logits[..., 2] = torch.where(symbol & ~visible_end, 4.0, logits[..., 2])
        return logits + self.weight


def denoisers() -> list[Denoiser]:
    exact = ExactDenoiser(law()[0], PROCESS)
    return [exact, SequenceDenoiser(Careless(exact), end=2, mask=3)]


def reachable() -> Tensor:
    """Return every state that noise can make of a row."""
    x = law()[2]
    masks = torch.tensor(list(itertools.product([False, True], repeat=x.shape[1])))
    return torch.where(masks[:, None], 3, x[None]).flatten(0, 1).unique(dim=0)


def test_the_constraints_give_the_exact_posterior() -> None:
    exact, ours = denoisers()
    x = reachable()
    masked = x == 3
    # The last site needs no network; the exact one knows it as well.
    expected, found = (denoiser(x, 0.5).probs[masked][:, :3] for denoiser in (exact, ours))
    found = found / found.sum(-1, keepdim=True)
    assert torch.allclose(expected, found.double(), atol=1e-6)


@pytest.mark.parametrize("which", [0, 1])
def test_whole_rows_follow_the_law(which: int) -> None:
    _, form, _ = law()
    reverse, n = ReverseProcess(PROCESS, denoisers()[which]), 20_000
    seed = torch.Generator().manual_seed(which)
    drawn = sample(reverse, FirstHitting(), (n, 4), grid=(1.0, 0.0), final="none", generator=seed)
    texts = form.texts(drawn.x0)
    counts = {text: texts.count(text) for text in ROWS}
    assert sum(counts.values()) == n
    assert stats.chisquare(list(counts.values()), [n * p for p in ROWS.values()]).pvalue > 1e-3


def test_completions_follow_the_conditional_law() -> None:
    """A prefix is continued to its end, and a row with a gap has the length that was given."""
    _, form, _ = law()
    reverse, n = ReverseProcess(PROCESS, denoisers()[1]), 8000
    for text, expected in (
        ("b", {row: p for row, p in ROWS.items() if row.startswith("b")}),
        ("?b?", {"abb": 0.22, "bba": 0.07, "ab": 0.05}),
        ("?a", {"ba": 0.17, "aa": 0.08}),
    ):
        data = form.encode_texts([text], incomplete=True)
        given = Observed(data.known().repeat(n, 1), data.in_memory().long().repeat(n, 1))
        seed = torch.Generator().manual_seed(len(text))
        drawn = sample(reverse, FirstHitting(), (n, 4), grid=(1.0, 0.0), final="none", observed=given, generator=seed)
        texts = form.texts(drawn.x0)
        counts = [texts.count(row) for row in expected]
        assert sum(counts) == n, set(texts) - set(expected)
        total = sum(expected.values())
        assert stats.chisquare(counts, [n * p / total for p in expected.values()]).pvalue > 1e-3


def test_bits_of_all_sites_are_those_of_the_row() -> None:
    """Sites behind the end add nothing: the bound of one order is -log2 p of the row, on average over the rows."""
    _, _, x = law()
    seed = torch.Generator().manual_seed(0)
    reverse = ReverseProcess(PROCESS, denoisers()[1])
    found = bits_per_dim(reverse, x, samples=400, per_datapoint=True, generator=seed)
    # With the exact denoiser the expectation over orders is exact for every row.
    exact = -torch.tensor(list(ROWS.values()), dtype=torch.float64).log2()
    assert bool(((found.value * 4 - exact).abs() < 5 * found.stderr * 4 + 1e-6).all())


def test_the_network_gets_all_sites_behind_a_visible_end_as_ends() -> None:
    """So it sees the length, and masked sites behind the end look alike whichever of them are visible."""
    seen = []

    class Recording(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(x)
            return torch.zeros(*x.shape, 4)

    denoiser = SequenceDenoiser(Recording(), end=2, mask=3)
    denoiser(torch.tensor([[3, 0, 3, 2, 3, 3], [3, 3, 3, 3, 3, 3]]), 0.5)
    assert seen[0].tolist() == [[3, 0, 3, 2, 2, 2], [3, 3, 3, 3, 3, 2]]


def test_gradients_are_finite_and_certain_sites_have_none() -> None:
    denoiser = SequenceDenoiser(Careless(ExactDenoiser(law()[0], PROCESS)), end=2, mask=3)
    x = reachable()
    posterior = ReverseProcess(PROCESS, denoiser).at(x, 0.5).posterior
    x0 = posterior.mode
    loss = -posterior.log_prob(x0)[x == 3].sum()
    loss.backward()
    assert bool(denoiser.network.weight.grad.isfinite())
    behind = torch.tensor([[0, 2, 3, 3]])
    assert ReverseProcess(PROCESS, denoiser).at(behind, 0.5).posterior.log_prob(torch.tensor([[0, 2, 2, 2]]))[
        0, 2:
    ].tolist() == [0, 0]


def test_refusals() -> None:
    network = Careless(ExactDenoiser(law()[0], PROCESS))
    with pytest.raises(ValueError, match="two different states, got 2 for both"):
        SequenceDenoiser(network, 2, 2)
    with pytest.raises(ValueError, match=r"is for Absorbing noise with these states, got Uniform"):
        ReverseProcess(Uniform(4, LogLinear()), SequenceDenoiser(network, 2, 3))
    with pytest.raises(ValueError, match=r"rows of symbols \(batch, sites\)"):
        SequenceDenoiser(network, 2, 3)(torch.zeros(1, 2, 2, dtype=torch.int64), 0.5)
    assert not SequenceDenoiser(network, 2, 3).uses_time
    assert isinstance(NetworkDenoiser(network), Denoiser)
