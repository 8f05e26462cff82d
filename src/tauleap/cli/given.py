"""``--given``: conditions on the columns of a table, written as COLUMN=VALUE, and how probable they are."""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tauleap import _device
from tauleap._files.printable import one_line
from tauleap._seeds import derive_seed
from tauleap.data.format import Format
from tauleap.data.table.columns.condition import parse_condition
from tauleap.data.table.format import TableFormat
from tauleap.evaluate._mode import evaluating
from tauleap.given import FEW, IMPROBABLE, GivenColumns
from tauleap.model import Model


def parse_given(words: Sequence[str], form: Format) -> dict[str, Any]:
    """Return conditions by the names of their columns, as :meth:`tauleap.Model.sample` takes them.

    Args:
        words: The values of the option, such as "sex=Female" and "age=30:40". A value may have an equals sign, and so
            may a column.
        form: The format of the model.

    Raises:
        ValueError: A word is not a condition on a column of the model's table.
    """
    if not isinstance(form, TableFormat):
        raise ValueError(f"--given needs a model of a table, and this is a model of {form.kind}: leave it out")
    columns = {column.name: column for column in form.encoder.columns}
    found: dict[str, Any] = {}
    for word in words:
        ends = [place for place, sign in enumerate(word) if sign == "="]
        end = next((end for end in reversed(ends) if word[:end].strip() in columns), None)
        if end is None:
            raise ValueError(
                f"--given must be COLUMN=VALUE, COLUMN=LOW:HIGH or COLUMN=A|B, got {word!r}: write one of the columns "
                f"{one_line(', '.join(columns), most=500)}"
            )
        name, text = word[:end].strip(), word[end + 1 :].strip()
        if name in found:
            raise ValueError(f"--given has two conditions on the column {name!r}: write one of them")
        found[name] = parse_condition(columns[name], text)
    return found


@dataclass(frozen=True)
class Conditions:
    """Hold a format that decodes only to values in the conditions, their probability, and the effective sample size."""

    form: Format
    n: int
    probability: float | None
    effective_size: float | None

    def as_json(self) -> dict[str, Any]:
        """Return the probability and the effective sample size; None for what was not computed."""
        return {"probability": self.probability, "effective_sample_size": self.effective_size}

    def __str__(self) -> str:
        lines = []
        if self.probability is not None:
            lines.append(f"by the model {self.probability:.3g} of all rows fulfil the conditions")
            if self.probability < IMPROBABLE:
                lines[-1] += ", which may contradict each other"
        if self.effective_size is not None:
            lines.append(f"effective sample size {self.effective_size:,.0f} of {self.n:,}")
            if self.effective_size < FEW * self.n:
                lines[-1] += ": few rows fulfil all conditions at once"
        return "\n".join(lines)


def describe_conditions(model: Model, given: Mapping[str, Any], n: int, batch_size: int, seed: int) -> Conditions:
    """Return the probability and the effective sample size of conditions, estimated by the draw of one more batch.

    Args:
        model: The model.
        given: The conditions.
        n: The number of samples.
        batch_size: Samples per batch; each batch is resampled by itself.
        seed: The seed.
    """
    columns = GivenColumns.of(model.form, given, model.num_states, model.dependencies)
    with evaluating(model.reverse), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        generator = _device.new_generator(_device.CPU, derive_seed(seed, "conditions"))
        drawn = columns.draw(model.reverse, batch_size, batch_size=batch_size, generator=generator)
    probability = None if drawn.log_probability is None else math.exp(drawn.log_probability)
    effective = n * drawn.effective_size / batch_size if drawn.weighted else None
    return Conditions(columns.form, n, probability, effective)
