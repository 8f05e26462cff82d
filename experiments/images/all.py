"""Run the whole experiment, from training to the page, in two processes; run the same command again to resume.

    nice -n 19 python experiments/images/all.py --data FILE

The order is training, classifier, samples, the model of the package, figures and page. Each process has one thread.
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


def training_order() -> list[list[str]]:
    """Return groups of models: each starts from weights of models in groups before it."""
    rows: list[list[str]] = []
    remaining = list(MODELS)
    while remaining:
        rows.append([name for name in remaining if not set(MODELS[name].begins_with) & set(remaining)])
        remaining = [name for name in remaining if name not in rows[-1]]
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help="a folder of idx files, or an .npz")
    parser.add_argument("--models", type=Path, default=Path("runs") / "images")
    parser.add_argument(
        "--steps", type=int, default=None, help="training steps of every model. Default: those of its recipe"
    )
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    paths = ["--data", str(arguments.data), "--models", str(arguments.models)]

    def train(name: str) -> None:
        steps = [] if arguments.steps is None else ["--steps", str(arguments.steps)]
        run(HERE / "train.py", name, *paths[:2], *steps, "--out", str(arguments.models / name))

    def evaluate(names: list[str]) -> None:
        run(HERE / "evaluate.py", *paths, "--rows", *names)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        for row in training_order():
            list(pool.map(train, row))
        run(HERE / "classifier.py", *paths)
        list(pool.map(evaluate, [list(ROWS)[number :: arguments.jobs] for number in range(arguments.jobs)]))
    evaluate(list(ROWS)[:1])  # All samples exist; this writes the table of all rows.
    run(HERE / "ship.py", *paths[2:])
    run(HERE / "figures.py", *paths)
    run(HERE / "page.py")


if __name__ == "__main__":
    main()
