"""Train and sample a text model with a byte-pair vocabulary by two checkouts: steps and samples per second, and bits.

    python benchmarks/text_model.py ../before . --data FILE --vocabulary 4096 --steps 300 --compare 100
    python benchmarks/text_model.py ../before . --data FILE --vocabulary 50257 --steps 150 --compare 40

FILE is an .npz with ``train`` and ``test``, one axis of character numbers each, and ``vocab``, the characters. The
second checkout trains for ``--steps`` steps, and the first one for the first ``--compare`` of them, with the same seed.
Both evaluate and sample the weights of the second. Each task is a process with one thread; its time is the CPU time,
without start and loading. The script needs the extra ``text``, and writes benchmarks/text_model.json and, from all
results so far, benchmarks/text_model.md.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

HERE = Path(__file__).parent
RESULTS, PAGE = HERE / "text_model.json", HERE / "text_model.md"
LENGTH, WIDTH, DEPTH, HEADS = 64, 256, 4, 4
BATCH, LEARNING_RATE, WARMUP = 8, 1e-3, 20
SAMPLES, SAMPLE_STEPS = 2, 128
WINDOWS, TIMES = 32, 2


def tokens(data: Path, vocabulary: int, out: Path) -> tuple[int, int]:
    """Write the tokens of both texts; return the symbols of the tokeniser and the number of training tokens.

    Args:
        data: The file with the texts.
        vocabulary: The largest number of symbols.
        out: The file to write.
    """
    from tauleap.data.sequences.tokens.byte_pairs import BytePairs

    with np.load(data, allow_pickle=False) as arrays:
        characters = [str(each) for each in arrays["vocab"].tolist()]
        texts = {part: "".join(characters[i] for i in arrays[part].tolist()) for part in ("train", "test")}
    fitted = BytePairs.fit(texts["train"].splitlines(keepends=True), vocabulary)
    coded = {part: np.asarray(fitted.encode(text), dtype=np.int64) for part, text in texts.items()}
    np.savez(out, **coded)
    return fitted.num_symbols, len(coded["train"])


def work(options: argparse.Namespace) -> dict[str, Any]:
    """Do one task with the tauleap that is imported, and return its time and results."""
    import torch
    from safetensors.torch import load_file, save_file

    import tauleap as tl

    torch.set_num_threads(1)
    torch.manual_seed(options.seed)
    states = options.vocabulary + 1
    with np.load(options.tokens, allow_pickle=False) as arrays:
        text = {part: torch.from_numpy(arrays[part]) for part in ("train", "test")}
    network = tl.network.SequenceTransformer(states, width=WIDTH, depth=DEPTH, heads=HEADS, time=False)
    process = tl.noise.Absorbing(states, tl.noise.LogLinear())
    reverse = tl.ReverseProcess(process, tl.denoise.NetworkDenoiser(network))
    objective, generator = tl.objective.CompleteElbo(), torch.Generator().manual_seed(options.seed)
    if options.task == "train":
        optimizer = torch.optim.AdamW(network.parameters(), lr=LEARNING_RATE)
        windows, losses, seconds = text["train"].unfold(0, LENGTH, 1), [], []
        for step in range(options.steps):
            began = time.process_time()
            for group in optimizer.param_groups:
                group["lr"] = LEARNING_RATE * min(1.0, (step + 1) / WARMUP)
            x0 = windows[torch.randint(len(windows), (BATCH,), generator=generator)]
            optimizer.zero_grad()
            loss = objective(reverse, x0, generator=generator).mean()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
            optimizer.step()
            seconds.append(time.process_time() - began)
            losses.append(loss.item() / LENGTH / math.log(2))
        save_file(network.state_dict(), options.weights)
        return {"losses": losses, "seconds": seconds}
    network.load_state_dict(load_file(options.weights))
    network.eval()
    began = time.process_time()
    if options.task == "evaluate":
        rows, bits = text["test"][: WINDOWS * LENGTH].reshape(-1, LENGTH), []
        with torch.no_grad():
            for part in rows.split(BATCH):
                for time_ in range(TIMES):
                    t = (torch.rand(len(part), generator=generator, dtype=torch.float64) + time_) / TIMES
                    bits.append(objective(reverse, part, t=t, generator=generator).value / LENGTH / math.log(2))
        return {"bits": torch.cat(bits).mean().item(), "seconds": time.process_time() - began}
    found = tl.sample(
        reverse,
        tl.sampling.Ancestral(),
        (SAMPLES, LENGTH),
        grid=tl.sampling.uniform_grid(SAMPLE_STEPS, end=0.001),
        final="sample",
        generator=generator,
    )
    seconds = time.process_time() - began
    with torch.no_grad():
        own = objective(reverse, found.x0, t=torch.full((SAMPLES,), 0.5).double(), generator=generator).value
    return {
        "evaluations": found.info.evaluations,
        "seconds": seconds,
        "own bits": own.mean().item() / LENGTH / math.log(2),
    }


def compare(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    """Return the results of one vocabulary, from both checkouts."""
    symbols, number = tokens(options.data, options.vocabulary, folder / "tokens.npz")

    def run(tree: Path, task: str, weights: str, steps: int = 0) -> dict[str, Any]:
        command = [sys.executable, __file__, "--task", task, "--vocabulary", str(options.vocabulary)]
        command += ["--tokens", str(folder / "tokens.npz"), "--weights", str(folder / weights)]
        command += ["--steps", str(steps), "--seed", str(options.seed)]
        where = os.environ | {"PYTHONPATH": str(tree.resolve() / "src"), "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=where, check=True, stdout=subprocess.PIPE, text=True)
        return json.loads(done.stdout.splitlines()[-1])

    before, after = options.trees
    trained = run(after, "train", "weights", options.steps)
    first = run(before, "train", "others", options.compare)
    found: dict[str, Any] = {
        "symbols": symbols,
        "training tokens": number,
        "steps": options.steps,
        "compared": options.compare,
        "seed": options.seed,
        "last bits": float(np.mean(trained["losses"][-options.steps // 10 :])),
        "largest difference": max(abs(a - b) for a, b in zip(first["losses"], trained["losses"], strict=False)),
        "minutes": sum(trained["seconds"]) / 60,
    }
    for name, tree, times in (("before", before, first["seconds"]), ("after", after, trained["seconds"])):
        evaluated, drawn = (run(tree, task, "weights") for task in ("evaluate", "sample"))
        found[name] = {
            "seconds per step": float(np.median(times[: options.compare])),
            "bits": evaluated["bits"],
            "evaluation": evaluated["seconds"],
            "seconds per sample": drawn["seconds"] / SAMPLES,
            "evaluations": drawn["evaluations"],
            "own bits": drawn["own bits"],
        }
    return found


def as_text(results: dict[str, Any]) -> str:
    """Return the table of all results, and how they were measured."""
    lines = ["| vocabulary | | before | now | speed-up |", "|---|---|---:|---:|---:|"]
    notes = []
    for vocabulary, found in results.items():
        before, after = found["before"], found["after"]
        for name, key in (("training", "seconds per step"), ("sampling", "seconds per sample")):
            unit = "steps/s" if name == "training" else "samples/s"
            lines.append(
                f"| {int(vocabulary):,} | {name}, {unit} | {1 / before[key]:.3g} | {1 / after[key]:.3g} | "
                f"{before[key] / after[key]:.2f}x |"
            )
        lines.append(
            f"| | network evaluations per sample | {before['evaluations']:.1f} | {after['evaluations']:.1f} | |"
        )
        lines.append(f"| | bits per token of test windows | {before['bits']:.6f} | {after['bits']:.6f} | |")
        fewer = "" if found["symbols"] == int(vocabulary) else f", of which the text yields {found['symbols']:,}"
        notes.append(
            f"{int(vocabulary):,} states{fewer}: {found['training tokens']:,} training tokens, {found['steps']} steps "
            f"in {found['minutes']:.1f} minutes of one core, the first {found['compared']} of them by both; their "
            f"losses differ by at most {found['largest difference']:.1e} bits per token."
        )
    return "\n".join(
        [
            *lines,
            "",
            f"*Tiny Shakespeare in byte pairs, rows of {LENGTH} tokens, a sequence transformer without t (width {WIDTH}"
            f", depth {DEPTH}), batches of {BATCH}, `CompleteElbo`, AdamW; {SAMPLES} samples by `Ancestral()` in "
            f"{SAMPLE_STEPS} steps. Bits are the bound at {TIMES} times for each of {WINDOWS} test windows, with the "
            "same weights and noise for both. The models are hardly trained; their bits show that both agree. CPU time "
            "of one thread, other programs were running; one run each, seed "
            f"0. {' '.join(notes)} `python benchmarks/text_model.py BEFORE . --data FILE --vocabulary N`*",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="*", type=Path, metavar="CHECKOUT", help="the first is the one to compare with")
    parser.add_argument("--data", type=Path, help=".npz with train, test and vocab")
    parser.add_argument("--vocabulary", type=int, required=True, help="number of byte pairs")
    parser.add_argument("--steps", type=int, default=300, help="training steps of the second checkout")
    parser.add_argument("--compare", type=int, default=100, help="training steps of the first checkout")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--task", choices=("train", "evaluate", "sample"), help=argparse.SUPPRESS)
    parser.add_argument("--tokens", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--weights", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.task is not None:
        print(json.dumps(work(options)))
        return
    if len(options.trees) != 2 or options.data is None:
        parser.error("give two checkouts and --data")
    results = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
    with tempfile.TemporaryDirectory() as folder:
        results[str(options.vocabulary)] = compare(options, Path(folder))
    results = {key: results[key] for key in sorted(results, key=int)}
    RESULTS.write_text(json.dumps(results, indent=1) + "\n", encoding="utf-8")
    PAGE.write_text(as_text(results) + "\n", encoding="utf-8")
    print(as_text(results))


if __name__ == "__main__":
    main()
