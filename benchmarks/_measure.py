"""Time and memory of calls."""

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

os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler, which counts memory, would report its every start


_PATIENCE = 1.0


def be_patient(factor: float) -> None:
    """Let ``side_by_side`` run longer: on a busy machine that finds quiet moments."""
    global _PATIENCE
    _PATIENCE = factor


def side_by_side(
    ours: Callable[[], object], theirs: Callable[[], object], *, seconds: float = 4.0, rounds: int = 5
) -> tuple[float, float]:
    """The time of each call in seconds: the best of at least ``rounds`` turns; ``seconds`` in all, or more.

    A turn calls one of them three times in a row, since the first call finds the cache and the heap as the other side
    left them, which is not how either is used. With one thread the processor's own time is taken, which leaves out what
    other programs take.
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
    """The most bytes that tensors made during ``call`` hold at one time, its result among them.

    Every allocation and release of torch's CPU allocator is counted; what the matrix library keeps for itself is not.
    """
    _check_the_meter()
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
    held: dict[int, int] = {}
    now = peak = 0
    for _, address, size in changes:
        if size > 0:
            held[address] = size
            now += size
        else:
            now -= held.pop(address, 0)  # memory from before the call does not count when it is given back
        peak = max(peak, now)
    return peak


@cache
def _check_the_meter() -> None:
    """Measures what is known: three arrays at the worst moment, four in all."""

    def known() -> torch.Tensor:
        first = torch.ones(1000, 1000)
        second = first.double()
        del first
        return second.float()

    peak, array = _peak(known), 4_000_000
    if not 3 * array <= peak < 3 * array + 4096:
        raise RuntimeError(f"the memory meter is wrong: it gives {peak / array:.4f} arrays where there are 3")
