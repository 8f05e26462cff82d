"""Write docs/experiments/images.md from the results: python experiments/images/page.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from classifier import MIN_PROBABILITY
from evaluate import GROUPS, PIECE
from figures import (
    ANIMATED,
    COMPLETIONS,
    CORRECTOR_INTERVAL,
    CORRECTOR_LENGTH,
    CORRECTOR_STEPS,
    CORRECTOR_TIME,
    SHEET,
    SHOWN,
)
from models import D3PM_STEPS, MODELS
from rows import BUDGETS, KINDS, SWEEP, SWEEP_BUDGET
from time_experts import CUT

sys.path.append(str(Path(__file__).parents[1]))

from _prose import DOCS, write_page

RESULTS = Path(__file__).with_name("results")
MIN_DIGITS, MIN_RECOGNISED = 8, 0.9
PAPER = {  # Table 1: Inception Score, FID, bits/dim
    "d3pm-absorbing": (6.78, 30.97, 4.40),
    "d3pm-gaussian": (8.56, 7.34, 3.44),
    "tldr-0": (8.74, 8.10, 3.59),
    "tldr-10": (9.49, 3.74, 3.59),
}
FIGURES = {
    "images_samples.png": f"{SHEET} samples, one column per digit: {'; '.join(KINDS[name].label for name in SHOWN)}. "
    "Each has the largest number of evaluations in its rows of the table.",
    "images_sampling.gif": f"{ANIMATED} unconditional samples from noise to data, and beside them the most probable x0 "
    "of the denoiser.",
    "images_evaluations.png": "Frechet distance and fraction of recognised samples against network evaluations "
    "(as Figure 4, right), with standard errors; the table has the numbers of samples.",
    "images_steps.png": "Tau-leaping with the most evaluations of the table: fraction of sites that jump in a step, "
    "and fraction that leave 0..255 and are clamped.",
    "images_progress.png": "States of some sites of one unconditional sample over time.",
    "images_correctors.png": f"Two unconditional samples at t = {CORRECTOR_TIME:g}, then {CORRECTOR_STEPS} correctors "
    f"of length {CORRECTOR_LENGTH:g} at this time, shown every {CORRECTOR_INTERVAL}; below each state the most "
    "probable "
    "x0.",
    "images_completions.png": "Completion from the upper half, without a label: a test image, its observed half, and "
    f"{COMPLETIONS} completions.",
}
INTRODUCTION = """# Images: intensities as states

