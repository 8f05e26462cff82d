"""``--label``: which classes a model that knows labels is to draw."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

    from tauleap.model import Model


def read_labels(text: str, model: Model) -> str:
    """``7`` or ``0, 1, 2`` without spaces, checked against the labels that the model's network has."""
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
    """The labels in turn for ``rows`` samples from number ``first`` on.

    >>> dealt("3,5", 1, 4)
    tensor([5, 3, 5, 3])
    """
    import torch

    each = torch.tensor([int(label) for label in labels.split(",")])
    return each[(first + torch.arange(rows)) % len(each)]
