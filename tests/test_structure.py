"""Classes are abstract or final, and files stay short."""

import inspect
from importlib import import_module
from pathlib import Path
from pkgutil import walk_packages

import pytest

import tauleap
from tauleap.cli.commands import COMMANDS

PACKAGE = Path(tauleap.__file__).parent
MODULES = [m.name for m in walk_packages(tauleap.__path__, "tauleap.") if not m.name.endswith("__main__")]
MOST_LINES = 400

# Classes that inherit from a concrete class of tauleap, with the reason.
CONCRETE_BASES: dict[str, str] = {}


def concrete_bases(cls: type) -> list[type]:
    """The base classes of ``cls`` in tauleap that can be instantiated themselves; exceptions form hierarchies."""
    if issubclass(cls, BaseException):
        return []
    return [base for base in cls.__bases__ if base.__module__.startswith("tauleap") and not inspect.isabstract(base)]


@pytest.mark.parametrize("module", MODULES)
def test_no_class_inherits_from_a_concrete_class(module: str) -> None:
    own = [cls for cls in vars(import_module(module)).values() if inspect.isclass(cls) and cls.__module__ == module]
    found = {f"{module}.{cls.__qualname__}": bases for cls in own if (bases := concrete_bases(cls))}
    wrong = {name: bases for name, bases in found.items() if name not in CONCRETE_BASES}
    assert not wrong, f"wrap the class instead of subclassing it: {wrong}"


def test_concrete_bases_are_found() -> None:
    class Wrong(tauleap.Model):
        pass

    class Right(tauleap.sampling.Sampler):
        pass

    assert concrete_bases(Wrong) == [tauleap.Model]
    assert concrete_bases(Right) == []


@pytest.mark.parametrize("path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_file_is_too_long(path: Path) -> None:
    assert len(path.read_text(encoding="utf-8").splitlines()) <= MOST_LINES


def test_each_command_has_a_file_and_its_work_has_one_with_the_same_name() -> None:
    names = {name.replace("-", "_") for name in COMMANDS}
    files = {folder: {path.stem for path in (PACKAGE / "cli" / folder).glob("*.py")} for folder in ("commands", "run")}
    assert files["commands"] - {"__init__"} == names
    # Other files of run/ belong to the command whose name they begin with.
    assert {name for name in names for file in files["run"] if file == name} == names
    assert all(any(file.startswith(name) for name in names) for file in files["run"] - {"__init__"})
