"""Compare absorbing with rank-one noise on a table of known distribution: same network, steps and masks.

    python experiments/own_data/choices.py [--steps 1000] [--write]

The rank-one process has the columns' marginals as its prior. The measure is bits/dim minus that of the exact
distribution, on the same 2,000 rows. ``--write`` writes the results to docs/own_data.md.
"""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

import torch

import tauleap as tl
from tauleap.choose import column_marginals

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT / "examples" / "data"), str(ROOT / "diagnostics")]

import make_some  # noqa: E402
from _page import table, write  # noqa: E402

ROWS, TEST, WIDTH = 20_000, 2000, 128


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--write", action="store_true")
    arguments = parser.parse_args()
    law = torch.from_numpy(make_some.law())
    sizes = torch.tensor(law.shape)
    states = int(sizes.max())
    rows, test = (torch.from_numpy(make_some.orders(n, seed=200 + k)) for k, n in enumerate((ROWS, TEST)))
    data, held_out = (tl.data.Dataset(x, states, sizes=sizes) for x in (rows, test))
    exact = -law[tuple(test.T)].log2() / law.ndim
    prior = torch.nn.functional.pad(
        column_marginals(data), (0, 1)
    )  # One more state, of prior 0, so that the networks are equal.
    processes = {
        "absorbing": tl.noise.Absorbing(states + 1, tl.noise.LogLinear(), sizes=sizes),
        "rank-one, the marginals": tl.noise.RankOne(prior, tl.noise.LogLinear()),
    }
    found = []
    for name, process in processes.items():
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(arguments.seed)
            sizes_of = {"width": WIDTH, "hidden": 2 * WIDTH, "depth": 3}
            network = tl.network.ResidualMLP(states + 1, (law.ndim,), **sizes_of, one_hot=True, mark_observed=True)
        began = time.process_time()
        settings = {"steps": arguments.steps, "seed": arguments.seed, "validation": held_out, "progress": False}
        model = tl.fit(data, process=process, network=network, **settings)
        seconds = time.process_time() - began
        bits = tl.evaluate.bits_per_dim(
            model.reverse,
            test,
            samples=16,
            batch_size=4096,
            per_datapoint=True,
            generator=torch.Generator().manual_seed(arguments.seed),
        ).value
        beyond = bits - exact
        stderr = float(beyond.std()) / len(beyond) ** 0.5
        found.append([name, f"{float(beyond.mean()):.4f} ± {stderr:.4f}", f"{seconds:.0f}"])
        print(*found[-1], flush=True)
    text = table(["noise", "bits/dim above the exact distribution", "processor seconds"], found)
    text += (
        f"\n\n*`python experiments/own_data/choices.py --steps {arguments.steps} --seed {arguments.seed} --write`: the "
        f"table below, {ROWS:,} rows, a residual MLP of width {WIDTH}, {arguments.steps:,} steps, {TEST:,} test "
        "rows; the standard error is that of the mean difference.*"
    )
    if arguments.write:
        write("own_data.md", "noise", text)


if __name__ == "__main__":
    main()
