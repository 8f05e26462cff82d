"""The state that a run needs to resume, gathered from the ranks and distributed to them.

The functions return full weights and optimizer states, whether one process holds them, every process holds a copy, or
each holds a shard. Randomness is derived from the seed and the step, so the states of the ranks' generators are stored
only for user code that draws from them between steps.
"""

from __future__ import annotations

import io
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_optimizer_state_dict,
    set_model_state_dict,
    set_optimizer_state_dict,
)
from torch.optim import Optimizer

from tauleap import _device
from tauleap._files import safe_read
from tauleap.training.ranks import gathered

FORMAT = 1
REMEDY = "remove this checkpoint to resume from the one before it, or write another folder to start again"
_KINDS = {"weights": dict, "optimizer": dict | None, "rng": dict, "precision": dict, "pending": dict}
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True, strict=True)


def get_weights(network: nn.Module) -> dict[str, Tensor]:
    """Return the network's full weights and buffers on the CPU; empty on ranks other than the first.

    They may share memory with the network: use them before it changes.

    Args:
        network: The network, as Fabric has wrapped it.
    """
    return cast(dict[str, Tensor], get_model_state_dict(network, options=_WHOLE))


def set_weights(network: nn.Module, weights: Mapping[str, Any]) -> None:
    """Set the network's weights and buffers; every rank must call this.

    The order is the same on all ranks, because sharded weights are broadcast one after another, and the order in a file
    of weights differs between processes.

    Args:
        network: The network, as Fabric has wrapped it.
        weights: A result of :func:`get_weights`.
    """
    set_model_state_dict(network, {name: weights[name] for name in sorted(weights)}, options=_WHOLE)


def get_optimizer(network: nn.Module, optimizer: Optimizer) -> dict[str, Any] | None:
    """Return the optimizer's state by the names of the weights, None before its first step.

    Args:
        network: The network, as Fabric has wrapped it.
        optimizer: Its optimizer.
    """
    if not optimizer.state:  # torch would make one by a step of its own, and count it
        return None
    return dict(get_optimizer_state_dict(network, optimizer, options=_WHOLE))


def set_optimizer(network: nn.Module, optimizer: Optimizer, state: dict[str, Any] | None) -> None:
    """Set the optimizer's state.

    Args:
        network: The network, as Fabric has wrapped it.
        optimizer: Its optimizer.
        state: A result of :func:`get_optimizer`.
    """
    if state is not None:
        _check_groups(state, optimizer)
        set_optimizer_state_dict(network, optimizer, state, options=_WHOLE)


def _check_groups(state: dict[str, Any], optimizer: Optimizer) -> None:
    """Raise ValueError if the optimizer's settings differ from those of the run."""
    groups = state.get("param_groups")
    if not isinstance(groups, list) or len(groups) != len(optimizer.param_groups):
        raise ValueError(f"its optimizer must have {len(optimizer.param_groups)} parameter groups")
    for group, own in zip(groups, optimizer.param_groups, strict=True):
        # The learning rate is set at every step.
        for name, value in own.items():
            if name in ("params", "lr"):
                continue
            found = group.get(name) if isinstance(group, dict) else None
            found, value = (tuple(each) if isinstance(each, list) else each for each in (found, value))
            if type(found) is not type(value) or found != value:
                raise ValueError(f"its optimizer has another value of {name} than the recipe")


def get_rng(fabric: Fabric) -> dict[str, Tensor]:
    """Return the states of the default generators, one row per rank.

    Args:
        fabric: The processes of the run.
    """
    states = {each.type: _device.default_rng_state(each) for each in (_device.CPU, fabric.device)}
    return gathered(fabric, states)


def set_rng(fabric: Fabric, states: dict[str, Tensor]) -> None:
    """Set the states of the default generators, unless the number of ranks has changed.

    Args:
        fabric: The processes of the run.
        states: A result of :func:`get_rng`.
    """
    if len(states[_device.CPU.type]) != fabric.world_size:
        return
    for device in {_device.CPU, fabric.device}:
        if device.type in states:
            _device.set_default_rng_state(device, states[device.type][fabric.global_rank])


def to_bytes(state: dict[str, Any]) -> bytes:
    """Return a state as bytes, in the format of ``torch.save``.

    Args:
        state: The state.
    """
    buffer = io.BytesIO()
    torch.save({"format": FORMAT} | state, buffer)
    return buffer.getvalue()


def from_bytes(content: bytes, path: Path = Path("state.pt")) -> dict[str, Any]:
    """Return the state from bytes; only tensors and plain values are accepted, nothing that could run code.

    Args:
        content: The bytes of ``state.pt``.
        path: Its name in messages. Default: ``state.pt``.

    Raises:
        ValueError: It is damaged, or holds something else.
    """

    def describe(error: Exception) -> str:
        return "it must hold tensors and plain values"  # torch's own message advises to allow the file to run code

    with safe_read.explaining(path, REMEDY, describe=describe):
        _check_archive(content)
        state = torch.load(io.BytesIO(content), map_location=_device.CPU, weights_only=True)
        if not isinstance(state, dict):
            raise ValueError(f"it must hold the state of a run, got {type(state).__name__}")
        if state.get("format") != FORMAT:
            raise safe_read.OtherFormatError(path, state.get("format"), FORMAT)
        wrong = [key for key, kind in _KINDS.items() if key in state and not isinstance(state[key], kind)]
        if wrong:
            raise ValueError(f"its entry {wrong[0]} has the wrong type")
        _check_tensors(state)
        _check_moments(state)
    return state


def _check_archive(content: bytes) -> None:
    """Raise ValueError if the entries of an archive are compressed: torch writes them uncompressed."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > len(content):
        raise ValueError(f"it unpacks to {unpacked:,} bytes, more than its own {len(content):,}")


def _check_tensors(state: dict[str, Any]) -> None:
    """Raise ValueError for tensors with more numbers than stored bytes, such as expanded ones."""
    pending: list[Any] = [state]
    seen: set[int] = set()  # a list may hold itself
    while pending:
        value = pending.pop()
        if id(value) in seen:
            continue
        seen.add(id(value))
        pending += value.values() if isinstance(value, dict) else value if isinstance(value, list | tuple) else ()
        if isinstance(value, Tensor) and (
            value.layout != torch.strided or value.nbytes > value.untyped_storage().nbytes()
        ):
            raise ValueError(f"the file has fewer numbers than its tensor of shape {tuple(value.shape)} needs")


def _check_moments(state: dict[str, Any]) -> None:
    """Raise ValueError if the optimizer's moments have other shapes than the weights: its next step would fail."""
    weights, optimizer = state.get("weights"), state.get("optimizer")
    if weights is None or optimizer is None:
        return
    for name, moments in optimizer["state"].items():
        for moment, value in moments.items():
            shapes = ((), tuple(weights[name].shape))
            if not isinstance(value, Tensor) or tuple(value.shape) not in shapes:
                raise ValueError(f"{moment} of {name} does not have the shape {shapes[1]}")
