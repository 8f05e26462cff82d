"""Monophonic music (Section 6.3, Appendices C.4 and H.3): melodies of 16 bars, of which two may be observed.

Noise, objectives and networks are functions, which :func:`music` combines: the published run and one for a CPU share
the same code.
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
"""Sixteenth notes in the two observed bars (Section 6.3)."""

DIRECT = 0.001
"""Weight of direct supervision (Appendix D)."""


def uniform_noise() -> Uniform:
    """Return the paper's uniform noise, with constant beta = 0.03."""
    return Uniform(NUM_STATES, Constant(0.03))


def birth_death_noise() -> BirthDeath:
    """Return the paper's birth-death noise: lambda = 1, beta(t) = 1/2 10000^t log 10000, for scrambled states."""
    return BirthDeath(NUM_STATES, Exponential(0.5, 10_000.0))


def absorbing_noise() -> Absorbing:
    """Return absorbing noise, which is not in the paper; its bound falls faster in training than with uniform noise."""
    return Absorbing(NUM_STATES + 1, LogLinear())


def one_pass() -> Objective:
    """Return the paper's objective, L_eCT + 0.001 L_ll (Appendix C.4)."""
    return PaperElbo(passes=1) + DIRECT * CrossEntropy()


def two_passes() -> Objective:
    """Return L_CT + 0.001 L_ll (Proposition 2), the alternative of the paper's ablation."""
    return PaperElbo(passes=2) + DIRECT * CrossEntropy()


def discrete_time(steps: int = 1000) -> Objective:
    """Return D3PM's hybrid loss; with :func:`uniform_noise` its kernel at step k is that of t = k / steps.

    Args:
        steps: The number of times. Default: 1000.
    """
    return DiscreteTimeElbo(steps) + DIRECT * CrossEntropy()


def published_network(num_states: int = NUM_STATES) -> MusicTransformer:
    """Return the paper's transformer with 7,008,769 weights (Appendix H.3).

    Args:
        num_states: The number of states. Default: 129.
    """
    return MusicTransformer(num_states)


def small_network(num_states: int = NUM_STATES) -> MusicTransformer:
    """Return a transformer with 1,189,505 weights, for CPUs; the mask of observed sites is part of its input.

    Args:
        num_states: The number of states. Default: 129.
    """
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
    """Return a transformer with 732,258 weights and rotary (relative) positions.

    Args:
        num_states: The number of states. Default: 130, which includes a mask.
    """
    return SequenceTransformer(num_states, width=96, depth=4, heads=4)


def published_settings() -> Settings:
    """Return the paper's settings: Adam with 2e-4, batches of 64, a million steps."""
    return paper_settings(batch_size=64, steps=1_000_000, samples=4)


def small_settings() -> Settings:
    """Return settings for an hour on a CPU: fewer and smaller batches, a larger learning rate."""
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
    """Return the paper's sampler: tau-leaping that rejects several jumps of one site in a step.

    The step is 0.001, ``uniform_grid(990)`` down to 0.01; that of the correctors, for t < 0.9, is a tenth of it
    (Section 6.3, Appendix H.3).

    Args:
        correctors: Corrector steps per step, >= 0; 2 in the paper. Default: 0.
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
    """Return a recipe for melodies: absorbing noise, the complete bound and a small transformer by default.

    >>> music().settings.batch_size
    16

    Args:
        data: Returns the training melodies, (n, 256) of 129 states in the order of ``form``, and the held-out ones or
            None. Default: None, the tunes of music21 in twelve keys.
        process: The forward process, such as :func:`uniform_noise`. Default: None, :func:`absorbing_noise`.
        objective: The loss, such as :func:`one_pass`. Default: None, ``CompleteElbo()``.
        network: Returns the network for a number of states. Default: :func:`quick_network`.
        settings: The settings. Default: None, :func:`small_settings`; :func:`published_settings` are the paper's.
        prefix: Whether exactly the first two bars are always observed, as in the paper. Default: false, they are
            observed in two of five cases, and otherwise ``RandomMasks`` draws the observed sites.
        form: The meaning of the states, if they are scrambled. Default: None, pitches in order.
        name: A name for messages. Default: "music".

    Returns:
        The recipe; the data is read when training starts.
    """
    noise, meaning = process or absorbing_noise(), form or MusicFormat(STEPS)

    def model() -> Model:
        return Model(noise, NetworkDenoiser(network(noise.num_states)), shape=meaning.shape, form=meaning)

    return Recipe(
        name=name,
        data=data or _as_states(meaning, _tunes),
        model=model,
        objective=objective or CompleteElbo(),
        settings=settings or small_settings(),
        prepare=give_two_bars if prefix else None,
        masking=None if prefix else RandomMasks(p_unconditional=0.3, spans=0.6, prefix=GIVEN, prefixes=0.4),
        picture=lambda x: piano_rolls(meaning.pitches(x)),
    )


def music_paper(data: Callable[[], tuple[Dataset, Dataset | None]] | None = None) -> Recipe:
    """Return the paper's recipe for music: uniform noise, L_eCT + 0.001 L_ll, 7,008,769 weights, a million steps.

    The first two bars are observed. :func:`published_sampler` is the sampler of Section 6.3.

    >>> music_paper().settings.steps
    1000000

    Args:
        data: Returns training and held-out melodies as pitches; their order is scrambled here. Default: None, the
            tunes of :func:`music`.

    Returns:
        The recipe; the data is read when training starts.
    """
    form = MusicFormat.scrambled()
    return music(
        _as_states(form, data or _tunes),
        process=uniform_noise(),
        objective=one_pass(),
        network=published_network,
        settings=published_settings(),
        prefix=True,
        form=form,
        name="music-paper",
    )


def _as_states(
    form: MusicFormat, data: Callable[[], tuple[Dataset, Dataset | None]]
) -> Callable[[], tuple[Dataset, Dataset | None]]:
    """Return a function that returns the same melodies as states."""

    def read() -> tuple[Dataset, Dataset | None]:
        train, held_out = data()
        train = replace(train, x=form.states(train.in_memory()))
        return train, None if held_out is None else replace(held_out, x=form.states(held_out.in_memory()))

    return read


def _tunes() -> tuple[Dataset, Dataset]:
    """Return the tunes, split by song, with the training rows in all keys."""
    x = open_tunes().dataset.in_memory()
    train, held_out = split_by_song(x, max(1, len(x) // 10))
    return in_all_keys(Dataset(x[train], NUM_STATES)), Dataset(x[held_out], NUM_STATES)


def give_two_bars(batch: Batch, generator: torch.Generator) -> Batch:
    """Mark the first 32 sixteenth notes as observed, without noise and loss (Appendix C.2).

    Args:
        batch: Melodies.
        generator: Not used.
    """
    mask = torch.arange(batch.x0.shape[1], device=batch.x0.device) < GIVEN
    return Batch(batch.x0, Observed(mask, batch.x0), batch.missing, batch.condition)


def piano_rolls(x: Tensor) -> np.ndarray:
    """Return melodies as piano rolls below each other: time to the right, pitch upwards.

    Args:
        x: Pitches (n, steps).
    """
    rows, steps = x.shape
    picture = torch.full((rows, NUM_STATES, steps), 255, dtype=torch.uint8)
    row, step = (x != REST).nonzero(as_tuple=True)
    picture[row, REST - x[row, step], step] = 0
    picture[:, 0] = 160
    return picture.reshape(-1, steps).repeat_interleave(2, 0).repeat_interleave(4, 1).numpy()
