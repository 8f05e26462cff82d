"""Writes docs/experiments/music.md from the results: python experiments/music/page.py"""

from __future__ import annotations

import json
import sys
from math import log2
from pathlib import Path
from statistics import fmean, stdev
from typing import Any, NamedTuple

from models import D3PM_STEPS, SHIPPED
from rows import BUDGET, CURVES, ROWS, TABLE

from tauleap.data.music.format import STEPS
from tauleap.data.music.melody import NUM_STATES
from tauleap.noise import ForwardProcess
from tauleap.recipes.music import GIVEN, birth_death_noise, uniform_noise

sys.path.append(str(Path(__file__).parents[1]))

from _prose import DOCS, write_page

RESULTS = Path(__file__).with_name("results")
PAPER = {
    "birth-death": (0.3928, 0.1316),
    "uniform": (0.3765, 0.1106),
    "correctors": (0.3762, 0.1091),
    "d3pm": (0.3839, 0.1137),
}
FIGURES = {
    "music_training": "bits/dim of the validation songs, while training: given their first two bars, but for the "
    "shipped model, which is given nothing.",
    "music_evaluations": "Both numbers against evaluations of the network, with standard errors over songs.",
    "music_rejected": "The proportion of sites whose jumps are rejected, step by step.",
    "music_progress": "Some sites of one completion on their way from noise to data.",
    "music_completions": "Test songs and completions of them. What is given is grey, up to the black line.",
    "music_uses": "One set of weights, the shipped model: what is given is grey, between black lines.",
}
INTRODUCTION = """# Music: melodies played on

Section 6.3 and Appendices C.4 and H.3 of the paper, on melodies of the Lakh MIDI dataset (C. Raffel, CC BY 4.0): 256
sixteenths of 129 states, the first 32 given. These are not the paper's own arrays, and the networks here are small and
shortly trained, so compare the rows with each other and not with the paper's figures.

Both numbers are taken for each of {songs} fixed test songs, over the 224 steps that were not given, and averaged: the
Hellinger distance `sqrt(1 - sum sqrt(p q))` between the histograms of states (the rest is one) of completion and truth,
and the proportion of steps whose state is nowhere in the truth. ± is the standard error over songs; the deviation
between runs, which the paper writes, is in brackets where there are several. Lower is better.
"""


def main() -> None:
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    references = json.loads((RESULTS / "references.json").read_text(encoding="utf-8"))
    parts = [
        INTRODUCTION.format(songs=table["songs"]),
        "## What needs no model",
        "",
        *reference_table(references),
        "",
        "*`python experiments/music/references.py --data FILE`*",
        "",
        f"## Models, at {BUDGET} evaluations",
        "",
        *model_table(table),
        "",
        missing(table, list(TABLE)),
        f"All but the shipped model have one network ({weights(table)} weights), the same songs, batches, seed (0) and "
        f"scrambled states. D3PM is trained for {D3PM_STEPS} steps of the same noise. The corrector's row has as many "
        "evaluations as the others, and so fewer steps. Different states are those that a completion has, on average; "
        f"the truth has {table['different']:.1f}.",
        "",
        *verdicts(table, references),
        *hedging(table),
        "*`python experiments/music/train.py MODEL --data FILE --steps N`, then `evaluate.py --data FILE`*",
        "",
        "## Evaluations",
        "",
        *curve_table(table),
        "",
        missing(table, list(CURVES)),
        "*`python experiments/music/evaluate.py --data FILE --rows all`*",
        "",
        "## Training",
        "",
        *training_table(table),
        "",
        *figures(),
        *melodies(),
        "*`python experiments/music/figures.py --data FILE`, `python experiments/music/page.py`*",
        "",
    ]
    write_page("music", parts)


def value(found: dict[str, Any]) -> str:
    spread = "" if found.get("spread") is None else f" ({found['spread']:.4f})"
    return f"{found['value']:.4f} ± {found['stderr']:.4f}{spread}"


