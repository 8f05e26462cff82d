"""The figures of docs/experiments/music.md, from results and trained models.

    python experiments/music/figures.py --data FILE

Figures without models or results are not changed. Some melodies are also written as MIDI and MP3, which needs the extra
``experiments``: pip install 'tauleap[experiments]'.
"""

from __future__ import annotations

import argparse
import io
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import songs
import soundfile
import torch
from evaluate import RESULTS, form_of
from models import SHIPPED
from rows import BUDGET, LEAPS, ROWS
from songs import GIVEN
from torch import Tensor

import tauleap as tl
from tauleap import _files
from tauleap.data.music.melody import decode
from tauleap.data.music.midi import write_midi
from tauleap.data.music.sound import to_wav
from tauleap.data.music.soundfont import installed_soundfont
from tauleap.evaluate.plots import save_png
from tauleap.evaluate.rolls import draw_rolls
from tauleap.sampling import sample, uniform_grid

sys.path.append(str(Path(__file__).parents[1]))

from _panels import COLOURS, FIGURES, panels

AUDIO = FIGURES.with_name("audio")
SHOWN_SONGS, TRACED_SITES, TRACED_STEPS = 4, 8, 250
SIXTEENTH = 60 / 120 / 4
"""Seconds, at 120 quarter notes per minute."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and the strict masks")
    parser.add_argument("--models", type=Path, default=Path("runs") / "music")
    arguments = parser.parse_args()
    test = songs.load(arguments.data).tested.long()
    table, references = (json.loads((RESULTS / f"{name}.json").read_text()) for name in ("table", "references"))
    training(table)
    evaluations(table, references)
    rejections(table)
    completions(arguments.models / "pieces", test)
    progress(arguments.models, test)
    if (arguments.models / SHIPPED).is_dir():
        uses(tl.load(arguments.models / SHIPPED), test)


def training(table: dict[str, Any]) -> None:
    """Draw bits/dim of the validation songs during training."""
    curves = {name: found["curve"] for name, found in table["models"].items() if len(found["curve"]) > 1}
    if not curves:
        return
    with panels("music_training", 1, 6.0) as (axes,):
        for (name, curve), colour in zip(curves.items(), (*COLOURS, "#fec44f"), strict=False):
            steps, bits, errors = zip(*curve, strict=True)
            label = f"{name} (unconditional)" if name == SHIPPED else name
            axes.errorbar(steps, bits, errors, label=label, color=colour, linewidth=1.3)
        axes.set(xlabel="steps", ylabel="bits/dim, validation songs", yscale="log")
        axes.set_yticks((2, 3, 5, 10, 30), ("2", "3", "5", "10", "30"))
        axes.minorticks_off()
        axes.legend(frameon=False, fontsize=8)


def evaluations(table: dict[str, Any], references: dict[str, Any]) -> None:
    """Draw both measures against network evaluations, with the best baseline."""
    series = {"uniform": "tau-leaping, uniform", "ancestral": "ancestral, uniform", "shipped": "ancestral, shipped"}
    found = {
        name: sorted(
            (
                (row["evaluations"], row["hellinger"], row["outliers"])
                for key, row in table["rows"].items()
                if key == name or (key.startswith(f"{name}-") and key.rpartition("-")[2].isdigit())
            ),
            key=lambda point: point[0],
        )
        for name in series
    }
    if not any(len(points) > 1 for points in found.values()):
        return
    with panels("music_evaluations", 2) as both:
        for axes, number, at in zip(both, ("hellinger", "outliers"), (1, 2), strict=True):
            for (name, points), colour in zip(found.items(), COLOURS, strict=False):
                if points:
                    axes.errorbar(
                        [point[0] for point in points],
                        [point[at]["value"] for point in points],
                        [point[at]["stderr"] for point in points],
                        label=series[name],
                        color=colour,
                        marker="o",
                        markersize=3,
                        linewidth=1.3,
                    )
            repeated = references["tested"]["rows"][0]
            axes.axhline(repeated[number]["value"], color="0.6", linestyle="--", linewidth=0.8, label=repeated["name"])
            axes.set(xscale="log", xlabel="network evaluations per song", ylabel=number)
            ticks = sorted({round(point[0]) for points in found.values() for point in points})
            axes.set_xticks(ticks, [str(tick) for tick in ticks])
            axes.minorticks_off()
        both[1].legend(frameon=False, fontsize=8)


def rejections(table: dict[str, Any]) -> None:
    """Draw the fraction of sites whose jumps are rejected, per step."""
    found = {name: table["rows"][name] for name in ("uniform", "birth-death", "correctors") if name in table["rows"]}
    if not found:
        return
    with panels("music_rejected", 1, 6.0) as (axes,):
        for (_, row), colour in zip(found.items(), COLOURS, strict=False):
            axes.plot(row["times"], row["rejected"], label=row["label"], color=colour, linewidth=1.2)
        axes.set(xlabel="t, from noise (1) to data (0)", ylabel="fraction of sites with a rejected jump", xlim=(1, 0))
        axes.legend(frameon=False, fontsize=8)


def completions(pieces: Path, test: Tensor) -> None:
    """Draw test songs, and up to two completions of each by tau-leaping and by the shipped model."""
    # The shipped model with the largest number of evaluations that has results.
    best = next((name for name in ("shipped", "shipped-128", "shipped-64") if (pieces / f"{name}-0.npz").exists()), "")
    made = [
        (name, run) for name in ("uniform", best) for run in (0, 1) if name and (pieces / f"{name}-{run}.npz").exists()
    ]
    if not made:
        return
    melodies = {}
    for name, run in made:
        with np.load(pieces / f"{name}-{run}.npz", allow_pickle=False) as piece:
            melodies[name, run] = torch.from_numpy(piece["x"]).long()
    shown, titles = [], []
    for song in range(SHOWN_SONGS):
        shown.append(test[song])
        titles.append(f"test song {song + 1}, the truth")
        for (name, run), x in melodies.items():
            shown.append(x[song])
            titles.append(f"{ROWS[name].label}, {ROWS[name].evaluations} evaluations, {run + 1}")
            if song < 2 and run == 0:
                write_audio(x[song], f"song{song + 1}-{name}")
        if song < 2:
            write_audio(test[song], f"song{song + 1}-truth")
    given = torch.zeros(len(shown), test.shape[1], dtype=torch.bool)
    given[:, :GIVEN] = True
    figure = draw_rolls(torch.stack(shown), titles, given=given)
    print(f"written: {save_png(figure, FIGURES / 'music_completions.png')}")


def progress(models: Path, test: Tensor) -> None:
    """Draw the states of some sites over time, for both kinds of noise (the paper's last two figures)."""
    names = {"uniform-ect": "uniform", "birth-death-ect": "birth/death"}
    if not all((models / name).is_dir() for name in names):
        return
    with panels("music_progress", 2) as both:
        for axes, (name, label) in zip(both, names.items(), strict=True):
            model = tl.load(models / name)
            grid = uniform_grid(TRACED_STEPS)
            given = tl.Observed(torch.arange(test.shape[1]) < GIVEN, form_of(model).states(test[:1]))
            drawn = sample(
                model.reverse,
                LEAPS,
                (1, test.shape[1]),
                grid=grid,
                trace=grid.tolist(),
                observed=given,
                generator=torch.Generator().manual_seed(0),
            )
            if drawn.trace is None:
                raise RuntimeError("there is no trace")
            sites = torch.linspace(GIVEN, test.shape[1] - 1, TRACED_SITES).long()
            for site, colour in zip(sites, (*COLOURS, "#fec44f", "#8c96c6", "#b30000"), strict=True):
                axes.step(drawn.trace.times, drawn.trace.x[:, 0, site], color=colour, linewidth=1.0)
            axes.set(title=label, xlabel="t", ylabel="state", xlim=(1, 0), ylim=(-2, 130))


def uses(model: tl.Model, test: Tensor) -> None:
    """Draw four kinds of conditioning: continuation, a gap, both ends observed, and unconditional."""
    steps, song = test.shape[1], test[:1]
    form = form_of(model)
    masks = torch.zeros(4, steps, dtype=torch.bool)
    masks[0, :GIVEN] = True
    masks[1] = True
    masks[1, 96:160] = False
    masks[2, :GIVEN] = masks[2, -GIVEN:] = True
    names = [
        "continuation of two bars",
        "completion of a gap of four bars",
        "first and last two bars given",
        "unconditional",
    ]
    done = model.complete(form.states(song).repeat(4, 1), masks, steps=BUDGET - 1, seed=0, states=True)
    shown = torch.cat([song, form.pitches(done)])
    given = torch.cat([torch.ones(1, steps, dtype=torch.bool), masks])
    figure = draw_rolls(shown, ["a test song", *names], given=given)
    print(f"written: {save_png(figure, FIGURES / 'music_uses.png')}")


def write_audio(melody: Tensor, name: str) -> None:
    """Write a melody as a MIDI file of some hundred bytes, and as sound of some hundred thousand bytes."""
    AUDIO.mkdir(exist_ok=True)
    notes = decode(melody.tolist())
    with _files.atomic_write(AUDIO / f"music-{name}.mid") as file:
        file.write(write_midi(notes, 4, 120))
    wave, rate = soundfile.read(io.BytesIO(to_wav(notes, SIXTEENTH, len(melody), font=installed_soundfont())))
    with _files.atomic_write(AUDIO / f"music-{name}.mp3") as file:
        soundfile.write(file, wave, rate, format="MP3", subtype="MPEG_LAYER_III", compression_level=0.8)


if __name__ == "__main__":
    main()
