"""Compare the gradient variance of the objectives at the shapes of the paper's music experiment.

    python diagnostics/objective_variance.py [--data FILE] [--write]

B = 16, D = 256, S = 129, uniform noise with beta = 0.03, a small transformer. All objectives have the same weights,
batches of melodies and seeds, at two stages of one training run. The measure of a batch gradient g is

    tr Cov(g) / |E g|^2

which does not depend on the scale of an objective: it is the number of batches to average until noise and signal have
equal norms. Data and noise are both random, as in training. |E g|^2 is the mean of the products of different samples,
which is unbiased; standard errors are jackknife errors over the samples. ``FILE`` is an .npz with melodies ``train``
(n, 256) with values 0 to 128, and optionally a mask ``train_strict`` of those to use; without FILE there are random
tunes. It takes about 4.5 minutes.
"""

from __future__ import annotations

import argparse
import math
from dataclasses import dataclass

import matplotlib
import numpy as np
import torch
from _page import FIGURES, table, write
from matplotlib.figure import Figure
from torch import Tensor

from tauleap.denoise import NetworkDenoiser
from tauleap.evaluate.plots import STYLE, save_png
from tauleap.network import SequenceTransformer
from tauleap.noise import Constant, Uniform
from tauleap.objective import (
    CompleteElbo,
    CrossEntropy,
    DiscreteTimeElbo,
    Objective,
    PaperElbo,
    Times,
    UniformTimes,
    fitted_times,
)
from tauleap.reverse import ReverseProcess

BATCH, SITES, STATES, REST = 16, 256, 129, 128
STAGES, LEARNING_RATE = (40, 240), 1e-2
INDEPENDENT, STRATIFIED, FITTED = "independent times", "stratified times", "fitted times, stratified"
PARTS, LOOKS = 10, 120


def with_times(times: Times | None) -> dict[str, Objective]:
    """Return the objectives with continuous times, by their names without times."""
    made: list[tuple[Objective, Objective]] = [
        (CompleteElbo(), CompleteElbo(times=times)),
        (CompleteElbo() + 0.001 * CrossEntropy(), CompleteElbo(times=times) + 0.001 * CrossEntropy()),
        (PaperElbo(passes=2), PaperElbo(passes=2, times=times)),
        (PaperElbo(passes=1), PaperElbo(passes=1, times=times)),
        (PaperElbo(passes=1) + 0.001 * CrossEntropy(), PaperElbo(passes=1, times=times) + 0.001 * CrossEntropy()),
        (CrossEntropy(), CrossEntropy(times=times)),
    ]
    return {repr(plain): objective for plain, objective in made}


REFERENCE = repr(CompleteElbo())
DISCRETE: dict[str, Objective] = {repr(each): each for each in (DiscreteTimeElbo(100), DiscreteTimeElbo(1000))}
TIMED = (REFERENCE, repr(PaperElbo(passes=2)), repr(PaperElbo(passes=1)), repr(CrossEntropy()))
"""Those that are measured at other times than stratified ones too."""


def random_tunes(number: int, generator: torch.Generator) -> Tensor:
    """Return random walks on a major scale whose notes and rests last one to eight steps."""
    scale = torch.tensor([12 * octave + step for octave in range(4, 7) for step in (0, 2, 4, 5, 7, 9, 11)])
    places = torch.randint(len(scale), (number, 1), generator=generator)
    moves = torch.randint(-2, 3, (number, SITES), generator=generator)
    notes = scale[(places + moves.cumsum(1)).clamp(0, len(scale) - 1)]
    notes[torch.rand(number, SITES, generator=generator) < 0.2] = REST
    lengths = torch.randint(1, 9, (number, SITES), generator=generator)
    return torch.stack([row.repeat_interleave(length)[:SITES] for row, length in zip(notes, lengths, strict=True)])


def melodies(path: str | None) -> Tensor:
    if path is None:
        return random_tunes(2000, torch.Generator().manual_seed(0))
    with np.load(path) as file:
        rows = file["train"]
        rows = rows[file["train_strict"]] if "train_strict" in file else rows
    if rows.ndim != 2 or rows.shape[1] != SITES or rows.max() >= STATES:
        raise SystemExit(f"{path}: train must be (n, {SITES}) with values 0 to {REST}, got {rows.shape}")
    return torch.from_numpy(rows.astype(np.int64))


