"""Samples are equal on an accelerator and on the CPU if the generators return the same numbers."""

import pytest
import torch

import tauleap as tl
from tauleap import Observed, ReverseProcess, _device
from tauleap.denoise import ExactDenoiser, Guided, NetworkDenoiser, Tempered, TruncatedLogistic
from tauleap.reverse.at import structure_of
from tauleap.sampling import (
    Ancestral,
    Extrapolated,
    FirstHitting,
    FirstJump,
    NextReaction,
    TauLeaping,
    Trapezoidal,
    Uniformization,
    WithCorrector,
    run_corrector,
    uniform_grid,
)
from tauleap.testing import cases
from tests.devices.parts import SITES, Network, assert_same, data, model, on_both

ROWS = 64
"""From so many rows in a batch on, an accelerator too evaluates only those of sites that move."""
SAMPLERS = {
    "tau-leaping": TauLeaping(),
    "tau-leaping, last": TauLeaping("last"),
    "ancestral": Ancestral(),
    "ancestral, ahead": Ancestral(look_ahead=0.5),
    "trapezoidal": Trapezoidal(),
    "extrapolated": Extrapolated(),
    "first jump": FirstJump(),
    "first hitting": FirstHitting(),
    "next reaction": NextReaction(step=0.4),
    "uniformization": Uniformization(),
    "corrector": WithCorrector(TauLeaping(), 1),
    "corrector, last": WithCorrector(Ancestral(), 2, multiple_jumps="last"),
}
GRID = uniform_grid(2, end=0.3)


def fits(sampler, process) -> bool:
    try:
        sampler.check(process)
    except ValueError:
        return False
    return True


KINDS = ("absorbing", "rank one by site", "birth/death", "cycle")
EVERY_KIND = pytest.mark.parametrize(
    ("each_sim", "name"),
    [("float64", name) for name in cases.of_every_kind()] + [("no float64", "absorbing"), ("no float64", "cycle")],
    indirect=["each_sim"],
)
PAIRS = [
    pytest.param(name, sampler, id=f"{name}, {label}")
    for name, process in cases.of_every_kind().items()
    if name in KINDS
    for label, sampler in SAMPLERS.items()
    if fits(sampler, process)
]


def run(reverse, *, sampler, **named):
    samples = tl.sample(reverse, sampler, (ROWS, SITES), grid=GRID, **named)
    return samples.x0, samples.info.evaluations


def assert_alike(here, there, device, *, few_rows: bool = False) -> None:
    """Check bitwise equality with float64; without it a sample near a boundary may differ.

    With ``few_rows`` in a batch, or candidates that may stay, an accelerator evaluates all rows, and the CPU those of
    sites that move.
    """
    (ours, evaluations), (theirs, others) = here, there
    assert theirs.device == device
    same = (theirs.cpu() == ours).double().mean().item()
    if _device.has_float64(device):
        assert same == 1
        assert evaluations <= others if few_rows else evaluations == others
    else:
        assert same > 0.9
        assert others == pytest.approx(evaluations, rel=0.1)


def on_devices(pairs, few):
    """Return every pair for a device with float64, and ``few`` pairs without, where the CPU computes all."""
    chosen = [(device, pair) for device in ("float64", "no float64") for pair in pairs]
    return pytest.mark.parametrize(
        ("each_sim", "name", "sampler"),
        [
            pytest.param(device, *pair.values, id=f"{device}, {pair.id}")
            for device, pair in chosen
            if device == "float64" or few(pair)
        ],
        indirect=["each_sim"],
    )


@on_devices(PAIRS, lambda pair: pair.values[0] == "absorbing")
def test_samples(each_sim, name, sampler):
    process = cases.of_every_kind()[name]
    # The samples of these have times of their own, and fewer than all are left at the end.
    few_rows = process.mask is not None and isinstance(sampler, FirstJump | NextReaction)
    few_rows = few_rows or structure_of(process).draws_candidates
    assert_alike(*on_both(run, each_sim, model(process), sampler=sampler), each_sim, few_rows=few_rows)


