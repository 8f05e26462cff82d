"""The folder of a run: files of the user stay as they are, and damage and copies do not stop a run."""

import csv
import io
import itertools
import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from rich.console import Console

import tauleap as tl
from tauleap.pretrained.runs import write_report
from tauleap.training import Run, state, train
from tauleap.training.checkpoint import Checkpoints
from tauleap.training.folder import MARKER
from tauleap.training.logs import Logs


def go_on(recipe: Callable, out: Path, steps: int = 20) -> str:
    """Trains in ``out``; what it prints."""
    console = Console(file=io.StringIO(), width=1000)
    made = recipe(steps=steps, held_out=True, validate_every=5, log_every=5)
    train(made, Run(out=out, device="cpu", tensorboard=False, keep=2), console=console)
    return console.file.getvalue()  # pyright: ignore[reportAttributeAccessIssue]


def contents(folder: Path) -> dict[str, bytes | str | None]:
    """Every path below a folder: bytes of files, targets of links."""
    return {
        str(path.relative_to(folder)): os.readlink(path)
        if path.is_symlink()
        else path.read_bytes()
        if path.is_file()
        else None
        for path in sorted(folder.rglob("*"))
    }


def lines(path: Path) -> list[str]:
    """A log without its last column, steps per second where there is one."""
    return [line.rpartition(",")[0] for line in path.read_text().splitlines()]


def assert_same_run(a: Path, b: Path) -> None:
    states = [state.from_bytes((out / "latest" / "state.pt").read_bytes()) for out in (a, b)]
    assert states[0]["step"] == states[1]["step"]
    torch.testing.assert_close(states[0]["weights"], states[1]["weights"], rtol=0, atol=0)
    torch.testing.assert_close(states[0]["optimizer"]["state"], states[1]["optimizer"]["state"], rtol=0, atol=0)
    assert (a / "latest" / "model.safetensors").read_bytes() == (b / "latest" / "model.safetensors").read_bytes()
    for name in ("train.csv", "validation.csv"):
        assert lines(a / name) == lines(b / name)


