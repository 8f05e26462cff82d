"""Writes docs/experiments/images.md from the results: python experiments/images/page.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from models import D3PM_STEPS
from rows import BUDGETS, KINDS, SWEEP, SWEEP_BUDGET

sys.path.append(str(Path(__file__).parents[1]))

from _prose import DOCS, write_page

RESULTS = Path(__file__).with_name("results")
PAPER = {  # Table 1: Inception Score, FID, bits/dim
    "d3pm-absorbing": (6.78, 30.97, 4.40),
    "d3pm-gaussian": (8.56, 7.34, 3.44),
    "tldr-0": (8.74, 8.10, 3.59),
    "tldr-10": (9.49, 3.74, 3.59),
}
FIGURES = {
    "images_samples.png": "64 samples each: {samples}, {largest} evaluations.",
    "images_sampling.gif": "Sixteen samples from noise to data, and the denoiser's guess beside them.",
    "images_evaluations.png": "Against evaluations of the network, with standard errors (as Figure 4, right).",
    "images_training.png": "bits/dim of validation images while training.",
    "images_steps.png": "Tau-leaping with {largest} evaluations: the proportion of sites that jump in a step, and that "
    "end outside of 0..255 and are clamped.",
    "images_progress.png": "Some sites of one sample on their way.",
    "images_correctors.png": "1000 correctors of length 0.001 with the time held at 0.4, a picture every hundred; "
    "below each state the denoiser's guess.",
    "images_completions.png": "The upper half given: a test image, what the model sees of it, and five completions.",
}
INTRODUCTION = """# Images: intensities as states

Section 6.2 and Appendix H.2 of the paper. The published run, a U-Net of 35.7 million weights trained for two million
steps on four GPUs, is `tauleap.recipes.cifar10`, which has been tried for a few steps only (below). What follows is the
same code in a size that a CPU trains: MNIST, 28 x 28 pixels with all 256 levels, and a U-Net of {weights} weights.
"""


def main() -> None:
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    rows, models, real = table["rows"], table["models"], table["real"]
    weights = f"{models['gaussian']['weights']:,}"
    parts = [
        INTRODUCTION.format(weights=weights),
        f"The Frechet distance is taken on the 64 features of a small classifier that the experiment trains itself, "
        f"against the {real['images']:,} test images: it is **not FID**, and compares these rows with each other only. "
        f"{real['samples']} test images against the others have {cell(real['frechet'])}, and the classifier is sure of "
        f"{percent(real['recognised'])} of test images (a digit with more than 0.9). ± is a standard error: for the "
        "distance a jackknife over ten groups, else over samples.",
        "",
        "## Samplers",
        "",
        *sampler_table(rows),
        "",
        f"The networks compute in half precision, as in training. D3PM Gauss is trained on our noise cut at "
        f"{D3PM_STEPS} times, which is not quite the kernel that its authors published; with fewer evaluations it and "
        "the absorbing model skip times. The paper's numbers are of CIFAR-10 and say nothing of these.",
        "",
        *verdicts(rows),
        "*`python experiments/images/evaluate.py --data FILE`, seeds 0, 1, ... for each hundred samples*",
        "",
        "## Correctors",
        "",
        *sweep_table(rows),
        "",
        "## Likelihood",
        "",
        *model_table(models),
        "",
        "*`python experiments/images/train.py MODEL --data FILE --steps N`, seed 0*",
        "",
        "## Pictures",
        "",
        *figures(rows),
        "*`python experiments/images/figures.py --data FILE`, seed 0; then `page.py`*",
        "",
        *published(),
    ]
    write_page("images", parts)


def cell(found: dict[str, float], digits: int = 2) -> str:
    return f"{found['value']:.{digits}f} ± {found['stderr']:.{digits}f}"


def percent(found: dict[str, float]) -> str:
    return f"{100 * found['value']:.1f} ± {100 * found['stderr']:.1f} %"


def sampler_table(rows: dict[str, Any]) -> list[str]:
    lines = [
        "| sampler and model | evaluations | samples | Frechet distance | recognised | the paper's IS / FID |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in KINDS:
        for budget in BUDGETS:
            row = rows.get(f"{name}-{budget}")
            if row is None:
                continue
            paper = "{:.2f} / {:.2f}".format(*PAPER[name][:2]) if name in PAPER and budget == BUDGETS[-1] else ""
            lines.append(
                f"| {row['label']} | {row['evaluations']:.0f} | {row['samples']} | {cell(row['frechet'])} | "
                f"{percent(row['recognised'])} | {paper} |"
            )
    return lines


def sweep_table(rows: dict[str, Any]) -> list[str]:
    """Other settings of the correctors at one budget, beside none and the paper's."""
    names = [f"{name}-{SWEEP_BUDGET}" for name in ("tldr-0", "tldr-3", "tldr-10", "ancestral", "corrected")] + list(
        SWEEP
    )
    found = [rows[name] for name in names if name in rows]
    lines = ["| correctors | evaluations | Frechet distance | recognised |", "| --- | ---: | ---: | ---: |"]
    return lines + [
        f"| {row['label']} | {row['evaluations']:.0f} | {cell(row['frechet'])} | {percent(row['recognised'])} |"
        for row in found
    ]


