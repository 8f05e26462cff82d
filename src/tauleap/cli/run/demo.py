"""The work of ``tauleap demo``: the whole system on two dimensions, and the distance of its samples from the data.

The distances are exact: the distribution is pushed forward through every step of a sampler, without the noise of finite
samples (a thousand samples of the data itself have a distance of 0.2). Another process computes the distances of the
exact denoiser while the network trains.
"""

from __future__ import annotations

import json
import math
import signal
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from torch import Tensor

from tauleap import _device, _files, recipes
from tauleap.cli.commands.demo import Demo
from tauleap.cli.output import print_result
from tauleap.cli.run.demo_workers import Workers
from tauleap.cli.toy_figure import Curve, Trajectory, draw_figure
from tauleap.data import tau_pmf, tau_points
from tauleap.evaluate import Estimate, bits_per_dim, hellinger, hellinger_of_laws, plots, pushforward
from tauleap.model import Model
from tauleap.pretrained import load
from tauleap.recipes.toy import exact_reverse
from tauleap.sampling import Ancestral, Sampler, TauLeaping, Uniformization, sample, uniform_grid
from tauleap.training import Run, train

END = 0.01
_SAMPLERS: dict[str, Sampler] = {
    "tau-leaping": TauLeaping(),
    "ancestral": Ancestral(),
    "exact simulation": Uniformization(),
}
FILES = {
    "figure.png": "figure",
    "reverse.gif": "reverse process",
    "samples.npz": "samples",
    "metrics.json": "numbers",
    "model": "model",
}
"""Files of the demo, with their descriptions."""
_SHOWN = (1.0, 0.6, 0.3, 0.15, 0.05)


@dataclass(frozen=True)
class Size:
    """Hold the sizes of the demo."""

    steps: int | None = None
    """Training steps. Default: those of the recipe."""
    leaps: tuple[int, ...] = (10, 32, 100, 250, 1000)
    ancestral: tuple[int, ...] = (10, 32, 100)
    draws: int = 1000
    rows: int = 2000
    """Rows on which bits/dim is measured."""
    processes: int = 2
    frames: int = 48
    accuracy: pushforward.Accuracy = pushforward.COARSE


QUICK = Size(steps=60, leaps=(10, 32), ancestral=(10, 32), draws=50, rows=64, processes=0, frames=12)


@dataclass(frozen=True)
class Work:
    """Compute the distribution of one sampler at one number of evaluations, for a saved model or the exact denoiser."""

    sampler: str
    evaluations: int
    model: Path | None
    accuracy: pushforward.Accuracy
    times: tuple[float, ...] = ()
    """Times at which the distribution is also returned."""

    def law(self) -> tuple[Tensor, list[Tensor]]:
        """Return the distribution of the samples, and those at ``times``."""
        if self.model is None and self.sampler == "exact simulation":
            reverse = exact_reverse()
            return pushforward.apply_final(
                reverse, pushforward.reverse_chain_law(reverse, tau_pmf(), END), END, "mode"
            ), []
        reverse = exact_reverse() if self.model is None else load(self.model, device=_device.CPU).reverse.double()
        grid = [1.0, END] if self.sampler == "exact simulation" else uniform_grid(self.evaluations - 1).tolist()
        with torch.no_grad():
            start = pushforward.prior(reverse, 2)
            law, on_the_way = pushforward.laws_at(
                _SAMPLERS[self.sampler], reverse, start, grid, self.times, accuracy=self.accuracy
            )
            return pushforward.apply_final(reverse, law, END, "mode"), on_the_way


