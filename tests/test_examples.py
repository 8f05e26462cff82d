"""The examples run, are short, and their answers are right."""

import runpy
from pathlib import Path
from typing import Any

import pytest
import torch

from tauleap.testing.laws import assert_drawn_from

EXAMPLES = Path(__file__).parent.parent / "examples"


def example(name: str) -> dict[str, Any]:
    """Return the names that the file defines; running the file calls its main()."""
    return runpy.run_path(str(EXAMPLES / name))


def test_there_are_six_and_they_are_short() -> None:
    found = sorted(EXAMPLES.glob("[0-9]*.py"))
    assert [path.name[:2] for path in found] == ["01", "02", "03", "04", "05", "06"]
    for path in found:
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) < 100
        assert f"python examples/{path.name}" in text


def test_two_states_by_hand() -> None:
    hand, library, heads = example("01_two_states.py")["main"]()
    assert hand == pytest.approx(library, rel=1e-12)
    assert abs(heads - 0.9) < 5 * (0.09 / 20_000) ** 0.5 + 0.001  # five standard errors, and what noise at t = 1 leaves


def test_your_own_generator() -> None:
    clock, distance = example("02_your_own_generator.py")["main"](2000)
    assert torch.equal(clock.generator()[0].nonzero().flatten(), torch.tensor([0, 1, 11]))
    assert distance < 0.06  # 2,000 exact draws of six meetings have 0.02


def test_infilling() -> None:
    number = 4000
    counts, exact = example("03_infilling.py")["main"](number)
    assert_drawn_from((counts * number).round().reshape(1, -1), exact.reshape(1, -1))


def test_your_own_denoiser() -> None:
    bits, entropy, right = example("04_your_own_denoiser.py")["main"]()
    assert entropy < bits < entropy + 0.15
    assert right > 0.8


def test_comparing_samplers() -> None:
    found = example("05_comparing_samplers.py")["main"]((4, 16))
    (floor,) = found.pop("exact samples")
    for few, more in found.values():
        assert few > more > 0.7 * floor


def test_steering() -> None:
    found = example("06_steering.py")["main"]()
    assert found[-0.5] + 2 < found[0.0] < found[0.5] - 2
