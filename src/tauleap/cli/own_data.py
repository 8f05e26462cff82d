"""``tauleap train`` on data of the user's own: fit, samples in the data's own form, and what to type next."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from tauleap._defaults import SAMPLING_STEPS
from tauleap.cli.own_samples import write_samples
from tauleap.cli.runs import part_seed
from tauleap.data import Opened
from tauleap.data.table import TableForm
from tauleap.fitting import MINUTES, fit
from tauleap.pretrained import Model
from tauleap.sampling import SamplingPlan
from tauleap.training import is_first_rank

_SAMPLES = ((64, SAMPLING_STEPS), (16, SAMPLING_STEPS), (16, 50), (4, 50), (4, 25), (1, 25), (1, 5))
"""Numbers of samples and steps; the first that there is time for are drawn."""


@dataclass(frozen=True)
class Trained:
    """What came out: the model, the files, the first rows as text, how training ended, and how samples were drawn."""

    model: Model
    files: list[Path]
    shown: str
    stopped: str
    plan: SamplingPlan | None = None


def train_on(
    opened: Opened,
    out: Path,
    *,
    minutes: float | None,
    steps: int | None,
    seed: int,
    progress: bool,
    began: float,
    options: Mapping[str, Any],
) -> Trained | None:
    """Fit a model in the folder ``out`` and write samples there.

    Args:
        opened: the data.
        out: the folder of the run.
        minutes: the budget for everything since ``began``; None for no limit, or for the default without ``steps``.
        steps: of training.
        seed: of everything that is drawn.
        progress: print the choice, the progress and the result.
        began: when the budget began, as ``time.monotonic()`` counts.
        options: further arguments of :func:`tauleap.fit`.

    Returns:
        The model and the samples; None on every rank but the first.
    """
    if minutes is None and steps is None:
        minutes = MINUTES
    model = fit(
        opened,
        # What is kept for the samples depends on nothing else: the choice of a network depends on the minutes, and the
        # same command must make the same choice to go on.
        minutes=None if minutes is None else minutes - min(0.1 * minutes, 1.0),
        started=began,
        steps=steps,
        seed=seed,
        out=out,
        progress=progress,
        **options,
    )
    if not is_first_rank():
        return None
    stopped = str(model.about.get("stopped", "finished"))
    if stopped.startswith("SIG"):
        return Trained(model, [], "", stopped)
    x, steps_drawn = _samples(model, seed, None if minutes is None else began + 60 * minutes)
    return Trained(
        model,
        write_samples(out, opened.form, x),
        opened.form.show(x, 1 if opened.form.kind == "images" else 5),
        stopped,
        model.sampling_plan(steps=steps_drawn),
    )


def next_commands(out: Path, opened: Opened, given: Path) -> list[str]:
    """What a user would want next."""
    name, form = shlex.quote(str(out)), opened.form
    if isinstance(form, TableForm) and opened.dataset.missing is not None:
        what, why = shlex.quote(str(given)), "fills in its empty cells"
    elif isinstance(form, TableForm):
        what = shlex.join([str(given), "--observed", form.columns[0]])
        why = "draws the other columns, given this one"
    else:
        what, why = {
            "text": ("FILE", "writes a text on"),
            "midi": ("FILE", "plays a melody on"),
            "images": ("FILE", "fills in what is transparent"),
        }.get(form.kind, ("FILE --observed 0", "fills in all sites but the first"))
    return [f"tauleap sample {name} -n 1000", f"tauleap complete {name} {what}  # {why}"]


def facts_of(trained: Trained, out: Path) -> dict[str, Any]:
    """For scripts."""
    sampling = {} if trained.plan is None else {"sampling": trained.plan.as_json()}
    return {"run": str(out), "samples": [str(path) for path in trained.files]} | sampling | trained.model.about


def _samples(model: Model, seed: int, deadline: float | None) -> tuple[Tensor, int]:
    """Return 64 samples by at most 100 steps, or what there is time for, and one at least; and the steps."""

    def draw(rows: int, steps: int, first: int) -> tuple[Tensor, float]:
        start = time.monotonic()
        x = model.sample(rows, steps=steps, seed=part_seed(seed, first), states=True)
        return x, time.monotonic() - start

    if deadline is None:
        return draw(*_SAMPLES[0], 0)[0], _SAMPLES[0][1]
    draw(1, 2, 0)  # the first time there is more to do
    one, few = (draw(rows, 2, 0)[1] / 2 for rows in (1, 5))
    more = max(few - one, 0.0) / 4  # what another row adds to a step
    left = deadline - time.monotonic()
    fitting = ((rows, steps) for rows, steps in _SAMPLES if steps * (one + more * (rows - 1)) < left)
    rows, steps = next(fitting, _SAMPLES[-1])
    return draw(rows, steps, 0)[0], steps
