"""idx files of any rank, MNIST's four of them, and images in an .npz."""

import gzip
import random
import struct
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data import images_npz, limits, mnist, open_data, read_idx
from tauleap.data.image.format import ImageFormat


def random_bytes(*shape: int, seed: int = 0, high: int = 256) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, shape).astype(np.uint8)


def idx(array: np.ndarray) -> bytes:
    """Byte by byte as the format's description says."""
    return bytes([0, 0, 8, array.ndim]) + b"".join(n.to_bytes(4, "big") for n in array.shape) + array.tobytes()


def put(path: Path, content: bytes) -> Path:
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return path


def four_files(folder: Path, end: str = "", mark: str = "-") -> dict[str, np.ndarray]:
    folder.mkdir(exist_ok=True)
    arrays = {}
    for seed, (part, n) in enumerate((("train", 7), ("t10k", 3))):
        arrays[f"{part}-images{mark}idx3-ubyte"] = random_bytes(n, 28, 28, seed=seed)
        arrays[f"{part}-labels{mark}idx1-ubyte"] = random_bytes(n, seed=10 + seed, high=10)
    for name, array in arrays.items():
        put(folder / f"{name}{end}", idx(array))
    return arrays


@pytest.mark.parametrize("shape", [(5,), (2, 3), (4, 28, 28), (2, 3, 4, 5), (1, 1, 1, 1, 1, 1, 1, 2)])
@pytest.mark.parametrize("name", ["a-idx-ubyte", "a.gz"])
def test_every_number_of_axes(shape: tuple[int, ...], name: str, tmp_path: Path) -> None:
    array = random_bytes(*shape)
    found = read_idx(put(tmp_path / name, idx(array)))
    assert found.dtype == torch.uint8
    assert np.array_equal(found.numpy(), array)


GOOD = idx(random_bytes(3, 4, 5))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x01" + GOOD[1:], "is not an idx file: it must begin with two zero bytes"),
        (GOOD[:3], "is not an idx file"),
        (GOOD[:2] + b"\x0d" + GOOD[3:], r"must hold bytes \(type 0x08\), got float32 \(type 0x0d\)"),
        (GOOD[:2] + b"\x07" + GOOD[3:], "type 0x07 is unknown"),
        (bytes([0, 0, 8, 0]), "1 to 8 axes, got 0"),
        (bytes([0, 0, 8, 9]) + bytes(100), "1 to 8 axes, got 9"),
        (GOOD[:10], "ends inside the header"),
        (GOOD[:4] + bytes(4) + GOOD[8:], r"is empty: its shape is \(0, 4, 5\)"),
        (GOOD[:4] + b"\xff" * 12, r"shape \(4294967295, 4294967295, 4294967295\), more than"),
    ],
)
@pytest.mark.parametrize("name", ["a", "a.gz"])
def test_invalid_headers_raise(content: bytes, message: str, name: str, tmp_path: Path) -> None:
    path = put(tmp_path / name, content)
    with pytest.raises(ValueError, match=rf"{name}.*{message}"):
        read_idx(path)


def test_wrong_number_of_bytes_raises(tmp_path: Path) -> None:
    for content, there in ((GOOD[:-1], 59), (GOOD + b"x", 61)):
        with pytest.raises(ValueError, match=rf"damaged: shape \(3, 4, 5\) needs 60 bytes, it has {there}"):
            read_idx(put(tmp_path / "a", content))
    with pytest.raises(ValueError, match="ends after 59 of the 60 bytes"):
        read_idx(put(tmp_path / "a.gz", GOOD[:-1]))
    with pytest.raises(ValueError, match=r"more bytes than the shape \(3, 4, 5\) needs"):
        read_idx(put(tmp_path / "a.gz", GOOD + b"x"))
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="is empty"):
        read_idx(tmp_path / "empty")
    with pytest.raises(ValueError, match="is not a file"):
        read_idx(tmp_path / "nothing")


