"""Which rows of melodies are of one song, so that none of it is trained with and tested on at once."""

from __future__ import annotations

import torch
from torch import Tensor

from tauleap import _check
from tauleap.data.dataset import Dataset
from tauleap.data.music.melody import REST, STEPS_A_BAR

_BARS = 4


def songs_of(x: Tensor, *, bars: int = _BARS, groups: Tensor | None = None) -> Tensor:
    """Return a number for each row of pitches: rows that share a passage of ``bars`` bars have the same one.

    A passage begins with a bar, and is the same in any key. What is shared through a third row counts as well, and so
    do ``groups`` (n,): rows with the same number there, such as those of one file, are of one song.

    >>> tune = torch.arange(60, 76).repeat_interleave(4)[None]
    >>> other = torch.tensor([60, 67]).repeat(32)[None]
    >>> songs_of(torch.cat([tune, other, tune + 5]))
    tensor([0, 1, 0])

    Args:
        x: Pitches, (n, steps).
        bars: The length of a passage.
        groups: (n,), rows with the same number are of one song.
    """
    length = _check.integer("bars", bars, least=1) * STEPS_A_BAR
    if x.shape[1] < length:
        length = x.shape[1]
    leader = list(range(len(x)))

    def find(row: int) -> int:
        while leader[row] != row:
            leader[row] = leader[leader[row]]
            row = leader[row]
        return row

    seen: dict[bytes, int] = {}
    for begin in range(0, x.shape[1] - length + 1, STEPS_A_BAR):
        for row, passage in enumerate(_in_any_key(x[:, begin : begin + length])):
            other = find(seen.setdefault(passage, row))
            leader[find(row)] = other
    first: dict[int, int] = {}
    for row, group in enumerate([] if groups is None else groups.tolist()):
        leader[find(row)] = find(first.setdefault(group, row))
    number: dict[int, int] = {}
    return torch.tensor([number.setdefault(find(row), len(number)) for row in range(len(x))])


def split_by_song(x: Tensor, rows: int, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return positions to train with, and at least ``rows`` to test with: whole songs, drawn by the seed.

    Songs of more than a tenth of the rows asked for (and of three) are trained with: a few would be most of the test.

    Args:
        x: Pitches, (n, steps).
        rows: How many rows to test with, at least.
        seed: The seed of the choice.
    """
    songs = songs_of(x)
    sizes = torch.bincount(songs)
    order = torch.randperm(len(sizes), generator=torch.Generator().manual_seed(seed))
    order = order[sizes[order] <= max(3, rows // 10)]
    total = sizes[order].cumsum(0)
    if len(total) == 0 or int(total[-1]) < rows or rows >= len(x):
        raise ValueError(f"{rows} rows to test with are too many: there are {len(x)} rows of {len(sizes)} songs")
    chosen = order[: int((total < rows).sum()) + 1]
    test = torch.isin(songs, chosen)
    return (~test).nonzero().flatten(), test.nonzero().flatten()


def held_out_songs(songs: Tensor, rows: int, *, seed: int = 0) -> Tensor:
    """Return which rows to hold out, bool (n,): about ``rows``, of whole songs that the seed draws.

    For data of any kind, where :func:`split_by_song` is strict: songs of up to a tenth of the rows asked for (and of
    three) are taken first, and larger ones only where those are too few, the smallest first. No more than half of all
    rows are held out, so none are where one song is more than half of the data.

    >>> held_out_songs(torch.tensor([0, 0, 0, 0, 0, 1, 1, 0]), 3)
    tensor([False, False, False, False, False,  True,  True, False])

    Args:
        songs: The song of each row, (n,).
        rows: How many rows to hold out, about.
        seed: The seed of the choice.
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
    """Return every melody in twelve keys, from six semitones lower to five higher; pitches beyond MIDI's are left out.

    >>> data = in_all_keys(Dataset(torch.tensor([[60, 128]], dtype=torch.uint8), 129))
    >>> data.x[:, 0].tolist(), data.x[:, 1].unique().tolist()
    ([54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65], [128])

    Args:
        data: Melodies whose states are pitches.
    """
    states = data.in_memory()
    pitches = states.to(torch.int16)
    moved = []
    for shift in range(-6, 6):
        to = torch.where(pitches == REST, REST, pitches + shift)
        inside = ((pitches == REST) | ((to >= 0) & (to < REST))).all(1)
        moved.append(to[inside].to(states.dtype))
    return Dataset(torch.cat(moved), data.num_states)


def _in_any_key(passages: Tensor) -> list[bytes]:
    """Each with its pitches counted from the first note, as something that can be looked up."""
    pitches = passages.to(torch.int16)
    first = pitches.gather(1, (pitches != REST).int().argmax(1, keepdim=True))
    relative = torch.where(pitches == REST, 1000, pitches - first).numpy()
    return [row.tobytes() for row in relative]
