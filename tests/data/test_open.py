"""Any file: rows of states, or a ValueError that names it. Never another error, whatever the bytes are."""

import gzip
import json
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import PIL.Image
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tauleap.data import LoadedData, format_from_config, open_data
from tauleap.data.music.midi import Note, write_midi
from tauleap.data.table.format import TableFormat

QUICK = settings(
    max_examples=200, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck)
)


def npy(folder: Path) -> Path:
    np.save(folder / "a.npy", np.arange(12).reshape(4, 3) % 5)
    return folder / "a.npy"


def npz(folder: Path) -> Path:
    np.savez_compressed(folder / "a.npz", x=np.arange(12).reshape(4, 3) % 5, missing=np.eye(4, 3) > 0)
    return folder / "a.npz"


def table(folder: Path) -> Path:
    (folder / "a.csv").write_text('a,"b"\n1,x\n2,"y,z"\n,x\n', encoding="utf-8")
    return folder / "a.csv"


def parquet(folder: Path) -> Path:
    pq.write_table(pa.table({"a": ["x", "y", None], "b": [1, 2, 1]}), folder / "a.parquet")
    return folder / "a.parquet"


def text(folder: Path) -> Path:
    (folder / "a.txt").write_text("to be, or not to be: das wäre zu überlegen, und zwar noch öfter als hier" * 3)
    return folder / "a.txt"


def music(folder: Path) -> Path:
    (folder / "songs").mkdir()
    notes = [Note(4 * i, 4 * i + 4, 60 + 5 * i % 12) for i in range(80)]
    (folder / "songs" / "a.mid").write_bytes(write_midi(notes, 4, 120))
    return folder / "songs"


def png(folder: Path) -> Path:
    (folder / "pictures").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (5, 4, 3)).astype(np.uint8)
    PIL.Image.fromarray(pixels).save(folder / "pictures" / "a.png")
    return folder / "pictures"


def jpeg(folder: Path) -> Path:
    (folder / "photos").mkdir()
    pixels = np.random.default_rng(0).integers(0, 256, (16, 16, 3)).astype(np.uint8)
    PIL.Image.fromarray(pixels).save(folder / "photos" / "a.jpg")
    return folder / "photos"


def idx(folder: Path) -> Path:
    pixels = np.random.default_rng(0).integers(0, 256, 40).astype(np.uint8)
    (folder / "a-idx3-ubyte").write_bytes(bytes([0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 4]) + pixels.tobytes())
    return folder / "a-idx3-ubyte"


def packed_idx(folder: Path) -> Path:
    (folder / "a-idx3-ubyte.gz").write_bytes(gzip.compress(idx(folder).read_bytes(), mtime=0))
    return folder / "a-idx3-ubyte.gz"


MAKERS = [npy, npz, table, parquet, text, music, png, jpeg, idx, packed_idx]


@pytest.fixture(scope="module")
def folder() -> Iterator[Path]:
    place = Path(tempfile.mkdtemp())
    yield place
    shutil.rmtree(place)


def check_names(error: ValueError, name: str) -> None:
    """Check that the message has the name of the file."""
    assert name in str(error)


def check_loaded(opened: LoadedData) -> None:
    """Check the properties that every loaded file has."""
    data, form = opened.dataset, opened.form
    assert data.shape == form.shape
    assert data.num_states == form.num_states
    assert opened.report
    sizes = form.sizes
    assert data.sizes is sizes is None or (data.sizes is not None and sizes is not None)
    if sizes is not None:
        assert torch.equal(sizes, data.sizes)  # pyright: ignore[reportArgumentType]
        assert sizes.shape == form.shape
        assert int(sizes.max()) == form.num_states
        assert bool((data.x.long() < sizes).all())
    if data.missing is not None:
        assert bool((data.x[data.missing] == 0).all())
    assert format_from_config(json.loads(json.dumps(form.config()))) == form
    assert form.preview(data.x, 1)


@pytest.mark.parametrize("make", MAKERS)
def test_each_format_opens_writes_and_reads(make: Callable[[Path], Path], tmp_path: Path) -> None:
    opened = open_data(make(tmp_path))
    check_loaded(opened)
    written = opened.form.write(opened.dataset.x, tmp_path / "out")
    assert written
    assert all(path.is_file() and path.parent == tmp_path / "out" for path in written)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == sorted(path.name for path in written)
    with pytest.raises(ValueError, match="x must have shape"):
        opened.form.write(opened.dataset.x[..., :1], tmp_path / "out2")


@pytest.mark.parametrize("make", MAKERS)
def test_damaged_files(make: Callable[[Path], Path], folder: Path) -> None:
    """Bytes changed, cut off, repeated or put in: an error or a result."""
    place = folder / make.__name__
    place.mkdir()
    path = make(place)
    file = next(path.iterdir()) if path.is_dir() else path
    good = file.read_bytes()
    form = open_data(path).form

    edits = st.lists(
        st.tuples(
            st.sampled_from(["change", "cut", "put in", "repeat"]),
            st.integers(0, len(good)),
            st.binary(min_size=1, max_size=6),
        ),
        min_size=1,
        max_size=4,
    )

    @QUICK
    @given(edits)
    def check(edits: list[tuple[str, int, bytes]]) -> None:
        content = good
        for kind, at, new in edits:
            if kind == "change":
                content = content[:at] + new + content[at + len(new) :]
            elif kind == "cut":
                content = content[:at]
            elif kind == "put in":
                content = content[:at] + new + content[at:]
            else:
                content = content[:at] + content[max(0, at - 40) :]
        file.write_bytes(content)
        try:
            check_loaded(open_data(path))
        except ValueError as error:
            check_names(error, path.name)
        try:
            form.read(file)
        except ValueError as error:
            check_names(error, file.name)

    check()


