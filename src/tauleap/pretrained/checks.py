"""Compare a configuration with the weights before memory is allocated for the network.

A configuration of a few bytes can describe a network of any size. So the network is built without memory first, on
torch's meta device, and every shape is compared with the header of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook

from tauleap import _device
from tauleap.storage.config import IN_DENOISER, build, is_ours
from tauleap.storage.weights import Declared

_DENOISER = "denoiser."
_MATRIX_STATES = 2**13
"""States of a process that has an (S, S) matrix: one such matrix then has 512 MB."""
_STATES = 2**20
"""States of another process: the largest vocabularies of text have about 250,000."""
_SITES = 2**24
"""Sites of a sample: a colour image of 2,300 x 2,300 pixels."""
_MATRIX_CLASSES = ("Gaussian", "BirthDeath")
_CACHED_BYTES = 2**28
"""Bytes of tensors that a network creates in addition to its weights; ours create none."""


def check_process(description: Any, denoiser: Any) -> None:
    """Raise a ValueError if the process would take more memory than a model can need.

    Args:
        description: The process' part of the configuration.
        denoiser: The denoiser's part, whose networks must have as many states.
    """
    if not isinstance(description, dict):
        return
    states, name = description.get("num_states"), description.get("class")
    most = _MATRIX_STATES if name in _MATRIX_CLASSES else _STATES
    if isinstance(states, int) and states > most:
        raise ValueError(f"num_states of {name} must be <= {most:,}, got {states:,}")
    for other in _values(denoiser, "num_states"):
        if isinstance(states, int) and isinstance(other, int) and other != states:
            raise ValueError(f"num_states of {name} is {states:,}, but num_states of the denoiser is {other:,}")


def check_shape(shape: Any, denoiser: Any) -> None:
    """Raise a ValueError if a sample has another shape than the networks, or more sites than any data.

    Args:
        shape: The shape of a sample in the configuration; None where it has none.
        denoiser: The denoiser's part of the configuration.
    """
    if not isinstance(shape, list) or not all(isinstance(side, int) and side > 0 for side in shape):
        return
    for other in _values(denoiser, "shape"):
        if isinstance(other, list) and other != shape:
            raise ValueError(f"the shape of a sample is {tuple(shape)}, but that of its network is {tuple(other)}")
    if math.prod(shape) > _SITES:
        raise ValueError(f"a sample must have <= {_SITES:,} sites, got {math.prod(shape):,}")


def _values(description: Any, name: str) -> Iterator[Any]:
    """Yield every entry ``name`` of a description, at any depth."""
    if isinstance(description, dict):
        yield from (value for key, value in description.items() if key == name)
        yield from (found for value in description.values() for found in _values(value, name))
    elif isinstance(description, list):
        yield from (found for value in description for found in _values(value, name))


def check_denoiser(description: Any, weights: Mapping[str, Declared], own: Mapping[str, type]) -> None:
    """Raise a ValueError unless the weights have the names and shapes that the denoiser describes.

    Args:
        description: The denoiser's part of the configuration.
        weights: What the header of the weights declares.
        own: The user's own classes by their names.
    """
    placeholders = {
        name: torch.empty(shape, dtype=dtype, device=_device.META) for name, (dtype, shape) in weights.items()
    }
    try:
        with _at_most(2 * len(weights) + 100), _device.META:
            denoiser = build(description, placeholders, IN_DENOISER | dict(own))
    except (NotImplementedError, RuntimeError) as error:
        # A user's own class may read the values of its tensors, which the meta device does not have.
        if _device.META.type in str(error) and not is_ours(description):
            return
        raise
    if not isinstance(denoiser, nn.Module):
        return
    described = {f"{_DENOISER}{name}": tuple(tensor.shape) for name, tensor in denoiser.state_dict().items()}
    declared = {name: weight.shape for name, weight in weights.items() if name.startswith(_DENOISER)}
    for name in sorted(described.keys() | declared.keys()):
        expected, found = (sizes.get(name) for sizes in (described, declared))
        if expected != found:
            words = ("absent" if shape is None else f"of shape {shape}" for shape in (expected, found))
            raise ValueError(
                "the weights do not fit the configuration: {!r} must be {}, but it is {}".format(name, *words)
            )
    cached = sum(buffer.nbytes for name, buffer in denoiser.named_buffers() if f"{_DENOISER}{name}" not in declared)
    if cached > _CACHED_BYTES:
        raise ValueError(
            f"buffers of the network that are not in the file must have <= {_CACHED_BYTES:,} bytes, got {cached:,}"
        )


@contextmanager
def _at_most(number: int) -> Iterator[None]:
    """Raise ValueError in a constructor that creates more parameters than this, for instance with a depth of 10**9."""
    made = 0

    def count(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal made
        made += 1
        if made > number:
            raise ValueError("the weights do not fit the configuration, which describes many more tensors")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()
