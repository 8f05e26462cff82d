"""Pictures exist, can be read, show what they should, and leave nothing behind."""

from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch
from PIL import Image

from tauleap.data import tau_pmf, tau_points
from tauleap.evaluate import plots


def test_laws_as_png(tmp_path: Path) -> None:
    laws = torch.stack((tau_pmf(), tau_pmf().float().double()))
    path = plots.save_png(plots.draw_laws(laws, ["one", "two"]), tmp_path / "laws.png")
    assert list(tmp_path.iterdir()) == [path]
    with Image.open(path) as image:
        image.load()
        assert image.format == "PNG"
        assert image.width > image.height


def test_distributions_are_drawn_with_y_upwards() -> None:
    law = torch.zeros(1, 4, 4)
    law[0, 3, 1] = 1.0
    (image,) = plots.draw_laws(law, [""]).axes[0].get_images()
    assert image.origin == "lower"
    row, column = np.unravel_index(np.asarray(image.get_array()).argmax(), (4, 4))
    assert (column, row) == (3, 1)


def test_points_as_gif(tmp_path: Path) -> None:
    points = tau_points(100, generator=torch.Generator().manual_seed(0))
    figures = (plots.draw_points(points, 32, f"frame {i}") for i in range(5))
    path = plots.save_gif(figures, tmp_path / "points.gif", seconds_per_frame=0.05, seconds_at_ends=0.5)
    assert list(tmp_path.iterdir()) == [path]
    with Image.open(path) as image:
        assert image.format == "GIF"
        assert image.n_frames == 5
        durations = []
        for frame in range(5):
            image.seek(frame)
            durations.append(image.info["duration"])
    assert durations == [500, 50, 50, 50, 500]


def test_points_stay_in_their_cells() -> None:
    points = torch.tensor([[0, 0], [31, 31], [5, 9]]).repeat(50, 1)
    (drawn,) = plots.draw_points(points, 32).axes[0].collections
    assert np.array_equal(np.rint(np.asarray(drawn.get_offsets())), points.numpy())


def test_a_failed_drawing_leaves_the_old_file(tmp_path: Path) -> None:
    path = tmp_path / "film.gif"
    path.write_bytes(b"old")

    def figures():
        yield plots.draw_points(tau_points(3), 32)
        raise RuntimeError("stopped")

    with pytest.raises(RuntimeError, match="stopped"):
        plots.save_gif(figures(), path)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_global_settings_are_left_alone() -> None:
    before = {name: matplotlib.rcParams[name] for name in plots.STYLE}
    plots.draw_points(tau_points(3), 32)
    assert {name: matplotlib.rcParams[name] for name in plots.STYLE} == before


def test_invalid_input_raises() -> None:
    with pytest.raises(ValueError, match="got 2 distributions and 1 titles"):
        plots.draw_laws(torch.rand(2, 4, 4), ["one"])
    with pytest.raises(ValueError, match="at least one figure"):
        plots.save_gif([], "never.gif")
    with pytest.raises(ValueError, match="seconds_per_frame must be"):
        plots.save_gif([], "never.gif", seconds_per_frame=-1.0)
