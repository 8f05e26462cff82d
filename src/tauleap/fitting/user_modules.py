"""Check a network and a process that the user gave, before any time is spent on training."""

from __future__ import annotations

import math

import torch
from torch.nn.parameter import UninitializedBuffer, UninitializedParameter

from tauleap.data import Dataset
from tauleap.model import Model
from tauleap.network.arguments import unwrapped
from tauleap.pretrained.rebuild import OwnParts, find_own

_ROWS = 2


def check_own(model: Model, data: Dataset) -> OwnParts:
    """Return the user's own parts of a model, after one evaluation on noisy rows and after rebuilding them.

    Args:
        model: The model that is to be trained.
        data: The rows to train with, of which two are used.

    Raises:
        ValueError: The network has no weights to train, cannot take the states, or returns logits of another shape; or
            the process can have data in states without a value in the data format, such as a table's categories.
    """
    if model.form is not None and bool(model.process.data_states[..., data.num_states :].any()):
        raise ValueError(
            f"the process can have data in {model.num_states} states, but the data format has values for only "
            f"{data.num_states}: write a process of {data.num_states} states, not counting a mask"
        )
    name = type(unwrapped(getattr(model.denoiser, "network", model.denoiser))).__name__
    _check_weights(model, name)
    index = torch.arange(min(_ROWS, len(data)))
    condition = None if data.condition is None else data.condition[index]
    states = model.num_states
    # From the last state down: a mask is the last one, and rows of data do not have it.
    x = (-1 - torch.arange(len(index) * math.prod(data.shape))).remainder(states).reshape(len(index), *data.shape)
    sides = ", ".join(map(str, (*data.shape, states)))
    needed = f"it must take states 0..{states - 1} and return logits (batch, {sides})"
    mask = getattr(model.process, "mask", None)
    if mask is not None:
        needed += f"; state {mask} is the mask of {type(model.process).__name__}"
    try:
        with torch.no_grad():
            logits = model.denoiser(x, torch.full((len(x),), 0.5), condition=condition).logits
    except Exception as error:
        raise ValueError(f"the network {name} cannot be evaluated: {error}; {needed}") from error
    if logits.shape != (*x.shape, states):
        raise ValueError(f"the network {name} returns logits of shape {tuple(logits.shape)}: {needed}")
    return find_own(model, x, condition)


def _check_weights(model: Model, name: str) -> None:
    """Refuse a network that has no weights to train, or whose weights have no shape yet."""
    weights = list(model.denoiser.parameters())
    if any(isinstance(weight, UninitializedParameter | UninitializedBuffer) for weight in weights):
        raise ValueError(
            f"the network {name} has lazy layers whose sizes are not known: call it once with states and times first"
        )
    if not weights:
        raise ValueError(f"the network {name} has no weights to train: write layers with parameters into it")
    if not any(weight.requires_grad for weight in weights):
        raise ValueError(
            f"all weights of the network {name} are frozen, so that there is nothing to train: write "
            "network.requires_grad_(True)"
        )
