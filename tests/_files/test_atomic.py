"""A file is whole or not there."""

from pathlib import Path

import pytest

from tauleap import _files


def test_appears_when_the_block_ends(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    with _files.atomic_write(path) as file:
        file.write(b"new")
        assert not path.exists()
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]


def test_an_error_leaves_what_was_there(tmp_path: Path) -> None:
    path = tmp_path / "a.bin"
    path.write_bytes(b"old")

    def write_half() -> None:
        with _files.atomic_write(path) as file:
            file.write(b"ne")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        write_half()
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]
