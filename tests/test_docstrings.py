"""Every public callable documents its parameters with their defaults; public functions and classes have an example."""

import ast
import importlib
import inspect
import pkgutil
import re
import textwrap
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from torch import nn

import tauleap

MODULES = ("tauleap.evaluate.independent_sites", "tauleap.evaluate.plots", "tauleap.evaluate.pushforward")
"""Modules that are public themselves and have no ``__all__``: everything that they define without an underscore."""


def public_objects() -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions of every public ``__all__``, each once, by the shortest of their names."""
    seen: set[int] = set()
    found = [info.name for info in pkgutil.iter_modules(tauleap.__path__) if info.ispkg and info.name[0] != "_"]
    packages = [tauleap, *(importlib.import_module(f"tauleap.{name}") for name in sorted(found))]
    listed = [(package, name) for package in packages for name in getattr(package, "__all__", [])]
    modules = [importlib.import_module(name) for name in MODULES]
    listed += [(module, name) for module in modules for name in vars(module) if name[0] != "_"]
    for module, name in listed:
        value = getattr(module, name)
        home = getattr(value, "__module__", "")
        is_defined_here = module.__name__ not in MODULES or home.startswith(module.__name__)
        if (inspect.isclass(value) or inspect.isroutine(value)) and is_defined_here and id(value) not in seen:
            seen.add(id(value))
            if home.startswith("tauleap."):
                yield f"{module.__name__}.{name}", value


def public_callables() -> Iterator[tuple[str, Callable[..., Any], list[str]]]:
    """Yield the name, the object and the parameters of every public function, class and method of a class."""
    for name, value in public_objects():
        if not inspect.isclass(value):
            yield name, value, arguments(value)
            continue
        has_constructor = "__init__" in vars(value)
        yield name, value, arguments(vars(value)["__init__"]) if has_constructor else []
        for key, member in vars(value).items():
            method = member.__func__ if isinstance(member, classmethod | staticmethod) else member
            if inspect.isfunction(method) and key[0] != "_" and not key.startswith("test_"):
                yield f"{name}.{key}", method, arguments(method)


def arguments(function: Callable[..., Any]) -> list[str]:
    """Return the parameters that a caller gives."""
    return [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]


def optional(value: Callable[..., Any]) -> list[str]:
    """Return the parameters that have a default."""
    function = vars(value).get("__init__") if inspect.isclass(value) else value
    parameters = {} if function is None else inspect.signature(function).parameters
    return [name for name, parameter in parameters.items() if parameter.default is not inspect.Parameter.empty]


def described(value: Callable[..., Any]) -> dict[str, str]:
    """Return the descriptions of parameters: under ``Args:``, or of a dataclass the strings below its fields."""
    # A method without a docstring has that of the method that it overrides.
    text = inspect.getdoc(value) or ""
    found = re.search(r"^Args:\n((?: {4,}.*\n?|\n)*)", text, re.MULTILINE)
    pattern = re.compile(r"^ {4}(\w+): (\S.*\n?(?: {8,}.*\n?)*)", re.MULTILINE)
    texts = {} if found is None else dict(pattern.findall(found[1]))
    return texts | (field_texts(value) if inspect.isclass(value) else {})


def field_texts(cls: type) -> dict[str, str]:
    body = ast.parse(textwrap.dedent(inspect.getsource(cls))).body[0]
    assert isinstance(body, ast.ClassDef)
    return {
        field.target.id: str(text.value.value)
        for field, text in zip(body.body, body.body[1:], strict=False)
        if isinstance(field, ast.AnnAssign) and isinstance(field.target, ast.Name)
        if isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant)
    }


CALLABLES = list(public_callables())


def test_public_names_are_found() -> None:
    names = {name for name, _, _ in CALLABLES}
    assert {"tauleap.sample", "tauleap.noise.Uniform", "tauleap.evaluate.pushforward.sample_law"} <= names
    assert "tauleap.ReverseProcess.rates" in names
    assert not any(
        issubclass(value, nn.Module) and not value.__doc__ for _, value, _ in CALLABLES if inspect.isclass(value)
    )


@pytest.mark.parametrize(("name", "value", "given"), CALLABLES, ids=[name for name, _, _ in CALLABLES])
def test_every_parameter_is_described(name: str, value: Callable[..., Any], given: list[str]) -> None:
    text = inspect.getdoc(value)
    assert text, f"{name} has no docstring"
    missing = [parameter for parameter in given if parameter not in described(value)]
    assert not missing, f"{name}: Args: does not describe {', '.join(missing)}"
    assert text.split("\n", 1)[0].rstrip().endswith((".", ":")), (
        f"the first line of {name} is not a sentence: {text[:80]}"
    )


@pytest.mark.parametrize(("name", "value"), [each[:2] for each in CALLABLES], ids=[name for name, _, _ in CALLABLES])
def test_every_default_is_described(name: str, value: Callable[..., Any]) -> None:
    texts = described(value)
    missing = [parameter for parameter in optional(value) if "Default:" not in texts[parameter]]
    assert not missing, f"{name}: the description has no 'Default:' for {', '.join(missing)}"


OBJECTS = list(public_objects())


@pytest.mark.parametrize(("name", "value"), OBJECTS, ids=[name for name, _ in OBJECTS])
def test_functions_and_classes_have_an_example(name: str, value: Callable[..., Any]) -> None:
    """Read the docstring itself: an inherited example would show another class."""
    assert ">>> " in (value.__doc__ or ""), f"{name}: the docstring has no example that runs"
