"""What a run must remember to go on, gathered from the ranks and given back to them.

The weights and the optimizer's state come whole whether one process holds them, every process holds a copy, or each
holds a shard. Randomness follows from the seed and the step, so the states of the ranks' generators are kept only for
code of the user's that draws from them between steps.
"""

from __future__ import annotations

import io
from collections.abc import Mapping
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

from tauleap.training.ranks import gathered

FORMAT = 1
_WHOLE = StateDictOptions(full_state_dict=True, cpu_offload=True, strict=True)


def get_weights(network: nn.Module) -> dict[str, Tensor]:
    """The network's weights and buffers, whole, on the CPU; empty on ranks other than the first.

    They may share memory with the network: use them before it changes.
    """
    return cast(dict[str, Tensor], get_model_state_dict(network, options=_WHOLE))


def set_weights(network: nn.Module, weights: Mapping[str, Any]) -> None:
    """Gives weights back that :func:`get_weights` gave, on every rank."""
    set_model_state_dict(network, dict(weights), options=_WHOLE)


def get_optimizer(network: nn.Module, optimizer: Optimizer) -> dict[str, Any] | None:
    """The optimizer's state by the names of the weights; None before its first step."""
    if not optimizer.state:  # torch would make one by a step of its own, and count it
        return None
    return dict(get_optimizer_state_dict(network, optimizer, options=_WHOLE))


def set_optimizer(network: nn.Module, optimizer: Optimizer, state: dict[str, Any] | None) -> None:
    """Gives a state back that :func:`get_optimizer` gave."""
    if state is not None:
        set_optimizer_state_dict(network, optimizer, state, options=_WHOLE)


def get_rng(fabric: Fabric) -> dict[str, Tensor]:
    """The states of the default generators, one row a rank."""
    states = {"cpu": torch.get_rng_state()}
    if fabric.device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(fabric.device)
    return gathered(fabric, states)


def set_rng(fabric: Fabric, states: dict[str, Tensor]) -> None:
    """Gives the states back, where the run has as many ranks as it had."""
    if len(states["cpu"]) != fabric.world_size:
        return
    # Copied, because torch wants the state at the beginning of its memory.
    torch.set_rng_state(states["cpu"][fabric.global_rank].clone())
    if "cuda" in states and fabric.device.type == "cuda":
        torch.cuda.set_rng_state(states["cuda"][fabric.global_rank].clone(), fabric.device)


def to_bytes(state: dict[str, Any]) -> bytes:
    """As ``torch.save`` writes it."""
    buffer = io.BytesIO()
    torch.save({"format": FORMAT} | state, buffer)
    return buffer.getvalue()


def from_bytes(content: bytes) -> dict[str, Any]:
    """Reads it back; tensors and plain values only, nothing that could run code."""
    state = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    if state.get("format") != FORMAT:
        raise ValueError(f"the run's state has format {state.get('format')}, this version of tauleap reads {FORMAT}")
    return state
