"""Fit a model to data in one call: choose, train and measure."""

from __future__ import annotations

import math
import os
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import torch
from rich.console import Console
from torch import nn

from tauleap import _check, _device, _files
from tauleap._files.full_disk import explaining_full_disk
from tauleap._files.printable import printable
from tauleap._seeds import check_seed
from tauleap.choose import Choice, choose
from tauleap.choose.choice import PRECISION
from tauleap.data import Dataset
from tauleap.data.format import Format, LoadedData
from tauleap.data.memory import Kind, as_dataset, has_different_lengths
from tauleap.data.sequences.opening import open_texts
from tauleap.data.table.columns.dependency import describe_dependencies
from tauleap.data.table.frame import is_frame, open_frame
from tauleap.data.text import TextFormat
from tauleap.denoise import Denoiser
from tauleap.fitting.measure import measured_model, seconds_for_measuring
from tauleap.fitting.split import split_rows
from tauleap.fitting.tuning import seconds_for_tuning, tune_cheaply
from tauleap.fitting.user_modules import check_own
from tauleap.model import Model
from tauleap.noise import ForwardProcess
from tauleap.objective import Objective
from tauleap.pretrained import load
from tauleap.pretrained.rebuild import OwnParts
from tauleap.pretrained.runs import write_report
from tauleap.training import LabelDropout, RandomMasks, Recipe, Run
from tauleap.training.budget import KEEP, train_until
from tauleap.training.folder import check_run_folder
from tauleap.training.ranks import on_first

MINUTES = 3.0
"""The default budget for training and measuring."""
_WITHOUT_LABEL = 0.1
"""The fraction of rows that train without their label, for guidance; the value of Ho and Salimans 2022."""


