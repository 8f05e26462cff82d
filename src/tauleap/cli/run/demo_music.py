"""The work of ``tauleap demo music``: a shipped model continues, completes and composes melodies."""

from __future__ import annotations

from pathlib import Path

import torch

from tauleap import _device
from tauleap.cli.commands.demo_music import DemoMusic
from tauleap.cli.output import print_result
from tauleap.data.music.format import MusicFormat
from tauleap.evaluate.plots import save_png
from tauleap.evaluate.rolls import draw_rolls
from tauleap.model import Model
from tauleap.pretrained import load

MODEL = "music-small"
_VARIANTS = 3


def run(options: DemoMusic) -> None:
    """Run the demo.

    Args:
        options: The options of the command, which it has checked.
    """
    play(options.out, steps=options.steps, seed=options.seed, as_json=options.json)


def play(out: Path, *, steps: int, seed: int, as_json: bool = False, model: Model | None = None) -> None:
    """Write MIDI and WAV files and ``rolls.png``, and print the melodies.

    Args:
        out: The folder.
        steps: The number of steps of the reverse chain.
        seed: The seed of the melodies.
        as_json: Whether to print one JSON object. Default: false.
        model: A model of music. Default: the shipped one.
    """
    model = load(MODEL, device=_device.CPU) if model is None else model
    form = model.form
    if not isinstance(form, MusicFormat):
        raise ValueError(f"the demo needs a model of music, got one of {'unknown data' if form is None else form.kind}")
    data = form.completion_start()
    continued = model.complete(data, variants=_VARIANTS, steps=steps, seed=seed, states=True)[:, 0]
    known = torch.zeros_like(continued, dtype=torch.bool)
    known[:, : int((~data.missing).sum()) if data.missing is not None else 0] = True
    # The same model also fills a gap of four bars in its first continuation, and samples unconditionally.
    around = torch.ones(form.steps, dtype=torch.bool)
    around[form.steps // 2 - 32 : form.steps // 2 + 32] = False
    filled = model.complete(continued[:1], around, steps=steps, seed=seed + 1, states=True)
    unconditional = model.sample(1, steps=steps, seed=seed, states=True)
    x = torch.cat([continued, filled, unconditional])
    given = torch.cat([known, around[None], torch.zeros(1, form.steps, dtype=torch.bool)])
    names = [f"continuation {number + 1}" for number in range(_VARIANTS)]
    names += ["continuation 1, four bars resampled", "unconditional sample"]
    files = form.write(x, out, stem="music")
    picture = save_png(draw_rolls(form.pitches(x).long(), names, given=given), out / "rolls.png")
    lines = [f"{name}:\n  {form.preview(row[None], 1)}" for name, row in zip(names, x, strict=True)]
    facts = {"files": [str(path) for path in (*files, picture)], "melodies": form.pitches(x).tolist()}
    lines += [f"piano rolls: {picture}", f"MIDI and sound: {len(files)} files in {out}"]
    print_result(facts if as_json else lines)
