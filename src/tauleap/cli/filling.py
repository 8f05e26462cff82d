"""Completions on disk: a folder that appears when all of it is there."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.progress import track
from torch import Tensor

from tauleap import _files
from tauleap._seeds import derive_seed
from tauleap.cli.pattern import observed_mask
from tauleap.cli.playing import begin_with_opening, draw_completions
from tauleap.data import Form
from tauleap.data.images import ImageForm
from tauleap.data.music import MusicForm
from tauleap.data.table import TableForm
from tauleap.model import Model
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
    form: Form,
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
    data, told = (begin_with_opening(form), []) if file is None else form.read_and_tell(file)
    names = form.columns if isinstance(form, TableForm) else ()
    mask = None if observed is None else observed_mask(observed, form.shape, names)
    known = data.known() if mask is None else data.known() & mask
    unknown = int((~known).sum())
    if unknown == 0:
        how = "leave cells empty, or say what is known with --observed"
        if isinstance(form, ImageForm):
            how = "make pixels transparent in a PNG, or say what is known with --observed"
        if isinstance(form, MusicForm):
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
            data.select(rows),
            known[rows],
            steps=steps,
            sampler=plan.sampler,
            temperature=temperature,
            seed=derive_seed(seed, "rows", variant * len(incomplete) + begin),
            batch_size=len(rows),
            states=True,
        )
    with _files.staged_dir(out) as unfinished:
        files = []
        for variant, rows in enumerate(x):
            stem = "completed" if variants == 1 else f"completed-{variant + 1}"
            files += form.write(rows, unfinished, stem=stem)
        if isinstance(form, MusicForm):
            files.append(draw_completions(form, x, known, unfinished / "rolls.png"))
    return Filled([out / path.name for path in files], len(data), unknown, x[0, :3], told, plan)
