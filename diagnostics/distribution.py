"""Build the wheel and the source archive, install each into a new environment, and run what was installed.

    python diagnostics/distribution.py [--out dist]

``make dist`` runs this. Both archives must have exactly the files under version control, valid metadata, and a package
that works outside of the checkout: ``tauleap --version``, ``--help``, every shipped model, and ``tauleap sample toy``.
All work happens in a temporary folder. Only archives that pass every check are copied to ``--out``, where older
archives of other versions and all other files do not change. The exit status is 1 if a check fails.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import subprocess
import sys
import tarfile
import tempfile
import venv
import zipfile
from collections.abc import Iterable
from email import message_from_bytes
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CONSTRAINTS = ROOT / "constraints.txt"

# This runs inside the new environment, where only the installed package can be imported.
USE_MODELS = """
import sys
from pathlib import Path
import tauleap as tl
from tauleap.pretrained import builtin_models

if not Path(tl.__file__).is_relative_to(sys.prefix):
    sys.exit(f"tauleap was imported from {tl.__file__}, not from the new environment")
for name in builtin_models():
    print(name, tuple(tl.load(name).sample(2, steps=2, seed=0).shape))
print("digits", len(tl.data.digits()))
"""


class CheckError(Exception):
    """Raised for a failed check of the archives; the message is one sentence."""


def run(*command: str | Path, cwd: Path, **variables: str) -> str:
    """Run ``command`` in ``cwd`` without the caller's Python settings, and return its standard output."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(command, cwd=cwd, env=environment | variables, capture_output=True, text=True)
    if done.returncode != 0:
        line = " ".join(map(str, command))
        raise CheckError(f"exit status {done.returncode} from: {line}\n{done.stdout}{done.stderr}".rstrip())
    return done.stdout


def tracked_files(root: Path) -> set[str]:
    """Return the files of the checkout ``root`` that are under version control and exist."""
    if not (root / ".git").exists():
        raise CheckError(f"{root} is no git checkout: archives are compared with the files under version control")
    names = run("git", "ls-files", "-z", cwd=root).split("\0")
    return {name for name in names if name and (root / name).is_file()}


def compare(archive: str, found: Iterable[str], expected: Iterable[str]) -> None:
    """Raise ``CheckError`` unless the files ``found`` in ``archive`` are those ``expected``."""
    missing, extra = sorted(set(expected) - set(found)), sorted(set(found) - set(expected))
    parts = [f"lacks {', '.join(missing)}"] * bool(missing) + [f"also has {', '.join(extra)}"] * bool(extra)
    if parts:
        raise CheckError(f"{archive} {' and '.join(parts)}: compare tool.hatch.build in pyproject.toml, or git status")


def check_sdist(path: Path, tracked: set[str]) -> None:
    """Raise ``CheckError`` unless the source archive has exactly the files of the checkout."""
    with tarfile.open(path) as archive:
        names = {member.name.partition("/")[2] for member in archive.getmembers() if not member.isdir()}
    # Names that begin with a dot serve the repository only; hatchling always adds .gitignore.
    sources = {name for name in tracked if not name.startswith(".")}
    compare(path.name, names - {".gitignore"}, sources | {"PKG-INFO"})


def check_wheel(path: Path, tracked: set[str]) -> str:
    """Raise ``CheckError`` unless the wheel has the whole package with models and data; return its version."""
    info = "-".join(path.name.split("-")[:2]) + ".dist-info"
    with zipfile.ZipFile(path) as archive:
        names = archive.namelist()
        package = {name.removeprefix("src/") for name in tracked if name.startswith("src/tauleap/")}
        records = {f"{info}/{name}" for name in ("METADATA", "WHEEL", "RECORD", "entry_points.txt", "licenses/LICENSE")}
        compare(path.name, names, package | records)
        return message_from_bytes(archive.read(f"{info}/METADATA"))["Version"]


def check_installed(archive: Path, version: str, folder: Path) -> None:
    """Install ``archive`` into a new environment below ``folder`` and run the package there."""
    print(f"{archive.name}: installing into a new environment", flush=True)
    venv.create(folder / "venv", with_pip=True)
    programs, work = folder / "venv" / "bin", folder / "work"
    work.mkdir()
    pip = [programs / "python", "-m", "pip", "--disable-pip-version-check"]
    run(*pip, "install", "-q", "-c", CONSTRAINTS, archive, cwd=work)
    run(*pip, "check", cwd=work)
    printed = run(programs / "tauleap", "--version", cwd=work)
    if version not in printed.split():
        raise CheckError(f"tauleap --version printed {printed.strip()!r}, and the archive has version {version}")
    if "sample" not in run(programs / "tauleap", "--help", cwd=work):
        raise CheckError("tauleap --help does not list the command sample")
    print(run(programs / "python", "-c", USE_MODELS, cwd=work), end="")
    print(run(programs / "tauleap", "sample", "toy", "-n", "10", cwd=work), end="", flush=True)
    if not (work / "toy-samples" / "samples.npy").is_file():
        raise CheckError("tauleap sample toy wrote no toy-samples/samples.npy")


def build(folder: Path) -> tuple[Path, Path]:
    """Build the source archive from the checkout and the wheel from that archive, into ``folder``."""
    print("building", flush=True)
    # The variable also pins the build back end, which `build` installs into an environment of its own.
    run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder, PIP_CONSTRAINT=str(CONSTRAINTS))
    (sdist,), (wheel,) = folder.glob("*.tar.gz"), folder.glob("*.whl")
    print(run(sys.executable, "-m", "twine", "check", "--strict", sdist, wheel, cwd=folder), end="", flush=True)
    return sdist, wheel


def main() -> None:
    """Build, check and deliver both archives."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--out", type=Path, default=ROOT / "dist", help="folder for the archives (default: dist)")
    out: Path = parser.parse_args().out
    if out.exists() and not out.is_dir():
        parser.error(f"--out {out} is a file: give a folder")
    # A terminated run leaves the block below by an exception, so that its temporary folder is removed as well.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("terminated"))
    try:
        with tempfile.TemporaryDirectory(prefix="tauleap-dist-") as temporary:
            folder = Path(temporary)
            (folder / "built").mkdir()
            tracked = tracked_files(ROOT)
            archives = build(folder / "built")
            check_sdist(archives[0], tracked)
            version = check_wheel(archives[1], tracked)
            for archive in archives:
                place = folder / archive.name.replace(".", "_")
                place.mkdir()
                check_installed(archive, version, place)
                shutil.rmtree(place)  # an environment is about a gigabyte
            out.mkdir(parents=True, exist_ok=True)
            for archive in archives:
                print(shutil.copy(archive, out))
    except CheckError as error:
        sys.exit(f"make dist: {error}")


if __name__ == "__main__":
    main()