@dataclass
class Gradients:
    """Samples of the gradient of one objective, (n, parameters)."""

    draws: Tensor

    def noise_to_signal(self) -> tuple[float, float]:
        """Return tr Cov / |E|^2 and its jackknife standard error."""
        gram = self.draws @ self.draws.mT
        return jackknife(lambda keep: ratio(gram[keep][:, keep]), len(gram))

    def against(self, other: Gradients) -> tuple[float, float]:
        """Return the ratio of both noise-to-signal values; paired samples share data and times to reduce its error."""
        own, theirs = self.draws @ self.draws.mT, other.draws @ other.draws.mT
        return jackknife(lambda keep: ratio(own[keep][:, keep]) / ratio(theirs[keep][:, keep]), len(own))

    def cosine(self, other: Gradients) -> tuple[float, float]:
        """Return the cosine of mean gradients, from products of different pairs, since paired samples share data."""
        own, theirs, mixed = self.draws @ self.draws.mT, other.draws @ other.draws.mT, self.draws @ other.draws.mT

        def value(keep: Tensor) -> float:
            parts = [different(matrix[keep][:, keep]) for matrix in (mixed, own, theirs)]
            return parts[0] / (parts[1] * parts[2]) ** 0.5 if min(parts[1:]) > 0 else math.nan

        return jackknife(value, len(own))


def different(gram: Tensor) -> float:
    """Return the mean of the products of different samples, which is unbiased for the product of the means."""
    n = len(gram)
    return float((gram.sum() - gram.trace()) / (n * (n - 1)))


def ratio(gram: Tensor) -> float:
    """Return nan if there are too few samples to distinguish the signal from noise."""
    signal = different(gram)
    return (float(gram.trace()) / len(gram) - signal) / signal if signal > 0 else math.nan


def jackknife(value, n: int) -> tuple[float, float]:
    every = torch.arange(n)
    left_out = torch.tensor([value(every[every != i]) for i in range(n)])
    return value(every), float(((n - 1) / n * (left_out - left_out.mean()).square().sum()).sqrt())


def gradient(objective: Objective, reverse: ReverseProcess, x0: Tensor, seed: int, t: Tensor | None = None) -> Tensor:
    loss = objective(reverse, x0, t=t, generator=torch.Generator().manual_seed(seed)).mean()
    parts = torch.autograd.grad(loss, list(reverse.parameters()))
    return torch.cat([part.flatten() for part in parts]).double()


def fit(objective: Objective, reverse: ReverseProcess, data: Tensor) -> Times:
    """Return times with a density proportional to the root mean square gradient of single melodies."""
    times, generator = UniformTimes(), torch.Generator().manual_seed(1)
    t, _ = times.draw(LOOKS, generator=generator)
    rows = data[torch.randint(len(data), (LOOKS,), generator=generator)]
    norms = [gradient(objective, reverse, rows[i : i + 1], i, t[i : i + 1]).norm() for i in range(LOOKS)]
    return fitted_times(t, torch.stack(norms), parts=PARTS)


def train(reverse: ReverseProcess, optimizer: torch.optim.Optimizer, data: Tensor, steps: range) -> None:
    objective = CompleteElbo()
    for step in steps:
        generator = torch.Generator().manual_seed(10_000 + step)
        x0 = data[torch.randint(len(data), (BATCH,), generator=generator)]
        optimizer.zero_grad()
        objective(reverse, x0, generator=generator).mean().backward()
        torch.nn.utils.clip_grad_norm_(reverse.parameters(), 1.0)
        optimizer.step()


def measure(reverse: ReverseProcess, data: Tensor, draws: int) -> tuple[dict, dict]:
    """``{(objective, times): (ratio, error)}``; and at stratified times that over CompleteElbo's, and the cosine of the
    mean gradients: ``{objective: ((ratio, error), (cosine, error))}``."""
    generator = torch.Generator().manual_seed(2)
    batches = [data[torch.randint(len(data), (BATCH,), generator=generator)] for _ in range(draws)]

    def drawn(objective: Objective) -> Gradients:
        return Gradients(torch.stack([gradient(objective, reverse, x0, seed) for seed, x0 in enumerate(batches)]))

    plain = with_times(None)
    ratios, pairs = {}, {}
    reference = drawn(plain[REFERENCE])
    for name, objective in (plain | DISCRETE).items():
        found = reference if name == REFERENCE else drawn(objective)
        ratios[name, STRATIFIED] = found.noise_to_signal()
        pairs[name] = found.against(reference), found.cosine(reference)
    independent = with_times(UniformTimes(stratified=False))
    for name in TIMED:
        ratios[name, INDEPENDENT] = drawn(independent[name]).noise_to_signal()
        ratios[name, FITTED] = drawn(with_times(fit(plain[name], reverse, data))[name]).noise_to_signal()
    return ratios, pairs


