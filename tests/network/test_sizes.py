"""The defaults are the published sizes (Appendix H)."""

import pytest
import torch

from tauleap.network import MusicTransformer, Network, ResidualMLP, SequenceTransformer, UNet


def count(build: type[Network], **arguments) -> int:
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in build(**arguments).parameters())


def test_the_toy_has_16880_parameters() -> None:
    lift, read_out = 2 * 16 + 16, 16 * 64 + 64
    time = (32 * 32 + 32) + (32 * 128 + 128)
    block = (16 * 32 + 32) + (32 * 16 + 16) + 2 * 16 + (128 * 32 + 32)
    assert count(ResidualMLP) == lift + time + 2 * block + read_out == 16_880


def test_the_music_transformer_has_seven_million() -> None:
    assert count(MusicTransformer) == 7_008_769
    assert count(MusicTransformer) == pytest.approx(7.0e6, rel=0.01)


def test_the_unet_has_35_7_million() -> None:
    assert count(UNet) == 35_749_766
    assert count(UNet) == pytest.approx(35.7e6, rel=0.01)


def test_the_sequence_transformer_is_about_as_large_as_that_for_music() -> None:
    assert count(SequenceTransformer, num_states=129, shape=(256,)) == pytest.approx(7.5e6, rel=0.01)
