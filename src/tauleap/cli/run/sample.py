"""The work of ``tauleap sample``: rows in resumable blocks, then files in the format of the data."""

from __future__ import annotations

import math
import shlex
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, cast

import numpy as np
import torch
from torch import Tensor

from tauleap import _files
from tauleap._defaults import SAMPLING_STEPS
from tauleap._files.full_disk import explaining_full_disk
from tauleap._files.printable import one_line
from tauleap._seeds import derive_seed
from tauleap.cli.blocks import Blocks, ResumeResult, recorded_size, resume
from tauleap.cli.commands.sample import Sample
from tauleap.cli.given import Conditions, describe_conditions, parse_given
from tauleap.cli.labels import cycled_labels, read_labels
from tauleap.cli.model import fingerprint, load_model, rows_at_once, tuning_digest
from tauleap.cli.options import Shard
from tauleap.cli.output import files_line, print_result
from tauleap.cli.samplers import SamplerName, make_sampler, plan_of
from tauleap.data import Format
from tauleap.data.format import RowFiles
from tauleap.model import Model
from tauleap.sampling import Sampler

MAX_CELLS = 2**24
"""The largest number of sites in one file of samples."""
_SHEET_ROWS = 64
"""The number of first rows of which a format may draw one image."""


@dataclass(frozen=True)
class Request:
    """Hold everything that decides the samples and their files; it is recorded in the folder."""

    model: str
    n: int
    steps: int
    sampler: SamplerName
    temperature: float
    seed: int
    batch_size: int
    # Fields that were added later have the value that they had before, so that older folders can be resumed.
    correctors: int = 0
    corrector_scale: float = 1.0
    corrector_start: float = 1.0
    format: Literal["npy"] | None = None  # the data's own
    labels: str | None = None
    guidance: float = 1.0
    sampler_option: str | None = None
    grid: str = "uniform"
    end: float = 1e-3
    final: str = "sample"
    given: str | None = None
    tuning: str | None = None


class _Violations:
    """Count the rows that contradict dependencies between the columns of the training rows."""

    def __init__(self, model: Model) -> None:
        self._model, self.rows = model, 0
        self._counts: Counter[tuple[str, str]] = Counter()

    def add(self, x: Tensor) -> None:
        """Count the rows of a block of states."""
        self.rows += len(x)
        self._counts.update(self._model.violations(x))

    def as_json(self) -> dict[str, int]:
        """Return the number of rows per dependency."""
        return {f"{first} -> {second}": number for (first, second), number in self._counts.items()}

    def __str__(self) -> str:
        named = ", ".join(f"{name} in {number:,}" for name, number in self.as_json().items() if number)
        total = len(self._counts)
        broken = (
            f"contradicted in some of {self.rows:,} rows: {one_line(named, most=500)}" if named else "all respected"
        )
        return f"dependencies between columns: {total}, {broken}"


def run(options: Sample, out: Path, shard: Shard, scale: float, start: float) -> None:
    """Sample, write the files, and print where they are.

    Args:
        options: The options of the command, which it has checked.
        out: The folder for the samples.
        shard: Which blocks this process samples.
        scale: The length of a corrector step, in steps of the sampler.
        start: The time below which correctors run.
    """
    model, form = load_model(options.run_folder, options.device)
    if options.format is not None and form.kind != "images":
        raise ValueError(f"--format needs a model of images, and this is a model of {form.kind}: leave it out")
    given = None if not options.given else parse_given(options.given, form)
    labels = None if options.label is None else read_labels(options.label, model)
    size = options.batch_size
    if size is None and options.memory is None:
        size = recorded_size(out)
    weights = fingerprint(model)
    size = rows_at_once(model, size, memory=options.memory, evaluations=1 if options.guidance == 1 else 2)
    plan, name, option = plan_of(
        model, options.steps, options.sampler, options.sampler_option, options.correctors, scale, start, options.tol
    )
    is_tuned = plan.grid_name == "tuned"
    steps = SAMPLING_STEPS if options.steps is None else options.steps
    request = Request(
        model=weights,
        n=options.n,
        steps=len(plan.grid) - 1 if is_tuned else steps,
        sampler=name,
        temperature=options.temperature,
        seed=options.seed,
        batch_size=min(size, options.n),
        correctors=options.correctors,
        corrector_scale=scale,
        corrector_start=start,
        format="npy" if options.format == "npy" else None,
        labels=labels,
        guidance=options.guidance,
        sampler_option=option,
        grid=plan.grid_name,
        end=plan.grid[-1],
        final=plan.final,
        given=shlex.join(options.given) or None,
        tuning=tuning_digest(model) if is_tuned else None,
    )
    conditions: Conditions | None = None
    if given is not None:
        conditions = describe_conditions(model, given, request.n, request.batch_size, request.seed)
        form = conditions.form
    broken = _Violations(model) if model.dependencies else None
    look = None if broken is None else broken.add
    done = draw_to(out, model, form, request, given, shard=shard, progress=not options.json, look=look)
    if options.json:
        facts: dict[str, Any] = {"run": str(options.run_folder), "n": options.n}
        facts |= {"files": [str(path) for path in done.files], "missing_parts": done.missing}
        facts |= {"sampling": plan.as_json()}
        facts |= {} if broken is None or not broken.rows else {"violations": broken.as_json()}
        facts |= {} if conditions is None else {"conditions": conditions.as_json()}
        return print_result(facts)
    if not done.files:
        parts = math.ceil(request.n / request.batch_size)
        lines = [f"shard {shard} is done; the other shards have {done.missing} of {parts} blocks left"]
        if shard.count > parts:
            lines.append(f"{options.n} samples are {parts} blocks of {request.batch_size}: a smaller --batch-size")
            lines[-1] += f" would use all {shard.count} shards"
        return print_result(lines)
    lines = ["already complete:"]
    if done.first is not None:
        lines = [form.preview(done.first, min(3, form.preview_rows), seed=options.seed), f"sampled by {plan}"]
    lines += [] if broken is None or not broken.rows else [str(broken)]
    lines += [] if conditions is None else [str(conditions)]
    return print_result([*lines, f"{options.n} samples: {files_line(done.files, out)}"])


