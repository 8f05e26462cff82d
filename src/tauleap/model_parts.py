"""The parts of a model, and what needs no sampling: encoding, batch sizes, devices and files."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch

from tauleap import _check, _device
from tauleap._memory import default_batch_size
from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.memory import Kind, read
from tauleap.data.table.columns.dependency import Dependency
from tauleap.data.table.format import TableFormat
from tauleap.denoise import Denoiser
from tauleap.network.labels import num_labels
from tauleap.noise import ForwardProcess
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Tuning, tuning_from_config
from tauleap.storage.save import save

_M = TypeVar("_M", bound="ModelParts")
_TENSOR = Kind()


class ModelParts(ABC):
    """Hold the parts of a model; see :class:`tauleap.Model`."""

    def __init__(
        self,
        process: ForwardProcess,
        denoiser: Denoiser,
        *,
        shape: Sequence[int] | None = None,
        form: Format | None = None,
        kind: Kind = _TENSOR,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.reverse = ReverseProcess(process, denoiser)
        self.kind = kind
        self.shape = None if shape is None else tuple(_check.integer("a side of shape", n, least=1) for n in shape)
        self.form = form
        if self.shape is not None:
            process._check_sites(torch.Size((1, *self.shape)), "shape")
            if form is not None and form.shape != self.shape:
                raise ValueError(f"shape must be that of the data format ({form.kind}), {form.shape}, got {self.shape}")
            if form is not None:
                _check_states(process, form)
        self.about: dict[str, Any] = dict(about or {})

    @property
    def process(self) -> ForwardProcess:
        """The forward process, x0 -> x_t."""
        return self.reverse.process

    @property
    def denoiser(self) -> Denoiser:
        """The denoiser, x_t -> p(x0 given x_t)."""
        return self.reverse.denoiser

    @property
    def num_states(self) -> int:
        """Number of states S of the process, including the mask of an absorbing process."""
        return self.process.num_states

    @property
    def _data_states(self) -> int:
        """The number of states that data can have, up to the last one."""
        return int(self.process.data_states.reshape(-1, self.num_states).any(0).nonzero().max()) + 1

    @property
    def dependencies(self) -> list[Dependency]:
        """Which columns of a table followed from others in all training rows, as ``tauleap.fit`` found."""
        return [Dependency.from_config(each) for each in self.about.get("dependencies", [])]

    @property
    def tuning(self) -> Tuning | None:
        """The predicted errors of sampling steps, which :func:`tauleap.tune` sets; None for a model without them."""
        config = self.about.get("tuning")
        return None if config is None else tuning_from_config(config)

    @tuning.setter
    def tuning(self, value: Tuning | None) -> None:
        if value is None:
            self.about.pop("tuning", None)
            return
        if not isinstance(value, Tuning):
            raise TypeError(f"tuning must be the result of tauleap.tune, got {type(value).__name__}")
        problem = value.fit_problem(self.process, None if self.shape is None else math.prod(self.shape))
        if problem is not None:
            raise ValueError(f"tuning does not fit the model: {problem}")
        self.about["tuning"] = value.config()

    @property
    def num_labels(self) -> int | None:
        """Number of class labels, ``num_classes`` of the network; None for an unconditional network."""
        return num_labels(getattr(self.denoiser, "network", None))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
        return self.reverse.device

    def default_batch_size(self, *, evaluations: int = 1, memory: float | None = None) -> int:
        """Return how many rows are processed together by default.

        Args:
            evaluations: network evaluations per row that are batched together, such as 2 for guidance. Default: 1.
            memory: bytes that a batch may take. Default: 1 GiB on a CPU (an eighth of the memory where that is less),
                a quarter of the memory of an accelerator.
        """
        entries = math.prod(self.shape or (1,)) * self.num_states
        return default_batch_size(self.device, entries, evaluations=evaluations, memory=memory)

    def _batch_size(self, given: int | None, guidance: float = 1.0) -> int:
        return self.default_batch_size(evaluations=1 if guidance == 1 else 2) if given is None else given

    def encode(self, x: Any, *, load: bool = True, incomplete: bool = False) -> Dataset:
        """Return data as a dataset of states.

        Args:
            x: rows of the type that the model was fitted on.
            load: whether rows in a file are read into memory. Default: true.
            incomplete: whether the rows are to be completed: rows of symbols then have an open end, and wildcards in
                them are gaps. Default: false.

        Raises:
            ValueError: the rows have another shape than those of the model.
        """
        data = read(x, form=self.form, num_states=self._data_states, load=load, incomplete=incomplete)
        if self.shape is not None and data.shape != self.shape:
            raise ValueError(f"x must have rows of shape {self.shape}, (n, *shape), got rows of shape {data.shape}")
        return data

    def violations(self, x: Any) -> dict[tuple[str, str], int]:
        """Return how many rows contradict each of ``dependencies``, by the names of the two columns.

        Args:
            x: rows of the type that the model was fitted on, such as samples.
        """
        data = self.encode(x)
        if not isinstance(self.form, TableFormat):
            return {}
        columns = [self.form.encoder.columns[place] for place in self.form.encoder.sites]
        states, missing = data.rows(torch.arange(len(data))).numpy(), (~data.known()).numpy()
        return {
            (each.determinant, each.dependent): int(each.violations(columns, states, missing).sum())
            for each in self.dependencies
        }

    def to(self: _M, device: torch.device | str) -> _M:
        """Move the model itself, not a copy, to a device.

        Args:
            device: a device or its name, such as "cuda"; "auto" for the accelerator of this machine if there is one.

        Returns:
            The model.

        Raises:
            ValueError: No such device is known, or this machine does not have it.
        """
        device = _device.resolve(device)
        _device.check_weights(self.reverse.denoiser, device)
        self.reverse.to(device)
        return self

    @_device.cpu_by_default
    def save(self, folder: str | os.PathLike[str], *, compact: bool = False) -> Path:
        """Write ``config.json`` and ``model.safetensors`` for :func:`tauleap.load`, and return the folder.

        Args:
            folder: a new or empty folder, or one that holds a model, which is replaced.
            compact: round the weights to 16 bits, which halves the file; they are loaded as float32. Default: false.

        Raises:
            ValueError: the folder holds other files.
        """
        return save(self, folder, compact=compact)

    @abstractmethod
    def __repr__(self) -> str: ...


def _check_states(process: ForwardProcess, form: Format) -> None:
    """Check that data can have the states of a format, at every site, and no others."""
    states = torch.arange(process.num_states, device=_device.CPU)  # also under another default device
    sizes = torch.full(form.shape, form.num_states, device=_device.CPU) if form.sizes is None else form.sizes
    allowed = process.data_states.cpu().expand(*form.shape, process.num_states)
    counts = allowed.sum(-1)
    wrong = (allowed != (states < sizes[..., None])).any(-1) | (sizes > process.num_states)
    if wrong.any():
        site = tuple(wrong.nonzero()[0].tolist())
        raise ValueError(
            f"the process has {int(counts[site]):,} states of data at site {site}, but the data format ({form.kind}) "
            f"has {int(sizes[site]):,}: write a process for this data"
        )
