"""File formats: how a file becomes rows of states, and how rows of states become a file of the same format.

A format is saved with a model as JSON, so that samples are written as the data was: a table with its own names, text,
music, pictures. :func:`format_from_config` builds it again; a configuration cannot run code.

To add a format, write a subclass of :class:`Format` in a new file and register it in ``tauleap/_formats.py``.
"""

from __future__ import annotations

import dataclasses
import importlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from tauleap._formats import FORMATS, Registration
from tauleap.data.dataset import Dataset


class Format(ABC):
    """A way to read and write states. A concrete format is a frozen dataclass whose fields JSON can hold."""

    kind: ClassVar[str]
    """Its name in a configuration."""
    open: ClassVar[Callable[..., LoadedData]]
    """Return the rows of a file or folder to train on: a function of a path, and of the format's own options as keyword
    arguments. It selects the coding, which becomes the fields of the format."""
    preview_rows: ClassVar[int] = 5
    """How many rows a terminal has space for, at most."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""

    @property
    @abstractmethod
    def num_states(self) -> int:
        """S, of the site with the most states."""

    @property
    def sizes(self) -> Tensor | None:
        """How many states each site has, int64 (*shape), where they differ; None: S everywhere."""
        return None

    @property
    def ordinal(self) -> bool:
        """Whether the states are ordered quantities, such as shades of grey."""
        return False

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether the format knows a file or folder by its own name, such as the archive of CIFAR-10.

        Args:
            path: The file or folder.
        """
        return False

    @abstractmethod
    def read(self, path: Path) -> Dataset:
        """Return the rows of a file or folder of the same format, in this coding; absent values are ``missing``.

        Args:
            path: The file or folder.
        """

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        """Return the same rows, and lines that say what was left out, and why.

        Args:
            path: The file or folder.
        """
        return self.read(path), []

    @abstractmethod
    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        """Write rows into files of this format, and return the files.

        Args:
            x: States, (n, *shape).
            folder: The folder, which is made when it does not exist.
            stem: How the names of the files begin.
            first: The number of the first row, where rows are numbered.
            seed: The seed of values that are drawn, where a state stands for many values. Default: 0.
        """

    def write_completed(
        self, x: Tensor, observed: Tensor, data: Dataset, folder: Path, *, stem: str = "completed", seed: int = 0
    ) -> list[Path]:
        """Write completed rows, in which given values are as they were given, and return the files.

        Args:
            x: States, (n, *shape).
            observed: Which values the user did not ask to draw, bool (n, *shape); empty ones are drawn nevertheless.
            data: The rows that were completed.
            folder: The folder, which is made when it does not exist.
            stem: How the names of the files begin.
            seed: The seed of values that are drawn, where a state stands for many values. Default: 0.
        """
        return self.write(x, folder, stem=stem, seed=seed)

    def refit(self, data: Dataset) -> Format:
        """Return the format with a coding that follows from these rows alone; itself if no rows enter the coding.

        Args:
            data: The rows to train on.
        """
        return self

    def encode_again(self, data: Dataset) -> Dataset:
        """Return rows in the coding of this format, which was refitted after they were encoded.

        Args:
            data: Rows in the former coding.
        """
        return data

    def log_density(self, data: Dataset) -> Tensor | None:
        """Return the natural logarithm of the probability of each original value given its state, like ``data.x``.

        Args:
            data: The rows.

        Returns:
            float64 (n, *shape), or None where the states are the values, or the original values are not known.
        """
        return None

    @abstractmethod
    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        """Return the first rows as text for a terminal.

        Args:
            x: States, (n, *shape).
            n: How many rows, at most.
            seed: That of :meth:`write`, so that the values are those of the file. Default: 0.
        """

    @property
    def site_names(self) -> tuple[str, ...]:
        """The names of the sites, such as those of columns; empty where they have none."""
        return ()

    completion_remedy: ClassVar[str] = "leave cells empty, or say what is known with --observed"
    """How a user marks values to fill in."""

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        """Return arguments of ``tauleap complete`` after the model, and a comment on what they do.

        Args:
            data: The rows that were trained on.
            path: Their file, as a word of a shell.
        """
        return "FILE --observed 0", "fills in all sites but the first"

    def completion_start(self) -> Dataset:
        """Return rows to complete where no file is given.

        Raises:
            ValueError: The format has none.
        """
        raise ValueError("give a file to complete: only a model of music has something to begin with by itself")

    def config(self) -> dict[str, Any]:
        """Return what :func:`format_from_config` builds it from, as JSON can hold it."""
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType] (concrete formats are dataclasses)
        held = {field.name: getattr(self, field.name) for field in fields}
        return {"kind": self.kind} | json.loads(json.dumps(held))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Format:
        """Return the format that :meth:`config` described.

        Args:
            config: A mapping with the kind and the fields of the format.

        Raises:
            ValueError: The fields are others, or their values are not valid.
        """
        fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType] (concrete formats are dataclasses)
        wanted, given = {field.name for field in fields}, set(config) - {"kind"}
        # An older configuration lacks fields that were added since; their default is None.
        later = {field.name for field in fields if field.default is None} - given
        wanted -= later
        if given != wanted:
            wrong = ", ".join(sorted(map(str, given ^ wanted)))
            raise ValueError(f"a form of kind {cls.kind!r} has the fields {', '.join(sorted(wanted))}: see {wrong}")
        try:
            return cls(**{name: _frozen(config[name]) for name in wanted})
        except TypeError as error:
            raise ValueError(f"a field of the form of kind {cls.kind!r} is of the wrong type") from error

    def check(self, x: Tensor) -> Tensor:
        """Return rows of states on the CPU.

        Args:
            x: States, (n, *shape).

        Raises:
            ValueError: The shape is another one, or a site has a state that the format does not have.
        """
        if tuple(x.shape[1:]) != self.shape:
            raise ValueError(f"x must have shape (n, *{self.shape}), got {tuple(x.shape)}")
        states = x.detach().cpu().long()
        most = self.num_states if self.sizes is None else self.sizes
        beyond = ((states < 0) | (states >= most)).nonzero()
        if len(beyond):
            row, *site = beyond[0].tolist()
            raise ValueError(
                f"row {row} has the state {int(states[row, *site])} at site {tuple(site)}, which a {self.kind} of "
                f"{self.num_states} states does not have: was the model trained on other data?"
            )
        return states


