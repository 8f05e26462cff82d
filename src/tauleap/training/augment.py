"""Augment and modify training batches: functions for ``Recipe(prepare=...)``."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from tauleap import _draw
from tauleap.observed import Observed
from tauleap.training.recipe import Batch


def flip_left_right(batch: Batch, generator: torch.Generator) -> Batch:
    """Mirror each image with probability 1/2, as in the paper (Appendix H.2).

    Masks of observed and missing pixels are mirrored with their image; the condition stays as it is. The model learns a
    distribution that is symmetric under reflection, so this does not suit digits or letters.

    Args:
        batch: Images (batch, channels, height, width).
        generator: The source of randomness.

    Returns:
        The batch, with about half of its images mirrored.

    Raises:
        ValueError: The rows are not images with three axes.

    >>> images = torch.tensor([1, 2, 3]).expand(4, 1, 1, 3)
    >>> flip_left_right(Batch(images), torch.Generator().manual_seed(0)).x0.flatten(1).tolist()
    [[1, 2, 3], [1, 2, 3], [3, 2, 1], [1, 2, 3]]
    """
    x = batch.x0
    if x.ndim != 4:
        raise ValueError(
            f"flip_left_right needs images (batch, channels, height, width), got rows of shape {tuple(x.shape[1:])}"
        )
    mirrored = (_draw.uniforms((len(x),), x.device, generator) < 0.5)[:, None, None, None]

    def mirror(value: Tensor) -> Tensor:
        return torch.where(mirrored, value.flip(-1), value)

    observed = batch.observed
    return Batch(
        mirror(x),
        None if observed is None else Observed(mirror(observed.mask), mirror(observed.values)),
        None if batch.missing is None else mirror(batch.missing.expand(x.shape)),
        batch.condition,
    )


@dataclass(frozen=True)
class LabelDropout:
    """Replace each class label by ``null_label`` with probability ``p``, so that one network learns both cases.

    Batches without labels are returned unchanged. :class:`tauleap.denoise.Guided` needs a network that was trained so.

    Args:
        null_label: The label that stands for "no label": ``num_classes`` of the network.
        p: The probability, in [0, 1]. Default: 0.5.

    Raises:
        ValueError: ``p`` is not a probability.

    >>> labels = torch.zeros(8, dtype=torch.int64)
    >>> batch = Batch(torch.zeros(8, 2, dtype=torch.int64), condition=labels)
    >>> LabelDropout(3)(batch, torch.Generator().manual_seed(0)).condition
    tensor([0, 0, 3, 0, 0, 0, 3, 3])
    """

    null_label: int
    p: float = 0.5

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"p must be a probability in [0, 1], got {self.p!r}")

    def __call__(self, batch: Batch, generator: torch.Generator) -> Batch:
        """Return the batch with some labels replaced.

        Args:
            batch: The rows, with one integer label per row as their condition, or without labels.
            generator: The source of randomness.

        Raises:
            ValueError: The condition is not one integer per row.
        """
        labels = batch.condition
        if labels is None:
            return batch
        if labels.is_floating_point() or labels.shape != (len(batch.x0),):
            given = f"{labels.dtype} of shape {tuple(labels.shape)}"
            raise ValueError(f"LabelDropout needs one label per row, Dataset(x, condition=labels), got {given}")
        dropped = _draw.uniforms(labels.shape, labels.device, generator) < self.p
        return replace(batch, condition=labels.masked_fill(dropped, self.null_label))
