"""Checkpoints on disk: whole or not there, checked when read, the last few kept.

step-00001000/
    config.json, model.safetensors    the model, with averaged weights, for tauleap.load
    recipe.json                       what is trained, as the run resolved it, with versions
    state.pt                          what is needed to go on; read with weights_only=True
    manifest.json                     sizes and SHA-256 of the others
latest -> step-00001000
"""

from __future__ import annotations

import errno
import hashlib
import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tauleap import _files

FORMAT = 1
_MANIFEST = "manifest.json"
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


@dataclass(frozen=True)
class Checkpoint:
    """One that was found whole."""

    step: int
    folder: Path

    def read(self, name: str) -> bytes:
        """The contents of a file."""
        return (self.folder / name).read_bytes()


class Checkpoints:
    """The checkpoints in ``folder``; the last ``keep`` are kept."""

    def __init__(self, folder: Path, keep: int) -> None:
        if keep < 1:
            raise ValueError(f"at least one checkpoint must be kept, got keep={keep}")
        self.folder, self.keep = folder, keep

    def write(self, step: int, files: Mapping[str, bytes]) -> Checkpoint:
        """Adds a checkpoint, then removes the oldest."""
        path = self.folder / f"step-{step:08d}"
        with _files.appearing(path) as unfinished:
            for name, content in {**files, _MANIFEST: _manifest(files)}.items():
                (unfinished / name).write_bytes(content)
        _files.point(self.folder / "latest", path.name)
        for old in self._found()[: -self.keep]:
            _files.remove(old.folder)
        return Checkpoint(step, path)

    def newest(self, say: Callable[[str], None]) -> Checkpoint | None:
        """The newest that is whole; damaged ones are put aside and named."""
        found = self._found()
        for checkpoint in reversed(found):
            trouble = _trouble(checkpoint.folder)
            if trouble is None:
                if checkpoint is not found[-1]:
                    say(f"going on from the previous checkpoint, {checkpoint.folder}")
                _files.point(self.folder / "latest", checkpoint.folder.name)
                return checkpoint
            aside = self.folder / f"damaged-{checkpoint.folder.name}"
            if aside.exists():
                _files.remove(aside)
            checkpoint.folder.rename(aside)
            say(f"the checkpoint {checkpoint.folder} is damaged: {trouble}; it was put aside as {aside.name}")
        if found:
            raise ValueError(
                f"every checkpoint in {self.folder} is damaged, so the run cannot go on: "
                "write another folder to start again"
            )
        return None

    def last_step(self) -> int:
        """The step of the newest, 0 where there is none."""
        found = self._found()
        return found[-1].step if found else 0

    def last_good(self) -> str:
        """Names the newest for a message."""
        found = self._found()
        return f"the last good checkpoint is {found[-1].folder}" if found else "there is no checkpoint yet"

    @contextmanager
    def explaining_full_disk(self) -> Iterator[None]:
        """Adds to the error of a full disk what to do about it."""
        try:
            yield
        except OSError as error:
            if error.errno not in _FULL:
                raise
            raise OSError(
                error.errno,
                f"{error.strerror}, in {self.folder}; {self.last_good()}: make room and give the same command again",
            ) from error

    def _found(self) -> list[Checkpoint]:
        names = (path for path in self.folder.glob("step-*") if path.name[5:].isdigit())
        return sorted((Checkpoint(int(path.name[5:]), path) for path in names), key=lambda found: found.step)


def _manifest(files: Mapping[str, bytes]) -> bytes:
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    return json.dumps({"format": FORMAT, "files": listed, "sha256": _digest(FORMAT, listed)}, indent=2).encode() + b"\n"


def _digest(version: Any, listed: Any) -> str:
    """The manifest's own checksum, so that a flipped bit in it is not taken for another format."""
    return hashlib.sha256(json.dumps([version, listed], sort_keys=True).encode()).hexdigest()


def _trouble(folder: Path) -> str | None:
    """What is wrong with a checkpoint; None where nothing is."""
    try:
        manifest = json.loads((folder / _MANIFEST).read_bytes())
        listed, version = manifest["files"], manifest["format"]
        if manifest["sha256"] != _digest(version, listed):
            return f"the checksum of {_MANIFEST} differs"
        if version != FORMAT:
            raise ValueError(f"{folder} has format {version}, this version of tauleap reads {FORMAT}")
        for name, wanted in listed.items():
            data = (folder / name).read_bytes()
            if len(data) != wanted["bytes"]:
                return f"{name} has {len(data)} bytes instead of {wanted['bytes']}"
            if hashlib.sha256(data).hexdigest() != wanted["sha256"]:
                return f"the checksum of {name} differs"
    except FileNotFoundError as error:
        return f"{Path(error.filename).name} is missing"
    except (json.JSONDecodeError, UnicodeDecodeError, KeyError, TypeError, AttributeError):
        return f"{_MANIFEST} cannot be read"
    return None
