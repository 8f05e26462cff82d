"""What states mean: how a file becomes rows of states, and how rows of states become the data's own form again.

A form is kept with a model as JSON, so that samples come out as what went in: a table with its own names, text, music,
pictures. :func:`form_from` builds one from a list of kinds; nothing in a configuration is run.
"""

from __future__ import annotations

import dataclasses
import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from torch import Tensor

from tauleap.data.arrays import Dataset


class Form(ABC):
    """A way to read and write states. A concrete form is a frozen dataclass whose fields JSON can hold."""

    kind: ClassVar[str]
    """Its name in a configuration."""

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one row."""

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

    @abstractmethod
    def read(self, path: Path) -> Dataset:
        """The rows of a file or folder of the same kind, in this coding; what is not there is ``missing``."""

    def read_and_tell(self, path: Path) -> tuple[Dataset, list[str]]:
        """The same rows, and what a user should know of how they were read: what was left out, and why."""
        return self.read(path), []

    @abstractmethod
    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0) -> list[Path]:
        """Writes the rows ``x`` (n, *shape) in the data's own form into ``folder``; returns the files.

        Args:
            x: states.
            folder: it is made when it does not exist.
            stem: how the names of the files begin.
            first: the number of the first row, for what is numbered.
        """

    @abstractmethod
    def show(self, x: Tensor, n: int) -> str:
        """The first ``n`` rows as text for a terminal."""

    def config(self) -> dict[str, Any]:
        """What :func:`form_from` builds it from, as JSON can hold it."""
        fields = dataclasses.fields(self)  # pyright: ignore[reportArgumentType] (concrete forms are dataclasses)
        held = {field.name: getattr(self, field.name) for field in fields}
        return {"kind": self.kind} | json.loads(json.dumps(held))

    def check(self, x: Tensor) -> Tensor:
        """``x`` as rows of states on the CPU, or an error that says what is wanted."""
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


class RowFiles(Form):
    """A form in which each row has files of its own, so that they can be written as soon as the row is made."""

    def write(self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0) -> list[Path]:
        return self.write_sheet(x, folder, stem=stem) + self.write_rows(x, folder, stem=stem, first=first)

    @abstractmethod
    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, anew: bool = True
    ) -> list[Path]:
        """The files of each row; unless ``anew``, those that are there stay."""

    def write_sheet(self, x: Tensor, folder: Path, *, stem: str = "samples") -> list[Path]:
        """What there is of the first rows together: nothing, or a picture."""
        return []


@dataclass(frozen=True)
class Opened:
    """What a file or folder holds: the rows, what they mean, and what was used or skipped and why.

    ``groups`` (n,) has the same number for rows that belong together, such as those of one song: they are trained with
    or held out together. None: every row is by itself.
    """

    dataset: Dataset
    form: Form
    report: list[str]
    groups: Tensor | None = None


def form_from(config: object) -> Form:
    """The form that :meth:`Form.config` described.

    >>> form_from({"kind": "text", "length": 3, "alphabet": "ab"}).shape
    (3,)
    """
    from tauleap.data.array_file import ArrayForm
    from tauleap.data.images import ImageForm
    from tauleap.data.music import MusicForm
    from tauleap.data.table import TableForm
    from tauleap.data.text import TextForm

    kinds: dict[str, type[Form]] = {cls.kind: cls for cls in (ArrayForm, TableForm, TextForm, MusicForm, ImageForm)}
    if not isinstance(config, Mapping) or not isinstance(config.get("kind"), str):
        raise ValueError(f"a form is described by a mapping with a kind, one of {', '.join(kinds)}")
    if config["kind"] not in kinds:
        raise ValueError(f"kind must be one of {', '.join(kinds)}, got {config['kind']!r}")
    cls = kinds[config["kind"]]
    fields = dataclasses.fields(cls)  # pyright: ignore[reportArgumentType]
    wanted, given = {field.name for field in fields}, set(config) - {"kind"}
    # A field that a kind has got since, None unless asked for, is not in an older configuration.
    later = {field.name for field in fields if field.default is None} - given
    wanted -= later
    if given != wanted:
        wrong = ", ".join(sorted(map(str, given ^ wanted)))
        raise ValueError(f"a form of kind {cls.kind!r} has the fields {', '.join(sorted(wanted))}: see {wrong}")
    try:
        return cls(**{name: _frozen(config[name]) for name in wanted})
    except TypeError as error:
        raise ValueError(f"a field of the form of kind {cls.kind!r} is of the wrong type") from error


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list | tuple) else value
