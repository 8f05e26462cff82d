"""The page on extending: its classes work, and the suites that it shows are run here on them."""

import math
import os
import re
import tempfile
from pathlib import Path
from typing import Any

import torch

import tauleap as tl

PAGE = Path(__file__).parent.parent / "docs" / "extending.md"


def page() -> dict[str, Any]:
    """Run the blocks of the page in order and return the names that they define; the saved model is discarded."""
    namespace: dict[str, Any] = {"__name__": __name__}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for block in re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.M | re.S):
                exec(block, namespace)
        finally:
            os.chdir(before)
    return namespace


MADE = page()
TestCycle = MADE["TestCycle"]
TestReversedCycle = MADE["TestReversedCycle"]
TestNeighbours = MADE["TestNeighbours"]
TestAveraged = MADE["TestAveraged"]
TestSurprise = MADE["TestSurprise"]
TestEuler = MADE["TestEuler"]


def test_every_suite_of_the_page_is_run_here() -> None:
    assert {name for name in MADE if name.startswith("Test")} == {name for name in globals() if name.startswith("Test")}


def test_the_objective_is_the_surprise() -> None:
    process = MADE["Cycle"](5, tl.noise.Constant(2.0))

    class Flat(tl.denoise.Denoiser):
        def forward(self, x_t, t, *, observed=None, condition=None):
            return tl.denoise.Posterior(torch.zeros(*x_t.shape, 5))

    loss = MADE["Surprise"]()(tl.ReverseProcess(process, Flat()), torch.tensor([[0, 1], [2, 4]]))
    torch.testing.assert_close(loss.value, torch.full((2,), 2 * math.log(5)))


def test_the_average_is_its_formula() -> None:
    averaged, x, label = TestAveraged().make(), torch.tensor([[0, 3]]), torch.tensor([1])
    one, other = (each(x, 0.5, condition=label).probs for each in averaged.denoisers)
    torch.testing.assert_close(averaged(x, 0.5, condition=label).probs, (one + other) / 2)
