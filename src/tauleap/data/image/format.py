"""The format of images with 8 bits per channel: rows (channels, height, width) of states 0..255."""

from __future__ import annotations

import math
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np
import torch
from torch import Tensor

from tauleap import _check, _files
from tauleap._files.pictures import on_white, upright
from tauleap._formats import registration
from tauleap.data import limits
from tauleap.data.dataset import Dataset
from tauleap.data.folder import files_in
from tauleap.data.format import LoadedData, RowFiles
from tauleap.data.image.collection import is_collection, read_collection
from tauleap.data.image.npz import read_images
from tauleap.data.skipped import Skipped

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = registration("images").row_suffixes
_SIDE = 64
"""The default limit of the longer side, since training on larger images takes hours instead of minutes."""
_MAX_PIXELS = 2**25
_MAX_FILE_BYTES = 2**28
_SHEET_ROWS = 64
_COLOURS = "red, green and blue"
_USABLE = "give PNG or JPEG files with 8 bits per channel"
_GREY = ("1", "L", "LA", "La")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True)
class ImageFormat(RowFiles):
    """Read and write images as PNG or JPEG files, or as one file of many images.

    Args:
        channels: 1 for grey, 3 for red, green and blue.
        height: The height in pixels, >= 1.
        width: The width in pixels, >= 1.
    """

    kind: ClassVar[str] = "images"
    preview_rows: ClassVar[int] = 1
    completion_remedy: ClassVar[str] = "make pixels of a PNG transparent, or name the observed values with --observed"
    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        for name in ("channels", "height", "width"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**15:
                raise ValueError(f"{name} of an image must be a whole number from 1 to {2**15}, got {value!r}")
        if self.channels not in (1, 3):
            raise ValueError(f"channels must be 1 (grey) or 3 (colour), got {self.channels}")

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.channels, self.height, self.width)

    @property
    def num_states(self) -> int:
        return 256

    @property
    def ordinal(self) -> bool:
        return True

    @staticmethod
    def open(path: Path, *, size: int | None = None) -> LoadedData:
        """Return all images of a folder in their most frequent size, or the images of a known dataset.

        Images of other sizes are scaled to cover this size and cropped at the centre. The result is grey if all images
        are grey.

        Args:
            path: The folder, or a file for which :meth:`recognises` is true.
            size: Pixels on the longer side, >= 1. Default: as in the files, at most 64.

        Raises:
            ValueError: No image can be read, or they are too many for the memory.
        """
        if is_collection(path):
            return _open_collection(path)
        files, skipped = files_in(path, SUFFIXES), Skipped()
        sizes: Counter[tuple[int, int]] = Counter()
        readable, colour, transparent = [], False, 0
        for file in files:
            try:
                with _open_image(file) as image:
                    is_rotated = image.getexif().get(0x0112) in (5, 6, 7, 8)
                    width, height = image.size
                    sizes[(height, width) if is_rotated else (width, height)] += 1
                    colour |= image.mode not in _GREY
                    transparent += image.mode in ("LA", "La", "RGBA", "RGBa", "PA") or "transparency" in image.info
            except ValueError as error:
                skipped.add(str(error).removeprefix(f"{file}: "), file.name)
                continue
            readable.append(file)
        if not readable:
            raise ValueError(f"{path} has no usable image ({'; '.join(skipped.lines())}): {_USABLE}")
        (width, height), common = sizes.most_common(1)[0]
        report = [f"{path.name}: {len(readable)} images, {common} of them {width} x {height}"]
        side = max(width, height)
        new_side = min(side, _SIDE) if size is None else _check.integer("size", size, least=1)
        if new_side != side:
            width, height = (max(1, round(n * new_side / side)) for n in (width, height))
            report.append(
                f"scaled to {width} x {height}"
                + (f"; size={side} (--size {side}) keeps the original size" if size is None else "")
            )
        if len(sizes) > 1:
            report.append(
                f"{len(readable) - common} images of other sizes are scaled to cover it and cropped at the centre"
            )
        form = ImageFormat(3 if colour else 1, height, width)
        report.append(_COLOURS if colour else "grey")
        if transparent:
            report.append(f"{transparent} images with transparency are put on white")
        _check_memory(len(readable), form, path)
        x, used = torch.empty(len(readable), *form.shape, dtype=torch.uint8), 0
        for file in readable:
            try:
                with _open_image(file) as image:
                    x[used], _ = _fit_image(image, form)
            except ValueError as error:
                skipped.add(str(error).removeprefix(f"{file}: "), file.name)
                continue
            used += 1
        if used == 0:
            raise ValueError(f"{path} has no usable image ({'; '.join(skipped.lines())}): {_USABLE}")
        report += [f"left out: {line}" for line in skipped.lines()]
        return LoadedData(Dataset(x[:used], 256), form, report)

    @staticmethod
    def recognises(path: Path) -> bool:
        return is_collection(path)

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", "fills in transparent pixels"

    def read(self, path: Path) -> Dataset:
        """Return images scaled to this size; fully transparent pixels are missing.

        A file of many images (idx, CIFAR-10, .npz or .npy) must have exactly this size.

        Args:
            path: An image, a folder of images, or a file of many images.

        Raises:
            ValueError: A file is damaged, or its images have another size.
        """
        return self.read_with_report(path)[0]

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        """Return the same rows as :meth:`read`, and the name of the array of an .npz: ``x_test``, or else ``x``.

        Args:
            path: The file or folder.
        """
        if path.is_file() and path.suffix.lower() in (".npz", ".npy"):
            x, report = read_images(path, self.shape)
            return Dataset(x, 256), report
        if is_collection(path):
            images = read_collection(path).images
            shape = tuple(images.shape[1:])
            if shape != self.shape:
                raise ValueError(
                    f"{path} has images of shape {shape}, but the model takes {self.shape}: give images of that shape"
                )
            return Dataset(images, 256), []
        files = [path] if path.is_file() else files_in(path, SUFFIXES)
        _check_memory(len(files), self, path)
        x = torch.empty(len(files), *self.shape, dtype=torch.uint8)
        missing = torch.zeros(len(files), *self.shape, dtype=torch.bool)
        for place, file in enumerate(files):
            with _open_image(file) as image:
                x[place], missing[place] = _fit_image(image, self)
            x[place][missing[place]] = 0
        return Dataset(x, 256, missing=missing if bool(missing.any()) else None), []

    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, overwrite: bool = True
    ) -> list[Path]:
        """Write one PNG file per image, and return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        pixels = self.check(x).to(torch.uint8)
        files = [folder / f"{stem}-{number:06d}.png" for number in range(first, first + len(pixels))]
        for row, file in zip(pixels, files, strict=True):
            if overwrite or not file.exists():
                _save(row, file)
        return files

    def write_sheet(self, x: Tensor, folder: Path, *, stem: str = "samples") -> list[Path]:
        """Write a grid of the first 64 images, and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        pixels = self.check(x[:_SHEET_ROWS]).to(torch.uint8)
        return [_save(_grid(pixels), folder / f"{stem}.png")] if len(pixels) else []

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        """Return images as text, two characters per pixel, with denser characters for darker pixels."""
        levels = " .:-=+*#%@"[::-1]
        grey = self.check(x[:n]).double().mean(1)
        rows = ["\n".join("".join(2 * levels[int(v) * 10 // 256] for v in line[:55]) for line in row) for row in grey]
        return "\n\n".join(rows)


def _open_collection(path: Path) -> LoadedData:
    """Return the images of an idx file, or the training images of MNIST or CIFAR-10."""
    collection = read_collection(path)
    rows, channels, height, width = collection.images.shape
    try:
        form = ImageFormat(channels, height, width)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    report = [f"{path.name}: {rows} images, {width} x {height}", "grey" if channels == 1 else _COLOURS]
    report += [] if collection.left_out is None else [f"left out: {collection.left_out}"]
    return LoadedData(Dataset(collection.images, 256), form, report)


@contextmanager
def _open_image(file: Path) -> Iterator[Image]:
    """Yield an image after a check of its header; errors of Pillow, also while it decodes, become ValueError."""
    import PIL.Image

    limits.size(file, _MAX_FILE_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns of large images, which are checked here.
            with PIL.Image.open(file, formats=("PNG", "JPEG")) as image:
                if math.prod(image.size) > _MAX_PIXELS:
                    raise ValueError(f"has {image.size[0]} x {image.size[1]} pixels, more than {_MAX_PIXELS:,}")
                if image.mode not in _GREY + _COLOUR:
                    raise ValueError(f"does not have 8 bits per channel (mode {image.mode})")
                yield image
    except PIL.UnidentifiedImageError:
        raise ValueError(f"{file}: is not a PNG or JPEG") from None
    except PIL.Image.DecompressionBombError as error:
        raise ValueError(f"{file}: has too many pixels") from error
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as error:
        message = str(error).removeprefix(f"{file}: ")
        raise ValueError(
            f"{file}: {message if isinstance(error, ValueError) else f'is damaged ({message})'}"
        ) from error
    except (EOFError, RuntimeError, AttributeError, ArithmeticError, AssertionError) as error:
        # Pillow's decoders raise these for some damaged files.
        raise ValueError(f"{file}: is damaged ({error})") from error


def _fit_image(image: Image, form: ImageFormat) -> tuple[Tensor, Tensor]:
    """Return the pixels of an image on white in the shape of a format, and a mask of fully transparent ones."""
    import PIL.Image
    import PIL.ImageOps

    scaled = upright(image)
    if scaled.size != (form.width, form.height):
        scaled = PIL.ImageOps.fit(scaled, (form.width, form.height), method=PIL.Image.Resampling.LANCZOS)
    pixels = np.asarray(on_white(scaled).convert("L" if form.channels == 1 else "RGB"), dtype=np.uint8)
    channels = torch.from_numpy(pixels.reshape(form.height, form.width, form.channels).copy()).permute(2, 0, 1)
    transparent = torch.from_numpy(np.asarray(scaled)[..., 3] == 0)
    return channels, transparent.expand(form.shape)


def _check_memory(rows: int, form: ImageFormat, path: Path) -> None:
    if rows * math.prod(form.shape) > limits.VALUES:
        raise ValueError(
            f"{path}: {rows} images of {form.width} x {form.height} do not fit into memory: write a smaller size"
        )


def _grid(pixels: Tensor) -> Tensor:
    """Return images side by side in a square with white lines between them; small ones are enlarged."""
    count, channels, height, width = pixels.shape
    columns = math.ceil(count**0.5)
    rows = math.ceil(count / columns)
    sheet = torch.full((channels, rows * (height + 1) + 1, columns * (width + 1) + 1), 255, dtype=torch.uint8)
    for place, row in enumerate(pixels):
        top, left = place // columns * (height + 1) + 1, place % columns * (width + 1) + 1
        sheet[:, top : top + height, left : left + width] = row
    scale = max(1, 512 // max(sheet.shape[1:]))
    return sheet.repeat_interleave(scale, 1).repeat_interleave(scale, 2)


def _save(pixels: Tensor, path: Path) -> Path:
    import PIL.Image

    array = pixels[0].numpy() if len(pixels) == 1 else pixels.permute(1, 2, 0).contiguous().numpy()
    with _files.atomic_write(path) as file:
        PIL.Image.fromarray(array).save(file, format="PNG")
    return path
