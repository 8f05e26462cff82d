"""How surprising each cell of a row is, given the rest of the row: for finding errors and anomalies.

One network evaluation per column and row returns p(x | the other known values of the row), with that value alone
hidden. Three numbers follow for each cell:

- its bits, -log2 p(x | the rest);
- its score, the logarithm to base 2 of the odds that the value was replaced by one that was drawn from its column,
  against that it is the original one:

      score = log2 [ p(x) (1 - p(x | the rest)) / p(x | the rest) ].

  With p(x) the probability of the value in its column, the numerator is that of a draw from the column that differs
  from the original value. The odds are those for one error per cell: for a fraction f of errors add log2 (f / (1 - f));
- the likeliest value instead.

The score of a row is the logarithm of the sum of the odds of its cells: the odds of one error in the row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tauleap._shapes import SiteMask
from tauleap.data import Dataset
from tauleap.data.format import Format
from tauleap.data.sequences.format import SequenceFormat
from tauleap.data.table.columns.best import state_labels
from tauleap.data.table.columns.raw import RawTable
from tauleap.data.table.columns.unseen import unseen_cells
from tauleap.data.table.format import TableFormat
from tauleap.data.text import TextFormat
from tauleap.prediction import predict_sites
from tauleap.reverse import ReverseProcess

_LEAST = 2.0**-60
"""Below float32's rounding of probabilities near 1: it keeps scores finite."""


@dataclass(frozen=True)
class Surprise:
    """Hold the bits and the scores of the cells of rows, and the likeliest values instead.

    :meth:`cells` returns the most surprising cells as a frame. The tensors have the shape of the rows.
    """

    bits: Tensor
    """-log2 p(x | the rest of the row) of each cell; nan where the value is missing, and behind the end of a row of
    symbols."""
    scores: Tensor
    """log2 of the odds that the value was replaced by a draw from its column; nan where there are no bits."""
    likelier: Tensor
    """The most probable state of each cell given the rest of the row."""
    likelier_probs: Tensor
    """The probability of that state."""
    states: Tensor
    """The states of the cells."""
    unseen: Tensor
    """Whether the value of a cell is outside the training values of its column: a number or date below or above all of
    them, whose bits are those of the nearest ones, or a new category, which has no bits."""
    form: Format | None
    """The format of the rows."""
    source: RawTable | None
    """The table that the rows were encoded from."""

    @property
    def index(self) -> Any:
        """The index of the rows if they were a frame, None otherwise."""
        return None if self.source is None or self.source.frame is None else self.source.frame.index

    @property
    def row_bits(self) -> Tensor:
        """The sum of the bits of the cells of each row: its negative pseudo-log-likelihood."""
        return self.bits.nan_to_num(nan=0.0).flatten(1).sum(1)

    @property
    def row_scores(self) -> Tensor:
        """log2 of the sum of the odds of the cells of each row."""
        return self.scores.nan_to_num(nan=-math.inf).flatten(1).mul(math.log(2)).logsumexp(1) / math.log(2)

    def top(self, fraction: float = 0.01) -> SiteMask:
        """Return which cells have the highest scores.

        Args:
            fraction: the fraction of all known cells, in [0, 1]. Default: 0.01.
        """
        if isinstance(fraction, bool) or not isinstance(fraction, Real) or not 0 <= fraction <= 1:
            raise ValueError(f"fraction must be a number in [0, 1], got {fraction!r}")
        known = ~self.scores.isnan()
        number = round(fraction * int(known.sum()))
        order = self.scores.nan_to_num(nan=-math.inf).flatten().argsort(descending=True, stable=True)
        marked = torch.zeros(self.scores.numel(), dtype=torch.bool)
        marked[order[:number]] = True
        return marked.reshape(self.scores.shape)

    def cells(self, fraction: float = 0.01) -> Any:
        """Return a frame of the most surprising cells, the most surprising first.

        Its columns are ``row`` (the index of the row), ``column``, ``value``, ``score``, ``bits``, ``probability``,
        ``likelier`` (the likeliest value) and ``likelier_probability``. A likelier number is shown as its bin,
        "low .. high".

        Args:
            fraction: the fraction of all known cells, in [0, 1]. Default: 0.01.
        """
        import pandas

        marked = self.top(fraction).flatten(1)
        rows, sites = marked.nonzero().unbind(1)
        scores, bits, likelier, probs = (
            each.flatten(1)[rows, sites] for each in (self.scores, self.bits, self.likelier, self.likelier_probs)
        )
        frame = pandas.DataFrame(
            {
                "row": rows.numpy() if self.index is None else self.index[rows.numpy()],
                "column": [self.names[site] for site in sites.tolist()],
                "value": [self.value(row, site) for row, site in zip(rows.tolist(), sites.tolist(), strict=True)],
                "score": scores.numpy(),
                "bits": bits.numpy(),
                "probability": (2**-bits).numpy(),
                "likelier": [
                    self.labels(site)[state] for site, state in zip(sites.tolist(), likelier.tolist(), strict=True)
                ],
                "likelier_probability": probs.numpy(),
            }
        )
        return frame.sort_values("score", ascending=False, kind="stable", ignore_index=True)

    @property
    def names(self) -> list[Any]:
        """The names of the columns, or positions in the flattened row."""
        if isinstance(self.form, TableFormat):
            return list(self.form.site_names)
        return list(range(self.bits[:1].numel()))

    def value(self, row: int, site: int) -> Any:
        """Return the value of a cell as it was given; the label of its state if the rows were given as states.

        Args:
            row: the number of the row, from 0.
            site: the position in the flattened row.
        """
        if self.source is None:
            return self.labels(site)[int(self.states.flatten(1)[row, site])]
        cells = self.source.columns[self.names[site]]
        code = int(cells.codes[row])
        value = cells.values[code] if code >= 0 else None
        return value.item() if isinstance(value, np.generic) and not isinstance(value, np.datetime64) else value

    def labels(self, site: int) -> Sequence[Any]:
        """Return the labels of the states of a column or site.

        Args:
            site: the position in the flattened row.
        """
        if isinstance(self.form, TableFormat):
            return state_labels(self.form.encoder.columns[self.form.encoder.sites[site]])
        if isinstance(self.form, SequenceFormat):
            return self.form.state_names
        if isinstance(self.form, TextFormat) and self.form.alphabet is not None:
            return self.form.alphabet
        return range(1 + max(int(self.states.max()), int(self.likelier.max())))

    def __repr__(self) -> str:
        return f"Surprise({len(self.bits)} rows of {self.bits[:1].numel()} cells)"


