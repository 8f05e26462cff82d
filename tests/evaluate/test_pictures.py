"""Pictures come out as uint8 (3, H, W), one at a time, whatever they were; what is none is refused in words."""

from pathlib import Path
from typing import Any

import numpy as np
import PIL.Image
import pytest
import torch

from tauleap.data import open_data
from tauleap.data.image.format import ImageFormat
from tauleap.evaluate.pictures import pictures


def drawn(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, shape).astype(np.uint8)


def stacked(source: Any) -> np.ndarray:
    found = pictures(source)
    rows = [found[place] for place in range(len(found))]  # pyright: ignore[reportArgumentType]
    assert all(row.dtype == torch.uint8 and row.is_contiguous() for row in rows)
    return torch.stack(rows).numpy()


def test_arrays_in_memory_and_on_disk(tmp_path: Path) -> None:
    colour = drawn(5, 3, 4, 6)
    np.save(tmp_path / "x.npy", colour)
    for source in (colour, torch.from_numpy(colour), torch.from_numpy(colour).long(), tmp_path / "x.npy", tmp_path):
        np.testing.assert_array_equal(stacked(source), colour)
    np.testing.assert_array_equal(stacked(str(tmp_path / "x.npy")), colour)


def test_grey_is_repeated() -> None:
    grey = drawn(5, 4, 6)
    expected = np.repeat(grey[:, None], 3, 1)
    np.testing.assert_array_equal(stacked(grey), expected)
    np.testing.assert_array_equal(stacked(grey[:, None]), expected)


def test_there_is_no_row_before_the_first_or_after_the_last() -> None:
    folder = pictures(drawn(9, 1, 2, 2))
    with pytest.raises(IndexError):
        folder[9]
    with pytest.raises(IndexError):
        folder[-1]


def test_a_folder_of_arrays_in_the_order_of_names(tmp_path: Path) -> None:
    whole = drawn(9, 3, 2, 2)
    for begin, end in ((0, 4), (4, 5), (5, 9)):
        np.save(tmp_path / f"samples-from-{begin:08d}.npy", whole[begin:end])
    np.testing.assert_array_equal(stacked(tmp_path), whole)


@pytest.mark.parametrize("channels", [1, 3])
def test_files_of_tauleap_sample(channels: int, tmp_path: Path) -> None:
    """Each picture once, and not the sheet of all of them."""
    x = torch.from_numpy(drawn(7, channels, 4, 6)).long()
    form = ImageFormat(channels, 4, 6)
    form.write(x[:5], tmp_path, stem="samples-from-00000000")
    form.write(x[5:], tmp_path, stem="samples-from-00000005", first=5)
    (tmp_path / "request.json").write_text("{}")
    np.testing.assert_array_equal(stacked(tmp_path), x.expand(7, 3, 4, 6).numpy())
    form.write(x, tmp_path / "one")
    (tmp_path / "one" / "request.json").write_text("{}")
    np.testing.assert_array_equal(stacked(tmp_path / "one"), x.expand(7, 3, 4, 6).numpy())


def test_transparency_is_on_white_as_in_training(tmp_path: Path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (3, 2, 4)).astype(np.uint8)
    pixels[0, 0, 3], pixels[1, 1, 3] = 0, 255
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    found = pictures(tmp_path)[0]
    assert torch.equal(found, open_data(tmp_path).dataset.x[0])
    assert found[:, 0, 0].tolist() == [255, 255, 255]
    assert found[:, 1, 1].tolist() == pixels[1, 1, :3].tolist()


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    PIL.Image.fromarray(drawn(3, 5, 3)).save(tmp_path / "a.jpg", exif=exif)
    found = pictures(tmp_path)[0]
    assert found.shape == (3, 5, 3)
    assert torch.equal(found, open_data(tmp_path).dataset.x[0])