def reference_table(references: dict[str, Any]) -> list[str]:
    lines = [
        f"| completion | Hellinger, all {references['all']['songs']} | outliers | "
        f"Hellinger, the {references['tested']['songs']} | outliers |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    for every, tested in zip(references["all"]["rows"], references["tested"]["rows"], strict=True):
        cells = [row[number]["value"] for row in (every, tested) for number in ("hellinger", "outliers")]
        lines.append(f"| {every['name']} | " + " | ".join(f"{cell:.3f}" for cell in cells) + " |")
    return lines


def model_table(table: dict[str, Any]) -> list[str]:
    lines = [
        "| sampler and model | Hellinger | outliers | different states | evaluations | runs | steps | the paper's |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in TABLE:
        row = table["rows"].get(name)
        if row is None:
            continue
        paper = " / ".join(f"{number:.4f}" for number in PAPER[name]) if name in PAPER else ""
        steps = table["models"].get(row["model"], {}).get("steps")
        lines.append(
            f"| {row['label']} | {value(row['hellinger'])} | {value(row['outliers'])} | {row['different']:.1f} | "
            f"{row['evaluations']:.0f} | {row['runs']} | {steps} | {paper} |"
        )
    return lines


def curve_table(table: dict[str, Any]) -> list[str]:
    lines = [
        "| sampler and model | evaluations | Hellinger | outliers | different states | runs |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for family in ("uniform", "ancestral", SHIPPED):
        names = [name for name in ROWS if name == family or name.removeprefix(f"{family}-").isdigit()]
        found = [table["rows"][name] for name in names if name in table["rows"]]
        for row in sorted(found, key=lambda row: row["evaluations"]):
            lines.append(
                f"| {row['label']} | {row['evaluations']:.0f} | {value(row['hellinger'])} | "
                f"{value(row['outliers'])} | {row['different']:.1f} | {row['runs']} |"
            )
    return lines


def training_table(table: dict[str, Any]) -> list[str]:
    lines = ["| model | weights | steps | bits/dim, test songs given two bars |", "| --- | ---: | ---: | ---: |"]
    for name, found in table["models"].items():
        bits, stderr, _ = found["bits"]
        lines.append(f"| {name} | {found['weights']:,} | {found['steps']} | {bits:.3f} ± {stderr:.3f} |")
    return lines


def verdicts(table: dict[str, Any], references: dict[str, Any]) -> list[str]:
    """The orderings of the paper, song by song, and the best model against what needs none."""
    rows, lines = table["rows"], []
    for better, worse, claim in (
        ("uniform", "birth-death", "uniform better than birth/death"),
        ("correctors", "uniform", "correctors no worse"),
        ("uniform", "d3pm", "tau-leaping better than D3PM"),
        ("uniform", "two-passes", "L_eCT no worse than L_CT"),
    ):
        if better in rows and worse in rows:
            gaps = [gap(rows[better], rows[worse], number) for number in ("hellinger", "outliers")]
            difference = ", ".join(
                f"{number} {found}" for number, found in zip(("hellinger", "outliers"), gaps, strict=True)
            )
            unlearnt = [name for name in (better, worse) if knows_nothing(table, rows[name]["model"])]
            verdict = (
                "no verdict, as a model that is worse than chance in bits/dim is not trained far enough to say"
                if unlearnt
                else gaps[0].verdict
            )
            lines.append(f'- The paper\'s "{claim}": the second minus the first is {difference}: {verdict}.')
    if "birth-death" in rows:
        steps = zip(rows["birth-death"]["rejected"], rows["birth-death"]["times"], strict=True)
        early = fmean(part for part, t in steps if t > 0.6)
        lines.append(
            f"- Birth/death has two reasons to be so far off. Of its sites {early:.1%} have their jumps rejected in a "
            "step at t > 0.6, so that nothing moves there, which the paper saw too. And it is far from learnt: L_eCT "
            "draws one jump and weighs it by the rate of all jumps, up to "
            f"{fastest(birth_death_noise()):,.0f} for birth/death and {fastest(uniform_noise()):,.0f} for uniform "
            "rates, while what is to be learnt are some hundred nats (a likely reason, not tested). The paper trained "
            "for a million steps."
        )
    if "uniform" in rows and "ancestral-64" in rows:
        gaps = [
            f"{number} {gap(rows['ancestral-64'], rows['uniform'], number)}" for number in ("hellinger", "outliers")
        ]
        lines.append(
            f"- A quarter of the evaluations: tau-leaping with {rows['uniform']['evaluations']:.0f} minus ancestral "
            f"steps with {rows['ancestral-64']['evaluations']:.0f} is {', '.join(gaps)}."
        )
    if rows:
        lines += against_references(rows, references)
    return [*lines, ""]


def knows_nothing(table: dict[str, Any], model: str) -> bool:
    """Whether its bits/dim are above those of guessing, log2 of the number of states."""
    found = table["models"].get(model)
    return found is not None and found["bits"][0] > log2(NUM_STATES)


class Gap(NamedTuple):
    """A difference of means over the same songs, with its standard error."""

    value: float
    stderr: float

    @property
    def verdict(self) -> str:
        if abs(self.value) < 2 * self.stderr:
            return "undecided, within two standard errors"
        return "confirmed" if self.value > 0 else "refuted"

    def __str__(self) -> str:
        return f"{self.value:+.4f} ± {self.stderr:.4f}"


def gap(first: dict[str, Any], second: dict[str, Any], number: str, songs: slice = slice(None)) -> Gap:
    """The second minus the first, song by song."""
    pairs = zip(first[number]["songs"][songs], second[number]["songs"][songs], strict=True)
    differences = [b - a for a, b in pairs]
    return Gap(fmean(differences), stdev(differences) / len(differences) ** 0.5)


def against_references(rows: dict[str, Any], references: dict[str, Any]) -> list[str]:
    """The best row, chosen on every second song and measured on the others."""
    chosen, measured = slice(0, None, 2), slice(1, None, 2)
    best = min(rows.values(), key=lambda row: fmean(row["hellinger"]["songs"][chosen]))
    lines = [
        f"- The row with the least Hellinger distance on every second test song is {best['label']} at "
        f"{best['evaluations']:.0f} evaluations. On the other {len(best['hellinger']['songs'][measured])} songs it has "
        f"{fmean(best['hellinger']['songs'][measured]):.4f} / {fmean(best['outliers']['songs'][measured]):.4f}; what "
        "needs no model, minus that:"
    ]
    for row in references["tested"]["rows"]:
        gaps = [f"{number} {gap(best, row, number, measured)}" for number in ("hellinger", "outliers")]
        lines.append(f"    - {row['name']}: {', '.join(gaps)}")
    return lines


def fastest(process: ForwardProcess) -> float:
    """The largest rate at which the noise moves the sites that are not given, all together, at t = 1."""
    exits = -process.generator().diagonal()
    return float(exits.max() * process.schedule.rate(1.0)) * (STEPS - GIVEN)


def hedging(table: dict[str, Any]) -> list[str]:
    """Why a better sampler may have a larger distance."""
    found = [row for name, row in table["rows"].items() if "pooled" in row and name in TABLE]
    if not found:
        return []
    row = min(found, key=lambda row: row["hellinger"]["value"])
    return [
        "The distance of one histogram from another rewards completions that do not commit themselves. Two draws from "
        "one law are further from each other than a draw is from the law itself, so that a completion which mixes all "
        f"that might come scores better than one that plays something. All {row['runs']} completions of a song taken "
        f"as one have {value(row['pooled'])} in the place of {row['hellinger']['value']:.4f} ({row['label']}). Few "
        "evaluations mix too: many notes are drawn at once that do not know of each other, and more different ones.",
        "",
    ]


def missing(table: dict[str, Any], names: list[str]) -> str:
    absent = [name for name in names if name not in table["rows"]]
    return f"Not measured yet: {', '.join(absent)}.\n" if absent else ""


def weights(table: dict[str, Any]) -> str:
    return ", ".join(sorted({f"{found['weights']:,}" for name, found in table["models"].items() if name != SHIPPED}))


def figures() -> list[str]:
    lines = []
    for name, caption in FIGURES.items():
        if (DOCS / "figures" / f"{name}.png").exists():
            lines += [f"![{caption}](../figures/{name}.png)", "", f"*{caption}*", ""]
    return lines


def melodies() -> list[str]:
    """Links to the melodies that figures.py has kept."""
    found = sorted((DOCS / "audio").glob("music-*.mp3"))
    lines = ["To listen to, with the notes as MIDI:", ""]
    for path in found:
        name = path.stem.removeprefix("music-").replace("-", ", ", 1)
        lines.append(f"- {name}: [MP3](../audio/{path.name}), [MIDI](../audio/{path.with_suffix('.mid').name})")
    return [*lines, ""] if found else []


if __name__ == "__main__":
    main()