class RowFiles(Format):
    """A format in which each row has files of its own, so that they can be written as soon as the row is sampled."""

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        return self.write_sheet(x, folder, stem=stem) + self.write_rows(x, folder, stem=stem, first=first)

    @abstractmethod
    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, anew: bool = True
    ) -> list[Path]:
        """Write the files of each row, and return them.

        Args:
            x: States, (n, *shape).
            folder: The folder, which is made when it does not exist.
            stem: How the names of the files begin.
            first: The number of the first row.
            anew: Whether files that exist are written again. Default: true.
        """

    def write_sheet(self, x: Tensor, folder: Path, *, stem: str = "samples") -> list[Path]:
        """Write one picture of the first rows, where the format has such a picture, and return the files.

        Args:
            x: States, (n, *shape).
            folder: The folder, which is made when it does not exist.
            stem: How the names of the files begin.
        """
        return []


@dataclass(frozen=True)
class LoadedData:
    """The rows of a file or folder, their format, and a report of what was used or skipped and why.

    Args:
        dataset: The rows.
        form: The format, with the coding that was selected.
        report: Lines for the user.
        groups: (n,), the same number for rows that belong together, such as those of one song: they are trained on or
            held out together. Default: None, every row is by itself.
    """

    dataset: Dataset
    form: Format
    report: list[str]
    groups: Tensor | None = None


def format_class(entry: Registration) -> type[Format]:
    """Return the class of a registered format.

    Args:
        entry: The registration.
    """
    module, _, name = entry.target.partition(":")
    return getattr(importlib.import_module(module), name)


def format_from_config(config: object) -> Format:
    """Return the format that :meth:`Format.config` described.

    >>> format_from_config({"kind": "text", "length": 3, "alphabet": "ab"}).shape
    (3,)

    Args:
        config: A mapping with the kind and the fields of the format.

    Raises:
        ValueError: The configuration does not describe a format.
    """
    kinds = {entry.kind: entry for entry in FORMATS}
    if not isinstance(config, Mapping) or not isinstance(config.get("kind"), str):
        raise ValueError(f"a form is described by a mapping with a kind, one of {', '.join(kinds)}")
    if config["kind"] not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {config['kind']!r}")
    return format_class(kinds[config["kind"]]).from_config(config)


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value
