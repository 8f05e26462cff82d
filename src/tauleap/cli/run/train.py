"""The work of ``tauleap train``: with a recipe, or on the user's data with samples in the format of the data."""

from __future__ import annotations

import dataclasses
import itertools
import json
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from torch import Tensor

from tauleap import _files, recipes
from tauleap._defaults import SAMPLING_STEPS
from tauleap._files import owned, safe_read
from tauleap._files.full_disk import explaining_full_disk
from tauleap._seeds import derive_seed
from tauleap.cli.commands.train import (
    DATA_OPTIONS,
    FILE_OPTIONS,
    READING_OPTIONS,
    RECIPES_WITH_DATA,
    SEQUENCE_OPTIONS,
    TABLE_OPTIONS,
    TRAINING_OPTIONS,
    Train,
)
from tauleap.cli.output import files_line, print_result
from tauleap.cli.resume_command import resume_command
from tauleap.data import Format, LoadedData, open_data
from tauleap.fitting import MINUTES, fit, longer
from tauleap.fitting.tuning import tune_cheaply
from tauleap.model import Model
from tauleap.pretrained import load
from tauleap.pretrained.runs import checkpoint_folders, write_report
from tauleap.sampling import SamplingPlan
from tauleap.training import NonFiniteError, Recipe, Result, Run, Settings, is_first_rank, train
from tauleap.training.folder import SAMPLES, check_run_folder

_SAMPLES = ((64, SAMPLING_STEPS), (16, SAMPLING_STEPS), (16, 50), (4, 50), (4, 25), (1, 25), (1, 5))
"""Numbers of samples and steps; the first pair that fits into the remaining time is used."""
_LIST = ".tauleap-samples.json"
"""Names the files that were written into a folder of samples, and marks the folder as ours."""


@dataclass(frozen=True)
class Trained:
    """Hold the model, the files of samples, the first rows as text, why training ended, and how samples were drawn."""

    model: Model
    files: list[Path]
    preview: str
    stopped: str
    plan: SamplingPlan | None = None


