"""What a picture file looks like, the same for whoever reads one."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from PIL.Image import Image


def upright(image: Image) -> Image:
    """In the mode RGBA, turned as the camera was."""
    import PIL.ImageOps

    return PIL.ImageOps.exif_transpose(image).convert("RGBA")


def on_white(image: Image) -> Image:
    """What is seen of an RGBA picture on white paper, in the mode RGBA."""
    import PIL.Image

    ground = PIL.Image.new("RGBA", image.size, "white")
    ground.alpha_composite(image)
    return ground
