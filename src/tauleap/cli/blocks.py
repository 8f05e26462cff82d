"""Resumable blocks: rows that are sampled block by block into a folder, by one process or several.

Memory is bounded by one block, and a command that was killed resumes. Each block has its own seed, which its position
decides, so that several processes can share the blocks. Blocks are kept as states in ``.parts`` until all are there;
then one process writes the files of the samples. ``request.json`` records what was requested, and the files at the end.

All processes hold a shared lock of the folder while they sample. The lock is exclusive while the first process writes
the request, and while the last one writes the files of the samples, after all others have finished. Each shard also
has its own lock, so that no shard runs twice at a time.
"""

from __future__ import annotations

import fcntl
import io
import json
import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
import torch
from torch import Tensor

from tauleap import _files
from tauleap._files import owned, safe_read
from tauleap.cli.options import Shard
from tauleap.cli.output import with_progress_bar
from tauleap.data.array.file import parse_array, save_array, smallest_dtype

REQUEST = "request.json"
_BLOCKS = ".parts"
_LOCK = ".lock"
_OWN = re.compile(r"request\.json|\.parts|samples(?:-(?:from-)?[0-9]{6,})?\.[a-z]+")
"""Names that we write into the folder: the request, which marks it as ours, and the samples of every format."""
_OWN_BLOCKS = re.compile(r"[0-9]{8,}\.npy")
_OWN_LOCKS = re.compile(r"[0-9]+-of-[0-9]+\.lock")
_BLOCK_REMEDY = "remove it and run the same command again"


@dataclass(frozen=True)
class Blocks:
    """Hold the rows of a request, cut into blocks, in a folder.

    Args:
        folder: Where the blocks and then the files are.
        request: Everything that decides the rows and their files, as JSON can hold it.
        former_values: Values of the fields that the requests of older versions lack.
        n: The number of rows.
        size: The number of rows in a block; the last one may have fewer.
        shape: The shape of a row.
        num_states: The number of states.
    """

    folder: Path
    request: Mapping[str, object]
    former_values: Mapping[str, object]
    n: int
    size: int
    shape: tuple[int, ...]
    num_states: int

    @property
    def starts(self) -> range:
        """The number of the first row of each block."""
        return range(0, self.n, self.size)

    def starts_of(self, shard: Shard) -> list[int]:
        """Return the first rows of the blocks of a shard: every ``count``-th block.

        Args:
            shard: The shard.
        """
        return list(self.starts[shard.index - 1 :: shard.count])

    def rows(self, first: int) -> int:
        """Return the number of rows in a block.

        Args:
            first: The number of its first row.
        """
        return min(self.size, self.n - first)

    def path(self, first: int) -> Path:
        """Return the file of a block.

        Args:
            first: The number of its first row.
        """
        return self.folder / _BLOCKS / f"{first:08d}.npy"

    def save(self, first: int, x: Tensor) -> None:
        """Write a block.

        Args:
            first: The number of its first row.
            x: States, (rows, *shape).
        """
        with _files.atomic_write(self.path(first)) as file:
            save_array(file, smallest_dtype(x).numpy())

    def load(self, first: int) -> Tensor:
        """Return the states of a block, after checking the file: it may have been changed since it was written.

        Args:
            first: The number of its first row.

        Raises:
            UnreadableError: The file does not hold states of these rows.
            OSError: The file cannot be read, or there is not enough memory.
        """
        path, shape = self.path(first), (self.rows(first), *self.shape)
        try:
            with safe_read.explaining(path, _BLOCK_REMEDY), safe_read.open_plain(path, inside=path.parent) as file:
                array = parse_array(cast(io.BufferedIOBase, file), os.fstat(file.fileno()).st_size, "it")
                if array.dtype.kind not in "iu" or array.shape != shape:
                    raise ValueError(
                        f"it must hold an integer array of shape {shape}, got {array.dtype} of shape {array.shape}"
                    )
                if array.min() < 0 or array.max() >= self.num_states:
                    states = f"{array.min()}..{array.max()}"
                    raise ValueError(f"its states must be 0..{self.num_states - 1}, got {states}")
        except safe_read.UnreadableError as error:  # whatever the cause: a block can be sampled again
            raise safe_read.UnreadableError(path, error.problem, _BLOCK_REMEDY) from error
        return torch.from_numpy(array.astype(np.int64))

    def missing(self) -> int:
        """Return the number of blocks that have not been sampled yet."""
        # By listing the folder: a network file system may cache that a file is absent.
        try:
            present = {path.name for path in (self.folder / _BLOCKS).iterdir()}
        except FileNotFoundError:
            present = set()
        return sum(self.path(first).name not in present for first in self.starts)

    def files(self) -> list[Path]:
        """Return the files of the samples, if all were written and are there."""
        files = [self.folder / name for name in _recorded(self.folder)[1]]
        return files if all(file.is_file() for file in files) else []

    def is_begun(self) -> bool:
        """Return whether the folder holds this request.

        Raises:
            ValueError: It holds another request.
        """
        found, _ = _recorded(self.folder)
        if found is None:
            return False
        other = [name for name, value in self.request.items() if {**self.former_values, **found}.get(name) != value]
        if other or not found.keys() <= self.request.keys():
            differ = ", ".join(other or sorted(found.keys() - self.request.keys()))
            raise ValueError(
                f"{self.folder} holds samples of another request ({differ} differ): write another folder with --out"
            )
        return True

    def record(self, files: list[str]) -> None:
        """Write the request into the folder.

        Args:
            files: The names of the files of the samples; empty before they are written.
        """
        with _files.atomic_write(self.folder / REQUEST) as file:
            file.write(json.dumps({"request": dict(self.request), "files": files}, indent=2).encode() + b"\n")


