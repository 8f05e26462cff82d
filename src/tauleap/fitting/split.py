"""Split rows into training rows and held-out rows."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tauleap import _check
from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.memory import read

_MOST_HELD_OUT = 10_000
"""Held-out rows at most. Chosen: more rows cost measuring time and hardly reduce the standard error."""


def split_rows(
    data: Dataset, validation: Any, form: Format | None, seed: int, groups: Tensor | None = None
) -> tuple[Dataset, Dataset, list[str]]:
    """Split rows into training rows and held-out rows; rows without any value are excluded.

    Args:
        data: The rows.
        validation: A fraction of the rows, a number of rows, or other data to measure on.
        form: The format of the rows, None for plain states.
        seed: The seed of the split.
        groups: Per row a number, (n,): rows with the same number are on the same side. Default: None, rows are split
            one by one.

    Returns:
        The training rows, the held-out rows, and lines for the user about them.

    Raises:
        ValueError: ``validation`` is out of range or has rows of another shape, or there are too few rows.

    >>> import torch
    >>> train, held_out, _ = split_rows(Dataset(torch.zeros(10, 2, dtype=torch.int64), 2), 0.2, None, seed=0)
    >>> len(train), len(held_out)
    (8, 2)
    """
    report = []
    whole = data
    data, excluded = _with_something(data)
    if excluded:
        groups = None if groups is None else groups[_known_rows(whole)]
        report.append(f"{excluded} rows without any value are left out")
    if not isinstance(validation, bool | int | float):
        given = read(validation, form=form, num_states=data.num_states, load=False)
        held_out, _ = _with_something(given)
        if held_out.shape != data.shape:
            raise ValueError(f"validation must be rows of the shape {data.shape}, got rows of {held_out.shape}")
        return data, held_out, report
    if len(data) < 2:
        raise ValueError("data must have two rows or more, because one is held out, got 1")
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ValueError(f"validation must be a fraction in (0, 1), a number of rows, or data, got {validation!r}")
        validation = min(_MOST_HELD_OUT, max(1, round(validation * len(data))), len(data) - 1)
    number = _check.integer("validation", validation, least=1)
    if number >= len(data):
        raise ValueError(
            f"validation must leave rows to train with: there are {len(data):,} rows, got {number:,}; write a number "
            f"below {len(data):,}, or a fraction in (0, 1)"
        )
    songs = _songs(data, form, groups)
    if songs is not None:
        from tauleap.data.music.songs import held_out_songs

        test = held_out_songs(songs, number, seed=seed)
        if bool(test.any()):
            report.append(f"held out: {int(test.sum())} of {len(data)} rows, all of {len(songs[test].unique())} songs")
            return data.select((~test).nonzero().flatten()), data.select(test.nonzero().flatten()), report
        report.append("one song is most of the data: held-out rows are from songs that are in the training rows too")
    train_rows, held_out = data.split(number, seed=seed)
    return train_rows, held_out, report


def _songs(data: Dataset, form: Format | None, groups: Tensor | None) -> Tensor | None:
    """Return a number per row, the same for rows that must be on one side, or None if rows are split one by one."""
    from tauleap.data.music.format import MusicFormat

    if not isinstance(form, MusicFormat):
        return None if groups is None else groups.unique(return_inverse=True)[1]
    from tauleap.data.music.songs import songs_of

    return songs_of(form.pitches(data.in_memory()), groups=groups)


def _known_rows(data: Dataset) -> Tensor:
    """Return whether each row has a value."""
    return data.known().reshape(len(data), -1).any(1)


def _with_something(data: Dataset) -> tuple[Dataset, int]:
    """Return the rows that have a value, and the number of the others."""
    if data.missing is None:
        return data, 0
    has_value = _known_rows(data)
    if not bool(has_value.any()):
        raise ValueError("every value is missing, so there is nothing to learn from: give rows with known values")
    excluded = int((~has_value).sum())
    if not excluded:
        return data, 0
    return data.select(has_value.nonzero().flatten()), excluded
