import math

import pytest
import torch

from tauleap.network import SequenceTransformer
from tauleap.network.rotary import Rotation

SMALL = {"width": 16, "depth": 2, "heads": 2}


def stirred(*arguments, **options) -> SequenceTransformer:
    torch.manual_seed(0)
    network = SequenceTransformer(*arguments, **SMALL, **options).double()
    for parameter in network.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    return network


@pytest.mark.parametrize("plain", [False, True])
def test_the_untrained_network_answers_uniformly_and_can_learn(plain: bool) -> None:
    torch.manual_seed(0)
    network = SequenceTransformer(5, (4,), **SMALL, plain=plain)
    x, t = torch.randint(5, (8, 4)), torch.rand(8)
    assert torch.equal(network(x, t), torch.zeros(8, 4, 5))
    optimizer = torch.optim.Adam(network.parameters(), lr=2e-2)
    for _ in range(40):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(x, t).flatten(0, 1), x.flip(1).flatten())
        loss.backward()
        optimizer.step()
    assert loss < 0.5 < math.log(5)


@pytest.mark.parametrize("plain", [False, True])
def test_the_class_counts_and_may_be_unknown(plain: bool) -> None:
    network = stirred(5, num_classes=3, plain=plain)
    x, t = torch.randint(5, (4, 6)), torch.rand(4)
    outputs = [network(x, t, condition=torch.full((4,), label)) for label in range(4)]
    for i in range(4):
        for j in range(i):
            assert ((outputs[i] - outputs[j]).abs().amax(-1) > 1e-9).all()
    torch.testing.assert_close(network(x, t), outputs[3])
    mixed = network(x, t, condition=torch.tensor([0, 1, 2, 3]))
    torch.testing.assert_close(mixed, torch.stack([outputs[i][i] for i in range(4)]))
    torch.testing.assert_close(network(x, t[0], condition=torch.tensor([0, 1, 2, 3]))[0], outputs[0][0])


@pytest.mark.usefixtures("as_users_call")
def test_invalid_labels_raise() -> None:
    x, t = torch.randint(5, (4, 6)), torch.rand(4)
    with pytest.raises(ValueError, match="build it with num_classes="):
        stirred(5)(x, t, condition=torch.zeros(4, dtype=torch.int64))
    network = stirred(5, num_classes=3)
    with pytest.raises(ValueError, match=r"condition must be \(4,\) integers.*got torch.float32"):
        network(x, t, condition=torch.zeros(4))
    with pytest.raises(ValueError, match=r"got torch.int64 of shape \(3,\)"):
        network(x, t, condition=torch.zeros(3, dtype=torch.int64))


@pytest.mark.parametrize("plain", [False, True])
def test_without_a_shape_takes_any(plain: bool) -> None:
    network = stirred(5, plain=plain)
    t = torch.rand(2, dtype=torch.float64)
    x = torch.randint(5, (2, 3, 4))
    torch.testing.assert_close(network(x, t).flatten(1, 2), network(x.flatten(1), t))


def test_with_a_shape_tells_sites_apart() -> None:
    """A row of equal states is the same everywhere to relative positions; only a learned vector names the column."""
    x = torch.zeros(1, 6, dtype=torch.int64)
    t = torch.tensor(0.5)
    relative, absolute = stirred(5)(x, t)[0], stirred(5, (6,))(x, t)[0]
    torch.testing.assert_close(relative, relative[:1].expand_as(relative))
    assert torch.pdist(absolute).min() > 1e-6
    with pytest.raises(ValueError, match=r"data with shape \(6,\), got \(1, 5\)"):
        stirred(5, (6,))(x[:, :5], t)


def test_observed_sites_are_marked_unless_the_network_does_not_take_them() -> None:
    x, t, mask = torch.randint(5, (2, 6)), torch.tensor(0.5), torch.arange(6).expand(2, -1) < 3
    for plain in (False, True):
        marked, unmarked = (stirred(5, plain=plain, mark_observed=mark) for mark in (True, False))
        assert not torch.allclose(marked(x, t, observed=mask), marked(x, t))
        assert torch.equal(unmarked(x, t, observed=mask), unmarked(x, t))


def test_plain_blocks_mix_five_neighbours_without_attention() -> None:
    """With attention and MLP at their start, zero, a site depends on the two sites before and after it alone."""
    torch.manual_seed(0)
    network = SequenceTransformer(5, **(SMALL | {"depth": 1}), plain=True, time=False).double()
    for parameter in (network.blocks[0].local.weight, network.output.weight):
        torch.nn.init.normal_(parameter)
    x, t = torch.randint(5, (1, 12)), torch.tensor(0.5)
    other = x.clone()
    other[0, 5] = (x[0, 5] + 1) % 5
    changed = (network(x, t) - network(other, t)).abs().amax(-1)[0] > 1e-12
    assert changed.nonzero().flatten().tolist() == [3, 4, 5, 6, 7]


def test_plain_blocks_are_recorded_and_others_keep_their_configuration() -> None:
    network = SequenceTransformer(5, (4,), **SMALL, plain=True, mark_observed=False)
    assert SequenceTransformer(**network.config).config == network.config
    former = SequenceTransformer(5, (4,), **SMALL).config
    assert set(former) == {"num_states", "shape", "width", "depth", "heads", "dropout", "num_classes"}


def test_the_start_of_plain_blocks_lets_the_states_through() -> None:
    """Untrained blocks add nothing, and the vectors of the sites are a tenth of those of the states."""
    torch.manual_seed(0)
    network = SequenceTransformer(5, (40,), **SMALL, plain=True)
    h = torch.randn(2, 40, 16)
    rotation = Rotation.of_length(40, 8, like=h)
    for block in network.blocks:
        assert torch.equal(block(h, rotation), h)
    assert 0.08 < float((network.sites.std() / network.input.weight.std()).detach()) < 0.15


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_states": 1}, "num_states must be"),
        ({"width": 30, "heads": 8}, "width must be a multiple of heads"),
        ({"width": 15, "heads": 5}, "heads of even size, got width=15 and heads=5"),
        ({"depth": 0}, "depth must be"),
        ({"num_classes": 0}, "num_classes must be a whole number >= 1, got 0"),
        ({"shape": (0,)}, "every entry of shape must be"),
        ({"dropout": 2.0}, "dropout must lie"),
    ],
)
def test_impossible_sizes_raise(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SequenceTransformer(**{"num_states": 5, **arguments})
