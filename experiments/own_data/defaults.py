"""Compare settings of ``tauleap.fit`` on a table, text, melodies and images, at equal processor time.

    python experiments/own_data/defaults.py --data FOLDER [--only KIND] [--minutes 3] [--out runs/defaults] [--write]

FOLDER has adult_train.csv in ``tables``, text_tinyshakespeare.npz, music_lakh_mono256.npz, mnist.npz and digits8x8.npz.
Every candidate trains for the same processor time of one thread on the same rows: the number of steps follows from the
time of a short run. The measure is bits/dim of held-out training rows with common noise, also with the first half of
each row given, and its paired difference from the first candidate of the task. The last weights are measured, since
a choice of checkpoints would favour candidates that wobble. Test data is not used.

Each result has a file in the folder of --out; the same command continues where it was stopped. ``--write`` saves all
results in results/defaults.json.
"""

from __future__ import annotations

import argparse
import json
import math
import shutil
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _default_networks import images, sequence, table
from rich.console import Console
from torch import nn

import tauleap as tl
from tauleap.data import Dataset, open_data
from tauleap.evaluate import bits_per_dim
from tauleap.objective import AnyOrderElbo, CompleteElbo, Objective
from tauleap.training import RandomMasks, Recipe, Run, Settings, train

RESULTS = Path(__file__).parent / "results" / "defaults.json"
PACE_STEPS = 20


@dataclass(frozen=True)
class Candidate:
    """The network and the settings of a run; changes are given as ``replace(candidate, ...)``."""

    network: Callable[..., nn.Module]
    objective: Objective
    batch: int
    lr: float
    masks: bool = False
    decay: bool = True
    betas: tuple[float, float] = (0.9, 0.999)
    warmup: int = 100
    weight_decay: float | None = None
    precision: str = "32-true"
    ema: float = 0.999
    sizes: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Task:
    """Rows, held-out rows, and the candidates by name."""

    rows: Callable[[Path], tuple[Dataset, Dataset]]
    candidates: dict[str, Candidate]
    draws: int
    """Draws of the noise per held-out row."""


def adult(folder: Path) -> tuple[Dataset, Dataset]:
    data = open_data(folder / "tables" / "adult_train.csv", model_missing=True).dataset
    return data.split(3256)


def text(folder: Path) -> tuple[Dataset, Dataset]:
    """Return every window of 64 characters of the first part, and separate windows of the rest."""
    with np.load(folder / "text_tinyshakespeare.npz") as arrays:
        characters, states = torch.from_numpy(arrays["train"]), len(arrays["vocab"])
    cut = len(characters) - 64 * 1000
    return Dataset(characters[:cut].unfold(0, 64, 1), states), Dataset(characters[cut:].view(-1, 64), states)


