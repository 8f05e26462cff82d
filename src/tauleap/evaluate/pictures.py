"""Pictures to be measured, from where they are: one at a time, as uint8 (3, height, width)."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset

from tauleap._files import safe_read
from tauleap._files.pictures import on_white, upright

_SUFFIXES = (".png", ".jpg", ".jpeg")
_SHEET = re.compile(r"samples(-from-\d{8})?\.png")
"""The picture of many pictures that ``tauleap sample`` puts beside them."""
_EIGHT_BITS = ("1", "L", "LA", "P", "PA", "RGB", "RGBA")
_CHANNELS = (1, 3)


class ArrayPictures(Dataset[Tensor]):
    """Read rows of an array (n, C, H, W) in memory or on disk; grey ones are repeated to three channels."""

    def __init__(self, arrays: list[Any]) -> None:
        self._arrays = arrays
        self._begins = np.cumsum([0, *map(len, arrays)])

    def __len__(self) -> int:
        return int(self._begins[-1])

    def __getitem__(self, place: int) -> Tensor:
        if not 0 <= place < len(self):
            raise IndexError(place)
        which = int(np.searchsorted(self._begins, place, side="right")) - 1
        # A copy: what is mapped from a file may not be written to, and torch has no such tensors.
        row = torch.as_tensor(np.array(self._arrays[which][place - int(self._begins[which])], dtype=np.uint8))
        return row.expand(3, *row.shape[1:]).contiguous()


class FilePictures(Dataset[Tensor]):
    """Read files of one picture each and of equal size; transparent ones are on white, as in training."""

    def __init__(self, files: list[Path]) -> None:
        self._files = files
        self._shape: tuple[int, ...] | None = None

    def __len__(self) -> int:
        return len(self._files)

    def __getitem__(self, place: int) -> Tensor:
        import PIL.Image

        file = self._files[place]
        try:
            with PIL.Image.open(file, formats=("PNG", "JPEG")) as image:
                if image.mode not in _EIGHT_BITS:
                    raise ValueError(f"{file} does not have 8 bits per channel ({image.mode})")
                seen = on_white(upright(image)).convert("RGB")
                pixels = torch.from_numpy(np.array(seen, dtype=np.uint8)).permute(2, 0, 1)
        except (OSError, SyntaxError) as error:
            raise ValueError(f"{file} is not a PNG or JPEG file, or is damaged: {error}") from error
        self._shape = self._shape or tuple(pixels.shape)
        if pixels.shape != self._shape:
            (_, height, width), (_, down, across) = pixels.shape, self._shape
            raise ValueError(
                f"pictures must have one size: {file} is {width} x {height}, and one before it {across} x {down}"
            )
        return pixels.contiguous()


def pictures(source: Any, *, name: str = "samples") -> Dataset[Tensor]:
    """Return the pictures of a folder, file or array, which are read one at a time.

    Args:
        source: a folder of PNG or JPEG files, such as ``tauleap sample`` writes, or of .npy files; a .npy file; an
            array or a tensor. Arrays are (n, C, H, W) or (n, H, W), with C 1 or 3, uint8, or in memory any whole
            numbers from 0 to 255.
        name: what it is called in errors.

    >>> grey = torch.arange(8).reshape(2, 2, 2)
    >>> len(pictures(grey)), pictures(grey)[1].tolist()
    (2, [[[4, 5], [6, 7]], [[4, 5], [6, 7]], [[4, 5], [6, 7]]])
    """
    if isinstance(source, Tensor | np.ndarray):
        return ArrayPictures([_in_memory(source, name)])
    if not isinstance(source, str | os.PathLike):
        raise TypeError(
            f"{name} must be a folder of pictures, a .npy file, or an array (n, C, H, W) of uint8, got "
            f"{type(source).__name__}"
        )
    path = Path(source)
    if path.is_dir():
        return _in_folder(path, name)
    if not path.is_file():
        raise FileNotFoundError(f"{name} must be an existing file or folder, got {path}")
    if path.suffix != ".npy":
        raise ValueError(f"{name} must be a folder of pictures or a .npy file, got the file {path}")
    return ArrayPictures([_on_disk(path)])


def _finished(request: Path) -> bool:
    """Return whether ``tauleap sample`` has listed the files, so that remaining parts do not belong to them."""
    try:
        return bool(safe_read.read_json(request, inside=request.parent)["files"])
    except (OSError, ValueError, TypeError, KeyError):
        return False


def _in_folder(folder: Path, name: str) -> Dataset[Tensor]:
    files = sorted(path for path in folder.iterdir() if path.is_file() and not path.name.startswith("."))
    ours = (folder / "request.json").is_file()
    if ours and (folder / ".parts").is_dir() and not _finished(folder / "request.json"):
        raise ValueError(f"{name}: the samples in {folder} are incomplete: run again the command that drew them")
    found = [path for path in files if path.suffix.lower() in _SUFFIXES and not (ours and _SHEET.fullmatch(path.name))]
    arrays = [path for path in files if path.suffix == ".npy"]
    if found and arrays:
        raise ValueError(f"{name}: {folder} holds both pictures and .npy files: write the name of one of the files")
    if found:
        return FilePictures(found)
    if not arrays:
        raise ValueError(f"{name}: {folder} holds no PNG, JPEG or .npy file")
    held = [_on_disk(path) for path in arrays]
    shapes = {array.shape[1:] for array in held}
    if len(shapes) > 1:
        raise ValueError(
            f"{name}: the arrays in {folder} hold pictures of different shapes, {sorted(shapes)}: write the name of "
            "one of the files"
        )
    return ArrayPictures(held)


def _on_disk(path: Path) -> np.ndarray:
    try:
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError) as error:
        raise ValueError(f"{path} is not an array that can be read: {error}") from error
    if array.dtype != np.uint8:
        raise TypeError(f"{path} must hold uint8 shades 0..255, got {array.dtype}")
    return _with_channels(array, str(path))


def _in_memory(source: Any, name: str) -> np.ndarray:
    array = source.detach().cpu().numpy() if isinstance(source, Tensor) else source
    if array.dtype.kind not in "iu":
        raise TypeError(f"{name} must hold shades 0..255 as uint8, got {array.dtype}: scale and round it first")
    if array.size and not (int(array.min()) >= 0 and int(array.max()) <= 255):
        raise ValueError(f"{name} must hold shades 0..255, got values from {array.min()} to {array.max()}")
    return _with_channels(array, name)


def _with_channels(array: np.ndarray, name: str) -> np.ndarray:
    shape = array.shape
    if array.ndim == 3:
        array = array[:, None]
    if array.ndim != 4 or array.shape[1] not in _CHANNELS or 0 in array.shape:
        last = array.ndim == 4 and shape[-1] in _CHANNELS
        hint = ": write x.transpose(0, 3, 1, 2)" if last else ""
        raise ValueError(f"{name} must be (n, C, H, W) with 1 or 3 channels, or (n, H, W), got shape {shape}{hint}")
    return array
