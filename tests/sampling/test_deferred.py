"""Steps of absorbing noise draw the sites that move first, and evaluate the network for their rows alone."""

import pytest
import torch
from torch import Tensor, nn
from torch.testing import assert_close

from tauleap import Observed, ReverseProcess
from tauleap.denoise import Guided, NetworkDenoiser, Posterior, Tempered
from tauleap.denoise.deferred import Deferred
from tauleap.noise import Absorbing, LogLinear
from tauleap.sampling import (
    Ancestral,
    FirstHitting,
    FirstJump,
    NextReaction,
    Planned,
    Sampler,
    TauLeaping,
    WithCorrector,
    sample,
    uniform_grid,
)

STATES, SITES, ROWS, MASK = 5, 4, 40, 4
SAMPLERS = [
    Ancestral(),
    Ancestral(look_ahead=0.5),
    TauLeaping("last"),
    FirstJump(),
    FirstHitting(),
    NextReaction(step=0.05),
    Planned(),
    WithCorrector(Ancestral(), 1, kind="gibbs"),
]


class Counting(nn.Module):
    """A network that counts the rows of its trunk and the sites of its head."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table, self.output = nn.Embedding(STATES, 6), nn.Linear(6, STATES)
        self.rows = self.sites = 0

    def forward(self, x: Tensor, t: Tensor, *, condition: Tensor | None = None, return_hidden: bool = False) -> Tensor:
        self.rows += len(x)
        hidden = self.table(x) * (1 + t[:, None, None])
        hidden = hidden + hidden.mean(1, keepdim=True)
        if condition is not None:
            hidden = hidden * (1 + condition[:, None, None])
        return hidden if return_hidden else self.head(hidden, x)

    def head(self, hidden: Tensor, x: Tensor) -> Tensor:
        self.sites += len(x)
        return self.output(hidden)


def reversed_by(network: Counting) -> ReverseProcess:
    return ReverseProcess(Absorbing(STATES, LogLinear()), NetworkDenoiser(network))


@pytest.mark.parametrize("sampler", SAMPLERS, ids=repr)
def test_evaluations_are_counted_and_at_most_one_per_site(sampler: Sampler) -> None:
    """On a fine grid: a row is evaluated once for each time at which some of its sites move."""
    network = Counting()
    grid = uniform_grid(100, end=0.0)
    found = sample(
        reversed_by(network),
        sampler,
        (ROWS, SITES),
        grid=grid,
        final="none",
        generator=torch.Generator().manual_seed(1),
    )
    filled = int((found.x0 != MASK).sum())
    assert filled > 0.9 * found.x0.numel()
    assert_close(found.info.evaluations, network.rows / ROWS, rtol=1e-5, atol=0.0)
    if not isinstance(sampler, WithCorrector):
        limit = 2 * SITES if isinstance(sampler, FirstJump) else SITES  # of two evaluations, one for each jump
        assert found.info.evaluations <= limit
        assert network.sites == filled


def test_observed_sites_need_no_evaluation() -> None:
    network, x = Counting(), torch.zeros(ROWS, SITES, dtype=torch.int64)
    mask = torch.ones_like(x, dtype=torch.bool)
    mask[::4, 0] = False
    found = sample(
        reversed_by(network),
        Ancestral(),
        x.shape,
        grid=uniform_grid(20, end=0.0),
        observed=Observed(mask, x),
        final="none",
        generator=torch.Generator().manual_seed(1),
    )
    assert network.rows == network.sites == ROWS // 4
    assert bool((found.x0[mask] == 0).all())


@pytest.mark.parametrize("wrap", [lambda d: d, lambda d: Tempered(d, 0.7), lambda d: Guided(d, 2.0, null_label=0)])
def test_some_rows_have_the_logits_of_all(wrap) -> None:
    network = Counting()
    reverse = ReverseProcess(Absorbing(STATES, LogLinear()), wrap(NetworkDenoiser(network)))
    x, condition = torch.full((6, SITES), MASK), torch.arange(6)
    x[:, 0] = torch.tensor([0, 1, 2, 3, 0, 1])
    t = torch.linspace(0.2, 0.9, 6, dtype=torch.float64)
    sites = torch.tensor([5, 1, 22, 6])
    with torch.no_grad():
        expected = reverse.at(x, t, condition=condition).posterior.at(sites)
        at = reverse.at(x, t, condition=condition).deferred()
        assert_close(at.posterior.at(sites), expected)
        assert at.evaluations == 0.5
        # A site of another row: all rows are evaluated then.
        assert_close(at.posterior.at(torch.tensor([12])), reverse.at(x, t, condition=condition).posterior.logits[3, :1])
        assert at.evaluations == 1.5
        assert_close(at.posterior.logits, reverse.at(x, t, condition=condition).posterior.logits)


def test_all_rows_are_evaluated_at_once() -> None:
    calls = []

    def evaluate(rows: Tensor | None) -> Posterior:
        calls.append(rows)
        return Posterior(torch.zeros(3 if rows is None else len(rows), 2, 4))

    deferred = Deferred(evaluate, torch.Size((3, 2, 4)), torch.device("cpu"), 0.5)
    assert deferred.at(torch.empty(0, dtype=torch.int64)).shape == (0, 4)
    assert not calls
    deferred.at(torch.tensor([0, 3, 5]))
    assert calls == [None]
    assert deferred.evaluated == 3


def test_states_that_are_not_a_number_are_reported_where_they_are_drawn() -> None:
    network = Counting()
    nn.init.constant_(network.output.bias, torch.nan)
    with pytest.raises(ValueError, match="no distribution at t = 1 for"):
        sample(reversed_by(network), Ancestral(), (ROWS, SITES), grid=[1.0, 0.1], final="none")