def cell_surprise(
    reverse: ReverseProcess,
    data: Dataset,
    *,
    form: Format | None,
    batch_size: int,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Surprise:
    """Return how surprising each known value is, given the other known values of its row.

    Args:
        reverse: The reverse process.
        data: The rows.
        form: The format of the rows.
        batch_size: Rows per evaluation of the network.
        condition: Input of a conditional network, one entry per row. Default: none.
        generator: The source of randomness, for other than absorbing noise. Default: that of PyTorch.

    Raises:
        ValueError: A row has no known value.
    """
    x, known = data.rows(torch.arange(len(data))), data.known()
    empty = (~known.flatten(1).any(1)).nonzero().flatten()
    if len(empty):
        raise ValueError(f"row {int(empty[0])} has no known value: leave the row out")
    options = {"batch_size": batch_size, "generator": generator}
    bits = torch.full(x.shape, math.nan, dtype=torch.float64).flatten(1)
    scores, best, best_probs = bits.clone(), torch.zeros_like(x.flatten(1)), torch.zeros_like(bits)
    states, present = x.flatten(1), known.flatten(1)
    scored = present
    if data.sequences is not None:
        scored = present & (torch.arange(x.shape[1]) < data.sequences.symbols(x)[:, None])
    # One row per condition, with nothing known: the distribution of each column.
    alone = slice(None) if condition is not None else slice(1)
    nothing = torch.zeros_like(known[alone])
    columns = {
        (found.site, int(row)): probs
        for found in predict_sites(reverse, x[alone], nothing, condition=condition, **options)
        for row, probs in zip(found.rows, found.probs.to(torch.float64), strict=True)
    }
    for site in range(states.shape[1]):
        rest = present.clone()
        rest[:, site] = False
        for found in predict_sites(reverse, x, rest.reshape(known.shape), condition=condition, **options):
            if found.site != site:
                continue
            probs, rows = found.probs.to(torch.float64), found.rows
            own = probs.gather(1, states[rows, site][:, None]).squeeze(1)
            if condition is None:
                column = columns[site, 0][states[rows, site]]
            else:
                column = torch.stack([columns[site, int(row)][states[int(row), site]] for row in rows])
            here = torch.where(scored[rows, site], 0.0, math.nan)
            log_odds = column.clamp(min=_LEAST).log2() + (1 - own).clamp(min=_LEAST).log2()
            bits[rows, site] = here - own.log2()
            scores[rows, site] = here + log_odds - own.clamp(min=_LEAST).log2()
            best_probs[rows, site], best[rows, site] = probs.max(1)
    unseen = torch.zeros_like(present)
    if isinstance(form, TableFormat) and data.source is not None:
        unseen = torch.from_numpy(unseen_cells(form.encoder, data.source))
    bits, scores, best, best_probs, unseen = (
        each.reshape(x.shape) for each in (bits, scores, best, best_probs, unseen)
    )
    return Surprise(bits, scores, best, best_probs, x, unseen, form, data.source)
