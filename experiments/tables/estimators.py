"""Compare the standard errors of the two estimates of the bound of a table model under absorbing noise.

    python experiments/tables/estimators.py --model FOLDER --data FILE [--rows 500] [--repeats 16] [--write]

``bits_per_dim`` draws numbers of masked sites where the network does not take t; with ``times=LogUniformTimes()`` it
draws times, and evaluates the earliest one too. The same rows are measured ``repeats`` times with both. The measure is
the standard deviation of a row's estimate over the repeats, as the root of the mean variance of all rows, and its
ratio, whose standard error is that of the jackknife over rows.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import pandas
import torch
from torch import Tensor

import tauleap as tl
from tauleap.evaluate import bits_per_dim
from tauleap.objective import LogUniformTimes, Times


def repeated(model: tl.Model, x: Tensor, times: Times | None, samples: int, repeats: int) -> tuple[Tensor, float]:
    """Return the bits per cell of every row in every repeat, (repeats, rows), and the processor seconds."""
    began, found = time.process_time(), []
    for seed in range(repeats):
        generator = torch.Generator().manual_seed(seed)
        options: dict[str, Any] = {"samples": samples, "batch_size": 1024, "generator": generator}
        found.append(bits_per_dim(model.reverse, x, times=times, per_datapoint=True, **options).value)
    return torch.stack(found), time.process_time() - began


def main() -> None:
    """Print means, standard deviations and their ratio."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, required=True, help="a saved model of the table")
    parser.add_argument("--data", type=Path, required=True, help="a file of the table")
    parser.add_argument("--rows", type=int, default=500)
    parser.add_argument("--samples", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=16)
    parser.add_argument("--write", action="store_true", help="save the figures in results/estimators.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = tl.load(given.model, device="cpu")
    frame = pandas.read_csv(given.data, na_values=["NA"], keep_default_na=False)
    x = model.encode(frame).rows(torch.arange(given.rows))
    found: dict[str, Any] = {"rows": given.rows, "samples": given.samples, "repeats": given.repeats}
    variances = []
    for name, times in (("numbers of masked sites", None), ("log-uniform times", LogUniformTimes())):
        bits, seconds = repeated(model, x, times, given.samples, given.repeats)
        variances.append(bits.var(0))
        spread = float(variances[-1].mean().sqrt())
        found[name] = {
            "bits_per_cell": round(float(bits.mean()), 5),
            "standard_deviation_of_a_row": round(spread, 5),
            "seconds": round(seconds, 1),
        }
    first, second = variances
    ratios = ((first.sum() - first) / (second.sum() - second)).sqrt()
    error = (len(ratios) - 1) ** 0.5 * float(ratios.std(correction=0))
    found["ratio"] = [round(float((first.mean() / second.mean()).sqrt()), 4), round(error, 4)]
    print(json.dumps(found, indent=1))
    if given.write:
        path = Path(__file__).parent / "results" / "estimators.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
