"""Every dotted name that the pages in the root of the repository and in docs/ mention exists where they say."""

import contextlib
import importlib
import re
from pathlib import Path

import pytest

import tauleap as tl

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").glob("**/*.md"))]
_FULL = re.compile(r"(?<![\w./'\"-])(?:tl|tauleap)((?:\.[A-Za-z_]\w*)+)")
_SHORT = re.compile(rf"`((?:{'|'.join(tl._MODULES)})(?:\.[A-Za-z_]\w*)+)")
"""Names in code that begin with a module of the package, such as `evaluate.pushforward`."""
_REFERENCE = re.compile(r"^::: (tauleap[\w.]*)", re.M)
"""Return the modules of the API reference; a function of the same name can hide a module from attributes."""
_FILES = (".py", ".json", ".npz", ".npy", ".csv")


def names(text: str) -> list[str]:
    """Dotted names without the package; names of files are none."""
    text = _REFERENCE.sub("", text)
    full = [match[1][1:] for match in _FULL.finditer(text)]
    short = [match[1] for match in _SHORT.finditer(text)]
    return sorted({name for name in full + short if not name.endswith(_FILES)})


def resolve(name: str) -> object:
    found: object = tl
    for part in name.split("."):
        found = getattr(found, part)
    return found


def exists(path: str) -> bool:
    """Whether it is a module, or a name in one."""
    with contextlib.suppress(ModuleNotFoundError):
        return bool(importlib.import_module(path))
    module, _, name = path.rpartition(".")
    with contextlib.suppress(ModuleNotFoundError):
        return hasattr(importlib.import_module(module), name)
    return False


def test_names_are_found_in_text() -> None:
    assert exists("tauleap.data.image.digits.digits")
    assert exists("tauleap.data.digits")
    assert not exists("tauleap.data.digits.nothing")
    assert not exists("tauleap.nothing.digits")
    text = "`evaluate.plots(x)` or tl.noise.Uniform(3), `tl.load`; not html.tl.x, noise/dense.py, `noise.py`, a-tl.b"
    assert names(text) == ["evaluate.plots", "load", "noise.Uniform"]
    with pytest.raises(AttributeError):
        resolve("noise.Nothing")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_name_of_a_page_exists(page: Path) -> None:
    missing = []
    for name in names(page.read_text(encoding="utf-8")):
        try:
            resolve(name)
        except AttributeError as error:
            missing.append(f"{name}: {error}")
    for path in _REFERENCE.findall(page.read_text(encoding="utf-8")):
        if not exists(path):
            missing.append(path)
    assert not missing, "\n".join(missing)


def test_every_contract_suite_is_exported() -> None:
    """Each is exported itself, or is a part of one that is."""
    exported = [value for name in tl.testing.__all__ if isinstance(value := getattr(tl.testing, name), type)]
    for path in (Path(tl.__file__).parent / "testing").glob("*.py"):
        module = importlib.import_module(f"tauleap.testing.{path.stem}")
        for name, suite in vars(module).items():
            if name.endswith("Contract"):
                assert any(issubclass(each, suite) for each in exported), name
    documented = {"ProcessContract", "ReverseContract", "DenoiserContract", "ObjectiveContract", "SamplerContract"}
    assert documented <= set(tl.testing.__all__)
