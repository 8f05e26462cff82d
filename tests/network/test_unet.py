import math
from itertools import pairwise

import pytest
import torch

from tauleap.network import UNet
from tauleap.network.unet_blocks import ConvolutionBlock, PixelAttention, group_norm
from tauleap.storage.config import describe


@pytest.mark.parametrize(
    ("size", "multipliers"),
    [((32, 32), (1, 2, 2, 2)), ((28, 28), (1, 2, 2)), ((8, 8), [1, 2]), ((8, 4), (1, 1, 2)), ((5, 3), (2,))],
)
def test_takes_pictures_of_several_sizes(size: tuple[int, int], multipliers) -> None:
    network = UNet(17, 1, width=8, multipliers=multipliers, attention_levels=(len(multipliers) - 1,))
    with torch.no_grad():
        assert network(torch.randint(17, (2, 1, *size)), torch.rand(2)).shape == (2, 1, *size, 2)


def test_attention_is_at_16_x_16_and_in_the_middle() -> None:
    network = UNet(width=8)
    seen = []
    for module in network.modules():
        if isinstance(module, PixelAttention):
            module.register_forward_hook(lambda _, __, out: seen.append(tuple(out.shape[2:])))
    network(torch.zeros(1, 3, 32, 32, dtype=torch.int64), torch.rand(1))
    assert seen == [(16, 16)] * 2 + [(4, 4)] + [(16, 16)] * 3


def test_means_come_first_and_log_scales_second() -> None:
    network = UNet(17, 3, width=8, multipliers=(1,), attention_levels=())
    torch.nn.init.zeros_(network.output.weight)
    with torch.no_grad():
        network.output.bias.copy_(torch.tensor([0.0, 1, 2, 10, 11, 12]))
    out = network(torch.zeros(1, 3, 2, 2, dtype=torch.int64), torch.rand(1))
    for channel in range(3):
        assert (out[0, channel, ..., 0] == channel).all()
        assert (out[0, channel, ..., 1] == 10 + channel).all()


def test_can_give_logits() -> None:
    network = UNet(17, 2, width=8, multipliers=(1, 2), outputs=17)
    assert network(torch.zeros(1, 2, 4, 4, dtype=torch.int64), torch.rand(1)).shape == (1, 2, 4, 4, 17)


def picture_network(**more) -> UNet:
    torch.manual_seed(0)
    return UNet(6, width=8, multipliers=(1, 2, 2), outputs=6, depth=1, attention_levels=(), dropout=0.0, **more)


def test_the_mask_is_no_intensity() -> None:
    """It enters as nothing and an indicator: intensities are those of a network of one state less, in any dtype."""
    network = picture_network(image_channels=1, masked=True)
    x = torch.tensor([[[[0, 4, 5, 2]]]])
    assert network._encode(x, None).tolist() == [[[[-1.0, 1.0, 0.0, 0.0]], [[0.0, 0.0, 1.0, 0.0]]]]
    with pytest.raises(ValueError, match="num_states"):
        UNet(2, masked=True)


def test_sides_are_filled_up_and_cut_off() -> None:
    network = picture_network(image_channels=2, pad=True, masked=True, mark_observed=True)
    x, t = torch.randint(6, (2, 2, 5, 7)), torch.rand(2)
    assert network(x, t, observed=x > 2).shape == (2, 2, 5, 7, 6)
    whole = torch.randint(6, (2, 2, 8, 4))
    other = picture_network(image_channels=2, masked=True, mark_observed=True)
    torch.testing.assert_close(network(whole, t), other(whole, t))
    with pytest.raises(ValueError, match="or pad=True"):
        other(x, t)


def test_the_axis_of_channels_may_be_last_or_left_out() -> None:
    t = torch.rand(2)
    x = torch.randint(6, (2, 3, 8, 12))
    first, last = (picture_network(image_channels=3, mark_observed=True, channels_last=c) for c in (False, True))
    turned = last(x.movedim(1, -1), t, observed=(x > 2).movedim(1, -1))
    torch.testing.assert_close(turned.movedim(-2, 1), first(x, t, observed=x > 2))
    with pytest.raises(ValueError, match=r"\(B, H, W, 3\)"):
        last(x, t)
    grey = picture_network(image_channels=1, mark_observed=True)
    x = torch.randint(6, (2, 8, 12))
    torch.testing.assert_close(grey(x, t, observed=x > 2), grey(x[:, None], t, observed=x[:, None] > 2)[:, 0])


def test_patches_leave_where_they_entered() -> None:
    """Patches that are passed through unchanged give the picture again."""
    network = picture_network(image_channels=2, patch=2)
    x, seen = torch.randint(6, (2, 2, 16, 8)), []
    network.input.register_forward_pre_hook(lambda _, given: seen.append(given[0]))
    network.output.register_forward_hook(lambda *_: torch.cat([seen[0] * state for state in range(6)], 1))
    out = network(x, torch.rand(2))
    assert seen[0].shape == (2, 8, 8, 4)
    picture = network._encode(x, None)
    torch.testing.assert_close(out, torch.stack([picture * state for state in range(6)], -1))
    with pytest.raises(ValueError, match=r"multiples of 8.*a factor of 2 for patches.*got 12 x 8"):
        network(torch.zeros(1, 2, 12, 8, dtype=torch.int64), torch.rand(1))


