"""Measure models of UCI Adult that ``tauleap.fit`` makes in one and three minutes of one core.

    python experiments/tables/adult.py --data FOLDER [--seeds 5] [--former 5] [--out runs/adult] [--write]

FOLDER has adult_train.csv and adult_test.csv. Needs scikit-learn, lightgbm and sdmetrics. Every fit and every measure
has a file in the folder of --out; the same command continues where it was stopped. --write saves the figures in
results/adult.json and on the page docs/own_data.md, and --finished those of the seeds that are complete, without making
any.

The budget is processor time of one thread, because other programs slow a run down: the number of steps is .93 x (60 x
minutes - overhead) / (seconds per step), both from two short fits at the beginning; these have no dropout, for which
the steps of a longer fit take more time. The processor time that each fit took is in the results. Fits read and encode
the file, hold out a tenth of its rows for validation, and train on the others. Nothing was chosen on the rows of
adult_test.csv.

Models: "tauleap", the choices of ``fit``; "former", those of the version before table networks: a residual MLP over
padded indicators, the bound over random times, random masks, batches of 64 and a constant rate; "chain", gradient-
boosted trees column by column in the states of the model of seed 0; "real", the training rows themselves, of which
as many are drawn with replacement.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import torch
from _chain import chain_bits
from _metrics import copies, imputation, income_auc, nearest_rows, separation, shape_and_trend

import tauleap as tl
from tauleap.data import open_data
from tauleap.data.table.columns import TableEncoder
from tauleap.data.table.format import TableFormat
from tauleap.evaluate import bits_per_dim
from tauleap.training import RandomMasks

sys.path.append(str(Path(__file__).parents[2] / "diagnostics"))

from _page import table, write

MODELS: dict[str, dict[str, Any]] = {
    "tauleap": {},
    "former": {
        "network": "residual-mlp",
        "width": 256,
        "depth": 3,
        "objective": "complete",
        "batch_size": 64,
        "lr": 1e-3,
        "masking": RandomMasks(),
    },
}
TARGETS = {
    "shape": ("<=", {1: 0.6, 3: 0.55}),
    "trend": ("<=", {1: 1.4, 3: 1.3}),
    "c2st": ("<=", {1: 0.53, 3: 0.515}),
    "auc": (">=", {1: 0.91, 3: 0.916}),
    "bits minus former": ("<=", {1: -0.01, 3: -0.02}),
    "bits minus chain": ("<=", {3: 0.01}),
    "accuracy": (">=", {3: 0.77}),
    "nrmse": ("<=", {3: 0.8}),
    "seconds of imputation": ("<=", {3: 1.0}),
    "nearer to training rows": ("in", {1: (0.47, 0.53), 3: (0.47, 0.53)}),
    "copies": ("<=", {1: 0.001, 3: 0.001}),
}
BITS_SAMPLES = 16
_SHARE = 0.93
"""Of the steps that a budget allows at the pace of short fits, whose steps have no dropout."""
PAGE = "own_data.md"


class Experiment:
    """The tables, and the folder that holds a file for each result."""

    def __init__(self, data: Path, out: Path) -> None:
        self.data, self.out = data, out
        out.mkdir(parents=True, exist_ok=True)
        self.train, self.test = (
            pandas.read_csv(data / f"adult_{part}.csv", na_values=["NA"], keep_default_na=False)
            for part in ("train", "test")
        )

    def once(self, name: str, make: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return a result from its file; make it and write the file if there is none."""
        path = self.out / f"{name}.json"
        if not path.exists():
            result = make()
            path.with_suffix(".part").write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
            path.with_suffix(".part").replace(path)
            print(name, json.dumps(result), flush=True)
        return json.loads(path.read_text(encoding="utf-8"))

    def has(self, minutes: int, seed: int) -> bool:
        """Return whether a seed has been measured."""
        return (self.out / f"quality-tauleap-{minutes}-{seed}.json").exists()

    def fit(self, name: str, steps: int, seed: int) -> tuple[tl.Model, float]:
        """Return a model and the processor time of everything from the file to the model."""
        began = time.process_time()
        opened = open_data(self.data / "adult_train.csv", model_missing=True)
        model = tl.fit(opened, steps=steps, seed=seed, progress=False, **MODELS[name])
        return model, time.process_time() - began

    def steps(self, name: str, minutes: float) -> int:
        """Return the number of steps for a budget."""
        pace = self.once(f"pace-{name}", lambda: self._pace(name))
        return math.floor(_SHARE * (60 * minutes - pace["overhead"]) / pace["seconds_per_step"])

    def _pace(self, name: str) -> dict[str, Any]:
        few, many = 100, 500
        first, second = self.fit(name, few, 0)[1], self.fit(name, many, 0)[1]
        per_step = (second - first) / (many - few)
        return {"seconds_per_step": per_step, "overhead": max(0.0, first - few * per_step)}

    def model(self, name: str, minutes: float, seed: int) -> tl.Model:
        """Return the model of a seed, which is trained if it is not there."""
        folder = self.out / f"{name}-{minutes:g}-{seed}"

        def make() -> dict[str, Any]:
            steps = self.steps(name, minutes)
            model, seconds = self.fit(name, steps, seed)
            model.save(folder)
            return {"steps": steps, "best": model.about["step"], "fit_seconds": seconds}

        self.once(f"fit-{name}-{minutes:g}-{seed}", make)
        return tl.load(folder, device="cpu")

    def bits(self, name: str, minutes: float, seed: int) -> np.ndarray:
        """Return the bits per cell of every test row."""
        path = self.out / f"bits-{name}-{minutes:g}-{seed}.npy"
        if not path.exists():
            model = self.model(name, minutes, seed)
            x = model.encode(self.test).rows(torch.arange(len(self.test)))
            generator = torch.Generator().manual_seed(seed)
            found = bits_per_dim(
                model.reverse, x, samples=BITS_SAMPLES, batch_size=1024, per_datapoint=True, generator=generator
            )
            np.save(path, found.value.numpy())
        return np.load(path)

    def quality(self, name: str, minutes: float, seed: int) -> dict[str, Any]:
        """Return the measures of as many samples as there are training rows."""

        def make() -> dict[str, Any]:
            model = self.model(name, minutes, seed)
            began = time.process_time()
            samples = model.sample(len(self.train), seed=seed)
            seconds = time.process_time() - began
            filled = imputation(model, self.test, encoder_of(model), seed)
            return {"sample_seconds": seconds} | self._compared(samples, encoder_of(model), seed) | filled

        return self.once(f"quality-{name}-{minutes:g}-{seed}", make)

    def floor(self, seed: int) -> dict[str, Any]:
        """Return the measures of training rows that are drawn with replacement; the C2ST is that of distinct ones."""

        def make() -> dict[str, Any]:
            rows = np.random.default_rng(seed).integers(0, len(self.train), len(self.train))
            encoder = encoder_of(self.model("tauleap", 3, 0))
            return self._compared(self.train.iloc[rows].reset_index(drop=True), encoder, seed)

        def separated() -> dict[str, Any]:
            # A row that is drawn twice would be recognised by its copy.
            rows = np.random.default_rng(seed).permutation(len(self.train))[: len(self.test)]
            encoder = encoder_of(self.model("tauleap", 3, 0))
            return {"c2st": separation(self.test, self.train.iloc[rows].reset_index(drop=True), encoder, seed)}

        return self.once(f"quality-real-{seed}", make) | self.once(f"c2st-real-{seed}", separated)

    def chain(self) -> dict[str, Any]:
        """Return the bits per cell of a gradient-boosted chain in the states of the model of seed 0."""

        def make() -> dict[str, Any]:
            model = self.model("tauleap", 3, 0)
            encoder = encoder_of(model)
            tables = [model.encode(frame).rows(torch.arange(len(frame))).numpy() for frame in (self.train, self.test)]
            columns = [encoder.columns[place] for place in encoder.sites]
            ordered = [column.encoder.type == "number" and not column.missing_state for column in columns]
            began = time.process_time()
            bits, report = chain_bits(tables[0], tables[1], list(encoder.sizes), ordered)
            np.save(self.out / "bits-chain.npy", bits.mean(1))
            return {"bits": float(bits.mean()), "seconds": time.process_time() - began, "columns": report}

        return self.once("chain", make)

    def _compared(self, samples: pandas.DataFrame, encoder: TableEncoder, seed: int) -> dict[str, Any]:
        samples = samples[list(self.train)]
        shape, trend = shape_and_trend(self.train, samples, encoder)
        test_shape, test_trend = shape_and_trend(self.test, samples, encoder)
        return {
            "shape": shape,
            "trend": trend,
            "shape_of_test_rows": test_shape,
            "trend_of_test_rows": test_trend,
            "c2st": separation(self.test, samples.iloc[: len(self.test)], encoder, seed),
            "auc": income_auc(samples, self.test, encoder, seed),
            "nearer to training rows": nearest_rows(samples, self.train, self.test, encoder, seed),
            "copies": copies(samples, self.train),
        }