def test_damaged_gzip(tmp_path: Path) -> None:
    whole = gzip.compress(GOOD)
    path = tmp_path / "a.gz"
    for cut in range(1, len(whole)):
        path.write_bytes(whole[:cut])
        with pytest.raises(ValueError, match=r"a\.gz"):
            read_idx(path)
    rng, refused = random.Random(0), 0
    for _ in range(300):
        content = bytearray(whole)
        content[rng.randrange(10, len(content))] ^= 1 << rng.randrange(8)
        path.write_bytes(content)
        try:
            found = read_idx(path)
        except ValueError as error:
            assert "a.gz" in str(error)  # noqa: PT017 (an error is one of two right outcomes)
            refused += 1
        else:  # a bit that means nothing: the checksum is right
            assert np.array_equal(found.numpy(), random_bytes(3, 4, 5))
    assert refused > 290


def test_decompression_bomb_is_not_unpacked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """300 MB of zeros behind a header that promises 60 bytes, and a header that promises what no file can hold."""
    packer = zlib.compressobj(9, wbits=31)
    blocks = [packer.compress(GOOD)] + [packer.compress(bytes(10_000_000)) for _ in range(30)]
    path = tmp_path / "a.gz"
    path.write_bytes(b"".join([*blocks, packer.flush()]))
    sizes = []
    read = gzip.GzipFile.read

    def read_and_count(file: gzip.GzipFile, size: int | None = -1) -> bytes:
        sizes.append(size)
        return read(file, size)

    monkeypatch.setattr(gzip.GzipFile, "read", read_and_count)
    with pytest.raises(ValueError, match="more bytes than the shape"):
        read_idx(path)
    assert sum(sizes) == len(GOOD) + 1
    path = put(tmp_path / "b.gz", bytes([0, 0, 8, 1]) + struct.pack(">I", 2**20))
    with pytest.raises(ValueError, match=r"cannot hold the shape \(1048576,\)"):
        read_idx(path)
    monkeypatch.setattr(limits, "FILE_BYTES", 50)
    with pytest.raises(ValueError, match="more than 50"):
        read_idx(put(tmp_path / "c.gz", GOOD))


@pytest.mark.parametrize(("end", "mark"), [("", "-"), (".gz", "-"), ("", ".")])
def test_mnist(end: str, mark: str, tmp_path: Path) -> None:
    arrays = four_files(tmp_path, end, mark)
    for part, data in zip(("train", "t10k"), mnist(tmp_path), strict=True):
        images = arrays[f"{part}-images{mark}idx3-ubyte"]
        assert (data.shape, data.num_states, data.x.dtype) == ((1, 28, 28), 256, torch.uint8)
        assert np.array_equal(data.x[:, 0].numpy(), images)
        assert data.condition is not None
        assert data.condition.dtype == torch.int64
        assert data.condition.tolist() == arrays[f"{part}-labels{mark}idx1-ubyte"].tolist()


def test_incomplete_mnist_raises(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="nothing does not exist: give the folder that has train-images-idx3-ubyte"):
        mnist(tmp_path / "nothing")
    with pytest.raises(ValueError, match="is not a folder"):
        mnist(put(tmp_path / "file", b"x"))
    four_files(tmp_path)
    put(tmp_path / "t10k-labels-idx1-ubyte", idx(random_bytes(4, high=10)))
    with pytest.raises(ValueError, match="3 labels, one per image, got shape"):
        mnist(tmp_path)
    put(tmp_path / "t10k-labels-idx1-ubyte", idx(np.array([1, 10, 2], dtype=np.uint8)))
    with pytest.raises(ValueError, match=r"t10k-labels-idx1-ubyte has the label 10 for image 1: labels must be 0\.\.9"):
        mnist(tmp_path)
    (tmp_path / "t10k-labels-idx1-ubyte").unlink()
    with pytest.raises(ValueError, match="has no t10k-labels-idx1-ubyte"):
        mnist(tmp_path)
    put(tmp_path / "train-images-idx3-ubyte", idx(random_bytes(7, 28, 27)))
    with pytest.raises(ValueError, match=r"images of \(28, 28\), got shape \(7, 28, 27\)"):
        mnist(tmp_path)


