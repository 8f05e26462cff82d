"""The host waits for an accelerator at most twice per network evaluation, and once per training step."""

import pytest
import torch

import tauleap as tl
from tauleap import ReverseProcess
from tauleap.denoise import Denoiser, Posterior
from tauleap.testing import cases
from tests import simulated
from tests.devices import waits
from tests.devices.parts import move
from tests.devices.test_objectives import OBJECTIVES
from tests.devices.test_samplers import SAMPLERS, fits
from tests.devices.waits import waits_per_evaluation, waits_per_step

JUMP_BY_JUMP = ("uniformization",)
"""It selects sites and samples for every candidate, whose number does not depend on a grid, and searches until each
sample has its next candidate."""
KINDS = ("absorbing", "cycle")
"""One process per implementation of losses; ``make bench`` has more."""
UNIFORM = ("ancestral", "tau-leaping, last", "corrector", "first jump")
"""Samplers that select candidates under uniform noise."""
EVERY_TIME = "discrete time, all"
"""It evaluates the network once for each of its three times."""

TWO_STATES = ("complete with reconstruction", "paper, two passes", "subsampled")
"""They use logits at two states, whose masked sites are found one after the other."""


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("label", [label for label in SAMPLERS if label not in JUMP_BY_JUMP])
def test_samplers(sim, name, label):
    process = cases.of_every_kind()[name]
    if fits(SAMPLERS[label], process):
        assert waits_per_evaluation(sim, process, SAMPLERS[label]) <= 2


@pytest.mark.parametrize("rows", [12, 80])
@pytest.mark.parametrize("label", UNIFORM)
def test_candidates(sim, label, rows, monkeypatch):
    """One wait for the candidates and one for the sites that move, also where the rows of a batch are many."""
    monkeypatch.setattr(waits, "ROWS", rows)
    assert waits_per_evaluation(sim, cases.of_every_kind()["uniform"], SAMPLERS[label]) <= 2


def test_first_hitting_waits_once_per_step_of_the_grid(sim):
    """The times of all sites are sampled at once."""
    assert waits_per_evaluation(sim, cases.of_every_kind()["absorbing"], SAMPLERS["first hitting"]) <= 1


def test_the_draws_of_a_model_are_copied_without_waiting(sim):
    """The generator is on the CPU, and every random tensor is copied to the device."""
    model = tl.load("mnist-small")
    assert model.device == sim
    model.sample(2, steps=3, seed=0)
    with simulated.uploads() as found:
        model.sample(2, steps=3, seed=0)
    assert not found


@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("label", OBJECTIVES)
def test_training_steps(sim, name, label):
    allowed = 3 if label == EVERY_TIME else 1
    if name == "absorbing" and label in TWO_STATES:
        allowed = 2
    assert waits_per_step(sim, cases.of_every_kind()[name], OBJECTIVES[label]) <= allowed


@pytest.mark.parametrize("gap", [0.0, 60.0, 2000.0])
@pytest.mark.parametrize("name", ["birth/death", "cycle"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_underflow_at_the_true_x0_is_detected(sim, name, gap, dtype):
    """Logits down to -2,000 at the true x0: sums that underflow are computed in log space, as on the CPU."""
    process = cases.of_every_kind()[name]
    x0 = torch.randint(process.num_states, (6, 4), generator=torch.Generator().manual_seed(0))
    logits = torch.randn(6, 4, process.num_states, generator=torch.Generator().manual_seed(1), dtype=dtype)
    logits.scatter_add_(-1, x0[..., None], torch.full((6, 4, 1), -gap, dtype=dtype))
    t = torch.linspace(0.02, 0.9, 6, dtype=torch.float64)
    x = process.noise(x0, t, generator=torch.Generator().manual_seed(2))

    def divergence(there, device):
        given = logits.detach().clone().to(device).requires_grad_()
        out = there.divergence(x0.to(device), x.to(device), t.to(device), posterior=Posterior(given))
        out.sum().backward()
        assert given.grad is not None
        return out.detach().cpu(), given.grad.cpu()

    on_sim = move(ReverseProcess(process, Fixed()), sim)
    divergence(on_sim, sim)  # checks and tables that are made once
    with simulated.waits() as found:
        value, gradient = divergence(on_sim, sim)
    expected, expected_gradient = divergence(ReverseProcess(process, Fixed()), torch.device("cpu"))
    assert torch.isfinite(expected).all()
    looks = found.total() - found["to_cpu"]  # reading results, and the first look, are of this kind
    assert (looks > 0) == (gap > (50 if dtype == torch.float32 else 1000)), found
    torch.testing.assert_close(value, expected)
    torch.testing.assert_close(gradient, expected_gradient)


class Fixed(Denoiser):
    def forward(self, x_t, t, *, observed=None, condition=None):
        raise AssertionError("the posterior is given")
