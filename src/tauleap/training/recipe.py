"""What is trained, in one frozen object; and how to tell two of them apart."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tauleap import _check
from tauleap._seeds import check_seed
from tauleap.data import Dataset
from tauleap.model import Model
from tauleap.objective import Objective
from tauleap.observed import Observed
from tauleap.storage.save import configuration
from tauleap.training.masking import RandomMasks


@dataclass(frozen=True)
class Batch:
    """What an objective is given: clean rows, and what is known, missing or told about them."""

    x0: Tensor
    observed: Observed | None = None
    missing: Tensor | None = None
    condition: Tensor | None = None


@dataclass(frozen=True)
class Settings:
    """Numbers of a training run. The first group decides the result; the second only what is kept and shown of it."""

    batch_size: int
    """Rows a step, over all devices together."""
    lr: float
    """Of Adam, after the warm-up."""
    seed: int = 0
    """Of the weights, the order of the data and all noise."""
    warmup: int = 0
    """Steps in which the learning rate grows from 0."""
    decay: int | None = None
    """Step by which the learning rate has fallen to a hundredth, along half a cosine; None: it does not fall."""
    clip: float | None = 1.0
    """The largest norm of the gradient."""
    betas: tuple[float, float] = (0.9, 0.999)
    """Of Adam."""
    ema: float = 0.9999
    """Decay of the moving average of the weights."""
    precision: str = "32-true"
    """As Lightning Fabric names it: "32-true", "bf16-mixed", "16-mixed", "64-true"."""

    steps: int = 100_000
    """Where to stop; a finished run goes on when this grows."""
    checkpoint_every: int = 1000
    log_every: int = 100
    validate_every: int | None = None
    validation_rows: int = 1024
    sample_every: int | None = None
    """Steps between pictures of samples, and one at the end; None: none at all."""
    samples: int = 64

    def __post_init__(self) -> None:
        for name in ("batch_size", "checkpoint_every", "log_every", "validation_rows", "samples"):
            _check.integer(name, getattr(self, name), least=1)
        for name in ("steps", "warmup"):
            _check.integer(name, getattr(self, name), least=0)
        check_seed(self.seed)
        for name in ("validate_every", "sample_every"):
            if getattr(self, name) is not None:
                _check.integer(name, getattr(self, name), least=1)
        if self.decay is not None and _check.integer("decay", self.decay, least=1) <= self.warmup:
            raise ValueError(f"decay must be a step after the warm-up of {self.warmup} steps, got {self.decay}")
        _check.positive("lr", self.lr)
        if self.clip is not None:
            _check.positive("clip", self.clip)

    def learning_rate(self, n: int) -> float:
        """That of the n-th step, counted from 0.

        >>> [round(Settings(32, lr=1.0, warmup=2, decay=6).learning_rate(n), 3) for n in range(8)]
        [0.5, 1.0, 1.0, 0.855, 0.505, 0.155, 0.01, 0.01]
        """
        grown = min(1.0, (n + 1) / max(self.warmup, 1))
        if self.decay is None:
            return self.lr * grown
        fallen = min(max(n - self.warmup, 0) / (self.decay - self.warmup), 1.0)
        return self.lr * grown * (_LEAST_RATE + (1 - _LEAST_RATE) * (1 + math.cos(math.pi * fallen)) / 2)


_LEAST_RATE = 0.01
_FREE = ("steps", "checkpoint_every", "log_every", "validate_every", "validation_rows", "sample_every", "samples")


@dataclass(frozen=True)
class Recipe:
    """Everything that decides what a training run gives, apart from the machine.

    Args:
        name: for messages.
        data: gives the rows to train with, and the rows to validate with or None.
        model: builds the model with fresh weights, drawn from torch's default generator.
        objective: the loss.
        settings: the numbers.
        prepare: what becomes of clean rows (and their condition) before the objective sees them: flips, given sites.
            All draws must be made through the generator.
        masking: which sites are given in training, drawn anew at each step; validation has nothing given.
        picture: samples -> bytes (height, width) or (height, width, 3), to look at while training.
    """

    name: str
    data: Callable[[], tuple[Dataset, Dataset | None]]
    model: Callable[[], Model]
    objective: Objective
    settings: Settings
    prepare: Callable[[Batch, torch.Generator], Batch] | None = None
    masking: RandomMasks | None = None
    picture: Callable[[Tensor], np.ndarray] | None = None


def resolved(recipe: Recipe, model: Model, train: Dataset, held_out: Dataset | None) -> dict[str, Any]:
    """The recipe as JSON can hold it, with everything spelt out that decides the result."""
    out = {
        "name": recipe.name,
        "model": configuration(model),
        "objective": plainly(recipe.objective),
        "prepare": plainly(recipe.prepare),
        "data": train.describe(),
        "held_out": None if held_out is None else held_out.describe(),
        "settings": asdict(recipe.settings),
    } | ({} if recipe.masking is None else {"masking": plainly(recipe.masking)})
    return json.loads(json.dumps(out))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What decides the result and is not the same, as lines "settings.lr: 0.001 -> 0.002"; empty where nothing is."""
    before, after = _flat(old), _flat(new)
    absent = object()
    lines = []
    for key in [*before, *(key for key in after if key not in before)]:
        section, _, rest = key.partition(".")
        free = section in ("name", "held_out") or (section == "settings" and rest in _FREE)
        a, b = before.get(key, absent), after.get(key, absent)
        # What a class has got since, and leaves out unless asked for, makes no difference.
        nothing = all(value is None or value is absent for value in (a, b))
        if a != b and not nothing and not free:
            was, now = (("(nothing)" if v is absent else json.dumps(v)) for v in (a, b))
            lines.append(f"{key}: {was} -> {now}")
    return lines


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    inner = {}
    for key, item in value.items():
        inner |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return inner


def plainly(value: object) -> Any:
    """An object by its class and attributes, a function by its name."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [plainly(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): plainly(item) for key, item in value.items()}
    if isinstance(value, functools.partial):
        return {"function": plainly(value.func), "arguments": plainly([value.args, value.keywords])}
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return {"class": type(value).__name__} | {name: plainly(item) for name, item in vars(value).items()}
