"""Networks built with ``time=False`` return the same for all times, and everything else knows it."""

import pytest
import torch
from torch import nn

from tauleap.denoise import Denoiser, Guided, NetworkDenoiser, RaggedDenoiser, Tempered
from tauleap.evaluate.likelihood import has_any_order
from tauleap.network import MusicTransformer, Network, ResidualMLP, SequenceTransformer, TableNetwork, UNet
from tauleap.noise import Absorbing, LogLinear
from tauleap.reverse import ReverseProcess

BUILT = {
    "mlp": (ResidualMLP, {"num_states": 5, "shape": (4,), "one_hot": True}, (4,)),
    "sequence": (SequenceTransformer, {"num_states": 5, "shape": (4,), "width": 8, "depth": 1, "heads": 2}, (4,)),
    "plain": (
        SequenceTransformer,
        {"num_states": 5, "shape": (4,), "width": 8, "depth": 1, "heads": 2, "plain": True, "mark_observed": False},
        (4,),
    ),
    "music": (MusicTransformer, {"num_states": 5, "width": 8, "heads": 2, "hidden": 8, "depth": 1}, (4,)),
    "unet": (UNet, {"num_states": 5, "image_channels": 1, "width": 4, "multipliers": (1, 1), "outputs": 5}, (1, 4, 4)),
    "table": (TableNetwork, {"sizes": [4, 4, 4, 4], "width": 8, "hidden": 8}, (4,)),
}


def _stirred(name: str, *, time: bool) -> tuple[Network, torch.Tensor]:
    """A network whose weights are all away from zero, and states."""
    build, options, shape = BUILT[name]
    torch.manual_seed(0)
    network = build(**options, time=time).eval()
    for weight in network.parameters():
        nn.init.normal_(weight, std=0.3)
    return network, torch.randint(5, (3, *shape), generator=torch.Generator().manual_seed(1))


def _denoiser(network: Network) -> Denoiser:
    return RaggedDenoiser(network, 5) if isinstance(network, TableNetwork) else NetworkDenoiser(network)


@pytest.mark.parametrize("name", BUILT)
def test_the_output_is_that_of_any_time(name: str) -> None:
    network, x = _stirred(name, time=False)
    first, second = (network(x, torch.full((3,), t)) for t in (0.1, 0.9))
    assert torch.equal(first, second)
    other, _ = _stirred(name, time=True)
    early, late = (other(x, torch.full((3,), t)) for t in (0.1, 0.9))
    assert not torch.allclose(early, late, atol=1e-3)


@pytest.mark.parametrize("name", BUILT)
def test_all_weights_are_trained_and_the_constructor_is_recorded(name: str) -> None:
    network, x = _stirred(name, time=False)
    network(x, torch.rand(3)).square().sum().backward()
    unused = [key for key, weight in network.named_parameters() if weight.grad is None]
    assert unused == []
    again = type(network)(**network.config)
    assert again.config == network.config
    assert not again.uses_time
    again.load_state_dict(network.state_dict())
    with_time = sum(weight.numel() for weight in _stirred(name, time=True)[0].parameters())
    assert sum(weight.numel() for weight in network.parameters()) < with_time


@pytest.mark.parametrize("name", BUILT)
def test_bounds_know_it(name: str) -> None:
    process = Absorbing(5, LogLinear())
    for time in (False, True):
        network, _ = _stirred(name, time=time)
        denoiser = _denoiser(network)
        assert denoiser.uses_time == time
        assert Tempered(denoiser, 0.5).uses_time == time
        assert has_any_order(ReverseProcess(process, denoiser)) == (not time)


def test_guidance_knows_it() -> None:
    for time in (False, True):
        network = SequenceTransformer(5, (4,), width=8, depth=1, heads=2, num_classes=2, time=time)
        assert Guided(NetworkDenoiser(network), 2.0, null_label=2).uses_time == time
