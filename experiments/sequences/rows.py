"""Names and proteins: lengths and composition of samples, by the defaults of ``tauleap.fit``.

    python experiments/sequences/rows.py names --minutes 3 --out FOLDER
    python experiments/sequences/rows.py proteins --minutes 3 --out FOLDER

Names are first_names.txt beside this script. The proteins are 2,000 sequences that this script writes as a FASTA file:
each begins with M, its length is 30 plus a negative binomial number, and its amino acids follow a chain of two hidden
states, helix and sheet, each with frequencies of its own. As many fresh sequences are the floor of proteins; for
names it is as many draws with replacement from the training rows. Run the same command again to resume. The results
are written to experiments/sequences/results/rows-NAME.json, and the page docs/experiments/sequences.md from all
results.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _budget import fitted, split, stored, write_json
from _measures import distances, floor, fraction
from _page import RESULTS, write_page

import tauleap as tl

NAMES = Path(__file__).with_name("first_names.txt")
AMINO = "ACDEFGHIKLMNPQRSTVWY"
PROTEINS, LONGEST = 2000, 120
HELIX = dict(zip("AELMQKRHDS", (16, 13, 13, 4, 8, 12, 9, 4, 6, 5), strict=True))
SHEET = dict(zip("VIYFWTLCGNPS", (17, 14, 9, 9, 4, 13, 8, 5, 7, 4, 4, 6), strict=True))
STAY = 0.9
"""The probability that the next amino acid has the same hidden state."""


def proteins(n: int, seed: int) -> list[str]:
    """Return sequences of the chain."""
    rng = np.random.default_rng(seed)
    laws = [np.array([law.get(letter, 0.5) for letter in AMINO]) for law in (HELIX, SHEET)]
    laws = [law / law.sum() for law in laws]
    found = []
    for length in np.minimum(30 + rng.negative_binomial(3, 0.1, n), LONGEST):
        states = (rng.integers(2) + np.cumsum(rng.random(length) >= STAY)) % 2
        letters = [AMINO[rng.choice(20, p=laws[state])] for state in states]
        found.append("M" + "".join(letters[1:]))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("names", "proteins"))
    parser.add_argument("--minutes", type=float, default=3.0, help="minutes on two cores (default: 3)")
    parser.add_argument("--samples", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/rows"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    seed, n = arguments.seed, arguments.samples
    out = arguments.out / f"{arguments.what}-{arguments.minutes:g}"
    file = NAMES
    if arguments.what == "proteins":
        out.mkdir(parents=True, exist_ok=True)
        file = out / "proteins.fasta"
        rows = proteins(PROTEINS, 1000 + seed)
        file.write_text("".join(f">made_{number}\n{row}\n" for number, row in enumerate(rows)))
    data = tl.data.open_data(file)
    form: Any = data.form
    held_out = len(data.dataset) // 10
    train, test = split(data.dataset, held_out, seed)
    known, fresh = form.texts(train.in_memory()), form.texts(test.in_memory())
    model, done = fitted(data, out, minutes=arguments.minutes, seed=seed, held_out=held_out)

    def measured() -> dict[str, Any]:
        texts = model.sample(n, seed=seed)
        return {
            "variation": distances(texts, known),
            "in_training_rows": fraction(sum(text in set(known) for text in texts), n),
            "in_held_out_rows": len(set(texts) & set(fresh)),
            "different": len(set(texts)),
            "mean_length": [round(float(np.mean([len(text) for text in rows])), 2) for rows in (texts, known)],
            "examples": texts[:24] if arguments.what == "names" else texts[:4],
            "begin_with_m": fraction(sum(text.startswith("M") for text in texts), n),
        }

    def real(number: int) -> Sequence[str]:
        if arguments.what == "proteins":
            return proteins(n, 2000 + number)
        rng = np.random.default_rng(number)
        return [known[at] for at in rng.integers(len(known), size=n)]

    result = {"training_rows": len(known), "held_out_rows": len(fresh), "floor": floor(n, known, real)}
    result |= done | stored(out / "samples.json", measured)
    write_json(RESULTS / f"rows-{arguments.what}.json", result)
    write_page()


if __name__ == "__main__":
    main()
