"""Complete the test songs, row by row, and compare the completions with the truth.

    python experiments/music/evaluate.py --data FILE                          all of the table, 5 runs
    python experiments/music/evaluate.py --data FILE --rows uniform d3pm --completions 1 --minutes 10

A piece is one run of a row over the 96 fixed test songs. Pieces that exist for the same weights are not computed again:
run the same command again to resume. The first run of every row is computed before the second of any. All results so
far are written to results/table.json. Models are in --models, runs/music by default. Without such a run the shipped
model is that of the package, and the recorded rows of other absent models do not change. Pieces are stored in the
folder ``pieces`` of --models.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import songs
import torch
from models import NAMES, SHIPPED
from rows import ROWS, TABLE, Row
from songs import COMPLETIONS, FORM, GIVEN
from torch import Tensor

import tauleap as tl
from tauleap.cli.model import fingerprint
from tauleap.data.music.format import MusicFormat
from tauleap.evaluate import Completions, Estimate, bits_per_dim, row_hellinger, row_outliers
from tauleap.sampling import sample

sys.path.append(str(Path(__file__).parents[1]))

from _results import curve_of, mark_of, read_piece, steps_of, write_json, write_piece

RESULTS = Path(__file__).with_name("results")
BATCH, TIMES = 16, 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and the strict masks")
    parser.add_argument("--models", type=Path, default=Path("runs") / "music")
    parser.add_argument("--rows", nargs="+", choices=[*ROWS, "all"], default=list(TABLE), metavar="ROW")
    parser.add_argument("--completions", type=int, default=COMPLETIONS)
    parser.add_argument("--minutes", type=float, default=math.inf, help="start no further piece after this time")
    arguments = parser.parse_args()
    began = time.monotonic()
    test = songs.load(arguments.data).tested.long()
    chosen = list(ROWS) if "all" in arguments.rows else arguments.rows
    names = sorted({ROWS[name].model for name in chosen}, key=NAMES.index)
    models = {name: model for name in names if (model := model_of(name, arguments.models)) is not None}
    marks = {name: fingerprint(model)[:16] for name, model in models.items()}
    pieces = arguments.models / "pieces"
    pieces.mkdir(parents=True, exist_ok=True)
    for run in range(arguments.completions):
        for name in chosen:
            model = models.get(ROWS[name].model)
            path = pieces / f"{name}-{run}.npz"
            if model is None or mark_of(path) == marks[ROWS[name].model]:
                continue
            if time.monotonic() - began > 60 * arguments.minutes:
                print(f"the {arguments.minutes:g} minutes are over: run the same command again to resume")
                return collect(pieces, arguments.models, test)
            started = time.process_time()
            piece = complete(ROWS[name], model, test, run)
            write_piece(path, piece, marks[ROWS[name].model])
            measured = " ".join(f"{number} {piece[number].mean():.4f}" for number in ("hellinger", "outliers"))
            print(f"{name} {run}: {measured}, {time.process_time() - started:.0f} s", flush=True)
    collect(pieces, arguments.models, test)


def model_of(name: str, models: Path) -> tl.Model | None:
    """Return the model of a run, or of the package for the shipped one; None where there is neither."""
    if (models / name / "latest").exists():
        return tl.load(models / name)
    return tl.load("music-small") if name == SHIPPED else None


def complete(row: Row, model: tl.Model, test: Tensor, run: int) -> dict[str, np.ndarray]:
    """Return one completion per song, both measures of each, and the statistics of the sampler."""
    form = form_of(model)
    given = tl.Observed(torch.arange(test.shape[1]) < GIVEN, form.states(test))
    drawn = sample(
        model.reverse,
        row.sampler,
        test.shape,
        grid=row.grid,
        final=row.final,
        observed=given,
        batch_size=BATCH,
        generator=torch.Generator().manual_seed(run),
    )
    x = form.pitches(drawn.x0)
    return {
        "x": x.to(torch.uint8).numpy(),
        "hellinger": row_hellinger(x[:, GIVEN:], test[:, GIVEN:]).numpy(),
        "outliers": row_outliers(x[:, GIVEN:], test[:, GIVEN:]).numpy(),
        "evaluations": np.array(drawn.info.evaluations),
        "seconds": np.array(drawn.info.seconds),
        "rejected": drawn.info.rejected.numpy(),
        "times": row.grid[1:].numpy(),
    }


def form_of(model: tl.Model) -> MusicFormat:
    return model.form if isinstance(model.form, MusicFormat) else FORM


def collect(pieces: Path, models: Path, test: Tensor) -> None:
    """Write results/table.json from the pieces of the current weights."""
    before = recorded()
    described = describe(models, test, before["models"])
    rows: dict[str, Any] = {}
    for name, row in ROWS.items():
        mark = described.get(row.model, {}).get("mark")
        if row.model not in described and name in before["rows"]:
            rows[name] = before["rows"][name]
        paths = [pieces / f"{name}-{run}.npz" for run in range(COMPLETIONS)]
        parts = [read_piece(path) for path in paths if mark and mark_of(path) == mark]
        if not parts:
            continue
        rows[name] = {
            "label": row.label,
            "model": row.model,
            "mark": mark,
            "runs": len(parts),
            "evaluations": float(np.mean([piece["evaluations"] for piece in parts])),
            "different": float(np.mean([different(piece["x"]) for piece in parts])),
            "rejected": np.mean([piece["rejected"] for piece in parts], axis=0).round(6).tolist(),
            "times": parts[0]["times"].round(6).tolist(),
        }
        if len(parts) == COMPLETIONS:
            rows[name]["pooled"] = pooled([torch.from_numpy(piece["x"]).long() for piece in parts], test)
        for number in ("hellinger", "outliers"):
            done = Completions.of(torch.tensor(np.stack([piece[number] for piece in parts])))
            spread = done.spread if math.isfinite(done.spread) else None
            songs_own = np.mean([piece[number] for piece in parts], axis=0).round(5).tolist()
            values = {"value": done.mean.value, "stderr": done.mean.stderr, "spread": spread, "songs": songs_own}
            rows[name][number] = values
    described = before["models"] | described
    results = {"songs": len(test), "different": different(test.numpy()), "rows": rows, "models": described}
    if not rows:
        raise SystemExit(f"{models} has no model with completions: train the models with train.py first")
    write_json(RESULTS / "table.json", results)
    print(f"written: {RESULTS / 'table.json'}")


def different(x: np.ndarray) -> float:
    """Return the mean number of different states per song after the observed bars."""
    return float(np.mean([len(np.unique(song[GIVEN:])) for song in x]))


def pooled(runs: list[Tensor], test: Tensor) -> dict[str, float]:
    """Return the Hellinger distance of all completions of a song pooled into one."""
    truth = test[:, GIVEN:].repeat(1, len(runs))
    found = Estimate.of_mean(row_hellinger(torch.cat([x[:, GIVEN:] for x in runs], dim=1), truth))
    return {"value": found.value, "stderr": found.stderr}


def recorded() -> dict[str, Any]:
    """Return the results that were written last."""
    path = RESULTS / "table.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"models": {}, "rows": {}}


def describe(models: Path, test: Tensor, before: dict[str, Any]) -> dict[str, Any]:
    """Return the training steps of each model, and bits/dim of the test songs given their first two bars."""
    out = {}
    for name in NAMES:
        model = model_of(name, models)
        if model is None:
            continue
        mark, known = fingerprint(model)[:16], before.get(name, {})
        if known.get("mark") != mark:
            x = form_of(model).states(test)
            bits = bits_per_dim(
                model.reverse,
                x,
                samples=TIMES,
                batch_size=64,
                observed=tl.Observed(torch.arange(x.shape[1]) < GIVEN, x),
                generator=torch.Generator().manual_seed(0),
            )
            known = {
                "mark": mark,
                "steps": steps_of(models / name),
                "weights": sum(p.numel() for p in model.denoiser.parameters()),
                "bits": [bits.value, bits.stderr, bits.n],
                "curve": curve_of(models / name),
            }
        out[name] = known
    return out


if __name__ == "__main__":
    main()