@pytest.fixture(scope="module")
def runs(lives, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of ten steps, "half", and one of twenty, "whole"."""
    folder = tmp_path_factory.mktemp("runs")
    go_on(lives.recipe, folder / "half", 10)
    go_on(lives.recipe, folder / "whole")
    return folder


@pytest.fixture
def half(runs: Path, tmp_path: Path) -> Path:
    return shutil.copytree(runs / "half", tmp_path / "run", symlinks=True)


@pytest.mark.parametrize(
    "names", [["data.csv"], ["train.csv", "validation.csv"], [".a.tmp"], ["samples/a"], ["latest"]]
)
def test_a_folder_of_the_user_is_refused(recipe, tmp_path: Path, names: list[str]) -> None:
    for name in names:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("step,b\n1,2\n900,3\n")
    before = contents(tmp_path)
    with pytest.raises(ValueError, match=r"is not empty and does not hold a run of tauleap: write .* new folder"):
        go_on(recipe, tmp_path)
    with pytest.raises(ValueError, match=r"write the name of a new folder \(--out, or out=\.\.\.\)"):
        tl.fit([[0, 1], [1, 0], [1, 1]], steps=1, out=tmp_path, progress=False)
    assert contents(tmp_path) == before
    with pytest.raises(NotADirectoryError, match="is a file"):
        go_on(recipe, tmp_path / names[0])
    assert contents(tmp_path) == before


USERS = {
    "notes.txt": "mine",
    "plots.csv": "step,a\n1,2\n99,3\n",
    "train-2.csv": "step,a\n99,3",
    ".mine.tmp": "mine",
    ".plots.csv.12.tmp": "mine",
    ".step-x.12.tmp": "mine",
    "step-x": "a file",
    "step-00000abc/state.pt": "no checkpoint",
    "step-\N{SUPERSCRIPT TWO}/manifest.json": "no checkpoint",
    "step-00000999/notes.txt": "no checkpoint",
    "damaged-step-00000010/notes.txt": "mine",
    "step-00000005/notes.txt": "why this one is good",
    "samples/mine.png": "mine",
    "samples/.mine.png.12.tmp": "mine",
    "copied-latest": "mine",
}


def test_files_of_the_user_in_a_run_stay(recipe, runs: Path, half: Path) -> None:
    for name, text in USERS.items():
        (half / name).parent.mkdir(exist_ok=True)
        (half / name).write_text(text)
    for name in (".latest.1.tmp", ".train.csv.2.tmp", "samples/.step-00000005.png.3.tmp"):
        (half / name).write_text("left by a killed process")
    (half / ".step-00000015.4.tmp").mkdir()
    (half / ".step-00000015.4.tmp" / "state.pt").write_text("half")
    with (half / "train.csv").open("a") as file:
        file.write("15,1,2,3,4,5,6\n20,")  # after the last checkpoint
    go_on(recipe, half)
    assert_same_run(half, runs / "whole")
    assert (half / MARKER).is_file()
    for name, text in USERS.items():
        assert (half / name).read_text() == text, name
    # The checkpoint with notes is kept, beside the last two.
    steps = {path.name for path in half.iterdir() if path.is_dir()} - {name.partition("/")[0] for name in USERS}
    assert steps == {"step-00000015", "step-00000020", "latest"}
    assert (half / "step-00000005" / "state.pt").is_file()
    assert not [path for path in half.rglob(".*.tmp") if str(path.relative_to(half)) not in USERS]


def test_a_run_begun_without_a_marker_goes_on(recipe, runs: Path, half: Path) -> None:
    (half / MARKER).unlink()
    (half / ".train.csv.2.tmp").write_text("left by a killed process")
    (half / "damaged-step-00000007").mkdir()
    (half / "samples").mkdir()
    (half / "report.json").write_text("{}")
    with (half / "train.csv").open("a") as file:
        file.write("15,1,2,3,4,5,6\n20,")  # after the last checkpoint
    go_on(recipe, half)
    assert_same_run(half, runs / "whole")
    assert (half / MARKER).is_file()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("train.csv", "step,price\n1,2\n500,3\n900,4\n"),
        ("train.csv", "step,price"),
        ("train.csv", "step,loss\n900,4\n"),
        ("validation.csv", "step,bits_per_dim,stderr,rows,mine\n900,1,2,3,4\n"),
        ("notes.txt", "mine"),
        (".notes.txt.12.tmp", "mine"),
        ("step-00000999/notes.txt", "mine"),
        ("step-x", "mine"),
    ],
)
def test_a_folder_that_only_looks_like_a_run_is_refused(recipe, half: Path, name: str, text: str) -> None:
    """Checkpoints alone, copied beside files of the user, do not make the folder ours."""
    (half / MARKER).unlink()
    (half / name).parent.mkdir(exist_ok=True)
    (half / name).write_text(text)
    before = contents(half)
    entry = name.partition("/")[0]
    message = rf"holds checkpoints without the file {MARKER}, and also {entry}, .* name of a new folder"
    with pytest.raises(ValueError, match=message):
        go_on(recipe, half)
    assert contents(half) == before


@pytest.mark.parametrize(
    "text", ["step,price\n1,2\n500,3\n900,4\n", "step,loss,lr,mine\n5,1,2,3\n900,1,2,", "step,price", "step,loss,lr,x"]
)
def test_a_log_with_other_columns_is_renamed(tmp_path: Path, text: str) -> None:
    (tmp_path / "train.csv").write_text(text)
    lines: list[str] = []
    Logs(tmp_path, 10, tensorboard=False, say=lines.append).write("train", 15, {"loss": 1.0, "lr": 0.5})
    assert (tmp_path / "other-train.csv").read_text() == text
    assert (tmp_path / "train.csv").read_text() == "step,loss,lr\n15,1.0,0.5\n"
    assert lines == [f"{tmp_path / 'train.csv'} has other columns: it was renamed to other-train.csv"]
    assert len(list(tmp_path.iterdir())) == 2


def test_a_run_without_a_whole_checkpoint_stays_as_it_was(recipe, half: Path) -> None:
    """It is refused every time, and its model is still there to sample from."""
    for folder in half.glob("step-*"):
        (folder / "state.pt").write_bytes(b"half")
    before = contents(half)
    for _ in range(2):
        with pytest.raises(ValueError, match=r"every checkpoint .* is damaged .*: write the name of a new folder"):
            go_on(recipe, half)
        after = contents(half)
        del before[".lock"], after[".lock"]  # names the last process
        assert after == before
        before = contents(half)
    assert tl.load(half).sample(2, steps=2, seed=0).shape == (2, 3)
    # Nor does a run start again where an earlier version has put all of them aside.
    for folder in half.glob("step-*"):
        folder.rename(half / f"damaged-{folder.name}")
    (half / "latest").unlink()
    before = contents(half)
    with pytest.raises(ValueError, match=r"every checkpoint .* is damaged"):
        go_on(recipe, half)
    assert contents(half).keys() == before.keys()
    assert (half / "train.csv").read_bytes() == before["train.csv"]


def test_a_checkpoint_behind_a_link_is_left_alone(recipe, runs: Path, half: Path, tmp_path: Path) -> None:
    (half / "step-00000005").rename(tmp_path / "elsewhere")
    (half / "step-00000005").symlink_to("../elsewhere")
    before = contents(tmp_path / "elsewhere")
    go_on(recipe, half)
    assert_same_run(half, runs / "whole")
    assert contents(tmp_path / "elsewhere") == before
    assert os.readlink(half / "step-00000005") == "../elsewhere"
    assert not list(half.glob(".*.tmp"))


@pytest.mark.parametrize(
    ("name", "kind"),
    [(".lock", "link"), (".lock", "dangling link"), (".lock", "FIFO"), (".lock", "folder"), (MARKER, "link")],
)
def test_only_plain_files_of_a_run_are_written(recipe, half: Path, tmp_path: Path, name: str, kind: str) -> None:
    mine = tmp_path / "mine.txt"
    (half / name).unlink()
    if kind == "link":
        mine.write_text("mine")
    if "link" in kind:
        (half / name).symlink_to(mine)
    elif kind == "FIFO":
        os.mkfifo(half / name)
    else:
        (half / name).mkdir()
    before = {key: value for key, value in contents(half).items() if key not in (".lock", MARKER)}
    with pytest.raises(FileExistsError) as caught:
        go_on(recipe, half)
    words = {"link": "a link", "dangling link": "a link", "FIFO": "a FIFO", "folder": "a folder"}
    assert str(caught.value) == (
        f"{half / name} is {words[kind]}, it must be a plain file: move it away and run the same command again"
    )
    assert mine.exists() == (kind == "link")
    if kind == "link":
        assert mine.read_text() == "mine"
    assert {key: value for key, value in contents(half).items() if key not in (".lock", MARKER)} == before


def test_a_log_that_becomes_a_link_is_not_written_through(tmp_path: Path) -> None:
    logs = Logs(tmp_path, 0, tensorboard=False)
    logs.write("train", 5, {"a": 1.0})
    (tmp_path / "train.csv").rename(tmp_path / "mine.csv")
    (tmp_path / "train.csv").symlink_to("mine.csv")
    with pytest.raises(FileExistsError, match=r"train\.csv is a link, it must be a plain file: move it away"):
        logs.write("train", 10, {"a": 1.0})
    assert (tmp_path / "mine.csv").read_text() == "step,a\n5,1.0\n"


def test_a_foreign_name_in_the_way_of_a_checkpoint_is_said(recipe, half: Path) -> None:
    (half / "step-00000015").mkdir()
    (half / "step-00000015" / "notes.txt").write_text("mine")
    with pytest.raises(FileExistsError, match=r"step-00000015 already exists and is not a checkpoint: move it away"):
        go_on(recipe, half)
    assert (half / "step-00000015" / "notes.txt").read_text() == "mine"


def test_damaged_checkpoints_are_never_overwritten(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path, keep=3)
    for step in (10, 20):
        checkpoints.write(step, {"state.pt": b"whole"})
    for number in range(3):
        (tmp_path / "step-00000020" / "state.pt").write_text(f"damage {number}")
        checkpoints.newest(lambda _: None)
        checkpoints.write(20, {"state.pt": b"whole"})
    for number, name in enumerate(["damaged", "damaged-2", "damaged-3"]):
        assert (tmp_path / f"{name}-step-00000020" / "state.pt").read_text() == f"damage {number}"


def break_line(content: bytes, number: int, bad: bytes) -> bytes:
    rows = content.split(b"\n")
    rows[number] = rows[number][:3] + bad + rows[number][3:]
    return b"\n".join(rows)


DAMAGE: dict[str, tuple[Callable[[bytes], bytes], list[int]]] = {
    "NUL in a row": (lambda content: break_line(content, 1, b"\0"), [10]),
    "invalid UTF-8 in a row": (lambda content: break_line(content, 2, b"\xff"), [5]),
    "a letter in a number": (lambda content: break_line(content, 1, b"x"), [10]),
    "a row cut off in the middle": (lambda content: content.replace(b"\n10,", b"\n10"), [5]),
    "an empty row": (lambda content: content.replace(b"\n10,", b"\n\n10,"), [5, 10]),
    "zeros at the end": (lambda content: content + bytes(50), [5, 10]),
    "NUL in the first line": (lambda content: break_line(content, 0, b"\0"), []),
    "invalid UTF-8 in the first line": (lambda content: break_line(content, 0, b"\xc3("), []),
    "all zeros": (lambda content: bytes(len(content)), []),
    "a text": (lambda content: b"what a good run", []),
}


@pytest.mark.parametrize("name", ["train", "validation"])
@pytest.mark.parametrize("kind", DAMAGE)
def test_damaged_logs_are_repaired_or_renamed(runs: Path, tmp_path: Path, name: str, kind: str) -> None:
    damage, left = DAMAGE[kind]
    log, content = tmp_path / f"{name}.csv", (runs / "half" / f"{name}.csv").read_bytes()
    log.write_bytes(damage(content))
    (tmp_path / f"damaged-{log.name}").write_text("an older one")
    lines: list[str] = []
    header, *rows = content.splitlines(keepends=True)
    values = dict.fromkeys(header.decode().strip().split(",")[1:], 0.5)
    Logs(tmp_path, 10, tensorboard=False, say=lines.append)
    assert log.read_bytes() == damage(content)
    Logs(tmp_path, 10, tensorboard=False, say=lines.append).write(name, 15, values)
    assert len(lines) == 1
    assert f"{log} has " in lines[0]
    assert f"damaged-2-{log.name}" in lines[0]
    assert (tmp_path / f"damaged-{log.name}").read_text() == "an older one"
    assert (tmp_path / f"damaged-2-{log.name}").read_bytes() == damage(content)
    kept = [row for row in rows if int(row.split(b",")[0]) in left]
    assert log.read_bytes() == b"".join([header, *kept, b"15" + b",0.5" * len(values) + b"\n"])
    # Killed after the copy was made and before the log was repaired, it makes no other copy.
    log.write_bytes(damage(content))
    if left:
        Logs(tmp_path, 10, tensorboard=False, say=lines.append).write(name, 15, values)
        assert f"damaged-2-{log.name}" in lines[1]
        assert not (tmp_path / f"damaged-3-{log.name}").exists()


def test_damaged_logs_do_not_stop_a_run(recipe, runs: Path, half: Path) -> None:
    for name in ("train.csv", "validation.csv"):
        (half / name).write_bytes(break_line((half / name).read_bytes(), 1, b"\xff"))
    printed = go_on(recipe, half)
    for name in ("train.csv", "validation.csv"):
        unreadable = f"{half / name} has 1 rows that cannot be read (line 2)"
        assert f"{unreadable}: they are removed, and damaged-{name} is a copy with all rows" in printed
        assert lines(half / name) == [line for line in lines(runs / "whole" / name) if not line.startswith("5,")]


def test_no_byte_of_a_log_stops_a_run(runs: Path, tmp_path: Path) -> None:
    """Each byte replaced by each of four others: the rows that are read are rows of the run, or have another number."""
    log, values = tmp_path / "validation.csv", {"bits_per_dim": 1.0, "stderr": 0.1, "rows": 9}
    content = (runs / "half" / log.name).read_bytes()
    for at, bad in itertools.product(range(len(content)), (0, 255, ord("\n"), ord('"'))):
        damaged = content[:at] + bytes([bad]) + content[at + 1 :]
        log.write_bytes(damaged)
        Logs(tmp_path, 10, tensorboard=False).write("validation", 15, values)
        read = list(csv.DictReader(log.read_text().splitlines()))
        assert list(read[-1]) == ["step", *values], damaged
        assert read[-1]["step"] == "15", damaged
        assert {int(row["step"]) for row in read} <= {0, 1, 5, 10, 15}, damaged
        asides = [*tmp_path.glob("damaged-*"), *tmp_path.glob("other-*")]
        assert {int(row["step"]) for row in read} >= {5, 10} or damaged in [aside.read_bytes() for aside in asides]
        for aside in asides:
            aside.unlink()


def test_a_log_that_is_another_file_is_not_written_through(tmp_path: Path) -> None:
    (tmp_path / "mine.csv").write_text("step,a\n99,1\n")
    (tmp_path / "train.csv").symlink_to("mine.csv")
    os.mkfifo(tmp_path / "validation.csv")
    lines: list[str] = []
    logs = Logs(tmp_path, 0, tensorboard=False, say=lines.append)
    logs.write("train", 5, {"a": 1.0})
    logs.write("validation", 5, {"a": 1.0})
    assert len(lines) == 2
    assert (tmp_path / "mine.csv").read_text() == "step,a\n99,1\n"
    assert (tmp_path / "train.csv").read_text() == (tmp_path / "validation.csv").read_text() == "step,a\n5,1.0\n"


def copied(run: Path, out: Path, how: str) -> Path:
    shutil.copytree(run, out, symlinks=how != "folder")
    if how != "folder":
        (out / "latest").unlink()
    if how == "dangling":
        (out / "latest").symlink_to("step-00000123")
    if how == "elsewhere":
        (out / "latest").symlink_to("/usr")
    return out


@pytest.mark.parametrize("how", ["folder", "missing", "dangling", "elsewhere"])
def test_a_copied_run_goes_on_and_samples(recipe, runs: Path, tmp_path: Path, how: str) -> None:
    out = copied(runs / "half", tmp_path / "copy", how)
    (out / "step-x").write_text("a file")
    (out / "step-y").mkdir()
    expected = tl.load(runs / "half").sample(8, steps=2, seed=0)
    assert tl.load(out).sample(8, steps=2, seed=0).equal(expected)
    lines = go_on(recipe, out)
    assert_same_run(out, runs / "whole")
    assert (out / "latest").is_symlink()
    if how == "folder":
        assert f"{out / 'latest'} is not a link to a checkpoint: it was renamed to copied-latest" in lines
        assert contents(out / "copied-latest") == contents(runs / "half" / "step-00000010")


@pytest.mark.parametrize("how", ["folder", "missing"])
def test_a_copy_publishes_the_checkpoint_that_the_run_chose(tmp_path: Path, how: str) -> None:
    """It need not be the last; the report belongs to it."""
    rows = [[0, 1], [1, 0], [1, 1], [0, 0]] * 10
    run = tmp_path / "run"
    tl.fit(rows, steps=4, out=run, progress=False)
    shutil.copytree(run / "step-00000004", run / "step-00000002")
    (run / "latest").unlink()
    (run / "latest").symlink_to("step-00000002")
    write_report(run, run / "step-00000002", json.loads((run / "report.json").read_bytes())["about"])
    manifest = run / "step-00000002" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")  # so that the two differ
    out = copied(run, tmp_path / "copy", how)
    assert tl.load(out).about == tl.load(run).about
    assert tl.load(out).about["steps_trained"] == 4


def test_killed_before_the_oldest_checkpoint_was_removed(recipe, runs: Path, half: Path) -> None:
    """Also where the run was finished, and the next one has nothing to write."""
    shutil.copytree(half / "step-00000005", half / "step-00000000")
    (half / "latest").unlink()
    (half / "latest").symlink_to("step-00000005")
    go_on(recipe, half, 10)
    assert (half / "latest").resolve().name == "step-00000010"
    assert sorted(path.name for path in half.glob("step-*")) == ["step-00000005", "step-00000010"]


def test_a_run_that_is_refused_stays_as_it_was(recipe, half: Path) -> None:
    """Its link may point to a checkpoint that is better than the last, and it may keep more of them."""
    shutil.copytree(half / "step-00000005", half / "step-00000000")
    (half / "latest").unlink()
    (half / "latest").symlink_to("step-00000005")
    before = contents(half)
    with pytest.raises(ValueError, match="another recipe"):
        train(recipe(lr=0.5), Run(out=half, device="cpu", tensorboard=False, keep=1))
    after = contents(half)
    assert after == before
