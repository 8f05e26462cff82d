"""Monophonic music (Section 6.3, Appendices C.4 and H.3): melodies of 16 bars, of which two may be given.

The pieces of the experiment are functions: noise, objectives and networks. :func:`music` puts them together, so that
the published sizes and those for a CPU are one recipe.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from tauleap.data import Dataset
from tauleap.data.music.format import STEPS, MusicFormat
from tauleap.data.music.melody import NUM_STATES, REST
from tauleap.data.music.songs import in_all_keys, split_by_song
from tauleap.data.music.tunes import open_tunes
from tauleap.denoise import NetworkDenoiser
from tauleap.model import Model
from tauleap.network import MusicTransformer, Network, SequenceTransformer
from tauleap.noise import Absorbing, BirthDeath, Constant, Exponential, ForwardProcess, LogLinear, Uniform
from tauleap.objective import CompleteElbo, CrossEntropy, DiscreteTimeElbo, Objective, PaperElbo
from tauleap.observed import Observed
from tauleap.recipes.settings import paper_settings
from tauleap.sampling import Sampler, TauLeaping, WithCorrector
from tauleap.training import Batch, RandomMasks, Recipe, Settings

GIVEN = 32
"""Steps of the two bars that are given (Section 6.3)."""

DIRECT = 0.001
"""Weight of direct supervision (Appendix D)."""


def uniform_noise() -> Uniform:
    """beta = 0.03, constant in time."""
    return Uniform(NUM_STATES, Constant(0.03))


def birth_death_noise() -> BirthDeath:
    """lambda = 1, beta(t) = 1/2 10000^t log 10000; for states whose order has been scrambled."""
    return BirthDeath(NUM_STATES, Exponential(0.5, 10_000.0))


def absorbing_noise() -> Absorbing:
    """Not the paper's: notes are masked. Its bound falls far sooner than that of uniform noise."""
    return Absorbing(NUM_STATES + 1, LogLinear())


def one_pass() -> Objective:
    """L_eCT + 0.001 L_ll, what the paper trains with (Appendix C.4)."""
    return PaperElbo(passes=1) + DIRECT * CrossEntropy()


def two_passes() -> Objective:
    """L_CT + 0.001 L_ll (Proposition 2), the other side of the ablation."""
    return PaperElbo(passes=2) + DIRECT * CrossEntropy()


def discrete_time(steps: int = 1000) -> Objective:
    """D3PM's hybrid loss. With :func:`uniform_noise` its kernel at step k is that of t = k / steps: matched noising."""
    return DiscreteTimeElbo(steps) + DIRECT * CrossEntropy()


def published_network(num_states: int = NUM_STATES) -> MusicTransformer:
    """7,008,769 weights (Appendix H.3)."""
    return MusicTransformer(num_states)


def small_network(num_states: int = NUM_STATES) -> MusicTransformer:
    """1,189,505 weights, for CPUs; it is told which sites are given, so that they may be any."""
    return MusicTransformer(
        num_states,
        heads=4,
        hidden=512,
        depth=4,
        output_depth=1,
        time_hidden=256,
        time_width=128,
        dropout=0.0,
        mark_observed=True,
    )


def quick_network(num_states: int = NUM_STATES + 1) -> SequenceTransformer:
    """732,258 weights and rotary positions, in which a bar is as far from the next one everywhere."""
    return SequenceTransformer(num_states, width=96, depth=4, heads=4)


def published_settings() -> Settings:
    """Adam with 2e-4, batches of 64, a million steps."""
    return paper_settings(batch_size=64, steps=1_000_000, samples=4)


def small_settings() -> Settings:
    """What a CPU does in an hour: fewer and smaller batches, larger steps."""
    return Settings(
        batch_size=16,
        lr=2e-3,
        warmup=200,
        ema=0.998,
        clip=1.0,
        steps=5000,
        checkpoint_every=100,
        log_every=50,
        validate_every=500,
        validation_rows=128,
        sample_every=1000,
        samples=4,
    )


def published_sampler(correctors: int = 0) -> Sampler:
    """Tau-leaping in which sites with two or more jumps stay, for every jump is from a category to another.

    With ``correctors``, 2 in the paper, for t < 0.9; tau is 0.001, ``uniform_grid(990)`` down to 0.01, and that of the
    correctors 0.0001, a tenth (Section 6.3, Appendix H.3).
    """
    leaps = TauLeaping("reject")
    if correctors == 0:
        return leaps
    return WithCorrector(leaps, steps=correctors, scale=0.1, start=0.9, multiple_jumps="reject")


