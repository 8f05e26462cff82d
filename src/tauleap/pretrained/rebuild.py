"""Find out before training which parts of a model its files can rebuild."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from tauleap._files import safe_read
from tauleap.model import Model
from tauleap.reverse import ReverseProcess
from tauleap.storage.config import (
    IN_DENOISER,
    IN_PROCESS,
    build,
    describe,
    is_marked,
    is_ours,
    mark_not_rebuildable,
    rebuilt_part,
)
from tauleap.storage.constructor import remedy


@dataclass(frozen=True)
class OwnParts:
    """Hold the user's own classes in a model, and the parts that its files cannot rebuild.

    Args:
        classes: The argument ``classes`` of ``load``. Default: none.
        lacking: For each of "process" and "network" that cannot be rebuilt, its class and the reason. Default: none.
    """

    classes: tuple[type, ...] = ()
    lacking: Mapping[str, tuple[str, str]] = field(default_factory=dict)

    def lines(self, folder: str) -> list[str]:
        """Return one line per part that cannot be rebuilt, with the call that loads it.

        Args:
            folder: Where the model is saved.
        """
        return [
            f"{name}: {cls} cannot be rebuilt from its file ({why}): write tauleap.load({folder!r}, {name}={cls}(...))"
            for name, (cls, why) in self.lacking.items()
        ]

    def mark(self, model: Model) -> Model:
        """Return the model, whose parts that cannot be rebuilt are only named when it is saved.

        Args:
            model: A model with the same parts.
        """
        for name in self.lacking:
            mark_not_rebuildable(_part(model, name))
        return model

    def to_load(self, model: Callable[[], Model]) -> dict[str, Any]:
        """Return the arguments of ``load`` for this model: its classes, and parts that receive the weights.

        Args:
            model: Returns a new model with the same parts.
        """
        made = model() if self.lacking else None
        parts = {} if made is None else {name: _part(made, name) for name in self.lacking}
        return {"classes": self.classes} | parts


def find_own(model: Model, x: Tensor, condition: Tensor | None = None) -> OwnParts:
    """Return the user's own parts of a model, after rebuilding each from its configuration and its weights.

    Args:
        model: The model that is to be trained and saved.
        x: A few rows of states, on which a rebuilt part must predict the same.
        condition: One entry per row for a conditional network. Default: None.
    """
    own: dict[str, type] = {}
    lacking: dict[str, tuple[str, str]] = {}
    for name in ("process", "network"):
        found = dict(own)
        try:
            _check_part(model, name, x, condition, found)
        except Exception as error:  # any class: a constructor of the user may raise anything
            lacking[name] = type(_part(model, name)).__name__, safe_read.one_line(str(error))
        else:
            own |= found
    return OwnParts(tuple(own.values()), lacking)


def _part(model: Model, name: str) -> nn.Module:
    return model.process if name == "process" else rebuilt_part(model.denoiser)


def _check_part(model: Model, name: str, x: Tensor, condition: Tensor | None, own: dict[str, type]) -> None:
    """Raise an error unless a part of the model is the same after it is rebuilt; add its classes to ``own``."""
    part = _part(model, name)
    if is_marked(part):
        raise TypeError(f"{type(part).__name__} was passed to load as an instance")
    place = name if name == "process" else "denoiser" if part is model.denoiser else "denoiser.network"
    described = describe(part, place, own)
    if is_ours(described) and "torch.nn." not in json.dumps(described):
        return
    weights = model.reverse.state_dict()
    with torch.random.fork_rng(devices=[]):
        rebuilt = build(described, weights, (IN_PROCESS if name == "process" else IN_DENOISER) | own)
    rebuilt.to(next((p.dtype for p in part.parameters()), None))
    rebuilt.load_state_dict(part.state_dict(), strict=True)
    changed = _difference(described, describe(rebuilt, place))
    if changed is not None:
        raise TypeError(f"its argument {changed!r} has another value after it is rebuilt{remedy(type(part))}")
    before = _predict(model.reverse, x, condition)
    # A network that is random in evaluation mode predicts differently by itself, and cannot be compared.
    if not torch.equal(before, _predict(model.reverse, x, condition)):
        return
    process = rebuilt if name == "process" else model.process
    denoiser = model.denoiser
    if name == "network":
        denoiser = copy.copy(model.denoiser)
        denoiser._modules = model.denoiser._modules | {"network": rebuilt}
        denoiser = rebuilt if part is model.denoiser else denoiser
    after = _predict(ReverseProcess(process, denoiser), x, condition)
    if not torch.allclose(before, after, rtol=1e-4, atol=1e-5, equal_nan=True):
        raise TypeError(
            "its predictions change when it is rebuilt from its arguments and weights: register tensors as parameters "
            "or buffers (self.register_buffer), and make every other setting an argument of __init__"
        )


def _predict(reverse: ReverseProcess, x: Tensor, condition: Tensor | None) -> Tensor:
    training = reverse.training
    reverse.eval()
    try:
        with torch.no_grad():
            return reverse.rates(x, 0.5, condition=condition).float()
    finally:
        reverse.train(training)


def _difference(one: Any, other: Any, place: str = "") -> str | None:
    """Return the first entry in which two descriptions differ; None if they are equal."""
    if one == other:
        return None
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        return next(filter(None, (_difference(one[key], other[key], f"{place}.{key}".strip(".")) for key in one)))
    return place
