"""Text as rows of characters or bytes, and back."""

from pathlib import Path

import pytest

from tauleap.data import format_from_config, open_data
from tauleap.data.text import TextFormat


def put(folder: Path, content: str | bytes) -> Path:
    path = folder / "t.txt"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return path


def test_characters(tmp_path: Path) -> None:
    opened = open_data(put(tmp_path, "hallo wörld\nx"), length=4)
    form = opened.form
    assert isinstance(form, TextFormat)
    assert form.alphabet == "\n adhlorwxö"
    assert form.texts(opened.dataset.x) == ["hall", "o wö", "rld\n"]
    assert "the last 1 left out" in opened.report[0]
    assert format_from_config(form.config()) == form
    (path,) = form.write(opened.dataset.x[:2], tmp_path / "out", first=7)
    assert path.read_text(encoding="utf-8") == "=== 7\nhall\n=== 8\no wö\n"
    assert form.preview(opened.dataset.x, 2) == "hall\n---\no wö"


def test_end_of_the_last_row_is_missing(tmp_path: Path) -> None:
    form = TextFormat(4, "abc")
    read = form.read(put(tmp_path, "abcab"))
    assert read.x.tolist() == [[0, 1, 2, 0], [1, 0, 0, 0]]
    assert read.missing is not None
    assert read.missing.tolist() == [[False] * 4, [False, True, True, True]]
    assert form.read(put(tmp_path, "abca")).missing is None
    with pytest.raises(
        ValueError, match=r"t\.txt, line 2, column 3: 'x' is not in the training data; accepted are '\\nabc'"
    ):
        TextFormat(4, "\nabc").read(put(tmp_path, "ab\nabx"))


def test_bytes_for_many_characters_or_invalid_utf8(tmp_path: Path) -> None:
    many = "".join(map(chr, range(0x4E00, 0x4E00 + 300)))
    opened = open_data(put(tmp_path, many), length=9)
    assert isinstance(opened.form, TextFormat)
    assert opened.form.alphabet is None
    assert opened.form.num_states == 256
    assert "300 different characters" in opened.report[0]
    assert opened.form.texts(opened.dataset.x)[0] == many[:3]
    assert open_data(put(tmp_path, many), length=9, coding="characters").form.num_states == 300
    broken = open_data(put(tmp_path, b"ab\xff" * 10), length=3)
    assert "not UTF-8" in broken.report[0]
    assert broken.dataset.x[0].tolist() == [97, 98, 255]
    with pytest.raises(ValueError, match=r"t\.txt, line 1: byte 0xff is not UTF-8"):
        open_data(put(tmp_path, b"ab\xff" * 10), coding="characters")
    assert open_data(put(tmp_path, "ab" * 9), length=3, coding="bytes").form.num_states == 256


@pytest.mark.parametrize(
    ("content", "message"),
    [("", "is empty"), ("aaaa" * 99, "contains only the character 'a'"), ("abc", "too few for two rows of 64")],
)
def test_unusable_texts_raise(content: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        open_data(put(tmp_path, content))
