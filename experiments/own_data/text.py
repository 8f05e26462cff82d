"""Characters of Shakespeare in windows of 64: absorbing against uniform noise, same network, steps, batches and times.

    python experiments/own_data/text.py --data FILE --noise absorbing
    python experiments/own_data/text.py --data FILE --noise uniform

FILE is an .npz with ``train`` and ``test``, one axis of character numbers each, and ``vocab``, the characters. Each
command trains in runs/text-NOISE, resumes there when it is run again, measures bits/char on the test text, draws
samples, and writes docs/experiments/text.md and its figure from what has been measured so far.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

import tauleap as tl
from tauleap.data import Dataset
from tauleap.evaluate import bits_per_dim
from tauleap.sampling import Ancestral, sample, uniform_grid
from tauleap.training import Recipe, Run, Settings, train

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results")
PAGE, FIGURE = ROOT / "docs" / "experiments" / "text.md", ROOT / "docs" / "figures" / "text.png"
LENGTH, WIDTH, DEPTH, HEADS = 64, 128, 4, 4
BATCH, SAMPLE_STEPS, SAMPLES, TIMES = 32, 128, 6, 8
NOISES = ("absorbing", "uniform")
ORDERS = ("one", "two", "three")


def process(noise: str, characters: int) -> tl.noise.ForwardProcess:
    """Both have one state more than there are characters, so that the networks have the same weights."""
    if noise == "absorbing":
        return tl.noise.Absorbing(characters + 1, tl.noise.LogLinear())
    prior = torch.full((characters + 1,), 1 / characters, dtype=torch.float64)
    prior[-1] = 0.0
    return tl.noise.RankOne(prior, tl.noise.LogLinear())


def recipe(arguments: argparse.Namespace, rows: Tensor, held_out: Tensor, characters: int) -> Recipe:
    """Every window of the training text is a row."""

    def model() -> tl.Model:
        network = tl.network.SequenceTransformer(characters + 1, width=WIDTH, depth=DEPTH, heads=HEADS)
        denoiser = tl.denoise.NetworkDenoiser(network)
        return tl.Model(process(arguments.noise, characters), denoiser, shape=(LENGTH,))

    return Recipe(
        name=f"text, {arguments.noise} noise",
        data=lambda: (Dataset(rows, characters), Dataset(held_out, characters)),
        model=model,
        objective=tl.objective.CompleteElbo(),
        settings=Settings(
            batch_size=BATCH,
            lr=2e-3,
            warmup=200,
            ema=0.999,
            steps=arguments.steps,
            seed=arguments.seed,
            checkpoint_every=250,
            log_every=50,
            validate_every=max(100, arguments.steps // 16),
            validation_rows=256,
        ),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and vocab")
    parser.add_argument("--noise", choices=NOISES, required=True)
    parser.add_argument("--steps", type=int, default=6000, help="of training")
    parser.add_argument("--minutes", type=float, default=None, help="stop earlier; the same command resumes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=None, help="of the test text to measure; all if absent")
    parser.add_argument("--out", type=Path, default=None, help="runs/text-NOISE if absent")
    arguments = parser.parse_args()

    with np.load(arguments.data, allow_pickle=False) as arrays:
        learnt, test = torch.from_numpy(arrays["train"]), torch.from_numpy(arrays["test"])
        vocab = [str(character) for character in arrays["vocab"].tolist()]
    held_out = test[: len(test) // LENGTH * LENGTH].reshape(-1, LENGTH)
    out = arguments.out or Path("runs") / f"text-{arguments.noise}"
    made = recipe(arguments, learnt.unfold(0, LENGTH, 1), held_out, len(vocab))
    result = train(made, Run(out, minutes=arguments.minutes, tensorboard=False))
    print(f"{result.stopped} at step {result.step}")
    if result.stopped != "finished":
        print("run the same command again to resume")
        return

    model = tl.load(result.checkpoint)
    found = bits_per_dim(
        model.reverse,
        held_out[: arguments.windows].long(),
        samples=TIMES,
        batch_size=256,
        generator=seeded(arguments),
        progress=True,
    )
    print(f"{arguments.noise}: {found} bits/char")
    drawn = sample(
        model.reverse,
        Ancestral(),
        (SAMPLES, LENGTH),
        grid=uniform_grid(SAMPLE_STEPS, end=0.001),
        final="sample",
        generator=seeded(arguments),
    )
    RESULTS.mkdir(exist_ok=True)
    kept = {
        "noise": arguments.noise,
        "steps": result.step,
        "seed": arguments.seed,
        "weights": sum(p.numel() for p in model.denoiser.parameters()),
        "bits": [found.value, found.stderr, found.n],
        "minutes": trained_minutes(out),
        "curve": [[int(r["step"]), float(r["bits_per_dim"]), float(r["stderr"])] for r in rows_of(out, "validation")],
        "samples": ["".join(vocab[state] for state in row) for row in drawn.x0.tolist()],
        "counts": {word: by_counts(learnt, test, len(vocab), order) for order, word in enumerate(ORDERS, start=1)},
    }
    (RESULTS / f"text-{arguments.noise}.json").write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    write_page()


def seeded(arguments: argparse.Namespace) -> torch.Generator:
    return torch.Generator().manual_seed(arguments.seed)


def rows_of(out: Path, kind: str) -> list[dict[str, str]]:
    with (out / f"{kind}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def trained_minutes(out: Path) -> float:
    """The time of the steps alone, over all the starts of the run."""
    steps, seconds = 0, 0.0
    for row in rows_of(out, "train"):
        seconds += (int(row["step"]) - steps) / float(row["steps_per_second"])
        steps = int(row["step"])
    return seconds / 60


def by_counts(learnt: Tensor, test: Tensor, characters: int, order: int) -> float:
    """Bits/char of the test text by counts of ``order`` characters in a row; 1 is added to each count."""

    def places(text: Tensor) -> Tensor:
        windows = text.long().unfold(0, order, 1)
        return (windows * characters ** torch.arange(order - 1, -1, -1)).sum(1)

    counts = torch.bincount(places(learnt), minlength=characters**order).double().reshape(-1, characters) + 1
    log_probs = (counts / counts.sum(1, keepdim=True)).log2().reshape(-1)
    return -float(log_probs[places(test)].mean())


def write_page() -> None:
    """The page and its figure, from the results of whatever has been run."""
    paths = [RESULTS / f"text-{noise}.json" for noise in NOISES]
    results = [json.loads(path.read_text(encoding="utf-8")) for path in paths if path.exists()]
    draw(results)
    rows = []
    for found in results:
        value, stderr, n = found["bits"]
        rows.append(
            f"| {found['noise']} | {value:.3f} ± {stderr:.3f} | {n} | {found['steps']} | {found['minutes']:.0f} | "
            f"{found['weights']:,} | {found['seed']} |"
        )
    first = results[0]
    counts = ", ".join(f"{first['counts'][word]:.2f}" for word in ORDERS)
    beats = min(found["bits"][0] for found in results) < first["counts"][ORDERS[-1]]
    blocks = []
    for found in results:
        shown = "\n---\n".join(found["samples"])
        blocks.append(f"Samples, {found['noise']} noise:\n\n```text\n{shown}\n```")
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(
        "\n".join(
            [
                "# Text: absorbing against uniform noise",
                "",
                f"Tiny Shakespeare, windows of {LENGTH} characters, measured {len(first['curve'])} times on test "
                f"windows on the way. A sequence transformer (width {WIDTH}, depth {DEPTH}), `CompleteElbo`, batches "
                f"of {BATCH} windows that begin anywhere in the training text; both kinds of noise with the same "
                "network, steps, order of the "
                "data and log-linear schedule. bits/char is the complete bound on the windows of the test text, "
                f"{TIMES} times each. For comparison, by counts of one, two and three characters in a row: {counts}"
                f"{'' if beats else '; none of the models beats the last'}. One run each.",
                "",
                "| noise | bits/char, test | windows | steps | minutes of steps | weights | seed |",
                "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
                *rows,
                "",
                "![bits/char while training](../figures/text.png)",
                "",
                f"Samples are the first {SAMPLES} of the seed, by `Ancestral()` in {SAMPLE_STEPS} steps from 1 to "
                "0.001, a line of dashes between them.",
                "",
                "\n\n".join(blocks),
                "",
                *(
                    f"*`python experiments/own_data/text.py --data FILE --noise {found['noise']} "
                    f"--steps {found['steps']} --seed {found['seed']}`*\n"
                    for found in results
                ),
            ]
        ).rstrip()
        + "\n",
        encoding="utf-8",
    )
    print(f"written: {PAGE.relative_to(ROOT)} and {FIGURE.relative_to(ROOT)}")


def draw(results: list[dict]) -> None:
    """bits/char of the validation windows against steps."""
    import matplotlib
    from matplotlib.figure import Figure

    from tauleap.evaluate.plots import STYLE, save_png

    shown = {"xtick.bottom": True, "xtick.labelbottom": True, "ytick.left": True, "ytick.labelleft": True}
    with matplotlib.rc_context(STYLE | shown):
        figure = Figure(figsize=(5.5, 3.4), layout="constrained")
        axes = figure.subplots()
        for found, colour in zip(results, ("#6e016b", "#41b6c4"), strict=False):
            steps, bits, errors = zip(*found["curve"], strict=True)
            axes.errorbar(steps, bits, errors, color=colour, label=f"{found['noise']} noise", linewidth=1.5)
        for word in ORDERS[1:]:
            level = results[0]["counts"][word]
            axes.axhline(level, color="0.6", linewidth=0.8, linestyle="--")
            side = "bottom" if word == "two" else "top"  # away from the curves
            axes.text(axes.get_xlim()[1], level, f"counts of {word} ", ha="right", va=side, fontsize=8, color="0.4")
        axes.set_xlabel("steps")
        axes.set_ylabel("bits/char, 256 test windows")
        axes.legend(frameon=False)
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        save_png(figure, FIGURE)


if __name__ == "__main__":
    main()
