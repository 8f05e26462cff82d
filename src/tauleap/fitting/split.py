"""Which rows are trained with, and which are held out to measure with."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from tauleap import _check
from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.memory import read

_MOST_HELD_OUT = 10_000
"""Rows; more of them would take longer to measure than they add to the accuracy."""


def split_rows(
    data: Dataset, validation: Any, form: Format | None, seed: int, groups: Tensor | None = None
) -> tuple[Dataset, Dataset, list[str]]:
    """Split rows into those to train with and those to measure with, without rows of which nothing is known.

    Args:
        data: the rows.
        validation: a fraction of the rows, a number of rows, or other data to measure with.
        form: what the states mean; None where they are plain numbers.
        seed: of the choice.
        groups: (n,), the same number for rows that must be on the same side; None if every row is by itself.

    Returns:
        The rows to train with, the rows to measure with, and lines for people about them.
    """
    report = []
    whole = data
    data, gone = _with_something(data)
    if gone:
        groups = None if groups is None else groups[_known_rows(whole)]
        report.append(f"{gone} rows without any value are left out")
    if not isinstance(validation, bool | int | float):
        given = read(validation, form=form, num_states=data.num_states, load=False)
        held_out, _ = _with_something(given)
        if held_out.shape != data.shape:
            raise ValueError(f"validation must be rows of the shape {data.shape}, got rows of {held_out.shape}")
        return data, held_out, report
    if len(data) < 2:
        raise ValueError("there must be at least two rows, one of them to measure with, got 1")
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ValueError(f"validation must be a share in (0, 1), a number of rows, or data, got {validation!r}")
        validation = min(_MOST_HELD_OUT, max(1, round(validation * len(data))), len(data) - 1)
    number = _check.integer("validation", validation, least=1)
    songs = _songs(data, form, groups)
    if songs is not None and number < len(data):
        from tauleap.data.music.songs import held_out_songs

        test = held_out_songs(songs, number, seed=seed)
        if bool(test.any()):
            report.append(f"held out: {int(test.sum())} of {len(data)} rows, all of {len(songs[test].unique())} songs")
            return data.select((~test).nonzero().flatten()), data.select(test.nonzero().flatten()), report
        report.append("one song is most of the data: the rows held out are of songs that are trained with as well")
    train_rows, held_out = data.split(number, seed=seed)
    return train_rows, held_out, report


def _songs(data: Dataset, form: Format | None, groups: Tensor | None) -> Tensor | None:
    """A number for each row, the same for those that must not be on both sides; None: every row is by itself."""
    from tauleap.data.music.format import MusicFormat

    if not isinstance(form, MusicFormat):
        return None if groups is None else groups.unique(return_inverse=True)[1]
    from tauleap.data.music.songs import songs_of

    return songs_of(form.pitches(data.in_memory()), groups=groups)


def _known_rows(data: Dataset) -> Tensor:
    """Those of which something is known."""
    return data.known().reshape(len(data), -1).any(1)


def _with_something(data: Dataset) -> tuple[Dataset, int]:
    """The rows of which something is known, and how many others there were."""
    if data.missing is None:
        return data, 0
    kept = _known_rows(data)
    if not bool(kept.any()):
        raise ValueError("every value is missing: there is nothing to learn from")
    gone = int((~kept).sum())
    if not gone:
        return data, 0
    return data.select(kept.nonzero().flatten()), gone