@dataclass(frozen=True)
class ResumeResult:
    """Hold the state of a request: its files, or the number of blocks that other shards have not sampled yet."""

    files: list[Path]
    first: Tensor | None = None
    """The first rows, if the files are new."""
    missing: int = 0


def resume(
    blocks: Blocks,
    sample_block: Callable[[int, int], object],
    write_files: Callable[[], list[Path]],
    *,
    shard: Shard,
    progress: bool = True,
) -> ResumeResult:
    """Sample the blocks of a shard that are missing; if then all blocks are there, write the files.

    Args:
        blocks: The folder of the blocks and their request.
        sample_block: Samples and saves a block, given the number of its first row and its number of rows.
        write_files: Writes the files of all blocks into the folder, and returns them.
        shard: Which blocks this process samples.
        progress: Whether to show a progress bar in a terminal. Default: true.
    """
    out, parts = blocks.folder, blocks.folder / _BLOCKS
    _check_folder(blocks)
    if done := blocks.files():
        _remove_leftovers(out)
        return ResumeResult(done)
    out.mkdir(parents=True, exist_ok=True)

    def begin() -> None:
        if not blocks.is_begun():
            blocks.record([])
        owned.remove_unfinished(out, _OWN)
        owned.remove_unfinished(parts, _OWN_BLOCKS)

    with shared_lock(out, begin, blocks.is_begun):
        if done := blocks.files():  # written by another process in the meantime
            return ResumeResult(done)
        parts.mkdir(exist_ok=True)
        with owned.locked(out, f"{_BLOCKS}/{shard.index}-of-{shard.count}.lock"):
            starts = [first for first in blocks.starts_of(shard) if not blocks.path(first).exists()]
            todo = [(first, blocks.rows(first)) for first in starts]
            for first, rows in with_progress_bar(todo, "sampling", show=progress):
                if not blocks.path(first).exists():  # not sampled meanwhile by another number of shards
                    sample_block(first, rows)
    if missing := blocks.missing():
        # Another shard may have written the files and removed the blocks in the meantime.
        return ResumeResult(done) if (done := blocks.files()) else ResumeResult([], missing=missing)
    with exclusive_lock(out):
        if done := blocks.files():
            return ResumeResult(done)
        owned.remove_unfinished(out, _OWN)
        first_rows = blocks.load(0)[:16]
        files = write_files()
        blocks.record([path.name for path in files])
        _remove_blocks(out)
        return ResumeResult(files, first_rows)