def test_samples_that_are_not_all_there(tmp_path: Path) -> None:
    ImageFormat(1, 3, 2).write_rows(torch.zeros(2, 1, 3, 2, dtype=torch.long), tmp_path)
    (tmp_path / "request.json").write_text("{}")
    assert len(pictures(tmp_path)) == 2  # pyright: ignore[reportArgumentType]
    (tmp_path / ".parts").mkdir()
    with pytest.raises(ValueError, match="are incomplete: run again the command that drew them"):
        pictures(tmp_path)
    (tmp_path / "request.json").write_text('{"files": ["samples-000000.png", "samples-000001.png"]}')
    assert len(pictures(tmp_path)) == 2  # pyright: ignore[reportArgumentType]


def test_a_folder_of_somebody_else(tmp_path: Path) -> None:
    pixels = drawn(2, 4, 6, 3)
    PIL.Image.fromarray(pixels[0]).save(tmp_path / "samples.PNG")  # no request.json: a picture like any other
    PIL.Image.fromarray(pixels[1]).save(tmp_path / "z.png")
    (tmp_path / ".hidden.png").write_bytes(b"")
    (tmp_path / "notes.txt").write_text("")
    np.testing.assert_array_equal(stacked(tmp_path), pixels.transpose(0, 3, 1, 2))
    PIL.Image.fromarray(drawn(5, 5)).save(tmp_path / "zz.png")
    with pytest.raises(ValueError, match=r"zz\.png is 5 x 5, and one before it 6 x 4"):
        stacked(tmp_path)


@pytest.mark.parametrize(
    ("source", "error", "message"),
    [
        (drawn(5, 3, 4, 6) / 255, TypeError, "shades 0..255 as uint8, got float64"),
        (torch.zeros(5, 3, 4, 6, dtype=torch.bool), TypeError, "got bool"),
        (torch.full((5, 3, 4, 6), 256), ValueError, "from 256 to 256"),
        (torch.full((5, 3, 4, 6), -1), ValueError, "from -1 to -1"),
        (drawn(5, 4, 6, 3), ValueError, r"write x.transpose\(0, 3, 1, 2\)"),
        (drawn(5, 2, 4, 6), ValueError, r"1 or 3 channels, or \(n, H, W\), got shape \(5, 2, 4, 6\)"),
        (drawn(5, 4), ValueError, r"got shape \(5, 4\)"),
        (drawn(0, 3, 4, 4), ValueError, r"got shape \(0, 3, 4, 4\)"),
        (3, TypeError, "got int"),
        (Path("no/such"), FileNotFoundError, "existing file or folder, got no/such"),
    ],
)
def test_invalid_input_raises(source: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        pictures(source)


def test_invalid_files_raise(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"holds no PNG, JPEG or \.npy file"):
        pictures(tmp_path)
    (tmp_path / "x.txt").write_text("")
    with pytest.raises(ValueError, match=r"a folder of pictures or a \.npy file, got the file"):
        pictures(tmp_path / "x.txt")
    (tmp_path / "x.npy").write_bytes(b"no array")
    with pytest.raises(ValueError, match="not an array that can be read"):
        pictures(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(ValueError, match="not an array that can be read"):
        pictures(tmp_path / "x.npy")
    np.save(tmp_path / "x.npy", drawn(3, 4, 4) / 255)
    with pytest.raises(TypeError, match="must hold uint8"):
        pictures(tmp_path)
    np.save(tmp_path / "x.npy", drawn(3, 4, 4))
    np.save(tmp_path / "y.npy", drawn(3, 5, 4))
    with pytest.raises(ValueError, match="different shapes"):
        pictures(tmp_path)
    PIL.Image.fromarray(drawn(4, 4)).save(tmp_path / "x.png")
    with pytest.raises(ValueError, match=r"both pictures and \.npy files"):
        pictures(tmp_path)
    bad = tmp_path / "bad"
    bad.mkdir()
    (bad / "x.png").write_bytes(b"no picture")
    with pytest.raises(ValueError, match=r"x\.png is not a PNG or JPEG"):
        pictures(bad)[0]
    PIL.Image.fromarray(drawn(4, 4).astype(np.uint16) * 257).save(bad / "x.png")
    with pytest.raises(ValueError, match="not have 8 bits per channel"):
        pictures(bad)[0]
