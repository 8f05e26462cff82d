"""Class labels as a condition: a learned vector for each, and one for a class that is not known."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def label_vectors(num_classes: int | None, width: int) -> nn.Embedding | None:
    """Return a vector for each label and a last one for "not known"; None if there are no labels."""
    return None if num_classes is None else nn.Embedding(num_classes + 1, width)


def num_labels(network: object) -> int | None:
    """Return the number of classes of a network, by its vectors ``classes``; None if it has no classes."""
    vectors = getattr(network, "classes", None)
    return vectors.num_embeddings - 1 if isinstance(vectors, nn.Embedding) else None


def add_label(embedding: Tensor, vectors: nn.Embedding | None, condition: Tensor | None, batch: int) -> Tensor:
    """Return ``embedding`` (1 or B, width) plus the vectors of the labels, int64 (B,); "not known" for None."""
    if vectors is None:
        if condition is not None:
            raise ValueError("condition was given to a network without labels: build it with num_classes=...")
        return embedding
    if condition is None:
        condition = torch.full((1,), vectors.num_embeddings - 1, device=embedding.device)
    elif condition.is_floating_point() or condition.shape != (batch,):
        raise ValueError(
            f"condition must be ({batch},) integers, one label for each x, "
            f"got {condition.dtype} of shape {tuple(condition.shape)}"
        )
    return embedding + vectors(condition)