@_device.cpu_by_default
def fit(
    data: Any,
    *,
    minutes: float | None = None,
    steps: int | None = None,
    seed: int = 0,
    validation: float | int | Any = 0.1,
    process: ForwardProcess | str | None = None,
    network: nn.Module | Denoiser | str | None = None,
    width: int | None = None,
    depth: int | None = None,
    objective: Objective | str | None = None,
    masking: RandomMasks | Literal["auto"] | None = "auto",
    num_states: int | None = None,
    ordinal: bool | None = None,
    types: Mapping[str, str] | None = None,
    bins: int | None = None,
    model_missing: bool = False,
    keep_rare: bool = False,
    out: str | os.PathLike[str] | None = None,
    batch_size: int | None = None,
    lr: float | None = None,
    precision: str = PRECISION,
    device: str | torch.device = "auto",
    devices: int = 1,
    nodes: int = 1,
    strategy: str = "auto",
    accumulate: int = 1,
    compile: bool = False,
    checkpoint_every: int | None = None,
    keep: int = KEEP,
    progress: bool = True,
    started: float | None = None,
) -> Model:
    """Choose a model for data, train it and measure it on held-out rows.

    >>> import tauleap as tl
    >>> rows = torch.randint(3, (200, 1), generator=torch.Generator().manual_seed(0)).repeat(1, 4)  # four alike
    >>> model = tl.fit(rows, steps=20, progress=False)
    >>> model.sample(16, steps=10, seed=0).shape
    torch.Size([16, 4])

    Args:
        data: Rows of states 0 .. S-1, (n, *shape): an array, a tensor, a list of texts or of token lists, a pandas
            frame, a :class:`tauleap.data.Dataset`, or the result of :func:`tauleap.data.open_data`. NaN, None
            and masked cells are missing: they are excluded from loss and conditioning.
        minutes: The budget for training and measuring. Default: 3, or no limit if ``steps`` is given.
        steps: The number of training steps. Default: as many as fit into the minutes.
        seed: The seed of the split, the weights, the order of the rows and all noise. Default: 0.
        validation: The held-out rows that bits/dim is measured on: a fraction of the rows, a number of rows, or other
            data. In music, whole songs are held out, so the number of rows may differ. Default: 0.1.
        process: The forward process: an object, of which a copy is used, or "absorbing", "uniform" or "rank-one" (with
            the marginals of the data), and for ordered values "gaussian" or "birth-death". Default: chosen.
        network: The network or denoiser, of which a copy is trained: any module that maps states (batch, *shape), and
            times (batch,) if it takes them, to logits (batch, *shape, S); or "table", "residual-mlp",
            "sequence-transformer", "music-transformer", and for pictures "unet". Default: chosen.
        width: The width of a chosen or named network. Default: it follows from the data and the minutes.
        depth: The depth of a chosen or named network; for a U-Net, blocks per level. Default: as for ``width``.
        objective: The loss: an objective, or "any-order", "complete", "paper" or "cross-entropy". Default: "any-order"
            for absorbing noise and a network that does not take t, as for tables and sequences, else "complete".
        masking: Draws the observed sites of training rows. Default: "auto", random patterns, so that ``model.complete``
            conditions on any of them; none for absorbing noise and a network that sees observed sites by their states.
        num_states: The number of states S, if an array does not contain the largest. Default: found in the data.
        ordinal: Whether states are ordered quantities. Default: only those of pictures (two or more axes) and of tables
            whose columns are all numbers or dates.
        types: Types of a frame's columns by name, instead of the detected ones: number, category, date
            (``date:FORMAT``), boolean, constant, id or text. For a file, :func:`tauleap.data.open_data` takes this and
            the next three arguments. Default: detected.
        bins: Quantile bins per column of numbers or dates, 2 to 10,000. Default: 100.
        model_missing: Learn where values of a frame are missing, as a state of their own. Default: false.
        keep_rare: Store the rare categories of columns with more than 1,000, so that samples contain them. They may be
            personal data. Default: false.
        out: A new or empty folder for checkpoints and logs, in which the same call resumes; ``latest`` in it points to
            the returned model. Default: a temporary folder.
        batch_size: Rows per step, over all devices together. Default: chosen.
        lr: The learning rate. Default: chosen.
        precision: The precision of the network: "32-true", "bf16-mixed", "16-mixed" or "64-true". Default: "32-true".
        device: The device for training and of the returned model: "cpu", "cuda", "cuda:1", "mps", ... Default: "auto",
            the accelerator of this machine, or the CPU if there is none.
        devices: Devices per machine, or processes on a CPU. Several need ``out``; Lightning Fabric then starts the
            program again for each of them, and every process returns the model. Only the process for which
            :func:`tauleap.training.is_first_rank` is true should print and write. Default: 1.
        nodes: The number of machines, on each of which the same program is started, usually by torchrun. Default: 1.
        strategy: The strategy for several devices, "ddp" or "fsdp". Default: "auto", which is ddp.
        accumulate: Parts into which each device's part of a batch is split to save memory. Default: 1.
        compile: Compile the network with ``torch.compile``. Default: false.
        checkpoint_every: Steps between checkpoints. Default: an eighth of the steps, at least 100.
        keep: The number of checkpoints to keep, among which the best is selected. Default: 10.
        progress: Print the choice, the progress and the result. Default: true.
        started: The value of ``time.monotonic()`` when the budget began. Default: now.

    Returns:
        The model of the checkpoint with the lowest bits/dim on held-out rows, or the last one if none is significantly
        better. ``model.about`` has the measurements. The model is tuned (see :func:`tauleap.tune`) if the held-out rows
        suffice at 3 % of the cost of training. After Ctrl-C, the model is measured and returned as it is.

    Raises:
        ValueError: The data or an argument is not valid; for a table, all problems are listed.
    """
    began = time.monotonic() if started is None else started
    if out is not None:
        check_run_folder(Path(out))
    seed = check_seed(seed)
    if minutes is None and steps is None:
        minutes = MINUTES
    seconds = math.inf if minutes is None else 60 * _check.positive("minutes", minutes)
    steps = None if steps is None else _check.integer("steps", steps, least=1)
    if checkpoint_every is not None:
        _check.integer("checkpoint_every", checkpoint_every, least=1)
    run = Run(
        out="" if out is None else out,
        devices=devices,
        nodes=nodes,
        strategy=strategy,
        device=device,
        accumulate=accumulate,
        compile=compile,
        keep=keep,
        tensorboard=False,
    )
    run.check(precision)
    if out is None and run.ranks > 1:
        raise ValueError(f"{run.ranks} processes need one folder for their run: write out=...")
    own_choices: dict[str, Any] = {
        "process": process,
        "network": network,
        "width": width,
        "depth": depth,
        "objective": objective,
        "batch_size": batch_size,
        "lr": lr,
        "precision": precision,
    }
    given = {name: _shown(value) for name, value in own_choices.items() if value is not None and value != PRECISION}
    table_options = {"types": types, "bins": bins, "model_missing": model_missing, "keep_rare": keep_rare}
    data = _opened(data, {name: value for name, value in table_options.items() if value not in (None, False)})
    rows, form, kind = as_dataset(data, num_states=num_states)
    labels = None if rows.sequences is None else rows.sequences.labels
    labels = labels if network in (None, "sequence-transformer") else None  # that network is built for them
    takes_no_labels = network is None or (isinstance(network, str) and rows.sequences is not None)
    unused = takes_no_labels and rows.condition is not None and labels is None
    rows = replace(rows, condition=None) if unused else rows
    groups = data.groups if isinstance(data, LoadedData) else None
    rows, held_out, report = split_rows(rows, validation, form, seed, groups)
    refitted: dict[str, str] = {}
    if form is not None and isinstance(validation, int | float):
        # Rows that had a part in the bins would seem more probable than fresh rows.
        former, form = form, form.refit(rows)
        if form != former:
            rows, held_out = form.encode_again(rows), form.encode_again(held_out)
            report.append(f"bins and frequent categories follow from the {len(rows):,} training rows alone")
            refitted = dict(zip(former.describe(), form.describe(), strict=True))
    dependencies = [] if form is None else form.dependencies(rows)
    report += [f"in all training rows {line}" for line in describe_dependencies(dependencies)]
    about_data = data.report if isinstance(data, LoadedData) else []
    report = [*(refitted.get(line, line) for line in about_data), *report]
    if unused:
        held_out = replace(held_out, condition=None)
        report.append("the condition is not used: give a network that takes one, network=...")
    if ordinal is None:
        ordinal = len(rows.shape) >= 2 if form is None else form.ordinal
    pieces = run.ranks * run.accumulate
    budget = MINUTES if minutes is None else minutes
    is_text = isinstance(form, TextFormat)
    choice = choose(rows, ordinal=ordinal, is_text=is_text, minutes=budget, steps=steps, pieces=pieces, **own_choices)
    masks = choice.masking if masking == "auto" else masking
    recipe = _recipe(rows, held_out, choice, masks, form, kind, seed, labels)
    has_own = any(isinstance(part, nn.Module) for part in (process, network))
    own = check_own(recipe.model(), rows) if has_own else OwnParts()
    build = recipe.model
    recipe = replace(recipe, model=lambda: own.mark(build()))
    report += own.lines("FOLDER" if out is None else str(out))
    fabric = run.launch(choice.settings.precision)
    console = Console(quiet=not (progress and fabric.is_global_zero))
    for line in (*report, *choice.reasons):
        console.print(printable(line), markup=False, highlight=False, soft_wrap=True)
    tuning = seconds_for_tuning(seconds)
    end = began + seconds - seconds_for_measuring(seconds) - tuning

    with _folder_of(out) as folder, explaining_full_disk(folder):
        run = replace(run, out=folder)
        result = train_until(end, recipe, steps, run, fabric, console=console, checkpoint_every=checkpoint_every)
        found = [each.config() for each in dependencies]
        beside = {"data": report, "dependencies": found, "choice": list(choice.reasons), "given": given, "seed": seed}

        def load_model(checkpoint: Path) -> Model:
            return load(checkpoint, device=fabric.device, **own.to_load(recipe.model))

        def measure() -> Model:
            best, model = measured_model(
                folder,
                result,
                rows,
                held_out,
                seed=seed,
                began=began,
                end=began + seconds - tuning,
                load_model=load_model,
            )
            model.about = beside | model.about
            if not result.stopped.startswith("SIG"):
                trained = result.step * recipe.settings.batch_size
                tune_cheaply(model, held_out, trained, seed, **({} if minutes is None else {"seconds": tuning}))
            model.about["seconds"] = time.monotonic() - began
            if out is not None:
                _files.replace_symlink(folder / "latest", best.name)
                write_report(folder, best, model.about)
            return model

        model = on_first(fabric, measure)
        if model is None:
            return load_model(folder)  # The first rank has written it.
    about = model.about
    hint = f" (train longer: minutes={longer(about)})" if about["better_than_independent"] is False else ""
    after = f"after {about['step']} steps: {about['interpretation']}{hint}"
    for name, unit in (("bits_per_row", "row"), ("bits_per_character", "character")):
        if (whole := about.get(name)) is not None and whole["value"] is not None:
            error = "" if whole["stderr"] is None else f" +- {whole['stderr']:.2f}"
            original = " of original values" if "bits_per_symbol" not in about else ""
            after += f"; {whole['value']:.2f}{error} bits per {unit}{original}"
    console.print(after, markup=False, highlight=False, soft_wrap=True)
    return model


