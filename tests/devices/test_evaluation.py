"""Measures of models and samples are equal on an accelerator and on the CPU."""

import pytest
import torch
from torch import nn

from tauleap import Observed, ReverseProcess
from tauleap.denoise import ExactDenoiser
from tauleap.evaluate import (
    bits_per_dim,
    exact_law,
    exact_log_likelihood,
    frechet_distance,
    hellinger,
    independent_bits_per_dim,
    pushforward,
    row_hellinger,
    row_outliers,
)
from tauleap.network import MusicTransformer, ResidualMLP, SequenceTransformer, TimeExperts, UNet
from tauleap.sampling import TauLeaping, Trapezoidal, uniform_grid
from tauleap.testing import cases
from tests import simulated
from tests.devices.parts import SITES, assert_same, data, model, move, on_both


@pytest.mark.parametrize(
    ("each_sim", "name"),
    [("float64", name) for name in cases.of_every_kind()] + [("no float64", "absorbing"), ("no float64", "cycle")],
    indirect=["each_sim"],
)
def test_bits_per_dimension(each_sim, name):
    process = cases.of_every_kind()[name]

    def bits(reverse, x0, generator):
        estimate = bits_per_dim(reverse, x0, samples=3, batch_size=7, generator=generator)
        return estimate.value, estimate.stderr

    here, there = on_both(bits, each_sim, model(process), data(process))
    assert there == pytest.approx(here, rel=1e-4, nan_ok=True)  # a prior without all states has an infinite bound


def test_bits_per_datapoint_with_observed_and_missing_sites(each_sim):
    process = cases.of_every_kind()["absorbing"]
    x0 = data(process)
    mask = torch.zeros_like(x0, dtype=torch.bool)
    mask[:3, 0] = True

    def bits(reverse, x0, **named):
        return bits_per_dim(reverse, x0, samples=2, per_datapoint=True, **named).value.tolist()

    named = {"observed": Observed(mask, x0), "missing": mask.flip(0), "condition": torch.linspace(0, 1, len(x0))}
    here, there = on_both(bits, each_sim, model(process), x0, **named)
    assert there == pytest.approx(here, rel=1e-4)


def test_rows_may_stay_on_the_cpu(each_sim):
    """Each batch is moved to the device of the model."""
    process = cases.of_every_kind()["absorbing"]
    x0, reverse = data(process), move(model(process), each_sim)
    mask = torch.zeros_like(x0, dtype=torch.bool)
    mask[:3, 0] = True
    named = {"observed": Observed(mask, x0), "missing": mask.flip(0), "condition": torch.linspace(0, 1, len(x0))}
    with simulated.uploads() as found:
        there = bits_per_dim(reverse, x0, samples=2, generator=torch.Generator().manual_seed(0), **named)
    here = bits_per_dim(model(process), x0, samples=2, generator=torch.Generator().manual_seed(0), **named)
    assert there.value == pytest.approx(here.value, rel=1e-4)
    assert str(tuple(x0.shape)) not in found


@pytest.mark.parametrize(
    ("each_sim", "name"), [("float64", "birth/death"), ("no float64", "absorbing")], indirect=["each_sim"]
)
def test_exact_laws(each_sim, name):
    process = cases.of_every_kind()[name]
    law = cases.random_law(process.data_states.expand(SITES, -1), 1).float()
    reverse = ReverseProcess(process, ExactDenoiser(law, process))

    def numbers(reverse, x0, law):
        samplers = TauLeaping("last"), Trapezoidal()
        laws = [pushforward.sample_law(sampler, reverse, SITES, uniform_grid(2, end=0.1)) for sampler in samplers]
        found = (
            *laws,
            pushforward.reverse_chain_law(reverse, law, 0.1),
            exact_law(reverse, (SITES,), eps=0.1, tolerance=1e-3),
        )
        likelihood = exact_log_likelihood(reverse, x0, eps=0.1, tolerance=1e-3)
        return [each.double().flatten().tolist() for each in (*found, likelihood)]

    here, there = on_both(numbers, each_sim, reverse, data(process), law, seed=None)
    for ours, theirs in zip(here, there, strict=True):
        assert theirs == pytest.approx(ours, rel=1e-3, abs=1e-6)


def test_metrics(each_sim):
    one, other = torch.randint(3, (2, 200, 2), generator=torch.Generator().manual_seed(0))
    marginals = torch.tensor([[0.2, 0.3, 0.5]]).expand(2, -1).contiguous()

    def numbers(one, other, marginals, features):
        found = (
            hellinger(one, other),
            hellinger(one, marginals[0, :, None] * marginals[1]),
            frechet_distance(features, 2 * features),
        )
        means = row_hellinger(one, other).mean(), row_outliers(one, other).mean()
        bits = independent_bits_per_dim(one, marginals).mean()
        return [estimate.value for estimate in found] + [float(each) for each in (*means, bits)]

    features = torch.randn(60, 3, generator=torch.Generator().manual_seed(0))
    here, there = on_both(numbers, each_sim, one, other, marginals, features, seed=None)
    assert there == pytest.approx(here, rel=1e-5)


def networks() -> dict[str, tuple[nn.Module, tuple[int, ...]]]:
    torch.manual_seed(0)
    small = [ResidualMLP(5, (8,), mark_observed=True) for _ in range(2)]
    music = MusicTransformer(
        5, width=16, heads=2, hidden=16, depth=1, output_depth=1, time_hidden=16, mark_observed=True
    )
    return {
        "mlp": (small[0], (8,)),
        "mlp, one-hot": (ResidualMLP(5, (8,), one_hot=True), (8,)),
        "by time": (TimeExperts(small, at=[0.5]), (8,)),
        "sequence": (SequenceTransformer(5, (8,), width=16, depth=1, heads=2, num_classes=3), (8,)),
        "music": (music.eval(), (8,)),
        "u-net": (UNet(5, 1, width=32, multipliers=(1, 2), depth=1, mark_observed=True).eval(), (1, 8, 8)),
    }


@pytest.mark.parametrize("name", networks())
def test_networks(each_sim, name):
    network, shape = networks()[name]
    x = torch.randint(5, (4, *shape), generator=torch.Generator().manual_seed(1))
    named = {"condition": torch.tensor([0, 1, 2, 0])} if name == "sequence" else {}
    if name not in ("mlp, one-hot", "by time"):
        named["observed"] = x > 2

    def outputs(network, x, t, **named):
        out = network(x, t, **named)
        out.square().mean().backward()
        return out, [p.grad for p in network.parameters() if p.grad is not None]

    here, there = on_both(outputs, each_sim, network, x, torch.linspace(0.1, 0.9, 4), seed=None, **named)
    assert_same(here, there, each_sim)
