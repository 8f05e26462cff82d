"""Benchmarks: speed as a ratio to the paper's algorithm as written, and accuracy.

    python -m benchmarks                    every group, one table of figures at the end
    python -m benchmarks rates accuracy     these groups
    python -m benchmarks --write            also write the figures to benchmarks/results.md
    python -m benchmarks --patience 5       measure each ratio 5 times longer, for a busy machine

A group is a file of this folder. To add one, write a file with functions that yield rows:

    from benchmarks import Row, benchmark, side_by_side

    @benchmark
    def leaps():
        ours, theirs = side_by_side(lambda: ..., lambda: ...)
        yield Row("tau-leaping, music shapes", theirs / ours, "x faster", at_least=2.0)

The name of the file is the name of the group. A row without ``at_least`` or ``at_most`` has no target.
``side_by_side`` times two calls alternately and takes the best time of each, since only ratios of one run are
meaningful on a machine that does other work as well. For the same reason ``--threads`` is 1 by default: a second thread
waits if its core is busy. ``peak_memory`` returns the peak of the bytes that a call allocates. No test asserts these
figures.
"""

from benchmarks._denoiser import FixedLogits
from benchmarks._measure import peak_memory, side_by_side
from benchmarks._rows import Row, benchmark

__all__ = ["FixedLogits", "Row", "benchmark", "peak_memory", "side_by_side"]
