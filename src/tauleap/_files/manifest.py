"""The manifest of a checkpoint: sizes and SHA-256 of its files, and of the manifest itself."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tauleap._files import safe_read

FORMAT = 1
MANIFEST = "manifest.json"


class Manifest:
    """Hold the manifest of a folder, checked against its own checksum when it is read.

    Args:
        folder: The checkpoint.
        inside: The folder that its files must not leave by links. Default: the checkpoint itself.

    Raises:
        UnreadableError: The manifest is damaged.
        OtherFormatError: It has another format.
        FileNotFoundError: There is none.
    """

    def __init__(self, folder: Path, inside: Path | None = None) -> None:
        self.folder, self.inside = folder, folder if inside is None else inside
        path = folder / MANIFEST
        found = safe_read.read_json(path, inside=self.inside)
        try:
            listed, version, digest = found["files"], found["format"], found["sha256"]
            fits = digest == _digest(version, listed)
        except (KeyError, TypeError) as error:
            raise _damaged(path, "is damaged: it lists no files and checksums") from error
        if not fits:
            raise _damaged(path, "is damaged: its checksum differs")
        if version != FORMAT:
            raise safe_read.OtherFormatError(path, version, FORMAT)
        if not isinstance(listed, dict) or not all(_is_entry(name, entry) for name, entry in listed.items()):
            raise _damaged(path, "is damaged: it must list names, sizes and checksums")
        self.files: dict[str, dict[str, Any]] = listed

    def read(self, name: str) -> bytes:
        """Return the bytes of a file after comparing its size and checksum with those in the manifest.

        Args:
            name: the name of the file in the folder.

        Raises:
            UnreadableError: the file is not in the manifest, or differs from it.
        """
        path = self.folder / name
        if name not in self.files:
            raise _damaged(path, f"is not in {MANIFEST}")
        size, digest = self.files[name]["bytes"], self.files[name]["sha256"]
        with safe_read.open_plain(path, inside=self.inside) as file:
            found = os.fstat(file.fileno()).st_size
            if found != size:  # before memory is taken for it
                raise _damaged(path, f"has {found} bytes instead of {size}")
            data = file.read(size)
        if hashlib.sha256(data).hexdigest() != digest:
            raise _damaged(path, f"has another checksum than in {MANIFEST}")
        return data


def _damaged(path: Path, problem: str) -> safe_read.UnreadableError:
    return safe_read.UnreadableError(path, problem, safe_read.MODEL_REMEDY)


def to_bytes(files: Mapping[str, bytes]) -> bytes:
    """Return the content of the manifest of some files.

    Args:
        files: names and contents.
    """
    listed = {name: {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()} for name, data in files.items()}
    return json.dumps({"format": FORMAT, "files": listed, "sha256": _digest(FORMAT, listed)}, indent=2).encode() + b"\n"


def _digest(version: Any, listed: Any) -> str:
    """Return the manifest's own checksum, so that a flipped bit in it is not taken for another format."""
    return hashlib.sha256(json.dumps([version, listed], sort_keys=True).encode()).hexdigest()


def _is_entry(name: str, entry: Any) -> bool:
    # A name with a slash would leave the folder, and one that begins with a dot is none of ours.
    return (
        "/" not in name
        and not name.startswith(".")
        and isinstance(entry, dict)
        and isinstance(entry.get("bytes"), int)
        and not isinstance(entry["bytes"], bool)
        and isinstance(entry.get("sha256"), str)
    )
