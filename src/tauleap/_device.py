"""Everything that depends on devices: which exist, and what they support.

Three rules follow from the capabilities of a device; no other module depends on its type:

* Kernels and times are computed in float64, where :func:`exact_device` says: on the device, or on the CPU for a device
  without float64 (Apple's mps), which then uses them in float32.
* Draws are made where the generator lives, in float64. :func:`generator_device` says where a new one is to live.
* The values of a tensor are checked at once where :func:`is_host` says so. Elsewhere the host would have to wait for
  them: such checks are left out, or collected on the device and made once per call.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache, wraps
from typing import ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from tauleap._seeds import check_seed

_P = ParamSpec("_P")
_R = TypeVar("_R")
CPU = torch.device("cpu")
META = torch.device("meta")
"""Tensors with a shape and no values."""


def resolve(device: str | torch.device = "auto") -> torch.device:
    """Return the device that a name stands for, after a check that this machine has it.

    Args:
        device: "auto" for the accelerator of this machine (cuda, mps, xpu, ...), or the CPU where there is none; or a
            device, or its name, such as "cpu", "cuda" or "cuda:1". Default: "auto".

    Returns:
        The device, with an index only where one was given.

    Raises:
        TypeError: ``device`` is neither a name nor a ``torch.device``.
        ValueError: No such device is known, or this machine does not have it.

    >>> resolve("cpu")
    device(type='cpu')
    """
    if isinstance(device, str) and device == "auto":
        found = torch.accelerator.current_accelerator() if torch.accelerator.is_available() else None
        return CPU if found is None else found
    if not isinstance(device, str | torch.device):
        raise TypeError(f"device must be a name such as 'cuda', or a torch.device, got {type(device).__name__}")
    try:
        chosen = torch.device(device)
        # torch stores the index in 8 bits, and reads cuda:300 as cuda:44.
        if isinstance(device, str) and ":" in device and int(device.rpartition(":")[2]) != chosen.index:
            raise ValueError(f"device {device!r} does not exist: device numbers start at 0, as in cuda:0")
    except RuntimeError as error:
        raise ValueError(
            f"device must be auto, cpu, cuda, mps, xpu or another type of PyTorch, got {str(device)!r}: write auto for "
            "the default"
        ) from error
    count = count_devices(chosen.type)
    if count == 0:
        raise ValueError(f"device {str(chosen)!r} is not available on this machine, {_available()}")
    if chosen.index is not None and not 0 <= chosen.index < count:
        raise ValueError(
            f"device {str(chosen)!r} does not exist: this machine has {count} of type {chosen.type}, numbered from 0"
        )
    return CPU if chosen.type == "cpu" else chosen


def count_devices(kind: str) -> int:
    """Return how many devices of a type this machine has; 1 for the CPU, however many cores it has.

    Args:
        kind: the type, such as "cuda".
    """
    if kind == "cpu":
        return 1
    try:
        module = torch.get_device_module(kind)
    except RuntimeError:  # a type that PyTorch names without having it, such as meta
        return 0
    return int(module.device_count()) if module.is_available() else 0


def cpu_by_default(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Make a public function create new tensors on the CPU, for any default device of the user.

    The function moves them itself. If the default is the CPU, nothing is done, which is faster.

    Args:
        function: any function or method.
    """

    @wraps(function)
    def call(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        if is_host(torch.get_default_device()):
            return function(*args, **kwargs)
        with CPU:
            return function(*args, **kwargs)

    return call


def is_host(device: torch.device) -> bool:
    """Return whether a device is the CPU, where values of tensors can be read without waiting.

    Args:
        device: any device.
    """
    return device.type == "cpu"


@cache
def has_float64(device: torch.device) -> bool:
    """Return whether a device computes in float64, which mps does not; found out by trying, once per device.

    Args:
        device: a device of this machine.
    """
    try:
        # Computed with, since some devices of xpu hold float64 without computing in it.
        torch.zeros(1, dtype=torch.float64, device=device).add_(1.0)
    except (TypeError, RuntimeError):
        return False
    return True


@cache
def _has_generators(device: torch.device) -> bool:
    try:
        torch.Generator(device)
    except (NotImplementedError, RuntimeError):
        return False
    return True


def check_weights(module: nn.Module, device: torch.device) -> None:
    """Refuse to move a network in float64 to a device without it.

    Args:
        module: the network.
        device: where to.

    Raises:
        ValueError: it has weights in float64, and the device does not.
    """
    if lacks_float64(device) and any(weight.dtype == torch.float64 for weight in module.parameters()):
        raise ValueError(
            f"the network has weights in float64, which {device} does not have: write torch.set_default_dtype("
            "torch.float32) before it is built, or device='cpu'"
        )


def widest_dtype(device: torch.device) -> torch.dtype:
    """Return float64, or float32 for a device without it.

    Args:
        device: a device of this machine.
    """
    return torch.float64 if is_host(device) or has_float64(device) else torch.float32


def exact_device(device: torch.device) -> torch.device:
    """Return the device of float64 arithmetic for tensors on ``device``: itself, or the CPU if it has no float64.

    Args:
        device: a device of this machine.
    """
    return device if is_host(device) or has_float64(device) else CPU


def lacks_float64(device: torch.device) -> bool:
    """Return whether float64 arithmetic for tensors on ``device`` must run on the CPU.

    Args:
        device: a device of this machine.
    """
    return exact_device(device) != device


def exact(values: Tensor) -> Tensor:
    """Return the values in float64: where they are, or on the CPU if their device has no float64.

    Args:
        values: any tensor.
    """
    return values.to(exact_device(values.device)).to(torch.float64)


def exact_on_cpu(values: Tensor) -> Tensor:
    """Return the values in float64 on the CPU, without their history of gradients.

    Args:
        values: any tensor.
    """
    return values.detach().to(CPU).to(torch.float64)


def moved_to(values: Tensor, device: torch.device, dtype: torch.dtype | None = None) -> Tensor:
    """Return the values on another device; float64 becomes float32 if the device lacks it.

    They are cast before they are moved, since float64 cannot be moved to every device, and the host does not wait.

    Args:
        values: any tensor.
        device: where to.
        dtype: the dtype. Default: that of the values, or float32 for float64 on a device without it.
    """
    if dtype is None:
        dtype = widest_dtype(device) if values.dtype == torch.float64 else values.dtype
    # Devices with float64 copy pageable memory before the call returns; mps may read it later.
    return values.to(dtype).to(device, non_blocking=is_host(values.device) and has_float64(device))


def generator_device(device: torch.device) -> torch.device:
    """Return the device of a generator for tensors on ``device``: itself if it can draw in float64, else the CPU.

    Args:
        device: a device of this machine.
    """
    return device if is_host(device) or (has_float64(device) and _has_generators(device)) else CPU


def new_generator(device: torch.device, seed: int | None) -> torch.Generator:
    """Return a generator for draws on ``device``; it is on the CPU if the device cannot draw in float64.

    Args:
        device: a device of this machine.
        seed: the seed, from 0 to 2^63 - 1; None for a random one.

    >>> new_generator(CPU, 3).initial_seed()
    3
    """
    generator = torch.Generator(generator_device(device))
    generator.seed() if seed is None else generator.manual_seed(check_seed(seed))
    return generator


def seed_default(device: torch.device, seed: int) -> None:
    """Seed the generator that draws on ``device`` without ``generator=``, such as those of dropout.

    Args:
        device: a device of this machine. The CPU has its own, ``torch.default_generator``.
        seed: the seed.
    """
    if is_host(device):
        torch.default_generator.manual_seed(seed)
    elif device.type == "cuda":  # on this device alone: ``torch.cuda.manual_seed`` takes longer
        torch.cuda.init()  # before which there are no generators
        index = torch.cuda.current_device() if device.index is None else device.index
        torch.cuda.default_generators[index].manual_seed(seed)
    else:
        torch.get_device_module(device).manual_seed(seed)


def seed_defaults(device: torch.device, seed: int) -> None:
    """Seed the default generators of the CPU and of ``device``, from which dropout draws.

    ``torch.manual_seed`` seeds every device of the machine, which takes as long as a layer of a small network.

    Args:
        device: a device of this machine.
        seed: the seed, from 0 to 2^63 - 1.
    """
    seed_default(CPU, seed)
    if not is_host(device):
        seed_default(device, seed)


def default_rng_state(device: torch.device) -> Tensor:
    """Return the state of the generator that draws on ``device`` without ``generator=``.

    Args:
        device: a device of this machine.
    """
    if is_host(device):
        return torch.get_rng_state()
    module = torch.get_device_module(device)
    return module.get_rng_state() if device.type == "mps" else module.get_rng_state(device)


def set_default_rng_state(device: torch.device, state: Tensor) -> None:
    """Set the state that :func:`default_rng_state` returned.

    Args:
        device: a device of this machine.
        state: its state.
    """
    # Copied, because torch wants the state at the beginning of its memory.
    state = state.clone()
    if is_host(device):
        torch.set_rng_state(state)
        return
    module = torch.get_device_module(device)
    if device.type == "mps":
        module.set_rng_state(state)
    else:
        module.set_rng_state(state, device)


@contextmanager
def fork_default_rng(device: torch.device) -> Iterator[None]:
    """Restore the states of the default generators of the CPU and of ``device`` at the end.

    Args:
        device: a device of this machine.
    """
    states = [(each, default_rng_state(each)) for each in {CPU, device}]
    try:
        yield
    finally:
        for each, state in states:
            set_default_rng_state(each, state)


def runs_cuda(device: torch.device) -> bool:
    """Return whether a device is a CUDA device, for programs that run on CUDA or the CPU only.

    Args:
        device: any device.
    """
    return device.type == "cuda"


def has_cuda() -> bool:
    """Return whether this machine has a device of CUDA."""
    return torch.cuda.is_available()


def can_communicate(device: torch.device) -> bool:
    """Return whether processes with devices of this type can communicate, by gloo or nccl.

    Args:
        device: any device.
    """
    return device.type in ("cpu", "cuda")


def cpu_cores() -> int:
    """Return how many cores of the CPU this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def synchronize(device: torch.device) -> None:
    """Wait until a device has finished its work, so that a clock measures it.

    Args:
        device: a device of this machine; for the CPU there is nothing to wait for.
    """
    if device.type != "cpu":
        torch.get_device_module(device).synchronize()


def _available() -> str:
    """Return what a user can write instead."""
    if not torch.accelerator.is_available():
        return "which has no accelerator: write cpu or auto"
    return f"whose devices are cpu and {torch.accelerator.current_accelerator()}: write one of them, or auto"
