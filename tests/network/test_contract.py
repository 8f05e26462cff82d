"""What holds of every network."""

import json

import numpy as np
import pytest
import torch
from torch import nn

from tauleap.network import MusicTransformer, Network, ResidualMLP, UNet


def test_gives_one_row_of_outputs_for_each_site(case) -> None:
    network = case.network()
    with torch.no_grad():
        out = network(case.x(), torch.rand(3))
    assert out.shape == (3, *case.shape, case.outputs)
    assert out.dtype == torch.float32
    assert out.isfinite().all()


def test_follows_the_dtype_of_its_parameters(case) -> None:
    for dtype in (torch.float64, torch.bfloat16):
        network = case.network().to(dtype)
        for time_dtype in (torch.float32, torch.float64):
            assert network(case.x(), torch.rand(3, dtype=time_dtype)).dtype == dtype


@pytest.mark.parametrize("pair", [(0.0, 1e-3), (0.3, 0.301), (0.2, 0.9), (0.999, 1.0)])
def test_depends_on_time(case, pair: tuple[float, float]) -> None:
    network, x = case.stirred(), case.x()
    one, other = (network(x, torch.full((3,), t)) for t in pair)
    assert ((one - other).abs().amax(-1) > 1e-9).all()


@pytest.mark.parametrize("build", [ResidualMLP, lambda: MusicTransformer(hidden=8, depth=1), lambda: UNet(width=8)])
def test_the_published_networks_depend_on_time_from_the_first_step(build) -> None:
    network = build().eval()
    x = torch.randint(32, {UNet: (1, 3, 32, 32), ResidualMLP: (1, 2)}.get(type(network), (1, 5)))
    assert not torch.allclose(network(x, torch.tensor([0.2])), network(x, torch.tensor([0.7])), rtol=1e-3, atol=1e-4)


def test_each_sample_has_its_own_time(case) -> None:
    network, x, t = case.stirred(), case.x(), torch.tensor([0.1, 0.5, 0.8])
    together = network(x, t)
    for i in range(3):
        torch.testing.assert_close(together[i : i + 1], network(x[i : i + 1], t[i : i + 1]))


def test_one_time_for_the_batch_is_that_time_for_each_sample(case) -> None:
    network, x = case.stirred(), case.x()
    expected = network(x, torch.full((3,), 0.4, dtype=torch.float64))
    torch.testing.assert_close(network(x, torch.tensor(0.4, dtype=torch.float64)), expected)
    torch.testing.assert_close(network(x, torch.tensor(0.4, dtype=torch.float64).expand(3)), expected)


def test_every_site_sees_every_site(case) -> None:
    network, x = case.stirred(), case.x(batch=1)
    sites = x.numel()
    changed = x.repeat(sites, *[1] * len(case.shape))
    index = torch.arange(sites)
    changed.view(sites, sites)[index, index] = (x.flatten() + 1) % case.num_states
    t = torch.tensor(0.4)
    difference = (network(changed, t) - network(x, t)).abs().amax(-1)
    assert (difference > 1e-12).all()


def test_output_depends_on_the_observed_mask(case) -> None:
    network, x, t = case.stirred(), case.x(), torch.rand(3)
    nothing = torch.zeros_like(x, dtype=torch.bool)
    torch.testing.assert_close(network(x, t), network(x, t, observed=nothing))
    first = nothing.clone()
    first.view(3, -1)[:, 0] = True
    last = nothing.clone()
    last.view(3, -1)[:, -1] = True
    outputs = [network(x, t, observed=mask) for mask in (nothing, first, last)]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert ((outputs[one] - outputs[other]).abs().amax(-1) > 1e-12).all()


@pytest.mark.parametrize("name", ["mlp", "music", "unet"])
def test_the_published_networks_ignore_the_observed_mask(name: str, all_cases) -> None:
    case = all_cases[name]
    with_mask, without_mask = case.network(), case.network(mark_observed=False)
    assert sum(p.numel() for p in with_mask.parameters()) > sum(p.numel() for p in without_mask.parameters())
    assert type(without_mask)().config["mark_observed"] is False
    x, t = case.x(), torch.rand(3)
    without_mask.eval()
    assert torch.equal(without_mask(x, t, observed=torch.ones_like(x, dtype=torch.bool)), without_mask(x, t))


def test_every_parameter_gets_a_gradient(case) -> None:
    """Also without a mask or a label: training over several processes waits for each of them."""
    network = case.network()
    network(case.x(), torch.rand(3)).sum().backward()
    assert all(parameter.grad is not None for parameter in network.parameters())


def test_is_a_function_when_evaluated_and_drops_out_when_trained(case) -> None:
    network, x, t = case.stirred(), case.x(), torch.rand(3)
    assert torch.equal(network(x, t), network(x, t))
    network.train()
    drops = any(isinstance(module, nn.Dropout) and module.p > 0 for module in network.modules())
    assert drops == (case.arguments.get("dropout", network.config.get("dropout", 0)) > 0)
    assert torch.equal(network(x, t), network(x, t)) is not drops
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        runs.append(network(x, t))
    assert torch.equal(*runs)


def test_is_rebuilt_from_its_configuration(case) -> None:
    network = case.stirred()
    config = json.loads(json.dumps(network.config))
    twin = type(network)(**config).double().eval()
    assert twin.config == network.config
    twin.load_state_dict(network.state_dict(), strict=True)
    x, t = case.x(), torch.rand(3)
    assert torch.equal(twin(x, t), network(x, t))


@pytest.mark.usefixtures("as_users_call")
def test_numbers_may_be_those_of_numpy(case) -> None:
    """As ``x.max() + 1`` of an array; the configuration holds Python's."""
    numbers = {name: np.int64(value) for name, value in case.arguments.items() if type(value) is int}
    shapes = {name: tuple(np.array(value)) for name, value in case.arguments.items() if isinstance(value, tuple)}
    network = case.network(**numbers, **shapes)
    assert json.loads(json.dumps(network.config)) == case.network().config


def test_its_configuration_cannot_be_changed_from_outside(case) -> None:
    network = case.network()
    network.config["num_states"] = 99
    assert network.config["num_states"] == case.num_states


@pytest.mark.usefixtures("as_users_call")
def test_input_of_the_wrong_kind_raises(case) -> None:
    network, x, t = case.network(), case.x(), torch.rand(3)
    with pytest.raises(TypeError, match=r"x must hold integers.*float32: write x\.long\(\)"):
        network(x.float(), t)
    with pytest.raises(TypeError, match=r"t must be floating.*int64"):
        network(x, torch.tensor([0, 1, 0]))
    with pytest.raises(ValueError, match=r"t must be a scalar or .*\(3,\).*got \(2,\)"):
        network(x, t[:2])
    with pytest.raises(ValueError, match=r"t must be a scalar.*got \(3, 1\)"):
        network(x, t[:, None])
    with pytest.raises(ValueError, match=r"observed must be a bool mask.*got torch.int64"):
        network(x, t, observed=torch.ones_like(x))
    with pytest.raises(ValueError, match="observed must be a bool mask"):
        network(x, t, observed=torch.ones(x.shape[1:], dtype=torch.bool))
    with pytest.raises(ValueError, match=r"x must be.*got \(3,\)"):
        network(x.flatten(1)[:, 0], t)


def test_is_abstract_or_final(case) -> None:
    assert getattr(type(case.network()), "__final__", False)
    with pytest.raises(TypeError, match="abstract"):
        Network()  # pyright: ignore[reportAbstractUsage]
