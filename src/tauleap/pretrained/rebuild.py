"""Check that a model can be rebuilt from its files before it is trained."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from tauleap.model import Model
from tauleap.reverse import ReverseProcess
from tauleap.storage.config import IN_DENOISER, IN_PROCESS, build, describe, is_ours
from tauleap.storage.constructor import remedy


def check_rebuilds(model: Model, x: Tensor, condition: Tensor | None = None) -> list[type]:
    """Return the user's own classes in a model, after rebuilding it from its configuration and its weights.

    Args:
        model: The model that is to be trained and saved.
        x: A few rows of states, on which the rebuilt model must predict the same.
        condition: One entry per row for a conditional network. Default: None.

    Raises:
        TypeError: The arguments of a class cannot be recovered, or rebuild another object.
        ValueError: A class has a name that another one has.
    """
    own: dict[str, type] = {}
    described = {name: describe(getattr(model, name), name, own) for name in ("process", "denoiser")}
    if is_ours(list(described.values())):
        return []
    classes = list(own.values())
    weights = model.reverse.state_dict()
    try:
        with torch.random.fork_rng(devices=[]):
            process = build(described["process"], weights, IN_PROCESS | own)
            denoiser = build(described["denoiser"], weights, IN_DENOISER | own)
            rebuilt = Model(process, denoiser, shape=model.shape)
            denoiser.to(next((p.dtype for p in model.denoiser.parameters()), None))
            rebuilt.reverse.load_state_dict(weights, strict=True)
    except Exception as error:
        raise TypeError(f"{_names(classes)} cannot be rebuilt: {error}; {remedy(classes[-1])}") from error
    again = {name: describe(getattr(rebuilt, name), name) for name in described}
    changed = _difference(described, again)
    if changed is not None:
        raise TypeError(f"{changed} is another one after rebuilding {_names(classes)}: {remedy(classes[-1])}")
    first, second, other = (_predict(each, x, condition) for each in (model.reverse, model.reverse, rebuilt.reverse))
    # A network that is random in evaluation mode predicts differently by itself, and cannot be compared.
    if torch.equal(first, second) and not torch.allclose(first, other, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise TypeError(
            f"{_names(classes)} predicts something else after it is rebuilt from its arguments and its weights: hold "
            "tensors as parameters or buffers (self.register_buffer), and every other setting as an argument of "
            "__init__"
        )
    return classes


def _predict(reverse: ReverseProcess, x: Tensor, condition: Tensor | None) -> Tensor:
    training = reverse.training
    reverse.eval()
    try:
        with torch.no_grad():
            return reverse.rates(x, 0.5, condition=condition).float()
    finally:
        reverse.train(training)


def _difference(one: Any, other: Any, place: str = "") -> str | None:
    """Return the first place at which two descriptions differ; None where they are equal."""
    if one == other:
        return None
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return next(filter(None, (_difference(one[key], other[key], f"{place}.{key}".strip(".")) for key in one)))
    return place


def _names(classes: list[type]) -> str:
    return " and ".join(cls.__name__ for cls in classes)
