"""Run the whole experiment, from training to the page, in two processes; run the same command again to resume.

    nice -n 19 python experiments/music/all.py --data FILE --steps 4000 --shipped-steps 10000

The order is training, evaluation, the model of the package, figures and page. Each process has one thread.
"""

from __future__ import annotations

import argparse
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from models import NAMES, SHIPPED
from rows import ROWS

sys.path.append(str(Path(__file__).parents[1]))

from _script import run

HERE = Path(__file__).parent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and the strict masks")
    parser.add_argument("--models", type=Path, default=Path("runs") / "music")
    parser.add_argument("--steps", type=int, default=4000, help="training steps of the models of the table")
    parser.add_argument("--shipped-steps", type=int, default=10_000)
    parser.add_argument("--completions", type=int, default=5)
    parser.add_argument("--jobs", type=int, default=2)
    arguments = parser.parse_args()
    data, models = ["--data", str(arguments.data)], ["--models", str(arguments.models)]

    def train(name: str) -> None:
        steps = arguments.shipped_steps if name == SHIPPED else arguments.steps
        run(HERE / "train.py", name, *data, "--steps", str(steps), "--out", str(arguments.models / name))

    def evaluate(names: list[str]) -> None:
        run(HERE / "evaluate.py", *data, *models, "--completions", str(arguments.completions), "--rows", *names)

    with ThreadPoolExecutor(arguments.jobs) as pool:
        list(pool.map(train, NAMES))
        list(pool.map(evaluate, [list(ROWS)[number :: arguments.jobs] for number in range(arguments.jobs)]))
    run(HERE / "references.py", *data)
    evaluate(["shipped"])  # All completions exist; this writes the table of all rows.
    run(HERE / "ship.py", *data, *models)
    run(HERE / "figures.py", *data, *models)
    run(HERE / "page.py")


if __name__ == "__main__":
    main()