def _opened(data: Any, options: dict[str, Any]) -> Any:
    """Return a frame as loaded data with a report of its columns; other data as it is."""
    if is_frame(data):
        return open_frame(data, **options)
    if not options and has_different_lengths(data):
        return open_texts(data)
    if options:
        names, verb = " and ".join(options), "are" if len(options) > 1 else "is"
        call = ", ".join(f"{name}=..." for name in options)
        raise ValueError(f"{names} {verb} for a frame; for a file write open_data(path, {call})")
    return data


@contextmanager
def _folder_of(out: str | os.PathLike[str] | None) -> Iterator[Path]:
    """Yield the given folder, or a temporary one."""
    if out is not None:
        yield Path(out)
        return
    with tempfile.TemporaryDirectory(prefix="tauleap-") as temporary:
        yield Path(temporary)


def _shown(value: object) -> object:
    """Return an argument of the user in a type that JSON can hold."""
    if isinstance(value, bool | int | float | str):
        return value
    return type(value).__name__ if isinstance(value, nn.Module) else repr(value)


def longer(about: Mapping[str, Any]) -> int:
    """Return a longer budget in minutes: about three times that of a trained model, and at least the default.

    Args:
        about: ``about`` of a model that :func:`fit` returned, with the ``seconds`` of training and measuring.

    Returns:
        Whole minutes.

    >>> longer({"seconds": 600})
    30
    """
    return max(round(MINUTES), math.ceil(3 * float(about["seconds"]) / 60 - 0.5))


def _recipe(
    data: Dataset,
    held_out: Dataset,
    choice: Choice,
    masking: RandomMasks | None,
    form: Format | None,
    kind: Kind,
    seed: int,
    labels: int | None,
) -> Recipe:
    def model() -> Model:
        return Model(choice.process, choice.denoiser(), shape=data.shape, form=form, kind=kind)

    settings = replace(choice.settings, seed=seed)
    prepare = None if labels is None else LabelDropout(labels, _WITHOUT_LABEL)
    return Recipe("fit", lambda: (data, held_out), model, choice.objective, settings, prepare, masking=masking)