def run(options: Demo) -> None:
    """Train, sample and measure, then write all files; if it is stopped before, the folder is unchanged.

    Args:
        options: The options of the command, which it has checked.
    """
    out, seed = options.out, options.seed
    size, console = QUICK if options.quick else Size(), Console(quiet=options.json)
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="tauleap-") as scratch, Workers(size.processes) as workers:
        reference = {key: workers.start(work.law) for key, work in _plan(size, None).items()}
        checkpoint, seconds = _train(size, seed, Path(scratch), console)
        model = load(checkpoint, device=_device.CPU)
        console.print("computing the exact distribution of the samples ...", highlight=False)
        found = {key: workers.start(work.law) for key, work in _plan(size, checkpoint).items()}
        drawn, evaluations = _draw(model, size, seed)
        film = plots.save_gif(_film(model, size, seed), Path(scratch) / "reverse.gif").read_bytes()
        bits = _bits(model, size, seed)
        laws, exact = ({key: law.result() for key, law in each.items()} for each in (found, reference))

    data = tau_pmf()
    entries = []
    for (sampler, number), (law, _) in laws.items():
        entry = {
            "sampler": sampler,
            "evaluations": evaluations["exact simulation"] if sampler == "exact simulation" else number,
            "hellinger": hellinger_of_laws(law, data),
            "stderr": 0.0,  # of an exact distribution
            "hellinger_exact_denoiser": hellinger_of_laws(exact[sampler, number][0], data),
            "stderr_exact_denoiser": 0.0,
        }
        entries.append(entry)
    metrics = {
        "samplers": entries,
        "drawn": {name: _distance(x, data) for name, x in drawn.items()},
        "floor": hellinger_of_laws(exact["exact simulation", 0][0], data),
        "bits_per_dim": bits,
        "training_seconds": round(seconds, 1),
        "seed": seed,
        "quick": options.quick,
    }
    model.save(out / "model")
    plots.save_png(_figure(entries, metrics["floor"], laws, size), out / "figure.png", colours=128)
    with _files.atomic_write(out / "reverse.gif") as file:
        file.write(film)
    with _files.atomic_write(out / "samples.npz") as file:
        exact_x, leapt_x = (drawn[name].to(torch.uint8).numpy() for name in ("exact simulation", "tau-leaping"))
        np.savez_compressed(file, exact_simulation=exact_x, tau_leaping=leapt_x)
    with _files.atomic_write(out / "metrics.json") as file:
        file.write(json.dumps(metrics, indent=2, allow_nan=False).encode() + b"\n")
    console.print(_table(entries, metrics))
    files = {what: out / name for name, what in FILES.items()}
    lines = [f"{what + ':':<17}{path}" for what, path in files.items()]
    lines += [
        f"{time.monotonic() - began:.0f} seconds in all. Next:",
        f"  tauleap sample {out / 'model'} -n 1000",
        "      sample from this model, or from the shipped model `toy`",
        "  tauleap train YOUR_FILE",
        "      train on a table, a text, an array, a folder of MIDI files or of images",
        "  tauleap demo music",
        "      continue a melody with a shipped model",
        "  docs/samplers.md",
        "      choose between the samplers of the table",
    ]
    facts = {"files": [str(path) for path in files.values()], "metrics": metrics}
    print_result(facts if options.json else lines)


def _plan(size: Size, model: Path | None) -> dict[tuple[str, int], Work]:
    """Return the work, the longest first, because two processes share it."""
    numbers = [("tau-leaping", n) for n in reversed(size.leaps)]
    numbers += [("exact simulation", 0), *(("ancestral", n) for n in size.ancestral)]
    shown = {("tau-leaping", n): _SHOWN for n in _shown_evaluations(size)}
    return {(name, n): Work(name, n, model, size.accuracy, shown.get((name, n), ())) for name, n in numbers}


def _shown_evaluations(size: Size) -> tuple[int, int]:
    """Return the numbers of evaluations whose distributions are drawn: the paper's tau = 0.004 and tau = 0.1."""
    fine = 250 if 250 in size.leaps else size.leaps[-1]
    return fine, size.leaps[0]


