"""Recipes: data, model, objective and settings of a training run, and how two recipes differ."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from tauleap import _check
from tauleap._files.printable import one_line
from tauleap._seeds import check_seed
from tauleap.data import Dataset
from tauleap.model import Model
from tauleap.objective import Objective
from tauleap.observed import Observed
from tauleap.storage.save import configuration
from tauleap.training.masking import RandomMasks

_MOST_SHOWN = 60
"""Characters of a value in a message about two recipes: the encoder of a table may have a million."""


@dataclass(frozen=True)
class Batch:
    """Hold a training batch, as the objective receives it.

    >>> Batch(torch.zeros(2, 3, dtype=torch.int64)).condition is None
    True

    Args:
        x0: Clean rows, (batch, *shape).
        observed: Observed sites and their values. Default: None, all sites are noised.
        missing: True at missing values, which are excluded from the loss. Default: None, no value is missing.
        condition: Condition of each row, such as a class label. Default: None.
    """

    x0: Tensor
    observed: Observed | None = None
    missing: Tensor | None = None
    condition: Tensor | None = None


@dataclass(frozen=True)
class Settings:
    """Hold settings of a training run.

    The settings up to ``precision`` decide the weights and cannot change when a run is resumed; the others can.

    >>> Settings(32, lr=1e-3, warmup=10).learning_rate(4)
    0.0005

    Raises:
        ValueError: A number is out of its range, or ``decay`` is not after the warm-up.
    """

    batch_size: int
    """Rows per training step over all devices, >= 1."""
    lr: float
    """Learning rate of Adam after the warm-up, > 0."""
    seed: int = 0
    """Seed of the weights, the data order and the noise, 0 to 2**63 - 1. Default: 0."""
    warmup: int = 0
    """Steps of linear warm-up of the learning rate, >= 0. Default: 0."""
    decay: int | Literal["end"] | None = None
    """Step at which a cosine decay of the learning rate ends, at a hundredth; "end" for the last of ``steps``. Default:
    None, no decay."""
    weight_decay: float | None = None
    """Decoupled weight decay of AdamW, > 0, in units of the learning rate. Default: None, no decay."""
    clip: float | None = 1.0
    """Largest norm of the gradient, > 0; None for no clipping. Default: 1."""
    betas: tuple[float, float] = (0.9, 0.999)
    """The betas of Adam, in [0, 1). Default: (0.9, 0.999)."""
    ema: float = 0.9999
    """Decay of the exponential moving average of the weights, in [0, 1). Default: 0.9999."""
    precision: str = "32-true"
    """Precision of the network: "32-true", "bf16-mixed", "16-mixed" or "64-true". Default: "32-true"."""

    steps: int = 100_000
    """Training steps in all, >= 0; a finished run is resumed if this is increased. Default: 100,000."""
    checkpoint_every: int = 1000
    """Steps between checkpoints, >= 1. Default: 1000."""
    log_every: int = 100
    """Steps between rows of the log, >= 1. Default: 100."""
    validate_every: int | None = None
    """Steps between measurements of bits/dim on held-out rows, >= 1. Default: None, no validation."""
    validation_rows: int = 1024
    """Held-out rows per validation, >= 1. Default: 1024."""
    sample_every: int | None = None
    """Steps between images of samples, >= 1, with one more at the end. Default: None, no samples."""
    samples: int = 64
    """Samples per image, >= 1. Default: 64."""

    def __post_init__(self) -> None:
        for name in ("batch_size", "checkpoint_every", "log_every", "validation_rows", "samples"):
            _check.integer(name, getattr(self, name), least=1)
        for name in ("steps", "warmup"):
            _check.integer(name, getattr(self, name), least=0)
        check_seed(self.seed)
        for name in ("validate_every", "sample_every"):
            if getattr(self, name) is not None:
                _check.integer(name, getattr(self, name), least=1)
        if isinstance(self.decay, str):
            if self.decay != "end":
                raise ValueError(f'decay must be a step, "end" or None, got {self.decay!r}')
        elif self.decay is not None and _check.integer("decay", self.decay, least=1) <= self.warmup:
            raise ValueError(f"decay must be > warmup, which is {self.warmup} steps, got {self.decay}")
        if self.weight_decay is not None:
            _check.positive("weight_decay", self.weight_decay)
        _check.positive("lr", self.lr)
        if self.clip is not None:
            _check.positive("clip", self.clip)

    def learning_rate(self, n: int) -> float:
        """Return the learning rate of a step.

        Args:
            n: The number of the step, from 0.

        >>> [round(Settings(32, lr=1.0, warmup=2, decay=6).learning_rate(n), 3) for n in range(8)]
        [0.5, 1.0, 1.0, 0.855, 0.505, 0.155, 0.01, 0.01]
        """
        grown = min(1.0, (n + 1) / max(self.warmup, 1))
        if self.decay is None:
            return self.lr * grown
        last = self.steps if self.decay == "end" else self.decay
        fallen = min(max(n - self.warmup, 0) / max(1, last - self.warmup), 1.0)
        return self.lr * grown * (_FINAL_FRACTION + (1 - _FINAL_FRACTION) * (1 + math.cos(math.pi * fallen)) / 2)


_FINAL_FRACTION = 0.01
_CHANGEABLE = ("steps", "checkpoint_every", "log_every", "validate_every", "validation_rows", "sample_every", "samples")


@dataclass(frozen=True)
class Recipe:
    """Hold everything that decides the result of a training run, apart from the machine.

    >>> from tauleap import recipes
    >>> recipes.toy().name
    'toy'

    Args:
        name: A name for messages.
        data: Returns the training rows, and the held-out rows or None.
        model: Returns the model with initial weights, drawn from torch's default generator.
        objective: The loss.
        settings: Batch size, learning rate, number of steps and the like.
        prepare: Modifies each batch before the objective, such as augmentation; all randomness must come from the
            generator. Default: None.
        masking: Draws the observed sites of each batch; validation has none. Default: None, no site is observed.
        picture: Returns an image, bytes (height, width) or (height, width, 3), of samples. Default: None, no images.
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
    """Return a recipe as JSON values, with everything that decides the result.

    Args:
        recipe: The recipe.
        model: Its model.
        train: Its training rows.
        held_out: Its held-out rows.
    """
    out = {
        "name": recipe.name,
        "model": configuration(model),
        "objective": to_jsonable(recipe.objective),
        "prepare": to_jsonable(recipe.prepare),
        "data": train.describe(),
        "held_out": None if held_out is None else held_out.describe(),
        "settings": asdict(recipe.settings),
    } | ({} if recipe.masking is None else {"masking": to_jsonable(recipe.masking)})
    return json.loads(json.dumps(out))


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what decides the result and differs, as lines such as "settings.lr: 0.001 -> 0.002"; long values are cut.

    Args:
        old: A result of :func:`resolved`.
        new: Another one.
    """
    before, after = _flat(old), _flat(new)
    absent = object()
    lines = []
    for key in [*before, *(key for key in after if key not in before)]:
        section, _, rest = key.partition(".")
        changeable = section in ("name", "held_out") or (section == "settings" and rest in _CHANGEABLE)
        # Dropout changes no weight; `fit` increases it with the budget, so that a longer budget can resume a run.
        changeable |= section == "model" and rest.endswith(".dropout")
        a, b = before.get(key, absent), after.get(key, absent)
        # A parameter that a later version added, at its default None, makes no difference.
        is_absent = all(value is None or value is absent for value in (a, b))
        if a != b and not is_absent and not changeable:
            was, now = ("(nothing)" if v is absent else one_line(json.dumps(v), most=_MOST_SHOWN) for v in (a, b))
            lines.append(f"{key}: {was} -> {now}")
    return lines


def _flat(value: Any, prefix: str = "") -> dict[str, Any]:
    if not isinstance(value, Mapping):
        return {prefix: value}
    inner = {}
    for key, item in value.items():
        inner |= _flat(item, f"{prefix}.{key}" if prefix else str(key))
    return inner


def to_jsonable(value: object) -> Any:
    """Return JSON values that describe an object: its class and attributes, or the name of a function.

    Args:
        value: The object.
    """
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, list | tuple):
        return [to_jsonable(item) for item in value]
    if isinstance(value, Mapping):
        return {str(key): to_jsonable(item) for key, item in value.items()}
    if isinstance(value, functools.partial):
        return {"function": to_jsonable(value.func), "arguments": to_jsonable([value.args, value.keywords])}
    if callable(value) and hasattr(value, "__qualname__"):
        return f"{value.__module__}.{value.__qualname__}"
    return {"class": type(value).__name__} | {name: to_jsonable(item) for name, item in vars(value).items()}
