"""Recover the arguments with which an object was constructed, so that a configuration can store them."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any

from torch import Tensor, nn

_PLACEMENT = ("device", "dtype")
"""Arguments that torch's layers have and that loading sets by itself, from the weights."""


class UnknownArgumentError(TypeError):
    """Report a constructor argument that no attribute stores."""


def constructor_arguments(value: object) -> Iterator[tuple[str, str, Any]]:
    """Yield the name of every constructor argument, the attribute that holds it, and its value.

    The arguments are those of the mapping ``config`` if the object has one. Otherwise each argument of ``__init__``
    is read from the attribute of the same name, or of that name after an underscore.

    >>> import torch
    >>> class Table(torch.nn.Module):
    ...     def __init__(self, num_states):
    ...         super().__init__()
    ...         self.num_states = num_states
    >>> list(constructor_arguments(Table(3)))
    [('num_states', 'num_states', 3)]

    Args:
        value: An instance of any class.

    Raises:
        UnknownArgumentError: No attribute holds one of the arguments.
    """
    cls = type(value)
    parameters = _parameters(cls)
    config = getattr(value, "config", None)
    if isinstance(config, Mapping) and "config" not in parameters:
        yield from ((str(name), str(name), argument) for name, argument in config.items())
        return
    for name, parameter in parameters.items():
        # Arguments behind an underscore are private to torch's own layers, as Embedding's _weight.
        private = name.startswith("_") and parameter.default is not inspect.Parameter.empty
        if private or (name in _PLACEMENT and parameter.default is None):
            continue
        if parameter.kind in (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD):
            star = "*" if parameter.kind is inspect.Parameter.VAR_POSITIONAL else "**"
            raise UnknownArgumentError(f"{cls.__name__} takes {star}{name}{remedy(cls)}")
        held = next((each for each in (name, f"_{name}") if _holds(value, each)), None)
        if held is None and parameter.default is None and _is_of_torch(cls):
            continue  # an older name of another argument, as Hardtanh's min_value
        if held is None:
            raise UnknownArgumentError(
                f"{cls.__name__} has no attribute {name!r} that stores the argument{remedy(cls)}"
            )
        argument = getattr(value, held)
        if isinstance(parameter.default, bool) and (argument is None or isinstance(argument, Tensor)):
            argument = argument is not None  # torch's layers hold the bias itself for bias=True
        yield name, held, argument


def remedy(cls: type) -> str:
    """Return advice on how a user's class can store its arguments; an empty text for a class of torch.

    Args:
        cls: The class.
    """
    if _is_of_torch(cls):
        return ""
    parameters = _parameters(cls)
    if any(parameter.kind is inspect.Parameter.VAR_POSITIONAL for parameter in parameters.values()):
        return f": name the arguments of {cls.__name__}.__init__ one by one"
    named = [name for name, each in parameters.items() if each.kind is not inspect.Parameter.VAR_KEYWORD]
    example = ", ".join([f'"{name}": {name}' for name in named if name not in _PLACEMENT][:3])
    rest = [f"**{name}" for name, each in parameters.items() if each.kind is inspect.Parameter.VAR_KEYWORD]
    example = ", ".join(filter(None, [example, *rest]))
    return f": write `self.config = {{{example}}}` into {cls.__name__}.__init__, with all arguments as JSON values"


def _parameters(cls: type) -> Mapping[str, inspect.Parameter]:
    # Identity accepts and ignores everything.
    if cls.__init__ in (object.__init__, nn.Module.__init__, nn.Identity.__init__):
        return {}
    return dict(list(inspect.signature(cls.__init__).parameters.items())[1:])


def _is_of_torch(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "torch"


def _holds(value: object, name: str) -> bool:
    """Return whether an attribute is data: a method may have the name of an argument."""
    return hasattr(value, name) and (name in vars(value) or not inspect.isroutine(getattr(value, name)))
