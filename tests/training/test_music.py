"""The recipe of music: the paper's settings, and that its pieces train."""

import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tauleap.data import Dataset
from tauleap.data.music.format import MusicFormat
from tauleap.data.music.melody import NUM_STATES, REST
from tauleap.network import MusicTransformer
from tauleap.noise import ForwardProcess
from tauleap.objective import CompleteElbo, Objective
from tauleap.recipes import music as make
from tauleap.recipes import music_paper
from tauleap.recipes.music import (
    absorbing_noise,
    birth_death_noise,
    discrete_time,
    give_two_bars,
    one_pass,
    piano_rolls,
    published_network,
    published_sampler,
    published_settings,
    quick_network,
    small_network,
    two_passes,
    uniform_noise,
)
from tauleap.sampling import TauLeaping, WithCorrector
from tauleap.training import Batch, Run, train


def test_the_papers_settings() -> None:
    uniform, birth_death = uniform_noise(), birth_death_noise()
    assert float(uniform.schedule.rate(0.3)) == pytest.approx(0.03)
    generator = uniform.generator()
    assert float(generator[0, 1]) == pytest.approx(1.0)
    assert float(generator[0, 0]) == pytest.approx(-128.0)
    assert float(birth_death.schedule.rate(0.5)) == pytest.approx(0.5 * 100 * torch.tensor(10_000.0).log().item())
    assert sum(p.numel() for p in published_network().parameters()) == 7_008_769
    assert sum(p.numel() for p in small_network().parameters()) == 1_189_505
    assert sum(p.numel() for p in quick_network().parameters()) == 732_258
    settings = published_settings()
    assert (settings.batch_size, settings.lr, settings.warmup, settings.ema, settings.clip, settings.steps) == (
        *(64, 2e-4, 5000),
        *(0.9999, 1.0, 1_000_000),
    )
    assert repr(one_pass()) == "PaperElbo(passes=1) + 0.001 * CrossEntropy()"
    assert repr(two_passes()) == "PaperElbo(passes=2) + 0.001 * CrossEntropy()"
    assert repr(discrete_time()) == "DiscreteTimeElbo(1000) + 0.001 * CrossEntropy()"


def test_the_papers_sampler() -> None:
    """Two correctors for t < 0.9 with tau_c = 0.0001 where tau = 0.001; two jumps of a site are rejected."""
    alone, corrected = published_sampler(), published_sampler(correctors=2)
    assert isinstance(alone, TauLeaping)
    assert isinstance(corrected, WithCorrector)
    assert isinstance(corrected.sampler, TauLeaping)
    assert alone.multiple_jumps == corrected.sampler.multiple_jumps == corrected.multiple_jumps == "reject"
    assert (corrected.steps, corrected.start) == (2, 0.9)
    assert corrected.scale * 0.001 == pytest.approx(0.0001)


def test_the_papers_recipe() -> None:
    data = melodies(3), melodies(1)
    recipe = music_paper(lambda: data)
    assert repr(recipe.objective) == repr(one_pass())
    assert recipe.settings == published_settings()
    assert recipe.masking is None
    assert recipe.prepare is give_two_bars
    model = recipe.model()
    assert sum(p.numel() for p in model.reverse.parameters()) == 7_008_769
    assert float(model.process.schedule.rate(0.3)) == pytest.approx(0.03)
    assert isinstance(model.form, MusicFormat)
    assert model.form.order is not None
    for states, pitches in zip(recipe.data(), data, strict=True):
        assert states is not None
        assert not torch.equal(states.x, pitches.x)
        assert torch.equal(model.form.pitches(states.x), pitches.x)


def test_the_tunes_are_in_the_order_of_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model with a scrambled form is trained with scrambled states, so that its samples are the tunes' pitches."""
    tunes = melodies(2), melodies(1)
    monkeypatch.setattr(sys.modules[uniform_noise.__module__], "_tunes", lambda: tunes)
    form = MusicFormat.scrambled(seed=1)
    for order in (form, None):
        for states, pitches in zip(make(form=order).data(), tunes, strict=True):
            assert states is not None
            assert torch.equal(states.x, pitches.x if order is None else form.states(pitches.x))
            assert torch.equal((order or MusicFormat()).pitches(states.x), pitches.x)


def melodies(rows: int) -> Dataset:
    return Dataset(torch.randint(129, (rows, 256), generator=torch.Generator().manual_seed(0)), NUM_STATES)


@pytest.mark.parametrize(
    ("process", "objective", "prefix"),
    [
        (uniform_noise(), one_pass(), True),
        (uniform_noise(), two_passes(), True),
        (uniform_noise(), discrete_time(250), True),
        (birth_death_noise(), one_pass(), True),
        (absorbing_noise(), CompleteElbo(), False),
    ],
)
def test_every_model_trains(process: ForwardProcess, objective: Objective, prefix: bool, tmp_path: Path) -> None:
    def tiny(num_states: int) -> MusicTransformer:
        make_network = type(small_network())
        return make_network(
            num_states, width=8, heads=2, hidden=8, depth=1, output_depth=1, time_hidden=8, time_width=8
        )

    recipe = make(lambda: (melodies(4), melodies(2)), process=process, objective=objective, network=tiny, prefix=prefix)
    recipe = replace(recipe, settings=replace(recipe.settings, batch_size=2, steps=2, samples=1, sample_every=None))
    recipe = replace(recipe, picture=None)
    assert train(recipe, Run(tmp_path, tensorboard=False)).stopped == "finished"


def test_two_bars_are_given() -> None:
    x0 = melodies(3).x
    observed = give_two_bars(Batch(x0), torch.Generator()).observed
    assert observed is not None
    assert observed.mask.sum(1).tolist() == [32, 32, 32]
    assert bool(observed.mask[:, :32].all())


def test_some_rows_have_two_bars_given_and_others_anything() -> None:
    masking = make(lambda: (melodies(2), None)).masking
    assert masking is not None
    mask = masking.draw(melodies(1000).x, generator=torch.Generator().manual_seed(0))
    begin = torch.arange(256) < 32
    exactly = (mask == begin).all(1).double().mean().item()
    nothing = (~mask).all(1).double().mean().item()
    # 0.4 and 0.6 * 0.3, five standard errors of 1,000 rows; spans can be those two bars by chance.
    assert exactly == pytest.approx(0.4, abs=0.08)
    assert nothing == pytest.approx(0.18, abs=0.06)


def test_the_picture() -> None:
    picture = piano_rolls(torch.tensor([[60, REST], [127, 0]]))
    assert picture.shape == (2 * 129 * 2, 2 * 4)
    assert (picture == 0).sum() == 3 * 2 * 4
    assert picture[2 * (REST - 60), 0] == 0
    form = MusicFormat.scrambled(seed=0)
    draw = make(lambda: (melodies(2), None), form=form).picture
    assert draw is not None
    x = melodies(2).x
    assert np.array_equal(draw(form.states(x)), piano_rolls(x))


def test_what_is_given_in_training() -> None:
    """With a prefix the two bars are given and nothing else; otherwise random masks say what is."""
    with_prefix, free = (make(lambda: (melodies(2), None), prefix=prefix) for prefix in (True, False))
    assert with_prefix.masking is None
    assert with_prefix.prepare is give_two_bars
    assert free.masking is not None
    assert free.prepare is None
