"""Checkpoints on disk: written atomically, verified when read, and the newest few kept.

step-00001000/
    config.json, model.safetensors    the model, with averaged weights, for tauleap.load
    recipe.json                       the resolved recipe and the versions of the software
    state.pt                          the state needed to resume; read with weights_only=True
    manifest.json                     sizes and SHA-256 of the others
latest -> step-00001000
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path

from tauleap import _files
from tauleap._files import manifest, owned, safe_read
from tauleap._files.full_disk import explaining_full_disk
from tauleap._files.manifest import MANIFEST, Manifest
from tauleap.pretrained.runs import CHECKPOINT_FILES, LATEST, checkpoint_folders

_DAMAGED = re.compile(r"damaged-(?:[0-9]+-)?step-[0-9]{8,}")
_NEW_FOLDER = "write the name of a new folder (--out, or out=...) to start again"


@dataclass(frozen=True)
class Checkpoint:
    """Hold a checkpoint folder and its step."""

    step: int
    folder: Path

    def read(self, name: str) -> bytes:
        """Return the content of a file.

        Args:
            name: The name of the file in the checkpoint.
        """
        return safe_read.read_bytes(self.folder / name, inside=self.folder)


class Checkpoints:
    """Write, find and remove the checkpoints of a run.

    Args:
        folder: The folder of the run.
        keep: How many of the newest to keep, >= 1.
    """

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"keep must be >= 1, got {keep}")
        self.folder, self.keep = folder, keep

    def write(self, step: int, files: Mapping[str, bytes]) -> Checkpoint:
        """Add a checkpoint, then remove the oldest ones, except those to which the user has added a file.

        Args:
            step: The number of steps made.
            files: Content by file name.
        """
        path = self.folder / f"step-{step:08d}"
        if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
            raise FileExistsError(
                f"{path} already exists and is not a checkpoint: move it away and run the same command again"
            )
        with _files.atomic_dir(path) as unfinished:
            for name, content in {**files, MANIFEST: manifest.to_bytes(files)}.items():
                (unfinished / name).write_bytes(content)
        return self.publish(Checkpoint(step, path))

    def publish(self, checkpoint: Checkpoint) -> Checkpoint:
        """Make a checkpoint the latest, remove old ones, and return it.

        Args:
            checkpoint: One of this run.
        """
        _files.replace_symlink(self.folder / LATEST, checkpoint.folder.name)
        for old in self._found()[: -self.keep]:
            owned.remove_folder(old.folder, CHECKPOINT_FILES)
        return checkpoint

    def newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """Return the newest intact checkpoint, None if there is none; rename newer ones that are damaged.

        Args:
            say: Called with one line per file that was renamed.

        Raises:
            ValueError: All are damaged or were renamed earlier. Nothing is changed then: their models may be intact.
        """
        latest, found = self.folder / LATEST, self._found()
        is_copied = os.path.lexists(latest) and not latest.is_symlink()  # we make links; a copy may hold a folder
        if is_copied and not found:
            raise ValueError(
                f"{self.folder} has {LATEST} as a file or folder instead of a link, and no checkpoints: {_NEW_FOLDER}"
            )
        damaged: list[tuple[Checkpoint, str]] = []
        while found and (problem := _problem(found[-1].folder)) is not None:
            damaged.append((found.pop(), problem))
        if not found:
            renamed = [path.name for path in _damaged_folders(self.folder)]
            if damaged or renamed:
                reason = f"{damaged[0][0].folder.name}: {damaged[0][1]}" if damaged else ", ".join(renamed)
                raise ValueError(f"every checkpoint in {self.folder} is damaged ({reason}): {_NEW_FOLDER}")
            return None
        if is_copied:
            say(f"{latest} is not a link to a checkpoint: it was renamed to {owned.set_aside(latest, 'copied').name}")
        for checkpoint, problem in damaged:
            name = owned.set_aside(checkpoint.folder, "damaged").name
            say(f"the checkpoint {checkpoint.folder} is damaged: {problem}; it was renamed to {name}")
        if damaged:
            say(f"resuming from the previous checkpoint, {found[-1].folder}")
        # A link that is right stays: it may point to the best one, and the caller may yet refuse the run.
        if os.path.realpath(latest) not in [os.path.realpath(each.folder) for each in found]:
            _files.replace_symlink(latest, found[-1].folder.name)
        return found[-1]

    def last_step(self) -> int:
        """Return the step of the newest checkpoint, 0 if there is none."""
        found = self._found()
        return found[-1].step if found else 0

    def last_good(self) -> str:
        """Return a sentence that names the newest checkpoint."""
        found = self._found()
        return f"the last good checkpoint is {found[-1].folder}" if found else "there is no checkpoint yet"

    def explaining_full_disk(self) -> AbstractContextManager[None]:
        """Return a context in which the error of a full disk names the newest checkpoint and the remedy."""
        return explaining_full_disk(self.folder, lambda: f"; {self.last_good()}")

    def _found(self) -> list[Checkpoint]:
        return [Checkpoint(step, path) for step, path in checkpoint_folders(self.folder)]


def _damaged_folders(run: Path) -> list[Path]:
    """Return the checkpoints that were renamed because they are damaged."""
    return sorted(
        path
        for path in (run.iterdir() if run.is_dir() else ())
        if _DAMAGED.fullmatch(path.name) and any((path / name).is_file() for name in CHECKPOINT_FILES)
    )


def is_whole(folder: Path) -> bool:
    """Return whether a folder holds a checkpoint whose checksums are all correct.

    Args:
        folder: The folder of the checkpoint.
    """
    try:
        return (folder / MANIFEST).is_file() and _problem(folder) is None
    except ValueError:  # of another version of tauleap, but a checkpoint
        return True


def _problem(folder: Path) -> str | None:
    """Return the problem of a damaged checkpoint, None for an intact one."""
    try:
        found = Manifest(folder)
        for name in found.files:
            found.read(name)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except safe_read.UnreadableError as error:
        return f"{Path(error.path).name} {error.problem}"
    return None
