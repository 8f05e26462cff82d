"""Compare the speed of two checkouts: the CPU time of losses, rates, draws and sampling steps, operation by operation,
and that of training and of ``tauleap sample`` from beginning to end.

    python benchmarks/compare_trees.py ../before .     # prints the time of the second over that of the first

Both run in this environment, in processes that alternate, with one thread each. Each number is the minimum over all
repeats, since other programs only add time. Freed memory stays with the process: whether an array of 20 MB meets pages
that the process already has depends on the history of its heap, and 20,000 page faults take longer than a loss with
5,000 states. Only names that both checkouts have can be compared.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import io
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from rich.console import Console

_KEEP_MEMORY = {"MALLOC_MMAP_MAX_": "0", "MALLOC_TRIM_THRESHOLD_": str(2**40), "MALLOC_TOP_PAD_": str(2**26)}
"""Settings of glibc, which otherwise returns large blocks to the system when they are freed; others ignore them."""
_LEAST_SECONDS = 0.1
"""Time for which each operation is repeated in a process: a minimum over a few calls of 0.1 ms is still noise."""
SIZES = {
    "32 states": (32, (64, 2)),
    "129 states": (129, (16, 256)),
    "256 states": (256, (8, 3, 16, 16)),
    "5000 states": (5000, (8, 64)),
}


def operations(only: str) -> Iterator[tuple[str, Callable[[], object]]]:
    """Return named calls, made when they are reached.

    Args:
        only: A part of the names of the operations to return; empty for all.
    """
    import torch

    import tauleap as tl

    class Answers(tl.denoise.Denoiser):
        def __init__(self, logits: torch.Tensor) -> None:
            super().__init__()
            self.logits = logits

        def forward(self, x_t, t, *, observed=None, condition=None):
            copies = -(-len(x_t) // len(self.logits))  # of two passes in one, or of some rows
            return tl.denoise.Posterior(torch.cat([self.logits] * copies) if copies > 1 else self.logits[: len(x_t)])

    noise, objective, sampling = tl.noise, tl.objective, tl.sampling
    objectives = {
        "CompleteElbo": objective.CompleteElbo(),
        "CompleteElbo with reconstruction": objective.CompleteElbo(reconstruction=True),
        "PaperElbo, 1 pass": objective.PaperElbo(passes=1),
        "PaperElbo, 2 passes": objective.PaperElbo(passes=2),
        "CrossEntropy": objective.CrossEntropy(),
        "DiscreteTimeElbo": objective.DiscreteTimeElbo(1000),
    }
    samplers = {"TauLeaping": sampling.TauLeaping(), "Ancestral": sampling.Ancestral()}
    for size, (states, shape) in SIZES.items():
        processes = {
            "uniform": noise.Uniform(states, noise.Constant(3.0 / states)),
            "absorbing": noise.Absorbing(states, noise.LogLinear()),
        }
        if states < 1000:
            processes["Gaussian"] = noise.Gaussian(states, noise.Exponential(3.0, 100.0), 2.0 * states, 6.0)
        for kind, process in processes.items():
            torch.manual_seed(0)
            x0, logits = torch.randint(states - 1, shape), torch.randn(*shape, states).requires_grad_()
            learned, fixed = (tl.ReverseProcess(process, Answers(each)) for each in (logits, logits.detach()))

            def gradient(loss: tl.objective.Objective, reverse=learned, x0=x0, logits=logits) -> object:
                return torch.autograd.grad(loss(reverse, x0).mean(), logits)

            noisy = process.noise(x0, 0.5)

            def step(sampler: tl.sampling.Sampler, reverse=fixed, noisy=noisy) -> object:
                with torch.no_grad():
                    return sampler.step(reverse, noisy, 0.5, 0.49)

            calls: dict[str, Callable[[], object]] = {
                name: lambda loss=loss, gradient=gradient: gradient(loss) for name, loss in objectives.items()
            }
            calls |= {name: lambda sampler=sampler, step=step: step(sampler) for name, sampler in samplers.items()}
            calls["rates"] = lambda reverse=fixed, x0=x0: reverse.rates(x0, 0.5)
            calls["noise"] = lambda process=process, x0=x0: process.noise(x0, 0.5)
            for name, call in calls.items():
                full = f"{size}, {kind}, {name}"
                if only in full:
                    yield full, call
    yield from ((name, call) for name, call in end_to_end() if only in name)


def end_to_end() -> Iterator[tuple[str, Callable[[], object]]]:
    """Return named calls that train or sample as the commands do, each into a folder of its own."""
    from tauleap import cli, recipes
    from tauleap.training import Run, train

    def training() -> None:
        recipe = recipes.toy()
        settings = dataclasses.replace(recipe.settings, steps=100, warmup=10, validate_every=None, sample_every=None)
        with tempfile.TemporaryDirectory() as folder:
            train(dataclasses.replace(recipe, settings=settings), Run(folder), console=Console(file=io.StringIO()))

    def sampling(words: str) -> None:
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            code = cli.main([*words.split(), "--seed", "0", "--device", "cpu", "--out", f"{folder}/samples"])
            if code != 0:
                raise RuntimeError(f"tauleap {words} ended with {code}")

    yield "end to end, train toy, 100 steps", training
    for words in (
        "sample toy -n 1000 --steps 50",
        "sample music-small -n 4 --steps 8",
        "sample mnist-small -n 4 --steps 8",
    ):
        yield f"end to end, {words}", lambda words=words: sampling(words)


def measure(repeats: int, only: str) -> dict[str, float]:
    """Return the least CPU time of every operation, in seconds.

    Args:
        repeats: How often each is called at least, after two calls that fill the caches.
        only: A part of the names of the operations to measure.
    """
    import torch

    torch.set_num_threads(1)
    found = {}
    for name, call in operations(only):
        times = []
        while len(times) < repeats + 2 or sum(times) < _LEAST_SECONDS:
            start = time.process_time()
            call()
            times.append(time.process_time() - start)
        found[name] = min(times[2:])
    return found


def main() -> None:
    """Print a table of times and ratios."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("trees", nargs="*", type=Path, metavar="CHECKOUT", help="the first is the one to compare with")
    parser.add_argument("--rounds", type=int, default=5, help="processes per checkout")
    parser.add_argument("--repeats", type=int, default=5, help="calls per process, at least")
    parser.add_argument("--only", default="", help="a part of the names of the operations to measure")
    given = parser.parse_args()
    if not given.trees:
        print(json.dumps(measure(given.repeats, given.only)))
        return
    if len(given.trees) != 2:
        parser.error(f"give two checkouts, got {len(given.trees)}")
    best: list[dict[str, float]] = [{}, {}]
    for _ in range(given.rounds):
        for times, tree in zip(best, given.trees, strict=True):
            where = os.environ | _KEEP_MEMORY | {"PYTHONPATH": str(tree.resolve() / "src"), "OMP_NUM_THREADS": "1"}
            command = [sys.executable, __file__, "--repeats", str(given.repeats), "--only", given.only]
            output = subprocess.run(command, env=where, check=True, capture_output=True, text=True).stdout
            for name, seconds in json.loads(output).items():
                times[name] = min(seconds, times.get(name, seconds))
    print("| operation | before, ms | after, ms | ratio |\n|---|---|---|---|")
    for name, before in best[0].items():
        after = best[1][name]
        print(f"| {name} | {1e3 * before:.2f} | {1e3 * after:.2f} | {after / before:.2f} |")


if __name__ == "__main__":
    main()