def encoder_of(model: tl.Model) -> TableEncoder:
    """Return the encoder of a model of a table."""
    assert isinstance(model.form, TableFormat)
    return model.form.encoder


def summary(run: Experiment, minutes: list[int], seeds: list[int], former: list[int]) -> dict[str, Any]:
    """Return means and standard errors over the seeds, with the targets beside them.

    Args:
        run: The results.
        minutes: The budgets.
        seeds: The seeds of the fits.
        former: Those of them whose former model is trained too.
    """
    found: dict[str, Any] = {"seeds": seeds, "seeds_of_former": former, "samples_per_row": BITS_SAMPLES}
    found["floor: real rows"] = _means([run.floor(seed) for seed in seeds])
    has_chain = (run.out / "bits-chain.npy").exists()
    if has_chain:
        found["chain"] = run.chain()
    if former:
        found["former"] = _means([{"bits": float(run.bits("former", 3, seed).mean())} for seed in former])
    for each in minutes:
        rows, differences = [], []
        for seed in seeds:
            bits = run.bits("tauleap", each, seed)
            row = dict(run.quality("tauleap", each, seed))
            row["seconds of imputation"] = row.pop("seconds")
            row["bits"] = float(bits.mean())
            if seed in former:
                differences.append({"bits minus former": float((bits - run.bits("former", 3, seed)).mean())})
            if seed == 0 and has_chain:
                chain = np.load(run.out / "bits-chain.npy")
                found[f"{each} min: bits minus chain, seed 0"] = _paired(bits - chain)
            if seed == 0 and seed in former:
                found[f"{each} min: bits minus former, seed 0"] = _paired(bits - run.bits("former", 3, seed))
            row |= json.loads((run.out / f"fit-tauleap-{each:g}-{seed}.json").read_text(encoding="utf-8"))
            rows.append(row)
        found[f"{each} min"] = _means(rows) | (_means(differences) if differences else {})
        found[f"{each} min: targets"] = _judged(found, each)
    return found


