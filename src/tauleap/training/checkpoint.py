"""Checkpoints on disk: whole or not there, checked when read, the last few kept.

step-00001000/
    config.json, model.safetensors    the model, with averaged weights, for tauleap.load
    recipe.json                       what is trained, as the run resolved it, with versions
    state.pt                          what is needed to go on; read with weights_only=True
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
from tauleap.pretrained.checkpoints import CHECKPOINT_FILES, LATEST, checkpoint_folders

_DAMAGED = re.compile(r"damaged-(?:[0-9]+-)?step-[0-9]{8,}")
_NEW_FOLDER = "write the name of a new folder (--out, or out=...) to start again"


@dataclass(frozen=True)
class Checkpoint:
    """One that was found whole."""

    step: int
    folder: Path

    def read(self, name: str) -> bytes:
        """The contents of a file."""
        return safe_read.read_bytes(self.folder / name, inside=self.folder)


class Checkpoints:
    """The checkpoints in ``folder``; the last ``keep`` are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"at least one checkpoint must be kept, got keep={keep}")
        self.folder, self.keep = folder, keep

    def write(self, step: int, files: Mapping[str, bytes]) -> Checkpoint:
        """Adds a checkpoint, then removes the oldest; one to which the user has added a file stays."""
        path = self.folder / f"step-{step:08d}"
        if os.path.lexists(path) and not (path.is_dir() and not any(path.iterdir())):
            raise FileExistsError(f"{path} is in the way of a checkpoint: move it away and give the same command again")
        with _files.atomic_dir(path) as unfinished:
            for name, content in {**files, MANIFEST: manifest.to_bytes(files)}.items():
                (unfinished / name).write_bytes(content)
        return self.publish(Checkpoint(step, path))

    def publish(self, checkpoint: Checkpoint) -> Checkpoint:
        """Makes a checkpoint the latest, removes all but the last few, and returns it."""
        _files.replace_symlink(self.folder / LATEST, checkpoint.folder.name)
        for old in self._found()[: -self.keep]:
            owned.remove_folder(old.folder, CHECKPOINT_FILES)
        return checkpoint

    def newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest that is whole; damaged ones after it are put aside and named.

        Raises:
            ValueError: All are damaged, or were put aside. Nothing is changed then: their models may be whole.
        """
        latest, found = self.folder / LATEST, self._found()
        is_copied = os.path.lexists(latest) and not latest.is_symlink()  # we make links; a copy may hold a folder
        if is_copied and not found:
            raise ValueError(f"{self.folder} has {LATEST}, but none of its checkpoints: {_NEW_FOLDER}")
        damaged: list[tuple[Checkpoint, str]] = []
        while found and (trouble := _trouble(found[-1].folder)) is not None:
            damaged.append((found.pop(), trouble))
        if not found:
            aside = [path.name for path in _put_aside(self.folder)]
            if damaged or aside:
                told = f"{damaged[0][0].folder.name}: {damaged[0][1]}" if damaged else ", ".join(aside)
                raise ValueError(f"every checkpoint in {self.folder} is damaged ({told}): {_NEW_FOLDER}")
            return None
        if is_copied:
            say(f"{latest} is not a link to a checkpoint: it was put aside as {owned.set_aside(latest, 'copied').name}")
        for checkpoint, trouble in damaged:
            name = owned.set_aside(checkpoint.folder, "damaged").name
            say(f"the checkpoint {checkpoint.folder} is damaged: {trouble}; it was put aside as {name}")
        if damaged:
            say(f"going on from the previous checkpoint, {found[-1].folder}")
        # A link that is right stays: it may point to the best one, and the caller may yet refuse the run.
        if latest.resolve() not in [each.folder.resolve() for each in found]:
            _files.replace_symlink(latest, found[-1].folder.name)
        return found[-1]

    def last_step(self) -> int:
        """The step of the newest, 0 where there is none."""
        found = self._found()
        return found[-1].step if found else 0

    def last_good(self) -> str:
        """Names the newest for a message."""
        found = self._found()
        return f"the last good checkpoint is {found[-1].folder}" if found else "there is no checkpoint yet"

    def explaining_full_disk(self) -> AbstractContextManager[None]:
        """Adds to the error of a full disk what to do about it."""
        return explaining_full_disk(self.folder, lambda: f"; {self.last_good()}")

    def _found(self) -> list[Checkpoint]:
        return [Checkpoint(step, path) for step, path in checkpoint_folders(self.folder)]


def _put_aside(run: Path) -> list[Path]:
    """The checkpoints that were put aside because they are damaged."""
    return sorted(
        path
        for path in (run.iterdir() if run.is_dir() else ())
        if _DAMAGED.fullmatch(path.name) and any((path / name).is_file() for name in CHECKPOINT_FILES)
    )


def is_whole(folder: Path) -> bool:
    """Whether a folder holds a checkpoint all of whose checksums are right."""
    try:
        return (folder / MANIFEST).is_file() and _trouble(folder) is None
    except ValueError:  # of another version of tauleap, but a checkpoint
        return True


def _trouble(folder: Path) -> str | None:
    """What is wrong with a checkpoint; None where nothing is."""
    try:
        found = Manifest(folder)
        for name in found.files:
            found.read(name)
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except safe_read.UnreadableError as error:
        return f"{Path(error.path).name} {error.problem}"
    return None
