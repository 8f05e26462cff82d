"""Samples on disk: made part by part, so that memory is bounded and a run that was stopped goes on.

Each part has a seed of its own, which its place decides, so that several processes can share the parts; it is kept as
states until all are there. Where each row has a file of its own, as pictures and melodies have, these are written with
their part; what a process that was killed has not written, and files of many rows, are written from the parts at the
end.
"""

from __future__ import annotations

import io
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import MISSING, asdict, dataclass, fields, replace
from pathlib import Path
from typing import Literal, cast

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from tauleap import _files, _owned, _read
from tauleap.cli.labels import dealt
from tauleap.cli.runs import MOST_CELLS, part_seed
from tauleap.cli.samplers import SamplerName, make_sampler, names_of
from tauleap.cli.shards import Shard, alone, together
from tauleap.data import Form
from tauleap.data.array_file import parse_array, save_array, smallest
from tauleap.data.form import RowFiles
from tauleap.pretrained import Model
from tauleap.sampling import Ancestral, Sampler, SamplingPlan, WithCorrector
from tauleap.training.lock import locked

REQUEST = "request.json"
_PARTS = ".parts"
_OWN = re.compile(r"request\.json|\.parts|samples(?:-(?:from-)?[0-9]{6,})?\.[a-z]+")
"""Names that we write into the folder: the request, which marks it as ours, and the samples of every form."""
_OWN_PARTS = re.compile(r"[0-9]{8,}\.npy")
_PART_REMEDY = "remove it and give the same command again"
_OWN_LOCKS = re.compile(r"[0-9]+-of-[0-9]+\.lock")
_SHEET_ROWS = 64
"""The first rows, of which a form may make one picture."""


@dataclass(frozen=True)
class Request:
    """Everything that decides the samples and their files."""

    model: str
    n: int
    steps: int
    sampler: SamplerName
    temperature: float
    seed: int
    batch_size: int
    # What came later has the value that it had before, so that older folders go on.
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

    @property
    def places(self) -> range:
        """The numbers of the rows that the parts begin with."""
        return range(0, self.n, self.batch_size)

    def make_sampler(self) -> Sampler:
        """With its correctors, if there are any."""
        plain = cast(Sampler, make_sampler(self.sampler, self.sampler_option))
        return _with_correctors(plain, self.correctors, self.corrector_scale, self.corrector_start)


def plan_of(
    model: Model,
    steps: int,
    name: SamplerName | None,
    option: str | None,
    correctors: int,
    scale: float = 1.0,
    start: float = 1.0,
) -> tuple[SamplingPlan, SamplerName, str | None]:
    """Return the plan of a request, and the name and the option of its sampler, as the request records them.

    Args:
        model: The model.
        steps: The largest number of steps.
        name: The sampler; None for the model's own selection.
        option: The sampler's option.
        correctors: Corrector steps after each step. They need steps, so first hitting is not selected with them.
        scale: The length of a corrector step, in steps of the sampler.
        start: The time below which correctors run.
    """
    sampler = make_sampler(name, option)
    if correctors == 0:
        plan = model.sampling_plan(steps=steps, sampler=sampler)
        return (plan, *(names_of(plan.sampler) if name is None else (name, option)))
    plain = Ancestral() if sampler is None else sampler
    plan = model.sampling_plan(steps=steps, sampler=_with_correctors(plain, correctors, scale, start))
    if name is None:
        own = model.sampling_plan(steps=steps)
        is_step = isinstance(own.sampler, Ancestral)
        reason = own.reason if is_step else f"correctors need steps, which {own.sampler!r} does not have"
        plan = replace(plan, reason=reason)
    return (plan, *(names_of(plain) if name is None else (name, option)))


def _with_correctors(sampler: Sampler, correctors: int, scale: float, start: float) -> Sampler:
    return sampler if correctors == 0 else WithCorrector(sampler, correctors, scale=scale, start=start)


@dataclass(frozen=True)
class Drawn:
    """What has become of a request: its files, or how many of its parts other shards have still to make."""

    files: list[Path]
    first: Tensor | None = None
    """The first rows, if the files are new."""
    missing: int = 0