def melodies(folder: Path) -> tuple[Dataset, Dataset]:
    with np.load(folder / "music_lakh_mono256.npz") as arrays:
        rows = torch.from_numpy(arrays["train"][arrays["train_strict"]])
        groups = torch.from_numpy(arrays["train_cluster"][arrays["train_strict"]])
    # Songs of one cluster are alike, so that they stay together.
    held = groups.unique()[torch.randperm(len(groups.unique()), generator=torch.Generator().manual_seed(0))]
    out = torch.isin(groups, held[: len(held) // 10])
    return Dataset(rows[~out], 129), Dataset(rows[out], 129)


def mnist(folder: Path) -> tuple[Dataset, Dataset]:
    with np.load(folder / "mnist.npz") as arrays:
        rows = torch.from_numpy(arrays["x_train"])
    return Dataset(rows[:-500], 256), Dataset(rows[-500:], 256)


def digits(folder: Path) -> tuple[Dataset, Dataset]:
    with np.load(folder / "digits8x8.npz") as arrays:
        rows = torch.from_numpy(arrays["x"])
    return Dataset(rows, 17).split(397)


_TABLE = Candidate(table, AnyOrderElbo(), 256, 2e-3, weight_decay=0.1)
_TEXT = Candidate(sequence, AnyOrderElbo(), 16, 2e-3, betas=(0.9, 0.98), sizes={"width": 128})
_MUSIC = replace(_TEXT, batch=8)
_IMAGES = Candidate(images, AnyOrderElbo(), 16, 2e-3, warmup=50, sizes={"observed": False})


def _former(new: Candidate, **changes: Any) -> Candidate:
    """Return settings with the bound over random times, random masks and a constant rate."""
    same = {"masks": True, "decay": False, "betas": (0.9, 0.999), "weight_decay": None}
    return replace(new, objective=CompleteElbo(), **(same | changes))


def _sequences(new: Candidate, former_batch: int) -> dict[str, Candidate]:
    small, old = {"width": 64}, {"width": 64, "plain": False, "time": True, "observed": True}
    return {
        "former": _former(new, batch=former_batch, lr=1e-3, sizes=old),
        "new": new,
        "width 64": replace(new, sizes=small),
        "width 192": replace(new, sizes={"width": 192}),
        "batch halved": replace(new, batch=new.batch // 2),
        "batch doubled": replace(new, batch=2 * new.batch),
        "rate 1e-3": replace(new, lr=1e-3),
        "rate 4e-3": replace(new, lr=4e-3),
        "constant rate": replace(new, decay=False),
        "beta2 .999": replace(new, betas=(0.9, 0.999)),
        "adaptive blocks": replace(new, sizes={"width": 128, "plain": False}),
        "random masks": replace(new, masks=True, sizes={"width": 128, "observed": True}),
        "complete bound": replace(new, objective=CompleteElbo()),
        "bf16-mixed": replace(new, precision="bf16-mixed"),
    }


TASKS = {
    "table": Task(
        adult,
        {
            "former": _former(_TABLE, network=table, batch=64, lr=1e-3, sizes={"former": True}),
            "new": _TABLE,
            "complete bound": replace(_TABLE, objective=CompleteElbo(), sizes={"time": True}),
            "random masks": replace(_TABLE, masks=True),
            "batch 128": replace(_TABLE, batch=128),
            "batch 512": replace(_TABLE, batch=512),
            "rate 1e-3": replace(_TABLE, lr=1e-3),
            "rate 4e-3": replace(_TABLE, lr=4e-3),
            "constant rate": replace(_TABLE, decay=False),
            "no weight decay": replace(_TABLE, weight_decay=None),
            "width 256": replace(_TABLE, sizes={"width": 256}),
            "depth 3": replace(_TABLE, sizes={"depth": 3}),
            "dropout .1": replace(_TABLE, sizes={"dropout": 0.1}),
        },
        draws=8,
    ),
    "text": Task(text, _sequences(_TEXT, 32), draws=4),
    "melodies": Task(melodies, _sequences(_MUSIC, 8), draws=2),
    "images": Task(
        mnist,
        {
            "former": _former(_IMAGES, sizes={"time": True, "observed": True}),
            "new": _IMAGES,
            "complete bound": replace(_IMAGES, objective=CompleteElbo(), sizes={"time": True, "observed": False}),
            "random masks": replace(_IMAGES, masks=True, sizes={"observed": True}),
            "constant rate": replace(_IMAGES, decay=False),
            "rate 1e-3": replace(_IMAGES, lr=1e-3),
            "rate 4e-3": replace(_IMAGES, lr=4e-3),
            "batch 32": replace(_IMAGES, batch=32),
        },
        draws=1,
    ),
    "small images": Task(
        digits,
        {
            "former": _former(_TABLE, network=table, batch=64, lr=1e-3, sizes={"former": True}),
            "new": _TABLE,
            "batch 64": replace(_TABLE, batch=64),
            "dropout .1": replace(_TABLE, sizes={"dropout": 0.1}),
        },
        draws=8,
    ),
}


def run(task: Task, name: str, minutes: float, seed: int, out: Path, rows: tuple[Dataset, Dataset]) -> dict[str, Any]:
    """Train a candidate and measure it; the bits of every held-out row are kept beside the result."""
    candidate, (data, held_out) = task.candidates[name], rows

    def recipe(steps: int, seed: int) -> Recipe:
        settings = Settings(
            batch_size=candidate.batch,
            lr=candidate.lr,
            seed=seed,
            warmup=candidate.warmup,
            decay="end" if candidate.decay else None,
            weight_decay=candidate.weight_decay,
            betas=candidate.betas,
            ema=candidate.ema,
            precision=candidate.precision,
            steps=steps,
            checkpoint_every=max(1, steps),
            log_every=max(1, steps // 20),
        )

        def model() -> tl.Model:
            process = tl.noise.Absorbing(data.num_states + 1, tl.noise.LogLinear(), sizes=data.sizes)
            network = candidate.network(data, process, minutes, **candidate.sizes)
            own = isinstance(network, tl.denoise.Denoiser)
            denoiser = network if own else tl.denoise.NetworkDenoiser(network)
            return tl.Model(process, denoiser, shape=data.shape)

        masking = RandomMasks() if candidate.masks else None
        return Recipe(name, lambda: (data, None), model, candidate.objective, settings, masking=masking)

    def trained(steps: int, folder: Path, seed: int) -> float:
        began = time.process_time()
        train(recipe(steps, seed), Run(folder, keep=1, tensorboard=False), console=Console(quiet=True))
        return time.process_time() - began

    folder = out.with_suffix(".run")
    shutil.rmtree(folder, ignore_errors=True)
    first = trained(PACE_STEPS, folder / "first", seed)
    pace = (trained(5 * PACE_STEPS, folder / "second", seed) - first) / (4 * PACE_STEPS)
    steps = max(1, math.floor(60 * minutes / pace))
    seconds = trained(steps, folder / "run", seed)
    model = tl.load(folder / "run", device="cpu")
    x = held_out.rows(torch.arange(len(held_out)))
    half = torch.zeros(x.shape, dtype=torch.bool)
    half.flatten(1)[:, : math.prod(data.shape) // 2] = True
    found = {"steps": steps, "seconds": round(seconds, 1)}
    for kind, observed in (("bits", None), ("bits_given_half", tl.Observed(half, x))):
        generator = torch.Generator().manual_seed(0)
        options = {"samples": task.draws, "batch_size": 512, "per_datapoint": True, "generator": generator}
        bits = bits_per_dim(model.reverse, x, observed=observed, **options).value.double()
        np.save(out.with_name(f"{out.stem}-{kind}.npy"), bits.numpy())
        found[kind] = round(float(bits.mean()), 5)
        found[f"{kind}_stderr"] = round(float(bits.std()) / math.sqrt(len(bits)), 5)
    found["weights"] = sum(weight.numel() for weight in model.reverse.parameters())
    shutil.rmtree(folder)
    return found


def with_differences(task: Task, results: dict[str, dict[str, Any]], files: dict[str, Path]) -> dict[str, Any]:
    """Return the results with the paired differences from the first candidate and their standard errors over rows."""
    first = next(iter(task.candidates))
    out = {name: dict(found) for name, found in results.items()}
    for name, found in out.items():
        for kind in ("bits", "bits_given_half"):
            if name == first or first not in results:
                continue
            here, base = (np.load(files[each].with_name(f"{files[each].stem}-{kind}.npy")) for each in (name, first))
            difference = here - base
            error = difference.std(ddof=1) / math.sqrt(len(difference))
            found[f"{kind}_minus_{first}"] = [round(float(difference.mean()), 5), round(float(error), 5)]
    return out


def main() -> None:
    """Make the missing results, task by task."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with the data")
    parser.add_argument("--only", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--candidates", nargs="+", help="names of candidates (default: all of each task)")
    parser.add_argument("--minutes", type=float, default=3.0, help="processor time per run (default: 3)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/defaults"), help="folder for results")
    parser.add_argument("--write", action="store_true", help="save all results in results/defaults.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    given.out.mkdir(parents=True, exist_ok=True)
    for name in given.only:
        task, rows = TASKS[name], None
        for candidate in task.candidates:
            if given.candidates and candidate not in given.candidates:
                continue
            path = _path(given.out, name, candidate, given.minutes, given.seed)
            if path.exists():
                continue
            rows = task.rows(given.data) if rows is None else rows
            found = run(task, candidate, given.minutes, given.seed, path, rows)
            path.write_text(json.dumps(found) + "\n", encoding="utf-8")
            print(name, candidate, json.dumps(found), flush=True)
    if given.write:
        _write(given.out)


def _path(out: Path, task: str, candidate: str, minutes: float, seed: int) -> Path:
    return out / f"{task}-{candidate}-{minutes:g}-{seed}.json".replace(" ", "_")


def _write(out: Path) -> None:
    found: dict[str, Any] = {}
    endings = sorted({tuple(path.stem.rsplit("-", 2)[1:]) for path in out.glob("*.json")})
    for name, task in TASKS.items():
        for minutes, seed in endings:
            files = {each: _path(out, name, each, float(minutes), int(seed)) for each in task.candidates}
            files = {each: path for each, path in files.items() if path.exists()}
            results = {each: json.loads(path.read_text(encoding="utf-8")) for each, path in files.items()}
            if results:
                found[f"{name}, {minutes} minutes, seed {seed}"] = with_differences(task, results, files)
    RESULTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
