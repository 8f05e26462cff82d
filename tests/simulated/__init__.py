"""An accelerator without hardware: the device ``sim``, whose tensors hold their values in the CPU's memory.

Tensors on ``sim`` behave as on CUDA. An operation that mixes them with CPU tensors raises (0-dimensional CPU tensors
may enter elementwise operations), a generator must live where the draw is made, and every operation for which the host
would wait for the device is counted by kind. Without ``float64`` the device behaves as Apple's mps does.

Fixtures (``tests/conftest.py``), all of which give ``torch.device("sim", 0)`` and skip where PyTorch has no hook for
backends written in Python (``torch.utils.backend_registration``, present in 2.13):

* ``sim``: a device with float64;
* ``sim32``: a device without float64, where any operation with a float64 tensor on it raises ``TypeError``;
* ``each_sim``: the test runs on both.

Within a fixture ``torch.Generator("sim")``, ``torch.manual_seed``, ``torch.random.fork_rng(device_type="sim")``,
``torch.device("sim")`` as a context, ``module.to("sim")``, autograd, ``torch.autocast("sim", torch.bfloat16)``,
``torch.save``, ``torch.load(map_location=...)`` and safetensors (loaded on the CPU and moved) work, and
``torch.accelerator`` says that ``sim`` is available; outside of one it is not. ``torch.sim`` is the backend's module:
``mem_get_info`` returns ``torch.sim.memory`` as ``(free, total)``.

    from tests import simulated

    def test_step(sim):
        model.to(sim)
        with simulated.waits() as counts:
            step(model)
        assert counts.total() <= 1          # a Counter: "item", "nonzero", "index", "index_put", "to_cpu", ...

``waits`` counts what stops the host until the device has finished: reading a value (``item``: ``.item()``, ``bool``,
``float``; ``to_cpu``: ``.cpu()``, ``.to("cpu")``, ``.tolist()``), shapes that depend on values (``nonzero``,
``masked_select``, ``unique``, ``repeat_interleave``, ``bincount``, and ``index`` and ``index_put`` with a Boolean
mask), ``histc``, which looks for its limits, and ``equal`` and ``linalg``, which look at their result. ``uploads``
counts copies from the CPU to the device that are not ``non_blocking``, such as that of
``torch.tensor(..., device="sim")``: CUDA waits for them as well.

One registration serves the whole process and must come before its first ``backward``, as autograd counts the devices
then: ``conftest.py`` calls ``register`` when it is imported. A program outside of pytest, such as a benchmark, writes
``with simulated.active() as device:`` instead of a fixture. A CPU tensor's ``.data`` cannot become a ``sim`` tensor.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.utils import _pytree as pytree

from tauleap import _device, _precision
from tauleap._draw import PartOfBatch
from tests.simulated.backend import hook_exists, register
from tests.simulated.state import AnyGenerator, Generator, Original, state
from tests.simulated.tensor import Simulated

__all__ = ["Generator", "Simulated", "active", "hook_exists", "register", "uploads", "waits"]


@contextmanager
def active(*, float64: bool = True) -> Iterator[torch.device]:
    """Make ``sim`` available in a context, as the fixtures do.

    Args:
        float64: whether the device has this dtype.

    Returns:
        A context manager that gives ``torch.device("sim", 0)``.
    """
    register()
    before, new_part = (state.available, state.float64, state.memory), PartOfBatch.__new__
    state.available, state.float64 = True, float64
    torch.Generator = AnyGenerator  # pyright: ignore[reportAttributeAccessIssue]
    PartOfBatch.__new__ = _new_part
    _forget_devices()
    try:
        with _OneDevice():
            yield state.device
    finally:
        state.available, state.float64, state.memory = before
        torch.Generator = Original
        PartOfBatch.__new__ = new_part
        _forget_devices()


class _SimulatedPart(PartOfBatch, Generator):
    pass


def _new_part(cls: type[PartOfBatch], part: int, parts: int, device: Any = "cpu") -> torch.Generator:
    there = torch.device(device).type == "sim"
    return Generator.__new__(_SimulatedPart) if there else Original.__new__(cls, device)


def _forget_devices() -> None:
    """Clear what the package has cached about ``sim``, since its properties change."""
    for found in (_device.has_float64, _device._has_generators, _precision.autocast_types):
        found.cache_clear()


@contextmanager
def waits() -> Iterator[Counter[str]]:
    """Count how often the host waits for the device, by kind.

    Returns:
        A context manager that gives a ``Counter``, filled when the context ends.
    """
    yield from _counted("waits")


@contextmanager
def uploads() -> Iterator[Counter[str]]:
    """Count the blocking copies from the CPU to the device, by their shape.

    Returns:
        A context manager that gives a ``Counter``, filled when the context ends.
    """
    yield from _counted("uploads")


def _counted(name: str) -> Iterator[Counter[str]]:
    before, counts = Counter(getattr(state, name)), Counter[str]()
    try:
        yield counts
    finally:
        counts.update(getattr(state, name) - before)


class _OneDevice(torch.overrides.TorchFunctionMode):
    """Raise for random operations on the CPU with a generator of ``sim``, which the CPU cannot use."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not kwargs and len(args) < 2:  # attributes, which are most of the calls
            return func(*args)
        kwargs = kwargs or {}
        out = func(*args, **kwargs)
        if any(isinstance(each, Generator) for each in (*args, *kwargs.values())):  # some take it by its place
            tensors = [o for o in pytree.tree_leaves(out) if isinstance(o, torch.Tensor)]
            if any(o.device.type != "sim" for o in tensors):
                raise RuntimeError(f"Expected a 'cpu' device type for generator but found 'sim' in {func}")
        return out