Section 6.2 and Appendix H.2 of the paper. The published run, a U-Net of 35.7 million weights trained for two million
steps on four GPUs, is `tauleap.recipes.cifar10`, which has been run for a few steps only (below). This page has the
paper's noise and samplers with networks that a CPU can train. The data is MNIST, 28 x 28 pixels with all 256 levels.
The model has two U-Nets with {weights} weights together: one for times before {cut:g}, and one for later times, which
uses patches of 2 x 2 pixels.
"""
DIFFERENCES = f"""The models differ as follows. The network for late times and that of D3PM absorbing are equal except
for the first and last layer; for absorbing noise the output is logits instead of a logistic distribution. All models
were trained without dropout, with some pixels observed in one of five cases, and with the class label in one of two
cases. The table of models below has their objectives, sizes and numbers of training images; a model that saw fewer
images is at a disadvantage. Our model has two networks, because most of the bound comes from early times, where single
pixels are denoised. The variance of that gradient would hide the signal about shapes at late times. The first network
is trained with the complete bound at all times, so it is a small model by itself, which has its own row and bits/dim;
it is used before {CUT:g}. The second is trained from {CUT:g} on, with the bound weighted in time so that its gradient
has the same norm at all times. At the end both are trained together with the bound for some steps. None of these is
the paper's L_eCT + 0.001 L_ll. D3PM Gauss starts from the same two networks, since it learns the same posterior, and
is then trained with its own hybrid loss with uniform times; it has our noise at {D3PM_STEPS} times, which differs
slightly from the kernel that its authors published. D3PM absorbing has one network and is trained from scratch. The
D3PM models are evaluated at these times only, end at 1/{D3PM_STEPS} and sample the clean image; the others end at 0.01
and take its most probable value. So the rows of one model compare samplers, and those of different models compare all
of this at once. The networks compute in half precision, as in training."""


def main() -> None:
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    rows, models, real, noise = (table[name] for name in ("rows", "models", "real", "noise"))
    parts = [
        INTRODUCTION.format(weights=f"{models['gaussian']['weights']:,}", cut=CUT),
        f"The Frechet distance is computed from the 64 features of a small classifier that the experiment trains, "
        f"against the {real['images']:,} test images. It is **not FID**, and compares these rows only with each other. "
        f"A set of {real['samples']} test images has the distance {cell(real['frechet'])} to the others. An image is "
        f"recognised if the classifier gives a digit a probability above {MIN_PROBABILITY:g}: "
        f"{percent(real['recognised'])} of test images are, but also {percent(noise['recognised'])} of images of "
        "uniform "
        f"noise, of which {percent(noise['fraction'])} are classified as {noise['digit']}. Therefore the table also "
        "has the "
        "effective number of different digits, the exponential of the entropy of the predicted classes: "
        f"{real['digits']:.1f} for test images. ± is a standard error: a jackknife over {GROUPS} groups for the "
        "distance, "
        "else over samples.",
        "",
        "Samples are class-conditional, with all ten labels equally often, except in rows called unconditional. The "
        "label "
        "accuracy is the fraction of samples that the classifier assigns to their label.",
        "",
        "## Samplers",
        "",
        *sampler_table(rows),
        "",
        DIFFERENCES.replace("\n", " "),
        "",
        "The distance of n samples has a positive bias of about a constant over n. So rows with different numbers of "
        "samples are compared in the list below, at equal numbers, and not in the table. The last column has the "
        "Inception Score and FID of the paper on CIFAR-10, which cannot be compared with these rows.",
        "",
        *verdicts(rows),
        f"*`python experiments/images/evaluate.py --data FILE`, seeds 0, 1, ... for each {PIECE} samples*",
        "",
        "## Correctors",
        "",
        *sweep_table(rows),
        "",
        "## Likelihood",
        "",
        *model_table(models),
        "",
        "bits/dim is the complete bound in continuous time, with the last step from t = 0.01, for all models, and not "
        "the bound in discrete time that the D3PM models were trained with. The network for late times does not have "
        "bits/dim by itself. The paper's values are those of CIFAR-10.",
        "",
        "*`python experiments/images/train.py MODEL --data FILE --steps N`, seed 0*",
        "",
        "## Figures",
        "",
        *figures(),
        "*`python experiments/images/figures.py --data FILE`, seed 0*",
        "",
        "`python experiments/images/all.py --data FILE` runs the whole experiment, from training to this page. FILE "
        "is a "
        "folder with MNIST's four idx files, or an `.npz` with `x_train`, `y_train`, `x_test` and `y_test`. Run the "
        "same "
        "command again to resume.",
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
        "| sampler and model | evaluations | samples | Frechet distance | recognised | label accuracy | digits "
        "| the paper's IS / FID |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in KINDS:
        for budget in BUDGETS:
            row = rows.get(f"{name}-{budget}")
            if row is None:
                continue
            paper = "{:.2f} / {:.2f}".format(*PAPER[name][:2]) if name in PAPER and budget == BUDGETS[-1] else ""
            lines.append(
                f"| {row['label']} | {row['evaluations']:.0f} | {row['samples']} | {cell(row['frechet'])} | "
                f"{percent(row['recognised'])} | "
                f"{'' if row['label_accuracy'] is None else percent(row['label_accuracy'])} | "
                f"{row['digits']:.1f} | {paper} |"
            )
    return lines


def sweep_table(rows: dict[str, Any]) -> list[str]:
    """Return a table of other settings of the correctors at one number of evaluations."""
    names = ("tldr-0", "tldr-3", "tldr-10", "ancestral")
    names = [name for name in (*(f"{name}-{SWEEP_BUDGET}" for name in names), *SWEEP) if name in rows]
    found = dict(zip(names, equal_samples(*(rows[name] for name in names)), strict=True))
    lines = [
        "| predictor and correctors | evaluations | samples | Frechet distance | recognised |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    lines += [
        f"| {row['label']} | {row['evaluations']:.0f} | {row['samples']} | {cell(row['frechet'])} | "
        f"{percent(row['recognised'])} |"
        for row in found.values()
    ]
    plain = [found[name] for name in (f"tldr-0-{SWEEP_BUDGET}", f"ancestral-{SWEEP_BUDGET}") if name in found]
    with_correctors = [row for row in found.values() if row not in plain]
    if plain and with_correctors:
        none, some = (min(group, key=lambda row: row["frechet"]["value"]) for group in (plain, with_correctors))
        gap, error = difference(some, none)
        lines += [
            "",
            f"The best of these with correctors ({some['label']}) minus the best without ({none['label']}), at about "
            f"{SWEEP_BUDGET} evaluations: {gap:+.2f} ± {error:.2f}, {'better' if gap < 0 else 'no better'} "
            f"with correctors{'' if abs(gap) > 2 * error else ', within two standard errors'}. The best row is chosen "
            "on "
            "the same samples, so its value is biased in its favour.",
        ]
    return lines


def model_table(models: dict[str, Any]) -> list[str]:
    lines = [
        "| model | objective | weights | steps | batch size | bits/dim of test images | the paper's |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in models.items():
        bits, before = found["bits"], found["begins_with"]
        paper = PAPER.get("tldr-0" if name == "gaussian" else name)
        after = (
            ""
            if found["steps"] == found["planned"]
            else f" of {found['planned']:,}, the horizon of the learning-rate decay"
        )
        after += f", after those of {' and '.join(MODELS[part].label for part in before)}" if before else ""
        measured = "" if bits is None else f"{cell(bits, 3)} ({bits['images']} images, {bits['times']} times each)"
        lines.append(
            f"| {found['label']} | `{found['objective']}` | {found['weights']:,} | {found['steps']:,}{after} | "
            f"{found['batch']} | {measured} | "
            f"{'' if paper is None else f'{paper[2]:.2f}'} |"
        )
    return lines


def equal_samples(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the rows with the smallest number of samples of any, since only equal numbers are comparable."""
    n = min((row["samples"] for row in rows), default=0)
    return [row | {"samples": n} | row["first"][str(n)] for row in rows]


