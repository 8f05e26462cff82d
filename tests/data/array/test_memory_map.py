"""Rows that stay in a file: equal to those in memory, checked when they are read, with little memory."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import tauleap as tl
from tauleap.choose import column_marginals
from tauleap.cli import main
from tauleap.data import Dataset, limits, open_data
from tauleap.data.array import memory_map
from tauleap.data.array.memory_map import MappedRows
from tauleap.fitting.baseline import varying_sites


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every array is large enough to stay in its file."""
    monkeypatch.setattr("tauleap.data.array.format.MAPPED_BYTES", 0)
    monkeypatch.setattr(memory_map, "MAPPED_BYTES", 0)


def saved(folder: Path, array: np.ndarray) -> Path:
    np.save(folder / "a.npy", array, allow_pickle=False)
    return folder / "a.npy"


def numbers(shape: tuple[int, ...], low: int, high: int) -> np.ndarray:
    return np.random.default_rng(0).integers(low, high + 1, shape)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int16", ">i4", "int64", "uint16", "uint64", "bool"])
def test_rows_equal_those_in_memory(dtype: str, tmp_path: Path) -> None:
    values = numbers((50, 3, 2), 0, 1 if dtype == "bool" else 5).astype(dtype)
    opened = open_data(saved(tmp_path, values))
    data = opened.dataset
    assert isinstance(data.x, MappedRows)
    index = torch.tensor([7, 0, 49, 7])
    assert torch.equal(data.rows(index), torch.from_numpy(values.astype(np.int64))[index])
    assert torch.equal(data.in_memory(), torch.from_numpy(values.astype(np.int64)))
    assert (len(data), data.shape, data.x.numel()) == (50, (3, 2), 300)
    assert opened.report[-1] == "rows stay in the file and are read per batch"
    memory = Dataset(data.in_memory(), data.num_states)
    assert torch.equal(column_marginals(data), column_marginals(memory))
    assert varying_sites(data) == varying_sites(memory)


def test_offset_values_and_sequences(tmp_path: Path) -> None:
    values = numbers((103,), -3, 4).astype(np.int16)
    opened = open_data(saved(tmp_path, values), length=10)
    assert torch.equal(opened.dataset.in_memory(), torch.from_numpy(values[:100].astype(np.int64) + 3).reshape(10, 10))
    assert "cut into 10 rows of 10, the last 3 values left out" in opened.report
    (path,) = opened.form.write(opened.dataset.in_memory(), tmp_path / "out")
    assert np.array_equal(np.load(path), values[:100].reshape(10, 10))


def test_a_split_is_a_partition_and_copies_nothing(tmp_path: Path) -> None:
    data = open_data(saved(tmp_path, np.arange(40).reshape(40, 1)), ordinal=True).dataset
    for seed in range(5):
        train, test = data.split(7, seed=seed)
        assert isinstance(train.x, MappedRows)
        assert train.x.array is data.x.array  # pyright: ignore[reportAttributeAccessIssue]
        assert (len(train), len(test)) == (33, 7)
        seen = torch.cat([train.in_memory(), test.in_memory()]).flatten()
        assert torch.equal(seen.sort().values, torch.arange(40))
        assert torch.equal(train.in_memory().flatten(), train.in_memory().flatten().sort().values)
        again, rest = train.split(3, seed=seed)
        assert sorted(again.in_memory().flatten().tolist() + rest.in_memory().flatten().tolist()) == sorted(
            train.in_memory().flatten().tolist()
        )
    assert data.split(7, seed=0)[0].describe() == data.split(7, seed=0)[0].describe()
    assert data.split(7, seed=0)[0].describe() != data.split(7, seed=1)[0].describe()


def test_other_contents_have_another_description(tmp_path: Path) -> None:
    values = numbers((100, 4), 0, 3)
    before = open_data(saved(tmp_path, values)).dataset.describe()
    values[50, 2] = 3 - values[50, 2]
    assert open_data(saved(tmp_path, values)).dataset.describe() != before


def test_value_outside_the_scanned_blocks_raises_when_its_row_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = numbers((5000, 4), 0, 3).astype(np.uint8)
    values[1234, 2] = 9
    path = saved(tmp_path, values)
    assert open_data(path).dataset.num_states == 10
    monkeypatch.setattr(memory_map, "WHOLE_BYTES", 0)
    monkeypatch.setattr(memory_map, "_BLOCK_BYTES", 16)
    opened = open_data(path)
    assert opened.dataset.num_states == 4
    assert "found in 64 blocks of the file; other rows are checked when they are read" in opened.report[1]
    assert opened.dataset.rows(torch.tensor([1233, 1235])).shape == (2, 4)
    with pytest.raises(
        ValueError, match=r"a.npy has the value 9 in row 1234 at \(2,\), but the states are the values 0\.\.3"
    ):
        opened.dataset.rows(torch.tensor([5, 1234]))
    train, _ = opened.dataset.split(100)
    with pytest.raises(ValueError, match="in row 1234"):
        train.in_memory()
    assert int(open_data(path, states=10).dataset.rows(torch.tensor([1234]))[0, 2]) == 9


