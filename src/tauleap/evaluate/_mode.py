"""Evaluation mode without gradients, in which models are measured."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import nn


@contextmanager
def evaluating(module: nn.Module) -> Iterator[None]:
    """Disable gradients and set evaluation mode inside the block; restore the mode of every part at the end."""
    modes = {part: part.training for part in module.modules()}
    module.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        for part, training in modes.items():
            part.training = training