def run_data(options: Train, path: Path, out: Path, began: float) -> None:
    """Train on the user's data, write samples, and print commands to use next.

    Args:
        options: The options of the command, which it has checked.
        path: The data.
        out: The folder of the run.
        began: When the command began, as a value of ``time.monotonic()``.
    """
    check_run_folder(out)  # before the data is read, which may take minutes
    _checked_run(options, out)
    loaded = open_data(path, **_open_options(options))
    try:
        with explaining_full_disk(out):
            done = train_on(
                loaded,
                out,
                minutes=options.minutes,
                steps=options.steps,
                seed=0 if options.seed is None else options.seed,
                progress=not options.json,
                began=began,
                options=_fit_options(options),
            )
    except NonFiniteError as error:
        print(f"tauleap: error: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    if done is None:  # another rank, and the first one prints
        return
    if done.stopped.startswith("SIG"):
        lines = [f"{done.stopped}: {out}", f"to resume: {resume_command()}"]
        print_result(facts_of(done, out) if options.json else lines)
        raise SystemExit(128 + signal.Signals[done.stopped])
    files = files_line(done.files, out / "samples")
    lines, facts = [done.preview, f"samples: {files}, sampled by {done.plan}"], facts_of(done, out)
    if done.model.about.get("better_than_independent") is False:
        facts["train_longer"] = _longer_command(options, longer(done.model.about), out)
        lines.append(f"next: {facts['train_longer']}  # trains longer")
    lines += [f"next: {line}" for line in next_commands(out, loaded, path)]
    print_result(facts if options.json else lines)


def _fit_options(options: Train) -> dict[str, Any]:
    """Return the arguments of :func:`tauleap.fit`, without those that were not given: these have its defaults."""
    names = (name for name in (*DATA_OPTIONS, *TRAINING_OPTIONS) if name not in READING_OPTIONS)
    return {name: value for name in names if (value := getattr(options, name)) is not None}


def _open_options(options: Train) -> dict[str, Any]:
    """Return the arguments of :func:`tauleap.data.open_data`."""
    found = {name: getattr(options, name) for name in (*FILE_OPTIONS, *SEQUENCE_OPTIONS, *TABLE_OPTIONS)}
    names = {"tab": "\t", "\\t": "\t", "space": " "}
    delimiter = None if options.delimiter is None else names.get(options.delimiter, options.delimiter)
    changed = {"types": options.column_types(), "missing": options.missing or None, "delimiter": delimiter}
    return found | changed


def run_recipe(options: Train) -> None:
    """Train by a recipe and print where the checkpoint is.

    Args:
        options: The options of the command, which it has checked.
    """
    out = options.out or Path("runs") / options.what
    check_run_folder(out)  # before the data is downloaded and read, which may take minutes
    run = _checked_run(options, out)  # before the data, which may be downloaded
    recipe = _make_recipe(options)
    names = ("steps", "batch_size", "lr", "seed", "checkpoint_every", "precision")
    given = {name: value for name in names if (value := getattr(options, name)) is not None}
    given |= _decay(recipe.settings, options.steps, out)
    recipe = dataclasses.replace(recipe, settings=dataclasses.replace(recipe.settings, **given))
    try:
        result = train(recipe, run, console=Console(quiet=True)) if options.json else train(recipe, run)
    except NonFiniteError as error:
        print(f"tauleap: error: {error}", file=sys.stderr)
        raise SystemExit(1) from error
    if not result.first:
        return
    if not result.stopped.startswith("SIG"):
        _tune_checkpoint(recipe, run, result)
    facts = {"run": str(run.folder), "step": result.step, "stopped": result.stopped}
    lines = [f"{result.stopped} at step {result.step}: {result.checkpoint}"]
    if result.stopped != "finished":
        lines.append(f"to resume: {resume_command()}")
    print_result(facts | {"checkpoint": str(result.checkpoint)} if options.json else lines)
    if result.stopped.startswith("SIG"):
        raise SystemExit(128 + signal.Signals[result.stopped])


def _tune_checkpoint(recipe: Recipe, run: Run, result: Result) -> None:
    """Tune the model of the last checkpoint on the held-out rows, at a small part of the cost of training."""
    held_out = recipe.data()[1]
    if held_out is None:
        return
    model = load(result.checkpoint)
    trained = result.step * recipe.settings.batch_size
    if tune_cheaply(model, held_out, trained, recipe.settings.seed):
        write_report(run.folder, result.checkpoint, model.about)


def train_on(
    loaded: LoadedData,
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
        loaded: The data.
        out: The folder of the run.
        minutes: The time limit of everything since ``began``; None for no limit, or for 3 minutes without ``steps``.
        steps: The number of training steps; None for as many as the minutes allow.
        seed: The seed of training and sampling.
        progress: Whether to print the choice, the progress and the result.
        began: When the time began, as a value of ``time.monotonic()``.
        options: Further arguments of :func:`tauleap.fit`.

    Returns:
        The model and the samples; None on every rank but the first.
    """
    if minutes is None and steps is None:
        minutes = MINUTES
    model = fit(
        loaded,
        # The time reserved for samples depends only on the minutes: the choice of a network depends on the rest, and
        # the same command must make the same choice to resume.
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
    form = model.form or loaded.form
    return Trained(
        model,
        write_samples(out, form, x, seed),
        form.preview(x, form.preview_rows, seed=seed),
        stopped,
        model.sampling_plan(steps=steps_drawn),
    )


def next_commands(out: Path, loaded: LoadedData, path: Path) -> list[str]:
    """Return commands that use the model.

    Args:
        out: The folder of the run.
        loaded: The data.
        path: Its file or folder.
    """
    name = shlex.quote(str(out))
    words, comment = loaded.form.completion_example(loaded.dataset, shlex.quote(str(path)))
    return [f"tauleap sample {name} -n 1000", f"tauleap complete {name} {words}  # {comment}"]


def facts_of(trained: Trained, out: Path) -> dict[str, Any]:
    """Return the result as a JSON object.

    Args:
        trained: The result.
        out: The folder of the run.
    """
    sampling = {} if trained.plan is None else {"sampling": trained.plan.as_json()}
    return {"run": str(out), "samples": [str(path) for path in trained.files]} | sampling | trained.model.about


def _samples(model: Model, seed: int, deadline: float | None) -> tuple[Tensor, int]:
    """Return 64 samples and their number of steps, 100; fewer of both if the time is short, but at least one."""

    def draw(rows: int, steps: int, first: int) -> tuple[Tensor, float]:
        start = time.monotonic()
        x = model.sample(rows, steps=steps, seed=derive_seed(seed, "rows", first), states=True)
        return x, time.monotonic() - start

    if deadline is None:
        return draw(*_SAMPLES[0], 0)[0], _SAMPLES[0][1]
    draw(1, 2, 0)  # the first call also allocates
    one, five = (draw(rows, 2, 0)[1] / 2 for rows in (1, 5))
    more = max(five - one, 0.0) / 4  # seconds that another row adds to a step
    left = deadline - time.monotonic()
    fitting = ((rows, steps) for rows, steps in _SAMPLES if steps * (one + more * (rows - 1)) < left)
    rows, steps = next(fitting, _SAMPLES[-1])
    return draw(rows, steps, 0)[0], steps


def write_samples(run: Path, form: Format, x: Tensor, seed: int = 0) -> list[Path]:
    """Write samples in the format of the data into ``samples`` in the folder of a run.

    Samples of an earlier command are replaced. If the folder holds anything else, it is left unchanged and the samples
    are written into ``samples-2``, or the next number.

    Args:
        run: The folder of the run.
        form: The format of the samples.
        x: States, (n, *shape).
        seed: The seed of values that are drawn inside a state, such as a bin. Default: 0.

    Returns:
        The files.
    """
    folder = next(path for path in _candidates(run) if _is_free(path))
    with _files.atomic_dir(folder) as unfinished:
        written = [path.name for path in form.write(x, unfinished, seed=seed)]
        (unfinished / _LIST).write_text(json.dumps({"files": written}) + "\n", encoding="utf-8")
    return [folder / name for name in written]


def _candidates(run: Path) -> Iterator[Path]:
    return itertools.chain([run / SAMPLES], (run / f"{SAMPLES}-{number}" for number in itertools.count(2)))


def _is_free(folder: Path) -> bool:
    """Return whether a name can be used: no such folder exists, or one with only our files, which is removed."""
    if not folder.is_dir() or folder.is_symlink():
        return not (folder.exists() or folder.is_symlink())
    try:
        listed = safe_read.read_json(folder / _LIST, inside=folder)["files"]
    except (OSError, ValueError, TypeError, KeyError):
        return False
    return isinstance(listed, list) and owned.remove_folder(folder, [_LIST, *listed])


def _longer_command(options: Train, minutes: int, out: Path) -> str:
    """Return the command for more minutes in a new folder: another budget may choose another network."""
    words = ["tauleap", "train", options.what, "--minutes", str(minutes), "--out", f"{out}-{minutes}-minutes"]
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        if field.name in ("what", "out", "steps", "minutes", "json") or value == field.default:
            continue
        is_flag = isinstance(value, bool)
        values = value if isinstance(value, tuple) else () if is_flag else (value,)
        words += [f"--{'no-' * (is_flag and not value)}{field.name.replace('_', '-')}", *map(str, values)]
    return shlex.join(words)


def _checked_run(options: Train, out: Path) -> Run:
    """Return the folder and the devices, after a check that this machine has them."""
    run = Run(
        out=out,
        minutes=options.minutes,
        devices=options.devices,
        nodes=options.nodes,
        strategy=options.strategy,
        device=options.device,
        accumulate=options.accumulate,
        compile=options.compile,
        keep=3 if options.keep is None else options.keep,
    )
    run.check(options.precision or "32-true")
    return run


def _make_recipe(options: Train) -> Recipe:
    make = getattr(recipes, options.what.replace("-", "_"))
    if options.download and options.what != "cifar10":
        raise ValueError(f"--download is only for the recipe cifar10, got {options.what}: leave it out")
    if options.what not in RECIPES_WITH_DATA:
        if options.data is not None:
            names = " and ".join(RECIPES_WITH_DATA)
            raise ValueError(f"--data is only for the recipes {names}; {options.what} has its own data: leave it out")
        return make()
    if options.data is None and not options.download:
        download = " or --download" if options.what == "cifar10" else ""
        raise ValueError(f"the recipe {options.what} needs images: write --data PATH{download}")
    return make(options.data, download=True) if options.download else make(options.data)


def _decay(settings: Settings, steps: int | None, folder: Path) -> dict[str, int]:
    """Return the horizon of the learning-rate decay, as a setting: ``--steps`` where the recipe decays to its end.

    A resumed run keeps its horizon, also where it becomes longer. A run that ends within the warm-up keeps that of the
    recipe, for the run that resumes it.
    """
    if settings.decay != settings.steps:
        return {}
    for _, checkpoint in reversed(checkpoint_folders(folder)):
        try:
            recorded = safe_read.read_json(checkpoint / "recipe.json", inside=checkpoint)
            decay = recorded["recipe"]["settings"]["decay"]
        except (OSError, ValueError, TypeError, KeyError):
            continue  # damaged: training reports it
        if isinstance(decay, int):
            return {"decay": decay}
    return {"decay": steps} if steps is not None and steps > settings.warmup else {}
