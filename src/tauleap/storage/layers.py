"""The layers of torch that a configuration may name; to build one runs no code from a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn
from torch.nn import functional
from torch.nn.modules import container
from torch.nn.modules.lazy import LazyModuleMixin

_PREFIX = "torch.nn."
_CONTAINERS = tuple(value for value in vars(container).values() if isinstance(value, type))
"""Containers of modules of any class, which a configuration describes one by one."""


def _layers() -> dict[str, type[nn.Module]]:
    """Return the layers of ``torch.nn.modules`` by name, without lazy ones, which change their class when used."""
    found = {f"{_PREFIX}{name}": value for name, value in vars(nn).items() if isinstance(value, type)}
    return {
        name: layer
        for name, layer in found.items()
        if issubclass(layer, nn.Module)
        and layer.__module__.startswith("torch.nn.modules.")
        and name == f"{_PREFIX}{layer.__name__}"
        and layer is not nn.Module
        and layer not in _CONTAINERS
        and not issubclass(layer, LazyModuleMixin)
    }


SEQUENTIAL = f"{_PREFIX}Sequential"
LAYERS: dict[str, type[nn.Module]] = _layers()
"""Layers by the names that they have in a configuration."""


def _recurrent(layer: Any) -> dict[str, Any]:
    names = ("input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout", "bidirectional")
    more = {"proj_size": layer.proj_size} if isinstance(layer, nn.LSTM) else {}
    more |= {"nonlinearity": layer.nonlinearity} if isinstance(layer, nn.RNN) else {}
    return {name: getattr(layer, name) for name in names} | more


def _attention(layer: Any) -> dict[str, Any]:
    names = ("embed_dim", "num_heads", "dropout", "add_zero_attn", "kdim", "vdim", "batch_first")
    biases = {"bias": layer.in_proj_bias is not None, "add_bias_kv": layer.bias_k is not None}
    return {name: getattr(layer, name) for name in names} | biases


def _encoder_layer(layer: Any) -> dict[str, Any]:
    activations = {functional.relu: "relu", functional.gelu: "gelu"}
    return {
        "d_model": layer.self_attn.embed_dim,
        "nhead": layer.self_attn.num_heads,
        "dim_feedforward": layer.linear1.out_features,
        "dropout": layer.dropout.p,
        "activation": activations.get(layer.activation, layer.activation),
        "layer_norm_eps": layer.norm1.eps,
        "batch_first": layer.self_attn.batch_first,
        "norm_first": layer.norm_first,
        "bias": layer.linear1.bias is not None,
    }


ARGUMENTS: dict[type, Callable[[Any], dict[str, Any]]] = {
    nn.RNN: _recurrent,
    nn.GRU: _recurrent,
    nn.LSTM: _recurrent,
    nn.MultiheadAttention: _attention,
    nn.TransformerEncoderLayer: _encoder_layer,
}
"""Functions that return the constructor arguments of layers whose attributes have other names than the arguments."""


def layer_name(cls: type) -> str | None:
    """Return the name of a layer of torch in a configuration; None for any other class.

    >>> layer_name(nn.Linear)
    'torch.nn.Linear'

    Args:
        cls: Any class.
    """
    name = f"{_PREFIX}{cls.__name__}"
    return name if LAYERS.get(name) is cls else None
