"""A few of the kills of ``diagnostics/kill_everywhere.py``, which has all of them."""

import re
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "diagnostics" / "kill_everywhere.py"
CASES = ["train, more steps", "train, damaged and copied", "sample, begun", "complete"]


def test_killed_before_file_operations() -> None:
    command = [sys.executable, str(SCRIPT), "--points", "2", "--twice", "0", "--budget", "400", "--only", *CASES]
    done = subprocess.run(command, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    counts = re.findall(
        r"^(.*): (\d+) operations, (\d+) kills, (\d+) wrong, (\d+) not tried", done.stdout, re.MULTILINE
    )
    assert [(name, *rest) for name, _, *rest in counts] == [(name, "2", "0", "0") for name in CASES]
    assert all(int(operations) >= 25 for _, operations, *_ in counts), "operations are no longer seen"
