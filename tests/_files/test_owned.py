"""Only names that we write are removed, and only in folders that are ours."""

import fcntl
import os
import re
from pathlib import Path

import pytest

from tauleap import _files
from tauleap._files import atomic, owned

NAMES = re.compile(r"step-[0-9]{8}|train\.csv|latest")
USERS = [".notes.tmp", ".train.csv.tmp", ".train.csv.x1.tmp", ".plots.csv.12.tmp", "train.csv.12.tmp", ".step-1.12.tmp"]


def contents(folder: Path) -> dict[str, bytes | None]:
    return {str(p.relative_to(folder)): p.read_bytes() if p.is_file() else None for p in folder.rglob("*")}


def test_what_a_killed_process_left_is_removed_and_files_of_the_user_stay(tmp_path: Path) -> None:
    for name in USERS:
        (tmp_path / name).write_bytes(b"mine")
    before = contents(tmp_path)
    (tmp_path / ".step-00000030.123.tmp").mkdir()
    (tmp_path / ".step-00000030.123.tmp" / "state.pt").write_bytes(b"half")
    (tmp_path / ".latest.123.tmp").symlink_to("step-00000030")
    (tmp_path / ".train.csv.7.tmp").write_bytes(b"half")
    owned.remove_unfinished(tmp_path, NAMES)
    assert contents(tmp_path) == before


def test_a_folder_with_a_foreign_file_is_not_removed(tmp_path: Path) -> None:
    folder = tmp_path / "step-00000010"
    folder.mkdir()
    (folder / "state.pt").write_bytes(b"ours")
    (folder / "notes.txt").write_bytes(b"mine")
    before = contents(tmp_path)
    assert not owned.remove_folder(folder, ["state.pt"])
    assert contents(tmp_path) == before
    (folder / "notes.txt").unlink()
    assert owned.remove_folder(folder, ["state.pt"])
    assert contents(tmp_path) == {}


def test_a_name_that_is_taken_is_not_overwritten(tmp_path: Path) -> None:
    (tmp_path / "train.csv").write_text("third")
    (tmp_path / "damaged-train.csv").write_text("first")
    (tmp_path / "damaged-2-train.csv").symlink_to("nowhere")
    assert owned.set_aside(tmp_path / "train.csv", "damaged").name == "damaged-3-train.csv"
    assert (tmp_path / "damaged-train.csv").read_text() == "first"
    assert (tmp_path / "damaged-3-train.csv").read_text() == "third"


def test_an_unfinished_file_never_takes_a_name_that_exists(tmp_path: Path) -> None:
    """Numbers of processes come again, above all in containers."""
    mine = tmp_path / f".a.bin.{os.getpid()}.tmp"
    mine.write_bytes(b"mine")
    with _files.atomic_write(tmp_path / "a.bin") as file:
        file.write(b"new")
    with _files.atomic_dir(tmp_path / "b") as folder:
        (folder / "c").write_bytes(b"new")
    (tmp_path / f".l.{os.getpid()}.tmp").write_bytes(b"mine too")
    _files.replace_symlink(tmp_path / "l", "b")
    assert contents(tmp_path) == {
        "a.bin": b"new",
        "b": None,
        "b/c": b"new",
        "l": None,
        mine.name: b"mine",
        f".l.{os.getpid()}.tmp": b"mine too",
    }


def test_folders_are_claimed_once_and_no_others(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("mine")
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "users").mkdir()
    (tmp_path / "users" / ".hidden").write_text("mine")
    before = contents(tmp_path)
    for name, error in [("file", NotADirectoryError), ("link", NotADirectoryError), ("users", ValueError)]:
        with pytest.raises(error, match=r"write the name of a (new )?folder.*--out"):
            owned.claim_folder(tmp_path / name, "m.json", "ours\n", "a run")
    assert contents(tmp_path) == before
    for name in ("new/er", "empty"):
        if name == "empty":
            (tmp_path / name).mkdir()
        owned.claim_folder(tmp_path / name, "m.json", "ours\n", "a run")
        (tmp_path / name / "notes.txt").write_text("mine")
        owned.claim_folder(tmp_path / name, "m.json", "ours\n", "a run")
        assert contents(tmp_path / name) == {"m.json": b"ours\n", "notes.txt": b"mine"}
    for half in (b"", b"ou", b"o\xff"):  # killed while it was written
        (tmp_path / "empty" / "m.json").write_bytes(half)
        owned.claim_folder(tmp_path / "empty", "m.json", "ours\n", "a run")
        assert (tmp_path / "empty" / "m.json").read_bytes() == b"ours\n"


def test_abandoned_folders_are_known_by_their_marker(tmp_path: Path) -> None:
    """Beside a folder that is being written: others of ours, of a process that is alive, and of the user."""
    for name in (".out.1.tmp", ".out.2.tmp", ".out.3.tmp", ".out.4.tmp", ".other.5.tmp"):
        (tmp_path / name).mkdir()
    (tmp_path / ".out.1.tmp" / "thesis.tex").write_text("mine")
    (tmp_path / ".out.6.tmp").write_text("mine")
    for name in (".out.3.tmp", ".out.4.tmp", ".other.5.tmp"):
        (tmp_path / name / atomic.UNFINISHED).write_text("")
        (tmp_path / name / atomic.STAGE).mkdir()
        (tmp_path / name / atomic.STAGE / "half.csv").write_text("1,")
    with (tmp_path / ".out.4.tmp" / atomic.UNFINISHED).open("a") as alive:
        fcntl.flock(alive, fcntl.LOCK_EX)
        owned.remove_abandoned(tmp_path / "out")
        left = {path.name for path in tmp_path.iterdir()}
        assert left == {".out.1.tmp", ".out.4.tmp", ".other.5.tmp", ".out.6.tmp"}  # .out.2.tmp was empty
    owned.remove_abandoned(tmp_path / "out")
    assert {path.name for path in tmp_path.iterdir()} == {".out.1.tmp", ".other.5.tmp", ".out.6.tmp"}
    assert (tmp_path / ".out.1.tmp" / "thesis.tex").read_text() == "mine"


def test_a_staged_folder_appears_whole_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    with _files.staged_dir(tmp_path / "link") as folder:  # to an empty folder
        (folder / "a").write_bytes(b"1")
        assert not (tmp_path / "real" / "a").exists()
    assert contents(tmp_path) == {"real": None, "real/a": b"1", "link": None}

    def fail() -> None:
        with _files.staged_dir(tmp_path / "new") as folder:
            (folder / "a").write_bytes(b"1")
            raise RuntimeError("halfway")

    with pytest.raises(RuntimeError, match="halfway"):
        fail()
    with pytest.raises(OSError, match="not empty"), _files.staged_dir(tmp_path / "real") as folder:
        (folder / "b").write_bytes(b"2")
    assert contents(tmp_path) == {"real": None, "real/a": b"1", "link": None}


def test_a_marker_of_any_size_takes_no_memory(tmp_path: Path) -> None:
    """Somebody may have made it a terabyte; half a line is made whole."""
    with (tmp_path / "marker.json").open("wb") as file:
        file.truncate(2**40)
    owned.mark_folder(tmp_path, "marker.json", "ours\n")
    assert (tmp_path / "marker.json").read_text() == "ours\n"
    owned.mark_folder(tmp_path, "marker.json", "other\n")
    assert (tmp_path / "marker.json").read_text() == "ours\n"
