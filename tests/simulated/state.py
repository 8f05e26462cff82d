"""The state of the simulated device: its switches, counts and generators."""

from __future__ import annotations

from collections import Counter
from typing import Any
from weakref import WeakValueDictionary

import torch

Original = torch.Generator
"""The generator class of PyTorch, which stays the same while ``torch.Generator`` is replaced."""


class _State:
    device: torch.device
    """Return the device ``sim``, which PyTorch knows only after its registration."""
    available = False
    float64 = True
    memory = (2**30, 2**31)

    def __init__(self) -> None:
        self.waits: Counter[str] = Counter()
        self.uploads: Counter[str] = Counter()
        self.generator = Original()


state = _State()


class Generator(Original):
    """A generator on ``sim`` that returns the numbers of a CPU generator with the same seed."""

    device = property(lambda _: state.device)  # pyright: ignore

    def __init__(self, device: object = None) -> None:
        pass

    def __new__(cls, device: object = None) -> Generator:
        made = super().__new__(cls)
        _living[made._cdata] = made
        return made

    def clone_state(self) -> Generator:
        return _with_state(self.initial_seed(), self.get_state())

    def __reduce__(self) -> Any:
        return _with_state, (self.initial_seed(), self.get_state())


_living: WeakValueDictionary[int, Generator] = WeakValueDictionary()


def lives_on_sim(generator: torch.Generator) -> bool:
    """Return whether it is a ``Generator``, also if PyTorch wraps its C++ part in a new Python object."""
    return generator._cdata in _living


def _with_state(seed: int, numbers: torch.Tensor) -> Generator:
    generator = Generator()
    generator.manual_seed(seed)
    generator.set_state(numbers)
    return generator


class _GeneratorType(type):
    def __call__(cls, device: Any = "cpu") -> torch.Generator:
        return Generator() if torch.device(device).type == "sim" else Original(device)

    def __instancecheck__(cls, instance: object) -> bool:
        return isinstance(instance, Original)


class AnyGenerator(metaclass=_GeneratorType):
    """Replace ``torch.Generator``, whose C++ part has no hook for generators of a Python backend."""
