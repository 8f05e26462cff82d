"""Normalise pictures that were read from files: orientation and background."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def upright(image: Image) -> Image:
    """Return the picture in the mode RGBA, rotated by its EXIF orientation.

    Args:
        image: a picture in any mode.
    """
    import PIL.ImageOps

    return PIL.ImageOps.exif_transpose(image).convert("RGBA")


def on_white(image: Image) -> Image:
    """Return an RGBA picture composed onto a white background, in the mode RGBA.

    Args:
        image: a picture in the mode RGBA.
    """
    import PIL.Image

    ground = PIL.Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image)
    return ground
