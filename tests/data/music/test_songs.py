"""Rows of one song are found, and never on both sides of a split."""

import pytest
import torch

from tauleap.data import Dataset
from tauleap.data.music.format import MusicFormat
from tauleap.data.music.melody import NUM_STATES, REST
from tauleap.data.music.songs import held_out_songs, in_all_keys, songs_of, split_by_song


def melodies(rows: int, seed: int = 0) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    x = torch.randint(50, 70, (rows, 256), generator=draw)
    x[torch.rand(rows, 256, generator=draw) < 0.1] = REST
    return x


def transposed(x: torch.Tensor, by: int) -> torch.Tensor:
    return torch.where(x == REST, REST, x + by)


def test_songs_share_a_passage_in_any_key() -> None:
    x = melodies(6)
    x[3, 64:128] = transposed(x[0, 160:224], 7)  # four bars, at another bar and in another key
    x[5, :64] = x[3, 192:]  # the same song through a third row
    x[4, 8:72] = x[1, :64]  # not at the beginning of a bar
    x[2, :48] = x[1, :48]  # three bars are too few
    assert songs_of(x).tolist() == [0, 1, 2, 0, 3, 0]
    assert songs_of(x, bars=3).tolist() == [0, 1, 1, 0, 2, 0]


def test_a_split_keeps_songs_together() -> None:
    x = melodies(40)
    for row in range(0, 40, 2):
        x[row + 1, 128:192] = transposed(x[row, :64], 3)
    train, test = split_by_song(x, 10)
    assert 10 <= len(test) <= 11
    assert sorted([*train.tolist(), *test.tolist()]) == list(range(40))
    songs = songs_of(x)
    assert not set(songs[train].tolist()) & set(songs[test].tolist())
    again = split_by_song(x, 10)[1]
    assert torch.equal(test, again)
    assert not torch.equal(test, split_by_song(x, 10, seed=1)[1])
    with pytest.raises(ValueError, match="too large for 40 rows of 20 songs"):
        split_by_song(x, 40)


def test_rows_of_a_file_are_of_one_song() -> None:
    x = melodies(6)
    x[5, :64] = x[1, 64:128]
    assert songs_of(x, groups=torch.tensor([7, 7, 3, 4, 3, 5])).tolist() == [0, 0, 1, 2, 1, 0]


def test_held_out_songs() -> None:
    songs = torch.arange(10).repeat_interleave(10)
    test = held_out_songs(songs, 10)  # A song is as large as the number of rows to hold out.
    assert test.sum() == 10
    assert len(songs[test].unique()) == 1
    assert torch.equal(test, held_out_songs(songs, 10))
    assert any(not torch.equal(test, held_out_songs(songs, 10, seed=seed)) for seed in range(1, 5))
    small_first = torch.cat([torch.zeros(50, dtype=torch.long), torch.arange(1, 51)])
    assert all(not held_out_songs(small_first, 20, seed=seed)[0] for seed in range(5))
    assert not held_out_songs(torch.zeros(8, dtype=torch.long), 2).any()


def test_transposition_to_all_keys() -> None:
    x = melodies(3)
    x[2, 0] = 3  # cannot go six semitones down
    in_twelve_keys = in_all_keys(Dataset(x.to(torch.uint8), NUM_STATES)).x.long()
    assert len(in_twelve_keys) == 3 * 12 - 3
    assert torch.equal(in_twelve_keys[:2], transposed(x[:2], -6))
    assert torch.equal(in_twelve_keys[-3:], transposed(x, 5))


def test_permuted_states_are_converted_to_pitches() -> None:
    form = MusicFormat.scrambled(seed=3)
    x = melodies(4)
    states = form.states(x)
    assert not torch.equal(states, x)
    assert torch.equal(form.pitches(states), x)
    assert form.preview(states, 2) == MusicFormat().preview(x, 2)
    assert MusicFormat.scrambled(seed=3) == form != MusicFormat.scrambled(seed=4)
    with pytest.raises(ValueError, match=r"a permutation of 0\.\.128"):
        MusicFormat(16, (0,) * 129)
