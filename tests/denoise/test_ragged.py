"""Logits of sites with different numbers of states equal the padded ones, for their own cost."""

import copy
from itertools import permutations, product

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from tauleap.denoise import NetworkDenoiser, Posterior, RaggedDenoiser, Tempered
from tauleap.denoise.ragged import RaggedLogits
from tauleap.network import ResidualMLP, TableNetwork
from tauleap.network.ragged import RaggedLayout
from tauleap.noise import Absorbing, LogLinear
from tauleap.objective import AnyOrderElbo, CompleteElbo
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Ancestral, FirstHitting, sample, uniform_grid
from tauleap.testing import DenoiserContract
from tauleap.testing.laws import assert_drawn_from

SIZES = [3, 2, 5, 3, 1]
STATES = 6


def _logits(batch: int = 4) -> tuple[RaggedLogits, Posterior]:
    layout = RaggedLayout(SIZES)
    flat = torch.randn(batch, layout.total, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    ragged = RaggedLogits(flat.requires_grad_(), layout, (5,), STATES)
    return ragged, Posterior(ragged.logits.detach().clone().requires_grad_())


def _states(batch: int = 4) -> torch.Tensor:
    generator = torch.Generator().manual_seed(1)
    return torch.stack([torch.randint(size, (batch,), generator=generator) for size in SIZES], 1)


def _network(**options) -> TableNetwork:
    torch.manual_seed(0)
    network = TableNetwork([2, 3, 2], width=8, hidden=16, **options)
    for parameter in (network.output.weight, network.output.bias):
        nn.init.normal_(parameter)
    return network


class TestRaggedDenoiser(DenoiserContract):
    num_states = 4
    shape = (3,)
    depends_on_time = False

    def make(self) -> RaggedDenoiser:
        return RaggedDenoiser(_network(), 4)


class TestRaggedDenoiserWithTime(DenoiserContract):
    num_states = 4
    shape = (3,)

    def make(self) -> RaggedDenoiser:
        return RaggedDenoiser(_network(time=True), 4)


def test_padded_logits_hold_each_site_where_its_states_are() -> None:
    ragged, _ = _logits()
    padded = ragged.logits
    assert padded.shape == ragged.shape == (4, 5, STATES)
    layout = RaggedLayout(SIZES)
    for site, size in enumerate(SIZES):
        start = int(layout.offsets[site])
        assert torch.equal(padded[:, site, :size], ragged._flat[:, start : start + size])
        assert bool((padded[:, site, size:] == -torch.inf).all())


def test_log_probabilities_and_their_gradient_are_those_of_padded_logits() -> None:
    ragged, padded = _logits()
    x0 = _states()
    assert_close(ragged.log_prob(x0), padded.log_prob(x0))
    assert_close(ragged.log_prob(x0).exp(), padded.probs.gather(-1, x0[..., None]).squeeze(-1))
    weights = torch.randn(4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    (mine,) = torch.autograd.grad((weights * ragged.log_prob(x0)).sum(), ragged._flat)
    (other,) = torch.autograd.grad((weights * padded.log_prob(x0)).sum(), padded.logits)
    # The gradient with respect to the padded logits, at the places of the ragged ones.
    assert_close(RaggedLayout(SIZES).padded(mine, STATES).nan_to_num(neginf=0.0), other)


def test_a_state_that_a_site_does_not_have_has_probability_0() -> None:
    ragged, _ = _logits()
    x0 = _states()
    x0[:, 1] = 4
    values = ragged.log_prob(x0)
    assert bool((values[:, 1] == -torch.inf).all())
    assert bool(values[:, [0, 2, 3, 4]].isfinite().all())


def test_logits_of_some_sites() -> None:
    ragged, padded = _logits()
    sites = torch.tensor([0, 7, 19, 7, 12])
    assert torch.equal(ragged.at(sites), padded.at(sites))
    assert torch.equal(padded.at(sites), padded.logits.reshape(-1, STATES)[sites])


def test_sites_without_a_distribution_and_uniform_ones() -> None:
    layout = RaggedLayout(SIZES)
    flat = torch.zeros(2, layout.total)
    flat[0, layout.offsets[2]] = torch.nan
    flat[1, layout.offsets[1] : layout.offsets[1] + 2] = -torch.inf
    ragged = RaggedLogits(flat, layout, (5,), STATES)
    expected = torch.zeros(2, 5, dtype=torch.bool)
    expected[0, 2] = expected[1, 1] = True
    assert torch.equal(ragged.undefined, expected)
    assert not bool(ragged.uniform_at(expected).undefined.any())
    assert_close(Posterior(ragged.uniform_at(expected)).probs[0, 2], torch.tensor([0.2] * 5 + [0.0]))


def test_losses_and_gradients_are_those_of_the_padded_network() -> None:
    """The same weights with logits (B, D, S) and with ragged ones: equal losses, equal gradients."""

    class Padded(nn.Module):
        def __init__(self, network: TableNetwork) -> None:
            super().__init__()
            self.network = network

        def forward(self, x: torch.Tensor, t: torch.Tensor) -> torch.Tensor:
            return self.network.layout.padded(self.network(x, t), 4)

    network = _network()
    process = Absorbing(4, LogLinear(), sizes=torch.tensor([2, 3, 2]))
    x0 = torch.tensor([[0, 2, 1], [1, 0, 0], [1, 1, 1]])
    for objective in (AnyOrderElbo(), CompleteElbo(), CompleteElbo(reconstruction=True)):
        found = []
        for denoiser in (RaggedDenoiser(network, 4), NetworkDenoiser(Padded(network))):
            loss = objective(ReverseProcess(process, denoiser), x0, generator=torch.Generator().manual_seed(0))
            found.append((loss.value.detach(), torch.autograd.grad(loss.mean(), list(network.parameters()))))
        (mine, gradient), (other, expected) = found
        assert_close(mine, other)
        for one, two in zip(gradient, expected, strict=True):
            assert_close(one, two, rtol=1e-4, atol=1e-6)


def _exact_law(reverse: ReverseProcess) -> torch.Tensor:
    """The law of rows drawn one site after another, averaged over all orders."""
    law = torch.zeros(2, 3, 2, dtype=torch.float64)
    for order in permutations(range(3)):
        for row in product(range(2), range(3), range(2)):
            x, probability = torch.full((1, 3), 3), 1.0
            for site in order:
                probability *= float(reverse.posterior(x, 0.5).probs[0, site, row[site]])
                x[0, site] = row[site]
            law[row] += probability / 6
    return law


@pytest.mark.parametrize("temperature", [1.0, 0.7])
def test_samples_have_the_law_of_the_model(temperature: float) -> None:
    denoiser = RaggedDenoiser(_network(), 4)
    process = Absorbing(4, LogLinear(), sizes=torch.tensor([2, 3, 2]))
    used = denoiser if temperature == 1 else Tempered(denoiser, temperature)
    assert not used.uses_time
    reverse = ReverseProcess(process, used)
    with torch.no_grad():
        law = _exact_law(reverse)
    for sampler, grid in ((FirstHitting(), [1.0, 0.0]), (Ancestral(), uniform_grid(300, end=1e-4))):
        generator = torch.Generator().manual_seed(0)
        x = sample(reverse, sampler, (20_000, 3), grid=grid, final="sample", generator=generator).x0
        places = (x[:, 0] * 3 + x[:, 1]) * 2 + x[:, 2]
        assert_drawn_from(places.bincount(minlength=12), law.reshape(-1))


def test_it_refuses_a_process_with_other_states_and_networks_without_a_layout() -> None:
    denoiser = RaggedDenoiser(_network(), 4)
    for sizes in (None, torch.tensor([2, 3, 3])):
        with pytest.raises(ValueError, match="the process has other data states: write Absorbing"):
            ReverseProcess(Absorbing(4, LogLinear(), sizes=sizes), denoiser)
    with pytest.raises(TypeError, match=r"write NetworkDenoiser\(network\)"):
        RaggedDenoiser(ResidualMLP(), 32)
    with pytest.raises(ValueError, match="num_states must be at least 3"):
        RaggedDenoiser(_network(), 2)


def test_weights_grow_with_the_total_number_of_states() -> None:
    """1,000 columns of two states, one of 1,000, or both together: no column makes the others larger."""

    def weights(sizes: list[int]) -> int:
        with torch.device("meta"):
            network = TableNetwork(sizes, width=16, hidden=16, depth=1)
        return sum(p.numel() for p in network.parameters())

    columns = {"wide": [2] * 1000, "long": [1000], "both": [2] * 1000 + [1000]}
    found = {name: weights(sizes) for name, sizes in columns.items()}
    assert found["both"] - found["wide"] == 1000 * (16 + 16 + 1) + 16  # in, out and bias of each state; one mask
    network = TableNetwork(columns["both"], width=16, hidden=16, depth=1)
    x = torch.zeros(2, 1001, dtype=torch.int64)
    posterior = RaggedDenoiser(network, 1001)(x, 0.5)
    assert posterior.log_prob(x).shape == (2, 1001)


def test_it_moves_and_copies_with_its_network() -> None:
    denoiser = copy.deepcopy(RaggedDenoiser(_network(), 4)).double()
    assert denoiser._layout[0] is denoiser.network.layout
    assert denoiser(torch.tensor([[3, 3, 3]]), 0.5).logits.dtype == torch.float64
    assert not any("layout" in name for name in denoiser.state_dict())  # it follows from the sizes


def test_some_sites_are_drawn_without_padding_to_the_largest() -> None:
    """The parts hold every site once, with its logits, and few states beside many cost what they cost alone."""
    sizes = [2] * 40 + [100, 3, 1]
    layout = RaggedLayout(sizes)
    flat = torch.randn(3, layout.total, generator=torch.Generator().manual_seed(0))
    posterior = Posterior(RaggedLogits(flat, layout, (len(sizes),), 101))
    sites = torch.randperm(3 * len(sizes), generator=torch.Generator().manual_seed(1))
    padded, seen, entries = posterior.at(sites), torch.zeros(len(sites), dtype=torch.int64), 0
    for part, logits in posterior.parametrisation.parts(sites):
        seen[part] += 1
        entries += logits.numel()
        width = logits.shape[1]
        assert torch.equal(logits, padded[part][:, :width])
        assert bool(padded[part][:, width:].isneginf().all())
    assert bool((seen == 1).all())
    assert entries < 2 * 3 * layout.total


def test_draws_of_some_sites_have_their_laws() -> None:
    sizes, draws = [2, 7, 3, 1, 7], 6000
    layout = RaggedLayout(sizes)
    flat = torch.randn(1, layout.total, generator=torch.Generator().manual_seed(0))
    posterior = Posterior(RaggedLogits(flat.expand(draws, -1), layout, (5,), 8))
    sites = torch.arange(draws * 5).view(draws, 5)[:, [4, 0, 3, 1]].reshape(-1)
    drawn = posterior.sample(sites, generator=torch.Generator().manual_seed(1)).view(draws, 4)
    counts = torch.stack([column.bincount(minlength=8) for column in drawn.T])
    assert_drawn_from(counts, posterior.probs[0, [4, 0, 3, 1]])
