"""The melodies of the experiment: arrays in a file, a validation set split by song, permuted states.

The file is an .npz with ``train`` and ``test``, (n, 256) pitches 0..127 with 128 for a rest, and ``train_strict`` and
``test_strict``, true for the rows that pass the paper's filter.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tauleap.data import Dataset
from tauleap.data.music.format import MusicFormat
from tauleap.data.music.melody import NUM_STATES
from tauleap.data.music.songs import in_all_keys, split_by_song

GIVEN = 32
VALIDATION, TESTED, COMPLETIONS = 256, 96, 5
SCRAMBLE_SEED, SPLIT_SEED, TEST_SEED = 0, 0, 0
FORM = MusicFormat.scrambled(seed=SCRAMBLE_SEED)


@dataclass(frozen=True)
class Songs:
    """Pitches, uint8 (n, 256), of the filtered training songs, all training songs, and validation and test songs."""

    train: Tensor
    train_all: Tensor
    validation: Tensor
    test: Tensor

    @property
    def tested(self) -> Tensor:
        """The fixed test songs on which completions are evaluated."""
        order = torch.randperm(len(self.test), generator=torch.Generator().manual_seed(TEST_SEED))
        return self.test[order[:TESTED].sort().values]

    def scrambled(self) -> tuple[Dataset, Dataset]:
        """Return the training and validation data of the models of the table."""
        parts = (self.train, self.validation)
        train, held_out = (Dataset(FORM.states(part), NUM_STATES) for part in parts)
        return train, held_out

    def transposed(self) -> tuple[Dataset, Dataset]:
        """Return the data of the shipped model, whose states are pitches: all training songs in twelve keys."""
        return in_all_keys(Dataset(self.train_all, NUM_STATES)), Dataset(self.validation, NUM_STATES)


def load(path: Path) -> Songs:
    with np.load(path, allow_pickle=False) as arrays:
        every, strict = torch.from_numpy(arrays["train"]), torch.from_numpy(arrays["train_strict"])
        test = torch.from_numpy(arrays["test"])[torch.from_numpy(arrays["test_strict"])]
    train, held_out = split_by_song(every, 2 * VALIDATION, seed=SPLIT_SEED)
    validation = held_out[strict[held_out]]
    return Songs(every[train][strict[train]], every[train], every[validation], test)
