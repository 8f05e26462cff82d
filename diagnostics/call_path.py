"""Profile the path of one command or one training step through the files of the package.

    python diagnostics/call_path.py sample     # tauleap sample toy -n 100
    python diagnostics/call_path.py step       # one step of training, after three others

It prints the number of distinct Python functions of ``src/tauleap`` that are called, the number of their files, and the
number of file changes, which are consecutive calls in different files. Counted by first calls, this is the path of a
reader, who reads a function once; counted by all calls, a loop of 100 steps counts 100 times. ``--files`` also prints
the number of changes of the reader's path into each file.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch

import tauleap
from tauleap import cli, recipes

PACKAGE = Path(tauleap.__file__).parent
_STEP = 3  # earlier steps fill the caches of kernels


class CallPath:
    """The calls of functions of the package, in order."""

    def __init__(self) -> None:
        self.calls: list[CodeType] = []
        self._inside: dict[str, bool] = {}

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        """Record a call.

        Args:
            frame: The frame that the interpreter enters or leaves.
            event: "call" when a Python function begins; other events are ignored.
            argument: Unused.
        """
        if event != "call":
            return
        code = frame.f_code
        name = code.co_filename
        if name not in self._inside:
            self._inside[name] = PACKAGE in Path(name).parents
        # Module and class bodies run once at import. Comprehensions and lambdas belong to the function around them.
        if self._inside[name] and not code.co_name.startswith("<") and code.co_flags & 0x2:
            self.calls.append(code)

    def report(self, *, files: bool) -> str:
        """Return the counts in one line, and the number of changes into each file.

        Args:
            files: Whether to add a line per file.
        """
        names = [code.co_filename for code in self.calls]
        path = [code.co_filename for code in dict.fromkeys(self.calls)]
        line = (
            f"{len(path)} functions, {len(set(names))} files, {_changes(path).total()} file changes by first calls, "
            f"{_changes(names).total()} by all calls"
        )
        lines = [f"{n:6d}  {Path(name).relative_to(PACKAGE)}" for name, n in _changes(path).most_common()]
        return "\n".join([line, *lines]) if files else line


def _changes(names: list[str]) -> Counter[str]:
    return Counter(name for before, name in pairwise(names) if name != before)


def profile_sample(profile: CallPath) -> None:
    """Profile ``tauleap sample toy -n 100`` from its first word to its exit code.

    Args:
        profile: Records the calls.
    """
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        words = ["sample", "toy", "-n", "100", "--out", f"{folder}/samples"]
        _profiled(profile, lambda: cli.main(words))


def profile_step(profile: CallPath) -> None:
    """Profile the gradient of the toy recipe's loss for one batch.

    Args:
        profile: Records the calls.
    """
    torch.manual_seed(0)
    recipe = recipes.toy()
    reverse, objective = recipe.model().reverse, recipe.objective
    data, _ = recipe.data()
    generator = torch.Generator().manual_seed(0)

    def step() -> None:
        rows = data.rows(torch.arange(32))
        objective(reverse, rows, generator=generator).value.mean().backward()

    for _ in range(_STEP):
        step()
    _profiled(profile, step)


def _profiled(profile: CallPath, work: Callable[[], object]) -> None:
    sys.setprofile(profile)
    try:
        work()
    finally:
        sys.setprofile(None)


def main() -> None:
    """Print the path of the case that the command line names."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("what", choices=["sample", "step"])
    parser.add_argument("--files", action="store_true", help="also print how many changes lead into each file")
    given = parser.parse_args()
    profile = CallPath()
    {"sample": profile_sample, "step": profile_step}[given.what](profile)
    print(profile.report(files=given.files))


if __name__ == "__main__":
    main()
