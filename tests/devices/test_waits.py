"""The host waits for an accelerator at most twice per network evaluation, and once per training step."""

import pytest

from tauleap.testing import cases
from tests.devices.test_objectives import OBJECTIVES
from tests.devices.test_samplers import SAMPLERS, fits
from tests.devices.waits import waits_per_evaluation, waits_per_step

JUMP_BY_JUMP = ("first hitting", "uniformization")
"""They select sites and samples for every jump, whose number no grid fixes."""
RANK_ONE = ("uniform", "absorbing", "rank one")


@pytest.mark.parametrize("name", ["uniform", "absorbing", "rank one by site", "birth/death", "cycle"])
@pytest.mark.parametrize("label", [label for label in SAMPLERS if label not in JUMP_BY_JUMP])
def test_samplers(sim, name, label):
    process = cases.of_every_kind()[name]
    if fits(SAMPLERS[label], process):
        assert waits_per_evaluation(sim, process, SAMPLERS[label]) <= 2


@pytest.mark.parametrize("name", RANK_ONE)
@pytest.mark.parametrize("objective", OBJECTIVES.values(), ids=OBJECTIVES)
def test_training_steps(sim, name, objective):
    assert waits_per_step(sim, cases.of_every_kind()[name], objective) <= 1