def draw_to(
    out: Path, model: Model, form: Form, request: Request, *, shard: Shard | None = None, progress: bool = True
) -> Drawn:
    """Draws those parts of the shard that are not there yet; if then all are there, finishes the files in ``out``."""
    shard = shard or Shard(1, 1)
    _owned.check_no_file(out, "the samples")
    # Asked for once more after looking: another shard may be beginning.
    if not _agreed(out, request) and _used(out) and not _agreed(out, request):
        if (out / REQUEST).is_file() and ((out / _PARTS).is_dir() or (out / ".lock").is_file()):
            raise ValueError(
                f"{out / REQUEST} is damaged, so that its samples cannot be continued: write the name of a new folder"
            )
        raise ValueError(f"{out} holds something else: write the name of a new folder")
    parts = out / _PARTS
    if done := _done(out):
        _tidy(out, parts)
        return Drawn(done)
    sampler = request.make_sampler()
    sampler.check(model.process)
    out.mkdir(parents=True, exist_ok=True)

    def begin() -> None:
        _owned.remove_unfinished(out, _OWN)
        _owned.remove_unfinished(parts, _OWN_PARTS)
        if not _agreed(out, request):
            _write_request(out, request, [])

    with together(out, begin, lambda: _agreed(out, request)):
        if done := _done(out):  # by another process, since
            return Drawn(done)
        parts.mkdir(exist_ok=True)
        with locked(out, f"{_PARTS}/{shard.index}-of-{shard.count}.lock"):
            undone = [first for first in shard.of(request.places) if not _part(parts, first).exists()]
            shown = Console(stderr=True, quiet=not progress or len(undone) < 2 or not sys.stderr.isatty())
            for first in track(undone, "sampling", console=shown, transient=True):
                if not _part(parts, first).exists():  # nor made by a shard of another cut
                    x = _make(parts, first, model, sampler, request)
                    if isinstance(form, RowFiles) and request.format is None:
                        form.write_rows(x, out, first=first)
    if missing := _missing(parts, request):
        # None is missing if another shard has written the files since, and removed the parts.
        return Drawn(done) if (done := _done(out)) else Drawn([], missing=missing)
    with alone(out):
        if done := _done(out):
            return Drawn(done)
        _owned.remove_unfinished(out, _OWN)
        files = _finish(out, parts, form, request)
        first_rows = _load(parts, 0, request, form)[:16]
        _write_request(out, request, [path.name for path in files])
        _remove_parts(parts)
        return Drawn(files, first_rows)


def recorded_batch_size(out: Path) -> int | None:
    """That of the request which is in the folder already, so that it can be gone on with."""
    asked, _ = _asked(out)
    size = None if asked is None else asked.get("batch_size")
    return size if isinstance(size, int) and size >= 1 else None


def _make(parts: Path, first: int, model: Model, sampler: Sampler, request: Request) -> Tensor:
    rows = min(request.batch_size, request.n - first)
    x = model.sample(
        rows,
        steps=request.steps,
        sampler=sampler,
        temperature=request.temperature,
        seed=part_seed(request.seed, first),
        batch_size=rows,
        condition=None if request.labels is None else dealt(request.labels, first, rows),
        guidance=request.guidance,
        states=True,
    )
    with _files.replacing(_part(parts, first)) as file:
        save_array(file, smallest(x).numpy())
    return x


def _tidy(out: Path, parts: Path) -> None:
    """Removes what a process has left that was killed after the files were written, unless another one is at work."""
    left = [*_owned.unfinished(out, _OWN), *_owned.unfinished(parts, _OWN_PARTS)]
    if left or parts.is_dir():
        with alone(out, wait=False) as held:
            if held:
                _owned.remove_unfinished(out, _OWN)
                _remove_parts(parts)


def _remove_parts(parts: Path) -> None:
    """Removes the parts and their locks; a file of the user's stays, and the folder with it."""
    _owned.remove_unfinished(parts, _OWN_PARTS)
    for path in list(parts.iterdir()) if parts.is_dir() else ():
        if (_OWN_PARTS.fullmatch(path.name) or _OWN_LOCKS.fullmatch(path.name)) and path.is_file():
            path.unlink()
    with suppress(OSError):
        parts.rmdir()


def _missing(parts: Path, request: Request) -> int:
    # By the list of the folder: on a file system of many machines what is not there may be remembered for a while.
    try:
        there = {path.name for path in parts.iterdir()}
    except FileNotFoundError:
        there = set()
    return sum(_part(parts, first).name not in there for first in request.places)


