"""Text: bits per character of tiny Shakespeare with the defaults of ``tauleap train``.

    python experiments/sequences/shakespeare.py --data FILE --minutes 10 60 --out FOLDER

FILE is an .npz with ``train`` and ``test``, one axis of character numbers each, and ``vocab``, the characters. For each
budget, in minutes on two cores, ``tauleap.fit`` cuts the training text into windows of 64 characters and trains the
network it chooses, and an autoregressive network of the same layers, weights and settings trains on the same windows
for the same processor time, on one thread. Both are measured on all windows of the test text, each without the text
before it. The trigram model counts characters of the whole training text, and predicts the whole test text. Run the
same command again to resume. The results are written to experiments/sequences/results/shakespeare.json, and the page
docs/experiments/sequences.md from all results.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from _autoregressive import Autoregressive, trained
from _budget import CORES, fitted, split, stored, write_json
from _page import RESULTS, write_page
from torch import Tensor

import tauleap as tl
from tauleap.choose import choose
from tauleap.data import Dataset
from tauleap.data.text import TextFormat
from tauleap.evaluate import Estimate

LENGTH = 64
HELD_OUT = 1500
"""Windows of the training text by which ``tauleap.fit`` selects a checkpoint."""
TIMES = 8
"""Random numbers of masked sites per window of the test text."""
SAMPLES = 4


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", type=Path, required=True, help=".npz with train, test and vocab")
    parser.add_argument("--minutes", type=float, nargs="+", default=[10.0], help="minutes on two cores (default: 10)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--out", type=Path, default=Path("runs/shakespeare"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    data, test, numbers = opened(arguments.data, arguments.out)
    path = RESULTS / "shakespeare.json"
    result: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {"runs": []}
    result |= {
        "seed": arguments.seed,
        "test_windows": len(test),
        "counts": {str(order): round(by_counts(*numbers, order), 3) for order in (1, 2, 3)},
    }
    for minutes in sorted(arguments.minutes):
        run = one(data, test, arguments.out / f"{minutes:g}", minutes, arguments.seed)
        result["runs"] = [each for each in result["runs"] if each["minutes"] != minutes] + [run]
        result["runs"].sort(key=lambda each: each["minutes"])
        write_json(path, result)
        write_page()


def opened(file: Path, out: Path) -> tuple[tl.data.LoadedData, Dataset, tuple[Tensor, Tensor]]:
    """Return the training text as ``tauleap train`` reads it, the windows of the test text, and all character numbers.

    Args:
        file: The .npz.
        out: The folder where the training text is written as a .txt.
    """
    with np.load(file, allow_pickle=False) as arrays:
        vocab = [str(character) for character in arrays["vocab"].tolist()]
        texts = {part: "".join(vocab[number] for number in arrays[part]) for part in ("train", "test")}
        numbers = tuple(torch.from_numpy(arrays[part]).long() for part in ("train", "test"))
    out.mkdir(parents=True, exist_ok=True)
    path = out / "shakespeare.txt"
    path.write_text(texts["train"], encoding="utf-8")
    data = tl.data.open_data(path)
    assert isinstance(data.form, TextFormat)
    place = {character: number for number, character in enumerate(data.form.alphabet or "")}
    states = torch.tensor([place[character] for character in texts["test"]])
    windows = states[: len(states) // LENGTH * LENGTH].reshape(-1, LENGTH)
    return data, Dataset(windows, data.dataset.num_states), (numbers[0], numbers[1])


def by_counts(train: Tensor, test: Tensor, order: int) -> float:
    """Return bits per character of a text by counts of ``order`` consecutive characters plus 1."""
    size = int(max(train.max(), test.max())) + 1

    def places(text: Tensor) -> Tensor:
        return (text.unfold(0, order, 1) * size ** torch.arange(order - 1, -1, -1)).sum(1)

    counts = torch.bincount(places(train), minlength=size**order).double().reshape(-1, size) + 1
    return -float((counts / counts.sum(1, keepdim=True)).log2().reshape(-1)[places(test)].mean())


def one(data: tl.data.LoadedData, test: Dataset, out: Path, minutes: float, seed: int) -> dict[str, Any]:
    """Return the results of one budget."""
    form: Any = data.form
    model, done = fitted(data, out / "diffusion", minutes=minutes, seed=seed, held_out=HELD_OUT)

    def ours() -> dict[str, Any]:
        bits = model.bits_per_dim(test, samples=TIMES, seed=seed)
        return {"bits": [round(bits.value, 4), round(bits.stderr, 4)], "examples": model_texts(model, seed)}

    def twin() -> dict[str, Any]:
        chosen = choose(data.dataset, is_text=True, minutes=minutes)
        config = chosen.denoiser().network.config  # pyright: ignore[reportAttributeAccessIssue]
        torch.manual_seed(seed)
        sizes = {name: config[name] for name in ("width", "depth", "heads", "dropout")}
        network = Autoregressive(config["num_states"], LENGTH, **sizes, end=None)
        rows, _ = split(data.dataset, HELD_OUT, seed)
        found = trained(network, rows, chosen.settings, out / "causal", minutes=CORES * minutes, seed=seed)
        bits = Estimate.of_mean(network.bits(test.in_memory()) / LENGTH)
        texts = form.texts(network.sample(SAMPLES, seed))
        return found | {"bits": [round(bits.value, 4), round(bits.stderr, 4)], "examples": texts}

    return {
        "minutes": minutes,
        "diffusion": done | stored(out / "diffusion.json", ours),
        "autoregressive": stored(out / "autoregressive.json", twin),
    }


def model_texts(model: tl.Model, seed: int) -> list[str]:
    """Return a few samples as texts."""
    began = time.process_time()
    x = model.sample(SAMPLES, seed=seed, states=True)
    print(f"{SAMPLES} samples in {time.process_time() - began:.1f} s of processor time")
    form: Any = model.form
    return form.texts(x)


if __name__ == "__main__":
    main()
