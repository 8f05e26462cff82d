"""Objects as JSON: a class by its name, and the arguments of its constructor.

    {"class": "Gaussian", "num_states": 32, "schedule": {"class": "Exponential", "a": 5.0, "b": 5.0}, ...}

A tensor among the arguments is a buffer of the object, so its place in the weights is named instead:
``{"tensor": "process.law"}``.

A network or process whose arguments cannot be recorded is only named, ``{"not_rebuildable": "MyNetwork"}``: the program
that loads the model passes an instance.

A file contains names of classes, but no code: a name is looked up among tauleap's own classes, some layers of torch,
and the classes that the program passes to :func:`tauleap.load`.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from numbers import Integral, Real
from typing import Any, cast

from torch import Tensor, nn

from tauleap._files import safe_read
from tauleap.denoise import Denoiser, NetworkDenoiser, RaggedDenoiser, SequenceDenoiser, TruncatedLogistic
from tauleap.network import MusicTransformer, ResidualMLP, SequenceTransformer, TableNetwork, TimeExperts, UNet
from tauleap.network.arguments import unwrapped
from tauleap.noise import (
    Absorbing,
    BirthDeath,
    Constant,
    Cosine,
    Dense,
    Exponential,
    ForwardProcess,
    Gaussian,
    LogLinear,
    RankOne,
    Schedule,
    Uniform,
)
from tauleap.storage.constructor import UnknownArgumentError, constructor_arguments, remedy
from tauleap.storage.layers import ARGUMENTS, LAYERS, SEQUENTIAL, layer_name

# For each class, the arguments of its constructor and the attributes that hold them.
_ATTRIBUTES: dict[type, dict[str, str]] = {
    Constant: {"beta": "beta"},
    Exponential: {"a": "a", "b": "b"},
    LogLinear: {},
    Cosine: {},
    Uniform: {"num_states": "num_states", "schedule": "schedule"},
    Absorbing: {"num_states": "num_states", "schedule": "schedule", "mask": "mask", "sizes": "sizes"},
    BirthDeath: {"num_states": "num_states", "schedule": "schedule", "rate": "rate"},
    Gaussian: {"num_states": "num_states", "schedule": "schedule", "sigma_0": "sigma_0", "sigma_r": "sigma_r"},
    RankOne: {"prior": "law", "schedule": "schedule", "data_states": "allowed"},
    Dense: {"generator": "rates", "schedule": "schedule", "prior": "law", "ordinal": "ordinal"},
    NetworkDenoiser: {"network": "network"},
    TruncatedLogistic: {"network": "network", "num_states": "num_states"},
    RaggedDenoiser: {"network": "network", "num_states": "num_states"},
    SequenceDenoiser: {"network": "network", "end": "end", "mask": "mask"},
    TimeExperts: {"networks": "networks", "at": "at"},
}
_WITH_CONFIG: list[type] = [ResidualMLP, MusicTransformer, UNet, SequenceTransformer, TableNetwork]
_RENAMED: dict[str, type] = {"ByTime": TimeExperts}
"""Names of classes in the files of earlier versions, and the classes of today."""
_OURS: dict[str, type] = {cls.__name__: cls for cls in [*_ATTRIBUTES, *_WITH_CONFIG]} | _RENAMED
IN_PROCESS: dict[str, type] = {name: cls for name, cls in _OURS.items() if issubclass(cls, ForwardProcess | Schedule)}
"""Classes of a process. It is built before sizes are compared with the weights, so no network is among them."""
IN_DENOISER: dict[str, type] = _OURS | LAYERS | {SEQUENTIAL: nn.Sequential}
"""Classes of a denoiser."""
_PLAIN = ("builtins", "types", "functools", "torch")
"""Modules whose objects have no constructor arguments to store: functions, sets, dtypes and the like."""


_NOT_REBUILDABLE = "not_rebuildable"
_MARK = "_not_rebuildable"
"""An attribute of modules that their recorded arguments would not rebuild correctly."""


class UnknownClassError(safe_read.FileError):
    """Report a model with classes that ``load`` has not received, or with parts that cannot be rebuilt.

    >>> str(UnknownClassError(["MyNetwork"], "runs/mine")).endswith("tauleap.load('runs/mine', classes=[MyNetwork])")
    True

    Args:
        names: The classes, in the order of the configuration.
        folder: The model, as it was passed to ``load``.
        parts: The names of classes that cannot be rebuilt, by the argument of ``load`` that takes an instance.
            Default: None, no such parts.
    """

    def __init__(self, names: Iterable[str], folder: object, parts: Mapping[str, str] | None = None) -> None:
        classes, parts = tuple(dict.fromkeys(names)), parts or {}
        self.names = tuple(dict.fromkeys([*classes, *parts.values()]))
        listed = ", ".join(classes)
        arguments = [f"classes=[{listed}]"] if classes else []
        arguments += [f"{name}={cls}(...)" for name, cls in parts.items()]
        self.call = f"tauleap.load({', '.join([repr(str(folder)), *arguments])})"
        problems, remedies = [], []
        if classes:
            problems.append(f"{'a class' if len(classes) == 1 else 'classes'} that tauleap does not have, {listed}")
            remedies.append(f"import or define {'it' if len(classes) == 1 else 'them'}")
        if parts:
            given = ", ".join(f"the {name} {cls}" for name, cls in parts.items())
            problems.append(f"a part that its file cannot rebuild, {given}")
            remedies.append("construct it as for training")
        super().__init__(
            str(folder),
            f"was saved with {', and '.join(problems)}",
            f"{', '.join(remedies)}, and write {self.call}",
        )


def own_classes(classes: Iterable[type]) -> dict[str, type]:
    """Return a user's own classes by their names.

    >>> own_classes([type("Table", (nn.Module,), {})])
    {'Table': <class 'tauleap.storage.config.Table'>}

    Args:
        classes: The classes, such as a process and a network.

    Raises:
        TypeError: One of them is not a class.
        ValueError: Two have the same name, or one has a name of tauleap's own classes.
    """
    found: dict[str, type] = {}
    if isinstance(classes, type | str) or not isinstance(classes, Iterable):
        raise TypeError(f"classes must be a list of classes, got {classes!r}: write classes=[...]")
    for cls in classes:
        if not isinstance(cls, type):
            hint = f", an instance: write {type(cls).__name__}" if isinstance(cls, nn.Module) else ""
            raise TypeError(f"classes must hold classes such as MyNetwork, got a {type(cls).__name__}{hint}")
        _add(cls, found)
    return found


def _add(cls: type, found: dict[str, type]) -> None:
    name = cls.__name__
    if _OURS.get(name, cls) is not cls:
        raise ValueError(f"tauleap has a class {name!r} too: rename yours")
    if found.get(name, cls) is not cls:
        raise ValueError(f"two different classes have the name {name!r}: rename one of them")
    found[name] = cls


def describe(value: object, place: str, own: dict[str, type] | None = None) -> Any:
    """Return ``value`` as JSON values; the network of a denoiser is only named if it cannot be rebuilt.

    >>> describe(Constant(2.0), "schedule")
    {'class': 'Constant', 'beta': 2.0}

    Args:
        value: A number, text, list, mapping, tensor, or an object of any class.
        place: The name of its tensors among the weights.
        own: A mapping to which the user's own classes in ``value`` are added, by their names.

    Raises:
        TypeError: Its constructor arguments do not exist, as for a function, or cannot be recovered.
        ValueError: A number is not finite, or two classes have the same name.
    """
    return _describe(value, place, {} if own is None else own, own_argument=False)


def describe_part(value: nn.Module, place: str, own: dict[str, type] | None = None) -> Any:
    """Return a process, denoiser or network as JSON values, or only its name if it cannot be rebuilt.

    >>> describe_part(nn.Sequential(type("Net", (nn.Module,), {"__init__": lambda self, *sizes: None})()), "network")
    {'not_rebuildable': 'Sequential'}

    Args:
        value: The part of a model.
        place: The name of its tensors among the weights.
        own: A mapping to which the user's own classes in ``value`` are added, by their names.
    """
    value, found = unwrapped(value), dict(own or {})
    if not is_marked(value):
        try:
            described = describe(value, place, found)
        except (TypeError, ValueError, AttributeError):
            pass
        else:
            if own is not None:
                own |= found
            return described
    return {_NOT_REBUILDABLE: type(value).__name__}


def mark_not_rebuildable(value: nn.Module) -> None:
    """Make :func:`describe_part` store only the name of a module, because its arguments do not rebuild it.

    Args:
        value: A process, denoiser or network.
    """
    setattr(value, _MARK, True)


def is_marked(value: nn.Module) -> bool:
    """Return whether :func:`mark_not_rebuildable` has marked a module.

    Args:
        value: A process, denoiser or network.
    """
    return bool(getattr(value, _MARK, False))


def rebuilt_part(denoiser: Denoiser) -> nn.Module:
    """Return the part of a denoiser that is rebuilt: its network if the denoiser is ours, else the denoiser itself.

    Args:
        denoiser: Any denoiser.
    """
    inside = "network" in _ATTRIBUTES.get(type(denoiser), {})
    return unwrapped(cast(nn.Module, denoiser.network)) if inside else denoiser


def not_rebuildable(description: Any) -> str | None:
    """Return the name of the class of a part that cannot be rebuilt; None for another description.

    Args:
        description: A part of a configuration.
    """
    name = description.get(_NOT_REBUILDABLE) if isinstance(description, dict) else None
    return name if isinstance(name, str) else None


def _describe(value: object, place: str, own: dict[str, type], *, own_argument: bool) -> Any:
    """Describe a value; a tuple among the arguments of a class that is not ours is marked, to be rebuilt as one."""

    def inner(items: Iterable[tuple[object, Any]]) -> dict[str, Any]:
        return {str(name): _describe(item, f"{place}.{name}", own, own_argument=own_argument) for name, item in items}

    if isinstance(value, Tensor):
        return {"tensor": place}
    if value is None or isinstance(value, bool | str):
        return value
    if isinstance(value, Integral):
        return int(value)  # integers of numpy, which JSON does not support, become those of Python
    if isinstance(value, Real):
        if not math.isfinite(value):
            raise ValueError(f"{place} must be finite to be saved, got {value}")
        return float(value)
    if isinstance(value, list | tuple | nn.ModuleList):
        items = list(inner(enumerate(value)).values())
        return {"tuple": items} if isinstance(value, tuple) and own_argument else items
    if isinstance(value, dict | nn.ModuleDict):
        if not all(isinstance(name, str) for name in value):
            raise TypeError(
                f"{place} is a mapping whose keys are not all text, which cannot be saved: use text as keys"
            )
        return {"mapping": inner(value.items())}
    cls = type(value)
    if cls is nn.Sequential:
        return {"class": SEQUENTIAL, "modules": inner(cast(nn.Sequential, value).named_children())}
    if cls.__module__ in _PLAIN or isinstance(value, type):
        raise TypeError(f"{place} is a {cls.__name__}, which cannot be saved: use numbers, texts, lists or modules")
    if cls in _OURS.values():
        attributes = _ATTRIBUTES.get(cls)
        arguments = (
            constructor_arguments(value)
            if attributes is None
            else ((name, held, getattr(value, held)) for name, held in attributes.items())
        )
        return {"class": cls.__name__} | {
            name: describe_part(argument, f"{place}.{held}", own)
            if name == "network" and issubclass(cls, Denoiser)
            else _describe(argument, f"{place}.{held}", own, own_argument=False)
            for name, held, argument in arguments
        }
    name = layer_name(cls)
    if name is None:
        _add(cls, own)
        name = cls.__name__
    out = {"class": name}
    special = ARGUMENTS.get(cls)
    arguments = constructor_arguments(value) if special is None else ((n, n, a) for n, a in special(value).items())
    for argument, held, content in arguments:
        try:
            out[argument] = _describe(content, f"{place}.{held}", own, own_argument=True)
        except UnknownArgumentError:
            raise
        except TypeError as error:
            raise UnknownArgumentError(f"{error}{remedy(cls)}") from error
    return out


def build(description: Any, tensors: Mapping[str, Tensor], known: Mapping[str, type]) -> Any:
    """Return the object of a description from :func:`describe`, with the weights that its constructor sets.

    >>> build({"class": "Constant", "beta": 2.0}, {}, IN_PROCESS).beta
    2.0

    Args:
        description: A part of a configuration.
        tensors: The weights by their names.
        known: The classes that it may name.

    Raises:
        ValueError: It names an unknown class or tensor, or arguments that do not fit the class.
    """
    if isinstance(description, list):
        return [build(item, tensors, known) for item in description]
    if not isinstance(description, dict):
        return description
    if len(description) == 1 and "class" not in description:
        return _build_plain(*next(iter(description.items())), tensors, known)
    name = description.get("class")
    if not isinstance(name, str) or name not in known:
        raise ValueError(f"the configuration has the class {name!r}, allowed are {', '.join(known)}")
    if name == SEQUENTIAL:
        modules = description.get("modules")
        if not isinstance(modules, dict):
            raise ValueError(f"the configuration of {name} has no modules")
        return nn.Sequential(OrderedDict((key, build(each, tensors, known)) for key, each in modules.items()))
    arguments = {key: build(value, tensors, known) for key, value in description.items() if key != "class"}
    try:
        return known[name](**arguments)
    except (ValueError, RuntimeError, NotImplementedError, MemoryError):
        raise
    except Exception as error:  # any class: a constructor of the user may raise anything
        raise ValueError(f"the configuration of {name} does not fit its constructor: {error}") from error


def _build_plain(kind: str, content: Any, tensors: Mapping[str, Tensor], known: Mapping[str, type]) -> Any:
    if kind == "tensor":
        if not isinstance(content, str) or content not in tensors:
            raise ValueError(f"the configuration refers to the tensor {content!r}, which the weights do not have")
        return tensors[content]
    if kind == "tuple" and isinstance(content, list):
        return tuple(build(item, tensors, known) for item in content)
    if kind == "mapping" and isinstance(content, dict):
        return {name: build(item, tensors, known) for name, item in content.items()}
    raise ValueError(
        f"the configuration has an entry of kind {kind!r}, allowed are tensor, tuple (of a list), mapping (of a dict) "
        "and class"
    )


def unknown_classes(description: Any, known: Mapping[str, type]) -> Iterator[str]:
    """Yield the names of classes in a description that may be a user's own and are not among ``known``.

    Args:
        description: A part of a configuration.
        known: Classes by their names.
    """
    if isinstance(description, dict):
        name = description.get("class")
        if isinstance(name, str) and name.isidentifier() and name not in known and name not in _OURS:
            yield name
        description = list(description.values())
    if isinstance(description, list):
        for inner in description:
            yield from unknown_classes(inner, known)


def is_ours(description: Any) -> bool:
    """Return whether every class that a description names is one of tauleap's own.

    Args:
        description: A part of a configuration.
    """
    return next(unknown_classes(description, {}), None) is None
