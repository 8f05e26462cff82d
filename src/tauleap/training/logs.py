"""Logs of a run: CSV files, and TensorBoard if it is installed (``pip install tauleap[tensorboard]``)."""

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
    """Write one CSV file per kind of row ("train", "validation"), with the same columns in all rows.

    When a run is resumed, rows after ``step`` are removed, because these steps are repeated. If a file has rows that
    cannot be read, a copy of it is renamed and the readable rows stay. A file with other columns is renamed. This
    happens when the first row of a kind is written, which shows the columns.

    Args:
        folder: The folder of the run.
        step: The step from which the run is resumed, 0 for a new run.
        tensorboard: Whether to write TensorBoard logs too. Default: true.
        say: Called with one line per file that was renamed. Default: nothing is called.
    """

    def __init__(
        self, folder: Path, step: int, *, tensorboard: bool = True, say: Callable[[str], object] = lambda _: None
    ) -> None:
        self._folder, self._step, self._say = folder, step, say
        self._columns: dict[str, list[str]] = {}
        # Created with the first row, after the first checkpoint: its thread reports a full disk badly.
        self._make_writer = partial(_tensorboard, folder / "tensorboard", step) if tensorboard else lambda: None

    @cached_property
    def _writer(self) -> Any:
        return self._make_writer()

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Append a row.

        Args:
            kind: One of :data:`tauleap.training.folder.LOGS`.
            step: The number of the step.
            values: The other columns.
        """
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
        """Save an image of samples, and return its file.

        Args:
            step: The number of the step.
            pixels: Bytes (height, width) or (height, width, 3).
        """
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
        """Flush TensorBoard."""
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
    """Return whether ``path`` is a log with these columns, after removing rows after ``step``; rename other files."""
    if not os.path.lexists(path):
        return False
    if path.is_symlink() or not path.is_file():
        say(f"{path} is not a regular file: it was renamed to {owned.set_aside(path, 'other').name}")
        return False
    content = path.read_bytes()
    if b"\n" not in content and _line(columns).encode().startswith(content):
        path.unlink()  # killed while it wrote the first line
        return False
    found = cells_of(content.partition(b"\n")[0])
    if found is None or found[0] != "step":
        say(f"{path} has no readable first line: it was renamed to {owned.set_aside(path, 'damaged').name}")
    elif found != columns or b"\n" not in content:
        say(f"{path} has other columns: it was renamed to {owned.set_aside(path, 'other').name}")
    else:
        _remove_rows_after(path, content, step, say)
        return True
    return False


def _remove_rows_after(path: Path, content: bytes, step: int, say: Callable[[str], object]) -> None:
    """Remove the rows after ``step`` from a log, and a last line that was cut off."""
    lines = content.split(b"\n")
    cut_off = lines.pop()  # empty unless a process was killed while it wrote the line
    columns = cells_of(lines[0]) or []
    rows = {line: _step_of(line, len(columns)) for line in lines[1:]}
    bad = [number for number, line in enumerate(lines[1:], start=2) if rows[line] is None]
    if bad or not _is_repeated(cut_off, step):
        copy = _copy_of(path, content)
        where = f"line {bad[0]}" if bad else "the last line"
        unreadable = f"{len(bad) or 1} rows that cannot be read ({where})"
        say(f"{path} has {unreadable}: they are removed, and {copy.name} is a copy with all rows")
    remaining = [line for line in lines[1:] if (at := rows[line]) is not None and at <= step]
    if cut_off or len(remaining) < len(lines) - 1:
        with _files.atomic_write(path) as file:
            file.write(b"".join(line + b"\n" for line in [lines[0], *remaining]))


def _is_repeated(cut_off: bytes, step: int) -> bool:
    """Return whether the beginning of a row may be of a step after ``step``, which is repeated."""
    cells = cells_of(cut_off)
    if cells is None or len(cells) < 2:
        return cells is not None
    return cells[0].isdecimal() and int(cells[0]) > step


def _copy_of(path: Path, content: bytes) -> Path:
    """Return a copy of a log under an unused name, or one with the same bytes that a killed process has written."""
    copy = owned.free_name(path, "damaged")
    for old in (path.with_name(f"damaged-{path.name}"), path.with_name(f"damaged-2-{path.name}")):
        if old.is_file() and old.read_bytes() == content:
            return old
    with _files.atomic_write(copy) as file:
        file.write(content)
    return copy


def _step_of(line: bytes, columns: int) -> int | None:
    """Return the step of a row of numbers, None if the row cannot be read."""
    cells = cells_of(line)
    if cells is None or len(cells) != columns or b'"' in line:
        return None
    try:
        for cell in cells[1:]:
            float(cell or "nan")
        return int(cells[0])
    except ValueError:
        return None
