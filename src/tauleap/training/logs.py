"""What a run measures, step by step: CSV files, and TensorBoard where it is installed (``tauleap[tensorboard]``)."""

from __future__ import annotations

import csv
import io
import os
from collections.abc import Callable, Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np

from tauleap import _files
from tauleap._files import owned
from tauleap.training.folder import SAMPLES, cells_of


class Logs:
    """One CSV file per kind of row ("train", "validation"), all of whose rows have the same columns.

    A run that goes on from ``step`` forgets what was written after it: the steps will come again. A file with rows that
    cannot be read is put aside, ``say`` is called with its new name, and the other rows are kept. All of this happens
    when the first row of a kind comes: its columns show whether the file is ours; any other file is put aside whole.
    """

    def __init__(
        self, folder: Path, step: int, *, tensorboard: bool = True, say: Callable[[str], object] = lambda _: None
    ) -> None:
        self._folder, self._step, self._say = folder, step, say
        self._columns: dict[str, list[str]] = {}
        # Made when the first row comes, after the first checkpoint: its thread does not say much about a full disk.
        self._make_writer = partial(_tensorboard, folder / "tensorboard", step) if tensorboard else lambda: None

    @cached_property
    def _writer(self) -> Any:
        return self._make_writer()

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Adds a row of a kind in :data:`tauleap.training.folder.LOGS`."""
        path, columns = self._folder / f"{kind}.csv", ["step", *values]
        if self._columns.get(kind) != columns:
            if not _continued(path, columns, self._step, self._say):
                _append(path, columns)
            self._columns[kind] = columns
        _append(path, [step, *values.values()])
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{kind}/{name}", value, step)
            self._writer.flush()

    def picture(self, step: int, pixels: np.ndarray) -> Path:
        """Keeps a picture of samples, (height, width) or (height, width, 3) bytes."""
        from PIL import Image

        folder = self._folder / SAMPLES
        folder.mkdir(exist_ok=True)
        path = folder / f"step-{step:08d}.png"
        with _files.atomic_write(path) as file:
            Image.fromarray(pixels).save(file, format="PNG")
        if self._writer is not None:
            self._writer.add_image("samples", pixels, step, dataformats="HW" if pixels.ndim == 2 else "HWC")
        return path

    def close(self) -> None:
        """Writes what TensorBoard still holds."""
        if self.__dict__.get("_writer") is not None:
            self._writer.close()


def _tensorboard(folder: Path, step: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ModuleNotFoundError:
        return None
    return SummaryWriter(str(folder), purge_step=step + 1)


def _line(row: list[Any]) -> str:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    return line.getvalue()


def _append(path: Path, row: list[Any]) -> None:
    with owned.open_plain(path, "a", newline="") as file:
        file.write(_line(row))


def _continued(path: Path, columns: list[str], step: int, say: Callable[[str], object]) -> bool:
    """Whether ``path`` is a log with these columns, without rows after ``step`` now; any other file was put aside."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_file():
        say(f"{path} is not a regular file: it was put aside as {owned.set_aside(path, 'other').name}")
        return False
    content = path.read_bytes()
    if b"\n" not in content and _line(columns).encode().startswith(content):
        path.unlink()  # killed while it wrote the first line
        return False
    found = cells_of(content.partition(b"\n")[0])
    if found is None or found[0] != "step":
        say(f"{path} has no readable first line: it was put aside as {owned.set_aside(path, 'damaged').name}")
    elif found != columns or b"\n" not in content:
        say(f"{path} has other columns: it was put aside as {owned.set_aside(path, 'other').name}")
    else:
        _forget_after(path, content, step, say)
        return True
    return False


def _forget_after(path: Path, content: bytes, step: int, say: Callable[[str], object]) -> None:
    """Drop the rows after ``step`` from a log of ours, and a last line that was cut off."""
    lines = content.split(b"\n")
    cut_off = lines.pop()  # empty unless a process was killed while it wrote the line
    columns = cells_of(lines[0]) or []
    rows = {line: _step_of(line, len(columns)) for line in lines[1:]}
    bad = [number for number, line in enumerate(lines[1:], start=2) if rows[line] is None]
    if bad or not _comes_again(cut_off, step):
        aside = _copy_aside(path, content)
        where = f"line {bad[0]}" if bad else "the last line"
        say(f"{path} has {len(bad) or 1} rows that cannot be read ({where}): the file was kept as {aside.name}")
    kept = [line for line in lines[1:] if (at := rows[line]) is not None and at <= step]
    if cut_off or len(kept) < len(lines) - 1:
        with _files.atomic_write(path) as file:
            file.write(b"".join(line + b"\n" for line in [lines[0], *kept]))


def _comes_again(cut_off: bytes, step: int) -> bool:
    """Whether the beginning of a row may be that of one after ``step``, as a killed process leaves it."""
    cells = cells_of(cut_off)
    if cells is None or len(cells) < 2:
        return cells is not None
    return cells[0].isdecimal() and int(cells[0]) > step


def _copy_aside(path: Path, content: bytes) -> Path:
    """A copy under a name that is free, or one that a killed process has made of the same bytes."""
    aside = owned.free_name(path, "damaged")
    for old in (path.with_name(f"damaged-{path.name}"), path.with_name(f"damaged-2-{path.name}")):
        if old.is_file() and old.read_bytes() == content:
            return old
    with _files.atomic_write(aside) as file:
        file.write(content)
    return aside


def _step_of(line: bytes, columns: int) -> int | None:
    """The step of a row of numbers, None where it is not one."""
    cells = cells_of(line)
    if cells is None or len(cells) != columns or b'"' in line:
        return None
    try:
        for cell in cells[1:]:
            float(cell or "nan")
        return int(cells[0])
    except ValueError:
        return None
