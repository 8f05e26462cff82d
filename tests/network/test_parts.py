"""Time embedding, FiLM, rotary positions, encodings, and attention between pixels."""

import math

import pytest
import torch

from tauleap.network.inputs import FiLM, TimeEmbedding, normalise, one_hot, sinusoidal
from tauleap.network.rotary import Rotation
from tauleap.network.unet_blocks import PixelAttention


def test_sinusoidal_embedding_is_the_formula() -> None:
    position = torch.tensor([0.0, 0.5, 731.25], dtype=torch.float64)
    expected = [[f(p * 10000 ** (-k / 3)) for f in (math.sin, math.cos) for k in range(4)] for p in position.tolist()]
    torch.testing.assert_close(sinusoidal(position, 8), torch.tensor(expected, dtype=torch.float64))


def test_times_a_thousandth_apart_give_different_outputs() -> None:
    embedded = sinusoidal(1000 * torch.linspace(0, 1, 1001, dtype=torch.float64), 32)
    assert torch.pdist(embedded).min() > 0.5


def test_bfloat16_parameters_do_not_coarsen_time() -> None:
    embed = TimeEmbedding(32, 8, 8).bfloat16()
    seen = []
    embed.hidden.register_forward_hook(lambda _, inputs, __: seen.append(inputs[0]))
    embed(torch.tensor([0.7312]))
    torch.testing.assert_close(seen[0], sinusoidal(torch.tensor([731.2]), 32).bfloat16())


def test_film_begins_near_the_identity_and_acts_on_features() -> None:
    torch.manual_seed(0)
    film = FiLM(8, 3)
    h = torch.randn(2, 4, 5, 3)
    torch.testing.assert_close(film(torch.zeros(2, 8)).modulate(h), h)
    embedding = torch.randn(2, 8)
    scale, offset = film.linear(embedding).chunk(2, dim=-1)
    torch.testing.assert_close(film(embedding).modulate(h), scale[:, None, None] * h + offset[:, None, None])


def test_rotary_products_depend_on_distance_only() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(2, 1, 8, dtype=torch.float64)
    rotation = Rotation.of_length(10, 8, like=q)
    scores = rotation.rotate(q.expand(10, 8)) @ rotation.rotate(k.expand(10, 8)).T
    for distance in range(-9, 10):
        diagonal = scores.diagonal(distance)
        torch.testing.assert_close(diagonal, diagonal[:1].expand_as(diagonal))
    assert scores[0].unique().numel() == 10
    torch.testing.assert_close(rotation.rotate(q.expand(10, 8)).norm(dim=-1), q.norm().expand(10))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_encodings(dtype: torch.dtype) -> None:
    x = torch.tensor([[0, 2, 4]])
    assert torch.equal(normalise(x, 5, dtype), torch.tensor([[-1, 0, 1]], dtype=dtype))
    hot = one_hot(x, 5, dtype)
    assert hot.dtype == dtype
    assert torch.equal(hot, torch.nn.functional.one_hot(x, 5).to(dtype))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_pixel_attention_is_the_formula_with_its_gradients(dtype: torch.dtype) -> None:
    """In half precision too, where it is computed in another way; to the rounding of the numbers."""
    torch.manual_seed(0)
    attention, h = PixelAttention(16).double(), torch.randn(2, 16, 3, 4, dtype=torch.float64)
    torch.nn.init.normal_(attention.out.weight)
    pixels = attention.norm(h).flatten(2).transpose(1, 2)
    q, k, v = attention.qkv(pixels).chunk(3, dim=-1)
    update = attention.out((q @ k.transpose(1, 2) / math.sqrt(16)).softmax(-1) @ v)
    expected = (h + update.transpose(1, 2).reshape(h.shape)) / math.sqrt(2)
    wanted_grad = torch.autograd.grad(expected.square().sum(), attention.qkv.weight)[0]
    attention = attention.to(dtype)
    found = attention(h.to(dtype))
    grad = torch.autograd.grad(found.square().sum(), attention.qkv.weight)[0]
    error = 0.03 if dtype == torch.bfloat16 else 1e-5
    for one, other in ((found.detach(), expected.detach()), (grad, wanted_grad)):
        assert float((one.double() - other).norm() / other.norm()) < error
