"""Writes docs/experiments/images.md from the results: python experiments/images/page.py"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from classifier import SURE
from evaluate import GROUPS, PIECE
from figures import COMPLETIONS, FILMED, HELD_AT, HELD_EVERY, HELD_LENGTH, HELD_STEPS, SHEET, SHOWN
from models import D3PM_STEPS, MODELS
from rows import BUDGETS, KINDS, SWEEP, SWEEP_BUDGET
from time_experts import CUT

sys.path.append(str(Path(__file__).parents[1]))

from _prose import DOCS, write_page

RESULTS = Path(__file__).with_name("results")
VARIOUS, ENOUGH = 8, 0.9
PAPER = {  # Table 1: Inception Score, FID, bits/dim
    "d3pm-absorbing": (6.78, 30.97, 4.40),
    "d3pm-gaussian": (8.56, 7.34, 3.44),
    "tldr-0": (8.74, 8.10, 3.59),
    "tldr-10": (9.49, 3.74, 3.59),
}
FIGURES = {
    "images_samples.png": f"{SHEET} samples each, a column a digit: {'; '.join(KINDS[name].label for name in SHOWN)}. "
    "Each with the largest number of evaluations that it has in the table.",
    "images_sampling.gif": f"{FILMED} samples from noise to data, not told the digit, and the denoiser's guess beside "
    "them.",
    "images_evaluations.png": "Against evaluations of the network, with standard errors (as Figure 4, right); "
    "the numbers of samples are those of the table.",
    "images_steps.png": "Tau-leaping with the most evaluations of the table: the proportion of sites that jump in a "
    "step, and that end outside of 0..255 and are clamped.",
    "images_progress.png": "Some sites of one sample, not told the digit, on their way.",
    "images_correctors.png": f"Two samples, not told the digit, brought down to t = {HELD_AT:g}, then {HELD_STEPS} "
    "correctors of length "
    f"{HELD_LENGTH:g} with the time held, a picture every {HELD_EVERY}; below each state the denoiser's guess.",
    "images_completions.png": "The upper half given, and not the digit: a test image, what the model sees of it, and "
    f"{COMPLETIONS} completions.",
}
INTRODUCTION = """# Images: intensities as states

