"""Makes some.csv: orders of a shop that does not exist, drawn from a law that is known exactly.

The law is a table of 2 x 5 x 40 x 5 x 2 probabilities, so what a model has learnt of it can be judged by brute force:
``law()`` gives the table, ``main()`` writes 6,000 orders with one cell in twenty left empty, whatever it would hold.

    python examples/data/make_some.py
"""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np

ROWS, EMPTY, SEED = 6000, 0.05, 0
COLUMNS: dict[str, list[str]] = {
    "day": ["weekday", "weekend"],
    "region": ["centre", "east", "north", "south", "west"],
    "product": [f"{thing} {number}" for thing in ("bag", "cup", "hat", "mat", "pen") for number in range(1, 9)],
    "size": ["L", "M", "S", "XL", "XS"],
    "returned": ["no", "yes"],
}


def law() -> np.ndarray:
    """p(day, region, product, size, returned), float64 of shape (2, 5, 40, 5, 2).

    A region has its days, a day in a region its few products, a product its size, and what is returned depends on the
    product and the size: each column is informative about the others.
    """
    draw = np.random.default_rng(SEED)
    sizes = [len(categories) for categories in COLUMNS.values()]
    region = draw.dirichlet(np.full(sizes[1], 5.0))
    day = draw.dirichlet(np.full(sizes[0], 0.5), size=sizes[1])
    product = draw.dirichlet(np.full(sizes[2], 0.08), size=(sizes[0], sizes[1]))
    size = draw.dirichlet(np.full(sizes[3], 0.2), size=sizes[2])
    returned = draw.dirichlet(np.full(sizes[4], 0.3), size=(sizes[2], sizes[3]))
    joint = np.einsum("r,rd,drp,ps,psb->drpsb", region, day, product, size, returned)
    return joint / joint.sum()


def orders(rows: int, seed: int = SEED) -> np.ndarray:
    """Independent rows of the law, (rows, 5), as places in the categories."""
    joint = law()
    cells = np.random.default_rng(seed).choice(joint.size, size=rows, p=joint.ravel())
    return np.stack(np.unravel_index(cells, joint.shape), axis=1)


def empty(shape: tuple[int, ...], seed: int = SEED) -> np.ndarray:
    """Which cells are left empty: each by itself, with the same probability."""
    return np.random.default_rng([seed, 1]).random(shape) < EMPTY


def main(path: Path) -> None:
    """Writes the table."""
    rows = orders(ROWS)
    hidden = empty(rows.shape)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for row, gone in zip(rows, hidden, strict=True):
            cells = zip(COLUMNS.values(), row, gone, strict=True)
            out.writerow(["" if missing else held[state] for held, state, missing in cells])


if __name__ == "__main__":
    main(Path(__file__).with_name("some.csv"))
