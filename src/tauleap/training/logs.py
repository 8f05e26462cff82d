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

from tauleap import _files, _owned
from tauleap.training.folder import LOGS, SAMPLES


class Logs:
    """One CSV file a kind of row ("train", "validation"), all of whose rows have the same columns.

    A run that goes on from ``step`` forgets what was written after it: the steps will come again. A file with rows that
    cannot be read is put aside, ``say`` is called with its new name, and the other rows are kept.
    """

    def __init__(
        self, folder: Path, step: int, *, tensorboard: bool = True, say: Callable[[str], object] = lambda _: None
    ) -> None:
        self._folder, self._say = folder, say
        self._columns: dict[str, list[str]] = {}
        for kind in LOGS:
            if columns := _forget_after(folder / f"{kind}.csv", step, say):
                self._columns[kind] = columns
        # Made when the first row comes, after the first checkpoint: its thread does not say much about a full disk.
        self._make_writer = partial(_tensorboard, folder / "tensorboard", step) if tensorboard else lambda: None

    @cached_property
    def _writer(self) -> Any:
        return self._make_writer()

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Adds a row of a kind in :data:`LOGS`."""
        path, columns = self._folder / f"{kind}.csv", ["step", *values]
        found = self._columns.get(kind)
        if found is not None and found != columns:
            self._say(f"{path} has other columns: it was put aside as {_owned.set_aside(path, 'other').name}")
        if found != columns:
            self._columns[kind] = columns
            _append(path, columns)
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
        with _files.replacing(path) as file:
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


def _append(path: Path, row: list[Any]) -> None:
    line = io.StringIO()
    csv.writer(line, lineterminator="\n").writerow(row)
    with path.open("a", encoding="utf-8", newline="") as file:
        file.write(line.getvalue())


def _forget_after(path: Path, step: int, say: Callable[[str], object]) -> list[str] | None:
    """Drops the rows after ``step``, and a last line that was cut off; the columns, or None where there are none."""
    if not os.path.lexists(path):
        return None
    if path.is_symlink() or not path.is_file():
        say(f"{path} is not a regular file: it was put aside as {_owned.set_aside(path, 'other').name}")
        return None
    content = path.read_bytes()
    lines = content.split(b"\n")
    cut_off = lines.pop()  # empty unless a process was killed while it wrote the line
    if not lines and (b"step".startswith(cut_off) or (cut_off.startswith(b"step,") and _cells(cut_off))):
        path.unlink()  # killed while it wrote the first line
        return None
    columns = _cells(lines[0]) if lines else None
    if columns is None or columns[0] != "step":
        say(f"{path} has no readable first line: it was put aside as {_owned.set_aside(path, 'damaged').name}")
        return None
    rows = {line: _step_of(line, len(columns)) for line in lines[1:]}
    bad = [number for number, line in enumerate(lines[1:], start=2) if rows[line] is None]
    if bad or not _comes_again(cut_off, step):
        aside = _copy_aside(path, content)
        where = f"line {bad[0]}" if bad else "the last line"
        say(f"{path} has {len(bad) or 1} rows that cannot be read ({where}): the file was kept as {aside.name}")
    kept = [line for line in lines[1:] if (at := rows[line]) is not None and at <= step]
    if cut_off or len(kept) < len(lines) - 1:
        with _files.replacing(path) as file:
            file.write(b"".join(line + b"\n" for line in [lines[0], *kept]))
    return columns


def _comes_again(cut_off: bytes, step: int) -> bool:
    """Whether the beginning of a row may be that of one after ``step``, as a killed process leaves it."""
    cells = _cells(cut_off)
    if cells is None or len(cells) < 2:
        return cells is not None
    return cells[0].isdecimal() and int(cells[0]) > step


def _copy_aside(path: Path, content: bytes) -> Path:
    """A copy under a name that is free, or one that a killed process has made of the same bytes."""
    aside = _owned.free_name(path, "damaged")
    for old in (path.with_name(f"damaged-{path.name}"), path.with_name(f"damaged-2-{path.name}")):
        if old.is_file() and old.read_bytes() == content:
            return old
    with _files.replacing(aside) as file:
        file.write(content)
    return aside


def _cells(line: bytes) -> list[str] | None:
    """The cells of a line, None where it is not text of one line."""
    try:
        text = line.removesuffix(b"\r").decode("utf-8")
        return (next(csv.reader([text], strict=True), None) or [""]) if text.isprintable() else None
    except (UnicodeDecodeError, csv.Error):
        return None


def _step_of(line: bytes, columns: int) -> int | None:
    """The step of a row of numbers, None where it is not one."""
    cells = _cells(line)
    if cells is None or len(cells) != columns or b'"' in line:
        return None
    try:
        for cell in cells[1:]:
            float(cell or "nan")
        return int(cells[0])
    except ValueError:
        return None