Section 6.2 and Appendix H.2 of the paper. The published run, a U-Net of 35.7 million weights trained for two million
steps on four GPUs, is `tauleap.recipes.cifar10`, which has been tried for a few steps only (below). What follows is the
paper's noise and samplers with networks that a CPU trains: MNIST, 28 x 28 pixels with all 256 levels, and U-Nets of
{weights} weights together, one for times before {cut:g} and one, which begins at patches of 2 x 2 pixels, from there
on.
"""
DIFFERENCES = f"""What differs between the models, so that nobody reads more into the rows than is there. The network
for late times and that of D3PM absorbing are one but for the first and last layer, with logits in the place of a
logistic for absorbing noise. All models had no dropout, pixels given in one of five cases, and were told the digit in
one of two cases. With what they were trained, how large they are and how many images they have seen is in the table of
models below, and one that has seen fewer is at a disadvantage. Our model has two networks, because the bound is nearly
all at early times, where pixels are cleaned, and the noise of its gradient drowns what is to be learnt of shapes at
late times. One is trained with the complete bound at all times, so that it is a small model by itself, which has a row
and its bits/dim too, and is used before {CUT:g}; the other is trained from {CUT:g} on, with the bound weighted in time
so that its gradient is as large at one time as at another; and at the end both are trained for some steps with the
bound. None of it is the paper's L_eCT + 0.001 L_ll. D3PM Gauss begins with the same two networks, as the posterior that
it learns is the same, and is then trained with its own hybrid loss at even times; it has our noise cut at {D3PM_STEPS}
times, which is not quite the kernel that its authors published. D3PM absorbing has one network and begins with nothing.
The D3PM models are asked at these times only, end at 1/{D3PM_STEPS} and draw the clean image; the others end at 0.01
and take its most probable value. So the rows of one model compare samplers, and those of different models compare all
of this at once. The networks compute in half precision, as in training."""


def main() -> None:
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    rows, models, real, noise = (table[name] for name in ("rows", "models", "real", "noise"))
    parts = [
        INTRODUCTION.format(weights=f"{models['gaussian']['weights']:,}", cut=CUT),
        f"The Frechet distance is taken on the 64 features of a small classifier that the experiment trains itself, "
        f"against the {real['images']:,} test images: it is **not FID**, and compares these rows with each other only. "
        f"{real['samples']} test images against the others have {cell(real['frechet'])}, and the classifier is sure of "
        f"{percent(real['recognised'])} of test images (a digit with more than {SURE:g}). It is sure of "
        f"{percent(noise['recognised'])} of pictures of even noise too, of which it takes {percent(noise['share'])} "
        f"for the digit {noise['digit']}, so the table has the number of different digits too, as the exponential of "
        f"the entropy of what is seen: {real['digits']:.1f} for test images. ± is a standard error: for "
        f"the distance a jackknife over {GROUPS} groups, else over samples.",
        "",
        "A picture is drawn by choosing a digit, each as often as another, and telling the network; the table says how "
        "often the classifier takes the picture for that digit. Where a row says so, the network is not told.",
        "",
        "## Samplers",
        "",
        *sampler_table(rows),
        "",
        DIFFERENCES.replace("\n", " "),
        "",
        "The distance of few samples is too large by about a constant over their number, so that rows with different "
        "numbers compare by the lines below, at the same number, and not by the table. The last column is the paper's, "
        "of CIFAR-10, Inception Score and FID: it says nothing of these rows.",
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
        "bits/dim is the complete bound in continuous time, with the last step from t = 0.01, for all models; it is "
        "not the bound in discrete time that the D3PM models were trained with. The network for late times has none of "
        "its own. The paper's are of CIFAR-10.",
        "",
        "*`python experiments/images/train.py MODEL --data FILE --steps N`, seed 0*",
        "",
        "## Pictures",
        "",
        *figures(),
        "*`python experiments/images/figures.py --data FILE`, seed 0*",
        "",
        "All of this, from training to the page, is `python experiments/images/all.py --data FILE`, where FILE is a "
        "folder with MNIST's four idx files or an `.npz` with `x_train`, `y_train`, `x_test` and `y_test`. It goes on "
        "where it was stopped.",
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
        "| sampler and model | evaluations | samples | Frechet distance | recognised | the digit asked for | digits "
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
                f"{percent(row['recognised'])} | {'' if row['obeyed'] is None else percent(row['obeyed'])} | "
                f"{row['digits']:.1f} | {paper} |"
            )
    return lines


def sweep_table(rows: dict[str, Any]) -> list[str]:
    """Other settings of the correctors at one budget, beside none and the paper's."""
    names = ("tldr-0", "tldr-3", "tldr-10", "ancestral")
    names = [name for name in (*(f"{name}-{SWEEP_BUDGET}" for name in names), *SWEEP) if name in rows]
    found = dict(zip(names, alike(*(rows[name] for name in names)), strict=True))
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
    with_some = [row for row in found.values() if row not in plain]
    if plain and with_some:
        none, some = (min(group, key=lambda row: row["frechet"]["value"]) for group in (plain, with_some))
        gap, error = difference(some, none)
        lines += [
            "",
            f"The best of these with correctors ({some['label']}) minus the best without ({none['label']}), at about "
            f"{SWEEP_BUDGET} evaluations: {gap:+.2f} ± {error:.2f}, {'better' if gap < 0 else 'no better'} "
            f"with correctors{'' if abs(gap) > 2 * error else ', within two standard errors'}. The best of several is "
            "chosen on the same samples, which flatters it.",
        ]
    return lines


