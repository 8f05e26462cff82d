"""Objects as JSON: a class by its name from a list, and the arguments of its constructor.

    {"class": "Gaussian", "num_states": 32, "schedule": {"class": "Exponential", "a": 5.0, "b": 5.0}, ...}

A tensor among the arguments is a buffer of the object, so its place in the weights is named instead:
``{"tensor": "process.law"}``.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, TypeVar

from torch import Tensor, nn

from tauleap.denoise import NetworkDenoiser, TruncatedLogistic
from tauleap.network import ByTime, MusicTransformer, ResidualMLP, SequenceTransformer, UNet
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Cosine,
    Dense,
    Exponential,
    Gaussian,
    LogLinear,
    RankOne,
    Uniform,
)

Class = TypeVar("Class", bound=type)

# For each class, the arguments of its constructor and the attributes that hold them.
_ATTRIBUTES: dict[type, dict[str, str]] = {
    Constant: {"beta": "beta"},
    Exponential: {"a": "a", "b": "b"},
    LogLinear: {},
    Cosine: {},
    Uniform: {"num_states": "num_states", "schedule": "schedule"},
    Absorbing: {"num_states": "num_states", "schedule": "schedule", "mask": "mask", "sizes": "sizes"},
    BirthDeath: {"num_states": "num_states", "schedule": "schedule", "rate": "rate"},
    Gaussian: {"num_states": "num_states", "schedule": "schedule", "sigma_0": "sigma_0", "sigma_r": "sigma_r"},
    RankOne: {"prior": "law", "schedule": "schedule"},
    Dense: {"generator": "rates", "schedule": "schedule", "prior": "law", "ordinal": "ordinal"},
    NetworkDenoiser: {"network": "network"},
    TruncatedLogistic: {"network": "network", "num_states": "num_states"},
    ByTime: {"networks": "networks", "at": "at"},
}
_WITH_CONFIG: list[type] = [ResidualMLP, MusicTransformer, UNet, SequenceTransformer]
_OURS: dict[str, type] = {cls.__name__: cls for cls in [*_ATTRIBUTES, *_WITH_CONFIG]}
_ALLOWED: dict[str, type] = dict(_OURS)


def allow(cls: Class) -> Class:
    """Lets models with your own class be saved and loaded by this program; can be written as a decorator.

    The class needs an attribute ``config`` with the arguments of its constructor as JSON can hold them; they may hold
    other allowed objects. A network that derives from :class:`tauleap.network.Network` has it already.

    >>> import torch
    >>> @allow
    ... class Table(torch.nn.Module):
    ...     def __init__(self, num_states):
    ...         super().__init__()
    ...         self.config = {"num_states": num_states}
    """
    if not isinstance(cls, type):
        raise TypeError(f"allow takes a class, got {cls!r}")
    if _OURS.get(cls.__name__, cls) is not cls:
        raise ValueError(f"tauleap has a class {cls.__name__!r} of its own: give yours another name")
    _ALLOWED[cls.__name__] = cls
    return cls


def describe(value: object, place: str) -> Any:
    """``value`` as JSON can hold it; ``place`` is what its tensors are called among the weights."""
    if isinstance(value, Tensor):
        return {"tensor": place}
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"{place} must be finite to be saved, got {value}")
        return value
    if isinstance(value, list | tuple | nn.ModuleList):
        return [describe(item, f"{place}.{index}") for index, item in enumerate(value)]
    cls = type(value)
    if _ALLOWED.get(cls.__name__) is not cls:
        raise TypeError(
            f"{place} is a {cls.__name__}, which is not among the classes that can be saved: "
            f"{', '.join(_ALLOWED)}; for a class of your own write tauleap.pretrained.allow({cls.__name__})"
        )
    if cls in _ATTRIBUTES:
        held = {name: (getattr(value, held), f"{place}.{held}") for name, held in _ATTRIBUTES[cls].items()}
    else:
        config = getattr(value, "config", None)
        if not isinstance(config, Mapping):
            raise TypeError(f"{cls.__name__} needs an attribute `config`, a dict of its constructor's arguments")
        held = {name: (argument, f"{place}.{name}") for name, argument in config.items()}
    return {"class": cls.__name__} | {name: describe(argument, key) for name, (argument, key) in held.items()}


def build(description: Any, tensors: Mapping[str, Tensor]) -> Any:
    """The object of a description that :func:`describe` gave, with weights as its constructor leaves them."""
    if isinstance(description, list):
        return [build(item, tensors) for item in description]
    if not isinstance(description, dict):
        return description
    if set(description) == {"tensor"}:
        place = description["tensor"]
        if not isinstance(place, str) or place not in tensors:
            raise ValueError(f"the weights have no tensor {place!r}, which the configuration names")
        return tensors[place]
    name = description.get("class")
    if not isinstance(name, str) or name not in _ALLOWED:
        raise ValueError(
            f"the configuration names the class {name!r}, which is not allowed: it must be one of "
            f"{', '.join(_ALLOWED)}; for a class of your own write tauleap.pretrained.allow(...) before loading"
        )
    arguments = {key: build(value, tensors) for key, value in description.items() if key != "class"}
    try:
        return _ALLOWED[name](**arguments)
    except TypeError as error:
        raise ValueError(f"the configuration of {name} does not fit its constructor: {error}") from error


def is_ours(description: Any) -> bool:
    """Whether every class that a description names is one of tauleap's own."""
    inner = description.values() if isinstance(description, dict) else description
    if isinstance(description, dict) and "class" in description and description["class"] not in _OURS:
        return False
    return not isinstance(description, dict | list) or all(map(is_ours, inner))
