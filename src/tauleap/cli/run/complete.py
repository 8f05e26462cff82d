"""The work of ``tauleap complete``: draws or predictions in a folder that is created when all files are written."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from torch import Tensor

from tauleap import _files
from tauleap._files.full_disk import explaining_full_disk
from tauleap._seeds import derive_seed
from tauleap.cli.commands.complete import Complete
from tauleap.cli.model import load_model, rows_at_once
from tauleap.cli.observed import observed_values, unreadable_cells
from tauleap.cli.output import files_line, print_result, with_progress_bar
from tauleap.cli.run.complete_predict import predict
from tauleap.cli.samplers import make_sampler
from tauleap.data import Dataset, Format
from tauleap.data.music.format import MusicFormat
from tauleap.data.table.format import TableFormat
from tauleap.evaluate.plots import save_png
from tauleap.evaluate.rolls import draw_rolls
from tauleap.model import Model
from tauleap.sampling import SamplingPlan
from tauleap.sampling_run import decoding_seed

_MAX_ROLLS = 12


@dataclass(frozen=True)
class Completions:
    """Hold completed rows."""

    x: Tensor
    """States (variants, rows, *shape)."""
    known: Tensor
    """Whether a site was observed and not missing, (rows, *shape)."""
    observed: Tensor
    """Whether ``--observed`` names a site, (rows, *shape)."""
    plan: SamplingPlan
    """How the other sites were sampled."""


def run(options: Complete, file: Path | None, out: Path) -> None:
    """Complete the rows of a file, write each variant, and print where the files are.

    Args:
        options: The options of the command, which it has checked.
        file: The file; None for the beginning that the format itself has, which only music has.
        out: The folder for the completions.
    """
    model, form = load_model(options.run_folder, options.device)
    data, report = (
        (form.completion_start(), []) if file is None else form.read_incomplete(file, wildcard=options.wildcard)
    )
    if options.mode != "draw":
        return predict(options, model, form, data, file, out, report)
    with explaining_full_disk(out):
        done = complete(options, model, form, data, file)
        files = _write(done, form, data, out, options.seed)
    is_filled = form.filled(data, done.observed)
    filled, unreadable = int(is_filled.sum()), int((~done.known & ~is_filled).sum())
    line = f"{filled} values of {len(data)} rows sampled"
    line += f", {options.variants} times" if options.variants > 1 else ""
    line += f"; {unreadable_cells(unreadable)}" if unreadable else ""
    facts = {
        "run": str(options.run_folder),
        "rows": len(data),
        "filled": filled,
        "unreadable": unreadable,
        "variants": options.variants,
        "files": [str(path) for path in files],
        "read": report,
        "sampling": done.plan.as_json(),
    }
    shown = _shown(form, done, files[0])
    lines = [*report, shown, f"sampled by {done.plan}", f"{line}: {files_line(files, out)}"]
    print_result(facts if options.json else lines)


def complete(options: Complete, model: Model, form: Format, data: Dataset, file: Path | None) -> Completions:
    """Return the rows with their unknown values sampled.

    Args:
        options: The options of the command.
        model: The model.
        form: The format of the rows.
        data: The rows; missing values are unknown.
        file: Their file, for messages.

    Raises:
        ValueError: Every value is known.
    """
    observed = observed_values(options.observed, form, data, file)
    known = data.known() & observed
    x = data.in_memory().long().expand(options.variants, *data.x.shape).clone()
    incomplete = (~known).reshape(len(data), -1).any(1).nonzero().flatten()
    size = rows_at_once(model, options.batch_size)
    work = [(variant, begin) for variant in range(options.variants) for begin in range(0, len(incomplete), size)]
    # One plan for all batches: that of the row with the most unknown sites.
    sites = int((~known).reshape(len(data), -1).sum(1).max())
    sampler = make_sampler(options.sampler, options.sampler_option)
    plan = model.sampling_plan(steps=options.steps, tol=options.tol, sampler=sampler, sites=sites)
    for variant, begin in with_progress_bar(work, "completing", show=not options.json):
        rows = incomplete[begin : begin + size]
        x[variant, rows] = model.complete(
            data.select(rows),
            known[rows],
            condition=None if data.condition is None or model.num_labels is None else data.condition[rows],
            steps=options.steps,
            sampler=plan.sampler,
            grid=plan.grid if plan.grid_name == "tuned" else None,
            temperature=options.temperature,
            seed=derive_seed(options.seed, "rows", variant * len(incomplete) + begin),
            batch_size=len(rows),
            states=True,
        )
    return Completions(x, known, observed, plan)


def _write(done: Completions, form: Format, data: Dataset, out: Path, seed: int) -> list[Path]:
    """Write the files of all variants, and piano rolls of music, and return them."""
    with _files.staged_dir(out) as unfinished:
        files = []
        for variant, rows in enumerate(done.x):
            stem = "completed" if len(done.x) == 1 else f"completed-{variant + 1}"
            own = decoding_seed(seed, variant)
            files += form.write_completed(rows, done.observed, data, unfinished, stem=stem, seed=own)
        # Not a method of the format: data does not import evaluate, which draws.
        if isinstance(form, MusicFormat):
            files.append(_draw_completions(form, done.x, done.known, unfinished / "rolls.png"))
    return [out / path.name for path in files]


def _shown(form: Format, done: Completions, file: Path) -> str:
    """Return the first rows as text; for a table those of its file, where given cells are unchanged."""
    rows = min(3, form.preview_rows)
    if not isinstance(form, TableFormat):
        return form.preview(done.x[0, :3], rows)
    return form.preview_file(file, rows)


def _draw_completions(form: MusicFormat, x: Tensor, known: Tensor, path: Path) -> Path:
    """Draw the first rows of all variants, x (variants, rows, steps), known values in grey, and return the file."""
    variants, rows, _ = x.shape
    chosen = [(variant, row) for row in range(rows) for variant in range(variants)][:_MAX_ROLLS]
    titles = [
        (f"row {row + 1}, " if rows > 1 else "") + (f"variant {variant + 1}" if variants > 1 else "completed")
        for variant, row in chosen
    ]
    variant, row = zip(*chosen, strict=True)
    melodies = form.pitches(x[list(variant), list(row)])
    return save_png(draw_rolls(melodies.long(), titles, given=known[list(row)]), path)
