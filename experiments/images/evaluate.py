"""Draws samples, row by row, and measures them.

    python experiments/images/evaluate.py --data FILE                       every row, 500 samples each
    python experiments/images/evaluate.py --data FILE --rows tldr-0-64 --samples 100 --minutes 10

A piece is 100 samples of a row. Pieces that are there already, of the same row and weights, are not made again, so the
same command goes on where it was stopped; the first piece of every row comes before the second of any. What there is so
far is written to results/table.json. Models and the classifier are in runs/images, or where --models says; pieces are
kept in its folder ``pieces``.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import classifier
import numpy as np
import pictures
import torch
from models import EARLIEST, MODELS
from pictures import Pictures
from rows import ROWS, Row
from torch import Tensor

import tauleap as tl
from tauleap.cli.model import fingerprint
from tauleap.denoise import Guided
from tauleap.evaluate import Estimate, Moments, bits_per_dim, frechet_distance
from tauleap.evaluate._mode import evaluating
from tauleap.objective import LogUniformTimes
from tauleap.recipes.images import DIGITS
from tauleap.sampling import sample

sys.path.append(str(Path(__file__).parents[1]))

from _kept import mark_of, objective_of, read_piece, settings_of, steps_of, write_json, write_piece

RESULTS = Path(__file__).with_name("results")
PIECE, SAMPLES, GROUPS = 100, 500, 10
TESTED, TIMES = 256, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, "all"], default=["all"], metavar="ROW")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--minutes", type=float, default=math.inf, help="begin no piece after this time")
    arguments = parser.parse_args()
    began = time.monotonic()
    loaded, eye = pictures.load(arguments.data), classifier.load(arguments.models)
    chosen = list(ROWS) if "all" in arguments.rows else arguments.rows
    models = {name: opened(arguments.models / name) for name in MODELS if (arguments.models / name / "latest").exists()}
    for name in models:  # before anything is drawn
        objective_of(arguments.models / name, MODELS[name].objective)
    marks = {name: mark(ROWS[name], models[ROWS[name].model]) for name in chosen if ROWS[name].model in models}
    pieces = arguments.models / "pieces"
    pieces.mkdir(exist_ok=True)
    for number in range(-(-arguments.samples // PIECE)):
        for name in chosen:
            path = pieces / f"{name}-{number}.npz"
            if name not in marks or mark_of(path) == marks[name]:
                continue
            if time.monotonic() - began > 60 * arguments.minutes:
                print(f"the {arguments.minutes:g} minutes are over: the same command goes on")
                return collect(models, arguments.models, loaded, eye)
            started = time.process_time()
            write_piece(path, draw(ROWS[name], models[ROWS[name].model], number), marks[name])
            print(f"{name} {number}: {time.process_time() - started:.0f} s", flush=True)
    collect(models, arguments.models, loaded, eye)


def opened(folder: Path) -> tl.Model:
    """A model whose network, and nothing else, computes in half precision, as it did in training."""
    model = tl.load(folder)
    network: Any = model.denoiser.network
    network.forward = torch.autocast("cpu", torch.bfloat16)(network.forward)
    return model


def mark(row: Row, model: tl.Model) -> str:
    """Of what a piece was made with: another row, or other weights, make another piece."""
    made = f"{fingerprint(model)} {row} {row.told} {row.guidance} {PIECE}"
    return hashlib.sha256(made.encode()).hexdigest()[:16]


def draw(row: Row, model: tl.Model, number: int) -> dict[str, np.ndarray]:
    """The samples of one piece, whose seed is its number, and how the sampler fared."""
    assert model.shape is not None
    reverse, asked = model.reverse, 1
    if row.guidance != 1:
        reverse, asked = tl.ReverseProcess(model.process, Guided(model.denoiser, row.guidance, null_label=DIGITS)), 2
    with evaluating(reverse):
        drawn = sample(
            reverse,
            row.sampler,
            (PIECE, *model.shape),
            grid=row.grid,
            final=row.final,
            condition=torch.arange(PIECE) % DIGITS if row.told else None,
            generator=torch.Generator().manual_seed(number),
        )
    return {
        "x": drawn.x0.to(torch.uint8).numpy(),
        "evaluations": np.array(asked * drawn.info.evaluations),
        "seconds": np.array(drawn.info.seconds),
        "jumped": drawn.info.jumped.numpy(),
        "clamped": drawn.info.clamped.numpy(),
        "times": row.grid[1:].numpy(),
    }


def collect(models: dict[str, tl.Model], folder: Path, loaded: Pictures, eye: classifier.Classifier) -> None:
    """results/table.json from the pieces that are of the rows and weights as they are."""
    real = eye.see(loaded.test.x)
    reference = Moments.of(real.features)  # the same for all rows, so that it adds no error to their differences
    rows: dict[str, Any] = {}
    for name, row in ROWS.items():
        held = pieces_of(name, models.get(row.model), folder)
        if not held:
            continue
        seen = eye.see(torch.from_numpy(np.concatenate([piece["x"] for piece in held])))
        rows[name] = {
            "label": row.label,
            "model": row.model,
            "samples": len(seen.probs),
            "first": {n: measured(seen, n, reference) for n in range(PIECE, len(seen.probs) + 1, PIECE)},
            "evaluations": float(np.mean([piece["evaluations"] for piece in held])),
            **measured(seen, len(seen.probs), reference),
            "digits": round(seen.digits, 2),
            "obeyed": obeyed(seen) if row.told else None,
            "jumped": rounded(np.mean([piece["jumped"] for piece in held], axis=0)),
            "clamped": rounded(np.mean([piece["clamped"] for piece in held], axis=0)),
            "times": rounded(held[0]["times"]),
        }
    if not rows:
        raise SystemExit(f"{folder} has no model with samples: nothing is written")
    results = {
        "rows": rows,
        "models": describe(models, folder, loaded.test.x),
        "real": of_real(real),
        "noise": of_noise(eye),
        "trained_on": len(loaded.train),
    }
    write_json(RESULTS / "table.json", results)
    print(f"written: {RESULTS / 'table.json'}")


def measured(seen: classifier.Seen, n: int, reference: Moments) -> dict[str, Any]:
    """Of the first ``n`` samples: rows with different numbers of them compare only at the same."""
    return {
        "frechet": numbers(frechet_distance(mixed(seen.features[:n]), reference, groups=GROUPS)),
        "recognised": numbers(Estimate.of_mean(seen.recognised[:n].double())),
    }


def mixed(features: Tensor) -> Tensor:
    """In an order in which every group of the jackknife, row i mod GROUPS, has all digits.

    The digits come in turn, and a group of one digit would make the distance without it that of nine digits.

    >>> mixed(torch.arange(100)[:, None])[:20, 0]
    tensor([ 0, 10, 20, 30, 40, 50, 60, 70, 80, 90,  1, 11, 21, 31, 41, 51, 61, 71,
            81, 91])
    """
    pieces = features.reshape(-1, PIECE // DIGITS, DIGITS, features.shape[1])
    return pieces.transpose(1, 2).reshape(features.shape)


def obeyed(seen: classifier.Seen) -> dict[str, float]:
    """How often the classifier sees the digit that was asked for, whose pieces have all of them in turn."""
    asked = torch.arange(len(seen.probs)) % PIECE % DIGITS
    return numbers(Estimate.of_mean((seen.probs.argmax(1) == asked).double()))


def pieces_of(name: str, model: tl.Model | None, folder: Path) -> list[dict[str, Any]]:
    """Of a row, in the order of their numbers; those of other weights or settings are left out."""
    if model is None:
        return []
    paths = sorted((folder / "pieces").glob(f"{name}-[0-9]*.npz"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))
    paths = [path for path in paths if path.stem.rsplit("-", 1)[0] == name]
    return [read_piece(path) for path in paths if mark_of(path) == mark(ROWS[name], model)]


def rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 6) for value in values]


def numbers(estimate: Estimate[float]) -> dict[str, float]:
    return {"value": estimate.value, "stderr": estimate.stderr}


def of_real(real: classifier.Seen) -> dict[str, Any]:
    """What test images themselves get: 500 of them against the others, and how many are recognised."""
    order = torch.randperm(len(real.probs), generator=torch.Generator().manual_seed(0))
    some, others = real.features[order[:SAMPLES]], real.features[order[SAMPLES:]]
    return {
        "images": len(real.probs),
        "samples": SAMPLES,
        "frechet": numbers(frechet_distance(some, others, groups=GROUPS)),
        "recognised": numbers(Estimate.of_mean(real.recognised.double())),
        "digits": round(real.digits, 2),
    }


def of_noise(eye: classifier.Classifier) -> dict[str, Any]:
    """What the classifier makes of pictures without anything in them: every level as likely as another."""
    x = torch.randint(256, (1000, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    seen = eye.see(x.to(torch.uint8))
    digit = int(seen.probs.argmax(1).bincount(minlength=DIGITS).argmax())
    share = Estimate.of_mean((seen.probs.argmax(1) == digit).double())
    return {"recognised": numbers(Estimate.of_mean(seen.recognised.double())), "digit": digit, "share": numbers(share)}


def describe(models: dict[str, tl.Model], folder: Path, test: Tensor) -> dict[str, Any]:
    """Of each model: how far it was trained, and bits/dim of test images, by the bound in continuous time."""
    path = RESULTS / "table.json"
    before = json.loads(path.read_text(encoding="utf-8"))["models"] if path.exists() else {}
    out = {}
    for name, model in models.items():
        mark = f"{fingerprint(model)[:16]} {TESTED} {TIMES}"
        known = before.get(name, {})
        if not MODELS[name].knows_all_times:
            bits = None
        elif known.get("mark") == mark:
            bits = known["bits"]
        else:
            found = bits_per_dim(
                model.reverse,
                test[:TESTED].long(),
                samples=TIMES,
                times=LogUniformTimes(EARLIEST),
                batch_size=32,
                generator=torch.Generator().manual_seed(0),
            )
            bits = numbers(found) | {"images": found.n, "times": TIMES}
        out[name] = {
            "label": MODELS[name].label,
            "objective": objective_of(folder / name, MODELS[name].objective),
            "mark": mark,
            "steps": steps_of(folder / name),
            "planned": settings_of(folder / name)["decay"],
            "batch": settings_of(folder / name)["batch_size"],
            "begins_with": MODELS[name].begins_with,
            "weights": sum(p.numel() for p in model.denoiser.parameters()),
            "bits": bits,
        }
    return out


if __name__ == "__main__":
    main()