def music(
    data: Callable[[], tuple[Dataset, Dataset | None]] | None = None,
    *,
    process: ForwardProcess | None = None,
    objective: Objective | None = None,
    network: Callable[[int], Network] = quick_network,
    settings: Settings | None = None,
    prefix: bool = False,
    form: MusicFormat | None = None,
    name: str = "music",
) -> Recipe:
    """Melodies, absorbing noise, the complete bound and the quick network where nothing else is said.

    Args:
        data: gives the melodies to train and to validate with, (n, 256) of 129 states in the order of ``form``; the
            tunes of music21 in twelve keys if absent.
        process: :func:`uniform_noise`, :func:`birth_death_noise` or any other.
        objective: ``CompleteElbo()``, :func:`one_pass`, :func:`two_passes`, :func:`discrete_time`, ...
        network: builds it for a number of states.
        settings: the numbers; :func:`published_settings` are the paper's.
        prefix: the first two bars are always given, and nothing else, as in the paper. Otherwise they are given in two
            of five cases, and in the others what ``RandomMasks`` draws, from nothing to holes: one model for all uses.
        form: what the states mean, where they have been scrambled.
        name: for messages.
    """
    noise, meaning = process or absorbing_noise(), form or MusicFormat(STEPS)

    def model() -> Model:
        return Model(noise, NetworkDenoiser(network(noise.num_states)), shape=meaning.shape, form=meaning)

    return Recipe(
        name=name,
        data=data or _in_the_order_of(meaning, _tunes),
        model=model,
        objective=objective or CompleteElbo(),
        settings=settings or small_settings(),
        prepare=give_two_bars if prefix else None,
        masking=None if prefix else RandomMasks(p_unconditional=0.3, spans=0.6, prefix=GIVEN, prefixes=0.4),
        picture=lambda x: piano_rolls(meaning.pitches(x)),
    )


def music_paper(data: Callable[[], tuple[Dataset, Dataset | None]] | None = None) -> Recipe:
    """As published: uniform noise, L_eCT + 0.001 L_ll, 7,008,769 weights, a million steps, the first two bars given.

    ``data`` gives pitches, those of :func:`music` if absent; their order is scrambled here. :func:`published_sampler`
    makes the samples of Section 6.3.
    """
    form = MusicFormat.scrambled()
    return music(
        _in_the_order_of(form, data or _tunes),
        process=uniform_noise(),
        objective=one_pass(),
        network=published_network,
        settings=published_settings(),
        prefix=True,
        form=form,
        name="music-paper",
    )


def _in_the_order_of(
    form: MusicFormat, data: Callable[[], tuple[Dataset, Dataset | None]]
) -> Callable[[], tuple[Dataset, Dataset | None]]:
    """The same melodies as states."""

    def read() -> tuple[Dataset, Dataset | None]:
        learnt, held_out = data()
        learnt = replace(learnt, x=form.states(learnt.in_memory()))
        return learnt, None if held_out is None else replace(held_out, x=form.states(held_out.in_memory()))

    return read


def _tunes() -> tuple[Dataset, Dataset]:
    """Split by song; the rows to train with in all keys."""
    x = open_tunes().dataset.in_memory()
    learnt, held_out = split_by_song(x, max(1, len(x) // 10))
    return in_all_keys(Dataset(x[learnt], NUM_STATES)), Dataset(x[held_out], NUM_STATES)


def give_two_bars(batch: Batch, generator: torch.Generator) -> Batch:
    """The first 32 steps are part of the input, without noise and without loss (Appendix C.2)."""
    mask = torch.arange(batch.x0.shape[1], device=batch.x0.device) < GIVEN
    return Batch(batch.x0, Observed(mask, batch.x0), batch.missing, batch.condition)


def piano_rolls(x: Tensor) -> np.ndarray:
    """Melodies (n, steps) of pitches below each other: time to the right, pitch upwards, a line between two."""
    rows, steps = x.shape
    picture = torch.full((rows, NUM_STATES, steps), 255, dtype=torch.uint8)
    row, step = (x != REST).nonzero(as_tuple=True)
    picture[row, REST - x[row, step], step] = 0
    picture[:, 0] = 160
    return picture.reshape(-1, steps).repeat_interleave(2, 0).repeat_interleave(4, 1).numpy()
