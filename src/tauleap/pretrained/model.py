"""A forward process and a denoiser: everything that a generative model is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import torch

from tauleap import _check
from tauleap.denoise import Denoiser
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess


class Model:
    """What training makes, and what sampling, completion and evaluation take.

    Args:
        process: x0 -> x_t.
        denoiser: x_t -> p(x0 | x_t).
        shape: of one datum, where it is known; kept with the model, so that samples have it.

    >>> from tauleap import denoise, network, noise
    >>> process = noise.Uniform(8, noise.Constant(1.0))
    >>> model = Model(process, denoise.NetworkDenoiser(network.ResidualMLP(8, (3,))), shape=(3,))
    >>> model.reverse.rates(torch.zeros(1, 3, dtype=torch.int64), 0.5).shape
    torch.Size([1, 3, 8])
    """

    def __init__(self, process: ForwardProcess, denoiser: Denoiser, *, shape: Sequence[int] | None = None) -> None:
        self.reverse = ReverseProcess(process, denoiser)
        self.shape = None if shape is None else tuple(_check.integer("a side of shape", n, least=1) for n in shape)

    @property
    def process(self) -> ForwardProcess:
        """x0 -> x_t."""
        return self.reverse.process

    @property
    def denoiser(self) -> Denoiser:
        """x_t -> p(x0 | x_t)."""
        return self.reverse.denoiser

    @property
    def num_states(self) -> int:
        """S."""
        return self.process.num_states

    def to(self, device: torch.device | str) -> Model:
        """Moves it there; the model itself, not a copy."""
        self.reverse.to(device)
        return self

    def save(self, folder: str | os.PathLike[str]) -> Path:
        """Writes ``config.json`` and ``model.safetensors`` for :func:`tauleap.load`; returns the folder.

        A folder that holds a model already gets this one in its place; one that holds something else is refused.
        """
        from tauleap.pretrained.storage import save

        return save(self, folder)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"Model({type(self.process).__name__}, {type(self.denoiser).__name__}{shape})"
