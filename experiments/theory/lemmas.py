"""The bounds of Appendix B and the true errors; Appendix D: L_ll and L_DT; Appendix E: kernels of commuting rates.

    python experiments/theory/lemmas.py --write

Dependent sites of three states. Suprema are over every pair of states, expectations over every x0 and x, and
distributions are computed by matrix exponentials. Only the logits of wrong denoisers are random.
"""

from __future__ import annotations

from typing import Any

import torch
from _bound import Constants, constants, true_rates
from _experiment import COLOURS, Experiment, or_rounding, orders_of_magnitude, panels, scales, table
from _lemmas import commuting_errors, leap_step, rate_slope, single_step, supervision
from _small import NOISES, reversed_chain

from tauleap.testing.cases import slope

TOTAL, SITES, TIMES = 2.0, 2, (0.05, 0.2, 0.5, 1.0)
LENGTHS = tuple(0.04 / 2**k for k in range(5))
SIZES, STEPS = (0.0, 0.25, 0.5, 1.0, 2.0), (1, 2, 4, 8, 16, 32)


def compute() -> dict[str, Any]:
    found: dict[str, Any] = {"single step": {}, "slope": {}, "supervision": {}, "commuting": commuting_errors()}
    for name in NOISES:
        reverse, law = reversed_chain(name, TOTAL, SITES)
        known = constants(reverse, law)
        rows = []
        for t in TIMES:
            for tau in LENGTHS:
                rows.append({"t": t, "tau": tau, **single_step(reverse, law, t, tau)})
                rows[-1]["theorem"] = (known.exit_rate * known.num_states * known.sites * known.c1 * tau) ** 2
                rates = true_rates(reverse, law, t)
                rows[-1] |= leap_step(rates, tau)
                rows[-1]["leap bound"] = known.c2 * float(rates.sum((-1, -2)).max()) * tau**2 / 2
        found["single step"][name] = rows
        found["slope"][name] = [slope_row(name, sites) for sites in range(1, 6)]
        found["supervision"][name] = supervision(reverse, law, SIZES, STEPS)
    return found


def slope_row(name: str, sites: int) -> dict[str, Any]:
    reverse, law = reversed_chain(name, TOTAL, sites)
    known = constants(reverse, law)
    times = [0.0, *torch.logspace(-3, 0, 20, dtype=torch.float64).tolist()]
    return {
        "sites": sites,
        "times": times,
        "truth": [rate_slope(reverse, law, t) for t in times],
        "bound": slope_bound(known),
    }


def slope_bound(known: Constants) -> float:
    return 2 * known.exit_rate**2 * known.num_states * known.sites * known.c1**2


