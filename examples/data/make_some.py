"""Write some.csv: orders of a fictitious shop, sampled from a known distribution.

The distribution is a table of 2 x 5 x 40 x 5 x 2 probabilities, so the exact likelihood of a model's samples is known.
``law()`` returns the table, and ``main()`` writes 6,000 orders with one cell in twenty empty at random.

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
    """Return p(day, region, product, size, returned), float64 of shape (2, 5, 40, 5, 2).

    The day depends on the region, the product on both, the size on the product, and returns on product and size. So
    each column is informative about the others.
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
    """Return independent rows (rows, 5) of indices of categories."""
    joint = law()
    cells = np.random.default_rng(seed).choice(joint.size, size=rows, p=joint.ravel())
    return np.stack(np.unravel_index(cells, joint.shape), axis=1)


def empty(shape: tuple[int, ...], seed: int = SEED) -> np.ndarray:
    """Return a mask of empty cells, independent with equal probability."""
    return np.random.default_rng([seed, 1]).random(shape) < EMPTY


def main(path: Path) -> None:
    """Write the table to a file."""
    rows = orders(ROWS)
    hidden = empty(rows.shape)
    with path.open("w", encoding="utf-8", newline="") as file:
        out = csv.writer(file, lineterminator="\n")
        out.writerow(COLUMNS)
        for row, is_empty in zip(rows, hidden, strict=True):
            cells = zip(COLUMNS.values(), row, is_empty, strict=True)
            out.writerow(["" if missing else categories[state] for categories, state, missing in cells])


if __name__ == "__main__":
    main(Path(__file__).with_name("some.csv"))
