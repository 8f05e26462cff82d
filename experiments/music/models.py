"""The models of the experiment, which share network and settings, and their differences."""

from __future__ import annotations

from dataclasses import dataclass, replace

from songs import FORM, Songs

from tauleap.network import MusicTransformer
from tauleap.noise import ForwardProcess
from tauleap.objective import CompleteElbo, Objective
from tauleap.recipes.music import (
    birth_death_noise,
    discrete_time,
    music,
    one_pass,
    small_settings,
    two_passes,
    uniform_noise,
)
from tauleap.training import Recipe

D3PM_STEPS = 250
"""The evaluations of the table, since a model in discrete time is trained for its number of steps."""


@dataclass(frozen=True)
class Entry:
    """A model of the table."""

    label: str
    process: ForwardProcess
    objective: Objective


TABLE = {
    "uniform-ect": Entry("uniform, L_eCT", uniform_noise(), one_pass()),
    "uniform-complete": Entry("uniform, complete bound", uniform_noise(), CompleteElbo()),
    "birth-death-ect": Entry("birth/death, L_eCT", birth_death_noise(), one_pass()),
    "d3pm": Entry(f"D3PM uniform, {D3PM_STEPS} steps", uniform_noise(), discrete_time(D3PM_STEPS)),
    "uniform-ct": Entry("uniform, L_CT", uniform_noise(), two_passes()),
}
SHIPPED = "shipped"
NAMES = (SHIPPED, *TABLE)


def table_network(num_states: int) -> MusicTransformer:
    """Return the paper's network in a size that a CPU trains in minutes."""
    return MusicTransformer(
        num_states,
        width=64,
        heads=4,
        hidden=256,
        depth=3,
        output_depth=1,
        time_hidden=256,
        time_width=128,
        dropout=0.0,
        mark_observed=True,
    )


def recipe(name: str, songs: Songs) -> Recipe:
    """Return the recipe of a model, with the default number of steps and seed."""
    settings = replace(small_settings(), checkpoint_every=50, validate_every=250, validation_rows=64, sample_every=None)
    if name == SHIPPED:
        return music(songs.transposed, settings=settings, name="music, to be shipped")
    entry = TABLE[name]
    return music(
        songs.scrambled,
        process=entry.process,
        objective=entry.objective,
        network=table_network,
        settings=settings,
        prefix=True,
        form=FORM,
        name=f"music, {entry.label}",
    )
