"""Molecules: valid, unique and novel fractions of samples, after budgets of processor time.

    python experiments/sequences/qm9.py --data FILE --minutes 3 20 60 --out FOLDER

FILE has a column ``smiles``: 133,247 molecules of QM9 (Ramakrishnan et al. 2014). Needs rdkit. For each budget, in
minutes on two cores, ``tauleap.fit`` trains the network it chooses, and an autoregressive network of the same layers,
weights and settings trains for the same processor time, on one thread. A trigram model counts characters of the same
rows. Run the same command again to resume. The results are written to experiments/sequences/results/qm9.json, and the
page docs/experiments/sequences.md from all results.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _autoregressive import Autoregressive, trained
from _budget import CORES, fitted, split, stored, write_json
from _measures import distances, floor, fraction
from _page import RESULTS, write_page
from _trigram import Trigram
from rdkit import Chem, RDLogger

import tauleap as tl
from tauleap.choose import choose
from tauleap.data.sequences.tokens.smiles import Smiles
from tauleap.evaluate import Estimate

HELD_OUT = 10_000
BOUND_ROWS, TIMES = 2_000, 16
"""Held-out rows of the bound, and random numbers of masked sites per row."""
SAMPLING_STEPS = 100
"""More than the 22 sites: one symbol is drawn at a time."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="CSV file with a column smiles")
    parser.add_argument("--minutes", type=float, nargs="+", default=[3.0], help="minutes on two cores (default: 3)")
    parser.add_argument("--samples", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/qm9"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    RDLogger.DisableLog("rdApp.*")
    n, seed = arguments.samples, arguments.seed
    data = tl.data.open_data(arguments.data, text="smiles")
    train, test = split(data.dataset, HELD_OUT, seed)
    known, fresh = data.form.texts(train.x), data.form.texts(test.x)
    canonical = set(stored(arguments.out / f"training-{seed}.json", lambda: sorted(set(molecules(known)) - {None})))
    real_tokens = [Smiles.split(text) for text in known]

    def measured(texts: list[str]) -> dict[str, Any]:
        found = molecules(texts)
        valid = [each for each in found if each is not None]
        unique = set(valid)
        return {
            "valid": fraction(len(valid), len(texts)),
            "unique": fraction(len(unique), len(valid)),
            "novel": fraction(len(unique - canonical), len(unique)),
            "variation": distances([Smiles.split(text) for text in texts], real_tokens),
            "examples": texts[:12],
        }

    path = RESULTS / "qm9.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    rng = np.random.default_rng(seed)

    def real_set(number: int) -> list[Sequence[str]]:
        return [Smiles.split(fresh[at]) for at in rng.choice(len(fresh), n, replace=False)]

    result |= {
        "seed": seed,
        "training_rows": len(train),
        "held_out_rows": len(test),
        "samples": n,
        "characters": round(float(np.mean([len(text) + 1 for text in fresh])), 3),
        "floor": floor(n, real_tokens, real_set),
        "real": measured([fresh[at] for at in rng.choice(len(fresh), n, replace=False)]),
    }
    if "trigram" not in result:
        model = Trigram(known)
        bits = Estimate.of_mean(torch.tensor([model.bits(text) for text in fresh], dtype=torch.float64))
        drawn = measured(model.sample(n, seed))
        result["trigram"] = drawn | {"bits_per_row": [round(bits.value, 3), round(bits.stderr, 3), bits.n]}
    write_json(path, result)
    for minutes in sorted(arguments.minutes):
        run = one(data, train, test, arguments.out / f"{minutes:g}", minutes, seed, n, measured)
        result["runs"] = [each for each in result["runs"] if each["minutes"] != minutes] + [run]
        result["runs"].sort(key=lambda each: each["minutes"])
        write_json(path, result)
        write_page()


def one(data: Any, train: Any, test: Any, out: Path, minutes: float, seed: int, n: int, measured: Any) -> dict:
    """Return the results of one budget."""
    model, done = fitted(data, out / "diffusion", minutes=minutes, seed=seed, held_out=HELD_OUT)

    def ours() -> dict[str, Any]:
        began = time.process_time()
        texts = model.sample(n, steps=SAMPLING_STEPS, seed=seed)
        seconds = time.process_time() - began
        rows = test.select(torch.arange(BOUND_ROWS))
        bits = model.bits_per_row(rows, samples=TIMES, seed=seed)
        return measured(texts) | {
            "bits_per_row": [round(bits.value, 3), round(bits.stderr, 3), bits.n],
            "sampling_seconds": round(seconds, 1),
        }

    def twin() -> dict[str, Any]:
        chosen = choose(data.dataset, minutes=minutes)
        config = chosen.denoiser().network.config
        torch.manual_seed(seed)
        network = Autoregressive(
            config["num_states"],
            config["shape"][0],
            **{name: config[name] for name in ("width", "depth", "heads", "dropout")},
            end=data.form.end,
        )
        found = trained(network, train, chosen.settings, out / "causal", minutes=CORES * minutes, seed=seed)
        bits = Estimate.of_mean(network.bits(test.x[:BOUND_ROWS]))
        began = time.process_time()
        texts = data.form.texts(network.sample(n, seed))
        seconds = time.process_time() - began
        return (
            measured(texts)
            | found
            | {
                "bits_per_row": [round(bits.value, 3), round(bits.stderr, 3), bits.n],
                "sampling_seconds": round(seconds, 1),
            }
        )

    return {
        "minutes": minutes,
        "diffusion": stored(out / "diffusion.json", ours) | done,
        "autoregressive": stored(out / "autoregressive.json", twin),
    }


def molecules(texts: Sequence[str]) -> list[str | None]:
    """Return the canonical SMILES of each row, None if it is no molecule."""

    def of(text: str) -> str | None:
        found = Chem.MolFromSmiles(text) if text else None
        return None if found is None else Chem.MolToSmiles(found)

    return [of(text) for text in texts]


if __name__ == "__main__":
    main()
