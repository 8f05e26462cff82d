"""Grids end exactly where they should, and what is no grid is refused."""

import pytest
import torch

from tauleap.noise import Cosine, Exponential, LogLinear
from tauleap.sampling import geometric_grid, noise_grid, uniform_grid
from tauleap.sampling.grid import check_grid


@pytest.mark.parametrize("steps", [1, 2, 7, 1000])
@pytest.mark.parametrize(("start", "end"), [(1.0, 0.01), (0.3, 0.1), (1.0, 1e-5)])
def test_grids_decrease_between_their_ends(steps: int, start: float, end: float) -> None:
    schedule = Exponential(5.0, 5.0)
    for grid in (
        uniform_grid(steps, start, end),
        geometric_grid(steps, start, end),
        noise_grid(schedule, steps, start, end),
    ):
        assert grid.shape == (steps + 1,)
        assert grid.dtype == torch.float64
        assert grid[0].item() == start
        assert grid[-1].item() == end
        assert check_grid(grid) == grid.tolist()


def test_each_grid_is_uniform_in_its_variable() -> None:
    schedule = LogLinear()
    steps = uniform_grid(20).diff()
    torch.testing.assert_close(steps, steps[:1].expand(20), rtol=1e-12, atol=0.0)
    ratios = geometric_grid(20)[1:] / geometric_grid(20)[:-1]
    torch.testing.assert_close(ratios, ratios[:1].expand(20), rtol=1e-12, atol=0.0)
    noise = schedule.total(noise_grid(schedule, 20)).diff()
    torch.testing.assert_close(noise, noise[:1].expand(20), rtol=1e-9, atol=0.0)


def test_times_0_can_be_reached_where_there_is_a_way() -> None:
    assert uniform_grid(4, end=0.0)[-1] == 0
    assert noise_grid(Cosine(), 4, end=0.0)[-1] == 0
    with pytest.raises(ValueError, match=r"never reaches 0: write end=0\.01"):
        geometric_grid(4, end=0.0)


@pytest.mark.parametrize("times", [[1.0, 0.5, 0.1], (1.0, 0.2), torch.tensor([0.9, 0.3])])
def test_any_decreasing_times_are_a_grid(times: object) -> None:
    assert check_grid(times) == pytest.approx([float(t) for t in times])  # pyright: ignore[reportGeneralTypeIssues]


@pytest.mark.parametrize(
    ("grid", "error", "message"),
    [
        (100, TypeError, r"write grid=uniform_grid\(100\)"),
        ("uniform", TypeError, r"such as uniform_grid\(100\)"),
        (None, TypeError, r"such as uniform_grid\(100\)"),
        ([1.0], ValueError, "at least two times"),
        ([], ValueError, "at least two times"),
        ([0.1, 0.5, 1.0], ValueError, r"must decrease, but time 1, 0.5, does not lie below 0.1: write grid.flip\(0\)"),
        ([1.0, 0.5, 0.5, 0.1], ValueError, "must decrease, but time 2, 0.5, does not lie below 0.5"),
        ([1.0, float("nan")], ValueError, r"must lie in \[0, 1\], got nan"),
        ([1.5, 0.5], ValueError, r"must lie in \[0, 1\], got 1.5"),
        ([1.0, "0.5"], TypeError, "must hold numbers"),
        (torch.rand(2, 2), ValueError, "must have one axis"),
    ],
)
def test_invalid_grids_raise(grid: object, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        check_grid(grid)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize(
    ("steps", "arguments", "error", "message"),
    [
        (0, {}, ValueError, "steps must be a whole number >= 1, got 0"),
        (2.5, {}, TypeError, "steps must be a whole number >= 1"),
        (4, {"start": 0.1, "end": 0.5}, ValueError, "leads from start to an earlier end"),
        (4, {"start": "a"}, TypeError, "must be times, numbers .*, got 'a' and 0.01"),
        (4, {"end": None}, TypeError, "must be times, numbers .*, got 1.0 and None"),
        (4, {"start": 1.1}, ValueError, "leads from start to an earlier end"),
    ],
)
def test_invalid_steps_and_ends_raise(steps: int, arguments: dict, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        uniform_grid(steps, **arguments)
    with pytest.raises(error, match=message):
        geometric_grid(steps, **arguments)
    with pytest.raises(error, match=message):
        noise_grid(Cosine(), steps, **arguments)


@pytest.mark.usefixtures("unchecked")
def test_a_noise_grid_needs_the_schedule() -> None:
    with pytest.raises(TypeError, match=r"process\.schedule"):
        noise_grid(10, 4)  # pyright: ignore[reportArgumentType]