def _means(rows: list[dict[str, Any]]) -> dict[str, list[float | None]]:
    """Return mean and standard error of every number; None for the standard error of a single one."""
    out = {}
    for name in rows[0]:
        values = np.array([row[name] for row in rows], dtype=float)
        error = values.std(ddof=1) / math.sqrt(len(values)) if len(values) > 1 else None
        out[name] = [round(float(values.mean()), 5), None if error is None else round(float(error), 5)]
    return out


def _paired(difference: np.ndarray) -> list[float]:
    """Return the mean and the standard error over rows."""
    return [round(float(difference.mean()), 5), round(float(difference.std() / math.sqrt(len(difference))), 5)]


def _judged(found: dict[str, Any], minutes: int) -> dict[str, str]:
    """Return a line per target: the figure, the target, and whether it is met."""
    lines = {}
    for name, (sign, limits) in TARGETS.items():
        if minutes not in limits:
            continue
        figure = _figure(found, minutes, name)
        if figure is None:
            continue
        value, limit = figure[0], limits[minutes]
        met = limit[0] <= value <= limit[1] if sign == "in" else value <= limit if sign == "<=" else value >= limit
        lines[name] = f"{value:g} {sign} {limit}: {'met' if met else 'not met'}"
    return lines


_LABELS = {
    "shape": "shape error, %",
    "trend": "trend error, %",
    "c2st": "C2ST",
    "auc": "AUC of a classifier trained on samples",
    "bits minus former": "bits per cell minus those of the former choices, 3 minutes",
    "bits minus chain": "bits per cell minus those of the chain, seed 0",
    "accuracy": "accuracy of predicted categories",
    "nrmse": "NRMSE of predicted numbers",
    "seconds of imputation": "seconds of these predictions",
    "nearer to training rows": "samples nearer to a training row than to a test row (DCR share)",
    "copies": "exact copies of training rows",
}


