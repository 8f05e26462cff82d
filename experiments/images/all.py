"""The whole experiment, two processes at a time, from training to the page; run it again to resume after a stop.

    nice -n 19 python experiments/images/all.py --data FILE

Training comes first, then the classifier, samples, the model of the package, figures and page. Each process has one
thread.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models import MODELS
from rows import ROWS

sys.path.append(str(Path(__file__).parents[1]))

from _script import run

HERE = Path(__file__).parent


def in_turn() -> list[list[str]]:
    """Models that can be trained together, after those with whose weights they begin."""
    rows: list[list[str]] = []
    left = list(MODELS)
    while left:
        rows.append([name for name in left if not set(MODELS[name].begins_with) & set(left)])
        left = [name for name in left if name not in rows[-1]]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    parser.add_argument("--steps", type=int, default=None, help="of every model; those of its recipe, if not given")
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    both = ["--data", str(arguments.data), "--models", str(arguments.models)]

    def train(name: str) -> None:
        steps = [] if arguments.steps is None else ["--steps", str(arguments.steps)]
        run(HERE / "train.py", name, *both[:2], *steps, "--out", str(arguments.models / name))

    def evaluate(names: list[str]) -> None:
        run(HERE / "evaluate.py", *both, "--rows", *names)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in in_turn():
            list(pool.map(train, row))
        run(HERE / "classifier.py", *both)
        list(pool.map(evaluate, [list(ROWS)[number :: arguments.jobs] for number in range(arguments.jobs)]))
    evaluate(list(ROWS)[:1])  # nothing is left to draw, but all of it is put together
    run(HERE / "ship.py", *both[2:])
    run(HERE / "figures.py", *both)
    run(HERE / "page.py")


if __name__ == "__main__":
    main()
