"""The toy data: points in the plane whose distribution is an image of the letter tau.

Two dimensions of ``size`` states each. **Dimension 0 is x (the column, rightwards), dimension 1 is y (the row,
upwards)**, so ``pmf[x, y]`` is the probability of the point (x, y), and points plotted with y upwards show an upright
letter. To show it with ``imshow``, which puts row 0 on top, write ``pmf.T.flip(0)``.

The distribution is a full table, small enough to compute every quantity of the diffusion by enumeration. Like real data
it has edges, empty regions of probability exactly 0, and dimensions that depend on each other.
"""

from __future__ import annotations

from functools import lru_cache

import torch
from jaxtyping import Float, Int64
from torch import Tensor

from tauleap import _check, _draw

_SUBPIXELS = 8  # along each side of a cell; 64 subpixels per cell give smooth grey levels
_MARGIN = 0.09  # empty margin around the glyph, as a fraction of the side
_STROKE = 0.05  # width of the outline that thickens the glyph's hairlines, as a fraction of the side


def tau_pmf(size: int = 32, dtype: torch.dtype = torch.float64) -> Float[Tensor, "x y"]:
    """Return the distribution of the points as a table that sums to 1, proportional to the ink in each cell.

    >>> pmf = tau_pmf()
    >>> pmf.shape, round(pmf.sum().item(), 12)
    (torch.Size([32, 32]), 1.0)

    Args:
        size: The number of states per dimension, >= 8. Default: 32.
        dtype: A floating-point dtype. Default: torch.float64.

    Returns:
        ``pmf[x, y]``, the probability of the point (x, y).

    Raises:
        TypeError: ``dtype`` is not a floating-point dtype.
        ValueError: ``size`` is less than 8.
    """
    size = _check.integer("size", size, least=8)
    if not dtype.is_floating_point:
        raise TypeError(f"dtype must be a floating-point dtype such as torch.float64, got {dtype}")
    return _tau_table(size).to(dtype, copy=True)


def tau_points(n: int, *, size: int = 32, generator: torch.Generator | None = None) -> Int64[Tensor, "n 2"]:
    """Sample independent points (x, y) from :func:`tau_pmf`.

    >>> tau_points(1000, generator=torch.Generator().manual_seed(0)).shape
    torch.Size([1000, 2])

    Args:
        n: The number of points, >= 0.
        size: The number of states per dimension, >= 8. Default: 32.
        generator: The random number generator. Default: that of PyTorch.

    Returns:
        The points, int64 (n, 2).
    """
    n = _check.integer("n", n, least=0)
    law = tau_pmf(size).reshape(1, -1)
    cell = _draw.from_cdf(_draw.cumulative(law), torch.zeros(n, dtype=torch.int64), generator)
    return torch.stack((cell // size, cell % size), dim=-1)


@lru_cache(maxsize=8)
def _tau_table(size: int) -> Tensor:
    # The import is here because the other data sources do not need matplotlib. The glyph comes from a font that
    # matplotlib ships, so the image does not depend on the fonts of the machine.
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.font_manager import FontProperties
    from matplotlib.patches import PathPatch
    from matplotlib.textpath import TextPath
    from matplotlib.transforms import Affine2D

    pixels = size * _SUBPIXELS
    glyph = TextPath((0, 0), r"$\tau$", size=100, prop=FontProperties(math_fontfamily="cm"))
    box = glyph.get_extents()
    scale = pixels * (1 - 2 * _MARGIN) / max(box.width, box.height)
    centre = Affine2D().translate(-(box.x0 + box.x1) / 2, -(box.y0 + box.y1) / 2)
    placed = glyph.transformed(centre + Affine2D().scale(scale).translate(pixels / 2, pixels / 2))

    # One inch of `pixels` dots, so that a point is 1/72 of the side and a path without transform is in pixels.
    figure = Figure(figsize=(1, 1), dpi=pixels, facecolor="white")
    canvas = FigureCanvasAgg(figure)
    figure.add_artist(PathPatch(placed, transform=None, color="black", linewidth=72 * _STROKE, joinstyle="round"))
    canvas.draw()
    red = torch.frombuffer(bytearray(canvas.buffer_rgba()), dtype=torch.uint8).reshape(pixels, pixels, 4)[..., 0]

    ink = (255 - red.to(torch.float64)).reshape(size, _SUBPIXELS, size, _SUBPIXELS).mean((1, 3))
    upright = ink.flip(0).T.contiguous()  # rows from the top -> [x, y] with y upwards
    return upright / upright.sum()