def page(found: dict[str, Any], minutes: list[int]) -> str:
    """Return a table of the figures with their standard errors and targets, and lines about what they are."""
    head = ["", "real rows"]
    for each in minutes:
        head += [f"{each} min", "target"]
    rows = []
    for name, (sign, limits) in TARGETS.items():
        # Training rows are their own nearest rows.
        real = None if name in ("nearer to training rows", "copies") else found["floor: real rows"].get(name)
        line = [_LABELS[name], _shown(real)]
        for each in minutes:
            value, judged = _figure(found, each, name), found[f"{each} min: targets"].get(name)
            verdict = "" if judged is None else f": **{judged.rpartition(': ')[2]}**"
            line += [_shown(value), _target(sign, limits.get(each)) + verdict]
        rows.append(line)
    seconds = ", ".join(
        f"{found[f'{each} min']['fit_seconds'][0]:.0f} s for {found[f'{each} min']['steps'][0]:,.0f} steps"
        for each in minutes
    )
    seeds, former, chain = found["seeds"], found["seeds_of_former"], found.get("chain")
    of_chain = "" if chain is None else f": {chain['bits']:.4f} bits per cell after {chain['seconds']:.0f} s"
    sampling = found[f"{minutes[-1]} min"]["sample_seconds"][0]
    return (
        f"{table(head, rows)}\n\n"
        f"Means ± standard errors over {len(seeds)} fits (seeds {seeds[0]} to {seeds[-1]}), and {len(former)} of the "
        f"former choices; the standard error beside the chain is that of the test rows. Fits took {seconds} of "
        f"processor time in one thread, and 32,561 samples {sampling:.1f} s. Shape and trend compare samples with the "
        "training rows (SDMetrics, thresholds 0). All else is measured on adult_test.csv: C2ST is the AUC of gradient "
        "boosting between 16,281 samples and the test rows, and predictions are those of a fifth of the cells of 4,000 "
        "rows. Real rows are training rows drawn with replacement, for C2ST without. The chain is boosted trees, "
        f"column by column{of_chain}. The former choices are a residual "
        "MLP over padded indicators, random times and random masks.\n\n"
        f"*`python experiments/tables/adult.py --data FOLDER --seeds {len(seeds)} --former {len(former)} --write`*"
    )


def _target(sign: str, limit: float | tuple[float, float] | None) -> str:
    if limit is None:
        return ""
    if isinstance(limit, tuple):
        return f"{limit[0]:g} to {limit[1]:g}"
    return f"{'≤' if sign == '<=' else '≥'} {limit:g}"


def _shown(value: list[Any] | None) -> str:
    if value is None:
        return ""
    mean, error = value
    digits = 5 if abs(mean) < 0.001 else 4 if abs(mean) < 0.1 else 3
    return f"{mean:.{digits}f}" + ("" if error is None else f" ± {error:.{digits}f}")


def _figure(found: dict[str, Any], minutes: int, name: str) -> list[Any] | None:
    """Return a figure and its standard error; None if it was not measured."""
    if name == "bits minus chain":
        return found.get(f"{minutes} min: bits minus chain, seed 0")
    return found[f"{minutes} min"].get(name)


def main() -> None:
    """Make the missing results in an order in which the first of them are already a table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="folder with adult_train.csv and adult_test.csv")
    parser.add_argument("--out", type=Path, default=Path("runs/adult"), help="folder for models and results")
    parser.add_argument("--minutes", type=int, nargs="+", default=[1, 3])
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--former", type=int, default=5, help="seeds that are compared with the former choices")
    parser.add_argument("--finished", action="store_true", help="show and save what is finished, and make nothing")
    parser.add_argument("--write", action="store_true", help="save the figures in results/adult.json and on the page")
    given = parser.parse_args()
    torch.set_num_threads(1)
    run = Experiment(given.data, given.out)
    seeds, former = list(range(given.seeds)), list(range(min(given.seeds, given.former)))
    if given.finished:
        seeds = [seed for seed in seeds if all(run.has(minutes, seed) for minutes in given.minutes)]
        former = [seed for seed in seeds if (run.out / f"bits-former-3-{seed}.npy").exists()]
    for seed in [] if given.finished else seeds:
        for minutes in given.minutes:
            run.bits("tauleap", minutes, seed)
            run.quality("tauleap", minutes, seed)
        run.floor(seed)
        if seed == min(1, seeds[-1]):
            run.chain()
        if seed in former:
            run.bits("former", 3, seed)
    found = summary(run, given.minutes, seeds, former)
    print(json.dumps(found, indent=1))
    if given.write:
        path = Path(__file__).parent / "results" / "adult.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write(PAGE, "adult", page(found, given.minutes))


if __name__ == "__main__":
    main()
