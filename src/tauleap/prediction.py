"""Predict unknown values in one evaluation of the network: their distributions, and the best value of each.

Under absorbing noise an unknown site is masked, so that one evaluation returns p(x0 of the site | the known sites): the
distribution that many completions would estimate. For other noise the unknown sites are drawn from the prior, at t = 1.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _draw
from tauleap._shapes import PerState, SiteMask, States
from tauleap.data.format import Format
from tauleap.data.table.columns import RawTable
from tauleap.data.table.columns.best import Centre, best_values, state_labels
from tauleap.data.table.columns.condition import FixedValues
from tauleap.data.table.format import TableFormat
from tauleap.evaluate._mode import evaluating
from tauleap.observed import Observed
from tauleap.reverse import ReverseProcess


@dataclass(frozen=True)
class SitePrediction:
    """Hold the distribution of one site in the rows where it is unknown.

    Args:
        site: The position of the site in a flattened row.
        rows: The rows in which it is unknown.
        probs: p(x0 of the site | the known sites of the row).
    """

    site: int
    rows: Int64[Tensor, " n"]
    probs: Float[Tensor, "n states"]


def predict_sites(
    reverse: ReverseProcess,
    x: States,
    known: SiteMask,
    *,
    batch_size: int,
    condition: Tensor | None = None,
    generator: torch.Generator | None = None,
) -> Iterator[SitePrediction]:
    """Yield the distributions of the unknown values, batch by batch and site by site, on the CPU.

    Args:
        reverse: The reverse process.
        x: Rows of states; any state where they are unknown.
        known: Which values are known.
        batch_size: Rows per evaluation of the network.
        condition: Input of a conditional network, one entry per row. Default: none.
        generator: The source of randomness, for other than absorbing noise. Default: that of PyTorch.
    """
    incomplete = (~known).flatten(1).any(1).nonzero().flatten()
    device, sites = reverse.device, x[:1].numel()
    with evaluating(reverse), torch.no_grad():
        for rows in incomplete.split(batch_size):
            mask = known[rows].to(device)
            start = _draw.from_law(reverse.process.sampling_prior(), x[rows].shape, generator).to(device)
            noisy = torch.where(mask, x[rows].to(device), start)
            given = None if condition is None else condition[rows.to(condition.device)].to(device)
            posterior = reverse.posterior(noisy, 1.0, observed=Observed(mask, noisy), condition=given)
            unknown = ~mask.flatten(1)
            for site in unknown.any(0).nonzero().flatten().tolist():
                here = unknown[:, site].nonzero().flatten()
                probs = posterior.at(here * sites + site).softmax(-1)
                yield SitePrediction(site, rows[here.cpu()], probs.cpu())


def best_rows(
    predictions: Iterable[SitePrediction], x: States, form: Format | None, *, numbers: Centre = "mean"
) -> tuple[States, Format | None]:
    """Return rows with the most probable state of every unknown value, and a format that decodes to the best values.

    In a table the best value of a number need not be that of the most probable state (see :func:`best_values`).

    Args:
        predictions: The distributions of the unknown values.
        x: The rows of states.
        form: The format of the rows.
        numbers: The best value of a number, "mean" or "median". Default: "mean".
    """
    out = x.clone()
    columns = _modelled(form)
    values: dict[int, np.ndarray] = {}
    for found in predictions:
        probs, site = found.probs, found.site
        column = columns.get(site)
        if column is not None:
            probs = probs[:, : column.encoder.num_states]  # without a state of missing values
            best = best_values(column, probs.numpy(), centre=numbers)
            if site not in values:
                values[site] = np.resize(best[:1], len(x))
            values[site][found.rows.numpy()] = best
        out.flatten(1)[found.rows, site] = probs.argmax(-1)
    if not isinstance(form, TableFormat):
        return out, form
    places = {form.encoder.sites[site]: own for site, own in values.items()}
    chosen = (
        replace(column, condition=FixedValues(places[place])) if place in places else column
        for place, column in enumerate(form.encoder.columns)
    )
    return out, replace(form, encoder=replace(form.encoder, columns=tuple(chosen)))


def probability_tables(
    predictions: Iterable[SitePrediction], form: TableFormat, source: RawTable | None
) -> dict[str, Any]:
    """Return a frame per column that has unknown values: a row for each of them, and a column per state.

    Args:
        predictions: The distributions of the unknown values.
        form: The format of the rows.
        source: The rows as they were given, whose index the frames have. Default: None, they are numbered.
    """
    import pandas

    index = None if source is None or source.frame is None else source.frame.index
    parts: dict[int, list[SitePrediction]] = {}
    for found in predictions:
        parts.setdefault(found.site, []).append(found)
    tables = {}
    for site, column in _modelled(form).items():
        if site in parts:
            rows = torch.cat([part.rows for part in parts[site]]).numpy()
            probs = torch.cat([part.probs for part in parts[site]])[:, : column.num_states].numpy()
            tables[column.name] = pandas.DataFrame(
                probs, index=rows if index is None else index[rows], columns=state_labels(column)
            )
    return tables


def probability_tensor(predictions: Iterable[SitePrediction], x: States, num_states: int) -> PerState:
    """Return the distribution of every value (n, *shape, S); that of a known value is certain.

    Args:
        predictions: The distributions of the unknown values.
        x: The rows of states.
        num_states: The number of states of data.
    """
    out = torch.nn.functional.one_hot(x, num_states).to(torch.get_default_dtype())
    flat = out.flatten(1, -2)
    for found in predictions:
        flat[found.rows, found.site] = found.probs[:, :num_states].to(flat.dtype)
    return out


def _modelled(form: Format | None) -> dict[int, Any]:
    """Return the columns of a table by the number of their site; none for other data."""
    if not isinstance(form, TableFormat):
        return {}
    return {site: form.encoder.columns[place] for site, place in enumerate(form.encoder.sites)}