@pytest.mark.parametrize(
    "suffix",
    [
        *(".npy", ".npz", ".csv", ".tsv", ".parquet", ".txt", ".mid", ".png", ".zip", "", ".gz", ".tar.gz"),
        *("-idx3-ubyte", "-idx3-ubyte.gz"),
    ],
)
def test_any_bytes(suffix: str, folder: Path) -> None:
    place = folder / f"bytes{suffix}"
    place.mkdir()
    path = place / f"a{suffix}"

    @QUICK
    @given(st.binary(max_size=300) | st.text(alphabet=',;\t"\n\rabé01 ', max_size=200).map(str.encode))
    def check(content: bytes) -> None:
        path.write_bytes(content)
        for opened in (path, place):
            try:
                check_loaded(open_data(opened, length=2 if suffix == ".txt" and opened == path else None))
            except ValueError as error:
                check_names(error, opened.name)

    check()


def test_any_table(folder: Path) -> None:
    """A written table is read back, or an error has the reason."""
    cells = st.text(alphabet=',;"\n\rab é0', max_size=3)

    @QUICK
    @given(st.integers(1, 3).flatmap(lambda n: st.lists(st.tuples(*[cells] * n), min_size=2, max_size=8)))
    def check(rows: list[tuple[str, ...]]) -> None:
        path = folder / "any.csv"
        quoted = [",".join('"' + cell.replace('"', '""') + '"' for cell in row) for row in rows]
        head = ",".join(f"c{i}" for i in range(len(rows[0])))
        path.write_bytes("\n".join([head, *quoted]).encode())
        known = [row for row in rows if any(cell.strip() for cell in row)]
        try:
            opened = open_data(path, header=True, delimiter=",")
        except ValueError:
            columns = [{cell.strip() for cell in column if cell.strip()} for column in zip(*rows, strict=True)]
            assert not known or max(map(len, columns)) < 2
            return
        check_loaded(opened)
        assert isinstance(opened.form, TableFormat)
        sites = opened.form.encoder.sites  # columns with one value are constants
        assert (~opened.dataset.known()).tolist() == [[not row[site].strip() for site in sites] for row in known]
        (back,) = opened.form.write(opened.dataset.x, folder / "back")
        again = opened.form.read(back)
        assert torch.equal(again.x, opened.dataset.x)

    check()


def test_any_configuration() -> None:
    """A description from anywhere makes a form or a ValueError."""
    values = st.recursive(
        st.none() | st.booleans() | st.integers(-3, 300) | st.floats() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
        max_leaves=5,
    )
    fields = {
        "array": ["sides", "low", "states", "values", "ordered", "dtype"],
        "table": ["columns", "dialect", "suffix", "missing"],
        "text": ["length", "alphabet"],
        "midi": ["steps"],
        "images": ["channels", "height", "width"],
    }
    configs = st.sampled_from(sorted(fields)).flatmap(
        lambda kind: st.fixed_dictionaries({"kind": st.just(kind)} | dict.fromkeys(fields[kind], values))
    )

    @QUICK
    @given(configs | st.dictionaries(st.sampled_from(["kind", "steps"]), values))
    def check(config: dict[str, object]) -> None:
        try:
            form = format_from_config(config)
        except ValueError:
            return
        assert format_from_config(json.loads(json.dumps(form.config()))) == form

    check()


@pytest.mark.parametrize("config", [None, [], "text", {}, {"kind": []}, {"kind": "pickle"}, {"kind": "midi"}])
def test_invalid_configuration_raises(config: object) -> None:
    with pytest.raises(ValueError, match=r"kind|fields"):
        format_from_config(config)


def test_wrong_paths_and_options_raise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing does not exist"):
        open_data(tmp_path / "nothing")
    with pytest.raises(ValueError, match=r"contains no files"):
        open_data(tmp_path)
    with pytest.raises(
        ValueError, match=r"a\.csv does not take the option length; this kind of data takes: drop, types"
    ):
        open_data(table(tmp_path), length=3)
    with pytest.raises(ValueError, match="there is no column 'q' to leave out; write one of a, b"):
        open_data(table(tmp_path), drop=["q"])
    with pytest.raises(
        ValueError, match=r"folder with 1 \.csv, .* pictures, MIDI files .* write the name of one file, such as .*\.csv"
    ):
        open_data(tmp_path)
    with pytest.raises(ValueError, match="is one example, which is not enough to train on: write a folder"):
        open_data(png(tmp_path) / "a.png")
    (tmp_path / "a.rst").write_text("x")
    with pytest.raises(ValueError, match=r"has the ending '\.rst'"):
        open_data(tmp_path / "a.rst")
    music(tmp_path)
    shutil.copy(tmp_path / "pictures" / "a.png", tmp_path / "songs")
    with pytest.raises(ValueError, match="1 MIDI files and 1 pictures"):
        open_data(tmp_path / "songs")
