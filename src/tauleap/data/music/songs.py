"""Group melodies by song, so that no song is in the training set and in the test set."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check
from tauleap.data.dataset import Dataset
from tauleap.data.music.melody import REST, STEPS_PER_BAR

_BARS = 4


def songs_of(x: Tensor, *, bars: int = _BARS, groups: Tensor | None = None) -> Tensor:
    """Return the number of the song of each row: rows that share a passage belong to one song.

    A passage begins with a bar, and is the same in every key. The relation is transitive: if two rows both share a
    passage with a third row, all three belong to one song.

    >>> tune = torch.arange(60, 76).repeat_interleave(4)[None]
    >>> other = torch.tensor([60, 67]).repeat(32)[None]
    >>> songs_of(torch.cat([tune, other, tune + 5]))
    tensor([0, 1, 0])

    Args:
        x: Pitches, (n, steps).
        bars: The length of a passage in bars, >= 1. Default: 4.
        groups: A number per row, (n,); rows with the same number, such as those of one file, belong to one song.
            Default: None.
    """
    length = _check.integer("bars", bars, least=1) * STEPS_PER_BAR
    if x.shape[1] < length:
        length = x.shape[1]
    leader = list(range(len(x)))

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    seen: dict[bytes, int] = {}
    for begin in range(0, x.shape[1] - length + 1, STEPS_PER_BAR):
        for row, passage in enumerate(_transposition_invariant(x[:, begin : begin + length])):
            other = find(seen.setdefault(passage, row))
            leader[find(row)] = other
    first: dict[int, int] = {}
    for row, group in enumerate([] if groups is None else groups.tolist()):
        leader[find(row)] = find(first.setdefault(group, row))
    number: dict[int, int] = {}
    return torch.tensor([number.setdefault(find(row), len(number)) for row in range(len(x))])


def split_by_song(x: Tensor, rows: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Split rows into positions of a training set and of a test set of at least ``rows`` rows, by whole songs.

    Songs with more than ``rows / 10`` rows (and more than three) stay in the training set, since a few of them would
    dominate the test set.

    Args:
        x: Pitches, (n, steps).
        rows: The smallest number of rows in the test set.
        seed: The seed of the random choice. Default: 0.

    Raises:
        ValueError: There are too few rows.
    """
    songs = songs_of(x)
    sizes = torch.bincount(songs)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    order = order[sizes[order] <= max(3, rows // 10)]
    total = sizes[order].cumsum(0)
    if len(total) == 0 or int(total[-1]) < rows or rows >= len(x):
        raise ValueError(
            f"a test set of {rows} rows is too large for {len(x)} rows of {len(sizes)} songs: write a smaller number"
        )
    chosen = order[: int((total < rows).sum()) + 1]
    test = torch.isin(songs, chosen)
    return (~test).nonzero().flatten(), test.nonzero().flatten()


def held_out_songs(songs: Tensor, rows: int, *, seed: int = 0) -> Tensor:
    """Return a mask of about ``rows`` rows to hold out, by whole songs, bool (n,).

    Unlike :func:`split_by_song` this accepts any data. Songs with up to ``rows / 10`` rows (or up to three) come first,
    in random order, then larger ones in order of size. At most half of all rows are held out, so a song with more than
    half of the rows is never held out.

    >>> held_out_songs(torch.tensor([0, 0, 0, 0, 0, 1, 1, 0]), 3)
    tensor([False, False, False, False, False,  True,  True, False])

    Args:
        songs: The song of each row, (n,).
        rows: The approximate number of rows to hold out.
        seed: The seed of the random choice. Default: 0.
    """
    sizes = torch.bincount(songs)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    order = order[sizes[order].clamp(min=max(3, rows // 10)).argsort(stable=True)]
    chosen, total = [], 0
    for song in order.tolist():
        size = int(sizes[song])
        if total < rows and total + size <= len(songs) // 2:
            chosen.append(song)
            total += size
    return torch.isin(songs, torch.tensor(chosen, dtype=songs.dtype))


def in_all_keys(data: Dataset) -> Dataset:
    """Transpose every melody to twelve keys, from six semitones lower to five higher.

    Transposed melodies with pitches outside 0..127 are left out.

    >>> data = in_all_keys(Dataset(torch.tensor([[60, 128]], dtype=torch.uint8), 129))
    >>> data.x[:, 0].tolist(), data.x[:, 1].unique().tolist()
    ([54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65], [128])

    Args:
        data: Melodies whose states are pitches.
    """
    states = data.in_memory()
    pitches = states.to(torch.int16)
    transposed = []
    for shift in range(-6, 6):
        shifted = torch.where(pitches == REST, REST, pitches + shift)
        inside = ((pitches == REST) | ((shifted >= 0) & (shifted < REST))).all(1)
        transposed.append(shifted[inside].to(states.dtype))
    return Dataset(torch.cat(transposed), data.num_states)


def _transposition_invariant(passages: Tensor) -> list[bytes]:
    """Return each passage with pitches relative to its first note, as bytes that can be a key of a dict."""
    pitches = passages.to(torch.int16)
    first = pitches.gather(1, (pitches != REST).int().argmax(1, keepdim=True))
    relative = torch.where(pitches == REST, 1000, pitches - first).numpy()
    return [row.tobytes() for row in relative]
