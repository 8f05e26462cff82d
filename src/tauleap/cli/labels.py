"""``--label``: which classes a model that knows labels is to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from tauleap.model import Model


def read_labels(text: str, model: Model) -> str:
    """Return the labels of ``--label`` without spaces, such as "7" or "0,1,2".

    Args:
        text: The value of the option.
        model: The model, whose network has the labels.
    """
    count = model.num_labels
    if count is None:
        raise ValueError(
            "--label is for models whose network, such as a UNet or SequenceTransformer, was built with "
            "num_classes=..., and that of this one was not: leave it out; another network with a condition draws by "
            "model.sample(n, condition=...) in Python"
        )
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdecimal() and len(word) < 10 and int(word) < count):
            raise ValueError(f"--label must be one of 0 to {count - 1}, or several such as 0,1, got {word!r}")
    return ",".join(str(int(word)) for word in words)


def dealt(labels: str, first: int, rows: int) -> Tensor:
    """Return the labels of consecutive samples, in turn.

    >>> dealt("3,5", 1, 4)
    tensor([5, 3, 5, 3])

    Args:
        labels: Labels, such as "0,1,2".
        first: The number of the first sample.
        rows: How many samples.
    """
    import torch

    each = torch.tensor([int(label) for label in labels.split(",")])
    return each[(first + torch.arange(rows)) % len(each)]
