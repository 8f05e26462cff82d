"""The questions that a model answers about given rows: their likelihood, distributions of columns, surprising cells."""

from __future__ import annotations

from abc import ABC
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tauleap import _check, _device
from tauleap._defaults import SAMPLING_STEPS
from tauleap.data.observed_cells import known_cells
from tauleap.evaluate import Estimate, order_log_prob, path_log_prob
from tauleap.marginals import Question, counted_joint, joint_of_sites, repeated
from tauleap.model_parts import ModelParts
from tauleap.observed import Observed
from tauleap.sampling import choose_sampling
from tauleap.sampling_run import SamplingRun
from tauleap.surprise import Surprise, cell_surprise


class ModelQuestions(ModelParts, ABC):
    """Answer questions about rows; see :class:`tauleap.Model`."""

    @_device.cpu_by_default
    def log_prob(
        self,
        x: Any,
        observed: Any = None,
        *,
        orders: int = 16,
        batches: int | Sequence[int] = 1,
        steps: int = SAMPLING_STEPS,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
        progress: bool = False,
    ) -> Estimate[Tensor]:
        """Return log p(x) of the states of each row in nats, a lower bound in expectation that rises with ``orders``.

        For absorbing noise it is the likelihood of :class:`tauleap.sampling.FirstHitting`: a mean over random orders of
        the sites, each of them exact by one network evaluation per site (see :func:`tauleap.evaluate.order_log_prob`).
        For other noise it is that of ancestral sampling in ``steps`` steps, from importance-weighted paths (see
        :func:`tauleap.evaluate.path_log_prob`). It is tighter than ``bits_per_dim``, which is the mean for one order.

        Missing values are not counted: the value is the likelihood of the known ones. Numbers in bins count as their
        bin.

        Args:
            x: rows (n, *shape) of the type that the model was fitted on.
            observed: bool, like x or like one row, or names of columns: the value is log p(the other known values given
                these). Default: none.
            orders: random orders per row, or paths for other than absorbing noise, >= 1. Default: 16.
            batches: only for absorbing noise: sites per network evaluation, one number or a list of numbers. With more
                than 1 it is the likelihood of sampling as many sites at once. Default: 1.
            steps: only for other noise: the number of sampling steps. Default: 100.
            seed: seed of orders or paths. Default: a random seed.
            batch_size: rows per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.
            progress: show a progress bar. Default: false.

        Returns:
            One value per row with its standard error, in the order of the rows; the error is inf for one order.

        Raises:
            ValueError: a row has no known value besides the observed ones, or an argument is out of its range.

        >>> from tauleap import Model, denoise, noise
        >>> process = noise.Absorbing(3, noise.LogLinear())
        >>> law = torch.zeros(3, 3)
        >>> law[:2, :2] = torch.tensor([[0.4, 0.1], [0.2, 0.3]])
        >>> model = Model(process, denoise.ExactDenoiser(law, process), shape=(2,))
        >>> model.log_prob(torch.tensor([[0, 0], [1, 1]]), orders=1).value.exp()
        tensor([0.4000, 0.3000], dtype=torch.float64)
        """
        orders = _check.integer("orders", orders, least=1)
        data = self.encode(x)
        rows = data.rows(torch.arange(len(data)))
        given = None
        if observed is not None:
            given = Observed(known_cells(data, observed, self.form), rows)
        options = {
            "batch_size": self._batch_size(batch_size),
            "observed": given,
            "missing": data.missing,
            "condition": condition,
            "generator": _device.new_generator(_device.CPU, seed),
            "progress": progress,
        }
        if self.process.mask is not None:
            return order_log_prob(self.reverse, rows, orders=orders, batches=batches, **options)
        if batches != 1:
            raise ValueError(
                f"batches is for absorbing noise, and the model has {type(self.process).__name__}: write steps=..."
            )
        grid = choose_sampling(self.process, rows[0].numel(), steps=steps, tuning=self.tuning).grid
        return path_log_prob(self.reverse, rows, grid=grid, draws=orders, **options)

    @_device.cpu_by_default
    def marginal(
        self,
        columns: Any,
        given: Mapping[Any, Any] | None = None,
        *,
        samples: int = 1000,
        steps: int = SAMPLING_STEPS,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
    ) -> Any:
        """Return the distribution of one or several columns of a row, given conditions on others.

        For absorbing noise it follows from network evaluations with all unknown values masked: one for a column, and
        for several columns by the chain rule one for each combination of values of those before the last. Conditions
        on several values are mixtures over these values. No value is drawn, and the standard errors are 0, unless the
        conditions allow more than ``samples`` combinations of values. For other noise the values of ``samples`` samples
        are counted.

        Args:
            columns: the name of a column, or a list of names. For data without names: positions in the flattened row.
            given: conditions by the names of columns as :meth:`sample` takes them: a value, a list of categories, a
                range ``(low, high)`` whose ends are included, or None for a missing value. For data without names:
                a state or a list of states by position. Default: none.
            samples: the number of samples where sampling is needed, >= 1. Default: 1000.
            steps: only for other than absorbing noise: the largest number of sampling steps. Default: 100.
            seed: seed of the samples. Default: a random seed.
            batch_size: rows per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry. Default: none.

        Returns:
            A frame with the columns ``probability`` and ``stderr``, and a row per value of the column or combination of
            values: a category, a number, "low .. high" for a bin of numbers, None for a missing value. Its ``attrs``
            have the ``probability_of_given`` conditions, and the ``effective_sample_size`` if samples were drawn.

        Raises:
            ValueError: a column is unknown, no row can fulfil the conditions, or the condition has several entries.
        """
        if condition is not None and len(condition) != 1:
            raise ValueError(
                f"condition must have one entry, got shape {tuple(condition.shape)}: write condition[:1], and one call "
                "per entry"
            )
        if self.shape is None:
            raise ValueError("the model has no shape: write Model(..., shape=...)")
        samples = _check.integer("samples", samples, least=1)
        question = Question.of(
            self.process, self.form, self.shape, columns, {} if given is None else given, self.dependencies
        )
        size = self._batch_size(batch_size)
        if self.process.mask is not None:
            generator = _device.new_generator(_device.CPU, seed)
            options = {"samples": samples, "batch_size": size, "condition": condition, "generator": generator}
            joint = joint_of_sites(self.reverse, self.shape, question.sites, question.sizes, question.sets, **options)
        else:
            options = {"condition": repeated(condition, samples), "tuning": self.tuning}
            run = SamplingRun(self.reverse, size, steps, seed=seed, **options)
            drawn = run.draw((samples, *self.shape), question.observed(self.shape, samples))
            joint = counted_joint(drawn.x, question.sites, question.sizes, question.sets)
        return question.frame(joint)

    @_device.cpu_by_default
    def surprise(
        self,
        x: Any,
        *,
        seed: int | None = None,
        batch_size: int | None = None,
        condition: Tensor | None = None,
    ) -> Surprise:
        """Return how surprising each cell and each row is: for finding errors and anomalies.

        A cell has bits, -log2 p(its value | the other known values of its row), and a score, log2 of the odds that the
        value was replaced by one from elsewhere in its column. Both need one network evaluation per row and column.
        Missing values have neither.

        Args:
            x: rows (n, *shape) of the type that the model was fitted on.
            seed: only for other than absorbing noise, which draws the hidden value of the network's input. Default: a
                random seed.
            batch_size: rows per batch. Default: see :meth:`default_batch_size`.
            condition: input of a conditional network, with one entry per row. Default: none.

        Returns:
            The bits and scores of cells and rows; its method ``cells`` lists the most surprising cells with likelier
            values.

        Raises:
            ValueError: a row has no known value.

        >>> from tauleap import Model, denoise, noise
        >>> process = noise.Absorbing(3, noise.LogLinear())
        >>> law = torch.zeros(3, 3)
        >>> law[:2, :2] = torch.tensor([[0.45, 0.05], [0.05, 0.45]])
        >>> model = Model(process, denoise.ExactDenoiser(law, process), shape=(2,))
        >>> found = model.surprise(torch.tensor([[0, 0], [0, 1]]))
        >>> found.bits  # log2 of 0.9 and of 0.1
        tensor([[0.1520, 0.1520],
                [3.3219, 3.3219]], dtype=torch.float64)
        >>> found.row_scores[1] > found.row_scores[0]
        tensor(True)
        """
        return cell_surprise(
            self.reverse,
            self.encode(x),
            form=self.form,
            batch_size=self._batch_size(batch_size),
            condition=condition,
            generator=_device.new_generator(_device.CPU, seed),
        )
