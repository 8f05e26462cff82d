"""Write docs/experiments/music.md from the results: python experiments/music/page.py"""

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
    "music_training": "bits/dim of the validation songs during training, given their first two bars; of the "
    "shipped model unconditional.",
    "music_evaluations": "Both measures against network evaluations, with standard errors over songs.",
    "music_rejected": "The fraction of sites whose jumps are rejected, per step.",
    "music_progress": "States of some sites of one completion over time, from noise to data.",
    "music_completions": "Test songs and their completions. The observed part is grey, up to the black line.",
    "music_uses": "Different conditioning of one model, the shipped one: observed parts are grey, between black lines.",
}
INTRODUCTION = """# Music: continuation of melodies

Section 6.3 and Appendices C.4 and H.3 of the paper, on melodies of the Lakh MIDI dataset (C. Raffel, CC BY 4.0): 256
sixteenths of 129 states, the first 32 observed. These are not the paper's own arrays, and the networks are small and
trained for a short time. So compare the rows with each other and not with the paper's figures.

Two measures are computed for each of {songs} fixed test songs over the 224 unobserved steps, and averaged. The first is
the Hellinger distance `sqrt(1 - sum sqrt(p q))` between the histograms of states (the rest is a state) of completion
and truth. The second, outliers, is the fraction of steps whose state does not occur in the truth. ± is the standard
error over songs; in brackets is the standard deviation between runs, which the paper reports, if there are several
runs. Lower is better.
"""


def main() -> None:
    table = json.loads((RESULTS / "table.json").read_text(encoding="utf-8"))
    references = json.loads((RESULTS / "references.json").read_text(encoding="utf-8"))
    parts = [
        INTRODUCTION.format(songs=table["songs"]),
        "## Baselines",
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
        f"All models except the shipped one have the same network ({weights(table)} weights), songs, batches, seed "
        "(0) and "
        f"permuted states. D3PM is trained for {D3PM_STEPS} steps of the same noise. The row with correctors has as "
        "many "
        "evaluations as the others, and therefore fewer steps. Different states is the mean number of different states "
        f"per completion; the truth has {table['different']:.1f}.",
        "",
        *verdicts(table, references),
        *pooling(table),
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
        "| sampler and model | Hellinger | outliers | different states | evaluations | runs | training steps | paper |",
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
    lines = [
        "| model | weights | training steps | bits/dim of test songs given two bars |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, found in table["models"].items():
        bits, stderr, _ = found["bits"]
        lines.append(f"| {name} | {found['weights']:,} | {found['steps']} | {bits:.3f} ± {stderr:.3f} |")
    return lines


def verdicts(table: dict[str, Any], references: dict[str, Any]) -> list[str]:
    """Return tests of the paper's claims, song by song, and a comparison of the best model with baselines."""
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
            untrained = [name for name in (better, worse) if is_worse_than_chance(table, rows[name]["model"])]
            verdict = (
                "undecided, since a model with bits/dim worse than chance is not trained enough"
                if untrained
                else gaps[0].verdict
            )
            lines.append(f'- The paper\'s "{claim}": the second minus the first is {difference}: {verdict}.')
    if "birth-death" in rows:
        steps = zip(rows["birth-death"]["rejected"], rows["birth-death"]["times"], strict=True)
        early = fmean(part for part, t in steps if t > 0.6)
        lines.append(
            f"- There are two reasons for the poor results of birth/death. First, the jumps of {early:.1%} of its "
            "sites are "
            "rejected per step at t > 0.6, so almost no site changes there, as in the paper. Second, the model is "
            "undertrained: L_eCT samples one jump and weights it by the total rate, up to "
            f"{fastest(birth_death_noise()):,.0f} for birth/death and {fastest(uniform_noise()):,.0f} for uniform "
            "rates, while the signal is some hundred nats (a likely reason, not tested). The paper trained for a "
            "million steps."
        )
    if "uniform" in rows and "ancestral-64" in rows:
        gaps = [
            f"{number} {gap(rows['ancestral-64'], rows['uniform'], number)}" for number in ("hellinger", "outliers")
        ]
        lines.append(
            "- Ancestral steps with a quarter of the evaluations: tau-leaping with "
            f"{rows['uniform']['evaluations']:.0f} "
            f"minus ancestral steps with {rows['ancestral-64']['evaluations']:.0f} is {', '.join(gaps)}."
        )
    if rows:
        lines += against_references(rows, references)
    return [*lines, ""]


def is_worse_than_chance(table: dict[str, Any], model: str) -> bool:
    """Return whether bits/dim are above log2 of the number of states, those of uniform guesses."""
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
    """Return the second minus the first, paired by song."""
    pairs = zip(first[number]["songs"][songs], second[number]["songs"][songs], strict=True)
    differences = [b - a for a, b in pairs]
    return Gap(fmean(differences), stdev(differences) / len(differences) ** 0.5)


def against_references(rows: dict[str, Any], references: dict[str, Any]) -> list[str]:
    """Compare the best row with the baselines; it is chosen on every second song and evaluated on the others."""
    chosen, measured = slice(0, None, 2), slice(1, None, 2)
    best = min(rows.values(), key=lambda row: fmean(row["hellinger"]["songs"][chosen]))
    lines = [
        f"- The row with the smallest Hellinger distance on every second test song is {best['label']} at "
        f"{best['evaluations']:.0f} evaluations. On the other {len(best['hellinger']['songs'][measured])} songs it has "
        f"{fmean(best['hellinger']['songs'][measured]):.4f} / {fmean(best['outliers']['songs'][measured]):.4f}; the "
        "baselines minus these values:"
    ]
    for row in references["tested"]["rows"]:
        gaps = [f"{number} {gap(best, row, number, measured)}" for number in ("hellinger", "outliers")]
        lines.append(f"    - {row['name']}: {', '.join(gaps)}")
    return lines


def fastest(process: ForwardProcess) -> float:
    """Return the largest total exit rate of the unobserved sites at t = 1."""
    exits = -process.generator().diagonal()
    return float(exits.max() * process.schedule.rate(1.0)) * (STEPS - GIVEN)


def pooling(table: dict[str, Any]) -> list[str]:
    """Explain why a better sampler may have a larger distance."""
    found = [row for name, row in table["rows"].items() if "pooled" in row and name in TABLE]
    if not found:
        return []
    row = min(found, key=lambda row: row["hellinger"]["value"])
    return [
        "The Hellinger distance of histograms favours completions that average over possible continuations. Two "
        "samples "
        "of one distribution are farther from each other than a sample is from the distribution. So a mixture of "
        f"continuations has a smaller distance than a single one: all {row['runs']} completions of a song pooled into "
        "one "
        f"have {value(row['pooled'])} instead of {row['hellinger']['value']:.4f} ({row['label']}). Samplers with few "
        "evaluations also mix: many notes are sampled independently in one step, and more of them differ.",
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
    """Return links to the melodies that figures.py wrote."""
    found = sorted((DOCS / "audio").glob("music-*.mp3"))
    lines = ["Audio, with the notes as MIDI:", ""]
    for path in found:
        name = path.stem.removeprefix("music-").replace("-", ", ", 1)
        lines.append(f"- {name}: [MP3](../audio/{path.name}), [MIDI](../audio/{path.with_suffix('.mid').name})")
    return [*lines, ""] if found else []


if __name__ == "__main__":
    main()
