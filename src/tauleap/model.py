"""A generative model: a forward process and a denoiser, with sampling, completion and bits/dim."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap.data import Dataset
from tauleap.data.memory import restore, restore_completed
from tauleap.data.observed_cells import known_cells
from tauleap.data.table.format import TableFormat
from tauleap.evaluate import Estimate
from tauleap.given import GivenColumns
from tauleap.model_questions import ModelQuestions
from tauleap.observed import Observed
from tauleap.prediction import SitePrediction, best_rows, predict_sites, probability_tables, probability_tensor
from tauleap.row_bits import mean_of_rows, original_bits, row_bits
from tauleap.sampling import Sampler, SamplingPlan, choose_sampling
from tauleap.sampling_run import SamplingRun, decoding_seed


class Model(ModelQuestions):
    """Sample, complete and evaluate with a generative model, as ``tauleap.fit`` and ``tauleap.load`` return it.

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

    @_device.cpu_by_default
    def sample(
        self,
        n: int,
        *,
        steps: int | None = None,
        tol: float | None = None,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        temperature: float = 1.0,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        guidance: float = 1.0,
        given: Mapping[str, Any] | None = None,
        progress: bool = False,
        states: bool = False,
    ) -> Any:
        """Return ``n`` samples of the type that the model was fitted on.

        Args:
            n: number of samples.
            steps: the largest number of sampling steps; the network's error limits the gain of more. Default: 100, or
                as many as ``tol`` needs.
            tol: the largest predicted error of the steps in nats per row, instead of ``steps``; the model must be tuned
                (see :func:`tauleap.tune`). Default: none.
            sampler: the sampler. Default: see :meth:`sampling_plan`.
            grid: the times of the steps. Default: see :meth:`sampling_plan`.
            temperature: divides the logits (see :class:`tauleap.denoise.Tempered`). Default: 1.
            seed: with the same seed and batch size, a machine returns the same samples. Default: a random seed.
            batch_size: samples per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per sample. Default: none.
            guidance: guidance scale; above 1 it strengthens class conditioning (see :class:`tauleap.denoise.Guided`).
                Default: 1.
            given: conditions on columns of a table by their names, such as ``{"sex": "Female", "age": (30, 40)}``: a
                value, a list of categories, a range (its ends are included, None is no end), or None for a missing
                value. Several ranges or lists use importance weights: ``attrs["effective_sample_size"]`` of the frame
                is the number of independent samples that they are worth. Default: none.
            progress: show a progress bar. Default: false.
            states: return int64 states (n, *shape), whatever the model was fitted on. Default: false.

        Returns:
            int64 states (n, *shape), a frame, or a list of texts.
        """
        n = _check.integer("n", n, least=0)
        if self.shape is None:
            raise ValueError("the model has no shape, which sampling needs: write Model(..., shape=...)")
        columns = None if given is None else GivenColumns.of(self.form, given, self.num_states, self.dependencies)
        size = self._batch_size(batch_size, guidance)
        options = {"progress": progress, "tol": tol, "tuning": self.tuning}
        run = SamplingRun(self.reverse, size, steps, sampler, grid, temperature, seed, condition, guidance, **options)
        drawn = run.draw((n, *self.shape), given=columns)
        if states:
            return drawn.x
        form = self.form if columns is None else columns.form
        out = restore(drawn.x, self.kind, form, seed=decoding_seed(seed))
        if drawn.effective_size is not None and self.kind.name == "frame":
            out.attrs["effective_sample_size"] = drawn.effective_size
        return out

    def sampling_plan(
        self,
        *,
        steps: int | None = None,
        tol: float | None = None,
        sampler: Sampler | None = None,
        grid: Iterable[float] | Tensor | None = None,
        sites: int | None = None,
    ) -> SamplingPlan:
        """Return the sampler, the grid and the final step that :meth:`sample` and :meth:`complete` use.

        >>> import tauleap as tl
        >>> print(tl.load("music-small").sampling_plan(steps=256).sampler)
        FirstHitting()

        Args:
            steps: the largest number of steps. Default: 100, or as many as ``tol`` needs.
            tol: the largest predicted error in nats per row, instead of ``steps``. Default: none.
            sampler: a sampler instead of the selected one. Default: None.
            grid: times instead of the selected ones. Default: None.
            sites: number of sites per row that are drawn. Default: all of them.

        Returns:
            The plan, whose ``reason`` explains the selection.
        """
        every = math.prod(self.shape or (1,)) if sites is None else _check.integer("sites", sites, least=0)
        options = {"steps": steps, "tol": tol, "sampler": sampler, "grid": grid, "tuning": self.tuning}
        return choose_sampling(self.process, every, **options)

    @_device.cpu_by_default
    def complete(
        self,
        x: Any,
        observed: Any = None,
        *,
        steps: int | None = None,
        tol: float | None = None,
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
            steps: see :meth:`sample`; so are the following arguments. Default: 100, or as many as ``tol`` needs.
            tol: the largest predicted error in nats per row; rows with fewer unknown values need fewer steps. Default:
                none.
            sampler: the sampler. Default: None, selected.
            grid: the times of the steps. Default: None, selected.
            temperature: divides the logits. Default: 1.
            variants: independent completions per row. Unless it is 1, the result has a first axis of this length; for
                frames and texts it is a list. Default: 1.
            seed: seed of the draws. Default: a random seed.
            batch_size: rows per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.
            guidance: guidance scale. Default: 1.
            progress: show a progress bar. Default: false.
            states: return int64 states, whatever the model was fitted on. Default: false.

        Returns:
            Completed rows of the type of ``x``; known values are unchanged.
        """
        variants = _check.integer("variants", variants, least=1)
        data = self.encode(x, incomplete=True)
        known = known_cells(data, observed, self.form)
        rows = data.rows(torch.arange(len(data)))
        given = Observed(
            known.repeat(variants, *(1,) * (known.ndim - 1)), rows.repeat(variants, *(1,) * len(data.shape))
        )
        if condition is not None:
            condition = condition.repeat(variants, *(1,) * (condition.ndim - 1))
        size = self._batch_size(batch_size, guidance)
        options = {"progress": progress, "tol": tol, "tuning": self.tuning}
        run = SamplingRun(self.reverse, size, steps, sampler, grid, temperature, seed, condition, guidance, **options)
        parts = run.draw(tuple(given.values.shape), given).x.reshape(variants, len(data), *data.shape)
        if states or (self.kind.name == "tensor" and data.source is None):
            return parts[0] if variants == 1 else parts
        seeds = [decoding_seed(seed, variant) for variant in range(variants)]
        each = [
            restore_completed(part, data, observed, self.kind, self.form, seed=own)
            for part, own in zip(parts, seeds, strict=True)
        ]
        return each[0] if variants == 1 else each

    @_device.cpu_by_default
    def predict(
        self,
        x: Any,
        observed: Any = None,
        *,
        numbers: Literal["mean", "median"] = "mean",
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        states: bool = False,
    ) -> Any:
        """Return ``x`` with the best prediction of each unknown value, from one network evaluation per row.

        Each value is predicted on its own, given the known ones: the most probable category or state, the mean or
        median of numbers, and the median of dates. Unlike draws of :meth:`complete`, predictions vary too little and
        need not fit each other.

        Args:
            x: see :meth:`complete`.
            observed: see :meth:`complete`. Default: every value that is not missing is known.
            numbers: the prediction for a number: "mean" has the least squared, "median" the least absolute error.
                Default: "mean".
            seed: only for other than absorbing noise, which draws the unknown values of the network's input. Default: a
                random seed.
            batch_size: rows per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.
            states: return int64 states, the most probable ones, whatever the model was fitted on. Default: false.

        Returns:
            Rows of the type of ``x``; known values are unchanged.
        """
        if numbers not in ("mean", "median"):
            raise ValueError(f'numbers must be "mean" or "median", got {numbers!r}')
        data, rows, found = self._predictions(x, observed, seed, batch_size, condition)
        best, form = best_rows(found, rows, self.form, numbers=numbers)
        return best if states else restore_completed(best, data, observed, self.kind, form)

    @_device.cpu_by_default
    def predict_proba(
        self,
        x: Any,
        observed: Any = None,
        *,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
    ) -> Any:
        """Return the probabilities of each unknown value given the known ones, from one network evaluation per row.

        Args:
            x: see :meth:`complete`.
            observed: see :meth:`complete`. Default: every value that is not missing is known.
            seed: see :meth:`predict`. Default: a random seed.
            batch_size: rows per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.

        Returns:
            For a table a dict from the names of columns with unknown values to frames, which have a row per unknown
            value (with the index of ``x``) and a column per category, value or bin. For other data a tensor (n, *shape,
            states), in which known values have probability 1.
        """
        data, rows, found = self._predictions(x, observed, seed, batch_size, condition)
        if isinstance(self.form, TableFormat):
            return probability_tables(found, self.form, data.source)
        return probability_tensor(found, rows, self._data_states)

    def _predictions(
        self, x: Any, observed: Any, seed: int | None, batch_size: int | None, condition: Tensor | None
    ) -> tuple[Dataset, Tensor, Iterator[SitePrediction]]:
        data = self.encode(x, incomplete=True)
        rows, known = data.rows(torch.arange(len(data))), known_cells(data, observed, self.form)
        generator = _device.new_generator(_device.CPU, seed)
        options = {"batch_size": self._batch_size(batch_size), "condition": condition, "generator": generator}
        return data, rows, predict_sites(self.reverse, rows, known, **options)

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

        Returns:
            The mean over the rows in bits per dimension, with its standard error.
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
            observed: the values that are given. Default: none.
            samples: random times per row. Default: 16.
            seed: seed of times and noise. Default: a random seed.
            batch_size: draws per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.
            progress: show a progress bar. Default: false.

        Returns:
            The mean over the rows in bits, with its standard error.
        """
        data = self.encode(x, load=False)
        options = {"samples": samples, "condition": condition, "progress": progress}
        bits = self._row_bits(data, observed, seed, batch_size, **options)
        return mean_of_rows(replace(bits, value=original_bits(self.form, data, observed, bits.value)))

    def _row_bits(
        self, data: Dataset, observed: Any, seed: int | None, batch_size: int | None, **options: Any
    ) -> Estimate[Tensor]:
        options |= {"batch_size": self._batch_size(batch_size), "generator": _device.new_generator(_device.CPU, seed)}
        return row_bits(self.reverse, self.form, data, observed, **options)

    def __repr__(self) -> str:
        shape = "" if self.shape is None else f", shape={self.shape}"
        return f"Model({type(self.process).__name__}, {type(self.denoiser).__name__}{shape})"
