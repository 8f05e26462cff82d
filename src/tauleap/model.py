"""A generative model: a forward process and a denoiser, with sampling, completion and bits/dim."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._batch_size import default_batch_size
from tauleap._defaults import SAMPLING_STEPS
from tauleap._seeds import check_seed, derive_seed
from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.memory import Kind, read, restore, restore_completed
from tauleap.data.observed_cells import known_cells
from tauleap.denoise import Denoiser, Guided, Tempered
from tauleap.evaluate import Estimate
from tauleap.evaluate._mode import evaluating
from tauleap.network.labels import num_labels
from tauleap.noise import ForwardProcess
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess
from tauleap.row_bits import mean_of_rows, original_bits, row_bits
from tauleap.sampling import Sampler, SamplingPlan, choose_sampling, sample
from tauleap.storage.save import save


class Model:
    """A generative model, as ``tauleap.fit`` and ``tauleap.load`` return it.

    Args:
        process: the forward process, x0 -> x_t.
        denoiser: the denoiser, x_t -> p(x0 given x_t).
        shape: shape of one row. Default: unknown; :meth:`sample` needs it.
        form: the meaning of the states in a file, a frame or texts. Default: states are plain numbers.
        kind: the type of the data that the model was fitted on, which samples have too. Default: a tensor.
        about: a report about the model, as JSON can hold it; ``tauleap.fit`` writes one. Default: empty.

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
        form: Format | None = None,
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
    def num_labels(self) -> int | None:
        """Number of class labels, ``num_classes`` of the network; None for an unconditional network."""
        return num_labels(getattr(self.denoiser, "network", None))

    @property
    def device(self) -> torch.device:
        """The device of the weights."""
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
        """Return ``n`` samples of the type that the model was fitted on.

        Args:
            n: number of samples.
            steps: the largest number of sampling steps; the network's error limits the gain of more. Default: 100.
            sampler: the sampler. Default: see :meth:`sampling_plan`.
            grid: the times of the steps. Default: see :meth:`sampling_plan`.
            temperature: divides the logits (see :class:`tauleap.denoise.Tempered`). Default: 1.
            seed: with the same seed and batch size, a machine returns the same samples. Default: a random seed.
            batch_size: samples per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per sample. Default: none.
            guidance: guidance scale; above 1 it strengthens class conditioning (see :class:`tauleap.denoise.Guided`).
                Default: 1.
            progress: show a progress bar. Default: false.
            states: return int64 states (n, *shape), whatever the model was fitted on. Default: false.

        Returns:
            int64 states (n, *shape), a frame, or a list of texts.
        """
        n = _check.integer("n", n, least=0)
        if self.shape is None:
            raise ValueError("the model has no shape, which sampling needs: write Model(..., shape=...)")
        x = self._run(n, None, steps, sampler, grid, temperature, seed, batch_size, condition, guidance, progress)
        return x if states else restore(x, self.kind, self.form, seed=_decoding_seed(seed))

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
            sampler: a sampler instead of the selected one. Default: None.
            grid: times instead of the selected ones. Default: None.
            sites: number of sites per row that are drawn. Default: all of them.
        """
        every = math.prod(self.shape or (1,)) if sites is None else _check.integer("sites", sites, least=0)
        return choose_sampling(self.process, every, steps=steps, sampler=sampler, grid=grid)

    @_device.cpu_by_default
    def complete(
        self,
        x: Any,
        observed: Any = None,
        *,
        steps: int = SAMPLING_STEPS,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        temperature: float = 1.0,
        variants: int = 1,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        guidance: float = 1.0,
        progress: bool = False,
        states: bool = False,
    ) -> Any:
        """Return ``x`` with its unknown values drawn from the model, conditional on the known ones.

        Args:
            x: rows (n, *shape) of the type that the model was fitted on. Missing values (NaN, None, masked, ``missing``
                of a Dataset) are always drawn.
            observed: bool, like x or like one row, true where the value of x is known; or names of columns. The other
                values are drawn. Default: every value that is not missing is known.
            steps: see :meth:`sample`; so are the following arguments. Default: 100.
            sampler: the sampler. Default: None, selected.
            grid: the times of the steps. Default: None, selected.
            temperature: divides the logits. Default: 1.
            variants: independent completions per row. Unless it is 1, the result has a first axis of this length; for
                frames and texts it is a list. Default: 1.
            seed: seed of the draws. Default: a random seed.
            batch_size: rows per batch.
            condition: input of a conditional network, with one entry per row. Default: none.
            guidance: guidance scale. Default: 1.
            progress: show a progress bar. Default: false.
            states: return int64 states, whatever the model was fitted on. Default: false.
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
        if states or (self.kind.name == "tensor" and data.source is None):
            return parts[0] if variants == 1 else parts
        seeds = [_decoding_seed(seed, variant) for variant in range(variants)]
        each = [
            restore_completed(part, data, observed, self.kind, self.form, seed=own)
            for part, own in zip(parts, seeds, strict=True)
        ]
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
        """Return an upper bound on -log2 p(x) per dimension, with its standard error.

        Args:
            x: rows (n, *shape) of the type that the model was fitted on. Missing values are not counted.
            observed: bool, like x or like one row, or names of columns: the bound is that of the other values, given
                these. Default: none.
            samples: random times per row (see :func:`tauleap.evaluate.bits_per_dim`). Default: 16.
            seed: seed of times and noise. Default: a random seed.
            batch_size: draws per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.
            progress: show a progress bar. Default: false.
        """
        data = self.encode(x, load=False)
        options = {"samples": samples, "condition": condition, "progress": progress}
        return mean_of_rows(self._row_bits(data, observed, seed, batch_size, **options))

    @_device.cpu_by_default
    def bits_per_row(
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
        """Return an upper bound on -log2 p of the original values of a row, with its standard error.

        It is the bits of all states of the row, plus those of each number or date within its bin, for values of the
        column's precision. So models with different numbers of bins are comparable.

        Args:
            x: see :meth:`bits_per_dim`; so are the following arguments. States without their table count by themselves.
            observed: the values that are given.
            samples: random times per row. Default: 16.
            seed: seed of times and noise. Default: a random seed.
            batch_size: draws per batch.
            condition: input of a conditional network, with one entry per row. Default: none.
            progress: show a progress bar. Default: false.
        """
        data = self.encode(x, load=False)
        options = {"samples": samples, "condition": condition, "progress": progress}
        bits = self._row_bits(data, observed, seed, batch_size, **options)
        return mean_of_rows(replace(bits, value=original_bits(self.form, data, observed, bits.value)))

    def _row_bits(
        self, data: Dataset, observed: Any, seed: int | None, batch_size: int | None, **options: Any
    ) -> Estimate[Tensor]:
        size, generator = self.default_batch_size() if batch_size is None else batch_size, self._generator(seed)
        return row_bits(self.reverse, self.form, data, observed, batch_size=size, generator=generator, **options)

    def default_batch_size(self, *, evaluations: int = 1, memory: float | None = None) -> int:
        """Return how many rows are processed together by default.

        Args:
            evaluations: network evaluations per row that are batched together, such as 2 for guidance. Default: 1.
            memory: bytes that a batch may take. Default: 1 GiB on a CPU (an eighth of the memory where that is less),
                a quarter of the memory of an accelerator.
        """
        entries = math.prod(self.shape or (1,)) * self.num_states
        return default_batch_size(self.device, entries, evaluations=evaluations, memory=memory)

    def encode(self, x: Any, *, load: bool = True) -> Dataset:
        """Return data as a dataset of states.

        Args:
            x: rows of the type that the model was fitted on.
            load: whether rows in a file are read into memory. Default: true.

        Raises:
            ValueError: the rows have another shape than those of the model.
        """
        allowed = self.process.data_states.reshape(-1, self.num_states).any(0)
        data = read(x, form=self.form, num_states=int(allowed.nonzero().max()) + 1, load=load)
        if self.shape is not None and data.shape != self.shape:
            raise ValueError(f"x must have rows of shape {self.shape}, (n, *shape), got rows of shape {data.shape}")
        return data

    def to(self, device: torch.device | str) -> Model:
        """Move the model itself, not a copy, to a device.

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
        """Write ``config.json`` and ``model.safetensors`` for :func:`tauleap.load`, and return the folder.

        Args:
            folder: a new or empty folder, or one that holds a model, which is replaced.
            compact: round the weights to 16 bits, which halves the file; they are loaded as float32. Default: false.

        Raises:
            ValueError: the folder holds other files.
        """
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
                    "guidance needs class labels: write condition=..., with a model whose network has num_classes"
                )
            denoiser = Guided(denoiser, guidance, null_label=self.num_labels)
        if _check.positive("temperature", temperature) != 1:
            denoiser = Tempered(denoiser, temperature)
        reverse = self.reverse if denoiser is self.denoiser else ReverseProcess(self.process, denoiser)
        shape = self.shape if observed is None else tuple(observed.values.shape[1:])
        sites = math.prod(shape or ()) if observed is None or n == 0 else int((~observed.mask).flatten(1).sum(1).max())
        plan = self.sampling_plan(steps=steps, sampler=sampler, grid=grid, sites=sites)
        size = self.default_batch_size(evaluations=1 if guidance == 1 else 2) if batch_size is None else batch_size
        with evaluating(reverse):
            drawn = sample(
                reverse,
                plan.sampler,
                (n, *(shape or ())),
                grid=plan.grid,
                final=plan.final,
                observed=observed,
                condition=condition,
                batch_size=size,
                generator=self._generator(seed),
                progress=progress,
            )
        return drawn.x0.cpu()

    def _generator(self, seed: int | None) -> torch.Generator:
        generator = torch.Generator()
        generator.seed() if seed is None else generator.manual_seed(check_seed(seed))
        return generator

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"Model({type(self.process).__name__}, {type(self.denoiser).__name__}{shape})"


def _decoding_seed(seed: int | None, variant: int = 0) -> int:
    """Return the seed of values inside bins, which follows from that of the sampler."""
    return derive_seed(torch.Generator().seed() if seed is None else check_seed(seed), "values", variant)
