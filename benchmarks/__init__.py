"""Benchmarks: ratios against the paper's algorithm as written, and the accuracy that the speed must not cost.

    python -m benchmarks                    every group, one table of figures at the end
    python -m benchmarks rates accuracy     these groups
    python -m benchmarks --write            also keep the figures in benchmarks/results.md
    python -m benchmarks --patience 5       measure each ratio for longer, where the machine is busy

A group is a file of this folder. To add one, write a file with functions that yield rows:

    from benchmarks import Row, benchmark, side_by_side

    @benchmark
    def leaps():
        ours, theirs = side_by_side(lambda: ..., lambda: ...)
        yield Row("tau-leaping, music shapes", theirs / ours, "x faster", at_least=2.0)

Nothing else is needed: the file's name is the group's name. A row without ``at_least`` or ``at_most`` is for
information. ``side_by_side`` times two calls in turn and takes the best of each, since only ratios measured in one run
mean something on a machine that does other work as well; for the same reason one thread is used unless ``--threads``
says otherwise: a second one, when its core is taken, mostly waits for it. ``peak_memory`` counts the bytes that a call
holds at its worst moment. No test asserts any of this.
"""

from benchmarks._denoiser import FixedLogits
from benchmarks._measure import peak_memory, side_by_side
from benchmarks._rows import Row, benchmark

__all__ = ["FixedLogits", "Row", "benchmark", "peak_memory", "side_by_side"]
