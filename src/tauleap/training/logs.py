"""What a run measures, step by step: CSV files, and TensorBoard where it is installed (``tauleap[tensorboard]``)."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tauleap import _files


class Logs:
    """One CSV file a kind of row ("train", "validation"), each with the columns of its first row.

    A run that goes on from ``step`` forgets what was written after it: the steps will come again.
    """

    def __init__(self, folder: Path, step: int, *, tensorboard: bool = True) -> None:
        self._folder = folder
        self._columns: dict[str, list[str]] = {}
        for path in folder.glob("*.csv"):
            if columns := _forget_after(path, step):
                self._columns[path.stem] = columns
        self._writer = _tensorboard(folder / "tensorboard", step) if tensorboard else None

    def write(self, kind: str, step: int, values: Mapping[str, float]) -> None:
        """Adds a row."""
        path = self._folder / f"{kind}.csv"
        if kind not in self._columns:
            self._columns[kind] = ["step", *values]
            _append(path, self._columns[kind])
        row = {"step": step} | dict(values)
        _append(path, [row.get(column, "") for column in self._columns[kind]])
        if self._writer is not None:
            for name, value in values.items():
                self._writer.add_scalar(f"{kind}/{name}", value, step)
            self._writer.flush()

    def picture(self, step: int, pixels: np.ndarray) -> Path:
        """Keeps a picture of samples, (height, width) or (height, width, 3) bytes."""
        from PIL import Image

        folder = self._folder / "samples"
        folder.mkdir(exist_ok=True)
        path = folder / f"step-{step:08d}.png"
        with _files.replacing(path) as file:
            Image.fromarray(pixels).save(file, format="PNG")
        if self._writer is not None:
            self._writer.add_image("samples", pixels, step, dataformats="HW" if pixels.ndim == 2 else "HWC")
        return path

    def close(self) -> None:
        """Writes what TensorBoard still holds."""
        if self._writer is not None:
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


def _forget_after(path: Path, step: int) -> list[str] | None:
    """Drops the rows after ``step``, and a last line that was cut off; the columns, or None where there are none."""
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    if not lines or not lines[0].endswith("\n"):
        path.unlink()
        return None
    header, *rows = lines
    kept = [row for row in rows if row.endswith("\n") and int(row.split(",")[0]) <= step]
    if kept != rows:
        with _files.replacing(path) as file:
            file.write("".join([header, *kept]).encode())
    return next(csv.reader([header]))
