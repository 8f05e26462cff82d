"""Add the trained model of melodies to the package, with a model card.

    python experiments/music/ship.py --data FILE

It reads shipped in --models, runs/music by default, and results/table.json, which evaluate.py wrote for the same
weights. It writes src/tauleap/pretrained/models/music-small.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import songs
from evaluate import RESULTS
from models import SHIPPED
from rows import ROWS

import tauleap as tl
from tauleap.cli.model import fingerprint

sys.path.append(str(Path(__file__).parents[1]))

from _results import steps_of
from _ship import ship

NAME = "music-small"
TIMES = 4

CARD = """# {name}

Melodies of 16 bars, one pitch or rest per sixteenth note: 256 sites of 129 states. The model continues a melody, fills
gaps in one, and generates melodies unconditionally.

- Data: melodies of the Lakh MIDI dataset (Colin Raffel, *Learning-Based Methods for Comparing Sequences*, 2016; CC BY
  4.0), as prepared for plassma/symbolic-music-discrete-diffusion (MIT): {melodies:,} melodies, each in twelve keys. The
  test songs are not among them.
- Model: absorbing noise with a log-linear schedule; a transformer with rotary positions, width 96, depth 4, {weights:,}
  weights.
- Recipe: `tauleap.recipes.music`: the complete bound, Adam with cosine learning-rate decay from {lr:g} to a hundredth
  of it, batches of {batch_size}, averaged weights ({ema:g}), {steps:,} steps, seed {seed}. The first two bars were
  observed in two of five cases, otherwise nothing, scattered sites, spans or all but gaps.
- bits/dim of {songs} test songs: {bits}; given their first two bars: {given} (standard errors; {times} times per song,
  seed 0).

Completions of {tested} test songs from their first two bars, by ancestral steps. Both measures are means over songs
with standard errors; a run is one completion of every song.

| evaluations | Hellinger distance of note histograms | outliers | runs |
| ---: | ---: | ---: | ---: |
{rows}

*`python experiments/music/train.py shipped --data FILE`, then `evaluate.py` and `ship.py`.*
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and the strict masks")
    parser.add_argument("--models", type=Path, default=Path("runs") / "music")
    arguments = parser.parse_args()
    run = arguments.models / SHIPPED
    model = tl.load(run)
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    mark = fingerprint(model)[:16]
    measured = {name: row for name, row in table["rows"].items() if row["mark"] == mark}
    if table["models"].get(SHIPPED, {}).get("mark") != mark or not measured:
        raise SystemExit("results/table.json belongs to other weights: run evaluate.py --rows shipped first")
    loaded = songs.load(arguments.data)
    test, melodies = loaded.tested.long(), len(loaded.train_all)
    with (run / "latest" / "recipe.json").open(encoding="utf-8") as file:
        settings = json.load(file)["recipe"]["settings"]
    unconditional = model.bits_per_dim(test, samples=TIMES, seed=0)
    bits = table["models"][SHIPPED]["bits"]
    model.about = {
        "name": NAME,
        "data": [f"melodies of the Lakh MIDI dataset (C. Raffel, CC BY 4.0), {melodies:,} of them in twelve keys"],
        "step": steps_of(run),
        "seed": settings["seed"],
        "weights": sum(p.numel() for p in model.reverse.parameters()),
        "bits_per_dim": {"value": unconditional.value, "stderr": unconditional.stderr, "n": unconditional.n},
        "bits_per_dim_given_two_bars": {"value": bits[0], "stderr": bits[1], "n": bits[2]},
    }
    ship(model, NAME, card(model, measured, table["songs"], settings | {"melodies": melodies}))


def card(model: tl.Model, measured: dict, tested: int, trained: dict) -> str:
    about = model.about
    rows = [
        f"| {round(row['evaluations'])} | {row['hellinger']['value']:.3f} ± {row['hellinger']['stderr']:.3f} "
        f"| {row['outliers']['value']:.3f} ± {row['outliers']['stderr']:.3f} | {row['runs']} |"
        for name, row in sorted(measured.items(), key=lambda item: item[1]["evaluations"])
        if name in ROWS
    ]
    bits, given = about["bits_per_dim"], about["bits_per_dim_given_two_bars"]
    return CARD.format(
        name=NAME,
        weights=about["weights"],
        steps=about["step"],
        seed=about["seed"],
        **{name: trained[name] for name in ("lr", "batch_size", "ema", "melodies")},
        songs=bits["n"],
        bits=f"{bits['value']:.3f} ± {bits['stderr']:.3f}",
        given=f"{given['value']:.3f} ± {given['stderr']:.3f}",
        times=TIMES,
        tested=tested,
        rows="\n".join(rows),
    )


if __name__ == "__main__":
    main()