def test_patches_may_be_filled_up_and_marked() -> None:
    network = picture_network(image_channels=2, patch=2, pad=True, masked=True, mark_observed=True).init_smooth_()
    x = torch.randint(6, (2, 2, 5, 7))
    out = network(x, torch.rand(2), observed=x > 2)
    assert out.shape == (2, 2, 5, 7, 6)
    assert not torch.equal(out, network(x, torch.rand(2)))


def test_labels_reach_every_picture_on_its_own() -> None:
    network = picture_network(image_channels=1, num_classes=3)
    x, t = torch.randint(6, (4, 8, 8)), torch.rand(4)
    torch.testing.assert_close(network(x, t, condition=torch.arange(4)), network(x, t))  # as long as nothing is learnt
    torch.nn.init.normal_(network.classes.weight)
    outputs = [network(x, t, condition=torch.full((4,), label)) for label in range(4)]
    assert all(not torch.equal(a, b) for a, b in pairwise(outputs))
    torch.testing.assert_close(outputs[3], network(x, t))
    mixed = network(x, t, condition=torch.arange(4))
    torch.testing.assert_close(mixed, torch.stack([outputs[label][label] for label in range(4)]))
    with pytest.raises(ValueError, match="build it with num_classes"):
        picture_network(image_channels=1)(x, t, condition=torch.arange(4))


def test_a_network_without_patches_is_described_as_before() -> None:
    """Runs of versions without labels can be resumed."""
    assert "patch" not in describe(picture_network(), "network")
    assert describe(picture_network(patch=2), "network")["patch"] == 2


def test_the_last_convolution_can_see_one_pixel() -> None:
    assert picture_network(output_kernel=1).output.weight.shape[2:] == (1, 1)
    with pytest.raises(ValueError, match="odd"):
        UNet(output_kernel=2)


def test_neighbouring_states_can_begin_alike() -> None:
    for kernel in (1, 3):
        network = UNet(64, 3, width=24, multipliers=(1,), attention_levels=(), outputs=64, output_kernel=kernel)
        steps = []
        for begin in (lambda: None, network.init_smooth_):
            begin()
            with torch.no_grad():
                logits = network(torch.arange(384).reshape(2, 3, 8, 8) % 64, torch.ones(2))
            steps.append(float(logits.diff(dim=-1).std() / logits.std()))
        assert steps[1] < 0.5 < 1 < steps[0]


def test_sums_are_rescaled_and_time_enters_between_the_convolutions() -> None:
    torch.manual_seed(0)
    block = ConvolutionBlock(8, 8, 4, dropout=0.0)
    h, embedding = torch.randn(2, 8, 4, 4), torch.randn(2, 4)
    inner = block.convolution_1(torch.nn.functional.silu(block.norm_1(h))) + block.time(embedding)[..., None, None]
    update = block.convolution_2(torch.nn.functional.silu(block.norm_2(inner)))
    torch.testing.assert_close(block(h, embedding), (h + update) / math.sqrt(2))
    attention = PixelAttention(8)
    torch.testing.assert_close(attention(h), h / math.sqrt(2))


def test_attention_is_softmax_attention_over_pixels() -> None:
    torch.manual_seed(0)
    attention, h = PixelAttention(8), torch.randn(2, 8, 2, 3)
    torch.nn.init.normal_(attention.out.weight)
    q, k, v = attention.qkv(attention.norm(h).flatten(2).mT).chunk(3, dim=-1)
    update = attention.out((q @ k.mT / math.sqrt(8)).softmax(-1) @ v)
    torch.testing.assert_close(attention(h), (h + update.mT.unflatten(-1, (2, 3))) / math.sqrt(2))


def test_groups_divide_the_channels() -> None:
    assert [group_norm(c).num_groups for c in (4, 8, 48, 128, 144, 384, 512)] == [1, 2, 4, 32, 4, 32, 32]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"width": 6}, "width must be a multiple of 4, for the group norm, got 6"),
        ({"multipliers": ()}, "multipliers must be one or more whole numbers"),
        ({"multipliers": (1, 0)}, "every entry of multipliers must be a whole number >= 1, got 0"),
        ({"attention_levels": (4,)}, r"attention_levels must be among \[0, 1, 2, 3\], got \[4\]"),
        ({"dropout": 1.5}, "dropout must lie"),
        ({"depth": 0}, "depth must be"),
        ({"outputs": 0}, "outputs must be"),
        ({"image_channels": 0}, "image_channels must be"),
    ],
)
def test_impossible_sizes_raise(arguments: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UNet(**arguments)


@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 3, 28, 28), "multiples of 8.*got 28 x 28: give UNet fewer multipliers"),
        ((1, 28, 28), r"x must be images \(B, 3, H, W\), got \(1, 28, 28\)"),
        ((1, 1, 32, 32), r"x must be images \(B, 3, H, W\)"),
    ],
)
def test_refuses_pictures_that_do_not_fit(shape: tuple[int, ...], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        UNet(width=8)(torch.zeros(shape, dtype=torch.int64), torch.rand(1))