def figure(results: dict[str, Any]):
    drawn, axes = panels(3, 2, (8, 9.5))
    for number, (colour, name) in enumerate(zip(COLOURS, NOISES, strict=False)):
        # The bounds of two kinds of noise with the same |R| coincide, so their dashes alternate.
        dashes, dots = (5 * number, (4, 6)), (2.5 * number, (1, 4))
        rows = [row for row in results["single step"][name] if row["t"] == 0.2]
        tau = [row["tau"] for row in rows]
        axes[0].loglog(tau, [row["truth"] for row in rows], ".-", color=colour, linewidth=1, label=name)
        axes[0].loglog(tau, [row["lemma"] for row in rows], linestyle=dashes, color=colour, linewidth=1.2)
        axes[0].loglog(tau, [row["theorem"] for row in rows], linestyle=dots, color=colour, linewidth=1.5)
        axes[1].loglog(tau, [row["leap"] for row in rows], ".-", color=colour, linewidth=1, label=name)
        axes[1].loglog(tau, [row["leap bound"] for row in rows], linestyle=dashes, color=colour, linewidth=1.2)
        for row, style in zip(results["slope"][name], (":", "", "-.", "", "-"), strict=True):
            if style:
                label = name if style == "-" else None
                axes[2].semilogy(row["times"], row["truth"], style, color=colour, linewidth=1, label=label)
        sites = [row["sites"] for row in results["slope"][name]]
        worst = [max(row["truth"]) for row in results["slope"][name]]
        bounds = [row["bound"] for row in results["slope"][name]]
        axes[3].semilogy(sites, worst, ".-", color=colour, linewidth=1, label=name)
        axes[3].semilogy(sites, bounds, linestyle=dashes, color=colour, linewidth=1.5)
    rows = results["supervision"]["uniform"]["bounds"]
    for colour, size in zip(COLOURS, SIZES, strict=False):
        some = [row for row in rows if row["size"] == size]
        steps = [row["steps"] for row in some]
        axes[4].semilogx(steps, [row["ldt"] for row in some], ".-", color=colour, linewidth=1, label=f"error {size:g}")
        axes[4].semilogx(steps, [row["bound"] for row in some], "--", color=colour, linewidth=1)
        axes[4].semilogx(steps, [row["likelihood"] for row in some], ":", color=colour, linewidth=1)
    axes[4].set_ylim(0, 12)
    off = [row["commutator"] for row in results["commuting"][1:]]
    errors = [row["error"] for row in results["commuting"][1:]]
    axes[5].loglog(off, errors, ".-", linewidth=1, color=COLOURS[0], label=f"slope {slope(off, errors):.2f}")
    axes[3].set_xticks(sites)
    for panel in axes[:2]:
        panel.set_xticks(tau, [f"{each:g}" for each in tau])
        panel.minorticks_off()
    tv = "total variation, worst initial state"
    scales(axes[0], title="$t$ = 0.2: truth, lemma (dashed), theorem (dotted)", xlabel=r"$\tau$", ylabel=tv)
    scales(axes[1], title="$t$ = 0.2: leap against chain, bound (dashed)", xlabel=r"$\tau$", ylabel=tv)
    rate = r"$\max |d\hat R_t/dt|$"
    scales(axes[2], title="change of rates; $D$ = 1 (dotted), 3 (dash-dotted), 5", xlabel="$t$", ylabel=rate)
    scales(axes[3], title="its largest over $t$, and $2 |R|^2 S D C_1^2$ (dashed)", xlabel="sites $D$", ylabel=rate)
    title = r"uniform: $L_{DT}$, by $L_{ll}$ (dashed), $-\log\,p$ (dotted)"
    scales(axes[4], title=title, xlabel="$K$", ylabel="nats")
    label = r"total variation of $\exp \int R_t\,dt$"
    scales(axes[5], title="kernel of two consecutive rates", xlabel="$|[R_1, R_2]|$", ylabel=label)
    return drawn


