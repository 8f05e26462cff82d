"""Imports go one way, and the light modules stay light."""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

import tauleap

PACKAGE = Path(tauleap.__file__).parent

# Modules at the root whose names begin with an underscore are the ground: they know nothing of the rest, and everything
# may stand on them. Each entry otherwise says what a module may import; "reverse" brings what reverse may import, and
# so on up the list.
DIRECT = {
    "data": [],
    "network": [],
    "noise": [],
    "observed": [],
    "denoise": ["noise", "network", "observed"],
    "reverse": ["noise", "denoise"],
    "objective": ["reverse"],
    "sampling": ["reverse"],
    "evaluate": ["objective", "sampling"],
    "storage": ["reverse", "data"],
    "row_bits": ["evaluate", "storage"],
    "given": ["sampling", "data"],
    "prediction": ["evaluate", "data"],
    "sampling_run": ["evaluate", "given"],
    "model_parts": ["storage", "sampling"],
    "marginals": ["evaluate", "given"],
    "surprise": ["prediction"],
    "model_questions": ["marginals", "sampling_run", "surprise", "model_parts"],
    "model": ["row_bits", "model_questions"],
    "pretrained": ["model"],
    "training": ["pretrained"],
    "testing": ["evaluate", "data"],
    "recipes": ["training"],
    "choose": ["training"],
    "fitting": ["choose"],
    "cli": ["recipes", "fitting"],
}


def allowed(module: str) -> set[str]:
    below = set(DIRECT[module])
    return below.union(*(allowed(name) for name in below))


def top_level_modules() -> list[str]:
    entries = (path for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists())
    return sorted(path.stem for path in entries if path.stem not in {"__init__", "__main__"})


def imported_modules(source: str, package: str) -> set[str]:
    """The top-level modules of tauleap that ``source``, a file of ``package``, imports anywhere, also in functions."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            origin = package.split(".")[: len(package.split(".")) - node.level + 1] if node.level else []
            module = ".".join([*origin, *([node.module] if node.module else [])])
            names = [f"{module}.{alias.name}" for alias in node.names] if module == "tauleap" else [module]
        for name in names:
            root, *rest = name.split(".")
            if root == "tauleap":
                found.add(rest[0] if rest else "tauleap")
    return found


def test_the_reader_of_imports_sees_every_form() -> None:
    source = (
        "import tauleap.noise.schedule\nfrom tauleap import _check, fit\ndef f():\n    from ..denoise import exact\n"
    )
    assert imported_modules(source, "tauleap.reverse") == {"noise", "_check", "fit", "denoise"}
    assert imported_modules("import tauleap as tl\nimport torch, tauleapx", "tauleap.cli") == {"tauleap"}
    assert imported_modules("from . import a\nfrom .b import c", "tauleap") == {"a", "b"}


@pytest.mark.parametrize("module", top_level_modules())
def test_imports_go_one_way(module: str) -> None:
    ground = {name for name in top_level_modules() if name.startswith("_")}
    if module not in ground:
        assert module in DIRECT, f"say in this test what tauleap.{module} may import"
    permitted = {module} | ground | (set() if module in ground else allowed(module))

    folder = PACKAGE / module
    for path in sorted(folder.rglob("*.py")) if folder.is_dir() else [folder.with_suffix(".py")]:
        package = ".".join(["tauleap", *path.relative_to(PACKAGE).parent.parts])
        wrong = imported_modules(path.read_text(encoding="utf-8"), package) - permitted
        assert not wrong, f"{path.relative_to(PACKAGE)} may not import {sorted(wrong)}"


HEAVY = ["torch", "numpy", "scipy", "matplotlib", "PIL", "jaxtyping", "lightning_fabric", "safetensors", "symusic"]


@pytest.mark.parametrize(
    ("code", "absent"),
    [
        ("import tauleap", HEAVY),
        ("import tauleap.cli", HEAVY),
        ("from tauleap.cli import main; main(['--version'])", [*HEAVY, "tyro", "rich"]),
        ("from tauleap.cli import main\ntry: main(['--help'])\nexcept SystemExit as e: assert e.code == 0", HEAVY),
        (
            "from tauleap.cli import main\ntry: main(['demo', '--help'])\nexcept SystemExit as e: assert e.code == 0",
            HEAVY,
        ),
        (
            "from tauleap.cli import main\ntry: main(['train', '--help'])\nexcept SystemExit as e: assert e.code == 0",
            HEAVY,
        ),
        *(
            (
                f"from tauleap.cli import main\ntry: main(['{name}', '--help'])\n"
                "except SystemExit as e: assert e.code == 0",
                HEAVY,
            )
            for name in ("sample", "complete", "evaluate", "info")
        ),
        ("import tauleap.pretrained", ["matplotlib", "huggingface_hub", "tensorboard", "lightning_fabric", "tyro"]),
        ("import tauleap.training", ["matplotlib", "huggingface_hub", "tensorboard", "tyro"]),
        ("import tauleap.noise", ["matplotlib", "scipy", "mpmath", "tyro"]),
        ("import tauleap.evaluate.plots", ["matplotlib.pyplot", "scipy", "tyro"]),
        ("import tauleap.data", ["matplotlib", "scipy", "symusic", "tyro"]),
    ],
)
def test_what_is_not_used_is_not_imported(code: str, absent: list[str]) -> None:
    report = f"{code}\nimport sys; sys.exit('imported: ' + ' '.join(m for m in {absent} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, timeout=120)
    assert result.stderr.strip() == "imported:"


@pytest.mark.parametrize("name", ["b.pdf", "b.xyz", "b"])
@pytest.mark.parametrize("command", ["complete", "evaluate"])
def test_unsupported_files_are_refused_before_torch_is_imported(command: str, name: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(b"\0x")  # no text, which may be a table
    code = f"import sys; from tauleap.cli import main; code = main(['{command}', 'toy', '{name}'])"
    report = f"{code}\nsys.exit(f'{{code}} imported: ' + ' '.join(m for m in {HEAVY} if m in sys.modules))"
    result = subprocess.run([sys.executable, "-c", report], capture_output=True, text=True, timeout=120, cwd=tmp_path)
    error, modules = result.stderr.splitlines()
    ending = repr(Path(name).suffix or "(none)")
    assert error.startswith(
        f"tauleap: error: {name} has the ending {ending}, which cannot be read; accepted are .npy, .npz, .csv"
    )
    assert "a PNG, JPEG or MIDI file" in error
    assert modules == "2 imported: "
