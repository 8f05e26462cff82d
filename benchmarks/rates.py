"""Reverse rates at the shapes of the paper's experiments: time against the dense formula, and memory."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import torch

from benchmarks import FixedLogits, Row, benchmark, peak_memory, side_by_side
from benchmarks.paper import DenseRates, by_columns, by_entries, by_lists
from tauleap import ReverseProcess
from tauleap.noise import BirthDeath, Constant, Exponential, Gaussian, Uniform

_TAKES = {"": by_lists, "; reference indexed by entries": by_entries, "; reference indexed by columns": by_columns}


@benchmark
def music() -> Iterator[Row]:
    x, logits, times = torch.randint(129, (16, 256)), torch.randn(16, 256, 129), torch.rand(16) * 0.99 + 0.01
    processes = {"uniform": Uniform(129, Constant(0.03)), "birth/death": BirthDeath(129, Exponential(0.5, 10_000))}
    for name, process in processes.items():
        reverse = ReverseProcess(process, FixedLogits(logits))
        new_times = (times - 1e-6 * (i % 1000) for i in count())  # as in training: no kernel serves twice
        for how, take in _TAKES.items():
            dense = DenseRates(process, take)
            ours, theirs = side_by_side(
                lambda: reverse.rates(x, next(new_times)),  # noqa: B023
                lambda: dense.rates(logits, x, times),  # noqa: B023
            )
            target = 10.0 if name == "uniform" and take is by_lists else None
            yield Row(f"music, {name}, one time per sample{how}", theirs / ours, "x faster", at_least=target)
        peak = peak_memory(lambda: reverse.rates(x, next(new_times)))  # noqa: B023
        yield Row(f"music, {name}: peak beyond the logits", peak / logits.nbytes, "x logits")


@benchmark
def images() -> Iterator[Row]:
    process = Gaussian(256, Exponential(3.0, 100.0), 512.0, 6.0)
    x, logits = torch.randint(256, (8, 3, 32, 32)), torch.randn(8, 3, 32, 32, 256)
    reverse = ReverseProcess(process, FixedLogits(logits))
    for time in (0.01, 0.1, 0.5, 1.0):
        for how, take in _TAKES.items():
            dense, times = DenseRates(process, take), torch.full((8,), time)
            ours, theirs = side_by_side(lambda: reverse.rates(x, time), lambda: dense.rates(logits, x, times))  # noqa: B023
            target = 1.3 if take is by_lists else None
            yield Row(f"images, Gaussian, t = {time}{how}", theirs / ours, "x faster", at_least=target)
        new_times = (time - 1e-9 * i for i in count(1))
        dense = DenseRates(process)
        ours, theirs = side_by_side(
            lambda: reverse.rates(x, next(new_times)),  # noqa: B023
            lambda: dense.rates(logits, x, times),  # noqa: B023
        )
        yield Row(f"images, Gaussian, t = {time}, its kernel made anew", theirs / ours, "x faster")
        peak = peak_memory(lambda: reverse.rates(x, time))  # noqa: B023
        yield Row(f"images, t = {time}: peak beyond the logits", peak / logits.nbytes, "x logits", at_most=3)