def text(results: dict[str, Any]) -> str:
    steps = [row for rows in results["single step"].values() for row in rows]
    hold = all(row["truth"] <= row["lemma"] <= row["theorem"] and row["leap"] <= row["leap bound"] for row in steps)
    slopes = [row for rows in results["slope"].values() for row in rows]
    below = all(max(row["truth"]) <= row["bound"] for row in slopes)
    bounds = [row for each in results["supervision"].values() for row in each["bounds"]]
    ordered = all(row["likelihood"] <= row["ldt"] + 1e-9 <= row["bound"] + 2e-9 for row in bounds)
    rows = [
        [
            name,
            f"{orders([row['lemma'] / row['truth'] for row in results['single step'][name]])}",
            f"{orders([row['theorem'] / row['truth'] for row in results['single step'][name]])}",
            f"{orders([row['leap bound'] / row['leap'] for row in results['single step'][name]])}",
            f"{orders([row['bound'] / max(row['truth']) for row in results['slope'][name]])}",
            f"{power(results['slope'][name]):.2f}",
        ]
        for name in NOISES
    ]
    minimum = [
        [
            name,
            f"{found['at minimum']:.1e}",
            *(f"{excess:.4f}" for excess in found["excess"][1:]),
        ]
        for name, found in results["supervision"].items()
    ]
    shown = [row for row in bounds if row["size"] in (0.0, 0.5)]
    chain = [
        [
            f"{name}, error {row['size']:g}, K = {row['steps']}",
            *(f"{row[key]:.4f}" for key in ("likelihood", "ldt", "bound")),
        ]
        for name, found in results["supervision"].items()
        for row in found["bounds"]
        if row in shown and row["steps"] in (1, 4, 32)
    ]
    commuting = [
        [f"{row['fraction']:g}", or_rounding(row["commutator"], ".2e"), or_rounding(row["error"], ".1e")]
        for row in results["commuting"]
    ]
    return "\n\n".join(
        [
            "### Appendix B",
            f"Both single-step bounds hold in {'all' if hold else 'NOT ALL'} {len(steps)} cases, the bound on the "
            f"change of the rates in {'all' if below else 'NOT ALL'} {len(slopes)}. The lemma is too large by "
            f"{orders_of_magnitude(row['lemma'] / row['truth'] for row in steps)}, the form of the theorem by "
            f"{orders_of_magnitude(row['theorem'] / row['truth'] for row in steps)}, the leap's by "
            f"{orders_of_magnitude(row['leap bound'] / row['leap'] for row in steps)}, and $2 |R|^2 S D C_1^2$ by "
            f"{orders_of_magnitude(row['bound'] / max(row['truth']) for row in slopes)}.",
            table(
                [
                    "log10 of bound / truth",
                    "lemma",
                    "theorem's form",
                    "leap",
                    "change of rates",
                    "its growth in D, truth",
                ],
                rows,
            ),
            f"$c(1)$ = {TOTAL:g}; single steps with two sites, $t$ = {', '.join(f'{t:g}' for t in TIMES)} and $\\tau$ "
            f"from {LENGTHS[-1]:g} to {LENGTHS[0]:g}; the change of rates with one to five sites, and its power of $D$ "
            "over 3, 4, 5. Total variation is that of the worst initial state. In the figure the bounds of "
            "uniform and birth/death noise, which have the same $|R|$, coincide and have alternating dashes.",
            "### Appendix D",
            "$L_{ll}$ minus its value at the true posterior, in nats, for logits with normal noise of the given size "
            "(seed 0), $t$ = 0.5; and the distance of a table of logits fitted to $L_{ll}$ from the true posterior "
            "(largest difference of a probability):",
            table(["noise", "fitted, distance", *(f"error {size:g}" for size in SIZES[1:])], minimum),
            "$-\\log\\, p$ of the model that D3PM samples, $L_{DT}$, and the bound on $L_{DT}$: the sum of the "
            "$L_{ll}$ and of the terms that do not depend on the model. "
            f"In {'all' if ordered else 'NOT ALL'} {len(bounds)} cases they are in this order. Nats, data's entropy "
            f"{bounds[0]['entropy']:.4f}.",
            table(["", r"$-\log\, p$", "$L_{DT}$", "sum of $L_{ll}$, with the constants"], chain),
            "### Appendix E",
            "$R_t = R_1$ until $t = 1/2$ and $R_2$ after it, 4 states; $R_1$ is birth/death, $R_2$ uniform noise with "
            "a fraction of another generator that does not commute. Total variation (worst initial state) between "
            "$\\exp \\int R_t \\, dt$ and the kernel, the product of both exponentials:",
            table(["fraction", r"$\lvert [R_1, R_2] \rvert$", "error"], commuting),
        ]
    )


def orders(ratios: list[float]) -> str:
    powers = torch.tensor(ratios, dtype=torch.float64).log10()
    return f"{float(powers.min()):.1f} to {float(powers.max()):.1f}"


def power(rows: list[dict[str, Any]]) -> float:
    return slope([float(row["sites"]) for row in rows[2:]], [max(row["truth"]) for row in rows[2:]])


EXPERIMENT = Experiment("lemmas", __doc__ or "", compute, text, figure)

if __name__ == "__main__":
    EXPERIMENT.main()
