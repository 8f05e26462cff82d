"""Write docs/experiments/sequences.md and its figure from all results so far."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
RESULTS = Path(__file__).with_name("results")
PAGE, FIGURE = ROOT / "docs" / "experiments" / "sequences.md", ROOT / "docs" / "figures" / "sequences_curves.png"
COLOURS = {"before": "#9e9ac8", "now": "#6e016b"}


def write_page() -> None:
    """Write the page; a part without results is left out."""
    found = {path.stem: json.loads(path.read_text(encoding="utf-8")) for path in sorted(RESULTS.glob("*.json"))}
    curves = {name.removeprefix("curves-"): result for name, result in found.items() if name.startswith("curves-")}
    lines = [
        "# Rows of symbols: molecules, text, names, proteins",
        "",
        "Models that `tauleap.fit` chooses and trains on a small budget, next to a trigram model and an autoregressive "
        "network with the same layers, sizes, batches, learning rates and processor time. A budget of m minutes on two "
        "cores is 2 m minutes of processor time, spent on one thread; validation and measuring come on top. One run "
        "each, seed 0. ± is the standard error over rows or samples; it has no part for another seed of training.",
        "",
    ]
    lines += molecules(found["qm9"]) if found.get("qm9", {}).get("runs") else []
    lines += text(found["shakespeare"]) if found.get("shakespeare", {}).get("runs") else []
    if curves:
        draw(curves)
        lines += learning_curves(curves)
    lines += names(found["rows-names"]) if "rows-names" in found else []
    lines += proteins(found["rows-proteins"]) if "rows-proteins" in found else []
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text("\n".join(lines).rstrip() + "\n", encoding="utf-8")
    print(f"written: {PAGE.relative_to(ROOT)}")


def molecules(result: dict[str, Any]) -> list[str]:
    """Return the part on QM9."""
    rows = [
        _molecule_row("held-out rows", result["real"], {}),
        _molecule_row("trigram", result["trigram"], {}),
    ]
    for run in result["runs"]:
        budget = f"{run['minutes']:g} min"
        rows.append(_molecule_row(f"tauleap, {budget}", run["diffusion"], run["diffusion"]))
        rows.append(_molecule_row(f"autoregressive, {budget}", run["autoregressive"], run["autoregressive"]))
    last = result["runs"][-1]
    floors = result["floor"]
    budgets = " ".join(f"{run['minutes']:g}" for run in result["runs"])
    longer = [minutes for minutes in (3, 20, 60) if minutes not in [run["minutes"] for run in result["runs"]]]
    not_run = f" Not run yet: {', '.join(map(str, longer))} minutes." if longer else ""
    return [
        "## Molecules",
        "",
        *_table(
            ["", "valid, %", "unique, %", "novel, %", "bits per row", "lengths", "symbols", "steps", "weights"], rows
        ),
        "",
        f"SMILES of QM9 (Ramakrishnan et al. 2014), {result['training_rows']:,} training and "
        f"{result['held_out_rows']:,} held-out rows, {result['samples']:,} samples each. Valid: rdkit reads the text. "
        "Unique: different molecules among the valid samples, whose fraction depends on the number of samples. Novel: "
        "molecules among the different ones that are not in the training rows. Bits per row: an upper bound for "
        "tauleap, exact for the others, on held-out rows. Lengths and symbols: total variation to the training rows; "
        f"{floors['n']:,} held-out rows have {floors['lengths'][0]:.4f} and {floors['symbols'][0]:.4f} (standard "
        f"deviation {floors['lengths'][1]:.4f} and {floors['symbols'][1]:.4f} of {floors['sets']} sets), which is the "
        f"floor. {last['diffusion']['choice'][1].capitalize()}.{not_run}",
        "",
        f"Samples of tauleap after {last['minutes']:g} minutes: "
        + ", ".join(f"`{text}`" for text in last["diffusion"]["examples"][:8] if text),
        "",
        f"*`python experiments/sequences/qm9.py --data FILE --minutes {budgets} --seed {result['seed']}`*",
        "",
    ]


def _molecule_row(name: str, found: dict[str, Any], run: dict[str, Any]) -> list[str]:
    cells = [f"{100 * found[key][0]:.1f} ± {100 * found[key][1]:.1f}" for key in ("valid", "unique", "novel")]
    bits = f"{found['bits_per_row'][0]:.2f} ± {found['bits_per_row'][1]:.2f}" if "bits_per_row" in found else ""
    distances = [f"{found['variation'][key]:.4f}" for key in ("lengths", "symbols")]
    sizes = [f"{run[key]:,}" if key in run else "" for key in ("steps", "weights")]
    return [name, *cells, bits, *distances, *sizes]


def text(result: dict[str, Any]) -> list[str]:
    """Return the part on Shakespeare."""
    counts = result["counts"]
    rows = [[f"counts of {order} characters", "", value, "", ""] for order, value in counts.items()]
    for run in result["runs"]:
        for name, key in (("tauleap", "diffusion"), ("autoregressive", "autoregressive")):
            found = run[key]
            value = f"{found['bits'][0]:.3f} ± {found['bits'][1]:.3f}"
            rows.append([name, f"{run['minutes']:g}", value, f"{found['steps']:,}", f"{found['weights']:,}"])
    budgets = " ".join(f"{run['minutes']:g}" for run in result["runs"])
    longer = "" if 60 in [run["minutes"] for run in result["runs"]] else " Not run yet: 60 minutes."
    last = result["runs"][-1]
    shown = "\n---\n".join(last["diffusion"]["examples"])
    return [
        "## Text",
        "",
        *_table(["", "minutes", "bits per character", "steps", "weights"], rows),
        "",
        f"Tiny Shakespeare with the defaults of `tauleap train`: windows of 64 characters. Measured on all "
        f"{result['test_windows']:,} windows of the test text, each without the text before it; an upper bound for "
        "tauleap, exact for the autoregressive network. The counts predict the test text with the characters before "
        f"each window.{longer}",
        "",
        f"```text\n{shown}\n```",
        "",
        f"*`python experiments/sequences/shakespeare.py --data FILE --minutes {budgets} --seed {result['seed']}`*",
        "",
    ]


def learning_curves(curves: dict[str, Any]) -> list[str]:
    """Return the part on the first two minutes."""
    rows = []
    for what, result in curves.items():
        for name in ("before", "now"):
            points = result["curves"][name]["points"]
            halves = [min(points, key=lambda point: abs(point[0] - seconds)) for seconds in (30, 60, 120)]
            rows.append([what, name, *(f"{bits:.3f} ± {stderr:.3f} ({at:.0f} s)" for at, bits, stderr in halves)])
    commands = [f"*`python experiments/sequences/curves.py {what} --data FILE`*" for what in curves]
    return [
        "## The first two minutes",
        "",
        *_table(["", "choices", "30 s", "60 s", "120 s"], rows),
        "",
        "![Bits per site against processor time, with the former and today's choices](../figures/sequences_curves.png)",
        "",
        "Bits per site of 256 held-out rows with common noise, against seconds of processor time on one thread. The "
        "former choices are those of `tauleap.fit` before plain blocks, written out in the script.",
        "",
        *commands,
        "",
    ]


def names(result: dict[str, Any]) -> list[str]:
    """Return the part on names."""
    return [
        "## Names",
        "",
        f"{result['training_rows']} first names, {result['minutes']:g} minutes, {result['steps']:,} steps: "
        f"{_percent(result['in_training_rows'])} of {result['in_training_rows'][2]:,} samples are training rows, "
        f"{result['different']:,} are different, and they contain {result['in_held_out_rows']} of the "
        f"{result['held_out_rows']} held-out names. {_rows_in_words(result)}",
        "",
        "Samples: " + ", ".join(result["examples"]) + ".",
        "",
        f"*`python experiments/sequences/rows.py names --minutes {result['minutes']:g}`*",
        "",
    ]


def proteins(result: dict[str, Any]) -> list[str]:
    """Return the part on proteins."""
    return [
        "## Proteins",
        "",
        f"{result['training_rows']:,} training sequences of a chain with two hidden states, as FASTA, "
        f"{result['minutes']:g} minutes, {result['steps']:,} steps: {_percent(result['begin_with_m'])} of "
        f"{result['begin_with_m'][2]:,} samples begin with M, as all sequences do. {_rows_in_words(result)}",
        "",
        *(f"    {text}" for text in result["examples"]),
        "",
        f"*`python experiments/sequences/rows.py proteins --minutes {result['minutes']:g}`*",
        "",
    ]


def _rows_in_words(result: dict[str, Any]) -> str:
    distances, floors = result["variation"], result["floor"]
    ours, real = result["mean_length"]
    return (
        f"The total variation to the training rows is {distances['lengths']:.4f} for lengths and "
        f"{distances['symbols']:.4f} for symbols; as many real rows have {floors['lengths'][0]:.4f} and "
        f"{floors['symbols'][0]:.4f}. The mean length is {ours}, that of the training rows {real}."
    )


def _percent(found: list[float]) -> str:
    return f"{100 * found[0]:.1f} ± {100 * found[1]:.1f} %"


def _table(head: list[str], rows: list[list[Any]]) -> list[str]:
    rule = ["---", *["---:"] * (len(head) - 1)]
    return [f"| {' | '.join(map(str, row))} |" for row in (head, rule, *rows)]


def draw(curves: dict[str, Any]) -> None:
    """Draw the learning curves."""
    import matplotlib
    from matplotlib.figure import Figure

    from tauleap.evaluate.plots import STYLE, save_png

    shown = {"xtick.bottom": True, "xtick.labelbottom": True, "ytick.left": True, "ytick.labelleft": True}
    with matplotlib.rc_context(STYLE | shown):
        figure = Figure(figsize=(3.6 * len(curves), 3.0), layout="constrained")
        panels = figure.subplots(1, len(curves), squeeze=False)[0]
        for axes, (what, result) in zip(panels, curves.items(), strict=True):
            for name, colour in COLOURS.items():
                seconds, bits, errors = zip(*result["curves"][name]["points"], strict=True)
                axes.errorbar(seconds, bits, errors, color=colour, label=name, linewidth=1.5)
            axes.set_title(what)
            axes.set_xlabel("seconds of processor time")
        panels[0].set_ylabel("bits per site, 256 held-out rows")
        panels[-1].legend(frameon=False)
        FIGURE.parent.mkdir(parents=True, exist_ok=True)
        save_png(figure, FIGURE)


if __name__ == "__main__":
    write_page()
