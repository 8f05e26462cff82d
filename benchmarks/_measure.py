"""Measure time and memory of calls."""

from __future__ import annotations

import json
import os
import tempfile
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import torch
from torch.profiler import ProfilerActivity, profile

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # The profiler, which counts memory, would log every start.


_PATIENCE = 1.0


def set_patience(factor: float) -> None:
    """Let ``side_by_side`` run longer, so that a busy machine has idle moments."""
    global _PATIENCE
    _PATIENCE = factor


def side_by_side(
    ours: Callable[[], object], theirs: Callable[[], object], *, seconds: float = 4.0, rounds: int = 5
) -> tuple[float, float]:
    """Return the best time of each call in seconds, of at least ``rounds`` rounds and ``seconds`` in total.

    A round makes each call three times in a row, since the first one runs with the cache and heap of the other call.
    With one thread the CPU time of the process is measured, which excludes other programs.
    """
    clock = time.process_time if torch.get_num_threads() == 1 else time.perf_counter
    best = {ours: float("inf"), theirs: float("inf")}
    end, done = time.perf_counter() + _PATIENCE * seconds, 0
    while done < rounds or time.perf_counter() < end:
        for call in best:
            for _ in range(3):
                start = clock()
                call()
                best[call] = min(best[call], clock() - start)
        done += 1
    return best[ours], best[theirs]


def peak_memory(call: Callable[[], object]) -> int:
    """Return the peak of the bytes of tensors that ``call`` allocates, including its result.

    All allocations of torch's CPU allocator are counted, but not the buffers of the matrix library.
    """
    _check_peak_memory()
    return _peak(call)


def _peak(call: Callable[[], object]) -> int:
    with profile(activities=[ProfilerActivity.CPU], profile_memory=True) as profiler:
        result = call()
    del result
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "trace.json")
        profiler.export_chrome_trace(str(path))
        events = json.loads(path.read_text())["traceEvents"]
    changes = sorted((e["ts"], e["args"]["Addr"], e["args"]["Bytes"]) for e in events if e["name"] == "[memory]")
    sizes: dict[int, int] = {}
    now = peak = 0
    for _, address, size in changes:
        if size > 0:
            sizes[address] = size
            now += size
        else:
            now -= sizes.pop(address, 0)  # Memory from before the call is not counted when it is freed.
        peak = max(peak, now)
    return peak


@cache
def _check_peak_memory() -> None:
    """Measure a known case: three arrays at the peak, four in total."""

    def known() -> torch.Tensor:
        first = torch.ones(1000, 1000)
        second = first.double()
        del first
        return second.float()

    peak, array = _peak(known), 4_000_000
    if not 3 * array <= peak < 3 * array + 4096:
        raise RuntimeError(f"peak_memory is wrong: it returned {peak / array:.4f} arrays instead of 3")