@on_devices([pair for pair in PAIRS if pair.values[0] == "absorbing"], lambda pair: "ancestral" in pair.id)
def test_infilling_with_a_condition_from_a_given_start(each_sim, name, sampler):
    process = cases.of_every_kind()[name]
    values = data(process, ROWS)
    mask = torch.zeros_like(values, dtype=torch.bool)
    mask[::2, 0] = True
    both = on_both(
        run,
        each_sim,
        model(process),
        sampler=sampler,
        observed=Observed(mask, values),
        condition=torch.linspace(-1, 1, ROWS),
        start=process.noise(values, 1.0, generator=torch.Generator().manual_seed(2)),
        final="sample",
        trace=[0.6],
        batch_size=8,
    )
    assert_alike(*both, each_sim, few_rows=True)


@EVERY_KIND
def test_exact_posteriors(each_sim, name):
    process = cases.of_every_kind()[name]
    law = cases.random_law(process.data_states.expand(SITES, -1), 1)
    for dtype in (
        (torch.float32, torch.float64) if name == "cycle" and _device.has_float64(each_sim) else (torch.float32,)
    ):
        reverse = ReverseProcess(process, ExactDenoiser(law.to(dtype), process))
        both = on_both(run, each_sim, reverse, sampler=TauLeaping("last"))
        assert_alike(*both, each_sim, few_rows=structure_of(process).draws_candidates)


@pytest.mark.parametrize("name", ["uniform", "absorbing", "gaussian"])
def test_guidance_and_temperature(each_sim, name):
    process = cases.of_every_kind()[name]
    denoiser = NetworkDenoiser(Network(process.num_states))
    labels = torch.ones(ROWS, dtype=torch.int64)
    for wrapped in (Guided(denoiser, 2.0, null_label=0), Tempered(denoiser, 0.7)):
        both = on_both(run, each_sim, ReverseProcess(process, wrapped), sampler=TauLeaping("last"), condition=labels)
        assert_alike(*both, each_sim, few_rows=structure_of(process).draws_candidates)


def test_truncated_logistic(each_sim):
    process = cases.of_every_kind()["gaussian"]
    reverse = ReverseProcess(process, TruncatedLogistic(Network(4, outputs=2), 4))
    assert_alike(*on_both(run, each_sim, reverse, sampler=TauLeaping()), each_sim)


@pytest.mark.parametrize("name", ["uniform", "gaussian"])
def test_correctors_at_one_time(each_sim, name):
    process = cases.of_every_kind()[name]
    x = data(process, ROWS)

    def held(reverse, x, generator):
        return run_corrector(reverse, x, 0.4, steps=3, step=0.1, multiple_jumps="last", generator=generator)[0], 0.0

    assert_alike(*on_both(held, each_sim, model(process), x), each_sim)


@EVERY_KIND
def test_rates_and_laws(each_sim, name):
    """Rates, posteriors and transition kernels of the reverse process."""
    process = cases.of_every_kind()[name]
    x0, x = data(process), process.noise(data(process), 0.5, generator=torch.Generator().manual_seed(0))

    def numbers(reverse, x0, x):
        return [
            reverse.posterior(x, 0.5).probs,
            reverse.ratios(x, 0.5),
            reverse.rates(x, 0.5),
            reverse.corrector_rates(x, 0.5),
            reverse.exit_rate(x, 0.5),
            reverse.conditional_rates(x0, x, 0.5),
            reverse.divergence(x0, x, 0.5),
            reverse.step_probs(x, 0.5, 0.3),
            reverse.at(x, 0.5).step_divergence(x0, 0.3),
            reverse.process.rates_from(x, 0.5),
            reverse.process.rates_into(x, 0.5),
            reverse.process.kernel_from(x0, 0.5),
            reverse.process.kernel_into(x, 0.5),
            reverse.process.exit_rate(x, 0.5),
        ]

    assert_same(*on_both(numbers, each_sim, model(process), x0, x, seed=None), each_sim)
