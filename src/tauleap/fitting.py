"""From data to a model in one call."""

from __future__ import annotations

import csv
import io
import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from torch import Tensor, nn

from tauleap import _check, _files, _read
from tauleap._full_disk import explaining_full_disk
from tauleap._printable import printable
from tauleap.baseline import independent_rows, varying_sites
from tauleap.choose import Choice, choose
from tauleap.data import Dataset
from tauleap.data.form import Form, Opened
from tauleap.data.memory import Kind, read, take
from tauleap.denoise import Denoiser, NetworkDenoiser
from tauleap.evaluate import Comparison, Estimate, bits_per_dim
from tauleap.noise import ForwardProcess
from tauleap.objective import CompleteElbo, Objective
from tauleap.pretrained import Model, load
from tauleap.pretrained.storage import write_report
from tauleap.training import RandomMasks, Recipe
from tauleap.training.budget import train_until
from tauleap.training.folder import check_run_folder

_MINUTES = 3.0
_MASKING = RandomMasks()
_MOST_HELD_OUT = 10_000
_LAST_SECONDS = 20.0
"""For measuring, where there is no other limit: as long as training took, or this."""


def fit(
    data: Any,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    validation: float | int | Any = 0.1,
    process: ForwardProcess | None = None,
    network: nn.Module | Denoiser | None = None,
    objective: Objective | None = None,
    masking: RandomMasks | None = _MASKING,
    num_states: int | None = None,
    ordinal: bool | None = None,
    out: str | os.PathLike[str] | None = None,
    accelerator: str = "auto",
    progress: bool = True,
    started: float | None = None,
) -> Model:
    """A model of ``data``: noise, network and sizes are chosen to suit it, trained, and measured on rows held out.

    >>> import tauleap as tl
    >>> rows = torch.randint(3, (200, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 4)  # four alike
    >>> model = tl.fit(rows, steps=20, progress=False)
    >>> model.sample(16, steps=10, seed=0).shape
    torch.Size([16, 4])

    Args:
        data: rows of states 0 .. S-1, (n, *shape): an array, a tensor, a list of equally long sequences (texts too), a
            pandas frame of categories, a :class:`tauleap.data.Dataset`, or what :func:`tauleap.data.open_data` gave.
            NaN, None and masked cells are missing: nothing is learnt from them, and they are never taken as known.
        minutes: a budget for everything, 3 by default, or no limit where ``steps`` is given.
        steps: of training; as many as fit into the minutes if absent.
        seed: of the split, the weights, the order of the data and all noise.
        validation: what bits/dim is measured on: a share of the rows, a number of rows, or other data. Of music whole
            songs are held out, so that their number may be another.
        process: the noise, in the place of the chosen one.
        network: the network or denoiser, in the place of the chosen one; a copy of it is trained.
        objective: the loss, ``CompleteElbo()`` by default.
        masking: which sites are given in training. By default random patterns, so that ``model.complete`` works for
            any; None trains the generative model alone.
        num_states: S, where it is larger than what an array shows.
        ordinal: whether states are quantities; by default those of pictures (two or more axes) are.
        out: a folder for checkpoints and logs, new or empty, in which the same call resumes; a temporary one if absent.
            Ctrl-C ends training, not the call: the model is measured and returned as it is. The model is that of the
            checkpoint which did best on held-out rows, the last if none was clearly better; ``latest`` in the folder
            points to it.
        accelerator: "cpu", "cuda", "mps", or "auto" for the best there is.
        progress: print the choice, the progress and the result.
        started: ``time.monotonic()`` when the minutes began, if that was before this call.
    """
    began = time.monotonic() if started is None else started
    if out is not None:
        check_run_folder(Path(out))
    if minutes is None and steps is None:
        minutes = _MINUTES
    seconds = math.inf if minutes is None else 60 * _check.positive("minutes", minutes)
    rows, form, kind = take(data, num_states=num_states)
    unused = network is None and rows.condition is not None
    rows = replace(rows, condition=None) if unused else rows
    groups = data.groups if isinstance(data, Opened) else None
    rows, held_out, report = _split(rows, validation, form, seed, groups)
    report = [*(data.report if isinstance(data, Opened) else []), *report]
    if unused:
        held_out = replace(held_out, condition=None)
        report.append("the condition is not used: give a network that takes one, network=...")
    if ordinal is None:
        ordinal = len(rows.shape) >= 2 if form is None else form.ordinal
    choice = _chosen(rows, process, network, ordinal=ordinal, minutes=_MINUTES if minutes is None else minutes)
    console = Console(quiet=not progress)
    for line in (*report, *choice.reasons):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    recipe = _recipe(rows, held_out, choice, objective or CompleteElbo(), masking, form, kind, seed)
    steps = None if steps is None else _check.integer("steps", steps, least=1)
    end = began + seconds - _for_measuring(seconds)

    with _folder_of(out) as folder, explaining_full_disk(folder):
        result = train_until(end, recipe, steps, folder, accelerator=accelerator, console=console)
        deadline = began + seconds
        if result.stopped.startswith("SIG"):  # who stops a run does not want to wait
            deadline = min(deadline, time.monotonic() + _LAST_SECONDS)
        elif math.isinf(deadline):
            deadline = time.monotonic() + max(_LAST_SECONDS, time.monotonic() - began)
        best, model, bits = _better(folder, result.checkpoint, held_out, seed, deadline)
        found = Comparison.of(bits, independent_rows(rows, held_out, len(bits)))
        varying = varying_sites(rows)
        meaning = found.sentence(varying_sites=varying)
        better = found.verdict(varying_sites=varying)
        model.about = {
            "data": report,
            "choice": list(choice.reasons),
            "rows": len(rows),
            "missing": 0 if rows.missing is None else int(rows.missing.sum()),
            "step": int(best.name.rpartition("-")[2]),
            "steps_trained": result.step,
            "stopped": result.stopped,
            "seed": seed,
            "weights": sum(p.numel() for p in model.reverse.parameters()),
            "bits_per_dim": _plain(found.model),
            "independent_bits_per_dim": _plain(found.independent),
            "gain_over_independent": _plain(found.gain),
            "better_than_independent": better,
            "interpretation": meaning,
            "held_out_rows": len(held_out),
            "seconds": time.monotonic() - began,
        }
        if out is not None and result.first:
            _files.point(folder / "latest", best.name)
            write_report(folder, best, model.about)
    hint = f" (train longer: minutes={longer(model.about)})" if better is False else ""
    after = f"after {model.about['step']} steps: {meaning}{hint}"
    console.print(after, markup=False, highlight=False, soft_wrap=True)
    return model


