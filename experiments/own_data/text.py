"""Compare absorbing with uniform noise on Shakespeare in windows of 64 characters: same network, steps and batches.

    python experiments/own_data/text.py --data FILE --noise absorbing
    python experiments/own_data/text.py --data FILE --noise uniform

FILE is an .npz with ``train`` and ``test``, one axis of character numbers each, and ``vocab``, the characters. Each
command trains in runs/text-NOISE, computes bits/char of the test text, samples, and writes docs/experiments/text.md and
its figure from all results so far. Run the same command again to resume.
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
    """Return a process with one more state than characters for both kinds of noise, so that the networks are equal."""
    if noise == "absorbing":
        return tl.noise.Absorbing(characters + 1, tl.noise.LogLinear())
    prior = torch.full((characters + 1,), 1 / characters, dtype=torch.float64)
    prior[-1] = 0.0
    return tl.noise.RankOne(prior, tl.noise.LogLinear())


def recipe(arguments: argparse.Namespace, rows: Tensor, held_out: Tensor, characters: int) -> Recipe:
    """Return the recipe; every window of the training text is a row."""

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
    parser.add_argument("--steps", type=int, default=6000, help="training steps (default: 6000)")
    parser.add_argument(
        "--minutes", type=float, default=None, help="stop after this time; run the same command again to resume"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--windows", type=int, default=None, help="windows of the test text to evaluate. Default: all")
    parser.add_argument("--out", type=Path, default=None, help="folder of the run. Default: runs/text-NOISE")
    arguments = parser.parse_args()

    with np.load(arguments.data, allow_pickle=False) as arrays:
        train_text, test = torch.from_numpy(arrays["train"]), torch.from_numpy(arrays["test"])
        vocab = [str(character) for character in arrays["vocab"].tolist()]
    held_out = test[: len(test) // LENGTH * LENGTH].reshape(-1, LENGTH)
    out = arguments.out or Path("runs") / f"text-{arguments.noise}"
    chosen_recipe = recipe(arguments, train_text.unfold(0, LENGTH, 1), held_out, len(vocab))
    result = train(chosen_recipe, Run(out, minutes=arguments.minutes, tensorboard=False))
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
        generator=make_generator(arguments),
        progress=True,
    )
    print(f"{arguments.noise}: {found} bits/char")
    drawn = sample(
        model.reverse,
        Ancestral(),
        (SAMPLES, LENGTH),
        grid=uniform_grid(SAMPLE_STEPS, end=0.001),
        final="sample",
        generator=make_generator(arguments),
    )
    RESULTS.mkdir(exist_ok=True)
    result_values = {
        "noise": arguments.noise,
        "steps": result.step,
        "seed": arguments.seed,
        "weights": sum(p.numel() for p in model.denoiser.parameters()),
        "bits": [found.value, found.stderr, found.n],
        "minutes": trained_minutes(out),
        "curve": [[int(r["step"]), float(r["bits_per_dim"]), float(r["stderr"])] for r in rows_of(out, "validation")],
        "samples": ["".join(vocab[state] for state in row) for row in drawn.x0.tolist()],
        "counts": {word: by_counts(train_text, test, len(vocab), order) for order, word in enumerate(ORDERS, start=1)},
    }
    (RESULTS / f"text-{arguments.noise}.json").write_text(json.dumps(result_values, indent=1) + "\n", encoding="utf-8")
    write_page()


def make_generator(arguments: argparse.Namespace) -> torch.Generator:
    return torch.Generator().manual_seed(arguments.seed)


def rows_of(out: Path, kind: str) -> list[dict[str, str]]:
    with (out / f"{kind}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def trained_minutes(out: Path) -> float:
    """Return the time of all training steps, over all restarts of the run."""
    steps, seconds = 0, 0.0
    for row in rows_of(out, "train"):
        seconds += (int(row["step"]) - steps) / float(row["steps_per_second"])
        steps = int(row["step"])
    return seconds / 60


def by_counts(train_text: Tensor, test: Tensor, characters: int, order: int) -> float:
    """Return bits/char of the test text by counts of ``order`` consecutive characters plus 1."""

    def places(text: Tensor) -> Tensor:
        windows = text.long().unfold(0, order, 1)
        return (windows * characters ** torch.arange(order - 1, -1, -1)).sum(1)

    counts = torch.bincount(places(train_text), minlength=characters**order).double().reshape(-1, characters) + 1
    log_probs = (counts / counts.sum(1, keepdim=True)).log2().reshape(-1)
    return -float(log_probs[places(test)].mean())


def write_page() -> None:
    """Write the page and its figure from all results so far."""
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
                f"Tiny Shakespeare, windows of {LENGTH} characters, evaluated {len(first['curve'])} times on test "
                f"windows during training. A sequence transformer (width {WIDTH}, depth {DEPTH}), `CompleteElbo`, "
                "batches "
                f"of {BATCH} windows at any position of the training text; both kinds of noise with the same "
                "network, steps, order of the "
                "data and log-linear schedule. bits/char is the complete bound on the windows of the test text, "
                f"{TIMES} times each. Baselines, counts of one, two and three consecutive characters: {counts}"
                f"{'' if beats else '; no model is better than the last'}. One run each.",
                "",
                "| noise | bits/char, test | windows | steps | minutes of training | weights | seed |",
                "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
                *rows,
                "",
                "![bits/char while training](../figures/text.png)",
                "",
                f"Samples are the first {SAMPLES} of the seed, by `Ancestral()` in {SAMPLE_STEPS} steps from 1 to "
                "0.001, separated by lines of dashes.",
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
    """Draw bits/char of the validation windows against steps."""
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
            side = "bottom" if word == "two" else "top"  # on the side without curves
            axes.text(axes.get_xlim()[1], level, f"counts of {word} ", ha="right", va=side, fontsize=8, color="0.4")
        axes.set_xlabel("steps")
        axes.set_ylabel("bits/char, 256 test windows")
        axes.legend(frameon=False)
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        save_png(figure, FIGURE)


if __name__ == "__main__":
    main()
