"""Compare a configuration with the weights before memory is taken for what it describes.

A configuration of a few bytes can describe a network of any size. So the network is built without memory first, on
torch's meta device, and every shape is compared with the header of the weights.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from tauleap.pretrained.config import build, is_ours
from tauleap.pretrained.weights import Declared

_DENOISER = "denoiser."
_MATRIX_STATES = 2**13
"""States of a process that has an (S, S) matrix: one such matrix then has 512 MB."""
_STATES = 2**20
"""States of another process: the largest vocabularies of text have about 250,000."""
_MATRIX_CLASSES = ("Gaussian", "BirthDeath")
_CACHED_BYTES = 2**28
"""Of tensors that a network makes beside its weights; ours make none."""


def check_process(description: Any) -> None:
    """Raise a ValueError if the process would take more memory than a model can need."""
    if not isinstance(description, dict):
        return
    states, name = description.get("num_states"), description.get("class")
    most = _MATRIX_STATES if name in _MATRIX_CLASSES else _STATES
    if isinstance(states, int) and states > most:
        raise ValueError(f"the configuration of {name} has {states:,} states, it may have at most {most:,}")


def check_denoiser(description: Any, weights: Mapping[str, Declared]) -> None:
    """Raise a ValueError unless the weights have the names and shapes that the denoiser describes.

    Args:
        description: The denoiser's part of the configuration.
        weights: What the header of the weights declares.
    """
    placeholders = {name: torch.empty(shape, dtype=dtype, device="meta") for name, (dtype, shape) in weights.items()}
    try:
        with _at_most(2 * len(weights) + 100), torch.device("meta"):
            denoiser = build(description, placeholders)
    except (NotImplementedError, RuntimeError) as error:
        # A class of the user's own may look at the values of its tensors, which the meta device does not have.
        if "meta" in str(error) and not is_ours(description):
            return
        raise
    if not isinstance(denoiser, nn.Module):
        return
    described = {f"{_DENOISER}{name}": tuple(tensor.shape) for name, tensor in denoiser.state_dict().items()}
    declared = {name: weight.shape for name, weight in weights.items() if name.startswith(_DENOISER)}
    for name in sorted(described.keys() | declared.keys()):
        wanted, there = described.get(name), declared.get(name)
        if wanted != there:
            words = ("nothing" if shape is None else f"shape {shape}" for shape in (wanted, there))
            raise ValueError("the weights do not fit its configuration: {!r} is {} there, but {}".format(name, *words))
    cached = sum(buffer.nbytes for name, buffer in denoiser.named_buffers() if f"{_DENOISER}{name}" not in declared)
    if cached > _CACHED_BYTES:
        raise ValueError(
            f"the network takes {cached:,} bytes beside its weights, at most {_CACHED_BYTES:,} are allowed"
        )


@contextmanager
def _at_most(number: int) -> Iterator[None]:
    """Stop a constructor that makes more parameters than this: a depth of 10**9 would take memory and hours."""
    made = 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal made
        made += 1
        if made > number:
            raise ValueError("the weights do not fit its configuration: it describes many more tensors than there are")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
