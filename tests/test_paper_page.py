"""docs/paper.md says where each result of the paper lives: every name on it exists, and no result is missing."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "paper.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("| ").split(" | ")]
    for line in PAGE.splitlines()
    if line.startswith("| ") and not line.startswith("| in the paper")
]
NAMES = sorted({name for row in ROWS for name in re.findall(r"`([^`]+)`", " ".join(row[1:]))})


@pytest.mark.parametrize("name", NAMES)
def test_the_name_exists(name: str) -> None:
    path, _, inside = name.partition("::")
    assert (ROOT / path).is_file(), f"docs/paper.md names {path}, which is not there"
    if inside:
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^\s*(def|class) {inside}\b", text, re.M), f"docs/paper.md names {name}, which is not there"


def test_cells_are_names_or_say_that_there_is_none() -> None:
    assert len(ROWS) > 50
    for row in ROWS:
        assert len(row) == 4, row
        for cell in row[1:]:
            assert re.fullmatch(r"`[^`]+`(: [^`]+| \([^`]+\))?|-", cell), f"{row[0]}: {cell}"


def test_no_result_is_missing() -> None:
    """The paper has one theorem, ten propositions, one algorithm, fifteen figures and three tables."""
    first = [row[0] for row in ROWS]
    expected = ["Theorem 1", "Algorithm 1", *(f"Proposition {n}" for n in range(1, 11))]
    expected += [*(f"Figure {n}" for n in range(1, 16)), *(f"Table {n}" for n in range(1, 4))]
    assert [result for result in expected if not any(re.match(rf"{result}\b", cell) for cell in first)] == []
