"""Checks of ``make dist``: archives that lack a file or have one too many are refused, by the name of the file."""

import importlib.util
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parent.parent / "diagnostics" / "distribution.py"
SPEC = importlib.util.spec_from_file_location("distribution", SCRIPT)
assert SPEC is not None
assert SPEC.loader is not None
distribution = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(distribution)

WEIGHTS = "src/tauleap/pretrained/models/toy/model.safetensors"
TRACKED = {".github/template.md", ".gitignore", "Makefile", "tests/test_fit.py", "src/tauleap/__init__.py", WEIGHTS}
RECORDS = ["METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE"]


def wheel(folder: Path, package: set[str]) -> Path:
    path = folder / "tauleap-1.2.3-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for name in package:
            archive.writestr(name, "")
        for name in RECORDS:
            archive.writestr(f"tauleap-1.2.3.dist-info/{name}", "Version: 1.2.3\n")
    return path


def sdist(folder: Path, names: set[str]) -> Path:
    path = folder / "tauleap-1.2.3.tar.gz"
    with tarfile.open(path, "w:gz") as archive:
        for name in names:
            archive.addfile(tarfile.TarInfo(f"tauleap-1.2.3/{name}"))
    return path


def test_whole_archives_pass(tmp_path: Path) -> None:
    package = {"tauleap/__init__.py", WEIGHTS.removeprefix("src/")}
    assert distribution.check_wheel(wheel(tmp_path, package), TRACKED) == "1.2.3"
    distribution.check_sdist(sdist(tmp_path, TRACKED - {".github/template.md"} | {"PKG-INFO"}), TRACKED)


def test_a_wheel_without_the_weights_of_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(distribution.CheckError, match=r"lacks tauleap/pretrained/models/toy/model\.safetensors:"):
        distribution.check_wheel(wheel(tmp_path, {"tauleap/__init__.py"}), TRACKED)


@pytest.mark.parametrize(
    ("removed", "added", "message"),
    [
        ({"Makefile", "tests/test_fit.py"}, set(), "lacks Makefile, tests/test_fit.py:"),
        (set(), {".secrets"}, r"also has \.secrets:"),
        (set(), {"src/notes.txt"}, "also has src/notes.txt:"),
        ({"Makefile"}, {"src/notes.txt"}, "lacks Makefile and also has src/notes.txt:"),
    ],
)
def test_other_sources_than_those_of_the_checkout_are_refused(
    tmp_path: Path, removed: set[str], added: set[str], message: str
) -> None:
    archive = sdist(tmp_path, (TRACKED - {".github/template.md"} | {"PKG-INFO"} | added) - removed)
    with pytest.raises(distribution.CheckError, match=message):
        distribution.check_sdist(archive, TRACKED)


def test_a_folder_that_is_no_checkout_is_refused(tmp_path: Path) -> None:
    with pytest.raises(distribution.CheckError, match="no git checkout"):
        distribution.tracked_files(tmp_path)


def test_a_failed_command_is_shown_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(distribution.CheckError, match=r"(?s)exit status 3 from: .*the reason"):
        distribution.run(sys.executable, "-c", "print('the reason'); raise SystemExit(3)", cwd=tmp_path)


def test_commands_do_not_see_the_callers_packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    assert "elsewhere" not in distribution.run(sys.executable, "-c", "import sys; print(sys.path)", cwd=tmp_path)


def test_a_file_in_the_place_of_the_folder_is_refused_and_kept(tmp_path: Path) -> None:
    file = tmp_path / "dist"
    file.write_text("mine")
    done = subprocess.run([sys.executable, str(SCRIPT), "--out", str(file)], capture_output=True, text=True)
    assert (done.returncode, file.read_text()) == (2, "mine")
    assert "is a file: give a folder" in done.stderr