def draw_to(
    out: Path,
    model: Model,
    form: Format,
    request: Request,
    given: Mapping[str, Any] | None = None,
    *,
    shard: Shard | None = None,
    progress: bool = True,
    look: Callable[[Tensor], None] | None = None,
) -> ResumeResult:
    """Sample the blocks of a shard that are missing; if then all are there, write the files of the samples.

    Args:
        out: The folder.
        model: The model.
        form: The format of the files, which decodes to values that the conditions allow.
        request: What decides the samples.
        given: Conditions on columns, as :meth:`tauleap.Model.sample` takes them. Default: none.
        shard: Which blocks this process samples. Default: all.
        progress: Whether to show a progress bar. Default: true.
        look: Called with every block before the files are written. Default: none.
    """
    former_values = {field.name: field.default for field in fields(Request) if field.default is not MISSING}
    blocks = Blocks(out, asdict(request), former_values, request.n, request.batch_size, form.shape, form.num_states)
    corrector = request.correctors, request.corrector_scale, request.corrector_start
    sampler = cast(Sampler, make_sampler(request.sampler, request.sampler_option, *corrector))

    def sample_block(first: int, rows: int) -> None:
        x = _sample_block(blocks, first, rows, model, sampler, request, given)
        # Each row has its own files: those of a process that is killed before this line are written at the end.
        if isinstance(form, RowFiles) and request.format is None:
            form.write_rows(x, out, first=first)

    def write_files() -> list[Path]:
        if look is not None:
            for first in blocks.starts:
                look(blocks.load(first))
        return _write_files(blocks, form, request.format, request.seed)

    with explaining_full_disk(out):
        return resume(blocks, sample_block, write_files, shard=shard or Shard(1, 1), progress=progress)


def _sample_block(
    blocks: Blocks,
    first: int,
    rows: int,
    model: Model,
    sampler: Sampler,
    request: Request,
    given: Mapping[str, Any] | None,
) -> Tensor:
    with warnings.catch_warnings():
        if given is not None:
            warnings.simplefilter("ignore")  # One line about all blocks is printed instead.
        x = model.sample(
            rows,
            steps=request.steps,
            sampler=None if request.grid == "tuned" else sampler,  # the tuning decides the sampler and the times
            temperature=request.temperature,
            seed=derive_seed(request.seed, "rows", first),
            batch_size=rows,
            condition=None if request.labels is None else cycled_labels(request.labels, first, rows),
            guidance=request.guidance,
            given=given,
            states=True,
        )
    blocks.save(first, x)
    return x


def _write_files(blocks: Blocks, form: Format, file_format: Literal["npy"] | None, seed: int) -> list[Path]:
    """Write the files of all blocks, in the data's own format or as one array, and return them."""
    if file_format == "npy":
        return [_write_array(blocks.folder / "samples.npy", blocks)]
    files = []
    if isinstance(form, RowFiles):
        sheet: list[Tensor] = []
        for first in blocks.starts:
            x = blocks.load(first)
            files += form.write_rows(x, blocks.folder, first=first, overwrite=False)
            if first < _SHEET_ROWS:
                sheet.append(x[: _SHEET_ROWS - first])
        return form.write_sheet(torch.cat(sheet), blocks.folder) + files
    for first, x in _in_files(blocks):
        whole = first == 0 and len(x) == blocks.n
        stem = "samples" if whole else f"samples-from-{first:08d}"
        files += form.write(x, blocks.folder, stem=stem, first=first, seed=seed)
    return files


def _write_array(path: Path, blocks: Blocks) -> Path:
    """Write one array (n, *shape) of intensities, block by block, and return the file."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False}
    with _files.atomic_write(path) as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": (blocks.n, *blocks.shape)})
        for first in blocks.starts:
            file.write(blocks.load(first).to(torch.uint8).numpy().tobytes())
    return path


def _in_files(blocks: Blocks) -> Iterator[tuple[int, Tensor]]:
    """Yield the rows of each file, which has several blocks, and the number of the first of them."""
    most = max(1, MAX_CELLS // math.prod(blocks.shape))
    pending: list[Tensor] = []
    begin = 0
    for first in blocks.starts:
        block = blocks.load(first)
        if pending and sum(map(len, pending)) + len(block) > most:
            yield begin, torch.cat(pending)
            pending, begin = [], first
        pending.append(block)
    yield begin, torch.cat(pending)
