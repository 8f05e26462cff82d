"""Sample from the models, row by row, and evaluate the samples.

    python experiments/images/evaluate.py --data FILE                       every row, 500 samples each
    python experiments/images/evaluate.py --data FILE --rows tldr-0-64 --samples 100 --minutes 10

A piece is 100 samples of a row. Pieces that exist for the same row and weights are not computed again: run the same
command again to resume. The first piece of every row is computed before the second of any. All results so far are
written to results/table.json. Models and the classifier are in --models, runs/images by default; pieces are stored in
its folder ``pieces``.
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

from _results import mark_of, objective_of, read_piece, settings_of, steps_of, write_json, write_piece

RESULTS = Path(__file__).with_name("results")
PIECE, SAMPLES, GROUPS = 100, 500, 10
TESTED, TIMES = 256, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, "all"], default=["all"], metavar="ROW")
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further piece after this time")
    arguments = parser.parse_args()
    began = time.monotonic()
    loaded, image_classifier = pictures.load(arguments.data), classifier.load(arguments.models)
    chosen = list(ROWS) if "all" in arguments.rows else arguments.rows
    models = {
        name: load_model(arguments.models / name) for name in MODELS if (arguments.models / name / "latest").exists()
    }
    for name in models:  # A wrong model is an error before hours of sampling.
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
                print(f"the {arguments.minutes:g} minutes are over: run the same command again to resume")
                return collect(models, arguments.models, loaded, image_classifier)
            started = time.process_time()
            write_piece(path, draw(ROWS[name], models[ROWS[name].model], number), marks[name])
            print(f"{name} {number}: {time.process_time() - started:.0f} s", flush=True)
    collect(models, arguments.models, loaded, image_classifier)


def load_model(folder: Path) -> tl.Model:
    """Return a model whose network computes in half precision, as in training; everything else does not."""
    model = tl.load(folder)
    network: Any = model.denoiser.network
    network.forward = torch.autocast("cpu", torch.bfloat16)(network.forward)
    return model


def mark(row: Row, model: tl.Model) -> str:
    """Return a checksum of the row and the weights that a piece belongs to."""
    content = f"{fingerprint(model)} {row} {row.conditional} {row.guidance} {PIECE}"
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def draw(row: Row, model: tl.Model, number: int) -> dict[str, np.ndarray]:
    """Return the samples of one piece, whose seed is its number, and the statistics of the sampler."""
    assert model.shape is not None
    reverse, per_call = model.reverse, 1
    if row.guidance != 1:
        reverse, per_call = tl.ReverseProcess(model.process, Guided(model.denoiser, row.guidance, null_label=DIGITS)), 2
    with evaluating(reverse):
        drawn = sample(
            reverse,
            row.sampler,
            (PIECE, *model.shape),
            grid=row.grid,
            final=row.final,
            condition=torch.arange(PIECE) % DIGITS if row.conditional else None,
            generator=torch.Generator().manual_seed(number),
        )
    return {
        "x": drawn.x0.to(torch.uint8).numpy(),
        "evaluations": np.array(per_call * drawn.info.evaluations),
        "seconds": np.array(drawn.info.seconds),
        "jumped": drawn.info.jumped.numpy(),
        "clamped": drawn.info.clamped.numpy(),
        "times": row.grid[1:].numpy(),
    }


def collect(
    models: dict[str, tl.Model], folder: Path, loaded: Pictures, image_classifier: classifier.Classifier
) -> None:
    """Write results/table.json from the pieces of the current rows and weights."""
    real = image_classifier.predict(loaded.test.x)
    reference = Moments.of(real.features)  # The same for all rows, so that it adds no error to their differences.
    rows: dict[str, Any] = {}
    for name, row in ROWS.items():
        parts = pieces_of(name, models.get(row.model), folder)
        if not parts:
            continue
        predictions = image_classifier.predict(torch.from_numpy(np.concatenate([piece["x"] for piece in parts])))
        rows[name] = {
            "label": row.label,
            "model": row.model,
            "samples": len(predictions.probs),
            "first": {n: measured(predictions, n, reference) for n in range(PIECE, len(predictions.probs) + 1, PIECE)},
            "evaluations": float(np.mean([piece["evaluations"] for piece in parts])),
            **measured(predictions, len(predictions.probs), reference),
            "digits": round(predictions.digits, 2),
            "label_accuracy": label_accuracy(predictions) if row.conditional else None,
            "jumped": rounded(np.mean([piece["jumped"] for piece in parts], axis=0)),
            "clamped": rounded(np.mean([piece["clamped"] for piece in parts], axis=0)),
            "times": rounded(parts[0]["times"]),
        }
    if not rows:
        raise SystemExit(f"{folder} has no model with samples: train the models with train.py first")
    results = {
        "rows": rows,
        "models": describe(models, folder, loaded.test.x),
        "real": evaluate_real(real),
        "noise": evaluate_noise(image_classifier),
        "trained_on": len(loaded.train),
    }
    write_json(RESULTS / "table.json", results)
    print(f"written: {RESULTS / 'table.json'}")


def measured(predictions: classifier.Predictions, n: int, reference: Moments) -> dict[str, Any]:
    """Evaluate the first ``n`` samples, since rows are comparable only at equal numbers of samples."""
    return {
        "frechet": numbers(frechet_distance(balanced(predictions.features[:n]), reference, groups=GROUPS)),
        "recognised": numbers(Estimate.of_mean(predictions.recognised[:n].double())),
    }


def balanced(features: Tensor) -> Tensor:
    """Reorder features such that every group of the jackknife, row i mod GROUPS, has all digits.

    Samples have the digits in turn. A group of only one digit would leave a distance of nine digits without it.

    >>> balanced(torch.arange(100)[:, None])[:20, 0]
    tensor([ 0, 10, 20, 30, 40, 50, 60, 70, 80, 90,  1, 11, 21, 31, 41, 51, 61, 71,
            81, 91])
    """
    pieces = features.reshape(-1, PIECE // DIGITS, DIGITS, features.shape[1])
    return pieces.transpose(1, 2).reshape(features.shape)


def label_accuracy(predictions: classifier.Predictions) -> dict[str, float]:
    """Return the fraction of samples that the classifier assigns to their label; pieces have the digits in turn."""
    requested = torch.arange(len(predictions.probs)) % PIECE % DIGITS
    return numbers(Estimate.of_mean((predictions.probs.argmax(1) == requested).double()))


def pieces_of(name: str, model: tl.Model | None, folder: Path) -> list[dict[str, Any]]:
    """Return the pieces of a row in order of their numbers, without those of other weights or settings."""
    if model is None:
        return []
    paths = sorted((folder / "pieces").glob(f"{name}-[0-9]*.npz"), key=lambda path: int(path.stem.rsplit("-", 1)[1]))
    paths = [path for path in paths if path.stem.rsplit("-", 1)[0] == name]
    return [read_piece(path) for path in paths if mark_of(path) == mark(ROWS[name], model)]


def rounded(values: np.ndarray) -> list[float]:
    return [round(float(value), 6) for value in values]


def numbers(estimate: Estimate[float]) -> dict[str, float]:
    return {"value": estimate.value, "stderr": estimate.stderr}


def evaluate_real(real: classifier.Predictions) -> dict[str, Any]:
    """Return the same measures for test images: 500 of them against the others."""
    order = torch.randperm(len(real.probs), generator=torch.Generator().manual_seed(0))
    subset, others = real.features[order[:SAMPLES]], real.features[order[SAMPLES:]]
    return {
        "images": len(real.probs),
        "samples": SAMPLES,
        "frechet": numbers(frechet_distance(subset, others, groups=GROUPS)),
        "recognised": numbers(Estimate.of_mean(real.recognised.double())),
        "digits": round(real.digits, 2),
    }


def evaluate_noise(image_classifier: classifier.Classifier) -> dict[str, Any]:
    """Return the classifier's result for images of uniform noise."""
    x = torch.randint(256, (1000, 1, 28, 28), generator=torch.Generator().manual_seed(0))
    predictions = image_classifier.predict(x.to(torch.uint8))
    digit = int(predictions.probs.argmax(1).bincount(minlength=DIGITS).argmax())
    fraction = Estimate.of_mean((predictions.probs.argmax(1) == digit).double())
    return {
        "recognised": numbers(Estimate.of_mean(predictions.recognised.double())),
        "digit": digit,
        "fraction": numbers(fraction),
    }


def describe(models: dict[str, tl.Model], folder: Path, test: Tensor) -> dict[str, Any]:
    """Return the training steps of each model, and bits/dim of test images by the bound in continuous time."""
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
