"""Completions on disk: a folder that appears when all of it is there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from tauleap import _files
from tauleap.cli.pattern import observed_mask
from tauleap.cli.playing import begin_with_opening, draw_completions
from tauleap.cli.runs import part_seed, rows_of
from tauleap.data import Format
from tauleap.data.image.format import ImageFormat
from tauleap.data.music.format import MusicFormat
from tauleap.data.table.format import TableFormat
from tauleap.pretrained import Model
from tauleap.sampling import Sampler, SamplingPlan


@dataclass(frozen=True)
class Filled:
    """The files, the numbers of rows and values, the first rows, notes on reading, and how values were sampled."""

    files: list[Path]
    rows: int
    filled: int
    first: Tensor
    told: list[str]
    plan: SamplingPlan


def fill_to(
    out: Path,
    model: Model,
    form: Format,
    file: Path | None,
    *,
    observed: str | None,
    variants: int,
    steps: int,
    sampler: Sampler | None,
    temperature: float,
    seed: int,
    size: int,
    progress: bool,
) -> Filled:
    """Completes the rows of ``file``, ``size`` of them at a time, and writes each variant into ``out``.

    Without a file a model of music plays two bars on that come with the package. Melodies are drawn as well.
    """
    data, told = (begin_with_opening(form), []) if file is None else form.read_with_report(file)
    names = form.columns if isinstance(form, TableFormat) else ()
    mask = None if observed is None else observed_mask(observed, form.shape, names)
    known = torch.ones(data.x.shape, dtype=torch.bool) if data.missing is None else ~data.missing
    known = known if mask is None else known & mask
    unknown = int((~known).sum())
    if unknown == 0:
        how = "leave cells empty, or say what is known with --observed"
        if isinstance(form, ImageFormat):
            how = "make pixels transparent in a PNG, or say what is known with --observed"
        if isinstance(form, MusicFormat):
            how = "say what is known, such as --observed 0:32 to keep the first two bars and play on from there"
        raise ValueError(f"{file} has nothing to fill in: {how}")
    x = data.in_memory().long().expand(variants, *data.x.shape).clone()
    incomplete = (~known).reshape(len(data), -1).any(1).nonzero().flatten()
    work = [(variant, begin) for variant in range(variants) for begin in range(0, len(incomplete), size)]
    # One plan for the file, whatever the batches: that of the row with the most unknown sites.
    sites = int((~known).reshape(len(data), -1).sum(1).max())
    plan = model.sampling_plan(steps=steps, sampler=sampler, sites=sites)
    shown = Console(stderr=True, quiet=not progress or len(work) < 2 or not sys.stderr.isatty())
    for variant, begin in track(work, "completing", console=shown, transient=True):
        rows = incomplete[begin : begin + size]
        x[variant, rows] = model.complete(
            rows_of(data, rows),
            known[rows],
            steps=steps,
            sampler=plan.sampler,
            temperature=temperature,
            seed=part_seed(seed, variant * len(incomplete) + begin),
            batch_size=len(rows),
            states=True,
        )
    with _files.staged(out) as unfinished:
        files = []
        for variant, rows in enumerate(x):
            stem = "completed" if variants == 1 else f"completed-{variant + 1}"
            files += form.write(rows, unfinished, stem=stem)
        if isinstance(form, MusicFormat):
            files.append(draw_completions(form, x, known, unfinished / "rolls.png"))
    return Filled([out / path.name for path in files], len(data), unknown, x[0, :3], told, plan)
