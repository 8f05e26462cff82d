"""Samples on disk: made part by part, so that memory is bounded and a run that was stopped goes on.

Each part has a seed of its own, which its place decides; it is kept as states until all are there, and then they are
written in the data's own form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import track
from torch import Tensor

from tauleap import _files
from tauleap.cli.runs import MOST_CELLS, SamplerName, part_seed, sampler_of
from tauleap.data import Form
from tauleap.pretrained import Model
from tauleap.training.lock import locked

REQUEST = "request.json"
_PARTS = ".parts"


@dataclass(frozen=True)
class Request:
    """Everything that decides the samples."""

    model: str
    n: int
    steps: int
    sampler: SamplerName
    temperature: float
    seed: int
    batch_size: int


def draw_to(
    out: Path, model: Model, form: Form, request: Request, *, progress: bool = True
) -> tuple[list[Path], Tensor | None]:
    """Draws what is not there yet and writes all of it into ``out``; returns the files, and the first rows if new."""
    if out.exists() and not out.is_dir():
        raise ValueError(f"{out} is a file: write the name of a folder for the samples")
    asked, done = _asked(out)
    if asked is None and out.is_dir() and any(out.iterdir()):
        raise ValueError(f"{out} holds something else: write the name of a new folder")
    if asked is not None and asked != asdict(request):
        other = [name for name, value in asdict(request).items() if asked.get(name) != value]
        raise ValueError(f"{out} holds samples of another request ({', '.join(other)} differ): write another folder")
    if done and all((out / name).is_file() for name in done):
        return [out / name for name in done], None
    sampler_of(request.sampler).check(model.process)
    out.mkdir(parents=True, exist_ok=True)
    with locked(out):
        _files.remove_unfinished(out)
        parts = out / _PARTS
        parts.mkdir(exist_ok=True)
        _files.remove_unfinished(parts)
        _write_request(out, request, [])
        places = range(0, request.n, request.batch_size)
        undone = [first for first in places if not _part(parts, first).exists()]
        shown = Console(stderr=True, quiet=not progress or len(undone) < 2)
        for first in track(undone, "sampling", console=shown, transient=True):
            rows = min(request.batch_size, request.n - first)
            x = model.sample(
                rows,
                steps=request.steps,
                sampler=sampler_of(request.sampler),
                temperature=request.temperature,
                seed=part_seed(request.seed, first),
                batch_size=rows,
                states=True,
            )
            with _files.replacing(_part(parts, first)) as file:
                np.lib.format.write_array(file, x.to(torch.int32).numpy(), allow_pickle=False)
        files = []
        for first, x in _files_worth(parts, places, math.prod(form.shape)):
            whole = first == 0 and len(x) == request.n
            files += form.write(x, out, stem="samples" if whole else f"samples-from-{first:08d}", first=first)
        first_rows = _load(parts, 0)[:16]
        _write_request(out, request, [path.name for path in files])
        _files.remove(parts)
        return files, first_rows


def _files_worth(parts: Path, places: range, sites: int) -> Iterator[tuple[int, Tensor]]:
    """Parts put together to as many rows as one file is to have, with the number of the first."""
    most = max(1, MOST_CELLS // sites)
    held: list[Tensor] = []
    begin = 0
    for first in places:
        part = _load(parts, first)
        if held and sum(map(len, held)) + len(part) > most:
            yield begin, torch.cat(held)
            held, begin = [], first
        held.append(part)
    yield begin, torch.cat(held)


def _part(parts: Path, first: int) -> Path:
    return parts / f"{first:08d}.npy"


def _load(parts: Path, first: int) -> Tensor:
    try:
        return torch.from_numpy(np.load(_part(parts, first), allow_pickle=False)).long()
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{_part(parts, first)} is damaged: remove it, and write the same command again") from error


def _asked(out: Path) -> tuple[dict[str, object] | None, list[str]]:
    """What was asked for in this folder, and the files that have been made if all have been."""
    try:
        found = json.loads((out / REQUEST).read_bytes())
        return dict(found["request"]), [str(name) for name in found["files"]]
    except (OSError, ValueError, TypeError, KeyError):
        return None, []


def _write_request(out: Path, request: Request, files: list[str]) -> None:
    with _files.replacing(out / REQUEST) as file:
        file.write(json.dumps({"request": asdict(request), "files": files}, indent=2).encode() + b"\n")
