"""Evaluate baselines: completions without a model.

    python experiments/music/references.py --data FILE

It evaluates all test songs in 5 runs, and writes results/references.json.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from pathlib import Path

import songs
import torch
from songs import COMPLETIONS, GIVEN, TESTED
from torch import Tensor

from tauleap.data.music.melody import NUM_STATES
from tauleap.evaluate import Completions, row_hellinger, row_outliers

RESULTS = Path(__file__).with_name("results")
SEED = 0


def repeat_given(test: Tensor, train: Tensor, generator: torch.Generator) -> Tensor:
    return test[:, :GIVEN].repeat(1, (test.shape[1] - GIVEN) // GIVEN)


def draw_given(test: Tensor, train: Tensor, generator: torch.Generator) -> Tensor:
    places = torch.randint(GIVEN, (len(test), test.shape[1] - GIVEN), generator=generator)
    return test[:, :GIVEN].gather(1, places)


def draw_training(test: Tensor, train: Tensor, generator: torch.Generator) -> Tensor:
    law = torch.bincount(train.flatten(), minlength=NUM_STATES).double()
    shape = (len(test), test.shape[1] - GIVEN)
    return torch.multinomial(law, shape[0] * shape[1], replacement=True, generator=generator).reshape(shape)


def other_song(test: Tensor, train: Tensor, generator: torch.Generator) -> Tensor:
    shift = int(torch.randint(1, len(test), (), generator=generator))
    return test.roll(shift, 0)[:, GIVEN:]


def nearest_opening(test: Tensor, train: Tensor, generator: torch.Generator) -> Tensor:
    equal = torch.stack([(song[:GIVEN] == train[:, :GIVEN]).sum(1) for song in test])
    return train[equal.argmax(1), GIVEN:]


ROWS: dict[str, Callable[[Tensor, Tensor, torch.Generator], Tensor]] = {
    "the given bars, repeated": repeat_given,
    "notes drawn from the given bars": draw_given,
    "notes drawn from the training songs": draw_training,
    "the continuation of another test song": other_song,
    "the continuation of the training song with the nearest opening": nearest_opening,
}


def measured(test: Tensor, train: Tensor) -> list[dict]:
    """Return the measures of every baseline on these test songs."""
    truth, out = test[:, GIVEN:], []
    for name, row in ROWS.items():
        generator = torch.Generator().manual_seed(SEED)
        runs = [row(test, train, generator) for _ in range(COMPLETIONS)]
        found = {"name": name}
        for number, measure in (("hellinger", row_hellinger), ("outliers", row_outliers)):
            done = Completions.of(torch.stack([measure(run, truth) for run in runs]))
            found[number] = {"value": done.mean.value, "stderr": done.mean.stderr, "spread": done.spread}
            if len(test) <= TESTED:  # For comparisons paired by song.
                values = torch.stack([measure(run, truth) for run in runs])
                found[number]["songs"] = [round(value, 5) for value in values.mean(0).tolist()]
        out.append(found)
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and the strict masks")
    loaded = songs.load(parser.parse_args().data)
    train = torch.cat([loaded.train, loaded.validation]).long()
    results = {
        name: {"songs": len(test), "seed": SEED, "runs": COMPLETIONS, "rows": measured(test.long(), train)}
        for name, test in (("all", loaded.test), ("tested", loaded.tested))
    }
    RESULTS.mkdir(exist_ok=True)
    (RESULTS / "references.json").write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    for name, found in results.items():
        for row in found["rows"]:
            print(f"{name:7}{row['hellinger']['value']:.3f} {row['outliers']['value']:.3f}  {row['name']}")


if __name__ == "__main__":
    main()
