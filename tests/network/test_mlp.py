import pytest
import torch

from tauleap.network import ResidualMLP


def test_unordered_states_differ_only_as_indicators() -> None:
    """Of numbers, the first layer can only make something linear in the state; of indicators, anything."""
    x = torch.arange(5)[:, None]
    for one_hot, rank in ((False, 1), (True, 4)):
        torch.manual_seed(0)
        network = ResidualMLP(5, (1,), one_hot=one_hot)
        seen = []
        network.input.register_forward_hook(lambda _, __, out, seen=seen: seen.append(out))
        network(x, torch.tensor(0.5))
        assert torch.linalg.matrix_rank(seen[0] - seen[0].mean(0), atol=1e-5) == rank


def test_widths_can_be_set() -> None:
    network = ResidualMLP(
        3, [2, 2], width=24, hidden=40, depth=3, time_size=8, time_hidden=12, time_width=20, one_hot=True
    )
    assert network.input.in_features == 12
    assert len(network.blocks) == 3
    assert network(torch.zeros(2, 2, 2, dtype=torch.int64), torch.rand(2)).shape == (2, 2, 2, 3)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_states": 1}, "num_states must be a whole number >= 2, got 1"),
        ({"shape": ()}, r"shape must be one or more whole numbers.*got \(\)"),
        ({"shape": (2, 0)}, "every entry of shape must be a whole number >= 1, got 0"),
        ({"shape": 2}, "got 2"),
        ({"width": 0}, "width must be a whole number >= 1, got 0"),
        ({"depth": -1}, "depth must be"),
        ({"hidden": 2.5}, r"hidden must be a whole number >= 1, got 2\.5 of type float"),
        ({"time_size": 7}, "time_size must be even, got 7"),
    ],
)
@pytest.mark.usefixtures("as_users_call")
def test_impossible_sizes_raise(arguments: dict, message: str) -> None:
    with pytest.raises(TypeError if "of type" in message else ValueError, match=message):
        ResidualMLP(**arguments)


def test_another_shape_raises() -> None:
    with pytest.raises(ValueError, match=r"x must be \(B, 2\), got \(3, 4\)"):
        ResidualMLP()(torch.zeros(3, 4, dtype=torch.int64), torch.rand(3))
