"""Folders of images as bytes, and back."""

from pathlib import Path

import numpy as np
import PIL.Image
import pytest
import torch

from tauleap.data import format_from_config, open_data
from tauleap.data.image import format as images
from tauleap.data.image.format import ImageFormat


def picture(seed: int, width: int = 6, height: int = 5, mode: str = "RGB") -> PIL.Image.Image:
    shape = (height, width) if mode == "L" else (height, width, {"RGB": 3, "RGBA": 4}[mode])
    return PIL.Image.fromarray(np.random.default_rng(seed).integers(0, 256, shape).astype(np.uint8))


def test_images_are_written_and_read_unchanged(tmp_path: Path) -> None:
    for seed in range(3):
        picture(seed).save(tmp_path / f"{seed}.png")
    opened = open_data(tmp_path)
    assert opened.form == ImageFormat(3, 5, 6)
    assert (opened.form.num_states, opened.form.ordinal) == (256, True)
    for seed in range(3):
        assert np.array_equal(opened.dataset.x[seed].permute(1, 2, 0).numpy(), np.asarray(picture(seed)))
    form = format_from_config(opened.form.config())
    written = form.write(opened.dataset.x, tmp_path / "out", first=10)
    assert [path.name for path in written] == ["samples.png", *(f"samples-{n:06d}.png" for n in (10, 11, 12))]
    again = torch.stack([form.read(path).x[0] for path in written[1:]])
    assert torch.equal(again, opened.dataset.x)
    with PIL.Image.open(written[0]) as grid:
        assert grid.mode == "RGB"
        scale = grid.width // (2 * 7 + 1)
        assert grid.size == (15 * scale, 13 * scale)
        assert np.array_equal(np.asarray(grid)[scale, scale], opened.dataset.x[0, :, 0, 0].numpy())


def test_result_is_grey_if_all_images_are(tmp_path: Path) -> None:
    picture(0, mode="L").save(tmp_path / "a.png")
    picture(1, mode="L").convert("1").save(tmp_path / "b.png")
    opened = open_data(tmp_path)
    assert opened.form.shape == (1, 5, 6)
    assert np.array_equal(opened.dataset.x[0, 0].numpy(), np.asarray(picture(0, mode="L")))
    assert set(opened.dataset.x[1].unique().tolist()) <= {0, 255}
    picture(2).save(tmp_path / "c.png")
    opened = open_data(tmp_path)
    assert opened.form.shape == (3, 5, 6)
    assert bool((opened.dataset.x[0, 0] == opened.dataset.x[0, 2]).all())


def test_other_sizes_are_scaled_and_reported(tmp_path: Path) -> None:
    for seed in range(3):
        picture(seed).save(tmp_path / f"{seed}.png")
    picture(9, 60, 20).save(tmp_path / "wide.jpg")
    (tmp_path / "broken.png").write_bytes((tmp_path / "0.png").read_bytes()[:90])
    (tmp_path / "none.jpeg").write_text("nothing")
    PIL.Image.fromarray(np.zeros((5, 6), dtype=np.uint16)).save(tmp_path / "deep.png")
    opened = open_data(tmp_path)
    assert len(opened.dataset) == 4
    assert opened.form.shape == (3, 5, 6)
    report = "\n".join(opened.report)
    assert "4 images, 3 of them 6 x 5" in report
    assert "1 images of other sizes" in report
    assert "is not a PNG or JPEG: 1 (none.jpeg)" in report
    assert "is damaged" in report
    assert "does not have 8 bits per channel" in report
    assert "broken.png" in report


def test_large_images_are_reduced_unless_size_is_given(tmp_path: Path) -> None:
    for seed in range(2):
        picture(seed, 128, 96).save(tmp_path / f"{seed}.png")
    opened = open_data(tmp_path)
    assert opened.form.shape == (3, 48, 64)
    assert "scaled to 64 x 48; size=128 (--size 128) keeps the original size" in opened.report
    assert open_data(tmp_path, size=128).form.shape == (3, 96, 128)
    assert open_data(tmp_path, size=8).form.shape == (3, 6, 8)


def test_transparent_pixels_are_missing_in_completion_and_white_in_training(tmp_path: Path) -> None:
    pixels = np.asarray(picture(0, mode="RGBA")).copy()
    pixels[..., 3] = 255
    pixels[1, 2, 3] = 0
    PIL.Image.fromarray(pixels).save(tmp_path / "a.png")
    read = ImageFormat(3, 5, 6).read(tmp_path / "a.png")
    assert read.missing is not None
    assert read.missing.nonzero().tolist() == [[0, c, 1, 2] for c in range(3)]
    opened = open_data(tmp_path)
    assert opened.dataset.missing is None
    assert opened.dataset.x[0, :, 1, 2].tolist() == [255] * 3
    assert np.array_equal(opened.dataset.x[0, :, 0, 0].numpy(), pixels[0, 0, :3])


def test_too_many_pixels_raise_before_decoding(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    PIL.Image.new("L", (3000, 2000)).save(tmp_path / "bomb.png")
    assert (tmp_path / "bomb.png").stat().st_size < 20_000
    monkeypatch.setattr(images, "_MAX_PIXELS", 10_000)
    monkeypatch.setattr(PIL.Image.Image, "convert", lambda *_: pytest.fail("it was decoded"))
    with pytest.raises(ValueError, match="has 3000 x 2000 pixels, more than 10,000"):
        open_data(tmp_path)
    with pytest.raises(ValueError, match=r"bomb\.png"):
        ImageFormat(1, 8, 8).read(tmp_path / "bomb.png")


def test_exif_rotation_is_applied(tmp_path: Path) -> None:
    exif = PIL.Image.Exif()
    exif[0x0112] = 6
    picture(0, 40, 30).save(tmp_path / "a.jpg", exif=exif)
    assert open_data(tmp_path).form.shape == (3, 40, 30)


def test_preview() -> None:
    x = torch.tensor([0, 255, 255, 0]).reshape(1, 1, 2, 2)
    assert ImageFormat(1, 2, 2).preview(x, 1) == "@@  \n  @@"