def recorded_size(out: Path) -> int | None:
    """Return the size of the blocks of the request that is in a folder already, so that it can be resumed.

    Args:
        out: The folder.
    """
    found, _ = _recorded(out)
    size = None if found is None else found.get("batch_size")
    return size if isinstance(size, int) and size >= 1 else None


@contextmanager
def shared_lock(folder: Path, begin: Callable[[], None], is_begun: Callable[[], bool]) -> Iterator[None]:
    """Lock a folder for this and other processes; wait while one of them has it exclusively.

    Args:
        folder: The folder.
        begin: Called by the first process, while it has the folder exclusively.
        is_begun: Returns whether ``begin`` has been completed by any process.
    """
    with owned.open_plain(folder / _LOCK, "a+") as file:
        while True:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                pass
            else:
                begin()
            fcntl.flock(file, fcntl.LOCK_SH)
            if is_begun():
                break
            # The process that had to begin was killed: another one begins.
            fcntl.flock(file, fcntl.LOCK_UN)
            time.sleep(0.05)
        yield


@contextmanager
def exclusive_lock(folder: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lock a folder for this process only, and yield True.

    Args:
        folder: The folder.
        wait: Whether to wait for other processes; otherwise False is yielded if one holds the lock. Default: true.
    """
    with owned.open_plain(folder / _LOCK, "a+") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
        except BlockingIOError:
            yield False
            return
        yield True


def _check_folder(blocks: Blocks) -> None:
    """Raise ValueError if the folder holds anything other than this request."""
    out = blocks.folder
    owned.check_no_file(out, "the samples")
    # The request is read once more after listing the folder: another shard may have written it in between.
    if blocks.is_begun() or not _is_used(out) or blocks.is_begun():
        return
    if (out / REQUEST).is_file() and ((out / _BLOCKS).is_dir() or (out / _LOCK).is_file()):
        raise ValueError(
            f"{out / REQUEST} is damaged, so sampling cannot be resumed: write the name of a new folder with --out"
        )
    raise ValueError(
        f"{out} is not empty and does not hold samples of tauleap: write the name of a new folder with --out"
    )


def _is_used(out: Path) -> bool:
    """Return whether a folder holds other files than those of a request that is about to be written."""
    if not out.is_dir():
        return False
    beginning = {out / _LOCK, *owned.unfinished(out, re.compile(re.escape(REQUEST)))}
    return any(path not in beginning for path in out.iterdir())


def _recorded(out: Path) -> tuple[dict[str, object] | None, list[str]]:
    """Return the request in a folder, and the names of the files, which are there after all blocks were sampled."""
    try:
        found = safe_read.read_json(out / REQUEST, inside=out)
        return dict(found["request"]), [str(name) for name in found["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return None, []


def _remove_leftovers(out: Path) -> None:
    """Remove files of a process that was killed after writing the samples, unless another process is working."""
    leftovers = [*owned.unfinished(out, _OWN), *owned.unfinished(out / _BLOCKS, _OWN_BLOCKS)]
    if leftovers or (out / _BLOCKS).is_dir():
        with exclusive_lock(out, wait=False) as is_locked:
            if is_locked:
                owned.remove_unfinished(out, _OWN)
                _remove_blocks(out)


def _remove_blocks(out: Path) -> None:
    """Remove the blocks and their locks; a file of the user's stays, and the folder with it."""
    parts = out / _BLOCKS
    owned.remove_unfinished(parts, _OWN_BLOCKS)
    for path in list(parts.iterdir()) if parts.is_dir() else ():
        if (_OWN_BLOCKS.fullmatch(path.name) or _OWN_LOCKS.fullmatch(path.name)) and path.is_file():
            path.unlink()
    with suppress(OSError):
        parts.rmdir()