@contextmanager
def _folder_of(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """The folder that was given, or a temporary one."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="tauleap-") as temporary:
        yield Path(temporary)


def longer(about: Mapping[str, Any]) -> int:
    """Return minutes that are about three times those which a model was trained for, and the default at least.

    Args:
        about: what :func:`fit` says of the model, with the ``seconds`` that everything took.
    """
    return max(round(_MINUTES), math.ceil(3 * float(about["seconds"]) / 60 - 0.5))


def _split(
    data: Dataset, validation: Any, form: Form | None, seed: int, groups: Tensor | None = None
) -> tuple[Dataset, Dataset, list[str]]:
    """Rows to train with and rows to measure with, and what was left out: rows of which nothing is known."""
    report = []
    whole = data
    data, gone = _with_something(data)
    if gone:
        groups = None if groups is None else groups[_known_rows(whole)]
        report.append(f"{gone} rows without any value are left out")
    if not isinstance(validation, bool | int | float):
        held_out, _ = _with_something(read(validation, form=form, num_states=data.num_states))
        if held_out.shape != data.shape:
            raise ValueError(f"validation must be rows of the shape {data.shape}, got rows of {held_out.shape}")
        return data, held_out, report
    if len(data) < 2:
        raise ValueError("there must be at least two rows, one of them to measure with, got 1")
    if isinstance(validation, float):
        if not 0 < validation < 1:
            raise ValueError(f"validation must be a share in (0, 1), a number of rows, or data, got {validation!r}")
        validation = min(_MOST_HELD_OUT, max(1, round(validation * len(data))), len(data) - 1)
    number = _check.integer("validation", validation, least=1)
    songs = _songs(data, form, groups)
    if songs is not None and number < len(data):
        from tauleap.data.songs import held_out_songs

        test = held_out_songs(songs, number, seed=seed)
        if bool(test.any()):
            report.append(f"held out: {int(test.sum())} of {len(data)} rows, all of {len(songs[test].unique())} songs")
            return data._take((~test).nonzero().flatten()), data._take(test.nonzero().flatten()), report
        report.append("one song is most of the data: the rows held out are of songs that are trained with as well")
    train_rows, held_out = data.split(number, seed=seed)
    return train_rows, held_out, report


def _songs(data: Dataset, form: Form | None, groups: Tensor | None) -> Tensor | None:
    """A number for each row, the same for those that must not be on both sides; None: every row is by itself."""
    from tauleap.data.music import MusicForm

    if not isinstance(form, MusicForm):
        return None if groups is None else groups.unique(return_inverse=True)[1]
    from tauleap.data.songs import songs_of

    return songs_of(form.pitches(data.x), groups=groups)


def _known_rows(data: Dataset) -> Tensor:
    """Those of which something is known."""
    known = torch.ones(len(data), 1, dtype=torch.bool) if data.missing is None else ~data.missing
    return known.reshape(len(data), -1).any(1)


def _with_something(data: Dataset) -> tuple[Dataset, int]:
    """The rows of which something is known, and how many others there were."""
    if data.missing is None:
        return data, 0
    kept = _known_rows(data)
    if not bool(kept.any()):
        raise ValueError("every value is missing: there is nothing to learn from")
    gone = int((~kept).sum())
    if not gone:
        return data, 0
    condition = None if data.condition is None else data.condition[kept]
    return replace(data, x=data.x[kept], missing=data.missing[kept], condition=condition), gone


def _chosen(
    data: Dataset,
    process: ForwardProcess | None,
    network: nn.Module | Denoiser | None,
    *,
    ordinal: bool,
    minutes: float,
) -> Choice:
    """The default choice, with what the caller has chosen in its place."""
    choice = choose(data, ordinal=ordinal, minutes=minutes, process=process)
    if network is None:
        return choice
    if not isinstance(network, nn.Module):
        raise TypeError(f"network must be a torch.nn.Module or a Denoiser, got {type(network).__name__}")

    def given() -> Denoiser:
        own = deepcopy(network)
        return own if isinstance(own, Denoiser) else NetworkDenoiser(own)

    return replace(choice, denoiser=given, reasons=(choice.reasons[0], f"network: {type(network).__name__}, as given"))


def _recipe(
    data: Dataset,
    held_out: Dataset,
    choice: Choice,
    objective: Objective,
    masking: RandomMasks | None,
    form: Form | None,
    kind: Kind,
    seed: int,
) -> Recipe:
    def model() -> Model:
        return Model(choice.process, choice.denoiser(), shape=data.shape, form=form, kind=kind)

    settings = replace(choice.settings, seed=_check.integer("seed", seed, least=0))
    return Recipe("fit", lambda: (data, held_out), model, objective, settings, masking=masking)


def _better(folder: Path, last: Path, data: Dataset, seed: int, deadline: float) -> tuple[Path, Model, Tensor]:
    """The last checkpoint, or an earlier one that is better by two standard errors on the same rows and noise.

    With it come its model, and bits/dim of each row.
    """
    best = _best(folder, last)
    model = load(last)
    if best == last:
        return last, model, _measured(model, data, seed, deadline)
    now = time.monotonic()
    bits = _measured(model, data, seed, now + (deadline - now) / 2)
    earlier = load(best)
    bits_then = _measured(earlier, data, seed, deadline)
    n = min(len(bits), len(bits_then))
    gain = Estimate.of_mean(bits[:n] - bits_then[:n])
    if gain.value > 2 * gain.stderr:
        return best, earlier, bits_then
    return last, model, bits


def _best(folder: Path, last: Path) -> Path:
    """The checkpoint that seemed best on held-out rows: the last, unless the bits/dim have risen since an earlier one.

    Small data is learnt by heart when there is time for it.
    """
    try:
        text = _read.content(folder / "validation.csv", inside=folder).decode()
        looks = {int(row["step"]): float(row["bits_per_dim"]) for row in csv.DictReader(io.StringIO(text, newline=""))}
    except (OSError, ValueError, KeyError, TypeError):
        return last
    kept = {step: folder / f"step-{step:08d}" for step in looks}
    kept = {step: path for step, path in kept.items() if path.is_dir()}
    if not kept:
        return last
    best = min(kept, key=lambda step: looks[step])
    return last if best == max(kept) else kept[best]


def _for_measuring(seconds: float) -> float:
    """What is kept of a budget for the end: loading, bits/dim, and saving."""
    return 0.0 if math.isinf(seconds) else 1.0 + min(0.1 * seconds, 30.0)


def _measured(model: Model, data: Dataset, seed: int, deadline: float) -> Tensor:
    """Bits/dim of each of as many rows as there is time for."""
    generator = torch.Generator().manual_seed(seed)
    # Many sites tell as much of one time as few sites of many.
    times = max(2, min(8, 512 // math.prod(data.shape)))
    size = max(1, min(256, model._rows_at_once() // times))
    values: list[Tensor] = []
    longest, begin = 0.0, 0
    while begin < len(data) and (begin == 0 or time.monotonic() + longest < deadline):
        start = time.monotonic()
        index = torch.arange(begin, min(begin + size, len(data)))
        estimate = bits_per_dim(
            model.reverse,
            data.rows(index),
            samples=times,
            batch_size=model._rows_at_once(),
            per_datapoint=True,
            missing=None if data.missing is None else data.missing[index],
            condition=None if data.condition is None else data.condition[index],
            generator=generator,
        )
        values.append(estimate.value)
        longest, begin = max(longest, time.monotonic() - start), begin + size
    return torch.cat(values)


def _plain(estimate: Estimate[float]) -> dict[str, Any]:
    value, stderr = (number if math.isfinite(number) else None for number in (estimate.value, estimate.stderr))
    return {"value": value, "stderr": stderr, "n": estimate.n}