def draw(results: dict[int, dict]) -> Figure:
    names = [*with_times(None), *DISCRETE]
    colours = dict(zip((INDEPENDENT, STRATIFIED, FITTED), ("0.6", "#6e016b", "#41ab5d"), strict=True))
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(11, 3.8), layout="constrained")
        panels = figure.subplots(1, len(results), sharex=True, sharey=True)
        for axes, (step, ratios) in zip(panels, results.items(), strict=True):
            for shift, (label, colour) in zip((-0.22, 0, 0.22), colours.items(), strict=True):
                found = [(place, *ratios[name, label]) for place, name in enumerate(names) if (name, label) in ratios]
                places, values, errors = zip(*found, strict=True)
                axes.errorbar(
                    values, [p + shift for p in places], xerr=errors, fmt="o", color=colour, markersize=4, label=label
                )
            axes.set(title=f"after {step} steps", xlabel="tr Cov(g) / |E g|², one batch of 16", xscale="log")
            axes.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100], ["0.5", "1", "2", "5", "10", "20", "50", "100"])
            axes.minorticks_off()
            axes.tick_params(bottom=True, labelbottom=True, labelsize=8, length=3)
            axes.grid(visible=True, axis="x", linewidth=0.3)
        panels[0].set_yticks(range(len(names)), names)
        panels[0].tick_params(left=True, labelleft=True, labelsize=8, length=0)
        panels[0].invert_yaxis()
        panels[-1].legend(fontsize=7, frameon=False)
    return figure


def rows_of(ratios: dict, pairs: dict) -> list[list[str]]:
    rows = []
    for name, (against, cosine) in pairs.items():
        cells = [ratios.get((name, label)) for label in (INDEPENDENT, STRATIFIED, FITTED)]
        rows.append([f"`{name}`", *map(show, cells), show(against), show(cosine, 3)])
    return rows


def show(found: tuple[float, float] | None, digits: int = 2) -> str:
    if found is None:
        return ""
    if math.isnan(found[0] + found[1]):
        return "not resolved"
    return f"{found[0]:.{digits}f} ± {found[1]:.{digits}f}" if found[1] > 1e-9 else f"{found[0]:g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", metavar="FILE", help="melodies, an .npz; random tunes if absent")
    parser.add_argument("--draws", type=int, default=32, help="gradients of each objective")
    parser.add_argument("--write", action="store_true", help="put figure and table into docs/objectives.md")
    options = parser.parse_args()
    if options.draws < 3:
        parser.error("--draws must be 3 or more: the errors come from leaving one out")
    torch.set_num_threads(1)

    torch.manual_seed(0)
    data = melodies(options.data)
    network = SequenceTransformer(STATES, width=64, depth=2, heads=4)
    reverse = ReverseProcess(Uniform(STATES, Constant(0.03)), NetworkDenoiser(network))
    optimizer = torch.optim.Adam(reverse.parameters(), lr=LEARNING_RATE)
    results, tables, done = {}, [], 0
    for step in STAGES:
        train(reverse, optimizer, data, range(done, step))
        done = step
        results[step], pairs = measure(reverse, data, options.draws)
        head = [
            f"after {step} steps",
            INDEPENDENT,
            STRATIFIED,
            FITTED,
            "stratified, over `CompleteElbo()`",
            "cosine with it",
        ]
        tables.append(table(head, rows_of(results[step], pairs)))
        print(tables[-1], flush=True)
    if options.write:
        save_png(draw(results), FIGURES / "objective_variance.png")
        source = "random tunes" if options.data is None else "melodies of the Lakh MIDI dataset (C. Raffel, CC BY 4.0)"
        count = sum(p.numel() for p in reverse.parameters())
        caption = (
            f"*`python diagnostics/objective_variance.py{' --data FILE' if options.data else ''} --write`: {source}, "
            f"batches of {BATCH}, {SITES} sites, {STATES} states, uniform noise with beta = 0.03; a transformer of "
            f"{count:,} parameters, seed 0, trained by Adam with rate {LEARNING_RATE:g} on `CompleteElbo()` for as "
            f"many steps as the tables say; {options.draws} draws of each gradient, the same batches for all; "
            f"jackknife standard errors. Fitted times: {PARTS} parts, from gradients of {LOOKS} single melodies.*"
        )
        picture = "![Relative variance of the gradient, by objective and times](figures/objective_variance.png)"
        write("objectives.md", "variance", "\n\n".join([picture, *tables, caption]))


if __name__ == "__main__":
    main()
