"""``--label``: the class labels of class-conditional samples."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tauleap._files.printable import one_line

if TYPE_CHECKING:
    from torch import Tensor

    from tauleap.model import Model


def read_labels(text: str, model: Model) -> str:
    """Return the labels of ``--label`` without spaces, such as "7" or "0,1,2".

    Args:
        text: The value of the option.
        model: The model.

    Raises:
        ValueError: The model is not class-conditional, or a label is out of range.
    """
    count = model.num_labels
    if count is None:
        raise ValueError(
            "--label needs a class-conditional model, whose network has num_classes, and this model is not one: leave "
            "it out; for other conditions use model.sample(n, condition=...) in Python"
        )
    labels = getattr(model.form, "labels", None)
    if labels is not None:
        for separator in (";", ","):
            found = [labels.find(word.strip()) for word in text.split(separator)]
            if None not in found:
                return ",".join(map(str, found))
    names = () if labels is None else labels.names
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if not (word.isascii() and word.isdecimal() and len(word) < 10 and int(word) < count):
            raise ValueError(
                f"--label must be a class label from 0 to {count - 1}, or several such as 0,1, got {word!r}"
                + (f"; the labels are {one_line('; '.join(names), most=300)}" if names else "")
            )
    return ",".join(str(int(word)) for word in words)


def cycled_labels(labels: str, first: int, rows: int) -> Tensor:
    """Return the labels of consecutive samples, which cycle through the given ones.

    >>> cycled_labels("3,5", 1, 4)
    tensor([5, 3, 5, 3])

    Args:
        labels: Labels, such as "0,1,2".
        first: The number of the first sample.
        rows: How many samples.
    """
    import torch

    each = torch.tensor([int(label) for label in labels.split(",")])
    return each[(first + torch.arange(rows)) % len(each)]
