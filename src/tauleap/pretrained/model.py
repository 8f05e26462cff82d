"""A forward process and a denoiser: everything that a generative model is."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tauleap import _batch, _check, _device
from tauleap._defaults import SAMPLING_STEPS
from tauleap.data import Dataset
from tauleap.data.form import Form
from tauleap.data.frame import is_frame
from tauleap.data.mapped import MappedRows
from tauleap.data.memory import Kind, read, restore
from tauleap.denoise import Denoiser, Guided, Tempered
from tauleap.evaluate import Estimate, bits_per_dim
from tauleap.evaluate._mode import evaluating
from tauleap.network.labels import num_labels
from tauleap.noise import ForwardProcess
from tauleap.objective.draw import has_rows
from tauleap.observed import Observed
from tauleap.pretrained.known import known_cells
from tauleap.reverse import ReverseProcess
from tauleap.sampling import Sampler, SamplingPlan, choose_sampling, sample

_ROWS_OF_FILES = 2**12
"""Of a file that is larger than the memory may be, so many rows are read at a time."""


class Model:
    """What training makes, and what sampling, completion and evaluation take.

    Args:
        process: x0 -> x_t.
        denoiser: x_t -> p(x0 | x_t).
        shape: of one datum, where it is known; kept with the model, so that samples have it.
        form: what the states mean, where they come from a file, a frame or texts.
        kind: what samples are given as: states as a tensor, a frame, or texts. It is what the model was fitted on.
        about: what is known of the model, as JSON can hold it; ``tauleap.fit`` puts its report here.

    >>> from tauleap import denoise, network, noise
    >>> process = noise.Uniform(8, noise.Constant(1.0))
    >>> model = Model(process, denoise.NetworkDenoiser(network.ResidualMLP(8, (3,))), shape=(3,))
    >>> model.reverse.rates(torch.zeros(1, 3, dtype=torch.int64), 0.5).shape
    torch.Size([1, 3, 8])
    >>> model.sample(2, steps=10, seed=0).shape
    torch.Size([2, 3])
    """

    def __init__(
        self,
        process: ForwardProcess,
        denoiser: Denoiser,
        *,
        shape: Sequence[int] | None = None,
        form: Form | None = None,
        kind: Kind | None = None,
        about: Mapping[str, Any] | None = None,
    ) -> None:
        self.reverse = ReverseProcess(process, denoiser)
        self.shape = None if shape is None else tuple(_check.integer("a side of shape", n, least=1) for n in shape)
        self.form = form
        self.kind = Kind() if kind is None else kind
        self.about: dict[str, Any] = dict(about or {})

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
        """S, of the process: with the mask of an absorbing one."""
        return self.process.num_states

    @property
    def num_labels(self) -> int | None:
        """How many class labels its network was built with, ``num_classes``; None where it has none."""
        return num_labels(getattr(self.denoiser, "network", None))

    @property
    def device(self) -> torch.device:
        """Where its weights are."""
        return next((p.device for p in self.reverse.parameters()), _device.CPU)

    @_device.cpu_by_default
    def sample(
        self,
        n: int,
        *,
        steps: int = SAMPLING_STEPS,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        guidance: float = 1.0,
        progress: bool = False,
        states: bool = False,
    ) -> Any:
        """``n`` samples: int64 states (n, *shape), or a frame or a list of texts if the model was fitted on that.

        Args:
            n: how many.
            steps: the largest number of steps of the reverse chain; more is better and slower. Default: 100.
            sampler: how a step is made. Default: see :meth:`sampling_plan`.
            grid: the times of the steps. Default: see :meth:`sampling_plan`.
            temperature: the logits are divided by it (see :class:`tauleap.denoise.Tempered`).
            seed: the same seed gives the same samples on the same machine; None draws one.
            batch_size: how many are made at a time. It is part of what a seed means. Default: as many as fit into 1 GB
                on a CPU, 1024 at most, or into a quarter of an accelerator's memory.
            condition: passed to the network, one entry a sample.
            guidance: how loud the labels in ``condition`` are: above 1 samples are more clearly of their label (see
                :class:`tauleap.denoise.Guided`).
            progress: shows a bar.
            states: give int64 states whatever the model was fitted on.
        """
        n = _check.integer("n", n, least=0)
        if self.shape is None:
            raise ValueError("the model does not know the shape of a datum: write Model(..., shape=...)")
        x = self._run(n, None, steps, sampler, grid, temperature, seed, batch_size, condition, guidance, progress)
        return x if states else restore(x, self.kind, self.form)

    def sampling_plan(
        self,
        *,
        steps: int = SAMPLING_STEPS,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        sites: int | None = None,
    ) -> SamplingPlan:
        """Return the sampler, the grid and the final step that :meth:`sample` and :meth:`complete` use.

        >>> import tauleap as tl
        >>> print(tl.load("music-small").sampling_plan(steps=256).sampler)
        FirstHitting()

        Args:
            steps: the largest number of steps. Default: 100.
            sampler: a sampler in the place of the selected one.
            grid: times in the place of the selected ones.
            sites: how many sites of a row are drawn. Default: all of them.
        """
        every = math.prod(self.shape or (1,)) if sites is None else _check.integer("sites", sites, least=0)
        return choose_sampling(self.process, every, steps=steps, sampler=sampler, grid=grid)

    @_device.cpu_by_default
    def complete(
        self,
        x: Any,
        observed: Any = None,
        *,
        variants: int = 1,
        steps: int = SAMPLING_STEPS,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        guidance: float = 1.0,
        progress: bool = False,
        states: bool = False,
    ) -> Any:
        """``x`` with what is not known drawn from the model given what is: prefixes, holes, empty cells.

        Args:
            x: rows (n, *shape) of what the model was fitted on. Missing cells (NaN, None, masked, ``missing`` of a
                Dataset) are filled in.
            observed: bool, like x or like one row: true where the value of x is known; or names of columns. With it the
                other cells are filled in; a cell that is missing is never known.
            variants: how many completions of each row, independent given what is known. The answer has a first axis of
                this length if it is not 1; a list for frames and texts.

        The other arguments are those of :meth:`sample`.
        """
        variants = _check.integer("variants", variants, least=1)
        data = self.encode(x)
        known = known_cells(data, observed, self.form)
        rows = data.rows(torch.arange(len(data)))
        given = Observed(
            known.repeat(variants, *(1,) * (known.ndim - 1)), rows.repeat(variants, *(1,) * len(data.shape))
        )
        if condition is not None:
            condition = condition.repeat(variants, *(1,) * (condition.ndim - 1))
        number = variants * len(data)
        out = self._run(
            number, given, steps, sampler, grid, temperature, seed, batch_size, condition, guidance, progress
        )
        parts = out.reshape(variants, len(data), *data.shape)
        if states or self.kind.name == "tensor":
            return parts[0] if variants == 1 else parts
        index = x.index if is_frame(x) else None
        each = [restore(part, self.kind, self.form, index) for part in parts]
        return each[0] if variants == 1 else each

    @_device.cpu_by_default
    def bits_per_dim(
        self,
        x: Any,
        observed: Any = None,
        *,
        samples: int = 16,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        progress: bool = False,
    ) -> Estimate[float]:
        """An upper bound on -log2 p(x) for each dimension of the rows ``x``, with its standard error.

        Missing cells are not counted. With ``observed`` it is that of the other cells given the observed ones. See
        :func:`tauleap.evaluate.bits_per_dim` for ``samples``.
        """
        data = self._encode(x, load=False)
        if isinstance(data.x, MappedRows) and len(data) > _ROWS_OF_FILES:
            return self._bits_of_file(data, observed, samples, seed, batch_size, condition, progress)
        rows = data.rows(torch.arange(len(data)))  # each batch of them is moved to the device
        known = None if observed is None else Observed(known_cells(data, observed, self.form), rows)
        return bits_per_dim(
            self.reverse,
            rows,
            samples=samples,
            batch_size=self._rows_at_once() if batch_size is None else batch_size,
            observed=known,
            missing=data.missing,
            condition=condition,
            generator=self._generator(seed),
            progress=progress,
        )

    @_device.cpu_by_default
    def _bits_of_file(
        self,
        data: Dataset,
        observed: Any,
        samples: int,
        seed: int | None,
        batch_size: int | None,
        condition: Tensor | None,
        progress: bool,
    ) -> Estimate[float]:
        """Return bits/dim of rows that stay in their file, of which some are in memory at a time."""
        generator, size = self._generator(seed), self._rows_at_once() if batch_size is None else batch_size
        known = None if observed is None else known_cells(data._take(torch.arange(1)), observed, self.form)
        bits = []
        for index in torch.arange(len(data)).split(_ROWS_OF_FILES):
            rows = data.rows(index)
            part = bits_per_dim(
                self.reverse,
                rows,
                samples=samples,
                batch_size=size,
                per_datapoint=True,
                observed=None if known is None else Observed(known.expand(rows.shape), rows),
                condition=condition[index] if condition is not None and has_rows(condition, len(data)) else condition,
                generator=generator,
                progress=progress,
            )
            bits.append(part.value)
        return Estimate.of_mean(torch.cat(bits))

    def encode(self, x: Any) -> Dataset:
        """``x``, of what the model was fitted on, as rows of states."""
        return self._encode(x, load=True)

    def _encode(self, x: Any, *, load: bool) -> Dataset:
        allowed = self.process.data_states.reshape(-1, self.num_states).any(0)
        data = read(x, form=self.form, num_states=int(allowed.nonzero().max()) + 1, load=load)
        if self.shape is not None and data.shape != self.shape:
            raise ValueError(f"x must be rows of the shape {self.shape}, (n, *shape), got rows of {data.shape}")
        return data

    def to(self, device: torch.device | str) -> Model:
        """Move the model to a device; the model itself, not a copy.

        Args:
            device: a device or its name, such as "cuda"; "auto" for the accelerator of this machine if there is one.

        Returns:
            The model.

        Raises:
            ValueError: No such device is known, or this machine does not have it.
        """
        device = _device.resolve(device)
        _device.check_weights(self.denoiser, device)
        self.reverse.to(device)
        return self

    @_device.cpu_by_default
    def save(self, folder: str | os.PathLike[str], *, compact: bool = False) -> Path:
        """Writes ``config.json`` and ``model.safetensors`` for :func:`tauleap.load`; returns the folder.

        A folder that holds a model already gets this one in its place; one that holds something else is refused. With
        ``compact`` the weights take half of the bytes: they are rounded to 16 bits, and are float32 again when read.
        """
        from tauleap.pretrained.storage import save

        return save(self, folder, compact=compact)

    def _run(
        self,
        n: int,
        observed: Observed | None,
        steps: int,
        sampler: Sampler | None,
        grid: Iterable[float] | Tensor | None,
        temperature: float,
        seed: int | None,
        batch_size: int | None,
        condition: Tensor | None,
        guidance: float,
        progress: bool,
    ) -> Tensor:
        denoiser = self.denoiser
        if _check.positive("guidance", guidance) != 1:
            if condition is None or self.num_labels is None:
                raise ValueError(
                    "guidance is for labels: write condition=..., for a model whose network was built with num_classes"
                )
            denoiser = Guided(denoiser, guidance, unknown=self.num_labels)
        if _check.positive("temperature", temperature) != 1:
            denoiser = Tempered(denoiser, temperature)
        reverse = self.reverse if denoiser is self.denoiser else ReverseProcess(self.process, denoiser)
        shape = self.shape if observed is None else tuple(observed.values.shape[1:])
        sites = math.prod(shape or ()) if observed is None or n == 0 else int((~observed.mask).flatten(1).sum(1).max())
        plan = self.sampling_plan(steps=steps, sampler=sampler, grid=grid, sites=sites)
        with evaluating(reverse):
            drawn = sample(
                reverse,
                plan.sampler,
                (n, *(shape or ())),
                grid=plan.grid,
                final=plan.final,
                observed=observed,
                condition=condition,
                batch_size=max(1, self._rows_at_once() // (1 if guidance == 1 else 2))
                if batch_size is None
                else batch_size,
                generator=self._generator(seed),
                progress=progress,
            )
        return drawn.x0.cpu()

    def _rows_at_once(self) -> int:
        return _batch.batch_rows(self.device, math.prod(self.shape or (1,)) * self.num_states)

    def _generator(self, seed: int | None) -> torch.Generator:
        generator = torch.Generator()
        if seed is None:
            generator.seed()
        else:
            generator.manual_seed(_check.seed(seed))
        return generator

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"Model({type(self.process).__name__}, {type(self.denoiser).__name__}{shape})"
