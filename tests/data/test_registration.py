"""A new format is one class and one registration."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch import Tensor

from tauleap import _formats
from tauleap.data import Dataset, Format, LoadedData, format, format_from_config, open_data


@dataclass(frozen=True)
class MorseFormat(Format):
    """Lines of dots and dashes."""

    kind: ClassVar[str] = "morse"
    length: int

    @staticmethod
    def open(path: Path, *, length: int = 4) -> LoadedData:
        form = MorseFormat(length)
        return LoadedData(form.read(path), form, [f"{path.name}: lines"])

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.length,)

    @property
    def num_states(self) -> int:
        return 2

    def read(self, path: Path) -> Dataset:
        return Dataset(torch.tensor([[int(mark == "-") for mark in line] for line in path.read_text().split()]), 2)

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0) -> list[Path]:
        path = folder / f"{stem}.morse"
        path.write_text(self.preview(x, len(x)))
        return [path]

    def preview(self, x: Tensor, n: int) -> str:
        return "\n".join("".join(".-"[state] for state in row) for row in self.check(x[:n]).tolist())


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> None:
    module = type(sys)("morse")
    module.MorseFormat = MorseFormat  # pyright: ignore[reportAttributeAccessIssue]
    monkeypatch.setitem(sys.modules, "morse", module)
    formats = (*_formats.FORMATS, _formats.Registration("morse", "morse:MorseFormat", (".morse",)))
    for place in (_formats, format, sys.modules[open_data.__module__]):
        monkeypatch.setattr(place, "FORMATS", formats)


def test_a_registered_format_is_read_written_and_saved(registered: None, tmp_path: Path) -> None:
    path = tmp_path / "a.morse"
    path.write_text("..-\n--.\n")
    loaded = open_data(path, length=3)
    assert loaded.dataset.x.tolist() == [[0, 0, 1], [1, 1, 0]]
    assert format_from_config(loaded.form.config()) == loaded.form == MorseFormat(3)
    (written,) = loaded.form.write(loaded.dataset.in_memory(), tmp_path)
    assert written.read_text() == "..-\n--."
    with pytest.raises(ValueError, match=r"does not take the option coding; this kind of data takes: length"):
        open_data(path, coding="bytes")
    assert loaded.form.completion_example(loaded.dataset, "a.morse")[0] == "FILE --observed 0"
    with pytest.raises(ValueError, match="a file to complete is missing"):
        loaded.form.completion_start()


def test_unregistered_suffix_is_another_format(tmp_path: Path) -> None:
    path = tmp_path / "a.morse"
    path.write_text("..-\n")
    with pytest.raises(ValueError, match=r"has the ending '\.morse', which cannot be read; accepted are \.npy"):
        open_data(path)


@pytest.mark.parametrize("entry", _formats.FORMATS, ids=lambda entry: entry.kind)
def test_registrations_name_their_classes(entry: _formats.Registration) -> None:
    assert format.format_class(entry).kind == entry.kind