def _finish(out: Path, parts: Path, form: Form, request: Request) -> list[Path]:
    """The files of all parts, in the data's own form or as one array."""
    if request.format == "npy":
        return [_write_array(out / "samples.npy", parts, request, form)]
    files = []
    if isinstance(form, RowFiles) and request.format is None:
        held: list[Tensor] = []
        for first in request.places:
            x = _load(parts, first, request, form)
            files += form.write_rows(x, out, first=first, anew=False)
            if first < _SHEET_ROWS:
                held.append(x[: _SHEET_ROWS - first])
        return form.write_sheet(torch.cat(held), out) + files
    for first, x in _files_worth(parts, request, form):
        whole = first == 0 and len(x) == request.n
        files += form.write(x, out, stem="samples" if whole else f"samples-from-{first:08d}", first=first)
    return files


def _write_array(path: Path, parts: Path, request: Request, form: Form) -> Path:
    """One array (n, *shape) of shades, written part by part."""
    header = {"descr": np.lib.format.dtype_to_descr(np.dtype(np.uint8)), "fortran_order": False}
    with _files.replacing(path) as file:
        np.lib.format.write_array_header_1_0(file, header | {"shape": (request.n, *form.shape)})
        for first in request.places:
            file.write(_load(parts, first, request, form).to(torch.uint8).numpy().tobytes())
    return path


def _files_worth(parts: Path, request: Request, form: Form) -> Iterator[tuple[int, Tensor]]:
    """Parts put together to as many rows as one file is to have, with the number of the first."""
    most = max(1, MOST_CELLS // math.prod(form.shape))
    held: list[Tensor] = []
    begin = 0
    for first in request.places:
        part = _load(parts, first, request, form)
        if held and sum(map(len, held)) + len(part) > most:
            yield begin, torch.cat(held)
            held, begin = [], first
        held.append(part)
    yield begin, torch.cat(held)


def _part(parts: Path, first: int) -> Path:
    return parts / f"{first:08d}.npy"


def _load(parts: Path, first: int, request: Request, form: Form) -> Tensor:
    """Return the states of a part, which anybody may have changed since it was written.

    Raises:
        UnreadableError: It is not a file with states of its rows.
        OSError: The system refused, or there is not enough memory.
    """
    path, shape = _part(parts, first), (min(request.batch_size, request.n - first), *form.shape)
    try:
        with _read.explaining(path, _PART_REMEDY), _read.opened(path, inside=parts) as file:
            array = parse_array(cast(io.BufferedIOBase, file), os.fstat(file.fileno()).st_size, "it")
            if array.dtype.kind not in "iu" or array.shape != shape:
                raise ValueError(f"it must hold an array of whole numbers of shape {shape}")
            if array.min() < 0 or array.max() >= form.num_states:
                raise ValueError(f"its states are {array.min()}..{array.max()}, they must be 0..{form.num_states - 1}")
    except _read.UnreadableError as error:  # of any cause: a part can be drawn again, no copy of it is needed
        raise _read.UnreadableError(path, error.problem, _PART_REMEDY) from error
    return torch.from_numpy(array.astype(np.int64))


def _agreed(out: Path, request: Request) -> bool:
    """Whether the folder holds this request; another one is refused."""
    asked, _ = _asked(out)
    if asked is None:
        return False
    wanted = asdict(request)
    later = {field.name: field.default for field in fields(Request) if field.default is not MISSING}
    other = [name for name, value in wanted.items() if (later | asked).get(name) != value]
    if other or not asked.keys() <= wanted.keys():
        told = other or sorted(asked.keys() - wanted.keys())
        raise ValueError(f"{out} holds samples of another request ({', '.join(told)} differ): write another folder")
    return True


def _used(out: Path) -> bool:
    """Whether something is there but what a beginning leaves."""
    if not out.is_dir():
        return False
    beginning = {out / ".lock", *_owned.unfinished(out, re.compile(re.escape(REQUEST)))}
    return any(path not in beginning for path in out.iterdir())


def _done(out: Path) -> list[Path]:
    """The files, if all have been made and are there."""
    _, names = _asked(out)
    files = [out / name for name in names]
    return files if all(file.is_file() for file in files) else []


def _asked(out: Path) -> tuple[dict[str, object] | None, list[str]]:
    """What was asked for in this folder, and the names of the files that were made when all parts were."""
    try:
        found = _read.document(out / REQUEST, inside=out)
        return dict(found["request"]), [str(name) for name in found["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return None, []


def _write_request(out: Path, request: Request, files: list[str]) -> None:
    with _files.replacing(out / REQUEST) as file:
        file.write(json.dumps({"request": asdict(request), "files": files}, indent=2).encode() + b"\n")
