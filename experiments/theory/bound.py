"""Theorem 1: the total variation of tau-leaping beside its bound and the bound's three terms.

    python experiments/theory/bound.py --write

One to five dependent sites of three states, exact reverse rates or rates off by a chosen M, whole laws pushed from the
stationary law at t = 1 to t = 0 with jumps added and clamped, as in the proof. Nothing is drawn.
"""

from __future__ import annotations

import math
from typing import Any

from _bound import constants, truth
from _experiment import COLOURS, Experiment, orders_of_magnitude, panels, scales, table
from _small import NOISES, STATES, reversed_chain

from tauleap.testing.cases import slope

SWEEPS: dict[str, list[tuple[float, int, int, float]]] = {  # total noise, sites, steps, M
    "step, 1 site": [(4.0, 1, 4**k, 0.0) for k in range(1, 9)],
    "step, 3 sites": [(2.0, 3, 4**k, 0.0) for k in range(1, 6)],
    "total noise": [(total, 2, 256, 0.0) for total in (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)],
    "sites": [(2.0, sites, 64, 0.0) for sites in range(1, 6)],
    "M": [(2.0, 2, 1024, error) for error in (0.001, 0.01, 0.1, 1.0)],
}
TERMS = ("rates", "leaps", "mixing")


def compute() -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name in NOISES:
        for sweep, cases in SWEEPS.items():
            found[f"{name}: {sweep}"] = [case(name, *settings) for settings in cases]
    return found


def case(name: str, total: float, sites: int, steps: int, error: float) -> dict[str, Any]:
    reverse, law = reversed_chain(name, total, sites)
    known = constants(reverse, law)
    terms = known.terms(1 / steps, error)
    settings = {"total noise": total, "sites": sites, "steps": steps, "M": error}
    return settings | {
        "constants": known._asdict(),
        "truth": truth(reverse, law, steps, error)._asdict(),
        "bound": {"whole": sum(terms.values()), **terms},
    }


def figure(results: dict[str, Any]):
    columns = ("step, 1 site", "step, 3 sites", "total noise", "sites", "M")
    drawn, axes = panels(len(NOISES), len(columns), (15, 8))
    for number, (name, sweep) in enumerate((name, sweep) for name in NOISES for sweep in columns):
        rows, panel = results[f"{name}: {sweep}"], axes[number]
        x = [1 / row["steps"] if sweep.startswith("step") else row[sweep] for row in rows]
        for colour, part in zip(["black", *COLOURS], ("whole", *TERMS), strict=False):
            for source, style in (("bound", "--"), ("truth", ".-")):
                y = [row[source][part] for row in rows]
                if max(y) > 1e-12:
                    width = 1.6 if part == "whole" else 0.9
                    panel.plot(x, y, style, color=colour, linewidth=width, label=f"{part}, {source}")
        panel.axhline(1, color="0.5", linewidth=0.6)
        panel.set(xscale="linear" if sweep == "sites" else "log", yscale="log", ylim=(1e-7, 3e4))
        label = "step tau" + sweep.removeprefix("step") if sweep.startswith("step") else sweep
        scales(panel, legend=False, title=name, xlabel=label, ylabel="total variation" if number % 5 == 0 else "")
    axes[4].legend(fontsize=6, frameon=False, ncols=2, loc="lower right")
    return drawn


def growth(rows: list[dict[str, Any]], part: str, source: str) -> float:
    """The power of the number of sites, over three to five of them, where C1 no longer changes."""
    rows = [row for row in rows if row["sites"] >= 3]
    return slope([float(row["sites"]) for row in rows], [row[source][part] for row in rows])


def text(results: dict[str, Any]) -> str:
    cases = [row for rows in results.values() for row in rows]
    broken = [row for row in cases if row["truth"]["whole"] > row["bound"]["whole"]]
    parts = {
        part: [row["bound"][part] / row["truth"][part] for row in cases if row["truth"][part] > 1e-12]
        for part in ("whole", *TERMS)
    }
    useful = [row for row in cases if row["bound"]["whole"] < 1]
    summary = [
        f"The bound holds in {len(cases) - len(broken)} of {len(cases)} cases computed. It is too large by "
        f"{orders_of_magnitude(parts['whole'])}. Term by term, beside the truth of what each bounds: the rates' by "
        f"{orders_of_magnitude(parts['rates'])}, the leaps' by {orders_of_magnitude(parts['leaps'])}, the mixing's by "
        f"{orders_of_magnitude(parts['mixing'])}. It is below 1, and so says something, in {len(useful)} of them"
        + (
            f", with one site and steps of {max(1 / row['steps'] for row in useful):.1e} or less"
            if useful and all(row["sites"] == 1 for row in useful)
            else ""
        )
        + "."
    ]
    lines = []
    for name in NOISES:
        for sweep in SWEEPS:
            rows = results[f"{name}: {sweep}"]
            for row in (rows[0], rows[-1]) if sweep != "sites" else rows:
                known = row["constants"]
                lines.append(
                    [
                        f"{name}, {sweep}",
                        *(str(row["sites"]), f"{row['total noise']:g}", f"1/{row['steps']}", f"{row['M']:g}"),
                        *(f"{known[key]:.3g}" for key in ("exit_rate", "c1", "c2", "t_mix")),
                        f"{row['truth']['whole']:.2e}",
                        *(f"{row['bound'][part]:.2g}" for part in (*TERMS, "whole")),
                        f"{math.log10(row['bound']['whole'] / row['truth']['whole']):.1f}",
                    ]
                )
    head = ["noise, what is varied", "D", "c(1)", "tau", "M", r"\|R\|", "C1", "C2", "t_mix", "truth"]
    head += ["3 M T", "leaps", "mixing", "bound", "log10 of bound / truth"]
    powers = []
    for name in NOISES:
        rows, steps = results[f"{name}: sites"], results[f"{name}: step, 3 sites"]
        order = slope([1 / row["steps"] for row in steps[-3:]], [row["truth"]["leaps"] for row in steps[-3:]])
        powers.append(
            [
                name,
                *(f"{growth(rows, 'leaps', source):.2f}" for source in ("truth", "bound")),
                f"{order:.2f}",
                "1",
            ]
        )
    return "\n\n".join(
        [
            *summary,
            "Powers with which the error of the leaps grows, by regression: in the number of sites over D = 3, 4, 5, "
            "and in tau over the three finest of the grids with three sites (start q_1, exact rates).",
            table(["noise", "in D, truth", "in D, bound", "in tau, truth", "in tau, bound"], powers),
            "The first and the last case of each sweep, and all of those in D:",
            table(head, lines),
            f"{STATES} states a site. |R|, C1, C2 and t_mix "
            "are computed from their definitions, the suprema over t on 161 times from 0 to 1. The rates that are off "
            "add M to the one jump from each state that leads to where the data's law is least.",
        ]
    )


EXPERIMENT = Experiment("bound", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
