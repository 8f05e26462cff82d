"""Arrays in files: what they mean, and what is refused before memory is taken."""

import io
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data import format_from_config, limits, open_data


def saved(folder: Path, array: np.ndarray, name: str = "a.npy") -> Path:
    np.save(folder / name, array, allow_pickle=False)
    return folder / name


@pytest.mark.parametrize("dtype", ["uint8", "int16", ">i4", "int64", "uint64", "bool"])
@pytest.mark.parametrize("order", ["C", "F"])
def test_states_are_the_values(dtype: str, order: str, tmp_path: Path) -> None:
    values = np.asarray(np.array([[0, 1, 1], [1, 0, 1]]), dtype=dtype, order=order)
    opened = open_data(saved(tmp_path, values))
    assert opened.dataset.x.tolist() == values.astype(int).tolist()
    assert (opened.form.num_states, opened.form.shape, opened.form.sizes) == (2, (3,), None)
    (path,) = opened.form.write(opened.dataset.x, tmp_path / "out")
    again = np.load(path)
    assert again.dtype == values.dtype.newbyteorder("=")
    assert np.array_equal(again, values)


def test_values_with_gaps_or_below_0_are_recoded(tmp_path: Path) -> None:
    values = np.array([[-7, 900], [5, -7]])
    opened = open_data(saved(tmp_path, values))
    assert opened.dataset.x.tolist() == [[0, 2], [1, 0]]
    form = format_from_config(opened.form.config())
    assert form == opened.form
    assert np.array_equal(np.load(form.write(opened.dataset.x, tmp_path / "out")[0]), values)
    with pytest.raises(ValueError, match=r"has the value 6 at index \(1, 0\)"):
        form.read(saved(tmp_path, np.array([[5, 5], [6, 5]]), "other.npy"))


def test_rows_with_two_axes_are_quantities(tmp_path: Path) -> None:
    path = saved(tmp_path, np.array([[[3, 9]], [[4, 3]]], dtype=np.uint8))
    opened = open_data(path)
    assert opened.form.ordinal
    assert opened.form.num_states == 7
    assert opened.dataset.x.tolist() == [[[0, 6]], [[1, 0]]]
    assert not open_data(path, ordinal=False).form.ordinal
    assert open_data(path, ordinal=False).form.num_states == 3


def test_a_sequence_is_cut(tmp_path: Path) -> None:
    path = saved(tmp_path, np.arange(11) % 4)
    opened = open_data(path, length=3)
    assert opened.dataset.x.tolist() == [[0, 1, 2], [3, 0, 1], [2, 3, 0]]
    assert "the last 2 values left out" in opened.report[1]
    read = opened.form.read(path)
    assert read.x[:3].tolist() == opened.dataset.x.tolist()
    assert read.missing is not None
    assert read.missing.sum().item() == 1
    with pytest.raises(ValueError, match="too few for two rows of 64"):
        open_data(path)


def test_archives_and_missing_values(tmp_path: Path) -> None:
    x, missing = np.array([[0, 9], [2, 1]]), np.array([[False, True], [False, False]])
    np.savez_compressed(tmp_path / "a.npz", x=x, missing=missing, other=x)
    opened = open_data(tmp_path / "a.npz")
    assert opened.dataset.missing is not None
    assert torch.equal(opened.dataset.missing, torch.from_numpy(missing))
    assert opened.form.num_states == 3  # the 9 is not known
    again = opened.form.read(tmp_path / "a.npz")
    assert torch.equal(again.x, opened.dataset.x)
    np.savez(tmp_path / "b.npz", one=x, two=x)
    with pytest.raises(ValueError, match="contains the arrays one, two: write array=NAME"):
        open_data(tmp_path / "b.npz")
    assert len(open_data(tmp_path / "b.npz", array="two").dataset) == 2
    np.savez(tmp_path / "c.npz", x=x, missing=missing[:1])
    with pytest.raises(ValueError, match="missing must be bool of shape"):
        open_data(tmp_path / "c.npz")


@pytest.mark.parametrize(
    ("array", "message"),
    [
        (np.zeros((2, 2)), "must hold whole numbers, got float64"),
        (np.array([["a", "b"]]), "must hold whole numbers"),
        (np.array(3), r"must hold rows"),
        (np.zeros((0, 3), dtype=int), "must hold rows"),
        (np.full((3, 2), 5), "contains only the value 5"),
        (np.array([[0, 1]]).astype([("a", "i4")]), "must hold whole numbers"),
        (np.array([[0, 2**63 + 1]], dtype=np.uint64), "numbers above"),
        (np.array([[[0, 10**9]]]), "states, more than"),
    ],
)
def test_unusable_arrays_raise(array: np.ndarray, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message) as error:
        open_data(saved(tmp_path, array))
    assert "a.npy" in str(error.value)


def test_pickles_are_not_opened(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self):
            return (Path.touch, (tmp_path / "sprung",))

    np.save(tmp_path / "a.npy", np.array([Trap()], dtype=object), allow_pickle=True)
    np.savez(tmp_path / "b.npz", x=np.array([Trap()], dtype=object))
    for name in ("a.npy", "b.npz"):
        with pytest.raises(ValueError, match="must hold whole numbers, got object"):
            open_data(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_a_header_that_promises_more_than_is_there(tmp_path: Path) -> None:
    head = io.BytesIO()
    np.lib.format.write_array_header_1_0(head, {"descr": "<i8", "fortran_order": False, "shape": (10**12, 8)})
    (tmp_path / "a.npy").write_bytes(head.getvalue() + b"\0" * 64)
    with pytest.raises(ValueError, match="is damaged: shape"):
        open_data(tmp_path / "a.npy")


def test_an_archive_that_unpacks_to_too_much(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.savez_compressed(tmp_path / "a.npz", x=np.zeros((1000, 100), dtype=np.uint8))
    assert (tmp_path / "a.npz").stat().st_size < 5000
    monkeypatch.setattr(limits, "FILE_BYTES", 50_000)
    with pytest.raises(ValueError, match="unpacks to 100,128 bytes, more than 50,000"):
        open_data(tmp_path / "a.npz")
    with pytest.raises(ValueError, match="more than 50,000"):
        open_data(saved(tmp_path, np.zeros((1000, 100), dtype=np.uint8)))


def test_an_archive_that_lies_about_its_size(tmp_path: Path) -> None:
    content = io.BytesIO()
    np.save(content, np.ones((50, 4), dtype=np.uint8))
    with zipfile.ZipFile(tmp_path / "a.npz", "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("x.npy", content.getvalue())
    broken = bytearray((tmp_path / "a.npz").read_bytes())
    at = broken.rfind(b"PK\x01\x02") + 24  # the size in the list of contents
    broken[at : at + 4] = (len(content.getvalue()) - 100).to_bytes(4, "little")
    (tmp_path / "a.npz").write_bytes(bytes(broken))
    with pytest.raises(ValueError, match=r"a\.npz"):
        open_data(tmp_path / "a.npz")
