"""The layers of torch that a configuration may name: they hold weights or nothing, and run no code of a file."""

from __future__ import annotations

from torch import nn

_PREFIX = "torch.nn."
_LAYERS: tuple[type[nn.Module], ...] = (
    *(nn.Linear, nn.Bilinear, nn.Embedding, nn.Identity, nn.Flatten, nn.Unflatten),
    *(nn.Conv1d, nn.Conv2d, nn.Conv3d),
    *(nn.LayerNorm, nn.GroupNorm, nn.BatchNorm1d, nn.BatchNorm2d),
    *(nn.Dropout, nn.Dropout1d, nn.Dropout2d),
    *(nn.ReLU, nn.LeakyReLU, nn.GELU, nn.SiLU, nn.ELU, nn.Mish, nn.Softplus, nn.Sigmoid, nn.Tanh),
)
SEQUENTIAL = f"{_PREFIX}Sequential"
LAYERS: dict[str, type[nn.Module]] = {f"{_PREFIX}{layer.__name__}": layer for layer in _LAYERS}
"""Layers by the names that they have in a configuration."""


def layer_name(cls: type) -> str | None:
    """Return the name of one of these layers in a configuration; None for any other class.

    >>> layer_name(nn.Linear)
    'torch.nn.Linear'

    Args:
        cls: Any class.
    """
    name = f"{_PREFIX}{cls.__name__}"
    return name if LAYERS.get(name) is cls else None