def model_table(models: dict[str, Any]) -> list[str]:
    lines = ["| model | weights | steps | bits/dim of test images |", "| --- | ---: | ---: | ---: |"]
    for found in models.values():
        bits = found["bits"]
        lines.append(
            f"| {found['label']} | {found['weights']:,} | {found['steps']} | {cell(bits, 3)} "
            f"({bits['images']} images, {bits['times']} times each) |"
        )
    return lines


def verdicts(rows: dict[str, Any]) -> list[str]:
    """Whether correctors help at equal evaluations, and who is best."""
    lines = []
    for budget in BUDGETS:
        plain = rows.get(f"tldr-0-{budget}")
        for name in ("tldr-3", "tldr-10"):
            row = rows.get(f"{name}-{budget}")
            if plain is None or row is None:
                continue
            gap = row["frechet"]["value"] - plain["frechet"]["value"]
            error = (row["frechet"]["stderr"] ** 2 + plain["frechet"]["stderr"] ** 2) ** 0.5
            lines.append(f"- {KINDS[name].label} minus tLDR-0 at {budget} evaluations: {gap:+.2f} ± {error:.2f}.")
    found = [row for name, row in rows.items() if name not in SWEEP]
    if found:
        best = min(found, key=lambda row: row["frechet"]["value"])
        sure = max(found, key=lambda row: row["recognised"]["value"])
        lines.append(
            f"- The least distance, {cell(best['frechet'])}, is that of {best['label']} at {best['evaluations']:.0f} "
            f"evaluations; most recognised, {percent(sure['recognised'])}, are those of {sure['label']} at "
            f"{sure['evaluations']:.0f}."
        )
    return [*lines, ""]


def figures(rows: dict[str, Any]) -> list[str]:
    lines = []
    shown = [kind.label for name, kind in KINDS.items() if f"{name}-{BUDGETS[-1]}" in rows and name in _SHEETS]
    for name, caption in FIGURES.items():
        if (DOCS / "figures" / name).exists():
            caption = caption.format(samples="; ".join(shown), largest=BUDGETS[-1])
            lines += [f"![{caption}](../figures/{name})", "", f"*{caption}*", ""]
    return lines


_SHEETS = ("tldr-0", "ancestral", "d3pm-gaussian", "d3pm-absorbing")


def published() -> list[str]:
    """The published recipe for some steps, where it has been tried."""
    path = RESULTS / "cifar10.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    before, after = found["loss"]["before"], found["loss"]["after"]
    return [
        "## The published recipe",
        "",
        f"`tauleap.recipes.cifar10`, {found['weights']:,} weights, for {found['steps']} steps of {found['batch']} real "
        f"CIFAR-10 images on a CPU, seed {found['seed']}: the loss of {found['loss']['images']} test images, at the "
        f"same times and with the same noise, fell from {before:,.0f} to {after:,.0f} (it lacks constants). bits/dim "
        f"of {found['bits']['images']} test images is then {cell(found['bits'])}, and {found['samples']} images were "
        f"drawn with {found['evaluations']} evaluations. That is no model yet; it shows that all of the recipe runs.",
        "",
        "*`python experiments/images/cifar10.py --data FILE`*",
        "",
    ]


if __name__ == "__main__":
    main()