def test_open_data_reads_it(tmp_path: Path) -> None:
    arrays = four_files(tmp_path / "mnist", ".gz")
    images = tmp_path / "mnist" / "t10k-images-idx3-ubyte.gz"
    for path, name in ((images, images.stem), (tmp_path / "mnist", "train-images-idx3-ubyte")):
        opened = open_data(path)
        assert opened.form == ImageFormat(1, 28, 28)
        assert opened.dataset.condition is None
        assert np.array_equal(opened.dataset.x[:, 0].numpy(), arrays[name])
        assert f"{len(arrays[name])} images, 28 x 28" in opened.report[0]
        assert ("left out: labels, and 3 test images" in opened.report) == path.is_dir()
        assert torch.equal(opened.form.read(path).x, opened.dataset.x)
    with pytest.raises(ValueError, match="give the file of the images instead of the labels"):
        open_data(tmp_path / "mnist" / "t10k-labels-idx1-ubyte.gz")
    with pytest.raises(ValueError, match=r"does not take the option size; this kind of data takes: no options"):
        open_data(images, size=14)
    with pytest.raises(ValueError, match=r"images of shape \(1, 28, 28\), but the model takes \(1, 8, 8\)"):
        ImageFormat(1, 8, 8).read(images)
    wide = put(tmp_path / "wide-idx3-ubyte", idx(random_bytes(1, 1, 2**15 + 1)))
    with pytest.raises(ValueError, match=r"wide-idx3-ubyte: width of an image must be .* got 32769"):
        open_data(wide)


LAST, FIRST = random_bytes(4, 5, 6, 3), random_bytes(4, 3, 5, 6)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (LAST, LAST.transpose(0, 3, 1, 2)),
        (LAST[..., :1], LAST[..., :1].transpose(0, 3, 1, 2)),
        (LAST[..., 0], LAST[:, None, :, :, 0]),
        (FIRST, FIRST),
        (FIRST[:, :1], FIRST[:, :1]),
        (FIRST.astype(np.int32), FIRST),
    ],
)
@pytest.mark.parametrize(
    "labels", [None, ("y_train", "y_test"), ("labels_train", "labels_test"), ("train_labels", "test_labels")]
)
def test_npz(given: np.ndarray, expected: np.ndarray, labels: tuple[str, str] | None, tmp_path: Path) -> None:
    more = (
        {} if labels is None else {labels[0]: np.array([3, 0, 4, 1], dtype=np.uint8), labels[1]: np.array([[7], [2]])}
    )
    path = tmp_path / "a.npz"
    np.savez_compressed(path, x_train=given, x_test=given[2:], names=np.array(["not", "read"]), **more)
    train, test = images_npz(path)
    for data, rows in ((train, expected), (test, expected[2:])):
        assert (data.num_states, data.x.dtype, data.x.is_contiguous()) == (256, torch.uint8, True)
        assert np.array_equal(data.x.numpy(), rows)
    found = [None if data.condition is None else data.condition.tolist() for data in (train, test)]
    assert found == ([None, None] if labels is None else [[3, 0, 4, 1], [7, 2]])


GREY = random_bytes(4, 5, 6)