def model_table(models: dict[str, Any]) -> list[str]:
    lines = [
        "| model | objective | weights | steps | of images | bits/dim of test images | the paper's |",
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name, found in models.items():
        bits, before = found["bits"], found["begins_with"]
        paper = PAPER.get("tldr-0" if name == "gaussian" else name)
        after = "" if found["steps"] == found["planned"] else f" of {found['planned']:,} for which the rate was to fall"
        after += f", after those of {' and '.join(MODELS[part].label for part in before)}" if before else ""
        measured = "" if bits is None else f"{cell(bits, 3)} ({bits['images']} images, {bits['times']} times each)"
        lines.append(
            f"| {found['label']} | `{found['objective']}` | {found['weights']:,} | {found['steps']:,}{after} | "
            f"{found['batch']} | {measured} | "
            f"{'' if paper is None else f'{paper[2]:.2f}'} |"
        )
    return lines


def alike(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """The rows with as many samples as the one that has fewest: only distances of equal numbers compare."""
    n = min((row["samples"] for row in rows), default=0)
    return [row | {"samples": n} | row["first"][str(n)] for row in rows]


def difference(one: dict[str, Any], other: dict[str, Any]) -> tuple[float, float]:
    """Of two distances, with its standard error."""
    first, second = one["frechet"], other["frechet"]
    return first["value"] - second["value"], (first["stderr"] ** 2 + second["stderr"] ** 2) ** 0.5


def verdicts(rows: dict[str, Any]) -> list[str]:
    """Whether correctors help at equal evaluations, and who is best."""
    lines = []
    for budget in BUDGETS:
        for name, plain in (("tldr-3", "tldr-0"), ("tldr-10", "tldr-0")):
            row, without = rows.get(f"{name}-{budget}"), rows.get(f"{plain}-{budget}")
            if row is None or without is None:
                continue
            row, without = alike(row, without)
            gap, error = difference(row, without)
            lines.append(
                f"- {row['label']} with {row['evaluations']:.0f} evaluations minus {without['label']} with "
                f"{without['evaluations']:.0f}, the first {row['samples']} samples of each: {gap:+.2f} ± {error:.2f}."
            )
    table = [row for name, row in rows.items() if name not in SWEEP]
    enough = [row for row in table if row["recognised"]["value"] >= ENOUGH and row["digits"] > VARIOUS]
    if enough:
        named = "; ".join(
            f"{row['label']} with {row['evaluations']:.0f} ({percent(row['recognised'])})" for row in enough
        )
        lines.append(f"- At least {ENOUGH:.0%} are recognised, and more than {VARIOUS} digits drawn, by {named}.")
    trapezoidal = rows.get(f"trapezoidal-{BUDGETS[-1]}")
    if trapezoidal is not None:
        share = sum(trapezoidal["clamped"]) / len(trapezoidal["clamped"])
        lines.append(
            f"- Trapezoidal steps extrapolate rates, and at {share:.0%} of the sites, on average over the steps of "
            f"{trapezoidal['evaluations']:.0f} evaluations, some rate would be negative and is taken as 0: "
            "the likely reason why they fail here."
        )
    found = alike(*table)
    if found:
        best = min(found, key=lambda row: row["frechet"]["value"])
        sure = max(found, key=lambda row: (row["digits"] > VARIOUS, row["recognised"]["value"]))
        lines.append(
            f"- Of the first {best['samples']} samples of each row the least distance, {cell(best['frechet'])}, is "
            f"that of {best['label']} at {best['evaluations']:.0f} evaluations; most recognised, "
            f"{percent(sure['recognised'])}, are those of {sure['label']} at {sure['evaluations']:.0f} (of rows with "
            f"more than {VARIOUS} digits). Both are the best of {len(found)} rows on the samples that they were chosen "
            "by, which flatters them."
        )
    return [*lines, ""]


def figures() -> list[str]:
    lines = []
    for name, caption in FIGURES.items():
        if (DOCS / "figures" / name).exists():
            lines += [f"![{caption}](../figures/{name})", "", f"*{caption}*", ""]
    return lines


def published() -> list[str]:
    """The published recipe for some steps, where it has been tried."""
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
        f"{loss['before']:,.0f} nats an image without the constants that the paper drops, changed by "
        f"{loss['change']:,.0f} ± {loss['stderr']:,.0f} at the same times and with the same noise. bits/dim "
        f"of {found['bits']['images']} test images is then {cell(found['bits'])}, and {found['samples']} images were "
        f"drawn with {found['evaluations']} evaluations. That is no model yet; it shows that all of the recipe runs.",
        "",
        "*`python experiments/images/cifar10.py --data FILE`*",
        "",
    ]


if __name__ == "__main__":
    main()
