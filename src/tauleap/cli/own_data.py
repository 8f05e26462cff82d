"""``tauleap train`` on data of the user's own: fit, samples in the data's own form, and what to type next."""

from __future__ import annotations

import shlex
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tauleap import _files
from tauleap.cli.runs import part_seed
from tauleap.data import Form, Opened
from tauleap.data.table import TableForm
from tauleap.fitting import fit
from tauleap.pretrained import Model

MINUTES = 3.0
_SAMPLES, _STEPS = 64, 100


@dataclass(frozen=True)
class Trained:
    """What came out: the model, the first rows as text, the files, and how training ended."""

    model: Model
    files: list[Path]
    shown: str
    stopped: str


def train_on(
    opened: Opened,
    out: Path,
    *,
    minutes: float | None,
    steps: int | None,
    seed: int,
    accelerator: str,
    progress: bool,
    began: float,
) -> Trained:
    """Fits a model in the folder ``out`` and writes samples there; ``minutes`` since ``began`` are for all of it."""
    if minutes is None and steps is None:
        minutes = MINUTES
    left = None
    if minutes is not None:
        # A part is kept for the samples at the end.
        left = 60 * minutes - (time.monotonic() - began) - (1.0 + min(0.1 * 60 * minutes, 60.0))
        left = max(left, 0.3 * 60 * minutes)
    model = fit(
        opened,
        minutes=None if left is None else left / 60,
        steps=steps,
        seed=seed,
        out=out,
        accelerator=accelerator,
        progress=progress,
    )
    stopped = str(model.about.get("stopped", "finished"))
    if stopped.startswith("SIG"):
        return Trained(model, [], "", stopped)
    number, chain = _SAMPLES, _STEPS
    if minutes is not None:
        number, chain = _affordable(model, 60 * minutes - (time.monotonic() - began))
    x = model.sample(number, steps=chain, seed=part_seed(seed, 0), states=True)
    folder = out / "samples"
    if folder.exists():
        _files.remove(folder)
    with _files.appearing(folder) as unfinished:
        written = opened.form.write(x, unfinished)
    return Trained(
        model,
        [folder / path.name for path in written],
        opened.form.show(x, 1 if opened.form.kind == "images" else 5),
        stopped,
    )


def next_commands(out: Path, form: Form, given: Path) -> list[str]:
    """What a user would want next."""
    name = shlex.quote(str(out))
    if isinstance(form, TableForm):
        what, why = shlex.quote(str(given)), "fills in its empty cells"
    else:
        what, why = (
            "FILE",
            {"text": "writes on", "midi": "plays on", "images": "fills in what is transparent"}.get(
                form.kind, "--observed 0:4 fills in the other sites"
            ),
        )
    return [f"tauleap sample {name} -n 1000", f"tauleap complete {name} {what}  # {why}"]


def facts_of(trained: Trained, out: Path) -> dict[str, Any]:
    """For scripts."""
    return {"run": str(out), "samples": [str(path) for path in trained.files]} | trained.model.about


def _affordable(model: Model, seconds: float) -> tuple[int, int]:
    """How many samples by how many steps fit into the time that is left, by what two steps of one sample take."""
    began = start = time.monotonic()
    for _ in range(2):  # the first time there is more to do
        start = time.monotonic()
        model.sample(1, steps=2, seed=0, states=True)
    now = time.monotonic()
    steps_of_one = 0.7 * max(seconds - (now - began), 1.0) / ((now - start) / 2)
    if steps_of_one >= _STEPS:
        return min(_SAMPLES, int(steps_of_one / _STEPS)), _STEPS
    return 1, max(2, int(steps_of_one))