@pytest.mark.parametrize(("given", "expected"), [(LAST, LAST.transpose(0, 3, 1, 2)), (FIRST, FIRST)])
def test_training_files_can_be_completed_and_evaluated(given: np.ndarray, expected: np.ndarray, tmp_path: Path) -> None:
    """Test images are read if the file has any, else the only array."""
    form, files = ImageFormat(3, 5, 6), {name: tmp_path / name for name in ("two.npz", "one.NPZ", "bare.npy")}
    with files["two.npz"].open("wb") as two, files["one.NPZ"].open("wb") as one:
        np.savez(two, x_train=given, x_test=given[1:], y_test=np.arange(3), x=given[:1])
        np.savez(one, x=given, other=np.array(["not", "read"]))
    np.save(files["bare.npy"], given)
    for name, rows, expected_report in [
        ("two.npz", expected[1:], ["read the array x_test: 3 rows"]),
        ("one.NPZ", expected, ["read the array x: 4 rows"]),
        ("bare.npy", expected, []),
    ]:
        read, report = form.read_with_report(files[name])
        assert np.array_equal(read.x.numpy(), rows)
        assert (read.num_states, read.missing, report) == (256, None, expected_report)
        assert torch.equal(form.read(files[name]).x, read.x)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": GREY}, r"a\.npz has no array x_test or x: write numpy\.savez\(path, x=\.\.\.\)"),
        ({"x_test": GREY[:, :4]}, r"x_test has images of shape \(1, 4, 6\), but the model takes \(1, 5, 6\)"),
        ({"x": LAST}, r"x has images of shape \(3, 5, 6\), but the model takes \(1, 5, 6\)"),
        ({"x": GREY.astype(int) + 256}, r"x must hold values 0\.\.255"),
        ({"x": GREY / 255}, "must hold whole numbers, got float64"),
        ({"x": GREY[0]}, r"x must be images \(n, height, width\)"),
    ],
)
def test_arrays_of_another_shape_raise(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=message):
        ImageFormat(1, 5, 6).read(tmp_path / "a.npz")


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"x_train": GREY}, r"has no array x_test: write numpy\.savez"),
        ({"x": GREY}, "has no array x_train"),
        ({"x_train": GREY, "x_test": GREY[:, :4]}, r"same shape, got \(1, 5, 6\) in x_train and \(1, 4, 6\) in x_test"),
        ({"x_train": GREY, "x_test": GREY, "y_test": np.arange(4)}, "labels for only one of x_train and x_test"),
        ({"x_train": GREY, "x_test": GREY, "y_test": np.arange(4), "y_train": np.arange(3)}, "must be 4 whole numbers"),
        ({"x_train": GREY, "x_test": GREY, "y_test": np.arange(4), "y_train": np.eye(4)}, "must hold whole numbers"),
        ({"x_train": GREY / 255, "x_test": GREY}, "must hold whole numbers, got float64"),
        ({"x_train": GREY.astype(object), "x_test": GREY}, "must hold whole numbers, got object"),
        (
            {"x_train": GREY, "x_test": GREY.astype(int) + 1},
            r"x_test must hold values 0\.\.255, got int64 from .* to 256",
        ),
        ({"x_train": GREY.astype(int) - 300, "x_test": GREY}, r"x_train must hold values 0\.\.255"),
        ({"x_train": GREY > 9, "x_test": GREY}, "x_train must hold values"),
        ({"x_train": GREY[0], "x_test": GREY}, r"x_train must be images \(n, height, width\)"),
        ({"x_train": GREY[:0], "x_test": GREY}, "x_train must be images"),
        ({"x_train": random_bytes(2, 5, 5, 4), "x_test": GREY}, "neither axis 1 nor axis 3 has length 1 or 3"),
        ({"x_train": random_bytes(2, 3, 5, 3), "x_test": GREY}, "axes 1 and 3 could both be the channels"),
    ],
)
def test_invalid_npz_raises(arrays: dict[str, np.ndarray], message: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", **arrays)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=rf"a\.npz.*{message}"):
        images_npz(tmp_path / "a.npz")


def test_mnist_in_an_npz(tmp_path: Path) -> None:
    images, labels = random_bytes(5, 28, 28), np.array([0, 9, 3, 3, 1])
    np.savez(tmp_path / "a.npz", x_train=images, x_test=images[:2], y_train=labels, y_test=labels[:2])
    train, test = mnist(tmp_path / "a.npz")
    assert np.array_equal(train.x[:, 0].numpy(), images)
    assert len(test) == 2
    np.savez(tmp_path / "b.npz", x_train=images, x_test=images, y_train=labels, y_test=labels + 1)
    with pytest.raises(ValueError, match=r"has the label 10 for image 1: labels must be 0\.\.9"):
        mnist(tmp_path / "b.npz")
    np.savez(tmp_path / "c.npz", x_train=images[:, :8], x_test=images[:, :8])
    with pytest.raises(ValueError, match=r"shape \(1, 8, 28\), but those of MNIST have \(1, 28, 28\)"):
        mnist(tmp_path / "c.npz")
    with pytest.raises(ValueError, match="is not a file"):
        mnist(tmp_path / "d.npz")
