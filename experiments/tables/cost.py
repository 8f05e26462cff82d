"""Measure the cost of table networks by the total number of states and by the largest column.

    python experiments/tables/cost.py [--repeats 15] [--write]

Random tables whose columns have different numbers of states: processor milliseconds of a training step of the network
and the batch that ``fit`` chooses, one thread, median; its weights; and processor seconds for 200 samples. A residual
MLP over padded indicators, the former choice, is measured beside it up to 2^17 indicators: for 1,000 columns beside one
of 1,000 states it would take 10 GB.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import torch

import tauleap as tl
from tauleap.choose import choose
from tauleap.data import Dataset

sys.path.append(str(Path(__file__).parents[2] / "diagnostics"))

from _page import table, write

TABLES = {
    "1 column of 1,000 states": [1000],
    "1,000 columns of 2 states": [2] * 1000,
    "both together": [1000] + [2] * 1000,
    "20 columns of 100 states": [100] * 20,
    "2 columns of 1,000 states": [1000] * 2,
    "15 columns of 2 to 112 states, as Adult": [73, 9, 112, 16, 16, 7, 15, 6, 5, 2, 92, 92, 94, 42, 2],
}
ROWS, SAMPLES, MOST_INDICATORS = 2000, 200, 2**17


def measured(sizes: list[int], network: str, repeats: int) -> dict[str, Any]:
    """Return the milliseconds of a step, the weights and the seconds of sampling."""
    generator = torch.Generator().manual_seed(0)
    x = torch.stack([torch.randint(size, (ROWS,), generator=generator) for size in sizes], 1)
    data = Dataset(x, max(2, *sizes), sizes=torch.tensor(sizes))
    torch.manual_seed(0)
    chosen = choose(data, network=network, batch_size=256)
    model = tl.Model(chosen.process, chosen.denoiser(), shape=data.shape)
    optimizer = torch.optim.AdamW(model.reverse.parameters(), lr=1e-3, fused=True)
    times = []
    for _ in range(repeats):
        rows = data.rows(torch.randint(ROWS, (256,), generator=generator))
        began = time.process_time()
        chosen.objective(model.reverse, rows, generator=generator).mean().backward()
        optimizer.step()
        optimizer.zero_grad()
        times.append(time.process_time() - began)
    began = time.process_time()
    model.sample(SAMPLES, seed=0)
    return {
        "states": sum(sizes),
        "ms_per_step": round(1000 * statistics.median(times[1:]), 1),
        "weights": sum(weight.numel() for weight in model.reverse.parameters()),
        "seconds_for_200_samples": round(time.process_time() - began, 1),
        "sampler": str(model.sampling_plan().sampler),
    }


def page(found: dict[str, Any]) -> str:
    """Return the figures as a table."""
    rows = []
    for name in TABLES:
        own, former = found[f"{name}: table"], found.get(f"{name}: residual-mlp")
        times = [f"{own['ms_per_step']:.1f}", "" if former is None else f"{former['ms_per_step']:.1f}"]
        rows.append([name, f"{own['states']:,}", *times, f"{own['seconds_for_200_samples']:.1f}"])
    head = ["columns", "states in all", "ms per step", "of a residual MLP over padded indicators", "200 samples, s"]
    return (
        f"{table(head, rows)}\n\n"
        "*`python experiments/tables/cost.py --write`: processor time of one thread on a busy machine, median of 14 "
        "steps of 256 rows*"
    )


def main() -> None:
    """Print a line per table and network."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--write", action="store_true", help="save the figures in results/cost.json and on the page")
    given = parser.parse_args()
    torch.set_num_threads(1)
    found: dict[str, Any] = {}
    for name, sizes in TABLES.items():
        for network in ("table", "residual-mlp"):
            if network == "residual-mlp" and len(sizes) * max(sizes) > MOST_INDICATORS:
                continue
            result = measured(sizes, network, given.repeats)
            found[f"{name}: {network}"] = result
            print(name, network, json.dumps(result), flush=True)
    if given.write:
        path = Path(__file__).parent / "results" / "cost.json"
        path.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        write("own_data.md", "cost", page(found))


if __name__ == "__main__":
    main()
