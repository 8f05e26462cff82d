"""A hundred mutated data files and model folders: each is accepted, or refused with one sentence."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

DIAGNOSTICS = Path(__file__).parent.parent / "diagnostics"


def counts_in(printed: str) -> dict[str, str]:
    """The six counts, which come before the last line."""
    return dict(line.strip().split(": ") for line in printed.splitlines()[-7:-1])


@pytest.mark.parametrize("name", ["fuzz_files", "fuzz_models"])
def test_no_mutation_ends_in_a_traceback_a_hang_or_too_much_memory(name: str) -> None:
    command = [sys.executable, str(DIAGNOSTICS / f"{name}.py"), "--cases", "100", "--seed", "1", "--jobs", "1"]
    ended = subprocess.run(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, capture_output=True, text=True, timeout=300, check=False
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    counts = counts_in(ended.stdout)
    good = int(counts["accepted"]), int(counts["refused with one sentence"])
    assert sum(good) == 100
    assert min(good) >= 10


def test_a_case_that_ends_badly_is_counted(tmp_path: Path) -> None:
    """The fuzzers can fail: a hang, a traceback, an unclear message and too much memory are distinguished."""
    script = tmp_path / "bad.py"
    script.write_text(
        f"""
import sys
sys.path.insert(0, {str(DIAGNOSTICS)!r})
import _fuzz, time, os

def call(kind):
    if kind == 0:
        raise KeyError("x")
    if kind == 1:
        raise ValueError("something else")
    if kind == 2:
        time.sleep(100)
    if kind == 3:
        return bytearray(8 * 2**30)
    if kind == 4:
        os.abort()
    if kind == 5:
        raise ValueError("the file m.csv is damaged")

_fuzz._MOST_SECONDS = 1.0
def prepare(scratch):
    def case(rng, folder):
        return "x", *_fuzz.attempt(lambda: call(int(folder.name[5:])), "m.csv")
    return case
_fuzz.main("x", prepare, "bad")
"""
    )
    ended = subprocess.run(
        [sys.executable, str(script), "--cases", "7"], capture_output=True, text=True, timeout=100, check=False
    )
    assert ended.returncode == 1, ended.stdout + ended.stderr
    counts = counts_in(ended.stdout)
    assert counts == {
        "accepted": "1",
        "refused with one sentence": "1",
        "unclear message": "1",
        "traceback or crash": "2",
        "hang": "1",
        "too much memory": "1",
    }