def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """Return the difference of two distances and its standard error."""
    first, second = one["frechet"], other["frechet"]
    return first["value"] - second["value"], (first["stderr"] ** 2 + second["stderr"] ** 2) ** 0.5


def verdicts(rows: dict[str, Any]) -> list[str]:
    """Return a list of the effect of correctors at equal evaluations, and of the best rows."""
    lines = []
    for budget in BUDGETS:
        for name, plain in (("tldr-3", "tldr-0"), ("tldr-10", "tldr-0")):
            row, without = rows.get(f"{name}-{budget}"), rows.get(f"{plain}-{budget}")
            if row is None or without is None:
                continue
            row, without = equal_samples(row, without)
            gap, error = difference(row, without)
            lines.append(
                f"- {row['label']} with {row['evaluations']:.0f} evaluations minus {without['label']} with "
                f"{without['evaluations']:.0f}, the first {row['samples']} samples of each: {gap:+.2f} ± {error:.2f}."
            )
    table = [row for name, row in rows.items() if name not in SWEEP]
    good = [row for row in table if row["recognised"]["value"] >= MIN_RECOGNISED and row["digits"] > MIN_DIGITS]
    if good:
        names = "; ".join(
            f"{row['label']} with {row['evaluations']:.0f} ({percent(row['recognised'])})" for row in good
        )
        lines.append(f"- At least {MIN_RECOGNISED:.0%} recognised and more than {MIN_DIGITS} digits: {names}.")
    trapezoidal = rows.get(f"trapezoidal-{BUDGETS[-1]}")
    if trapezoidal is not None:
        fraction = sum(trapezoidal["clamped"]) / len(trapezoidal["clamped"])
        lines.append(
            f"- Trapezoidal steps extrapolate rates. With {trapezoidal['evaluations']:.0f} evaluations some "
            "extrapolated rate "
            f"is negative and set to 0 at {fraction:.0%} of the sites, averaged over steps. This is the likely reason "
            "why "
            "they fail here."
        )
    found = equal_samples(*table)
    if found:
        best = min(found, key=lambda row: row["frechet"]["value"])
        recognised = max(found, key=lambda row: (row["digits"] > MIN_DIGITS, row["recognised"]["value"]))
        lines.append(
            f"- With the first {best['samples']} samples of each row the smallest distance, {cell(best['frechet'])}, "
            "is "
            f"that of {best['label']} at {best['evaluations']:.0f} evaluations. Among rows with more than {MIN_DIGITS} "
            f"digits, {recognised['label']} at {recognised['evaluations']:.0f} has the most recognised samples, "
            f"{percent(recognised['recognised'])}. Both are the best of {len(found)} rows on the samples on which "
            "they were "
            "chosen, so their values are biased in their favour."
        )
    return [*lines, ""]


def figures() -> list[str]:
    lines = []
    for name, caption in FIGURES.items():
        if (DOCS / "figures" / name).exists():
            lines += [f"![{caption}](../figures/{name})", "", f"*{caption}*", ""]
    return lines


def published() -> list[str]:
    """Return the results of some steps of the published recipe, if they exist."""
    path = RESULTS / "cifar10.json"
    if not path.exists():
        return []
    found = json.loads(path.read_text(encoding="utf-8"))
    loss = found["loss"]
    return [
        "## The published recipe",
        "",
        f"`tauleap.recipes.cifar10`, {found['weights']:,} weights, for {found['steps']} steps of {found['batch']} real "
        f"CIFAR-10 images on a CPU, seed {found['seed']}: the loss of {loss['images']} test images, "
        f"{loss['before']:,.0f} nats per image without the constants that the paper drops, changed by "
        f"{loss['change']:,.0f} ± {loss['stderr']:,.0f} at the same times and with the same noise. bits/dim "
        f"of {found['bits']['images']} test images is then {cell(found['bits'])}, and {found['samples']} images were "
        f"sampled with {found['evaluations']} evaluations. This shows only that all parts of the recipe run; the "
        "model is "
        "not trained.",
        "",
        "*`python experiments/images/cifar10.py --data FILE`*",
        "",
    ]


if __name__ == "__main__":
    main()
