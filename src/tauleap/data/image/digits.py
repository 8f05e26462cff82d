"""Handwritten digits, 8 x 8 pixels with 17 grey levels: a small image dataset for examples and tests.

The data (UCI, *Optical Recognition of Handwritten Digits*, CC BY 4.0) is in the package: see ``files/README.md``.
"""

from __future__ import annotations

from importlib.resources import as_file, files

import numpy as np
import torch

from tauleap.data.dataset import Dataset

NUM_STATES = 17


def digits() -> Dataset:
    """Return 1,797 images (1, 8, 8) with states 0 (white) to 16 (black); ``condition`` is the digit.

    >>> data = digits()
    >>> len(data), data.shape, data.num_states
    (1797, (1, 8, 8), 17)
    """
    with as_file(files("tauleap.data") / "files" / "digits.npz") as path, np.load(path, allow_pickle=False) as arrays:
        images, labels = torch.from_numpy(arrays["images"]), torch.from_numpy(arrays["labels"])
    return Dataset(images[:, None], NUM_STATES, condition=labels.long())