def test_training_equals_training_in_memory(tmp_path: Path) -> None:
    """Equal rows give bitwise equal weights; a run resumes, but not with other contents."""
    values = numbers((60, 4), 0, 2)
    held_out = torch.from_numpy(numbers((9, 4), 0, 2))
    path = saved(tmp_path, values)
    opened = open_data(path)
    given = {"validation": held_out, "progress": False}
    models = [
        tl.fit(data, steps=3, **given) for data in (opened, torch.from_numpy(values), np.load(path, mmap_mode="r"))
    ]
    weights = [model.reverse.state_dict() for model in models]
    assert all(torch.equal(w, other[name]) for other in weights[1:] for name, w in weights[0].items())
    assert models[0].about["bits_per_dim"] == models[1].about["bits_per_dim"]
    run = tmp_path / "run"
    tl.fit(opened, steps=2, out=run, progress=False)
    assert tl.fit(open_data(path), steps=4, out=run, progress=False).about["step"] == 4
    saved(tmp_path, 2 - values)
    with pytest.raises(ValueError, match=r"another recipe: data\.sha256_of_blocks"):
        tl.fit(open_data(path), steps=5, out=run, progress=False)


@pytest.mark.parametrize(
    ("array", "given", "message"),
    [
        (np.asfortranarray(numbers((5, 4), 0, 3)), {}, "save numpy.ascontiguousarray"),
        (np.array([[0, 10**7]]), {}, "renumber them with"),
        (np.full((3, 2), 5), {}, "contains only the value 5"),
        (np.zeros((0, 3), dtype=int), {}, "must hold rows"),
        (numbers((5, 4), 0, 3), {"array": "x"}, "without a name"),
        (numbers((5, 4), 0, 3), {"states": 1}, "states must be between 2"),
        (numbers((5, 4), 0, 3), {"length": 2}, "length is for an array with one axis"),
    ],
)
def test_unusable_files_raise(array: np.ndarray, given: dict, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        open_data(saved(tmp_path, array), **given)


def test_rows_have_a_size_limit_but_files_do_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = saved(tmp_path, numbers((20, 4), 0, 3))
    monkeypatch.setattr(limits, "FILE_BYTES", 100)
    assert len(open_data(path).dataset) == 20
    monkeypatch.setattr(limits, "ROW_VALUES", 3)
    with pytest.raises(ValueError, match="rows of 4 values, more than 3"):
        open_data(path)
    np.savez(tmp_path / "b.npz", x=numbers((20, 4), 0, 3))
    with pytest.raises(ValueError, match=r"save the array with numpy\.save"):
        open_data(tmp_path / "b.npz")


def test_training_file_can_be_evaluated_and_completed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    values = numbers((50, 4), 3, 5)
    path, run = saved(tmp_path, values), tmp_path / "run"
    model = tl.fit(open_data(path), steps=2, out=run, progress=False)
    monkeypatch.setattr(limits, "FILE_BYTES", 100)
    monkeypatch.setattr("tauleap.row_bits._ROWS_OF_FILES", 20)
    rows = torch.from_numpy(values - 3)
    for observed in (None, "0,1"):
        command = ["evaluate", str(run), str(path), "--samples", "64", "--json", "--device", "cpu"]
        assert main([*command, *(["--observed", observed] if observed else [])]) == 0
        found = json.loads(capsys.readouterr().out)
        mask = None if observed is None else torch.arange(4) < 2
        expected = model.bits_per_dim(rows, mask, samples=64, seed=0)
        assert found["rows"] == 50
        assert found["bits_per_dim"] == pytest.approx(expected.value, abs=4 * expected.stderr)
        assert found["stderr"] == pytest.approx(expected.stderr, rel=0.5)
    command = ["complete", str(run), str(path), "--observed", "0,1", "--out", str(tmp_path / "out"), "--steps", "4"]
    assert main(command) == 0
    completed = np.load(tmp_path / "out" / "completed.npy")
    assert (completed[:, :2] == values[:, :2]).all()
    monkeypatch.setattr(limits, "VALUES", 100)
    capsys.readouterr()
    assert main([*command, "--out", str(tmp_path / "more")]) == 2
    assert "more than the 100 that are held in memory: write part of it to another file" in capsys.readouterr().err


LARGE = """
import json, sys, threading, time
from pathlib import Path
import tauleap as tl

def anonymous():
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("RssAnon"))
    return int(line.split()[1]) / 2**20

most, done = 0.0, False
def watch():
    global most
    while not done:
        most = max(most, anonymous())
        time.sleep(0.005)
thread = threading.Thread(target=watch)
thread.start()
try:
    began, cpu = time.monotonic(), time.process_time()
    opened = tl.data.open_data(sys.argv[1])
    opening = time.process_time() - cpu
    model = tl.fit(opened, steps=4, batch_size=64, validation=500, progress=False)
finally:
    done = True
    thread.join()
facts = {"gigabytes": most, "opening": opening, "seconds": time.monotonic() - began}
print(json.dumps(facts | {"about": model.about}))
"""


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="Linux counts the memory of a process there")
def test_twenty_gigabytes_take_less_than_one_of_memory(tmp_path: Path) -> None:
    """Open, train on and validate 320 million rows of a sparse file without a copy."""
    path = tmp_path / "large.npy"
    rows = 20 * 10**9 // 64
    with path.open("wb") as file:
        header = {"descr": "|u1", "fortran_order": False, "shape": (rows, 64)}
        np.lib.format.write_array_header_1_0(file, header)
        file.write(bytes([3]) * 64)
        begin = file.tell() - 64
        file.truncate(begin + rows * 64)
    assert path.stat().st_size > 20 * 10**9
    done = subprocess.run([sys.executable, "-c", LARGE, path], capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    facts = json.loads(done.stdout)
    assert facts["gigabytes"] < 1.0
    assert facts["opening"] < 10
    assert facts["about"]["rows"] == rows - 500
    assert facts["about"]["held_out_rows"] == 500
    assert facts["about"]["step"] == 4
