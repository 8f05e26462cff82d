"""Whatever is typed, whatever a file holds: ``tauleap train`` ends with a model, or with a message and no folder."""

import io
import tempfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import tauleap as tl
from tauleap import cli

SETTINGS = settings(
    max_examples=20, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)
TABLE = b"a,b\n" + b"x,1\ny,2\nx,\n" * 4
ARRAY = io.BytesIO()
np.save(ARRAY, np.arange(24).reshape(8, 3) % 4)
FILES = {"a.csv": TABLE, "a.npy": ARRAY.getvalue(), "a.txt": b"to be or not to be " * 12}
NAMES = (
    *("--steps", "--seed", "--minutes", "--length", "--coding", "--drop", "--array", "--ordinal", "--size"),
    *("--device", "--lr", "--keep", "--nonsense"),
)
VALUES = ("0", "1", "2", "-1", "0.001", "nan", "1e400", "x", "", "a", "bytes", "True", "cpu")


def ends_well(file: Path, flags: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    out = file.parent / "run"
    try:
        code = cli.main(["train", str(file), "--out", str(out), "--steps", "1", "--json", *flags])
    except SystemExit as leaving:
        code = leaving.code
    said = capsys.readouterr()
    assert code in (0, 2), said.err
    if code == 2:
        assert said.err
        assert not out.exists()
    else:
        assert tl.load(out).sample(1, steps=1, seed=0).shape[0] == 1
        assert (out / "samples").is_dir()


def test_any_flags(capsys: pytest.CaptureFixture[str]) -> None:
    words = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(VALUES)), max_size=2)

    @SETTINGS
    @given(st.sampled_from(sorted(FILES)), words)
    def check(name: str, flags: list[tuple[str, str]]) -> None:
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / name
            file.write_bytes(FILES[name])
            ends_well(file, [word for flag in flags for word in flag], capsys)

    check()


def test_any_file(capsys: pytest.CaptureFixture[str]) -> None:
    edits = st.lists(st.tuples(st.integers(0, 120), st.binary(min_size=1, max_size=3)), max_size=3)

    @SETTINGS
    @given(st.sampled_from(sorted(FILES)), edits, st.integers(0, 300))
    def check(name: str, edits: list[tuple[int, bytes]], end: int) -> None:
        content = FILES[name]
        for at, new in edits:
            content = content[:at] + new + content[at + len(new) :]
        with tempfile.TemporaryDirectory() as place:
            file = Path(place) / name
            file.write_bytes(content[:end])
            ends_well(file, [], capsys)

    check()
