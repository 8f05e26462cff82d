"""The format of pictures with 8 bits per channel: states are shades 0..255, (channels, height, width)."""

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
from tauleap.data.image.npz import pictures_in
from tauleap.data.skipped import Skipped

if TYPE_CHECKING:
    from PIL.Image import Image

SUFFIXES = registration("images").row_suffixes
_SIDE = 64
"""Pictures are made this small unless a size is asked for: a model of larger ones takes more than minutes."""
_PIXELS = 2**25
_FILE_BYTES = 2**28
_GRID = 64
_COLOURS = "red, green and blue"
_GREY = ("1", "L", "LA", "La")
_COLOUR = ("P", "PA", "RGB", "RGBA", "RGBa", "RGBX", "CMYK", "YCbCr", "LAB", "HSV")


@dataclass(frozen=True)
class ImageFormat(RowFiles):
    """PNG and JPEG files, or many pictures in one file.

    Args:
        channels: 1 for grey, 3 for red, green and blue.
        height: Pixels.
        width: Pixels.
    """

    kind: ClassVar[str] = "images"
    preview_rows: ClassVar[int] = 1
    completion_remedy: ClassVar[str] = "make pixels transparent in a PNG, or say what is known with --observed"
    channels: int
    height: int
    width: int

    def __post_init__(self) -> None:
        for name in ("channels", "height", "width"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= 2**15:
                raise ValueError(f"{name} of a picture must be a whole number >= 1, got {value!r}")
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
        """Return all pictures of a folder, in their most frequent size; or those of a collection in one file.

        Other sizes are scaled until they cover it and cut around the middle. The result is grey where all are grey.

        Args:
            path: The folder, or a file for which :meth:`recognises` is true.
            size: Pixels on the longer side. Default: that of the pictures, 64 at most.
        """
        if is_collection(path):
            return _open_collection(path)
        files, skipped = files_in(path, SUFFIXES), Skipped()
        sizes: Counter[tuple[int, int]] = Counter()
        good, colour, clear = [], False, 0
        for file in files:
            try:
                with _opened(file) as image:
                    turned = image.getexif().get(0x0112) in (5, 6, 7, 8)
                    across, down = image.size
                    sizes[(down, across) if turned else (across, down)] += 1
                    colour |= image.mode not in _GREY
                    clear += image.mode in ("LA", "La", "RGBA", "RGBa", "PA") or "transparency" in image.info
            except ValueError as error:
                skipped.add(str(error).removeprefix(f"{file}: "), file.name)
                continue
            good.append(file)
        if not good:
            raise ValueError(f"{path} has no picture that can be used: {'; '.join(skipped.lines())}")
        (width, height), common = sizes.most_common(1)[0]
        report = [f"{path.name}: {len(good)} pictures, {common} of them {width} x {height}"]
        side = max(width, height)
        wanted = min(side, _SIDE) if size is None else _check.integer("size", size, least=1)
        if wanted != side:
            width, height = (max(1, round(n * wanted / side)) for n in (width, height))
            report.append(
                f"scaled to {width} x {height}"
                + (f"; size={side} (--size {side}) keeps theirs" if size is None else "")
            )
        if len(sizes) > 1:
            report.append(f"{len(good) - common} pictures of other sizes are scaled to cover it and cut at the middle")
        form = ImageFormat(3 if colour else 1, height, width)
        report.append(_COLOURS if colour else "grey")
        if clear:
            report.append(f"{clear} pictures with transparency are put on white")
        _fits(len(good), form, path)
        x, used = torch.empty(len(good), *form.shape, dtype=torch.uint8), 0
        for file in good:
            try:
                with _opened(file) as image:
                    x[used], _ = _fitted(image, form)
            except ValueError as error:
                skipped.add(str(error).removeprefix(f"{file}: "), file.name)
                continue
            used += 1
        if used == 0:
            raise ValueError(f"{path} has no picture that can be used: {'; '.join(skipped.lines())}")
        report += [f"left out: {line}" for line in skipped.lines()]
        return LoadedData(Dataset(x[:used], 256), form, report)

    @staticmethod
    def recognises(path: Path) -> bool:
        return is_collection(path)

    def completion_example(self, data: Dataset, path: str) -> tuple[str, str]:
        return "FILE", "fills in what is transparent"

    def read(self, path: Path) -> Dataset:
        """Return pictures, scaled to this size; pixels that are wholly transparent are missing.

        Or many in one file, idx, CIFAR-10 or an array (.npz, .npy), which must have the size of these.

        Args:
            path: A picture, a folder of them, or many in one file.
        """
        return self.read_with_report(path)[0]

    def read_with_report(self, path: Path) -> tuple[Dataset, list[str]]:
        """Return the same, and which array of an .npz was read: ``x_test``, or else ``x``.

        Args:
            path: The file or folder.
        """
        if path.is_file() and path.suffix.lower() in (".npz", ".npy"):
            x, report = pictures_in(path, self.shape)
            return Dataset(x, 256), report
        if is_collection(path):
            pictures = read_collection(path).pictures
            shape = tuple(pictures.shape[1:])
            if shape != self.shape:
                raise ValueError(f"{path} has pictures of shape {shape}, what is wanted is {self.shape}")
            return Dataset(pictures, 256), []
        files = [path] if path.is_file() else files_in(path, SUFFIXES)
        _fits(len(files), self, path)
        x = torch.empty(len(files), *self.shape, dtype=torch.uint8)
        missing = torch.zeros(len(files), *self.shape, dtype=torch.bool)
        for place, file in enumerate(files):
            with _opened(file) as image:
                pixels, clear = _fitted(image, self)
            x[place], missing[place] = pixels, clear
            x[place][missing[place]] = 0
        return Dataset(x, 256, missing=missing if bool(missing.any()) else None), []

    def write_rows(
        self, x: Tensor, folder: Path, *, stem: str = "samples", first: int = 0, anew: bool = True
    ) -> list[Path]:
        """Write one PNG file per picture, and return the files."""
        folder.mkdir(parents=True, exist_ok=True)
        pixels = self.check(x).to(torch.uint8)
        files = [folder / f"{stem}-{number:06d}.png" for number in range(first, first + len(pixels))]
        for row, file in zip(pixels, files, strict=True):
            if anew or not file.exists():
                _save(row, file)
        return files

    def write_sheet(self, x: Tensor, folder: Path, *, stem: str = "samples") -> list[Path]:
        """Write a grid of the first 64 pictures, and return the file."""
        folder.mkdir(parents=True, exist_ok=True)
        pixels = self.check(x[:_GRID]).to(torch.uint8)
        return [_save(_grid(pixels), folder / f"{stem}.png")] if len(pixels) else []

    def preview(self, x: Tensor, n: int, *, seed: int = 0) -> str:
        """Return pictures as characters, dark for dark, two characters per pixel."""
        shades = " .:-=+*#%@"[::-1]
        grey = self.check(x[:n]).double().mean(1)
        rows = ["\n".join("".join(2 * shades[int(v) * 10 // 256] for v in line[:55]) for line in row) for row in grey]
        return "\n\n".join(rows)


def _open_collection(path: Path) -> LoadedData:
    """Return the pictures of an idx file, or those to train with of MNIST or CIFAR-10."""
    many = read_collection(path)
    rows, channels, height, width = many.pictures.shape
    try:
        form = ImageFormat(channels, height, width)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    report = [f"{path.name}: {rows} pictures, {width} x {height}", "grey" if channels == 1 else _COLOURS]
    report += [] if many.left_out is None else [f"left out: {many.left_out}"]
    return LoadedData(Dataset(many.pictures, 256), form, report)


@contextmanager
def _opened(file: Path) -> Iterator[Image]:
    """An image of which the header is read and checked; errors of the library become ours, also while it is decoded."""
    import PIL.Image

    limits.size(file, _FILE_BYTES)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what the library warns of is checked here
            with PIL.Image.open(file, formats=("PNG", "JPEG")) as image:
                if math.prod(image.size) > _PIXELS:
                    raise ValueError(f"has {image.size[0]} x {image.size[1]} pixels, more than {_PIXELS:,}")
                if image.mode not in _GREY + _COLOUR:
                    raise ValueError(f"is not 8 bits a channel ({image.mode})")
                yield image
    except PIL.UnidentifiedImageError:
        raise ValueError(f"{file}: is no PNG or JPEG") from None
    except PIL.Image.DecompressionBombError as error:
        raise ValueError(f"{file}: has too many pixels") from error
    except (OSError, SyntaxError, ValueError, TypeError, KeyError, IndexError, OverflowError, MemoryError) as error:
        message = str(error).removeprefix(f"{file}: ")
        raise ValueError(
            f"{file}: {message if isinstance(error, ValueError) else f'is damaged ({message})'}"
        ) from error
    except (EOFError, RuntimeError, AttributeError, ArithmeticError, AssertionError) as error:
        # Pillow's decoders give these for some damaged files.
        raise ValueError(f"{file}: is damaged ({error})") from error


def _fitted(image: Image, form: ImageFormat) -> tuple[Tensor, Tensor]:
    """Bytes of the form's shape on white, and which sites are wholly transparent."""
    import PIL.Image
    import PIL.ImageOps

    whole = upright(image)
    if whole.size != (form.width, form.height):
        whole = PIL.ImageOps.fit(whole, (form.width, form.height), method=PIL.Image.Resampling.LANCZOS)
    pixels = np.asarray(on_white(whole).convert("L" if form.channels == 1 else "RGB"), dtype=np.uint8)
    channels = torch.from_numpy(pixels.reshape(form.height, form.width, form.channels).copy()).permute(2, 0, 1)
    clear = torch.from_numpy(np.asarray(whole)[..., 3] == 0)
    return channels, clear.expand(form.shape)


def _fits(rows: int, form: ImageFormat, path: Path) -> None:
    if rows * math.prod(form.shape) > limits.VALUES:
        raise ValueError(f"{path}: {rows} pictures of {form.width} x {form.height} are too many: write a smaller size")


def _grid(pixels: Tensor) -> Tensor:
    """Side by side in a square, with a white line between; small ones enlarged."""
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
