import pytest
import torch

from tauleap.network import MusicTransformer
from tauleap.network.inputs import FiLM

SMALL = {"width": 16, "heads": 2, "hidden": 32, "depth": 3, "time_hidden": 16, "time_width": 16}


def test_adds_the_one_hot_input_to_the_logits() -> None:
    network = MusicTransformer(9, **SMALL)
    torch.nn.init.zeros_(network.output.weight)
    torch.nn.init.zeros_(network.output.bias)
    x = torch.randint(9, (2, 5))
    assert torch.equal(network(x, torch.rand(2)), torch.nn.functional.one_hot(x, 9).float())


def test_one_film_layer_per_layer_used_twice_in_the_encoder() -> None:
    network = MusicTransformer(9, **SMALL, output_depth=2)
    assert sum(isinstance(module, FiLM) for module in network.modules()) == 3 + 2
    layer = network.encoder[0].eval()
    h, embedding = torch.randn(2, 4, 16), torch.randn(2, 16)
    modulation = layer.film(embedding)
    after_attention = modulation.modulate(layer.attention_norm(h + layer.attention(h)))
    expected = modulation.modulate(layer.mlp_norm(after_attention + layer.mlp(after_attention)))
    torch.testing.assert_close(layer(h, embedding), expected)


def test_takes_sequences_of_any_length_and_depends_on_positions() -> None:
    network = MusicTransformer(9, **SMALL).eval()
    t = torch.tensor(0.5)
    for length in (1, 3, 300):
        out = network(torch.zeros(1, length, dtype=torch.int64), t)
        assert out.shape == (1, length, 9)
    assert out[0].unique(dim=0).shape[0] > 250


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"heads": 7}, "width must be a multiple of heads, got width=128 and heads=7"),
        ({"width": 9, "heads": 3}, "width must be even, got 9"),
        ({"dropout": 1.0}, r"dropout must lie in \[0, 1\), got 1\.0"),
        ({"dropout": -0.1}, "dropout must lie"),
        ({"output_depth": 0}, "output_depth must be a whole number >= 1, got 0"),
        ({"num_states": 0}, "num_states must be"),
    ],
)
def test_impossible_sizes_raise(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        MusicTransformer(**arguments)


def test_images_raise() -> None:
    with pytest.raises(ValueError, match=r"x must be \(B, D\), a batch of sequences, got \(2, 3, 3\)"):
        MusicTransformer(9, **SMALL)(torch.zeros(2, 3, 3, dtype=torch.int64), torch.rand(2))
