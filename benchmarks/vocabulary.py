"""A text vocabulary of 50,257 states: rank-one processes need no matrix, so noising and rates cost a few softmaxes."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from benchmarks import FixedLogits, Row, benchmark, peak_memory, side_by_side
from tauleap import ReverseProcess
from tauleap.noise import Absorbing, Constant, LogLinear, Uniform

_STATES = 50_257


@benchmark
def text() -> Iterator[Row]:
    logits = torch.randn(4, 128, _STATES)
    x0 = torch.randint(_STATES - 1, (4, 128))
    times = {"one time": 0.5, "one time per sample": torch.tensor([0.1, 0.4, 0.7, 1.0])}
    for process in (Uniform(_STATES, Constant(3 / _STATES)), Absorbing(_STATES, LogLinear())):
        reverse = ReverseProcess(process, FixedLogits(logits))
        for when, t in times.items():
            name = f"{type(process).__name__.lower()}, {when}"

            def noise_and_rates() -> torch.Tensor:
                return reverse.rates(process.noise(x0, t), t)  # noqa: B023

            ours, softmax = side_by_side(noise_and_rates, lambda: logits.softmax(-1))
            yield Row(f"{name}: noising and rates", ours / softmax, "softmaxes", at_most=8)
            peak = peak_memory(noise_and_rates) / logits.nbytes
            yield Row(f"{name}: peak beyond the logits", peak, "x logits", at_most=4)
