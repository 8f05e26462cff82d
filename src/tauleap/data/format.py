"""File formats, which read files as rows of states and write rows of states as files of the same format.

A format is saved with a model as JSON, so that samples are written in the format of the training data: a table with its
column names, text, music, images. :func:`format_from_config` rebuilds it; a configuration cannot run code.

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
from tauleap.data.table.columns.dependency import Dependency


class Format(ABC):
    """Define a file format. A concrete format is a frozen dataclass whose fields can be saved as JSON.

    >>> import torch
    >>> @dataclass(frozen=True)
    ... class Dice(Format):
    ...     kind, shape, num_states = "dice", (2,), 6
    ...     def read(self, path):
    ...         faces = [[int(face) for face in line] for line in path.read_text().split()]
    ...         return Dataset(torch.tensor(faces) - 1, 6)
    ...     def write(self, x, folder, **options):
    ...         raise ValueError("dice are only read")
    ...     def preview(self, x, n, *, seed=0):
    ...         return " ".join("".join(str(face + 1) for face in row) for row in x[:n].tolist())
    >>> Dice().preview(torch.tensor([[0, 5], [2, 2]]), 2)
    '16 33'
    """

    kind: ClassVar[str]
    """The name of the format in a configuration."""
    open: ClassVar[Callable[..., LoadedData]]
    """Read a file or folder of training data: a function of a path and of the format's own options as keywords. It
    chooses the encoding, which becomes the fields of the format."""
    preview_rows: ClassVar[int] = 5
    """The largest number of rows in a preview for a terminal."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """The shape of one row."""

    @property
    @abstractmethod
    def num_states(self) -> int:
        """The number of states of the site that has the most."""

    @property
    def sizes(self) -> Tensor | None:
        """The number of states of each site, int64 (*shape); None if all sites have ``num_states``."""
        return None

    @property
    def ordinal(self) -> bool:
        """Whether the states are ordered quantities, such as shades of grey."""
        return False

    @staticmethod
    def recognises(path: Path) -> bool:
        """Return whether a file or folder has a name that only this format uses, such as the archive of CIFAR-10.

        Args:
            path: The file or folder.
        """
        return False

    @abstractmethod
    def read(self, path: Path) -> Dataset:
        """Return the rows of a file or folder in the encoding of this format; absent values are ``missing``.

        Args:
            path: The file or folder.

        Raises:
            ValueError: The file is damaged, or has values that this encoding lacks.
        """

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        """Return the same rows as :meth:`read`, and lines of text about what was left out and why.

        Args:
            path: The file or folder.
        """
        return self.read(path), []

    def read_incomplete(self, path: Path, *, wildcard: str | None = None) -> tuple[Dataset, list[str]]:
        """Return the rows of a file to complete, and lines of text about what was left out and why.

        Args:
            path: The file or folder.
            wildcard: The text that stands for one missing symbol, for rows of symbols. Default: that of the format.

        Raises:
            ValueError: The format has no wildcards.
        """
        if wildcard is not None:
            raise ValueError(
                f"--wildcard needs a model of rows of symbols, and this is a model of {self.kind}: leave --wildcard out"
            )
        return self.read_with_report(path)

    @abstractmethod
    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        """Write rows into files of this format, and return the files.

        Args:
            x: States, (n, *shape).
            folder: The folder, which is created if it does not exist.
            stem: The beginning of the file names. Default: "samples".
            first: The number of the first row, if the files number their rows. Default: 0.
            seed: The seed of values that are sampled where a state covers a range of values. Default: 0.
        """

    def write_completed(
        self, x: Tensor, observed: Tensor, data: Dataset, folder: Path, *, stem: str = "completed", seed: int = 0
    ) -> list[Path]:
        """Write completed rows, in which observed values are unchanged, and return the files.

        Args:
            x: States, (n, *shape).
            observed: The values to condition on, bool (n, *shape); missing ones among them are sampled all the same.
            data: The rows that were completed.
            folder: The folder, which is created if it does not exist.
            stem: The beginning of the file names. Default: "completed".
            seed: The seed of values that are sampled where a state covers a range of values. Default: 0.
        """
        return self.write(x, folder, stem=stem, seed=seed)

    def filled(self, data: Dataset, observed: Tensor) -> Tensor:
        """Return which values :meth:`write_completed` writes from the model, bool (n, *shape).

        Args:
            data: The rows to complete.
            observed: Which values are conditioned on if they are not missing, bool (n, *shape).
        """
        return ~(data.known() & observed)

    def describe(self) -> list[str]:
        """Return the lines of a report that depend on the coding, such as a table of column types; none by default."""
        return []

    def refit(self, data: Dataset) -> Format:
        """Return the format with an encoding fitted to these rows alone, or itself if the encoding needs no rows.

        Args:
            data: The training rows.
        """
        return self

    def dependencies(self, data: Dataset) -> list[Dependency]:
        """Return which columns of a table follow from others in these rows; none for other formats.

        Args:
            data: The training rows.
        """
        return []

    def encode_again(self, data: Dataset) -> Dataset:
        """Return rows in the encoding of this format, which was refitted after they were encoded.

        Args:
            data: Rows in the earlier encoding.
        """
        return data

    def log_density(self, data: Dataset) -> Tensor | None:
        """Return the log probability (in nats) of each original value given its state.

        Args:
            data: The rows.

        Returns:
            float64 (n, *shape); None if the states are the values, or the original values are unknown.
        """
        return None

    @abstractmethod
    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        """Return the first rows as text for a terminal.

        Args:
            x: States, (n, *shape).
            n: The largest number of rows.
            seed: The seed given to :meth:`write`, so that preview and file have equal values. Default: 0.
        """

    @property
    def site_names(self) -> tuple[str, ...]:
        """The names of the sites, such as column names; empty if the sites have no names."""
        return ()

    completion_remedy: ClassVar[str] = "leave cells empty, or name the observed values with --observed"
    """Advice for a user who gave no values to fill in."""

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        """Return what follows the model in an example of ``tauleap complete``, and a comment that explains it.

        Args:
            data: The training rows.
            path: Their file, quoted for a shell.
        """
        return "FILE --observed 0", "fills in all sites but the first"

    def completion_start(self) -> Dataset:
        """Return rows to complete if no file is given.

        Raises:
            ValueError: The format has no such rows; only music has.
        """
        raise ValueError("a file to complete is missing: write its name; only models of music have a built-in melody")

    def config(self) -> dict[str, Any]:
        """Return the configuration that :func:`format_from_config` takes; it can be saved as JSON."""
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType] (concrete formats are dataclasses)
        values = {field.name: getattr(self, field.name) for field in fields}
        return {"kind": self.kind} | json.loads(json.dumps(values))

    @classmethod
    def from_config(cls, config: Mapping[str, Any]) -> Format:
        """Return the format of a configuration that :meth:`config` returned.

        Args:
            config: A mapping with the kind and the fields of the format.

        Raises:
            ValueError: A field is missing, unknown or has an invalid value.
        """
        fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType] (concrete formats are dataclasses)
        given = set(config) - {"kind"}
        # A configuration of an earlier version lacks fields that were added since; their default is None.
        accepted = {field.name for field in fields if field.default is not None or field.name in given}
        if given != accepted:
            wrong = ", ".join(sorted(map(str, given ^ accepted)))
            raise ValueError(
                f"a format of kind {cls.kind!r} must have the fields {', '.join(sorted(accepted))}; missing or "
                "unknown: "
                f"{wrong}"
            )
        try:
            return cls(**{name: _as_tuples(config[name]) for name in accepted})
        except TypeError as error:
            raise ValueError(f"a field of the format of kind {cls.kind!r} has the wrong type: {error}") from error

    def check(self, x: Tensor) -> Tensor:
        """Return rows of states as int64 on the CPU, after a check of shape and range.

        Args:
            x: States, (n, *shape).

        Raises:
            ValueError: The shape is wrong, or a state is out of range.
        """
        if tuple(x.shape[1:]) != self.shape:
            raise ValueError(f"x must have shape (n, *{self.shape}), got {tuple(x.shape)}")
        states = x.detach().cpu().long()
        sizes = self.num_states if self.sizes is None else self.sizes
        invalid = ((states < 0) | (states >= sizes)).nonzero()
        if len(invalid):
            row, *site = invalid[0].tolist()
            raise ValueError(
                f"row {row} has the state {int(states[row, *site])} at site {tuple(site)}, which a format of kind "
                f"{self.kind!r} with {self.num_states} states does not have: give states of a model of this data"
            )
        return states


class RowFiles(Format):
    """Define a format that writes separate files for each row, as soon as the row is sampled."""

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, seed: int = 0) -> list[Path]:
        return self.write_sheet(x, folder, stem=stem) + self.write_rows(x, folder, stem=stem, first=first)

    @abstractmethod
    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, overwrite: bool = True
    ) -> list[Path]:
        """Write the files of each row, and return them.

        Args:
            x: States, (n, *shape).
            folder: The folder, which is created if it does not exist.
            stem: The beginning of the file names. Default: "samples".
            first: The number of the first row. Default: 0.
            overwrite: Whether existing files are written again. Default: True.
        """

    def write_sheet(self, x: Tensor, folder: Path, *, stem: str = "samples") -> list[Path]:
        """Write one image that shows the first rows, if the format has one, and return the files.

        Args:
            x: States, (n, *shape).
            folder: The folder, which is created if it does not exist.
            stem: The beginning of the file names. Default: "samples".
        """
        return []


@dataclass(frozen=True)
class LoadedData:
    """Hold the rows of a file or folder, their format, and a report of what was used or skipped and why.

    Args:
        dataset: The rows.
        form: The format, with the encoding that was chosen.
        report: Lines of text for the user.
        groups: A group number per row, int64 (n,). Rows of one group, such as those of one song, go into the training
            set or the test set together. Default: None, every row is independent.

    >>> import tempfile
    >>> from tauleap.data import open_data
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "words.txt")
    ...     _ = path.write_text("abba" * 100)
    ...     loaded = open_data(path)
    >>> loaded.form.kind, loaded.dataset.num_states
    ('text', 2)
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
    """Return the format of a configuration that :meth:`Format.config` returned.

    >>> format_from_config({"kind": "text", "length": 3, "alphabet": "ab"}).shape
    (3,)

    Args:
        config: A mapping with the kind and the fields of the format.

    Returns:
        The format.

    Raises:
        ValueError: The configuration does not describe a format.
    """
    kinds = {entry.kind: entry for entry in FORMATS}
    if not isinstance(config, Mapping) or not isinstance(config.get("kind"), str):
        raise ValueError(
            f"the configuration of a format must be a mapping with a kind, one of {', '.join(kinds)}, got "
            f"{config!r:.60}"
        )
    if config["kind"] not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {config['kind']!r}")
    return format_class(kinds[config["kind"]]).from_config(config)


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(item) for item in value) if isinstance(value, list | tuple) else value