def _train(size: Size, seed: int, folder: Path, console: Console) -> tuple[Path, float]:
    """Train in ``folder``, and return the checkpoint and the seconds."""
    recipe = recipes.toy()
    data, _ = recipe.data()
    settings = replace(recipe.settings, seed=seed, sample_every=None)
    if size.steps is not None:
        settings = replace(settings, steps=size.steps, warmup=size.steps // 10, decay=size.steps)
    threads = torch.get_num_threads()
    if size.processes:  # the other core computes distances of the exact denoiser
        torch.set_num_threads(1)
    try:
        began = time.monotonic()
        result = train(
            # No held-out rows: the caller measures bits/dim.
            replace(recipe, settings=settings, data=lambda: (data, None), picture=None),
            Run(folder / "run", tensorboard=False, keep=1),
            console=console,
        )
        seconds = time.monotonic() - began
    finally:
        torch.set_num_threads(threads)
    if result.stopped.startswith("SIG"):
        raise SystemExit(128 + signal.Signals[result.stopped])
    return result.checkpoint, seconds


def _draw(model: Model, size: Size, seed: int) -> tuple[dict[str, Tensor], dict[str, float]]:
    """Return samples by exact simulation and by tau-leaping, and their numbers of network evaluations."""
    x, evaluations = {}, {}
    for name, grid in (("exact simulation", [1.0, END]), ("tau-leaping", uniform_grid(99))):
        generator = _device.new_generator(_device.CPU, seed)
        got = sample(model.reverse, _SAMPLERS[name], (size.draws, 2), grid=grid, generator=generator)
        x[name], evaluations[name] = got.x0, round(got.info.evaluations, 1)
    return x, evaluations


def _distance(x: Tensor, data: Tensor) -> dict[str, float | int]:
    found = hellinger(x, data)
    return {"n": found.n, "hellinger": found.value, "stderr": found.stderr}


def _bits(model: Model, size: Size, seed: int) -> dict[str, float | int]:
    """Return bits/dim of the trained and the exact denoiser on the same points and noise, and the entropy."""
    points = tau_points(size.rows, generator=_device.new_generator(_device.CPU, seed + 1))
    each = []
    for reverse in (model.reverse, exact_reverse()):
        noise = _device.new_generator(_device.CPU, seed)
        each.append(bits_per_dim(reverse, points, samples=16, per_datapoint=True, generator=noise).value)
    trained, exact, more = (Estimate.of_mean(values) for values in (*each, each[0] - each[1]))
    law, nat = tau_pmf(), 2 * math.log(2)  # two dimensions, in bits
    reverse = exact_reverse()
    last, noise = pushforward.marginal(reverse, law, 1.0), pushforward.prior(reverse, 2)
    return {
        "trained": trained.value,
        "trained_stderr": trained.stderr,
        "exact_denoiser": exact.value,
        "exact_denoiser_stderr": exact.stderr,
        "difference": more.value,
        "difference_stderr": more.stderr,
        "entropy": float(-torch.special.xlogy(law, law).sum() / nat),
        "prior": float((last * (last / noise).log()).sum() / nat),
        "rows": size.rows,
    }


def _film(model: Model, size: Size, seed: int) -> Iterator[Figure]:
    """Yield frames of one reverse run of tau-leaping, most of them near the data, where the letter forms."""
    grid = uniform_grid(2 * size.frames)
    moments = (torch.linspace(1.0, END**0.5, size.frames, dtype=torch.float64) ** 2).tolist()
    got = sample(
        model.reverse,
        TauLeaping(),
        (1500, 2),
        grid=grid,
        trace=moments,
        generator=_device.new_generator(_device.CPU, seed),
    )
    trace = got.trace
    if trace is not None:
        for t, x in zip(trace.times.tolist(), trace.x, strict=True):
            yield plots.draw_points(x, 32, f"t = {t:.2f}")
    yield plots.draw_points(got.x0, 32, "x0")


def _figure(entries: list[dict], floor: float, laws: dict, size: Size) -> Figure:
    curves = []
    for colour, name in enumerate(("tau-leaping", "ancestral")):
        mine = sorted((e for e in entries if e["sampler"] == name), key=lambda e: e["evaluations"])
        work = [e["evaluations"] for e in mine]
        curves.append(Curve(name, work, [e["hellinger"] for e in mine], colour=colour))
        truth = [e["hellinger_exact_denoiser"] for e in mine]
        curves.append(Curve(f"{name}, exact denoiser", work, truth, reference=True, colour=colour))
    (simulated,) = (e for e in entries if e["sampler"] == "exact simulation")
    levels = {"exact simulation": simulated["hellinger"], "exact simulation, exact denoiser (floor)": floor}
    trajectories = []
    for number in _shown_evaluations(size):
        law, on_the_way = laws["tau-leaping", number]
        label = f"tau = {(1 - END) / (number - 1):.2g}"
        trajectories.append(Trajectory(label, [*_SHOWN, 0.0], [*on_the_way, law]))
    return draw_figure(curves, levels, trajectories)


def _table(entries: list[dict], metrics: dict) -> Table:
    bits = metrics["bits_per_dim"]
    table = Table(
        "sampler",
        "evaluations",
        "trained",
        "exact denoiser",
        title="Hellinger distance to the distribution of the data",
        caption=(
            f"bits/dim {bits['trained']:.3f} trained, {bits['exact_denoiser']:.3f} with the exact denoiser (difference "
            f"{bits['difference']:.4f} ± {bits['difference_stderr']:.4f}, {bits['rows']} points); entropy "
            f"{bits['entropy']:.3f}; prior term of the bound {bits['prior']:.3f}. "
            f"Trained in {metrics['training_seconds']:.0f} s."
        ),
    )
    for e in sorted(entries, key=lambda e: (e["sampler"], e["evaluations"])):
        table.add_row(
            e["sampler"], f"{e['evaluations']:g}", f"{e['hellinger']:.4f}", f"{e['hellinger_exact_denoiser']:.4f}"
        )
    return table
